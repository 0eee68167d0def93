package harness

import (
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/loop"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// ResumeOption states one thing about a resume. At most one decision (Decide,
// Answer, Verdict or Recover) may be given.
type ResumeOption func(*loop.Resumption)

// Decide answers the request that the run waits for. An approval performs the
// deferred call as the tool it was, once, and the run goes on; a denial ends the
// run as denied; a deferral leaves it waiting.
func Decide(id trace.RequestID, d approve.Decision) ResumeOption {
	return func(r *loop.Resumption) { r.Decision = &loop.Decision{ID: id, Decision: d} }
}

// Answer answers the question that the run waits for: one text answers the whole
// ask, several answer its questions one by one and must be as many. The model
// reads it; it permits nothing. It fails with a *ResumeError when there is no
// such question, when it is another run's, or when it was answered before.
func Answer(id trace.QuestionID, texts ...string) ResumeOption {
	return func(r *loop.Resumption) { r.Answer = &loop.Answer{ID: id, Texts: texts} }
}

// Verdict decides the plan that the run waits for: an approval ends the planning,
// a revision has the model propose again, and a cancel ends the run without
// asking it. An undecided verdict leaves the run waiting.
func Verdict(id trace.PlanID, v approve.PlanVerdict) ResumeOption {
	return func(r *loop.Resumption) { r.Verdict = &loop.Verdict{ID: id, Verdict: v} }
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
