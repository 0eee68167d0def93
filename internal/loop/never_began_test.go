package loop

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/failpoint"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// stopsBehind has the fixture's store end the context of a run as soon as an
// operation has committed.
func (f *fixture) stopsBehind(op string) context.Context {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.t.Cleanup(cancel)
	st, err := store.Open(failpoint.With(context.Background(), func(point string) error {
		if point == "committed: "+op {
			cancel()
		}
		return nil
	}), filepath.Join(f.t.TempDir(), "stops.db"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := st.Close(); err != nil {
			f.t.Error(err)
		}
	})
	f.store, f.host.Store = st, st
	return ctx
}

// A run that is stopped between the journal of a call and the call has not made it,
// and knows that: nobody is asked what it did.
func TestACallThatHadNotBegunWhenTheRunWasStoppedIsNotInDoubt(t *testing.T) {
	f, o := newFixture(t), &once{}
	ctx := f.stopsBehind("open attempt")
	f.script(scripted.Call("note", nil))
	res, err := Run(ctx, f.host, f.contract(withTools(o.tool())), nil)
	if !errors.Is(err, context.Canceled) || len(o.keys) != 0 {
		t.Fatalf("%+v, %v, called %d times", res, err, len(o.keys))
	}
	if left, err := f.store.OpenAttempts(context.Background(), res.RunID); err != nil || len(left) != 0 {
		t.Errorf("in doubt: %+v, %v", left, err)
	}
	f.script(scripted.Call("note", nil), scripted.Say("done"))
	end, err := f.resume(res.RunID, Resumption{Defaults: task.Contract{Tools: tool.Toolbox{o.tool()}}})
	if err != nil || end.Outcome.Kind != trace.Finished || len(o.keys) != 1 {
		t.Errorf("%+v, %v, called %d times", end, err, len(o.keys))
	}
}

func TestAnApprovedCallThatHadNotBegunWhenTheRunWasStoppedIsMadeLater(t *testing.T) {
	f, o := newFixture(t), &once{}
	ctx := f.stopsBehind("open attempt")
	f.host.Policy = policy.Default().Layer("test").AllowRead("*").AskExec("note")
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Decision{}, nil })
	f.script(scripted.Call("note", nil))
	res := f.must(trace.AwaitingApproval, withTools(o.tool()))
	r := Resumption{
		Defaults: task.Contract{Tools: tool.Toolbox{o.tool()}},
		Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()},
	}
	if _, err := Resume(ctx, f.host, res.RunID, r); !errors.Is(err, context.Canceled) || len(o.keys) != 0 {
		t.Fatalf("%v, called %d times", err, len(o.keys))
	}
	m := f.script(scripted.Say("done"))
	r.Decision = nil
	end, err := f.resume(res.RunID, r)
	if err != nil || end.Outcome.Kind != trace.Finished || len(o.keys) != 1 {
		t.Fatalf("%+v, %v, called %d times", end, err, len(o.keys))
	}
	got, _ := scripted.LastResult(m.Requests()[0], "note")
	contains(t, "its result", got, "noted")
}
