package loop

import (
	"context"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// archivedTurn takes a turn of a session that comes to wait, and archives the session.
func (f *fixture) archivedTurn(want trace.OutcomeKind, change ...func(*task.Contract)) *trace.Result {
	f.t.Helper()
	ctx := context.Background()
	id, err := f.store.CreateSession(ctx, f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	res, err := Run(ctx, f.host, f.contract(change...), &Turn{Session: id})
	if err != nil || res.Outcome.Kind != want {
		f.t.Fatalf("%+v, %v", res, err)
	}
	if _, err := f.store.ArchiveSession(ctx, id); err != nil {
		f.t.Fatal(err)
	}
	return res
}

// An archive empties words and leaves what decides how a run goes on, so a run that
// waits for a person still goes on with the answer.
func TestAnArchivedRunGoesOnWithWhatItWaitedFor(t *testing.T) {
	stated := task.Contract{Goal: "the goal as I remember it"}
	for name, r := range map[string]struct {
		r     Resumption
		tells string
	}{
		"as it was":            {Resumption{}, "has been archived"},
		"with a goal stated":   {Resumption{Contract: &stated}, "the goal as I remember it"},
		"with nothing to tell": {Resumption{Contract: &task.Contract{}}, "has been archived"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, scripted.Call("ask_question", map[string]string{"question": "which port?"}))
			res := f.archivedTurn(trace.AwaitingAnswer)
			m := f.script(scripted.Say("done"))
			r.r.Answer = &Answer{res.Outcome.QuestionID, []string{"use 7171"}}
			end, err := f.resume(res.RunID, r.r)
			if err != nil || end.Outcome.Kind != trace.Finished || end.Reply != "done" {
				t.Fatalf("%+v, %v", end, err)
			}
			contains(t, "the request", m.Requests()[0].User, "use 7171")
			contains(t, "the request", m.Requests()[0].User, r.tells)
		})
	}
}

func TestAPlanThatWasApprovedAndArchivedIsGoneOnWith(t *testing.T) {
	f := newFixture(t, scripted.Call("propose_plan", map[string]any{"steps": []map[string]string{{"intent": "look"}}}))
	f.host.PlanGate = approve.HoldPlans
	ctx := context.Background()
	id, err := f.store.CreateSession(ctx, f.dir)
	if err != nil {
		t.Fatal(err)
	}
	res, err := Run(ctx, f.host, f.contract(), &Turn{Session: id})
	if err != nil || res.Outcome.Kind != trace.AwaitingPlan {
		t.Fatalf("%+v, %v", res, err)
	}
	// Said from elsewhere while nobody drives, so that it is still to be told.
	if won, err := f.store.DecidePlan(ctx, store.PlanDecision{ID: res.Outcome.PlanID, Verdict: store.PlanApprove}); err != nil || !won {
		t.Fatal(won, err)
	}
	if _, err := f.store.ArchiveSession(ctx, id); err != nil {
		t.Fatal(err)
	}
	f.script(scripted.Say("done"))
	if end, err := f.resume(res.RunID, Resumption{}); err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%+v, %v", end, err)
	}
}

// What is done must be what was approved. The arguments went with the archive, and a
// tool that can do without them would do something else.
func TestWhatWasApprovedIsNotDoneWithoutItsArguments(t *testing.T) {
	called := 0
	deploy := tool.New("deploy", "Deploys.", func(_ context.Context, in struct {
		To string `json:"to,omitempty"`
	}) (string, error) {
		called++
		return "deployed to " + in.To, nil
	})
	f := newFixture(t, scripted.Call("deploy", map[string]string{"to": "staging"}))
	f.host.Policy = open.Layer("people").AskExec("deploy")
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Defer(), nil })
	res := f.archivedTurn(trace.AwaitingApproval, withTools(deploy))
	m := f.script(scripted.Say("done"))
	c := f.contract(withTools(deploy))
	end, err := f.resume(res.RunID, Resumption{Contract: &c, Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()}})
	if err != nil || end.Outcome.Kind != trace.Finished || called != 0 {
		t.Fatalf("%+v, %v; called %d times", end, err, called)
	}
	told, _ := scripted.LastResult(m.Requests()[0], "deploy")
	contains(t, "the model", told+m.Requests()[0].User, "archived")
	row, err := f.store.Pending(context.Background(), res.Outcome.RequestID)
	if err != nil || row.Verdict != store.Deny || row.DecidedBy != overruledByLoss || row.Reason == "" || !row.PerformedAt.IsZero() {
		t.Errorf("row %+v, %v", row, err)
	}
	refused := false
	for e, err := range f.store.Refusals(context.Background(), res.RunID) {
		if err != nil {
			t.Fatal(err)
		}
		refused = refused || e.Act == string(policy.Exec) && e.Target == "deploy"
	}
	if !refused {
		t.Error("the refusal is not in the trace")
	}
}
