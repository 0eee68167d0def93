package store

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// processState asks for a process and its start stamp in microseconds.
func processState(pid int) (liveness, string) {
	switch err := unix.Kill(pid, 0); {
	case errors.Is(err, unix.ESRCH):
		return gone, ""
	case err != nil && !errors.Is(err, unix.EPERM):
		return unknown, ""
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return unknown, ""
	}
	const zombie = 5 // SZOMB
	if info.Proc.P_stat == zombie {
		return gone, ""
	}
	at := info.Proc.P_starttime
	return alive, strconv.FormatInt(at.Sec*1_000_000+int64(at.Usec), 10)
}

func bootID() string {
	at, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return ""
	}
	return strconv.FormatInt(at.Sec, 10)
}

func pidNamespace() string { return "" }
