package store

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/trace"
)

func TestConversationsAreListedTheNewestFirst(t *testing.T) {
	ctx := context.Background()
	s := newFile(t, WithSynchronous(SyncNormal))
	for range pageSize + 3 {
		newSession(t, s)
	}
	busy := newSession(t, s)
	first := aTurn(t, s, busy, 0, "one", trace.Finished)
	second := aTurn(t, s, busy, first, "two", trace.StepCapReached)
	if _, err := s.ArchiveSession(ctx, busy); err != nil {
		t.Fatal(err)
	}
	all, err := Collect(s.Sessions(ctx))
	if err != nil || len(all) != pageSize+4 {
		t.Fatalf("%d sessions, %v", len(all), err)
	}
	got := all[0]
	if got.ID != busy || got.Head != second || got.Turns != 2 || got.Outcome != trace.StepCapReached || !got.Archived || got.Root != "/repo" {
		t.Errorf("the newest is %+v", got)
	}
	for i := 1; i < len(all); i++ {
		if all[i].ID >= all[i-1].ID || all[i].Turns != 0 || all[i].Head != 0 {
			t.Fatalf("session %d is %+v", i, all[i])
		}
	}
}

func TestARunHasTheGrantsOfTheRunsAboveIt(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	root := start(t, s, RunStart{Mode: ModeTree})
	kid := child(t, s, root, 1, 0, "")
	sibling := child(t, s, root, 1, 1, "")
	grant := func(d *Drive, rule string, verdict ApprovalVerdict) {
		id, err := s.PutPending(ctx, d, PendingApproval{Step: 1, Act: "exec", Target: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.ResolvePending(ctx, ApprovalDecision{ID: id, Verdict: verdict, Remember: []byte(`["` + rule + `"]`)}); err != nil {
			t.Fatal(err)
		}
	}
	grant(root, "root", Approve)
	grant(sibling, "sibling", Approve)
	grant(kid, "kid", Approve)
	grant(kid, "denied", Deny)
	for run, want := range map[trace.RunID][]string{kid.RunID: {`["root"]`, `["kid"]`}, root.RunID: {`["root"]`}, 4711: nil} {
		rules, err := s.Grants(ctx, run)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rules {
			got = append(got, string(r))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("grants of run %d (-want +got):\n%s", run, diff)
		}
	}
}

func TestPromptsCanBeLeftOut(t *testing.T) {
	ctx := context.Background()
	s := newFile(t, WithoutPromptTrace())
	d := start(t, s, RunStart{})
	c := aStep(1)
	c.Prompt = strings.Repeat("p", 1<<20)
	commit(t, s, d, c)
	steps, err := Collect(s.Steps(ctx, d.RunID))
	if err != nil || steps[0].Prompt != "" || steps[0].Decision != c.Decision {
		t.Errorf("the step is %+v, %v", steps, err)
	}
	release(t, d)
	if _, res := enter(t, s, d.RunID, EnterOptions{}); len(res.Turns) != 1 || len(res.Observations) != 1 {
		t.Errorf("resumed %+v", res)
	}
}
