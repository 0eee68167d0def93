package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// rungs are the confining rungs of this host; each escape is tried under every
// one. A host without any gets a skip that says so.
func rungs(t *testing.T, p Profile) []Rung {
	t.Helper()
	h, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []Rung
	for _, c := range candidates(h, p) {
		if c.rung.ConfinesWrites() {
			out = append(out, c.rung)
		}
	}
	if want := os.Getenv("IO_HARNESS_EXPECT_BACKEND"); want != "" && (len(out) == 0 || string(out[0]) != want) {
		t.Fatalf("this host was to offer %s and offers %v", want, out)
	}
	if len(out) == 0 {
		t.Skipf("no confining rung on this host:\n%s", h)
	}
	return out
}

// arena is a workspace with a place beside it that nothing may touch.
type arena struct{ ws, out string }

func newArena(t *testing.T) arena {
	t.Helper()
	base := realTempDir(t)
	a := arena{ws: filepath.Join(base, "ws"), out: filepath.Join(base, "out")}
	for _, d := range []string{a.ws, a.out} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(a.out, "victim"), "untouched\n")
	return a
}

// outside is everything that can be seen in the forbidden place.
func (a arena) outside(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(a.out, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %s", path[len(a.out):], fi.Mode().Type())
		if fi.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", text)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		b.WriteString(err.Error())
	}
	return b.String()
}

func (a arena) script(text string) Cmd {
	return Cmd{Argv: []string{"sh", "-c", text}, Env: []string{"OUT=" + a.out, "WS=" + a.ws, "TMPDIR=" + a.ws}}
}

var writeEscapes = []struct{ name, script string }{
	{"absolute path", `echo x > "$OUT/new"`},
	{"append", `echo x >> "$OUT/victim"`},
	{"parent directory", `echo x > ../out/new`},
	{"deep parent directory", `mkdir -p a/b && cd a/b && echo x > ../../../out/new`},
	{"directory link", `ln -s "$OUT" link && echo x > link/new`},
	{"file link", `ln -s "$OUT/victim" link && echo x > link`},
	{"hard link", `ln "$OUT/victim" hard && echo x > hard`},
	{"rename out", `echo x > a && mv a "$OUT/new"`},
	{"rename over", `echo x > a && mv -f a "$OUT/victim"`},
	{"rename in", `mv "$OUT/victim" taken`},
	{"rename a directory out", `mkdir d && mv d "$OUT/d"`},
	{"truncate", `truncate -s 0 "$OUT/victim"`},
	{"delete", `rm -f "$OUT/victim"`},
	{"make a directory", `mkdir "$OUT/d"`},
	{"make a link", `ln -s /etc/passwd "$OUT/link"`},
	{"make a pipe", `mkfifo "$OUT/pipe"`},
	{"a directory of its own as working directory", `cd "$OUT" && echo x > new`},
	{"through the working directory of the parent", `echo x > /proc/$PPID/cwd/../out/new; echo x > "/proc/$PPID/root$OUT/new"`},
	{"in a child of a child", `sh -c 'sh -c "echo x > $OUT/new"'`},
	{"in a new session", `setsid sh -c 'echo x > "$OUT/new"'; sleep 0.2`},
	{"through the temporary directory", `d=${TMPDIR:-$WS}; ln -s "$OUT" "$d/link" && echo x > "$d/link/new"`},
	{"in a user namespace of its own", `unshare -Urm sh -c 'mount -o remount,bind,rw / ; echo x > "$OUT/new"'`},
	{"after remounting the root", `mount -o remount,bind,rw / ; mount -o remount,rw / ; echo x > "$OUT/new"`},
	{"after binding over the workspace", `mkdir m; mount --bind "$OUT" m && { echo x > m/new; umount m; }`},
	{"python with its own calls", `python3 -c 'import os; os.rename(os.environ["OUT"]+"/victim", "taken")'`},
}

