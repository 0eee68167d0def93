package store

import (
	"context"
	"fmt"

	"github.com/initorigin/io-harness-go/trace"
)

var (
	forkRun = statement{"fork run", `INSERT INTO runs (root_run_id, goal, file, mode, provider, turn_kind, status, started_at, last_step, forked_run_id, forked_step)
		SELECT 0, goal, file, mode, provider, CASE WHEN turn_kind IS NULL THEN NULL ELSE 'run' END, 'running', ?1, ?2, id, ?2 FROM runs WHERE id = ?3 RETURNING id`}
	// The copied steps draw nothing: they were paid for by the run they come from.
	forkSteps = statement{"fork steps", `INSERT INTO steps (run_id, step, decision, result, prompt, prompt_change, prompt_from, tool_call, tokens, changed, first_seq, next_seq, at)
		SELECT ?1, step, decision, result, prompt, prompt_change, prompt_from, tool_call, 0, changed, first_seq, next_seq, at FROM steps WHERE run_id = ?2 AND step <= ?3`}
	forkTurns = statement{"fork turns", `INSERT INTO step_turns (run_id, step, text, calls, carry)
		SELECT ?1, step, text, calls, carry FROM step_turns WHERE run_id = ?2 AND step <= ?3`}
	forkLedger = statement{"fork ledger", `INSERT INTO ledger_observations (run_id, seq, step, kind, target, call_id, text, range_start, range_len, digest, origin)
		SELECT ?1, seq, step, kind, target, call_id, text, range_start, range_len, digest, origin FROM ledger_observations WHERE run_id = ?2 AND seq < ?3`}
	forkSummaries = statement{"fork summaries", `INSERT INTO summaries (run_id, step, through_step, folded, text, before_tokens, after_tokens, tokens, at)
		SELECT ?1, step, through_step, folded, text, before_tokens, after_tokens, 0, at FROM summaries WHERE run_id = ?2 AND folded <= ?3 AND through_step <= ?4 ORDER BY id`}
	forkPlans = statement{"fork plans", `INSERT INTO plans (run_id, step, call_id, steps, verdict, correction, decided_by, proposed_at, decided_at, delivered_seq)
		SELECT ?1, step, call_id, steps, verdict, correction, decided_by, proposed_at, decided_at, delivered_seq FROM plans
		WHERE run_id = ?2 AND step <= ?3 AND decided_at IS NOT NULL AND delivered_seq < ?4 ORDER BY id`}
	forkDrive = statement{"fork drive", `INSERT INTO drives (run_id, owner, generation, provider, policy, contract, start_step, started_at, ended_at)
		SELECT ?1, 'fork of run ' || run_id, 0, provider, policy, contract, 1, ?2, ?2 FROM drives WHERE run_id = ?3 AND start_step <= ?4 + 1 ORDER BY id DESC LIMIT 1`}
	// ledgerUntil is where the ledger stood when a step had committed, whatever
	// was added to that step later.
	ledgerUntil = statement{"ledger until", `SELECT next_seq FROM steps WHERE run_id = ? AND step = ?`}
	ledgerSeed  = statement{"ledger seed", `SELECT count(*) FROM ledger_observations WHERE run_id = ?1 AND step = 0
		AND seq < coalesce((SELECT min(seq) FROM ledger_observations WHERE run_id = ?1 AND step > 0), 9223372036854775807)`}
)

// ForkRun makes a new run that stands where another stood after one of its
// committed steps, or, for step 0, before its first: with its goal, its policy,
// its ledger, its turns, its folds and its decided plans up to there. The new
// run belongs to no session and no tree, starts its own clock, has drawn no
// tokens, and waits to be entered. The files of the workspace are not touched,
// and nothing of the run it comes from changes: it may even be driven meanwhile.
func (s *Store) ForkRun(ctx context.Context, run trace.RunID, step int) (trace.RunID, error) {
	var id int64
	err := s.write(ctx, "fork run", func(t *txn) error {
		info, err := withWords(&t.query, "fork run", run)
		if err != nil {
			return err
		}
		if step < 0 || step > info.LastStep {
			return invalid("fork run", "run %d has the steps 1 to %d, and not step %d", run, info.LastStep, step)
		}
		var cut int64
		if step > 0 {
			err = t.row(ledgerUntil, []any{run, step}, &cut)
		} else {
			err = t.row(ledgerSeed, []any{run}, &cut)
		}
		if err != nil {
			return err
		}
		if id, err = t.insert(forkRun, t.now, step, run); err != nil {
			return err
		}
		for _, c := range []struct {
			st   statement
			args []any
		}{
			{setRoot, []any{id}},
			{forkSteps, []any{id, run, step}},
			{forkTurns, []any{id, run, step}},
			{forkLedger, []any{id, run, cut}},
			{forkSummaries, []any{id, run, cut, step}},
			{forkPlans, []any{id, run, step, cut}},
			{forkDrive, []any{id, t.now, run, step}},
		} {
			if _, err := t.exec(c.st, c.args...); err != nil {
				return err
			}
		}
		return nil
	})
	return trace.RunID(id), err
}

// withWords reads a run for what needs its words: one that is there and was not
// archived.
func withWords(q *query, op string, run trace.RunID) (RunInfo, error) {
	info, err := runInfo(q, run)
	switch {
	case noRows(err):
		return info, notFound("run", int64(run))
	case err == nil && info.Archived:
		return info, fmt.Errorf("store: %s: the words of run %d are gone: %w", op, run, ErrArchived)
	}
	return info, err
}
