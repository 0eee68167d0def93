package sandbox

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A control group of its own makes the kill of a command complete: a process
// can leave its session and its parents, but not its group. No controller is
// needed for that. The group that they are made in is never changed; where it hands on
// the memory controller, that holds the ceiling too.

const cgroupPrefix = "harness-"

const procsFile = "cgroup.procs"

// maxPid is the highest process id that Linux gives out.
const maxPid = 1 << 22

// cgroup is the group of one command.
type cgroup struct {
	dir string
	// procs is its list of members: open from the beginning, because a thread
	// that is restricted may go on using it and could not open it.
	procs *os.File
	// holdsMemory: the kernel ends the whole group when it would need more than its
	// ceiling.
	holdsMemory bool
}

// groupParent is the directory in which the group of a command is made; empty where none
// can be had.
func (s *spec) groupParent() string { return cmp.Or(s.profile.Cgroup, s.host.cgroup) }

// makeGroup makes the group of a command. It fails only where the profile names the
// parent; elsewhere the command goes without.
func (t *tree) makeGroup(s *spec) error {
	parent := s.groupParent()
	if parent == "" {
		return nil
	}
	named := s.profile.Cgroup != ""
	if named {
		sweepOnce(parent)
	}
	g, err := newCgroup(parent)
	if err == nil && named {
		if err = g.killable(); err != nil { // the host's own was probed
			g.remove()
		}
	}
	switch {
	case err == nil:
		g.limitMemory(s.profile.Limits.Memory)
		t.group = g
	case named:
		return &Error{Kind: ErrInvalid, Op: "make control group", Program: first(s.argv), Rung: s.rung, Err: err}
	}
	return nil
}

