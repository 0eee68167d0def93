package sandbox

import (
	"context"
	"runtime"
	"strings"
	"sync"
)

// Feature is something a host has or has not. It was tried, not read from a
// setting.
type Feature struct {
	Works bool   `json:"works"`
	Why   string `json:"why,omitempty"` // why not; empty when it works
}

func works(err error) Feature {
	if err == nil {
		return Feature{Works: true}
	}
	return Feature{Why: err.Error()}
}

// Host is what this machine was seen to offer.
type Host struct {
	OS, Arch string

	Landlock    Feature
	LandlockABI int // 0 without Landlock
	// LandlockErrata is the kernel's bit mask of fixed faults.
	LandlockErrata int
	Seccomp        Feature
	Bubblewrap     Feature
	BubblewrapPath string
	Namespaces     Feature
	// Cgroup is a control group per command, which makes a kill complete.
	Cgroup Feature
	// Stop is holding a child before its first instruction, which descriptor
	// limits need.
	Stop         Feature
	Seatbelt     Feature
	JobObject    Feature
	AppContainer Feature

	looked bool // Namespaces was tried
	asRoot bool // it works without a user namespace
	// bwrapAsRoot: so does bubblewrap
	bwrapAsRoot bool
	cgroup      string // the directory in which a command's group is made
}

// Rung is the strongest rung that a command with no network would get.
func (h Host) Rung() Rung {
	return candidates(h, Profile{})[0].rung
}

// String is one line per feature, for a bug report.
func (h Host) String() string {
	var b strings.Builder
	b.WriteString(h.OS + "/" + h.Arch + ": " + string(h.Rung()))
	for _, f := range []struct {
		name string
		Feature
	}{
		{"landlock", h.Landlock}, {"seccomp", h.Seccomp}, {"bubblewrap", h.Bubblewrap}, {"namespaces", h.Namespaces},
		{"cgroup", h.Cgroup}, {"stop", h.Stop}, {"sandbox-exec", h.Seatbelt}, {"job object", h.JobObject},
		{"appcontainer", h.AppContainer},
	} {
		b.WriteString("\n" + f.name + ": ")
		if f.Works {
			b.WriteString("works")
			continue
		}
		b.WriteString(f.Why)
	}
	return b.String()
}

// Probe tries what this host can do. It starts short-lived processes, this
// program's own executable among them (see [Profile.Shim]), and restricts
// throw-away threads, never the calling program. The first call does the work
// (some tens of milliseconds) and later ones, from any goroutine, return the
// same answer; ctx bounds only the waiting for it. [Start] looks at no more
// than it needs, and starts the executable again only where a command may need
// the namespaces rung.
func Probe(ctx context.Context) (Host, error) {
	return await(ctx, func() Host { return withContainer(withNamespaces(probed())) })
}

// await runs a probe and stops waiting when ctx ends. The probe itself goes on:
// its answer is kept for the next one who asks.
func await(ctx context.Context, probe func() Host) (Host, error) {
	c := make(chan Host, 1)
	go func() { c <- probe() }()
	select {
	case h := <-c:
		return h, nil
	case <-ctx.Done():
		return Host{}, &Error{Kind: ErrApparatus, Op: "probe", Err: context.Cause(ctx)}
	}
}

// hostFor is what has to be known of the host to start a command with p.
func hostFor(ctx context.Context, p Profile) (Host, error) {
	return await(ctx, func() Host {
		h := probed()
		if needsNamespaces(h, p) {
			h = withNamespaces(h)
		}
		if h.OS == "windows" && p.AccessConfinement && p.Mode.Contained() {
			h = withContainer(h)
		}
		return h
	})
}

// needsNamespaces reports whether the namespaces rung may be taken for p, so
// that it must be known whether it works.
func needsNamespaces(h Host, p Profile) bool {
	if h.OS != "linux" || !p.Mode.Contained() || p.ForceFloor || p.Shim == ShimOff {
		return false
	}
	if p.only != "" {
		return p.only == RungNamespaces
	}
	return p.Shim == ShimRequired || len(p.Reads.Deny) > 0 || candidates(h, p)[0].rung != RungLandlock
}

// probed is the host's answer, found once: what a kernel offers does not change
// while a process lives. The namespaces rung is left out.
var probed = sync.OnceValue(func() Host {
	h := Host{OS: runtime.GOOS, Arch: runtime.GOARCH}
	none := Feature{Why: "not on " + runtime.GOOS}
	for _, f := range []*Feature{&h.Landlock, &h.Seccomp, &h.Bubblewrap, &h.Namespaces, &h.Cgroup, &h.Stop,
		&h.Seatbelt, &h.JobObject, &h.AppContainer} {
		*f = none
	}
	probeHost(&h)
	return h
})

// probedNamespaces is the host with that rung tried, found once.
var probedNamespaces = sync.OnceValue(func() Host {
	h := probed()
	h.Namespaces = probeNamespaces(&h)
	return h
})

// probedContainer is whether an AppContainer can be had, found once: it starts a
// process, which only those who ask for one should pay for.
var probedContainer = sync.OnceValue(probeContainer)

func withContainer(h Host) Host {
	h.AppContainer = probedContainer()
	return h
}

func withNamespaces(h Host) Host {
	tried := probedNamespaces()
	h.looked, h.asRoot, h.Namespaces = true, tried.asRoot, tried.Namespaces
	return h
}
