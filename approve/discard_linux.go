package approve

import "golang.org/x/sys/unix"

// discardInput drops what was typed and not read, lines that were not finished
// included. It reports false where there is no terminal.
func discardInput(fd uintptr) bool {
	return unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCIFLUSH) == nil
}
