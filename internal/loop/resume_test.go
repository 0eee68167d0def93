package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// sayThrough answers request n with turn n, however often it is asked, by what
// the request shows: a model that a resumed process can ask again.
func sayThrough(turns ...scripted.Turn) provider.Provider {
	return scripted.Func(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		done := 0
		for _, m := range req.Messages {
			if m.Role == provider.RoleAssistant {
				done++
			}
		}
		if done >= len(turns) {
			return nil, fmt.Errorf("no turn %d", done)
		}
		return turns[done](ctx, req)
	})
}

func TestAnInterruptedRunEndsWithTheTraceOfAnUndisturbedOne(t *testing.T) {
	turns := []scripted.Turn{
		readCall("a.txt"),
		write("b.txt", "one\ntwo\n"),
		scripted.Call("edit_file", map[string]string{"path": "b.txt", "search": "two", "replace": "2"}),
		readCall("b.txt"),
		command("cat", "b.txt"),
		write("a.txt", "replaced\n"),
		scripted.Calls(scripted.Tool("read_file", map[string]string{"path": "a.txt"}), scripted.Tool("grep", map[string]string{"pattern": "one"})),
		scripted.Say("done"),
	}
	prepare := func(f *fixture) { f.write("a.txt", "first\n") }
	plain := newFixture(t)
	prepare(plain)
	plain.model(sayThrough(turns...))
	want := plain.canonical(plain.must(trace.Finished).RunID)

	for stop := 1; stop < len(turns); stop++ {
		t.Run(fmt.Sprintf("stopped before step %d", stop+1), func(t *testing.T) {
			f := newFixture(t)
			prepare(f)
			ctx, cancel := context.WithCancel(context.Background())
			asked := 0
			inner := sayThrough(turns...)
			f.model(scripted.Func(func(c context.Context, req *provider.Request) (*provider.Response, error) {
				if asked++; asked > stop {
					cancel()
					<-c.Done()
					return nil, c.Err()
				}
				return inner.Complete(c, req, provider.Sink{})
			}))
			res, err := Run(ctx, f.host, f.contract(), nil)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%+v, %v", res, err)
			}
			f.model(sayThrough(turns...))
			end, err := f.resume(res.RunID, Resumption{})
			if err != nil || end.Outcome.Kind != trace.Finished {
				t.Fatalf("%s, %v", end.Outcome, err)
			}
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(f.canonical(res.RunID), "\n")); diff != "" {
				t.Errorf("trace (-undisturbed +resumed):\n%s", diff)
			}
			if got, want := f.info(res.RunID).Tokens, plain.info(1).Tokens; got != want {
				t.Errorf("%d tokens, want %d", got, want)
			}
			if rep, err := f.store.Check(context.Background()); err != nil || !rep.Sound() {
				t.Errorf("check: %+v, %v", rep, err)
			}
		})
	}
}

func TestAFinishedRunIsReportedAndNothingIsWritten(t *testing.T) {
	f := newFixture(t, readCall("a"), scripted.Say("the answer"))
	res := f.must(trace.Finished)
	before := f.canonical(res.RunID)
	m := f.script(scripted.Say("never"))
	for range 3 {
		again, err := f.resume(res.RunID, Resumption{})
		if err != nil || again.Outcome != res.Outcome || again.Reply != "the answer" {
			t.Errorf("%s %q, %v", again.Outcome, again.Reply, err)
		}
	}
	if len(m.Requests()) != 0 || f.canonical(res.RunID) != before {
		t.Error("a report asked or wrote something")
	}
	if drives, err := f.store.Drives(context.Background(), res.RunID); err != nil || len(drives) != 1 {
		t.Errorf("%d drives, %v", len(drives), err)
	}
}

