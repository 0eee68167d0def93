package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/trace"
)

func child(t testing.TB, s *Store, parent *Drive, step, call int, name string) *Drive {
	t.Helper()
	d, err := s.StartChild(context.Background(), parent, ChildStart{
		Spawn: Spawn{Step: step, CallIndex: call, CallID: "c" + itoa(call), Goal: "part " + itoa(call), Name: name,
			Arguments: []byte(`{"goal":"part","deny_net":["x"]}`), Policy: []byte(`{"narrow":true}`), Returns: "wait"},
		Workspace: "/repo",
	})
	if err != nil {
		t.Fatalf("StartChild: %v", err)
	}
	return d
}

func TestATreeIsOneLeaseAndOneLedger(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	root := start(t, s, RunStart{Mode: ModeTree, Kind: KindReply})
	if err := s.SetTurnKind(ctx, root, KindRun); err != nil {
		t.Fatal(err)
	}
	commit(t, s, root, aStep(1))
	a, b := child(t, s, root, 2, 0, "worker"), child(t, s, root, 2, 1, "")
	deep := child(t, s, a, 1, 0, "")
	for _, d := range []*Drive{a, b, deep} {
		commit(t, s, d, fullStep(1))
	}
	if a.Depth != 1 || deep.Depth != 2 || deep.RootID != root.RunID || !deep.RootStart.Equal(root.StartedAt) {
		t.Errorf("the deep child is %+v", deep)
	}
	for _, run := range []trace.RunID{root.RunID, a.RunID, deep.RunID} {
		if l, err := s.LeaseOf(ctx, run); err != nil || l == nil || l.RunID != root.RunID || l.Owner != root.Owner {
			t.Errorf("the lease of run %d is %+v, %v", run, l, err)
		}
		if _, _, err := s.EnterDrive(ctx, run, EnterOptions{}); !errors.Is(err, ErrConflict) {
			t.Errorf("run %d of a driven tree was entered: %v", run, err)
		}
	}
	l, err := s.TreeLedger(ctx, root.RunID)
	if err != nil || l.Agents != 4 || l.Tokens != 40 {
		t.Errorf("the ledger is %+v, %v", l, err)
	}
	addr, err := s.TreeAddresses(ctx, root.RunID)
	if err != nil {
		t.Fatal(err)
	}
	want := []Address{{"agent#" + b.RunID.String(), b.RunID}, {"agent#" + deep.RunID.String(), deep.RunID}, {"root", root.RunID}, {"worker", a.RunID}}
	if diff := cmp.Diff(want, addr); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	kids, err := s.Children(ctx, root.RunID)
	if err != nil || len(kids) != 2 || kids[0].ID != a.RunID || kids[1].ParentID != root.RunID {
		t.Errorf("children: %+v, %v", kids, err)
	}
	if all, err := s.Tree(ctx, root.RunID); err != nil || len(all) != 4 {
		t.Errorf("the tree has %d runs, %v", len(all), err)
	}
	if none, err := s.Tree(ctx, a.RunID); err != nil || len(none) != 0 {
		t.Errorf("a child is the root of %d runs, %v", len(none), err)
	}
	sp, err := s.FindSpawn(ctx, root.RunID, 2, 1)
	if err != nil || sp.Child != b.RunID || string(sp.Arguments) != `{"goal":"part","deny_net":["x"]}` || string(sp.Policy) != `{"narrow":true}` {
		t.Errorf("the spawn is %+v, %v", sp, err)
	}
	if sp, err := s.FindSpawn(ctx, root.RunID, 9, 9); err != nil || sp != nil {
		t.Errorf("a call that started nobody: %+v, %v", sp, err)
	}
	if tn, err := s.TurnForRun(ctx, a.RunID); err != nil || tn != nil {
		t.Errorf("a child is the turn %+v, %v", tn, err)
	}
	sound(t, s)
}

func TestAReplyAtTheRootCountsInItsTree(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	root := start(t, s, RunStart{Mode: ModeTree, Kind: KindReply})
	root.Record(call(1, 33))
	if err := root.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if l, err := s.TreeLedger(ctx, root.RunID); err != nil || l.Tokens != 33 {
		t.Errorf("before its end: %+v, %v", l, err)
	}
	finish(t, s, root, trace.Finished, 0)
	if l, err := s.TreeLedger(ctx, root.RunID); err != nil || l.Tokens != 33 {
		t.Errorf("after its end: %+v, %v", l, err)
	}
}

