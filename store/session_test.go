package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/trace"
)

func newSession(t *testing.T, s *Store) trace.SessionID {
	t.Helper()
	id, err := s.CreateSession(context.Background(), "/repo")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// aTurn takes a turn that ends as kind.
func aTurn(t *testing.T, s *Store, sess trace.SessionID, parent trace.TurnID, prompt string, kind trace.OutcomeKind) trace.TurnID {
	t.Helper()
	d := start(t, s, RunStart{Turn: &TurnStart{Session: sess, Parent: parent, Prompt: prompt}})
	finish(t, s, d, kind, 0)
	return d.TurnID
}

func TestTheHeadFollowsTheTurnsThatEnded(t *testing.T) {
	for _, kind := range trace.OutcomeKinds() {
		t.Run(string(kind), func(t *testing.T) {
			s := newFile(t)
			sess := newSession(t, s)
			first := aTurn(t, s, sess, 0, "one", trace.Finished)
			second := aTurn(t, s, sess, first, "two", kind)
			want := second
			switch kind {
			case trace.EscalatedRetryable, trace.EscalatedTerminal, trace.Refused, trace.Failed, trace.ConfigError:
				want = first // the caller saw an error
			}
			head, err := s.SessionHead(context.Background(), sess)
			if err != nil || head != want {
				t.Errorf("the head is %d, %v, want %d", head, err, want)
			}
			turn, err := s.SessionTurn(context.Background(), second)
			if err != nil || turn.Outcome != kind || turn.ParentID != first || turn.FinishedAt.IsZero() {
				t.Errorf("the turn is %+v, %v", turn, err)
			}
			sound(t, s)
		})
	}
}

func TestATurnOnAnOldHeadIsRefusedBeforeAnythingIsBilled(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess := newSession(t, s)
	first := aTurn(t, s, sess, 0, "one", trace.Finished)
	before := counts(t, s)
	_, err := s.StartRun(ctx, RunStart{Goal: "g", Root: "/r", Turn: &TurnStart{Session: sess, Prompt: "two"}})
	var ce *ConflictError
	if !errors.As(err, &ce) || ce.SessionID != sess || ce.Head != first || ce.Expected != 0 || ce.Owner != "" {
		t.Errorf("StartRun: %v", err)
	}
	if _, err := s.StartRun(ctx, RunStart{Goal: "g", Root: "/r", Turn: &TurnStart{Session: 99}}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a turn of no session: %v", err)
	}
	if after := counts(t, s); after != before {
		t.Errorf("rows changed: %s", after)
	}
}

func TestALostHeadKeepsThePaidAnswer(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess := newSession(t, s)
	a := start(t, s, RunStart{Turn: &TurnStart{Session: sess, Prompt: "a"}})
	b := start(t, s, RunStart{Turn: &TurnStart{Session: sess, Prompt: "b"}})
	finish(t, s, b, trace.Finished, 0)
	err := s.FinishRun(ctx, a, Finish{Outcome: trace.Outcome{Kind: trace.Finished}, Reply: "paid for"})
	var ce *ConflictError
	if !errors.As(err, &ce) || ce.SessionID != sess || ce.Head != b.TurnID {
		t.Fatalf("FinishRun: %v", err)
	}
	turn, err := s.TurnForRun(ctx, a.RunID)
	if err != nil || turn.Reply != "paid for" || turn.Outcome != trace.Finished {
		t.Errorf("the losing turn is %+v, %v", turn, err)
	}
	if l, err := s.LeaseOf(ctx, a.RunID); err != nil || l != nil {
		t.Errorf("the losing run stays held: %+v, %v", l, err)
	}
	if sum, err := s.RunSummary(ctx, a.RunID); err != nil || sum == nil {
		t.Errorf("the losing run has no summary: %v", err)
	}
	sound(t, s)
}

func TestAParkedTurnHearsItsEndWhileTheConversationGoesOn(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess := newSession(t, s)
	d := start(t, s, RunStart{Turn: &TurnStart{Session: sess, Prompt: "one"}})
	commit(t, s, d, aStep(1))
	o := waitFor(t, s, d, trace.AwaitingAnswer)
	next := aTurn(t, s, sess, d.TurnID, "two", trace.Finished)
	d2, _ := enter(t, s, d.RunID, EnterOptions{Answer: &Answer{ID: o.QuestionID, Text: "a"}})
	if d2.TurnID != d.TurnID || d2.SessionID != sess {
		t.Errorf("the drive serves turn %d of %d", d2.TurnID, d2.SessionID)
	}
	if err := s.FinishRun(ctx, d2, Finish{Outcome: trace.Outcome{Kind: trace.Finished, Steps: 1}, Reply: "at last"}); err != nil {
		t.Errorf("FinishRun: %v", err)
	}
	turn, err := s.SessionTurn(ctx, d.TurnID)
	if err != nil || turn.Reply != "at last" || turn.Outcome != trace.Finished {
		t.Errorf("the parked turn is %+v, %v", turn, err)
	}
	if head, err := s.SessionHead(ctx, sess); err != nil || head != next {
		t.Errorf("the head is %d, %v, want %d", head, err, next)
	}
}

func TestATurnWhoseProcessDiedMovesTheHeadWhenItIsResumed(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess := newSession(t, s)
	d := start(t, s, RunStart{Turn: &TurnStart{Session: sess, Prompt: "one"}})
	commit(t, s, d, aStep(1))
	release(t, d)
	turn, err := s.SessionTurn(ctx, d.TurnID)
	if err != nil || turn.Outcome != "" || turn.Reply != "" {
		t.Errorf("the open turn is %+v, %v", turn, err)
	}
	d2, _ := enter(t, s, d.RunID, EnterOptions{})
	finish(t, s, d2, trace.Finished, 1)
	if head, err := s.SessionHead(ctx, sess); err != nil || head != d.TurnID {
		t.Errorf("the head is %d, %v", head, err)
	}
}

func TestBranchesAndTheWayBack(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess, other := newSession(t, s), newSession(t, s)
	one := aTurn(t, s, sess, 0, "one", trace.Finished)
	two := aTurn(t, s, sess, one, "two", trace.Finished)
	alien := aTurn(t, s, other, 0, "alien", trace.Finished)
	if err := s.SetSessionHeadIf(ctx, sess, two, one); err != nil {
		t.Fatal(err)
	}
	three := aTurn(t, s, sess, one, "three", trace.Finished)
	path, err := s.History(ctx, sess, three)
	if err != nil {
		t.Fatal(err)
	}
	var got []trace.TurnID
	for _, p := range path {
		got = append(got, p.ID)
	}
	if diff := cmp.Diff([]trace.TurnID{one, three}, got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	all, err := s.SessionTurns(ctx, sess)
	if err != nil || len(all) != 3 {
		t.Errorf("all turns: %+v, %v", all, err)
	}
	var ce *ConflictError
	if err := s.SetSessionHeadIf(ctx, sess, two, one); !errors.As(err, &ce) || ce.Head != three || ce.Expected != two ||
		!strings.Contains(err.Error(), fmt.Sprintf("at turn %d and not at turn %d", three, two)) {
		t.Errorf("a move from an old head: %v", err)
	}
	for name, head := range map[string]trace.TurnID{"a turn of another session": alien, "no turn": 4711, "a negative turn": -1} {
		if err := s.SetSessionHeadIf(ctx, sess, three, head); !errors.Is(err, ErrNotFound) {
			t.Errorf("a move to %s: %v", name, err)
		}
	}
	if err := s.SetSessionHeadIf(ctx, sess, three, 0); err != nil {
		t.Errorf("a move to before the first turn: %v", err)
	}
	if err := s.SetSessionHeadIf(ctx, sess, 0, three); err != nil {
		t.Errorf("a move from before the first turn: %v", err)
	}
	if err := s.SetSessionHeadIf(ctx, 99, 0, 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("a move in no session: %v", err)
	}
	if p, err := s.History(ctx, sess, alien); err != nil || len(p) != 0 {
		t.Errorf("the history from another session's turn: %+v, %v", p, err)
	}
	if r, err := s.SessionRoot(ctx, sess); err != nil || r != "/repo" {
		t.Errorf("the root is %q, %v", r, err)
	}
	for _, id := range []trace.SessionID{0, -1, 99} {
		if _, err := s.SessionRoot(ctx, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("the root of session %d: %v", id, err)
		}
	}
	if tn, err := s.TurnForRun(ctx, 4711); err != nil || tn != nil {
		t.Errorf("the turn of no run: %+v, %v", tn, err)
	}
}

func TestAHistoryEditedByHandEnds(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess := newSession(t, s)
	one := aTurn(t, s, sess, 0, "one", trace.Finished)
	two := aTurn(t, s, sess, one, "two", trace.Finished)
	raw(t, s.Path(), `UPDATE session_turns SET parent_turn_id = ? WHERE id = ?`, int64(two), int64(one))
	path, err := s.History(ctx, sess, two)
	if err != nil || len(path) != 2 {
		t.Errorf("the path of a circle has %d turns, %v", len(path), err)
	}
}

// Whose turn failed had no place on the path to lose: when it is resumed to an end
// after the conversation went on, it is told that it has none.
func TestATurnThatIsResumedLosesItsPlaceOnlyIfItHadNone(t *testing.T) {
	for first, lost := range map[trace.OutcomeKind]bool{trace.ConfigError: true, trace.Failed: true, trace.AwaitingRecovery: false, trace.StepCapReached: false} {
		t.Run(string(first), func(t *testing.T) {
			s := newFile(t)
			id, err := s.CreateSession(t.Context(), "/w")
			if err != nil {
				t.Fatal(err)
			}
			d := start(t, s, RunStart{Turn: &TurnStart{Session: id, Prompt: "one"}})
			if err := s.FinishRun(t.Context(), d, Finish{Outcome: trace.Outcome{Kind: first}}); err != nil {
				t.Fatal(err)
			}
			head, err := s.SessionHead(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			next := start(t, s, RunStart{Turn: &TurnStart{Session: id, Parent: head, Prompt: "two"}})
			if err := s.FinishRun(t.Context(), next, Finish{Outcome: trace.Outcome{Kind: trace.Finished}}); err != nil {
				t.Fatal(err)
			}
			again, _, err := s.EnterDrive(t.Context(), d.RunID, EnterOptions{Provider: "scripted"})
			if err != nil || again == nil {
				t.Fatal(again, err)
			}
			err = s.FinishRun(t.Context(), again, Finish{Outcome: trace.Outcome{Kind: trace.Finished}, Reply: "late"})
			var conflict *ConflictError
			if got := errors.As(err, &conflict) && conflict.SessionID == id && conflict.Head == next.TurnID; got != lost || !lost && err != nil {
				t.Errorf("%v", err)
			}
			if now, err := s.SessionHead(t.Context(), id); err != nil || now != next.TurnID {
				t.Errorf("head %d, %v", now, err)
			}
			if turn, err := s.SessionTurn(t.Context(), d.TurnID); err != nil || turn.Reply != "late" {
				t.Errorf("%+v, %v", turn, err)
			}
		})
	}
}
