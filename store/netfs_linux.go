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
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		return "smb"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.FUSE_SUPER_MAGIC:
		return "fuse"
	}
	return ""
}
