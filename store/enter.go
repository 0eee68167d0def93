package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// EnterOptions says how a run is entered again. At most one of the decisions
// is set.
type EnterOptions struct {
	// Provider is the provider that drives from now on; empty keeps the last one.
	Provider string
	// Policy is in force from now on and recorded; empty keeps the recorded one.
	Policy json.RawMessage
	// Contract replaces the recorded facts; empty keeps them.
	Contract json.RawMessage
	LeaseTTL time.Duration // zero means DefaultLeaseTTL

	Decision *ApprovalDecision
	Answer   *Answer
	Verdict  *PlanDecision
	Recovery *RecoveryDecision
}

// Resumed is what a run left behind for its next drive.
type Resumed struct {
	Info RunInfo // as it was before this drive

	// Outcome is set when there is nothing to drive: the run ended for good,
	// still waits for a person, or was ended by the decision just given. The
	// drive is nil then. Attempts and Waiting say more.
	Outcome *trace.Outcome
	// Written tells whether the call itself ended the run, so that the end is
	// still to be announced.
	Written bool
	// Draining says that the run itself has ended, with Info.Outcome, and that
	// children which it started have not: see them to their end, fold their
	// reports in, and finish the run with the same outcome.
	Draining bool

	LastStep    int
	SpentTokens int64 // by the committed steps
	// CalledTokens is what all completions took that the trace knows of, also for
	// steps that never committed.
	CalledTokens int64
	// Unmetered counts the answered completions whose provider reported no usage.
	Unmetered int64
	Policy    json.RawMessage // the recorded one, before this drive; empty when none was recorded
	Contract  json.RawMessage
	// Observations is the whole ledger. Of the entries that the newest of
	// Summaries covers only messages have their text; Store.Observations has all.
	Observations []SeqObservation
	// Turns are those behind that summary, and the last one in any case.
	Turns        []trace.AssistantTurn
	Summaries    []HistorySummary // oldest first
	ApprovedPlan *PendingPlan

	// Attempts are the calls whose end is unknown, oldest first, of the whole
	// tree; with them Outcome is awaiting_recovery.
	Attempts []Attempt
	// Accounts are calls that are known to have ended: they returned, or a person
	// said what they did. A replay answers them from the account instead of
	// calling. They belong to steps that are not committed, or to the step of the
	// first of Approved and those behind it.
	Accounts []Attempt
	// Writes are the changes of files that were made or about to be made, of the
	// same steps.
	Writes []WriteIntent
	// Approved are approved and not yet performed, of committed steps: nothing
	// else will carry them out.
	Approved []PendingApproval
	// Decided belong to steps that never committed, because the process died
	// between the decision and the commit. A replay may take the decision from
	// here when it comes to the same call; performing the act before the replay
	// would let it happen twice.
	Decided []PendingApproval
	// Answers and Verdicts are decided and were never shown to the model.
	Answers  []PendingQuestion
	Verdicts []PendingPlan
	// Orphans are the handles of commands that the last drive left running.
	Orphans []int
	// Unsettled are the children that have not ended or whose reports were never
	// folded in.
	Unsettled []Spawn
	// Queued are the run's own children that waited for a place.
	Queued []QueuedAgent
}

// SeqObservation is an observation with its place in the ledger, from 0.
type SeqObservation struct {
	Seq int
	trace.Observation
}

