package approve

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/initorigin/io-harness-go/policy"
)

// A PlanGate reviews the approach of a run before it may write or run anything.
//
// Review is called with each plan that the model proposes, one at a time. As with an
// [Approver], nothing times it out, it should return soon when ctx ends, and an error
// or a panic leaves the plan undecided.
type PlanGate interface {
	Review(ctx context.Context, p Plan) (PlanVerdict, error)
}

// PlanGateFunc is a function as a [PlanGate].
type PlanGateFunc func(ctx context.Context, p Plan) (PlanVerdict, error)

// Review calls f.
func (f PlanGateFunc) Review(ctx context.Context, p Plan) (PlanVerdict, error) { return f(ctx, p) }

// Bounds of a plan. A longer one is not read by a person, and every step of it stays
// in the prompt.
const (
	PlanSteps  = 200  // steps
	PlanIntent = 2000 // characters in the intent of one step
)

// Plan is a proposed approach.
type Plan struct {
	Steps []PlanStep `json:"steps"`
}

// PlanStep is one step of a plan, in order.
type PlanStep struct {
	Intent string `json:"intent"`
	Agent  string `json:"agent,omitempty"` // the named agent that would do it
}

// Agents returns the named agents of the plan, each once, in the order in which they
// come up.
func (p Plan) Agents() []string {
	var out []string
	for _, s := range p.Steps {
		if s.Agent != "" && !slices.Contains(out, s.Agent) {
			out = append(out, s.Agent)
		}
	}
	return out
}

// Render is the plan as text, one line per step: "1. intent", or "1. [agent] intent".
// It is escaped, so that a step is one line and shows what it holds.
func (p Plan) Render() string {
	var b strings.Builder
	for i, s := range p.Steps {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%d. ", i+1)
		if s.Agent != "" {
			fmt.Fprintf(&b, "[%s] ", policy.Escape(s.Agent))
		}
		b.WriteString(policy.Escape(s.Intent))
	}
	return b.String()
}

// ParsePlan reads the arguments of a proposal, {"steps":[{"intent":…,"agent":…}]}.
// agents is the roster that steps may name. Nothing is dropped: a missing or empty
// list, a blank intent, an agent that is not on the roster, and a plan beyond
// [PlanSteps] or [PlanIntent] are errors that say which step and what to do.
func ParsePlan(args json.RawMessage, agents []string) (Plan, error) {
	top, err := members(args, "plan")
	if err != nil {
		return Plan{}, err
	}
	list, err := items(top["steps"], "steps")
	if err != nil {
		return Plan{}, err
	}
	switch {
	case len(list) == 0:
		return Plan{}, fmt.Errorf("steps is empty: a plan has at least one step")
	case len(list) > PlanSteps:
		return Plan{}, fmt.Errorf("steps has %d entries: a plan has at most %d, so make the steps larger", len(list), PlanSteps)
	}
	var p Plan
	for i, raw := range list {
		where := fmt.Sprintf("steps[%d]", i)
		m, err := members(raw, where)
		if err != nil {
			return Plan{}, err
		}
		intent, err := trimmed(m["intent"], where+".intent")
		if err != nil {
			return Plan{}, err
		}
		agent, err := trimmed(m["agent"], where+".agent")
		if err != nil {
			return Plan{}, err
		}
		switch n := len([]rune(intent)); {
		case n == 0:
			return Plan{}, fmt.Errorf("%s.intent is blank: say what the step does", where)
		case n > PlanIntent:
			return Plan{}, fmt.Errorf("%s.intent has %d characters: at most %d", where, n, PlanIntent)
		}
		if agent != "" && !slices.Contains(agents, agent) {
			if len(agents) == 0 {
				return Plan{}, fmt.Errorf("%s.agent is %q: there are no named agents here, leave it unset", where, agent)
			}
			return Plan{}, fmt.Errorf("%s.agent is %q: it must be unset or one of %s", where, agent, strings.Join(agents, ", "))
		}
		p.Steps = append(p.Steps, PlanStep{Intent: intent, Agent: agent})
	}
	return p, nil
}

// VerdictKind is what was decided about a plan. The value is the stored text.
type VerdictKind string

// The verdicts. The zero value, and any other text, means undecided: the run pauses
// until somebody decides.
const (
	VerdictApprove VerdictKind = "approve" // the plan holds, work begins
	VerdictRevise  VerdictKind = "revise"  // propose again, along the correction
	VerdictCancel  VerdictKind = "cancel"  // the run ends; nothing was done
)

// PlanVerdict is a gate's word. The zero PlanVerdict is undecided. An approval ends
// the planning and allows nothing else: every call is checked as before.
type PlanVerdict struct {
	Kind       VerdictKind `json:"kind,omitempty"`
	Correction string      `json:"correction,omitempty"` // with revise: what to change
}

// Decided reports whether v is one of the three verdicts.
func (v PlanVerdict) Decided() bool {
	switch v.Kind {
	case VerdictApprove, VerdictRevise, VerdictCancel:
		return true
	}
	return false
}

// Accept is the verdict that the plan holds.
func Accept() PlanVerdict { return PlanVerdict{Kind: VerdictApprove} }

// Revise is the verdict that the plan should change as the correction says.
func Revise(correction string) PlanVerdict {
	return PlanVerdict{Kind: VerdictRevise, Correction: correction}
}

// Cancel is the verdict that ends the run.
func Cancel() PlanVerdict { return PlanVerdict{Kind: VerdictCancel} }

type builtinGate string

const (
	// AcceptPlans accepts every plan at once: for a run whose plan should be on record.
	AcceptPlans builtinGate = "accept"
	// HoldPlans leaves every plan undecided, so that the run pauses until a person
	// resumes it with a verdict. It is the gate of a process with nobody in front of it.
	HoldPlans builtinGate = "hold"
)

// Review accepts for AcceptPlans and leaves undecided for everything else.
func (g builtinGate) Review(context.Context, Plan) (PlanVerdict, error) {
	if g == AcceptPlans {
		return Accept(), nil
	}
	return PlanVerdict{}, nil
}
