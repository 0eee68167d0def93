package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/workspace"
)

// attachPoll is how often a run that waits for its approver looks whether
// another process has decided: often enough to feel at once, and a few
// microseconds of reading each.
const attachPoll = 200 * time.Millisecond

// shownContent bounds what an approver is shown of a call's arguments.
const shownContent = 64 << 10

// grant is what a person agreed to before the call was dispatched again.
type grant struct {
	act    policy.Act
	target string
	id     trace.RequestID
	asked  []askedAct // everything that the one question stood for
}

// judged is one need with the policy's answer.
type judged struct {
	need    policy.Need
	verdict policy.Verdict
	bound   binding // what an approval of it is about
}

// composite is a tool whose call is made of several acts, such as a command line.
// Its parts are judged one by one and each that is allowed leaves a row, since no
// other row tells them; one question, about the whole, stands for all that ask.
type composite interface {
	Whole(c tool.Call) string
}

// whole is what people are asked about a composite call.
func (d *drive) whole(st *step, c *call) (string, bool) {
	if t, ok := c.tool.(composite); ok && d.catalogue.byName[c.name].builtin {
		return t.Whole(d.toolCall(st, c)), true
	}
	return "", false
}

// permit decides whether a call may happen. All its needs are judged before
// anything else: one deny refuses the call and nobody is asked; else, if any
// asks, the approver is asked once, about the most specific of them.
//
// It returns false when the call is settled (refused or denied) or the step
// pauses, and an error only when the drive cannot go on.
func (d *drive) permit(ctx context.Context, st *step, c *call, needs []policy.Need) (bool, error) {
	var asks, allowed []judged
	var granted []askedAct
	line, isWhole := d.whole(st, c)
	for _, n := range needs {
		j := judged{need: n, verdict: d.judge(n)}
		switch j.verdict.Effect {
		case policy.Allow:
			if j.verdict.Layer == policy.LayerRemembered {
				d.rec.decision(st.n, j, "approve", "remembered", "", 0)
			} else if isWhole {
				allowed = append(allowed, j)
			}
		case policy.Ask:
			if v, ok := d.remembers(n); ok {
				d.rec.decision(st.n, judged{need: n, verdict: v}, "approve", "remembered", "", 0)
				continue
			}
			// A yes to a composite call was a yes to all of it.
			if c.grant.covers(n) || isWhole && c.grant.covers(policy.Need{Act: policy.Exec, Target: line}) {
				granted = append(granted, askedAct{n.Act, needTarget(n)})
				continue
			}
			asks = append(asks, j)
		default:
			d.refuse(st, c, j)
			return false, nil
		}
	}
	ok := true
	if len(asks) > 0 {
		var err error
		if ok, err = d.ask(ctx, st, c, needs, asks, granted); err != nil || !ok {
			return ok, err
		}
	}
	for _, j := range allowed {
		d.rec.decision(st.n, j, "allow", "policy", "", 0)
	}
	return ok, nil
}

// judge is the verdict on one need: paths on all their forms, by the workspace,
// everything else by the policy itself.
func (d *drive) judge(n policy.Need) policy.Verdict {
	if n.Act == policy.Read || n.Act == policy.Write {
		return d.workspace.CheckPath(n.Act, n.Target)
	}
	return d.policy.Check(n)
}

// remembers reports whether a rule that an approver asked to keep answers an ask
// about n: on the path as it is named, and on the one that it leads to.
func (d *drive) remembers(n policy.Need) (policy.Verdict, bool) {
	v, ok := d.policy.Granted(n)
	if !ok || n.Act != policy.Read && n.Act != policy.Write {
		return v, ok
	}
	real, err := d.workspace.Canonical(n.Target)
	if err != nil {
		return v, false
	}
	n.Target = real
	switch on := d.policy.Check(n); on.Effect {
	case policy.Allow:
		return v, true
	case policy.Ask:
		return d.policy.Granted(n)
	}
	return v, false
}

func (g *grant) covers(n policy.Need) bool {
	if g == nil {
		return false
	}
	one := askedAct{n.Act, needTarget(n)}
	return one == askedAct{g.act, g.target} || slices.Contains(g.asked, one)
}

// needTarget is a need as people read it.
func needTarget(n policy.Need) string {
	if len(n.Argv) > 0 {
		return strings.Join(n.Argv, " ")
	}
	return n.Target
}

