package store

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/trace"
)

// failing makes a store whose statements fail on demand.
type failing struct {
	mu    sync.Mutex
	point string // fails at this point; "*" records only
	err   error
	seen  []string
}

func (f *failing) option() Option {
	return func(o *options) {
		o.fail = func(point string) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.seen = append(f.seen, point)
			if f.point != "" && f.point == point {
				return f.err
			}
			return nil
		}
	}
}

func (f *failing) set(point string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.point, f.err, f.seen = point, errors.New("injected at "+point), nil
}

func (f *failing) points() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := map[string]bool{}
	var out []string
	for _, p := range f.seen {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

// fullStep touches every table that a step can.
func fullStep(n int) StepCommit {
	c := aStep(n)
	c.Reported = 9
	left := int64(100)
	c.Draw = &Draw{Remaining: &left}
	c.Turn.Carry = []byte(`{"signature":"abc"}`)
	return c
}

func record(d *Drive, n int) {
	d.Record(ContextEvent{Step: n, Kind: "assembled"}, ProviderCall{Step: n, Provider: "p"},
		PolicyEvent{Step: n, Kind: PolicyDecision, Act: "exec", Target: "go test ./..."}, Edit{Step: n, Tool: "write_file", Path: "a.go"})
}

func TestAStepIsDurableWholeOrNotAtAll(t *testing.T) {
	ctx := context.Background()
	probe := &failing{}
	s := newFile(t, probe.option())
	d := start(t, s, RunStart{})
	d.buf.halt() // evidence comes along with the steps only
	probe.set("*")
	record(d, 1)
	commit(t, s, d, fullStep(1))
	points := probe.points()
	if len(points) < 10 {
		t.Fatalf("a step has only the points %q", points)
	}
	n := 1
	for _, p := range points {
		if strings.HasPrefix(p, "committed") {
			continue // after the commit there is nothing left to lose
		}
		record(d, n+1)
		before := counts(t, s)
		probe.set(p)
		err := s.CommitStep(ctx, d, fullStep(n+1))
		probe.set("")
		if err == nil || !strings.Contains(err.Error(), "injected at "+p) {
			t.Fatalf("with a failure at %q: %v", p, err)
		}
		if after := counts(t, s); after != before {
			t.Errorf("a failure at %q left rows:\n%s\nbefore:\n%s", p, after, before)
		}
		sound(t, s)
		commit(t, s, d, fullStep(n+1))
		n++
	}
	sound(t, s)
	calls, err := Collect(s.ProviderCalls(ctx, d.RunID))
	if err != nil || len(calls) != n {
		t.Errorf("%d steps have %d provider calls, %v: evidence was lost or doubled", n, len(calls), err)
	}
}

func TestAFailedCommitTellsTheModelNothingTwice(t *testing.T) {
	ctx := context.Background()
	f := &failing{}
	s := newFile(t, f.option())
	d := start(t, s, RunStart{})
	f.set("commit")
	if err := s.CommitStep(ctx, d, aStep(1)); err == nil {
		t.Fatal("the commit did not fail")
	}
	f.set("")
	commit(t, s, d, aStep(1))
	obs, err := Collect(s.Observations(ctx, d.RunID))
	if err != nil || len(obs) != 1 || obs[0].Observation != aStep(1).Observations[0] {
		t.Errorf("the ledger holds %+v, %v", obs, err)
	}
}

func TestOnlyTheNextStepCanBeCommitted(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	before := counts(t, s)
	for name, n := range map[string]int{"the same step again": 1, "a step with a gap": 3, "step zero": 0, "a negative step": -4} {
		c := aStep(n)
		wantKind(t, func() error { return s.CommitStep(ctx, d, c) }, KindConstraint)
		if after := counts(t, s); after != before {
			t.Errorf("%s changed rows: %s", name, after)
		}
	}
	sound(t, s)
}

func TestACancelledRunKeepsTheStepWhoseWorkIsDone(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.CommitStep(ctx, d, aStep(1)); err != nil {
		t.Fatalf("CommitStep: %v", err)
	}
	if err := s.FinishRun(ctx, d, Finish{Outcome: trace.Outcome{Kind: trace.Cancelled, Steps: 1}}); err != nil {
		t.Fatalf("FinishRun: %v", err)
	}
	if _, err := s.PutPending(ctx, d, PendingApproval{}); err == nil {
		t.Error("a question was asked in the name of an ended drive")
	}
	sum, err := s.RunSummary(context.Background(), d.RunID)
	if err != nil || sum.Outcome != trace.Cancelled || sum.Steps != 1 || sum.Tokens != 10 {
		t.Errorf("the summary is %+v, %v", sum, err)
	}
}

func TestAStepReadsBackAsItWasHandedOver(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{Seed: []trace.Observation{{Kind: trace.ObsMessage, Text: "earlier"}}})
	c := StepCommit{
		Step: 1, Decision: "read_file; write_file", Prompt: "p\x00q", ToolCall: `a:{"x":1} | b|c:{"y":" | "}`, Tokens: 7, Changed: true,
		Turn: &trace.AssistantTurn{Text: "", Calls: []trace.ToolCall{
			{ID: "c1", Name: "a:b", Arguments: []byte(`{"x":" | ","n":1.50}`)}, {ID: "c2", Name: "b", Arguments: []byte(`{}`)}},
			Carry: []byte(`[{"type":"thinking","signature":"s"}]`)},
		Observations: []trace.Observation{
			{Step: 1, Kind: trace.ObsRead, Target: "a.go", CallID: "c1", Text: "one\x00two", First: 3, Count: 4, Digest: "d1"},
			{Step: 0, Kind: trace.ObsMessage, Text: "waited for a commit"},
			{Step: 1, Kind: trace.ObsWrite, Target: "b.go", CallID: "c2", Text: "done"},
		},
	}
	commit(t, s, d, c)
	c.Turn.Step = 1
	turns, err := Collect(s.StepTurns(ctx, d.RunID))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]trace.AssistantTurn{*c.Turn}, turns); diff != "" {
		t.Errorf("the turn differs (-want +got):\n%s", diff)
	}
	obs, err := Collect(s.Observations(ctx, d.RunID, After(0)))
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range obs {
		if o.Seq != i+1 || o.Observation != c.Observations[i] {
			t.Errorf("entry %d is %+v, want %+v", o.Seq, o.Observation, c.Observations[i])
		}
	}
	// A later entry of the same step is not part of the step's result.
	if err := s.AppendObservations(ctx, d, trace.Observation{Step: 1, Kind: trace.ObsMessage, Text: "an answer"}); err != nil {
		t.Fatal(err)
	}
	steps, err := Collect(s.Steps(ctx, d.RunID))
	if err != nil {
		t.Fatal(err)
	}
	st := steps[0]
	if st.Result != "one\x00two\ndone" || st.Prompt != c.Prompt || st.ToolCall != c.ToolCall || !st.Changed || st.Tokens != 7 || st.DriveID != d.ID {
		t.Errorf("the step is %+v", st)
	}
	var stored *string
	queryRaw(t, s.Path(), `SELECT result FROM steps`, &stored)
	if stored != nil {
		t.Errorf("the observations are stored twice: %q", *stored)
	}
	c = aStep(2)
	c.Result = "a result of its own"
	commit(t, s, d, c)
	steps, err = Collect(s.Steps(ctx, d.RunID, After(1)))
	if err != nil || steps[0].Result != "a result of its own" {
		t.Errorf("step 2 is %+v, %v", steps, err)
	}
}