func TestWhatDiedWithItsDriveCountsBeforeTheNextCompletion(t *testing.T) {
	f, m := newMortal(t)
	dear := func() scripted.Turn { return readCall("a").Using(provider.Usage{TotalTokens: 60}) }
	bounded := func(c *task.Contract) { c.Budget.Tokens = 100 }
	f.script(dear())
	m.dieAt("insert step", 0)
	id := f.died(bounded)
	f.script(dear())
	m.dieAt("insert step", 0)
	if _, err := f.resume(id, Resumption{}); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	s := f.script(dear())
	res, err := f.resume(id, Resumption{})
	if err != nil || res.Outcome.Kind != trace.CostBudgetExceeded || len(s.Requests()) != 0 {
		t.Errorf("%s, %v, %d completions: 120 tokens of 100 are on the bill", res.Outcome, err, len(s.Requests()))
	}
}

func TestATurnThatWasAnsweredIsReportedWithItsAnswer(t *testing.T) {
	f, ctx := newFixture(t, scripted.Say("the answer")), context.Background()
	id, err := f.store.CreateSession(ctx, f.dir)
	if err != nil {
		t.Fatal(err)
	}
	res, err := Run(ctx, f.host, f.contract(), &Turn{Session: id})
	if err != nil || res.Outcome.Kind != trace.Finished || res.Outcome.Steps != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	f.script()
	again, err := f.resume(res.RunID, Resumption{})
	if err != nil || again.Outcome != res.Outcome || again.Reply != "the answer" {
		t.Errorf("%s %q, %v", again.Outcome, again.Reply, err)
	}
}

func TestAnotherCriterionIsNotBoundByTheVerdictsOfTheFirst(t *testing.T) {
	t.Run("what the first passed is judged again", func(t *testing.T) {
		f, m := newMortal(t)
		m.dieAt("set outcome", 0)
		f.script(write("done.txt", "yes\n"))
		id := f.died(gate(verify.Contains("done.txt", "yes")))
		stricter := f.contract(gate(verify.Contains("done.txt", "reviewed")))
		f.script(edit("done.txt", "yes", "yes, reviewed"))
		res, err := f.resume(id, Resumption{Contract: &stricter})
		if err != nil || res.Outcome.Kind != trace.Success || res.Outcome.Steps != 2 {
			t.Errorf("%+v, %v: want the work that the new criterion demands", res, err)
		}
	})
	t.Run("what the first refused may be enough, and costs nothing", func(t *testing.T) {
		f := newFixture(t, write("done.txt", "yes\n"))
		res := f.must(trace.VerificationFailed, withSteps(1), gate(verify.Contains("done.txt", "a typing error")))
		mended := f.contract(withSteps(1), gate(verify.Contains("done.txt", "yes")))
		s := f.script()
		res, err := f.resume(res.RunID, Resumption{Contract: &mended})
		if err != nil || res.Outcome.Kind != trace.Success || len(s.Requests()) != 0 {
			t.Errorf("%+v, %v, %d completions", res, err, len(s.Requests()))
		}
	})
	t.Run("its refusals are not told as those of the new one", func(t *testing.T) {
		f := newFixture(t, write("done.txt", "yes\n"))
		res := f.must(trace.VerificationFailed, withSteps(1), gate(verify.Command("cat", "first.txt")))
		second := f.contract(withSteps(2), gate(verify.Command("cat", "second.txt")))
		s := f.script(write("second.txt", "x"))
		res, err := f.resume(res.RunID, Resumption{Contract: &second})
		if err != nil || res.Outcome.Kind != trace.Success {
			t.Fatalf("%+v, %v", res, err)
		}
		if told := lastUser(s); strings.Contains(told, "first.txt") || !strings.Contains(told, "second.txt") {
			t.Errorf("the model is told:\n%s", told)
		}
	})
}

