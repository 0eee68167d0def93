package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Policy is the whole boundary of an agent: layers of rules and a default per act.
//
// It is an immutable value: every method that adds something returns a new Policy
// and leaves the old one as it was, so policies derived from one base never share a
// rule, and a policy may be used from any number of goroutines.
//
// The zero Policy denies everything. It is not [Default].
type Policy struct {
	layers   []layer
	defaults Defaults
	faults   []error // what Validate reports; not empty: everything is denied
}

type layer struct {
	name    string
	rules   []rule
	narrows bool // its asks never open what a default denies
}

// rule is a Rule with its pattern made ready to match.
type rule struct {
	Rule
	toks   []rune // allow: as written; else normalised for the act
	folded []rune // deny and ask of paths: as compared where names fold
	head   int    // allow of exec: bytes before the first wildcard
	words  bool   // remembered allow of exec without a wildcard: speaks of these very words only
}

// Layer starts a new layer, which the rule methods then fill. The name should say
// who answers for the rules: refusals carry it into the trace and the prompt. Names
// may repeat. An empty name, and the names that the harness itself writes (see
// [ReservedLayer]), are faults that Validate reports.
func (p Policy) Layer(name string) Policy {
	switch {
	case name == "":
		p = p.fault("", nil, "a layer needs a name that says who answers for its rules")
	case !utf8.ValidString(name):
		p = p.fault(name, nil, "the name of the layer is not valid UTF-8 and could not be stored")
	case ReservedLayer(name):
		p = p.fault(name, nil, "the name belongs to the harness, and a refusal could be attributed to the wrong author: choose another")
	}
	return p.push(name)
}

// With appends rules to the last layer. If there is none, or it is one of the
// harness's own or of a child, the rules go into a new layer named "policy". An unknown act or
// effect is a fault that Validate reports.
func (p Policy) With(rules ...Rule) Policy {
	if len(rules) == 0 {
		return p
	}
	if n := len(p.layers); n == 0 || ReservedLayer(p.layers[n-1].name) || p.layers[n-1].narrows {
		p = p.push("policy")
	}
	return p.add(rules)
}

// AllowRead allows reading the paths that match. Patterns are relative to the
// workspace root and must match the whole path: "*" is everything, "src/*" all that
// lies below src at any depth, "go.mod" the one at the top.
func (p Policy) AllowRead(globs ...string) Policy { return p.With(rulesOf(Read, Allow, globs)...) }

// AskRead puts reading the paths that match to the approver. A pattern without "/"
// holds at any depth, and a directory stands for all below it.
func (p Policy) AskRead(globs ...string) Policy { return p.With(rulesOf(Read, Ask, globs)...) }

// DenyRead forbids reading the paths that match. A pattern without "/" holds at any
// depth, and a directory stands for all below it.
func (p Policy) DenyRead(globs ...string) Policy { return p.With(rulesOf(Read, Deny, globs)...) }

// AllowWrite allows writing the paths that match, as AllowRead does for reading.
func (p Policy) AllowWrite(globs ...string) Policy { return p.With(rulesOf(Write, Allow, globs)...) }

// AskWrite puts writing the paths that match to the approver, as AskRead does for
// reading.
func (p Policy) AskWrite(globs ...string) Policy { return p.With(rulesOf(Write, Ask, globs)...) }

// DenyWrite forbids writing the paths that match, as DenyRead does for reading.
func (p Policy) DenyWrite(globs ...string) Policy { return p.With(rulesOf(Write, Deny, globs)...) }

// AllowExec allows the command lines that match as a whole: "go test*" allows
// go test ./..., "go" allows only the bare word. It allows tools by their names too.
// A command whose program is given as a path needs a pattern that begins with a path.
func (p Policy) AllowExec(globs ...string) Policy { return p.With(rulesOf(Exec, Allow, globs)...) }

// AskExec puts the commands that match to the approver. A pattern may name a program
// ("git", whatever its path and arguments) or a command line ("git push*"). Where the
// default denies, only a pattern for the line opens it to asking.
func (p Policy) AskExec(globs ...string) Policy { return p.With(rulesOf(Exec, Ask, globs)...) }

// DenyExec forbids the commands that match, by program or by command line as AskExec.
func (p Policy) DenyExec(globs ...string) Policy { return p.With(rulesOf(Exec, Deny, globs)...) }

// AllowNet allows connecting to the hosts that match: "api.example.com" on every
// port, "api.example.com:443" on one. Write hosts in lower case and ASCII form.
func (p Policy) AllowNet(globs ...string) Policy { return p.With(rulesOf(Net, Allow, globs)...) }

// AskNet puts connecting to the hosts that match to the approver. Where nobody can be
// asked (a proxy, a browser) it is a refusal.
func (p Policy) AskNet(globs ...string) Policy { return p.With(rulesOf(Net, Ask, globs)...) }

// DenyNet forbids connecting to the hosts that match, however they are spelled.
func (p Policy) DenyNet(globs ...string) Policy { return p.With(rulesOf(Net, Deny, globs)...) }

// WithDefaults replaces the defaults that d states; an empty field keeps what is
// there. An unknown effect is a fault that Validate reports.
func (p Policy) WithDefaults(d Defaults) Policy {
	set := func(dst *Effect, e Effect) {
		if e == "" {
			return
		}
		if !e.Valid() {
			p = p.fault("", nil, fmt.Sprintf("the default %q is none of allow, ask and deny", string(e)))
		}
		*dst = e.known()
	}
	next := p.defaults
	set(&next.Read, d.Read)
	set(&next.Write, d.Write)
	set(&next.Exec, d.Exec)
	set(&next.Net, d.Net)
	p.defaults = next
	return p
}

