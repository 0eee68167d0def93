package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// escalation is a completion that failed for good.
type escalation struct {
	err  error
	note string // why it was not asked again although that might have helped
}

func (e *escalation) Error() string { return e.err.Error() }
func (e *escalation) Unwrap() error { return e.err }

// outcome is the one the run ends with: retryable when the provider may heal.
func (e *escalation) outcome() trace.OutcomeKind {
	if pe, ok := provider.AsError(e.err); ok && pe.Retryable() {
		return trace.EscalatedRetryable
	}
	return trace.EscalatedTerminal
}

// reason asks the model once, with retries, and keeps what it said in the step.
// A request that outgrew the model's window is made smaller and asked once more.
// It returns an *escalation when the completion failed for good, the cause of
// the context when that ended, and any other error only when the trace cannot be
// kept.
func (d *drive) reason(ctx context.Context, st *step, req *provider.Request) error {
	resp, err := d.attempts(ctx, st, req, store.ForStep)
	var esc *escalation
	if errors.As(err, &esc) && overflowed(esc.err) && d.compaction().Enabled() {
		if req, err = d.shrink(ctx, st); err == nil {
			resp, err = d.attempts(ctx, st, req, store.ForStep)
		}
	}
	if d.dropRefused(st, err) {
		if req, err = d.compose(ctx, st); err == nil {
			resp, err = d.attempts(ctx, st, req, store.ForStep)
		}
	}
	if err != nil {
		return d.gaveUp(st, err)
	}
	d.take(st, resp)
	return nil
}

// gaveUp records that err ends the asking, if it is that.
func (d *drive) gaveUp(st *step, err error) error {
	var esc *escalation
	if errors.As(err, &esc) {
		st.carried() // what was refused for good is what there is to look at
		decision := "escalated after " + failureWord(esc.err)
		if esc.note != "" {
			decision += " (" + esc.note + ")"
		}
		d.rec.attempt(st.n, store.AttemptEscalated, decision, 0)
	}
	return err
}