func TestEqualCallsAreDifferentChildrenAndARepeatedOneIsNot(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	root := start(t, s, RunStart{Mode: ModeTree})
	a, b := child(t, s, root, 1, 0, ""), child(t, s, root, 1, 1, "")
	if a.RunID == b.RunID {
		t.Error("two calls share one child")
	}
	before := counts(t, s)
	again := ChildStart{Spawn: Spawn{Step: 1, CallIndex: 0, Goal: "x", Returns: "wait"}, Workspace: "/r"}
	wantKind(t, func() error { _, err := s.StartChild(ctx, root, again); return err }, KindConstraint)
	named := ChildStart{Spawn: Spawn{Step: 1, CallIndex: 7, Goal: "x", Returns: "wait", Name: "agent#" + a.RunID.String()}, Workspace: "/r"}
	wantKind(t, func() error { _, err := s.StartChild(ctx, root, named); return err }, KindConstraint)
	named.Name = RootAddress
	wantKind(t, func() error { _, err := s.StartChild(ctx, root, named); return err }, KindInvalid)
	if after := counts(t, s); after != before {
		t.Errorf("a refused child left rows: %s, before %s", after, before)
	}
}

func TestAfterATakeoverNoAgentOfTheOldTreeWrites(t *testing.T) {
	ctx := context.Background()
	clock := newClock()
	s := newFile(t, WithClock(clock.Now))
	root := start(t, s, RunStart{Mode: ModeTree, LeaseTTL: time.Minute})
	kid := child(t, s, root, 1, 0, "")
	commit(t, s, kid, aStep(1))
	kid.buf.halt()
	abandon(root)
	clock.Advance(time.Hour)
	other := another(t, s, WithClock(clock.Now))
	root2, res := enter(t, other, root.RunID, EnterOptions{})
	if len(res.Unsettled) != 1 || res.Unsettled[0].Child != kid.RunID {
		t.Fatalf("children to adopt: %+v", res.Unsettled)
	}
	for _, d := range []*Drive{root, kid} {
		if err := s.CommitStep(ctx, d, aStep(2)); !errors.Is(err, ErrConflict) {
			t.Errorf("run %d of the old tree committed: %v", d.RunID, err)
		}
	}
	kid2, kres, err := other.EnterChild(ctx, root2, kid.RunID, EnterOptions{})
	if err != nil || kid2 == nil || kid2.StartStep != 2 || kres.LastStep != 1 || string(kres.Policy) != `{"narrow":true}` {
		t.Fatalf("adopted as %+v, %+v, %v", kid2, kres, err)
	}
	commit(t, other, kid2, aStep(2))
	finish(t, other, kid2, trace.Success, 2)
	if d, res, err := other.EnterChild(ctx, root2, kid.RunID, EnterOptions{}); err != nil || d != nil || res.Outcome.Kind != trace.Success {
		t.Errorf("an ended child: %+v, %+v, %v", d, res, err)
	}
	for _, run := range []trace.RunID{root.RunID, 4711} {
		if _, _, err := other.EnterChild(ctx, root2, run, EnterOptions{}); !errors.Is(err, ErrResume) {
			t.Errorf("run %d was entered as a child: %v", run, err)
		}
	}
	sound(t, other)
}

func TestAReportIsFoldedInOnceAndAParentIsDrainedToTheEnd(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	root := start(t, s, RunStart{Mode: ModeTree})
	a, b := child(t, s, root, 1, 0, "a"), child(t, s, root, 1, 1, "b")
	commit(t, s, root, aStep(1))
	commit(t, s, a, aStep(1))
	finish(t, s, a, trace.Success, 1)
	c := aStep(2)
	c.Folded = []trace.RunID{a.RunID}
	commit(t, s, root, c)
	finish(t, s, root, trace.Finished, 2) // its process dies before b has ended
	root2, res := enter(t, s, root.RunID, EnterOptions{})
	if root2 == nil || !res.Draining || len(res.Unsettled) != 1 || res.Unsettled[0].Child != b.RunID {
		t.Fatalf("entered as %+v, %+v", root2, res)
	}
	if info, err := s.Run(ctx, root.RunID); err != nil || info.Outcome.Kind != trace.Finished {
		t.Errorf("draining lost the outcome: %+v, %v", info, err)
	}
	sound(t, s)
	kid, _, err := s.EnterChild(ctx, root2, b.RunID, EnterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, s, kid, trace.Finished, 0)
	report := trace.Observation{Step: 2, Kind: trace.ObsChild, Target: "b", Text: "late"}
	for i, want := range []bool{true, false} {
		first, err := s.FoldReport(ctx, root2, b.RunID, report)
		if err != nil || first != want {
			t.Errorf("fold %d: %v, %v", i, first, err)
		}
	}
	finish(t, s, root2, trace.Finished, 2)
	d, res := enter(t, s, root.RunID, EnterOptions{})
	if d != nil || res.Outcome.Kind != trace.Finished {
		t.Errorf("a drained run is driven again: %+v", res)
	}
	if obs, err := Collect(s.Observations(ctx, root.RunID)); err != nil || len(obs) != 3 || obs[2].Text != "late" {
		t.Errorf("the ledger is %+v, %v", obs, err)
	}
	sound(t, s)
}

