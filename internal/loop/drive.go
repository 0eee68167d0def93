package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/builtin"
	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/memory"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/toolchain"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
	"github.com/initorigin/io-harness-go/workspace"
)

// errTimeBudget is the cause of a drive's context when the run's time is over.
var errTimeBudget = errors.New("the run's time budget is used up")

// Turn is what a session adds to a run.
type Turn struct {
	Session trace.SessionID
	Parent  trace.TurnID
	Seed    []trace.Observation // the conversation so far
}

// drive is one period in which this process drives one run, from the moment it
// holds the lease. Nothing in it is shared with another drive.
type drive struct {
	// Fixed when the drive begins.
	host       Host
	log        *slog.Logger
	store      *store.Store
	lease      *store.Drive
	rec        *recorder
	watch      *trace.Watch
	contract   task.Contract
	criterion  verify.Criterion
	base       policy.Policy // as the caller gave it
	workspace  *workspace.Workspace
	toolchain  toolchain.Toolchain
	project    string
	profile    sandbox.Profile
	removeTemp func() error
	offLimits  []string // files of the store in the workspace, relative to it
	narrowed   sync.Map // keys of calls whose narrower boundary was told
	rungs      rungs
	withheld   atomic.Int64 // commands in a row that the host could not contain as required
	guarded    guarded
	hidden     hidden // from its commands
	egress     egress
	handles    *builtin.Handles
	catalogue  *catalogue
	startedAt  time.Time // of the run, not of this drive
	concluded  bool      // the drive ended in order
	classes    bool      // a turn of a session: it streams, and has a kind

	// The state of the run.
	policy        policy.Policy // base, with what an approver asked to remember
	remembered    []policy.Rule
	planning      bool   // a plan must be approved first
	system        string // in force: while planning another than workSystem
	workSystem    string
	openingSystem string
	classifies    bool // the first completion may be the whole answer
	ledger        *prompt.Log
	guard         prompt.PrefixGuard
	turns         map[int]trace.AssistantTurn
	last          int // the last committed step
	spent         int64
	lost          int64 // tokens of completions whose step never came to be: they count against the budget
	entryCap      int
	foldNow       bool
	resumed       bool
	archived      bool            // since it was started: words that it went by may be gone
	selected      sandbox.Applied // how commands are contained
	unheard       []store.Said    // what an operator said to an earlier drive, until it is heard
	about         memory.Words    // what the run has named so far
	aboutAll      int             // observations that about has all names of
	words         memory.Cache
	notes         *store.Notes         // read with the commit of the last step, for the next one
	evidence      map[string]*evidence // by scope of notes
	looks         looks
	foldAgain     int // tokens of the ledger under which a fruitless fold is not tried again
	stall         *stall
	media         []provider.Media
	told          string // the last verdict of the gate that the model was told
	gateFailed    bool
	reviewed      map[string]bool // verdicts of reviewers on the workspace as it is, by their rubric
	commanded     atomic.Bool     // a command of the step in progress may have changed the workspace
	shape         answerShape
	durable       []trace.Fact // told when what they tell of is durable
	owed          int64        // tokens of approvers, and of a fold whose step died, drawn with the next step
	reply         string
	route         route
	granted       map[string]bool          // hosts of the provider that a person agreed to
	settled       bool                     // whether this turn is work has been decided
	verdict       store.GateOutcome        // of the gate on the last committed step, as a dead drive left it
	otherGate     bool                     // the resume states another criterion than the one that judged so far
	untold        string                   // a verdict that it did not come to tell
	due           []store.PendingApproval  // approved, and not yet carried out
	saidBefore    []store.PendingApproval  // decided about calls of the step to come, before a crash
	begunBefore   map[trace.RequestID]bool // approved calls of the step to come that had begun before a crash
	leftOpen      []store.PendingApproval  // put by a dead drive for the step to come, or for the provider's host, and not decided
	askedBefore   bool                     // a dead drive left questions or plans open
	accounts      []store.Attempt          // calls of the step to come that are known to have ended
	writes        []store.WriteIntent      // changes that the step to come made before a crash
	announced     atomic.Int64             // changes that this drive has announced
	answers       []store.PendingQuestion  // given, and never told
	verdicts      []store.PendingPlan      // likewise
	orphans       []store.ProcessHandle    // handles that were lost with an earlier process
}

