package loop

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// answers are the rows of the checks of a run's answers, in order.
func (f *fixture) answers(id trace.RunID) (outcomes []store.GateOutcome) {
	f.t.Helper()
	attempts, err := store.Collect(f.store.GateAttempts(context.Background(), id))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, a := range attempts {
		if a.Phase == string(verify.PhaseOutput) {
			outcomes = append(outcomes, a.Outcome)
		}
	}
	return outcomes
}

func TestHowOftenAnAnswerMayBeGiven(t *testing.T) {
	for _, tc := range []struct {
		name             string
		retries, answers int
		misses           int // before the run gives up
	}{
		{"as often as a completion is asked again", 0, 0, 2},
		{"three retries", 3, 0, 3},
		{"one retry", 1, 0, 1},
		{"no retry", -1, 0, 1},
		{"a number of its own", 0, 4, 4},
		{"a number of its own, and no retry", -1, 3, 3},
		{"the first counts", 5, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(slices.Repeat([]scripted.Turn{scripted.Say("prose")}, tc.misses)...)
			res := f.must(trace.SchemaUnsatisfied, shaped(t), func(c *task.Contract) {
				c.Budget.Retries, c.OutputAttempts, c.Stall.Window = tc.retries, tc.answers, -1
			})
			if len(m.Requests()) != tc.misses || len(f.answers(res.RunID)) != tc.misses {
				t.Errorf("asked %d times, %v on record; want %d", len(m.Requests()), f.answers(res.RunID), tc.misses)
			}
			var left []int
			for _, e := range f.seen.all {
				if r, ok := e.Fact.(trace.OutputRejected); ok {
					left = append(left, r.Left)
					contains(t, "what is wrong", r.Violations[0], "JSON")
				}
			}
			var want []int
			for n := range tc.misses {
				want = append(want, tc.misses-n-1)
			}
			if diff := cmp.Diff(want, left); diff != "" {
				t.Errorf("answers that are left (-want +got):\n%s", diff)
			}
			out, err := f.store.RunOutput(context.Background(), res.RunID)
			if err != nil || out == nil || out.Valid || out.Attempts != tc.misses {
				t.Errorf("stored: %+v, %v", out, err)
			}
		})
	}
}

func TestWhichBoundOfARunWithAShapeEndsItFirst(t *testing.T) {
	say := scripted.Say("prose")
	for _, tc := range []struct {
		name   string
		change func(*task.Contract)
		want   trace.OutcomeKind
		steps  int
	}{
		{"fewer steps than answers", func(c *task.Contract) { c.Budget.Steps, c.OutputAttempts = 2, 5 }, trace.StepCapReached, 2},
		{"the tokens", func(c *task.Contract) { c.Budget.Tokens, c.OutputAttempts = 1, 1 }, trace.CostBudgetExceeded, 1},
		{"the answers", func(c *task.Contract) { c.Budget.Steps, c.OutputAttempts = 2, 2 }, trace.SchemaUnsatisfied, 2},
		{"fewer steps than answers, and a gate that says no", func(c *task.Contract) {
			c.Budget.Steps, c.OutputAttempts, c.Verify = 2, 5, verify.Contains("a", "never")
		}, trace.VerificationFailed, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, say, say, say)
			f.write("a", "")
			res := f.must(tc.want, shaped(t), tc.change, func(c *task.Contract) { c.Stall.Window = -1 })
			if res.Outcome.Steps != tc.steps || len(f.answers(res.RunID)) != tc.steps {
				t.Errorf("%s, %v on record", res.Outcome, f.answers(res.RunID))
			}
		})
	}
}

func TestOnlyAnAnswerIsHeldToTheShape(t *testing.T) {
	paused := func(context.Context, *provider.Request) (*provider.Response, error) {
		return &provider.Response{Text: "thinking", FinishReason: "pause_turn"}, nil
	}
	talking := func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		resp, err := readCall("x")(ctx, req)
		resp.Text = "I shall look at x first."
		return resp, err
	}
	f := newFixture(t, talking, paused, scripted.Say(good))
	res := f.must(trace.Finished, shaped(t), func(c *task.Contract) { c.OutputAttempts = 1 })
	if got := f.answers(res.RunID); !slices.Equal(got, []store.GateOutcome{store.GatePassed}) {
		t.Errorf("on record: %v", got)
	}
	if f.seen.count("output_accepted") != 1 || f.seen.count("output_rejected") != 0 {
		t.Errorf("told %v", f.seen.kinds())
	}
}

