package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/budget"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// folding answers a summary's request by itself and counts it.
type folding struct {
	*scripted.Model
	n atomic.Int64
}

func (m *folding) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	if len(req.Tools) == 0 && strings.Contains(req.SystemText(), "You compact an agent's own notes") {
		n := m.n.Add(1)
		return scripted.Say(fmt.Sprintf("PARAGRAPH-%d about it.", n))(ctx, req)
	}
	return m.Model.Complete(ctx, req, on)
}

// long is a conversation of n answered turns.
func (f *fixture) long(n int) (*session.Session, *folding, []*session.Turn) {
	f.t.Helper()
	m := &folding{Model: f.model}
	f.cfg.Provider = m
	f.cfg.Defaults = task.Contract{Compaction: task.Compaction{Keep: 2}}
	s := f.open()
	var turns []*session.Turn
	for i := 1; i <= n; i++ {
		f.model.Push(scripted.Say(fmt.Sprintf("ANSWER-%d", i)))
		turns = append(turns, f.turn(s, fmt.Sprintf("PROMPT-%d", i)))
	}
	return s, m, turns
}

// shows checks which of a conversation's words a request has.
func (f *fixture) shows(what string, want, never []string) {
	f.t.Helper()
	text := said(f.last())
	for _, w := range want {
		if !strings.Contains(text, w) {
			f.t.Errorf("%s does not show %s", what, w)
		}
	}
	for _, w := range never {
		if strings.Contains(text, w) {
			f.t.Errorf("%s shows %s", what, w)
		}
	}
}

func TestAFoldOutlivesItsTurn(t *testing.T) {
	f := newFixture(t)
	s, m, turns := f.long(3)
	f.model.Push(scripted.Say("ANSWER-4"))
	fourth := f.turn(s, "PROMPT-4", session.WithFoldNow())
	if m.n.Load() != 1 {
		t.Fatalf("%d folds, want 1", m.n.Load())
	}
	// Six entries, of which the last two stay.
	f.shows("the folding turn", []string{"PARAGRAPH-1", "PROMPT-3", "ANSWER-3", "PROMPT-4"}, []string{"PROMPT-1", "ANSWER-1", "PROMPT-2", "ANSWER-2"})

	f.model.Push(scripted.Say("ANSWER-5"))
	fifth := f.turn(f.reopen(s.ID()), "PROMPT-5")
	if m.n.Load() != 1 {
		t.Errorf("the next turn folded again")
	}
	f.shows("the next turn", []string{"PARAGRAPH-1", "PROMPT-3", "ANSWER-3", "PROMPT-4", "ANSWER-4", "PROMPT-5"}, []string{"PROMPT-1", "ANSWER-2"})
	if n := strings.Count(said(f.last()), "ANSWER-4"); n > 2 { // once in the flat text, once as a message
		t.Errorf("the folding turn's answer is told %d times", n)
	}

	tr, err := s.Transcript(ctx)
	if err != nil {
		t.Fatal(err)
	}
	text := tr.Markdown()
	for i := 1; i <= 5; i++ {
		if !strings.Contains(text, fmt.Sprintf("PROMPT-%d", i)) || !strings.Contains(text, fmt.Sprintf("ANSWER-%d", i)) {
			t.Errorf("the transcript lost turn %d", i)
		}
	}
	if len(tr.Turns[3].Summaries) != 1 || tr.Turns[3].TurnID != fourth.ID || !strings.Contains(tr.Turns[3].Summaries[0].Text, "PARAGRAPH-1") {
		t.Errorf("summaries of the folding turn: %+v", tr.Turns[3].Summaries)
	}

	s = f.reopen(s.ID())
	if s.Head() != fifth.ID {
		t.Fatalf("head %d", s.Head())
	}
	if err := s.Branch(ctx, turns[1].ID); err != nil {
		t.Fatal(err)
	}
	f.model.Push(scripted.Say("ANSWER-6"))
	f.turn(s, "PROMPT-6")
	f.shows("a branch that leaves the fold behind", []string{"PROMPT-1", "ANSWER-1", "PROMPT-2", "ANSWER-2", "PROMPT-6"}, []string{"PARAGRAPH", "PROMPT-3", "PROMPT-4"})
}

