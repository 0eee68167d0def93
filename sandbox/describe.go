package sandbox

// describe says what a rung holds for this command. It is the one place where
// a promise is made; a rung that cannot keep it must fail its start.
func (s *spec) describe(ch choice, base Applied) Applied {
	a := base
	p := s.profile
	a.Rung, a.Why = ch.rung, ch.why
	a.Files = FilesOpen
	if ch.rung.ConfinesWrites() {
		a.Files = FilesWorkspace
		if p.Mode == ReadOnly {
			a.Files = FilesTemp
		}
	}
	a.Egress = egressScope(ch.rung, p.Egress)
	a.Kill = s.killScope(ch.rung)
	a.Reads = len(s.denied) == 0
	a.LocalSockets, a.Environ = true, !hardened()
	a.Caps, a.Uncapped = s.caps(ch.rung)
	if ch.rung == RungBubblewrap {
		a.Seccomp = s.host.Seccomp.Works
		a.Environ = false
		a.Reads = true
	}
	if ch.rung == RungNamespaces {
		a.LocalSockets = s.host.LandlockABI < unixByPath || s.profile.Egress.Open
		a.ABI = min(s.host.LandlockABI, newestABI)
		a.Seccomp = s.host.Seccomp.Works
		a.Environ = false
		a.Reads = true
	}
	if ch.rung == RungAppContainer {
		// Neither other processes nor the pipes and sockets of others are given to it.
		a.LocalSockets, a.Environ = false, false
	}
	if ch.rung == RungLandlock {
		a.ABI = min(s.host.LandlockABI, newestABI)
		a.Seccomp = s.host.Seccomp.Works
		a.Environ = false
		a.LocalSockets = s.host.LandlockABI < unixByPath || s.profile.Egress.Open
		a.Reads = true // siblings are granted in place of what holds a denied path
	}
	if a.Seccomp && s.closesUnix() {
		a.LocalSockets = false
	}
	return a
}

// unixByPath is the first Landlock version that can tell a project's own unix
// sockets from those of other programs.
const unixByPath = 9

// closesUnix reports whether unix sockets are taken away altogether: where the
// network boundary is required and the kernel cannot tell whose socket it is,
// there is no other way to keep a command from the services next door.
func (s *spec) closesUnix() bool {
	e := s.profile.Egress
	return s.profile.Require.Egress && !e.Open && s.host.Seccomp.Works && s.host.LandlockABI < unixByPath
}

// egressScope is how a rung holds what was asked for.
func egressScope(r Rung, e Egress) EgressScope {
	switch {
	case e.Open:
		return EgressOpen
	case r == RungAppContainer:
		if e.proxied() {
			return EgressAll
		}
		return EgressNone
	case !r.DeniesEgress():
		if e.proxied() {
			return EgressAdvisory
		}
		return EgressOpen
	case e.denied():
		return EgressNone
	case r == RungLandlock:
		return EgressPort
	case r == RungSeatbelt, r == RungNamespaces:
		return EgressExact
	}
	return EgressAdvisory
}

// caps sorts the ceilings of the profile into those in force and the others.
func (s *spec) caps(r Rung) (in, out []Cap) {
	l := s.profile.Limits
	for _, c := range []struct {
		cap Cap
		set bool
	}{
		{CapCPU, l.CPU > 0}, {CapMemory, l.Memory > 0}, {CapWall, l.Wall > 0},
		{CapProcesses, l.Processes > 0}, {CapOpenFiles, l.OpenFiles > 0},
	} {
		switch {
		case !c.set:
		case s.holds(c.cap, r):
			in = append(in, c.cap)
		default:
			out = append(out, c.cap)
		}
	}
	return in, out
}
