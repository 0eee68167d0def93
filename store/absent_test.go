package store

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// Whoever asks for something that is there, and cannot read it, is not told that it
// is not there.
func TestAReadThatFailsIsNoAbsence(t *testing.T) {
	ctx := context.Background()
	f := &failing{}
	s := newFile(t, f.option())
	sess := newSession(t, s)
	d := start(t, s, RunStart{Mode: ModeTree, Policy: []byte(`{}`), Contract: []byte(`{}`), Turn: &TurnStart{Session: sess, Prompt: "p"}})
	child(t, s, d, 1, 0, "kid")
	remembers(t, s, d, "k", "v", MemoryLimits{})
	commit(t, s, d, aStep(1))
	if err := s.PutRestorePoint(ctx, d, RestorePoint{Step: 1, Path: "a", State: KeptAbsent}); err != nil {
		t.Fatal(err)
	}
	turn, err := s.TurnForRun(ctx, d.RunID)
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() (found bool, err error){
		"Run":            func() (bool, error) { r, err := s.Run(ctx, d.RunID); return r.ID != 0, err },
		"Status":         func() (bool, error) { st, err := s.Status(ctx, d.RunID); return st != "", err },
		"Outcome":        func() (bool, error) { _, err := s.Outcome(ctx, d.RunID); return true, err },
		"LastRun":        func() (bool, error) { r, err := s.LastRun(ctx); return r != nil, err },
		"RunPolicy":      func() (bool, error) { p, err := s.RunPolicy(ctx, d.RunID); return p != nil, err },
		"RunContract":    func() (bool, error) { c, err := s.RunContract(ctx, d.RunID); return c != nil, err },
		"LeaseOf":        func() (bool, error) { l, err := s.LeaseOf(ctx, d.RunID); return l != nil, err },
		"SessionRoot":    func() (bool, error) { r, err := s.SessionRoot(ctx, sess); return r != "", err },
		"SessionHead":    func() (bool, error) { _, err := s.SessionHead(ctx, sess); return true, err },
		"SessionTurn":    func() (bool, error) { _, err := s.SessionTurn(ctx, turn.ID); return true, err },
		"TurnForRun":     func() (bool, error) { tn, err := s.TurnForRun(ctx, d.RunID); return tn != nil, err },
		"MemoryGet":      func() (bool, error) { e, err := s.MemoryGet(ctx, ws, "k"); return e != nil, err },
		"FindSpawn":      func() (bool, error) { sp, err := s.FindSpawn(ctx, d.RunID, 1, 0); return sp != nil, err },
		"RestorePointOf": func() (bool, error) { _, err := s.RestorePointOf(ctx, d.RunID, "a"); return true, err },
		"SessionSize":    func() (bool, error) { z, err := s.SessionSize(ctx, sess); return z != nil, err },
		"CheckResumable": func() (bool, error) { return true, s.CheckResumable(ctx, d.RunID) },
	} {
		t.Run(name, func(t *testing.T) {
			f.set("")
			if found, err := read(); err != nil || !found {
				t.Fatalf("it is there: %v, %v", found, err)
			}
			points := f.points()
			if len(points) == 0 {
				t.Fatal("nothing was read")
			}
			for _, p := range points {
				f.set(p)
				_, err := read()
				var re *ResumeError
				if err == nil || errors.Is(err, ErrNotFound) || errors.As(err, &re) {
					t.Errorf("with a failure at %q: %v", p, err)
				}
			}
			f.set("")
		})
	}
}

// A conversation that is swept while somebody starts a turn in it is either kept
// with the turn or gone before the turn began.
func TestASweepAndATurnThatMeetLeaveNoHalf(t *testing.T) {
	ctx := context.Background()
	s := newFile(t, WithSynchronous(SyncNormal))
	other := another(t, s, WithSynchronous(SyncNormal))
	kept, gone := 0, 0
	for i := range 40 {
		sess := newSession(t, s)
		cut := time.Now().Add(time.Hour)
		var d *Drive
		var swept Removed
		var serr, werr error
		var wg sync.WaitGroup
		meet := make(chan struct{})
		wg.Go(func() {
			<-meet
			d, serr = s.StartRun(ctx, RunStart{Goal: "g", Root: "/r", Turn: &TurnStart{Session: sess, Prompt: "p"}})
		})
		wg.Go(func() {
			<-meet
			if i%2 == 0 {
				time.Sleep(time.Duration(i) * 20 * time.Microsecond) // the start is often first otherwise, or never
			}
			swept, werr = other.SweepSessions(ctx, cut)
		})
		close(meet)
		wg.Wait()
		if werr != nil {
			t.Fatal(werr)
		}
		switch _, err := s.SessionRoot(ctx, sess); {
		case serr == nil && err == nil && swept.Sessions == 0:
			kept++
			commit(t, s, d, aStep(1))
			finish(t, s, d, trace.Finished, 1)
			if _, err := s.DeleteSession(ctx, sess); err != nil {
				t.Fatal(err)
			}
		case errors.Is(serr, ErrNotFound) && errors.Is(err, ErrNotFound) && swept.Sessions == 1:
			gone++
		default:
			t.Fatalf("the turn: %v; the session: %v; swept %+v", serr, err, swept)
		}
	}
	sound(t, s)
	t.Logf("%d turns came first and %d sweeps", kept, gone)
}

// Whatever a caller counts from outside, no page is endless and none is negative.
func TestLimitsOfNonsenseMeanTheDefault(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	for n := 1; n <= 3; n++ {
		commit(t, s, d, aStep(n))
		if err := s.PutEvents(ctx, trace.Event{RunID: d.RunID, Step: n, Fact: trace.StepCommitted{}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{0, -1, math.MinInt, math.MaxInt} {
		for name, read := range map[string]func() (int, error){
			"steps":          func() (int, error) { v, err := Collect(s.Steps(ctx, d.RunID, Limit(n))); return len(v), err },
			"turns":          func() (int, error) { v, err := Collect(s.StepTurns(ctx, d.RunID, Limit(n))); return len(v), err },
			"observations":   func() (int, error) { v, err := Collect(s.Observations(ctx, d.RunID, Limit(n))); return len(v), err },
			"events":         func() (int, error) { v, err := s.EventsSince(ctx, d.RunID, 0, n); return len(v), err },
			"events of tree": func() (int, error) { v, err := s.TreeEventsSince(ctx, d.RunID, 0, n); return len(v), err },
		} {
			if got, err := read(); err != nil || got != 3 {
				t.Errorf("%s with the limit %d: %d, %v", name, n, got, err)
			}
		}
	}
}
