package sandbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize is four times what Linux gives a pipe: a command that prints much then
// waits less for us, and we less for it.
const pipeSize = 256 << 10

// widenPipe gives a pipe more room, where the user may have it.
func widenPipe(f *os.File) {
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
}
