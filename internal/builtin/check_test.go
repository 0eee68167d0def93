//go:build unix

package builtin

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/toolchain"
)

func checker(ecosystem, script string) func(*Env) {
	return func(e *Env) {
		e.Toolchain = toolchain.Toolchain{Ecosystem: ecosystem, Check: []string{"sh", "-c", script}}
	}
}

func TestCheckSaysEveryOutcomeInItsOwnWords(t *testing.T) {
	for _, tc := range []struct {
		name, ecosystem, script string
		says                    []string
		failed                  bool
		decision                string
	}{
		{"found on stderr", "go", "echo './x.go:1: bad' >&2; echo noise; exit 1", []string{"[check] sh", "whole workspace", "./x.go:1: bad"}, false, "checked the project"},
		{"found on stdout", "node", "echo 'a.ts(1,1): error'; exit 2", []string{"a.ts(1,1): error"}, false, "checked the project"},
		{"clean", "go", "exit 0", []string{"[check]", "found nothing"}, false, "checked the project"},
		{"clean with chatter", "python", "echo '0 errors, 0 warnings'", []string{"found nothing"}, false, "checked the project"},
		{"silent failure", "go", "exit 7", []string{"[check did not run]", "exit code 7"}, true, "checked the project"},
		{"killed", "go", "kill -9 $$", []string{"[check did not run]", "SIGKILL"}, true, "checked the project"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, policy.Permissive(), checker(tc.ecosystem, tc.script))
			got, r := b.call("check", `{}`)
			wantHas(t, got, tc.says...)
			if r.Failed != tc.failed || r.Decision != tc.decision || r.Changed {
				t.Errorf("result is %+v", r)
			}
		})
	}
}

func TestCheckWithoutAChecker(t *testing.T) {
	b := newBench(t, policy.Permissive())
	got, r := b.call("check", `{}`)
	wantHas(t, got, "[check skipped]", "no kind of project")
	if r.Failed || r.Decision != "check skipped" {
		t.Errorf("result is %+v", r)
	}
	b.env.Toolchain = toolchain.Toolchain{Ecosystem: "make"}
	got, _ = b.call("check", `{}`)
	wantHas(t, got, "[check skipped]", "make project")
	b.env.Toolchain.Check = []string{"no-such-checker"}
	got, r = b.call("check", `{}`)
	wantHas(t, got, "[check did not run]", "not on this machine")
	if !r.Failed {
		t.Errorf("result is %+v", r)
	}
}

func TestDeniedCheckStartsNothing(t *testing.T) {
	b := newBench(t, policy.Permissive().Layer("ops").DenyExec("sh"), checker("go", "touch built; exit 0"))
	got, _ := b.call("check", `{}`)
	wantHas(t, got, "gate: exec sh")
	if b.exists("built") || len(b.ran) > 0 {
		t.Error("the checker ran")
	}
	b.call("write_file", args("path", "f", "content", "x"))
	if b.exists("built") || len(b.ran) > 0 {
		t.Error("the checker ran after a write")
	}
}

func TestCheckAfterAWrite(t *testing.T) {
	for _, tc := range []struct {
		name   string
		p      policy.Policy
		script string
		says   []string
		ran    bool
	}{
		{"found", policy.Permissive(), "echo './x.go:1: bad' >&2; exit 1", []string{"[wrote x.go]", "[check]", "./x.go:1: bad"}, true},
		{"clean is silent", policy.Permissive(), "exit 0", nil, true},
		{"did not run", policy.Permissive(), "exit 9", []string{"[check did not run]", "unchecked"}, true},
		{"policy asks", policy.Permissive().Layer("ops").AskExec("*"), "echo bad >&2; exit 1", nil, false},
		{"default asks", policy.Permissive().WithDefaults(policy.Defaults{Read: policy.Allow, Write: policy.Allow, Exec: policy.Ask, Net: policy.Ask}), "echo bad >&2; exit 1", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, tc.p, checker("go", tc.script))
			got, r := b.call("write_file", args("path", "x.go", "content", "package x\n"))
			if r.Failed || !r.Changed || b.read("x.go") != "package x\n" {
				t.Errorf("the write failed: %+v", r)
			}
			wantHas(t, got, tc.says...)
			if len(tc.says) == 0 && strings.Contains(got, "check") {
				t.Errorf("write_file = %q, want silence about the check", got)
			}
			if (len(b.ran) > 0) != tc.ran {
				t.Errorf("started %q, want a start %t", b.ran, tc.ran)
			}
			if len(b.asked) > 0 {
				t.Errorf("somebody was asked: %v", b.asked)
			}
		})
	}
}

func TestUnchangedWriteIsNotChecked(t *testing.T) {
	b := newBench(t, policy.Permissive(), checker("go", "exit 1"))
	b.write("f", "x")
	b.call("write_file", args("path", "f", "content", "x"))
	if len(b.ran) > 0 {
		t.Errorf("started %q", b.ran)
	}
}

