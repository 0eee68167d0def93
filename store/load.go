package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// HistorySummary is a fold: one paragraph that stands for the first Folded
// entries of the ledger.
type HistorySummary struct {
	ID          int64 // set by the store
	Step        int   // at which it was made, and which pays for it
	ThroughStep int
	Folded      int // entries counted from the first of the whole ledger, earlier folds included
	Text        string
	Before      int   // estimated tokens of the ledger before the fold
	After       int   // and after it
	Tokens      int64 // what the paragraph cost
	At          time.Time
}

var (
	readObservations = statement{"read observations", `SELECT seq, step, kind, coalesce(target, ''), coalesce(call_id, ''), coalesce(text, ''),
		coalesce(range_start, 0), coalesce(range_len, 0), coalesce(digest, ''), coalesce(origin, '')
		FROM ledger_observations WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?`}
	// readLedger is readObservations for a run that goes on: of what a fold covers
	// nobody reads the text again, apart from what people said, and of what stands
	// behind the text only which bytes of a file were read.
	readLedger = statement{"read ledger", `SELECT seq, step, kind, coalesce(target, ''), coalesce(call_id, ''),
		CASE WHEN seq >= ?2 OR kind = 'message' THEN coalesce(text, '') ELSE '' END,
		CASE WHEN seq >= ?2 OR kind = 'read' THEN coalesce(range_start, 0) ELSE 0 END,
		CASE WHEN seq >= ?2 OR kind = 'read' THEN coalesce(range_len, 0) ELSE 0 END,
		CASE WHEN seq >= ?2 OR kind = 'read' THEN coalesce(digest, '') ELSE '' END, coalesce(origin, '')
		FROM ledger_observations WHERE run_id = ?1 ORDER BY seq`}
	// readTurns leaves out the turns that an archive emptied.
	readTurns = statement{"read step turns", `SELECT step, coalesce(text, ''), calls, carry FROM step_turns
		WHERE run_id = ? AND step > ? AND calls IS NOT NULL ORDER BY step LIMIT ?`}
	readSummaries = statement{"read summaries", `SELECT id, step, through_step, folded, coalesce(text, ''), before_tokens, after_tokens, tokens, at FROM summaries
		WHERE run_id = ? AND text IS NOT NULL ORDER BY id`}
	insertSummary = statement{"insert summary", `INSERT INTO summaries (run_id, step, through_step, folded, text, before_tokens, after_tokens, tokens, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`}
	calledTokens = statement{"called tokens", `SELECT coalesce(sum(total_tokens), 0), coalesce(sum(total_tokens IS NULL AND failure IS NULL), 0)
		FROM provider_calls WHERE run_id = ?`}
	ledgerLength = statement{"ledger length", `SELECT coalesce(max(seq) + 1, 0) FROM ledger_observations WHERE run_id = ?`}
)

const noLimit = -1 // LIMIT -1 reads everything

func scanObservation(run trace.RunID) func(scanner) (SeqObservation, error) {
	return func(r scanner) (o SeqObservation, err error) {
		if err := r.Scan(&o.Seq, &o.Step, &o.Kind, &o.Target, &o.CallID, &o.Text, &o.First, &o.Count, &o.Digest, &o.Origin); err != nil {
			return o, err
		}
		if !o.Kind.Known() {
			return o, &ResumeError{RunID: run, Reason: UnreadableObservation,
				Detail: fmt.Sprintf("entry %d of step %d has the unknown kind %q", o.Seq, o.Step, o.Kind)}
		}
		return o, nil
	}
}

func scanTurn(run trace.RunID) func(scanner) (trace.AssistantTurn, error) {
	return func(r scanner) (t trace.AssistantTurn, err error) {
		var calls, carry []byte
		if err := r.Scan(&t.Step, &t.Text, &calls, &carry); err != nil {
			return t, err
		}
		if err := json.Unmarshal(calls, &t.Calls); err != nil {
			return t, &ResumeError{RunID: run, Reason: UnreadableTurn, Detail: fmt.Sprintf("the calls of step %d: %v", t.Step, err)}
		}
		if len(carry) > 0 && !json.Valid(carry) {
			return t, &ResumeError{RunID: run, Reason: UnreadableTurn, Detail: fmt.Sprintf("the vendor's part of step %d is no JSON", t.Step)}
		}
		t.Carry = carry
		return t, nil
	}
}

func scanSummary(r scanner) (h HistorySummary, err error) {
	var at int64
	err = r.Scan(&h.ID, &h.Step, &h.ThroughStep, &h.Folded, &h.Text, &h.Before, &h.After, &h.Tokens, &at)
	h.At = timeOf(at)
	return h, err
}