// Run drives a new run of c to an outcome. turn is nil for a one-shot task.
//
// The result has the run's id as soon as the run has a row, also beside an
// error. An error means that the drive could not go on; unless the result says
// otherwise the run is resumable from its last committed step.
func Run(ctx context.Context, h Host, c task.Contract, turn *Turn) (res *trace.Result, err error) {
	h = h.withDefaults()
	var d *drive
	defer func() { d.survive(h, recover(), &res, &err) }()
	if err := h.Validate(); err != nil {
		return &trace.Result{}, err
	}
	c = c.Clone()
	if err := c.Validate(); err != nil {
		return &trace.Result{}, err
	}
	if d, err = newDrive(ctx, h, c); err != nil {
		return &trace.Result{}, err
	}
	defer d.close()
	if d.dialsFreely() {
		// What the policy refuses is asked again below, where it leaves a row.
		if err := d.requirePrimary(ctx); err != nil && !errors.Is(err, policy.ErrRefused) {
			return &trace.Result{}, err
		}
	}
	if err := d.start(ctx, turn); err != nil {
		return &trace.Result{}, err
	}
	return d.drive(ctx)
}

// newDrive prepares everything that needs no row: the workspace, the toolchain,
// the boundary of commands, the tools and the gate. A contract that can never
// work fails here, before anything is written or billed.
func newDrive(ctx context.Context, h Host, c task.Contract) (*drive, error) {
	if err := h.checkMask(c); err != nil {
		return nil, err
	}
	root, err := filepath.Abs(c.Root)
	if err != nil {
		return nil, &task.InvalidError{Field: "Root", Reason: err.Error(), Err: err}
	}
	c.Root = root
	if err := builtin.Identity(c.Identity).Validate(); err != nil {
		return nil, &task.InvalidError{Field: "Identity", Reason: err.Error(), Err: err}
	}
	ws, err := workspace.Open(root, h.Policy)
	if err != nil {
		return nil, &task.InvalidError{Field: "Root", Reason: err.Error(), Err: err}
	}
	d := &drive{
		host: h, log: h.Log, store: h.Store, contract: c, base: h.Policy, policy: h.Policy, workspace: ws.WithJournal(nil),
		watch: trace.NewWatch(h.Observer, h.Log), turns: map[int]trace.AssistantTurn{}, stall: newStall(c.Stall),
		ledger: prompt.NewLog(nil, nil), granted: map[string]bool{}, reviewed: map[string]bool{}, foldNow: h.FoldNow,
	}
	if err := d.prepareCommands(ctx); err != nil {
		d.close()
		return nil, err
	}
	d.handles = builtin.NewHandles(handleJournal{d}, c.KillGrace)
	d.catalogue = newCatalogue(d.libraryTools(), c.Tools)
	if d.criterion, err = verify.Prepare(ctx, c.Verify, d.gateEnv(0)); err != nil {
		d.close()
		return nil, &task.InvalidError{Field: "Verify", Reason: err.Error(), Err: err}
	}
	d.contract.Verify = d.criterion
	if len(c.Images) > 0 && !provider.AcceptsImages(h.Provider) {
		d.close()
		return nil, &task.InvalidError{Field: "Images", Reason: fmt.Sprintf("%s takes none: ask a provider that does, or send none", h.Provider.Name())}
	}
	if err := verify.Preflight(d.criterion, d.gateEnv(0), d.models()); err != nil {
		d.close()
		return nil, &task.InvalidError{Field: "Verify", Reason: err.Error(), Err: err}
	}
	if err := approve.CheckSelfApproval(h.Approver, d.models()...); err != nil {
		d.close()
		return nil, &task.InvalidError{Field: "Approver", Reason: err.Error(), Err: err}
	}
	return d, nil
}

// models are the models that the run may write with, as far as they are named:
// the provider's own, the contract's and those of its routing, each at every
// provider that may be asked for it.
func (d *drive) models() (names []string) {
	for _, asked := range append(d.contract.Routing.Models(), "", d.contract.Model) {
		names = append(names, provider.ModelNames(d.host.Provider, asked)...)
	}
	return names
}

