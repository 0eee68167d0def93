package policy

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Merge puts q on top of p as a peer: the layers of p, then those of q, and the
// stricter of the two defaults for each act. What q allows widens what p leaves to a
// default, but never lifts a deny or an ask of p, and no default becomes looser.
func (p Policy) Merge(q Policy) Policy {
	p.layers = append(slices.Clip(p.layers), q.layers...)
	p.defaults = p.defaults.strictest(q.defaults)
	p.faults = append(slices.Clip(p.faults), q.faults...)
	return p
}

// Contain narrows p for a child: the layers of p stay, the deny and ask rules of the
// child are added, its allow rules are dropped, and each default becomes the stricter
// of the two. An ask of the child turns an allow of p into an ask and opens nothing
// that p denies. No verdict of the result is less strict than that of p.
//
// It is not an intersection: where p allows by a rule, a child that merely denies by
// default changes nothing, because rules come before defaults. A child that is to
// have less must deny.
func (p Policy) Contain(child Policy) Policy {
	p.layers = slices.Clip(p.layers)
	for _, l := range child.layers {
		kept := layer{name: l.name, narrows: l.narrows}
		for _, r := range l.rules {
			if r.Effect != Allow {
				kept.rules = append(kept.rules, r)
				kept.narrows = kept.narrows || r.Effect == Ask
			}
		}
		if len(kept.rules) > 0 {
			p.layers = append(p.layers, kept)
		}
	}
	p.defaults = p.defaults.strictest(child.defaults)
	p.faults = append(slices.Clip(p.faults), child.faults...)
	return p
}

// The layers that the harness writes itself. Nobody else can open a layer under one
// of these names, so what a refusal is attributed to cannot be forged.
const (
	LayerSecrets    = "builtin-secrets" // Default: keys and environment files
	LayerExec       = "builtin-exec"    // Default: compilers that only check
	LayerConfig     = "builtin-config"  // Default: files that git and the harness obey
	LayerMoreSecret = "more-secrets"    // WithMoreSecrets
	LayerLaunchers  = "launchers"       // WithLauncherAsk
	LayerControl    = "control-files"   // WithControlFiles
	LayerProvider   = "provider"        // ForProvider
	LayerPlanGate   = "plan-gate"       // PlanLock
	LayerRemembered = "remembered"      // Remember
	LayerChild      = "child"           // ForChild
	LayerFloor      = "address-floor"   // refusals by FloorRefuses, which no policy lifts
	LayerToolMask   = "turn tool mask"  // refusals of tools that a turn does not offer
	LayerHook       = "io.toml hook"    // refusals by an operator's hook
)

// ReservedLayer reports whether a layer name belongs to the harness.
func ReservedLayer(name string) bool {
	switch name {
	case LayerSecrets, LayerExec, LayerConfig, LayerMoreSecret, LayerLaunchers, LayerControl,
		LayerProvider, LayerPlanGate, LayerRemembered, LayerChild, LayerFloor, LayerToolMask, LayerHook:
		return true
	}
	return false
}

// ForProvider returns p for the harness's own calls to one model endpoint: it allows
// exactly target, a host:port as [NetTarget] returns it. A deny or ask rule of p on
// that host still holds. Commands, browsers and the prompt go by p itself.
func (p Policy) ForProvider(target string) Policy {
	return p.push(LayerProvider).add([]Rule{{Act: Net, Effect: Allow, Pattern: target}})
}

// PlanLock returns p while a plan waits for its reviewer: no write and no command,
// which covers every tool that is called by name. Reads and the network stay as they
// are. The lock ends by going back to p, never by editing.
func (p Policy) PlanLock() Policy {
	return p.push(LayerPlanGate).add([]Rule{
		{Act: Write, Effect: Deny, Pattern: "*"},
		{Act: Exec, Effect: Deny, Pattern: "*"},
	})
}

// ForChild returns p for a sub-agent that may write and dial less. There is no way to
// ask for more: a child has no allow list.
func (p Policy) ForChild(denyWrite, denyNet []string) Policy {
	rules := append(rulesOf(Write, Deny, denyWrite), rulesOf(Net, Deny, denyNet)...)
	if len(rules) == 0 {
		return p
	}
	return p.push(LayerChild).add(rules)
}

// Remember returns p with rules that an approver asked to keep. They go through the
// same order as all others, so a remembered allow beats no deny and, in Check, no ask
// rule; [Policy.Granted] is what lets it answer an ask.
func (p Policy) Remember(rules ...Rule) Policy {
	if len(rules) == 0 {
		return p
	}
	return p.push(LayerRemembered).add(rules)
}

// Granted reports whether a remembered allow answers for n, so that nobody is asked
// again: without it the policy would ask, and it matches. A remembered ask or deny on
// the same target takes that back. The verdict names the grant.
func (p Policy) Granted(n Need) (Verdict, bool) {
	without := Policy{defaults: p.defaults, faults: p.faults}
	grants := Policy{defaults: Defaults{Ask, Ask, Ask, Ask}}
	for _, l := range p.layers {
		if l.name == LayerRemembered {
			grants.layers = append(grants.layers, l)
			l.rules = slices.DeleteFunc(slices.Clone(l.rules), func(r rule) bool { return r.Effect == Allow })
		}
		without.layers = append(without.layers, l)
	}
	if len(grants.layers) == 0 || without.Check(n).Effect != Ask {
		return Verdict{}, false
	}
	v := grants.Check(n)
	return v, v.Effect == Allow
}

// RuleFor returns the rule that gives effect to exactly what n asks, for an approver
// that wants its decision remembered. It reports false where no such rule exists: a
// target that contains * or ? cannot be named by a pattern without naming more, nor
// can a command line with an argument that is empty or contains a space, since rules
// are compared with the joined line.
func RuleFor(n Need, effect Effect) (Rule, bool) {
	text := n.Target
	switch n.Act {
	case Read, Write:
		text = cleanPath(text, thisHost().windows)
	case Exec:
		if !separable(n.Argv) {
			return Rule{}, false
		}
		if len(n.Argv) > 0 {
			text = strings.Join(n.Argv, " ")
		}
	case Net:
		host, ok := HostTarget(text)
		if !ok {
			return Rule{}, false
		}
		text = host
	}
	r := Rule{Act: n.Act, Effect: effect, Pattern: text}
	if !n.Act.Valid() || !effect.Valid() || strings.ContainsAny(text, "*?") || !utf8.ValidString(text) {
		return Rule{}, false
	}
	return r, true
}
