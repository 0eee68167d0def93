//go:build unix

package verify

import (
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
