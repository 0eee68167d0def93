//go:build unix

package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// contained is what the trace says of contained commands, one line for each row.
func (f *fixture) contained(id trace.RunID) []string {
	f.t.Helper()
	var out []string
	for e, err := range f.store.SandboxEvents(context.Background(), id) {
		if err != nil {
			f.t.Fatal(err)
		}
		switch e.Kind {
		case "create", "exec", "cap_hit", "destroy":
			if e.Backend == "" && !strings.HasPrefix(e.Detail, "shell_start handle") {
				f.t.Errorf("the row %+v names no backend", e)
			}
			out = append(out, fmt.Sprintf("%d %s %s", e.Step, e.Kind, e.Detail))
		}
	}
	return out
}

func TestTheTraceSaysWhatRanAndHowItWasContained(t *testing.T) {
	f := newFixture(t, command("sh", "-c", "exit 3"), shellCall("echo a | cat - ; true"), startCall("sleep 60"), killCall(1),
		command("no-such-program"), scripted.Say("done"))
	f.host.Policy = open.Layer("more").AllowExec("no-such-program")
	res := f.must(trace.Finished)
	same(t, "rows", f.contained(res.RunID), []string{
		"1 create workspace-write", "1 exec sh -c exit 3", "1 destroy exit 3",
		"2 create workspace-write", "2 exec echo a | cat - ; true", "2 destroy exit 0",
		"3 create workspace-write", "3 exec sleep 60",
		"4 destroy shell_start handle 1",
	})
	var told []string
	for _, ev := range f.seen.all {
		if s, ok := ev.Fact.(trace.Sandboxed); ok {
			told = append(told, s.Action)
		}
	}
	same(t, "events", told, []string{"create", "exec", "destroy", "create", "exec", "destroy", "create", "exec", "destroy"})
}

func TestTheCommandOfAGateIsOnRecordLikeAnyOther(t *testing.T) {
	f := newFixture(t, scripted.Say("done"))
	res := f.must(trace.VerificationFailed, withSteps(1), gate(verify.Command("sh", "-c", "exit 1")))
	rows := f.contained(res.RunID)
	if len(rows) != 3 || !strings.HasPrefix(rows[1], "1 exec ") || !strings.HasSuffix(rows[1], "sh -c exit 1") || rows[2] != "1 destroy exit 1" {
		t.Errorf("rows %v", rows)
	}
}

func TestACommandWithoutContainmentLeavesNoRowOfIt(t *testing.T) {
	f := newFixture(t, command("echo", "x"), shellCall("echo x"), startCall("true"), scripted.Say("done"))
	res := f.must(trace.Finished, func(c *task.Contract) { c.Sandbox.Mode = sandbox.FullAccess })
	if rows := f.contained(res.RunID); len(rows) != 0 || f.seen.count("sandbox") != 0 {
		t.Errorf("rows %v, %d events", rows, f.seen.count("sandbox"))
	}
}

func TestALongLineIsCutInItsRow(t *testing.T) {
	f := newFixture(t, command("echo", strings.Repeat("é", maxCommandText)), scripted.Say("done"))
	res := f.must(trace.Finished)
	rows := f.contained(res.RunID)
	if len(rows) != 3 || len(rows[1]) > maxCommandText+16 || !strings.HasSuffix(rows[1], "é…") {
		t.Errorf("rows %.60q", rows)
	}
}

// A host may fall back to a weaker boundary in the middle of a line, and both are on
// record.
func TestALineSaysUnderWhichBoundariesItsCommandsRan(t *testing.T) {
	f := newFixture(t)
	d := f.started()
	l := d.beginLine(tool.Call{Step: 1}, "a; b; c", false).(*line)
	for _, rung := range []sandbox.Rung{sandbox.RungNamespaces, sandbox.RungFloor, sandbox.RungNamespaces} {
		l.began(sandbox.Applied{Rung: rung, Mode: sandbox.WorkspaceWrite})
	}
	l.Ended(&sandbox.Result{Exit: 2})
	l.Over("")
	if err := d.lease.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for e, err := range f.store.SandboxEvents(t.Context(), d.runID()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != "containment" {
			rows = append(rows, fmt.Sprintf("%s %s %s", e.Kind, e.Backend, e.Detail))
		}
	}
	var want []string
	for _, r := range []sandbox.Rung{sandbox.RungNamespaces, sandbox.RungFloor} {
		want = append(want, fmt.Sprintf("create %s workspace-write", r), fmt.Sprintf("exec %s a; b; c", r))
	}
	for _, r := range []sandbox.Rung{sandbox.RungNamespaces, sandbox.RungFloor} {
		want = append(want, fmt.Sprintf("destroy %s exit 2", r))
	}
	same(t, "rows", rows[max(0, len(rows)-len(want)):], want)
}