func TestAChildsRequestIsDecidedThroughItsRoot(t *testing.T) {
	ctx := context.Background()
	for _, verdict := range []ApprovalVerdict{Approve, Deny} {
		t.Run(string(verdict), func(t *testing.T) {
			s := newFile(t)
			root := start(t, s, RunStart{Mode: ModeTree})
			kid := child(t, s, root, 1, 0, "")
			commit(t, s, kid, aStep(1))
			o := waitFor(t, s, kid, trace.AwaitingApproval)
			o.Steps = 0
			if err := s.FinishRun(ctx, root, Finish{Outcome: o}); err != nil {
				t.Fatal(err)
			}
			root2, res := enter(t, s, root.RunID, EnterOptions{Decision: &ApprovalDecision{ID: o.RequestID, Verdict: verdict}})
			if verdict == Deny {
				for _, run := range []trace.RunID{root.RunID, kid.RunID} {
					if got, err := s.Outcome(ctx, run); err != nil || got.Kind != trace.Denied {
						t.Errorf("run %d ended as %+v, %v", run, got, err)
					}
				}
				sound(t, s)
				return
			}
			if root2 == nil {
				t.Fatalf("entered as %+v", res)
			}
			kid2, kres, err := s.EnterChild(ctx, root2, kid.RunID, EnterOptions{})
			if err != nil || kid2 == nil || len(kres.Approved) != 1 {
				t.Errorf("the child is entered as %+v, %+v, %v", kid2, kres, err)
			}
		})
	}
}

func TestACallInDoubtAnywhereInATreeParksItsRoot(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	root := start(t, s, RunStart{Mode: ModeTree})
	kid := child(t, s, root, 1, 0, "")
	id, _, err := s.OpenAttempt(ctx, kid, Attempt{Step: 1, Tool: "deploy"})
	if err != nil {
		t.Fatal(err)
	}
	other := child(t, s, root, 1, 1, "")
	release(t, other)
	if d, _, err := s.EnterChild(ctx, root, other.RunID, EnterOptions{}); err != nil || d == nil {
		t.Errorf("a sibling's call in flight stopped a child: %v", err)
	}
	release(t, root)
	d, res := enter(t, s, root.RunID, EnterOptions{})
	if d != nil || res.Outcome.AttemptID != id || res.Attempts[0].RunID != kid.RunID {
		t.Errorf("entered as %+v, %+v", d, res)
	}
	if d, _ := enter(t, s, root.RunID, EnterOptions{Recovery: &RecoveryDecision{ID: id, Verdict: RecoveredRetry}}); d == nil {
		t.Error("after the decision nothing is driven")
	}
}

func TestTheQueueIsFirstInFirstOutAndSurvives(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	root := start(t, s, RunStart{Mode: ModeTree})
	for call := range 4 {
		for i, want := range []bool{true, false} {
			isNew, err := s.EnqueueAgent(ctx, root, QueuedAgent{Step: 1, CallIndex: call, Goal: "same goal", Depth: 1})
			if err != nil || isNew != want {
				t.Errorf("call %d, time %d: new is %v, %v", call, i, isNew, err)
			}
		}
	}
	child(t, s, root, 1, 1, "")
	if gone, err := s.DequeueAgent(ctx, root, 1, 0); err != nil || !gone {
		t.Errorf("dequeue: %v, %v", gone, err)
	}
	if gone, err := s.DequeueAgent(ctx, root, 1, 0); err != nil || gone {
		t.Errorf("a second dequeue: %v, %v", gone, err)
	}
	release(t, root)
	_, res := enter(t, s, root.RunID, EnterOptions{})
	q, err := s.QueuedAgents(ctx, root.RunID)
	if err != nil || len(q) != 2 || q[0].CallIndex != 2 || q[1].CallIndex != 3 || len(res.Queued) != 2 {
		t.Errorf("the queue is %+v, %v", q, err)
	}
	if l, err := s.TreeLedger(ctx, root.RunID); err != nil || l.Agents != 2 || len(l.Queued) != 2 {
		t.Errorf("the ledger is %+v, %v", l, err)
	}
}

