package testkit

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Terminal opens a pseudo-terminal: our end of it, where a person would type, and the
// program's. The test is skipped where there are none. Who closes them is the caller's
// to say: a read of our end lasts until the other is closed.
func Terminal(t testing.TB) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	var n int
	conn, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ioctl error
	if err := conn.Control(func(fd uintptr) {
		if ioctl = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); ioctl == nil {
			n, ioctl = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); err != nil || ioctl != nil {
		t.Skipf("no pseudo-terminal: %v %v", err, ioctl)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	return ours, theirs
}
