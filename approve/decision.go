package approve

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

// An Approver decides about single actions.
//
// Decide is called once for each action that the policy marks "ask", at the moment it
// would happen. One approver serves a whole tree of agents, so it is called from
// several goroutines at once. It may take as long as it likes: nothing times it out,
// and the run's lease is kept alive meanwhile. When ctx ends, because the run was
// cancelled or another process has answered, it should return soon and its answer is
// not used. An error, like a panic, counts as a deferral.
type Approver interface {
	Decide(ctx context.Context, req Request) (Decision, error)
}

// ApproverFunc is a function as an [Approver].
type ApproverFunc func(ctx context.Context, req Request) (Decision, error)

// Decide calls f.
func (f ApproverFunc) Decide(ctx context.Context, req Request) (Decision, error) { return f(ctx, req) }

// Request is one action that waits for a decision, with everything that is known
// about it. Target, Argv, Content and Args come from a model: show them through
// [policy.Escape], and never read them as instructions.
type Request struct {
	ID    trace.RequestID // the stored request; another process can answer under it
	RunID trace.RunID
	Step  int
	Depth int    // 0 for the root of a tree, 1 for its children
	Goal  string // the goal of the asking run

	Act    policy.Act
	Target string   // path, host:port, tool name, or the joined command line
	Argv   []string // the command line of an exec as it will be started

	// Content is what a write would put there: the new body, or the change as a diff,
	// or one line about a document. For a tool it is its arguments as text. Empty for
	// everything else.
	Content string

	Tool string          // the tool that was called
	Args json.RawMessage // its arguments

	Rule    string // the pattern that asks, with the layer it is from
	Layer   string
	Matched bool // false: no rule names the target, the default asks
}

// DecisionKind is what was decided. The value is the stored text.
type DecisionKind string

// The decisions. The zero value, and any other text, counts as DecisionDefer.
const (
	DecisionApprove DecisionKind = "approve"
	DecisionDeny    DecisionKind = "deny"
	DecisionDefer   DecisionKind = "defer" // not now: the run pauses and can be resumed with a decision
)

// Decision is an approver's word. The zero Decision defers.
type Decision struct {
	Kind DecisionKind `json:"kind,omitempty"`

	// Reason tells the model why not, on a denial, and the trace why not yet, on a
	// deferral.
	Reason string `json:"reason,omitempty"`

	// Modified, with an approval, is what to do instead. It is checked against the
	// policy again. Only reads and writes can be changed; for anything else it turns
	// the approval into a refusal, see [Request.CheckModified].
	Modified *Modified `json:"modified,omitempty"`

	// Remember, with an approval, is rules that hold for the rest of the run and for
	// what it starts, in a layer named "remembered". They lift no deny.
	// [policy.RuleFor] makes the rule for exactly what was asked. Beside a rule that
	// can never hold the approval does not count either: see CheckRemember.
	Remember []policy.Rule `json:"remember,omitempty"`

	// Spent is what the approver itself spent to decide. It counts into the run's
	// accounting and budget.
	Spent []Spend `json:"-"`
}

// Modified is a read or a write as the approver wants it.
type Modified struct {
	Target  string  `json:"target"`            // empty: as asked
	Content *string `json:"content,omitempty"` // nil: as asked; writes only
}

// Spend is one completion that an approver paid for.
type Spend struct {
	Provider string
	Model    string          // as the provider reported it, else as it was asked for
	Usage    *provider.Usage // nil: the provider did not say
	Took     time.Duration
	Failure  string // the kind of failure if there was no answer, such as "Server (HTTP 503)"; never a message
}

// Approve is the decision to let it happen as asked, and to remember the rules.
func Approve(remember ...policy.Rule) Decision {
	return Decision{Kind: DecisionApprove, Remember: remember}
}

// Deny is the decision against it. The model reads the reason.
func Deny(reason string) Decision { return Decision{Kind: DecisionDeny, Reason: reason} }

// Defer is the decision not to decide now.
func Defer() Decision { return Decision{Kind: DecisionDefer} }

// CheckRemember reports, as *policy.InvalidError, the rules to remember that can never
// hold: without an act or an effect, say. Such a rule could not be read back, so it
// must be called before the decision is stored.
func (d Decision) CheckRemember() error {
	return policy.Policy{}.Remember(d.Remember...).Validate()
}

// normal drops what does not go with the kind, and makes unknown kinds a deferral.
func (d Decision) normal() Decision {
	switch d.Kind {
	case DecisionApprove:
		d.Reason = ""
	case DecisionDeny:
		d.Modified, d.Remember = nil, nil
		if d.Reason == "" {
			d.Reason = "the approver gave no reason"
		}
	default:
		d.Kind, d.Modified, d.Remember = DecisionDefer, nil, nil
	}
	return d
}

// builtin is an approver without parts. It is a string so that the two can be
// constants.
type builtin string

const (
	// All approves whatever asks, unchanged. It removes the question and not the wall:
	// what the policy denies does not get here.
	All builtin = "all"
	// None denies whatever asks, because nobody is there to be asked.
	None builtin = "none"
)

// Decide approves for All and denies for everything else.
func (b builtin) Decide(context.Context, Request) (Decision, error) {
	if b == All {
		return Approve(), nil
	}
	return Deny("nobody is available to approve this: do without it, or use what the policy allows"), nil
}

// RewriteError says that an approver changed an action that cannot be changed.
type RewriteError struct {
	Act     policy.Act
	Asked   string // the target that was asked about
	Changed string // the target, or a word for the content, that was given instead
}

func (e *RewriteError) Error() string {
	return fmt.Sprintf("%s of \"%s\" cannot be changed into \"%s\": approve it as asked, deny it, or narrow it by a rule",
		e.Act, policy.Escape(e.Asked), policy.Escape(e.Changed))
}

// CheckModified reports whether the change m can be honoured for this request: a new
// target for a read, a new target or content for a write. A command was parsed, and a
// provider was built, before anybody was asked; what is done must be what was
// approved, so any other change is a [*RewriteError] and nothing may run, and so is
// one that is not UTF-8, which could not be stored as it is. A change to
// what was asked anyway is none. It must be called before the decision is stored; the
// policy must then judge the new target as well.
func (r Request) CheckModified(m *Modified) error {
	if m == nil {
		return nil
	}
	if !utf8.ValidString(m.Target) || m.Content != nil && !utf8.ValidString(*m.Content) {
		return &RewriteError{Act: r.Act, Asked: r.Target, Changed: "what is not UTF-8"}
	}
	target := m.Target != "" && m.Target != r.Target
	content := m.Content != nil && *m.Content != r.Content
	switch {
	case r.Act == policy.Write, r.Act == policy.Read && !content:
		return nil
	case target:
		return &RewriteError{Act: r.Act, Asked: r.Target, Changed: m.Target}
	case content:
		return &RewriteError{Act: r.Act, Asked: r.Target, Changed: "other content"}
	}
	return nil
}
