package sandbox

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// launch starts s without a window and in a group of its own.
func launch(s *spec, a *Applied) (*child, error) {
	proc, err := os.StartProcess(s.path, s.argv, &os.ProcAttr{
		Dir:   s.dir,
		Env:   s.env,
		Files: s.files,
		Sys:   &syscall.SysProcAttr{CreationFlags: windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP},
	})
	if err != nil {
		return nil, startError(s, err)
	}
	c := &child{
		pid:     proc.Pid,
		exited:  make(chan struct{}),
		kill:    func() { _ = proc.Kill() },
		pids:    func() []int { return []int{proc.Pid} },
		release: func() {},
		monitor: func(Limits, <-chan struct{}) <-chan Cap { return nil },
	}
	go func() {
		defer close(c.exited)
		state, err := proc.Wait()
		if err != nil {
			c.end = ending{code: -1}
			return
		}
		c.end = ending{code: state.ExitCode(), cpu: state.UserTime() + state.SystemTime()}
	}()
	return c, nil
}

func (s *spec) killScope(Rung) KillScope { return KillGroup }

func (s *spec) holds(c Cap, _ Rung) bool { return c == CapWall }
