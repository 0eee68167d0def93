package store

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/initorigin/io-harness-go/trace"
)

// Finish is how a run ended, or why it waits.
type Finish struct {
	Outcome trace.Outcome
	// Reply closes the run's turn; empty when there is no closing message.
	Reply string
	// Output is the answer in the shape that the contract demanded. Optional.
	Output *Output
	// Observations close the ledger of an answered turn, which commits no step.
	Observations []trace.Observation
	// Reported is what the provider counted for the completion of an answered turn;
	// zero when it said nothing, or when the turn committed steps.
	Reported int64
	// Overruled is the approval that the run ends over, because the policy forbids
	// now what was approved.
	Overruled *Overruled
}

// Output is a run's answer in a demanded shape.
type Output struct {
	Schema   json.RawMessage
	Value    json.RawMessage
	Valid    bool
	Attempts int
}

var (
	setOutcome = statement{"set outcome", `UPDATE runs SET status = ?, outcome = ?, outcome_steps = ?, waiting_id = ? WHERE id = ?`}
	// replySpend is for a turn that was answered: it committed no step, so its
	// spend is what its completions reported.
	replySpend = statement{"reply spend", `UPDATE runs SET spent_tokens = (SELECT coalesce(sum(total_tokens), 0) FROM provider_calls WHERE run_id = ?1)
		WHERE id = ?1 AND turn_kind = 'reply' AND last_step = 0`}
	putSummary = statement{"put summary", `INSERT INTO run_outcomes (run_id, outcome, success, steps, tokens, duration_ms, finished_at)
		SELECT id, ?1, ?2, last_step, spent_tokens, max(0, ?3 - started_at), ?3 FROM runs WHERE id = ?4
		ON CONFLICT (run_id) DO UPDATE SET outcome = excluded.outcome, success = excluded.success, steps = excluded.steps,
			tokens = excluded.tokens, duration_ms = excluded.duration_ms, finished_at = excluded.finished_at`}
	dropSummary = statement{"drop summary", `DELETE FROM run_outcomes WHERE run_id = ?`}
	putOutput   = statement{"put output", `INSERT INTO run_outputs (run_id, schema, value, valid, attempts, at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (run_id) DO UPDATE SET schema = excluded.schema, value = excluded.value, valid = excluded.valid,
			attempts = excluded.attempts, at = excluded.at`}
	readTurnEnd = statement{"read turn end", `SELECT id, session_id, coalesce(parent_turn_id, 0), coalesce(outcome, '') FROM session_turns WHERE run_id = ?`}
	finishTurn  = statement{"finish turn", `UPDATE session_turns SET reply = coalesce(?, reply), outcome = ?, finished_at = ? WHERE id = ?`}
	moveHead    = statement{"move head", `UPDATE sessions SET head_turn_id = ?1 WHERE id = ?2 AND head_turn_id IS NOT DISTINCT FROM ?3`}
)

// FinishRun ends a run, or parks it: outcome, status, summary, the drive's end,
// the turn's reply, the session's head and the release of the lease are one
// transaction, which the cancellation of ctx does not stop. When the session's
// head moved meanwhile, all of it stays and a ConflictError with the session is
// returned; any other error means that nothing was written.
func (s *Store) FinishRun(ctx context.Context, d *Drive, f Finish) error {
	if err := d.open(); err != nil {
		return err
	}
	var lostHead error
	err := d.ending(true, func() error {
		return s.writeSurely(ctx, "finish run", func(t *txn) error {
			if err := d.lease.renew(t); err != nil {
				return err
			}
			if err := d.buf.join(t, admitAll); err != nil {
				return err
			}
			var err error
			lostHead, err = s.finish(t, d, f)
			return err
		})
	})
	if err != nil {
		return err
	}
	d.shut()
	return lostHead
}

