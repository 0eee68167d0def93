package loop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/failpoint"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
	"github.com/initorigin/io-harness-go/workspace"
)

// errDied stands for the death of the process: the statement that meets it and
// its transaction leave nothing.
var errDied = errors.New("the process died")

// mortal makes statements of a store fail by name.
type mortal struct {
	mu    sync.Mutex
	point string
	skip  int // how often the point is met first
}

func (m *mortal) hit(point string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if point != m.point {
		return nil
	}
	if m.skip--; m.skip >= 0 {
		return nil
	}
	m.point = ""
	return errDied
}

// dieAt makes the point fail once, when it has been met skip times.
func (m *mortal) dieAt(point string, skip int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.point, m.skip = point, skip
}

func newMortal(t *testing.T) (*fixture, *mortal) {
	t.Helper()
	f, m := newFixture(t), &mortal{}
	st, err := store.Open(failpoint.With(context.Background(), m.hit), filepath.Join(t.TempDir(), "mortal.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	f.store, f.host.Store = st, st
	return f, m
}

// died runs and demands that the run was cut off.
func (f *fixture) died(change ...func(*task.Contract)) trace.RunID {
	f.t.Helper()
	res, err := f.run(change...)
	if !errors.Is(err, errDied) || res.RunID == 0 {
		f.t.Fatalf("%+v, %v: want a run that was cut off", res, err)
	}
	return res.RunID
}

func (f *fixture) edits(id trace.RunID) []store.Edit {
	f.t.Helper()
	rows, err := store.Collect(f.store.Edits(context.Background(), id))
	if err != nil {
		f.t.Fatal(err)
	}
	return rows
}

func TestAStepThatIsMadeAgainWritesWhatItsModelThenAsksFor(t *testing.T) {
	twice := scripted.Calls(
		scripted.Tool("write_file", map[string]string{"path": "a.txt", "content": "one\n"}),
		scripted.Tool("edit_file", map[string]string{"path": "a.txt", "search": "one", "replace": "two"}),
	)
	for _, tc := range []struct {
		name         string
		first, again scripted.Turn
		want         string
		edits        int
		told, never  string
	}{
		{"the same write is not made twice", write("a.txt", "one\n"), write("a.txt", "one\n"), "one\n", 1, "[wrote a.txt]", "had not read"},
		{"another content is written", write("a.txt", "one\n"), write("a.txt", "other\n"), "other\n", 2, "[wrote a.txt]", ""},
		{"two changes of one file are not made twice", twice, twice, "two\n", 2, "[edited a.txt]", "had not read"},
		{"another tool does its own work", write("a.txt", "one\n"), edit("a.txt", "one", "three"), "three\n", 2, "[edited a.txt]", ""},
		{"a call that comes no more leaves what it did", write("a.txt", "one\n"), write("b.txt", "b\n"), "one\n", 2, "[wrote b.txt]", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, m := newMortal(t)
			m.dieAt("insert step", 0)
			f.script(tc.first)
			id := f.died()
			s := f.script(tc.again, scripted.Say("done"))
			res, err := f.resume(id, Resumption{})
			if err != nil || res.Outcome.Kind != trace.Finished {
				t.Fatalf("%+v, %v", res, err)
			}
			if got := f.read("a.txt"); got != tc.want {
				t.Errorf("a.txt = %q, want %q", got, tc.want)
			}
			if got := f.edits(id); len(got) != tc.edits {
				t.Errorf("%d edits are recorded, want %d: %+v", len(got), tc.edits, got)
			}
			contains(t, "what the model is told", lastUser(s), tc.told)
			if result := f.steps(id)[0].Result; tc.never != "" && strings.Contains(result, tc.never) {
				t.Errorf("the step's result contains %q:\n%s", tc.never, result)
			}
		})
	}
}

// A model that is asked again for a step rarely asks for the same. What the step
// wrote before it died is part of the step.
func TestTheUndoOfAStepTakesBackWhatItWroteBeforeItDied(t *testing.T) {
	for name, again := range map[string]scripted.Turn{
		"another content": write("a.txt", "other\n"),
		"another file":    write("b.txt", "b\n"),
		"another tool":    edit("a.txt", "one", "three"),
		"the same":        write("a.txt", "one\n"),
	} {
		t.Run(name, func(t *testing.T) {
			f, m := newMortal(t)
			f.script(write("a.txt", "one\n"))
			m.dieAt("insert step", 0)
			id := f.died()
			f.script(again)
			m.dieAt("insert step", 0) // and once more, so that three attempts share the place
			if _, err := f.resume(id, Resumption{}); !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			f.script(again, scripted.Say("done"))
			if res, err := f.resume(id, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished {
				t.Fatalf("%+v, %v", res, err)
			}
			if r := f.rewind(id, Undo{Step: 1}); !r.Clean() {
				t.Errorf("%+v", r)
			}
			f.gone("a.txt")
			f.gone("b.txt")
		})
	}
}

func TestACallThatComesBackAfterAnotherIsMade(t *testing.T) {
	f, m := newMortal(t)
	f.script(write("a.txt", "one\n"))
	m.dieAt("insert step", 0)
	id := f.died()
	f.script(write("a.txt", "other\n"))
	m.dieAt("insert step", 0)
	if _, err := f.resume(id, Resumption{}); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	f.script(write("a.txt", "one\n"), scripted.Say("done"))
	if res, err := f.resume(id, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("%+v, %v", res, err)
	}
	if got := f.read("a.txt"); got != "one\n" {
		t.Errorf("a.txt is %q, and the model was told that it wrote another content", got)
	}
	if got := f.edits(id); len(got) != 3 {
		t.Errorf("%d edits are recorded: %+v", len(got), got)
	}
	f.rewind(id, Undo{Step: 1})
	f.gone("a.txt")
}

// What another call wrote in the same place says nothing of the file that an
// approval was about.
func TestAnApprovalIsHeldAgainstItsFileWhateverWasWrittenInItsPlace(t *testing.T) {
	f, m := newMortal(t)
	f.host.Policy, f.host.Approver = open.AskWrite("ask/*"), approve.All
	f.write("ask/a.txt", "as it was asked about\n")
	f.script(write("x.txt", "x\n"))
	m.dieAt("insert step", 0)
	id := f.died()
	f.script(write("ask/a.txt", "mine\n"))
	m.dieAt("insert policy event", 0) // of the decision, before anything is written
	if _, err := f.resume(id, Resumption{}); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	f.write("ask/a.txt", "by hand\n")
	f.script(write("ask/a.txt", "mine\n"), scripted.Say("done"))
	if res, err := f.resume(id, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("%+v, %v", res, err)
	}
	if got := f.read("ask/a.txt"); got != "by hand\n" {
		t.Errorf("ask/a.txt is %q: the approval was for a write over other content", got)
	}
}

func TestAnApprovalThatWasNotUsedIsNotCarriedOutByWhatWasWrittenInItsPlace(t *testing.T) {
	f, m := newMortal(t)
	f.host.Policy, f.host.Approver = open.AskWrite("ask/*"), approve.All
	f.script(write("x.txt", "x\n"))
	m.dieAt("insert step", 0)
	id := f.died()
	f.script(write("ask/a.txt", "mine\n"))
	m.dieAt("insert policy event", 0)
	if _, err := f.resume(id, Resumption{}); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	f.script(scripted.Say("done"))
	if res, err := f.resume(id, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("%+v, %v", res, err)
	}
	rows, err := f.store.Approvals(context.Background(), id)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	if p := rows[0]; p.Verdict != store.Deny || p.DecidedBy != withdrawnByReplay || !p.PerformedAt.IsZero() {
		t.Errorf("%s by %s, performed at %v: nothing of it was done", p.Verdict, p.DecidedBy, p.PerformedAt)
	}
}

func TestChangesOfOneCallThatOverlapKeepTheirRecords(t *testing.T) {
	f, ctx := newFixture(t), context.Background()
	d, err := newDrive(ctx, f.host.withDefaults(), f.contract())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := d.start(ctx, nil); err != nil {
		t.Fatal(err)
	}
	j := &journal{d: d, step: 1, call: &call{name: "probe", args: []byte("{}")}}
	change := func(path string) workspace.Change { return workspace.Change{Edit: workspace.Edit{Path: path}} }
	paths := []string{"a.txt", "b.txt", "c.txt"}
	for _, path := range paths {
		if err := j.Before(ctx, workspace.RestorePoint{Path: path, State: workspace.StateAbsent}); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range paths {
		if err := j.Intend(ctx, change(path), "digest of "+path, true); err != nil {
			t.Fatal(err)
		}
	}
	j.Abandon(ctx, change("a.txt"))
	points, err := f.store.RestorePoints(ctx, d.runID())
	if err != nil || len(points) != len(paths) {
		t.Errorf("%d restore points, %v: want one for each file", len(points), err)
	}
	intents, err := f.store.WriteIntents(ctx, d.runID())
	if err != nil || len(intents) != 2 || intents[0].Path != "b.txt" || intents[1].Path != "c.txt" {
		t.Errorf("%+v, %v: want the changes that were made", intents, err)
	}
}

func TestAResumeRemovesWhatACutOffWriteLeftBeside(t *testing.T) {
	f, m := newMortal(t)
	m.dieAt("insert step", 0)
	f.script(write("src/a.txt", "one\n"))
	id := f.died()
	intents, err := f.store.WriteIntents(context.Background(), id)
	if err != nil || len(intents) != 1 {
		t.Fatalf("%+v, %v", intents, err)
	}
	facts, err := factsOf(intents[0])
	if err != nil || facts.Temp == "" {
		t.Fatalf("%+v, %v", facts, err)
	}
	f.write("src/"+facts.Temp, "half of it")
	f.write("src/.io-harness-OTHERRUNOTHERRUN.tmp", "another run's")
	f.script(write("src/a.txt", "one\n"), scripted.Say("done"))
	if res, err := f.resume(id, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("%+v, %v", res, err)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "src", facts.Temp)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the left file is still there: %v", err)
	}
	if f.read("src/.io-harness-OTHERRUNOTHERRUN.tmp") == "" {
		t.Error("the file of another run is gone")
	}
}

func TestAnApprovedCallIsCarriedOutOnceAcrossACrash(t *testing.T) {
	for _, tc := range []struct {
		name  string
		turn  scripted.Turn
		point string
	}{
		{"a write that was made and not recorded as performed", write("ask/a.txt", "one\n"), "mark performed"},
		{"a write that was announced and not made", write("ask/a.txt", "one\n"), "put write intent"},
		{"a tool that returned and was not recorded as performed", scripted.Call("probe", nil), "mark performed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, m := newMortal(t)
			f.host.Policy = open.AskWrite("ask/*").AskExec("probe")
			f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Defer(), nil })
			p := &probe{}
			box := Resumption{Defaults: task.Contract{Tools: tool.Toolbox{p.tool()}}}
			f.script(tc.turn)
			paused := f.must(trace.AwaitingApproval, withTools(p.tool()))
			m.dieAt(tc.point, 0)
			decided := box
			decided.Decision = &Decision{ID: paused.Outcome.RequestID, Decision: approve.Approve()}
			s := f.script(scripted.Say("done"))
			// A write that cannot be announced is told to the model; everything else
			// ends the drive.
			res, err := f.resume(paused.RunID, decided)
			if tc.point == "mark performed" {
				if !errors.Is(err, errDied) {
					t.Fatalf("%+v, %v: want a drive that was cut off", res, err)
				}
				res, err = f.resume(paused.RunID, box)
			}
			if err != nil || res.Outcome.Kind != trace.Finished {
				t.Fatalf("%+v, %v", res, err)
			}
			if tc.point == "mark performed" && strings.Contains(lastUser(s), "denied") {
				t.Errorf("the model is told that it was denied:\n%s", lastUser(s))
			}
			if n := p.count(); strings.Contains(tc.name, "tool") && n != 1 {
				t.Errorf("the tool was called %d times", n)
			}
			if n := len(f.edits(paused.RunID)); n > 1 {
				t.Errorf("%d edits are recorded", n)
			}
		})
	}
}

