package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

func TestEvidenceIsWrittenWithoutAnybodyAskingForIt(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	d.Record(SandboxEvent{Step: 1, Kind: "exec", Backend: "landlock"})
	deadline := time.Now().Add(10 * time.Second)
	for {
		evs, err := Collect(s.SandboxEvents(ctx, d.RunID))
		if err != nil {
			t.Fatal(err)
		}
		if len(evs) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the evidence was never written")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestFlushReturnsWhenTheEvidenceIsCommitted(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	other := another(t, s)
	d := start(t, s, RunStart{})
	for n := range 20 {
		d.Record(SandboxEvent{Step: 1, Kind: "exec"}, SandboxEvent{Step: 1, Kind: "destroy"})
		if err := d.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		evs, err := Collect(other.SandboxEvents(ctx, d.RunID))
		if err != nil || len(evs) != 2*(n+1) {
			t.Fatalf("after flush %d another handle sees %d rows, %v", n, len(evs), err)
		}
	}
}

func TestEvidenceJoinsWhateverIsCommittedNext(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		name string
		do   func(s *Store, d *Drive) error
	}{
		{"a step", func(s *Store, d *Drive) error { return s.CommitStep(ctx, d, aStep(1)) }},
		{"a finish", func(s *Store, d *Drive) error {
			return s.FinishRun(ctx, d, Finish{Outcome: trace.Outcome{Kind: trace.Finished}})
		}},
		{"a restore point", func(s *Store, d *Drive) error {
			return s.PutRestorePoint(ctx, d, RestorePoint{Step: 1, Path: "a", State: KeptAbsent})
		}},
		{"an open attempt", func(s *Store, d *Drive) error {
			_, _, err := s.OpenAttempt(ctx, d, Attempt{Step: 1, Tool: "t"})
			return err
		}},
		{"a question", func(s *Store, d *Drive) error {
			_, err := s.PutQuestion(ctx, d, PendingQuestion{Step: 1, Question: "?"})
			return err
		}},
		{"a release", func(s *Store, d *Drive) error { return d.Release(ctx) }},
		{"the close of the store", func(s *Store, d *Drive) error { return s.Close() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &failing{}
			s := newFile(t, f.option())
			d := start(t, s, RunStart{})
			d.buf.halt() // no timer: only the commit can bring it along
			f.set("*")
			d.Record(SandboxEvent{Step: 1, Kind: "exec"})
			if err := tc.do(s, d); err != nil {
				t.Fatal(err)
			}
			other := another(t, s)
			if evs, err := Collect(other.SandboxEvents(ctx, d.RunID)); err != nil || len(evs) != 1 {
				t.Errorf("%d rows, %v", len(evs), err)
			}
		})
	}
}

