package store

import (
	"context"
	"errors"
	"testing"

	"github.com/initorigin/io-harness-go/trace"
)

func TestADecisionOnAnApprovalAtAResume(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		name     string
		verdict  ApprovalVerdict
		attached bool // decided by another process while nobody drove
		outcome  trace.OutcomeKind
	}{
		{"approved", Approve, false, ""},
		{"denied", Deny, false, trace.Denied},
		{"approved by an attached process", Approve, true, ""},
		{"denied by an attached process", Deny, true, trace.Denied},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFile(t)
			d := start(t, s, RunStart{})
			commit(t, s, d, aStep(1))
			o := waitFor(t, s, d, trace.AwaitingApproval)
			dec := ApprovalDecision{ID: o.RequestID, Verdict: tc.verdict, Reason: "because", Remember: []byte(`[{"act":"write"}]`)}
			opt := EnterOptions{Decision: &dec}
			if tc.attached {
				dec.By, opt = "attached", EnterOptions{}
				if won, err := s.ResolvePending(ctx, dec); err != nil || !won {
					t.Fatalf("ResolvePending: %v, %v", won, err)
				}
			}
			d2, res := enter(t, s, d.RunID, opt)
			if tc.outcome != "" {
				if d2 != nil || res.Outcome == nil || res.Outcome.Kind != tc.outcome || !res.Written {
					t.Fatalf("entered as %+v, %+v", d2, res)
				}
				evs, err := Collect(s.PolicyEvents(ctx, d.RunID))
				if err != nil || len(evs) != 1 || evs[0].Decision != "deny" || evs[0].RequestID != o.RequestID {
					t.Errorf("policy events: %+v, %v", evs, err)
				}
				if want := "resumed:" + o.RequestID.String(); !tc.attached && evs[0].Source != want {
					t.Errorf("the source is %q, want %q", evs[0].Source, want)
				}
				sound(t, s)
				return
			}
			if d2 == nil || len(res.Approved) != 1 {
				t.Fatalf("entered as %+v, %+v", d2, res)
			}
			p := res.Approved[0]
			if p.Tool != "edit_file" || string(p.Arguments) != `{"path":"a","old":"x","new":"y"}` || p.CallID != "c9" || p.CallIndex != 2 ||
				p.Reason != "because" || string(p.Remember) != `[{"act":"write"}]` {
				t.Errorf("the call to perform is %+v", p)
			}
			if _, err := s.ResolvePending(ctx, ApprovalDecision{ID: p.ID, Verdict: Deny}); err != nil {
				t.Error(err)
			}
			// Killed between the decision and the act: the next drive performs it.
			release(t, d2)
			d3, res := enter(t, s, d.RunID, EnterOptions{})
			if len(res.Approved) != 1 || res.Approved[0].Verdict != Approve {
				t.Fatalf("the approved act is lost: %+v", res.Approved)
			}
			told := trace.Observation{Step: 1, Kind: trace.ObsWrite, Target: "a", CallID: "c9", Text: "written"}
			for i, want := range []bool{true, false} {
				first, err := s.MarkPerformed(ctx, d3, p.ID, told)
				if err != nil || first != want {
					t.Errorf("MarkPerformed %d: %v, %v", i, first, err)
				}
			}
			obs, err := Collect(s.Observations(ctx, d.RunID))
			if err != nil || len(obs) != 2 || obs[1].Observation != told {
				t.Errorf("the model is told %+v, %v", obs, err)
			}
			release(t, d3)
			_, res = enter(t, s, d.RunID, EnterOptions{})
			if len(res.Approved) != 0 {
				t.Errorf("a performed act is to be performed again: %+v", res.Approved)
			}
		})
	}
}

