package approve

import "golang.org/x/sys/windows"

// discardInput drops what was typed and not read. It reports false where there is no
// console.
func discardInput(fd uintptr) bool {
	return windows.FlushConsoleInputBuffer(windows.Handle(fd)) == nil
}
