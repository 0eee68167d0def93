package loop

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/budget"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

func TestALastStepThatCannotBeWrittenIsNoEnding(t *testing.T) {
	f, m := newMortal(t)
	f.script(readCall("a"), scripted.Say("done"))
	m.dieAt("insert step", 1)
	res, err := f.run()
	if !errors.Is(err, errDied) || res.Outcome.Kind != "" || res.Outcome.Steps != 1 {
		t.Fatalf("%+v, %v: want the error and no outcome", res.Outcome, err)
	}
	if l, err := f.store.LeaseOf(context.Background(), res.RunID); err != nil || l != nil {
		t.Errorf("the run is still held: %+v, %v", l, err)
	}
	if f.seen.count("aborted") != 1 || f.seen.count("finished") != 0 {
		t.Errorf("events %v", f.seen.kinds())
	}
	f.script(scripted.Say("done"))
	if res, err = f.resume(res.RunID, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished || res.Reply != "done" {
		t.Errorf("resumed: %+v, %v", res, err)
	}
}

func TestOnlyARunThatEndedWellHasAReply(t *testing.T) {
	for _, tc := range []struct {
		name   string
		want   trace.OutcomeKind
		policy policy.Policy
		turns  []scripted.Turn
		change func(*task.Contract)
	}{
		{"it pauses behind a step in which it only spoke", trace.AwaitingApproval, open.Layer("asks").AskWrite("asked"),
			[]scripted.Turn{scripted.Say("I believe it is done"), write("asked", "x")}, gate(verify.Contains("asked", "x"))},
		{"its answer was too dear", trace.CostBudgetExceeded, open,
			[]scripted.Turn{readCall("a"), scripted.Say("too dear").Using(provider.Usage{TotalTokens: 500})},
			func(c *task.Contract) { c.Budget = budget.Limits{Tokens: 400} }},
		{"it came to its last step", trace.StepCapReached, open,
			[]scripted.Turn{readCall("a"), readCall("b")}, withSteps(2)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.turns...)
			f.host.Policy, f.host.Approver = tc.policy, deferring
			res := f.turn(tc.change)
			if res.Outcome.Kind != tc.want || res.Reply != "" {
				t.Fatalf("%s with the reply %q", res.Outcome, res.Reply)
			}
			row, err := f.store.TurnForRun(context.Background(), res.RunID)
			if err != nil || row.Reply != "" {
				t.Errorf("the turn has the reply %q: %v", row.Reply, err)
			}
		})
	}
}

func TestCompletionsWhoseStepNeverCameToBeCountAgainstTheBudget(t *testing.T) {
	f := newFixture(t)
	dear := provider.Usage{TotalTokens: 120}
	var cancel context.CancelFunc
	stops := tool.New("probe", "Stops.", func(ctx context.Context, _ struct{}) (string, error) {
		cancel()
		<-ctx.Done()
		return "", ctx.Err()
	}, tool.ReadOnly)
	c := f.contract(withTools(stops), func(c *task.Contract) { c.Budget.Tokens = 300 })
	drive := func(id trace.RunID) (*trace.Result, error) {
		var ctx context.Context
		ctx, cancel = context.WithCancel(context.Background())
		defer cancel()
		if id == 0 {
			return Run(ctx, f.host, c, nil)
		}
		return Resume(ctx, f.host, id, Resumption{Contract: &c})
	}
	f.script(scripted.Call("probe", nil).Using(dear))
	res, err := drive(0)
	for range 2 {
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%+v, %v", res, err)
		}
		f.script(scripted.Call("probe", nil).Using(dear))
		res, err = drive(res.RunID)
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", res, err)
	}
	f.script(readCall("a").Using(dear), scripted.Say("never asked"))
	res, err = drive(res.RunID)
	if err != nil || res.Outcome.Kind != trace.CostBudgetExceeded {
		t.Errorf("%+v, %v: four completions of 120 tokens are more than 300", res, err)
	}
	if n := f.info(res.RunID).Tokens; n != 120 {
		t.Errorf("the committed step drew %d tokens", n)
	}
}

