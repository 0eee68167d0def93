package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/trace"
)

// What a person was asked about, or what a call was made with, is never guessed:
// a row in which it cannot be read is named, with its run and its step, and the
// run stays where it is until somebody has looked.
func TestADamagedRequestIsNamedAndNobodyActsOnIt(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		table, column string
		kind          trace.OutcomeKind
		read          func(s *Store, run trace.RunID, o trace.Outcome) error
		decide        EnterOptions // filled with the id of what is waited for
	}{
		{"pending_approvals", "arguments", trace.AwaitingApproval, readsApproval, EnterOptions{Decision: &ApprovalDecision{Verdict: Approve}}},
		{"pending_approvals", "modified", trace.AwaitingApproval, readsApproval, EnterOptions{}},
		{"pending_approvals", "remember", trace.AwaitingApproval, readsApproval, EnterOptions{}},
		{"pending_approvals", "bound", trace.AwaitingApproval, readsApproval, EnterOptions{Decision: &ApprovalDecision{Verdict: Approve}}},
		{"pending_questions", "choices", trace.AwaitingAnswer, readsQuestion, EnterOptions{Answer: &Answer{Text: "a"}}},
		{"pending_questions", "questions", trace.AwaitingAnswer, readsQuestion, EnterOptions{Answer: &Answer{Text: "a"}}},
		{"pending_questions", "answers", trace.AwaitingAnswer, readsQuestion, EnterOptions{Answer: &Answer{Text: "a"}}},
		{"plans", "steps", trace.AwaitingPlan, readsPlan, EnterOptions{Verdict: &PlanDecision{Verdict: PlanApprove}}},
		{"tool_attempts", "arguments", trace.AwaitingRecovery, readsAttempt, EnterOptions{Recovery: &RecoveryDecision{Verdict: RecoveredRetry}}},
		{"tool_attempts", "turn", trace.AwaitingRecovery, readsAttempt, EnterOptions{Recovery: &RecoveryDecision{Verdict: RecoveredRetry}}},
	} {
		t.Run(tc.table+"."+tc.column, func(t *testing.T) {
			s := newFile(t)
			d := start(t, s, RunStart{})
			commit(t, s, d, aStep(1))
			o := waitFor(t, s, d, tc.kind)
			raw(t, s.Path(), fmt.Sprintf(`UPDATE %s SET %s = '{"half":'`, tc.table, tc.column))
			before := dump(t, s.Path())
			names := func(what string, err error) {
				t.Helper()
				var se *Error
				var re *ResumeError
				if !errors.As(err, &re) && (!errors.As(err, &se) || se.Kind != KindCorrupt) {
					t.Errorf("%s: %v, want a damaged row", what, err)
					return
				}
				text := err.Error()
				if !strings.Contains(text, "run "+d.RunID.String()) && (re == nil || re.RunID != d.RunID) {
					t.Errorf("%s: %s does not name the run", what, text)
				}
				if re == nil && (!strings.Contains(text, "step ") || !strings.Contains(text, tc.column) || !strings.Contains(text, tc.table)) {
					t.Errorf("%s: %s does not name the row", what, text)
				}
			}
			names("read", tc.read(s, d.RunID, o))
			for i, opt := range []EnterOptions{{}, tc.decide} {
				if opt.Decision != nil {
					opt.Decision.ID = o.RequestID
				}
				if opt.Answer != nil {
					opt.Answer.ID = o.QuestionID
				}
				if opt.Verdict != nil {
					opt.Verdict.ID = o.PlanID
				}
				if opt.Recovery != nil {
					opt.Recovery.ID = o.AttemptID
				}
				_, _, err := s.EnterDrive(ctx, d.RunID, opt)
				names("enter "+itoa(i), err)
			}
			if after := dump(t, s.Path()); after != before {
				t.Errorf("something was written:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

func TestADamagedAnswerIsHandedToNobody(t *testing.T) {
	ctx := context.Background()
	for _, column := range []string{"schema", "value"} {
		s := newFile(t)
		d := start(t, s, RunStart{})
		c := aStep(1)
		c.Finish = &Finish{Outcome: trace.Outcome{Kind: trace.Success, Steps: 1}, Output: &Output{Schema: []byte(`{}`), Value: []byte(`{"a":1}`), Valid: true}}
		commit(t, s, d, c)
		raw(t, s.Path(), `UPDATE run_outputs SET `+column+` = '{"a":'`)
		_, err := s.RunOutput(ctx, d.RunID)
		var se *Error
		if !errors.As(err, &se) || se.Kind != KindCorrupt || !strings.Contains(err.Error(), column) || !strings.Contains(err.Error(), "run "+d.RunID.String()) {
			t.Errorf("%s: %v, want a damaged row of the run", column, err)
		}
	}
}

func readsApproval(s *Store, run trace.RunID, o trace.Outcome) error {
	_, err := s.Pending(context.Background(), o.RequestID)
	_, all := s.Approvals(context.Background(), run)
	return errors.Join(err, all)
}

func readsQuestion(s *Store, _ trace.RunID, o trace.Outcome) error {
	_, err := s.Question(context.Background(), o.QuestionID)
	return err
}

func readsPlan(s *Store, run trace.RunID, _ trace.Outcome) error {
	_, err := s.Plans(context.Background(), run)
	return err
}

func readsAttempt(s *Store, run trace.RunID, _ trace.Outcome) error {
	_, err := s.OpenAttempts(context.Background(), run)
	return err
}

// A word that only newer software knows never lets anything happen: nothing is
// deleted, permitted, called a second time or taken for a good end because of it.
func TestNoUnknownWordLetsAnythingHappen(t *testing.T) {
	ctx := context.Background()
	t.Run("a call that ended in an unknown way is not made again", func(t *testing.T) {
		s, d, id := journalled(t)
		if err := s.CloseAttempt(ctx, d, id, Returned, "deployed v3"); err != nil {
			t.Fatal(err)
		}
		release(t, d)
		raw(t, s.Path(), `UPDATE tool_attempts SET resolution = 'compensated'`)
		d2, res := enter(t, s, d.RunID, EnterOptions{})
		if d2 == nil || len(res.Accounts) != 1 || res.Accounts[0].Account != "deployed v3" {
			t.Errorf("a replay would make the call again: %+v", res)
		}
	})
	t.Run("a note that was kept in an unknown way is left alone by an undo", func(t *testing.T) {
		s := newFile(t)
		d := start(t, s, RunStart{})
		remembers(t, s, d, "k", "during", MemoryLimits{})
		finish(t, s, d, trace.Finished, 0)
		raw(t, s.Path(), `UPDATE memory_snapshots SET state = 'vaulted'; UPDATE memory SET kind = 'hunch'`)
		rw, err := s.BeginRewind(ctx, d.RunID, 0)
		if err != nil {
			t.Fatal(err)
		}
		items, err := rw.Memory(ctx)
		if err != nil || len(items) != 1 || items[0].Verdict != "not_kept" {
			t.Errorf("%+v, %v", items, err)
		}
		if err := rw.Done(ctx, true); err != nil {
			t.Fatal(err)
		}
		if e, err := s.MemoryGet(ctx, ws, "k"); err != nil || e == nil || e.Value != "during" {
			t.Errorf("the note is %+v, %v", e, err)
		}
	})
	t.Run("an undo in an unknown state has not come to its end", func(t *testing.T) {
		s := newFile(t)
		d := start(t, s, RunStart{})
		finish(t, s, d, trace.Finished, 0)
		rw, err := s.BeginRewind(ctx, d.RunID, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := rw.Done(ctx, true); err != nil {
			t.Fatal(err)
		}
		raw(t, s.Path(), `UPDATE rewinds SET state = 'verified'`)
		if rows, err := s.Rewinds(ctx, d.RunID); err != nil || len(rows) != 1 || rows[0].Done {
			t.Errorf("%+v, %v", rows, err)
		}
	})
	t.Run("a command in an unknown state is nobody's to stop", func(t *testing.T) {
		s := newFile(t)
		d := start(t, s, RunStart{})
		if _, err := s.StartHandle(ctx, d, 1, "sleep 9"); err != nil {
			t.Fatal(err)
		}
		raw(t, s.Path(), `UPDATE process_handles SET state = 'frozen'`)
		if hs, err := s.ProcessHandles(ctx, d.RunID); err != nil || len(hs) != 1 || hs[0].State != HandleOrphaned {
			t.Errorf("%+v, %v", hs, err)
		}
	})
	t.Run("an item of a list in an unknown state is left out", func(t *testing.T) {
		s := newFile(t)
		d := start(t, s, RunStart{})
		if _, err := s.WriteTodos(ctx, d, []TodoItem{{"a", TodoActive}, {"b", TodoPending}}); err != nil {
			t.Fatal(err)
		}
		raw(t, s.Path(), `UPDATE todos SET state = 'blocked' WHERE text = 'a'`)
		if items, err := s.Todos(ctx, d.RunID); err != nil || len(items) != 1 || items[0].Text != "b" {
			t.Errorf("%+v, %v", items, err)
		}
	})
	t.Run("a run whose ending is unknown counts as no success and stays", func(t *testing.T) {
		clock := newClock()
		s := newFile(t, WithClock(clock.Now))
		sess := newSession(t, s)
		d := start(t, s, RunStart{Turn: &TurnStart{Session: sess, Prompt: "p"}})
		finish(t, s, d, trace.StepCapReached, 0)
		raw(t, s.Path(), `UPDATE runs SET status = 'hibernating', outcome = 'transcended'; UPDATE run_outcomes SET outcome = 'transcended'`)
		if f, err := s.FirstTry(ctx); err != nil || f.Succeeded != 0 {
			t.Errorf("%+v, %v", f, err)
		}
		got, err := s.SweepSessions(ctx, clock.Now().AddDate(1, 0, 0))
		if err != nil || got.Sessions != 0 || len(got.Refused) != 1 {
			t.Errorf("a sweep takes what it does not know to have ended: %+v, %v", got, err)
		}
	})
}
