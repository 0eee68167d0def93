package loop

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// lookup is a registered tool that needs a host.
type lookup struct {
	mu    sync.Mutex
	calls int
}

func (l *lookup) Spec() tool.Spec { return tool.Spec{Name: "note", Description: "Looks a page up."} }

func (l *lookup) Needs(tool.Call) ([]policy.Need, error) {
	return []policy.Need{{Act: policy.Net, Target: "api.example.com:443"}}, nil
}

func (l *lookup) Call(context.Context, tool.Call) (tool.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	return tool.Result{Text: "looked up"}, nil
}

// A host that a call asks about is not the host of the provider: the call is still
// to be made, and the provider still to be asked about.
func TestACallThatNeedsAHostIsCarriedOutWhenItIsApprovedLater(t *testing.T) {
	f, d := newFixture(t, scripted.Call("note", nil)), &lookup{}
	f.host.Policy = open.Layer("net").AskNet("api.example.com:443")
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Decision{}, nil })
	res := f.must(trace.AwaitingApproval, withTools(d))
	m := f.script(scripted.Say("done"))
	end, err := f.resume(res.RunID, Resumption{
		Defaults: task.Contract{Tools: tool.Toolbox{d}},
		Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()},
	})
	if err != nil || end.Outcome.Kind != trace.Finished || d.calls != 1 {
		t.Fatalf("%+v, %v, called %d times", end, err, d.calls)
	}
	got, _ := scripted.LastResult(m.Requests()[0], "note")
	contains(t, "its result", got, "looked up")
	rows, err := f.store.Approvals(context.Background(), res.RunID)
	if err != nil || len(rows) != 1 || rows[0].PerformedAt.IsZero() {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestTheApprovalOfACallIsNoneOfTheProvidersHost(t *testing.T) {
	f, d := newFixture(t, scripted.Call("note", nil)), &lookup{}
	f.host.Policy = open.Layer("net").AskNet("api.example.com:443")
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Approve(), nil })
	f.script(scripted.Call("note", nil))
	res := f.must(trace.StepCapReached, withTools(d), withSteps(1))
	asked := 0
	f.host.Approver = approve.ApproverFunc(func(_ context.Context, r approve.Request) (approve.Decision, error) {
		asked++
		return approve.Deny("not that host"), nil
	})
	m := f.script(scripted.Say("done"))
	f.model(hosted{m, []string{"https://api.example.com"}})
	c := f.contract(withTools(d), withSteps(5))
	end, err := f.resume(res.RunID, Resumption{Contract: &c})
	if err == nil || end.Outcome.Kind != trace.Refused || asked != 1 || len(m.Requests()) != 0 {
		t.Errorf("%+v, %v: asked %d times, %d completions", end, err, asked, len(m.Requests()))
	}
}

// What newer software wrote with a request may demand more than is understood here.
func TestAnApprovalWhoseBindingCannotBeReadIsNotUsed(t *testing.T) {
	for _, raw := range []string{`{"files":{},"asked":[],"host":"x"}`, `[]`, `{"files":{"":1}}`} {
		b := boundTo(json.RawMessage(raw))
		if got := b.changed(); got == "" {
			t.Errorf("%s holds", raw)
		}
	}
	if got := boundTo(nil).changed(); got != "" {
		t.Errorf("no binding: %q has changed", got)
	}
}
