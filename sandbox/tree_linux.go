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

// kill ends the program and all that can be found of its tree, and reports whether
// anything besides the program was found.
func (t *tree) kill() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.reaped {
		_ = unix.Kill(-t.pid, unix.SIGKILL)
		_ = unix.Kill(t.pid, unix.SIGKILL)
	}
	others := false
	if t.group != nil {
		others = slices.ContainsFunc(t.group.pids(), t.other)
		t.group.kill()
	}
	return t.killMarked() || others
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

// overMemory reports whether the kernel has ended the tree for its ceiling on memory.
func (t *tree) overMemory() bool { return t.group != nil && t.group.overMemory() }

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
	left := false
	if !t.reaped {
		left = t.groupLives()
		_ = unix.Kill(-t.pid, unix.SIGKILL)
	}
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

// carriesMarker reports whether a process was started with our marker. One that is
// just replacing its program shows no environment for that moment: it is looked at
// again until it has one.
func (t *tree) carriesMarker(pid int) bool {
	if t.marker == "" {
		return false // what carries nothing is not ours: an environment ends with an empty entry
	}
	name := filepath.Join("/proc", strconv.Itoa(pid), "environ")
	last, same := "", 0
	for range maxReplacing {
		env, err := readAtOnce(name)
		if err != nil {
			return false
		}
		if len(env) > 0 {
			return holdsEntry(env, t.marker)
		}
		place, alive := environPlace(pid)
		if !alive {
			return false
		}
		// A process that was started with nothing shows the same empty place each time.
		// One between two programs has none, or one that is not filled in yet.
		if place != "" && place == last {
			same++
		} else {
			last, same = place, 0
		}
		if same == sameEmpty {
			return false
		}
		time.Sleep(replacingPause)
	}
	return false
}

// environSize is how much of an environment is read by one call, the most that the
// kernel takes for one entry being 128 KiB.
const environSize = 256 << 10

var environBuffers = sync.Pool{New: func() any { return new([environSize]byte) }}

// readAtOnce reads a file of /proc by one call. A second one would end early if the
// process had replaced its program meanwhile, and the first part would look whole.
func readAtOnce(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := environBuffers.Get().(*[environSize]byte)
	defer environBuffers.Put(buf)
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return nil, err
	}
	b := bytes.Clone(buf[:n])
	for n > 0 && len(b)%environSize == 0 {
		if n, err = unix.Read(fd, buf[:]); err != nil {
			break
		}
		b = append(b, buf[:n]...)
	}
	return b, nil
}

func holdsEntry(env []byte, entry string) bool {
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if string(kv) == entry {
			return true
		}
	}
	return false
}

const (
	// maxReplacing and replacingPause bound the wait for a process to have replaced its
	// program. It takes the kernel some 0.1 ms; on a machine that is short of processor
	// time the process may wait for its turn in the midst of it.
	maxReplacing   = 1000
	replacingPause = 200 * time.Microsecond
	// sameEmpty is how often an empty environment must be seen again to be believed.
	sameEmpty = 4
)

// Flags of a process in its stat line, from linux/sched.h.
const (
	flagExiting = 0x4
	flagKernel  = 0x200000
)

// environPlace says where in its memory a process without an environment would have
// it, "" while it has no place for it. A zombie, a thread of the kernel and a process
// on its way out are not alive.
func environPlace(pid int) (place string, alive bool) {
	f := statFields(pid)
	if len(f) < 49 || f[0] == "Z" || f[0] == "X" {
		return "", false
	}
	flags, err := strconv.ParseUint(f[6], 10, 64)
	if err != nil || flags&(flagExiting|flagKernel) != 0 {
		return "", false
	}
	if f[48] == "0" {
		return "", true
	}
	return f[47] + "-" + f[48], true
}

// marked are the living processes, other than the program, that carry the
// marker. A zombie has no environment left and is not among them.
func (t *tree) marked() []int {
	var out []int
	for _, pid := range t.newer() {
		if pid == t.pid || !t.carriesMarker(pid) {
			continue
		}
		if _, ok := readStat(pid); ok { // and not a thread of one
			out = append(out, pid)
		}
	}
	return out
}

// newer are the ids of the processes that may have been born after the program. Ids
// grow until they wrap, so those below ours are looked at only when a wrap is possible.
// When few were given out since, each of those is returned, whatever it is: to look at
// an id that nobody has, or a thread, is cheaper than to read all of /proc.
func (t *tree) newer() []int {
	floor := 0
	if last := lastPid(); last >= t.pid && time.Since(t.born) <= time.Second {
		if last-t.pid <= fewPids {
			out := make([]int, 0, last-t.pid+1)
			for pid := t.pid; pid <= last; pid++ {
				out = append(out, pid)
			}
			return out
		}
		floor = t.pid
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var out []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil && pid >= floor && pid > 1 {
			out = append(out, pid)
		}
	}
	return out
}

// fewPids is how many ids are looked at one by one. Reading /proc costs as much as
// some hundred of them.
const fewPids = 64

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

// statFields are the fields of the stat line from the state on, nil when the
// process is gone: field n of proc(5) is at n-3.
func statFields(pid int) []string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	// The name is in parentheses and may hold anything, a parenthesis included.
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return nil
	}
	return strings.Fields(string(b[i+1:]))
}

// readStat is what /proc says about a process. A thread has such a line as well,
// although /proc does not list it; it has no signal for its end.
func readStat(pid int) (stat, bool) {
	f := statFields(pid)
	if len(f) < 36 || f[35] == "-1" {
		return stat{}, false
	}
	num := func(i int) uint64 { n, _ := strconv.ParseUint(f[i], 10, 64); return n }
	return stat{
		pid: pid, state: f[0][0], ppid: int(num(1)), pgrp: int(num(2)), session: int(num(3)),
		utime: num(11), stime: num(12), cutime: num(13), cstime: num(14), start: num(19), rss: num(21),
	}, true
}
