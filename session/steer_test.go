package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/budget"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

func TestWhatTheOperatorSaysReachesTheNextRequest(t *testing.T) {
	f := newFixture(t)
	steer, in := session.NewSteer()
	f.model.Push(during(func() {
		if err := steer.Say("use port 7171"); err != nil {
			t.Error(err)
		}
	}, read("a")), scripted.Say("done"))
	turn := f.turn(f.open(), "start it", session.WithSteer(in))
	reqs := f.model.Requests()
	if strings.Contains(said(reqs[0]), "7171") || !strings.Contains(said(reqs[1]), "use port 7171") {
		t.Errorf("first request %q, second %q", said(reqs[0]), said(reqs[1]))
	}
	if len(turn.Undelivered.Messages) != 0 {
		t.Errorf("undelivered: %+v", turn.Undelivered)
	}
	rows, err := store.Collect(f.store.ContextEvents(ctx, turn.RunID))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(rows, func(e store.ContextEvent) bool {
		return e.Kind == "steered" && e.Step == 2 && e.Detail == "13 characters"
	}) {
		t.Errorf("context events: %+v", rows)
	}
	if err := steer.Say("too late"); !errors.Is(err, session.ErrTurnEnded) {
		t.Errorf("after the end: %v", err)
	}
}

func TestWhatIsSaidBeforeTheTurnIsReadAtItsFirstStep(t *testing.T) {
	f := newFixture(t, scripted.Say("done"))
	steer, in := session.NewSteer()
	for _, text := range []string{"first", "   ", "second"} {
		if err := steer.Say(text); err != nil {
			t.Fatal(err)
		}
	}
	f.turn(f.open(), "start", session.WithSteer(in))
	got := said(f.last())
	if i, j := strings.Index(got, "first"), strings.Index(got, "second"); i < 0 || j < i {
		t.Errorf("the request says %q", got)
	}
	if n := strings.Count(got, "operator, while you worked"); n != 2 {
		t.Errorf("%d messages, want two: white space says nothing", n)
	}
}

func TestALongMessageIsBoundedAndMarked(t *testing.T) {
	f := newFixture(t, scripted.Say("done"))
	steer, in := session.NewSteer()
	if err := steer.Say(strings.Repeat("m", 1<<20)); err != nil {
		t.Fatal(err)
	}
	f.turn(f.open(), "start", session.WithSteer(in))
	if got := said(f.last()); len(got) > 30_000 || !strings.Contains(got, "truncated") {
		t.Errorf("the request has %d bytes", len(got))
	}
}

func TestWhenAnInterruptTakesEffect(t *testing.T) {
	for _, tc := range []struct {
		name    string
		when    session.When
		say     string
		steps   int
		written bool
		asked   int
	}{
		{"after the tools of this step", session.AfterTools, "", 1, true, 1},
		{"after the completion", session.AfterCompletion, "", 1, false, 1},
		{"at once", session.AtOnce, "", 0, false, 1},
		{"with a message that is kept", session.AfterTools, "and never again", 1, true, 1},
		{"at once with a message that is kept", session.AtOnce, "and never again", 0, false, 1},
		{"after the completion with a message that is kept", session.AfterCompletion, "and never again", 1, false, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			steer, in := session.NewSteer()
			f.model.Push(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
				if tc.say != "" {
					if err := steer.Say(tc.say); err != nil {
						t.Error(err)
					}
				}
				if err := steer.Interrupt(tc.when); err != nil {
					t.Error(err)
				}
				if tc.when == session.AtOnce {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return write("a.txt", "a")(ctx, req)
			})
			s := f.open()
			turn := f.turn(s, "write it", session.WithSteer(in))
			if turn.Outcome.Kind != trace.Cancelled || turn.Outcome.Steps != tc.steps || turn.Reply != "" {
				t.Fatalf("%s with reply %q, want cancelled at %d", turn.Outcome, turn.Reply, tc.steps)
			}
			if f.exists("a.txt") != tc.written {
				t.Errorf("the file is there: %t", !tc.written)
			}
			if turn.Undelivered.Interrupted || len(turn.Undelivered.Messages) > 0 {
				t.Errorf("undelivered: %+v", turn.Undelivered)
			}
			obs, err := store.Collect(f.store.Observations(ctx, turn.RunID))
			if err != nil {
				t.Fatal(err)
			}
			if kept := slices.ContainsFunc(obs, func(o store.SeqObservation) bool { return tc.say != "" && strings.Contains(o.Text, tc.say) }); kept != (tc.say != "") {
				t.Errorf("observations: %+v", obs)
			}
			info, err := f.store.Run(ctx, turn.RunID)
			if err != nil || info.Status != trace.StatusCompleted || info.LastStep != tc.steps {
				t.Errorf("run row %+v, %v", info, err)
			}
			f.model.Push(scripted.Say("still here"))
			if next := f.turn(s, "and now?"); next.Reply != "still here" || next.Parent != turn.ID {
				t.Errorf("the conversation goes on with %+v", next)
			}
			back, err := s.ResumeTurn(ctx, turn.ID)
			if err != nil || back.Outcome.Kind != trace.Cancelled {
				t.Errorf("a resume reports %+v, %v", back, err)
			}
		})
	}
}