// refuse settles a call that the policy forbids: in the trace, to the watcher,
// and to the model.
func (d *drive) refuse(st *step, c *call, j judged) {
	target := needTarget(j.need)
	d.rec.refusal(st.n, j, "")
	d.emit(st.n, trace.RefusedAct{Act: string(j.need.Act), Target: target, Rule: j.verdict.Rule, Layer: j.verdict.Layer})
	text := prompt.Refused(j.need.Act, target, j.verdict.Rule, j.verdict.Layer)
	if j.verdict.Layer == policy.LayerPlanGate {
		text = prompt.PlanFirst(c.name)
	}
	c.refuse(st.n, fmt.Sprintf("%s refused", j.need.Act), text)
	c.forbidden = j.verdict.Refusal(j.need).Error()
}

// ask puts one question to the approver and acts on the row that holds the
// answer, whoever wrote it.
//
// granted is what an earlier question about the call has settled: the new one
// stands for it too.
func (d *drive) ask(ctx context.Context, st *step, c *call, needs []policy.Need, asks []judged, granted []askedAct) (bool, error) {
	about := asks[len(asks)-1] // the last need of a call is its most specific
	if line, ok := d.whole(st, c); ok {
		about.need = policy.Need{Act: policy.Exec, Target: line}
	}
	req := d.request(st, c, about)
	if row, ok := d.decidedBefore(st, c, req); ok {
		ok, err := d.applyDecision(ctx, st, c, asks, row, row.DecidedBy)
		if err != nil || !ok {
			return ok, err
		}
		// What the call itself has changed since, before the crash, is no reason to
		// refuse it.
		if d.wroteBefore(st, c) {
			return true, nil
		}
		return d.fresh(ctx, st, c, row, boundTo(row.Bound))
	}
	d.emit(st.n, trace.ApprovalRequested{Act: string(req.Act), Target: req.Target})
	about.bound = d.bind(c, needs)
	for _, j := range asks {
		granted = append(granted, askedAct{j.need.Act, needTarget(j.need)})
	}
	bound, err := about.bound.marshal(granted)
	if err != nil {
		return false, err
	}
	row := store.PendingApproval{
		Step: st.n, CallIndex: c.index, CallID: c.id, Tool: c.name, Arguments: c.args,
		Act: string(req.Act), Target: req.Target, Content: req.Content, Rule: req.Rule, Layer: req.Layer, Bound: bound,
	}
	id := d.openBefore(row)
	if id == 0 {
		d.withdraw(ctx, func(o store.PendingApproval) bool { return o.Step == row.Step && o.CallIndex == row.CallIndex })
		if id, err = d.store.PutPending(ctx, d.lease, row); err != nil {
			return false, err
		}
	}
	req.ID = id
	var source string
	row, source, err = d.decided(ctx, c, req)
	if err != nil {
		return false, err
	}
	if row.Verdict == store.Undecided {
		d.emit(st.n, trace.ApprovalDecided{Act: string(req.Act), Target: req.Target, Decision: "defer"})
		st.pause, st.pausedBy = &trace.Outcome{Kind: trace.AwaitingApproval, Steps: st.n, RequestID: id}, c
		d.rec.decision(st.n, about, "defer", "approver", "", id)
		return false, nil
	}
	ok, err := d.applyDecision(ctx, st, c, asks, row, source)
	if err != nil || !ok {
		return ok, err
	}
	return d.fresh(ctx, st, c, row, about.bound)
}

// fresh reports whether an approval is still for what is there now. One that is
// not is taken back, and the call refused.
func (d *drive) fresh(ctx context.Context, st *step, c *call, row store.PendingApproval, b binding) (bool, error) {
	why := d.stale(st, c, row.Act, row.Target, b)
	if why == "" {
		return true, nil
	}
	return false, d.store.Overrule(ctx, d.lease, store.Overruled{ID: row.ID, By: overruledByChange, Reason: why})
}

// decidedBefore finds what a person already said to this very call, on a step that
// died before it could commit: nobody is asked twice.
func (d *drive) decidedBefore(st *step, c *call, req approve.Request) (store.PendingApproval, bool) {
	for i, p := range d.saidBefore {
		if p.Step == st.n && p.CallIndex == c.index && p.Tool == c.name && bytes.Equal(p.Arguments, c.args) &&
			p.Act == string(req.Act) && p.Target == req.Target {
			d.saidBefore = slices.Delete(d.saidBefore, i, i+1) // what is left of them was not put again
			return p, true
		}
	}
	return store.PendingApproval{}, false
}

