package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/initorigin/io-harness-go/internal/builtin"
	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// toolGrace is how long a tool may take to return after its context has ended
// before it is left behind: long enough to kill a process tree and read its
// pipes to the end.
const toolGrace = 5 * time.Second

// errToolTimeout is the cause of a call's context when the tool's own bound ends it.
var errToolTimeout = errors.New("the tool's own time bound")

// act runs the calls of a step. Calls are prepared one by one in the model's
// order; read-only calls next to each other then run together, and everything
// is folded in call order, so that nothing anybody can read tells how many ran
// at once. A call that pauses the step ends the preparing: what comes behind it
// never starts.
func (d *drive) act(ctx context.Context, st *step) (err error) {
	defer func() {
		if err != nil {
			d.neverBegan(ctx, st.calls)
		}
	}()
	calls := st.calls
	for len(calls) > 0 && st.pause == nil {
		batch := calls[:d.batchSize(calls)]
		for _, c := range batch {
			if err := d.prepare(ctx, st, c); err != nil {
				return err
			}
			if st.pause != nil {
				break
			}
		}
		if err := d.runBatch(ctx, st, batch); err != nil {
			return err
		}
		calls = calls[len(batch):]
	}
	return nil
}

// neverBegan closes the attempts of calls whose turn did not come before the run was
// stopped: nobody need be asked what they did.
func (d *drive) neverBegan(ctx context.Context, calls []*call) {
	for _, c := range calls {
		if c.attempt == 0 || c.ran {
			continue
		}
		if err := d.store.CloseAttempt(ctx, d.lease, c.attempt, store.RecoveredRetry, ""); err != nil {
			d.log.Error("a call that never began stays in doubt", "run", d.runID(), "tool", c.name, "error", err)
		}
	}
}

// batchSize is how many of the leading calls may run together: a run of
// read-only ones, else one.
func (d *drive) batchSize(calls []*call) int {
	if d.contract.ParallelReads() == 1 {
		return 1
	}
	n := 0
	for n < len(calls) && d.catalogue.overlaps(calls[n].name) {
		n++
	}
	return max(n, 1)
}

// prepare takes a call to the point where only running it is left: it announces
// it, checks its arguments, asks the policy and the approver, and journals it.
// A call that does not get so far is settled with what the model is told.
func (d *drive) prepare(ctx context.Context, st *step, c *call) error {
	d.emit(st.n, trace.ToolCalled{Name: c.name, Target: shortTarget(c.target())})
	masked := d.masked(c.name)
	if masked && !d.hasAccount(st, c) {
		d.refuseMasked(st, c)
		return nil
	}
	entry, ok := d.catalogue.byName[c.name]
	if !ok {
		if c.fault == "" && d.answerFromAccount(st, c) {
			return nil // there was one when it was called
		}
		c.refuse(st.n, "unknown tool "+c.name, prompt.UnknownTool(c.name, d.catalogue.names))
		return nil
	}
	c.tool, c.spec = entry.tool, entry.spec
	if c.fault != "" {
		d.failArguments(st, c, c.fault)
		return nil
	}
	args, err := c.spec.CheckArgs(c.args)
	if err != nil {
		d.failArguments(st, c, err.Error())
		return nil
	}
	c.args = args
	if d.answerFromAccount(st, c) {
		return nil
	}
	if masked {
		d.refuseMasked(st, c)
		return nil
	}
	if !d.modeSuffices(st, c) {
		return nil
	}
	if own, ok := entry.tool.(*runTool); ok && !d.planHolds(c) {
		return own.perform(ctx, st, c)
	}
	needs, err := d.needs(c, d.toolCall(st, c))
	var crash *toolPanic
	switch {
	case errors.As(err, &crash):
		c.refuse(st.n, c.name+" panicked", prompt.ToolPanicked(c.name, crash.with))
		return nil
	case err != nil:
		d.fail(st, c, err)
		d.recordRefusal(st, c)
		return nil
	}
	ok, err = d.permit(ctx, st, c, needs)
	if err != nil || !ok {
		return err
	}
	if d.journals(c) {
		turn := st.turn()
		c.attempt, _, err = d.store.OpenAttempt(ctx, d.lease, store.Attempt{
			Step: st.n, CallIndex: c.index, CallID: c.id, Tool: c.name, Arguments: c.args, Turn: &turn,
		})
		if err != nil {
			return err
		}
	}
	c.ready = true
	return nil
}