func TestWhatCannotBeResumedIsRefusedByName(t *testing.T) {
	f := newFixture(t)
	_, err := f.resume(424242, Resumption{})
	var re *store.ResumeError
	if !errors.As(err, &re) || re.Reason != store.NoSuchRun {
		t.Errorf("unknown run: %v", err)
	}
	res := f.mustWait(t)
	_, err = f.resume(res.RunID, Resumption{Decision: &Decision{ID: 999, Decision: approveAll()}})
	if !errors.As(err, &re) || re.Reason != store.NoSuchRequest {
		t.Errorf("unknown request: %v", err)
	}
	_, err = f.resume(res.RunID, Resumption{Recovery: &store.RecoveryDecision{ID: 999, Verdict: store.RecoveredRetry}})
	if !errors.As(err, &re) || re.Reason != store.NoSuchAttempt {
		t.Errorf("unknown attempt: %v", err)
	}
}

func TestAResumeThatCannotDriveTakesNoWord(t *testing.T) {
	f := newFixture(t)
	res := f.mustWait(t)
	f.script(scripted.Say("done"))
	r := Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: approveAll()}}
	if err := os.Rename(f.dir, f.dir+".away"); err != nil {
		t.Fatal(err)
	}
	var bad *task.InvalidError
	if _, err := f.resume(res.RunID, r); !errors.As(err, &bad) {
		t.Fatalf("without the directory: %v", err)
	}
	if info, err := f.store.Run(context.Background(), res.RunID); err != nil || info.Outcome != res.Outcome {
		t.Errorf("the run changed: %+v, %v", info, err)
	}
	if err := os.Rename(f.dir+".away", f.dir); err != nil {
		t.Fatal(err)
	}
	if end, err := f.resume(res.RunID, r); err != nil || end.Outcome.Kind != trace.Finished || f.read("a.txt") != "x" {
		t.Errorf("%s, %v, a.txt %q", end.Outcome, err, f.read("a.txt"))
	}
}

func TestAResumeUnderAContractThatCannotBeKeepsTheEnding(t *testing.T) {
	f := newFixture(t, readCall("x"))
	res := f.must(trace.StepCapReached, withSteps(1))
	wrong := f.contract(gate(verify.Command("")))
	if _, err := f.resume(res.RunID, Resumption{Contract: &wrong}); err == nil {
		t.Fatal("no error")
	}
	info, err := f.store.Run(context.Background(), res.RunID)
	if err != nil || info.Outcome != res.Outcome {
		t.Errorf("the run changed: %+v, %v", info, err)
	}
}

func (f *fixture) mustWait(t *testing.T) *trace.Result {
	t.Helper()
	f.script(write("a.txt", "x"))
	f.host.Policy, f.host.Approver = asking, deferring
	return f.must(trace.AwaitingApproval)
}

func TestASecondDriverIsRefusedByNameWhileTheFirstDrives(t *testing.T) {
	f := newFixture(t)
	inside, proceed := make(chan trace.RunID), make(chan struct{})
	f.model(scripted.Func(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		last, err := f.store.LastRun(ctx)
		if err != nil {
			return nil, err
		}
		inside <- last.ID
		<-proceed
		return scripted.Say("done")(ctx, req)
	}))
	var wg sync.WaitGroup
	wg.Go(func() {
		if res, err := f.run(); err != nil || res.Outcome.Kind != trace.Finished {
			t.Errorf("first driver: %s, %v", res.Outcome, err)
		}
	})
	id := <-inside
	_, err := f.resume(id, Resumption{})
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || conflict.RunID != id || conflict.Owner == "" || !conflict.ExpiresAt.After(time.Now()) {
		t.Errorf("second driver: %v", err)
	}
	close(proceed)
	wg.Wait()
	if n := len(f.steps(id)); n != 1 {
		t.Errorf("%d steps", n)
	}
}

