package policy

import (
	"fmt"
	"slices"
	"strings"
)

// AllowsAnyHost reports whether some host may be dialled without asking: the default
// allows, or a rule does. It is for whoever can only switch the network on or off.
func (p Policy) AllowsAnyHost() bool {
	if len(p.faults) > 0 {
		return false
	}
	return p.defaults.Net == Allow || p.anyNet(func(r *rule) bool { return r.Effect == Allow })
}

// NamesHosts reports whether there is any rule about the network, a deny included,
// so that a switch is not enough and each dial must be decided.
func (p Policy) NamesHosts() bool {
	return p.anyNet(func(*rule) bool { return true })
}

func (p Policy) anyNet(yes func(*rule) bool) bool {
	for _, l := range p.layers {
		for i := range l.rules {
			if l.rules[i].Act == Net && yes(&l.rules[i]) {
				return true
			}
		}
	}
	return false
}

// DomainFilter projects the network rules onto the allow and block lists of a vendor
// that searches or fetches on its own machines. Ports are dropped, an allow of "*"
// means no allow list, and nil means no list. It fails, as an [*InvalidError], where
// the lists cannot say what the rules say: an ask rule (nothing can be paused there),
// a pattern with a scheme or a path, a default that does not allow with no host
// allowed.
func (p Policy) DomainFilter() (allowed, blocked []string, err error) {
	if err := p.Validate(); err != nil {
		return nil, nil, err
	}
	everything := p.defaults.Net == Allow
	for _, l := range p.layers {
		for _, r := range l.rules {
			if r.Act != Net {
				continue
			}
			rule := r.Rule
			if rule.Effect == Ask {
				return nil, nil, &InvalidError{Layer: l.name, Rule: &rule, Reason: "a vendor's search cannot stop to ask: allow or deny the host"}
			}
			if strings.Contains(rule.Pattern, "/") {
				return nil, nil, &InvalidError{Layer: l.name, Rule: &rule, Reason: "a vendor's filter takes host names: write no scheme and no path"}
			}
			host, _ := splitTarget(rule.Pattern)
			switch {
			case rule.Effect == Deny:
				blocked = append(blocked, host)
			case host == "*":
				everything = true
			default:
				allowed = append(allowed, host)
			}
		}
	}
	slices.Sort(allowed)
	slices.Sort(blocked)
	allowed, blocked = slices.Compact(allowed), slices.Compact(blocked)
	if slices.Contains(blocked, "*") {
		return nil, nil, &InvalidError{Reason: "a rule denies every host: a vendor's search would find nothing"}
	}
	if everything {
		return nil, blocked, nil
	}
	if len(allowed) == 0 {
		return nil, nil, &InvalidError{Reason: fmt.Sprintf("the default for net is %s and no rule allows a host: an empty filter would open everything", p.defaults.Net.known())}
	}
	return allowed, blocked, nil
}
