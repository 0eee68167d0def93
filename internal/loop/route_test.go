package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// modelsAsked are the models that the requests to m named.
func modelsAsked(m *scripted.Model) []string {
	var models []string
	for _, r := range m.Requests() {
		models = append(models, r.Model)
	}
	return models
}

// moves are the routings that were told, in order.
func (e *events) moves() []trace.Routed {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []trace.Routed
	for _, ev := range e.all {
		if r, ok := ev.Fact.(trace.Routed); ok {
			out = append(out, r)
		}
	}
	return out
}

func routing(r task.Routing) func(*task.Contract) {
	return func(c *task.Contract) { c.Routing = r }
}

func TestARunEscalatesWhenItsGateKeepsFailing(t *testing.T) {
	f := newFixture(t)
	m := f.script(readCall("a"), readCall("b"), readCall("c"), write("done.txt", "yes"))
	f.must(trace.Success, gate(verify.Command("sh", "-c", "test -f done.txt")), routing(task.Routing{EscalateAfter: task.EscalateAfter{Failures: 2, Model: "big"}}))
	if diff := cmp.Diff([]string{"", "", "big", "big"}, modelsAsked(m)); diff != "" {
		t.Errorf("models asked (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]trace.Routed{{To: "big", Why: "the gate did not pass 2 times in a row"}}, f.seen.moves()); diff != "" {
		t.Errorf("routed (-want +got):\n%s", diff)
	}
}

func TestARunWithoutARuleNeverMoves(t *testing.T) {
	f := newFixture(t)
	m := f.script(readCall("a"), readCall("b"), write("done.txt", "yes"))
	f.must(trace.Success, gate(verify.Command("sh", "-c", "test -f done.txt")), func(c *task.Contract) { c.Model = "own" })
	if diff := cmp.Diff([]string{"own", "own", "own"}, modelsAsked(m)); diff != "" {
		t.Errorf("models asked (-want +got):\n%s", diff)
	}
	if got := f.seen.moves(); len(got) != 0 {
		t.Errorf("routed: %+v", got)
	}
}

func TestASmallRunAsksASmallModelUntilItHasWrittenMuch(t *testing.T) {
	big := strings.Repeat("x", 80)
	f := newFixture(t)
	m := f.script(
		write("a.txt", big), write("a.txt", big), // one file counts once
		write("b.txt", big),             // now it is much
		command("sh", "-c", "rm b.txt"), // and now it is little again
		readCall("a.txt"), scripted.Say("done"))
	f.write("large-and-not-ours", strings.Repeat("y", 4096))
	f.must(trace.Finished, routing(task.Routing{DownshiftUnder: task.DownshiftUnder{Bytes: 100, Model: "small"}}), func(c *task.Contract) { c.Model = "own" })
	if diff := cmp.Diff([]string{"small", "small", "small", "own", "small", "small"}, modelsAsked(m)); diff != "" {
		t.Errorf("models asked (-want +got):\n%s", diff)
	}
	want := []trace.Routed{
		{From: "own", To: "small", Why: "0 bytes written, under 100"},
		{From: "small", To: "own", Why: "160 bytes written, no longer under 100"},
		{From: "own", To: "small", Why: "80 bytes written, under 100"},
	}
	if diff := cmp.Diff(want, f.seen.moves()); diff != "" {
		t.Errorf("routed (-want +got):\n%s", diff)
	}
}

func TestEscalationWinsOverADownshiftAndIsOneWay(t *testing.T) {
	f := newFixture(t)
	shape, err := verify.ParseSchema([]byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`))
	if err != nil {
		t.Fatal(err)
	}
	// The gate passes in step 3, and then only the answer in its shape is missing.
	m := f.script(readCall("a"), readCall("b"), write("done.txt", "yes"), scripted.Say("no json"), scripted.Say(`{"n":1}`))
	f.must(trace.Success, gate(verify.Command("sh", "-c", "test -f done.txt")), func(c *task.Contract) { c.Output = shape }, routing(task.Routing{
		EscalateAfter:  task.EscalateAfter{Failures: 2, Model: "big"},
		DownshiftUnder: task.DownshiftUnder{Bytes: 1 << 20, Model: "small"},
	}))
	if diff := cmp.Diff([]string{"small", "small", "big", "big", "big"}, modelsAsked(m)); diff != "" {
		t.Errorf("models asked (-want +got):\n%s", diff)
	}
	if got := f.seen.moves(); len(got) != 2 || got[1].From != "small" {
		t.Errorf("routed: %+v", got)
	}
}

func TestAnAnswerOutOfShapeIsNoFailureOfTheGate(t *testing.T) {
	f := newFixture(t)
	shape, err := verify.ParseSchema([]byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`))
	if err != nil {
		t.Fatal(err)
	}
	m := f.script(scripted.Say("no json"), scripted.Say(`{"n":1}`))
	f.must(trace.Finished, func(c *task.Contract) { c.Output = shape }, routing(task.Routing{EscalateAfter: task.EscalateAfter{Failures: 1, Model: "big"}}))
	if diff := cmp.Diff([]string{"", ""}, modelsAsked(m)); diff != "" {
		t.Errorf("models asked (-want +got):\n%s", diff)
	}
}