func TestTheLastAssembledRowOfAStepLearnsTheReportedTokens(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	est := int64(120)
	d.Record(ContextEvent{Step: 1, Kind: "assembled", Est: &est}, ContextEvent{Step: 1, Kind: "assembled", Est: &est}, ContextEvent{Step: 1, Kind: "served"})
	c := aStep(1)
	c.Reported = 99
	commit(t, s, d, c)
	d.Record(ContextEvent{Step: 2, Kind: "assembled"})
	commit(t, s, d, aStep(2))
	evs, err := Collect(s.ContextEvents(ctx, d.RunID))
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, e := range evs {
		if e.Reported == nil {
			got = append(got, -1)
		} else {
			got = append(got, *e.Reported)
		}
	}
	if diff := cmp.Diff([]int64{-1, 99, -1, -1}, got); diff != "" {
		t.Errorf("reported tokens (-want +got):\n%s", diff)
	}
}

func TestAStepCanEndItsRunInTheSameTransaction(t *testing.T) {
	ctx := context.Background()
	f := &failing{}
	s := newFile(t, f.option())
	sess, err := s.CreateSession(ctx, "/r")
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, s, RunStart{Turn: &TurnStart{Session: sess, Prompt: "go"}})
	c := aStep(1)
	c.Finish = &Finish{Outcome: trace.Outcome{Kind: trace.Success, Steps: 1}, Reply: "done",
		Output: &Output{Schema: []byte(`{}`), Value: []byte(`{"a":1}`), Valid: true, Attempts: 2}}
	f.set("*")
	probe := c
	if err := s.CommitStep(ctx, d, probe); err != nil {
		t.Fatal(err)
	}
	commits := 0
	for _, p := range f.seen {
		if p == "commit" {
			commits++
		}
	}
	if commits != 1 {
		t.Errorf("the last step took %d commits", commits)
	}
	if l, err := s.LeaseOf(ctx, d.RunID); err != nil || l != nil {
		t.Errorf("the lease stays: %+v, %v", l, err)
	}
	info, err := s.Run(ctx, d.RunID)
	if err != nil || info.Status != trace.StatusCompleted || !info.Outcome.Succeeded() || info.LastStep != 1 {
		t.Errorf("the run is %+v, %v", info, err)
	}
	out, err := s.RunOutput(ctx, d.RunID)
	if err != nil || string(out.Value) != `{"a":1}` || !out.Valid || out.Attempts != 2 {
		t.Errorf("the output is %+v, %v", out, err)
	}
	turn, err := s.TurnForRun(ctx, d.RunID)
	if err != nil || turn.Reply != "done" || turn.Outcome != trace.Success {
		t.Errorf("the turn is %+v, %v", turn, err)
	}
	sound(t, s)
}

