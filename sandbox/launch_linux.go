package sandbox

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// launch starts s under s.rung. The goroutine that does so holds a thread of
// its own until the program is reaped, for two reasons: a rung may restrict
// that thread for good, and the death signal of a child is sent when the thread
// that made it ends, not when the process does.
func launch(s *spec, a *Applied) (*child, error) {
	r, err := newRestriction(s)
	if err != nil {
		return nil, &Error{Kind: ErrApparatus, Op: "build boundary", Program: s.argv[0], Rung: s.rung, Err: err}
	}
	files := onlyThese(s.files)
	started := make(chan error, 1)
	c := &child{exited: make(chan struct{})}
	go onScratchThread(r.spoils(), func() {
		defer close(c.exited)
		if err := r.apply(); err != nil {
			r.close()
			started <- &Error{Kind: ErrApparatus, Op: "apply boundary", Program: s.argv[0], Rung: s.rung, Err: err}
			return
		}
		proc, err := os.StartProcess(s.path, s.argv, &os.ProcAttr{
			Dir:   s.dir,
			Env:   s.env,
			Files: files,
			Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
		})
		r.close()
		if err != nil {
			started <- startError(s, err)
			return
		}
		t := &tree{pid: proc.Pid, marker: s.marker, born: time.Now()}
		c.pid, c.kill, c.pids = t.pid, t.kill, t.pids
		c.release = func() {}
		c.monitor = func(l Limits, stop <-chan struct{}) <-chan Cap { return nil }
		started <- nil
		c.end = t.reap(proc)
	})
	if err := <-started; err != nil {
		<-c.exited
		return nil, err
	}
	return c, nil
}

// onScratchThread runs f on a thread that no other goroutine uses. When spoil
// is set the thread ends with the goroutine and is never used again. The
// process's main thread is passed over: it stands for the whole process in
// /proc, and it cannot be ended.
func onScratchThread(spoil bool, f func()) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		settled := make(chan struct{})
		go func() {
			runtime.LockOSThread() // before the main thread is free again
			close(settled)
			onScratchThread(spoil, f)
			if !spoil {
				runtime.UnlockOSThread()
			}
		}()
		<-settled
		runtime.UnlockOSThread()
		return
	}
	f()
	if !spoil {
		runtime.UnlockOSThread()
	}
}

// reap waits for the program and clears away what it left behind while its
// process id is still taken, so that no signal can reach a stranger.
func (t *tree) reap(proc *os.Process) ending {
	for {
		err := unix.Waitid(unix.P_PID, t.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	left := t.killRest()
	state, err := proc.Wait()
	t.markReaped()
	if err != nil {
		return ending{code: -1, leftover: left}
	}
	e := ending{code: state.ExitCode(), cpu: state.UserTime() + state.SystemTime(), leftover: left}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.signal = unix.SignalName(ws.Signal())
		if ws.Signal() == syscall.SIGXCPU {
			e.cap = CapCPU
		}
	}
	return e
}

func (s *spec) killScope(Rung) KillScope { return KillMarker }

// linuxCaps are the ceilings that hold on every Linux rung.
var linuxCaps = []Cap{CapWall}

func (s *spec) holds(c Cap, _ Rung) bool { return slices.Contains(linuxCaps, c) }
