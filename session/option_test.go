package session_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/budget"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// Every combination of what a turn may be given has its facts, whichever else it
// is given.
func TestOptionsAreOrthogonal(t *testing.T) {
	bound := task.Contract{Budget: budget.Limits{Steps: 2}, Constraints: []string{"BE-BRIEF"}}
	for i := range 1 << 4 {
		observed, steered, bounded, pictured := i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0
		t.Run(fmt.Sprintf("observed=%t steered=%t bounded=%t pictured=%t", observed, steered, bounded, pictured), func(t *testing.T) {
			f := newFixture(t, read("a"), read("b"), read("c"), scripted.Say("done"))
			var opts []session.Option
			if observed {
				opts = append(opts, session.WithObserver(f.seen))
			}
			if steered {
				steer, in := session.NewSteer()
				if err := steer.Say("USE-7171"); err != nil {
					t.Fatal(err)
				}
				opts = append(opts, session.WithSteer(in))
			}
			if bounded {
				opts = append(opts, session.WithContract(bound))
			}
			if pictured {
				opts = append(opts, session.WithImages(image(t, "one")))
			}
			turn := f.turn(f.open(), "go", opts...)
			first := f.model.Requests()[0]
			if got := f.seen.count("token") > 0; got != (observed && !bounded) { // only the answer has words
				t.Errorf("streamed: %t; events %v", got, f.seen.kinds())
			}
			if got := len(f.seen.kinds()) > 0; got != observed {
				t.Errorf("observed: %t", got)
			}
			if got := strings.Contains(first.User, "USE-7171"); got != steered {
				t.Errorf("steered: %t", got)
			}
			if got := strings.Contains(f.last().User, "BE-BRIEF"); got != bounded {
				t.Errorf("bounded: %t", got)
			}
			if got := turn.Outcome.Kind == trace.StepCapReached; got != bounded {
				t.Errorf("outcome %s", turn.Outcome)
			}
			if got := len(first.Media) == 1; got != pictured {
				t.Errorf("pictured: %t", got)
			}
			if slices.ContainsFunc(first.Tools, func(s provider.ToolSpec) bool { return s.Name == "spawn_agent" }) {
				t.Error("a turn that may not spawn is offered to")
			}
		})
	}
	if bound.Goal != "" || bound.Root != "" || len(bound.Images) != 0 {
		t.Errorf("the caller's contract changed: %+v", bound)
	}
}

func TestIdsThatNameNothing(t *testing.T) {
	f := newFixture(t)
	s := f.open()
	for _, id := range []int64{0, -1, math.MinInt64, math.MaxInt64} {
		if _, err := f.harness().Reopen(ctx, trace.SessionID(id)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("session %d: %v", id, err)
		}
		if _, err := s.ResumeTurn(ctx, trace.TurnID(id)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("turn %d: %v", id, err)
		}
		if err := s.Branch(ctx, trace.TurnID(id)); (err == nil) != (id == 0) { // zero is the beginning
			t.Errorf("branching from turn %d: %v", id, err)
		}
	}
	if h, err := s.History(ctx); err != nil || len(h) != 0 {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestAStoreThatIsOpenForReadingTakesNoTurn(t *testing.T) {
	f := newFixture(t, scripted.Say("hi"))
	s := f.open()
	f.turn(s, "P1")
	ro, err := store.Open(ctx, f.path, store.WithReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	f.cfg.Store = ro
	again := f.reopen(s.ID())
	var storage *store.Error
	if _, err := again.Turn(ctx, "P2"); !errors.As(err, &storage) || storage.Kind != store.KindReadOnly || len(f.model.Requests()) != 1 {
		t.Errorf("%v after %d requests", err, len(f.model.Requests()))
	}
	if tr, err := again.Transcript(ctx); err != nil || len(tr.Turns) != 1 {
		t.Errorf("%+v, %v", tr, err)
	}
}
