package session_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/budget"
	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// A word that is taken up at the moment in which the turn's context ends is lost
// neither to the caller nor to the run.
func TestAWordThatIsTakenUpAsTheTurnIsCancelledIsHandedBack(t *testing.T) {
	f := newFixture(t, write("a", "a"), scripted.Say("never asked"))
	c, cancel := context.WithCancel(ctx)
	steer, in := session.NewSteer()
	watch := trace.ObserverFunc(func(ev trace.Event) trace.Flow {
		if ev.Kind() == "step" {
			if err := steer.Say("use port 7171"); err != nil {
				t.Error(err)
			}
			cancel()
		}
		return trace.Continue
	})
	s := f.open()
	_, err := s.Turn(c, "go", session.WithSteer(in), session.WithObserver(watch))
	te := turnError(t, err)
	if diff := cmp.Diff([]string{"use port 7171"}, te.Undelivered.Messages); diff != "" {
		t.Fatalf("undelivered (-want +got):\n%s", diff)
	}
	f.model.Push(scripted.Say("done"))
	if _, err := s.ResumeTurn(ctx, te.Turn); err != nil || strings.Contains(f.last().User, "7171") {
		t.Errorf("%v; the resume hears what was handed back: %q", err, f.last().User)
	}
}

// Whoever loses a turn to another process takes nothing of what that one is told.
func TestATurnThatIsLostTakesNoWordsOfItsSuccessor(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	b := f.reopen(a.ID())
	mine, in := session.NewSteer()
	inModel, goOn, lost := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	first := scripted.New(write("a", "a"), func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		if err := mine.Say("to the first"); err != nil {
			t.Error(err)
		}
		close(inModel)
		<-goOn
		return write("b", "b")(ctx, req)
	})
	go func() {
		_, err := a.Turn(ctx, "go", session.WithSteer(in), session.WithProvider(first))
		lost <- err
	}()
	<-inModel
	for { // until it is stored
		said, _, err := f.store.Unheard(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(said) == 1 {
			break
		}
	}
	f.lapse()
	theirs, to := session.NewSteer()
	f.model.Push(during(func() {
		if err := theirs.Say("to the second"); err != nil {
			t.Error(err)
		}
		for said := 0; said == 0; {
			rows, _, err := f.store.Unheard(ctx, 1)
			if err != nil {
				t.Error(err)
				return
			}
			said = len(rows)
		}
		close(goOn)
		te := turnError(t, <-lost)
		if n := len(te.Undelivered.Messages); n != 0 {
			t.Errorf("what the second heard was handed back: %q", te.Undelivered.Messages)
		}
	}, write("c", "c")), scripted.Say("done"))
	turn, err := b.ResumeTurn(ctx, 1, session.WithSteer(to))
	if err != nil {
		t.Fatal(err)
	}
	told := f.last().User
	for _, word := range []string{"to the first", "to the second"} {
		if n := strings.Count(told, word); n != 1 {
			t.Errorf("%q is told %d times:\n%s", word, n, told)
		}
	}
	if n := len(turn.Undelivered.Messages); n != 0 {
		t.Errorf("undelivered: %q", turn.Undelivered.Messages)
	}
}

// lapse makes every lease look as if its holder had been silent for its whole term.
func (f *fixture) lapse() {
	f.t.Helper()
	db, err := sql.Open("sqlite", testkit.DSN(f.path))
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`UPDATE run_leases SET renewed_at = 0`); err != nil {
		f.t.Fatal(err)
	}
}

// What is said together with an interrupt that no longer stops anything reaches
// nobody, whether the answer is the whole turn or the end of its work.
func TestWhatIsSaidWithAnInterruptOfAnAnswerIsHandedBack(t *testing.T) {
	for name, before := range map[string][]scripted.Turn{"the whole turn": nil, "the end of its work": {read("a")}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, before...)
			steer, in := session.NewSteer()
			f.model.Push(during(func() {
				if err := steer.Say("not like this"); err != nil {
					t.Error(err)
				}
				if err := steer.Interrupt(session.AfterCompletion); err != nil {
					t.Error(err)
				}
			}, scripted.Say("hello")))
			turn := f.turn(f.open(), "hi", session.WithSteer(in))
			if turn.Outcome.Kind != trace.Finished || turn.Reply != "hello" {
				t.Errorf("%s, %q", turn.Outcome, turn.Reply)
			}
			if !turn.Undelivered.Interrupted || !slices.Equal(turn.Undelivered.Messages, []string{"not like this"}) {
				t.Errorf("undelivered %+v", turn.Undelivered)
			}
		})
	}
}

