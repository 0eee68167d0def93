package store

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/initorigin/io-harness-go/trace"
)

// A standing note is one entry of a workspace with all that decides about how long
// it stays, read and counted in the plainest way.
type standing struct {
	id, createdAt, runs, lastAt int64
	key, value                  string
	pinned                      bool
}

func standingNotes(t rapid.TB, s *Store, workspace string) []standing {
	var all []standing
	err := s.read(context.Background(), "stand", func(q *query) (err error) {
		all, err = list(q, statement{"stand", `SELECT id, created_at, key, value, pinned,
				(SELECT count(DISTINCT run_id) FROM memory_recalls r WHERE r.workspace = m.workspace AND r.key = m.key),
				(SELECT coalesce(max(at), 0) FROM memory_recalls r WHERE r.workspace = m.workspace AND r.key = m.key)
			FROM memory m WHERE workspace = ?`}, []any{workspace}, func(r scanner) (n standing, err error) {
			return n, r.Scan(&n.id, &n.createdAt, &n.key, &n.value, &n.pinned, &n.runs, &n.lastAt)
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// goes says which of the notes a write drives out, in order.
func goes(notes []standing, key, value string, lim MemoryLimits) (gone []standing) {
	others := slices.DeleteFunc(slices.Clone(notes), func(n standing) bool { return n.key == key })
	slices.SortFunc(others, func(a, b standing) int {
		return cmp.Or(cmp.Compare(a.runs, b.runs), cmp.Compare(a.lastAt, b.lastAt), cmp.Compare(a.createdAt, b.createdAt), cmp.Compare(a.id, b.id))
	})
	entries, chars := int64(len(others)+1), int64(utf8.RuneCountInString(value))
	for _, n := range others {
		chars += int64(utf8.RuneCountInString(n.value))
	}
	for _, n := range others {
		if entries <= lim.Entries && chars <= lim.Chars {
			break
		}
		if !n.pinned {
			entries--
			chars -= int64(utf8.RuneCountInString(n.value))
			gone = append(gone, n)
		}
	}
	return gone
}

// Whatever two processes do to one file, a write drives out what a count of all
// recalls and a sort of all notes says, in that order, and nothing else.
func TestWhatIsEvictedIsWhatAPlainSortSays(t *testing.T) {
	ctx := context.Background()
	clock := newClock()
	path := filepath.Join(t.TempDir(), "runs.db")
	stores := []*Store{openAt(t, path, WithClock(clock.Now), WithSynchronous(SyncNormal)), openAt(t, path, WithClock(clock.Now), WithSynchronous(SyncNormal))}
	scopes := 0
	var undrawn, drawn, fewDrawn, mostDrawn int // evictions
	rapid.Check(t, func(rt *rapid.T) {
		must := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		scopes++
		scope := fmt.Sprintf("/work%d", scopes)
		type run struct {
			s *Store
			d *Drive
		}
		var runs []run
		defer func() {
			for _, r := range runs {
				_ = r.d.Release(ctx)
			}
		}()
		begin := func() run {
			s := rapid.SampledFrom(stores).Draw(rt, "process")
			d, err := s.StartRun(ctx, RunStart{Goal: "g", Root: scope, Provider: "p", Mode: ModeTree})
			must(err)
			runs = append(runs, run{s, d})
			return runs[len(runs)-1]
		}
		some := func() run {
			if len(runs) < 4 {
				return begin()
			}
			return rapid.SampledFrom(runs).Draw(rt, "run")
		}
		key := func() string { return fmt.Sprintf("k%d", rapid.IntRange(0, 11).Draw(rt, "key")) }
		rt.Repeat(map[string]func(*rapid.T){
			"a run writes": func(*rapid.T) {
				r, k := some(), key()
				value := rapid.SampledFrom([]string{"v", "é é", "alpha beta gamma", "alpha beta gamma delta", "42"}).Draw(rt, "value")
				lim := MemoryLimits{Entries: rapid.Int64Range(1, 9).Draw(rt, "entries"), Chars: rapid.Int64Range(1, 90).Draw(rt, "chars")}
				before := standingNotes(rt, r.s, scope)
				if slices.ContainsFunc(before, func(n standing) bool { return n.key == k && n.pinned }) {
					return
				}
				var want []string
				for _, n := range goes(before, k, value, lim) {
					want = append(want, n.key)
					if n.runs == 0 {
						undrawn++
					} else {
						drawn++
					}
				}
				var known int64
				must(r.s.read(ctx, "known", func(q *query) error { return q.row(countDrawn, []any{scope}, &known) }))
				got, err := r.s.Remember(ctx, r.d, MemoryEntry{Workspace: scope, Key: k, Value: value, Step: 1}, lim)
				must(err)
				if diff := gocmp.Diff(want, got.Evicted); diff != "" {
					rt.Fatalf("evicted (-want +got):\n%s\nof %+v", diff, before)
				}
				left := standingNotes(rt, stores[0], scope)
				for _, n := range left {
					if slices.Contains(want, n.key) {
						rt.Fatalf("%s was evicted and stands", n.key)
					}
				}
				switch {
				case len(want) == 0:
				case known*2 > int64(len(left)+len(want)):
					mostDrawn++
				default:
					fewDrawn++
				}
			},
			"a run draws on notes": func(*rapid.T) {
				r := some()
				clock.Advance(time.Duration(rapid.IntRange(-2, 3).Draw(rt, "ms")) * time.Millisecond)
				for range rapid.IntRange(1, 8).Draw(rt, "recalls") {
					r.d.Record(MemoryRecall{Step: rapid.IntRange(1, 3).Draw(rt, "step"), Workspace: scope, Key: key()})
				}
				must(r.d.Flush(ctx))
			},
			"a run forgets": func(*rapid.T) {
				r := some()
				_, err := r.s.Forget(ctx, r.d, 1, scope, key())
				must(err)
			},
			"an operator writes": func(*rapid.T) {
				must(stores[0].MemoryPut(ctx, MemoryEntry{Workspace: scope, Key: key(), Value: "alpha", Pinned: rapid.IntRange(0, 5).Draw(rt, "pinned") == 0}))
			},
			"a run is deleted": func(*rapid.T) {
				if len(runs) == 0 {
					return
				}
				r := runs[0]
				runs = runs[1:]
				must(r.s.FinishRun(ctx, r.d, Finish{Outcome: trace.Outcome{Kind: trace.Finished}}))
				_, err := r.s.DeleteRun(ctx, r.d.RunID)
				must(err)
			},
		})
	})
	if undrawn == 0 || drawn == 0 || fewDrawn == 0 || mostDrawn == 0 {
		t.Errorf("evicted: %d that nobody drew on and %d others; %d times where few were drawn on, and %d times where most were", undrawn, drawn, fewDrawn, mostDrawn)
	}
}