// attempts asks until an answer comes or asking again is of no use, which is an
// *escalation. Every attempt leaves a row.
func (d *drive) attempts(ctx context.Context, st *step, req *provider.Request, purpose store.Purpose) (*provider.Response, error) {
	for attempt := 0; ; attempt++ {
		row := attempt
		if purpose == store.ForStep {
			row = st.asked // goes on counting when the request was made smaller
			st.asked++
		}
		resp, err := d.complete(ctx, st, req, purpose, row)
		if err == nil {
			for _, f := range resp.Failed {
				st.tokens += total(f.Usage)
			}
			return resp, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if err := d.lease.Err(); err != nil {
			return nil, err
		}
		st.tokens += total(provider.UsageOf(err)) // paid for, although nothing came of it
		wait, again := d.contract.Retry.Wait(attempt+1, err)
		switch {
		case attempt >= d.contract.Budget.RetryCap():
			return nil, &escalation{err: err}
		case !again && wait > 0:
			return nil, &escalation{err, fmt.Sprintf("the server asked for %s", wait)}
		case !again:
			return nil, &escalation{err: err}
		case d.waitsTooLong(wait):
			return nil, &escalation{err, fmt.Sprintf("a retry in %s would outlast the time budget", wait)}
		}
		d.rec.attempt(st.n, store.AttemptRetry, fmt.Sprintf("retry %d after %s in %s", attempt+1, failureWord(err), wait), wait)
		d.emit(st.n, trace.Retry{Failure: failureWord(err), Attempt: attempt + 1, DelayMS: wait.Milliseconds()})
		if err := d.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// maxDrawn bounds what a budget draws for one call, as the store bounds what it
// keeps of it: a provider that reports nonsense must not wrap the sum, which would
// lift the budget.
const maxDrawn = 1 << 40

// total is what a budget draws for a call; one that reported nothing draws nothing.
func total(u *provider.Usage) int64 {
	if u == nil {
		return 0
	}
	return min(max(u.TotalTokens, 0), maxDrawn)
}

// waitsTooLong reports whether a wait would outlast the run's time: then it
// ends at once instead of sleeping towards its deadline.
func (d *drive) waitsTooLong(wait time.Duration) bool {
	left, ok := d.timeLeft()
	return ok && wait > left
}

// sleep waits, unless the context ends first. Evidence is written before, since
// a wait is a likely moment to be killed in.
func (d *drive) sleep(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	if err := d.lease.Flush(ctx); err != nil {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// complete is one attempt: the request, its row, and what streamed in. What is
// asked for a fold never streams: it is nobody's answer.
func (d *drive) complete(ctx context.Context, st *step, req *provider.Request, purpose store.Purpose, attempt int) (*provider.Response, error) {
	if err := d.lease.Flush(ctx); err != nil {
		return nil, err
	}
	var sink provider.Sink
	var pump *tokenPump
	if d.streams() && purpose == store.ForStep {
		pump = newTokenPump(func(f trace.Fact) { d.emit(st.n, f) })
		sink.Token, sink.FellBack = pump.put, pump.fellBack
	}
	ahead := d.speculate(ctx, st, purpose)
	if ahead != nil {
		sink.Call = ahead.offer
	}
	began := time.Now()
	resp, err := d.ask1(ctx, req, sink)
	took := time.Since(began)
	switch {
	case pump == nil:
	case err == nil && resp != nil:
		pump.end(resp.Text)
		st.fell = pump.fell
	default:
		pump.close()
	}
	switch {
	case err != nil:
	case resp == nil:
		err = provider.NoAnswer(d.host.Provider)
	case len(resp.Carry) > 0 && !json.Valid(resp.Carry):
		err = &provider.Error{Kind: provider.Malformed, Provider: d.host.Provider.Name(), Usage: resp.Usage, Message: "what the provider wants handed back is no JSON"}
	}
	if err == nil && purpose == store.ForStep {
		st.carried()
	}
	d.rec.providerCall(st.n, attempt, purpose, resp, err, took)
	d.tellRefusedDial(st.n, err)
	if err == nil && purpose == store.ForStep {
		st.calls = newCalls(st.n, resp.Calls)
	}
	if ahead != nil {
		ahead.settle(st.calls)
	}
	return resp, err
}

// ask1 calls the provider and turns a panic of it into a failure: an embedded
// library must not take its program down.
func (d *drive) ask1(ctx context.Context, req *provider.Request, sink provider.Sink) (resp *provider.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("provider panicked", "run", d.runID(), "provider", d.host.Provider.Name(), "panic", p)
			resp, err = nil, fmt.Errorf("provider %s panicked: %v", d.host.Provider.Name(), p)
		}
	}()
	return d.host.Provider.Complete(d.dialling(ctx), req, sink)
}

// take keeps what the model said in the step.
func (d *drive) take(st *step, resp *provider.Response) {
	resp.Text = clean(resp.Text)
	st.response = resp
	d.drew(st)
	d.media = nil
	st.answered = len(st.calls) == 0 && resp.Ending().Ends()
	st.tokens, d.owed = st.tokens+d.owed, 0
	st.reported = total(resp.Usage)
	st.tokens += st.reported
	if resp.Reasoning != "" {
		var tokens int64
		if resp.Usage != nil {
			tokens = resp.Usage.ReasoningTokens
		}
		d.emit(st.n, trace.Reasoning{Text: resp.Reasoning, Tokens: tokens})
	}
	if resp.SchemaDropped && !d.shape.dropped {
		d.shape.dropped = true
		d.rec.context(st.n, "fell_back", "the vendor refused the schema of the answer and was asked without it")
	}
	if resp.ServedBy != "" {
		d.rec.context(st.n, "served", resp.ServedBy)
		if st.fell != resp.ServedBy { // else it was told in its place among the tokens
			d.emit(st.n, trace.FellBackTo{Provider: resp.ServedBy})
		}
	}
	d.tellLooked(st)
	d.tellSpeculated(st)
}

// failureWord is a failure in the short form that rows and events share: the
// kind with its status, never a vendor's message.
func failureWord(err error) string {
	if pe, ok := provider.AsError(err); ok {
		return pe.Text()
	}
	var ce *provider.ConfigError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "Cancelled"
	case errors.Is(err, policy.ErrRefused):
		return "Refused"
	case errors.As(err, &ce):
		return "Config"
	}
	return "Error"
}
