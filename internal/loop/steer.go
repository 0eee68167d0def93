package loop

import (
	"context"
	"errors"
	"fmt"

	"github.com/initorigin/io-harness-go/internal/prompt"
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
	Messages    []string
	Interrupted bool
	When        When // of the interrupt
	Fold        bool
}

// Inbox is what an operator says to a running turn. It is read by one drive and
// written by anybody.
type Inbox interface {
	// Pending takes what is waiting. It never blocks.
	Pending() Steering
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

// steer is what an operator said, taken at a boundary of a step. Every word is
// durable before anything else happens, also when it came together with an
// interrupt, which ends the turn here.
func (d *drive) steer(ctx context.Context, st *step) (interrupted bool, err error) {
	said, interrupted := d.hear(st.n)
	if len(said) > 0 {
		err = d.tell(ctx, said...)
	}
	return interrupted, err
}

// hear takes what is waiting and makes observations of it, which the caller
// makes durable.
func (d *drive) hear(n int) (said []trace.Observation, interrupted bool) {
	if d.host.Inbox == nil {
		return nil, false
	}
	s := d.host.Inbox.Pending()
	for _, text := range s.Messages {
		said = append(said, prompt.Steered(n, clean(text), d.entryCap))
		d.rec.context(n, "steered", fmt.Sprintf("%d characters", prompt.Characters(text)))
	}
	if s.Fold {
		d.foldNow = true
		d.rec.context(n, "steered", "fold")
	}
	return said, s.Interrupted
}

// stopsHere reports whether the operator wants the turn to end with the
// completion that just came: none of its tools runs, and what the model said is
// kept. An answer that ends the turn anyway is not stopped.
func (d *drive) stopsHere(ctx context.Context, st *step) (bool, error) {
	if d.host.Inbox == nil || !d.host.Inbox.Interrupted(AfterCompletion) {
		return false, nil
	}
	return d.steer(ctx, st)
}

// stopped ends a run that the operator stopped at once: at its last committed
// step, with everything that was said.
func (d *drive) stopped(ctx context.Context) (*trace.Outcome, error) {
	said, _ := d.hear(d.last + 1)
	return d.finish(ctx, trace.Outcome{Kind: trace.Cancelled, Steps: d.last}, said...)
}

// endedBy is the reason why a drive's context ended, where that decides how the
// run ends, in place of whatever failed because of it.
func endedBy(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errInterrupted) || errors.Is(cause, errTimeBudget) {
		return cause
	}
	return err
}