func TestAResumedRunIsRoutedAsItWas(t *testing.T) {
	for _, tc := range []struct {
		name string
		r    task.Routing
		want string
	}{
		{"by the verdicts of its gate", task.Routing{EscalateAfter: task.EscalateAfter{Failures: 2, Model: "big"}}, "big"},
		{"by what it wrote", task.Routing{DownshiftUnder: task.DownshiftUnder{Bytes: 1000, Model: "small"}}, "small"},
		{"and not where it wrote too much", task.Routing{DownshiftUnder: task.DownshiftUnder{Bytes: 3, Model: "small"}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			f.script(write("a.txt", "some text"), readCall("b"), func(context.Context, *provider.Request) (*provider.Response, error) {
				cancel()
				return nil, context.Canceled
			})
			res, err := Run(ctx, f.host, f.contract(gate(verify.Command("sh", "-c", "test -f done.txt")), routing(tc.r)), nil)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%s, %v", res.Outcome, err)
			}
			m := f.script(write("done.txt", ""))
			if res, err = f.resume(res.RunID, Resumption{}); err != nil || res.Outcome.Kind != trace.Success {
				t.Fatalf("%s, %v", res.Outcome, err)
			}
			if diff := cmp.Diff([]string{tc.want}, modelsAsked(m)); diff != "" {
				t.Errorf("models asked after the resume (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFoldIsAskedOfTheModelInForce(t *testing.T) {
	f := newFixture(t)
	var turns []scripted.Turn
	for i := range 6 {
		turns = append(turns, readCall(f.page(i)))
	}
	m := f.folds(append(turns, scripted.Say("done"))...)
	f.must(trace.Finished, small, routing(task.Routing{DownshiftUnder: task.DownshiftUnder{Bytes: 9, Model: "small"}}))
	if m.summaries() == 0 {
		t.Fatal("nothing was folded")
	}
	for i, r := range append(m.Requests(), m.asks...) {
		if r.Model != "small" {
			t.Errorf("request %d names %q", i, r.Model)
		}
	}
}

func TestAReviewerThatIsARoutedModelIsRefusedBeforeAnything(t *testing.T) {
	for _, r := range []task.Routing{
		{EscalateAfter: task.EscalateAfter{Failures: 1, Model: "judge"}},
		{DownshiftUnder: task.DownshiftUnder{Bytes: 1, Model: "judge"}},
	} {
		f := newFixture(t, scripted.Say("never asked"))
		judge := scripted.New()
		judge.Hint = "judge"
		f.host.Approver = approve.Model(judge, "judge")
		_, err := f.run(routing(r))
		var invalid *task.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "Approver" || f.runs() != 0 {
			t.Errorf("%+v: got %v and %d rows", r, err, f.runs())
		}
	}
}

// pinged is a provider that can say whether it would answer.
type pinged struct {
	*scripted.Model
	up        bool
	asked     atomic.Int32
	endpoints []string
}

func (p *pinged) Endpoints() []string { return p.endpoints }

func (p *pinged) Reachable(context.Context) (bool, error) {
	p.asked.Add(1)
	if !p.up {
		return false, fmt.Errorf("connection refused")
	}
	return true, nil
}

func TestAPrimaryThatIsDownIsNamedBeforeAnythingIsWrittenOrBilled(t *testing.T) {
	must := routing(task.Routing{RequirePrimary: true})
	t.Run("down", func(t *testing.T) {
		f := newFixture(t)
		p := &pinged{Model: scripted.New(scripted.Say("never asked"))}
		f.host.Provider = p
		res, err := f.run(must)
		var invalid *task.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), p.Name()) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("got %v; want a *task.InvalidError that names the provider", err)
		}
		if len(p.Requests()) != 0 || f.runs() != 0 || res.RunID != 0 {
			t.Errorf("%d completions and %d rows", len(p.Requests()), f.runs())
		}
	})
	t.Run("down, and not required", func(t *testing.T) {
		f := newFixture(t)
		p := &pinged{Model: scripted.New(scripted.Say("done"))}
		f.host.Provider = p
		f.must(trace.Finished)
		if p.asked.Load() != 0 {
			t.Error("it was probed although nobody required that")
		}
	})
	t.Run("up", func(t *testing.T) {
		f := newFixture(t)
		p := &pinged{Model: scripted.New(scripted.Say("done")), up: true}
		f.host.Provider = p
		f.must(trace.Finished, must)
		if n := p.asked.Load(); n != 1 {
			t.Errorf("probed %d times", n)
		}
	})
	t.Run("a provider that cannot say counts as up", func(t *testing.T) {
		newFixture(t, scripted.Say("done")).must(trace.Finished, must)
	})
	t.Run("a resume is left to be tried again", func(t *testing.T) {
		f := newFixture(t, readCall("a"))
		id := f.must(trace.StepCapReached, withSteps(1)).RunID
		p := &pinged{Model: scripted.New(scripted.Say("done"))}
		f.host.Provider = p
		again := f.contract(must)
		_, err := f.resume(id, Resumption{Contract: &again})
		var invalid *task.InvalidError
		if !errors.As(err, &invalid) || len(p.Requests()) != 0 {
			t.Fatalf("got %v after %d completions", err, len(p.Requests()))
		}
		p.up = true
		if res, err := f.resume(id, Resumption{Contract: &again}); err != nil || res.Outcome.Kind != trace.Finished {
			t.Errorf("%s, %v", res.Outcome, err)
		}
	})
}

func TestAPrimaryIsProbedOnlyWhereItMayBeDialled(t *testing.T) {
	must := routing(task.Routing{RequirePrimary: true})
	for _, tc := range []struct {
		name     string
		policy   policy.Policy
		approver approve.Approver
		probes   int32
		refused  bool
	}{
		{"allowed", open, approve.None, 1, false},
		{"denied by a rule", open.Layer("net").DenyNet("models.example:443"), approve.None, 0, true},
		{"asked about and approved", open.Layer("net").AskNet("models.example:443"), approve.All, 1, false},
		{"asked about and denied", open.Layer("net").AskNet("models.example:443"), approve.None, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			p := &pinged{Model: scripted.New(), endpoints: []string{"https://models.example/v1"}}
			f.host.Provider, f.host.Policy, f.host.Approver = p, tc.policy, tc.approver
			res, err := f.run(must)
			var invalid *task.InvalidError
			if errors.As(err, &invalid) == tc.refused {
				t.Errorf("%s, %v", res.Outcome, err)
			}
			if n := p.asked.Load(); n != tc.probes {
				t.Errorf("probed %d times, want %d", n, tc.probes)
			}
			if len(p.Requests()) != 0 {
				t.Error("a completion was bought")
			}
		})
	}
}

func TestAnEvaluationThatCouldNotJudgeCountsForTheRouting(t *testing.T) {
	rule := task.EscalateAfter{Failures: 3, Model: "big"}
	var r route
	for _, g := range []store.GateAttempt{
		{Phase: "command", Outcome: store.GateFailed}, {Phase: "command", Outcome: store.GatePassed},
		{Phase: "none", Outcome: store.GateFailed}, {Phase: "output", Outcome: store.GateFailed},
		{Phase: "review", Outcome: store.GateErrored}, {Phase: "command", Outcome: store.GateFailed},
	} {
		r.judgedBy(g, rule)
	}
	if r.failures != 2 || r.escalated {
		t.Fatalf("%+v, want 2 failures and no escalation", r)
	}
	r.judgedBy(store.GateAttempt{Phase: "command", Outcome: store.GateFailed}, rule)
	r.judgedBy(store.GateAttempt{Phase: "command", Outcome: store.GatePassed}, rule)
	if r.failures != 0 || !r.escalated {
		t.Errorf("%+v, want an escalation that outlives a pass", r)
	}
}
