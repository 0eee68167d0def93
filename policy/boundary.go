package policy

import (
	"fmt"
	"strings"
)

// BoundaryPatterns is how many patterns a boundary names for one act. More would
// crowd the prompt; the others are enforced all the same, and counted.
const BoundaryPatterns = 24

// Boundary is what an agent should know about one act before it plans.
type Boundary struct {
	Act     Act
	Default Effect
	Allowed []string
	Asked   []string
	Refused []Refused
	More    int // patterns that are enforced and not named here
}

// Refused is a pattern of a boundary together with the layer that refuses it; the
// layer is empty where the default does.
type Refused struct {
	Pattern string
	Layer   string
}

// Boundary returns one entry per act, in the order read, write, exec, net, and nil
// for a permissive policy, which has nothing to tell. A pattern stands where Check
// puts it, whatever its own rule says, so what an agent is told and what it is then
// refused agree. At most [BoundaryPatterns] distinct patterns per act are named.
func (p Policy) Boundary() []Boundary {
	if p.IsPermissive() {
		return nil
	}
	out := make([]Boundary, 0, 4)
	for _, act := range Acts() {
		out = append(out, p.boundary(act))
	}
	return out
}

func (p Policy) boundary(act Act) Boundary {
	b := Boundary{Act: act, Default: p.defaults.Of(act)}
	if len(p.faults) > 0 {
		b.Default = Deny
		return b
	}
	seen := map[string]bool{}
	for _, l := range p.layers {
		for _, r := range l.rules {
			if r.Act != act || seen[r.Pattern] {
				continue
			}
			seen[r.Pattern] = true
			if len(seen) > BoundaryPatterns {
				b.More++
				continue
			}
			switch v := p.judgePattern(act, r.Pattern); v.Effect {
			case Allow:
				b.Allowed = append(b.Allowed, r.Pattern)
			case Ask:
				b.Asked = append(b.Asked, r.Pattern)
			default:
				b.Refused = append(b.Refused, Refused{Pattern: r.Pattern, Layer: v.Layer})
			}
		}
	}
	return b
}

// judgePattern decides the text of a pattern as if it were a target.
func (p Policy) judgePattern(act Act, pattern string) Verdict {
	switch act {
	case Net:
		if _, ok := HostTarget(pattern); !ok { // a wildcard is no host
			host, _ := splitTarget(canonicalHostPattern(pattern))
			return p.decide(Net, func(r *rule, _ bool) bool {
				return match(r.toks, pattern, false) || r.Effect != Allow &&
					(match(r.toks, canonicalHostPattern(pattern), false) || match(r.toks, host, false))
			})
		}
	case Exec:
		return p.Check(Need{Act: Exec, Target: pattern, Argv: strings.Split(pattern, " ")})
	}
	return p.Check(Need{Act: act, Target: pattern})
}

// String is the line that tells an agent about the act: what happens by default, then
// the patterns by what happens to them. Text that somebody else may have written is
// escaped, so a pattern cannot add a line of its own.
func (b Boundary) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s: %s by default", b.Act, spoken(b.Default))
	part := func(label string, patterns []string) {
		if len(patterns) > 0 {
			fmt.Fprintf(&s, "; %s: %s", label, strings.Join(patterns, ", "))
		}
	}
	part("allowed", quoted(b.Allowed))
	part("needs approval", quoted(b.Asked))
	refused := make([]string, len(b.Refused))
	for i, r := range b.Refused {
		refused[i] = "`" + Escape(r.Pattern) + "`"
		if r.Layer != "" {
			refused[i] += " (" + Escape(r.Layer) + ")"
		}
	}
	part("refused", refused)
	switch {
	case b.More == 1:
		s.WriteString("; 1 more pattern is enforced and not listed")
	case b.More > 1:
		fmt.Fprintf(&s, "; %d more patterns are enforced and not listed", b.More)
	}
	return s.String()
}

func spoken(e Effect) string {
	switch e {
	case Allow:
		return "allowed"
	case Ask:
		return "only after a person or an approver agrees"
	}
	return "refused"
}

func quoted(patterns []string) []string {
	out := make([]string, len(patterns))
	for i, p := range patterns {
		out[i] = "`" + Escape(p) + "`"
	}
	return out
}
