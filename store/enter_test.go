package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/trace"
)

// waitFor parks a run on what the outcome's kind waits for and returns the outcome.
func waitFor(t *testing.T, s *Store, d *Drive, kind trace.OutcomeKind) trace.Outcome {
	t.Helper()
	ctx := context.Background()
	o := trace.Outcome{Kind: kind, Steps: 1}
	var err error
	switch kind {
	case trace.AwaitingApproval:
		o.RequestID, err = s.PutPending(ctx, d, PendingApproval{Step: 1, CallIndex: 2, CallID: "c9", Tool: "edit_file",
			Arguments: []byte(`{"path":"a","old":"x","new":"y"}`), Act: "write", Target: "a", Content: "y", Rule: "*", Layer: "app"})
	case trace.AwaitingAnswer:
		o.QuestionID, err = s.PutQuestion(ctx, d, PendingQuestion{Step: 1, CallID: "c9", Question: "which?", Choices: []byte(`["a","b"]`)})
	case trace.AwaitingPlan:
		o.PlanID, err = s.PutPlan(ctx, d, PendingPlan{Step: 1, CallID: "c9", Steps: []byte(`[{"intent":"look"}]`)})
	case trace.AwaitingRecovery:
		o.AttemptID, _, err = s.OpenAttempt(ctx, d, Attempt{Step: 2, Tool: "deploy", Arguments: []byte(`{}`)})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.FinishRun(ctx, d, Finish{Outcome: o}); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestWhatAResumeDoesWithEachOutcome(t *testing.T) {
	for _, kind := range trace.OutcomeKinds() {
		t.Run(string(kind), func(t *testing.T) {
			ctx := context.Background()
			s := newFile(t)
			d := start(t, s, RunStart{})
			commit(t, s, d, aStep(1))
			o := waitFor(t, s, d, kind)
			info, err := s.Run(ctx, d.RunID)
			if err != nil || info.Status != kind.Status() || info.Outcome != o {
				t.Fatalf("the run is %+v, %v", info, err)
			}
			sum, err := s.RunSummary(ctx, d.RunID)
			if err != nil || (sum != nil) != (kind.Status() == trace.StatusCompleted) {
				t.Errorf("status %s has the summary %+v, %v", kind.Status(), sum, err)
			}
			sound(t, s)
			before := counts(t, s)
			for range 2 {
				d2, res := enter(t, s, d.RunID, EnterOptions{})
				waits := kind.Status() == trace.StatusPaused
				if kind.Final() || waits {
					if d2 != nil || res.Outcome == nil || *res.Outcome != o || res.Written {
						t.Fatalf("entered as %+v, %+v; want the outcome reported", d2, res.Outcome)
					}
					if after := counts(t, s); after != before {
						t.Errorf("reporting changed rows: %s, before %s", after, before)
					}
					continue
				}
				if d2 == nil || res.Outcome != nil || d2.StartStep != 2 {
					t.Fatalf("entered as %+v, %+v; want a drive from step 2", d2, res.Outcome)
				}
				info, err := s.Run(ctx, d.RunID)
				if err != nil || info.Status != trace.StatusRunning || info.Outcome.Kind != "" {
					t.Errorf("a driven run is %+v, %v", info, err)
				}
				if sum, err := s.RunSummary(ctx, d.RunID); err != nil || sum != nil {
					t.Errorf("a driven run has the summary %+v, %v", sum, err)
				}
				drives, err := s.Drives(ctx, d.RunID)
				if err != nil || drives[0].Outcome != kind {
					t.Errorf("the earlier ending is not readable: %+v, %v", drives, err)
				}
				release(t, d2)
			}
			sound(t, s)
		})
	}
}

func TestARunThatCrashesAgainStillLooksLeftBehind(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	finish(t, s, d, trace.StepCapReached, 1)
	d2, _ := enter(t, s, d.RunID, EnterOptions{})
	abandon(d2)
	info, err := s.Run(context.Background(), d.RunID)
	if err != nil || info.Status != trace.StatusRunning {
		t.Errorf("the run is %+v, %v", info, err)
	}
}

// A drive that died is over once another one has the run.
func TestADriveThatDiedEndsWhereTheNextBegins(t *testing.T) {
	clock := newClock()
	s := newFile(t, WithClock(clock.Now))
	d := start(t, s, RunStart{LeaseTTL: time.Minute})
	commit(t, s, d, aStep(1))
	abandon(d)
	clock.Advance(time.Hour)
	entered := clock.Now()
	d2, _ := enter(t, s, d.RunID, EnterOptions{})
	drives, err := s.Drives(context.Background(), d.RunID)
	if err != nil || len(drives) != 2 {
		t.Fatalf("%d drives, %v", len(drives), err)
	}
	if dead := drives[0]; !dead.EndedAt.Equal(entered) || dead.Outcome != "" {
		t.Errorf("the first drive ended at %v with %q; want %v and no outcome", dead.EndedAt, dead.Outcome, entered)
	}
	if now := drives[1]; now.ID != d2.ID || !now.EndedAt.IsZero() {
		t.Errorf("the second drive: %+v", now)
	}
}

func TestWhichRunsCannotBeResumed(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	reply := start(t, s, RunStart{Kind: KindReply})
	release(t, reply)
	done := start(t, s, RunStart{Kind: KindReply})
	finish(t, s, done, trace.Finished, 0)
	work := start(t, s, RunStart{Kind: KindReply})
	if err := s.SetTurnKind(ctx, work, KindRun); err != nil {
		t.Fatal(err)
	}
	release(t, work)
	for _, tc := range []struct {
		name string
		run  trace.RunID
		want ResumeReason
	}{
		{"a run that never was", 424242, NoSuchRun},
		{"a turn that died while it answered", reply.RunID, UnfinishedReply},
		{"a turn that was answered", done.RunID, ""},
		{"a turn that turned out to be work", work.RunID, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := s.CheckResumable(ctx, tc.run)
			d, _, eerr := s.EnterDrive(ctx, tc.run, EnterOptions{})
			if d != nil {
				release(t, d)
			}
			for _, err := range []error{err, eerr} {
				var re *ResumeError
				errors.As(err, &re)
				if tc.want == "" && err != nil || tc.want != "" && (re == nil || re.Reason != tc.want || re.RunID != tc.run) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			}
		})
	}
}

func TestTheEarliestPolicyStaysUntilAnotherIsGiven(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{Policy: []byte(`{"v":1}`), Contract: []byte(`{"c":1}`), Provider: "one"})
	release(t, d)
	d, res := enter(t, s, d.RunID, EnterOptions{})
	if string(res.Policy) != `{"v":1}` || string(res.Contract) != `{"c":1}` {
		t.Errorf("read back %s and %s", res.Policy, res.Contract)
	}
	release(t, d)
	d, res = enter(t, s, d.RunID, EnterOptions{Policy: []byte(`{"v":2}`), Provider: "two"})
	if string(res.Policy) != `{"v":1}` {
		t.Errorf("read back %s, want the policy before this drive", res.Policy)
	}
	release(t, d)
	pol, err := s.RunPolicy(ctx, d.RunID)
	if err != nil || string(pol) != `{"v":2}` {
		t.Errorf("the policy in force is %s, %v", pol, err)
	}
	drives, err := s.Drives(ctx, d.RunID)
	if err != nil || len(drives) != 3 || string(drives[1].Policy) != `{"v":1}` || drives[1].Provider != "one" || drives[2].Provider != "two" {
		t.Errorf("drives: %+v, %v", drives, err)
	}
	none := start(t, s, RunStart{})
	if pol, err := s.RunPolicy(ctx, none.RunID); err != nil || pol != nil {
		t.Errorf("no policy reads as %s, %v", pol, err)
	}
	if _, err := s.RunPolicy(ctx, 999); !errors.Is(err, ErrNotFound) {
		t.Errorf("the policy of no run: %v", err)
	}
}

