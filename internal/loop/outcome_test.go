package loop

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// ways are a way to every outcome, and for those that a larger bound takes further
// what it is and what happens then. Without an entry are the ceiling of a tree,
// which one run alone has not, and failed, which nothing here writes.
func ways(t *testing.T) map[trace.OutcomeKind]leads {
	failing := gate(verify.Contains("never.txt", "x"))
	return map[trace.OutcomeKind]leads{
		trace.Success:            {run: write("a.txt", "x"), c: gate(verify.Contains("a.txt", "x"))},
		trace.Finished:           {run: scripted.Say("done")},
		trace.Stalled:            {run: readCall("a"), c: func(c *task.Contract) { c.Stall = task.Stall{Window: 1, Replans: -1} }},
		trace.Denied:             {run: write("a.txt", "x"), host: asksAndDefers, then: approve.Deny("no")},
		trace.Refused:            {run: scripted.Say("never"), host: func(h *Host) { h.Provider = hosted{scripted.New(), []string{"not a url"}} }},
		trace.Cancelled:          {run: readCall("a"), host: func(h *Host) { h.Observer = &events{stop: "tool_call"} }},
		trace.PlanRejected:       {run: plan("do it"), host: func(h *Host) { h.PlanGate = deciding(approve.Cancel()) }},
		trace.EscalatedRetryable: {run: scripted.FailKind(provider.Server, "down"), c: quick},
		trace.EscalatedTerminal:  {run: scripted.FailKind(provider.Auth, "who?")},

		trace.StepCapReached:     {run: readCall("a"), c: withSteps(1), larger: withSteps(5), next: scripted.Say("done"), end: trace.Finished},
		trace.VerificationFailed: {run: readCall("a"), c: both(failing, withSteps(1)), larger: both(failing, withSteps(5)), next: write("never.txt", "x"), end: trace.Success},
		trace.SchemaUnsatisfied: {run: scripted.Say("prose"), c: both(shaped(t), func(c *task.Contract) { c.OutputAttempts = 1 }),
			larger: both(shaped(t), func(c *task.Contract) { c.OutputAttempts = 3 }), next: scripted.Say(good), end: trace.Finished},
		trace.TimeBudgetExceeded: {run: scripted.Hang(), c: lasting(300 * time.Millisecond), larger: lasting(0), next: scripted.Say("done"), end: trace.Finished},
		trace.CostBudgetExceeded: {run: readCall("a"), c: func(c *task.Contract) { c.Budget.Tokens = 1 }, larger: func(*task.Contract) {}, next: scripted.Say("done"), end: trace.Finished},

		trace.AwaitingApproval: {run: write("a.txt", "x"), host: asksAndDefers},
		trace.AwaitingAnswer:   {run: ask("which?")},
		trace.AwaitingPlan:     {run: plan("do it"), host: func(h *Host) { h.PlanGate = approve.HoldPlans }},
		trace.AwaitingRecovery: {cutOff: true},
		trace.ConfigError: {run: scripted.Say("done"), c: routing(task.Routing{RequirePrimary: true}), host: func(h *Host) {
			p := &pinged{Model: scripted.New(scripted.Say("done")), endpoints: []string{"https://models.example/v1"}}
			h.Provider, h.Policy, h.Approver = p, open.Layer("net").AskNet("models.example:443"), approve.All
		}, larger: func(*task.Contract) {}, next: scripted.Say("done"), end: trace.Finished},
	}
}

type leads struct {
	run    scripted.Turn // the same however often it is asked
	c      func(*task.Contract)
	host   func(*Host)
	then   approve.Decision
	cutOff bool // in the call of a tool

	larger func(*task.Contract) // nil: a resume reports the outcome
	next   scripted.Turn
	end    trace.OutcomeKind
}

func both(one, two func(*task.Contract)) func(*task.Contract) {
	return func(c *task.Contract) { one(c); two(c) }
}

func asksAndDefers(h *Host) { h.Policy, h.Approver = asking, deferring }

