package shim

import (
	"golang.org/x/sys/unix"
)

// devices are what a command finds in /dev: what programs use without meaning the
// machine. Everything else of the host's, its disks first of all, is not there.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// device is one of them, as a mount that is not yet anywhere.
type device struct {
	name string
	fd   int
}

// takeDevices copies the mounts of the devices before the host's /dev is covered
// and before everything loses the use of device nodes.
func takeDevices() ([]device, error) {
	var out []device
	for _, name := range devices {
		fd, err := unix.OpenTree(unix.AT_FDCWD, "/dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, device{name, fd})
	}
	return out, nil
}

// mountDevices puts a small file system over /dev that holds the taken devices, an
// empty place for shared memory, and pseudo terminals of its own where the kernel
// gives them. It comes when nothing else of the mounts is still to be read-only.
func mountDevices(taken []device, shm bool) error {
	if err := unix.Mount("tmpfs", "/dev", "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=64k"); err != nil {
		return err
	}
	for _, d := range taken {
		path := "/dev/" + d.name
		fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o666)
		if err != nil {
			return err
		}
		_ = unix.Close(fd)
		if err := unix.MoveMount(d.fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return err
		}
		_ = unix.Close(d.fd)
	}
	for _, link := range [][2]string{
		{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"}, {"/proc/self/fd/1", "stdout"}, {"/proc/self/fd/2", "stderr"}, {"pts/ptmx", "ptmx"},
	} {
		if err := unix.Symlink(link[0], "/dev/"+link[1]); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/dev/shm", "/dev/pts"} {
		if err := unix.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	// Without terminals a command does as it does without /dev/ptmx.
	_ = unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
	if shm {
		if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
			return err
		}
	}
	return setReadOnly("/dev", true, false)
}