// close gives back what newDrive opened. Nothing of the run is left to end here
// unless the drive panicked or never began.
func (d *drive) close() {
	if err := d.endCommands(context.Background()); err != nil {
		d.log.Error("the end of the run's commands could not be recorded", "root", d.workspace.Root(), "error", err)
	}
	if d.lease != nil && !d.concluded {
		if err := d.lease.Release(context.Background()); err != nil {
			d.log.Warn("the run's lease could not be released and lapses by itself", "run", d.runID(), "error", err)
		}
	}
	if d.profile.Temp != "" {
		if err := d.removeTemp(); err != nil {
			d.log.Warn("the run's temporary directory could not be removed", "dir", d.profile.Temp, "error", err)
		}
	}
	if err := d.workspace.Close(); err != nil {
		d.log.Warn("the workspace could not be closed", "root", d.workspace.Root(), "error", err)
	}
}

// start writes the row of a new run and takes its lease.
func (d *drive) start(ctx context.Context, turn *Turn) error {
	pol, err := json.Marshal(d.base)
	if err != nil {
		return fmt.Errorf("policy cannot be stored: %w", err)
	}
	contract, err := d.contract.Marshal()
	if err != nil {
		return err
	}
	s := store.RunStart{
		Goal: d.contract.Goal, Root: d.contract.Root, Provider: d.host.Provider.Name(), Policy: pol, Contract: contract,
		LeaseTTL: d.contract.Lease(),
	}
	if turn != nil {
		d.classes, d.classifies = true, d.contract.Answers()
		s.Turn = &store.TurnStart{Session: turn.Session, Parent: turn.Parent, Prompt: d.contract.Goal}
		s.Seed = turn.Seed
		s.Kind = store.KindRun
		if d.classifies {
			s.Kind = store.KindReply
		}
		d.ledger.Add(turn.Seed...)
		d.ledger.Committed()
	}
	d.foldNow = d.foldNow || d.contract.Compaction.Now // here, so that no resume folds again
	lease, err := d.store.StartRun(ctx, s)
	if err != nil {
		return err
	}
	d.hold(lease)
	d.beginPlanning(nil, false)
	return nil
}

// hold binds the drive to its lease.
func (d *drive) hold(lease *store.Drive) {
	d.lease = lease
	d.startedAt = lease.RunStarted
	d.rec = &recorder{lease: lease, provider: d.host.Provider.Name()}
	d.setPolicy()
}

func (d *drive) runID() trace.RunID { return d.lease.RunID }

func (d *drive) now() time.Time { return d.host.Clock() }

// elapsed is the wall clock since the run's first start. A clock that was set
// back counts as standing still.
func (d *drive) elapsed() time.Duration { return max(d.now().Sub(d.startedAt), 0) }

func (d *drive) emit(step int, f trace.Fact) {
	d.watch.Emit(trace.Event{RunID: d.runID(), Step: step, Depth: d.lease.Depth, Fact: f})
}

// streams reports whether answers are passed on as they come.
func (d *drive) streams() bool {
	if d.host.Stream != nil {
		return d.classes && *d.host.Stream
	}
	return d.classes && d.watch.Watched()
}

// setPolicy puts the remembered rules, and the lock while a plan is pending, on
// top of the caller's policy, for everything that asks it.
func (d *drive) setPolicy() {
	d.policy = d.withoutStore(d.base.Remember(d.remembered...))
	if d.planning {
		d.policy = d.policy.PlanLock()
	}
	d.workspace = d.workspace.WithPolicy(d.policy)
}

// drive takes a run that this process holds to an outcome, or to an error that
// leaves it resumable.
func (d *drive) drive(ctx context.Context) (*trace.Result, error) {
	ctx, release := d.lease.Context(ctx)
	defer release()
	if err := d.listen(ctx); err != nil {
		return d.conclude(ctx, nil, err)
	}
	ctx, cancel := d.withDeadline(ctx)
	defer cancel()
	ctx, heedless := d.heed(ctx)
	defer heedless()
	d.emit(d.last, trace.Started{Goal: d.contract.Goal, Provider: d.host.Provider.Name()})
	d.tellOrphans()
	out, err := d.prologue(ctx)
	for err == nil && out == nil {
		out, err = d.step(ctx, d.last+1)
	}
	if err != nil && out == nil {
		err = endedBy(ctx, err)
	}
	return d.conclude(ctx, out, err)
}

// withDeadline bounds ctx by the end of the run's time.
func (d *drive) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	left, ok := d.timeLeft()
	if !ok {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, left, errTimeBudget)
}

// timeLeft is what the run still has of its time, and false when that has no bound. A
// clock that was set back gives it no more than it had at first.
func (d *drive) timeLeft() (time.Duration, bool) {
	bound := d.contract.Budget.Duration
	return bound - d.elapsed(), bound > 0
}

