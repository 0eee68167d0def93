package harness

import (
	"context"
	"log/slog"
	"time"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/loop"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// The handful of types that every program meets, under the name of the door.
type (
	// Session is a durable conversation about one directory.
	Session = session.Session
	// Turn is one exchange of a session.
	Turn = session.Turn
	// Result is what a drive of a run hands back.
	Result = trace.Result
	// Contract states one piece of work.
	Contract = task.Contract
	// ResumeError says that a run cannot be resumed, or not with what was stated.
	ResumeError = store.ResumeError
)

// Config binds once what every run of a Harness works with. Only Provider and
// Store are required. A Harness copies it: changing it later changes nothing.
type Config struct {
	// Provider is the model that is asked.
	Provider provider.Provider
	// Store keeps every run. It may be shared by several harnesses; whoever
	// opened it closes it, after the last run.
	Store *store.Store
	// Policy says what agents may read, write, execute and connect to. The zero
	// value means policy.Default(): reads are allowed, writes and commands ask,
	// secrets are denied. To allow everything, say policy.Permissive().
	Policy policy.Policy
	// Approver decides what the policy asks about. Nil means approve.None:
	// whatever asks is denied.
	Approver approve.Approver
	// Responder answers what an agent asks about its task. Nil pauses the run
	// until somebody answers. An answer permits nothing.
	Responder approve.Responder
	// PlanGate reviews a plan before a run may write or run anything. Nil demands
	// no plan. It holds for every run and every turn that does work; a turn that
	// is only answered never meets it.
	PlanGate approve.PlanGate
	// Observer watches every run and turn, and makes turns stream. Nil: nobody
	// watches and nothing streams.
	Observer trace.Observer
	// Defaults bounds every turn and gives it its tools; it also gives a run or a
	// turn that is resumed the tools that no store can hold. Its Goal and Root are
	// not used. A contract that is passed to Run or to a turn is used as it is and
	// never merged with it: it brings its own tools.
	Defaults task.Contract
	// Logger gets what an operator of the program may want to know. Nil: silent.
	Logger *slog.Logger
	// Clock tells the time for budgets. Nil means time.Now. The store has a
	// clock of its own for what it stamps.
	Clock func() time.Time
}

// Harness runs agents. It is safe for concurrent use; each run and each turn is
// independent of the others.
type Harness struct {
	host     loop.Host
	defaults task.Contract
}

// New checks cfg and binds it. It opens nothing and starts nothing. It fails
// with a *task.InvalidError on what can never work.
func New(cfg Config) (*Harness, error) {
	if cfg.Policy.IsZero() {
		cfg.Policy = policy.Default()
	}
	if cfg.Approver == nil {
		cfg.Approver = approve.None
	}
	h := &Harness{
		host: loop.Host{
			Provider: cfg.Provider, Store: cfg.Store, Policy: cfg.Policy, Approver: cfg.Approver,
			Responder: cfg.Responder, PlanGate: cfg.PlanGate,
			Observer: cfg.Observer, Log: cfg.Logger, Clock: cfg.Clock,
		},
		defaults: cfg.Defaults.Clone(),
	}
	if err := h.host.Validate(); err != nil {
		return nil, err
	}
	if err := h.defaults.ValidateDefaults(); err != nil {
		return nil, err
	}
	return h, nil
}

// Open starts a new conversation about the directory root, which must exist.
func (h *Harness) Open(ctx context.Context, root string) (*Session, error) {
	return session.Open(ctx, h.host, h.defaults, root)
}

// Reopen takes up a conversation that was opened before, in this process or
// another.
func (h *Harness) Reopen(ctx context.Context, id trace.SessionID) (*Session, error) {
	return session.Reopen(ctx, h.host, h.defaults, id)
}

// Run drives c, outside of any conversation, to an outcome. c is used as it is:
// the defaults of the configuration are not merged into it.
//
// The result is never nil and names the run as soon as it has a row. An error
// means that the drive could not go on: a contract that can never work, a
// provider that failed for good, the end of ctx, a gate that could not judge, a
// store that cannot be written. The run is resumable then, unless
// Result.Outcome says how it ended.
func (h *Harness) Run(ctx context.Context, c task.Contract) (*Result, error) {
	return loop.Run(ctx, h.host, c, nil)
}

// Resume drives a run from its last committed step, whatever stopped it, or
// reports how it ended: a run that ended for good is not driven again. Without
// options it resumes under the policy and the contract that were recorded with
// the run; the tools come from Config.Defaults, because no store can hold them.
//
// It fails with a *ResumeError when the run cannot be resumed or a decision does
// not fit, and with a *store.ConflictError while somebody else drives the run;
// the run is left as it was then.
func (h *Harness) Resume(ctx context.Context, id trace.RunID, opts ...ResumeOption) (*Result, error) {
	r := loop.Resumption{Defaults: h.defaults}
	for _, opt := range opts {
		opt(&r)
	}
	return loop.Resume(ctx, h.host, id, r)
}

// RetryGate evaluates the gate of a run once more, after an evaluation that did
// not get to judge: a reviewer that failed, a program that was missing. No model
// that works on the run is asked. A pass ends the run as a success; a verdict
// against it leaves the run to be resumed, and the result has no outcome then.
// It fails with a *ResumeError when the last evaluation judged.
func (h *Harness) RetryGate(ctx context.Context, id trace.RunID, opts ...ResumeOption) (*Result, error) {
	r := loop.Resumption{Defaults: h.defaults}
	for _, opt := range opts {
		opt(&r)
	}
	return loop.RetryGate(ctx, h.host, id, r)
}

// Fork makes a new run that stands where run id stood after its step: with its
// goal, its policy, what it had observed and said, and nothing spent. Step 0 is
// before its first. The old run stays as it is, and the new one waits to be
// driven by Resume, under the same or another contract. Files are not touched:
// to put them back as well, take the later steps back with Rewind and UndoFrom.
func (h *Harness) Fork(ctx context.Context, id trace.RunID, step int) (trace.RunID, error) {
	return h.host.Store.ForkRun(ctx, id, step)
}
