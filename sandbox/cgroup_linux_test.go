package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// delegated makes a control group to be named in profiles, and removes it.
func delegated(t *testing.T) string {
	t.Helper()
	h := probed()
	if !h.Cgroup.Works {
		t.Skipf("no control group on this host: %s", h.Cgroup.Why)
	}
	dir := filepath.Join(h.cgroup, "delegated-"+filepath.Base(t.TempDir())+strings.TrimPrefix(newMarker(), MarkerEnv+"="))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Rmdir(dir); err != nil {
			t.Errorf("a group was left in it: %v", err)
		}
	})
	return dir
}

func TestCommandsGetTheirGroupInTheOneThatIsNamed(t *testing.T) {
	dir := delegated(t)
	for _, rung := range append([]Rung{RungFloor, RungNone}, linuxRungs...) {
		t.Run(string(rung), func(t *testing.T) {
			p := forced(Profile{Workspace: realTempDir(t), Cgroup: dir}, rung)
			if rung == RungNone {
				p.Mode = FullAccess
			} else {
				offered(t, rung, Profile{})
			}
			r := run(t, p, "cat", "/proc/self/cgroup")
			if !r.Success() || !strings.Contains(r.Text(0), "/"+filepath.Base(dir)+"/"+cgroupPrefix) {
				t.Errorf("the group is\n%s", r.Text(0))
			}
			if des, err := os.ReadDir(dir); err != nil {
				t.Error(err)
			} else {
				for _, d := range des {
					if d.IsDir() {
						t.Errorf("%s was left behind", d.Name())
					}
				}
			}
		})
	}
}

func TestANamedGroupThatCannotBeUsedRefusesTheCommand(t *testing.T) {
	plain := t.TempDir()
	ws := realTempDir(t)
	for name, dir := range map[string]string{
		"not there": filepath.Join(plain, "gone"), "a plain directory": plain, "a file": "/etc/passwd", "not absolute": "group",
	} {
		for _, rung := range append([]Rung{RungFloor}, linuxRungs...) {
			t.Run(name+"/"+string(rung), func(t *testing.T) {
				offered(t, rung, Profile{})
				_, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", "echo x > ran"}}, forced(Profile{Workspace: ws, Cgroup: dir}, rung))
				if !errors.Is(err, ErrInvalid) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
	for _, dir := range []string{plain, ws} {
		if des, _ := os.ReadDir(dir); len(des) != 0 {
			t.Errorf("left behind in %s: %v", dir, des)
		}
	}
}

// withMemory hands the memory controller on to the groups in dir, or skips.
func withMemory(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
		t.Skipf("the group of this process hands on no memory controller: %v", err)
	}
}

func TestTheKernelHoldsTheMemoryOfAGroup(t *testing.T) {
	dir := delegated(t)
	withMemory(t, dir)
	exe := self(t)
	t.Run("no sampler looks on", func(t *testing.T) {
		g, err := newCgroup(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer g.remove()
		if g.limitMemory(64 << 20); !g.holdsMemory || g.overMemory() {
			t.Fatalf("holds %v, over %v", g.holdsMemory, g.overMemory())
		}
		c := exec.Command("sh", "-c", "read go; "+exe+" hog 300")
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if err := g.add(c.Process.Pid); err != nil {
			t.Fatal(err)
		}
		_, _ = in.Write([]byte("go\n"))
		if err := c.Wait(); err == nil || c.ProcessState.Success() {
			t.Error("it was not ended")
		}
		if !g.overMemory() {
			t.Error("that was not for its memory")
		}
	})
	for _, rung := range append([]Rung{RungFloor}, linuxRungs...) {
		for name, argv := range map[string][]string{
			"at once":    {exe, "hog", "300"},
			"by a child": {"sh", "-c", exe + " hog 300 & wait; sleep 30"},
		} {
			t.Run(string(rung)+"/"+name, func(t *testing.T) {
				offered(t, rung, Profile{})
				r := run(t, forced(Profile{Workspace: realTempDir(t), Cgroup: dir, Limits: Limits{Memory: 64 << 20}}, rung), argv...)
				if r.Cap != CapMemory || r.Exit != -1 || r.Success() || strings.Contains(r.Text(0), "full") {
					t.Errorf("got %+v", r)
				}
			})
		}
		t.Run(string(rung)+"/within", func(t *testing.T) {
			offered(t, rung, Profile{})
			r := run(t, forced(Profile{Workspace: realTempDir(t), Cgroup: dir, Limits: Limits{Memory: 256 << 20}}, rung), "sh", "-c", "kill -9 $$")
			if r.Cap != "" || r.Signal != "SIGKILL" {
				t.Errorf("got %+v", r)
			}
		})
	}
}