func TestCargoMessages(t *testing.T) {
	stream := strings.Join([]string{
		`   Compiling x v0.1.0`,
		`{"reason":"compiler-artifact","message":{"rendered":"not this"}}`,
		`{"reason":"compiler-message","message":{"rendered":"error[E0425]: cannot find value\n --> src/main.rs:1:1\n\n"}}`,
		`{"reason":"compiler-message","message":{"rendered":null}}`,
		`{broken`,
		``,
		`{"reason":"compiler-message","message":{"rendered":"warning: unused"}}` + "\r",
		`{"reason":"build-finished","success":false}`,
	}, "\n")
	want := "error[E0425]: cannot find value\n --> src/main.rs:1:1\nwarning: unused"
	if got := cargoMessages([]byte(stream)); got != want {
		t.Errorf("cargoMessages = %q, want %q", got, want)
	}
}

func TestOneEnormousRecordOfACheckerIsReadToTheEnd(t *testing.T) {
	// A record of two megabytes on one line, a small one, and exit code 1.
	script := `printf '{"reason":"compiler-message","message":{"rendered":"BIG'; head -c 2097152 /dev/zero | tr '\0' x; printf ' END"}}\n{"reason":"compiler-message","message":{"rendered":"SMALL"}}\n'; exit 1`
	b := newBench(t, policy.Permissive(), func(e *Env) {
		e.Toolchain = toolchain.Toolchain{Ecosystem: "cargo", Check: []string{"sh", "-c", script, "--message-format=json"}}
	})
	got, r := b.call("check", `{}`)
	wantHas(t, got, "BIG", "SMALL", "left out")
	if n := utf8.RuneCountInString(got); r.Failed || n > DefaultEntryCap {
		t.Errorf("%d characters, %+v", n, r)
	}
}

func TestFindingsAreCutAfterParsing(t *testing.T) {
	b := newBench(t, policy.Permissive(), func(e *Env) {
		checker("go", "echo FIRST >&2; i=0; while [ $i -lt 2000 ]; do echo 'some finding of the checker' >&2; i=$((i+1)); done; echo LAST >&2; exit 1")(e)
		e.EntryCap = func() int { return 2500 }
	})
	for _, call := range []string{"check", "write_file"} {
		a := `{}`
		if call == "write_file" {
			a = args("path", "f", "content", "x")
		}
		got, _ := b.call(call, a)
		wantHas(t, got, "FIRST", "LAST", "left out")
		if n := utf8.RuneCountInString(got); n > 2500 {
			t.Errorf("%s: %d characters, want at most 2500", call, n)
		}
	}
}

func TestChecksOfOneTreeOfAgentsTakeTurns(t *testing.T) {
	b := newBench(t, policy.Permissive(), checker("go", "exit 0"))
	var mu sync.Mutex
	running, most := 0, 0
	b.env.Run = func(ctx context.Context, _ tool.Call, _ sandbox.Cmd) (*sandbox.Result, error) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		mu.Lock()
		running--
		mu.Unlock()
		return &sandbox.Result{}, nil
	}
	e := b.env
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := e.runCheck(t.Context(), tool.Call{Workspace: b.ws.WithJournal(nil)}, time.Minute); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d checks ran at once, want 1", most)
	}
}

func TestCheckerThatHangsNeverFailsTheWrite(t *testing.T) {
	b := newBench(t, policy.Permissive(), checker("go", "sleep 60"), func(e *Env) { e.ExecTimeout = 300 * time.Millisecond })
	got, r := b.call("write_file", args("path", "f", "content", "x"))
	wantHas(t, got, "[wrote f]", "[check did not run]", "killed after 0.3 s")
	if r.Failed || !r.Changed {
		t.Errorf("result is %+v", r)
	}
}

func TestAWriteDoesNotWaitForTheCheckOfAnotherAgent(t *testing.T) {
	b := newBench(t, policy.Permissive(), checker("go", "exit 0"), func(e *Env) { e.ExecTimeout = 50 * time.Millisecond })
	release, err := b.ws.Exclusive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	got, r := b.call("write_file", args("path", "f", "content", "x"))
	wantHas(t, got, "[wrote f]", "[check did not run] another check", "unchecked")
	if r.Failed || !r.Changed || len(b.ran) > 0 {
		t.Errorf("result is %+v after %q", r, b.ran)
	}
}

func TestCheckEndsWithTheRun(t *testing.T) {
	b := newBench(t, policy.Permissive(), checker("go", "sleep 60"))
	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(200*time.Millisecond, func() { cancel(cause) })
	got, _ := b.callCtx(ctx, "check", `{}`)
	wantHas(t, got, "error: stopped")
}
