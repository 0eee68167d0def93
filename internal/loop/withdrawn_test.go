package loop

import (
	"context"
	"errors"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// A question that the step, made again after a crash, does not ask any more is no
// longer shown to those who answer, and cannot be answered; what the run does ask is.
func TestAQuestionThatTheReplayDoesNotAskIsWithdrawn(t *testing.T) {
	ctx := context.Background()
	f, m := newMortal(t)
	f.script(ask("which port?"))
	m.dieAt("insert step", 0)
	run := f.died()
	if qs := f.questions(run); len(qs) != 1 || !qs[0].Open() {
		t.Fatalf("the crash left %+v", qs)
	}
	f.script(readCall("a.txt"), ask("which name?"), scripted.Say("done"))
	res, err := f.resume(run, Resumption{})
	if err != nil || res.Outcome.Kind != trace.AwaitingAnswer {
		t.Fatalf("%+v, %v", res, err)
	}
	qs := f.questions(run)
	if len(qs) != 2 || qs[0].Open() || qs[0].Answered() || !qs[1].Open() || qs[1].ID != res.Outcome.QuestionID {
		t.Fatalf("questions %+v", qs)
	}
	won, err := f.store.AnswerQuestion(ctx, store.Answer{ID: qs[0].ID, Text: "7171", By: "attached"})
	if won || err != nil {
		t.Errorf("a question that nobody asks was answered: %t, %v", won, err)
	}
	var bad *store.ResumeError
	if _, err := f.resume(run, Resumption{Answer: &Answer{qs[0].ID, []string{"7171"}}}); !errors.As(err, &bad) {
		t.Errorf("a resume that answers it: %v", err)
	}
	end, err := f.resume(run, Resumption{Answer: &Answer{qs[1].ID, []string{"alpha"}}})
	if err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%+v, %v", end, err)
	}
	for _, o := range f.origins(run) {
		if !o.Known() {
			t.Errorf("origin %q", o)
		}
	}
}

// The same question asked again takes up its row, also next to one that is withdrawn.
func TestAQuestionThatTheReplayAsksAgainStays(t *testing.T) {
	f, m := newMortal(t)
	f.script(ask("which port?"))
	m.dieAt("insert step", 0)
	run := f.died()
	f.script(ask("which port?"), scripted.Say("done"))
	res, err := f.resume(run, Resumption{})
	if err != nil || res.Outcome.Kind != trace.AwaitingAnswer {
		t.Fatalf("%+v, %v", res, err)
	}
	if qs := f.questions(run); len(qs) != 1 || !qs[0].Open() || qs[0].ID != res.Outcome.QuestionID {
		t.Errorf("questions %+v", qs)
	}
	if waiting, err := f.store.Waiting(context.Background()); err != nil || len(waiting) != 1 {
		t.Errorf("waiting %+v, %v", waiting, err)
	}
}

func TestAPlanThatTheReplayDoesNotProposeIsWithdrawn(t *testing.T) {
	ctx := context.Background()
	f, m := newMortal(t)
	f.host.PlanGate = deciding()
	f.script(plan("burn it down"))
	m.dieAt("insert step", 0)
	run := f.died()
	f.script(plan("mend it"), scripted.Say("done"))
	res, err := f.resume(run, Resumption{})
	if err != nil || res.Outcome.Kind != trace.AwaitingPlan {
		t.Fatalf("%+v, %v", res, err)
	}
	ps := f.plans(run)
	if len(ps) != 2 || ps[0].Verdict != store.PlanWithdrawn || ps[1].Verdict != store.PlanUndecided || ps[1].ID != res.Outcome.PlanID {
		t.Fatalf("plans %+v", ps)
	}
	won, err := f.store.DecidePlan(ctx, store.PlanDecision{ID: ps[0].ID, Verdict: store.PlanApprove, By: "attached"})
	if won || err != nil {
		t.Errorf("a plan that nobody proposes was approved: %t, %v", won, err)
	}
	end, err := f.resume(run, Resumption{Verdict: &Verdict{ID: ps[1].ID, Verdict: approve.Accept()}})
	if err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%+v, %v", end, err)
	}
}