// modeSuffices refuses a call whose tool needs to write where the run's commands may
// not. Nobody is asked: no answer could help.
func (d *drive) modeSuffices(st *step, c *call) bool {
	mode := d.catalogue.byName[c.name].mode
	if mode == "" || mode.SatisfiedBy(d.profile.Mode) {
		return true
	}
	needs := string(mode)
	c.refuse(st.n, c.name+" refused: needs "+needs, prompt.NeedsContainment(c.name, needs, string(d.profile.Mode)))
	return false
}

// answerFromAccount settles a call that is known to have ended before a crash,
// with what it brought then: it is not made a second time.
func (d *drive) answerFromAccount(st *step, c *call) bool {
	for _, a := range d.accounts {
		if a.Step != st.n || a.CallIndex != c.index || a.Tool != c.name || !bytes.Equal(a.Arguments, c.args) {
			continue
		}
		d.answerFrom(st, c, a)
		return true
	}
	return false
}

// answerFrom settles a call with what is known of it from before a crash.
func (d *drive) answerFrom(st *step, c *call, a store.Attempt) {
	st.accounted = append(st.accounted, a.ID)
	switch a.Resolution {
	case store.RecoveredCompleted:
		c.end("called "+c.name, trace.Observation{Step: st.n, Kind: trace.ObsTool, Target: c.name, Origin: trace.OriginOperator, Text: prompt.Settled(c.name, a.Account)})
		c.changed = !c.spec.IsReadOnly()
	default: // it returned, or ended in a way that newer software wrote down
		was := d.accountOf(a)
		was.Observation.Step = st.n
		c.end(was.Decision, was.Observation)
		c.changed = was.Changed
	}
}

// accountOf reads what a call came to before the crash.
func (d *drive) accountOf(a store.Attempt) (was account) {
	if err := json.Unmarshal([]byte(a.Account), &was); err != nil {
		d.log.Error("what a call brought before the crash cannot be read", "run", d.runID(), "tool", a.Tool, "error", err)
		was = account{Decision: "called " + a.Tool, Observation: trace.Observation{Kind: trace.ObsTool, Target: a.Tool, Origin: trace.OriginProse}}
	}
	return was
}

// tellUnasked tells of the calls that were made before a crash and that the step,
// made again, does not ask for: what they did has happened, and nobody else says so.
// What a person said of a call is in the ledger already.
func (d *drive) tellUnasked(st *step) {
	for _, a := range d.accounts {
		if a.Step != st.n || slices.Contains(st.accounted, a.ID) || a.Resolution == store.RecoveredCompleted {
			continue
		}
		o := d.accountOf(a).Observation
		args := prompt.Bound(string(a.Arguments), d.entryCap, trace.ObsMessage)
		st.notes = append(st.notes, trace.Observation{
			Step: st.n, Kind: trace.ObsMessage, Origin: o.Origin, Text: prompt.MadeBefore(a.Tool, args, o.Text),
		})
	}
}

// hasAccount reports whether an earlier drive is known to have made the call.
func (d *drive) hasAccount(st *step, c *call) bool {
	return slices.ContainsFunc(d.accounts, func(a store.Attempt) bool {
		return a.Step == st.n && a.CallIndex == c.index && a.Tool == c.name
	})
}

// hasAccountOf reports whether an earlier drive is known to have made the call that
// was approved: that very one, unless the approver changed its arguments.
func (d *drive) hasAccountOf(p store.PendingApproval) bool {
	_, ok := d.accountBehind(p)
	return ok
}