func TestAnAcceptedAnswerIsToldBehindItsStep(t *testing.T) {
	f := newFixture(t, scripted.Say("prose"), scripted.Say(good))
	f.must(trace.Finished, shaped(t))
	var order []string
	for _, k := range f.seen.kinds() {
		switch k {
		case "step", "output_rejected", "output_accepted", "finished":
			order = append(order, k)
		}
	}
	if diff := cmp.Diff([]string{"step", "output_rejected", "step", "output_accepted", "finished"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestAnAnswerStandsUntilTheWorkspaceMayHaveChanged(t *testing.T) {
	// The answer comes first, and the gate passes later.
	for _, tc := range []struct {
		name  string
		turn  scripted.Turn
		steps int
	}{
		{"a look at a file", readCall("x"), 2},
		{"an edit", write("b", "1"), 3},
		{"a command", sh("echo 1 > b"), 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.write("go", "")
			m := f.script(scripted.Say(good), func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
				f.write("go", "yes")
				return tc.turn(ctx, req)
			}, scripted.Say(good))
			res := f.must(trace.Success, shaped(t), gate(verify.Contains("go", "yes")))
			if res.Outcome.Steps != tc.steps || res.Output == nil {
				t.Errorf("%s, output %s", res.Outcome, res.Output)
			}
			if asked := m.Requests(); len(asked) == 3 && len(asked[2].Tools) != 0 {
				t.Error("the answer was asked for again with tools")
			}
		})
	}
}

func TestATurnOfASessionIsHeldToTheShapeFromItsFirstCompletion(t *testing.T) {
	for _, tc := range []struct {
		name  string
		turns []scripted.Turn
		end   trace.OutcomeKind
		rows  []store.GateOutcome
		steps int
		told  []string
	}{
		{"it conforms at once", []scripted.Turn{scripted.Say(good)}, trace.Finished, []store.GateOutcome{store.GatePassed}, 0, []string{"output_accepted", "finished"}},
		{"it conforms when told", []scripted.Turn{scripted.Say("prose"), scripted.Say(good)}, trace.Finished,
			[]store.GateOutcome{store.GateFailed, store.GatePassed}, 2, []string{"output_rejected", "output_accepted", "finished"}},
		{"it never conforms", []scripted.Turn{scripted.Say("prose"), scripted.Say("prose")}, trace.SchemaUnsatisfied,
			[]store.GateOutcome{store.GateFailed, store.GateFailed}, 2, []string{"output_rejected", "output_rejected", "finished"}},
		{"it needs work first", []scripted.Turn{write("a", "1"), scripted.Say(good)}, trace.Finished, []store.GateOutcome{store.GatePassed}, 2, []string{"output_accepted", "finished"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := context.Background()
			f := newFixture(t, tc.turns...)
			s, err := f.store.CreateSession(ctx, f.dir)
			if err != nil {
				t.Fatal(err)
			}
			res, err := Run(ctx, f.host, f.contract(shaped(t)), &Turn{Session: s})
			if err != nil || res.Outcome.Kind != tc.end || res.Outcome.Steps != tc.steps {
				t.Fatalf("%s, %v", res.Outcome, err)
			}
			if diff := cmp.Diff(tc.rows, f.answers(res.RunID)); diff != "" {
				t.Errorf("on record (-want +got):\n%s", diff)
			}
			var told []string
			for _, k := range f.seen.kinds() {
				switch k {
				case "output_rejected", "output_accepted", "finished":
					told = append(told, k)
				}
			}
			if diff := cmp.Diff(tc.told, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			out, err := f.store.RunOutput(ctx, res.RunID)
			if ok := tc.end == trace.Finished; err != nil || out == nil || out.Valid != ok || (res.Output != nil) != ok {
				t.Errorf("stored %+v, %v; handed back %s", out, err, res.Output)
			}
			again, err := f.resume(res.RunID, Resumption{})
			if err != nil || string(again.Output) != string(res.Output) {
				t.Errorf("asked about later: %s, %v", again.Output, err)
			}
			f.sound()
		})
	}
}

func TestAVendorThatRefusedTheSchemaIsOnRecord(t *testing.T) {
	dropped := func(text string) scripted.Turn {
		return func(context.Context, *provider.Request) (*provider.Response, error) {
			return &provider.Response{Text: text, FinishReason: "stop", SchemaDropped: true}, nil
		}
	}
	f := newFixture(t, dropped("prose"), dropped(good))
	res := f.must(trace.Finished, shaped(t))
	events, err := store.Collect(f.store.ContextEvents(context.Background(), res.RunID))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range events {
		if e.Kind == "fell_back" {
			n++
			contains(t, "the row", e.Detail, "schema")
		}
	}
	if n != 1 || res.Output == nil {
		t.Errorf("%d rows, output %s", n, res.Output)
	}
}

func TestEveryRejectedAnswerIsAChangeOfApproachOnRecord(t *testing.T) {
	f := newFixture(t, scripted.Say("prose"), scripted.Say("prose"))
	res := f.must(trace.SchemaUnsatisfied, shaped(t))
	events, err := store.Collect(f.store.ContextEvents(context.Background(), res.RunID))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range events {
		if e.Kind == "replan" {
			n++
			contains(t, "the row", e.Detail, "no JSON")
		}
	}
	if n != 2 {
		t.Errorf("%d rows, want one for each of two answers", n)
	}
}