// containment are the boundaries that are on record for a run, in their order.
func (f *fixture) containment(id trace.RunID) (out []sandbox.Applied) {
	f.t.Helper()
	for e, err := range f.store.SandboxEvents(context.Background(), id) {
		if err != nil {
			f.t.Fatal(err)
		}
		if e.Kind != "containment" {
			continue
		}
		var a sandbox.Applied
		if err := json.Unmarshal([]byte(e.Detail), &a); err != nil {
			f.t.Fatalf("the row %+v: %v", e, err)
		}
		if string(a.Rung) != e.Backend {
			f.t.Errorf("the row %+v names two rungs", e)
		}
		out = append(out, a)
	}
	return out
}

// What holds, by which means and why it is no more can be read from the trace, and
// watchers are told of it in short.
func TestTheTraceSaysWhatTheBoundaryHoldsAndWhy(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-of-the-host")
	f := newFixture(t, scripted.Say("done"))
	res := f.must(trace.Finished, func(c *task.Contract) {
		c.Sandbox.ForceFloor = true
		c.Sandbox.Limits = sandbox.Limits{Wall: time.Minute}
	})
	rows := f.containment(res.RunID)
	if len(rows) != 1 {
		t.Fatalf("rows %+v", rows)
	}
	a := rows[0]
	if a.Rung != sandbox.RungFloor || a.Mode != sandbox.WorkspaceWrite || a.Kill == "" || a.Egress != sandbox.EgressOpen || len(a.Roots) != 1 ||
		!slices.Equal(a.Caps, []sandbox.Cap{sandbox.CapWall}) || !slices.Equal(a.Why, []string{"the floor was asked for"}) || a.Scrubbed != nil {
		t.Errorf("on record: %+v", a)
	}
	for _, ev := range f.seen.all {
		if c, ok := ev.Fact.(trace.Contained); ok {
			if c.Scrubbed == 0 || c.Egress != "open" || c.Roots != 1 {
				t.Errorf("told of %+v", c)
			}
			return
		}
	}
	t.Error("nobody was told")
}

// A command that gets less than was announced is on record with the reason, and the
// model, whose system block says otherwise, is told once.
func TestABoundaryThatIsNotTheAnnouncedOneIsToldWithItsReason(t *testing.T) {
	f := newFixture(t)
	var log strings.Builder
	f.host.Log = slog.New(slog.NewTextHandler(&log, nil))
	d := f.started()
	d.selected = sandbox.Applied{Rung: sandbox.RungLandlock, Mode: sandbox.WorkspaceWrite}
	floor := sandbox.Applied{Rung: sandbox.RungFloor, Mode: sandbox.WorkspaceWrite, Why: []string{"linux-landlock: no room for a ruleset"}}
	before := len(f.containment(d.runID()))
	d.commandBegan(1, d.selected, "a")
	for _, a := range []sandbox.Applied{floor, floor, {Rung: sandbox.RungFloor, Mode: sandbox.ReadOnly}, {Rung: sandbox.RungNone, Mode: sandbox.FullAccess}} {
		d.commandBegan(1, a, "b")
	}
	if err := d.lease.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows := f.containment(d.runID())[before:]
	if len(rows) != 1 || rows[0].Rung != sandbox.RungFloor || !slices.Equal(rows[0].Why, floor.Why) {
		t.Errorf("on record: %+v", rows)
	}
	st := &step{n: 1}
	d.tellRungs(st)
	d.tellRungs(st)
	if len(st.notes) != 1 {
		t.Fatalf("the model is told %d times", len(st.notes))
	}
	contains(t, "what the model is told", st.notes[0].Text, "linux-landlock as announced", floor.String(), floor.Why[0])
	contains(t, "the log", log.String(), "another sandbox than was announced", floor.Why[0])
}

// Each command that cannot be contained as required is an observation; a run in which
// all of them are goes on for no longer than it takes to be sure.
func TestARunWhoseRequiredBoundaryIsLostStops(t *testing.T) {
	f := newFixture(t)
	var d *drive
	with := func(set func(p *sandbox.Profile), turn scripted.Turn) scripted.Turn {
		return func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
			set(&d.profile)
			return turn(ctx, req)
		}
	}
	lose := func(p *sandbox.Profile) { p.ForceFloor, p.Require.Writes = true, true }
	regain := func(p *sandbox.Profile) { p.ForceFloor, p.Require.Writes = false, false }
	m := f.script(
		with(lose, command("echo", "1")), with(lose, shellCall("echo 2")),
		with(regain, command("echo", "3")),
		with(lose, command("echo", "4")), with(lose, shellCall("echo 5")), with(lose, command("echo", "6")),
		scripted.Say("done"),
	)
	d = f.started()
	res, err := d.drive(t.Context())
	if !errors.Is(err, sandbox.ErrRequired) || res.Outcome.Kind != "" || res.Outcome.Steps != 6 || len(m.Requests()) != 6 {
		t.Fatalf("%d requests, outcome %+v, %v", len(m.Requests()), res.Outcome, err)
	}
	contains(t, "what the model is told", m.Requests()[5].User, "writes cannot be confined")
	var ran []string
	for _, row := range f.contained(res.RunID) {
		if strings.Contains(row, " exec ") {
			ran = append(ran, row)
		}
	}
	same(t, "commands", ran, []string{"3 exec echo 3"})
}

