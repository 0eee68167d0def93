package loop

import (
	"context"
	"slices"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

// observe is the beginning of a step: whatever may end the run before anything
// is paid for, and then the request. A nil request comes with the outcome.
func (d *drive) observe(ctx context.Context, st *step) (*provider.Request, *trace.Outcome, error) {
	if err := d.housekeep(ctx, st.n); err != nil {
		return nil, nil, err
	}
	if d.watch.Cancelled() {
		return nil, &trace.Outcome{Kind: trace.Cancelled, Steps: st.n - 1}, nil
	}
	st.room = d.room()
	d.entryCap = prompt.EntryCap(st.room)
	switch interrupted, err := d.steer(ctx, st.n); {
	case err != nil:
		return nil, nil, err
	case interrupted:
		return nil, &trace.Outcome{Kind: trace.Cancelled, Steps: st.n - 1}, nil
	}
	if d.contract.Budget.TimeExceeded(d.elapsed()) {
		return nil, &trace.Outcome{Kind: trace.TimeBudgetExceeded, Steps: st.n - 1}, nil
	}
	if err := d.workspace.Present(); err != nil {
		return nil, nil, err // an empty answer of every search would be taken for a fact
	}
	if d.overBudget() { // by a review of the last step, or by steps that died with their drives
		return nil, &trace.Outcome{Kind: trace.CostBudgetExceeded, Steps: st.n - 1}, nil
	}
	if d.contract.Output != nil && d.answersLeft() <= 0 { // by answers to earlier drives
		return nil, &trace.Outcome{Kind: trace.SchemaUnsatisfied, Steps: st.n - 1}, nil
	}
	if err := d.routed(ctx, st.n); err != nil {
		return nil, nil, err
	}
	var err error
	if st.recalled, err = d.recall(ctx); err != nil {
		return nil, nil, err
	}
	forced := d.foldNow
	d.foldNow = false
	if _, err := d.fold(ctx, st, forced); err != nil {
		return nil, nil, d.gaveUp(st, err)
	}
	req, err := d.compose(ctx, st)
	return req, nil, err
}

func (d *drive) contextBudget() prompt.Budget {
	return prompt.Budget{MaxTokens: d.contract.Context.MaxTokens, Share: d.contract.Context.Share}
}

// room is how many tokens the observations of a step may take: what the context
// has for them, and no more than the budget still has.
func (d *drive) room() int {
	limit := d.contract.Budget.Tokens
	return d.contextBudget().Effective(limit-d.spent-d.lost, limit > 0)
}

// compose makes the request of a step out of the ledger.
func (d *drive) compose(ctx context.Context, st *step) (*provider.Request, error) {
	refreshed, err := d.refresh(ctx, st.room)
	if err != nil {
		return nil, err
	}
	a := prompt.Assemble(prompt.Input{
		Ledger: d.ledger.Live(), Turns: d.turns, Folded: d.ledger.FoldedStep(), Tokens: st.room,
		Fresh: refreshed, FoldCase: d.workspace.FoldsCase(), Notes: st.recalled.notes, Resume: !d.shape.closing,
	})
	st.recalled.own, st.recalled.shared = a.RecalledOwn, a.RecalledShared
	// What the request carries is recorded with its answer: until then it is only
	// a wish, and a row of its own would cost every step a transaction.
	st.record = func() {
		if detail := a.RecallDetail(); detail != "" {
			d.rec.context(st.n, "memory_recall", detail)
		}
		d.rec.assembled(st.n, a)
	}
	opening := d.opening(st.n)
	r := prompt.Render(d.frame(opening), a)
	st.user, st.begun = r.User, begun(r.Messages)
	req := &provider.Request{
		System: []string{d.system}, User: r.User, Messages: r.Messages, Tools: d.catalogue.specs,
		Model: d.model(), Effort: d.contract.Effort, Web: d.contract.Web,
		Media: slices.Concat(d.contract.Images, d.media),
	}
	if d.contract.Output != nil {
		req.Output = d.contract.Output.Request()
	}
	if d.shape.closing {
		req.Tools = nil
	}
	if opening {
		req.System = []string{d.openingSystem}
	}
	if boundary, began := d.guard.Mark(r); boundary > 0 {
		req.CacheBoundary, req.CacheThrough = boundary, r.CacheThrough(boundary)
		if began {
			d.emit(st.n, trace.CacheMarked{ThroughStep: max(r.StepThrough(req.CacheThrough), d.ledger.FoldedStep()), PrefixBytes: boundary})
		}
	}
	return req, nil
}

// opening reports whether this is the first completion of a turn that may be
// answered without any work.
func (d *drive) opening(n int) bool { return d.classifies && n == 1 }

func (d *drive) frame(opening bool) prompt.Frame {
	t := prompt.Task{Goal: d.contract.Goal, Constraints: d.contract.Constraints, Project: d.project, Opening: opening, Closing: d.shape.closing}
	if d.contract.Output != nil {
		t.Output = d.contract.Output.JSON()
	}
	if d.criterion != nil {
		t.Criterion = d.criterion.Describe()
	}
	return t.Frame()
}
