package shim

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// bindAll makes each directory a mount of its own, so that it can keep what the
// rest loses.
func bindAll(dirs []string) error {
	for _, d := range dirs {
		if err := unix.Mount(d, d, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
	}
	return nil
}

// closeAll makes everything that is mounted read-only, and takes its device nodes
// their meaning: whoever may make or find one reaches no device through it.
func closeAll() error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV}
	return unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &attr)
}

// setReadOnly switches a mount, and with deep all that is mounted beneath it.
func setReadOnly(path string, on, deep bool) error {
	var attr unix.MountAttr
	flags := uint(0)
	if on {
		attr.Attr_set = unix.MOUNT_ATTR_RDONLY
	} else {
		attr.Attr_clr = unix.MOUNT_ATTR_RDONLY
	}
	if deep {
		flags |= unix.AT_RECURSIVE
	}
	return unix.MountSetattr(unix.AT_FDCWD, path, flags, &attr)
}

// readOnlyMounts are the mounts at or beneath the directories that are
// read-only already. They were made so by somebody else, and stay so.
func readOnlyMounts(dirs []string) ([]string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, unix.EIO
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 6 || !hasOption(f[5], "ro") {
			continue
		}
		point := unescape(f[4])
		for _, d := range dirs {
			if point == d || strings.HasPrefix(point, strings.TrimSuffix(d, "/")+"/") {
				out = append(out, point)
				break
			}
		}
	}
	return out, nil
}

func hasOption(list, want string) bool {
	for o := range strings.SplitSeq(list, ",") {
		if o == want {
			return true
		}
	}
	return false
}

// unescape undoes the kernel's octal escapes of white space in a path.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// reopen makes the granted directories writable again, with what is mounted
// beneath them, except the mounts of locked. In a user namespace the kernel
// refuses to open those, and then only the directory itself is opened.
func reopen(o *Order, locked []string) error {
	for _, d := range o.Writable {
		if setReadOnly(d, false, true) == nil {
			continue
		}
		if err := setReadOnly(d, false, false); err != nil && !contains(locked, d) {
			return err
		}
	}
	for _, d := range locked {
		if err := setReadOnly(d, true, false); err != nil {
			return err
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// hide covers each path with something empty that nobody may open. The covers
// lie in a file system of their own, which is detached again: only the covers
// remain.
func hide(o *Order) error {
	if len(o.Mask) == 0 {
		return nil
	}
	place := o.coverPlace()
	if err := unix.Mount("tmpfs", place, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=700,size=64k"); err != nil {
		return err
	}
	file, dir := filepath.Join(place, "file"), filepath.Join(place, "dir")
	if err := unix.Mkdir(dir, 0); err != nil {
		return err
	}
	fd, err := unix.Open(file, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_ = unix.Close(fd)
	for _, path := range o.Mask {
		fi, err := os.Lstat(path)
		if os.IsNotExist(err) {
			continue // went away since it was looked at
		}
		if err != nil {
			return unix.EACCES
		}
		cover := file
		if fi.IsDir() {
			cover = dir
		}
		if err := unix.Mount(cover, path, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		if err := setReadOnly(path, true, false); err != nil {
			return err
		}
	}
	return unix.Unmount(place, unix.MNT_DETACH)
}

// coverPlace is where the covers are made: the temporary directory, unless it holds
// something to hide, which would then be out of sight while it is to be covered.
// The other place is in the new /dev, which has nothing of the host's.
func (o *Order) coverPlace() string {
	for _, path := range o.Mask {
		if path == o.Temp || strings.HasPrefix(path, strings.TrimSuffix(o.Temp, "/")+"/") {
			return "/dev/pts"
		}
	}
	return o.Temp
}

// protect keeps paths inside the writable directories read-only.
func protect(paths []string) error {
	for _, p := range paths {
		if _, err := os.Lstat(p); os.IsNotExist(err) {
			continue
		}
		if err := unix.Mount(p, p, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
		if err := setReadOnly(p, true, true); err != nil {
			return err
		}
	}
	return nil
}

// loopback brings the loopback device of a new network namespace up, so that a
// project's own servers work in it.
func loopback(own bool) error {
	if !own {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// listen opens a socket on the private loopback. It belongs to this namespace
// whoever accepts on it.
func listen(port uint16) (int, error) {
	if port == 0 {
		return -1, nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return -1, err
	}
	return fd, unix.Listen(fd, 128)
}