func TestAnApprovalOfAStepThatNeverCommittedIsNotPerformedBesideItsReplay(t *testing.T) {
	ctx := context.Background()
	for _, verdict := range []ApprovalVerdict{Approve, Deny} {
		s := newFile(t)
		d := start(t, s, RunStart{})
		commit(t, s, d, aStep(1))
		id, err := s.PutPending(ctx, d, PendingApproval{Step: 2, Tool: "write_file", Act: "write", Target: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if won, err := s.ResolvePending(ctx, ApprovalDecision{ID: id, Verdict: verdict, By: "approver"}); err != nil || !won {
			t.Fatal(won, err)
		}
		release(t, d) // killed between the yes and the call
		_, res := enter(t, s, d.RunID, EnterOptions{})
		if len(res.Approved) != 0 || len(res.Decided) != 1 || res.Decided[0].ID != id || res.Decided[0].Verdict != verdict {
			t.Errorf("%s: to perform %+v, decided %+v", verdict, res.Approved, res.Decided)
		}
	}
}

func TestWhatWasApprovedDuringAStepIsCarriedOutByIt(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	ask := func() trace.RequestID {
		id, err := s.PutPending(ctx, d, PendingApproval{Step: 1, Tool: "exec", Act: "exec", Target: "go test"})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	yes := func(id trace.RequestID) {
		if won, err := s.ResolvePending(ctx, ApprovalDecision{ID: id, Verdict: Approve}); err != nil || !won {
			t.Fatal(won, err)
		}
	}
	done, deferred := ask(), ask()
	yes(done)
	c := aStep(1)
	c.Finish = &Finish{Outcome: trace.Outcome{Kind: trace.AwaitingApproval, Steps: 1, RequestID: deferred}}
	yes(deferred) // attached, between the pause and its commit
	commit(t, s, d, c)
	_, res := enter(t, s, d.RunID, EnterOptions{})
	if len(res.Approved) != 1 || res.Approved[0].ID != deferred {
		t.Errorf("to perform: %+v, want only request %d", res.Approved, deferred)
	}
	if p, err := s.Pending(ctx, done); err != nil || p.PerformedAt.IsZero() {
		t.Errorf("the act of the step is %+v, %v", p, err)
	}
}

func TestAnApprovedActCanBePerformedByAStep(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	o := waitFor(t, s, d, trace.AwaitingApproval)
	d2, _ := enter(t, s, d.RunID, EnterOptions{Decision: &ApprovalDecision{ID: o.RequestID, Verdict: Approve}})
	c := aStep(2)
	c.Performed = []trace.RequestID{o.RequestID}
	commit(t, s, d2, c)
	release(t, d2)
	_, res := enter(t, s, d.RunID, EnterOptions{})
	if len(res.Approved) != 0 {
		t.Errorf("still to perform: %+v", res.Approved)
	}
}

func TestDecisionsThatDoNotFitChangeNothing(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	type parked struct {
		run trace.RunID
		o   trace.Outcome
	}
	park := func(kind trace.OutcomeKind) parked {
		d := start(t, s, RunStart{})
		commit(t, s, d, aStep(1))
		return parked{d.RunID, waitFor(t, s, d, kind)}
	}
	ask, quest, plan, rec := park(trace.AwaitingApproval), park(trace.AwaitingAnswer), park(trace.AwaitingPlan), park(trace.AwaitingRecovery)
	ask2, quest2, plan2, rec2 := park(trace.AwaitingApproval), park(trace.AwaitingAnswer), park(trace.AwaitingPlan), park(trace.AwaitingRecovery)
	closedAsk, closedQuest, closedPlan := park(trace.AwaitingApproval), park(trace.AwaitingAnswer), park(trace.AwaitingPlan)
	for _, err := range []error{
		second(s.ResolvePending(ctx, ApprovalDecision{ID: closedAsk.o.RequestID, Verdict: Approve})),
		second(s.AnswerQuestion(ctx, Answer{ID: closedQuest.o.QuestionID, Text: "a", By: "attached"})),
		second(s.DecidePlan(ctx, PlanDecision{ID: closedPlan.o.PlanID, Verdict: PlanApprove})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before := counts(t, s)
	for _, tc := range []struct {
		name string
		run  trace.RunID
		opt  EnterOptions
		want ResumeReason
	}{
		{"an unknown request", ask.run, EnterOptions{Decision: &ApprovalDecision{ID: 99, Verdict: Approve}}, NoSuchRequest},
		{"another run's request", ask.run, EnterOptions{Decision: &ApprovalDecision{ID: ask2.o.RequestID, Verdict: Approve}}, RequestOfOtherRun},
		{"a decided request", closedAsk.run, EnterOptions{Decision: &ApprovalDecision{ID: closedAsk.o.RequestID, Verdict: Deny}}, AlreadyDecided},
		{"an unknown question", quest.run, EnterOptions{Answer: &Answer{ID: 99}}, NoSuchQuestion},
		{"another run's question", quest.run, EnterOptions{Answer: &Answer{ID: quest2.o.QuestionID}}, QuestionOfOtherRun},
		{"an answered question", closedQuest.run, EnterOptions{Answer: &Answer{ID: closedQuest.o.QuestionID}}, AlreadyAnswered},
		{"an unknown plan", plan.run, EnterOptions{Verdict: &PlanDecision{ID: 99, Verdict: PlanApprove}}, NoSuchPlan},
		{"another run's plan", plan.run, EnterOptions{Verdict: &PlanDecision{ID: plan2.o.PlanID, Verdict: PlanApprove}}, PlanOfOtherRun},
		{"a decided plan", closedPlan.run, EnterOptions{Verdict: &PlanDecision{ID: closedPlan.o.PlanID, Verdict: PlanCancel}}, AlreadyDecided},
		{"an unknown attempt", rec.run, EnterOptions{Recovery: &RecoveryDecision{ID: 99, Verdict: RecoveredRetry}}, NoSuchAttempt},
		{"another run's attempt", rec.run, EnterOptions{Recovery: &RecoveryDecision{ID: rec2.o.AttemptID, Verdict: RecoveredRetry}}, AttemptOfOtherRun},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := s.EnterDrive(ctx, tc.run, tc.opt)
			var re *ResumeError
			if !errors.As(err, &re) || re.Reason != tc.want || re.RunID != tc.run {
				t.Errorf("EnterDrive: %v, want %s", err, tc.want)
			}
			if after := counts(t, s); after != before {
				t.Errorf("rows changed: %s", after)
			}
		})
	}
	for name, opt := range map[string]EnterOptions{
		"a deferred approval": {Decision: &ApprovalDecision{ID: ask.o.RequestID}},
		"a verdict of noise":  {Verdict: &PlanDecision{ID: plan.o.PlanID, Verdict: "ok"}},
		"a recovery of noise": {Recovery: &RecoveryDecision{ID: rec.o.AttemptID, Verdict: Returned}},
	} {
		run := map[string]trace.RunID{"a deferred approval": ask.run, "a verdict of noise": plan.run, "a recovery of noise": rec.run}[name]
		wantKind(t, func() error { _, _, err := s.EnterDrive(ctx, run, opt); return err }, KindInvalid)
	}
	held := start(t, s, RunStart{})
	if _, err := s.PutPending(ctx, held, PendingApproval{Step: 1, Act: "exec"}); err != nil {
		t.Fatal(err)
	}
	asks, err := s.UnresolvedApprovals(ctx, held.RunID)
	if err != nil || len(asks) != 1 {
		t.Fatal(asks, err)
	}
	if _, _, err := s.EnterDrive(ctx, held.RunID, EnterOptions{Decision: &ApprovalDecision{ID: asks[0].ID, Verdict: Approve}}); !errors.Is(err, ErrConflict) {
		t.Errorf("a decision for a run that somebody drives: %v", err)
	}
	if p, err := s.Pending(ctx, asks[0].ID); err != nil || p.Verdict != Undecided {
		t.Errorf("losing the lease decided the request: %+v, %v", p, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestAnswersAndVerdictsReachTheModelOnce(t *testing.T) {
	ctx := context.Background()
	for _, how := range []string{"with the resume", "attached while nobody drove"} {
		t.Run(how, func(t *testing.T) {
			s := newFile(t)
			d := start(t, s, RunStart{})
			commit(t, s, d, aStep(1))
			o := waitFor(t, s, d, trace.AwaitingAnswer)
			a := Answer{ID: o.QuestionID, Text: "port 7171"}
			opt := EnterOptions{Answer: &a}
			if how != "with the resume" {
				opt = EnterOptions{}
				a.By = "attached"
				if won, err := s.AnswerQuestion(ctx, a); err != nil || !won {
					t.Fatal(won, err)
				}
			}
			// Killed before delivery, twice: the answer waits.
			for range 2 {
				d2, res := enter(t, s, d.RunID, opt)
				if len(res.Answers) != 1 || res.Answers[0].Answer != "port 7171" {
					t.Fatalf("answers: %+v", res.Answers)
				}
				release(t, d2)
				opt = EnterOptions{}
			}
			d3, res := enter(t, s, d.RunID, EnterOptions{})
			told := trace.Observation{Step: 1, Kind: trace.ObsMessage, CallID: "c9", Text: "you asked which; the answer: port 7171"}
			del := Delivery{Question: res.Answers[0].ID, Observation: told}
			for _, bad := range []Delivery{{Observation: told}, {Question: del.Question, Plan: 1, Observation: told}} {
				wantKind(t, func() error { return s.Deliver(ctx, d3, del, bad) }, KindInvalid)
			}
			for range 2 {
				if err := s.Deliver(ctx, d3, del); err != nil {
					t.Fatal(err)
				}
			}
			obs, err := Collect(s.Observations(ctx, d.RunID, After(0)))
			if err != nil || len(obs) != 1 || obs[0].Observation != told {
				t.Errorf("the model is told %+v, %v", obs, err)
			}
			release(t, d3)
			if _, res := enter(t, s, d.RunID, EnterOptions{}); len(res.Answers) != 0 {
				t.Errorf("the answer would be told again: %+v", res.Answers)
			}
			sound(t, s)
		})
	}
}

func TestVerdictsOnAPlan(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		verdict  PlanVerdict
		drives   bool
		approved bool
	}{{PlanApprove, true, true}, {PlanRevise, true, false}, {PlanCancel, false, false}} {
		t.Run(string(tc.verdict), func(t *testing.T) {
			s := newFile(t)
			d := start(t, s, RunStart{})
			commit(t, s, d, aStep(1))
			o := waitFor(t, s, d, trace.AwaitingPlan)
			d2, res := enter(t, s, d.RunID, EnterOptions{Verdict: &PlanDecision{ID: o.PlanID, Verdict: tc.verdict, Correction: "smaller"}})
			if (d2 != nil) != tc.drives || (res.ApprovedPlan != nil) != tc.approved {
				t.Fatalf("entered as %+v with the plan %+v", d2, res.ApprovedPlan)
			}
			if !tc.drives {
				if res.Outcome.Kind != trace.PlanRejected || !res.Written {
					t.Errorf("the outcome is %+v", res.Outcome)
				}
				sound(t, s)
				return
			}
			if len(res.Verdicts) != 1 || res.Verdicts[0].Correction != "smaller" {
				t.Errorf("verdicts: %+v", res.Verdicts)
			}
			del := Delivery{Plan: o.PlanID, Observation: trace.Observation{Step: 1, Kind: trace.ObsMessage, Text: "the plan"}}
			if err := s.Deliver(ctx, d2, del, del); err != nil {
				t.Fatal(err)
			}
			release(t, d2)
			_, res = enter(t, s, d.RunID, EnterOptions{})
			if len(res.Verdicts) != 0 || (res.ApprovedPlan != nil) != tc.approved || len(res.Observations) != 2 {
				t.Errorf("after delivery: %+v", res)
			}
		})
	}
}

func TestTheFirstDecisionWins(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	other := another(t, s)
	d := start(t, s, RunStart{})
	for range 10 {
		ask, err := s.PutPending(ctx, d, PendingApproval{Step: 1, Act: "exec", Target: "x"})
		if err != nil {
			t.Fatal(err)
		}
		quest, err := s.PutQuestion(ctx, d, PendingQuestion{Step: 1, Question: "?"})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := s.PutPlan(ctx, d, PendingPlan{Step: 1, Steps: []byte(`[]`)})
		if err != nil {
			t.Fatal(err)
		}
		for _, fn := range []func(h *Store, me string) (bool, error){
			func(h *Store, me string) (bool, error) {
				return h.ResolvePending(ctx, ApprovalDecision{ID: ask, Verdict: Approve, By: me})
			},
			func(h *Store, me string) (bool, error) {
				return h.AnswerQuestion(ctx, Answer{ID: quest, Text: me, By: me})
			},
			func(h *Store, me string) (bool, error) {
				return h.DecidePlan(ctx, PlanDecision{ID: plan, Verdict: PlanApprove, By: me})
			},
		} {
			type result struct {
				won bool
				err error
			}
			c := make(chan result, 2)
			for i, h := range []*Store{s, other} {
				go func() {
					won, err := fn(h, itoa(i))
					c <- result{won, err}
				}()
			}
			a, b := <-c, <-c
			if a.err != nil || b.err != nil || a.won == b.won {
				t.Fatalf("%+v and %+v", a, b)
			}
		}
	}
	if won, err := s.ResolvePending(ctx, ApprovalDecision{ID: 4711, Verdict: Deny}); won || err != nil {
		t.Errorf("a decision on nothing: %v, %v", won, err)
	}
	if _, err := s.AnswerQuestion(ctx, Answer{ID: 4711}); !errors.Is(err, ErrResume) {
		t.Errorf("an answer to nothing: %v", err)
	}
	if _, err := s.DecidePlan(ctx, PlanDecision{ID: 4711, Verdict: PlanApprove}); !errors.Is(err, ErrResume) {
		t.Errorf("a verdict on nothing: %v", err)
	}
}

// journalled makes a run with one call in its journal that has not ended.
func journalled(t *testing.T) (*Store, *Drive, trace.AttemptID) {
	t.Helper()
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	id, key, err := s.OpenAttempt(ctx, d, Attempt{Step: 2, CallIndex: 1, CallID: "c7", Tool: "deploy", Arguments: []byte(`{"to":"prod"}`),
		Turn: &trace.AssistantTurn{Step: 2, Text: "deploying", Calls: []trace.ToolCall{{ID: "c7", Name: "deploy", Arguments: []byte(`{"to":"prod"}`)}}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := d.CallKey(2, 1); key != want {
		t.Errorf("the key is %q, want %q", key, want)
	}
	return s, d, id
}

func TestACallWhoseEndIsUnknownGoesToAPerson(t *testing.T) {
	ctx := context.Background()
	t.Run("a live driver's call is in flight, not in doubt", func(t *testing.T) {
		s, d, _ := journalled(t)
		if _, _, err := s.EnterDrive(ctx, d.RunID, EnterOptions{}); !errors.Is(err, ErrConflict) {
			t.Errorf("EnterDrive: %v, want a conflict", err)
		}
	})
	t.Run("a call that returned is not in doubt", func(t *testing.T) {
		for _, how := range []Resolution{Returned, ReturnedError} {
			s, d, id := journalled(t)
			for range 2 {
				if err := s.CloseAttempt(ctx, d, id, how, "deployed v3"); err != nil {
					t.Fatal(err)
				}
			}
			release(t, d)
			d2, res := enter(t, s, d.RunID, EnterOptions{})
			if d2 == nil || res.Outcome != nil {
				t.Errorf("%s: entered as %+v", how, res)
			}
			if len(res.Accounts) != 1 || res.Accounts[0].Account != "deployed v3" || res.Accounts[0].Resolution != how {
				t.Errorf("%s: a replay would make the call again: %+v", how, res.Accounts)
			}
		}
	})
	t.Run("a call that never began is not in doubt, and is to be made", func(t *testing.T) {
		s, d, id := journalled(t)
		if err := s.CloseAttempt(ctx, d, id, RecoveredRetry, ""); err != nil {
			t.Fatal(err)
		}
		release(t, d)
		d2, res := enter(t, s, d.RunID, EnterOptions{})
		if d2 == nil || res.Outcome != nil || len(res.Accounts) != 0 {
			t.Errorf("entered as %+v", res)
		}
	})
	t.Run("several are decided one by one, oldest first", func(t *testing.T) {
		s, d, first := journalled(t)
		next, _, err := s.OpenAttempt(ctx, d, Attempt{Step: 2, CallIndex: 2, Tool: "deploy"})
		if err != nil {
			t.Fatal(err)
		}
		release(t, d)
		_, res := enter(t, s, d.RunID, EnterOptions{})
		if res.Outcome.AttemptID != first || len(res.Attempts) != 2 {
			t.Fatalf("in doubt: %+v", res)
		}
		_, res = enter(t, s, d.RunID, EnterOptions{Recovery: &RecoveryDecision{ID: first, Verdict: RecoveredRetry}})
		if res.Outcome == nil || res.Outcome.AttemptID != next {
			t.Fatalf("after the first decision: %+v", res.Outcome)
		}
		if d2, _ := enter(t, s, d.RunID, EnterOptions{Recovery: &RecoveryDecision{ID: next, Verdict: RecoveredRetry}}); d2 == nil {
			t.Error("after the last decision nothing is driven")
		}
	})
}

func TestWhatAPersonSaysOfACallInDoubt(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		verdict Resolution
		outcome trace.OutcomeKind
	}{{RecoveredRetry, ""}, {RecoveredCompleted, ""}, {RecoveredAbort, trace.Denied}} {
		t.Run(string(tc.verdict), func(t *testing.T) {
			s, d, id := journalled(t)
			release(t, d)
			for range 2 {
				d2, res := enter(t, s, d.RunID, EnterOptions{})
				if d2 != nil || res.Outcome == nil || res.Outcome.Kind != trace.AwaitingRecovery || res.Outcome.AttemptID != id || len(res.Attempts) != 1 {
					t.Fatalf("entered as %+v, %+v", d2, res)
				}
				if a := res.Attempts[0]; a.Turn == nil || a.Turn.Calls[0].ID != "c7" || string(a.Arguments) != `{"to":"prod"}` {
					t.Errorf("the attempt is %+v", a)
				}
			}
			if st, err := s.Status(ctx, d.RunID); err != nil || st != trace.StatusPaused {
				t.Errorf("the run is %s, %v", st, err)
			}
			opt := EnterOptions{Recovery: &RecoveryDecision{ID: id, Verdict: tc.verdict, Account: "it was deployed"}}
			d2, res := enter(t, s, d.RunID, opt)
			if tc.outcome != "" {
				if d2 != nil || res.Outcome.Kind != tc.outcome || !res.Written {
					t.Errorf("entered as %+v, %+v", d2, res)
				}
				sound(t, s)
				return
			}
			if d2 == nil || d2.StartStep != 2 {
				t.Fatalf("entered as %+v, %+v", d2, res)
			}
			accounts, obs := 0, 1
			if tc.verdict == RecoveredCompleted {
				accounts, obs = 1, 2
			}
			if len(res.Accounts) != accounts || len(res.Observations) != obs {
				t.Errorf("accounts %+v, observations %+v", res.Accounts, res.Observations)
			}
			if accounts == 1 && (res.Accounts[0].Account != "it was deployed" || res.Observations[1].CallID != "c7" || res.Observations[1].Target != "deploy") {
				t.Errorf("told %+v and %+v", res.Accounts, res.Observations[1])
			}
			release(t, d2)
			_, _, err := s.EnterDrive(ctx, d.RunID, opt)
			var re *ResumeError
			if !errors.As(err, &re) || re.Reason != AttemptClosed {
				t.Errorf("a second decision: %v", err)
			}
			sound(t, s)
		})
	}
}

func TestAnApprovalThatIsNotUsedSaysDenyAndWhy(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	put := func() trace.RequestID {
		t.Helper()
		id, err := s.PutPending(ctx, d, PendingApproval{Step: 1, Tool: "write_file", Act: "write", Target: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if won, err := s.ResolvePending(ctx, ApprovalDecision{ID: id, Verdict: Approve, By: "human"}); err != nil || !won {
			t.Fatal(won, err)
		}
		return id
	}
	used, changed, forbidden := put(), put(), put()
	told := trace.Observation{Step: 1, Kind: trace.ObsError, Text: "not done"}
	if _, err := s.MarkPerformed(ctx, d, used); err != nil {
		t.Fatal(err)
	}
	for _, id := range []trace.RequestID{used, changed, changed} {
		if err := s.Overrule(ctx, d, Overruled{ID: id, By: "binding", Reason: "a has changed"}, told); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.FinishRun(ctx, d, Finish{Outcome: trace.Outcome{Kind: trace.Denied, Steps: 1}, Overruled: &Overruled{ID: forbidden, By: "policy", Reason: "a rule"}}); err != nil {
		t.Fatal(err)
	}
	want := map[trace.RequestID][3]string{used: {"approve", "human", ""}, changed: {"deny", "binding", "a has changed"}, forbidden: {"deny", "policy", "a rule"}}
	for id, w := range want {
		p, err := s.Pending(ctx, id)
		if err != nil || [3]string{string(p.Verdict), p.DecidedBy, p.Reason} != w || p.PerformedAt.IsZero() != (id != used) {
			t.Errorf("request %d is %+v, %v, want %v", id, p, err, w)
		}
	}
	if obs, err := Collect(s.Observations(ctx, d.RunID)); err != nil || len(obs) != 1 || obs[0].Observation != told {
		t.Errorf("the model is told %+v, %v, want it once", obs, err)
	}
	sound(t, s)
}
