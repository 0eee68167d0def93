package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal: our end of it, and the program's.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { ours.Close() })
	var n int
	conn, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ioctl error
	if err := conn.Control(func(fd uintptr) {
		if ioctl = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); ioctl == nil {
			n, ioctl = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); err != nil || ioctl != nil {
		t.Skipf("no pseudo-terminal: %v %v", err, ioctl)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	return ours, theirs
}

func TestCtrlCInATerminal(t *testing.T) {
	ours, theirs := terminal(t)
	cmd := exec.Command(os.Args[0], "-dir", t.TempDir())
	cmd.Env = append(os.Environ(), "CHAT_TEST_MAIN=1", "TMPDIR="+t.TempDir())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	out := newScreen()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		io.Copy(out, ours) // ends with an error when the program has closed its end
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill() })

	at := out.await(t, 0, "> ")
	say(t, ours, "wait for me")
	at = out.await(t, at, "contained") // the turn is under way
	say(t, ours, "\x03")
	at = out.await(t, at, "[turn 1: cancelled")
	say(t, ours, "hello")
	at = out.await(t, at, "You said: hello")
	out.await(t, at, "[turn 2: finished")
	say(t, ours, "/quit")
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the program ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("the program does not end:\n%s", out.String())
	}
	<-drained
}
