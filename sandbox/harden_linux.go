package sandbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// HardenHostProcess keeps other processes of the same user from reading what this one
// was started with and holds: its environment and its memory under /proc, and by
// ptrace. Rungs keep commands from that by themselves; where nothing confines a
// command (the floor, full access) this does, for a program that does not run as root.
// It is for the whole process and cannot be taken back; call it first in main.
//
// What it costs: the process leaves no core dump and debuggers of the same user cannot
// attach to it, and an ordinary user has no namespaces rung, because the kernel then
// lets it set up no user namespace for a child. The other rungs are not changed.
//
// On other systems than Linux it does nothing and returns errors.ErrUnsupported.
func HardenHostProcess() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return &Error{Kind: ErrApparatus, Op: "make this process not dumpable", Err: os.NewSyscallError("prctl", err)}
	}
	return nil
}

// hardened reports whether the kernel keeps commands from what this process was started
// with. To root it makes no difference.
func hardened() bool {
	if os.Geteuid() == 0 {
		return false
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	return err == nil && dumpable != 1
}
