package loop

import (
	"context"
	"errors"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

func (d *drive) compaction() prompt.Compaction {
	return prompt.Compaction{AtShare: d.contract.Compaction.Share, KeepRecent: d.contract.Compaction.Keep}
}

// fold puts a paragraph in the place of the older part of the ledger, when it is
// due or when something forces it. The paragraph is stored before the ledger in
// memory is cut, so that a resume reads it back and never pays for it again. It
// reports whether anything was folded.
func (d *drive) fold(ctx context.Context, st *step, forced bool) (bool, error) {
	cut, due := d.ledger.Due(d.compaction(), st.room, forced)
	if !due || !forced && cut.Before < d.foldAgain {
		return false, nil
	}
	text, cost, err := d.summarise(ctx, st, cut)
	st.tokens += cost
	if err != nil {
		return false, err
	}
	after := d.ledger.Clone()
	f, ok := after.Apply(cut, st.n, text, d.entryCap)
	if !ok {
		// Nothing came of it: asking again on every step would only cost.
		d.foldAgain = cut.Before * 3 / 2
		return false, nil
	}
	if _, err := d.store.PutSummary(ctx, d.lease, store.HistorySummary{
		Step: f.Step, ThroughStep: f.ThroughStep, Folded: f.Through, Text: f.Text, Before: f.Before, After: f.After, Tokens: cost,
	}); err != nil {
		return false, err
	}
	d.ledger, d.foldAgain = after, 0
	d.emit(st.n, trace.Compacted{ThroughStep: f.ThroughStep, BeforeTokens: f.Before, AfterTokens: f.After})
	return true, nil
}

// summarise buys the paragraph, and says what it cost. The text is empty when
// the model gave none that can be used.
func (d *drive) summarise(ctx context.Context, st *step, cut prompt.Cut) (text string, cost int64, err error) {
	req := prompt.SummaryRequest(d.contract.Goal, cut)
	req.Model, req.Effort = d.model(), d.contract.Effort
	resp, err := d.attempts(ctx, st, req, store.ForFold)
	var esc *escalation
	switch {
	case errors.As(err, &esc) && overflowed(esc.err):
		return "", 0, nil // the notes do not fit either: the step goes on without a fold
	case err != nil:
		return "", 0, err
	}
	cost = total(resp.Usage)
	switch resp.Ending() {
	case provider.FinishStop, provider.FinishLength:
		text = clean(resp.Text)
	}
	return text, cost, nil
}

// overflowed reports whether a completion failed because its request did not fit
// the model's window.
func overflowed(err error) bool {
	pe, ok := provider.AsError(err)
	return ok && pe.TooLong()
}

// shrink makes the request of a step again after it outgrew the model's window:
// out of a folded ledger, or, where nothing can be folded, within half the room.
func (d *drive) shrink(ctx context.Context, st *step) (*provider.Request, error) {
	d.rec.attempt(st.n, store.AttemptCompacting, "compacting after a context overflow", 0)
	folded, err := d.fold(ctx, st, true)
	if err != nil {
		return nil, err
	}
	if !folded {
		st.room /= 2
	}
	return d.compose(ctx, st)
}

// restoreFold takes up the newest fold of a run. What a fold cost whose step
// never committed is drawn with the step that repeats it.
func (d *drive) restoreFold(stored []trace.Observation, folds []store.HistorySummary) {
	var newest *prompt.Fold
	for _, s := range folds {
		newest = &prompt.Fold{Through: s.Folded, ThroughStep: s.ThroughStep, Step: s.Step, Text: s.Text, Before: s.Before, After: s.After}
		if s.Step > d.last {
			d.owed += s.Tokens
		}
	}
	d.ledger = prompt.NewLog(stored, newest)
}
