package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// sweepMost bounds how many directories one start removes, so that a long
// series of killed hosts does not make the next one wait.
const sweepMost = 256

// tempOwner names this process: its id, and the space in which the id means
// something, since containers may share a directory.
func tempOwner() string {
	ns, _ := strconv.ParseUint(pidNamespace(), 10, 64)
	return strconv.Itoa(os.Getpid()) + "." + strconv.FormatUint(ns, 36)
}

// sweepTemp removes the temporary directories of host processes that are dead:
// those of this user, named by a process of this space that is gone.
func sweepTemp(dir string) {
	des, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	removed := 0
	for _, d := range des {
		if removed == sweepMost {
			return
		}
		if abandoned(d) {
			removed++
			_ = removeTree(filepath.Join(dir, d.Name()))
		}
	}
}

func abandoned(d fs.DirEntry) bool {
	rest, ok := strings.CutPrefix(d.Name(), tempPrefix)
	if !ok || !d.IsDir() {
		return false
	}
	owner, _, ok := strings.Cut(rest, "-")
	text, space, dotted := strings.Cut(owner, ".")
	_, here, _ := strings.Cut(tempOwner(), ".")
	if !ok || !dotted || space != here {
		return false
	}
	pid, err := strconv.Atoi(text)
	if err != nil || pid <= 0 || pid > maxPid || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return false
	}
	fi, err := d.Info()
	if err != nil || fi.Mode().Perm() != 0o700 {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
