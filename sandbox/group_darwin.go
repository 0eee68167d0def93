package sandbox

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// collect waits for the leader, clears away what it left behind while its number is
// still taken, so that no signal can reach a stranger, and reaps it.
func (g *group) collect(proc *os.Process) (*os.ProcessState, bool, error) {
	if !awaitEnd(g.pid) {
		state, err := proc.Wait()
		return state, g.clear(), err
	}
	left := g.clear()
	state, err := proc.Wait()
	return state, left, err
}

// awaitEnd waits for the end of a child and leaves it to be reaped. It reports false
// where the kernel does not tell.
func awaitEnd(pid int) bool {
	queue, err := unix.Kqueue()
	if err != nil {
		return false
	}
	defer unix.Close(queue)
	var ask, told [1]unix.Kevent_t
	unix.SetKevent(&ask[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	ask[0].Fflags = unix.NOTE_EXIT
	for {
		n, err := unix.Kevent(queue, ask[:], told[:], nil)
		if n == 1 && told[0].Flags&unix.EV_ERROR != 0 {
			err = syscall.Errno(told[0].Data)
		}
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ESRCH):
			return true // it has ended already
		case err != nil:
			return false
		case n == 1:
			return true
		}
	}
}

// othersLive reports whether a process other than the leader is in the group.
func othersLive(pid int) bool {
	members, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", pid)
	if err != nil {
		return unix.Kill(-pid, 0) == nil
	}
	const zombie = 5 // SZOMB
	for _, m := range members {
		if int(m.Proc.P_pid) != pid && m.Proc.P_stat != zombie {
			return true
		}
	}
	return false
}