var (
	reopenRun = statement{"reopen run", `UPDATE runs SET status = 'running', outcome = NULL, outcome_steps = NULL, waiting_id = NULL, provider = coalesce(?, provider) WHERE id = ?`}
	// replyIsWork: a turn that ended before it had answered well, and is driven on,
	// takes steps. What its completion drew belongs to no step.
	replyIsWork  = statement{"reply is work", `UPDATE runs SET turn_kind = 'run', spent_tokens = 0 WHERE id = ? AND turn_kind = 'reply' AND last_step = 0`}
	lastDrive    = statement{"last drive", `SELECT provider, policy, contract FROM drives WHERE run_id = ? ORDER BY id DESC LIMIT 1`}
	closeDrives  = statement{"close drives", `UPDATE drives SET ended_at = ? WHERE run_id = ? AND ended_at IS NULL AND id <> ?`}
	orphanHandle = statement{"orphan handles", `UPDATE process_handles SET state = 'orphaned', reason = ?, ended_at = ? WHERE run_id = ? AND state = 'running' RETURNING handle`}
	// unreadMail gives back the messages whose reading never became part of a step.
	unreadMail = statement{"unread mail", `UPDATE agent_messages SET read_at = NULL, read_step = NULL WHERE to_run_id = ? AND read_step > ?`}
	// supersedeContext marks what was told of a step that never came to be; the
	// replay tells it again. What a gate said belongs to the step before.
	supersedeContext = statement{"supersede context events", `UPDATE context_events SET superseded = 1
		WHERE run_id = ? AND step > ? AND superseded = 0 AND kind NOT IN ('gate_feedback', 'steered')`}
	// openChildren counts the children of an ended run that did not end.
	openChildren = statement{"open children", `SELECT count(*) FROM spawns s JOIN runs r ON r.id = s.child_run_id
		WHERE s.parent_run_id = ? AND r.status <> 'completed'`}
	turnOfRun = statement{"turn of run", `SELECT id, session_id FROM session_turns WHERE run_id = ?`}
)

