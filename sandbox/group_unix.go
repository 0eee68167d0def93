//go:build unix && !linux && !darwin

package sandbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// collect reaps the leader and then clears away what it left behind at once: the
// group keeps its number as long as a member lives.
func (g *group) collect(proc *os.Process) (*os.ProcessState, bool, error) {
	state, err := proc.Wait()
	return state, g.clear(), err
}

// othersLive reports whether a process is in the group, whose leader is reaped.
func othersLive(pid int) bool { return unix.Kill(-pid, 0) == nil }
