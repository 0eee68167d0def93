package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/memory"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// Resumption is what a caller states when a run is taken up again. The zero
// value resumes under the policy and the contract that the run was last driven
// under.
type Resumption struct {
	// Defaults gives what no store can hold: the tools. Its bounds are used only
	// for a run whose contract was not recorded.
	Defaults task.Contract
	// Contract replaces the recorded one; its Goal and Root are the run's.
	Contract *task.Contract
	// Policy replaces the recorded one.
	Policy *policy.Policy
	// ToolMask replaces that of the contract for this drive; nil leaves it.
	ToolMask []string

	// At most one of these is set: what the run waits for.
	Decision *Decision
	Answer   *Answer
	Verdict  *Verdict
	Recovery *store.RecoveryDecision
}

// Decision decides what a run waits for.
type Decision struct {
	ID       trace.RequestID
	Decision approve.Decision
}

// Resume drives run id from its last committed step, or reports how it ended. A
// run that somebody else drives, that cannot be resumed, or that is given a
// decision that does not fit is left exactly as it was.
func Resume(ctx context.Context, h Host, id trace.RunID, r Resumption) (res *trace.Result, err error) {
	h = h.withDefaults()
	var d *drive
	defer func() { d.survive(h, recover(), &res, &err) }()
	if d, res, err = r.take(ctx, h, id); d == nil {
		return res, err
	}
	defer d.close()
	return d.drive(ctx)
}

// take enters the run and makes its drive again. A nil drive comes with what
// there is to report instead.
func (r Resumption) take(ctx context.Context, h Host, id trace.RunID) (*drive, *trace.Result, error) {
	res := &trace.Result{RunID: id}
	if h.Provider == nil || isNil(h.Provider) || h.Store == nil {
		return nil, res, h.Validate()
	}
	opts, err := r.enter(ctx, h, id)
	if err != nil {
		return nil, res, err
	}
	if err := r.tryOut(ctx, h, id, &opts); err != nil {
		return nil, res, err
	}
	lease, left, err := h.Store.EnterDrive(ctx, id, opts)
	if err != nil {
		var refused *store.ResumeError
		if errors.As(err, &refused) && refused.Reason == store.UnfinishedReply {
			res.Undelivered = handBackAll(ctx, h, id) // it can never be driven again
		}
		return nil, res, err
	}
	if lease == nil {
		res, err := r.report(ctx, h, id, left)
		return nil, res, err
	}
	d, err := r.rebuild(ctx, h, left)
	if err == nil {
		d.hold(lease)
		if err = d.restore(ctx, left); err == nil {
			return d, res, nil
		}
		d.close()
	}
	return nil, res, errors.Join(err, lease.Release(context.WithoutCancel(ctx)))
}

// tryOut makes the drive of a resume that changes something, and throws it away:
// entering the run takes the caller's word and ends what was recorded of its end,
// which must not happen for a drive that cannot begin. What only reports, or gives
// the run up, needs no drive.
//
// It adds to opts what the drive makes of the contract: how long a crashed driver
// keeps the run, and one that was stated, which holds for every later resume too.
func (r Resumption) tryOut(ctx context.Context, h Host, id trace.RunID, opts *store.EnterOptions) error {
	if !r.drivesOn() {
		return nil
	}
	info, err := h.Store.Run(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil // entering it says so
	}
	if err != nil || info.Outcome.Kind.Final() {
		return err
	}
	needed, err := goesOn(ctx, h.Store, info)
	if err != nil {
		return err
	}
	needed = needed || r.saysAnything()
	if !needed && r.Contract == nil {
		return nil
	}
	left := &store.Resumed{Info: info}
	if left.Policy, err = h.Store.RunPolicy(ctx, id); err != nil {
		return err
	}
	if left.Contract, err = h.Store.RunContract(ctx, id); err != nil {
		return err
	}
	d, err := r.rebuild(ctx, h, left)
	switch {
	case err != nil && !needed:
		return nil // the run waits, and that is all there is to say
	case err != nil:
		return err
	}
	defer d.close()
	opts.LeaseTTL = d.contract.Lease()
	if r.Contract == nil {
		return nil
	}
	stated := d.contract // with the fingerprints of its criterion
	if r.ToolMask != nil {
		stated.ToolMask = r.Contract.ToolMask // the other one is for this drive
	}
	opts.Contract, err = stated.Marshal()
	return err
}

