package policy

// Act is what an agent wants to do to a target. The value is the stored text.
type Act string

// There are exactly four acts. Planning, asking, remembering and starting a child
// are not acts: they touch nothing outside the harness.
const (
	Read  Act = "read"  // a path in the workspace
	Write Act = "write" // a path in the workspace
	Exec  Act = "exec"  // a command line, or the name of a tool or server
	Net   Act = "net"   // a host:port
)

// Acts returns the four acts in the order in which they are shown.
func Acts() []Act { return []Act{Read, Write, Exec, Net} }

// Valid reports whether a is one of the four acts.
func (a Act) Valid() bool {
	switch a {
	case Read, Write, Exec, Net:
		return true
	}
	return false
}

// Effect is what happens to an act on a target. The value is the stored text. The
// zero Effect, and any text that is none of the three, counts as Deny.
type Effect string

const (
	Allow Effect = "allow" // it happens
	Ask   Effect = "ask"   // it happens when the approver agrees; where nobody can be asked, it does not
	Deny  Effect = "deny"  // it does not happen, and nobody is asked
)

// Effects returns the three effects from the loosest to the strictest.
func Effects() []Effect { return []Effect{Allow, Ask, Deny} }

// Valid reports whether e is one of the three effects.
func (e Effect) Valid() bool {
	switch e {
	case Allow, Ask, Deny:
		return true
	}
	return false
}

// Stricter returns the stricter of two effects. Whatever is none of the three
// counts, and is returned, as Deny.
func Stricter(a, b Effect) Effect {
	if a.rank() >= b.rank() {
		return a.known()
	}
	return b.known()
}

func (e Effect) rank() int {
	switch e {
	case Allow:
		return 0
	case Ask:
		return 1
	}
	return 2
}

// known maps the zero value and foreign text to Deny.
func (e Effect) known() Effect {
	if e.Valid() {
		return e
	}
	return Deny
}

// Rule is one effect on one act for the targets that Pattern matches.
//
// In a pattern * stands for any run of characters, the empty run, "/" and newline
// included, and ? for exactly one character. Everything else is literal: there are
// no character classes, no braces, no negation and no escape. ** is two stars and
// means what * means. A pattern must match the whole target.
type Rule struct {
	Act     Act    `json:"act"`
	Effect  Effect `json:"effect"`
	Pattern string `json:"pattern"`
}

// Layer is a named group of rules. The name says who wrote them, and refusals are
// attributed to it.
type Layer struct {
	Name  string `json:"name"`
	Rules []Rule `json:"rules"`

	// Narrows marks a layer that [Policy.Contain] took from a child: its ask rules turn
	// an allow into an ask, and leave alone what a default denies.
	Narrows bool `json:"narrows,omitempty"`
}

// Defaults decide a target that no rule matched. The zero Defaults deny everything.
type Defaults struct {
	Read  Effect `json:"read"`
	Write Effect `json:"write"`
	Exec  Effect `json:"exec"`
	Net   Effect `json:"net"`
}

// Of returns the default for one act, Deny for an act that does not exist.
func (d Defaults) Of(a Act) Effect {
	switch a {
	case Read:
		return d.Read.known()
	case Write:
		return d.Write.known()
	case Exec:
		return d.Exec.known()
	case Net:
		return d.Net.known()
	}
	return Deny
}

// strictest is the stricter default for each act.
func (d Defaults) strictest(o Defaults) Defaults {
	return Defaults{
		Read:  Stricter(d.Read, o.Read),
		Write: Stricter(d.Write, o.Write),
		Exec:  Stricter(d.Exec, o.Exec),
		Net:   Stricter(d.Net, o.Net),
	}
}