// The ceiling of the caller bounds the line, not each of its stages.
func TestAWallClockBoundsALineAsAWhole(t *testing.T) {
	f := newFixture(t, shellCall("sleep 0.4; sleep 0.4; sleep 0.4; sleep 60"), scripted.Say("done"))
	res := f.must(trace.Finished, func(c *task.Contract) { c.Sandbox.Limits.Wall = time.Second })
	if got := f.steps(res.RunID)[0].Decision; got != "shell hit the wall cap" {
		t.Errorf("decision %q", got)
	}
	rows := f.contained(res.RunID)
	if len(rows) != 4 || rows[2] != "1 cap_hit wall" || rows[3] != "1 destroy killed" {
		t.Errorf("rows %v", rows)
	}
}

// Whose clock it was decides the word: the run's time for one command is no
// ceiling of the sandbox, and the other way round.
func TestATimeoutIsNotCalledACeiling(t *testing.T) {
	for _, tc := range []struct {
		name          string
		wall, timeout time.Duration
		turn          scripted.Turn
		want          string
		capped        bool
	}{
		{"exec, its time", 0, 200 * time.Millisecond, command("sleep", "60"), "sleep timed out", false},
		{"exec, a ceiling", 200 * time.Millisecond, 0, command("sleep", "60"), "exec sleep hit the wall cap", true},
		{"exec, a later ceiling", time.Hour, 200 * time.Millisecond, command("sleep", "60"), "sleep timed out", false},
		{"shell, its time", 0, 200 * time.Millisecond, shellCall("sleep 60"), "shell timed out", false},
		{"shell, a later ceiling", time.Hour, 200 * time.Millisecond, shellCall("sleep 60"), "shell timed out", false},
		{"shell, a ceiling", 200 * time.Millisecond, 0, shellCall("sleep 60"), "shell hit the wall cap", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, tc.turn, scripted.Say("done"))
			res := f.must(trace.Finished, func(c *task.Contract) { c.Sandbox.Limits.Wall, c.ExecTimeout = tc.wall, tc.timeout })
			if got := f.steps(res.RunID)[0].Decision; got != tc.want {
				t.Errorf("decision %q, want %q", got, tc.want)
			}
			if got := strings.Contains(strings.Join(f.contained(res.RunID), "\n"), "cap_hit"); got != tc.capped {
				t.Errorf("a ceiling is on record: %v", got)
			}
		})
	}
}

// needing is a tool that declares the mode it needs.
type needing struct {
	tool.Tool
	mode sandbox.Mode
}

func (n needing) NeedsMode() sandbox.Mode { return n.mode }

func TestAToolThatNeedsMoreThanTheRunHasIsRefused(t *testing.T) {
	f := newFixture(t, scripted.Call("git_commit", map[string]any{"message": "m"}), scripted.Call("probe", nil), scripted.Call("note", nil), scripted.Say("done"))
	f.git(".", "init", "-q")
	f.write("a", "x")
	f.git(".", "add", "a")
	f.host.Policy = open.Layer("git").AllowExec("git")
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		t.Error("somebody was asked about a call that cannot be made")
		return approve.Approve(), nil
	})
	called := map[string]int{}
	counted := func(name string) tool.Tool {
		return tool.New(name, name, func(context.Context, struct{}) (string, error) { called[name]++; return "", nil })
	}
	res := f.must(trace.Finished, func(c *task.Contract) {
		c.Sandbox.Mode = sandbox.ReadOnly
		c.Tools = tool.Toolbox{needing{counted("probe"), sandbox.FullAccess}, needing{counted("note"), sandbox.ReadOnly}}
	})
	var decisions []string
	for _, s := range f.steps(res.RunID) {
		decisions = append(decisions, s.Decision)
	}
	same(t, "decisions", decisions[:3], []string{"git_commit refused: needs workspace-write", "probe refused: needs full-access", "called note"})
	if called["probe"] != 0 || called["note"] != 1 {
		t.Errorf("calls %v", called)
	}
	if rows := f.contained(res.RunID); len(rows) != 0 {
		t.Errorf("something was started: %v", rows)
	}
	if got := f.git(".", "status", "--porcelain"); got != "A  a\n" {
		t.Errorf("the repository is %q", got)
	}
}

func TestAReaderRunsUnderLessThanTheRunHas(t *testing.T) {
	f := newFixture(t, scripted.Call("git_status", nil), command("sh", "-c", "echo x > written"), scripted.Say("done"))
	f.git(".", "init", "-q")
	f.host.Policy = open.Layer("git").AllowExec("git")
	res := f.must(trace.Finished)
	var told []string
	for _, ev := range f.seen.all {
		if c, ok := ev.Fact.(trace.Contained); ok {
			told = append(told, fmt.Sprintf("%d %s", ev.Step, c.Mode))
		}
	}
	same(t, "told", told, []string{"0 workspace-write", "1 read-only"})
	for _, row := range f.contained(res.RunID) {
		if mode, ok := strings.CutPrefix(row, "1 create "); ok && mode != "read-only" {
			t.Errorf("git was started under %s", mode)
		}
	}
	if f.read("written") == "" {
		t.Error("the command behind the reader cannot write")
	}
}