func TestAResumeUsesTheRecordedPolicyAndContract(t *testing.T) {
	f := newFixture(t, readCall("a"), readCall("b"))
	f.must(trace.StepCapReached, withSteps(2))
	f.host.Policy = policy.Permissive() // what another process may have bound
	m := f.script(write("locked/x", "y"), scripted.Say("refused"))
	c := f.contract(withSteps(9))
	end, err := f.resume(1, Resumption{Contract: &c})
	if err != nil || end.Outcome.Kind != trace.Finished || f.read("locked/x") != "" {
		t.Errorf("%s, %v, locked/x %q", end.Outcome, err, f.read("locked/x"))
	}
	told, _ := scripted.LastResult(m.Requests()[1], "write_file")
	contains(t, "what the model is told", told, "refused")
}

// What bounds a run from here on bounds it also behind the next pause, in whatever
// process.
func TestAContractThatIsStatedWithAResumeHoldsForTheNextOneToo(t *testing.T) {
	f := newFixture(t, readCall("a"))
	res := f.must(trace.StepCapReached, withSteps(1))
	f.script(ask("which?"))
	c := f.contract(withSteps(9))
	c.ToolMask, c.LeaseTTL = []string{"write_file"}, time.Minute
	mask := []string{"write_file", "read_file"}
	paused, err := f.resume(res.RunID, Resumption{Contract: &c, ToolMask: mask})
	if err != nil || paused.Outcome.Kind != trace.AwaitingAnswer {
		t.Fatalf("%s, %v", paused.Outcome, err)
	}
	wide := f.contract(withSteps(99))
	if again, err := f.resume(res.RunID, Resumption{Contract: &wide}); err != nil || again.Outcome.Kind != trace.AwaitingAnswer {
		t.Fatalf("a resume that drives nothing: %s, %v", again.Outcome, err)
	}
	f.write("b", "text of b")
	m := f.script(write("x", "y"), readCall("b"), scripted.Say("done"))
	var ttl time.Duration
	f.host.Observer = trace.ObserverFunc(func(ev trace.Event) trace.Flow {
		if l, err := f.store.LeaseOf(context.Background(), ev.RunID); err == nil && l != nil && ev.Kind() == "step" {
			ttl = l.TTL
		}
		return trace.Continue
	})
	end, err := f.resume(res.RunID, Resumption{Answer: &Answer{paused.Outcome.QuestionID, []string{"this"}}})
	if err != nil || end.Outcome.Kind != trace.Finished || f.read("x") != "" || ttl != time.Minute {
		t.Errorf("%s, %v; x %q, a lease of %s", end.Outcome, err, f.read("x"), ttl)
	}
	told, _ := scripted.LastResult(m.Requests()[2], "read_file")
	contains(t, "a tool that only the earlier drive withheld", told, "text of b")
}