func TestAVerdictIsFollowedThroughAcrossACrash(t *testing.T) {
	gate := func(c *task.Contract) { c.Verify = verify.Command("cat", "done.txt") }
	t.Run("a passed gate ends the run without another completion", func(t *testing.T) {
		f, m := newMortal(t)
		m.dieAt("set outcome", 0)
		f.script(write("done.txt", "yes\n"))
		id := f.died(gate)
		s := f.script()
		res, err := f.resume(id, Resumption{})
		if err != nil || res.Outcome.Kind != trace.Success || res.Outcome.Steps != 1 || len(s.Requests()) != 0 {
			t.Errorf("%+v, %v, %d completions", res, err, len(s.Requests()))
		}
		if rows, err := store.Collect(f.store.GateAttempts(context.Background(), id)); err != nil || len(rows) != 1 {
			t.Errorf("verdicts: %+v, %v", rows, err)
		}
	})
	t.Run("a failed one is told", func(t *testing.T) {
		f, m := newMortal(t)
		m.dieAt("insert observation", 1) // the first is the step's own
		f.script(write("other.txt", "no\n"))
		id := f.died(gate)
		s := f.script(write("done.txt", "yes\n"))
		res, err := f.resume(id, Resumption{})
		if err != nil || res.Outcome.Kind != trace.Success {
			t.Fatalf("%+v, %v", res, err)
		}
		if n := strings.Count(lastUser(s), "[check failed]"); n != 1 {
			t.Errorf("the verdict is told %d times:\n%s", n, lastUser(s))
		}
	})
}
