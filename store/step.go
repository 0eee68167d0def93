package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/trace"
)

// StepCommit is one step, whole: everything in it is durable together or not at all.
type StepCommit struct {
	Step     int    // one more than the last committed step
	Decision string // what was decided, joined with "; "
	// Result is the step's outcome as people read it. Empty means the texts of
	// the step's observations, one after the other, which is not stored twice.
	Result   string
	Prompt   string // the user half of the request that was sent
	ToolCall string // each call as name:arguments, joined with " | "; for people and the stall signature only
	Tokens   int64  // the step's draw on the budget: its completion and what a fold on it cost; a review of it is added later
	Changed  bool   // whether the step changed a file
	// Turn is what the model said and asked for; nil when it was never asked.
	// Its Step is taken from the commit.
	Turn *trace.AssistantTurn
	// Observations are the step's own and any that waited for a commit, in the
	// order in which the model will see them.
	Observations []trace.Observation
	// Reported is what the provider counted for the step's request; zero when it
	// said nothing. It is written to the step's last assembled row.
	Reported int64
	// Draw records the draw on a tree's shared budget; nil for a run of its own.
	Draw *Draw
	// Folded names the children whose reports are among the observations.
	Folded []trace.RunID
	// Performed names approvals of earlier steps whose act this step carried out.
	// Those that were asked for and given during the step are carried out by it,
	// except the one that Finish waits for.
	Performed []trace.RequestID
	// Overruled are approvals of the step, given before a crash, that the step, made
	// again, did not use.
	Overruled []Overruled
	// Answered and Decided name the questions and plans whose answer or verdict is
	// among the observations: it is delivered with the step, and with it only.
	Answered []trace.QuestionID
	Decided  []trace.PlanID
	// Withdraw closes the questions and plans that still wait, other than the one
	// that Finish waits for: a drive that died asked them, and the step, made again,
	// did not. An answer that comes later is refused as one that was not the first.
	Withdraw bool
	// Finish ends the run in the same transaction, when the outcome is known.
	Finish *Finish
	// Notes, when set, is filled with the notes as they stand behind the step: a run
	// that goes on asks for them on every step, and a read of its own costs more than
	// reading them with the commit.
	Notes *Notes
}

// Notes are the notes that a run may recall.
type Notes struct {
	Workspace string        // whose notes are wanted
	Own       []MemoryEntry // of the workspace, as MemoryList has them
	Shared    []MemoryEntry // kept for every workspace
}

// Draw is a step's draw on the budget of its tree.
type Draw struct {
	Remaining *int64 // of the ceiling, after the draw; nil when there is none
}