// load reads what a resumed run left behind, after its drive was entered: the
// lease keeps others from changing it.
func (s *Store) load(ctx context.Context, run trace.RunID, res *Resumed) error {
	res.LastStep, res.SpentTokens = res.Info.LastStep, res.Info.Tokens
	return s.snapshot(ctx, "load run", func(q *query) (err error) {
		if err = q.row(calledTokens, []any{run}, &res.CalledTokens, &res.Unmetered); err != nil || res.Outcome != nil {
			return err
		}
		if len(res.Policy) > 0 && !json.Valid(res.Policy) {
			return &ResumeError{RunID: run, Reason: UnreadablePolicy, Detail: "the recorded policy is no JSON"}
		}
		if res.Summaries, err = list(q, readSummaries, []any{run}, scanSummary); err != nil {
			return err
		}
		folded, through, err := res.folded(q, run)
		if err != nil {
			return err
		}
		if res.Observations, err = list(q, readLedger, []any{run, folded}, scanObservation(run)); err != nil {
			return err
		}
		// The last turn is asked for whatever covers it.
		if res.Turns, err = list(q, readTurns, []any{run, min(through, res.LastStep-1), noLimit}, scanTurn(run)); err != nil {
			return err
		}
		if res.Approved, err = list(q, dueApprovals, []any{run, res.LastStep}, scanApproval); err != nil {
			return err
		}
		if res.Decided, err = list(q, decidedAfter, []any{run, res.LastStep}, scanApproval); err != nil {
			return err
		}
		done := res.LastStep
		for _, p := range res.Approved {
			if p.RunID == run {
				done = min(done, p.Step-1) // what was begun of it belongs to a step that has committed
			}
		}
		if res.Accounts, err = list(q, accountsAfter, []any{run, done}, scanAttempt); err != nil {
			return err
		}
		if res.Writes, err = list(q, writesAfter, []any{run, done}, scanWriteIntent); err != nil {
			return err
		}
		if res.Answers, err = list(q, dueAnswers, []any{run}, scanQuestion); err != nil {
			return err
		}
		if res.Verdicts, err = list(q, duePlans, []any{run}, scanPlan); err != nil {
			return err
		}
		plans, err := list(q, approvedPlan, []any{run}, scanPlan)
		if err != nil {
			return err
		}
		if len(plans) > 0 {
			res.ApprovedPlan = &plans[0]
		}
		if res.Unsettled, err = list(q, unsettledSpawns, []any{run}, scanSpawn); err != nil {
			return err
		}
		res.Queued, err = list(q, queuedUnder, []any{run}, scanQueued)
		return err
	})
}

// folded is how many entries of the ledger, and which steps, the newest fold
// covers; none when it reaches past the ledger and therefore does not count.
func (res *Resumed) folded(q *query, run trace.RunID) (entries, through int, err error) {
	if len(res.Summaries) == 0 {
		return 0, 0, nil
	}
	var have int
	if err := q.row(ledgerLength, []any{run}, &have); err != nil {
		return 0, 0, err
	}
	newest := res.Summaries[len(res.Summaries)-1]
	if newest.Folded > have {
		return 0, 0, nil
	}
	return newest.Folded, newest.ThroughStep, nil
}

// PutSummary makes a fold durable before the ledger in memory is cut. A fold
// may only cover entries that are stored. An empty text is not stored and
// returns zero.
func (s *Store) PutSummary(ctx context.Context, d *Drive, h HistorySummary) (int64, error) {
	if h.Text == "" {
		return 0, nil
	}
	var id int64
	err := d.writeAhead(ctx, "put summary", func(t *txn) error {
		var have int
		if err := t.row(ledgerLength, []any{d.RunID}, &have); err != nil {
			return err
		}
		if h.Folded <= 0 || h.Folded > have {
			return invalid("put summary", "a fold of %d entries does not fit a ledger of %d", h.Folded, have)
		}
		var err error
		id, err = t.insert(insertSummary, d.RunID, h.Step, h.ThroughStep, h.Folded, cleanText(h.Text),
			max(0, h.Before), max(0, h.After), counter(h.Tokens), t.now)
		return err
	})
	return id, err
}

// HistorySummaries lists the folds of one run, oldest first.
func (s *Store) HistorySummaries(ctx context.Context, run trace.RunID) (hs []HistorySummary, err error) {
	err = s.read(ctx, "read summaries", func(q *query) (err error) {
		hs, err = list(q, readSummaries, []any{run}, scanSummary)
		return err
	})
	return hs, err
}