// openBefore takes up the request about this very call, and about the same files,
// that an earlier drive of its step left open: who answers from another process is
// shown one, and what is said to it counts. It is 0 where there is none.
func (d *drive) openBefore(p store.PendingApproval) (id trace.RequestID) {
	d.leftOpen = slices.DeleteFunc(d.leftOpen, func(o store.PendingApproval) bool {
		if id != 0 || o.Step != p.Step || o.CallIndex != p.CallIndex || o.Tool != p.Tool || !bytes.Equal(o.Arguments, p.Arguments) || !bytes.Equal(o.Bound, p.Bound) ||
			o.Act != p.Act || o.Target != p.Target || o.Content != p.Content || o.Rule != p.Rule || o.Layer != p.Layer {
			return false
		}
		id = o.ID
		return true
	})
	return id
}

// withdraw closes requests that an earlier drive left open and that its step, made
// again, does not put: nobody waits for an answer to them.
func (d *drive) withdraw(ctx context.Context, which func(store.PendingApproval) bool) {
	d.leftOpen = slices.DeleteFunc(d.leftOpen, func(o store.PendingApproval) bool {
		if !which(o) {
			return false
		}
		gone := store.ApprovalDecision{ID: o.ID, Verdict: store.Deny, By: withdrawnByReplay, Reason: notPutAgain}
		won, err := d.store.ResolvePending(ctx, gone)
		if err == nil && !won {
			err = d.takeBack(ctx, o.ID)
		}
		if err != nil {
			d.log.Warn("a request that nobody waits for stays open", "run", d.runID(), "request", o.ID, "error", err)
		}
		return true
	})
}

// takeBack overrules a yes that came first: it was to a call that is not made.
func (d *drive) takeBack(ctx context.Context, id trace.RequestID) error {
	row, err := d.store.Pending(ctx, id)
	if err != nil || row.Verdict != store.Approve {
		return err
	}
	return d.store.Overrule(ctx, d.lease, store.Overruled{ID: id, By: withdrawnByReplay, Reason: notPutAgain})
}

// wroteBefore reports whether this very call has changed a file before a crash, and
// not another one that the model asked for in its place then.
func (d *drive) wroteBefore(st *step, c *call) bool {
	for _, w := range d.writes {
		if w.Step != st.n || w.CallIndex != c.index || w.Tool != c.name {
			continue
		}
		if made, err := factsOf(w); err == nil && made.Call == c.fingerprint() {
			return true
		}
	}
	return false
}

// applyDecision carries out what a decided row says of the call.
func (d *drive) applyDecision(ctx context.Context, st *step, c *call, asks []judged, row store.PendingApproval, source string) (bool, error) {
	decision := string(row.Verdict)
	for _, j := range asks {
		d.rec.decision(st.n, j, decision, source, "", row.ID)
	}
	d.emit(st.n, trace.ApprovalDecided{Act: row.Act, Target: row.Target, Decision: decision})
	if row.Verdict != store.Approve {
		c.denied = &row
		c.refuse(st.n, fmt.Sprintf("%s denied", row.Act), prompt.Denied(policy.Act(row.Act), row.Target, prompt.Bound(row.Reason, d.entryCap, trace.ObsError)))
		return false, nil
	}
	if err := d.rememberRow(row); err != nil {
		return false, err
	}
	c.approved = &row
	if len(row.Modified) == 0 {
		return true, nil
	}
	ok, err := d.applyRewrite(st, c, row)
	if ok || err != nil {
		return ok, err
	}
	// Another process changed the act into one that the policy forbids.
	return false, d.store.Overrule(ctx, d.lease, store.Overruled{ID: row.ID, By: overruledByPolicy, Reason: c.forbidden})
}

// request is what the approver is told of a call.
func (d *drive) request(st *step, c *call, about judged) approve.Request {
	req := approve.Request{
		Act: about.need.Act, Target: needTarget(about.need), Goal: d.contract.Goal,
		Rule: about.verdict.Rule, Layer: about.verdict.Layer, Matched: about.verdict.Matched,
		RunID: d.runID(), Step: st.n, Tool: c.name, Args: c.args, Argv: about.need.Argv,
	}
	p, ok := c.tool.(tool.Previewer)
	if ok && d.panics(c.name, func() { req.Content = p.Preview(d.toolCall(st, c)) }) == nil {
		// What the tool itself shows is what it will do.
	} else if about.need.Act == policy.Exec && len(about.need.Argv) == 0 {
		req.Content = string(c.args)
	}
	req.Content = prompt.Bound(req.Content, shownContent, trace.ObsTool)
	return req
}

