package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a program and what it started. The members are found in three ways:
// the process group that the program leads, the parent links, and the marker
// variable, which survives a new session and the death of the parents.
type tree struct {
	pid    int
	marker string
	born   time.Time
	group  *cgroup // nil where none could be made
	sure   bool    // no process can leave the group
	// helpers are members that are the rung's own and not the command's: they count
	// neither for its ceilings on memory and processes nor as something left of it.
	helpers []int

	mu     sync.Mutex
	reaped bool // pid may belong to a stranger
}

// rescan bounds the rounds of a kill: each round can only find children that
// were forked during the one before.
const rescan = 16

func (t *tree) markReaped() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reaped = true
}

// kill ends the program and all that can be found of its tree.
func (t *tree) kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.reaped {
		_ = unix.Kill(-t.pid, unix.SIGKILL)
		_ = unix.Kill(t.pid, unix.SIGKILL)
	}
	if t.group != nil {
		t.group.kill()
	}
	t.killMarked()
}

// terminate asks the group that the program leads to end.
func (t *tree) terminate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.reaped {
		_ = unix.Kill(-t.pid, unix.SIGTERM)
	}
}

// terminateRest asks every member but the first to end: where a helper leads
// the tree, its own end would be that of all others, without their having been
// asked.
func (t *tree) terminateRest() {
	for _, pid := range t.pids() {
		if pid == t.pid {
			continue
		}
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			if t.carriesMarker(pid) {
				_ = unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0)
			}
			_ = unix.Close(fd)
		}
	}
}

// release gives back what the tree holds once nothing of it is left.
func (t *tree) release() {
	if t.group != nil {
		t.group.remove()
	}
}

// alone reports whether it is sure that nothing is left but the program, which
// has ended. It opens nothing.
func (t *tree) alone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.group == nil || !t.sure {
		return false
	}
	members, err := t.group.members()
	return err == nil && !slices.ContainsFunc(members, t.other)
}

// killRest ends what is left when the program has ended but is not yet reaped,
// and reports whether there was anything.
func (t *tree) killRest() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.group != nil {
		others := slices.ContainsFunc(t.group.pids(), t.other)
		if others {
			t.group.kill()
		}
		if others || t.sure {
			return others
		}
		// Where nothing is confined a process may have moved itself to another
		// group; the search below is for those.
	}
	left := t.groupLives()
	_ = unix.Kill(-t.pid, unix.SIGKILL)
	return t.killMarked() || left
}

// other reports whether a member is neither the program nor a helper. Helpers may
// still be on their way out when the program that they served has ended.
func (t *tree) other(pid int) bool { return pid != t.pid && !slices.Contains(t.helpers, pid) }

// groupLives reports whether a process other than the leader is in the group.
// It is asked only while the leader is a zombie.
func (t *tree) groupLives() bool {
	for _, p := range t.newer() {
		if st, ok := readStat(p); ok && st.pgrp == t.pid && st.pid != t.pid && st.state != 'Z' {
			return true
		}
	}
	return false
}

func (t *tree) killMarked() bool {
	found := false
	for range rescan {
		live := t.marked()
		if len(live) == 0 {
			return found
		}
		for _, pid := range live {
			found = found || t.other(pid)
			t.killOne(pid)
		}
	}
	return found
}

// killOne signals a process through a descriptor, and only after it was seen
// again to be ours: between the scan and the signal its id may have passed on.
func (t *tree) killOne(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if t.carriesMarker(pid) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

func (t *tree) carriesMarker(pid int) bool {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if string(kv) == t.marker {
			return true
		}
	}
	return false
}

// marked are the living processes, other than the program, that carry the
// marker. A zombie has no environment left and is not among them.
func (t *tree) marked() []int {
	var out []int
	for _, pid := range t.newer() {
		if pid != t.pid && t.carriesMarker(pid) {
			out = append(out, pid)
		}
	}
	return out
}

// newer are the processes that may have been born after the program. Ids grow
// until they wrap, so those below ours are looked at only when a wrap is
// possible.
func (t *tree) newer() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	floor := t.pid
	if time.Since(t.born) > time.Second || lastPid() < t.pid {
		floor = 0
	}
	var out []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil && pid >= floor && pid > 1 {
			out = append(out, pid)
		}
	}
	return out
}

// lastPid is the id that was given out last, 0 when it cannot be read.
func lastPid() int {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(f[len(f)-1])
	return n
}

// pids are the living members, the program first.
func (t *tree) pids() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reaped {
		return nil
	}
	rest := t.marked()
	if t.group != nil {
		rest = slices.DeleteFunc(t.group.pids(), func(pid int) bool { return pid == t.pid })
	}
	return append([]int{t.pid}, rest...)
}

// stat is what /proc says about a process.
type stat struct {
	pid, ppid, pgrp, session     int
	state                        byte
	utime, stime, cutime, cstime uint64 // clock ticks
	start                        uint64 // clock ticks since the machine started
	rss                          uint64 // pages
}

func readStat(pid int) (stat, bool) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return stat{}, false
	}
	// The name is in parentheses and may hold anything, a parenthesis included.
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return stat{}, false
	}
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 22 {
		return stat{}, false
	}
	num := func(i int) uint64 { n, _ := strconv.ParseUint(f[i], 10, 64); return n }
	return stat{
		pid: pid, state: f[0][0], ppid: int(num(1)), pgrp: int(num(2)), session: int(num(3)),
		utime: num(11), stime: num(12), cutime: num(13), cstime: num(14), start: num(19), rss: num(21),
	}, true
}
