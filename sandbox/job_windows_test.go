package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
)

// program is a command of this test binary.
func program(args ...string) Cmd { return Cmd{Argv: append([]string{os.Args[0]}, args...)} }

func mustRun(t *testing.T, c Cmd, p Profile) *Result {
	t.Helper()
	if p.Workspace == "" {
		p.Workspace = realTempDir(t)
	}
	r, err := Run(t.Context(), c, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pidIn waits for a fixture to say its process id.
func pidIn(t *testing.T, path string) uint32 {
	t.Helper()
	for {
		if b, err := os.ReadFile(path); err == nil {
			pid, err := strconv.ParseUint(string(b), 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			return uint32(pid)
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the fixture does not say who it is")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// open is a handle on a process of the test's own, which stays the one that was meant.
func open(t *testing.T, pid uint32) windows.Handle {
	t.Helper()
	h, err := windows.OpenProcess(windows.SYNCHRONIZE|windows.PROCESS_TERMINATE|windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return 0 // it has ended, and nobody holds it
	}
	t.Cleanup(func() { _ = windows.CloseHandle(h) })
	return h
}

// ended waits for the end of a process: what is killed need not be gone at once.
func ended(h windows.Handle, within time.Duration) bool {
	if h == 0 {
		return true
	}
	what, err := windows.WaitForSingleObject(h, uint32(within.Milliseconds()))
	return err == nil && what == windows.WAIT_OBJECT_0
}

func TestACommandRunsInAJob(t *testing.T) {
	r := mustRun(t, program("windows-exit", "3"), Profile{})
	if r.Exit != 3 || !r.Exited(3) || r.Applied.Rung != RungJobObject || r.Applied.Kill != KillJob || len(r.Applied.Why) > 0 {
		t.Errorf("got %+v", r)
	}
	if r := mustRun(t, program("windows-exit", "-1"), Profile{}); r.Exit != 0xffffffff || r.Success() {
		t.Errorf("an exit code beyond the small ones: got %d", r.Exit)
	}
}

func TestArgumentsArriveAsTheyAre(t *testing.T) {
	args := []string{"plain", "", "two words", `say "hi"`, `c:\dir\`, `c:\a b\`, `\\"`, "tab\there", "é 😀", "%PATH%", "a&b|c>d", "^"}
	r := mustRun(t, program(append([]string{"windows-args"}, args...)...), Profile{})
	var want strings.Builder
	for _, a := range args {
		want.WriteString(strconv.Quote(a) + "\n")
	}
	if got := r.Stdout.String(); got != want.String() {
		t.Errorf("got\n%swant\n%s", got, want.String())
	}
}

func TestWhatACommandGetsOfItsHost(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-canary-123456")
	t.Setenv("Other_Name", "x sk-canary-123456")
	t.Setenv("temp", os.TempDir())
	ws := realTempDir(t)
	p := Profile{Workspace: ws}
	p.Env.Secrets = []string{"sk-canary-123456"}
	r := mustRun(t, Cmd{Argv: []string{"cmd.exe", "/d", "/c", "set"}}, p)
	out := strings.ToUpper(r.Stdout.String())
	if strings.Contains(out, "CANARY") {
		t.Errorf("a credential came through: %s", out)
	}
	if !strings.Contains(out, "SYSTEMROOT=") || strings.Count(out, "\nTEMP=") != 1 {
		t.Errorf("the environment is %s", out)
	}
	r = mustRun(t, Cmd{Argv: []string{"cmd.exe", "/d", "/c", "cd"}, Dir: "."}, p)
	if got := strings.TrimSpace(r.Stdout.String()); !strings.EqualFold(got, ws) {
		t.Errorf("the working directory is %q, want %q", got, ws)
	}
	r = mustRun(t, Cmd{Argv: []string{"cmd.exe", "/d", "/c", "more"}, Stdin: strings.NewReader("from the host\r\n")}, p)
	if !strings.Contains(r.Stdout.String(), "from the host") {
		t.Errorf("the input did not come: %q %q", r.Stdout, r.Stderr)
	}
}

// A variable may hold half of a character: the system does not look at it.
func TestAnEnvironmentIsHandedOnAsItIs(t *testing.T) {
	want := []uint16{'A', '=', 'x', 0xd800, 'y', 0, 'B', '=', 0, 0}
	if got := environmentBlock([]string{"A=x\xed\xa0\x80y", "C=\x00", "B="}); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if got := environmentBlock(nil); !slices.Equal(got, []uint16{0, 0}) {
		t.Errorf("without variables: %x", got)
	}
}

// Closing a job reaches what has left its parent, its group and its console; without
// one such a process stays.
func TestAJobEndsADetachedGrandchild(t *testing.T) {
	for _, tc := range []struct {
		name  string
		p     Profile
		gone  bool
		start func(t *testing.T, pidfile string, p Profile) *Result
	}{
		{"when the command has ended", Profile{}, true, func(t *testing.T, pidfile string, p Profile) *Result {
			return mustRun(t, program("windows-orphan", pidfile), p)
		}},
		{"when it is killed", Profile{}, true, func(t *testing.T, pidfile string, p Profile) *Result {
			pr, err := Start(t.Context(), program("windows-orphan", pidfile, "stay"), p)
			if err != nil {
				t.Fatal(err)
			}
			leaf := pidIn(t, pidfile)
			if pids := pr.Pids(); len(pids) < 2 || pids[0] != pr.Pid() || !strings.Contains(strings.Join(texts(pids), " "), strconv.Itoa(int(leaf))) {
				t.Errorf("%v live, want %d and %d", pids, pr.Pid(), leaf)
			}
			pr.Kill()
			r, err := pr.Wait()
			if err != nil || !r.Killed {
				t.Errorf("got %+v, %v", r, err)
			}
			return r
		}},
		{"when its context ends", Profile{}, true, func(t *testing.T, pidfile string, p Profile) *Result {
			ctx, cancel := context.WithCancel(t.Context())
			pr, err := Start(ctx, program("windows-orphan", pidfile, "stay"), p)
			if err != nil {
				t.Fatal(err)
			}
			pidIn(t, pidfile)
			cancel()
			r, err := pr.Wait()
			if !errors.Is(err, context.Canceled) || !r.Killed {
				t.Errorf("got %+v, %v", r, err)
			}
			return r
		}},
		{"when its time is up", Profile{Limits: Limits{Wall: 3 * time.Second}}, true, func(t *testing.T, pidfile string, p Profile) *Result {
			r := mustRun(t, program("windows-orphan", pidfile, "stay"), p)
			if r.Cap != CapWall || !r.Killed {
				t.Errorf("got %+v", r)
			}
			if _, err := os.Stat(pidfile); err != nil {
				t.Skip("the time was up before there was a grandchild")
			}
			return r
		}},
		{"when it was not contained", Profile{Mode: FullAccess}, true, func(t *testing.T, pidfile string, p Profile) *Result {
			r := mustRun(t, program("windows-orphan", pidfile), p)
			if r.Applied.Kill != KillJob || r.Applied.Rung != RungNone {
				t.Errorf("got %+v", r.Applied)
			}
			return r
		}},
		{"and without a job does not", Profile{ForceFloor: true}, false, func(t *testing.T, pidfile string, p Profile) *Result {
			return mustRun(t, program("windows-orphan", pidfile), p)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.p.Workspace = realTempDir(t)
			pidfile := filepath.Join(tc.p.Workspace, "pid")
			r := tc.start(t, pidfile, tc.p)
			leaf := open(t, pidIn(t, pidfile))
			if leaf != 0 {
				defer func() { _ = windows.TerminateProcess(leaf, 1) }()
			}
			if gone := ended(leaf, map[bool]time.Duration{true: 10 * time.Second, false: 0}[tc.gone]); gone != tc.gone {
				t.Errorf("the grandchild is gone: %v, want %v", gone, tc.gone)
			}
			if !r.Killed && tc.gone != r.Leftover {
				t.Errorf("said to have left something: %v, want %v", r.Leftover, tc.gone)
			}
		})
	}
}

// On the floor nothing ends what has left its parent. The wait for the command ends
// all the same, although the other still holds its streams.
func TestTheEndOfACommandIsNotHeldUpByWhatItLeaves(t *testing.T) {
	ws := realTempDir(t)
	pidfile := filepath.Join(ws, "pid")
	pr, err := Start(t.Context(), program("windows-orphan", pidfile, "hold"), Profile{Workspace: ws, ForceFloor: true})
	if err != nil {
		t.Fatal(err)
	}
	leaf := open(t, pidIn(t, pidfile))
	defer func() { _ = windows.TerminateProcess(leaf, 1) }()
	select {
	case <-pr.Done():
	case <-time.After(20 * time.Second):
		t.Error("still waiting")
		_ = windows.TerminateProcess(leaf, 1)
	}
	if r, err := pr.Wait(); err != nil || !r.Success() {
		t.Errorf("got %+v, %v", r, err)
	}
	if ended(leaf, 0) {
		t.Error("the other process is gone: nothing was tried")
	}
}

func texts(ns []int) []string {
	var out []string
	for _, n := range ns {
		out = append(out, strconv.Itoa(n))
	}
	return out
}

// What a job holds, each with the same command without the ceiling.
func TestCeilingsOfAJob(t *testing.T) {
	if underWine() {
		t.Skip("Wine keeps what a job is told and holds a command to none of it")
	}
	for _, tc := range []struct {
		name    string
		c       Cmd
		limits  Limits
		want    Cap
		control bool // the command ends by itself without the ceiling
	}{
		{"processes", program("windows-crowd", "5"), Limits{Processes: 3}, CapProcesses, true},
		{"memory", program("windows-hog", "400"), Limits{Memory: 200 << 20}, CapMemory, true},
		{"processor time", program("windows-spin"), Limits{CPU: time.Second}, CapCPU, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := mustRun(t, tc.c, Profile{Limits: tc.limits})
			if r.Cap != tc.want || r.Success() || !r.Applied.InForce(tc.want) {
				t.Errorf("got %q, exit %d: %s", r.Cap, r.Exit, r.Text(2000))
			}
			if tc.control {
				if r := mustRun(t, tc.c, Profile{}); !r.Success() {
					t.Errorf("without the ceiling: exit %d, %s", r.Exit, r.Text(2000))
				}
			}
		})
	}
}

func TestABatchFileGetsOnlyPlainArguments(t *testing.T) {
	ws := realTempDir(t)
	bin := filepath.Join(ws, "bin dir")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(bin, "tool.cmd")
	write(t, script, "@echo off\r\necho ran %1\r\n")
	// A file of that name in the working directory is not what PATH leads to.
	write(t, filepath.Join(ws, "tool.cmd"), "@echo off\r\necho hijacked\r\n")
	c := Cmd{Argv: []string{"tool", "plain"}, Env: []string{"PATH=" + bin + ";" + os.Getenv("PATH")}}
	r := mustRun(t, c, Profile{Workspace: ws})
	if got := strings.TrimSpace(r.Stdout.String()); got != "ran plain" || !r.Success() {
		t.Errorf("got %q, %q, exit %d", got, r.Stderr, r.Exit)
	}
	made := filepath.Join(ws, "made")
	c.Argv[1] = "x&echo x>" + made
	if _, err := Run(t.Context(), c, Profile{Workspace: ws}); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
	if _, err := os.Stat(made); err == nil {
		t.Error("the argument ran as a command")
	}
}

func TestWhatWindowsDoesNotStartIsAnError(t *testing.T) {
	ws := realTempDir(t)
	write(t, filepath.Join(ws, "text.exe"), "no program")
	for _, tc := range []struct {
		name string
		c    Cmd
		kind error
	}{
		{"no such program", Cmd{Argv: []string{"no-such-program-here"}}, ErrMissing},
		{"no program inside", Cmd{Argv: []string{`.\text.exe`}}, ErrStart},
		{"no such directory", Cmd{Argv: []string{"cmd.exe"}, Dir: "missing"}, ErrStart},
	} {
		if _, err := Run(t.Context(), tc.c, Profile{Workspace: ws}); !errors.Is(err, tc.kind) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.kind)
		}
	}
}

// A command holds its three streams and nothing else of its host.
func TestNoOtherHandleIsInherited(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := windows.SetHandleInformation(windows.Handle(w.Fd()), windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
		t.Fatal(err)
	}
	pr, err := Start(t.Context(), program("windows-idle"), Profile{Workspace: realTempDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	// The end of the pipe comes now, unless the command has the other end.
	done := make(chan error, 1)
	go func() { _, err := r.Read(make([]byte, 1)); done <- err }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("the command inherited a handle that was not for it")
	}
	pr.Kill()
	if _, err := pr.Wait(); err != nil {
		t.Fatal(err)
	}
}
