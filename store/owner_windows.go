package store

import (
	"errors"
	"strconv"
	"time"

	"golang.org/x/sys/windows"
)

// stillActive is the exit code of a process that has none yet.
const stillActive = 259

// processState asks for a process and its creation stamp.
func processState(pid int) (liveness, string) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	switch {
	case errors.Is(err, windows.ERROR_INVALID_PARAMETER):
		return gone, "" // the only answer that means that there is no such process
	case err != nil:
		return unknown, ""
	}
	defer func() { _ = windows.CloseHandle(h) }()
	var code uint32
	if err := windows.GetExitCodeProcess(h, &code); err != nil {
		return unknown, ""
	}
	if code != stillActive {
		return gone, ""
	}
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return alive, ""
	}
	return alive, strconv.FormatInt(created.Nanoseconds(), 10)
}

// bootID rounds the moment of boot to a minute, because it can only be
// computed from two clocks.
func bootID() string {
	boot := time.Now().Add(-windows.DurationSinceBoot()).Round(time.Minute)
	return strconv.FormatInt(boot.Unix(), 10)
}

func pidNamespace() string { return "" }