func TestEvidenceKeepsItsOrderAndItsFacts(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	yes, no := true, false
	est, left, tok := int64(5), int64(6), int64(7)
	calls := []ProviderCall{
		{Step: 1, Provider: "p", Failure: "rate_limited (HTTP 429)", Latency: 12 * time.Millisecond},
		{Step: 1, Attempt: 1, Purpose: ForFold, Provider: "p", Model: "m", FinishReason: "stop", Latency: 2 * time.Second, FirstToken: 300 * time.Millisecond,
			Usage: &provider.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3, CacheReadTokens: 4, CacheWriteTokens: 5, ReasoningTokens: 6, ServerToolRequests: 7}},
		{Step: 2, Provider: "p", Usage: &provider.Usage{}},
	}
	pols := []PolicyEvent{
		{Step: 1, Kind: PolicyRefusal, Act: "read", Target: "secrets/a", Rule: "secrets/*", Layer: "app", Source: "policy"},
		{Step: 1, Kind: PolicyDecision, Act: "exec", Target: "go test", Decision: "approve", Source: "attached", Performed: "go vet"},
	}
	sand := []SandboxEvent{{Step: 1, Kind: "gate_phase_failed", Backend: "bwrap", Phase: "command", Detail: "exit 1"}}
	mcp := []MCPEvent{{Kind: "connected", Server: "s"}, {Step: 1, Kind: "called", Server: "s", Tool: "t", OK: &yes, Took: 4 * time.Millisecond}, {Step: 1, Kind: "called", Server: "s", Tool: "t", OK: &no, Detail: "timeout"}}
	ctxs := []ContextEvent{{Step: 1, Kind: "assembled", Detail: "carried=1", Est: &est}, {Step: 1, Kind: "replan"}}
	gates := []GateAttempt{{Drive: d.ID, Step: 1, Phase: "command", Outcome: GateFailed, Detail: "1 failed"}, {Drive: d.ID, Step: 2, Phase: "output", Outcome: GatePassed}}
	edits := []Edit{{Step: 1, Tool: "write_file", Path: "a/b.go", Added: 3, Removed: 1, Hunk: "@@ -1 +1 @@\n-a\n+b\n"}}
	agents := []AgentEvent{{Step: 1, Kind: "budget_draw", Tokens: &tok, Remaining: &left}, {Step: 1, Kind: "said", Detail: "hello"}}
	cites := []Citation{{Step: 1, URL: "https://a", Title: "A", Text: "t"}, {Step: 1, URL: "https://b"}}
	tools := []ServerToolCall{{Step: 1, Provider: "p", Tool: "web_search"}, {Step: 1, Provider: "p", Tool: "web_search", Error: "unavailable"}}
	atts := []StepAttempt{{Step: 1, Kind: AttemptRetry, Decision: "retry 1 after rate_limited in 2s", Delay: 2 * time.Second}}
	recalls := []MemoryRecall{{Step: 1, Workspace: "/r", Key: "b"}, {Step: 1, Workspace: "/r", Key: "a", Ordinal: 1}}
	for _, rows := range [][]Row{rowsOf(calls), rowsOf(pols), rowsOf(sand), rowsOf(mcp), rowsOf(ctxs), rowsOf(gates), rowsOf(edits),
		rowsOf(agents), rowsOf(cites), {cites[0]}, rowsOf(tools), rowsOf(atts), rowsOf(recalls), {recalls[0]}} {
		d.Record(rows...)
	}
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if dropped := d.Dropped(); dropped != nil {
		t.Errorf("dropped %v", dropped)
	}
	calls[0].Purpose, calls[2].Purpose = ForStep, ForStep
	run := d.RunID
	same(t, "provider calls", calls, collect(t)(Collect(s.ProviderCalls(ctx, run))))
	same(t, "policy events", pols, collect(t)(Collect(s.PolicyEvents(ctx, run))))
	same(t, "refusals", pols[:1], collect(t)(Collect(s.Refusals(ctx, run))))
	same(t, "sandbox events", sand, collect(t)(Collect(s.SandboxEvents(ctx, run))))
	same(t, "mcp events", mcp, collect(t)(Collect(s.MCPEvents(ctx, run))))
	same(t, "context events", ctxs, collect(t)(Collect(s.ContextEvents(ctx, run))))
	same(t, "gate attempts", gates, collect(t)(Collect(s.GateAttempts(ctx, run))))
	same(t, "edits", edits, collect(t)(Collect(s.Edits(ctx, run))))
	same(t, "agent events", agents, collect(t)(Collect(s.AgentEvents(ctx, run))))
	same(t, "citations", []Citation{cites[0], {Ordinal: 1, Step: 1, URL: "https://b"}}, collect(t)(Collect(s.Citations(ctx, run))))
	same(t, "server tool calls", tools, collect(t)(Collect(s.ServerToolCalls(ctx, run))))
	same(t, "step attempts", atts, collect(t)(Collect(s.StepAttempts(ctx, run))))
	got, err := s.MemoryRecalls(ctx, run)
	same(t, "memory recalls", recalls, collect(t)(got, err))
	last, err := s.LastGateAttempt(ctx, run)
	if err != nil || last.Phase != "command" {
		t.Errorf("the last gate attempt is %+v, %v", last, err)
	}
}

