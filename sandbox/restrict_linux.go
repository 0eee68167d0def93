package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// restriction is what a scratch thread does to itself before it starts a child.
// It is built before the thread is restricted: it opens paths.
type restriction struct {
	rung    Rung
	ruleset int // -1 when there is none
	flags   uint32
	filter  []unix.SockFilter
}

func newRestriction(s *spec) (*restriction, error) {
	r := &restriction{rung: s.rung, ruleset: -1}
	if s.rung != RungLandlock {
		return r, nil
	}
	if s.host.Seccomp.Works {
		prog, err := filterFor(s.filterPlan())
		if err != nil {
			return nil, err
		}
		r.filter = prog
	}
	fd, flags, err := newRuleset(planLandlock(s, s.host.LandlockABI, s.host.LandlockErrata, hostFiles))
	if err != nil {
		return nil, fmt.Errorf("landlock: %w", err)
	}
	r.ruleset, r.flags = fd, flags
	return r, nil
}

// filterPlan is what the filter must close for this command on a rung that
// shares the host's network. Landlock's own rules know plain TCP only, so with
// nothing permitted no internet socket can be made at all, and with a proxy
// only plain TCP can.
func (s *spec) filterPlan() filterPlan {
	return filterPlan{
		noInet:      s.profile.Egress.denied(),
		tcpOnly:     s.profile.Egress.proxied(),
		noUnix:      s.closesUnix(),
		nestedUsers: s.profile.NestedUserNamespaces,
	}
}

// weaken takes from the calling thread what its boundary needs gone: capabilities
// while there is still the right to drop them, then no_new_privs, which Landlock and
// the filter demand. It asks nothing of the command and spoils the thread for good.
func weaken(rung Rung) error {
	if rung != RungLandlock {
		return nil
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := noNewPrivs(); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// apply restricts the calling thread, which is weakened already.
func (r *restriction) apply() error {
	if r.rung != RungLandlock {
		return nil
	}
	if err := restrictSelf(r.ruleset, r.flags); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return loadFilter(r.filter)
}

func (r *restriction) close() {
	if r.ruleset >= 0 {
		_ = unix.Close(r.ruleset)
		r.ruleset = -1
	}
}