// EnterDrive takes up a run that was started before. In one transaction it
// checks that the run can be resumed, takes the lease, applies the decision
// given, and opens a drive; or it reports, with a nil drive, why there is
// nothing to drive. It fails with a ResumeError when the run cannot be resumed
// or the decision does not fit, and with a ConflictError when somebody else
// drives the run; then nothing has been written.
func (s *Store) EnterDrive(ctx context.Context, run trace.RunID, opt EnterOptions) (*Drive, *Resumed, error) {
	var d *Drive
	var res *Resumed
	err := s.write(ctx, "enter drive", func(t *txn) (err error) {
		d, res, err = s.enterDrive(t, run, opt)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if d != nil {
		d.attach()
		d.lease.hold()
	}
	if err := s.load(ctx, run, res); err != nil {
		if d != nil {
			err = joinErrors(err, d.Release(ctx))
		}
		return nil, nil, err
	}
	return d, res, nil
}

func (s *Store) enterDrive(t *txn, run trace.RunID, opt EnterOptions) (*Drive, *Resumed, error) {
	info, err := resumable(&t.query, run)
	if info.ID != 0 {
		// Somebody who drives it is the better answer than what would be wrong with
		// it if nobody did.
		if _, _, _, aerr := s.available(&t.query, info.RootID, t.now); aerr != nil {
			return nil, nil, aerr
		}
	}
	if err != nil {
		return nil, nil, err
	}
	res := &Resumed{Info: info}
	if info.Status == trace.StatusCompleted && info.Outcome.Kind.Final() {
		return s.enterEnded(t, info, opt, res)
	}
	decided, err := s.hindrance(t, info, opt, res)
	if err != nil {
		return nil, nil, err
	}
	if decided != nil {
		res.Outcome, res.Written = decided.outcome, decided.written
		return nil, res, nil
	}
	l, how, err := s.acquire(t, info.RootID, opt.LeaseTTL)
	if err != nil {
		return nil, nil, err
	}
	d, err := s.reopen(t, info, l, how, opt, res)
	if err != nil {
		return nil, nil, err
	}
	if _, err := t.exec(bindLease, d.ID, info.RootID, l.owner, l.generation); err != nil {
		return nil, nil, err
	}
	d.owns = true
	return d, res, nil
}

// enterEnded reports a run that ended for good, unless children that it started
// did not: then it is driven to its end again, without a step.
func (s *Store) enterEnded(t *txn, info RunInfo, opt EnterOptions, res *Resumed) (*Drive, *Resumed, error) {
	o := info.Outcome
	var open int
	if err := t.row(openChildren, []any{info.ID}, &open); err != nil {
		return nil, nil, err
	}
	if open == 0 {
		res.Outcome = &o
		return nil, res, nil
	}
	if end, err := inDoubt(t, info, res); end != nil || err != nil {
		if end != nil {
			res.Outcome, res.Written = end.outcome, end.written
		}
		return nil, res, err
	}
	l, how, err := s.acquire(t, info.RootID, opt.LeaseTTL)
	if err != nil {
		return nil, nil, err
	}
	res.Draining = true
	d, err := s.reopen(t, info, l, how, opt, res)
	if err != nil {
		return nil, nil, err
	}
	_, err = t.exec(bindLease, d.ID, info.RootID, l.owner, l.generation)
	d.owns = true
	return d, res, err
}

// reopen writes what entering a run changes: its drive, its status, and what the
// dead left behind.
func (s *Store) reopen(t *txn, info RunInfo, l *lease, how Takeover, opt EnterOptions, res *Resumed) (*Drive, error) {
	var policy, contract []byte
	var provider string
	if err := t.row(lastDrive, []any{info.ID}, &provider, &policy, &contract); err != nil && !noRows(err) {
		return nil, err
	}
	res.Policy, res.Contract = policy, contract
	if len(opt.Policy) > 0 {
		policy = opt.Policy
	}
	if len(opt.Contract) > 0 {
		contract = opt.Contract
	}
	if opt.Provider != "" {
		provider = opt.Provider
	}
	d, err := s.newDrive(t, info.ID, info.RootID, l, how, info.LastStep+1, provider, policy, contract)
	if err != nil {
		return nil, err
	}
	d.Depth, d.RunStarted = info.Depth, info.StartedAt
	if d.RootStart, err = startOf(&t.query, info.RootID); err != nil {
		return nil, err
	}
	if err := t.row(turnOfRun, []any{info.ID}, &d.TurnID, &d.SessionID); err != nil && !noRows(err) {
		return nil, err
	}
	if _, err := t.exec(closeDrives, t.now, info.ID, d.ID); err != nil {
		return nil, err
	}
	if !res.Draining {
		if _, err := t.exec(reopenRun, null(opt.Provider), info.ID); err != nil {
			return nil, err
		}
		if _, err := t.exec(dropSummary, info.ID); err != nil {
			return nil, err
		}
		n, err := t.exec(replyIsWork, info.ID)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			res.Info.Kind, res.Info.Tokens = KindRun, 0
		}
	}
	if _, err := t.exec(unreadMail, info.ID, info.LastStep); err != nil {
		return nil, err
	}
	if _, err := t.exec(supersedeContext, info.ID, info.LastStep); err != nil {
		return nil, err
	}
	res.Orphans, err = list(&t.query, orphanHandle, []any{orphaned, t.now, info.ID}, func(r scanner) (n int, err error) { return n, r.Scan(&n) })
	return d, err
}

// CheckResumable reports, as a ResumeError, why a run can never be entered:
// its checkpoint is of a newer format, it does not exist, or it is a turn that
// died while it answered. A finished run passes: entering it reports its end.
func (s *Store) CheckResumable(ctx context.Context, run trace.RunID) error {
	return s.snapshot(ctx, "check resumable", func(q *query) error {
		_, err := resumable(q, run)
		return err
	})
}

func resumable(q *query, run trace.RunID) (RunInfo, error) {
	text, err := meta(q, "checkpoint_format")
	if err != nil {
		return RunInfo{}, err
	}
	if format, err := strconv.Atoi(text); err != nil || format > CheckpointFormat {
		return RunInfo{}, &ResumeError{RunID: run, Reason: NewerFormat,
			Detail: fmt.Sprintf("the checkpoint format is %s and this software reads up to %d: update it", strconv.Quote(text), CheckpointFormat)}
	}
	info, err := runInfo(q, run)
	if err != nil {
		if noRows(err) {
			return info, &ResumeError{RunID: run, Reason: NoSuchRun, Detail: "the store has no such run"}
		}
		return info, err
	}
	if info.Kind == KindReply && info.LastStep == 0 && info.Status == trace.StatusRunning {
		return info, &ResumeError{RunID: run, Reason: UnfinishedReply, Detail: "no step was committed: take the turn again"}
	}
	return info, nil
}

// ending is an outcome with which entering a run is over.
type ending struct {
	outcome *trace.Outcome
	written bool
}

// endedBy writes an outcome that a person's word brought about, for the run
// that waited and for the root above it.
func endedBy(t *txn, info RunInfo, owner trace.RunID, kind trace.OutcomeKind) (*ending, error) {
	o := trace.Outcome{Kind: kind, Steps: info.LastStep}
	if _, err := endRun(t, info.ID, o, ""); err != nil {
		return nil, err
	}
	if owner != info.ID {
		var last int
		if err := t.row(lastStepOf, []any{owner}, &last); err != nil {
			return nil, err
		}
		if _, err := endRun(t, owner, trace.Outcome{Kind: kind, Steps: last}, ""); err != nil {
			return nil, err
		}
	}
	return &ending{outcome: &o, written: true}, nil
}

// hindrance reports why a run cannot go on: a call whose end is unknown, the
// decision that came with the call, or a person who has not decided. The order
// is fixed: nothing is decided about a run whose calls are in doubt.
func (s *Store) hindrance(t *txn, info RunInfo, opt EnterOptions, res *Resumed) (*ending, error) {
	if opt.Recovery != nil {
		a, err := recoverAttempt(t, info.RootID, *opt.Recovery)
		if err != nil {
			return nil, err
		}
		if a.Resolution == RecoveredAbort {
			return endedBy(t, info, a.RunID, trace.Denied)
		}
	}
	if end, err := inDoubt(t, info, res); end != nil || err != nil {
		return end, err
	}
	end, err := decide(t, info, opt)
	if end != nil || err != nil {
		return end, err
	}
	return waits(t, info)
}

// inDoubt parks a run with a call that was started and whose end is unknown.
func inDoubt(t *txn, info RunInfo, res *Resumed) (*ending, error) {
	open, err := list(&t.query, openInTree, []any{info.RootID}, scanAttempt)
	if err != nil || len(open) == 0 {
		return nil, err
	}
	res.Attempts = open
	o := trace.Outcome{Kind: trace.AwaitingRecovery, Steps: info.LastStep, AttemptID: open[0].ID}
	asked := info.Status == trace.StatusPaused && info.Outcome.Kind != trace.AwaitingRecovery
	if asked || info.Outcome.Kind.Final() {
		return &ending{outcome: &o}, nil // what a person was asked, or how it ended, stays on record
	}
	if _, err := endRun(t, info.ID, o, ""); err != nil {
		return nil, err
	}
	return &ending{outcome: &o, written: info.Outcome != o}, nil
}

// decide applies the decision that came with the call, if any, by
// compare-and-swap: somebody else may have decided meanwhile.
func decide(t *txn, info RunInfo, opt EnterOptions) (*ending, error) {
	switch {
	case opt.Decision != nil:
		return decideRequest(t, info, *opt.Decision)
	case opt.Answer != nil:
		return nil, answerOf(t, info, *opt.Answer)
	case opt.Verdict != nil:
		return decidePlanOf(t, info, *opt.Verdict)
	}
	return nil, nil
}

func decideRequest(t *txn, info RunInfo, dec ApprovalDecision) (*ending, error) {
	p, err := approvalByID(&t.query, dec.ID)
	if err != nil {
		if isNotFound(err) {
			return nil, &ResumeError{RunID: info.ID, Reason: NoSuchRequest, Detail: fmt.Sprintf("there is no request %d", dec.ID)}
		}
		return nil, err
	}
	if err := sameTree(t, info, p.RunID, RequestOfOtherRun, "request", int64(dec.ID)); err != nil {
		return nil, err
	}
	if dec.By == "" {
		dec.By = "resumed"
	}
	won, err := resolveApproval(t, dec)
	if err != nil {
		return nil, err
	}
	if !won {
		return nil, &ResumeError{RunID: info.ID, Reason: AlreadyDecided, Detail: fmt.Sprintf("request %d was decided: %s", dec.ID, p.Verdict)}
	}
	if dec.Verdict != Deny {
		return nil, nil
	}
	return denied(t, info, p, "resumed:"+p.ID.String())
}

// denied ends a run because a person said no to what it waited for.
func denied(t *txn, info RunInfo, p PendingApproval, source string) (*ending, error) {
	ev := PolicyEvent{Step: p.Step, Kind: PolicyDecision, Act: p.Act, Target: p.Target, Rule: p.Rule, Layer: p.Layer,
		Decision: string(Deny), Source: source, RequestID: p.ID}
	if err := ev.insert(t, p.RunID); err != nil {
		return nil, err
	}
	return endedBy(t, info, p.RunID, trace.Denied)
}

func answerOf(t *txn, info RunInfo, a Answer) error {
	p, err := questionByID(&t.query, a.ID)
	if err != nil {
		return withRun(err, info.ID)
	}
	if err := sameTree(t, info, p.RunID, QuestionOfOtherRun, "question", int64(a.ID)); err != nil {
		return err
	}
	if a.By == "" {
		a.By = "human"
	}
	n, err := t.exec(answerQuestion, cleanText(a.Text), rawJSON(a.Answers), null(a.By), t.now, a.ID)
	if err == nil && n != 1 {
		return &ResumeError{RunID: info.ID, Reason: AlreadyAnswered, Detail: fmt.Sprintf("question %d was answered by %s", a.ID, p.AnsweredBy)}
	}
	return err
}

func decidePlanOf(t *txn, info RunInfo, dec PlanDecision) (*ending, error) {
	p, err := planByID(&t.query, dec.ID)
	if err != nil {
		return nil, withRun(err, info.ID)
	}
	if err := sameTree(t, info, p.RunID, PlanOfOtherRun, "plan", int64(dec.ID)); err != nil {
		return nil, err
	}
	if dec.By == "" {
		dec.By = "human"
	}
	won, err := resolvePlan(t, dec)
	if err != nil {
		return nil, err
	}
	if !won {
		return nil, &ResumeError{RunID: info.ID, Reason: AlreadyDecided, Detail: fmt.Sprintf("plan %d was decided: %s", dec.ID, p.Verdict)}
	}
	if dec.Verdict != PlanCancel {
		return nil, nil
	}
	return endedBy(t, info, p.RunID, trace.PlanRejected)
}

// waits reports that a person has not decided yet. A decision that was made
// meanwhile is applied as if it had come with the call.
func waits(t *txn, info RunInfo) (*ending, error) {
	same := info.Outcome
	switch info.Outcome.Kind {
	case trace.AwaitingApproval:
		p, err := approvalByID(&t.query, info.Outcome.RequestID)
		switch {
		case isNotFound(err):
			return nil, nil
		case err != nil:
			return nil, err
		case p.Verdict == Undecided:
			return &ending{outcome: &same}, nil
		case p.Verdict == Deny:
			return denied(t, info, p, p.DecidedBy)
		}
	case trace.AwaitingAnswer:
		p, err := questionByID(&t.query, info.Outcome.QuestionID)
		switch {
		case isResume(err):
			return nil, nil
		case err != nil:
			return nil, err
		case !p.Answered():
			return &ending{outcome: &same}, nil
		}
	case trace.AwaitingPlan:
		p, err := planByID(&t.query, info.Outcome.PlanID)
		switch {
		case isResume(err):
			return nil, nil
		case err != nil:
			return nil, err
		case p.Verdict == PlanUndecided:
			return &ending{outcome: &same}, nil
		case p.Verdict == PlanCancel:
			return endedBy(t, info, p.RunID, trace.PlanRejected)
		}
	}
	return nil, nil
}

// sameTree refuses a decision about something that another tree waits for.
func sameTree(t *txn, info RunInfo, owner trace.RunID, reason ResumeReason, what string, id int64) error {
	root, err := rootRun(&t.query, owner)
	if err != nil || root == info.RootID {
		return err
	}
	return &ResumeError{RunID: info.ID, Reason: reason, Detail: fmt.Sprintf("%s %d belongs to run %d", what, id, owner)}
}