// newCgroup makes a group beneath parent, or says why it cannot.
func newCgroup(parent string) (*cgroup, error) {
	dir := filepath.Join(parent, fmt.Sprintf("%s%s-%d-%s", cgroupPrefix, pidNamespace(), os.Getpid(), rand.Text()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	procs := filepath.Join(dir, procsFile)
	// Not by package os, which would have the poller watch it.
	fd, err := unix.Open(procs, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = unix.Rmdir(dir)
		return nil, &os.PathError{Op: "open", Path: procs, Err: err}
	}
	return &cgroup{dir: dir, procs: os.NewFile(uintptr(fd), procs)}, nil
}

// add moves a process that has not yet run into the group.
func (g *cgroup) add(pid int) error {
	_, err := g.procs.WriteString(strconv.Itoa(pid))
	return err
}

// killable reports whether the kernel can end a whole group at once.
func (g *cgroup) killable() error {
	if _, err := os.Stat(filepath.Join(g.dir, "cgroup.kill")); err != nil {
		return fmt.Errorf("this kernel cannot kill a group: %w", err)
	}
	return nil
}

// limitMemory has the kernel hold the ceiling, where the group has the controller. What
// samples the tree holds it in any case.
func (g *cgroup) limitMemory(most uint64) {
	if most == 0 {
		return
	}
	set := func(file, value string) error {
		return os.WriteFile(filepath.Join(g.dir, file), []byte(value), 0)
	}
	if set("memory.oom.group", "1") != nil || set("memory.max", strconv.FormatUint(most, 10)) != nil {
		return
	}
	_ = set("memory.swap.max", "0") // there may be no swap
	g.holdsMemory = true
}

// overMemory reports whether the kernel has ended the group for its ceiling.
func (g *cgroup) overMemory() bool {
	if !g.holdsMemory {
		return false
	}
	n, _ := g.counter("memory.events", "oom_kill")
	return n > 0
}

// counter is one line of a file of NAME value lines.
func (g *cgroup) counter(file, name string) (int64, bool) {
	b, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// pids are the living processes of the group and of the groups in it, which root can
// make where nothing is confined.
func (g *cgroup) pids() []int {
	out, _ := g.members()
	for _, dir := range nested(g.dir) {
		if b, err := os.ReadFile(filepath.Join(dir, procsFile)); err == nil {
			out = append(out, listed(b)...)
		}
	}
	return out
}

// members are the living processes of the group itself. It opens nothing.
func (g *cgroup) members() ([]int, error) {
	b, err := io.ReadAll(io.NewSectionReader(g.procs, 0, math.MaxInt64))
	if err != nil {
		return nil, err
	}
	return listed(b), nil
}

func listed(b []byte) []int {
	var out []int
	for line := range bytes.Lines(b) {
		if pid, err := strconv.Atoi(string(bytes.TrimSpace(line))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// nested are the groups in a group, those in others first.
func nested(dir string) []string {
	if fi, err := os.Lstat(dir); err == nil && fi.Sys().(*syscall.Stat_t).Nlink == 2 {
		return nil // the kernel counts them
	}
	var out []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != dir {
			out = append(out, path)
		}
		return nil
	})
	slices.Reverse(out)
	return out
}

// cpu is the processor time of everything that was ever in the group. Every kernel
// with the second version counts it, without a controller.
func (g *cgroup) cpu() time.Duration {
	n, _ := g.counter("cpu.stat", "usage_usec")
	return time.Duration(n) * time.Microsecond
}

func (g *cgroup) kill() {
	_ = os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0)
}

// dying is how long killed processes are waited for until they have left their group.
const dying = time.Second

// remove takes the group away once it is empty. Where something in it does not die, it is
// tried again when the next group is removed, and by the sweep of a later host process.
func (g *cgroup) remove() {
	_ = g.procs.Close()
	stays := !g.vanish(time.Now().Add(dying))
	lingering.Lock()
	defer lingering.Unlock()
	lingering.groups = slices.DeleteFunc(lingering.groups, func(old *cgroup) bool { return old.vanish(time.Time{}) })
	if stays {
		lingering.groups = append(lingering.groups, g)
	}
}

// lingering are the groups of ended commands that could not be removed yet.
var lingering struct {
	sync.Mutex
	groups []*cgroup
}

// vanish ends what is in the group and takes it away, if it can before that time. Killed
// processes leave it when the last of their threads is gone, which may be a moment after
// the signal.
func (g *cgroup) vanish(until time.Time) bool {
	for {
		if err := g.rmdir(); err == nil || errors.Is(err, unix.ENOENT) {
			return true
		}
		g.kill()
		if time.Now().After(until) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (g *cgroup) rmdir() error {
	err := unix.Rmdir(g.dir)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return err
	}
	for _, dir := range nested(g.dir) {
		_ = unix.Rmdir(dir)
	}
	return unix.Rmdir(g.dir)
}

// ownCgroup is the directory of the group that this process is in.
func ownCgroup() (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	path := ""
	for line := range strings.Lines(string(b)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = p
		}
	}
	if path == "" {
		return "", errors.New("this process is in no group of the second version")
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		root, point, ok := cgroupMount(lines.Text())
		if !ok {
			continue
		}
		if root == "/" {
			return filepath.Join(point, path), nil
		}
		if rest, ok := strings.CutPrefix(path, root); ok {
			return filepath.Join(point, rest), nil
		}
	}
	return "", errors.New("no mount of the second version shows this process's group")
}

// cgroupMount reads one line of mountinfo: the root of the mount within its
// file system and where it is mounted.
func cgroupMount(line string) (root, point string, ok bool) {
	before, after, found := strings.Cut(line, " - ")
	f := strings.Fields(before)
	if !found || len(f) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
		return "", "", false
	}
	return f[3], f[4], true
}

// pidNamespace names the space in which a process id means something: another
// one may share the directory of the groups. A process never leaves its own.
var pidNamespace = sync.OnceValue(func() string {
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "0"
	}
	return strings.Trim(strings.TrimPrefix(link, "pid:"), "[]")
})

// swept are the parents that were swept, each once by this process.
var swept sync.Map

func sweepOnce(parent string) {
	if _, done := swept.LoadOrStore(parent, true); !done {
		sweepCgroups(parent)
	}
}

// sweepCgroups ends and removes the groups of host processes that are dead.
func sweepCgroups(parent string) {
	des, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	var dead []*cgroup
	for _, d := range des {
		if deadHost(d.Name()) {
			g := &cgroup{dir: filepath.Join(parent, d.Name())}
			g.kill()
			dead = append(dead, g)
		}
	}
	until := time.Now().Add(dying)
	for _, g := range dead {
		g.vanish(until)
	}
}

// deadHost reports whether a group has the name of one whose host process is dead. Where
// the id was given to another process meanwhile, that one's end is waited for.
func deadHost(group string) bool {
	rest, ours := strings.CutPrefix(group, cgroupPrefix+pidNamespace()+"-")
	if !ours {
		return false
	}
	text, _, _ := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(text)
	return err == nil && pid > 0 && pid <= maxPid && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