func rowsOf[T Row](vs []T) []Row {
	out := make([]Row, len(vs))
	for i, v := range vs {
		out[i] = v
	}
	return out
}

func collect(t *testing.T) func(any, error) any {
	return func(v any, err error) any {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// same compares rows but for what the store set.
func same(t *testing.T, what string, want, got any) {
	t.Helper()
	ignore := cmp.FilterPath(func(p cmp.Path) bool {
		name := p.Last().String()
		return name == ".ID" || name == ".At"
	}, cmp.Ignore())
	if diff := cmp.Diff(want, got, ignore, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestEvidenceThatCannotBeWrittenIsCountedAndTheRunGoesOn(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	d.Record(Edit{Step: 1, Tool: "write_file", Path: "bad\xff"}, SandboxEvent{Step: 1, Kind: "exec"}, Edit{Step: 1, Tool: "write_file", Path: ""})
	commit(t, s, d, aStep(1))
	want := map[string]int64{"edits": 2}
	if diff := cmp.Diff(want, d.Dropped()); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if evs, err := Collect(s.SandboxEvents(ctx, d.RunID)); err != nil || len(evs) != 1 {
		t.Errorf("the row beside the dropped ones: %v, %v", evs, err)
	}
	finish(t, s, d, trace.Finished, 1)
	drives, err := s.Drives(ctx, d.RunID)
	if err != nil || !cmp.Equal(drives[0].Dropped, want) {
		t.Errorf("the drive says %v, %v", drives[0].Dropped, err)
	}
	rep, err := s.Check(ctx)
	if err != nil || !rep.Sound() || !cmp.Equal(rep.Dropped, want) {
		t.Errorf("Check: %+v, %v", rep, err)
	}
}

func TestNoActOutrunsTheRecordOfItsPermission(t *testing.T) {
	ctx := context.Background()
	f := &failing{}
	s := newFile(t, f.option())
	d := start(t, s, RunStart{})
	f.set("insert policy event")
	d.Record(ContextEvent{Step: 1, Kind: "assembled"}, PolicyEvent{Step: 1, Kind: PolicyDecision, Act: "exec", Target: "rm -r x"})
	if err := d.Flush(ctx); err == nil {
		t.Fatal("Flush lets the act happen")
	}
	if err := d.Flush(ctx); err == nil {
		t.Fatal("a second Flush forgot the event")
	}
	if err := s.CommitStep(ctx, d, aStep(1)); err == nil {
		t.Fatal("the step was committed without the event")
	}
	f.set("")
	commit(t, s, d, aStep(1))
	if evs, err := Collect(s.PolicyEvents(ctx, d.RunID)); err != nil || len(evs) != 1 {
		t.Errorf("%d policy events, %v", len(evs), err)
	}
	sound(t, s)
}

func TestAFailedFlushDropsOtherEvidenceOnly(t *testing.T) {
	ctx := context.Background()
	f := &failing{}
	s := newFile(t, f.option())
	d := start(t, s, RunStart{})
	f.set("commit")
	d.Record(SandboxEvent{Step: 1, Kind: "exec"})
	if err := d.Flush(ctx); err != nil {
		t.Errorf("evidence without a policy event stopped the run: %v", err)
	}
	f.set("")
	if got := d.Dropped(); got["sandbox_events"] != 1 {
		t.Errorf("dropped %v", got)
	}
	commit(t, s, d, aStep(1))
}

func TestEvidenceAfterTheEndIsFlushedByRelease(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	finish(t, s, d, trace.Finished, 0)
	d.Record(MCPEvent{Kind: "disconnected", Server: "s"})
	for range 2 {
		release(t, d)
	}
	if evs, err := Collect(s.MCPEvents(ctx, d.RunID)); err != nil || len(evs) != 1 {
		t.Errorf("%d rows, %v", len(evs), err)
	}
}

func TestIteratorsPageWithoutLossAndStopWhenAsked(t *testing.T) {
	ctx := context.Background()
	s := newFile(t, WithSynchronous(SyncNormal))
	d := start(t, s, RunStart{})
	const n = 3*pageSize + 7
	for i := range n {
		d.Record(ContextEvent{Step: i, Kind: "served"})
	}
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	all, err := Collect(s.ContextEvents(ctx, d.RunID))
	if err != nil || len(all) != n {
		t.Fatalf("%d rows, %v", len(all), err)
	}
	for i, e := range all {
		if e.Step != i {
			t.Fatalf("row %d is of step %d", i, e.Step)
		}
	}
	for _, tc := range []struct {
		opts []ReadOption
		want int
	}{
		{[]ReadOption{Limit(0)}, n}, {[]ReadOption{Limit(-5)}, n}, {[]ReadOption{Limit(1)}, 1}, {[]ReadOption{Limit(pageSize)}, pageSize},
		{[]ReadOption{Limit(pageSize + 1)}, pageSize + 1}, {[]ReadOption{Limit(10 * n)}, n},
		{[]ReadOption{After(all[n-3].ID)}, 2}, {[]ReadOption{After(all[n-1].ID)}, 0}, {[]ReadOption{After(all[0].ID), Limit(3)}, 3},
	} {
		got, err := Collect(s.ContextEvents(ctx, d.RunID, tc.opts...))
		if err != nil || len(got) != tc.want {
			t.Errorf("%d rows, %v, want %d", len(got), err, tc.want)
		}
	}
	// Writing while reading must not wait for the reader, in memory neither.
	for range s.ContextEvents(ctx, d.RunID) {
		d.Record(ContextEvent{Step: n, Kind: "served"})
		if err := d.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		break
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Collect(s.ContextEvents(cancelled, d.RunID)); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled read: %v", err)
	}
}

func TestUnknownWordsOfNewerSoftwareReadConservatively(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	d.Record(GateAttempt{Step: 1, Phase: "command", Outcome: GatePassed})
	ask, err := s.PutPending(ctx, d, PendingApproval{Step: 1, Act: "write", Target: "a"})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := s.PutPlan(ctx, d, PendingPlan{Step: 1, Steps: []byte(`[]`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutRestorePoint(ctx, d, RestorePoint{Step: 1, Path: "a", State: KeptAbsent}); err != nil {
		t.Fatal(err)
	}
	finish(t, s, d, trace.Success, 0)
	raw(t, s.Path(), `UPDATE gate_attempts SET outcome = 'sublime'; UPDATE pending_approvals SET resolved = 'maybe';
		UPDATE plans SET verdict = 'ok', decided_at = 1; UPDATE snapshots SET state = 'vaulted'; UPDATE runs SET status = 'hibernating', outcome = 'transcended'`)
	g, err := s.LastGateAttempt(ctx, d.RunID)
	if err != nil || g.Outcome != GateErrored {
		t.Errorf("an unknown verdict of a gate reads as %q, %v", g.Outcome, err)
	}
	if p, err := s.Pending(ctx, ask); err != nil || p.Verdict != Deny {
		t.Errorf("an unknown decision reads as %q, %v", p.Verdict, err)
	}
	if p, err := s.Plan(ctx, plan); err != nil || p.Verdict != PlanUndecided {
		t.Errorf("an unknown verdict of a plan reads as %q, %v", p.Verdict, err)
	}
	if p, err := s.ApprovedPlan(ctx, d.RunID); err != nil || p != nil {
		t.Errorf("an unknown verdict approved the plan %+v, %v", p, err)
	}
	if p, err := s.RestorePointOf(ctx, d.RunID, "a"); err != nil || p.State != NotKept || p.Reason == "" {
		t.Errorf("an unknown restore point reads as %+v, %v", p, err)
	}
	info, err := s.Run(ctx, d.RunID)
	if err != nil || info.Status != trace.StatusRunning || info.Outcome.Kind.Final() || info.Outcome.Succeeded() {
		t.Errorf("an unknown status reads as %+v, %v", info, err)
	}
}
