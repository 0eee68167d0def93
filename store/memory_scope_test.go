package store

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The notes of a workspace and those that are kept for every workspace are two
// lists: each has its own caps, its own pins and its own evidence.
func TestEachScopeHasItsOwnCaps(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	lim := MemoryLimits{Entries: 2, Chars: 20}
	put := func(workspace, key, value string) []string {
		t.Helper()
		r, err := s.Remember(ctx, d, MemoryEntry{Workspace: workspace, Key: key, Value: value, Step: 1}, lim)
		if err != nil {
			t.Fatal(err)
		}
		return r.Evicted
	}
	scopes := []string{ws, GlobalMemoryWorkspace, "/other"}
	for _, w := range scopes {
		for _, k := range []string{"a", "b"} {
			if gone := put(w, k, "0123456789"); gone != nil {
				t.Errorf("%s of %s evicts %v, and the list is not full", k, w, gone)
			}
		}
	}
	if gone := put(GlobalMemoryWorkspace, "c", "x"); !cmp.Equal(gone, []string{"a"}) {
		t.Errorf("evicted %v", gone)
	}
	want := map[string]string{ws: "a b", GlobalMemoryWorkspace: "b c", "/other": "a b"}
	for _, w := range scopes {
		es, err := s.MemoryList(ctx, w)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range es {
			got = append(got, e.Key)
		}
		if strings.Join(got, " ") != want[w] {
			t.Errorf("%s holds %v, want %s", w, got, want[w])
		}
	}
	d.Record(MemoryRecall{Step: 1, Workspace: GlobalMemoryWorkspace, Key: "b"})
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if draws, err := s.MemoryDraws(ctx, ws); err != nil || len(draws) != 0 {
		t.Errorf("a recall of the one list counts for the other: %v, %v", draws, err)
	}
}

func TestWhatIsEvictedAtSmallCaps(t *testing.T) {
	for _, tc := range []struct {
		name     string
		entries  int64
		pinned   bool // k1
		recalled int  // runs that drew on k1
		keys     []string
		evicted  []string // by the last
		left     []string
	}{
		{"the one that nobody drew on", 2, false, 3, []string{"k1", "k2", "k3"}, []string{"k2"}, []string{"k1", "k3"}},
		{"nothing that is pinned, and not what is written", 1, true, 0, []string{"k1", "k2"}, nil, []string{"k1", "k2"}},
		{"the pinned one counts", 2, true, 0, []string{"k1", "k2", "k3"}, []string{"k2"}, []string{"k1", "k3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFile(t)
			d := start(t, s, RunStart{})
			var r Remembered
			for i, k := range tc.keys {
				r = remembers(t, s, d, k, fmt.Sprintf("value %d", i), MemoryLimits{Entries: tc.entries})
				if i > 0 {
					continue
				}
				if _, err := s.MemoryPin(t.Context(), ws, k, tc.pinned); err != nil {
					t.Fatal(err)
				}
				for range tc.recalled {
					other := start(t, s, RunStart{})
					other.Record(MemoryRecall{Step: 1, Workspace: ws, Key: k})
					release(t, other)
				}
			}
			if diff := cmp.Diff(tc.evicted, r.Evicted); diff != "" {
				t.Errorf("evicted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.left, keys(t, s)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAValueOfThreeThousandCharactersKeepsWhatTheMarkLeaves(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	r := remembers(t, s, d, "k", strings.Repeat("x", 3000), MemoryLimits{})
	e, err := s.MemoryGet(t.Context(), ws, "k")
	if err != nil || r.Chars != 2000 || e.Value != strings.Repeat("x", 1988)+"…[truncated]" {
		t.Errorf("%d characters, %q, %v", r.Chars, e.Value[len(e.Value)-20:], err)
	}
}

// What counts is how many runs drew on a note, and not how often one did: the
// evidence of one long run is one.
func TestAHundredThousandRecallsOfOneRunAreOne(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 100,000 rows")
	}
	s := newFile(t)
	long := start(t, s, RunStart{})
	lim := MemoryLimits{Entries: math.MaxInt64}
	remembers(t, s, long, "often by one", "a", lim)
	remembers(t, s, long, "by two", "b", lim)
	raw(t, s.Path(), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
		INSERT INTO memory_recalls (run_id, ordinal, step, workspace, key, at) SELECT ?, i, i, ?, 'often by one', 9999999999999 FROM n`, int64(long.RunID), ws)
	for range 2 {
		d := start(t, s, RunStart{})
		d.Record(MemoryRecall{Step: 1, Workspace: ws, Key: "by two"})
		release(t, d)
	}
	draws, err := s.MemoryDraws(t.Context(), ws)
	if diff := cmp.Diff(map[string]int{"often by one": 1, "by two": 2}, draws); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if r := remembers(t, s, long, "new", "c", MemoryLimits{Entries: 2}); !cmp.Equal(r.Evicted, []string{"often by one"}) {
		t.Errorf("evicted %v", r.Evicted)
	}
}
