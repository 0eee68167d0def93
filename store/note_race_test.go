package store

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Two handles on one file are what two processes are.
func TestNotesOfTwoWritersStayWithinTheirCap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	const entries, writes = 5, 40
	limits := MemoryLimits{Entries: entries, Chars: math.MaxInt64}
	var wg sync.WaitGroup
	for w := range 2 {
		s := openAt(t, path)
		d := start(t, s, RunStart{})
		wg.Go(func() {
			for i := range writes {
				key := "shared"
				if i%2 == 0 {
					key = fmt.Sprintf("k%d-%d", w, i)
				}
				if _, err := s.Remember(t.Context(), d, MemoryEntry{Workspace: ws, Key: key, Value: fmt.Sprintf("v%d", i), Step: i + 1}, limits); err != nil {
					t.Error(err)
				}
				if es, err := s.MemoryList(t.Context(), ws); err != nil || len(es) > entries {
					t.Errorf("%d notes under a cap of %d, %v", len(es), entries, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestWhereEverythingIsPinnedAWriteLands(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	for i := range 3 {
		if err := s.MemoryPut(t.Context(), MemoryEntry{Workspace: ws, Key: fmt.Sprintf("k%d", i), Value: "v", Pinned: true}); err != nil {
			t.Fatal(err)
		}
	}
	r := remembers(t, s, d, "new", "v", MemoryLimits{Entries: 1, Chars: math.MaxInt64})
	if len(r.Evicted) != 0 || r.Refused || len(keys(t, s)) != 4 {
		t.Errorf("%+v, %v", r, keys(t, s))
	}
}

func TestAValueOfTenMegabytesIsCutLikeAnyOther(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	remembers(t, s, d, "k", strings.Repeat("é", 5<<20), MemoryLimits{})
	e, err := s.MemoryGet(t.Context(), ws, "k")
	if err != nil || len([]rune(e.Value)) != MemoryMaxEntryChars || !strings.HasSuffix(e.Value, "…[truncated]") {
		t.Errorf("%d characters, %v", len([]rune(e.Value)), err)
	}
}
