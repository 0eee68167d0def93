package store

import (
	"context"

	"github.com/initorigin/io-harness-go/trace"
)

// sessionSummaries finds the turns by session_turns_session and the folds by
// summaries_run.
var sessionSummaries = statement{"session summaries", `SELECT s.run_id, s.id, s.step, s.through_step, s.folded, s.text, s.before_tokens, s.after_tokens, s.tokens, s.at
	FROM session_turns t JOIN summaries s ON s.run_id = t.run_id WHERE t.session_id = ? AND s.text IS NOT NULL ORDER BY s.id`}

type runSummary struct {
	run trace.RunID
	HistorySummary
}

// SessionSummaries lists the folds of all turns of a session by their runs, the
// oldest of each run first. Turns that never folded are left out.
func (s *Store) SessionSummaries(ctx context.Context, id trace.SessionID) (map[trace.RunID][]HistorySummary, error) {
	out := map[trace.RunID][]HistorySummary{}
	err := s.read(ctx, sessionSummaries.name, func(q *query) error {
		clear(out)
		rows, err := list(q, sessionSummaries, []any{id}, func(r scanner) (h runSummary, err error) {
			var at int64
			err = r.Scan(&h.run, &h.ID, &h.Step, &h.ThroughStep, &h.Folded, &h.Text, &h.Before, &h.After, &h.Tokens, &at)
			h.At = timeOf(at)
			return h, err
		})
		for _, r := range rows {
			out[r.run] = append(out[r.run], r.HistorySummary)
		}
		return err
	})
	return out, err
}
