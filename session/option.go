package session

import (
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/loop"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// Option changes one turn and no other.
type Option func(*options)

type options struct {
	host     loop.Host
	contract task.Contract
	stated   bool // the contract is the caller's and may bring its own goal
	resume   loop.Resumption
	images   []provider.Media
	steer    *steerLine
	// Those beat the contract's, whichever option came first; nil leaves it.
	answers *task.Conversational
	mask    []string
}

// WithContract bounds this turn by c in place of the defaults that the session
// was opened with. Its Root is not used: it is the session's. Its Goal is used
// when the prompt is empty.
func WithContract(c task.Contract) Option {
	return func(o *options) {
		o.contract, o.stated = c.Clone(), true
		o.resume.Contract = &c
	}
}

// WithConversational says whether this turn may be answered without any work. A
// turn that is resumed has shown already which of the two it is: ResumeTurn
// refuses the option.
func WithConversational(mode task.Conversational) Option {
	return func(o *options) { o.answers = &mode }
}

// WithToolMask withholds tools from this turn, in place of what its contract
// withholds: a call of one is refused and nothing of it starts. What the model is
// sent stays the same to the byte. Without names nothing is withheld. See
// task.Contract.ToolMask.
func WithToolMask(names ...string) Option {
	return func(o *options) { o.mask = append([]string{}, names...) }
}

// WithObserver watches this turn in place of the bound observer, and makes it
// stream. Nil: nobody watches.
func WithObserver(w trace.Observer) Option { return func(o *options) { o.host.Observer = w } }

// WithStreaming says whether answers are passed on as they come in, and reads
// started before an answer is complete. Without it a turn streams when somebody
// watches.
func WithStreaming(on bool) Option { return func(o *options) { o.host.Stream = &on } }

// WithSteer lets the operator talk to this turn while it runs. Nil: nobody does.
func WithSteer(in *SteerInbox) Option {
	return func(o *options) {
		if o.steer = nil; in != nil {
			o.steer = in.line
		}
	}
}

// WithFoldNow folds the conversation so far into one paragraph before this
// turn's first request, full or not, as task.Compaction.Now does. Where the contract never folds, or there is
// nothing to fold, nothing happens.
func WithFoldNow() Option { return func(o *options) { o.host.FoldNow = true } }

// WithImages shows images in every request of this turn, beside those of its
// contract. A provider that takes none refuses the turn before anything is
// billed. A turn that is resumed goes on with the images that it began with:
// ResumeTurn refuses the option; pass WithContract with other Images instead.
func WithImages(images ...provider.Media) Option {
	return func(o *options) { o.images = append(o.images, images...) }
}

// WithProvider asks another provider for this turn.
func WithProvider(p provider.Provider) Option { return func(o *options) { o.host.Provider = p } }

// WithPolicy puts this turn under another policy.
func WithPolicy(p policy.Policy) Option {
	return func(o *options) {
		o.host.Policy = p
		o.resume.Policy = &p
	}
}

// WithApprover asks another approver during this turn.
func WithApprover(a approve.Approver) Option { return func(o *options) { o.host.Approver = a } }

// Decide answers the request that a paused turn waits for. It is for ResumeTurn
// and has no effect on a new turn.
func Decide(id trace.RequestID, d approve.Decision) Option {
	return func(o *options) { o.resume.Decision = &loop.Decision{ID: id, Decision: d} }
}

// WithResponder has another responder answer the model's questions during this
// turn. Nil: a question pauses the turn.
func WithResponder(r approve.Responder) Option { return func(o *options) { o.host.Responder = r } }

// WithPlanGate puts this turn's work behind another plan gate. Nil demands no
// plan, except of a turn that has proposed one already.
func WithPlanGate(g approve.PlanGate) Option { return func(o *options) { o.host.PlanGate = g } }

// Answer answers the question that a paused turn waits for: with one text for the
// whole ask, or one for each of its questions. It is for ResumeTurn and has no
// effect on a new turn.
func Answer(id trace.QuestionID, texts ...string) Option {
	return func(o *options) { o.resume.Answer = &loop.Answer{ID: id, Texts: texts} }
}

// Verdict decides the plan that a paused turn waits for. It is for ResumeTurn and
// has no effect on a new turn.
func Verdict(id trace.PlanID, v approve.PlanVerdict) Option {
	return func(o *options) { o.resume.Verdict = &loop.Verdict{ID: id, Verdict: v} }
}

// Recover says what became of the call that a turn waits for, because it was cut
// off and may have happened. It is for ResumeTurn and has no effect on a new turn.
func Recover(d store.RecoveryDecision) Option {
	return func(o *options) { o.resume.Recovery = &d }
}
