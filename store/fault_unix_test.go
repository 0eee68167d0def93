//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/initorigin/io-harness-go/trace"
)

// faultDir makes the test binary a driver whose disk fails in that directory;
// faultKind says how.
const (
	faultDir  = "STORE_TEST_FAULT_DIR"
	faultKind = "STORE_TEST_FAULT_KIND"
)

// faults are the programs that drive a run while the system below fails.
var faults = map[string]func(dir string) error{"io": driveWithoutRoom}

func init() {
	dir := os.Getenv(faultDir)
	if dir == "" {
		return
	}
	if err := faults[os.Getenv(faultKind)](dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// expect is an error unless err is a failure of the store of that kind.
func expect(what string, err error, kind ErrorKind) error {
	var se *Error
	if !errors.As(err, &se) || se.Kind != kind {
		return fmt.Errorf("%s: %v, want an error of kind %s", what, err, kind)
	}
	if se.Path == "" || !strings.Contains(err.Error(), se.Path) {
		return fmt.Errorf("%s: %v does not name its file %q", what, err, se.Path)
	}
	return nil
}

// begun starts a run and commits its first step.
func begun(ctx context.Context, s *Store) (*Drive, error) {
	d, err := s.StartRun(ctx, RunStart{Goal: "g", Root: "/repo", Provider: "scripted"})
	if err != nil {
		return nil, err
	}
	return d, s.CommitStep(ctx, d, benchStep(1))
}

// intact is an error unless the store holds that many steps and no contradiction.
func intact(ctx context.Context, s *Store, run trace.RunID, steps int) error {
	info, err := s.Run(ctx, run)
	if err != nil || info.LastStep != steps {
		return fmt.Errorf("the run is at step %d, want %d: %w", info.LastStep, steps, err)
	}
	rep, err := s.Check(ctx)
	if err != nil || len(rep.Problems) > 0 {
		return fmt.Errorf("check: %v, %w", rep.Problems, err)
	}
	return nil
}

// driveWithoutRoom goes on where a write fails with an error that is not the
// disk's being full: the system refuses files over a size.
func driveWithoutRoom(dir string) error {
	ctx := context.Background()
	signal.Ignore(syscall.SIGXFSZ)
	s, err := Open(ctx, filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	d, err := begun(ctx, s)
	if err != nil {
		return err
	}
	var had syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &had); err != nil {
		return err
	}
	fi, err := os.Stat(s.Path() + "-wal")
	if err != nil {
		return err
	}
	small := had
	small.Cur = asLimit(small.Cur, fi.Size())
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		return err
	}
	big := benchStep(2)
	big.Prompt = strings.Repeat("p", 1<<20)
	err = expect("a step that cannot be written", s.CommitStep(ctx, d, big), KindIO)
	if err := errors.Join(err, intact(ctx, s, d.RunID, 1)); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &had); err != nil {
		return err
	}
	if err := s.CommitStep(ctx, d, big); err != nil {
		return fmt.Errorf("once the disk is well again: %w", err)
	}
	return errors.Join(intact(ctx, s, d.RunID, 2), d.Release(ctx), s.Close())
}

// asLimit is n as the type that a limit has on this system.
func asLimit[T ~int64 | ~uint64](_ T, n int64) T { return T(n) }

func runFault(t *testing.T, kind string, attr *syscall.SysProcAttr) (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), faultDir+"="+t.TempDir(), faultKind+"="+kind)
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func TestAWriteThatFailsLosesNothing(t *testing.T) {
	if out, err := runFault(t, "io", nil); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
