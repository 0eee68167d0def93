package loop

import (
	"context"
	"slices"
	"strconv"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// begunApproved is the kind of the row that says, before an approved call begins,
// that it does; its detail is the request. It is written for the calls whose effect
// no other row announces: a command of the library has no journal of its own.
const begunApproved = "approved_call_begins"

// announceApproved has the row written with what is made durable before the calls.
func (d *drive) announceApproved(st *step, ready []*call) {
	for _, c := range ready {
		p := c.approved
		if p == nil || c.attempt != 0 || c.spec.IsReadOnly() || d.announces(*p) {
			continue
		}
		d.rec.context(st.n, begunApproved, strconv.FormatInt(int64(p.ID), 10))
	}
}

// journals reports whether the end of a call in a crash is for a person to tell. A
// step that died is made again by its model, with commands of the library among it. An
// approved call of a step that has committed is made by nobody but us, and once: it
// has a journal, unless its effect has one.
func (d *drive) journals(c *call) bool {
	switch {
	case !c.spec.IsIndeterminate():
		return false
	case !d.catalogue.byName[c.name].builtin:
		return true
	}
	return c.grant != nil && !d.announces(store.PendingApproval{Tool: c.name, Act: string(c.grant.act)})
}

// announces reports whether what was approved is a change of a file that is made
// durable before it is made.
func (d *drive) announces(p store.PendingApproval) bool {
	entry, ok := d.catalogue.byName[p.Tool]
	return ok && entry.builtin && entry.mode == "" && p.Act == string(policy.Write)
}

// restoreBegun finds the approved calls that dead drives of the step to come had
// begun. How far they came nobody can tell.
func (d *drive) restoreBegun(ctx context.Context) error {
	if !slices.ContainsFunc(d.saidBefore, func(p store.PendingApproval) bool { return p.Verdict == store.Approve }) {
		return nil
	}
	d.begunBefore = map[trace.RequestID]bool{}
	for e, err := range d.store.ContextEvents(ctx, d.runID()) {
		if err != nil {
			return err
		}
		if e.Kind != begunApproved || e.Step <= d.last {
			continue
		}
		if id, err := strconv.ParseInt(e.Detail, 10, 64); err == nil {
			d.begunBefore[trace.RequestID(id)] = true
		}
	}
	return nil
}

// unused reports whether an approval that was given before a crash, and that the
// step made again has not used, stands for nothing that was done. What another call
// did in its place is nothing of it. A change of a file was announced before it was
// made; of another call of the library that had begun nobody can tell what it did.
func (d *drive) unused(p store.PendingApproval) bool {
	if p.Verdict != store.Approve || d.hasAccountOf(p) {
		return false
	}
	if d.begunBefore[p.ID] {
		return false
	}
	return !slices.ContainsFunc(d.writes, func(w store.WriteIntent) bool {
		if w.Step != p.Step || w.CallIndex != p.CallIndex || w.Tool != p.Tool {
			return false
		}
		made, err := factsOf(w)
		return err != nil || len(p.Modified) > 0 || made.Call == fingerprintOf(p.Tool, p.Arguments)
	})
}
