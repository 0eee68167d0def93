//go:build unix

package builtin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

func sh(script string) string { return args("argv", []string{"sh", "-c", script}) }

func TestExecTellsHowACommandEnded(t *testing.T) {
	b := newBench(t, policy.Permissive())
	b.write("sub/x", "")
	b.write("plain.txt", "no program\n")
	for _, tc := range []struct {
		name, args, decision string
		says                 []string
		failed               bool
	}{
		{"success", sh("echo out; echo err >&2"), "exec sh exit 0", []string{": exit 0]\nout\nerr\n"}, false},
		{"failure", sh("echo why >&2; exit 3"), "exec sh exit 3", []string{": exit 3]\nwhy\n"}, false},
		{"silence", sh("exit 0"), "exec sh exit 0", []string{"(no output)"}, false},
		{"signal", sh("echo before; kill -9 $$"), "exec sh (signal)", []string{"killed by signal SIGKILL", "before"}, false},
		{"signal is not its number", sh("exit 137"), "exec sh exit 137", []string{": exit 137]"}, false},
		{"missing", args("argv", []string{"no-such-program-here", "x"}), "no-such-program-here unavailable", []string{"[exec unavailable]", "not on this machine"}, true},
		{"missing by path", args("argv", []string{"./tool"}), "./tool unavailable", []string{"[exec unavailable]"}, true},
		{"not executable", args("argv", []string{"./plain.txt"}), "exec ./plain.txt failed to start", []string{"[exec error]", "could not be started"}, true},
		{"no shell", args("argv", []string{"echo", "a && b | c > d $HOME `x` *"}), "exec echo exit 0", []string{"a && b | c > d $HOME `x` *"}, false},
		{"in the workspace", args("argv", []string{"pwd"}), "exec pwd exit 0", []string{b.root}, false},
		{"not UTF-8", sh(`printf 'a\377b'`), "exec sh exit 0", []string{"a\uFFFDb"}, false},
		{"newline in the head", args("argv", []string{"true", "a\nb]"}), "exec true exit 0", []string{`[exec true "a\nb]": exit 0]`}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, r := b.call("exec", tc.args)
			if r.Decision != tc.decision || r.Failed != tc.failed || r.Changed || r.Target != "" || (r.Kind == trace.ObsTool) == tc.failed {
				t.Errorf("exec = %+v, want decision %q, failed %t", r, tc.decision, tc.failed)
			}
			wantHas(t, got, tc.says...)
		})
	}
	if b.exists("d") {
		t.Error("a shell read the arguments")
	}
}

func TestExecKeepsHeadAndTailInTheRoomThereIs(t *testing.T) {
	const room = 3000
	b := newBench(t, policy.Permissive(), func(e *Env) { e.EntryCap = func() int { return room } })
	got, _ := b.call("exec", sh("echo FIRST; i=0; while [ $i -lt 3000 ]; do echo ééééééééé; i=$((i+1)); done; echo LAST >&2"))
	wantHas(t, got, "FIRST", "LAST", "left out")
	if n := utf8.RuneCountInString(got); n > room || !utf8.ValidString(got) {
		t.Errorf("the observation has %d characters, want at most %d", n, room)
	}
}

func TestExecTimeoutKillsTheTreeAndKeepsTheOutput(t *testing.T) {
	b := newBench(t, policy.Permissive(), func(e *Env) { e.ExecTimeout = 700 * time.Millisecond })
	got, r := b.call("exec", sh("echo started; (sleep 2; touch late) & sleep 60"))
	wantHas(t, got, "timed out", "0.7 s", "started")
	if r.Decision != "sh timed out" || r.Failed {
		t.Errorf("result is %+v", r)
	}
	time.Sleep(2 * time.Second)
	if b.exists("late") {
		t.Error("a process of the killed command went on")
	}
}

func TestExecEndsWithTheRun(t *testing.T) {
	b := newBench(t, policy.Permissive())
	cause := errors.New("stopped by the operator")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(200*time.Millisecond, func() { cancel(cause) })
	got, _ := b.callCtx(ctx, "exec", sh("sleep 60"))
	wantHas(t, got, "error: stopped by the operator")
}

func TestExecTellsOfWhatItLeftRunning(t *testing.T) {
	b := newBench(t, policy.Permissive())
	got, r := b.call("exec", sh("sleep 60 & echo up"))
	wantHas(t, got, "up", "still running")
	if r.Decision != "exec sh exit 0" {
		t.Errorf("result is %+v", r)
	}
}

