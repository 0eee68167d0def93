//go:build unix

package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func run(t *testing.T, p Profile, argv ...string) *Result {
	t.Helper()
	r, err := Run(t.Context(), Cmd{Argv: argv}, p)
	if err != nil {
		t.Fatalf("Run(%q): %v", argv, err)
	}
	return r
}

func TestACommandReportsItsOwnEnd(t *testing.T) {
	p := Profile{Workspace: t.TempDir()}
	r := run(t, p, "sh", "-c", "echo out; echo err >&2; exit 3")
	if !r.Exited(3) || r.Success() || r.Signal != "" || r.Stdout.String() != "out\n" || r.Stderr.String() != "err\n" {
		t.Errorf("got %+v, want exit 3 with out and err", r)
	}
	if r = run(t, p, "true"); !r.Success() {
		t.Errorf("true: got %+v, want success", r)
	}
	r = run(t, p, "sh", "-c", "kill -TERM $$")
	if r.Signal != "SIGTERM" || r.Exit != -1 || r.Exited(143) || r.Killed {
		t.Errorf("got %+v, want SIGTERM and no exit code", r)
	}
}

func TestMissingProgramIsTyped(t *testing.T) {
	_, err := Run(t.Context(), Cmd{Argv: []string{"no-such-program-here"}}, Profile{Workspace: t.TempDir()})
	var e *Error
	if !errors.Is(err, ErrMissing) || !errors.As(err, &e) || e.Program != "no-such-program-here" {
		t.Errorf("got %v, want ErrMissing that names the program", err)
	}
}

func TestContextEndKillsTheTreeAndKeepsTheOutput(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ws := t.TempDir()
	pr, err := Start(ctx, Cmd{Argv: []string{"sh", "-c", "echo before; (sleep 2; touch survived) & sleep 300"}, Stdout: cancelOn{cancel}}, Profile{Workspace: ws})
	if err != nil {
		t.Fatal(err)
	}
	r, err := pr.Wait()
	if !errors.Is(err, context.Canceled) || !r.Killed || r.Exited(0) || r.Stdout.String() != "before\n" {
		t.Errorf("got %+v, %v; want killed by the context with its output", r, err)
	}
	time.Sleep(2500 * time.Millisecond)
	if _, err := os.Stat(filepath.Join(ws, "survived")); err == nil {
		t.Error("a child of the killed command went on")
	}
}

type cancelOn struct{ cancel func() }

func (c cancelOn) Write(b []byte) (int, error) { c.cancel(); return len(b), nil }

func TestWallClockKillsAndIsNamed(t *testing.T) {
	r := run(t, Profile{Workspace: t.TempDir(), Limits: Limits{Wall: 300 * time.Millisecond}}, "sh", "-c", "echo up; sleep 300")
	if r.Cap != CapWall || !r.Killed || !strings.Contains(r.Stdout.String(), "up") {
		t.Errorf("got %+v, want the wall cap and the output so far", r)
	}
}

func TestABackgroundChildDoesNotHoldTheAnswer(t *testing.T) {
	p := Profile{Workspace: t.TempDir()}
	for _, script := range []string{
		"sleep 300 & echo up",
		"setsid sleep 300 & echo up",
		"sh -c 'trap \"\" TERM; sleep 300' & echo up",
		"sleep 300 </dev/null >/dev/null & echo up",
	} {
		t.Run(script, func(t *testing.T) {
			r := run(t, p, "sh", "-c", script)
			if !r.Success() || r.Stdout.String() != "up\n" || !r.Leftover {
				t.Errorf("got %+v, want success with the leftover killed", r)
			}
		})
	}
}
