package store

import (
	"context"
	"encoding/json"
	"fmt"
)

// CheckReport says what is wrong with a store. The zero value is a sound one.
type CheckReport struct {
	Problems []string         // one line each, bounded to a hundred
	Dropped  map[string]int64 // evidence that could not be written over the life of the store, by table
}

// Sound reports whether nothing is wrong. Dropped evidence is a hole in the
// trace and not a fault of the file.
func (r CheckReport) Sound() bool { return len(r.Problems) == 0 }

const maxProblems = 100

// invariants are queries that find nothing in a sound store; each yields one
// line for every breach.
func invariants() []statement {
	return []statement{
		{"last step", `SELECT 'run ' || r.id || ': last_step is ' || r.last_step || ' and its newest step is ' || coalesce(max(s.step), 0)
			FROM runs r LEFT JOIN steps s ON s.run_id = r.id GROUP BY r.id HAVING r.last_step <> coalesce(max(s.step), 0)`},
		{"step gaps", `SELECT 'run ' || run_id || ': has ' || count(*) || ' steps up to ' || max(step)
			FROM steps GROUP BY run_id HAVING count(*) <> max(step) OR min(step) <> 1`},
		{"prompt changes", `SELECT 'run ' || s.run_id || ': the prompt of step ' || s.step || ' builds on that of step ' || s.prompt_from
			FROM steps s LEFT JOIN steps w ON w.run_id = s.run_id AND w.step = s.prompt_from
			WHERE s.prompt_change IS NOT NULL AND (w.step IS NULL OR w.prompt_from IS NOT NULL OR w.step >= s.step)`},
		{"spent tokens", `SELECT 'run ' || r.id || ': spent_tokens is ' || r.spent_tokens || ' and its steps drew ' || coalesce(sum(s.tokens), 0)
			FROM runs r LEFT JOIN steps s ON s.run_id = r.id
			WHERE (r.turn_kind IS NULL OR r.turn_kind <> 'reply' OR r.last_step > 0)
			GROUP BY r.id HAVING r.spent_tokens <> coalesce(sum(s.tokens), 0)`},
		{"reply spend", `SELECT 'run ' || r.id || ': spent_tokens is ' || r.spent_tokens || ' and its completions used ' || coalesce(sum(c.total_tokens), 0)
			FROM runs r LEFT JOIN provider_calls c ON c.run_id = r.id
			WHERE r.turn_kind = 'reply' AND r.last_step = 0 AND r.outcome IS NOT NULL AND r.archived_at IS NULL
			GROUP BY r.id HAVING r.spent_tokens <> coalesce(sum(c.total_tokens), 0)`},
		{"ledger gaps", `SELECT 'run ' || run_id || ': has ' || count(*) || ' observations up to place ' || max(seq)
			FROM ledger_observations GROUP BY run_id HAVING count(*) <> max(seq) + 1 OR min(seq) <> 0`},
		{"summary of unfinished", `SELECT 'run ' || r.id || ': has a summary and the status ' || r.status
			FROM run_outcomes o JOIN runs r ON r.id = o.run_id WHERE r.status <> 'completed'`},
		{"no summary", `SELECT 'run ' || r.id || ': is completed and has no summary'
			FROM runs r LEFT JOIN run_outcomes o ON o.run_id = r.id WHERE r.status = 'completed' AND o.run_id IS NULL`},
		{"lease of child", `SELECT 'run ' || l.run_id || ': holds a lease and is no root'
			FROM run_leases l JOIN runs r ON r.id = l.run_id WHERE r.root_run_id <> r.id`},
		{"root", `SELECT 'run ' || r.id || ': its root is ' || r.root_run_id || ' and its parent is of tree ' || p.root_run_id
			FROM runs r JOIN runs p ON p.id = r.parent_run_id WHERE p.root_run_id <> r.root_run_id`},
		{"fold", `SELECT 'run ' || s.run_id || ': summary ' || s.id || ' folds ' || s.folded || ' entries'
			FROM summaries s WHERE s.folded > (SELECT coalesce(max(seq) + 1, 0) FROM ledger_observations o WHERE o.run_id = s.run_id)`},
		{"head", `SELECT 'session ' || s.id || ': its head is turn ' || t.id || ' of session ' || t.session_id
			FROM sessions s JOIN session_turns t ON t.id = s.head_turn_id WHERE t.session_id <> s.id`},
		{"note evidence", `WITH counted AS (SELECT workspace, key, count(DISTINCT run_id) AS runs, max(at) AS last_at FROM memory_recalls GROUP BY workspace, key)
			SELECT 'note ' || key || ' of ' || workspace || ': ' || max(kept) || ' runs drew on it by its evidence and ' || max(found) || ' by its recalls'
			FROM (SELECT workspace, key, runs AS kept, 0 AS found, last_at FROM memory_evidence
				UNION ALL SELECT workspace, key, 0, runs, last_at FROM counted)
			GROUP BY workspace, key HAVING count(*) <> 2 OR max(kept) <> max(found) OR min(last_at) <> max(last_at)`},
	}
}

var (
	quickCheck      = statement{"quick check", `SELECT quick_check FROM pragma_quick_check WHERE quick_check <> 'ok'`}
	foreignKeyCheck = statement{"foreign key check", `SELECT 'table ' || "table" || ': row ' || coalesce(rowid, '?') || ' names a missing row of ' || parent FROM pragma_foreign_key_check`}
	droppedRows     = statement{"dropped rows", `SELECT dropped FROM drives WHERE dropped IS NOT NULL`}
)

// Check looks for damage of the file and for rows that contradict each other.
// It reads the whole file once and changes nothing.
func (s *Store) Check(ctx context.Context) (CheckReport, error) {
	var rep CheckReport
	err := s.snapshot(ctx, "check", func(q *query) error {
		for _, st := range append([]statement{quickCheck, foreignKeyCheck}, invariants()...) {
			err := q.each(st, nil, func(r scanner) error {
				var line string
				if err := r.Scan(&line); err != nil {
					return err
				}
				if len(rep.Problems) < maxProblems {
					rep.Problems = append(rep.Problems, st.name+": "+line)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return q.each(droppedRows, nil, func(r scanner) error {
			var raw []byte
			if err := r.Scan(&raw); err != nil {
				return err
			}
			var one map[string]int64
			if err := json.Unmarshal(raw, &one); err != nil {
				rep.Problems = append(rep.Problems, fmt.Sprintf("dropped rows: %v", err))
				return nil
			}
			for table, n := range one {
				if rep.Dropped == nil {
					rep.Dropped = map[string]int64{}
				}
				rep.Dropped[table] = satAdd(rep.Dropped[table], n)
			}
			return nil
		})
	})
	return rep, err
}
