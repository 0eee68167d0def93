package store

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/trace"
)

// The recalls of notes grow with every step of every run. Ranking and evicting ask
// the figures kept of them, and keeping those stays with the index, also when the
// planner knows how much there is.
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
	db, err := sql.Open("sqlite", testkit.DSN(s.Path()))
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
	// What the triggers ask for one recall that comes or goes.
	for _, ask := range []string{
		`SELECT 1 FROM memory_recalls r WHERE r.workspace = ? AND r.key = ? AND r.run_id = ? AND r.step <> ?`,
		`SELECT 1 FROM memory_recalls r WHERE r.workspace = ? AND r.key = ? AND r.run_id = ?`,
		`SELECT max(r.at) FROM memory_recalls r WHERE r.workspace = ? AND r.key = ?`,
	} {
		if plan := planOf(t, db, ask); !strings.HasPrefix(plan, "SEARCH r USING COVERING INDEX memory_recalls_entry (workspace=? AND key=?") {
			t.Errorf("%s: %s", ask, plan)
		}
	}
	// What ranks and evicts asks the figures alone.
	for _, st := range []statement{memoryDraws, evictable, undrawnMemory, countDrawn} {
		plan := planOf(t, db, st.sql)
		if strings.Contains(plan, "memory_recalls") || strings.Contains(plan, "SCAN ") || !strings.Contains(plan, "USING PRIMARY KEY (workspace=?") {
			t.Errorf("%s: %s", st.name, plan)
		}
	}
	if plan := planOf(t, db, keepMemory.sql); !strings.Contains(plan, "memory_snapshots_order (run_id=?)") {
		t.Errorf("%s: %s", keepMemory.name, plan)
	}
	if plan := planOf(t, db, readKept.sql); strings.Contains(plan, "TEMP B-TREE") {
		t.Errorf("%s: %s", readKept.name, plan)
	}
	// The same eye must see a question that no index answers.
	if plan := planOf(t, db, `SELECT count(DISTINCT run_id) FROM memory_recalls WHERE at = ?`); strings.Contains(plan, "memory_recalls_entry") || !strings.HasPrefix(plan, "SCAN ") {
		t.Errorf("the control is planned as %q", plan)
	}
}
