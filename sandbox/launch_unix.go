//go:build unix && !linux

package sandbox

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// launch starts s in a session of its own. These systems have no signal for the
// death of a parent, so a command outlives a host process that is killed.
func launch(s *spec, a *Applied) (*child, error) {
	path, argv := s.path, s.argv
	if s.rung == RungSeatbelt {
		if err := unix.Access(s.path, unix.X_OK); err != nil {
			// The tool would report it as an exit code of the command's own.
			return nil, startError(s, &os.PathError{Op: "exec", Path: s.path, Err: err})
		}
		path, argv = sandboxExec, seatbeltArgv(s, func(p string) bool {
			fi, err := os.Stat(p)
			return err == nil && fi.IsDir()
		})
	}
	proc, err := os.StartProcess(path, argv, &os.ProcAttr{
		Dir:   s.dir,
		Env:   s.env,
		Files: onlyThese(s.files),
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, startError(s, err)
	}
	g := &group{pid: proc.Pid}
	c := &child{
		pid:       proc.Pid,
		exited:    make(chan struct{}),
		kill:      func() bool { g.signal(unix.SIGKILL); return false },
		terminate: func() { g.signal(unix.SIGTERM) },
		pids:      func() []int { return []int{proc.Pid} },
		release:   func() {},
		monitor:   func(Limits, <-chan struct{}) <-chan Cap { return nil },
	}
	go func() {
		defer close(c.exited)
		state, left, err := g.collect(proc)
		if err != nil {
			c.end = ending{code: -1, leftover: left}
			return
		}
		c.end = ending{code: state.ExitCode(), cpu: state.UserTime() + state.SystemTime(), leftover: left}
		if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			c.end.signal = unix.SignalName(ws.Signal())
		}
	}()
	return c, nil
}

// group is the process group that a command leads. Its number is that of the command,
// and may be another's as soon as the command is reaped and no member is left.
type group struct {
	pid int

	mu    sync.Mutex
	ended bool // nothing is signalled any more
}

func (g *group) signal(sig unix.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended {
		_ = unix.Kill(-g.pid, sig)
	}
}

// rescan bounds the rounds of a kill: each round can only find children that were
// forked during the one before.
const rescan = 16

// clear kills what is left of the group behind its leader, and reports whether there
// was anything.
func (g *group) clear() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	left := false
	for range rescan {
		if !othersLive(g.pid) {
			break
		}
		left = true
		_ = unix.Kill(-g.pid, unix.SIGKILL)
		time.Sleep(time.Millisecond)
	}
	return left
}

func (s *spec) killScope(Rung) KillScope { return KillGroup }

func (s *spec) holds(c Cap, _ Rung) bool { return c == CapWall }