func TestADriveThatPanicsGivesTheRunBack(t *testing.T) {
	f := newFixture(t, readCall("a"), scripted.Say("done"))
	stepped := false
	f.host.Observer = trace.ObserverFunc(func(ev trace.Event) trace.Flow {
		stepped = stepped || ev.Kind() == "step"
		return trace.Continue
	})
	f.host.Clock = func() time.Time {
		if stepped {
			panic("the host's clock is broken")
		}
		return time.Now()
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic: the test shows nothing")
			}
		}()
		_, _ = f.run(func(c *task.Contract) { c.Budget.Duration = time.Hour })
	}()
	f.host.Clock, f.host.Observer = nil, nil
	if res, err := f.resume(1, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestAResumeThatCannotBeginLeavesTheEndOnRecord(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, f *fixture) Resumption
	}{
		{"the workspace is gone", func(t *testing.T, f *fixture) Resumption {
			if err := os.Rename(f.dir, f.dir+"-moved"); err != nil {
				t.Fatal(err)
			}
			return Resumption{}
		}},
		{"the approver is the model itself", func(_ *testing.T, f *fixture) Resumption {
			f.host.Approver = approve.Model(f.host.Provider, provider.ModelHint(f.host.Provider))
			return Resumption{}
		}},
		{"a tool has a name that no vendor takes", func(_ *testing.T, _ *fixture) Resumption {
			bad := tool.New("not a name", "x", func(context.Context, struct{}) (string, error) { return "", nil })
			return Resumption{Defaults: task.Contract{Tools: tool.Toolbox{bad}}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(readCall("a"))
			m.Hint = "writer"
			res := f.must(trace.StepCapReached, withSteps(1))
			r := tc.spoil(t, f)
			if _, err := f.resume(res.RunID, r); err == nil {
				t.Fatal("no error")
			}
			info := f.info(res.RunID)
			if info.Outcome != res.Outcome || info.Status != trace.StatusCompleted {
				t.Errorf("the run is %s with the outcome %s", info.Status, info.Outcome)
			}
			if sum, err := f.store.RunSummary(context.Background(), res.RunID); err != nil || sum == nil {
				t.Errorf("its summary: %+v, %v", sum, err)
			}
		})
	}
}

func TestAPausedRunIsReportedWhereItCouldNotBeDriven(t *testing.T) {
	f := newFixture(t)
	res := f.mustWait(t)
	if err := os.Rename(f.dir, f.dir+"-moved"); err != nil {
		t.Fatal(err)
	}
	if got, err := f.resume(res.RunID, Resumption{}); err != nil || got.Outcome != res.Outcome {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAPrimaryFoundDownOnceAPersonAllowedTheDialEndsTheRunAsMisconfigured(t *testing.T) {
	f := newFixture(t)
	p := &pinged{Model: scripted.New(scripted.Say("done")), endpoints: []string{"https://models.example/v1"}}
	f.host.Provider, f.host.Policy, f.host.Approver = p, open.Layer("net").AskNet("models.example:443"), approve.All
	res, err := f.run(routing(task.Routing{RequirePrimary: true}))
	var invalid *task.InvalidError
	if !errors.As(err, &invalid) || res.Outcome.Kind != trace.ConfigError {
		t.Fatalf("%+v, %v", res, err)
	}
	if info := f.info(res.RunID); info.Status != trace.StatusFailed || info.Outcome.Kind != trace.ConfigError || f.seen.count("finished") != 1 {
		t.Errorf("the run is %s, %s; events %v", info.Status, info.Outcome, f.seen.kinds())
	}
	p.up = true
	if res, err := f.resume(res.RunID, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished {
		t.Errorf("resumed: %+v, %v", res, err)
	}
}
