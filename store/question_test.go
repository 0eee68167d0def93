package store

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/trace"
)

// ask puts a question of step and has it answered.
func askAndAnswer(t *testing.T, s *Store, d *Drive, step int) trace.QuestionID {
	t.Helper()
	ctx := context.Background()
	id, err := s.PutQuestion(ctx, d, PendingQuestion{Step: step, CallID: "1-0", Question: "which port?"})
	if err != nil {
		t.Fatal(err)
	}
	if won, err := s.AnswerQuestion(ctx, Answer{ID: id, Text: "7171", By: "responder"}); err != nil || !won {
		t.Fatalf("answer: %t, %v", won, err)
	}
	return id
}

func proposeAndApprove(t *testing.T, s *Store, d *Drive, step int) trace.PlanID {
	t.Helper()
	ctx := context.Background()
	id, err := s.PutPlan(ctx, d, PendingPlan{Step: step, Steps: json.RawMessage(`[{"intent":"look"}]`)})
	if err != nil {
		t.Fatal(err)
	}
	if won, err := s.DecidePlan(ctx, PlanDecision{ID: id, Verdict: PlanApprove, By: "gate"}); err != nil || !won {
		t.Fatalf("decide: %t, %v", won, err)
	}
	return id
}

func TestWhatAStepDeliversIsNotDueAtTheNextEntry(t *testing.T) {
	for _, tc := range []struct {
		name      string
		delivers  bool
		wantDue   int
		committed bool
	}{
		{"committed with the step", true, 0, true},
		{"a step that says nothing of them", false, 1, true},
		{"a step that never committed", true, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFile(t)
			d := start(t, s, RunStart{})
			c := aStep(1)
			question, plan := askAndAnswer(t, s, d, 1), proposeAndApprove(t, s, d, 1)
			if tc.delivers {
				c.Answered, c.Decided = []trace.QuestionID{question}, []trace.PlanID{plan}
			}
			if tc.committed {
				commit(t, s, d, c)
			}
			release(t, d)
			_, res := enter(t, s, d.RunID, EnterOptions{})
			if len(res.Answers) != tc.wantDue || len(res.Verdicts) != tc.wantDue {
				t.Errorf("due: %d answers and %d verdicts, want %d of each", len(res.Answers), len(res.Verdicts), tc.wantDue)
			}
			if res.ApprovedPlan == nil || res.ApprovedPlan.ID != plan {
				t.Errorf("the approved plan is %+v", res.ApprovedPlan)
			}
			sound(t, s)
		})
	}
}

func TestPartOfABatchIsKeptUntilTheRestIsAnswered(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	id, err := s.PutQuestion(ctx, d, PendingQuestion{Step: 1, Question: "two things", Batch: json.RawMessage(`[{"question":"a"},{"question":"b"}]`)})
	if err != nil {
		t.Fatal(err)
	}
	part := json.RawMessage(`["yes",null]`)
	if err := s.KeepAnswers(ctx, d, id, part); err != nil {
		t.Fatal(err)
	}
	q, err := s.Question(ctx, id)
	if err != nil || q.Answered() || string(q.Answers) != string(part) {
		t.Fatalf("after a part: %+v, %v", q, err)
	}
	if won, err := s.AnswerQuestion(ctx, Answer{ID: id, Text: "both", By: "human"}); err != nil || !won {
		t.Fatalf("answer: %t, %v", won, err)
	}
	if err := s.KeepAnswers(ctx, d, id, json.RawMessage(`[null,null]`)); err != nil {
		t.Fatal(err)
	}
	q, err = s.Question(ctx, id)
	if diff := cmp.Diff([]string{"both", `["yes",null]`}, []string{q.Answer, string(q.Answers)}); diff != "" || err != nil {
		t.Errorf("a part that came too late changed an answer, or the part was lost (-want +got):\n%s%v", diff, err)
	}
}
