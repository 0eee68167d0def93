package sandbox

import (
	"fmt"
	"slices"
	"strings"
)

// Files is how far writes are confined.
type Files string

const (
	// FilesOpen: the command may write whatever the user can.
	FilesOpen Files = "open"
	// FilesWorkspace: workspace, granted directories and temporary directory.
	FilesWorkspace Files = "workspace"
	// FilesTemp: the temporary directory only.
	FilesTemp Files = "temp"
)

// EgressScope is how the network boundary is held.
type EgressScope string

const (
	EgressOpen     EgressScope = "open"           // no boundary was asked for, or none can be held
	EgressNone     EgressScope = "none"           // the kernel refuses everything
	EgressExact    EgressScope = "exact"          // only the hosts the proxy lets through
	EgressPort     EgressScope = "port"           // only the proxy's port number, on any host
	EgressAll      EgressScope = "all-or-nothing" // a capability: everything or nothing
	EgressAdvisory EgressScope = "advisory"       // proxy variables only; a command may ignore them
)

// KillScope is what a kill is sure to reach.
type KillScope string

const (
	KillCgroup    KillScope = "cgroup"        // every process, whatever it did
	KillNamespace KillScope = "pid-namespace" // every process, whatever it did
	KillMarker    KillScope = "group+marker"  // the group, and whoever still carries the run's marker variable
	KillGroup     KillScope = "group"         // the process group; on Windows the program alone
	KillJob       KillScope = "job"           // every process, whatever it did
)

// Applied is what the kernel was seen to enforce on one command, not what was
// asked for.
type Applied struct {
	Mode   Mode        `json:"mode"`
	Rung   Rung        `json:"rung"`
	Files  Files       `json:"files"`
	Egress EgressScope `json:"egress"`
	Kill   KillScope   `json:"kill"`
	// Reads says whether every existing path in Profile.Reads.Deny is hidden;
	// true also when there is none.
	Reads bool `json:"reads"`
	// LocalSockets says that unix sockets outside the workspace can be reached.
	LocalSockets bool `json:"local_sockets"`
	// Environ says that the environment the harness started with can be read by
	// the command through /proc.
	Environ bool `json:"environ"`
	// Roots are the writable directories besides the temporary one.
	Roots []string `json:"roots,omitempty"`
	// Withheld are the directories of Profile.Writable that were not granted
	// because the host runs programs from them.
	Withheld []string `json:"withheld,omitempty"`
	// Caps are the ceilings in force; Uncapped are those that were asked for and
	// are not.
	Caps     []Cap `json:"caps,omitempty"`
	Uncapped []Cap `json:"uncapped,omitempty"`
	// ABI is the Landlock version that was used; 0 on other rungs.
	ABI int `json:"landlock_abi,omitempty"`
	// Seccomp says that the system call filter was installed.
	Seccomp bool `json:"seccomp,omitempty"`
	// Scrubbed are the names of the variables that were removed.
	Scrubbed []string `json:"scrubbed,omitempty"`
	// Why says why each stronger rung was passed over, in their order; empty on
	// the strongest.
	Why []string `json:"why,omitempty"`
}

// String is one line for a model and for a person: where commands may write,
// what they reach, and what is not held.
func (a Applied) String() string {
	var parts []string
	switch {
	case a.Rung == RungNone:
		parts = append(parts, "commands are not contained and may write anywhere the user can")
	case a.Files == FilesTemp:
		parts = append(parts, "commands may write only to their temporary directory ($TMPDIR)")
	case a.Files == FilesWorkspace:
		places := "the workspace and their temporary directory ($TMPDIR)"
		if n := len(a.Roots); n > 1 {
			places = fmt.Sprintf("the workspace, their temporary directory ($TMPDIR) and %s", strings.Join(a.Roots[1:], ", "))
		}
		parts = append(parts, "commands may write only to "+places)
	default:
		parts = append(parts, "commands are not confined to the workspace on this host, whatever the mode")
	}
	if a.Rung == RungAppContainer {
		parts = append(parts, "what is not theirs, a toolchain's or the system's they cannot read either")
	}
	switch a.Egress {
	case EgressNone:
		if a.Rung == RungNamespaces || a.Rung == RungBubblewrap {
			parts = append(parts, "no network but a private loopback, on which a command's own servers work")
			break
		}
		parts = append(parts, "no network, local servers included")
	case EgressExact:
		parts = append(parts, "network only to permitted hosts through the run's proxy; loopback is private and works")
	case EgressPort:
		parts = append(parts, "network only through the run's proxy; local servers cannot be started or reached")
	case EgressAll:
		parts = append(parts, "per-host network rules are not enforced for commands")
	case EgressAdvisory:
		parts = append(parts, "the network boundary is advisory: a proxy is offered and nothing holds a command to it")
	case EgressOpen:
		parts = append(parts, "the network is open")
	}
	if !a.Reads {
		parts = append(parts, "paths denied for reading are not hidden from commands")
	}
	if a.LocalSockets && a.Egress != EgressOpen {
		parts = append(parts, "unix sockets of other programs can be reached")
	}
	if a.Environ && a.Rung != RungNone {
		parts = append(parts, "the environment that this program was started with can be read by commands")
	}
	if a.Rung != RungNone {
		parts = append(parts, "provider credentials are not in the environment")
	}
	if len(a.Uncapped) > 0 {
		names := make([]string, len(a.Uncapped))
		for i, c := range a.Uncapped {
			names[i] = string(c)
		}
		parts = append(parts, "ceilings not in force: "+strings.Join(names, ", "))
	}
	return fmt.Sprintf("%s under %s: %s", a.Mode.orDefault(), a.Rung, strings.Join(parts, "; "))
}

// Confined reports whether the kernel holds the write boundary of the mode.
func (a Applied) Confined() bool { return a.Files == FilesWorkspace || a.Files == FilesTemp }

// InForce reports whether the ceiling c holds.
func (a Applied) InForce(c Cap) bool { return slices.Contains(a.Caps, c) }
