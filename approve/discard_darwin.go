package approve

import "golang.org/x/sys/unix"

// discardInput drops what was typed and not read, lines that were not finished
// included. It reports false where there is no terminal.
func discardInput(fd uintptr) bool {
	const fread = 1 // FREAD of sys/fcntl.h: the input only
	return unix.IoctlSetPointerInt(int(fd), unix.TIOCFLUSH, fread) == nil
}
