package store

import "golang.org/x/sys/unix"

// networkFileSystem names the network file system that a path is on, or is
// empty. Such a file system may not keep the promises of locks and shared
// memory that a log of writes and a lease need.
func networkFileSystem(path string) string {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return ""
	}
	switch name := unix.ByteSliceToString(st.Fstypename[:]); name {
	case "nfs", "smbfs", "afpfs", "webdav", "macfuse", "osxfuse":
		return name
	}
	return ""
}
