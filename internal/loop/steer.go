package loop

import (
	"context"
	"errors"
	"fmt"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// errInterrupted is the cause of a drive's context when the operator stops the
// turn at once.
var errInterrupted = errors.New("the operator stopped the turn")

// When says at which point of a turn an interrupt takes effect.
type When string

// The points, the latest first.
const (
	AfterTools      When = ""           // once the step in progress has committed
	AfterCompletion When = "completion" // once the model has answered; none of the tools it asked for runs
	AtOnce          When = "at_once"    // now; nothing of the step in progress is kept
)

// Steering is what an operator wants of a running turn.
type Steering struct {
	Messages    []store.Said
	Interrupted bool
	When        When // of the interrupt
	Fold        bool
}

// Inbox is what an operator says to a running turn. It is read by one drive and
// written by anybody.
type Inbox interface {
	// Attach has the words that are waiting, and those to come, numbered from next
	// on and handed to keep as they are said. keep never blocks.
	Attach(next int, keep func(store.Said))
	// Pending takes what is waiting. It never blocks.
	Pending() Steering
	// Unread takes the words that are waiting, and leaves the rest.
	Unread() []store.Said
	// Interrupted tells without taking whether an interrupt of that kind, or an
	// earlier one, is waiting.
	Interrupted(by When) bool
	// AtOnce is closed when the turn is to stop at once.
	AtOnce() <-chan struct{}
}

// heed derives a context that ends when the operator stops the turn at once. The
// caller must call release.
func (d *drive) heed(ctx context.Context) (_ context.Context, release func()) {
	if d.host.Inbox == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-d.host.Inbox.AtOnce():
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled); <-done }
}

// listen takes up what an operator said to a drive that died, and has what is
// said to this one kept from the moment that it is said.
func (d *drive) listen(ctx context.Context) (err error) {
	d.entryCap = prompt.EntryCap(d.room()) // for what is heard before the first step
	next := 0
	if d.resumed {
		if d.unheard, next, err = d.store.Unheard(ctx, d.runID()); err != nil {
			return err
		}
	}
	if d.host.Inbox != nil {
		d.host.Inbox.Attach(next, func(m store.Said) { d.lease.Record(m) })
	}
	return nil
}

// steer is what an operator said, taken at a boundary of a step. Every word is
// durable before anything else happens, also when it came together with an
// interrupt, which ends the turn here.
func (d *drive) steer(ctx context.Context, n int) (interrupted bool, err error) {
	s := Steering{Messages: d.unheard}
	d.unheard = nil
	if d.host.Inbox != nil {
		said := d.host.Inbox.Pending()
		said.Messages = append(s.Messages, said.Messages...)
		s = said
	}
	if s.Fold {
		d.foldNow = true
		d.rec.context(n, "steered", "fold")
	}
	if len(s.Messages) == 0 {
		return s.Interrupted, nil
	}
	words := make([]store.Heard, len(s.Messages))
	for i, m := range s.Messages {
		words[i] = store.Heard{Said: m, Observation: prompt.Steered(n, clean(m.Text), d.entryCap)}
		d.rec.context(n, "steered", fmt.Sprintf("%d characters", prompt.Characters(m.Text)))
	}
	heard, err := d.store.Hear(ctx, d.lease, words...)
	if err != nil {
		d.unheard = s.Messages // the drive ends, and hands them back
		return s.Interrupted, err
	}
	for _, w := range heard {
		d.ledger.Add(w.Observation)
	}
	d.ledger.Committed()
	return s.Interrupted, nil
}

// stopsHere reports whether the operator wants the turn to end with the
// completion that just came: none of its tools runs, and what the model said is
// kept. An answer that ends the turn anyway is not stopped, and what was said
// meanwhile came too late.
func (d *drive) stopsHere(ctx context.Context, st *step) (bool, error) {
	if d.host.Inbox == nil || !d.host.Inbox.Interrupted(AfterCompletion) || d.answersAll(st) {
		return false, nil
	}
	return d.steer(ctx, st.n)
}

// answersAll is lastWord before the answer has been judged.
func (d *drive) answersAll(st *step) bool {
	if !d.lastWord(st) || d.contract.Output == nil {
		return d.lastWord(st)
	}
	_, bad := d.contract.Output.Check(st.said())
	return bad == nil
}

// stopped ends a run that the operator stopped at once: at its last committed
// step, with everything that was said.
func (d *drive) stopped(ctx context.Context) (*trace.Outcome, error) {
	if _, err := d.steer(context.WithoutCancel(ctx), d.last+1); err != nil {
		return nil, err
	}
	return d.finish(ctx, trace.Outcome{Kind: trace.Cancelled, Steps: d.last})
}

// handBack settles what this drive was told and what it took over from an earlier
// one, as far as nobody has heard it, and returns it.
func (d *drive) handBack(ctx context.Context) []string {
	words := d.unheard
	if d.host.Inbox != nil {
		words = append(words, d.host.Inbox.Unread()...)
	}
	return handBack(ctx, d.host, d.runID(), words)
}

// handBackAll settles everything that was said to a run which nobody will drive.
func handBackAll(ctx context.Context, h Host, run trace.RunID) []string {
	words, _, err := h.Store.Unheard(context.WithoutCancel(ctx), run)
	if err != nil {
		h.Log.Error("what an operator said could not be handed back", "run", run, "error", err)
		return nil
	}
	return handBack(ctx, h, run, words)
}

// handBack settles words that nobody will hear, and returns those that nobody has
// heard.
func handBack(ctx context.Context, h Host, run trace.RunID, words []store.Said) (texts []string) {
	back, err := h.Store.HandBack(context.WithoutCancel(ctx), run, words...)
	if err != nil {
		// They may be heard as well by a resume: better twice than never.
		h.Log.Error("what an operator said could not be settled as handed back", "run", run, "error", err)
		back = words
	}
	for _, m := range back {
		texts = append(texts, m.Text)
	}
	return texts
}

// endedBy is the reason why a drive's context ended, where that decides how the
// run ends, in place of whatever failed because of it; and in place of an error that
// tells of nothing but that end, as of a record that was just being written.
func endedBy(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errInterrupted) || errors.Is(cause, errTimeBudget) || cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	return err
}
