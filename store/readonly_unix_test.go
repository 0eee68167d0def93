//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	ordinaryUser = 65534
	readPath     = "STORE_TEST_READ_PATH" // makes the test binary a reader of that file
)

func init() {
	path := os.Getenv(readPath)
	if path == "" {
		return
	}
	if err := readAsProgram(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// closedFiles are stores beside the one that is read which no ordinary user can
// open, and what the error says about each.
var closedFiles = map[string]string{
	"closed.db": "as the user who owns it",
	"shm.db":    "shm.db-shm cannot be read and written",
	"wal.db":    "wal.db-wal cannot be read and written",
}

// readAsProgram is a program that reads a store in a directory that it cannot
// write, and goes on while somebody else changes the file.
func readAsProgram(path string) error {
	ctx := context.Background()
	for name, remedy := range closedFiles {
		at := filepath.Join(filepath.Dir(path), name)
		for _, opts := range [][]Option{nil, {WithReadOnly()}} {
			_, err := Open(ctx, at, append(opts, WithBusyTimeout(time.Millisecond))...)
			if err := expect(name, err, KindCantOpen); err != nil {
				return err
			}
			if !strings.Contains(err.Error(), at) || !strings.Contains(err.Error(), remedy) {
				return fmt.Errorf("%s: %w, want %q", name, err, remedy)
			}
		}
	}
	var se *Error
	if _, err := Open(ctx, path, WithBusyTimeout(time.Millisecond)); !errors.As(err, &se) || se.Kind != KindReadOnly && se.Kind != KindCantOpen {
		return fmt.Errorf("for writing: %w", err)
	}
	s, err := Open(ctx, path, WithReadOnly())
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	for range 3 {
		last, err := s.LastRun(ctx)
		if err != nil || last == nil {
			return fmt.Errorf("last run: %v, %w", last, err)
		}
		if l, err := s.LeaseOf(ctx, last.ID); err != nil || l != nil {
			return fmt.Errorf("lease: %v, %w", l, err)
		}
	}
	if rep, err := s.Check(ctx); err != nil || len(rep.Problems) > 0 {
		return fmt.Errorf("check: %v, %w", rep.Problems, err)
	}
	fmt.Println("read")
	if _, err := io.ReadAll(os.Stdin); err != nil { // until somebody has written
		return err
	}
	_, err = s.LastRun(ctx)
	if !errors.As(err, &se) || se.Kind != KindReadOnly {
		return fmt.Errorf("after a change: %w", err)
	}
	return nil
}

func TestAStoreIsReadWhereItsReaderCannotWrite(t *testing.T) {
	base, err := os.MkdirTemp("", "store-ro-") // t.TempDir lies where only its owner may go
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "d")
	t.Cleanup(func() { _ = errors.Join(os.Chmod(dir, 0o755), os.RemoveAll(base)) })
	if err := errors.Join(os.Chmod(base, 0o755), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "runs.db")
	s := openAt(t, path)
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	finish(t, s, d, "finished", 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, closed := range map[string]string{"closed.db": "", "shm.db": "-shm", "wal.db": "-wal"} {
		at := filepath.Join(dir, name)
		start(t, openAt(t, at), RunStart{}) // stays open, so that its side files stay
		for _, suffix := range []string{"", "-shm", "-wal"} {
			if err := os.Chmod(at+suffix, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(at+closed, 0); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(base, "store.test")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(bin, code, 0o755), os.Chmod(path, 0o644), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin)
	cmd.Dir = base
	cmd.Env = append(os.Environ(), readPath+"="+path)
	cmd.Stderr = os.Stderr
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 4)
	if _, err := io.ReadFull(out, word); err == nil {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		s = openAt(t, path)
		start(t, s, RunStart{})
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the reader: %v", err)
	}
}