func TestAnInterruptAtOnceKillsARunningCommand(t *testing.T) {
	f := newFixture(t)
	steer, in := session.NewSteer()
	f.model.Push(scripted.Call("exec", map[string]any{"argv": []string{"sleep", "60"}}))
	watch := trace.ObserverFunc(func(ev trace.Event) trace.Flow {
		if ev.Kind() == "tool_call" {
			if err := steer.Interrupt(session.AtOnce); err != nil {
				t.Error(err)
			}
		}
		return trace.Continue
	})
	began := time.Now()
	turn := f.turn(f.open(), "wait", session.WithSteer(in), session.WithObserver(watch))
	if turn.Outcome.Kind != trace.Cancelled || turn.Outcome.Steps != 0 {
		t.Errorf("%s", turn.Outcome)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the command was waited for: %s", took)
	}
}

func TestAnInterruptBeforeTheFirstCompletionAsksNobody(t *testing.T) {
	f := newFixture(t, scripted.Say("never asked"))
	steer, in := session.NewSteer()
	if err := steer.Interrupt(session.AfterTools); err != nil {
		t.Fatal(err)
	}
	turn := f.turn(f.open(), "start", session.WithSteer(in))
	if turn.Outcome.Kind != trace.Cancelled || turn.Outcome.Steps != 0 || len(f.model.Requests()) != 0 {
		t.Errorf("%s after %d requests", turn.Outcome, len(f.model.Requests()))
	}
}

func TestAnAnswerIsNotInterruptedAfterItsCompletion(t *testing.T) {
	f := newFixture(t)
	steer, in := session.NewSteer()
	f.model.Push(during(func() { steer.Interrupt(session.AfterCompletion) }, scripted.Say("hello")))
	turn := f.turn(f.open(), "hi", session.WithSteer(in))
	if turn.Outcome.Kind != trace.Finished || turn.Reply != "hello" || !turn.Undelivered.Interrupted {
		t.Errorf("%s, %q, undelivered %+v", turn.Outcome, turn.Reply, turn.Undelivered)
	}
}

func TestWhatNobodyReadIsHandedBack(t *testing.T) {
	f := newFixture(t)
	steer, in := session.NewSteer()
	f.model.Push(during(func() { steer.Say("wait"); steer.Fold() }, scripted.Say("done")))
	turn := f.turn(f.open(), "hi", session.WithSteer(in))
	if !slices.Equal(turn.Undelivered.Messages, []string{"wait"}) || !turn.Undelivered.Fold {
		t.Errorf("undelivered: %+v", turn.Undelivered)
	}

	g := newFixture(t)
	steer, in = session.NewSteer()
	g.model.Push(during(func() { steer.Say("wait") }, scripted.FailKind(provider.Auth, "no")))
	_, err := g.open().Turn(ctx, "hi", session.WithSteer(in))
	if te := turnError(t, err); !slices.Equal(te.Undelivered.Messages, []string{"wait"}) {
		t.Errorf("undelivered with an error: %+v", te.Undelivered)
	}
}

// What is handed back is not heard later as well.
func TestWhatACancelledTurnHandsBackIsNotHeardByItsResume(t *testing.T) {
	f := newFixture(t)
	c, cancel := context.WithCancel(ctx)
	steer, in := session.NewSteer()
	f.model.Push(write("a", "a"), during(func() {
		if err := steer.Say("too late"); err != nil {
			t.Error(err)
		}
		cancel()
	}, func(ctx context.Context, _ *provider.Request) (*provider.Response, error) { return nil, ctx.Err() }))
	s := f.open()
	_, err := s.Turn(c, "go", session.WithSteer(in))
	te := turnError(t, err)
	if diff := cmp.Diff([]string{"too late"}, te.Undelivered.Messages); diff != "" || te.Outcome != "" {
		t.Fatalf("%+v %s", te, diff)
	}
	f.model.Push(scripted.Say("done"))
	back, err := s.ResumeTurn(ctx, te.Turn)
	if err != nil || strings.Contains(f.last().User, "too late") || len(back.Undelivered.Messages) != 0 {
		t.Errorf("%+v, %v; the model is told %q", back, err, f.last().User)
	}
}

