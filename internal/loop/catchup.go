package loop

import (
	"context"
	"fmt"
	"slices"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// catchUp finishes what the last drive left undone of its last committed step:
// what a person has approved meanwhile, and the verdict of the gate.
func (d *drive) catchUp(ctx context.Context) (*trace.Outcome, error) {
	if out, err := d.deliver(ctx); out != nil || err != nil {
		return out, err
	}
	for _, o := range d.outdated() {
		if err := d.store.Overrule(ctx, d.lease, o); err != nil {
			return nil, err
		}
	}
	for _, p := range d.due {
		if out, err := d.perform(ctx, p); out != nil || err != nil {
			return out, err
		}
	}
	switch {
	case d.last == 0 || d.criterion == nil || d.planning:
		return nil, nil
	case d.verdict == store.GatePassed:
		return d.passed(ctx)
	case d.verdict == store.GateFailed:
		return nil, d.tellVerdict(ctx, d.last, d.untold)
	case d.overBudget():
		return nil, nil // and the run ends before its next completion
	}
	passed, err := d.check(ctx, d.last, true)
	if err != nil || !passed {
		return nil, err
	}
	return d.passed(ctx)
}

// perform carries out an act that a person approved while nobody drove the run:
// that very call, through the ordinary pipeline, as the tool it was. The policy
// is asked again, since a pause grants no immunity.
//
// An outcome means that the policy of this drive forbids the call, which ends the
// run, or asks for more than the person was asked: the call waits again, for an
// answer that stands for all of it.
func (d *drive) perform(ctx context.Context, p store.PendingApproval) (*trace.Outcome, error) {
	if p.Tool == "" || asksOfProvider(p) {
		_, err := d.store.MarkPerformed(ctx, d.lease, p.ID)
		return nil, err
	}
	d.emit(p.Step, trace.ApprovalDecided{Act: p.Act, Target: p.Target, Decision: string(p.Verdict)})
	d.entryCap = prompt.EntryCap(d.room())
	st := &step{n: p.Step, response: &provider.Response{}}
	c := &call{
		index: p.CallIndex, id: p.CallID, name: p.Tool, args: p.Arguments,
		grant: &grant{act: policy.Act(p.Act), target: p.Target, id: p.ID},
	}
	if a, err := readAbout(p.Bound); err == nil {
		c.grant.asked = a.Asked
	}
	st.calls = []*call{c}
	d.egress.attend(d, p.Step)
	var taken *store.Overruled // set when the approval is not used
	was, made := d.accountBehind(p)
	switch {
	case made:
		// Whatever has become of the tool, of its arguments and of the files.
		d.emit(p.Step, trace.ToolCalled{Name: c.name, Target: shortTarget(c.target())})
		d.answerFrom(st, c, was)
	case d.archived && len(p.Arguments) == 0:
		// What is done must be what was approved, and a tool may take fewer arguments.
		taken = &store.Overruled{ID: p.ID, By: overruledByLoss, Reason: "the arguments of the call have been archived"}
		c.refuse(p.Step, p.Act+" denied", prompt.ApprovedWithoutWords(p.Act, p.Target))
		d.rec.refusal(p.Step, judged{need: policy.Need{Act: policy.Act(p.Act), Target: p.Target}}, "archived since it was asked")
	default:
		if why := d.stale(st, c, p.Act, p.Target, d.begun(p)); why != "" {
			taken = &store.Overruled{ID: p.ID, By: overruledByChange, Reason: why}
			d.rec.refusal(p.Step, judged{need: policy.Need{Act: policy.Act(p.Act), Target: p.Target}}, "changed since it was asked")
		}
	}
	if !c.done && len(p.Modified) > 0 {
		if _, err := d.applyRewrite(st, c, p); err != nil {
			return nil, err
		}
		if !c.done {
			c.grant.target = c.target()
		}
	}
	if !c.done {
		if err := d.prepare(ctx, st, c); err != nil {
			return nil, err
		}
	}
	if st.pause != nil {
		instead := askedMore(p, st.pause.RequestID)
		return d.finishWith(ctx, store.Finish{Outcome: *st.pause, Output: d.output(st.pause.Kind), Overruled: &instead})
	}
	if c.forbidden != "" {
		return d.finishWith(ctx, store.Finish{
			Output:       d.output(trace.Denied),
			Outcome:      trace.Outcome{Kind: trace.Denied, Steps: d.last},
			Observations: []trace.Observation{c.observation},
			Overruled:    &store.Overruled{ID: p.ID, By: overruledByPolicy, Reason: c.forbidden},
		})
	}
	if taken == nil && !c.ready && !made {
		// The tool is withheld or gone by now, or a person said no to what is asked
		// beside it.
		taken = &store.Overruled{ID: p.ID, By: overruledByResume, Reason: c.decision}
	}
	if c.ready {
		d.rec.decision(p.Step, judged{need: policy.Need{Act: policy.Act(p.Act), Target: p.Target}, verdict: policy.Verdict{Rule: p.Rule, Layer: p.Layer}},
			string(store.Approve), fmt.Sprintf("resumed:%d", p.ID), "", p.ID)
		if err := d.runBatch(ctx, st, st.calls); err != nil {
			d.neverBegan(ctx, st.calls)
			return nil, err
		}
	}
	d.showImages(st)
	if err := d.tellApproved(ctx, p.ID, taken, c.observation); err != nil {
		return nil, err
	}
	d.ledger.Add(c.observation)
	d.ledger.Committed()
	return nil, nil
}

// askedMore is what becomes of an approval that another question stands for too.
func askedMore(p store.PendingApproval, instead trace.RequestID) store.Overruled {
	return store.Overruled{ID: p.ID, By: overruledByAsking, Reason: fmt.Sprintf("the policy asks for more now: see request %d", instead)}
}

// outdated takes the approvals out of those to be carried out that a later one of the
// same call stands for: the process died before it could say so, and the call is made
// once.
func (d *drive) outdated() (gone []store.Overruled) {
	later := map[[2]int]trace.RequestID{} // by step and call
	var left []store.PendingApproval
	for _, p := range slices.Backward(d.due) {
		at := [2]int{p.Step, p.CallIndex}
		switch id, ok := later[at]; {
		case ok && !asksOfProvider(p): // whose hosts are asked about one by one
			gone = append(gone, askedMore(p, id))
			continue
		case !ok:
			later[at] = p.ID
		}
		left = append(left, p)
	}
	slices.Reverse(left)
	d.due = left
	return gone
}

// asksMore reports whether a request is about a call that waits to be carried out,
// put by a drive that died while it asked for more than the call was approved for.
func (d *drive) asksMore(a store.PendingApproval) bool {
	return slices.ContainsFunc(d.due, func(p store.PendingApproval) bool {
		return !asksOfProvider(p) && p.RunID == a.RunID && p.Step == a.Step && p.CallIndex == a.CallIndex && p.ID < a.ID
	})
}

// tellApproved records what came of an approved call, with what the model is told of it.
func (d *drive) tellApproved(ctx context.Context, id trace.RequestID, taken *store.Overruled, o trace.Observation) error {
	if taken != nil {
		return d.store.Overrule(ctx, d.lease, *taken, o)
	}
	_, err := d.store.MarkPerformed(ctx, d.lease, id, o)
	return err
}
