package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// openBeneath opens a canonical path in one system call that neither leaves the
// root nor follows any link, the last part included. Where the kernel or a
// filter around this process does not know the call, the error matches
// errors.ErrUnsupported.
func (d *directory) openBeneath(real string, list bool) (*os.File, error) {
	if d.portable {
		return nil, errors.ErrUnsupported
	}
	if real == "" {
		real = "."
	}
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	if list {
		how.Flags |= unix.O_DIRECTORY
	}
	conn, err := d.base.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, openErr := -1, error(nil)
	// EAGAIN means that a rename went on somewhere on the way, so that the kernel
	// could not be sure; it asks to be asked again.
	const tries = 32
	err = conn.Control(func(root uintptr) {
		for range tries {
			fd, openErr = unix.Openat2(int(root), real, &how)
			if openErr != unix.EAGAIN && openErr != unix.EINTR {
				return
			}
		}
	})
	switch {
	case err != nil:
		return nil, err
	case openErr == unix.ENOSYS || openErr == unix.EPERM || openErr == unix.EAGAIN:
		return nil, fmt.Errorf("openat2: %w", errors.ErrUnsupported)
	case openErr != nil:
		return nil, &os.PathError{Op: "open", Path: real, Err: openErr}
	}
	return os.NewFile(uintptr(fd), filepath.Join(d.path, real)), nil
}
