package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// groundwork is what a command is started on. It is laid before the scratch thread is
// restricted, by another: it opens paths.
type groundwork struct {
	ruleset int // of Landlock; -1 when there is none
	flags   uint32
	files   []*os.File // of the child
}

func layGround(s *spec) (*groundwork, error) {
	g := &groundwork{ruleset: -1}
	if s.rung == RungLandlock {
		fd, flags, err := newRuleset(planLandlock(s, s.host.LandlockABI, s.host.LandlockErrata, listHost))
		if err != nil {
			return nil, fmt.Errorf("landlock: %w", err)
		}
		g.ruleset, g.flags = fd, flags
	}
	g.files = onlyThese(s.files)
	return g, nil
}

// filter is the program that the scratch thread loads; nil for none.
func (s *spec) filter() ([]unix.SockFilter, error) {
	if s.rung != RungLandlock || !s.host.Seccomp.Works {
		return nil, nil
	}
	return filterFor(s.filterPlan())
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

// weaken takes from the calling thread what needs no more of the command than the
// filter: capabilities while there is still the right to drop them, then no_new_privs,
// which the filter and Landlock demand, then the calls that filter refuses. It spoils
// the thread for good.
func weaken(rung Rung, filter []unix.SockFilter) error {
	if rung != RungLandlock {
		return nil
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := noNewPrivs(); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return loadFilter(filter)
}

// restrict puts the ruleset into force for the calling thread, which is weakened
// already.
func (g *groundwork) restrict() error {
	if g.ruleset < 0 {
		return nil
	}
	if err := restrictSelf(g.ruleset, g.flags); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

func (g *groundwork) close() {
	if g.ruleset >= 0 {
		_ = unix.Close(g.ruleset)
		g.ruleset = -1
	}
}
