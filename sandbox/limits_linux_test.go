package sandbox

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hogFixture takes so many MiB for good, and with a second argument lets a
// child of its own do so.
func hogFixture(args []string) int {
	n, _ := strconv.Atoi(args[0])
	b := make([]byte, n<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Println("full")
	time.Sleep(30 * time.Second)
	return int(b[0])
}

// burnFixture uses the processor for so many milliseconds.
func burnFixture(args []string) int {
	ms, _ := strconv.Atoi(args[0])
	var use unix.Rusage
	for use.Utime.Nano()+use.Stime.Nano() < int64(ms)*1e6 {
		_ = unix.Getrusage(unix.RUSAGE_SELF, &use)
	}
	return 0
}

// burnersFixture lets one child after the other use the processor and waits for
// none of them: they stay as zombies, or with "ignore" are reaped by the kernel and
// counted to nobody.
func burnersFixture(args []string) int {
	if args[0] == "ignore" {
		signal.Ignore(unix.SIGCHLD)
	}
	exe, err := os.Executable()
	if err != nil {
		return 1
	}
	for range 60 {
		if _, err := os.StartProcess(exe, []string{exe, "burn", "100"}, &os.ProcAttr{}); err != nil {
			return 1
		}
		time.Sleep(110 * time.Millisecond)
	}
	return 0
}

func TestCeilingsEndTheWholeTree(t *testing.T) {
	exe := self(t)
	for _, tc := range []struct {
		name   string
		limits Limits
		argv   []string
		want   Cap
	}{
		{"processor time of one process", Limits{CPU: 300 * time.Millisecond}, []string{"sh", "-c", "while :; do :; done"}, CapCPU},
		{"processor time shared by many", Limits{CPU: 300 * time.Millisecond}, []string{"sh", "-c", "for i in 1 2 3 4 5; do (while :; do :; done) & done; wait"}, CapCPU},
		{"processor time of children that ended", Limits{CPU: 300 * time.Millisecond}, []string{"sh", "-c", "while :; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done"}, CapCPU},
		{"processor time of zombies", Limits{CPU: 500 * time.Millisecond}, []string{exe, "burners", "keep"}, CapCPU},
		{"processor time of children that are counted to nobody", Limits{CPU: 500 * time.Millisecond}, []string{exe, "burners", "ignore"}, CapCPU},
		{"memory", Limits{Memory: 64 << 20}, []string{exe, "hog", "300"}, CapMemory},
		{"memory of a child", Limits{Memory: 64 << 20}, []string{"sh", "-c", exe + " hog 300 & wait"}, CapMemory},
		{"memory of a child in a new session", Limits{Memory: 64 << 20}, []string{"sh", "-c", "setsid " + exe + " hog 300 & wait; sleep 30"}, CapMemory},
		{"memory shared by many", Limits{Memory: 128 << 20}, []string{"sh", "-c", exe + " hog 60 & " + exe + " hog 60 & " + exe + " hog 60 & wait"}, CapMemory},
		{"processes", Limits{Processes: 10}, []string{"sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 30 & done; wait"}, CapProcesses},
		{"wall clock", Limits{Wall: 200 * time.Millisecond}, []string{"sh", "-c", "sleep 30 & sleep 30"}, CapWall},
	} {
		for _, how := range []string{"confined", "floor", "no control group"} {
			t.Run(tc.name+"/"+how, func(t *testing.T) {
				p := Profile{Workspace: realTempDir(t), Limits: tc.limits, ForceFloor: how == "floor"}
				h := fakeHost(t, func(h *Host) {
					if how == "no control group" {
						h.Cgroup, h.cgroup = Feature{Why: "left out"}, ""
					}
				})
				r, err := runOn(t, h, Cmd{Argv: tc.argv}, p)
				if err != nil || r.Cap != tc.want || r.Exit != -1 || r.Success() {
					t.Errorf("got %+v, %v; want the %s ceiling", r, err, tc.want)
				}
				if !r.Applied.InForce(tc.want) {
					t.Errorf("%s ended the command and is not listed in %v", tc.want, r.Applied.Caps)
				}
			})
		}
	}
}

// What a rung itself needs to hold its boundary does not count.
func TestTheCeilingOnProcessesIsForThoseOfTheCommand(t *testing.T) {
	for _, p := range everyRung(t, realTempDir(t)) {
		t.Run(string(p.only)+string(p.Mode), func(t *testing.T) {
			p.Limits.Processes = 2
			r, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", "sleep 0.3 & wait; echo ok"}}, p)
			if err != nil || !r.Success() || !r.Applied.InForce(CapProcesses) {
				t.Errorf("two processes of two: %+v, %v", r, err)
			}
			r, err = Run(t.Context(), Cmd{Argv: []string{"sh", "-c", "sleep 30 & sleep 30 & wait"}}, p)
			if err != nil || r.Cap != CapProcesses {
				t.Errorf("three processes of two: %+v, %v", r, err)
			}
		})
	}
}

// A child that has ended and that nobody waited for is nothing that still runs.
func TestADeadChildIsNoLeftover(t *testing.T) {
	for _, p := range everyRung(t, realTempDir(t)) {
		t.Run(string(p.only)+string(p.Mode), func(t *testing.T) {
			r, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", "sleep 0.1 & exec sleep 0.5"}}, p)
			if err != nil || !r.Success() || r.Leftover {
				t.Errorf("got %+v, %v; want no leftover", r, err)
			}
		})
	}
}

func TestWithoutACeilingNothingIsEnded(t *testing.T) {
	r := run(t, Profile{Workspace: t.TempDir(), Limits: Limits{CPU: time.Minute, Memory: 4 << 30, Processes: 1000, OpenFiles: 100, Wall: time.Minute}}, "sh", "-c", "sleep 0.2; echo ok")
	if !r.Success() || len(r.Applied.Caps) != 5 || len(r.Applied.Uncapped) != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestDescriptorsAreLimitedFromTheFirstInstruction(t *testing.T) {
	p := Profile{Workspace: t.TempDir(), Limits: Limits{OpenFiles: 64}}
	h, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !h.Stop.Works {
		t.Skipf("a child cannot be held before its start: %s", h.Stop.Why)
	}
	var wg sync.WaitGroup
	bad := make(chan string, 100)
	for range 4 {
		wg.Go(func() {
			for range 25 {
				// The limit is read in a child that was forked at once.
				r, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", "(ulimit -S -n) & (ulimit -H -n) & wait"}}, p)
				if err != nil {
					bad <- err.Error()
					return
				}
				f := strings.Fields(r.Stdout.String())
				if len(f) != 2 || min(f[0], f[1]) != "64" || max(f[0], f[1]) != "65" {
					bad <- fmt.Sprintf("limits %v %s", f, r.Stderr)
				}
			}
		})
	}
	wg.Wait()
	close(bad)
	for b := range bad {
		t.Error(b)
	}
}

func TestASignalThatIsNoCeilingIsNotCalledOne(t *testing.T) {
	r := run(t, Profile{Workspace: t.TempDir()}, "sh", "-c", "kill -XCPU $$")
	if r.Cap != "" || r.Signal != "SIGXCPU" {
		t.Errorf("got %+v, want SIGXCPU and no cap", r)
	}
}

// A process that leaves its session, loses its parent and clears its
// environment is in the control group still.
func TestAProcessThatHidesIsKilledWhereThereIsAControlGroup(t *testing.T) {
	h, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !h.Cgroup.Works {
		t.Skipf("no control group on this host: %s", h.Cgroup.Why)
	}
	ws := realTempDir(t)
	// The rungs with a process namespace kill by that.
	p := forced(Profile{Workspace: ws, Egress: Egress{Open: true}}, RungLandlock)
	offered(t, RungLandlock, p)
	r := run(t, p, "sh", "-c", "env -i setsid sh -c 'env -i setsid sh -c \"sleep 1; echo x > late\" &' & sleep 0.2; echo done")
	if r.Applied.Kill != KillCgroup || !r.Leftover || !r.Success() {
		t.Errorf("got %+v, want a leftover that was killed in its group", r)
	}
	time.Sleep(1200 * time.Millisecond)
	if des, _ := os.ReadDir(ws); len(des) != 0 {
		t.Error("the hidden process went on")
	}
	left, _ := filepath.Glob(filepath.Join(h.cgroup, fmt.Sprintf("%s*-%d-*", cgroupPrefix, os.Getpid())))
	if len(left) != 0 {
		t.Errorf("groups left behind: %v", left)
	}
}

func TestCgroupMountLines(t *testing.T) {
	for _, tc := range []struct {
		line, root, point string
		ok                bool
	}{
		{"30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate", "/", "/sys/fs/cgroup", true},
		{"31 24 0:27 /a/b /mnt/x rw - cgroup2 none rw", "/a/b", "/mnt/x", true},
		{"32 24 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu", "", "", false},
		{"garbage", "", "", false},
		{"", "", "", false},
	} {
		root, point, ok := cgroupMount(tc.line)
		if root != tc.root || point != tc.point || ok != tc.ok {
			t.Errorf("cgroupMount(%q) = %q, %q, %v", tc.line, root, point, ok)
		}
	}
}
