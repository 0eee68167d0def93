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

// descriptorDirs list the descriptors of this process. Linux has the second by itself;
// the first is a link that a small system or container may lack.
var descriptorDirs = []string{"/proc/self/fd", "/dev/fd"}

// onlyThese extends the streams of a child by an order to close every
// descriptor of this process that would be inherited. Go marks what it opens as
// close-on-exec, but the host may have got others from whoever started it, or
// from a library that is not Go; marking those would change the host.
func onlyThese(files []*os.File) []*os.File {
	highest := 0
	for _, fd := range openDescriptors(descriptorDirs) {
		if fd <= highest || fd < len(files) || fd > maxStray {
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

// openDescriptors are the descriptors that the first of dirs lists; without any of them
// every number that one may have.
func openDescriptors(dirs []string) []int {
	for _, name := range dirs {
		dir, err := os.Open(name)
		if err != nil {
			continue
		}
		names, err := dir.Readdirnames(-1)
		_ = dir.Close()
		if err != nil {
			continue
		}
		out := make([]int, 0, len(names))
		for _, n := range names {
			if fd, err := strconv.Atoi(n); err == nil {
				out = append(out, fd)
			}
		}
		return out
	}
	out := make([]int, maxStray+1)
	for fd := range out {
		out[fd] = fd
	}
	return out
}
