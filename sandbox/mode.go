package sandbox

// Mode is where a command may write. The constants are the stored text, in
// configuration, in JSON and in the trace. The zero value means
// [WorkspaceWrite].
type Mode string

const (
	// ReadOnly lets a command write to its temporary directory only.
	ReadOnly Mode = "read-only"
	// WorkspaceWrite adds the workspace and Profile.Writable.
	WorkspaceWrite Mode = "workspace-write"
	// FullAccess starts the command as the host program would: no rung, no
	// scrubbed environment. Its process tree is still killed with its run.
	FullAccess Mode = "full-access"
)

// rank orders modes from narrow to wide. An unknown text ranks below all known
// ones, so that a typing error can never widen anything.
func (m Mode) rank() int {
	switch m {
	case ReadOnly:
		return 0
	case WorkspaceWrite, "":
		return 1
	case FullAccess:
		return 2
	}
	return -1
}

// Valid reports whether m is one of the constants or the zero value.
func (m Mode) Valid() bool { return m.rank() >= 0 }

// Contained reports whether m asks for any boundary: everything but
// [FullAccess] does.
func (m Mode) Contained() bool { return m != FullAccess }

// Narrower returns the one of m and n that lets a command write to less.
func (m Mode) Narrower(n Mode) Mode {
	if n.rank() < m.rank() {
		return n.orDefault()
	}
	return m.orDefault()
}

// SatisfiedBy reports whether a run that was granted the mode grant may start
// something that needs m.
func (m Mode) SatisfiedBy(grant Mode) bool { return m.rank() <= grant.rank() }

func (m Mode) orDefault() Mode {
	if m == "" {
		return WorkspaceWrite
	}
	return m
}

// Rung is the mechanism that contained a command. The constants are the stored
// text. A rung names what was applied, never what was asked for.
type Rung string

const (
	RungSeatbelt     Rung = "macos-sandbox-exec"
	RungLandlock     Rung = "linux-landlock"
	RungBubblewrap   Rung = "linux-bubblewrap"
	RungNamespaces   Rung = "linux-namespaces"
	RungAppContainer Rung = "windows-appcontainer"
	RungJobObject    Rung = "windows-job-object"
	RungFloor        Rung = "portable-floor"
	// RungNone is what a command in [FullAccess] runs under.
	RungNone Rung = "none"
)

// traits are what a rung is able to do at all. What one command got is in
// [Applied]; the same rung can run with the network open.
type traits struct {
	confinesWrites bool // the kernel refuses writes outside the granted places
	deniesEgress   bool // the kernel can refuse the network
	reachesProxy   bool // a proxy on the host's loopback can be reached from inside
}

var rungTraits = map[Rung]traits{
	RungSeatbelt:     {true, true, true},
	RungLandlock:     {true, true, true},
	RungBubblewrap:   {true, true, true},
	RungNamespaces:   {true, true, true},
	RungAppContainer: {true, true, false},
	RungJobObject:    {false, false, true},
	RungFloor:        {false, false, true},
	RungNone:         {false, false, true},
}

// ConfinesWrites reports whether the rung can refuse writes outside the places
// that the profile grants. An unknown rung confines nothing.
func (r Rung) ConfinesWrites() bool { return rungTraits[r].confinesWrites }

// DeniesEgress reports whether the rung can refuse the network.
func (r Rung) DeniesEgress() bool { return rungTraits[r].deniesEgress }

// ReachesProxy reports whether a command under the rung can reach an egress
// proxy that listens on the host's loopback address.
func (r Rung) ReachesProxy() bool { return rungTraits[r].reachesProxy }
