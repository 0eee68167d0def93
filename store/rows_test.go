package store

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/trace"
)

// A table whose rows hold text must not keep each row of a quarter of a page on pages
// of its own, as SQLite does with tables without row ids.
func TestTextTakesAboutItsOwnSizeInTheFile(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	const steps, perStep, size = 20, 10, 1200
	for n := 1; n <= steps; n++ {
		c := aStep(n)
		c.Observations = nil
		for range perStep {
			c.Observations = append(c.Observations, trace.Observation{Step: n, Kind: trace.ObsTool, CallID: "c", Text: strings.Repeat("o", size)})
		}
		commit(t, s, d, c)
	}
	release(t, d)
	const text = steps * perStep * size
	var taken int64
	queryRaw(t, s.Path(), `SELECT sum(pgsize) FROM dbstat WHERE name = 'ledger_observations'`, &taken)
	if taken < text || taken > 2*text {
		t.Errorf("%d bytes of text take %d bytes of the file", text, taken)
	}
}

// A deletion takes what refers to a row before the row itself; the foreign keys would
// do it otherwise, and at twice the cost.
func TestADeletionTakesTablesBeforeWhatTheyReferTo(t *testing.T) {
	s := newFile(t)
	db, err := sql.Open("sqlite", testkit.DSN(s.Path()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	gone := map[string]bool{}
	for _, st := range deleteChosen() {
		name := strings.TrimPrefix(st.name, "delete ")
		rows, err := db.Query(`SELECT m.name FROM sqlite_schema m JOIN pragma_foreign_key_list(m.name) f WHERE m.type = 'table' AND f."table" = ? AND m.name <> ?`, name, name)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var child string
			if err := rows.Scan(&child); err != nil {
				t.Fatal(err)
			}
			if !gone[child] && child != "sessions" {
				t.Errorf("%s goes before %s, which refers to it", name, child)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		gone[name] = true
	}
	if len(gone) != len(runTables()) || !gone["runs"] {
		t.Errorf("%d tables of %d are emptied", len(gone), len(runTables()))
	}
}
