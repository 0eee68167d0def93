package testkit

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestOnlyAProcessOfTheDirectoryIsEnded(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	start := func(in string) *exec.Cmd {
		c := exec.Command("sleep", "300")
		c.Dir = in
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		return c
	}
	mine, stranger := start(dir), start(other)
	EndIn(stranger.Process.Pid, dir)
	EndIn(os.Getpid(), dir)
	EndIn(0, "/")
	EndIn(mine.Process.Pid, dir)
	if state, err := mine.Process.Wait(); err != nil || state.Success() {
		t.Errorf("the process of the directory ended as %v, %v", state, err)
	}
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a stranger was ended: %v", err)
	}
}
