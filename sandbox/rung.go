package sandbox

import (
	"fmt"
	"slices"
)

// demand is what one command asks of a rung.
type demand struct {
	denyEgress bool // nothing may be reached
	proxied    bool // only the proxy may be reached
	maskReads  bool // some existing paths must be hidden
}

func demandOf(p Profile) demand {
	return demand{denyEgress: p.Egress.denied(), proxied: p.Egress.proxied(), maskReads: len(p.Reads.Deny) > 0}
}

// choice is a rung and the reasons why those above it were passed over.
type choice struct {
	rung Rung
	why  []string
}

// landlockNet is the first Landlock version that can refuse TCP.
const landlockNet = 4

// candidates lists the rungs of a host for one command, strongest first; the
// last is always one that every host has. A start takes the first and falls to
// the next when its apparatus cannot be built. It is a pure function of what
// was probed and what is asked, so that the whole table is tested anywhere.
func candidates(h Host, p Profile) []choice {
	all := ranked(h, p)
	if p.only == "" {
		return all
	}
	return slices.DeleteFunc(all, func(c choice) bool { return c.rung != p.only })
}

func ranked(h Host, p Profile) []choice {
	if !p.Mode.Contained() {
		return []choice{{rung: RungNone}}
	}
	if p.ForceFloor {
		return []choice{{rung: RungFloor, why: []string{"the floor was asked for"}}}
	}
	switch h.OS {
	case "linux":
		return linuxCandidates(h, demandOf(p), p.Shim)
	case "darwin":
		return ladder([]step{{RungSeatbelt, h.Seatbelt}})
	case "windows":
		if p.AccessConfinement {
			return ladder([]step{{RungAppContainer, h.AppContainer}})
		}
		return ladder([]step{{RungJobObject, h.JobObject}})
	}
	return []choice{{rung: RungFloor, why: []string{"no rung is known for " + h.OS}}}
}

// step is a rung and whether this command may have it.
type step struct {
	rung Rung
	need Feature
}

// ladder turns steps into choices, each carrying why those before it cannot
// be had, and ends on the floor.
func ladder(steps []step) []choice {
	var out []choice
	var why []string
	for _, s := range steps {
		if s.need.Works {
			out = append(out, choice{rung: s.rung, why: why})
			// Reached only when the apparatus of s fails, which adds its own reason.
			continue
		}
		why = append(why[:len(why):len(why)], fmt.Sprintf("%s: %s", s.rung, s.need.Why))
	}
	return append(out, choice{rung: RungFloor, why: why})
}

func linuxCandidates(h Host, d demand, shim Shim) []choice {
	landlock := h.Landlock
	if landlock.Works && (d.denyEgress || d.proxied) {
		switch {
		case h.LandlockABI < landlockNet:
			landlock = Feature{Why: fmt.Sprintf("version %d cannot refuse connections", h.LandlockABI)}
		case !h.Seccomp.Works:
			landlock = Feature{Why: "without seccomp it cannot refuse datagrams: " + h.Seccomp.Why}
		}
	}
	namespaces := h.Namespaces
	if shim == ShimOff && namespaces.Works {
		namespaces = Feature{Why: "the helper process was turned off"}
	}
	steps := []step{
		{RungLandlock, landlock},
		{RungBubblewrap, h.Bubblewrap},
		{RungNamespaces, namespaces},
	}
	switch {
	case shim == ShimRequired, d.maskReads && namespaces.Works:
		// Mounts hide a path from everybody for as long as the command runs.
		// Landlock can only leave it out of what it grants, and with it all that
		// is made beside it meanwhile.
		steps = []step{steps[2], steps[0], steps[1]}
	case d.maskReads && h.Bubblewrap.Works && !d.proxied:
		steps = []step{steps[1], steps[0], steps[2]}
	case d.proxied && namespaces.Works:
		// Bubblewrap has no way for the proxy into its network.
		steps = []step{steps[0], steps[2], steps[1]}
	}
	return ladder(steps)
}
