package loop

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// What a program adds to the description of the agent is in it, in the place that
// it has.
func TestThePromptOfTheContractIsInTheSystemBlock(t *testing.T) {
	for _, tc := range []struct {
		name   string
		prompt task.Prompt
		wants  []string
		told   trace.PromptComposed
	}{
		{"nothing", task.Prompt{}, nil, trace.PromptComposed{Source: "builtin"}},
		{"a manner", task.Prompt{Preset: task.PresetConcise}, []string{"act first"}, trace.PromptComposed{Source: "preset:concise"}},
		{"another manner", task.Prompt{Preset: task.PresetCareful}, []string{"verify before"}, trace.PromptComposed{Source: "preset:careful"}},
		{"another description", task.Prompt{Replace: "REPLACED-WORDS"}, []string{"REPLACED-WORDS"}, trace.PromptComposed{Source: "replaced"}},
		{"more of it", task.Prompt{Append: "APPENDED-WORDS"}, []string{"APPENDED-WORDS"}, trace.PromptComposed{Source: "appended"}},
		{"words of the repository", task.Prompt{Instructions: []string{"FOUND-WORDS", "OTHER-WORDS"}}, []string{"FOUND-WORDS", "OTHER-WORDS"},
			trace.PromptComposed{Source: "builtin", Instructions: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(scripted.Say("done"))
			f.must(trace.Finished, func(c *task.Contract) { c.Prompt = tc.prompt })
			contains(t, "the system block", m.Requests()[0].SystemText(), tc.wants...)
			told := facts[trace.PromptComposed](f.seen)
			if len(told) != 1 || told[0].Source != tc.told.Source || told[0].Instructions != tc.told.Instructions {
				t.Errorf("told %+v, want one with %+v", told, tc.told)
			}
		})
	}
}

func TestAReadOverTheBoundOfTheContractShowsNothing(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", lines(1, 50, "word"))
	m := f.script(readCall("a.txt"), ranged("a.txt", 1, 2), scripted.Say("done"))
	f.must(trace.Finished, func(c *task.Contract) { c.MaxReadChars = 100 })
	if text := m.Requests()[1].User; strings.Contains(text, "word-1.") {
		t.Errorf("more was shown than the contract lets a read show:\n%s", text)
	}
	contains(t, "the request behind it", m.Requests()[1].User, "100")
	contains(t, "the request behind a range that fits", m.Requests()[2].User, "word-1.", "word-2.")
}

func TestTheShareOfTheTokenBudgetBoundsWhatARequestShows(t *testing.T) {
	for _, tc := range []struct {
		share float64
		shown bool
	}{{0, true}, {0.02, false}} {
		f := newFixture(t)
		f.write("a.txt", lines(1, 800, "word"))
		m := f.script(readCall("a.txt"), scripted.Say("done"))
		f.must(trace.Finished, func(c *task.Contract) { c.Budget.Tokens, c.Context.Share = 100_000, tc.share })
		if got := strings.Contains(lastUser(m), "word-400."); got != tc.shown {
			t.Errorf("with a share of %v the file is shown: %t", tc.share, got)
		}
	}
}

func TestEveryRequestOfARunStatesItsEffort(t *testing.T) {
	f := newFixture(t)
	var turns []scripted.Turn
	for i := range 6 {
		turns = append(turns, readCall(f.page(i)))
	}
	m := f.folds(append(turns, scripted.Say("done"))...)
	f.must(trace.Finished, small, func(c *task.Contract) { c.Effort = provider.EffortHigh })
	if m.summaries() == 0 {
		t.Fatal("nothing was folded")
	}
	for i, r := range append(m.Requests(), m.asks...) {
		if r.Effort != provider.EffortHigh {
			t.Errorf("request %d states the effort %q", i, r.Effort)
		}
	}
}

// A watcher's wish to stop is heard at the next boundary, and behind a step that
// ends the run well there is none.
func TestACancelInTheStepThatEndsTheRunWellComesTooLate(t *testing.T) {
	for _, tc := range []struct {
		name  string
		turns []scripted.Turn
		want  trace.OutcomeKind
	}{
		{"its gate passes", []scripted.Turn{write("done.txt", "x")}, trace.Success},
		{"its gate fails", []scripted.Turn{write("other.txt", "x"), scripted.Say("never asked")}, trace.Cancelled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.turns...)
			f.seen.stop = "tool_call"
			res := f.must(tc.want, func(c *task.Contract) { c.Verify = verify.Contains("done.txt", "x") })
			if res.Outcome.Steps != 1 {
				t.Errorf("%s, want one step", res.Outcome)
			}
		})
	}
}

// A drive that could not go on says in one word why.
func TestAnAbortedDriveNamesWhatFailed(t *testing.T) {
	ctx := context.Background()
	// stopped runs a call in which something happens to the run.
	stopped := func(f *fixture, turn *Turn, happens func(ctx context.Context, cancel context.CancelCauseFunc)) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		f.script(scripted.Call("probe", nil), scripted.Say("done"))
		_, err := Run(ctx, f.host, f.contract(withTools(tool.New("probe", "Probes.", func(ctx context.Context, _ struct{}) (string, error) {
			happens(ctx, cancel)
			return "", ctx.Err()
		}))), turn)
		return err
	}
	for _, tc := range []struct {
		name  string
		want  string
		drive func(*fixture, *mortal) error
	}{
		{"the caller went", "cancelled", func(f *fixture, _ *mortal) error {
			return stopped(f, nil, func(_ context.Context, cancel context.CancelCauseFunc) { cancel(nil) })
		}},
		{"the caller's time was over", "deadline", func(f *fixture, _ *mortal) error {
			return stopped(f, nil, func(_ context.Context, cancel context.CancelCauseFunc) { cancel(context.DeadlineExceeded) })
		}},
		{"somebody else took the run", "conflict", func(f *fixture, _ *mortal) error {
			id, err := f.store.CreateSession(ctx, f.dir)
			if err != nil {
				return err
			}
			return stopped(f, &Turn{Session: id}, func(ctx context.Context, _ context.CancelCauseFunc) {
				if _, err := f.store.ArchiveSession(ctx, id, store.Force()); err != nil {
					f.t.Error(err)
				}
			})
		}},
		{"the store could not be written", "storage other", func(f *fixture, m *mortal) error {
			f.script(readCall("x"))
			m.dieAt("insert step", 0)
			_, err := f.run()
			return err
		}},
		{"the policy refuses the gate", "refused", func(f *fixture, _ *mortal) error {
			f.script(readCall("x"))
			_, err := f.run(gate(verify.Command("ls")))
			return err
		}},
		{"the gate could not judge", "gate", func(f *fixture, _ *mortal) error {
			f.host.Policy = open.Layer("more").AllowExec("no-such-program")
			f.script(readCall("x"))
			_, err := f.run(gate(verify.Command("no-such-program")))
			return err
		}},
		{"the workspace is gone", "error", func(f *fixture, _ *mortal) error {
			return stopped(f, nil, func(context.Context, context.CancelCauseFunc) {
				if err := os.RemoveAll(f.dir); err != nil {
					f.t.Error(err)
				}
			})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, m := newMortal(t)
			if err := tc.drive(f, m); err == nil {
				t.Fatal("the drive could go on")
			}
			var got []string
			for _, a := range facts[trace.Aborted](f.seen) {
				got = append(got, a.ErrorKind)
			}
			if !slices.Equal(got, []string{tc.want}) {
				t.Errorf("told %q, want %q once", got, tc.want)
			}
		})
	}
}
