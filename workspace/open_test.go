package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
)

func TestOpenSaysWhyADirectoryIsNoRoot(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	putFile(t, file, "x")
	for _, tc := range []struct {
		name, root string
		is         error
	}{
		{"empty", "", fs.ErrInvalid},
		{"blank", "  ", fs.ErrInvalid},
		{"missing", filepath.Join(dir, "nope"), fs.ErrNotExist},
		{"a file", file, fs.ErrInvalid},
		{"below a file", filepath.Join(file, "x"), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, err := Open(tc.root, policy.Permissive())
			var oe *OpenError
			if w != nil || !errors.As(err, &oe) || oe.Root != tc.root || oe.Reason == "" {
				t.Fatalf("Open = %v, %#v, want an OpenError for %q", w, err, tc.root)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error %v does not match %v", err, tc.is)
			}
		})
	}
}

func TestRootThatIsALinkIsResolvedOnce(t *testing.T) {
	base := t.TempDir()
	for _, d := range []string{"one", "two"} {
		putFile(t, filepath.Join(base, d, "name"), d)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink("one", link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	w, err := Open(link, policy.Permissive())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("two", link); err != nil {
		t.Fatal(err)
	}
	if got, err := w.ReadFile(t.Context(), "name"); got != "one" || err != nil {
		t.Errorf("ReadFile = %q, %v, want the directory that the link named when it was opened", got, err)
	}
}

func TestClosedWorkspaceDoesNothing(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("a", "x")
	other := tr.WithPolicy(policy.Permissive())
	for range 2 {
		if err := tr.Close(); err != nil {
			t.Fatalf("Close = %v", err)
		}
	}
	if _, err := other.ReadFile(t.Context(), "a"); !errors.Is(err, ErrClosed) {
		t.Errorf("ReadFile = %v, want ErrClosed", err)
	}
	if _, err := other.WriteFile(t.Context(), "a", "y"); !errors.Is(err, ErrClosed) {
		t.Errorf("WriteFile = %v, want ErrClosed", err)
	}
	if _, err := other.Grep(t.Context(), "x", "", 1); !errors.Is(err, ErrClosed) {
		t.Errorf("Grep = %v, want ErrClosed", err)
	}
}

func TestInvalidPolicyOpensNothing(t *testing.T) {
	bad := policy.Policy{}.With(policy.Rule{Act: "fly", Effect: policy.Allow, Pattern: "*"})
	if bad.Validate() == nil {
		t.Skip("this policy takes every act")
	}
	if w, err := Open(t.TempDir(), bad); err == nil {
		w.Close()
		t.Error("Open took a policy that fails Validate")
	}
}