func TestWritesOutsideTheWorkspaceFailAndLeaveNothing(t *testing.T) {
	for _, rung := range rungs(t, Profile{}) {
		for _, mode := range []Mode{WorkspaceWrite, ReadOnly} {
			for _, tc := range writeEscapes {
				attempt(t, rung, string(mode)+"/"+tc.name, func(t *testing.T) {
					a := newArena(t)
					before := a.outside(t)
					r, err := Run(t.Context(), a.script(tc.script), forced(Profile{Workspace: a.ws, Mode: mode}, rung))
					if err != nil {
						t.Fatal(err)
					}
					if r.Applied.Rung != rung {
						t.Fatalf("ran under %s, want %s: %v", r.Applied.Rung, rung, r.Applied.Why)
					}
					defer untried(t, r.Text(0))
					if after := a.outside(t); after != before {
						t.Errorf("the place outside changed\nbefore:\n%s\nafter:\n%s\noutput: %s", before, after, r.Text(0))
					}
				})
			}
		}
	}
}

// The same scripts without a boundary must leave a trace, or the test above
// proves nothing.
func TestTheEscapesWorkWithoutABoundary(t *testing.T) {
	for _, tc := range writeEscapes {
		t.Run(tc.name, func(t *testing.T) {
			a := newArena(t)
			before := a.outside(t)
			r, err := Run(t.Context(), a.script(tc.script), Profile{Workspace: a.ws, Mode: FullAccess})
			if err != nil {
				t.Fatal(err)
			}
			if a.outside(t) != before {
				return
			}
			if strings.Contains(tc.script, "mount") || strings.Contains(tc.script, "unshare") {
				t.Skipf("this host does not allow it to anybody: %s", r.Text(200))
			}
			if text := r.Text(0); strings.Contains(text, "not found") || os.Getuid() != 0 && strings.Contains(text, "denied") {
				t.Skipf("cannot be tried here: %s", text)
			}
			t.Errorf("nothing changed outside, so the escape is not one: %s", r.Text(0))
		})
	}
}

func TestGrantedPlacesCanBeWritten(t *testing.T) {
	for _, rung := range rungs(t, Profile{}) {
		t.Run(string(rung), func(t *testing.T) {
			a := newArena(t)
			cache := filepath.Join(filepath.Dir(a.ws), "cache")
			if err := os.Mkdir(cache, 0o755); err != nil {
				t.Fatal(err)
			}
			p := forced(Profile{Workspace: a.ws, Writable: []string{cache, filepath.Join(a.ws, "missing")}}, rung)
			c := a.script(`set -e
				echo x > in; mkdir -p d/e; mv in d/e/in; ln -s in d/e/l; ln d/e/in d/e/h; chmod 600 d/e/in
				truncate -s 0 d/e/in; rm d/e/h; mkfifo p
				echo x > "$CACHE/c"; mv "$CACHE/c" moved; mv moved "$CACHE/back"
				echo x > "$TMPDIR/t"; mv "$TMPDIR/t" from-temp; test -d "$GOTMPDIR"
				echo x > /dev/null; : < /dev/zero; echo x > /dev/shm/$$; rm /dev/shm/$$
				echo "$TMPDIR"`)
			c.Env = append(c.Env, "CACHE="+cache)
			r, err := Run(t.Context(), c, p)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Success() {
				t.Fatalf("got exit %d: %s", r.Exit, r.Text(0))
			}
			if len(r.Applied.Roots) != 2 || r.Applied.Roots[0] != a.ws || r.Applied.Roots[1] != cache {
				t.Errorf("roots %v, want the workspace and the cache that exists", r.Applied.Roots)
			}
			temp := strings.TrimSpace(r.Stdout.String())
			if _, err := os.Stat(temp); !os.IsNotExist(err) {
				t.Errorf("the private temporary directory %s is still there: %v", temp, err)
			}
		})
	}
}

func TestReadOnlyLeavesTheWorkspaceAlone(t *testing.T) {
	for _, rung := range rungs(t, Profile{}) {
		t.Run(string(rung), func(t *testing.T) {
			a := newArena(t)
			write(t, filepath.Join(a.ws, "f"), "kept\n")
			r, err := Run(t.Context(), a.script(`cat f; echo x > "$TMPDIR/t" && echo temp; echo x > f; rm -f f; echo x > new; mv f g`),
				forced(Profile{Workspace: a.ws, Mode: ReadOnly, Writable: []string{a.out}}, rung))
			if err != nil {
				t.Fatal(err)
			}
			if r.Stdout.String() != "kept\ntemp\n" {
				t.Errorf("stdout %q, want the file read and the temporary write", r.Stdout)
			}
			des, _ := os.ReadDir(a.ws)
			text, _ := os.ReadFile(filepath.Join(a.ws, "f"))
			if len(des) != 1 || string(text) != "kept\n" {
				t.Errorf("the workspace changed: %v %q", des, text)
			}
			if r.Applied.Files != FilesTemp || len(r.Applied.Roots) != 0 {
				t.Errorf("applied %+v, want files temp and no roots", r.Applied)
			}
		})
	}
}