func (d *drive) accountBehind(p store.PendingApproval) (store.Attempt, bool) {
	i := slices.IndexFunc(d.accounts, func(a store.Attempt) bool {
		return a.Step == p.Step && a.CallIndex == p.CallIndex && a.Tool == p.Tool && (len(p.Modified) > 0 || bytes.Equal(a.Arguments, p.Arguments))
	})
	if i < 0 {
		return store.Attempt{}, false
	}
	return d.accounts[i], true
}

// needs is what the call wants to do. A tool that does not say needs the
// permission to execute its own name.
func (d *drive) needs(c *call, tc tool.Call) (needs []policy.Need, err error) {
	n, ok := c.tool.(tool.Needer)
	if !ok || d.planHolds(c) {
		return []policy.Need{{Act: policy.Exec, Target: c.name}}, nil
	}
	if crash := d.panics(c.name, func() { needs, err = n.Needs(tc) }); crash != nil {
		return nil, crash
	}
	return needs, err
}

// toolPanic says that a tool panicked before it was called, and with what.
type toolPanic struct{ with any }

func (p *toolPanic) Error() string { return "the tool panicked" }

// panics runs a part of a tool that is not its call, on this goroutine: a tool
// must not take the program down that it is registered in.
func (d *drive) panics(name string, part func()) (crash *toolPanic) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("tool panicked", "run", d.runID(), "tool", name, "panic", p, "stack", string(debug.Stack()))
			crash = &toolPanic{p}
		}
	}()
	part()
	return nil
}

func (d *drive) toolCall(st *step, c *call) tool.Call {
	return tool.Call{
		ID: c.id, Name: c.name, Args: c.args, Run: d.runID(), Step: st.n, Key: d.lease.CallKey(st.n, c.index),
		Workspace: d.workspaceFor(st, c),
	}
}

