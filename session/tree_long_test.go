package session_test

import (
	"database/sql"
	"testing"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

// A conversation of thousands of turns is walked once, and its next request is no
// larger than what the context has room for.
func TestALongConversationIsWalkedOnce(t *testing.T) {
	const turns = 5000
	f := newFixture(t, scripted.Say("R1"))
	s := f.open()
	f.turn(s, "P1")
	db, err := sql.Open("sqlite", testkit.DSN(f.path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	columns := func(table, skip string) (out string) {
		rows, err := db.Query(`SELECT name FROM pragma_table_info(?) WHERE name NOT IN ('id', 'run_id', 'parent_turn_id', ?)`, table, skip)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var c string
			if err := rows.Scan(&c); err != nil {
				t.Fatal(err)
			}
			out += ", " + c
		}
		return out
	}
	const n = `WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?) `
	run, row := columns("runs", "root_run_id"), columns("session_turns", "")
	for _, q := range []string{
		n + `INSERT INTO runs (id, root_run_id` + run + `) SELECT i, i` + run + ` FROM n, runs WHERE id = 1`,
		n + `INSERT INTO session_turns (id, run_id, parent_turn_id` + row + `) SELECT i, i, i - 1` + row + ` FROM n, session_turns WHERE id = 1`,
	} {
		if _, err := db.Exec(q, turns); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec(`UPDATE sessions SET head_turn_id = ?`, turns); err != nil {
		t.Fatal(err)
	}
	s = f.reopen(s.ID())
	h, err := s.History(ctx)
	if err != nil || len(h) != turns || h[0].ID != 1 || h[turns-1].ID != turns {
		t.Fatalf("%d turns, %v", len(h), err)
	}
	tr, err := s.Transcript(ctx)
	if err != nil || len(tr.Turns) != turns || !tr.Turns[0].OnPath {
		t.Fatalf("%d turns in the transcript, %v", len(tr.Turns), err)
	}
	f.model.Push(scripted.Say("next"))
	if next := f.turn(s, "and now?"); next.Parent != turns || len(f.last().User) > 150_000 {
		t.Errorf("%+v after a request of %d bytes", next, len(f.last().User))
	}
}
