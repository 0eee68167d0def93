package policy

import (
	"fmt"
	"strings"
)

// Explanation is a verdict with every rule that had something to say.
type Explanation struct {
	Need    Need
	Verdict Verdict
	Matches []Match // in the order in which they would decide; the first is the verdict's
}

// Match is a rule that matches a need.
type Match struct {
	Layer string
	Rule  Rule
}

// Explain is Check for a person who wants to know why: the same verdict, and all
// rules that match. It costs a check per rule.
func (p Policy) Explain(n Need) Explanation {
	e := Explanation{Need: n, Verdict: p.Check(n)}
	if len(p.faults) > 0 {
		return e
	}
	for _, effect := range [...]Effect{Deny, Ask, Allow} {
		for _, l := range p.layers {
			for _, r := range l.rules {
				if r.Effect != effect || r.Act != n.Act {
					continue
				}
				alone := Policy{layers: []layer{{name: l.name, rules: []rule{r}}}, defaults: Defaults{Allow, Allow, Allow, Allow}}
				if v := alone.Check(n); v.Matched && v.Layer == l.name && v.Rule == r.Pattern {
					e.Matches = append(e.Matches, Match{Layer: l.name, Rule: r.Rule})
				}
			}
		}
	}
	return e
}

// String tells the verdict in a line and the other matching rules in one line each.
func (e Explanation) String() string {
	var b strings.Builder
	target := e.Need.Target
	if len(e.Need.Argv) > 0 {
		target = strings.Join(e.Need.Argv, " ")
	}
	fmt.Fprintf(&b, "%s \"%s\": %s", e.Need.Act, Escape(target), e.Verdict.Effect)
	switch v := e.Verdict; {
	case !v.Matched:
		b.WriteString(" by default")
	case v.Layer == "":
		b.WriteString(", " + v.Rule + ", which no policy can allow")
	default:
		fmt.Fprintf(&b, " by rule \"%s\" of layer \"%s\"", Escape(v.Rule), Escape(v.Layer))
	}
	if !e.Verdict.Matched || e.Verdict.Layer == "" {
		return b.String()
	}
	for _, m := range e.Matches[1:] {
		fmt.Fprintf(&b, "\n  also matched: %s \"%s\" of layer \"%s\"", m.Rule.Effect, Escape(m.Rule.Pattern), Escape(m.Layer))
	}
	return b.String()
}