// hostReaches are things that a command does to the process that started it. Each
// prints something when it succeeds.
var hostReaches = []struct{ name, script string }{
	{"ask for it with a signal", `kill -0 $HOST && echo signalled`},
	{"signal it", `kill -CONT $HOST && echo signalled`},
	{"its environment", `cat /proc/$HOST/environ >/dev/null && echo environ`},
	{"its memory map", `cat /proc/$HOST/maps >/dev/null && echo maps`},
	{"its memory", `head -c1 /proc/$HOST/mem >/dev/null && echo mem`},
	{"what the kernel kills first", `echo 0 > /proc/$HOST/oom_score_adj && echo oom`},
	{"its descriptors", `readlink /proc/$HOST/fd/1 && echo fds`},
	{"its directory", `readlink /proc/$HOST/cwd && echo cwd`},
	{"its executable", `readlink /proc/$HOST/exe && echo exe`},
	{"its root", `readlink /proc/$HOST/root && echo root`},
	{"its stack", `cat /proc/$HOST/stack && echo stack`},
	{"a setting of the kernel", `echo core > /proc/sys/kernel/core_pattern && echo sysctl`},
	{"the keys of the kernel's console", `echo h > /proc/sysrq-trigger && echo sysrq`},
	{"the name of the host", `hostname "$(hostname)" && echo hostname`},
	{"the clock", `date -s "$(date)" >/dev/null && echo clock`},
	{"a swap file", `dd if=/dev/zero of=swap bs=4096 count=10 2>/dev/null && chmod 600 swap && mkswap swap >/dev/null && swapon swap && echo swap`},
	{"a module of the kernel", `modprobe -q loop && rmmod loop && echo module`},
	{"the namespaces of the first process", `nsenter -t 1 -m -n true && echo entered`},
}

func TestTheHostProcessIsOutOfReach(t *testing.T) {
	h, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, rung := range rungs(t, Profile{}) {
		for _, tc := range hostReaches {
			attempt(t, rung, "reach "+tc.name, func(t *testing.T) {
				if strings.Contains(tc.script, "kill") && rung == RungLandlock && (h.LandlockABI < 6 || h.LandlockErrata&sameProcessFix == 0) {
					t.Skipf("signals are not scoped by Landlock %d", h.LandlockABI)
				}
				a := newArena(t)
				c := a.script(tc.script + "; exit 0")
				c.Env = append(c.Env, fmt.Sprintf("HOST=%d", os.Getpid()))
				r, err := Run(t.Context(), c, forced(Profile{Workspace: a.ws}, rung))
				if err != nil {
					t.Fatal(err)
				}
				if got := r.Stdout.String(); got != "" {
					t.Errorf("reached the host: %q; stderr %s", got, r.Stderr)
				}
				untried(t, r.Stderr.String())
			})
		}
	}
}

func TestPrivilegesAreGone(t *testing.T) {
	for _, rung := range rungs(t, Profile{}) {
		t.Run(string(rung), func(t *testing.T) {
			a := newArena(t)
			r, err := Run(t.Context(), a.script(`grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status`), forced(Profile{Workspace: a.ws}, rung))
			if err != nil {
				t.Fatal(err)
			}
			status := map[string]string{}
			for line := range strings.Lines(r.Stdout.String()) {
				k, v, _ := strings.Cut(line, ":")
				status[k] = strings.TrimSpace(v)
			}
			var caps uint64
			fmt.Sscanf(status["CapEff"], "%x", &caps)
			const allowed = 1<<0 | 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7
			if caps&^allowed != 0 || os.Getuid() != 0 && caps != 0 {
				t.Errorf("capabilities %#x, want none for a user and at most %#x for root", caps, allowed)
			}
			if status["NoNewPrivs"] != "1" || status["Seccomp"] != "2" {
				t.Errorf("got %v, want NoNewPrivs 1 and Seccomp 2", status)
			}
		})
	}
}

