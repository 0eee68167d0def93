package policy

import "runtime"

// Need is one thing that a call wants to do.
type Need struct {
	Act Act

	// Target is what the act is done to: a path relative to the workspace root with
	// "/" between its parts and "" for the root; the name of a tool, a server or a
	// program; a host:port as [NetTarget] or [HostTarget] returns it. With Argv it is
	// what people are shown, and decides nothing.
	Target string

	// Argv is the command line of an exec, as it will be started. It decides as a
	// whole, joined with single spaces.
	Argv []string

	// Dir is the directory that the command starts in, relative to the workspace
	// root. It decides nothing.
	Dir string

	// Resolved is what the target turned out to be: the absolute canonical path of a
	// read or write, the absolute path of the program of an exec, the address that a
	// name resolved to. Deny and ask rules are tested on it too; allow rules never
	// are, so stating it can only make the verdict stricter. Empty: not known.
	Resolved string

	// FoldCase says that names on the file system under the workspace differ by more
	// than case and Unicode normalisation. Deny and ask rules for paths are then
	// compared folded. On Windows and macOS they always are.
	FoldCase bool
}

// Verdict is the answer to a [Need].
type Verdict struct {
	Effect  Effect
	Rule    string // the pattern that decided, as written; or a rule in angle brackets that no policy wrote
	Layer   string // the layer of that rule
	Matched bool   // false: no rule matched, the default of the act decided
}

// Rules that stand in no layer, because no policy may lift them. A verdict by one
// of them has Matched set and no Layer.
const (
	OutsideRoot     = "<resolves outside workspace root>" // a path that leaves the workspace
	UncheckableHost = "<host cannot be checked>"          // a network target with more than one reading
	InvalidPolicy   = "<invalid policy>"                  // the policy fails Validate, so it denies everything
)

// Check decides one need. It is pure, safe for concurrent use, and allocates
// nothing for targets that are already in normal form.
//
// All deny rules are looked at first, then all ask rules, then all allow rules;
// within one effect in the order of layers and rules. The first match decides, and
// without a match the default does. How specific a pattern is never matters.
//
// A deny or ask rule matches generously, an allow rule by the letter. What a target
// resolves to, and other spellings of a command, never turn a default that denies
// into an ask:
//
//   - Paths. A deny or ask rule also matches by the last part of the path, and covers
//     everything below a directory that it matches. An allow rule must match the
//     whole relative path. A path that climbs out of the root is denied as
//     [OutsideRoot] whatever the policy says. Absolute paths are decided on their
//     text: keeping them inside the root is the workspace's work.
//   - Commands. An allow rule must match the whole joined command line, and one that
//     begins with a plain word never reaches a program given by path. A deny or ask
//     rule matches, without regard to case, the program or the line, with the
//     program as asked, by base name, and as resolved.
//   - Hosts. The target is brought into canonical form, and is denied as
//     [UncheckableHost] where it has none. A rule matches host:port or the host.
func (p Policy) Check(n Need) Verdict {
	return p.checkOn(n, thisHost())
}

// platform is how names work where the check runs. It is a parameter so that every
// platform's rules can be tested on any.
type platform struct {
	windows bool // backslash separates, drive letters and device prefixes exist
	folds   bool // file names differ by more than case
}

func thisHost() platform {
	return platform{
		windows: runtime.GOOS == "windows",
		folds:   runtime.GOOS == "windows" || runtime.GOOS == "darwin",
	}
}

func (p Policy) checkOn(n Need, on platform) Verdict {
	if len(p.faults) > 0 {
		return Verdict{Effect: Deny, Rule: InvalidPolicy, Matched: true}
	}
	switch n.Act {
	case Read, Write:
		return p.checkPath(n, on)
	case Exec:
		return p.checkExec(n, on)
	case Net:
		return p.checkNet(n)
	}
	return Verdict{Effect: Deny}
}

// decide is the one place where rules are put in order. covers reports whether a rule
// matches: as the target stands, or, with known, also by what else is known about it.
// Denies and asks look at all that is known, allows never do.
//
// An ask is stricter than an allow and looser than a default that denies. It tightens
// by everything that is known, and opens only for the target as it stands, and never
// from a layer that was added to narrow.
func (p Policy) decide(act Act, covers func(r *rule, known bool) bool) Verdict {
	if v, ok := p.first(act, Deny, func(_ *layer, r *rule) bool { return covers(r, true) }); ok {
		return v
	}
	ask, asked := p.first(act, Ask, func(_ *layer, r *rule) bool { return covers(r, true) })
	if asked && p.defaults.Of(act) != Deny {
		return ask
	}
	if asked {
		if v, ok := p.first(act, Ask, func(l *layer, r *rule) bool { return !l.narrows && covers(r, false) }); ok {
			return v
		}
	}
	if v, ok := p.first(act, Allow, func(_ *layer, r *rule) bool { return covers(r, false) }); ok {
		if asked {
			return ask
		}
		return v
	}
	return Verdict{Effect: p.defaults.Of(act)}
}

// first finds the first rule of one effect, in the order of layers and rules.
func (p Policy) first(act Act, effect Effect, covers func(*layer, *rule) bool) (Verdict, bool) {
	for i := range p.layers {
		l := &p.layers[i]
		for j := range l.rules {
			if r := &l.rules[j]; r.Effect == effect && r.Act == act && covers(l, r) {
				return Verdict{Effect: effect, Rule: r.Pattern, Layer: l.name, Matched: true}, true
			}
		}
	}
	return Verdict{}, false
}
