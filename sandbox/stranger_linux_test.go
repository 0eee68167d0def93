package sandbox

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// From the moment at which the program is reaped its id may be somebody else's, so
// that nothing may be signalled by it already before.
func TestAProgramIsOutOfReachBeforeItsIdIsFree(t *testing.T) {
	over := exec.Command("true")
	if err := over.Start(); err != nil {
		t.Fatal(err)
	}
	// It stands for the end that is being taken: waiting for it takes until it is killed.
	slow := exec.Command("sleep", "60")
	if err := slow.Start(); err != nil {
		t.Fatal(err)
	}
	tr := &tree{pid: over.Process.Pid, marker: newMarker(), born: time.Now()}
	reaped := make(chan ending, 1)
	go func() { reaped <- tr.reap(slow.Process) }()
	out := false
	for range 500 {
		tr.mu.Lock()
		out = tr.reaped
		tr.mu.Unlock()
		if out {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !out {
		t.Error("while its end is taken a kill still goes to its id")
	}
	_ = slow.Process.Kill()
	<-reaped
	_ = over.Wait()
}

// A child that ends before it could be held stays to be reaped: whoever started it
// kills it by its id.
func TestAChildThatCannotBeHeldKeepsItsId(t *testing.T) {
	result := make(chan error, 1)
	pids := make(chan int, 1)
	go onScratchThread(false, func() {
		pid, err := syscall.ForkExec("/proc/self/exe", []string{"true", "exit"}, &syscall.ProcAttr{Env: []string{}, Sys: &syscall.SysProcAttr{Setsid: true}})
		if err != nil {
			pids <- 0
			result <- err
			return
		}
		pids <- pid
		_ = unix.Kill(pid, unix.SIGKILL)
		result <- held(pid, nil, nil)
	})
	pid := <-pids
	if err := <-result; err == nil || pid == 0 {
		t.Fatalf("process %d was held: %v", pid, err)
	}
	var ws unix.WaitStatus
	if got, err := unix.Wait4(pid, &ws, 0, nil); err != nil || got != pid {
		t.Errorf("its id was given back: %d, %v", got, err)
	}
}

// The host may have given its right to wait away; then nothing is known of the id.
func TestAnIdThatNobodyHoldsIsNotSignalled(t *testing.T) {
	c := exec.Command("sleep", "60")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	tr := &tree{pid: gone.Process.Pid, marker: newMarker(), born: time.Now()}
	tr.awaitEnd()
	tr.pid = c.Process.Pid // to whom the id was given
	tr.kill()
	tr.killRest()
	tr.terminate()
	time.Sleep(20 * time.Millisecond)
	if st, ok := readStat(c.Process.Pid); !ok || st.state == 'Z' {
		t.Error("a stranger was signalled")
	}
}
