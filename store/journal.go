package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// Resolution says how a journalled call ended. The value is the stored text.
type Resolution string

// The resolutions; the zero value is open.
const (
	Returned           Resolution = "returned"  // the call returned a result
	ReturnedError      Resolution = "error"     // the call returned an error
	RecoveredRetry     Resolution = "retry"     // a person said: do it again; or it had never begun
	RecoveredCompleted Resolution = "completed" // a person said what it did
	RecoveredAbort     Resolution = "abort"     // a person gave the run up
)

// Attempt is a call whose effect cannot be asked for afterwards: its row is
// committed before the call starts and closed when it has returned. One that is
// open at a resume may or may not have happened.
type Attempt struct {
	ID        trace.AttemptID // set by the store
	RunID     trace.RunID     // set by the store
	Step      int
	CallIndex int    // of the call within its completion, from 0
	CallID    string // the call's id
	Tool      string
	Arguments json.RawMessage
	// Turn is the completion that asked for the call, so that a person's account
	// of what happened can be shown to the model as the answer to its own call.
	Turn *trace.AssistantTurn

	Key        string // handed to the tool: the same for every retry of this call
	StartedAt  time.Time
	Ended      time.Time // zero while open
	Resolution Resolution
	// Account is what became of the call: for RecoveredCompleted a person's words,
	// else what whoever made the call handed to CloseAttempt, as it was.
	Account string
}

// RecoveryDecision is what a person says about an open attempt: Retry,
// Completed with an account, or Abort.
type RecoveryDecision struct {
	ID      trace.AttemptID
	Verdict Resolution // RecoveredRetry, RecoveredCompleted or RecoveredAbort
	Account string     // for RecoveredCompleted: what the model is told the call returned
}

const attemptColumns = `id, run_id, step, call_index, coalesce(call_id, ''), tool, arguments, turn, idempotency_key, started_at,
	completed_at, coalesce(resolution, ''), coalesce(result, '')`

var (
	insertAttempt = statement{"insert attempt", `INSERT INTO tool_attempts
		(run_id, step, call_index, call_id, tool, arguments, turn, idempotency_key, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`}
	closeAttempt = statement{"close attempt", `UPDATE tool_attempts SET completed_at = ?, resolution = ?, result = ?
		WHERE id = ? AND run_id = ? AND completed_at IS NULL`}
	readAttempt  = statement{"read attempt", `SELECT ` + attemptColumns + ` FROM tool_attempts WHERE id = ?`}
	openAttempts = statement{"open attempts", `SELECT ` + attemptColumns + ` FROM tool_attempts WHERE run_id = ? AND completed_at IS NULL ORDER BY id`}
	// openInTree walks the runs of a tree and looks each up in the partial index.
	openInTree = statement{"open attempts of tree", `SELECT ` + attemptColumns + ` FROM tool_attempts
		WHERE completed_at IS NULL AND run_id IN (SELECT id FROM runs WHERE root_run_id = ?) ORDER BY id`}
	// accountsAfter has what ended in a way that only newer software knows as well:
	// it ended, and must not be made a second time.
	accountsAfter = statement{"accounts after", `SELECT ` + attemptColumns + ` FROM tool_attempts
		WHERE run_id = ? AND step > ? AND resolution NOT IN ('retry', 'abort') ORDER BY id`}
)

// OpenAttempt journals a call before it starts and returns the attempt's id and
// the key to hand to the tool. Calls that can be repeated need none.
func (s *Store) OpenAttempt(ctx context.Context, d *Drive, a Attempt) (trace.AttemptID, string, error) {
	key := d.CallKey(a.Step, a.CallIndex)
	var turn any
	if a.Turn != nil {
		raw, err := json.Marshal(a.Turn)
		if err != nil {
			return 0, "", invalid("open attempt", "the turn of step %d cannot be stored: %v", a.Step, err)
		}
		turn = cleanText(string(raw))
	}
	var id int64
	err := d.writeAhead(ctx, "open attempt", func(t *txn) (err error) {
		id, err = t.insert(insertAttempt, d.RunID, a.Step, a.CallIndex, null(a.CallID), cleanText(a.Tool), rawJSON(a.Arguments), turn, key, t.now)
		return err
	})
	return trace.AttemptID(id), key, err
}

