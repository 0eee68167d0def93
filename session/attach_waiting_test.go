package session_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// held3 is a store with a run that waits for each of the three, and a stranger.
func held3(t *testing.T) (*store.Store, *store.Drive, trace.RequestID, trace.QuestionID, trace.PlanID) {
	t.Helper()
	p := newPair(t)
	d, err := p.store.StartRun(t.Context(), store.RunStart{Goal: "g", Root: p.dir, Provider: "p"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Release(context.Background()) })
	return p.store, d, putRequest(t, p.store, d), putQuestion(t, p.store, d), putPlan(t, p.store, d)
}

func putRequest(t *testing.T, st *store.Store, d *store.Drive) trace.RequestID {
	t.Helper()
	id, err := st.PutPending(t.Context(), d, store.PendingApproval{
		Step: 2, Tool: "write_file", Arguments: []byte(`{"path":"a","content":"x"}`), Act: "write", Target: "a", Content: "x", Rule: "*", Layer: "team",
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func putQuestion(t *testing.T, st *store.Store, d *store.Drive) trace.QuestionID {
	t.Helper()
	id, err := st.PutQuestion(t.Context(), d, store.PendingQuestion{
		Step: 2, Question: "which?", Context: "two fit", Choices: []byte(`["a",{"label":"b","description":"the other"}]`),
		Batch: []byte(`[{"question":"which?","choices":["a"],"multiple":true}]`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func putPlan(t *testing.T, st *store.Store, d *store.Drive) trace.PlanID {
	t.Helper()
	id, err := st.PutPlan(t.Context(), d, store.PendingPlan{Step: 2, Steps: []byte(`[{"intent":"look"},{"intent":"write","agent":"scribe"}]`)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestWhatWaitsIsListedByKindAndAge(t *testing.T) {
	st, d, request, question, plan := held3(t)
	a := session.Attach(st, d.RunID)
	want := []session.Waiting{
		session.WaitingApproval{RequestID: request, RunID: d.RunID, Step: 2, Act: policy.Write, Target: "a", Content: "x", Tool: "write_file", Rule: "*", Layer: "team"},
		session.WaitingQuestion{QuestionID: question, RunID: d.RunID, Step: 2, Question: "which?", Context: "two fit",
			Choices: []approve.Choice{{Label: "a"}, {Label: "b", Description: "the other"}}, Multiple: true},
		session.WaitingPlan{PlanID: plan, RunID: d.RunID, Step: 2, Plan: approve.Plan{Steps: []approve.PlanStep{{Intent: "look"}, {Intent: "write", Agent: "scribe"}}}},
	}
	got, err := a.Waiting(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	if r := got[2].(session.WaitingPlan).Plan.Render(); r != "1. look\n2. [scribe] write" {
		t.Errorf("the plan reads %q", r)
	}
	for i, w := range got {
		if won, err := answer(t.Context(), a, w, true); err != nil || !won {
			t.Fatalf("answer %d: %t, %v", i, won, err)
		}
		left, err := a.Waiting(t.Context())
		if err != nil || len(left) != 2-i {
			t.Errorf("after answer %d: %+v, %v", i, left, err)
		}
	}
	row, err := st.Pending(t.Context(), request)
	if err != nil || row.DecidedBy != "attached" {
		t.Errorf("row %+v, %v", row, err)
	}
	q, err := st.Question(t.Context(), question)
	if err != nil || q.AnsweredBy != "attached" {
		t.Errorf("row %+v, %v", q, err)
	}
	pl, err := st.Plan(t.Context(), plan)
	if err != nil || pl.DecidedBy != "attached" {
		t.Errorf("row %+v, %v", pl, err)
	}
}

func TestAnAnswerToAnotherRunOrWithoutADecisionWritesNothing(t *testing.T) {
	st, d, request, question, plan := held3(t)
	stranger, err := st.StartRun(t.Context(), store.RunStart{Goal: "g", Root: "/repo", Provider: "p"})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Release(context.Background())
	elsewhere, own := session.Attach(st, stranger.RunID, session.Tree()), session.Attach(st, d.RunID)
	second := func(_ bool, err error) error { return err }
	content := "y"
	for _, tc := range []struct {
		name string
		err  error
		want error
	}{
		{"a foreign request", second(elsewhere.AnswerApproval(t.Context(), request, approve.Approve())), session.ErrOtherRun},
		{"a foreign question", second(elsewhere.AnswerQuestion(t.Context(), question, "x")), session.ErrOtherRun},
		{"a foreign plan", second(elsewhere.AnswerPlan(t.Context(), plan, approve.Accept())), session.ErrOtherRun},
		{"a deferral", second(own.AnswerApproval(t.Context(), request, approve.Defer())), task.ErrInvalid},
		{"no decision", second(own.AnswerApproval(t.Context(), request, approve.Decision{})), task.ErrInvalid},
		{"a rule to remember that can never hold", second(own.AnswerApproval(t.Context(), request, approve.Approve(policy.Rule{Pattern: "*"}))), task.ErrInvalid},
		{"no verdict", second(own.AnswerPlan(t.Context(), plan, approve.PlanVerdict{})), task.ErrInvalid},
		{"too many answers", second(own.AnswerQuestion(t.Context(), question, "a", "b")), store.ErrResume},
		{"an unknown request", second(own.AnswerApproval(t.Context(), 99, approve.Approve())), store.ErrNotFound},
		{"an unknown question", second(own.AnswerQuestion(t.Context(), 99, "x")), store.ErrResume},
		{"an unknown plan", second(own.AnswerPlan(t.Context(), 99, approve.Accept())), store.ErrResume},
	} {
		if !errors.Is(tc.err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, tc.err, tc.want)
		}
	}
	exec, err := st.PutPending(t.Context(), d, store.PendingApproval{Step: 2, Tool: "exec", Arguments: []byte(`{"argv":["rm","-rf","build"]}`), Act: "exec", Target: "rm -rf build"})
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*approve.Modified{"another command": {Target: "ls build"}, "content for a command": {Content: &content}} {
		d := approve.Approve()
		d.Modified = m
		var rw *approve.RewriteError
		if _, err := own.AnswerApproval(t.Context(), exec, d); !errors.As(err, &rw) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ws, err := own.Waiting(t.Context()); err != nil || len(ws) != 4 {
		t.Errorf("%d things wait, %v: something was written", len(ws), err)
	}
}

func TestATreeIsWatchedAndAnsweredAsOne(t *testing.T) {
	p := newPair(t)
	root, err := p.store.StartRun(t.Context(), store.RunStart{Goal: "g", Root: p.dir, Provider: "p", Mode: store.ModeTree})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Release(context.Background())
	child, err := p.store.StartChild(t.Context(), root, store.ChildStart{Workspace: p.dir, Spawn: store.Spawn{Step: 1, Goal: "part"}})
	if err != nil {
		t.Fatal(err)
	}
	other, err := p.store.StartChild(t.Context(), root, store.ChildStart{Workspace: p.dir, Spawn: store.Spawn{Step: 1, CallIndex: 1, Goal: "part"}})
	if err != nil {
		t.Fatal(err)
	}
	q1, q2 := putQuestion(t, p.store, child), putQuestion(t, p.store, other)
	for _, ev := range []trace.Event{{RunID: root.RunID, Fact: trace.StalledOut{}}, {RunID: child.RunID, Depth: 1, Fact: trace.StalledOut{}}, {RunID: root.RunID, Step: 2, Fact: trace.StalledOut{}}} {
		if err := p.store.PutEvents(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []trace.RunID{root.RunID, child.RunID} {
		a := session.Attach(p.store, at, session.Tree())
		evs, err := a.Poll(t.Context())
		if err != nil || len(evs) != 3 || evs[1].RunID != child.RunID {
			t.Errorf("attached to %d: events %+v, %v", at, evs, err)
		}
		ws, err := a.Waiting(t.Context())
		if err != nil || len(ws) != 2 || ws[0].(session.WaitingQuestion).QuestionID != q1 || ws[1].(session.WaitingQuestion).QuestionID != q2 {
			t.Errorf("attached to %d: waiting %+v, %v", at, ws, err)
		}
	}
	only := session.Attach(p.store, root.RunID)
	if evs, err := only.Poll(t.Context()); err != nil || len(evs) != 2 {
		t.Errorf("the root alone: %+v, %v", evs, err)
	}
	if _, err := only.AnswerQuestion(t.Context(), q1, "x"); !errors.Is(err, session.ErrOtherRun) {
		t.Errorf("a child's question through the root alone: %v", err)
	}
	if won, err := session.Attach(p.store, root.RunID, session.Tree()).AnswerQuestion(t.Context(), q1, "x"); err != nil || !won {
		t.Errorf("a child's question through the tree: %t, %v", won, err)
	}
}

func TestOfManyAnswersAtOnceOneCounts(t *testing.T) {
	st, d, request, question, plan := held3(t)
	var won [3]int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			a := session.Attach(st, d.RunID)
			for i, f := range []func() (bool, error){
				func() (bool, error) { return a.AnswerApproval(t.Context(), request, approve.Approve()) },
				func() (bool, error) { return a.AnswerQuestion(t.Context(), question, "x") },
				func() (bool, error) { return a.AnswerPlan(t.Context(), plan, approve.Accept()) },
			} {
				ok, err := f()
				if err != nil {
					t.Error(err)
				}
				if ok {
					mu.Lock()
					won[i]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if won != [3]int{1, 1, 1} {
		t.Errorf("answers that counted: %v", won)
	}
}

func TestAnEventThatCannotBeReadDoesNotEndTheStream(t *testing.T) {
	st, d, _, _, _ := held3(t)
	raw := []byte(fmt.Sprintf(`{"run_id":%d,"step":1,"depth":0,"event":"from_the_future","x":1}`, d.RunID))
	for _, ev := range []trace.Event{{RunID: d.RunID, Step: 1, Fact: trace.UnknownFact{Name: "from_the_future", Raw: raw}}, {RunID: d.RunID, Step: 2, Fact: trace.StalledOut{}}} {
		if err := st.PutEvents(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	got, err := session.Attach(st, d.RunID).Poll(t.Context())
	if err != nil || len(got) != 2 || got[0].Kind() != "from_the_future" || got[1].Kind() != "stalled" {
		t.Fatalf("events %+v, %v", got, err)
	}
	if f := got[0].Fact.(trace.UnknownFact); string(f.Raw) != string(raw) {
		t.Errorf("raw: %s", f.Raw)
	}
}

func TestAnAttachmentCannotDriveARun(t *testing.T) {
	typ := reflect.TypeFor[*session.Attachment]()
	var got []string
	for i := range typ.NumMethod() {
		got = append(got, typ.Method(i).Name)
	}
	want := []string{"AnswerApproval", "AnswerPlan", "AnswerQuestion", "Cursor", "FromNow", "Poll", "Waiting"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("methods (-want +got): whatever is new must not start, resume, step, steer or cancel a run:\n%s", diff)
	}
}

func TestWhatARunThatEndedAskedIsNotWaitedFor(t *testing.T) {
	st, d, _, _, _ := held3(t)
	if err := st.FinishRun(t.Context(), d, store.Finish{Outcome: trace.Outcome{Kind: trace.Cancelled}}); err != nil {
		t.Fatal(err)
	}
	if ws, err := session.Attach(st, d.RunID).Waiting(t.Context()); err != nil || len(ws) != 0 {
		t.Errorf("waiting: %+v, %v", ws, err)
	}
}

// Whoever answers a run that has ended meanwhile is told that nobody acts on it.
func TestAnAnswerToARunThatEndedDoesNotCount(t *testing.T) {
	st, d, request, question, plan := held3(t)
	if err := st.FinishRun(t.Context(), d, store.Finish{Outcome: trace.Outcome{Kind: trace.Cancelled}}); err != nil {
		t.Fatal(err)
	}
	a := session.Attach(st, d.RunID)
	if won, err := a.AnswerApproval(t.Context(), request, approve.Approve()); won || err != nil {
		t.Errorf("approval: %t, %v", won, err)
	}
	if won, err := a.AnswerQuestion(t.Context(), question, "yes"); won || err != nil {
		t.Errorf("question: %t, %v", won, err)
	}
	if won, err := a.AnswerPlan(t.Context(), plan, approve.Accept()); won || err != nil {
		t.Errorf("plan: %t, %v", won, err)
	}
	if row, err := st.Pending(t.Context(), request); err != nil || row.DecidedBy != store.Withdrawn || !row.PerformedAt.IsZero() {
		t.Errorf("%+v, %v", row, err)
	}
}

// An archive leaves a plan without its steps. It waits all the same, and so does what
// else waits beside it.
func TestWhatAnArchivedRunWaitsForIsStillListedAndAnswered(t *testing.T) {
	p := newPair(t)
	sess, err := p.store.CreateSession(t.Context(), p.dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.store.StartRun(t.Context(), store.RunStart{Goal: "g", Root: p.dir, Provider: "p", Turn: &store.TurnStart{Session: sess, Prompt: "p"}})
	if err != nil {
		t.Fatal(err)
	}
	putQuestion(t, p.store, d)
	if _, err := p.store.PutPlan(t.Context(), d, store.PendingPlan{Step: 2, Steps: []byte(`[{"intent":"look"}]`)}); err != nil {
		t.Fatal(err)
	}
	if err := d.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.store.ArchiveSession(t.Context(), sess); err != nil {
		t.Fatal(err)
	}
	a := session.Attach(p.store, d.RunID)
	ws, err := a.Waiting(t.Context())
	if err != nil || len(ws) != 2 {
		t.Fatalf("waiting: %+v, %v", ws, err)
	}
	for _, w := range ws {
		if won, err := answer(t.Context(), a, w, true); err != nil || !won {
			t.Errorf("the answer to %+v: %t, %v", w, won, err)
		}
	}
}
