package store

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/trace"
)

// The evidence for notes grows with every step of every run. Asking for it must
// stay with the index when there is much of it, and the planner knows how much.
func TestTheEvidenceForNotesIsFoundByItsIndexAmongManyRows(t *testing.T) {
	s := newFile(t)
	const keys, rows = 50, 10_000
	for k := range keys {
		if err := s.MemoryPut(t.Context(), MemoryEntry{Workspace: "/work", Key: fmt.Sprintf("k%d", k), Value: "v"}); err != nil {
			t.Fatal(err)
		}
	}
	d := start(t, s, RunStart{})
	for i := range rows {
		d.Record(MemoryRecall{Step: i/keys + 1, Workspace: "/work", Key: fmt.Sprintf("k%d", i%keys)})
	}
	if err := s.FinishRun(t.Context(), d, Finish{Outcome: trace.Outcome{Kind: trace.Finished}}); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var n int
	if err := db.QueryRow(`SELECT count(*) FROM memory_recalls`).Scan(&n); err != nil || n != rows {
		t.Fatalf("%d rows, %v", n, err)
	}
	if _, err := db.Exec(`ANALYZE`); err != nil {
		t.Fatal(err)
	}
	for _, st := range []statement{memoryDraws, evictable} {
		for line := range strings.Lines(planOf(t, db, st.sql)) {
			if strings.Contains(line, "memory_recalls") || strings.Contains(line, " r ") {
				if !strings.Contains(line, "memory_recalls_entry") {
					t.Errorf("%s: %s", st.name, line)
				}
			}
		}
		if plan := planOf(t, db, st.sql); !strings.Contains(plan, "memory_recalls_entry") {
			t.Errorf("%s: %s", st.name, plan)
		}
	}
	// The same eye must see a question that no index answers.
	if plan := planOf(t, db, `SELECT count(DISTINCT run_id) FROM memory_recalls WHERE at = ?`); strings.Contains(plan, "memory_recalls_entry") || !strings.HasPrefix(plan, "SCAN ") {
		t.Errorf("the control is planned as %q", plan)
	}
}