// What was answered to a first step that died is of its own turn: no later one is
// told it, folded or not.
func TestAnAnswerToAStepThatDiedIsNoPartOfAFoldedConversation(t *testing.T) {
	f := newFixture(t)
	s, m, _ := f.long(3)
	dying, cancel := context.WithCancel(ctx)
	f.model.Push(scripted.Call("ask_question", map[string]any{"question": "which colour?"}))
	_, err := s.Turn(dying, "PROMPT-4", session.WithFoldNow(), session.WithResponder(approve.ResponderFunc(func(context.Context, approve.Question) (approve.Reply, error) {
		cancel()
		<-dying.Done()
		return approve.Reply{}, dying.Err()
	})))
	var te *session.TurnError
	if !errors.As(err, &te) || m.n.Load() != 1 {
		t.Fatalf("%d folds, %v", m.n.Load(), err)
	}
	a := session.Attach(f.store, te.Run)
	ws, err := a.Waiting(ctx)
	if err != nil || len(ws) != 1 {
		t.Fatalf("%+v, %v", ws, err)
	}
	if _, err := a.AnswerQuestion(ctx, ws[0].(session.WaitingQuestion).QuestionID, "ULTRAMARINE"); err != nil {
		t.Fatal(err)
	}
	f.model.Push(scripted.Say("ANSWER-4"))
	if turn, err := s.ResumeTurn(ctx, te.Turn); err != nil || turn.Reply != "ANSWER-4" {
		t.Fatalf("%+v, %v", turn, err)
	}
	f.shows("the turn itself", []string{"ULTRAMARINE"}, nil)
	f.model.Push(scripted.Say("ANSWER-5"))
	f.turn(s, "PROMPT-5")
	f.shows("the next turn", []string{"PARAGRAPH-1", "PROMPT-3", "PROMPT-4", "ANSWER-4"}, []string{"ULTRAMARINE"})
}

func TestAFoldOfAFoldCoversBoth(t *testing.T) {
	f := newFixture(t)
	s, m, _ := f.long(3)
	for i := 4; i <= 6; i++ {
		f.model.Push(scripted.Say(fmt.Sprintf("ANSWER-%d", i)))
		f.turn(s, fmt.Sprintf("PROMPT-%d", i), session.WithFoldNow())
	}
	if m.n.Load() != 3 {
		t.Errorf("%d folds", m.n.Load())
	}
	f.model.Push(scripted.Say("ANSWER-7"))
	f.turn(s, "PROMPT-7")
	f.shows("the turn after three folds", []string{"PARAGRAPH-3", "PROMPT-5", "ANSWER-5", "PROMPT-6", "ANSWER-6"}, []string{"PARAGRAPH-1", "PARAGRAPH-2", "PROMPT-4"})
}

// A fold that is asked for at each of two boundaries is made twice, and a later turn
// goes on from the newer one.
func TestTwoFoldsOfOneTurnAreTwoAndTheNewerOutlivesIt(t *testing.T) {
	f := newFixture(t)
	s, m, _ := f.long(3)
	steer, inbox := session.NewSteer()
	steer.Fold()
	f.model.Push(read("a"), func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		steer.Fold()
		return read("b")(ctx, req)
	}, scripted.Say("ANSWER-4"))
	turn := f.turn(s, "PROMPT-4", session.WithSteer(inbox))
	if m.n.Load() != 2 {
		t.Fatalf("%d folds, want one at each boundary", m.n.Load())
	}
	folds, err := f.store.HistorySummaries(ctx, turn.RunID)
	if err != nil || len(folds) != 2 {
		t.Fatalf("%d summaries, %v", len(folds), err)
	}
	f.model.Push(scripted.Say("ANSWER-5"))
	f.turn(s, "PROMPT-5")
	f.shows("the next turn", []string{"PARAGRAPH-2", "PROMPT-4", "ANSWER-4"}, []string{"PARAGRAPH-1", "PROMPT-1", "ANSWER-2"})
}

