package store

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// StepRow is one committed step.
type StepRow struct {
	Step     int
	DriveID  trace.DriveID // zero when the drive's row is gone
	Decision string
	Result   string
	Prompt   string
	ToolCall string
	Tokens   int64
	Changed  bool
	At       time.Time

	stored      storedPrompt
	joined      bool // whether Result is the observations of the step
	first, next int64
}

var (
	readSteps = statement{"read steps", `SELECT step, coalesce(drive_id, 0), decision, result, prompt, prompt_change, coalesce(prompt_from, 0),
		tool_call, tokens, changed, first_seq, next_seq, at FROM steps WHERE run_id = ? AND step > ? ORDER BY step LIMIT ?`}
	readTexts = statement{"read texts", `SELECT seq, step, coalesce(text, '') FROM ledger_observations
		WHERE run_id = ? AND seq >= ? AND seq < ? ORDER BY seq`}
	readStepAttempts = statement{"read step attempts", `SELECT id, step, kind, decision, result, coalesce(delay_ms, 0), at
		FROM step_attempts WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?`}
)

func scanStep(r scanner) (row StepRow, err error) {
	var result *string
	var at int64
	err = r.Scan(&row.Step, &row.DriveID, &row.Decision, &result, &row.stored.whole, &row.stored.change, &row.stored.from,
		&row.ToolCall, &row.Tokens, &row.Changed, &row.first, &row.next, &at)
	row.joined = result == nil
	if result != nil {
		row.Result = *result
	}
	row.At = timeOf(at)
	return row, err
}

// joinResults fills in the results that are the observations of their steps, all
// of a page with one statement: the ranges of steps do not overlap and follow each
// other. Observations of another step may lie within one.
func joinResults(run trace.RunID) func(*query, []StepRow) error {
	return func(q *query, rows []StepRow) error {
		var joined []*StepRow
		for i := range rows {
			if r := &rows[i]; r.joined && r.first < r.next {
				joined = append(joined, r)
			}
		}
		if len(joined) == 0 {
			return nil
		}
		texts := make([][]string, len(joined))
		at := 0
		err := q.each(readTexts, []any{run, joined[0].first, joined[len(joined)-1].next}, func(sc scanner) error {
			var seq int64
			var step int
			var text string
			if err := sc.Scan(&seq, &step, &text); err != nil {
				return err
			}
			for at < len(joined)-1 && seq >= joined[at].next {
				at++
			}
			if r := joined[at]; seq >= r.first && seq < r.next && step == r.Step {
				texts[at] = append(texts[at], text)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, r := range joined {
			r.Result = strings.Join(texts[i], "\n")
		}
		return nil
	}
}

// Steps yields the committed steps of a run. Retries are in StepAttempts.
func (s *Store) Steps(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[StepRow, error] {
	return paged(ctx, s, readSteps, 0, opts, []any{run}, scanStep, func(r StepRow) int64 { return int64(r.Step) }, func(q *query, rows []StepRow) error {
		if err := joinPrompts(q, run, rows); err != nil {
			return err
		}
		return joinResults(run)(q, rows)
	})
}

// StepAttempts yields the completions that did not become a step's result:
// retries, compactions after an overflow, and the failure that ended a run.
func (s *Store) StepAttempts(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[StepAttempt, error] {
	return evidenceOf(ctx, s, readStepAttempts, run, opts, func(r scanner) (a StepAttempt, err error) {
		var delay, at int64
		err = r.Scan(&a.ID, &a.Step, &a.Kind, &a.Decision, &a.Result, &delay, &at)
		a.Delay, a.At = time.Duration(delay)*time.Millisecond, timeOf(at)
		return a, err
	}, func(a StepAttempt) int64 { return a.ID })
}

// StepTurns yields what the model said and asked for on each committed step. A
// step without a turn has none recorded, or its words were archived. A turn
// that cannot be read is a ResumeError.
func (s *Store) StepTurns(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[trace.AssistantTurn, error] {
	return paged(ctx, s, readTurns, 0, opts, []any{run}, scanTurn(run), func(t trace.AssistantTurn) int64 { return int64(t.Step) }, nil)
}

// Observations yields a run's ledger in the order in which the model saw it. An
// entry of an unknown kind is a ResumeError, never left out.
func (s *Store) Observations(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[SeqObservation, error] {
	return paged(ctx, s, readObservations, -1, opts, []any{run}, scanObservation(run), func(o SeqObservation) int64 { return int64(o.Seq) }, nil)
}
