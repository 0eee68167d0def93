//go:build !unix

package store

import "os"

// readableByOthers is false where permission bits do not say who can read.
func readableByOthers(os.FileInfo) bool { return false }

// notWritable leaves it to the first write.
func notWritable(string) error { return nil }

// notReadable leaves it to the first read.
func notReadable(string) error { return nil }
