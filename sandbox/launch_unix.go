//go:build unix && !linux

package sandbox

import (
	"os"
	"syscall"

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
	pid := proc.Pid
	c := &child{
		pid:       pid,
		exited:    make(chan struct{}),
		kill:      func() bool { return unix.Kill(-pid, unix.SIGKILL) == nil },
		terminate: func() { _ = unix.Kill(-pid, unix.SIGTERM) },
		pids:      func() []int { return []int{pid} },
		release:   func() {},
		monitor:   func(Limits, <-chan struct{}) <-chan Cap { return nil },
	}
	go func() {
		defer close(c.exited)
		state, err := proc.Wait()
		// The group keeps its number as long as a member lives, so this reaches
		// the leftovers or nobody.
		left := unix.Kill(-pid, unix.SIGKILL) == nil
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

func (s *spec) killScope(Rung) KillScope { return KillGroup }

func (s *spec) holds(c Cap, _ Rung) bool { return c == CapWall }