// finish is the one place where a drive ends a run.
func (s *Store) finish(t *txn, d *Drive, f Finish) (lostHead, err error) {
	if !f.Outcome.Kind.Known() {
		return nil, &Error{Kind: KindInvalid, Op: "finish run", Err: errors.New("the outcome " + string(f.Outcome.Kind) + " is unknown")}
	}
	if _, err := appendObservations(t, d.RunID, f.Observations); err != nil {
		return nil, err
	}
	if f.Overruled != nil {
		if _, err := f.Overruled.apply(t, d.RunID); err != nil {
			return nil, err
		}
	}
	if f.Reported > 0 {
		if _, err := t.exec(reportTokens, counter(f.Reported), d.RunID, d.StartStep); err != nil {
			return nil, err
		}
	}
	if o := f.Output; o != nil {
		if _, err := t.exec(putOutput, d.RunID, rawJSON(o.Schema), rawJSON(o.Value), boolInt(o.Valid), o.Attempts, t.now); err != nil {
			return nil, err
		}
	}
	if lostHead, err = endRun(t, d.RunID, f.Outcome, f.Reply); err != nil {
		return nil, err
	}
	if _, err := t.exec(endDrive, t.now, string(f.Outcome.Kind), d.buf.droppedJSON(), d.ID); err != nil {
		return nil, err
	}
	if d.owns {
		_, err = t.exec(dropLease, d.lease.root, d.lease.owner, d.lease.generation)
	}
	return lostHead, err
}

// endRun writes an outcome and everything that follows from it for the run
// itself, whether a drive reached it or a person's decision did.
func endRun(t *txn, run trace.RunID, o trace.Outcome, reply string) (lostHead, err error) {
	status := o.Kind.Status()
	if _, err := t.exec(setOutcome, string(status), string(o.Kind), o.Steps, nullID(waitingID(o)), run); err != nil {
		return nil, err
	}
	if _, err := t.exec(replySpend, run); err != nil {
		return nil, err
	}
	if status == trace.StatusCompleted {
		_, err = t.exec(putSummary, string(o.Kind), boolInt(o.Succeeded()), t.now, run)
	} else {
		_, err = t.exec(dropSummary, run)
	}
	if err != nil {
		return nil, err
	}
	if o.Kind.Final() { // nobody will act on an answer any more
		if err := withdrawAll(t, run); err != nil {
			return nil, err
		}
	}
	if err := settleChild(t, run, o); err != nil {
		return nil, err
	}
	return endTurn(t, run, o, reply)
}

// endTurn closes the turn that the run serves, if any, and moves the session's
// head to it. An ending that the caller sees as an error leaves the head where
// it was; a turn that had its place on the path before, such as one that waited for
// a person, loses nothing when the conversation went on meanwhile.
func endTurn(t *txn, run trace.RunID, o trace.Outcome, reply string) (lostHead, err error) {
	var turn, parent trace.TurnID
	var session trace.SessionID
	var before trace.OutcomeKind // empty when the turn is closed for the first time
	err = t.row(readTurnEnd, []any{run}, &turn, &session, &parent, &before)
	switch {
	case noRows(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if _, err := t.exec(finishTurn, null(reply), string(o.Kind), t.now, turn); err != nil {
		return nil, err
	}
	if !movesHead(o.Kind) {
		return nil, nil
	}
	n, err := t.exec(moveHead, turn, session, nullID(parent))
	if err != nil || n == 1 || before != "" && movesHead(before) {
		return nil, err
	}
	var head trace.TurnID
	if err := t.row(readHead, []any{session}, &head); err != nil {
		return nil, err
	}
	return &ConflictError{SessionID: session, Expected: parent, Head: head}, nil
}

// movesHead reports whether a turn that ended so becomes what the next turn follows.
func movesHead(k trace.OutcomeKind) bool {
	switch k {
	case trace.EscalatedRetryable, trace.EscalatedTerminal, trace.Refused, trace.Failed, trace.ConfigError:
		return false
	}
	return true
}

// waitingID is what the outcome waits for, in whichever table its kind names.
func waitingID(o trace.Outcome) int64 {
	return int64(o.RequestID) + int64(o.QuestionID) + int64(o.PlanID) + int64(o.AttemptID)
}

// outcomeOf rebuilds an outcome from its columns.
func outcomeOf(kind trace.OutcomeKind, steps int, waiting int64) trace.Outcome {
	o := trace.Outcome{Kind: kind, Steps: steps}
	switch kind {
	case trace.AwaitingApproval:
		o.RequestID = trace.RequestID(waiting)
	case trace.AwaitingAnswer:
		o.QuestionID = trace.QuestionID(waiting)
	case trace.AwaitingPlan:
		o.PlanID = trace.PlanID(waiting)
	case trace.AwaitingRecovery:
		o.AttemptID = trace.AttemptID(waiting)
	}
	return o
}