func TestMailIsDeliveredOnceAcrossACrash(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	root := start(t, s, RunStart{Mode: ModeTree})
	a, b := child(t, s, root, 1, 0, "a"), child(t, s, root, 1, 1, "b")
	send := func(d *Drive, call int, body string) bool {
		t.Helper()
		isNew, err := s.SendMessage(ctx, d, AgentMessage{To: root.RunID, FromName: "a", Step: 1, CallIndex: call, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		return isNew
	}
	if !send(a, 0, "one") || send(a, 0, "one") {
		t.Error("a replayed message is a second one")
	}
	if !send(a, 1, "one") || !send(b, 0, "two") {
		t.Error("different calls are one message")
	}
	ms, left, err := s.ReadMessages(ctx, root, b.RunID, 1, 0)
	if err != nil || len(ms) != 1 || ms[0].Body != "two" || left != 0 {
		t.Fatalf("from b: %+v, %d, %v", ms, left, err)
	}
	commit(t, s, root, aStep(1))
	ms, left, err = s.ReadMessages(ctx, root, 0, 2, 4)
	if err != nil || len(ms) != 1 || left != 1 {
		t.Fatalf("as many as fit: %+v, %d, %v", ms, left, err)
	}
	release(t, root) // step 2 dies
	root, _ = enter(t, s, root.RunID, EnterOptions{})
	ms, _, err = s.ReadMessages(ctx, root, 0, 2, 0)
	if err != nil || len(ms) != 2 || ms[0].ID >= ms[1].ID {
		t.Fatalf("after the crash: %+v, %v", ms, err)
	}
	commit(t, s, root, aStep(2))
	release(t, root)
	root, _ = enter(t, s, root.RunID, EnterOptions{})
	if ms, _, err := s.ReadMessages(ctx, root, 0, 3, 0); err != nil || len(ms) != 0 {
		t.Errorf("delivered again: %+v, %v", ms, err)
	}
	if all, err := s.MessagesFor(ctx, root.RunID); err != nil || len(all) != 3 {
		t.Errorf("all mail: %+v, %v", all, err)
	}
	if n, err := s.Unread(ctx, root.RunID, 0); err != nil || n != 0 {
		t.Errorf("%d unread, %v", n, err)
	}
	stranger := start(t, s, RunStart{})
	if _, err := s.SendMessage(ctx, root, AgentMessage{To: stranger.RunID, Body: "x"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("mail to another tree: %v", err)
	}
	if _, err := s.SendMessage(ctx, root, AgentMessage{To: 4711, Body: "x"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("mail to nobody: %v", err)
	}
	wantKind(t, func() error {
		_, err := s.SendMessage(ctx, root, AgentMessage{To: a.RunID, Body: strings.Repeat("é", MaxMessage+1)})
		return err
	}, KindInvalid)
}

func TestAnAgentsEndIsPostedOnce(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	root := start(t, s, RunStart{Mode: ModeTree})
	kid := child(t, s, root, 1, 0, "worker")
	waitFor(t, s, kid, trace.AwaitingAnswer)
	if n, err := s.Unread(ctx, root.RunID, 0); err != nil || n != 0 {
		t.Errorf("a pause was posted: %d, %v", n, err)
	}
	qs, err := s.Questions(ctx, kid.RunID)
	if err != nil {
		t.Fatal(err)
	}
	kid, _, err = s.EnterChild(ctx, root, kid.RunID, EnterOptions{Answer: &Answer{ID: qs[0].ID, Text: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, s, kid, trace.StepCapReached, 0)
	kid, _, err = s.EnterChild(ctx, root, kid.RunID, EnterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, s, kid, trace.Success, 0)
	ms, err := s.MessagesFor(ctx, root.RunID)
	if err != nil || len(ms) != 1 || ms[0].Kind != MessageFinished || ms[0].FromName != "worker" || ms[0].Body != "[finished] step_cap_reached" {
		t.Errorf("posted %+v, %v", ms, err)
	}
}

func TestAMarkThatFailsDeliversNothing(t *testing.T) {
	ctx := context.Background()
	f := &failing{}
	s := newFile(t, f.option())
	root := start(t, s, RunStart{Mode: ModeTree})
	kid := child(t, s, root, 1, 0, "")
	for call := range 3 {
		if _, err := s.SendMessage(ctx, kid, AgentMessage{To: root.RunID, Step: 1, CallIndex: call, Body: "m"}); err != nil {
			t.Fatal(err)
		}
	}
	f.set("mark read")
	if ms, _, err := s.ReadMessages(ctx, root, 0, 1, 0); err == nil {
		t.Fatalf("delivered %+v", ms)
	}
	f.set("")
	if ms, _, err := s.ReadMessages(ctx, root, 0, 1, 0); err != nil || len(ms) != 3 {
		t.Errorf("afterwards %d messages, %v", len(ms), err)
	}
}

func TestHandlesAcrossAResume(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	one, err := s.StartHandle(ctx, d, 1, "go run ./server")
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.StartHandle(ctx, d, 1, "sleep 1")
	if err != nil || one != 1 || two != 2 {
		t.Fatalf("handles %d and %d, %v", one, two, err)
	}
	for _, pids := range [][]int{{10}, {11, 12}} {
		if err := s.SetHandlePIDs(ctx, d, one, pids); err != nil {
			t.Fatal(err)
		}
	}
	code := 3
	for i, want := range []bool{true, false} {
		first, err := s.EndHandle(ctx, d, two, HandleExited, &code, "")
		if err != nil || first != want {
			t.Errorf("end %d: %v, %v", i, first, err)
		}
	}
	if first, err := s.EndHandle(ctx, d, two, HandleKilled, nil, "late"); err != nil || first {
		t.Errorf("a second end: %v, %v", first, err)
	}
	d.Record(HandleOutput{Handle: one, Step: 1, Chunk: "a\x00b"}, HandleOutput{Handle: two, Step: 1, Chunk: "other"},
		HandleOutput{Handle: one, Step: 1}, HandleOutput{Handle: one, Step: 2, Chunk: "c\n"})
	release(t, d)
	d2, res := enter(t, s, d.RunID, EnterOptions{})
	if diff := cmp.Diff([]int{one}, res.Orphans); diff != "" {
		t.Errorf("orphans (-want +got):\n%s", diff)
	}
	three, err := s.StartHandle(ctx, d2, 2, "another")
	if err != nil || three != 3 {
		t.Errorf("the handle after the resume is %d, %v", three, err)
	}
	hs, err := s.ProcessHandles(ctx, d.RunID)
	if err != nil {
		t.Fatal(err)
	}
	want := []ProcessHandle{
		{Handle: 1, Step: 1, Line: "go run ./server", PIDs: []int{11, 12}, State: HandleOrphaned, Reason: orphaned},
		{Handle: 2, Step: 1, Line: "sleep 1", State: HandleExited, Code: &code},
		{Handle: 3, Step: 2, Line: "another", State: HandleRunning},
	}
	ignore := cmp.FilterPath(func(p cmp.Path) bool { return strings.HasSuffix(p.Last().String(), "edAt") }, cmp.Ignore())
	if diff := cmp.Diff(want, hs, ignore); diff != "" {
		t.Errorf("handles (-want +got):\n%s", diff)
	}
	if out, err := s.OutputOf(ctx, d.RunID, one); err != nil || out != "a\x00bc\n" {
		t.Errorf("output %q, %v", out, err)
	}
	var rows int
	queryRaw(t, s.Path(), `SELECT count(*) FROM handle_output`, &rows)
	if rows != 3 {
		t.Errorf("%d rows of output, want none for a silent poll", rows)
	}
	if first, err := s.EndHandle(ctx, d2, one, HandleExited, &code, ""); err != nil || first {
		t.Errorf("an orphan ended: %v, %v", first, err)
	}
	release(t, d2)
	if _, res := enter(t, s, d.RunID, EnterOptions{}); len(res.Orphans) != 1 || res.Orphans[0] != 3 {
		t.Errorf("orphaned the second time: %v", res.Orphans)
	}
}
