//go:build unix

package sandbox

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxStray bounds the descriptors that are looked after; above it only what Go
// itself opened is sure to be closed.
const maxStray = 4096

// onlyThese extends the streams of a child by an order to close every
// descriptor of this process that would be inherited. Go marks what it opens as
// close-on-exec, but the host may have got others from whoever started it, or
// from a library that is not Go; marking those would change the host.
func onlyThese(files []*os.File) []*os.File {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return files
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	highest := 0
	for _, n := range names {
		fd, err := strconv.Atoi(n)
		if err != nil || fd <= highest || fd < len(files) || fd > maxStray {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			highest = fd
		}
	}
	for len(files) <= highest {
		files = append(files, nil) // closed in the child
	}
	return files
}