// An answer that the gate has yet to judge ends nothing by itself, and is stopped.
func TestAnAnswerThatIsStillToBeJudgedIsInterrupted(t *testing.T) {
	f := newFixture(t, write("a", "a"))
	steer, in := session.NewSteer()
	f.model.Push(during(func() { steer.Interrupt(session.AfterCompletion) }, scripted.Say("hello")))
	c := task.Contract{Verify: verify.Contains("nothing.txt", "x")}
	turn := f.turn(f.open(), "hi", session.WithContract(c), session.WithSteer(in))
	if turn.Outcome.Kind != trace.Cancelled || turn.Undelivered.Interrupted {
		t.Errorf("%s, undelivered %+v", turn.Outcome, turn.Undelivered)
	}
}

// An interrupt that took effect ends the turn for good, whatever limit its last
// completion met as well: a ceiling could be raised, and the turn driven on.
func TestAnInterruptBeatsTheLimitThatItsCompletionMeets(t *testing.T) {
	f := newFixture(t)
	steer, in := session.NewSteer()
	f.model.Push(during(func() { steer.Interrupt(session.AfterCompletion) }, read("a").Using(provider.Usage{TotalTokens: 1000})))
	turn := f.turn(f.open(), "hi", session.WithSteer(in), session.WithContract(task.Contract{Budget: budget.Limits{Tokens: 900}}))
	if turn.Outcome.Kind != trace.Cancelled || turn.Undelivered.Interrupted {
		t.Errorf("%s, undelivered %+v", turn.Outcome, turn.Undelivered)
	}
}

// What the step in progress had written when the operator stopped the turn at once
// stays, is on record, and can be taken back.
func TestWhatAStoppedStepWroteCanBeTakenBack(t *testing.T) {
	f := newFixture(t, scripted.Calls(
		scripted.Tool("write_file", map[string]string{"path": "a.txt", "content": "a"}),
		scripted.Tool("exec", map[string]any{"argv": []string{"sleep", "60"}}),
	))
	steer, in := session.NewSteer()
	watch := trace.ObserverFunc(func(ev trace.Event) trace.Flow {
		if called, ok := ev.Fact.(trace.ToolCalled); ok && called.Name == "exec" {
			steer.Interrupt(session.AtOnce)
		}
		return trace.Continue
	})
	turn := f.turn(f.open(), "write it", session.WithSteer(in), session.WithObserver(watch))
	if turn.Outcome.Kind != trace.Cancelled || turn.Outcome.Steps != 0 || f.content("a.txt") != "a" {
		t.Fatalf("%s, a.txt %q", turn.Outcome, f.content("a.txt"))
	}
	if _, err := f.harness().Rewind(ctx, turn.RunID, harness.UndoRun()); err != nil || f.exists("a.txt") {
		t.Errorf("%v, a.txt is there: %t", err, f.exists("a.txt"))
	}
}

// What was said to a turn whose conversation is removed under it comes back.
func TestWhatWasSaidToATurnThatIsRemovedComesBack(t *testing.T) {
	f := newFixture(t)
	steer, in := session.NewSteer()
	s := f.open()
	f.model.Push(write("a", "a"), during(func() {
		if err := steer.Say("use port 7171"); err != nil {
			t.Error(err)
		}
		if _, err := f.store.DeleteSession(ctx, s.ID(), store.Force()); err != nil {
			t.Error(err)
		}
	}, write("b", "b")))
	_, err := s.Turn(ctx, "go", session.WithSteer(in))
	te := turnError(t, err)
	if !slices.Equal(te.Undelivered.Messages, []string{"use port 7171"}) || te.Run == 0 || !errors.Is(err, store.ErrConflict) {
		t.Errorf("%+v", te)
	}
}
