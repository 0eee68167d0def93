package main

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/internal/testkit"
)

func TestCtrlCInATerminal(t *testing.T) {
	ours, theirs := testkit.Terminal(t)
	t.Cleanup(func() { ours.Close() })
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
