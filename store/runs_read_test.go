package store

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

// Whatever a filter asks for, the list is what looking at every run would give, the
// newest first, over the borders of pages, and also where the clock was set back.
func TestAFilterOfRunsLeavesOutNothingElse(t *testing.T) {
	ctx := context.Background()
	clock := newClock()
	s := newFile(t, WithClock(clock.Now), WithSynchronous(SyncNormal))
	began := clock.Now()
	rnd := rand.New(rand.NewPCG(3, 3))
	sessions := []trace.SessionID{newSession(t, s), newSession(t, s)}
	const n = 600
	inSession := map[trace.RunID]trace.SessionID{}
	heads := map[trace.SessionID]trace.TurnID{}
	var roots []*Drive
	for range n {
		clock.Advance(time.Duration(rnd.IntN(50)-10) * time.Second)
		if len(roots) > 0 && inSession[roots[len(roots)-1].RunID] == 0 && rnd.IntN(4) == 0 {
			finish(t, s, child(t, s, roots[len(roots)-1], 1+rnd.IntN(1<<20), 0, ""), trace.Finished, 0)
			continue
		}
		r := RunStart{Mode: ModeTree}
		if rnd.IntN(5) == 0 {
			sess := sessions[rnd.IntN(2)]
			r.Turn = &TurnStart{Session: sess, Parent: heads[sess], Prompt: "p"}
		}
		d := start(t, s, r)
		roots = append(roots, d)
		if r.Turn != nil {
			inSession[d.RunID] = r.Turn.Session
			finish(t, s, d, trace.Finished, 0)
			heads[r.Turn.Session] = d.TurnID
		}
	}
	for i, d := range roots {
		if !d.owns || inSession[d.RunID] != 0 {
			continue
		}
		switch i % 4 {
		case 0:
			finish(t, s, d, trace.Finished, 0)
		case 1:
			finish(t, s, d, trace.AwaitingAnswer, 0)
		case 2:
			finish(t, s, d, trace.Failed, 0)
		default:
			release(t, d)
		}
	}
	all, err := Collect(s.Runs(ctx, RunFilter{}))
	if err != nil || len(all) != n {
		t.Fatalf("%d runs, %v", len(all), err)
	}
	span := clock.Now().Sub(began)
	for range 300 {
		var f RunFilter
		if rnd.IntN(3) == 0 {
			f.Status = []trace.Status{trace.StatusRunning, trace.StatusPaused, trace.StatusCompleted, trace.StatusFailed}[rnd.IntN(4)]
		}
		if rnd.IntN(4) == 0 {
			f.Root = all[rnd.IntN(n)].RootID
		}
		if rnd.IntN(5) == 0 {
			f.Session = sessions[rnd.IntN(2)]
		}
		f.RootsOnly = rnd.IntN(3) == 0
		if rnd.IntN(3) == 0 {
			f.Since = began.Add(time.Duration(rnd.Int64N(int64(span))))
		}
		if rnd.IntN(3) == 0 {
			f.Until = began.Add(time.Duration(rnd.Int64N(int64(span))))
		}
		var want []trace.RunID
		for _, r := range all {
			if (f.Status == "" || r.Status == f.Status) && (f.Root == 0 || r.RootID == f.Root) && (f.Session == 0 || inSession[r.ID] == f.Session) &&
				(!f.RootsOnly || r.ParentID == 0) && (f.Since.IsZero() || !r.StartedAt.Before(f.Since.Truncate(time.Millisecond))) && (f.Until.IsZero() || r.StartedAt.Before(f.Until.Truncate(time.Millisecond))) {
				want = append(want, r.ID)
			}
		}
		var got []trace.RunID
		for r, err := range s.Runs(ctx, f) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%+v (-want +got):\n%s", f, diff)
		}
	}
}

// An id that no run has is absent, whatever it is, and never another's.
func TestIdsThatNobodyHasAreAbsent(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess, d := everything(t, s)
	release(t, d)
	for _, n := range []int64{0, -1, math.MinInt64, 1 << 40, math.MaxInt64} {
		run := trace.RunID(n)
		if _, err := s.Run(ctx, run); !errors.Is(err, ErrNotFound) {
			t.Errorf("Run(%d): %v", n, err)
		}
		if steps, err := Collect(s.Steps(ctx, run)); err != nil || len(steps) != 0 {
			t.Errorf("Steps(%d): %d, %v", n, len(steps), err)
		}
		if l, err := s.LeaseOf(ctx, run); l != nil || err != nil && !errors.Is(err, ErrNotFound) {
			t.Errorf("LeaseOf(%d): %+v, %v", n, l, err)
		}
		var re *ResumeError
		if _, _, err := s.EnterDrive(ctx, run, EnterOptions{}); !errors.As(err, &re) || re.Reason != NoSuchRun {
			t.Errorf("EnterDrive(%d): %v", n, err)
		}
		if _, err := s.ForkRun(ctx, run, 0); !errors.Is(err, ErrNotFound) {
			t.Errorf("ForkRun(%d): %v", n, err)
		}
		if evs, err := s.EventsSince(ctx, run, EventCursor(n), int(n)); err != nil || len(evs) != 0 {
			t.Errorf("EventsSince(%d): %d, %v", n, len(evs), err)
		}
		if size, err := s.SessionSize(ctx, trace.SessionID(n)); size != nil || err != nil {
			t.Errorf("SessionSize(%d): %+v, %v", n, size, err)
		}
		for name, call := range map[string]func() (Removed, error){
			"DeleteSession": func() (Removed, error) { return s.DeleteSession(ctx, trace.SessionID(n)) },
			"DeleteRun":     func() (Removed, error) { return s.DeleteRun(ctx, run) },
		} {
			if got, err := call(); err != nil || !cmp.Equal(got, Removed{}) {
				t.Errorf("%s(%d): %+v, %v", name, n, got, err)
			}
		}
	}
	if size, err := s.SessionSize(ctx, sess); err != nil || size == nil || size.Runs == 0 {
		t.Errorf("what is there: %+v, %v", size, err)
	}
	sound(t, s)
}

func TestAnotherPriceChangesThePastAndNothingElse(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	d.Record(ProviderCall{Step: 1, Provider: "p", Model: "m", Usage: usage(1_000_000, 0, 0, 0, 0)}, ProviderCall{Step: 1, Provider: "p", Model: "n", Usage: usage(5, 5, 0, 0, 0)})
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for price, want := range map[int64]int64{3_000_000: 3_000_000, 1_000_000: 1_000_000} {
		table := provider.PriceTable{AsOf: "2026-03-01"}.With("m", provider.Price{Input: price})
		var total, unpriced int64
		rows, err := s.Spend(ctx, ByModel, SpendFilter{}, table)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			total, unpriced = total+r.CostMicros, unpriced+r.Unpriced
		}
		if total != want || unpriced != 1 {
			t.Errorf("at %d: %d, %d unpriced", price, total, unpriced)
		}
	}
}
