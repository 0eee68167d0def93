package harness

import (
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/loop"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// ResumeOption states one thing about a resume. At most one decision (Decide or
// Recover) may be given.
type ResumeOption func(*loop.Resumption)

// Decide answers the request that the run waits for. An approval performs the
// deferred call as the tool it was, once, and the run goes on; a denial ends the
// run as denied; a deferral leaves it waiting.
func Decide(id trace.RequestID, d approve.Decision) ResumeOption {
	return func(r *loop.Resumption) { r.Decision = &loop.Decision{ID: id, Decision: d} }
}

// Recovery is what a person says about a call that was started and whose end
// nobody recorded. Retry, Completed and Abort make one.
type Recovery struct{ decision store.RecoveryDecision }

// Retry says that the call did not happen, or may happen again.
func Retry() Recovery { return Recovery{store.RecoveryDecision{Verdict: store.RecoveredRetry}} }

// Completed says that the call happened, and what the model is to be told it
// brought.
func Completed(account string) Recovery {
	return Recovery{store.RecoveryDecision{Verdict: store.RecoveredCompleted, Account: account}}
}

// Abort gives the run up: it ends as denied.
func Abort() Recovery { return Recovery{store.RecoveryDecision{Verdict: store.RecoveredAbort}} }

// Recover decides about the open attempt id that keeps the run from going on.
func Recover(id trace.AttemptID, what Recovery) ResumeOption {
	return func(r *loop.Resumption) {
		d := what.decision
		d.ID = id
		r.Recovery = &d
	}
}

// WithPolicy states the policy from here on, in place of the recorded one.
func WithPolicy(p policy.Policy) ResumeOption {
	return func(r *loop.Resumption) { r.Policy = &p }
}

// WithContract states the contract from here on, in place of the recorded one,
// for instance with a larger budget. Its Goal and Root are not used: those of a
// run never change.
func WithContract(c task.Contract) ResumeOption {
	return func(r *loop.Resumption) { r.Contract = &c }
}