// saysAnything reports whether the resume is more than a wish to see it go on.
func (r Resumption) saysAnything() bool {
	return r.Decision != nil || r.Answer != nil || r.Verdict != nil || r.Recovery != nil
}

// goesOn reports whether a run that waits for a person has been told to go on, by
// another process. A run that waits for nobody goes on.
func goesOn(ctx context.Context, st *store.Store, info store.RunInfo) (bool, error) {
	switch info.Outcome.Kind {
	case trace.AwaitingApproval:
		p, err := st.Pending(ctx, info.Outcome.RequestID)
		return p.Verdict == store.Approve, unlessAbsent(err)
	case trace.AwaitingAnswer:
		p, err := st.Question(ctx, info.Outcome.QuestionID)
		return p.Answered(), unlessAbsent(err)
	case trace.AwaitingPlan:
		p, err := st.Plan(ctx, info.Outcome.PlanID)
		return p.Verdict != store.PlanUndecided && p.Verdict != store.PlanCancel, unlessAbsent(err)
	case trace.AwaitingRecovery:
		open, err := st.OpenAttempts(ctx, info.ID)
		return len(open) == 0, err
	}
	return true, nil
}

func unlessAbsent(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil // entering the run says what is amiss
	}
	return err
}

// drivesOn reports whether a drive follows from what the resume says.
func (r Resumption) drivesOn() bool {
	switch {
	case r.Decision != nil:
		return r.Decision.Decision.Kind == approve.DecisionApprove
	case r.Verdict != nil:
		return r.Verdict.Verdict.Kind != approve.VerdictCancel && r.Verdict.Verdict.Decided()
	case r.Recovery != nil:
		return r.Recovery.Verdict != store.RecoveredAbort
	}
	return true
}

// enter is what the store is told of a resume.
func (r Resumption) enter(ctx context.Context, h Host, id trace.RunID) (store.EnterOptions, error) {
	opts := store.EnterOptions{Provider: h.Provider.Name(), LeaseTTL: r.Defaults.Lease(), Recovery: r.Recovery}
	if r.Contract != nil {
		opts.LeaseTTL = r.Contract.Lease()
	}
	if r.Policy != nil {
		if err := r.Policy.Validate(); err != nil {
			return opts, &task.InvalidError{Field: "Policy", Reason: err.Error(), Err: err}
		}
		raw, err := json.Marshal(*r.Policy)
		if err != nil {
			return opts, fmt.Errorf("policy cannot be stored: %w", err)
		}
		opts.Policy = raw
	}
	return opts, r.say(ctx, h, id, &opts)
}

// say adds to opts what a person says with the resume.
func (r Resumption) say(ctx context.Context, h Host, id trace.RunID, opts *store.EnterOptions) (err error) {
	said := 0
	for _, one := range []bool{r.Decision != nil, r.Answer != nil, r.Verdict != nil, r.Recovery != nil} {
		if one {
			said++
		}
	}
	switch {
	case said > 1:
		return &task.InvalidError{Field: "resume", Reason: "more than one decision is given: a run waits for one thing at a time"}
	case r.Decision != nil:
		opts.Decision, err = r.Decision.forStore(ctx, h.Store)
	case r.Answer != nil:
		opts.Answer, err = r.Answer.forStore(ctx, h.Store, id)
	case r.Verdict != nil && r.Verdict.Verdict.Decided():
		v := planDecision(r.Verdict.ID, r.Verdict.Verdict, "")
		opts.Verdict = &v
	}
	return err
}

// forStore is the decision as the store takes it, and nil for one that decides
// nothing. It fails with an *approve.RewriteError, or a *task.InvalidError, when
// the act cannot be changed as the decision says.
func (d Decision) forStore(ctx context.Context, st *store.Store) (*store.ApprovalDecision, error) {
	out := &store.ApprovalDecision{ID: d.ID}
	switch d.Decision.Kind {
	case approve.DecisionApprove:
		out.Verdict = store.Approve
	case approve.DecisionDeny:
		out.Verdict, out.Reason = store.Deny, clean(d.Decision.Reason)
		return out, nil
	default:
		return nil, nil // a second deferral decides nothing: the run still waits
	}
	if err := d.Decision.CheckRemember(); err != nil {
		return nil, &task.InvalidError{Field: "decision", Reason: err.Error(), Err: err}
	}
	change, err := d.change(ctx, st)
	if err != nil {
		return nil, err
	}
	if out.Modified, err = jsonOf(change); err != nil {
		return nil, err
	}
	out.Remember, err = jsonOf(d.Decision.Remember)
	return out, err
}