// Defaults returns what decides where no rule matches.
func (p Policy) Defaults() Defaults {
	return p.defaults.strictest(p.defaults)
}

// Layers returns a copy of the layers, in order.
func (p Policy) Layers() []Layer {
	out := make([]Layer, len(p.layers))
	for i, l := range p.layers {
		out[i] = Layer{Name: l.name, Rules: make([]Rule, len(l.rules)), Narrows: l.narrows}
		for j, r := range l.rules {
			out[i].Rules[j] = r.Rule
		}
	}
	return out
}

// IsZero reports whether p is the zero Policy, on which nothing was ever set.
func (p Policy) IsZero() bool {
	return len(p.layers) == 0 && len(p.faults) == 0 && p.defaults == Defaults{}
}

// IsPermissive reports whether p has no rule at all and allows by default
// everywhere. Empty layers do not count.
func (p Policy) IsPermissive() bool {
	if len(p.faults) > 0 || p.defaults != (Defaults{Allow, Allow, Allow, Allow}) {
		return false
	}
	for _, l := range p.layers {
		if len(l.rules) > 0 {
			return false
		}
	}
	return true
}

// Equal reports whether p and q have the same layers, with the same rules in the
// same order, and the same defaults.
func (p Policy) Equal(q Policy) bool {
	if len(p.faults) != len(q.faults) || p.Defaults() != q.Defaults() {
		return false
	}
	return slices.EqualFunc(p.layers, q.layers, func(a, b layer) bool {
		return a.name == b.name && a.narrows == b.narrows && slices.EqualFunc(a.rules, b.rules, func(x, y rule) bool { return x.Rule == y.Rule })
	})
}

// Validate reports everything that is wrong with how p was built, each as an
// [*InvalidError], joined. A policy that does not validate denies everything, so a
// mistake in it never opens anything.
func (p Policy) Validate() error { return errors.Join(p.faults...) }

// InvalidError says what is wrong with a layer or a rule.
type InvalidError struct {
	Layer  string // the layer concerned, if one is
	Rule   *Rule  // the rule concerned, if one is
	Reason string
}

func (e *InvalidError) Error() string {
	var b strings.Builder
	b.WriteString("policy")
	if e.Layer != "" {
		fmt.Fprintf(&b, " layer %q", Escape(e.Layer))
	}
	if e.Rule != nil {
		fmt.Fprintf(&b, " rule {act %q, effect %q, pattern %q}", string(e.Rule.Act), string(e.Rule.Effect), e.Rule.Pattern)
	}
	b.WriteString(": ")
	b.WriteString(e.Reason)
	return b.String()
}

// fault returns p with one more fault. Faults are never shared between policies.
func (p Policy) fault(layer string, r *Rule, reason string) Policy {
	p.faults = append(slices.Clip(p.faults), &InvalidError{Layer: layer, Rule: r, Reason: reason})
	return p
}

// push returns p with an empty layer at the end.
func (p Policy) push(name string) Policy {
	p.layers = append(slices.Clip(p.layers), layer{name: name})
	return p
}

// add returns p with rules in its last layer. The layer list and the rules of that
// layer are copied, so that no other policy can see the change.
func (p Policy) add(rules []Rule) Policy {
	last := len(p.layers) - 1
	p.layers = slices.Clone(p.layers)
	l := &p.layers[last]
	l.rules = slices.Grow(slices.Clone(l.rules), len(rules))
	for _, r := range rules {
		switch {
		case !r.Act.Valid():
			p = p.fault(l.name, &r, "the act is none of read, write, exec and net")
		case !r.Effect.Valid():
			p = p.fault(l.name, &r, "the effect is none of allow, ask and deny")
		case !utf8.ValidString(r.Pattern):
			p = p.fault(l.name, &r, "the pattern is not valid UTF-8 and could not be stored")
		}
		made := newRule(r, thisHost())
		made.words = l.name == LayerRemembered && r.Act == Exec && r.Effect == Allow && !strings.ContainsAny(r.Pattern, "*?")
		l.rules = append(l.rules, made)
	}
	return p
}

// newRule compiles r as it is matched on a platform.
func newRule(r Rule, on platform) rule {
	out := rule{Rule: r}
	refuses := r.Effect != Allow
	switch {
	case refuses && (r.Act == Read || r.Act == Write):
		text := cleanPattern(r.Pattern, on.windows)
		out.toks = compile(text, false)
		out.folded = compile(foldPath(text), true)
	case r.Act == Read || r.Act == Write:
		text := r.Pattern
		if on.windows {
			text = windowsSlashes(text)
		}
		out.toks = compile(text, false)
	case refuses && r.Act == Exec:
		out.toks = compile(r.Pattern, true)
	case refuses && r.Act == Net:
		out.toks = compile(canonicalHostPattern(r.Pattern), false)
	default:
		out.toks = compile(r.Pattern, false)
		out.head = len(r.Pattern)
		if i := strings.IndexAny(r.Pattern, "*?"); i >= 0 {
			out.head = i
		}
	}
	return out
}

func rulesOf(act Act, effect Effect, globs []string) []Rule {
	out := make([]Rule, len(globs))
	for i, g := range globs {
		out[i] = Rule{Act: act, Effect: effect, Pattern: g}
	}
	return out
}