var (
	insertStep = statement{"insert step", `INSERT INTO steps
		(run_id, step, drive_id, decision, result, prompt, prompt_change, prompt_from, tool_call, tokens, changed, first_seq, next_seq, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	insertStepTurn = statement{"insert step turn", `INSERT INTO step_turns (run_id, step, text, calls, carry) VALUES (?, ?, ?, ?, ?)`}
	// advanceRun changes nothing when the step is not the next one.
	advanceRun        = statement{"advance run", `UPDATE runs SET last_step = ?1, spent_tokens = spent_tokens + ?2 WHERE id = ?3 AND last_step = ?1 - 1`}
	nextSeq           = statement{"next seq", `SELECT coalesce(max(seq) + 1, 0) FROM ledger_observations WHERE run_id = ?`}
	insertObservation = statement{"insert observation", `INSERT INTO ledger_observations
		(run_id, seq, step, kind, target, call_id, text, range_start, range_len, digest, origin) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	reportTokens = statement{"report tokens", `UPDATE context_events SET reported_tokens = ?
		WHERE id = (SELECT max(id) FROM context_events WHERE run_id = ? AND step = ? AND kind = 'assembled')`}
	foldReport = statement{"fold report", `UPDATE spawns SET folded_step = ? WHERE child_run_id = ? AND parent_run_id = ? AND folded_step IS NULL`}
	// settleStep marks what was approved while the step ran: the step has carried
	// it out, but for the one request that it pauses on.
	settleStep = statement{"settle approvals of step", `UPDATE pending_approvals SET performed_at = ?
		WHERE run_id = ? AND step = ? AND resolved = 'approve' AND performed_at IS NULL AND id <> ?`}
	markPerformed = statement{"mark performed", `UPDATE pending_approvals SET performed_at = ? WHERE id = ? AND run_id = ? AND performed_at IS NULL`}
)

// CommitStep makes a step durable. Nothing else says that a step is done. It
// checks the lease, writes the step, the model's turn, the observations, the
// draw, the counters and the evidence recorded so far, renews the lease and,
// when Finish is set, ends the run: all in one transaction. The cancellation of
// ctx does not stop it; it gives up after the busy timeout and ten seconds. A
// drive that lost its run gets a ConflictError and has written nothing.
func (s *Store) CommitStep(ctx context.Context, d *Drive, c StepCommit) error {
	if err := d.open(); err != nil {
		return err
	}
	c.Prompt = cleanText(c.Prompt)
	if !s.opt.promptTrace {
		c.Prompt = ""
	}
	prompt := d.prompt.take(c.Step, c.Prompt)
	var lostHead error
	err := d.ending(c.Finish != nil, func() error {
		return s.writeSurely(ctx, "commit step", func(t *txn) error {
			if err := d.lease.renew(t); err != nil {
				return err
			}
			if err := d.buf.join(t, admitAll); err != nil {
				return err
			}
			if err := s.commitStep(t, d, c, prompt); err != nil {
				return err
			}
			if c.Notes != nil {
				if err := c.Notes.list(&t.query); err != nil {
					return err
				}
			}
			if c.Finish == nil {
				return nil
			}
			var err error
			lostHead, err = s.finish(t, d, *c.Finish)
			return err
		})
	})
	if err != nil {
		return err
	}
	d.prompt.keep(c.Step, c.Prompt, prompt)
	if c.Finish != nil {
		d.shut()
	}
	return lostHead
}

func (s *Store) commitStep(t *txn, d *Drive, c StepCommit, prompt storedPrompt) error {
	first, err := appendObservations(t, d.RunID, c.Observations)
	if err != nil {
		return err
	}
	own := make([]string, 0, len(c.Observations))
	for _, o := range c.Observations {
		if o.Step == c.Step {
			own = append(own, o.Text)
		}
	}
	var result any
	if c.Result != "" && c.Result != strings.Join(own, "\n") {
		result = cleanText(c.Result)
	}
	c.Tokens = counter(c.Tokens)
	if _, err := t.exec(insertStep, d.RunID, c.Step, d.ID, cleanText(c.Decision), result, prompt.whole, prompt.change, nullID(prompt.from), cleanText(c.ToolCall),
		c.Tokens, boolInt(c.Changed), first, first+int64(len(c.Observations)), t.now); err != nil {
		return err
	}
	if c.Turn != nil {
		if err := putStepTurn(t, d.RunID, c.Step, c.Turn); err != nil {
			return err
		}
	}
	n, err := t.exec(advanceRun, c.Step, c.Tokens, d.RunID)
	if err != nil {
		return err
	}
	if n != 1 {
		return &Error{Kind: KindConstraint, Op: "commit step", Err: fmt.Errorf("step %d of run %d is not the next one", c.Step, d.RunID)}
	}
	if c.Reported > 0 {
		if _, err := t.exec(reportTokens, counter(c.Reported), d.RunID, c.Step); err != nil {
			return err
		}
	}
	if c.Draw != nil {
		draw := AgentEvent{Step: c.Step, Kind: "budget_draw", Tokens: &c.Tokens, Remaining: c.Draw.Remaining}
		if err := draw.insert(t, d.RunID); err != nil {
			return err
		}
	}
	for _, child := range c.Folded {
		if _, err := t.exec(foldReport, c.Step, child, d.RunID); err != nil {
			return err
		}
	}
	var waits trace.Outcome
	if c.Finish != nil {
		waits = c.Finish.Outcome
	}
	for _, o := range c.Overruled {
		if _, err := o.apply(t, d.RunID); err != nil {
			return err
		}
	}
	if _, err := t.exec(settleStep, t.now, d.RunID, c.Step, waits.RequestID); err != nil {
		return err
	}
	if c.Withdraw {
		if err := withdrawAsked(t, d.RunID, c.Step, waits); err != nil {
			return err
		}
	}
	for _, id := range c.Performed {
		if _, err := t.exec(markPerformed, t.now, id, d.RunID); err != nil {
			return err
		}
	}
	for _, id := range c.Answered {
		if _, err := t.exec(deliverAnswer, first, id, d.RunID); err != nil {
			return err
		}
	}
	for _, id := range c.Decided {
		if _, err := t.exec(deliverPlan, first, id, d.RunID); err != nil {
			return err
		}
	}
	return nil
}

func putStepTurn(t *txn, run trace.RunID, step int, turn *trace.AssistantTurn) error {
	calls, err := json.Marshal(turn.Calls)
	if err != nil {
		return &Error{Kind: KindInvalid, Op: "commit step", Err: fmt.Errorf("the calls of step %d cannot be stored: %w", step, err)}
	}
	if turn.Calls == nil {
		calls = []byte("[]")
	}
	_, err = t.exec(insertStepTurn, run, step, cleanText(turn.Text), cleanText(string(calls)), rawJSON(turn.Carry))
	return err
}

// appendObservations adds to the end of a run's ledger and returns the place of
// the first one.
func appendObservations(t *txn, run trace.RunID, obs []trace.Observation) (int64, error) {
	var seq int64
	if err := t.row(nextSeq, []any{run}, &seq); err != nil {
		return 0, err
	}
	for i, o := range obs {
		if !o.Kind.Known() {
			return 0, invalid("append observation", "observation %d has the unknown kind %q", i, o.Kind)
		}
		if _, err := t.exec(insertObservation, run, seq+int64(i), o.Step, string(o.Kind), null(o.Target), null(o.CallID), cleanText(o.Text),
			nullID(o.First), nullID(o.Count), null(o.Digest), null(string(o.Origin))); err != nil {
			return 0, err
		}
	}
	return seq, nil
}

// AppendObservations adds to a run's ledger outside a step: what an operator
// steered while nothing was committed, a conversation's seed, a late report of
// a child. What a step saw belongs into its commit.
func (s *Store) AppendObservations(ctx context.Context, d *Drive, obs ...trace.Observation) error {
	return d.writeAhead(ctx, "append observations", func(t *txn) error {
		_, err := appendObservations(t, d.RunID, obs)
		return err
	})
}