func TestDeviceNodesCannotBeMade(t *testing.T) {
	for _, rung := range rungs(t, Profile{}) {
		for name, script := range map[string]string{"character": `mknod dev c 1 5`, "block": `mknod dev b 8 0`, "temporary": `mknod "$TMPDIR/dev" c 1 5 && mv "$TMPDIR/dev" dev`} {
			attempt(t, rung, "make a device node: "+name, func(t *testing.T) {
				a := newArena(t)
				if _, err := Run(t.Context(), a.script(script), forced(Profile{Workspace: a.ws}, rung)); err != nil {
					t.Fatal(err)
				}
				if des, _ := os.ReadDir(a.ws); len(des) != 0 {
					t.Errorf("made %v", des)
				}
			})
		}
	}
}

func TestNothingOfACommandWritesAfterItsEnd(t *testing.T) {
	for _, script := range []string{
		`(sleep 1; echo x > late) & exit 0`,
		`setsid sh -c 'sleep 1; echo x > late' & exit 0`,
		`sh -c 'trap "" TERM HUP INT; sleep 1; echo x > late' & exit 0`,
		`nohup sh -c 'setsid sh -c "sleep 1; echo x > late" & exit 0' >/dev/null 2>&1 & sleep 0.2; exit 0`,
		`for i in 1 2 3 4 5 6 7 8; do (sleep 1; echo x > late$i) & done; exit 0`,
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			ws := realTempDir(t)
			r := run(t, Profile{Workspace: ws}, "sh", "-c", script)
			if !r.Success() {
				t.Fatalf("got %+v", r)
			}
			time.Sleep(1500 * time.Millisecond)
			if des, _ := os.ReadDir(ws); len(des) != 0 {
				t.Errorf("a leftover of the command wrote %v; kill scope %s", des, r.Applied.Kill)
			}
		})
	}
}

// meddleFixture does to another process what needs no more than the same user.
func meddleFixture(args []string) int {
	pid, _ := strconv.Atoi(args[0])
	var old unix.Rlimit
	for name, err := range map[string]error{
		"limits":  unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &old),
		"signal":  unix.Kill(pid, 0),
		"attach":  unix.PtraceAttach(pid),
		"process": func() error { _, err := unix.PidfdGetfd(pidfd(pid), 1, 0); return err }(),
		"memory": func() error {
			_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{}}, []unix.RemoteIovec{{}}, 0)
			return err
		}(),
	} {
		if err == nil {
			fmt.Println(name)
		}
	}
	return 0
}

func pidfd(pid int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	return fd
}

func TestOtherProcessesOfTheUserAreLeftAlone(t *testing.T) {
	victim := exec.Command("sleep", "300")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = victim.Process.Kill(); _ = victim.Wait() }()
	h, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, rung := range rungs(t, Profile{}) {
		for _, what := range []string{"limits", "signal", "attach", "process", "memory"} {
			attempt(t, rung, "meddle with another process: "+what, func(t *testing.T) {
				if what == "signal" && rung == RungLandlock && (h.LandlockABI < 6 || h.LandlockErrata&sameProcessFix == 0) {
					t.Skipf("signals are not scoped by Landlock %d", h.LandlockABI)
				}
				r, err := Run(t.Context(), Cmd{Argv: []string{self(t), "meddle", fmt.Sprint(victim.Process.Pid)}}, forced(Profile{Workspace: realTempDir(t)}, rung))
				if err != nil {
					t.Fatal(err)
				}
				if slices.Contains(strings.Fields(r.Stdout.String()), what) || !r.Success() {
					t.Errorf("could do to another process: %s", r.Text(0))
				}
			})
		}
	}
	// Without a boundary the same user can, or the test above proves nothing.
	r, err := Run(t.Context(), Cmd{Argv: []string{self(t), "meddle", fmt.Sprint(victim.Process.Pid)}}, Profile{Workspace: t.TempDir(), Mode: FullAccess})
	if err != nil || !strings.Contains(r.Stdout.String(), "limits\n") || !strings.Contains(r.Stdout.String(), "signal\n") {
		t.Errorf("without a boundary: %s, %v", r.Text(0), err)
	}
}