// change is what the decision makes of the act, nil for what was asked. It fails
// with what cannot be done: what is done must be what was approved.
func (d Decision) change(ctx context.Context, st *store.Store) (*approve.Modified, error) {
	if d.Decision.Modified == nil {
		return nil, nil
	}
	row, err := st.Pending(ctx, d.ID)
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil // entering the run says so better
		}
		return nil, err
	}
	req := approve.Request{Act: policy.Act(row.Act), Target: row.Target, Content: row.Content}
	m := realChange(req, d.Decision.Modified)
	if err := req.CheckModified(m); err != nil {
		return nil, err
	}
	if why := rewriteFault(row.Tool, row.Arguments, req, m); why != "" {
		return nil, &task.InvalidError{Field: "decision", Reason: why}
	}
	return m, nil
}

// DecideFrom decides a request of a run that another process drives, and reports
// whether this is the decision that counts. It cannot defer. The caller has made
// sure that the request is one of the run's.
func DecideFrom(ctx context.Context, st *store.Store, d Decision, by string) (bool, error) {
	out, err := d.forStore(ctx, st)
	if err != nil {
		return false, err
	}
	if out == nil {
		return false, &task.InvalidError{Field: "decision", Reason: "defers: from another process a request is approved or denied, and until then it waits"}
	}
	out.By = by
	return st.ResolvePending(ctx, *out)
}

// report is the result of a run that is not driven: it ended, or it waits.
func (r Resumption) report(ctx context.Context, h Host, id trace.RunID, left *store.Resumed) (*trace.Result, error) {
	res := &trace.Result{RunID: id, Outcome: *left.Outcome, Unmetered: left.Unmetered}
	if left.Outcome.Kind.Final() {
		res.Undelivered = handBackAll(ctx, h, id) // of an owner that died behind the end
	}
	if k := left.Outcome.Kind; k == trace.Success || k == trace.Finished {
		var err error
		if res.Reply, err = recordedReply(ctx, h.Store, id, left.LastStep); err != nil {
			return res, err
		}
		if left.LastStep == 0 { // a turn that was answered has no step to say it
			turn, err := h.Store.TurnForRun(ctx, id)
			if err != nil {
				return res, err
			}
			if turn != nil {
				res.Reply = turn.Reply
			}
		}
		out, err := h.Store.RunOutput(ctx, id)
		if err != nil {
			return res, err
		}
		if out != nil && out.Valid {
			res.Output = out.Value
		}
	}
	watch := trace.NewWatch(h.Observer, h.Log)
	emit := func(f trace.Fact) {
		watch.Emit(trace.Event{RunID: id, Step: left.Outcome.Steps, Depth: left.Info.Depth, Fact: f})
	}
	if len(left.Attempts) > 0 {
		emit(trace.RecoveryPaused{AttemptID: left.Attempts[0].ID, Tool: left.Attempts[0].Tool})
		return res, nil
	}
	if left.Written {
		emit(trace.Started{Goal: left.Info.Goal, Provider: h.Provider.Name()})
		if err := r.tellSettled(ctx, h.Store, left.Info.Outcome, emit); err != nil {
			return res, err
		}
		emit(trace.Ended{Outcome: left.Outcome.Kind, Steps: left.Outcome.Steps, Tokens: left.Info.Tokens})
	}
	return res, nil
}

