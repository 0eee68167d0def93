package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

func nestingHost(t *testing.T) Host {
	t.Helper()
	h, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if h.cgroup == "" {
		t.Skipf("no control groups: %s", h.Cgroup.Why)
	}
	if os.Getuid() != 0 {
		t.Skip("only root may make groups where it was not given leave to")
	}
	return h
}

// Where nothing is confined, root can put what it starts into groups of its own. They
// are beneath the command's and end with it, and so does what was put there and shows
// neither a marker nor the command's session.
func TestGroupsThatACommandMakesEndWithIt(t *testing.T) {
	h := nestingHost(t)
	for _, p := range []Profile{{ForceFloor: true}, {Mode: FullAccess}} {
		t.Run(string(p.Mode), func(t *testing.T) {
			p.Workspace = realTempDir(t)
			r, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", `
				own="$GROUPS_AT/$(sed -n 's,^0::.*/,,p' /proc/self/cgroup)"
				mkdir "$own/a" "$own/a/b" || exit 1
				echo "$own"
				env -i PATH="$PATH" setsid sleep 300 > /dev/null 2>&1 &
				echo $! > "$own/a/b/cgroup.procs" || exit 2
				awk '{ print $22 }' /proc/$!/stat
				echo $!`}, Env: []string{"GROUPS_AT=" + h.cgroup}}, p)
			if err != nil || !r.Success() {
				t.Fatalf("%+v, %v", r, err)
			}
			var own string
			var left seen
			if _, err := fmt.Sscanf(r.Stdout.String(), "%s\n%d\n%d", &own, &left.start, &left.pid); err != nil {
				t.Fatalf("%q: %v", r.Stdout, err)
			}
			if !r.Leftover {
				t.Error("nothing is said to be left of it")
			}
			if left.lives() {
				t.Error("a process in a group of the command's own outlives it")
				left.end()
			}
			if _, err := os.Stat(own); err == nil {
				t.Errorf("%s is still there", own)
			}
		})
	}
}

func TestNestedGroupsOfADeadHostAreSwept(t *testing.T) {
	h := nestingHost(t)
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(h.cgroup, fmt.Sprintf("%s%s-%d-test", cgroupPrefix, pidNamespace(), gone.Process.Pid))
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "c"), 0o755); err != nil {
		t.Fatal(err)
	}
	sweepCgroups(h.cgroup)
	if _, err := os.Stat(dir); err == nil {
		t.Error("the groups in it keep it from being removed")
	}
}

func TestASweepWaitsForWhatIsDying(t *testing.T) {
	h := nestingHost(t)
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(h.cgroup, fmt.Sprintf("%s%s-%d-test", cgroupPrefix, pidNamespace(), gone.Process.Pid))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// Its memory takes a moment to be given back, and it is in the group until then.
	hog := exec.Command(self(t), "hog", "400")
	out, err := hog.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hog.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = hog.Process.Kill()
		_ = hog.Wait()
	}()
	if err := os.WriteFile(filepath.Join(dir, procsFile), []byte(strconv.Itoa(hog.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	sweepCgroups(h.cgroup)
	if _, err := os.Stat(dir); err == nil {
		t.Error("the group of a dead host is still there")
	}
}

func TestAGroupThatCannotBeRemovedYetIsTriedAgain(t *testing.T) {
	parent := t.TempDir() // a plain directory: nothing in it can be killed
	stuck, err := newPlainGroup(parent)
	if err != nil {
		t.Fatal(err)
	}
	busy := filepath.Join(stuck.dir, "busy")
	if err := os.WriteFile(busy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stuck.remove()
	if _, err := os.Stat(stuck.dir); err != nil {
		t.Fatalf("it was not to be removed: %v", err)
	}
	for _, name := range []string{busy, filepath.Join(stuck.dir, "cgroup.kill"), stuck.procs.Name()} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	next, err := newPlainGroup(parent)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(next.procs.Name()); err != nil {
		t.Fatal(err)
	}
	next.remove()
	if left, _ := os.ReadDir(parent); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// newPlainGroup is a directory in the place of a control group.
func newPlainGroup(parent string) (*cgroup, error) {
	dir, err := os.MkdirTemp(parent, cgroupPrefix)
	if err != nil {
		return nil, err
	}
	procs, err := os.Create(filepath.Join(dir, procsFile))
	return &cgroup{dir: dir, procs: procs}, err
}
