package store

import (
	"context"
	"encoding/json"

	"github.com/initorigin/io-harness-go/trace"
)

// WriteIntent is one change of a file, recorded before it is made, so that a
// step that dies after its change and before its commit can be replayed without
// making the change a second time. It is also the record of the edit.
type WriteIntent struct {
	Step      int
	CallIndex int // of the call within its completion, from 0
	Ordinal   int // of the change within its call, from 0
	Tool      string
	Path      string // relative to the root, with slashes
	Added     int    // lines
	Removed   int    // lines
	Hunk      string // unified diff of the whole file, without its header; empty when it was not kept
	After     string // digest of the file after the change; empty when there is none
	Known     bool   // the run knows every byte of the file after the change
	Facts     json.RawMessage
}

var (
	// putWrite has a change that an undo took back stand again: its step died before
	// the undo, and is made again.
	putWrite = statement{"put write intent", `INSERT INTO edits
		(run_id, step, tool, path, lines_added, lines_removed, hunk, call_index, ordinal, digest, known, facts, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (run_id, step, call_index, ordinal) WHERE call_index IS NOT NULL DO UPDATE SET
			tool = excluded.tool, path = excluded.path, lines_added = excluded.lines_added, lines_removed = excluded.lines_removed,
			hunk = excluded.hunk, digest = excluded.digest, known = excluded.known, facts = excluded.facts, at = excluded.at,
			reverted_by = NULL`}
	dropWrite   = statement{"drop write intent", `DELETE FROM edits WHERE run_id = ? AND step = ? AND call_index = ? AND ordinal = ?`}
	writesAfter = statement{"writes after", `SELECT step, call_index, ordinal, tool, path, lines_added, lines_removed, coalesce(hunk, ''),
		coalesce(digest, ''), known, facts FROM edits WHERE run_id = ? AND step > ? AND call_index IS NOT NULL ORDER BY id`}
)

// PutWriteIntent makes a change durable before the file is touched, together
// with the restore point when it is the run's first change of the path. When it
// fails, the write must not happen.
func (s *Store) PutWriteIntent(ctx context.Context, d *Drive, p *RestorePoint, w WriteIntent) error {
	if err := identifier("put write intent", "path", w.Path); err != nil {
		return err
	}
	if p != nil {
		kept, err := p.checked()
		if err != nil {
			return err
		}
		p = &kept
	}
	return d.writeAhead(ctx, "put write intent", func(t *txn) error {
		if p != nil {
			if _, err := t.exec(insertSnapshot, d.RunID, p.Path, p.Step, string(p.State), p.Before, p.Mode, null(p.Reason), t.now); err != nil {
				return err
			}
		}
		_, err := t.exec(putWrite, d.RunID, w.Step, cleanText(w.Tool), w.Path, w.Added, w.Removed, null(w.Hunk),
			w.CallIndex, w.Ordinal, null(w.After), boolInt(w.Known), rawJSON(w.Facts), t.now)
		return err
	})
}

// DropWriteIntent takes back a change that was announced and did not happen.
func (s *Store) DropWriteIntent(ctx context.Context, d *Drive, step, call, ordinal int) error {
	return d.writeAhead(ctx, "drop write intent", func(t *txn) error {
		_, err := t.exec(dropWrite, d.RunID, step, call, ordinal)
		return err
	})
}

// WriteIntents lists the announced changes of one run, in the order made.
func (s *Store) WriteIntents(ctx context.Context, run trace.RunID) (ws []WriteIntent, err error) {
	err = s.read(ctx, "read write intents", func(q *query) (err error) {
		ws, err = list(q, writesAfter, []any{run, -1}, scanWriteIntent)
		return err
	})
	return ws, err
}

func scanWriteIntent(r scanner) (w WriteIntent, err error) {
	var facts []byte
	err = r.Scan(&w.Step, &w.CallIndex, &w.Ordinal, &w.Tool, &w.Path, &w.Added, &w.Removed, &w.Hunk, &w.After, &w.Known, &facts)
	w.Facts = facts
	return w, err
}
