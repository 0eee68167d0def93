//go:build unix

package store

import (
	"os"

	"golang.org/x/sys/unix"
)

func readableByOthers(fi os.FileInfo) bool { return fi.Mode().Perm()&0o077 != 0 }

// notWritable is why a file cannot be written, as far as the system tells without
// opening it: an open file that is closed again would drop the locks that this
// process has on it.
func notWritable(path string) error { return unix.Access(path, unix.W_OK) }

// notReadable is why a file cannot be read, told in the same way.
func notReadable(path string) error { return unix.Access(path, unix.R_OK) }
