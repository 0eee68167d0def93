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

	cgroup string // the directory in which a command's group is made
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

// Probe tries what this host can do. It starts short-lived processes and
// restricts throw-away threads, never the calling program. The first call does
// the work (some tens of milliseconds) and later ones, from any goroutine,
// return the same answer; ctx bounds only the waiting for it.
func Probe(ctx context.Context) (Host, error) {
	type answer struct{ h Host }
	c := make(chan answer, 1)
	go func() { c <- answer{probed()} }()
	select {
	case a := <-c:
		return a.h, nil
	case <-ctx.Done():
		return Host{}, &Error{Kind: ErrApparatus, Op: "probe", Err: context.Cause(ctx)}
	}
}

// probed is the host's answer, found once: what a kernel offers does not change
// while a process lives.
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