func TestExecBehindASandboxSaysSo(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "x")
	for _, tc := range []struct {
		name    string
		applied sandbox.Applied
		stderr  string
		exit    int
		hint    bool
	}{
		{"denied write", sandbox.Applied{Mode: sandbox.WorkspaceWrite, Rung: "landlock", Files: sandbox.FilesWorkspace}, "cannot create " + outside + ": Permission denied", 1, true},
		{"no network", sandbox.Applied{Mode: sandbox.WorkspaceWrite, Rung: "landlock", Files: sandbox.FilesOpen, Egress: sandbox.EgressNone}, "curl: (6) Could not resolve host", 6, true},
		{"other failure", sandbox.Applied{Files: sandbox.FilesWorkspace}, "syntax error", 1, false},
		{"success", sandbox.Applied{Files: sandbox.FilesWorkspace}, "warning: permission denied for cache", 0, false},
		{"not contained", sandbox.Applied{Files: sandbox.FilesOpen, Egress: sandbox.EgressOpen}, "Permission denied", 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, policy.Permissive(), func(e *Env) {
				e.Run = func(context.Context, tool.Call, sandbox.Cmd) (*sandbox.Result, error) {
					return &sandbox.Result{Exit: tc.exit, Stderr: sandbox.Output{Head: tc.stderr}, Applied: tc.applied}, nil
				}
			})
			got, _ := b.call("exec", args("argv", []string{"sh"}))
			if strings.Contains(got, "the sandbox may be why") != tc.hint {
				t.Errorf("exec = %q, want the hint %t", got, tc.hint)
			}
		})
	}
}

func TestExecTellsACeilingFromAFailure(t *testing.T) {
	b := newBench(t, policy.Permissive(), func(e *Env) {
		e.Run = func(context.Context, tool.Call, sandbox.Cmd) (*sandbox.Result, error) {
			return &sandbox.Result{Exit: -1, Signal: "SIGKILL", Killed: true, Cap: sandbox.CapMemory, Stdout: sandbox.Output{Head: "so far"}}, nil
		}
	})
	got, r := b.call("exec", args("argv", []string{"sh"}))
	wantHas(t, got, "memory ceiling", "no failure of its own", "so far")
	if r.Decision != "exec sh hit the memory cap" {
		t.Errorf("result is %+v", r)
	}
}

func TestExecNeedSeesTheProgramAsItResolves(t *testing.T) {
	p := policy.Permissive().Layer("ops").DenyExec("git push*")
	b := newBench(t, p)
	git, err := b.env.Resolve("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	if err := os.Symlink(git, filepath.Join(b.root, "harmless")); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{{"git", "push"}, {git, "push", "origin", "feature/x"}, {"GIT", "push"}, {"./harmless", "push"}} {
		got, _ := b.call("exec", args("argv", argv))
		wantHas(t, got, "gate: exec", "git push*")
	}
	if len(b.ran) > 0 {
		t.Errorf("something was started: %q", b.ran)
	}
}

func TestRepositoryCannotSupplyAProgramByItsName(t *testing.T) {
	b := newBench(t, policy.Permissive())
	b.write("go-tool", "#!/bin/sh\ntouch ran\n")
	if err := os.Chmod(filepath.Join(b.root, "go-tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", ".:"+os.Getenv("PATH"))
	got, _ := b.call("exec", args("argv", []string{"go-tool"}))
	wantHas(t, got, "unavailable")
	if b.exists("ran") {
		t.Error("a file of the workspace ran by its bare name")
	}
}

func TestDenialsAreRecognised(t *testing.T) {
	for text, want := range map[string]bool{
		"sh: 1: cannot create /x: Permission denied": true, "touch: Read-only file system": true, "npm ERR! EACCES": true,
		"dial tcp: lookup x: no such host": true, "connect: network is unreachable": true, "FAIL: TestX": false, "": false,
	} {
		if got := denials.MatchString(text); got != want {
			t.Errorf("denials of %q = %t", text, got)
		}
	}
}

func TestCommasAndWithin(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := commas(n); got != want {
			t.Errorf("commas(%d) = %q", n, got)
		}
	}
	for _, tc := range []struct {
		s    string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"éé", 2, "éé"}, {"ééé", 2, "éé…"}, {"", 0, ""}} {
		if got := within(tc.s, tc.n); got != tc.want {
			t.Errorf("within(%q, %d) = %q", tc.s, tc.n, got)
		}
	}
	if got := seconds(90*time.Second) + " " + seconds(1500*time.Millisecond); got != "90 1.5" {
		t.Errorf("seconds = %q", got)
	}
}