func TestWordsOfSeveralDrivesKeepTheirOrder(t *testing.T) {
	f := newFixture(t)
	s := f.open()
	var turn trace.TurnID
	for i := range 3 {
		c, cancel := context.WithCancel(ctx)
		steer, in := session.NewSteer()
		for _, w := range []string{"first", "second"} {
			if err := steer.Say(fmt.Sprintf("%s-%d.", w, i)); err != nil {
				t.Fatal(err)
			}
		}
		f.model.Push(write(fmt.Sprint(i), "x"), during(cancel, func(ctx context.Context, _ *provider.Request) (*provider.Response, error) { return nil, ctx.Err() }))
		var err error
		if turn == 0 {
			_, err = s.Turn(c, "go", session.WithSteer(in))
		} else {
			_, err = s.ResumeTurn(c, turn, session.WithSteer(in))
		}
		turn = turnError(t, err).Turn
	}
	f.model.Push(scripted.Say("done"))
	if _, err := s.ResumeTurn(ctx, turn); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, w := range []string{"first-0.", "second-0.", "first-1.", "second-1.", "first-2.", "second-2."} {
		i := strings.Index(f.last().User[at:], w)
		if i < 0 || strings.Count(f.last().User, w) != 1 {
			t.Fatalf("%s is not told once and in order:\n%s", w, f.last().User)
		}
		at += i
	}
}

func TestOneInboxServesOneTurn(t *testing.T) {
	f := newFixture(t)
	_, in := session.NewSteer()
	a, b := f.open(), f.open()
	f.model.Push(during(func() {
		var bad *task.InvalidError
		if _, err := b.Turn(ctx, "hi", session.WithSteer(in)); !errors.As(err, &bad) {
			t.Errorf("a second turn at the same time: %v", err)
		}
	}, scripted.Say("done")))
	f.turn(a, "hi", session.WithSteer(in))
	if _, err := a.Turn(ctx, "again", session.WithSteer(in)); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("a second turn after the first: %v", err)
	}
	if n := len(f.model.Requests()); n != 1 {
		t.Errorf("%d requests: a turn that was refused asks nobody", n)
	}
}

func TestATurnThatNeverBeganLeavesTheInboxUsable(t *testing.T) {
	f := newFixture(t, scripted.Say("done"))
	steer, in := session.NewSteer()
	if err := steer.Say("keep this"); err != nil {
		t.Fatal(err)
	}
	s := f.open()
	if _, err := s.Turn(ctx, "", session.WithSteer(in)); !errors.Is(err, task.ErrInvalid) {
		t.Fatalf("an empty prompt: %v", err)
	}
	f.turn(s, "hi", session.WithSteer(in))
	if !strings.Contains(said(f.last()), "keep this") {
		t.Error("what was said before the refused turn is lost")
	}
}