// prologue is what comes before the first completion of a drive. An outcome
// means that the run ended here.
func (d *drive) prologue(ctx context.Context) (*trace.Outcome, error) {
	if err := d.composeSystem(ctx); err != nil {
		return nil, err
	}
	if out, err := d.authorise(ctx); out != nil || err != nil {
		return out, err
	}
	if err := d.requirePrimary(ctx); err != nil {
		var invalid *task.InvalidError
		if !errors.As(err, &invalid) {
			return nil, err
		}
		out, failed := d.finish(ctx, trace.Outcome{Kind: trace.ConfigError, Steps: d.last})
		return out, errors.Join(err, failed)
	}
	d.warnOfGate()
	lost, err := d.lostImages(ctx)
	if err != nil {
		return nil, err
	}
	if out, err := d.catchUp(ctx); out != nil || err != nil {
		return out, err
	}
	if !d.classifies || d.settled { // a turn that may be a plain answer meets no gate yet
		if err := d.gateAdmissible(ctx); err != nil {
			return nil, err
		}
	}
	return nil, d.tellLostImages(ctx, lost)
}

// step is one pass of the loop: observe, reason, act, commit, check, stop.
func (d *drive) step(ctx context.Context, n int) (*trace.Outcome, error) {
	if past := n - d.contract.Budget.StepCap(); past > 1 || past == 1 && !d.shape.closing {
		return d.finish(ctx, trace.Outcome{Kind: d.capKind(), Steps: d.last})
	}
	st := &step{n: n}
	defer st.dropEarly()
	req, out, err := d.observe(ctx, st)
	if err != nil {
		return nil, err
	}
	if out != nil {
		return d.finish(ctx, *out)
	}
	if err := d.reason(ctx, st, req); err != nil {
		return nil, err
	}
	if d.opening(n) && !d.settled {
		if st.answered && d.conforms(st) {
			return d.answer(ctx, st)
		}
		if err := d.work(ctx); err != nil {
			return nil, err
		}
	}
	if st.stopped, err = d.stopsHere(ctx, st); err != nil {
		return nil, err
	}
	if !st.stopped {
		if err := d.act(ctx, st); err != nil {
			return nil, err
		}
	}
	d.settle(st)
	out = d.outcome(st)
	if err := d.commit(ctx, st, out); err != nil && !headConflict(err) {
		return nil, err // nothing of the step happened, its outcome least of all
	} else if err != nil || out != nil {
		return out, err
	}
	if err := d.boundaryLost(); err != nil {
		return nil, err
	}
	if d.planning { // there is no work to judge, and judging it may run commands
		return nil, nil
	}
	passed, err := d.check(ctx, st.n, st.answered)
	if err != nil || !passed {
		return nil, err
	}
	return d.passed(ctx)
}

// passed ends a run whose gate passed, unless the answer in the demanded shape is
// still missing: then one thing is left to ask for.
func (d *drive) passed(ctx context.Context) (*trace.Outcome, error) {
	if d.contract.Output == nil || d.shape.value != nil {
		return d.finish(ctx, trace.Outcome{Kind: trace.Success, Steps: d.last})
	}
	if d.shape.closing && d.last >= d.contract.Budget.StepCap() {
		return d.finish(ctx, trace.Outcome{Kind: trace.SchemaUnsatisfied, Steps: d.last})
	}
	d.shape.closing = true
	return nil, nil
}

// capKind is how a run ends that used up its steps: that a criterion judged and
// said no is a fact that a mere cap would hide.
func (d *drive) capKind() trace.OutcomeKind {
	switch {
	case d.shape.closing:
		return trace.SchemaUnsatisfied
	case d.gateFailed:
		return trace.VerificationFailed
	}
	return trace.StepCapReached
}

// conforms reports whether a first answer may be the whole turn: it has the shape
// that was demanded, or none was.
func (d *drive) conforms(st *step) bool {
	if d.contract.Output == nil {
		return true
	}
	value, bad := d.contract.Output.Check(st.response.Text)
	d.shape.value = value
	return bad == nil
}

// work corrects the kind of a turn whose first completion asked for something,
// before anything of it happens.
func (d *drive) work(ctx context.Context) error {
	d.recordContainment(d.selected)
	if err := d.store.SetTurnKind(ctx, d.lease, store.KindRun); err != nil {
		return err
	}
	return d.gateAdmissible(ctx)
}