// tellSettled tells of the word by which a person ended a run: the one given with
// the resume, or one that another process took while the run waited.
func (r Resumption) tellSettled(ctx context.Context, st *store.Store, was trace.Outcome, emit func(trace.Fact)) error {
	request, plan := was.RequestID, was.PlanID
	if r.Decision != nil {
		request = r.Decision.ID
	}
	if r.Verdict != nil {
		plan = r.Verdict.ID
	}
	switch {
	case request != 0:
		row, err := st.Pending(ctx, request)
		if err != nil {
			return unlessAbsent(err)
		}
		emit(trace.ApprovalDecided{Act: row.Act, Target: row.Target, Decision: string(row.Verdict)})
	case plan != 0:
		row, err := st.Plan(ctx, plan)
		if err != nil {
			return unlessAbsent(err)
		}
		emit(trace.PlanDecided{PlanID: row.ID, Verdict: string(row.Verdict), By: row.DecidedBy})
	}
	return nil
}

// rebuild makes the drive of a run again from what was recorded of it.
func (r Resumption) rebuild(ctx context.Context, h Host, left *store.Resumed) (*drive, error) {
	goal := left.Info.Goal
	if goal == "" && left.Info.Archived {
		goal = prompt.ArchivedGoal
		if r.Contract != nil && strings.TrimSpace(r.Contract.Goal) != "" {
			goal = r.Contract.Goal // whoever states the contract may know it
		}
	}
	c := r.Defaults
	c.Goal, c.Root = goal, left.Info.Root
	var recorded task.Contract
	var unreadable error
	if len(left.Contract) > 0 {
		recorded, unreadable = c.Restore(left.Contract)
	}
	stated := r.Defaults.Verify
	switch {
	case r.Contract != nil:
		c = *r.Contract
		c.Goal, c.Root = goal, left.Info.Root
		stated = c.Verify
	case unreadable != nil:
		return nil, &store.ResumeError{RunID: left.Info.ID, Reason: store.UnreadableContract, Detail: unreadable.Error()}
	case len(left.Contract) > 0:
		c = recorded
	}
	// The same criterion goes on with the fingerprints of the run's start, and gets
	// back from the caller what no store can hold.
	whole, same := verify.WithPins(stated, recorded.Verify)
	if same {
		c.Verify = whole
	}
	if r.ToolMask != nil {
		c.ToolMask = r.ToolMask
	}
	c = c.Clone()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	switch {
	case r.Policy != nil:
		h.Policy = *r.Policy
	case len(left.Policy) == 0:
		return nil, &store.ResumeError{RunID: left.Info.ID, Reason: store.NoRecordedPolicy, Detail: "no policy was recorded with the run: state one"}
	default:
		if err := json.Unmarshal(left.Policy, &h.Policy); err != nil {
			return nil, &store.ResumeError{RunID: left.Info.ID, Reason: store.UnreadablePolicy, Detail: err.Error()}
		}
	}
	d, err := newDrive(ctx, h, c)
	if err == nil {
		d.otherGate = r.Contract != nil && !same
	}
	return d, err
}

// restore puts the drive where the run stands: what it observed, what it spent,
// what it was permitted, and what is still to be done of the last step.
func (d *drive) restore(ctx context.Context, left *store.Resumed) error {
	stored := make([]trace.Observation, len(left.Observations))
	for i, o := range left.Observations {
		stored[i] = o.Observation
	}
	for _, t := range left.Turns {
		d.turns[t.Step] = t
	}
	d.reply = replyOf(d.turns, left.LastStep, stored)
	d.resumed, d.archived = true, left.Info.Archived
	d.last, d.spent = left.LastStep, left.SpentTokens
	d.restoreFold(stored, left.Summaries)
	d.rec.unmetered.Store(left.Unmetered)
	d.lost = max(0, left.CalledTokens-left.SpentTokens-d.owed)
	d.about = memory.WordsOf(d.contract.Goal)
	for _, subject := range prompt.Subjects(stored) {
		d.about.Add(subject)
	}
	d.aboutAll = d.ledger.Stored()
	d.classes = d.lease.TurnID != 0
	// A turn that was found to be work before it died asks again as it asked the
	// first time; that it is work is settled.
	d.classifies, d.settled = d.classes && d.contract.Answers(), true
	d.due, d.saidBefore, d.accounts, d.writes = left.Approved, saidByPeople(left.Decided), left.Accounts, left.Writes
	d.discardLeftovers()
	if err := d.restoreBegun(ctx); err != nil {
		return err
	}
	d.answers, d.verdicts = left.Answers, left.Verdicts
	if err := d.adoptHandles(ctx, left.Orphans); err != nil {
		return err
	}
	if err := d.restoreGuarded(ctx); err != nil {
		return err
	}
	plans, err := d.store.Plans(ctx, d.runID())
	if err != nil {
		return err
	}
	d.beginPlanning(left.ApprovedPlan, len(plans) > 0)
	questions, err := d.store.Questions(ctx, d.runID())
	if err != nil {
		return err
	}
	d.askedBefore = slices.ContainsFunc(questions, store.PendingQuestion.Open) ||
		slices.ContainsFunc(plans, func(p store.PendingPlan) bool { return p.DecidedAt.IsZero() })
	if err := d.restoreKnowledge(ctx, stored); err != nil {
		return err
	}
	approvals, err := d.store.Approvals(ctx, d.runID())
	if err != nil {
		return err
	}
	for _, a := range approvals {
		if a.Verdict == store.Undecided && (a.Step > d.last || a.Step == 0 || d.asksMore(a)) {
			d.leftOpen = append(d.leftOpen, a)
		}
		if a.Verdict == store.Deny && a.Step <= d.last && d.asksMore(a) {
			d.saidBefore = append(d.saidBefore, saidByPeople([]store.PendingApproval{a})...)
		}
		if a.Verdict == store.Approve {
			if err := d.rememberRow(a); err != nil {
				return err
			}
			if asksOfProvider(a) {
				d.granted[a.Target] = true
			}
		}
	}
	return errors.Join(d.restoreGate(ctx, stored), d.restoreOutput(ctx), d.restoreRoute(ctx))
}