func TestCountersOfNonsenseDoNotWrap(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	for n := 1; n <= 3; n++ {
		c := aStep(n)
		c.Tokens = math.MaxInt64
		commit(t, s, d, c)
	}
	c := aStep(4)
	c.Tokens = math.MinInt64
	commit(t, s, d, c)
	sound(t, s)
	if spent, err := s.SpentTokens(ctx, d.RunID); err != nil || spent != 3*maxCounter {
		t.Errorf("spent %d, %v", spent, err)
	}
}

func TestAReaderSeesEachStepAtOnce(t *testing.T) {
	ctx := context.Background()
	s := newFile(t, WithSynchronous(SyncNormal))
	d := start(t, s, RunStart{})
	other := another(t, s)
	for n := 1; n <= 1000; n++ {
		commit(t, s, d, aStep(n))
		if info, err := other.Run(ctx, d.RunID); err != nil || info.LastStep != n {
			t.Fatalf("after step %d the reader sees %d, %v", n, info.LastStep, err)
		}
	}
}

func TestAPinnedSnapshotDoesNotHoldUpTheWriter(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	other := another(t, s)
	err := other.snapshot(context.Background(), "pin", func(q *query) error {
		if _, err := runInfo(q, d.RunID); err != nil {
			return err
		}
		for n := 2; n <= 20; n++ {
			commit(t, s, d, aStep(n))
		}
		info, err := runInfo(q, d.RunID)
		if err == nil && info.LastStep != 1 {
			t.Errorf("the snapshot moved to step %d", info.LastStep)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestManyHandlesWriteWithoutAnybodySeeingBusy(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "runs.db")
	openAt(t, path)
	var wg sync.WaitGroup
	const handles, each = 8, 150
	for range handles {
		wg.Go(func() {
			s, err := Open(ctx, path)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = s.Close() }()
			d, err := s.StartRun(ctx, RunStart{Goal: "g", Root: "/r"})
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = d.Release(ctx) }()
			for n := 1; n <= each; n++ {
				if _, err := s.Run(ctx, d.RunID); err != nil { // read first, write later
					t.Error(err)
					return
				}
				record(d, n)
				if err := s.CommitStep(ctx, d, aStep(n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	s := openAt(t, path)
	sound(t, s)
	var steps, calls int
	queryRaw(t, path, `SELECT (SELECT count(*) FROM steps), (SELECT count(*) FROM provider_calls)`, &steps, &calls)
	if steps != handles*each || calls != handles*each {
		t.Errorf("%d steps and %d calls, want %d of each", steps, calls, handles*each)
	}
}

func TestAWaitForALockedFileEndsWithItsContext(t *testing.T) {
	s := newFile(t)
	other := another(t, s)
	locked, done := make(chan struct{}), make(chan struct{})
	go func() {
		_ = other.write(context.Background(), "hold", func(*txn) error {
			close(locked)
			<-done
			return nil
		})
	}()
	<-locked
	defer close(done)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := s.CreateSession(ctx, "/r")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestAFullDiskKeepsThePreviousStep(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openAt(t, path)
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var pages int
	queryRaw(t, path, `PRAGMA page_count`, &pages)
	s = openAt(t, path, func(o *options) { o.maxPages = pages + 8 })
	d2, _ := enter(t, s, d.RunID, EnterOptions{})
	big := aStep(2)
	big.Prompt = strings.Repeat("x", 1<<20)
	wantKind(t, func() error { return s.CommitStep(ctx, d2, big) }, KindFull)
	sound(t, s)
	commit(t, s, d2, aStep(2))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path)
	d3, res := enter(t, s, d.RunID, EnterOptions{})
	if res.LastStep != 2 {
		t.Errorf("the run stands at step %d", res.LastStep)
	}
	big.Step = 3
	commit(t, s, d3, big)
	sound(t, s)
}

func TestHostileTextRoundTripsOrIsRefused(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	for _, text := range []string{"", "a\x00b", `'"; DROP TABLE runs; --`, "100% of %s", "line\r\nline\n", "\xff\xfe", strings.Repeat("é", 1<<19), "\u202e\x1b[31m"} {
		d := start(t, s, RunStart{Goal: text + "g"})
		c := aStep(1)
		c.Decision, c.Prompt, c.ToolCall = text, text, text
		c.Observations[0].Text, c.Observations[0].Target = text, text
		c.Turn.Text = text
		commit(t, s, d, c)
		want := strings.ToValidUTF8(text, "\uFFFD")
		steps, err := Collect(s.Steps(ctx, d.RunID))
		if err != nil || steps[0].Prompt != want || steps[0].Decision != want || steps[0].Result != want {
			t.Errorf("%.20q came back as %.20q, %v", text, steps[0].Prompt, err)
		}
		release(t, d)
	}
	d := start(t, s, RunStart{})
	for _, path := range []string{"", "a\xffb"} {
		wantKind(t, func() error { return s.PutRestorePoint(ctx, d, RestorePoint{Step: 1, Path: path, State: KeptAbsent}) }, KindInvalid)
		wantKind(t, func() error { _, err := s.CreateSession(ctx, path); return err }, KindInvalid)
	}
	bad := aStep(1)
	bad.Observations[0].Kind = "wrote"
	wantKind(t, func() error { return s.CommitStep(ctx, d, bad) }, KindInvalid)
	bad = aStep(1)
	bad.Turn.Calls[0].Arguments = []byte(`{"broken`)
	wantKind(t, func() error { return s.CommitStep(ctx, d, bad) }, KindInvalid)
	sound(t, s)
	for _, id := range []trace.RunID{0, -1, math.MaxInt64, math.MinInt64} {
		if _, err := s.Run(ctx, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("Run(%d): %v", id, err)
		}
		if rows, err := Collect(s.Steps(ctx, id)); err != nil || rows != nil {
			t.Errorf("Steps(%d): %v, %v", id, rows, err)
		}
	}
}

func TestDamagedRowsAreNamed(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		name, script string
		reason       ResumeReason
		read         func(s *Store, run trace.RunID) error
	}{
		{"the calls of a turn", `UPDATE step_turns SET calls = '[{"name":'`, UnreadableTurn,
			func(s *Store, run trace.RunID) error { _, err := Collect(s.StepTurns(ctx, run)); return err }},
		{"the vendor's part of a turn", `UPDATE step_turns SET carry = '{'`, UnreadableTurn,
			func(s *Store, run trace.RunID) error { _, err := Collect(s.StepTurns(ctx, run)); return err }},
		{"an observation of an unknown kind", `UPDATE ledger_observations SET kind = 'wrote'`, UnreadableObservation,
			func(s *Store, run trace.RunID) error { _, err := Collect(s.Observations(ctx, run)); return err }},
		{"the policy", `UPDATE drives SET policy = '{'`, UnreadablePolicy,
			func(s *Store, run trace.RunID) error { _, err := s.RunPolicy(ctx, run); return err }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFile(t)
			d := start(t, s, RunStart{Policy: []byte(`{}`)})
			commit(t, s, d, fullStep(1))
			release(t, d)
			raw(t, s.Path(), tc.script)
			_, _, eerr := s.EnterDrive(ctx, d.RunID, EnterOptions{})
			for what, err := range map[string]error{"read": tc.read(s, d.RunID), "enter": eerr} {
				var re *ResumeError
				if !errors.As(err, &re) || re.Reason != tc.reason || re.RunID != d.RunID {
					t.Errorf("%s: %v, want reason %s", what, err, tc.reason)
				}
			}
			if l, err := s.LeaseOf(ctx, d.RunID); err != nil || l != nil {
				t.Errorf("a run that could not be read stays held: %+v, %v", l, err)
			}
		})
	}
}