func TestWhenAFoldThatWasAskedForHappens(t *testing.T) {
	off := task.Contract{Compaction: task.Compaction{Share: task.NoCompaction, Keep: 2}}
	now := task.Contract{Compaction: task.Compaction{Keep: 2, Now: true}}
	both := task.Contract{Compaction: task.Compaction{Share: task.NoCompaction, Keep: 2, Now: true}}
	for _, tc := range []struct {
		name   string
		turns  int
		opts   []session.Option
		before func(*session.Steer) // the turn
		while  func(*session.Steer) // its first completion
		folds  int64
		end    trace.OutcomeKind
	}{
		{"by the operator before the turn", 3, nil, func(s *session.Steer) { s.Fold() }, nil, 1, trace.Finished},
		{"twice at one boundary", 3, nil, func(s *session.Steer) { s.Fold(); s.Fold() }, nil, 1, trace.Finished},
		{"by the operator while it works", 3, nil, nil, func(s *session.Steer) { s.Fold() }, 1, trace.Finished},
		{"by the contract", 3, []session.Option{session.WithContract(now)}, nil, nil, 1, trace.Finished},
		{"by the contract and the operator at once", 3, []session.Option{session.WithContract(now), session.WithFoldNow()}, func(s *session.Steer) { s.Fold() }, nil, 1, trace.Finished},
		{"never by the contract when it is off", 3, []session.Option{session.WithContract(both)}, nil, nil, 0, trace.Finished},
		{"never by the contract when there is nothing to fold", 1, []session.Option{session.WithContract(now)}, nil, nil, 0, trace.Finished},
		{"never when it is off", 3, []session.Option{session.WithContract(off), session.WithFoldNow()}, func(s *session.Steer) { s.Fold() }, nil, 0, trace.Finished},
		{"never when there is nothing to fold", 1, []session.Option{session.WithFoldNow()}, func(s *session.Steer) { s.Fold() }, nil, 0, trace.Finished},
		{"never beside an interrupt", 3, nil, func(s *session.Steer) { s.Fold(); s.Interrupt(session.AfterTools) }, nil, 0, trace.Cancelled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			s, m, _ := f.long(tc.turns)
			steer, in := session.NewSteer()
			if tc.before != nil {
				tc.before(steer)
			}
			f.model.Push(during(func() {
				if tc.while != nil {
					tc.while(steer)
				}
			}, read("a")), scripted.Say("done"))
			turn := f.turn(s, "go on", append(tc.opts, session.WithSteer(in))...)
			if turn.Outcome.Kind != tc.end || m.n.Load() != tc.folds {
				t.Errorf("%s after %d folds, want %s after %d", turn.Outcome, m.n.Load(), tc.end, tc.folds)
			}
		})
	}
}

func TestAConversationLargerThanTheWindowIsFoldedOnItsFirstStep(t *testing.T) {
	f := newFixture(t)
	s, m, _ := f.long(4)
	f.model.Push(scripted.FailKind(provider.ContextOverflow, "too long"), scripted.Say("it fits"))
	turn := f.turn(s, "go on")
	if turn.Reply != "it fits" || m.n.Load() != 1 {
		t.Errorf("%+v after %d folds", turn, m.n.Load())
	}
}

func TestAResumedTurnDoesNotFoldAgain(t *testing.T) {
	contract := task.Contract{Compaction: task.Compaction{Keep: 2, Now: true}}
	for name, opt := range map[string]session.Option{
		"asked for by the turn":     session.WithFoldNow(),
		"asked for by the contract": session.WithContract(contract),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s, m, _ := f.long(3)
			c, cancel := context.WithCancel(ctx)
			f.model.Push(read("a"), func(ctx context.Context, _ *provider.Request) (*provider.Response, error) {
				cancel()
				return nil, ctx.Err()
			})
			_, err := s.Turn(c, "go on", opt)
			if !errors.Is(err, context.Canceled) || m.n.Load() != 1 {
				t.Fatalf("%v after %d folds", err, m.n.Load())
			}
			f.model.Push(read("b"), scripted.Say("done"))
			if back, err := s.ResumeTurn(ctx, turnError(t, err).Turn); err != nil || back.Reply != "done" {
				t.Fatalf("%+v, %v", back, err)
			}
			if m.n.Load() != 1 {
				t.Errorf("%d folds: the resume bought another", m.n.Load())
			}
			f.shows("the resumed turn", []string{"PARAGRAPH-1", "PROMPT-3"}, []string{"PROMPT-1"})
		})
	}
}

func TestAnAnswerThatWasTooDearIsNoPartOfTheConversation(t *testing.T) {
	f := newFixture(t)
	s, _, _ := f.long(3)
	f.model.Push(scripted.Say("ANSWER-4").Using(provider.Usage{TotalTokens: 1000}))
	tight := task.Contract{Compaction: task.Compaction{Keep: 2}, Budget: budget.Limits{Tokens: 900}}
	if turn := f.turn(s, "PROMPT-4", session.WithFoldNow(), session.WithContract(tight)); turn.Outcome.Kind != trace.CostBudgetExceeded || turn.Reply != "" {
		t.Fatalf("%s with the reply %q", turn.Outcome, turn.Reply)
	}
	f.model.Push(scripted.Say("ANSWER-5"))
	f.turn(s, "PROMPT-5")
	f.shows("the next request", []string{"PROMPT-4", "PROMPT-5"}, []string{"ANSWER-4"})
}