// answer ends a turn that needed no work: one completion, and no step.
func (d *drive) answer(ctx context.Context, st *step) (*trace.Outcome, error) {
	d.spent += st.tokens
	if d.contract.Budget.TokensExceeded(d.spent + d.lost) {
		return d.finish(ctx, trace.Outcome{Kind: trace.CostBudgetExceeded})
	}
	d.reply = st.response.Text
	if d.contract.Output != nil {
		d.acceptAnswer(st.n)
	}
	return d.finishWith(ctx, store.Finish{
		Outcome: trace.Outcome{Kind: trace.Finished}, Reply: d.reply, Output: d.output(trace.Finished), Reported: st.reported,
		Observations: []trace.Observation{prompt.Reply(st.response.Text, d.entryCap)},
	})
}

// settle adds to a step what the loop itself has to tell the model, and judges
// its progress.
func (d *drive) settle(st *step) {
	for _, c := range st.calls {
		if !c.done && c != st.pausedBy {
			c.refuse(st.n, "", prompt.NotExecuted(c.name))
		}
	}
	if len(st.calls) == 0 {
		said := note(st.n, prompt.Bound(prompt.NoToolCall(st.n, st.response.Text, st.response.Ending()), d.entryCap, trace.ObsMessage))
		said.Origin = trace.OriginAgent
		if st.paused() {
			said.Target = prompt.TargetPaused
		}
		st.notes = append(st.notes, said)
	}
	if st.plan != nil {
		st.notes = append(st.notes, prompt.PlanApproved(st.n, st.plan.Steps, d.entryCap))
	}
	st.tokens, d.owed = st.tokens+d.owed, 0 // of whoever was asked for permission
	d.tellUnasked(st)
	d.tellRungs(st)
	d.tellGuarded(st)
	st.moved = d.moved(st)
	d.judgeAnswer(st)
	if !d.lastWord(st) { // what ends the run well is no step in a circle
		st.progress = d.stall.step(st.signature(), st.changed())
	}
	if st.progress == replan && st.pause == nil {
		window, _ := d.contract.Stall.Limits()
		st.notes = append(st.notes, note(st.n, prompt.Replan(window, st.signature())))
		d.rec.context(st.n, "replan", fmt.Sprintf("window %d", window))
	}
	d.showImages(st)
}

// commit makes the step durable, with the outcome when one is known already,
// and only then tells of it.
func (d *drive) commit(ctx context.Context, st *step, out *trace.Outcome) error {
	if out != nil {
		if err := d.endCommands(ctx); err != nil {
			return err
		}
	}
	turn := st.turn()
	obs := st.observations()
	c := store.StepCommit{
		Step: st.n, Decision: st.decision(), Prompt: st.user, ToolCall: st.signature(), Tokens: st.tokens, Changed: st.changed(),
		Turn: &turn, Observations: obs, Reported: st.reported, Answered: st.toldAnswers, Decided: st.toldPlans, Withdraw: d.askedBefore,
	}
	for _, p := range d.saidBefore {
		if d.unused(p) {
			c.Overruled = append(c.Overruled, store.Overruled{ID: p.ID, By: withdrawnByReplay, Reason: notPutAgain})
		}
	}
	if out != nil {
		if out.Kind == trace.Stalled {
			d.rec.context(st.n, "stalled", "")
		}
		c.Finish = &store.Finish{Outcome: *out, Output: d.output(out.Kind)}
		if out.Kind == trace.Success || out.Kind == trace.Finished {
			c.Finish.Reply = st.said()
		}
	} else if d.criterion == nil { // a gate takes its time, and notes may change meanwhile
		c.Notes = &store.Notes{Workspace: d.memoryKey()}
	}
	for _, p := range d.leftOpen { // somebody may say yes to it to the last
		if p.Step == st.n {
			c.Overruled = append(c.Overruled, store.Overruled{ID: p.ID, By: withdrawnByReplay, Reason: notPutAgain})
		}
	}
	err := d.store.CommitStep(ctx, d.lease, c)
	if err != nil && !headConflict(err) {
		return err
	}
	d.ledger.Add(obs...)
	d.ledger.Committed()
	d.turns[st.n] = turn
	d.last, d.spent = st.n, d.spent+st.tokens
	d.accounts, d.writes, d.saidBefore, d.askedBefore = nil, nil, nil, false
	d.notes = c.Notes
	d.withdraw(ctx, func(store.PendingApproval) bool { return true })
	if st.plan != nil {
		d.endPlanning()
	}
	if st.moved {
		clear(d.reviewed)
	}
	d.reply = st.said()
	if st.progress == replan && st.pause == nil {
		window, _ := d.contract.Stall.Limits()
		d.emit(st.n, trace.Replanned{Window: window})
	}
	d.emit(st.n, trace.StepCommitted{Decision: c.Decision, ToolCall: c.ToolCall, Tokens: c.Tokens, Changed: c.Changed})
	d.tellDurable(st.n)
	if out != nil {
		if out.Kind == trace.Stalled {
			d.emit(st.n, trace.StalledOut{})
		}
		d.ended(*out)
	}
	return err
}

