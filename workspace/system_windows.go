package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/windows"
)

const openNonblock = 0

func isLink(err error) bool { return errors.Is(err, syscall.ELOOP) }

func isNotDir(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, windows.ERROR_DIRECTORY)
}

// names is how many names the file has.
func names(f *os.File, _ fs.FileInfo) int {
	conn, err := f.SyscallConn()
	if err != nil {
		return 1
	}
	n := 1
	_ = conn.Control(func(h uintptr) {
		var info windows.ByHandleFileInformation
		if windows.GetFileInformationByHandle(windows.Handle(h), &info) == nil {
			n = int(info.NumberOfLinks)
		}
	})
	return n
}

// keepOwner: a file made in a directory inherits its access list there.
func keepOwner(*os.File, fs.FileInfo) {}

// syncDir: NTFS journals names itself, and a directory handle cannot be flushed.
func syncDir(*os.Root) error { return nil }

// longNames spells out the short names (GIT~1) that FAT and NTFS give to files,
// so that rules are compared with the real one.
func (d *directory) longNames(real string) (string, error) {
	if !strings.Contains(real, "~") {
		return real, nil
	}
	long, err := filepath.EvalSymlinks(filepath.Join(d.path, filepath.FromSlash(real)))
	if err != nil {
		return "", &movedError{path: real}
	}
	rel, ok := d.relative(long)
	if !ok {
		return "", &PathError{Path: real, Reason: "a link on it leads out of the workspace root", Escapes: true}
	}
	return rel, nil
}
