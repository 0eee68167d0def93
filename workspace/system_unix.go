//go:build unix

package workspace

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openNonblock keeps an open from waiting, should the file be exchanged for a
// named pipe between the look and the open.
const openNonblock = syscall.O_NONBLOCK

// isLink reports the two ways in which systems say that a link was met where
// none may be.
func isLink(err error) bool {
	return errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EMLINK)
}

func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// names is how many names the file has.
func names(_ *os.File, info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Nlink)
	}
	return 1
}

// keepOwner gives a replacement the owner of what it replaces, where the process
// may. Failing is no fault: whoever may write a file may not always give it away.
func keepOwner(f *os.File, old fs.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != unix.Geteuid() || int(st.Gid) != unix.Getegid()) {
		_ = f.Chown(int(st.Uid), int(st.Gid))
	}
}

// syncDir makes the names in a directory durable. File systems that cannot sync
// a directory say so with EINVAL or ENOTSUP; they have no better to offer.
func syncDir(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

// longNames is for systems where a file has a second, shortened name.
func (d *directory) longNames(real string) (string, error) { return real, nil }