// decided waits for an answer to the pending row of req: the approver's, or that of
// another process, whichever lands first. The row it returns is the store's; an
// unresolved one means that the approver defers.
func (d *drive) decided(ctx context.Context, c *call, req approve.Request) (store.PendingApproval, string, error) {
	bill := make(chan []approve.Spend, 1)
	dec, own, err := await(ctx, d,
		func(ctx context.Context) approve.Decision {
			dec := d.consult(ctx, req)
			bill <- dec.Spent
			return dec
		},
		func(ctx context.Context) (bool, error) {
			row, err := d.store.Pending(ctx, req.ID)
			return row.Verdict != store.Undecided, err
		})
	// Whoever decides, and whatever ended the wait: what was spent is spent. An
	// approver that was left behind has not said yet.
	select {
	case spent := <-bill:
		d.pay(req.Step, spent)
	default:
	}
	switch {
	case err != nil:
		return store.PendingApproval{}, "", err
	case own:
		return d.settleRequest(ctx, c, req, dec)
	}
	row, err := d.store.Pending(ctx, req.ID)
	return row, "attached", err
}

// pay counts what an approver spent into the accounts and the budget.
func (d *drive) pay(step int, spent []approve.Spend) {
	for _, sp := range spent {
		d.rec.approverCall(step, sp)
		d.owed += total(sp.Usage)
	}
}

// consult asks the approver. One that panics or fails has decided nothing.
func (d *drive) consult(ctx context.Context, req approve.Request) approve.Decision {
	dec, err := approve.Ask(ctx, d.host.Approver, req)
	if err != nil && ctx.Err() == nil {
		d.log.Warn("the approver failed, and the act is deferred", "run", req.RunID, "act", req.Act, "target", req.Target, "error", err)
		d.rec.context(req.Step, "approver_failed", err.Error())
	}
	return dec
}

// settleRequest writes the approver's answer into the row, unless somebody else's is
// there already, and returns the row.
func (d *drive) settleRequest(ctx context.Context, c *call, req approve.Request, dec approve.Decision) (store.PendingApproval, string, error) {
	var fault *rewriteRefusal
	if dec.Kind == approve.DecisionApprove {
		dec.Modified = realChange(req, dec.Modified)
		if fault = d.refuseRewrite(c, req, dec.Modified); fault != nil {
			dec = approve.Deny(fault.why)
		}
	}
	r := store.ApprovalDecision{ID: req.ID, By: "approver", Reason: dec.Reason}
	switch dec.Kind {
	case approve.DecisionApprove:
		r.Verdict = store.Approve
		var err error
		if r.Modified, err = jsonOf(dec.Modified); err != nil {
			return store.PendingApproval{}, "", err
		}
		if r.Remember, err = jsonOf(dec.Remember); err != nil {
			return store.PendingApproval{}, "", err
		}
	case approve.DecisionDeny:
		r.Verdict = store.Deny
	default:
		row, err := d.store.Pending(ctx, req.ID)
		return row, "attached", err
	}
	mine, err := d.store.ResolvePending(ctx, r)
	if err != nil {
		return store.PendingApproval{}, "", err
	}
	row, err := d.store.Pending(ctx, req.ID)
	if !mine {
		return row, "attached", err
	}
	if fault != nil {
		d.rec.refusal(req.Step, fault.judged, fault.performed)
		d.emit(req.Step, trace.RefusedAct{
			Act: string(req.Act), Target: needTarget(fault.need), Rule: fault.verdict.Rule, Layer: fault.verdict.Layer,
		})
	}
	return row, "approver", err
}

// rewriteRefusal is an approver's change of a call that is not honoured.
type rewriteRefusal struct {
	judged
	performed string // what the call was changed into, where that is not what was judged
	why       string
}