// restoreKnowledge tells the workspace which files the run had seen: what it read
// and what it wrote, in the order of the steps.
func (d *drive) restoreKnowledge(ctx context.Context, ledger []trace.Observation) error {
	writes, err := d.store.WriteIntents(ctx, d.runID())
	if err != nil {
		return err
	}
	for _, o := range ledger {
		for len(writes) > 0 && writes[0].Step < o.Step {
			d.knows(writes[0])
			writes = writes[1:]
		}
		if o.Kind == trace.ObsRead && o.Digest != "" {
			d.workspace.Knows(o.Target, o.Digest)
		}
	}
	for _, w := range writes {
		if w.Step <= d.last {
			d.knows(w)
		}
	}
	return nil
}

func (d *drive) knows(w store.WriteIntent) {
	if d.isDue(w.Step, w.CallIndex) {
		return // it may not have come to be
	}
	if w.Known && w.After != "" {
		d.workspace.Knows(w.Path, w.After)
	}
}

// restoreGate finds the last verdicts, so that none is asked for or told twice,
// and none is left without its consequence: a process can die between the record
// of a verdict and what follows from it. What another criterion said of the last
// step is no verdict of the one that judges now.
func (d *drive) restoreGate(ctx context.Context, ledger []trace.Observation) error {
	if d.criterion == nil {
		return nil
	}
	attempts, other, err := d.judgements(ctx)
	if err != nil {
		return err
	}
	var failed *store.GateAttempt
	for i, a := range attempts {
		if a.Phase == string(verify.PhaseOutput) || a.Outcome == store.GateErrored {
			continue
		}
		if !other(a) {
			d.shape.closing = a.Outcome == store.GatePassed && a.Step < d.last && d.contract.Output != nil
			if a.Step == d.last {
				d.verdict = a.Outcome
			}
		}
		if a.Outcome == store.GateFailed {
			failed, d.gateFailed = &attempts[i], true
		}
	}
	if failed == nil {
		return nil
	}
	events, err := store.Collect(d.store.SandboxEvents(ctx, d.runID()))
	if err != nil {
		return err
	}
	phase := verify.Phase(failed.Phase)
	v := verify.Verdict{Phase: phase, Detail: failed.Detail, TellModel: verify.TellsModel(d.criterion, phase)}
	for _, e := range events {
		if e.Kind == "gate_output" && e.Step == failed.Step {
			v.Output = e.Detail
		}
	}
	feedback := v.Feedback()
	told := slices.ContainsFunc(ledger, func(o trace.Observation) bool {
		return o.Kind == trace.ObsMessage && o.Text == prompt.GateFailed(feedback)
	})
	switch {
	case told:
		d.told = feedback
	case failed.Step == d.last && !other(*failed):
		d.untold = feedback
	}
	return nil
}