func TestRetriesDoNotCountAsSteps(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	d.Record(StepAttempt{Step: 2, Kind: AttemptRetry, Decision: "retry 1"}, StepAttempt{Step: 2, Kind: AttemptRetry, Decision: "retry 2"})
	release(t, d)
	d2, res := enter(t, s, d.RunID, EnterOptions{})
	if d2.StartStep != 2 || res.LastStep != 1 {
		t.Errorf("resumes at %d after %d", d2.StartStep, res.LastStep)
	}
	commit(t, s, d2, aStep(2))
	finish(t, s, d2, trace.Finished, 2)
	got, err := s.CanonicalTrace(ctx, d.RunID)
	if err != nil {
		t.Fatal(err)
	}
	want := `step 1 10 "read_file" "read_file:{\"path\":\"a.go\"}" "the prompt" "package a"
attempt 2 retry "retry 1" ""
attempt 2 retry "retry 2" ""
step 2 10 "read_file" "read_file:{\"path\":\"a.go\"}" "the prompt" "package a"
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("canonical trace (-want +got):\n%s", diff)
	}
	sum, err := s.RunSummary(ctx, d.RunID)
	if err != nil || sum.Steps != 2 || sum.Tokens != 20 {
		t.Errorf("the summary is %+v, %v", sum, err)
	}
}

func TestTheHistoryOfCommitsAndResumes(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	release(t, d)
	d, _ = enter(t, s, d.RunID, EnterOptions{})
	commit(t, s, d, aStep(2))
	release(t, d)
	d, _ = enter(t, s, d.RunID, EnterOptions{})
	evs, err := s.CheckpointEvents(ctx, d.RunID)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range evs {
		got = append(got, e.Kind+itoa(e.Step))
	}
	want := []string{"checkpoint1", "resume2", "skipped1", "checkpoint2", "resume3", "skipped1", "skipped2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestTimeCountsFromTheFirstStartAndNeverBackwards(t *testing.T) {
	ctx := context.Background()
	clock := newClock()
	s := newFile(t, WithClock(clock.Now))
	d := start(t, s, RunStart{})
	release(t, d)
	clock.Advance(time.Hour)
	d2, _ := enter(t, s, d.RunID, EnterOptions{})
	if !d2.RunStarted.Equal(d.StartedAt) || !d2.StartedAt.Equal(clock.Now()) {
		t.Errorf("the run started %s, the drive %s", d2.RunStarted, d2.StartedAt)
	}
	if e, err := s.Elapsed(ctx, d.RunID); err != nil || e != time.Hour {
		t.Errorf("elapsed %s, %v", e, err)
	}
	clock.Advance(-3 * time.Hour)
	if e, err := s.Elapsed(ctx, d.RunID); err != nil || e != 0 {
		t.Errorf("elapsed with a clock set back: %s, %v", e, err)
	}
	finish(t, s, d2, trace.Finished, 0)
	if sum, err := s.RunSummary(ctx, d.RunID); err != nil || sum.Duration != 0 {
		t.Errorf("the summary is %+v, %v", sum, err)
	}
}

func TestAReplyIsChargedWhatItsCompletionsUsed(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{Kind: KindReply})
	d.Record(call(1, 30), call(1, 12))
	if err := s.FinishRun(ctx, d, Finish{Outcome: trace.Outcome{Kind: trace.Finished}, Reply: "hello",
		Observations: []trace.Observation{{Kind: trace.ObsMessage, Text: "hello"}}}); err != nil {
		t.Fatal(err)
	}
	sum, err := s.RunSummary(ctx, d.RunID)
	if err != nil || sum.Tokens != 42 || sum.Steps != 0 {
		t.Errorf("the summary is %+v, %v", sum, err)
	}
	if obs, err := Collect(s.Observations(ctx, d.RunID)); err != nil || len(obs) != 1 {
		t.Errorf("the ledger is %+v, %v", obs, err)
	}
	sound(t, s)
}

func TestFoldsCoverOnlyWhatIsStored(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	for _, n := range []int{0, -1, 2} {
		wantKind(t, func() error {
			_, err := s.PutSummary(ctx, d, HistorySummary{ThroughStep: 1, Folded: n, Text: "x"})
			return err
		}, KindInvalid)
	}
	if id, err := s.PutSummary(ctx, d, HistorySummary{Folded: 1}); err != nil || id != 0 {
		t.Errorf("an empty fold: %d, %v", id, err)
	}
	for _, text := range []string{"first", "second"} {
		if _, err := s.PutSummary(ctx, d, HistorySummary{ThroughStep: 1, Folded: 1, Step: 2, Text: text, Before: 9, After: 5, Tokens: 7}); err != nil {
			t.Fatal(err)
		}
	}
	release(t, d)
	_, res := enter(t, s, d.RunID, EnterOptions{})
	if len(res.Summaries) != 2 || res.Summaries[1].Text != "second" || res.Summaries[0].After != 5 || res.Summaries[0].Before != 9 || res.Summaries[0].Tokens != 7 || res.Summaries[0].Step != 2 {
		t.Errorf("folds: %+v", res.Summaries)
	}
	sound(t, s)
}
