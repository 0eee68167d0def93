package session_test

import (
	"context"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/trace"
)

// pausing is a turn of f that waits for a person: to allow a write of asked/a,
// to answer a question, or to judge a plan.
func (f *fixture) pausing(s *session.Session, what string) *session.Turn {
	f.t.Helper()
	switch what {
	case "approval":
		f.model.Push(write("asked/a", "a"))
	case "question":
		f.model.Push(scripted.Call("ask_question", map[string]string{"question": "which port?"}))
	case "plan":
		f.model.Push(scripted.Call("propose_plan", map[string]any{"steps": []map[string]string{{"intent": "look"}}}))
	}
	return f.turn(s, "P2")
}

func newPausing(t *testing.T, what string) (*fixture, *session.Session, *session.Turn) {
	f := newFixture(t, scripted.Say("R1"))
	f.cfg.Policy = rules().AskWrite("asked/*")
	f.cfg.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Defer(), nil })
	if what == "plan" {
		f.cfg.PlanGate = approve.HoldPlans
	}
	s := f.open()
	first := f.turn(s, "P1")
	paused := f.pausing(s, what)
	if paused.Parent != first.ID {
		t.Fatalf("%+v", paused)
	}
	return f, s, paused
}

func TestATurnThatWaitsForAPersonIsClosedAgainByEachWord(t *testing.T) {
	other := "b"
	rewritten := approve.Approve()
	rewritten.Modified = &approve.Modified{Content: &other}
	request := func(d approve.Decision) func(trace.Outcome) session.Option {
		return func(o trace.Outcome) session.Option { return session.Decide(o.RequestID, d) }
	}
	verdict := func(v approve.PlanVerdict) func(trace.Outcome) session.Option {
		return func(o trace.Outcome) session.Option { return session.Verdict(o.PlanID, v) }
	}
	done := []scripted.Turn{scripted.Say("R2")}
	for _, tc := range []struct {
		name, what string
		waits      trace.OutcomeKind
		word       func(trace.Outcome) session.Option
		turns      []scripted.Turn // of the resume
		end        trace.OutcomeKind
		reply      string
		told       string // in the last request of the resume
		file       string // asked/a
	}{
		{"an approval", "approval", trace.AwaitingApproval, request(approve.Approve()), done, trace.Finished, "R2", "asked/a", "a"},
		{"an approval of something else", "approval", trace.AwaitingApproval, request(rewritten), done, trace.Finished, "R2", "asked/a", "b"},
		{"a denial", "approval", trace.AwaitingApproval, request(approve.Deny("not that file")), nil, trace.Denied, "", "", ""},
		{"an answer", "question", trace.AwaitingAnswer, func(o trace.Outcome) session.Option { return session.Answer(o.QuestionID, "use 7171") }, done, trace.Finished, "R2", "use 7171", ""},
		{"a plan accepted", "plan", trace.AwaitingPlan, verdict(approve.Accept()), done, trace.Finished, "R2", "1. look", ""},
		{"a plan sent back", "plan", trace.AwaitingPlan, verdict(approve.Revise("look twice")),
			[]scripted.Turn{scripted.Call("propose_plan", map[string]any{"steps": []map[string]string{{"intent": "look twice"}}})}, trace.AwaitingPlan, "", "look twice", ""},
		{"a plan cancelled", "plan", trace.AwaitingPlan, verdict(approve.Cancel()), nil, trace.PlanRejected, "", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, s, paused := newPausing(t, tc.what)
			row, err := f.store.SessionTurn(ctx, paused.ID)
			if err != nil || paused.Outcome.Kind != tc.waits || row.Outcome != tc.waits || row.Reply != "" || s.Head() != paused.ID {
				t.Fatalf("the turn %+v, its row %+v, %v; head %d", paused, row, err, s.Head())
			}
			asked := len(f.model.Requests())
			f.model.Push(tc.turns...)
			s = f.reopen(s.ID())
			back, err := s.ResumeTurn(ctx, paused.ID, tc.word(paused.Outcome))
			if err != nil || back.ID != paused.ID || back.Outcome.Kind != tc.end || back.Reply != tc.reply || s.Head() != paused.ID {
				t.Fatalf("%+v, %v; head %d", back, err, s.Head())
			}
			if n := len(f.model.Requests()) - asked; n != len(tc.turns) {
				t.Errorf("the resume asked the model %d times, want %d", n, len(tc.turns))
			}
			if got := said(f.last()); !strings.Contains(got, tc.told) {
				t.Errorf("the model is not told %q:\n%s", tc.told, got)
			}
			if f.content("asked/a") != tc.file {
				t.Errorf("the file holds %q, want %q", f.content("asked/a"), tc.file)
			}
			row, err = f.store.SessionTurn(ctx, paused.ID)
			if err != nil || row.Outcome != tc.end || row.Reply != tc.reply {
				t.Errorf("row %+v, %v", row, err)
			}
			if tc.end == trace.AwaitingPlan && back.Outcome.PlanID == paused.Outcome.PlanID {
				t.Error("it waits for the plan that was sent back")
			}
			f.cfg.PlanGate = nil
			f.model.Push(scripted.Say("R3"))
			next := f.turn(f.reopen(s.ID()), "P3")
			if got := said(f.last()); next.Parent != paused.ID || !strings.Contains(got, "P2") || strings.Contains(got, "R2") != (tc.reply == "R2") {
				t.Errorf("the next turn %+v is told\n%s", next, got)
			}
		})
	}
}

// The conversation may go on while an earlier turn waits: its end is heard and
// takes nothing back.
func TestATurnThatWaitsEndsBesideTheConversation(t *testing.T) {
	for _, what := range []string{"approval", "question", "plan"} {
		t.Run(what, func(t *testing.T) {
			f, s, paused := newPausing(t, what)
			f.model.Push(scripted.Say("R3"))
			third := f.turn(s, "P3")
			word := map[string]session.Option{
				"approval": session.Decide(paused.Outcome.RequestID, approve.Approve()),
				"question": session.Answer(paused.Outcome.QuestionID, "use 7171"),
				"plan":     session.Verdict(paused.Outcome.PlanID, approve.Accept()),
			}[what]
			f.model.Push(scripted.Say("R2"))
			back, err := s.ResumeTurn(ctx, paused.ID, word)
			if err != nil || back.Reply != "R2" || s.Head() != third.ID || f.reopen(s.ID()).Head() != third.ID {
				t.Fatalf("%+v, %v; head %d, want %d", back, err, s.Head(), third.ID)
			}
			f.model.Push(scripted.Say("R4"))
			f.turn(s, "P4")
			if got := said(f.last()); !strings.Contains(got, "R2") || !strings.Contains(got, "R3") {
				t.Errorf("the next turn is told\n%s", got)
			}
		})
	}
}
