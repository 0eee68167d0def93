package store

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/initorigin/io-harness-go/trace"
)

// figures are what a store keeps about the notes that runs drew on.
type figures struct{ runs, lastAt int64 }

// counted reads the figures that a store keeps, and counts them again.
func counted(t rapid.TB, s *Store) (kept, recount map[string]figures) {
	read := func(text string) map[string]figures {
		out := map[string]figures{}
		err := s.read(context.Background(), "count", func(q *query) error {
			return q.each(statement{"count", text}, nil, func(r scanner) error {
				var scope, key string
				var f figures
				err := r.Scan(&scope, &key, &f.runs, &f.lastAt)
				out[scope+" "+key] = f
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	return read(`SELECT workspace, key, runs, last_at FROM memory_evidence`),
		read(`SELECT workspace, key, count(DISTINCT run_id), max(at) FROM memory_recalls GROUP BY workspace, key`)
}

// Whatever adds recalls and whatever takes them away, what is kept about them is
// what a count would find, and what ranks and evicts is told so.
func TestTheEvidenceKeptIsWhatACountOfTheRecallsFinds(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		clock := newClock()
		s, err := Memory(ctx, WithClock(clock.Now))
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		must := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		key := func() string { return rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "key") }
		scope := func() string { return rapid.SampledFrom([]string{ws, GlobalMemoryWorkspace}).Draw(rt, "scope") }
		var drives []*Drive // that go on
		var runs []trace.RunID
		var sessions []trace.SessionID
		some := func() *Drive {
			if len(drives) == 0 {
				rt.Skip()
			}
			return rapid.SampledFrom(drives).Draw(rt, "drive")
		}
		end := func(d *Drive) {
			must(s.FinishRun(ctx, d, Finish{Outcome: trace.Outcome{Kind: trace.Finished}}))
			for i := range drives {
				if drives[i] == d {
					drives = append(drives[:i:i], drives[i+1:]...)
					break
				}
			}
		}
		endAll := func() {
			for len(drives) > 0 {
				end(drives[len(drives)-1])
			}
		}
		anyRun := func() trace.RunID {
			if len(runs) == 0 {
				rt.Skip()
			}
			return rapid.SampledFrom(runs).Draw(rt, "run")
		}
		rt.Repeat(map[string]func(*rapid.T){
			"a run starts": func(*rapid.T) {
				r := RunStart{Goal: "g", Root: ws, Provider: "p", Mode: ModeTree}
				if rapid.Bool().Draw(rt, "of a session") {
					id, err := s.CreateSession(ctx, ws)
					must(err)
					sessions = append(sessions, id)
					r.Turn = &TurnStart{Session: id, Prompt: "p"}
				}
				d, err := s.StartRun(ctx, r)
				must(err)
				drives, runs = append(drives, d), append(runs, d.RunID)
			},
			"a run draws on notes": func(*rapid.T) {
				d := some()
				// Mostly time passes; a clock may be set back.
				clock.Advance(time.Duration(rapid.IntRange(-3, 10).Draw(rt, "ms")) * time.Millisecond)
				for range rapid.IntRange(1, 6).Draw(rt, "recalls") {
					d.Record(MemoryRecall{Step: rapid.IntRange(1, 3).Draw(rt, "step"), Workspace: scope(), Key: key()})
				}
				must(d.Flush(ctx))
			},
			"a run writes": func(*rapid.T) {
				d := some()
				_, err := s.Remember(ctx, d, MemoryEntry{Workspace: scope(), Key: key(), Value: "v", Step: 1}, MemoryLimits{Entries: 2})
				must(err)
			},
			"a run forgets": func(*rapid.T) {
				d := some()
				_, err := s.Forget(ctx, d, 1, scope(), key())
				must(err)
			},
			"a run ends": func(*rapid.T) { end(some()) },
			"an operator writes": func(*rapid.T) {
				must(s.MemoryPut(ctx, MemoryEntry{Workspace: scope(), Key: key(), Value: "o", Pinned: rapid.Bool().Draw(rt, "pinned")}))
			},
			"an operator deletes": func(*rapid.T) {
				_, err := s.MemoryDelete(ctx, scope(), key())
				must(err)
			},
			"an operator clears": func(*rapid.T) {
				_, err := s.MemoryClear(ctx, scope())
				must(err)
			},
			"a run is undone": func(*rapid.T) {
				id := anyRun()
				endAll()
				r, err := s.BeginRewind(ctx, id, 0)
				if err != nil {
					return // it was deleted
				}
				_, err = r.Memory(ctx)
				must(err)
				must(r.Done(ctx, true))
			},
			"a run is deleted": func(*rapid.T) {
				id := anyRun()
				endAll()
				_, _ = s.DeleteRun(ctx, id) // that of a session is refused
			},
			"a session is deleted": func(*rapid.T) {
				if len(sessions) == 0 {
					rt.Skip()
				}
				endAll()
				_, err := s.DeleteSession(ctx, rapid.SampledFrom(sessions).Draw(rt, "session"))
				must(err)
			},
			"what is old is swept": func(*rapid.T) {
				endAll()
				cut := clock.Now().Add(time.Duration(rapid.IntRange(-60, 5).Draw(rt, "before")) * time.Millisecond)
				_, err := s.SweepRuns(ctx, cut)
				must(err)
				_, err = s.SweepSessions(ctx, cut)
				must(err)
			},
			"recalls are lost one by one": func(*rapid.T) {
				must(s.write(ctx, "lose", func(t *txn) error {
					_, err := t.exec(statement{"lose", `DELETE FROM memory_recalls WHERE workspace = ? AND key = ? AND step = ?`},
						scope(), key(), rapid.IntRange(1, 3).Draw(rt, "step"))
					return err
				}))
			},
			"": func(rt *rapid.T) {
				kept, recount := counted(rt, s)
				if diff := cmp.Diff(recount, kept, cmp.AllowUnexported(figures{})); diff != "" {
					rt.Fatalf("kept (-count +kept):\n%s", diff)
				}
				for _, w := range []string{ws, GlobalMemoryWorkspace} {
					draws, err := s.MemoryDraws(ctx, w)
					if err != nil {
						rt.Fatal(err)
					}
					for full, f := range recount {
						if k, ok := strings.CutPrefix(full, w+" "); ok && draws[k] != int(f.runs) {
							rt.Fatalf("%s was drawn on by %d runs, and %d are told", full, f.runs, draws[k])
						}
					}
				}
			},
		})
		endAll()
		rep, err := s.Check(ctx)
		if err != nil || !rep.Sound() {
			rt.Fatalf("Check: %q, %v", rep.Problems, err)
		}
	})
}

// The latest use of a note is that of the recall with the latest time, whichever
// came last or goes first.
func TestTheLatestUseOfANoteFollowsItsRecalls(t *testing.T) {
	ctx := context.Background()
	clock := newClock()
	s := newFile(t, WithClock(clock.Now))
	begun := clock.Now().UnixMilli()
	draw := func(d *Drive, step int, after time.Duration) {
		clock.Advance(after)
		d.Record(MemoryRecall{Step: step, Workspace: ws, Key: "k"})
		if err := d.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, want figures) {
		t.Helper()
		kept, recount := counted(t, s)
		if got := kept[ws+" k"]; got != want || got != recount[ws+" k"] {
			t.Errorf("%s: %+v are kept and %+v counted, want %+v", what, got, recount[ws+" k"], want)
		}
	}
	one, two := start(t, s, RunStart{}), start(t, s, RunStart{})
	draw(one, 1, time.Second)
	expect("the first", figures{1, begun + 1000})
	draw(one, 2, time.Second)
	expect("a second of the same run", figures{1, begun + 2000})
	draw(two, 1, time.Second)
	expect("another run", figures{2, begun + 3000})
	draw(two, 2, -2500*time.Millisecond)
	expect("the clock was set back", figures{2, begun + 3000})
	finish(t, s, one, trace.Finished, 0)
	finish(t, s, two, trace.Finished, 0)
	if _, err := s.DeleteRun(ctx, two.RunID); err != nil {
		t.Fatal(err)
	}
	expect("the later run is gone", figures{1, begun + 2000})
	if _, err := s.DeleteRun(ctx, one.RunID); err != nil {
		t.Fatal(err)
	}
	if kept, _ := counted(t, s); len(kept) != 0 {
		t.Errorf("nothing drew on it, and %+v is kept", kept)
	}
}

// An eviction that takes many entries looks them up in portions, and they go in
// the order in which they would have gone one by one.
func TestALargeEvictionGoesInTheOrderOfTheEvidence(t *testing.T) {
	s := newFile(t, WithSynchronous(SyncNormal))
	const n = 3*evictedAtOnce + 5
	d := start(t, s, RunStart{})
	for i := range n {
		remembers(t, s, d, fmt.Sprintf("k%02d", i), "v", MemoryLimits{Entries: math.MaxInt64})
	}
	// The notes of odd numbers were drawn on, the higher by more runs.
	for run := range n / 10 {
		r := start(t, s, RunStart{})
		for i := run*10 + 1; i < n; i += 2 {
			r.Record(MemoryRecall{Step: 1, Workspace: ws, Key: fmt.Sprintf("k%02d", i)})
		}
		finish(t, s, r, trace.Finished, 0)
	}
	var want []string
	for i := 0; i < n; i += 2 {
		want = append(want, fmt.Sprintf("k%02d", i))
	}
	for i := 1; i < n; i += 2 {
		want = append(want, fmt.Sprintf("k%02d", i))
	}
	r := remembers(t, s, d, "new", "v", MemoryLimits{Entries: 3})
	if diff := cmp.Diff(want[:n-2], r.Evicted); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{want[n-2], want[n-1], "new"}, keys(t, s)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	sound(t, s)
}

// The recalls of a file that was written before the figures were kept are counted
// when it is opened.
func TestRecallsOfAnOlderFileAreCountedWhenItIsOpened(t *testing.T) {
	ctx := context.Background()
	path := t.TempDir() + "/runs.db"
	old := openAt(t, path, func(o *options) { o.migrations = migrations()[:2] })
	for run := range 3 {
		d := start(t, old, RunStart{})
		for step := range run + 2 {
			d.Record(MemoryRecall{Step: step + 1, Workspace: ws, Key: "a"}, MemoryRecall{Step: step + 1, Workspace: "/other", Key: itoa(run)})
		}
		finish(t, old, d, trace.Finished, 0)
	}
	s := openAt(t, path)
	draws, err := s.MemoryDraws(ctx, ws)
	if err != nil || !cmp.Equal(draws, map[string]int{"a": 3}) {
		t.Errorf("draws: %v, %v", draws, err)
	}
	draws, err = s.MemoryDraws(ctx, "/other")
	if err != nil || !cmp.Equal(draws, map[string]int{"0": 1, "1": 1, "2": 1}) {
		t.Errorf("draws: %v, %v", draws, err)
	}
	sound(t, s)
	// The older software has the file open and knows nothing of the figures.
	d := start(t, old, RunStart{})
	d.Record(MemoryRecall{Step: 1, Workspace: ws, Key: "a"}, MemoryRecall{Step: 2, Workspace: ws, Key: "a"})
	finish(t, old, d, trace.Finished, 0)
	if _, err := old.DeleteRun(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := old.DeleteRun(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if draws, err = s.MemoryDraws(ctx, ws); err != nil || !cmp.Equal(draws, map[string]int{"a": 2}) {
		t.Errorf("draws behind older software: %v, %v", draws, err)
	}
	sound(t, s)
}
