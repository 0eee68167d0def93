package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processState asks for a process and its start stamp: clock ticks since boot,
// field 22 of its stat file.
func processState(pid int) (liveness, string) {
	switch err := unix.Kill(pid, 0); {
	case errors.Is(err, unix.ESRCH):
		return gone, ""
	case err != nil && !errors.Is(err, unix.EPERM):
		return unknown, ""
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return unknown, ""
	}
	// The second field is the program's name and may hold spaces and brackets.
	_, rest, ok := bytes.Cut(raw[bytes.LastIndexByte(raw, ')')+1:], []byte(" "))
	if !ok {
		return unknown, ""
	}
	fields := strings.Fields(string(rest)) // fields[0] is field 3, the state
	if len(fields) < 20 {
		return unknown, ""
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return gone, "" // it has ended and only waits for its parent
	}
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return unknown, ""
	}
	return alive, formatStart(ticks)
}

func bootID() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

func pidNamespace() string {
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return link
}