// finish ends the run outside a step's commit. obs close the ledger of a turn
// that committed no step.
func (d *drive) finish(ctx context.Context, out trace.Outcome, obs ...trace.Observation) (*trace.Outcome, error) {
	f := store.Finish{Outcome: out, Output: d.output(out.Kind), Observations: obs}
	if out.Kind == trace.Success || out.Kind == trace.Finished {
		f.Reply = d.reply
	}
	return d.finishWith(ctx, f)
}

func (d *drive) finishWith(ctx context.Context, f store.Finish) (*trace.Outcome, error) {
	if err := d.endCommands(ctx); err != nil {
		return nil, err
	}
	err := d.store.FinishRun(ctx, d.lease, f)
	if err != nil && !headConflict(err) {
		return nil, err
	}
	d.tellDurable(f.Outcome.Steps)
	d.ended(f.Outcome)
	return &f.Outcome, err
}

// ended tells the watcher, after the finish is durable.
func (d *drive) ended(out trace.Outcome) {
	d.emit(out.Steps, trace.Ended{Outcome: out.Kind, Steps: out.Steps, Tokens: d.spent})
}

// headConflict reports that the run has ended as it should, and the session went
// on elsewhere meanwhile.
func headConflict(err error) bool {
	var c *store.ConflictError
	return errors.As(err, &c) && c.SessionID != 0
}

// conclude turns the end of driving into a result, and gives the lease back
// where the run did not end.
func (d *drive) conclude(ctx context.Context, out *trace.Outcome, err error) (*trace.Result, error) {
	if ended := d.endCommands(ctx); ended != nil {
		d.log.Error("the end of the run's commands could not be recorded", "run", d.runID(), "error", ended)
	}
	var esc *escalation
	switch {
	case err == nil || out != nil && headConflict(err):
	case errors.Is(err, errInterrupted):
		out, err = d.stopped(ctx)
	case errors.Is(err, errTimeBudget):
		out, err = d.finish(ctx, trace.Outcome{Kind: trace.TimeBudgetExceeded, Steps: d.last})
	case errors.As(err, &esc):
		cause := esc.err
		if out, err = d.finish(ctx, trace.Outcome{Kind: esc.outcome(), Steps: d.last}); err == nil {
			err = cause
		}
	}
	d.concluded = true
	res := &trace.Result{RunID: d.runID(), Remembered: d.remembered, Dropped: d.lease.Dropped(), Unmetered: d.rec.unmetered.Load()}
	// Behind the end of the lease, which still writes what was said last.
	defer func() { res.Undelivered = d.handBack(ctx) }()
	if out != nil {
		res.Outcome = *out
		if out.Kind == trace.Success || out.Kind == trace.Finished {
			res.Reply, res.Output = d.reply, d.shape.value
		}
		return res, err
	}
	res.Outcome.Steps = d.last
	if err != nil {
		d.emit(d.last, trace.Aborted{ErrorKind: errorKind(err)})
	}
	if rerr := d.lease.Release(context.WithoutCancel(ctx)); rerr != nil {
		d.log.Warn("the run's lease could not be released and lapses by itself", "run", d.runID(), "error", rerr)
	}
	return res, err
}

// errorKind is an error in one word, for an event.
func errorKind(err error) string {
	var conflict *store.ConflictError
	var storage *store.Error
	var gate *verify.GateError
	var refused *policy.RefusedError
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	case errors.As(err, &conflict):
		return "conflict"
	case errors.As(err, &refused):
		return "refused"
	case errors.As(err, &gate):
		return "gate"
	case errors.As(err, &storage):
		return "storage " + string(storage.Kind)
	}
	return "error"
}