// runBatch runs the prepared calls of a batch, at most as many at once as the
// contract says, and folds them in call order.
func (d *drive) runBatch(ctx context.Context, st *step, batch []*call) error {
	var ready []*call
	for _, c := range batch {
		if c.ready {
			ready = append(ready, c)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	// What has an effect waits for the record of its permission. A read has none:
	// what is recorded joins the step, or is written within a few milliseconds.
	if slices.ContainsFunc(ready, func(c *call) bool { return !c.spec.IsReadOnly() }) {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		d.announceApproved(st, ready)
		if err := d.lease.Flush(ctx); err != nil {
			return err
		}
	}
	if err := d.runAll(ctx, st, ready); err != nil {
		return err
	}
	for _, c := range ready {
		d.recordRefusal(st, c)
	}
	return nil
}

func (d *drive) runAll(ctx context.Context, st *step, ready []*call) error {
	if len(ready) == 1 {
		return d.runCall(ctx, st, ready[0])
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(d.contract.ParallelReads())
	for _, c := range ready {
		group.Go(func() error { return d.runCall(groupCtx, st, c) })
	}
	return group.Wait()
}

// errGoexit stands for a panic where a tool ended its goroutine instead of
// returning, as a test's FailNow does.
var errGoexit = errors.New("it ended its goroutine")

// recordRefusal puts a refusal that a tool made itself where those of the gate
// are: in the trace, and before the watcher.
func (d *drive) recordRefusal(st *step, c *call) {
	re := c.refusal
	if re == nil {
		return
	}
	c.refusal = nil
	d.toolRefused(st.n, re)
}

// toolRefused records a refusal that no gate made, and tells of it.
func (d *drive) toolRefused(step int, re *policy.RefusedError) {
	d.rec.refusal(step, judged{need: policy.Need{Act: re.Act, Target: re.Target}, verdict: policy.Verdict{Rule: re.Rule, Layer: re.Layer}}, "")
	d.emit(step, trace.RefusedAct{Act: string(re.Act), Target: re.Target, Rule: re.Rule, Layer: re.Layer})
}

// ended is how a tool came back.
type ended struct {
	result tool.Result
	err    error
	panic  any // or errGoexit
}

// returned is what came of running a tool.
type returned struct {
	ended
	timedOut  bool // its own time bound ended it
	abandoned bool // it ignores the end of its context and was left behind
}

// invoke runs the tool of a call within the call's own time.
func (d *drive) invoke(ctx context.Context, c *call, tc tool.Call) returned {
	callCtx, cancel := ctx, context.CancelFunc(func() {})
	if c.spec.Timeout > 0 {
		callCtx, cancel = context.WithTimeoutCause(ctx, c.spec.Timeout, errToolTimeout)
	}
	defer cancel()
	back := make(chan ended, 1)
	go func() {
		e := ended{panic: errGoexit}
		defer func() {
			if p := recover(); p != nil {
				e.panic = p
			}
			if e.panic != nil {
				d.log.Error("tool panicked", "run", d.runID(), "tool", c.name, "panic", e.panic, "stack", string(debug.Stack()))
			}
			back <- e
		}()
		e.result, e.err = c.tool.Call(callCtx, tc)
		e.panic = nil
	}()
	var r returned
	select {
	case r.ended = <-back:
	case <-callCtx.Done():
		select {
		case r.ended = <-back:
		case <-time.After(toolGrace):
			r.abandoned = true
		}
	}
	r.timedOut = errors.Is(context.Cause(callCtx), errToolTimeout)
	return r
}

// runCall runs one call, unless that was begun early, and settles it. An error
// means that the drive cannot go on: its context ended, or the journal could not
// be written.
func (d *drive) runCall(ctx context.Context, st *step, c *call) error {
	if cause := context.Cause(ctx); cause != nil && c.early == nil {
		return cause // it waited for its turn, and the run ended before that came
	}
	c.ran = true
	var e returned
	if c.early != nil {
		e = c.early.wait()
	} else {
		e = d.invoke(ctx, c, d.toolCall(st, c))
	}
	if e.abandoned {
		return d.abandon(ctx, st, c)
	}
	cause := context.Cause(ctx)
	if cause != nil && (e.err != nil || e.panic != nil) {
		// The error may tell of nothing but the end of the context, with the half of
		// an effect behind it: an attempt stays open for a person to judge.
		return cause
	}
	d.settleResult(st, c, e.ended, e.timedOut)
	err := d.closeAttempt(ctx, c, e.ended)
	if cause == nil {
		return err
	}
	// The step is not committed. What the call brought is kept beside its attempt,
	// so that a replay of the step is answered from it.
	if err != nil {
		d.log.Error("a call that had ended stays in doubt", "run", d.runID(), "tool", c.name, "error", err)
	}
	return cause
}

// closeAttempt records how a journaled call ended, whether its context has or not.
func (d *drive) closeAttempt(ctx context.Context, c *call, e ended) error {
	if c.attempt == 0 {
		return nil
	}
	how := store.Returned
	if e.err != nil || e.panic != nil {
		how = store.ReturnedError
	}
	was, err := json.Marshal(account{c.decision, c.changed, c.observation})
	if err != nil {
		return err
	}
	return d.store.CloseAttempt(context.WithoutCancel(ctx), d.lease, c.attempt, how, string(was))
}

// account is what a call came to, kept with its journal row: should its step die
// before the commit, the replay is answered from it.
type account struct {
	Decision    string
	Changed     bool
	Observation trace.Observation
}

// abandon gives up on a tool that ignores the end of its context. Its goroutine
// is left to itself, and an attempt stays open: nobody knows what it still does.
func (d *drive) abandon(ctx context.Context, st *step, c *call) error {
	d.log.Error("tool ignores the end of its context and is left behind", "run", d.runID(), "tool", c.name)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	c.refuse(st.n, c.name+" abandoned", prompt.ToolAbandoned(c.name))
	return nil
}

// settleResult turns what a tool brought into what the model is told.
func (d *drive) settleResult(st *step, c *call, e ended, timedOut bool) {
	switch {
	case e.panic != nil:
		c.refuse(st.n, c.name+" panicked", prompt.ToolPanicked(c.name, e.panic))
		return
	case e.err != nil && timedOut:
		c.refuse(st.n, c.name+" timed out", prompt.ToolTimedOut(c.name, c.spec.Timeout))
		return
	case e.err != nil:
		d.fail(st, c, e.err)
		return
	}
	r := e.result
	kind, decision := r.Kind, r.Decision
	if !kind.Known() || kind == trace.ObsMessage { // a message is of people, or of the loop
		kind = trace.ObsTool
		if r.Target == "" {
			r.Target = c.name
		}
	}
	switch {
	case decision != "":
	case r.Failed:
		decision = c.name + " failed"
	default:
		decision = "called " + c.name
	}
	o := trace.Observation{
		Step: st.n, Kind: kind, Target: r.Target, Origin: c.spec.Origin, Text: d.shown(c, clean(r.Text), kind),
		First: r.First, Count: r.Count, Digest: r.Digest,
	}
	if r.Failed {
		// A failure on a path tells nothing of its content and must not take the
		// place of a success.
		o.Kind, o.Target, o.First, o.Count, o.Digest = trace.ObsError, "", 0, 0, ""
		if d.catalogue.byName[c.name].builtin {
			o.Origin = trace.OriginProse
		}
	}
	c.end(decision, o)
	c.changed = r.Changed && !r.Failed
	if len(r.Media) == 0 {
		return
	}
	if provider.AcceptsImages(d.host.Provider) {
		c.media = r.Media
		return
	}
	// A tool must not be able to end a run whose model reads text only.
	c.observation.Text += prompt.ImagesNotShown(len(r.Media))
}

// shown is what the model reads of a result: bounded, and under a head when the
// tool is not ours. A frame comes on top of the bound, so that it is never cut.
func (d *drive) shown(c *call, text string, kind trace.ObservationKind) string {
	switch {
	case d.catalogue.byName[c.name].builtin:
		return prompt.Bound(text, d.entryCap, kind)
	case c.spec.Origin.External():
		return prompt.ToolResult(c.name, prompt.External(c.spec.Origin, prompt.Bound(text, d.entryCap, kind)))
	}
	return prompt.Bound(prompt.ToolResult(c.name, text), d.entryCap, kind)
}

// fail settles a call with an error that the model is told. A refusal that a tool
// of the library makes itself reads like one of the gate; who calls records it.
func (d *drive) fail(st *step, c *call, err error) {
	if re := (*policy.RefusedError)(nil); errors.As(err, &re) && d.catalogue.byName[c.name].builtin {
		text, decision := prompt.Refused(re.Act, re.Target, re.Rule, re.Layer), fmt.Sprintf("%s refused", re.Act)
		if own := (*builtin.Refused)(nil); errors.As(err, &own) {
			text, decision = own.Text, own.Decision
		}
		c.refusal = re
		c.refuse(st.n, decision, prompt.Bound(clean(text), d.entryCap, trace.ObsError))
		return
	}
	text := prompt.Bound(clean(err.Error()), d.entryCap, trace.ObsError)
	if c.spec.Origin.External() {
		text = prompt.External(c.spec.Origin, text)
	}
	c.refuse(st.n, c.name+" failed", prompt.ToolError(c.name, text))
	if c.spec.Origin.External() {
		c.observation.Origin = c.spec.Origin
	}
}

func (d *drive) failArguments(st *step, c *call, why string) {
	c.refuse(st.n, c.name+" refused: bad arguments", prompt.Bound(clean(prompt.BadArguments(c.name, why)), d.entryCap, trace.ObsError))
}

// clean makes text of a tool or a vendor fit to be stored and sent: valid UTF-8
// without NUL, which no vendor accepts.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
