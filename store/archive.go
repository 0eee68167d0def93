package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/trace"
)

// Archived tells what an archive emptied.
type Archived struct {
	Turns int64
	Rows  int64 // that lost words
	Bytes int64 // of words

	// Forks are the runs that were forked from those of the session, or from such
	// a fork. Each holds a copy of the words up to its step, which stays until
	// DeleteRun takes it.
	Forks []trace.RunID
}

var (
	archiveSession = statement{"mark session archived", `UPDATE sessions SET archived_at = coalesce(archived_at, ?2) WHERE id = ?1`}
	archiveRuns    = statement{"mark runs archived", `UPDATE runs SET archived_at = coalesce(archived_at, ?2) WHERE id IN (` + runsOfSessions(oneSession) + `)`}
	// archiveDrives ends the drives of a tree that its driver has lost, by which events
	// that it still tells are known: see insertEvent.
	archiveDrives = statement{"end drives of archived runs", `UPDATE drives SET ended_at = ?2 WHERE ended_at IS NULL AND run_id IN (SELECT id FROM runs WHERE root_run_id = ?1)`}
	archivePoints = statement{"archive restore points", `UPDATE snapshots SET state = 'archived' WHERE state = 'text' AND run_id IN (` + runsOfSessions(oneSession) + `)`}
	archiveNotes  = statement{"archive memory snapshots", `UPDATE memory_snapshots SET state = 'archived' WHERE state = 'text' AND run_id IN (` + runsOfSessions(oneSession) + `)`}
	countTurns    = statement{"count turns", `SELECT count(*) FROM session_turns WHERE session_id = ?`}
)

// wordColumns lists the words of a table.
func (t table) wordColumns() []column {
	var out []column
	for _, col := range t.columns {
		if col.class == word {
			out = append(out, col)
		}
	}
	return out
}

// archiveSQL makes the two statements that measure and empty the words of a
// table for one session; ok is false when the table has none.
func archiveSQL(t table) (measure, empty statement, ok bool) {
	words := t.wordColumns()
	if len(words) == 0 {
		return statement{}, statement{}, false
	}
	var sum, set, full []string
	for _, col := range words {
		empty, isFull := "NULL", col.name+" IS NOT NULL"
		if col.must {
			empty, isFull = "''", col.name+" <> ''"
		}
		size := "coalesce(octet_length(" + col.name + "), 0)"
		if col.when != "" {
			size = "iif(" + col.when + ", " + size + ", 0)"
			empty = "iif(" + col.when + ", " + empty + ", " + col.name + ")"
			isFull = "(" + col.when + ") AND " + isFull
		}
		sum, set, full = append(sum, size), append(set, col.name+" = "+empty), append(full, isFull)
	}
	where := fmt.Sprintf(t.of, runsOfSessions(oneSession)) + " AND (" + strings.Join(full, " OR ") + ")"
	if t.keep != "" {
		where += " AND NOT (" + t.keep + ")"
	}
	return statement{"measure words of " + t.name, fmt.Sprintf("SELECT count(*), coalesce(sum(%s), 0) FROM %s WHERE %s", strings.Join(sum, " + "), t.name, where)},
		statement{"empty words of " + t.name, fmt.Sprintf("UPDATE %s SET %s WHERE %s", t.name, strings.Join(set, ", "), where)}, true
}

// ArchiveSession empties the words of a session and of every run under it and
// keeps the rows, the figures and everything that decides how a run goes on: a
// run that can be resumed can still be, without its transcript. What people and
// models wrote, read and were told is gone; names of files, of notes and of hosts,
// commands that a policy judged, tools and models stay, and so does what Forks
// names. Restore points and hunks are gone, so
// that nothing of the session can be undone any more. Doing it twice empties
// nothing more; an unknown session gives zeros. A session of which somebody
// drives a run is a ConflictError, unless Force is given: the run can be resumed
// then, like one that was left behind.
//
// An error of kind KindWALNotTruncated says that the words are gone from the
// tables and may still be read in the write-ahead log until Compact.
func (s *Store) ArchiveSession(ctx context.Context, id trace.SessionID, opts ...RemoveOption) (Archived, error) {
	var out Archived
	err := s.write(ctx, "archive session", func(t *txn) error {
		out = Archived{}
		r := sessionRemoval("archive session", oneSession)
		lost, err := s.free(t, r, id, opts...)
		if err != nil {
			return err
		}
		for _, root := range lost {
			if _, err := t.exec(archiveDrives, root, t.now); err != nil {
				return err
			}
		}
		if err := t.row(countTurns, []any{id}, &out.Turns); err != nil {
			return err
		}
		of, err := r.choose(&t.query, id)
		if err != nil {
			return err
		}
		if out.Forks, err = of.forks(&t.query); err != nil {
			return err
		}
		// Before the words go, because the state says that there were some.
		for _, st := range []statement{archivePoints, archiveNotes} {
			if _, err := t.exec(st, id); err != nil {
				return err
			}
		}
		for _, tb := range runTables() {
			measure, empty, ok := archiveSQL(tb)
			if !ok {
				continue
			}
			var rows, bytes int64
			if err := t.row(measure, []any{id}, &rows, &bytes); err != nil {
				return err
			}
			if rows == 0 {
				continue
			}
			if _, err := t.exec(empty, id); err != nil {
				return err
			}
			out.Rows += rows
			out.Bytes += bytes
		}
		for _, st := range []statement{archiveSession, archiveRuns} {
			if _, err := t.exec(st, id, t.now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Archived{}, err
	}
	return out, s.scrub(ctx, "archive session")
}
