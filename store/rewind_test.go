package store

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/initorigin/io-harness-go/trace"
)

func TestARewindIsOnRecordBeforeItUndoesAnything(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	old := start(t, s, RunStart{})
	remembers(t, s, old, "changed", "before", MemoryLimits{})
	remembers(t, s, old, "forgotten", "before", MemoryLimits{})
	remembers(t, s, old, "evicted", "before", MemoryLimits{})
	if _, err := s.MemoryPin(ctx, ws, "changed", false); err != nil {
		t.Fatal(err)
	}
	finish(t, s, old, trace.Finished, 0)
	d := start(t, s, RunStart{})
	remembers(t, s, d, "changed", "during", MemoryLimits{})
	remembers(t, s, d, "changed", "during, again", MemoryLimits{})
	remembers(t, s, d, "created", "during", MemoryLimits{})
	remembers(t, s, d, "gone since", "during", MemoryLimits{})
	if _, err := s.Forget(ctx, d, 1, ws, "forgotten"); err != nil {
		t.Fatal(err)
	}
	remembers(t, s, d, "last", "during", MemoryLimits{Entries: 4})
	if _, err := s.EnqueueAgent(ctx, d, QueuedAgent{Step: 1, Goal: "waiting"}); err != nil {
		t.Fatal(err)
	}
	d.Record(Edit{Step: 1, Tool: "write_file", Path: "a"})
	if _, err := s.BeginRewind(ctx, d.RunID, 0); !errors.Is(err, ErrConflict) {
		t.Fatalf("a driven run is rewound: %v", err)
	}
	finish(t, s, d, trace.Finished, 0)
	if _, err := s.MemoryDelete(ctx, ws, "gone since"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.MemoryPin(ctx, ws, "changed", true); err != nil {
		t.Fatal(err)
	}
	before := rowsPerTable(t, s)

	rw, err := s.BeginRewind(ctx, d.RunID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := s.Rewinds(ctx, d.RunID); err != nil || len(rows) != 1 || rows[0].Done {
		t.Errorf("at the start: %+v, %v", rows, err)
	}
	if _, err := s.BeginRewind(ctx, d.RunID, 0); !errors.Is(err, ErrConflict) {
		t.Errorf("a second rewind beside the first: %v", err)
	}
	edits, err := Collect(s.Edits(ctx, d.RunID))
	if err != nil {
		t.Fatal(err)
	}
	if err := rw.Add(ctx, RewindItem{Kind: RewindFile, Name: "a", Verdict: "restored"}, edits[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := rw.Add(ctx, RewindItem{Kind: RewindFile, Name: "b", Verdict: "refused", Detail: "by app"}); err != nil {
		t.Fatal(err)
	}
	if _, err := rw.Memory(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := rw.Queue(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := rw.Done(ctx, true); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := s.Rewinds(ctx, d.RunID)
	if err != nil {
		t.Fatal(err)
	}
	want := []RewindItem{
		{Kind: RewindFile, Name: "a", Verdict: "restored"},
		{Kind: RewindFile, Name: "b", Verdict: "refused", Detail: "by app"},
		{Kind: RewindMemoryRestored, Name: "changed", Verdict: "restored"},
		{Kind: RewindMemoryRemoved, Name: "created", Verdict: "removed"},
		{Kind: RewindMemoryRemoved, Name: "gone since", Verdict: "absent"},
		{Kind: RewindMemoryRestored, Name: "forgotten", Verdict: "restored"},
		{Kind: RewindMemoryRemoved, Name: "last", Verdict: "removed"},
		{Kind: RewindMemoryRestored, Name: "evicted", Verdict: "restored"},
		{Kind: RewindQueue, Name: "waiting", Verdict: "removed"},
	}
	if diff := cmp.Diff(want, rows[0].Items, cmpopts.IgnoreFields(RewindItem{}, "Ordinal")); diff != "" || !rows[0].Done {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	for _, k := range []string{"changed", "forgotten", "evicted"} {
		if e, err := s.MemoryGet(ctx, ws, k); err != nil || e == nil || e.Value != "before" {
			t.Errorf("%s is %+v, %v", k, e, err)
		}
	}
	if e, err := s.MemoryGet(ctx, ws, "changed"); err != nil || !e.Pinned {
		t.Errorf("the rewind took a pin: %+v, %v", e, err)
	}
	if e, err := s.MemoryGet(ctx, ws, "created"); err != nil || e != nil {
		t.Errorf("created stays: %+v, %v", e, err)
	}
	edits, err = Collect(s.Edits(ctx, d.RunID))
	if err != nil || edits[0].Reverted != rw.ID {
		t.Errorf("the edit is %+v, %v", edits, err)
	}
	// Of the trace nothing went and nothing came but the record of the undo.
	after := rowsPerTable(t, s)
	for table, n := range before {
		switch table {
		case "agent_queue", "memory", "memory_recalls", "memory_evidence": // what was undone
		default:
			if after[table] != n {
				t.Errorf("%s had %d rows and has %d", table, n, after[table])
			}
		}
	}
	for table, n := range after {
		if before[table] == 0 && table != "rewinds" && table != "rewind_items" {
			t.Errorf("%s had no rows and has %d", table, n)
		}
	}
	if l, err := s.LeaseOf(ctx, d.RunID); err != nil || l != nil {
		t.Errorf("the run stays held: %+v, %v", l, err)
	}
	sound(t, s)
}

func TestARewindThatBreaksOffSaysSo(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	release(t, d)
	rw, err := s.BeginRewind(ctx, d.RunID, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := rw.Done(ctx, false); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Rewinds(ctx, d.RunID)
	if err != nil || len(rows) != 1 || rows[0].Done || rows[0].UndidStep != 3 {
		t.Errorf("rewinds: %+v, %v", rows, err)
	}
	if _, err := s.BeginRewind(ctx, 4711, 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("a rewind of nothing: %v", err)
	}
	if d2, _ := enter(t, s, d.RunID, EnterOptions{}); d2 == nil {
		t.Error("the run cannot be entered afterwards")
	}
}

func TestAForkStandsWhereTheStepLeftIt(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess := newSession(t, s)
	d := start(t, s, RunStart{Policy: []byte(`{"v":1}`), Contract: []byte(`{}`), Turn: &TurnStart{Session: sess, Prompt: "p"},
		Seed: []trace.Observation{{Kind: trace.ObsMessage, Text: "seed"}}})
	for n := 1; n <= 4; n++ {
		commit(t, s, d, aStep(n))
		if n == 2 {
			if _, err := s.PutSummary(ctx, d, HistorySummary{ThroughStep: 2, Folded: 2, Text: "early"}); err != nil {
				t.Fatal(err)
			}
			if err := s.AppendObservations(ctx, d, trace.Observation{Step: 2, Kind: trace.ObsMessage, Text: "added to step 2 later"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.PutSummary(ctx, d, HistorySummary{ThroughStep: 4, Folded: 5, Text: "late"}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ step, obs, folds int }{{0, 1, 0}, {2, 3, 1}, {3, 5, 1}, {4, 6, 2}} {
		id, err := s.ForkRun(ctx, d.RunID, tc.step)
		if err != nil {
			t.Fatal(err)
		}
		sound(t, s)
		f, res := enter(t, s, id, EnterOptions{})
		turns, err := Collect(s.StepTurns(ctx, id))
		if err != nil {
			t.Fatal(err)
		}
		if f.StartStep != tc.step+1 || len(res.Observations) != tc.obs || len(turns) != tc.step || len(res.Summaries) != tc.folds ||
			string(res.Policy) != `{"v":1}` || res.SpentTokens != 0 || f.TurnID != 0 || f.RootID != id {
			t.Errorf("forked at %d: drive %+v, resumed %+v", tc.step, f, res)
		}
		if res.Info.ForkedFrom != d.RunID || res.Info.ForkedStep != tc.step {
			t.Errorf("the fork comes from %d at %d", res.Info.ForkedFrom, res.Info.ForkedStep)
		}
		c := aStep(tc.step + 1)
		c.Decision = "another way"
		commit(t, s, f, c)
		finish(t, s, f, trace.Finished, tc.step+1)
		sound(t, s)
		steps, err := Collect(s.Steps(ctx, id))
		if err != nil || len(steps) != tc.step+1 || tc.step > 0 && steps[0].Result != "package a" {
			t.Errorf("the fork's steps: %+v, %v", steps, err)
		}
	}
	if info, err := s.Run(ctx, d.RunID); err != nil || info.LastStep != 4 || info.Tokens != 40 {
		t.Errorf("the source is %+v, %v", info, err)
	}
	for _, step := range []int{-1, 5} {
		wantKind(t, func() error { _, err := s.ForkRun(ctx, d.RunID, step); return err }, KindInvalid)
	}
	if _, err := s.ForkRun(ctx, 4711, 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("a fork of nothing: %v", err)
	}
}

func TestRunsThatStandStillAreListedWithTheReason(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	held := start(t, s, RunStart{})
	stopped := start(t, s, RunStart{})
	release(t, stopped)
	crashed := start(t, s, RunStart{})
	release(t, crashed)
	raw(t, s.Path(), `UPDATE drives SET ended_at = NULL WHERE run_id = ?`, int64(crashed.RunID)) // as a process leaves it that dies
	forked, err := s.ForkRun(ctx, stopped.RunID, 0)
	if err != nil {
		t.Fatal(err)
	}
	reply := start(t, s, RunStart{Kind: KindReply})
	release(t, reply)
	paused := start(t, s, RunStart{})
	waitFor(t, s, paused, trace.AwaitingAnswer)
	doubt := start(t, s, RunStart{})
	waitFor(t, s, doubt, trace.AwaitingRecovery)
	failed := start(t, s, RunStart{})
	finish(t, s, failed, trace.Failed, 0)
	finish(t, s, start(t, s, RunStart{}), trace.Success, 0)
	got, err := s.Resumable(ctx)
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[trace.RunID]ResumableReason{}
	for _, r := range got {
		reasons[r.Run.ID] = r.Reason
	}
	want := map[trace.RunID]ResumableReason{stopped.RunID: Stopped, crashed.RunID: Crashed, forked: Forked, paused.RunID: Paused, doubt.RunID: InDoubt, failed.RunID: Broken}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("resumable (-want +got):\n%s", diff)
	}
	waiting, err := s.Waiting(ctx)
	if err != nil || len(waiting) != 2 || waiting[0].Outcome.QuestionID == 0 || waiting[1].Outcome.AttemptID == 0 {
		t.Errorf("waiting: %+v, %v", waiting, err)
	}
	_ = held
}

func TestARunWhoseProcessStillWaitsForAPersonIsListedAsWaiting(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	busy := start(t, s, RunStart{})
	var ids []trace.RunID
	waits := func(ask func(d *Drive) error) {
		t.Helper()
		d := start(t, s, RunStart{})
		if err := ask(d); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, d.RunID)
	}
	waits(func(d *Drive) error {
		_, err := s.PutPending(ctx, d, PendingApproval{Step: 1, Tool: "exec", Act: "exec", Target: "x"})
		return err
	})
	waits(func(d *Drive) error {
		_, err := s.PutQuestion(ctx, d, PendingQuestion{Step: 1, Question: "which?"})
		return err
	})
	waits(func(d *Drive) error {
		_, err := s.PutPlan(ctx, d, PendingPlan{Step: 1, Steps: []byte(`[]`)})
		return err
	})
	listed := func() (got []trace.RunID) {
		t.Helper()
		runs, err := s.Waiting(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			got = append(got, r.ID)
		}
		return got
	}
	if diff := cmp.Diff(ids, listed()); diff != "" {
		t.Errorf("waiting (-want +got), and run %d does not:\n%s", busy.RunID, diff)
	}
	asked, err := s.UnresolvedApprovals(ctx, ids[0])
	if err != nil || len(asked) != 1 {
		t.Fatalf("%+v, %v", asked, err)
	}
	if won, err := s.ResolvePending(ctx, ApprovalDecision{ID: asked[0].ID, Verdict: Approve}); err != nil || !won {
		t.Fatalf("%v, %v", won, err)
	}
	if diff := cmp.Diff(ids[1:], listed()); diff != "" {
		t.Errorf("waiting once one was answered (-want +got):\n%s", diff)
	}
}
