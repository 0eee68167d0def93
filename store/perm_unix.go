//go:build unix

package store

import "os"

func readableByOthers(fi os.FileInfo) bool { return fi.Mode().Perm()&0o077 != 0 }