// refuseRewrite judges an approver's change of a call, before the answer is stored:
// no row must say that something is approved which will not be done. It returns nil
// for a change that is made.
func (d *drive) refuseRewrite(c *call, req approve.Request, m *approve.Modified) *rewriteRefusal {
	if why := rewriteFault(c.name, c.args, req, m); why != "" {
		asked := judged{need: policy.Need{Act: req.Act, Target: req.Target}, verdict: policy.Verdict{Rule: req.Rule, Layer: req.Layer}}
		into := "other content"
		if m.Target != "" && m.Target != req.Target {
			into = clean(m.Target)
		}
		return &rewriteRefusal{asked, into, why}
	}
	if m == nil || m.Target == "" {
		return nil
	}
	j := judged{need: policy.Need{Act: req.Act, Target: filepath.ToSlash(m.Target)}}
	j.verdict = d.judge(j.need)
	if clean, err := d.workspace.Resolve(m.Target); req.Act == policy.Write && err == nil && clean == ".git" {
		j.verdict = policy.Verdict{Effect: policy.Deny, Rule: workspace.GitFile, Matched: true}
	}
	if j.verdict.Effect != policy.Deny {
		return nil
	}
	why := fmt.Sprintf("the approver changed it, and what it was changed into may not be done: %v", j.verdict.Refusal(j.need))
	return &rewriteRefusal{j, "", why}
}

// realChange is m, or nil when it asks for what was asked anyway.
func realChange(req approve.Request, m *approve.Modified) *approve.Modified {
	if m == nil || m.Target != "" && m.Target != req.Target || m.Content != nil && (req.Act == policy.Write || *m.Content != req.Content) {
		return m
	}
	return nil
}

// rewriteFault says why an approver's change of a call cannot be honoured, or
// nothing. What is done must be what was approved, so it is judged before the
// approval is stored.
func rewriteFault(name string, arguments json.RawMessage, req approve.Request, m *approve.Modified) string {
	if m == nil {
		return ""
	}
	if err := req.CheckModified(m); err != nil {
		return err.Error()
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &args); err != nil || args["path"] == nil || m.Content != nil && args["content"] == nil {
		return fmt.Sprintf("the approver changed the act, which cannot be done for %s: approve it as asked, deny it, or narrow it by a rule", name)
	}
	return ""
}

// applyRewrite performs what the approver made of a call, if the policy allows
// that: an approval never crosses a deny.
func (d *drive) applyRewrite(st *step, c *call, row store.PendingApproval) (bool, error) {
	var m approve.Modified
	if err := json.Unmarshal(row.Modified, &m); err != nil {
		return false, d.damaged("the change of request %d cannot be read: %w", row.ID, err)
	}
	target := filepath.ToSlash(m.Target)
	if target == "" {
		target = row.Target
	}
	act := policy.Act(row.Act)
	j := judged{need: policy.Need{Act: act, Target: target}}
	j.verdict = d.judge(j.need)
	if j.verdict.Effect == policy.Deny {
		d.refuse(st, c, j)
		return false, nil
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(c.args, &args); err != nil {
		return false, err
	}
	set := func(key, value string) error {
		b, err := json.Marshal(value)
		args[key] = b
		return err
	}
	if err := set("path", target); err != nil {
		return false, err
	}
	if m.Content != nil {
		if err := set("content", *m.Content); err != nil {
			return false, err
		}
	}
	args2, err := json.Marshal(args)
	if err != nil {
		return false, err
	}
	c.args = args2
	d.rec.decision(st.n, judged{need: policy.Need{Act: act, Target: row.Target}, verdict: policy.Verdict{Rule: row.Rule, Layer: row.Layer}}, "approve", "approver", target, row.ID)
	return true, nil
}

// rememberRow keeps the rules that came with an approval.
func (d *drive) rememberRow(row store.PendingApproval) error {
	if len(row.Remember) == 0 {
		return nil
	}
	var rules []policy.Rule
	if err := json.Unmarshal(row.Remember, &rules); err != nil {
		return d.damaged("the rules remembered with request %d cannot be read: %w", row.ID, err)
	}
	d.remember(rules)
	return nil
}

// jsonOf is v as JSON, and nothing for nothing.
func jsonOf[T any](v T) (json.RawMessage, error) {
	b, err := json.Marshal(v)
	if err != nil || string(b) == "null" {
		return nil, err
	}
	return b, nil
}

// remember keeps an approver's rules for the rest of the run, on top of the
// policy: an allow among them can never beat a deny beneath.
func (d *drive) remember(rules []policy.Rule) {
	d.remembered = append(d.remembered, rules...)
	d.setPolicy()
}
