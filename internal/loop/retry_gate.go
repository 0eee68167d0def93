package loop

import (
	"context"
	"errors"
	"fmt"

	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// RetryGate evaluates the gate of a run once more, whose last evaluation did not
// get to judge, and asks no model. A pass ends the run as a success; a verdict
// against it leaves the run to be resumed.
func RetryGate(ctx context.Context, h Host, id trace.RunID, r Resumption) (res *trace.Result, err error) {
	h = h.withDefaults()
	var d *drive
	defer func() { d.survive(h, recover(), &res, &err) }()
	res = &trace.Result{RunID: id}
	if err := retryable(ctx, h.Store, id); err != nil {
		return res, err
	}
	if d, res, err = r.take(ctx, h, id); d == nil {
		return res, err
	}
	defer d.close()
	// Somebody else may have had it judged before the run was ours.
	if err := retryable(ctx, h.Store, id); err != nil {
		return &trace.Result{RunID: id}, err
	}
	ctx, release := d.lease.Context(ctx)
	defer release()
	ctx, cancel := d.withDeadline(ctx)
	defer cancel()
	passed, err := d.check(ctx, d.last, true)
	if err == nil && passed {
		out, err := d.passed(ctx)
		if out != nil || err != nil {
			return d.conclude(ctx, out, err)
		}
	}
	return d.conclude(ctx, nil, errors.Join(err, d.lease.Flush(context.WithoutCancel(ctx))))
}

// retryable reports, as a *store.ResumeError, that the last evaluation of a run's
// gate is none that may be made again.
func retryable(ctx context.Context, st *store.Store, id trace.RunID) error {
	last, err := st.LastGateAttempt(ctx, id)
	switch {
	case err != nil:
		return err
	case last == nil:
		return &store.ResumeError{RunID: id, Reason: store.NoGateAttempt, Detail: "no gate was evaluated yet"}
	case last.Outcome != store.GateErrored:
		return &store.ResumeError{RunID: id, Reason: store.GateNotRetryable,
			Detail: fmt.Sprintf("the last evaluation %s: only one that errored is made again", last.Outcome)}
	}
	return nil
}
