//go:build unix

package verify

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe in a file's place would hold up whoever opens it for reading.
func TestAPipeInAFilesPlaceDoesNotHoldUpTheGate(t *testing.T) {
	b := newBench(t)
	b.write("tests/t", "")
	c := b.prepare(Protect(Command("true"), "tests/*"))
	if err := syscall.Mkfifo(filepath.Join(b.root, "tests", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.errs(Contains("tests/pipe", "x")); !strings.Contains(err.Error(), "not a regular file but a pipe") {
		t.Errorf("error = %v, want one that says what it is", err)
	}
	if err := b.errs(EachCompiles(Rust, "tests/pipe")); err == nil {
		t.Error("a pipe was read as a source")
	}
	b.fails(c, "tests/pipe was added")
}

func TestAProtectedFileThatCanNoLongerBeReadIsTamperedWith(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	for _, shut := range []string{"tests/t", "tests"} {
		b := newBench(t)
		b.write("tests/t", "1")
		c := b.prepare(Protect(Command("true"), "tests/*"))
		b.mode(shut, 0)
		v := b.fails(c, "can no longer be read")
		if !v.TellModel || len(b.spawned) != 0 {
			t.Errorf("%s: %+v after %d commands", shut, v, len(b.spawned))
		}
		b.mode(shut, 0o755)
	}
}

// A file name is bytes, and a store keeps text.
func TestProtectedFilesOfAnyNameAreKnownAgain(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"tests/caf\xe9", `tests/"quoted"`, "tests/\xff", "tests/\ufffd"} {
		if err := os.MkdirAll(filepath.Join(b.root, "tests"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(b.root, name), []byte(name), 0o644); err != nil {
			t.Skipf("no such names on this file system: %v", err)
		}
	}
	b.link("nowhere-\xff", "tests/link")
	stored, err := Marshal(b.prepare(Protect(Command("true"), "tests/*")))
	if err != nil {
		t.Fatal(err)
	}
	back, err := Unmarshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	b.passes(back)
	b.remove("tests/link")
	b.link("nowhere-\xfe", "tests/link")
	b.fails(back, "tests/link was changed")
	b.remove("tests/\xff")
	v := b.judge(back)
	if v.Passed || len(v.Reasons) != 2 || v.Reasons[0] != `"tests/\xff" was removed` {
		t.Errorf("%+v, want the removed file by its name", v)
	}
}