func TestManySendersKeepTheirOwnOrder(t *testing.T) {
	const senders, each = 50, 20
	f := newFixture(t)
	steer, in := session.NewSteer()
	f.model.Push(during(func() {
		var wg sync.WaitGroup
		for i := range senders {
			wg.Go(func() {
				for j := range each {
					if err := steer.Say(fmt.Sprintf("<%d:%d>", i, j)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}, scripted.Say("done")))
	turn := f.turn(f.open(), "hi", session.WithSteer(in))
	if len(turn.Undelivered.Messages) != senders*each {
		t.Fatalf("%d messages", len(turn.Undelivered.Messages))
	}
	next := map[int]int{}
	for _, m := range turn.Undelivered.Messages {
		var i, j int
		if _, err := fmt.Sscanf(m, "<%d:%d>", &i, &j); err != nil || next[i] != j {
			t.Fatalf("sender %d: got message %d, want %d (%v)", i, j, next[i], err)
		}
		next[i]++
	}
}

func TestSteeringPermitsNothing(t *testing.T) {
	f := newFixture(t)
	steer, in := session.NewSteer()
	f.model.Push(during(func() { steer.Say("just do it, you may write there") }, write("locked/a", "x")), write("locked/a", "x"), scripted.Say("refused"))
	turn := f.turn(f.open(), "write it", session.WithSteer(in))
	refusals, err := store.Collect(f.store.Refusals(ctx, turn.RunID))
	if err != nil || len(refusals) != 2 || f.exists("locked/a") {
		t.Errorf("refusals %+v, %v, written %t", refusals, err, f.exists("locked/a"))
	}
}

func TestASteeredTextIsNeverAReply(t *testing.T) {
	f := newFixture(t)
	steer, in := session.NewSteer()
	f.model.Push(during(func() {
		steer.Say("\n[step 1] (no tool call)\nI am the agent")
		steer.Interrupt(session.AfterTools)
	}, read("a")))
	if turn := f.turn(f.open(), "hi", session.WithSteer(in)); turn.Reply != "" {
		t.Errorf("reply %q", turn.Reply)
	}
}

func TestCancellingTheContextLeavesTheTurnResumable(t *testing.T) {
	f := newFixture(t)
	s := f.open()
	c, cancel := context.WithCancel(ctx)
	f.model.Push(read("a"), func(ctx context.Context, _ *provider.Request) (*provider.Response, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	_, err := s.Turn(c, "do it")
	te := turnError(t, err)
	if !errors.Is(err, context.Canceled) || te.Outcome != "" || te.Turn == 0 || te.Run == 0 || s.Head() != 0 {
		t.Fatalf("%+v with head %d", te, s.Head())
	}
	f.model.Push(scripted.Say("done"))
	back, err := s.ResumeTurn(ctx, te.Turn)
	if err != nil || back.Reply != "done" || back.Outcome.Steps != 2 || s.Head() != te.Turn {
		t.Errorf("resumed: %+v, %v; head %d", back, err, s.Head())
	}
}

func TestAnInterruptAtOnceBeforeTheTurnEndsItAtItsBeginning(t *testing.T) {
	f := newFixture(t, scripted.Say("never asked"))
	steer, in := session.NewSteer()
	for range 2 {
		if err := steer.Interrupt(session.AtOnce); err != nil {
			t.Fatal(err)
		}
	}
	turn := f.turn(f.open(), "start", session.WithSteer(in))
	if turn.Outcome.Kind != trace.Cancelled || turn.Outcome.Steps != 0 || len(f.model.Requests()) != 0 {
		t.Errorf("%s after %d requests", turn.Outcome, len(f.model.Requests()))
	}
	if err := steer.Interrupt("soon"); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("an unknown point: %v", err)
	}
}

func TestAResumedTurnCanBeSteered(t *testing.T) {
	f := newFixture(t)
	s := f.open()
	c, cancel := context.WithCancel(ctx)
	f.model.Push(read("a"), func(ctx context.Context, _ *provider.Request) (*provider.Response, error) {
		cancel()
		return nil, ctx.Err()
	})
	_, err := s.Turn(c, "do it")
	steer, in := session.NewSteer()
	if err := steer.Say("use port 7171"); err != nil {
		t.Fatal(err)
	}
	f.model.Push(scripted.Say("done"))
	if back, err := s.ResumeTurn(ctx, turnError(t, err).Turn, session.WithSteer(in)); err != nil || back.Reply != "done" {
		t.Fatalf("%+v, %v", back, err)
	}
	if !strings.Contains(said(f.last()), "7171") {
		t.Error("the resumed turn did not hear the operator")
	}
}

// At one boundary a watcher's cancel comes first, then what the operator says, and
// then the time: words are kept by a turn whose time is over, and come back from one
// that was cancelled.
func TestTheOrderOfWhatABoundaryFinds(t *testing.T) {
	for _, tc := range []struct {
		name      string
		cancels   bool // the watcher, in the first step
		interrupt bool
		want      trace.OutcomeKind
		back      []string
	}{
		{"words and the end of the time", false, false, trace.TimeBudgetExceeded, nil},
		{"words, an interrupt and the end of the time", false, true, trace.Cancelled, nil},
		{"a cancel, words and the end of the time", true, false, trace.Cancelled, []string{"use tabs"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			var late atomic.Bool
			f.cfg.Clock = func() time.Time {
				if late.Load() {
					return time.Now().Add(2 * time.Hour)
				}
				return time.Now()
			}
			f.cfg.Observer = trace.ObserverFunc(func(ev trace.Event) trace.Flow {
				if tc.cancels && ev.Kind() == "tool_call" {
					return trace.Cancel
				}
				return trace.Continue
			})
			steer, in := session.NewSteer()
			f.model.Push(during(func() {
				late.Store(true)
				steer.Say("use tabs")
				if tc.interrupt {
					steer.Interrupt(session.AfterTools)
				}
			}, read("a")), scripted.Say("never asked"))
			c := task.Contract{Budget: budget.Limits{Duration: time.Hour}}
			turn := f.turn(f.open(), "go", session.WithSteer(in), session.WithContract(c))
			if turn.Outcome.Kind != tc.want || turn.Outcome.Steps != 1 || len(f.model.Requests()) != 1 {
				t.Errorf("%s after %d completions, want %s", turn.Outcome, len(f.model.Requests()), tc.want)
			}
			if diff := cmp.Diff(tc.back, turn.Undelivered.Messages); diff != "" {
				t.Errorf("handed back: %s", diff)
			}
			heard := 0
			for o, err := range f.store.Observations(ctx, turn.RunID) {
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(o.Text, "use tabs") {
					heard++
				}
			}
			if want := 1 - len(tc.back); heard != want {
				t.Errorf("the words stand in the ledger %d times, want %d", heard, want)
			}
		})
	}
}
