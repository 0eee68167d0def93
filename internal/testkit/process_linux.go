package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// EndIn kills a process that a test may have left behind, if its working directory is
// dir or lies in it. Ids are given out again: by the time a test knows that something
// was left, the id may be that of a process of somebody else.
func EndIn(pid int, dir string) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil || pid <= 1 {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	place, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err == nil && strings.HasPrefix(place+"/", dir+"/") {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}
