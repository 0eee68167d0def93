package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
)

// emit writes text to rel as a redirect of a command would.
func (tr *tree) emit(rel, text string, appending bool) error {
	f, err := tr.OpenOutput(tr.t.Context(), rel, appending)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}

func TestOutputEmptiesOrExtendsAFile(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	for _, tc := range []struct {
		name, rel, text string
		appending       bool
		want            string
	}{
		{"a new file", "f", "one", false, "one"},
		{"appending", "f", " two", true, "one two"},
		{"emptying", "f", "3", false, "3"},
		{"appending to nothing", "g", "first", true, "first"},
	} {
		if err := tr.emit(tc.rel, tc.text, tc.appending); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if got := tr.get(tc.rel); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestOutputNeverLeavesTheRoot(t *testing.T) {
	tr := newTree(t, policy.Permissive().Layer("ops").DenyWrite("locked/*"))
	secret := filepath.Join(tr.outside, "rc")
	putFile(t, secret, "kept")
	tr.link(secret, "leaf")
	tr.link(tr.outside, "dir")
	tr.link(filepath.Join(tr.outside, "new"), "dangling")
	tr.put("locked/f", "kept")
	tr.link("locked/f", "alias")
	if err := os.Mkdir(tr.path("folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, rel := range []string{"leaf", "dir/rc", "dir/new", "dangling", "../outside/rc", secret, "locked/f", "alias", "folder", "", ".git", "sub/.git", "missing/f", "a\x00b"} {
		for _, appending := range []bool{false, true} {
			if err := tr.emit(rel, "lost", appending); err == nil {
				t.Errorf("%q was opened (appending %v)", rel, appending)
			}
		}
	}
	if got := getFile(t, secret); got != "kept" {
		t.Errorf("the file outside holds %q", got)
	}
	if got := tr.get("locked/f"); got != "kept" {
		t.Errorf("the denied file holds %q", got)
	}
	if _, err := os.Lstat(filepath.Join(tr.outside, "new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made outside: %v", err)
	}
}

func TestOutputIsNotWrittenUnderAnotherName(t *testing.T) {
	for _, appending := range []bool{false, true} {
		tr := newTree(t, policy.Permissive())
		secret := filepath.Join(tr.outside, "rc")
		putFile(t, secret, "kept")
		if err := os.Chmod(secret, 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(secret, tr.path("notes.txt")); err != nil {
			t.Skipf("no hard links here: %v", err)
		}
		if err := tr.emit("notes.txt", "new", appending); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{false: "new", true: "keptnew"}[appending]
		if got := tr.get("notes.txt"); got != want {
			t.Errorf("appending %v: the file holds %q, want %q", appending, got, want)
		}
		if got := getFile(t, secret); got != "kept" {
			t.Errorf("appending %v: the other name holds %q", appending, got)
		}
		info, err := os.Stat(tr.path("notes.txt"))
		if err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("appending %v: mode %v, %v", appending, info.Mode(), err)
		}
		if names, _ := os.ReadDir(tr.Root()); len(names) != 1 {
			t.Errorf("appending %v: something is left beside it: %v", appending, names)
		}
	}
}

func TestInputIsARegularFileThatMayBeRead(t *testing.T) {
	tr := newTree(t, policy.Permissive().Layer("ops").DenyRead("secrets/*"))
	tr.put("f", "text")
	tr.put("secrets/k", "key")
	tr.link("secrets/k", "alias")
	putFile(t, filepath.Join(tr.outside, "rc"), "out")
	tr.link(filepath.Join(tr.outside, "rc"), "leaf")
	f, err := tr.OpenInput(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); string(b) != "text" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
	for _, rel := range []string{"secrets/k", "alias", "leaf", "", "missing", "../outside/rc"} {
		if f, err := tr.OpenInput(t.Context(), rel); err == nil {
			f.Close()
			t.Errorf("%q was opened", rel)
		}
	}
}

func TestRelativeKnowsBothSpellingsOfTheRoot(t *testing.T) {
	base := t.TempDir()
	real := filepath.Join(base, "real")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	given := filepath.Join(base, "given")
	if err := os.Symlink(real, given); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	w, err := Open(given, policy.Permissive())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, tc := range []struct {
		abs, want string
		ok        bool
	}{
		{filepath.Join(given, "a", "b"), "a/b", true},
		{filepath.Join(w.Root(), "a"), "a", true},
		{given, "", true},
		{filepath.Join(given, "..", "other"), "", false},
		{real + "x", "", false},
		{"a", "", false},
	} {
		if got, ok := w.Relative(tc.abs); got != tc.want || ok != tc.ok {
			t.Errorf("Relative(%q) = %q, %v, want %q, %v", tc.abs, got, ok, tc.want, tc.ok)
		}
	}
}
