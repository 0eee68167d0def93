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
	apparatus := func(op string, err error) error {
		return &Error{Kind: ErrApparatus, Op: op, Program: s.argv[0], Rung: s.rung, Err: err}
	}
	switch s.rung {
	case RungNamespaces:
		return launchNamespaces(s, a)
	case RungBubblewrap:
		return launchBubblewrap(s, a)
	}
	t := &tree{marker: s.marker}
	limits := s.profile.Limits
	hold := s.groupParent() != "" || s.host.Stop.Works && limits.kept()
	filter, err := s.filter()
	if err != nil {
		return nil, apparatus("build boundary", err)
	}
	outcome := make(chan error, 1)
	c := &child{exited: make(chan struct{})}
	// Two work at a start: the thread makes itself ready for the boundary while this
	// goroutine lays it out, and starts the program while this one makes the group.
	ground := make(chan *groundwork, 1)
	grouped := make(chan error, 1)
	go onScratchThread(s.rung == RungLandlock, func() {
		defer close(c.exited)
		err := weaken(s.rung, filter)
		g := <-ground
		if g == nil {
			return // launch has the reason
		}
		if err == nil {
			err = g.restrict()
		}
		if err != nil {
			g.close()
			outcome <- apparatus("apply boundary", err)
			return
		}
		proc, err := os.StartProcess(s.path, s.argv, &os.ProcAttr{
			Dir:   s.dir,
			Env:   s.env,
			Files: g.files,
			Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Ptrace: hold},
		})
		g.close()
		if err != nil {
			outcome <- startError(s, err)
			return
		}
		t.pid, t.born = proc.Pid, time.Now()
		err = <-grouped
		if err == nil && hold {
			if err = held(t.pid, t.group, limiter(t.pid, limits)); err != nil {
				err = apparatus("set ceilings", err)
			}
		}
		if err != nil {
			_ = proc.Kill()
			_, _ = proc.Wait()
			outcome <- err
			return
		}
		outcome <- nil
		c.end = t.reap(proc)
	})
	g, err := layGround(s)
	if err != nil {
		close(ground)
		<-c.exited
		return nil, apparatus("build boundary", err)
	}
	ground <- g
	err = t.makeGroup(s)
	if t.group == nil {
		// The kill is less sure without it, and is reported as such.
		a.Kill = KillMarker
	}
	t.sure = a.Kill == KillCgroup
	grouped <- err
	if err := <-outcome; err != nil {
		<-c.exited
		t.release()
		return nil, err
	}
	c.pid, c.kill, c.pids, c.release = t.pid, t.kill, t.pids, t.release
	c.monitor, c.terminate, c.overMemory = t.monitor, t.terminate, t.overMemory
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
	t.awaitEnd()
	left := false
	if !t.alone() {
		// On another goroutine: this thread may be restricted, and clearing away
		// opens files.
		rest := make(chan bool, 1)
		go func() { rest <- t.killRest() }()
		left = <-rest
	}
	t.markReaped() // before it is so: a kill that comes between the two has nothing to end
	state, err := proc.Wait()
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

// awaitEnd waits for the end of the program, which keeps its process id. Where the
// host gave away its right to wait, the id may have passed on already.
func (t *tree) awaitEnd() {
	for {
		err := unix.Waitid(unix.P_PID, t.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			t.markReaped()
		}
		return
	}
}

// killScope is what a kill reaches. Only a command that cannot write to the
// control group's files is sure to stay in its group.
func (s *spec) killScope(r Rung) KillScope {
	if r == RungNamespaces || r == RungBubblewrap {
		return KillNamespace
	}
	if s.groupParent() != "" && r.ConfinesWrites() {
		return KillCgroup
	}
	return KillMarker
}

// holds reports whether a ceiling is in force: the kernel keeps descriptors and
// the processor time of each process, a sampler the rest.
func (s *spec) holds(c Cap, r Rung) bool {
	if c == CapOpenFiles {
		return r == RungNamespaces || s.host.Stop.Works
	}
	return slices.Contains([]Cap{CapWall, CapCPU, CapMemory, CapProcesses}, c)
}