// CloseAttempt records that a call returned, with a result or with an error, and
// what the model is told of it: should the step not commit, a replay answers the
// call from this account instead of making it again. RecoveredRetry is for a call
// that never began: nobody need be asked about it, and a replay makes it. It
// does not renew or need the lease: a call that returned has returned, whoever
// drives the run now. Of a run that was archived meanwhile, the account is left out.
// Closing twice changes nothing.
func (s *Store) CloseAttempt(ctx context.Context, d *Drive, id trace.AttemptID, how Resolution, account string) error {
	switch how {
	case Returned, ReturnedError, RecoveredRetry:
	default:
		return invalid("close attempt", "the resolution %q is none of returned, error and retry", how)
	}
	return d.buf.carry(func() error {
		// Losing this row to a power cut costs a question to a person, so that it
		// need not be synced by itself.
		return s.writeSurelySync(ctx, "close attempt", SyncNormal, func(t *txn) error {
			admits, err := d.buf.joinLate(t)
			if err != nil {
				return err
			}
			told := null(account)
			if admits != admitAll {
				told = nil
			}
			_, err = t.exec(closeAttempt, t.now, string(how), told, id, d.RunID)
			return err
		})
	})
}

// OpenAttempts lists the calls of one run that were started and whose end is
// not recorded, oldest first. In a run that is driven, they are in flight.
func (s *Store) OpenAttempts(ctx context.Context, run trace.RunID) (as []Attempt, err error) {
	err = s.read(ctx, "open attempts", func(q *query) (err error) {
		as, err = list(q, openAttempts, []any{run}, scanAttempt)
		return err
	})
	return as, err
}

// recoverAttempt applies a person's word about an open attempt of a tree.
func recoverAttempt(t *txn, root trace.RunID, dec RecoveryDecision) (Attempt, error) {
	as, err := list(&t.query, readAttempt, []any{dec.ID}, scanAttempt)
	if err != nil {
		return Attempt{}, err
	}
	if len(as) == 0 {
		return Attempt{}, &ResumeError{RunID: root, Reason: NoSuchAttempt, Detail: fmt.Sprintf("there is no attempt %d", dec.ID)}
	}
	a := as[0]
	switch owner, err := rootRun(&t.query, a.RunID); {
	case err != nil:
		return a, err
	case owner != root:
		return a, &ResumeError{RunID: root, Reason: AttemptOfOtherRun, Detail: fmt.Sprintf("attempt %d belongs to run %d", dec.ID, a.RunID)}
	case !a.Ended.IsZero():
		return a, &ResumeError{RunID: root, Reason: AttemptClosed, Detail: fmt.Sprintf("attempt %d is closed: %s", dec.ID, a.Resolution)}
	}
	var account any
	switch dec.Verdict {
	case RecoveredRetry, RecoveredAbort:
	case RecoveredCompleted:
		account = cleanText(dec.Account)
		obs := trace.Observation{Step: a.Step, Kind: trace.ObsTool, Target: a.Tool, CallID: a.CallID, Text: dec.Account, Origin: trace.OriginOperator}
		if _, err := appendObservations(t, a.RunID, []trace.Observation{obs}); err != nil {
			return a, err
		}
	default:
		return a, invalid("recover", "the verdict %q is none of retry, completed and abort", dec.Verdict)
	}
	_, err = t.exec(closeAttempt, t.now, string(dec.Verdict), account, a.ID, a.RunID)
	a.Resolution = dec.Verdict
	return a, err
}

func scanAttempt(r scanner) (a Attempt, err error) {
	var args, turn []byte
	var started int64
	var ended *int64
	if err := r.Scan(&a.ID, &a.RunID, &a.Step, &a.CallIndex, &a.CallID, &a.Tool, &args, &turn, &a.Key, &started,
		&ended, &a.Resolution, &a.Account); err != nil {
		return a, err
	}
	a.Arguments = args
	if len(turn) > 0 {
		a.Turn = new(trace.AssistantTurn)
		if err := json.Unmarshal(turn, a.Turn); err != nil {
			return a, &ResumeError{RunID: a.RunID, Reason: UnreadableTurn, Detail: fmt.Sprintf("the turn of attempt %d: %v", a.ID, err)}
		}
	}
	a.StartedAt, a.Ended = timeOf(started), timeOrZero(ended)
	return a, legible("tool_attempts", int64(a.ID), a.RunID, a.Step, jsonColumn{"arguments", args})
}
