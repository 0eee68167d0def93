package sandbox

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A child that is to have ceilings, or a control group, is held before its
// first instruction: set later, a child that forks at once gets away with some
// of its own.

// Codes of a child that stands still, from the kernel's siginfo.
const (
	cldTrapped = 4
	cldStopped = 5
)

// held waits until the child stands before its first instruction, puts it into
// its group, if it has one, has it prepared, and lets it go. It must run on the
// thread that started the child; prepare, if there is something to, runs on
// another, because that one may be restricted.
func held(pid int, group *cgroup, prepare func() error) error {
	var info unix.Siginfo
	for {
		// Its end is not taken: whoever started the child may still kill it by its id.
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the stop: %w", err)
		}
	}
	if info.Code != cldTrapped && info.Code != cldStopped {
		return fmt.Errorf("the child ended before it could be held (code %d)", info.Code)
	}
	if group != nil {
		if err := group.add(pid); err != nil {
			return err
		}
	}
	if prepare != nil {
		prepared := make(chan error, 1)
		go func() { prepared <- prepare() }()
		if err := <-prepared; err != nil {
			return err
		}
	}
	if err := unix.PtraceDetach(pid); err != nil {
		return fmt.Errorf("let the child go: %w", err)
	}
	return nil
}

// kept reports whether there is a ceiling that the kernel keeps per process.
func (l Limits) kept() bool { return l.CPU > 0 || l.OpenFiles > 0 }

// limiter is what held has to do for l; nil is nothing.
func limiter(pid int, l Limits) func() error {
	if !l.kept() {
		return nil
	}
	return func() error { return setLimits(pid, l) }
}

// setLimits puts the ceilings in force that the kernel keeps per process.
func setLimits(pid int, l Limits) error {
	if l.CPU > 0 {
		if err := lower(pid, unix.RLIMIT_CPU, uint64(math.Ceil(l.CPU.Seconds()))); err != nil {
			return fmt.Errorf("limit processor time: %w", err)
		}
	}
	if l.OpenFiles > 0 {
		if err := lower(pid, unix.RLIMIT_NOFILE, l.OpenFiles); err != nil {
			return fmt.Errorf("limit open files: %w", err)
		}
	}
	return nil
}

// lower sets a limit without raising any. The hard limit stays one above the
// soft one: where they are equal Linux kills without naming the reason.
func lower(pid, resource int, value uint64) error {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &old); err != nil {
		return err
	}
	hard := min(old.Max, value+1)
	return unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(value, hard), Max: hard}, nil)
}

// probeStop holds a child, gives it a limit and a group, and kills it before it
// has run an instruction. The program is this one, because it is sure to be
// there; it never begins.
func probeStop(h *Host) (stop, group error) {
	parent, err := ownCgroup()
	var g *cgroup
	if err == nil {
		sweepCgroups(parent)
		if g, err = newCgroup(parent); err == nil {
			err = g.killable()
		}
	}
	group = err
	result := make(chan error, 1)
	go onScratchThread(false, func() {
		result <- func() error {
			pid, err := syscall.ForkExec("/proc/self/exe", []string{"probe"}, &syscall.ProcAttr{
				Sys: &syscall.SysProcAttr{Ptrace: true, Setsid: true, Pdeathsig: syscall.SIGKILL},
			})
			if err != nil {
				return err
			}
			defer func() {
				_ = unix.Kill(pid, unix.SIGKILL)
				for {
					var ws unix.WaitStatus
					_, err := unix.Wait4(pid, &ws, 0, nil)
					if err == nil && (ws.Exited() || ws.Signaled()) || err != nil && !errors.Is(err, unix.EINTR) {
						return
					}
				}
			}()
			return held(pid, nil, func() error {
				if g != nil && group == nil {
					group = g.add(pid)
				}
				if err := unix.Kill(pid, unix.SIGKILL); err != nil { // before it is let go
					return err
				}
				return setLimits(pid, Limits{CPU: time.Hour, OpenFiles: 64})
			})
		}()
	})
	stop = <-result
	if errors.Is(stop, unix.ESRCH) {
		stop = nil // the kill was quicker than the detaching
	}
	if g != nil {
		g.remove()
	}
	if stop != nil {
		group = errors.New("a child cannot be held before its start")
	}
	if group == nil {
		h.cgroup = parent
	}
	return stop, group
}
