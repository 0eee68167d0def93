package store

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// SessionInfo is a conversation in a list. Archived says that an archive emptied it
// once: turns that were taken since then have their words, until the next archive.
type SessionInfo struct {
	ID        trace.SessionID
	Root      string
	CreatedAt time.Time
	Head      trace.TurnID      // zero before the first turn
	Turns     int               // branches included
	Outcome   trace.OutcomeKind // of the head; empty while it runs, and before the first turn
	Archived  bool
}

var (
	readSessions = statement{"read sessions", `SELECT s.id, s.root, s.created_at, coalesce(s.head_turn_id, 0),
		(SELECT count(*) FROM session_turns t WHERE t.session_id = s.id), coalesce(h.outcome, ''), s.archived_at IS NOT NULL
		FROM sessions s LEFT JOIN session_turns h ON h.id = s.head_turn_id WHERE s.id < ? ORDER BY s.id DESC LIMIT ?`}
	// grantsOf walks from a run up to its root, and only then looks for approvals:
	// the order of a CROSS JOIN stands.
	grantsOf = statement{"grants", `WITH RECURSIVE up (id, parent) AS (
			SELECT id, parent_run_id FROM runs WHERE id = ?
			UNION ALL SELECT r.id, r.parent_run_id FROM up JOIN runs r ON r.id = up.parent)
		SELECT p.remember FROM up CROSS JOIN pending_approvals p ON p.run_id = up.id
		WHERE p.resolved = 'approve' AND p.remember IS NOT NULL ORDER BY p.id`}
)

// Sessions yields the conversations, the newest first.
func (s *Store) Sessions(ctx context.Context) iter.Seq2[SessionInfo, error] {
	return func(yield func(SessionInfo, error) bool) {
		before := int64(1) << 62
		for {
			var page []SessionInfo
			err := s.read(ctx, "read sessions", func(q *query) (err error) {
				page, err = list(q, readSessions, []any{before, pageSize}, func(r scanner) (i SessionInfo, err error) {
					var at int64
					err = r.Scan(&i.ID, &i.Root, &at, &i.Head, &i.Turns, &i.Outcome, &i.Archived)
					i.CreatedAt = timeOf(at)
					return i, err
				})
				return err
			})
			if err != nil {
				yield(SessionInfo{}, err)
				return
			}
			for _, i := range page {
				if !yield(i, nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
			before = int64(page[len(page)-1].ID)
		}
	}
}

// Grants lists the rules that approvers of a run, and of the runs above it,
// asked to keep, each as the JSON that it was given with, the oldest first.
func (s *Store) Grants(ctx context.Context, run trace.RunID) (rules []json.RawMessage, err error) {
	err = s.read(ctx, "grants", func(q *query) (err error) {
		rules, err = list(q, grantsOf, []any{run}, func(r scanner) (json.RawMessage, error) {
			var raw []byte
			err := r.Scan(&raw)
			return raw, err
		})
		return err
	})
	return rules, err
}