// A criterion that a resume stated judges the last step also when that resume died
// before it could.
func TestACriterionThatAResumeStatedJudgesBehindItsDeath(t *testing.T) {
	for _, again := range []bool{false, true} {
		f := newFixture(t, write("done.txt", "x"))
		res := f.must(trace.VerificationFailed, withSteps(1), gate(verify.Command("sh", "-c", "false")))
		c := f.contract(withSteps(9), gate(verify.Command("sh", "-c", "test -f done.txt")))
		ctx, cancel := context.WithCancel(context.Background())
		f.host.Observer = trace.ObserverFunc(func(trace.Event) trace.Flow { cancel(); return trace.Continue })
		m := f.script(scripted.Say("never asked"))
		if _, err := Resume(ctx, f.host, res.RunID, Resumption{Contract: &c}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		f.host.Observer = f.seen
		r := Resumption{}
		if again {
			r.Contract = &c
		}
		end, err := f.resume(res.RunID, r)
		if err != nil || end.Outcome.Kind != trace.Success || len(m.Requests()) != 0 {
			t.Errorf("stated again %t: %s, %v, %d completions", again, end.Outcome, err, len(m.Requests()))
		}
	}
}

// The clock of a computer is set back, or two computers differ: a verdict of the first
// criterion is dated behind the drive that states the second one then.
func TestWhatAnotherCriterionSaidIsToldApartWithoutTheClock(t *testing.T) {
	f := newFixture(t)
	now := time.Now()
	late, err := store.Open(context.Background(), f.store.Path(), store.WithClock(func() time.Time { return now.Add(time.Hour) }))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	f.host.Store = late
	f.script(write("done.txt", "x"))
	res := f.must(trace.VerificationFailed, withSteps(1), gate(verify.Command("sh", "-c", "false")))
	f.host.Store = f.store
	c := f.contract(withSteps(9), gate(verify.Command("sh", "-c", "test -f done.txt")))
	ctx, cancel := context.WithCancel(context.Background())
	f.host.Observer = trace.ObserverFunc(func(trace.Event) trace.Flow { cancel(); return trace.Continue })
	m := f.script(scripted.Say("never asked"))
	if _, err := Resume(ctx, f.host, res.RunID, Resumption{Contract: &c}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.host.Observer = f.seen
	end, err := f.resume(res.RunID, Resumption{})
	if err != nil || end.Outcome.Kind != trace.Success || len(m.Requests()) != 0 {
		t.Errorf("%s, %v, %d completions", end.Outcome, err, len(m.Requests()))
	}
}

func TestAGateIsJudgedOnResumeWhenTheProcessDiedBeforeItCould(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(context.Background())
	stopAtStep := trace.ObserverFunc(func(ev trace.Event) trace.Flow {
		if ev.Kind() == "step" {
			cancel()
		}
		return f.seen.Observe(ev)
	})
	f.host.Observer = stopAtStep
	f.script(write("done.txt", "x"))
	res, err := Run(ctx, f.host, f.contract(gate(verify.Command("sh", "-c", "test -f done.txt"))), nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", res, err)
	}
	m := f.script(scripted.Say("never asked"))
	f.host.Observer = f.seen
	end, err := f.resume(res.RunID, Resumption{})
	if err != nil || end.Outcome.Kind != trace.Success || end.Outcome.Steps != 1 || len(m.Requests()) != 0 {
		t.Errorf("%s, %v, %d completions", end.Outcome, err, len(m.Requests()))
	}
}

// once is a mutating tool that reports each call and can stop the drive inside.
type once struct {
	mu     sync.Mutex
	keys   []string
	inside func()
}

func (o *once) tool(opts ...tool.Option) tool.Tool {
	return tool.NewCall("note", "Notes.", func(ctx context.Context, c tool.Call, _ struct{}) (string, error) {
		o.mu.Lock()
		o.keys = append(o.keys, c.Key)
		inside := o.inside
		o.mu.Unlock()
		if inside != nil {
			inside()
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "noted", nil
	}, opts...)
}

// interrupted leaves an open attempt behind.
func (f *fixture) interrupted(o *once) trace.RunID {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	o.inside = cancel
	f.script(scripted.Call("note", nil))
	res, err := Run(ctx, f.host, f.contract(withTools(o.tool())), nil)
	if !errors.Is(err, context.Canceled) {
		f.t.Fatalf("%+v, %v", res, err)
	}
	o.inside = nil
	return res.RunID
}

func TestACallThatMayHaveHappenedWaitsForAPerson(t *testing.T) {
	for _, tc := range []struct {
		name    string
		what    store.RecoveryDecision
		want    trace.OutcomeKind
		calls   int
		reaches string
	}{
		{"retry calls it once more", store.RecoveryDecision{Verdict: store.RecoveredRetry}, trace.Finished, 2, "noted"},
		{"completed does not call it", store.RecoveryDecision{Verdict: store.RecoveredCompleted, Account: "it was noted by hand"}, trace.Finished, 1, "it was noted by hand"},
		{"abort ends the run", store.RecoveryDecision{Verdict: store.RecoveredAbort}, trace.Denied, 1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, o := newFixture(t), &once{}
			id := f.interrupted(o)
			tools := Resumption{Defaults: task.Contract{Tools: tool.Toolbox{o.tool()}}}
			m := f.script(scripted.Call("note", nil), scripted.Say("done"))
			waiting, err := f.resume(id, tools)
			if err != nil || waiting.Outcome.Kind != trace.AwaitingRecovery || waiting.Outcome.AttemptID == 0 || len(m.Requests()) != 0 {
				t.Fatalf("%s, %v, %d completions", waiting.Outcome, err, len(m.Requests()))
			}
			if f.seen.count("recovery_paused") != 1 {
				t.Errorf("events: %v", f.seen.kinds())
			}
			tc.what.ID = waiting.Outcome.AttemptID
			tools.Recovery = &tc.what
			end, err := f.resume(id, tools)
			if err != nil || end.Outcome.Kind != tc.want {
				t.Fatalf("%s, %v", end.Outcome, err)
			}
			if len(o.keys) != tc.calls {
				t.Errorf("called %d times, want %d", len(o.keys), tc.calls)
			}
			for _, k := range o.keys {
				if k != o.keys[0] || k == "" {
					t.Errorf("the key changed between attempts: %q", o.keys)
				}
			}
			if tc.reaches != "" {
				contains(t, "what the model is told", lastUser(m), tc.reaches)
			}
			_, err = f.resume(id, tools)
			var re *store.ResumeError
			if end.Outcome.Kind == trace.Finished && err != nil && !errors.As(err, &re) {
				t.Errorf("deciding twice: %v", err)
			}
		})
	}
}

func TestACallThatReturnedBeforeACrashIsNotMadeAgain(t *testing.T) {
	f, o := newFixture(t), &once{}
	ctx, cancel := context.WithCancel(context.Background())
	// The second call of the step stops the drive, after the first has returned.
	stopper := tool.New("boom", "Stops.", func(c context.Context, _ struct{}) (string, error) {
		cancel()
		<-c.Done()
		return "", c.Err()
	}, tool.Replayable)
	turn := scripted.Calls(scripted.Tool("note", nil), scripted.Tool("boom", nil))
	f.script(turn)
	res, err := Run(ctx, f.host, f.contract(withTools(o.tool(), stopper)), nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", res, err)
	}
	m := f.script(turn, scripted.Say("done"))
	calm := tool.New("boom", "Stops.", func(context.Context, struct{}) (string, error) { return "calm", nil }, tool.Replayable)
	end, err := f.resume(res.RunID, Resumption{Defaults: task.Contract{Tools: tool.Toolbox{o.tool(), calm}}})
	if err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	if len(o.keys) != 1 {
		t.Errorf("called %d times, want once", len(o.keys))
	}
	got, _ := scripted.LastResult(m.Requests()[1], "note")
	contains(t, "its result", got, "noted")
}

// failing is a mutating tool whose result tells of a failure.
type failing struct{ calls int }

func (f *failing) Spec() tool.Spec { return tool.Spec{Name: "note", Description: "Fails."} }
func (f *failing) Call(context.Context, tool.Call) (tool.Result, error) {
	f.calls++
	return tool.Result{Text: "the printer is out of paper", Failed: true}, nil
}

func TestAReplayedFailureStaysAFailure(t *testing.T) {
	turn := scripted.Calls(scripted.Tool("note", nil), scripted.Tool("boom", nil))
	calm := tool.New("boom", "Stops.", func(context.Context, struct{}) (string, error) { return "calm", nil }, tool.Replayable)
	plain := newFixture(t, turn, scripted.Say("done"))
	want := plain.canonical(plain.must(trace.Finished, withTools(&failing{}, calm)).RunID)

	ctx, cancel := context.WithCancel(context.Background())
	stop := tool.New("boom", "Stops.", func(c context.Context, _ struct{}) (string, error) {
		cancel()
		<-c.Done()
		return "", c.Err()
	}, tool.Replayable)
	f, note := newFixture(t, turn), &failing{}
	res, err := Run(ctx, f.host, f.contract(withTools(note, stop)), nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", res, err)
	}
	f.script(turn, scripted.Say("done"))
	end, err := f.resume(res.RunID, Resumption{Defaults: task.Contract{Tools: tool.Toolbox{note, calm}}})
	if err != nil || end.Outcome.Kind != trace.Finished || note.calls != 1 {
		t.Fatalf("%s, %v, %d calls", end.Outcome, err, note.calls)
	}
	if diff := cmp.Diff(want, f.canonical(res.RunID)); diff != "" {
		t.Errorf("trace (-undisturbed +replayed):\n%s", diff)
	}
}

func TestBuiltInToolsLeaveNoAttempts(t *testing.T) {
	f := newFixture(t, write("a", "x"), command("true"), readCall("a"), scripted.Say("done"))
	res := f.must(trace.Finished)
	if open, err := f.store.OpenAttempts(context.Background(), res.RunID); err != nil || len(open) != 0 {
		t.Errorf("%+v, %v", open, err)
	}
}

func TestAPersonIsNotAskedTwiceAboutAStepThatDied(t *testing.T) {
	asked := 0
	approver := approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		asked++
		return approve.Approve(), nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	stop := tool.New("boom", "Stops.", func(c context.Context, _ struct{}) (string, error) {
		cancel()
		<-c.Done()
		return "", c.Err()
	}, tool.Replayable)
	turn := scripted.Calls(scripted.Tool("write_file", map[string]string{"path": "a.txt", "content": "new"}), scripted.Tool("boom", nil))
	f := newFixture(t, turn)
	f.host.Policy, f.host.Approver = asking.AllowExec("boom"), approver
	f.write("a.txt", "old")
	res, err := Run(ctx, f.host, f.contract(withTools(stop)), nil)
	if !errors.Is(err, context.Canceled) || f.read("a.txt") != "new" {
		t.Fatalf("%+v, %v, a.txt %q", res, err, f.read("a.txt"))
	}
	m := f.script(turn, scripted.Say("done"))
	calm := tool.New("boom", "Stops.", func(context.Context, struct{}) (string, error) { return "calm", nil }, tool.Replayable)
	end, err := f.resume(res.RunID, Resumption{Defaults: task.Contract{Tools: tool.Toolbox{calm}}})
	if err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	if asked != 1 {
		t.Errorf("asked %d times, want once", asked)
	}
	got, _ := scripted.LastResult(m.Requests()[1], "write_file")
	if !strings.Contains(got, "a.txt") || strings.Contains(got, "denied") {
		t.Errorf("the model is told %q", got)
	}
}

// A call that came to its end while the run was being cancelled is not in doubt:
// its effect is there, and so is what it said of it.
func TestAResultInTheMomentOfTheEndIsKept(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	order := tool.New("note", "Notes.", func(context.Context, struct{}) (string, error) {
		calls++
		cancel()
		return "order 17 is placed", nil
	})
	f.script(scripted.Call("note", nil))
	res, err := Run(ctx, f.host, f.contract(withTools(order)), nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", res, err)
	}
	if open, err := f.store.OpenAttempts(context.Background(), res.RunID); err != nil || len(open) != 0 {
		t.Errorf("open attempts: %+v, %v", open, err)
	}
	if n := len(f.steps(res.RunID)); n != 0 {
		t.Errorf("%d steps were committed behind the cancellation", n)
	}
	m := f.script(scripted.Call("note", nil), scripted.Say("done"))
	end, err := f.resume(res.RunID, Resumption{Defaults: task.Contract{Tools: tool.Toolbox{order}}})
	if err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	if calls != 1 {
		t.Errorf("called %d times", calls)
	}
	contains(t, "what the model is told", lastUser(m), "order 17 is placed")
}
