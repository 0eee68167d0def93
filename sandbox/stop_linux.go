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

// held puts a child into its group, if it has one, has it prepared, waits until it stands
// before its first instruction, and lets it go. The first two are done while the kernel
// still loads the program. It must run on the thread that started the child; prepare, if
// there is something to, runs on another, because that one may be restricted.
func held(pid int, group *cgroup, prepare func() error) error {
	prepared := make(chan error, 1)
	if prepare != nil {
		go func() { prepared <- prepare() }()
	} else {
		prepared <- nil
	}
	var err error
	if group != nil {
		err = group.add(pid)
	}
	if err = errors.Join(err, <-prepared); err != nil {
		return err
	}
	if err := awaitStop(pid); err != nil {
		return err
	}
	if err := unix.PtraceDetach(pid); err != nil {
		return fmt.Errorf("let the child go: %w", err)
	}
	return nil
}

// awaitStop returns when a child that is traced stands still.
func awaitStop(pid int) error {
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
			if err := awaitStop(pid); err != nil {
				return err
			}
			if g != nil && group == nil {
				group = g.add(pid)
			}
			return setLimits(pid, Limits{CPU: time.Hour, OpenFiles: 64})
		}()
	})
	stop = <-result
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