func TestEveryOutcomeIsReachedStoredAndResumedAsItsTableSays(t *testing.T) {
	table := ways(t)
	for _, kind := range trace.OutcomeKinds() {
		if kind == trace.BudgetCeilingReached || kind == trace.Failed {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			w, ok := table[kind]
			if !ok {
				t.Fatal("no test leads there")
			}
			f, o := newFixture(t), &once{}
			defaults := task.Contract{Tools: tool.Toolbox{o.tool()}}
			var res *trace.Result
			if w.cutOff {
				id := f.interrupted(o)
				var err error
				if res, err = f.resume(id, Resumption{Defaults: defaults}); err != nil {
					t.Fatal(err)
				}
			} else {
				f.model(scripted.Func(func(ctx context.Context, req *provider.Request) (*provider.Response, error) { return w.run(ctx, req) }))
				if w.host != nil {
					w.host(&f.host)
				}
				c := f.contract()
				if w.c != nil {
					w.c(&c)
				}
				var err error
				if res, err = Run(context.Background(), f.host, c, nil); res.RunID == 0 {
					t.Fatalf("no run: %v", err)
				}
				if w.then.Kind != "" {
					if res, err = f.resume(res.RunID, approving(res, w.then)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if res.Outcome.Kind != kind {
				t.Fatalf("%s", res.Outcome)
			}
			info := f.info(res.RunID)
			if info.Outcome != res.Outcome || info.Status != kind.Status() {
				if kind != trace.AwaitingRecovery { // nothing is stored of it: the open attempt says it
					t.Errorf("the row says %s, %s", info.Status, info.Outcome)
				}
			}
			sum, err := f.store.RunSummary(context.Background(), res.RunID)
			if err != nil || (sum != nil) != (kind.Status() == trace.StatusCompleted) {
				t.Errorf("summary %+v, %v", sum, err)
			}
			if sum != nil && (sum.Outcome != kind || sum.Success != (kind == trace.Success) || sum.Steps != res.Outcome.Steps) {
				t.Errorf("summary %+v", *sum)
			}

			f.host.Observer = f.seen
			f.host.Approver = deferring
			m := f.script(scripted.Say("never asked"))
			r := Resumption{Defaults: defaults}
			if w.larger != nil {
				m = f.script(w.next)
				c := f.contract()
				w.larger(&c)
				r.Contract = &c
			}
			before := f.canonical(res.RunID)
			if w.larger != nil {
				f.host.Approver = approve.All
				end, err := f.resume(res.RunID, r)
				if err != nil || end.Outcome.Kind != w.end || len(m.Requests()) != 1 {
					t.Errorf("under a larger bound: %s, %v, %d completions", end.Outcome, err, len(m.Requests()))
				}
				sum, err := f.store.RunSummary(context.Background(), res.RunID)
				if err != nil || sum == nil || sum.Outcome != w.end {
					t.Errorf("the summary was not replaced: %+v, %v", sum, err)
				}
			} else {
				for range 2 {
					end, err := f.resume(res.RunID, r)
					if err != nil || end.Outcome != res.Outcome {
						t.Errorf("resumed: %s, %v", end.Outcome, err)
					}
				}
				if len(m.Requests()) != 0 || f.canonical(res.RunID) != before {
					t.Errorf("%d completions, and the trace changed: %t", len(m.Requests()), f.canonical(res.RunID) != before)
				}
			}
			f.sound()
		})
	}
}

func TestARunHasASummaryOnlyOnceItHasEnded(t *testing.T) {
	f := newFixture(t)
	none := func(when string, id trace.RunID) {
		t.Helper()
		if sum, err := f.store.RunSummary(context.Background(), id); sum != nil || err != nil {
			t.Errorf("%s: %+v, %v", when, sum, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.script(write("a.txt", "x"), func(c context.Context, _ *provider.Request) (*provider.Response, error) {
		none("while it is driven", 1)
		cancel()
		return nil, c.Err()
	})
	res, err := Run(ctx, f.host, f.contract(gate(verify.Contains("a.txt", "y"))), nil)
	if !errors.Is(err, context.Canceled) || res.RunID != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	none("left behind", res.RunID)
	f.host.Clock = func() time.Time { return time.Now().Add(time.Hour) } // downtime counts
	f.script(write("a.txt", "y"))
	end, err := f.resume(res.RunID, Resumption{})
	if err != nil || end.Outcome.Kind != trace.Success {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	var drawn int64
	steps := f.steps(res.RunID)
	for _, s := range steps {
		drawn += s.Tokens
	}
	sum, err := f.store.RunSummary(context.Background(), res.RunID)
	if err != nil || sum == nil {
		t.Fatal(sum, err)
	}
	info := f.info(res.RunID)
	if !sum.Success || sum.Outcome != trace.Success || sum.Steps != len(steps) || sum.Steps != 2 || sum.Tokens != drawn || drawn == 0 {
		t.Errorf("%+v, want the %d tokens of %d steps", *sum, drawn, len(steps))
	}
	if sum.FinishedAt.IsZero() || sum.Duration != sum.FinishedAt.Sub(info.StartedAt) {
		t.Errorf("it took %s from %s to %s", sum.Duration, info.StartedAt, sum.FinishedAt)
	}
}
