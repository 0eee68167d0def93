package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/sandbox/scrub"
)

// Cmd is one command: an argv that no shell ever sees.
type Cmd struct {
	// Argv is the program and its arguments. The program is found by [Resolve]
	// in the environment that the child will get. No element may hold a NUL byte.
	Argv []string

	// Dir is the working directory. Empty means the workspace; a relative path
	// is taken from the workspace. Naming a directory grants nothing.
	Dir string

	// Env is added to the scrubbed environment, as NAME=value; the last entry of
	// a name wins. A name that the profile scrubs is removed again.
	Env []string

	// Unset names variables that the command does not get, wherever they come from,
	// also under [FullAccess].
	Unset []string

	// Stdin is what the command reads. Nil is the null device. An *os.File is
	// handed over as it is; anything else is copied by a goroutine, and a reader
	// that blocks after the command has ended must be closed by the caller.
	Stdin io.Reader

	// Stdout and Stderr receive the output. An *os.File is handed over as it is
	// and is then not captured. Any other writer sees every byte as it comes and
	// the bounded copy in [Result] is kept too. Nil captures only. A slow writer
	// slows the command down.
	Stdout, Stderr io.Writer
}

// Profile is the boundary of a command. The zero value with a Workspace is a
// useful one: writes to the workspace and a private temporary directory, no
// network, a scrubbed environment, no ceilings. A Profile is plain data and may
// be shared; Start copies what it keeps.
type Profile struct {
	// Mode is where the command may write. Zero means [WorkspaceWrite].
	Mode Mode `json:"mode,omitempty"`

	// Workspace is the absolute path of the directory that the run works in. It
	// is required, except under [FullAccess], and must exist.
	Workspace string `json:"-"`

	// Writable are further absolute directories that the command may write:
	// caches of the project's toolchain. One that does not exist is left out; see
	// [Profile.Grant]. So is one that holds a directory of the host's PATH, in
	// which a command could leave a program for the host to run; [Applied.Withheld]
	// names it. Ignored under [ReadOnly].
	Writable []string `json:"-"`

	// Temp is an existing directory to be the command's temporary directory,
	// exported as TMPDIR, TMP, TEMP and GOTMPDIR; the caller removes it
	// ([NewTemp] makes one for a whole run). Empty means a fresh one for this
	// command alone, removed when the command has ended.
	Temp string `json:"-"`

	// SharedTemp grants the system's temporary directory in place of a private
	// one. Whatever else lies there is then writable.
	SharedTemp bool `json:"shared_temp,omitempty"`

	// Limits are the ceilings. Zero fields are no ceiling, except Output.
	Limits Limits `json:"limits,omitzero"`

	// Env says which variables survive and which are removed.
	Env scrub.Rules `json:"env,omitzero"`

	// Vars are added to the environment of every command, as NAME=value, before
	// those of Cmd.Env; see Cmd.Env.
	Vars []string `json:"-"`

	// Egress is what the command may reach over the network. The zero value is
	// nothing.
	Egress Egress `json:"egress,omitzero"`

	// Reads names what the command may not read.
	Reads Reads `json:"reads,omitzero"`

	// Protect are absolute paths inside the writable directories that commands
	// must not change: hooks and settings that are run or obeyed later, outside
	// of the boundary. A rung that works with mounts keeps those that exist
	// read-only; elsewhere [Watch] finds the change.
	Protect []string `json:"-"`

	// Require turns a degrade into a refusal.
	Require Require `json:"require,omitzero"`

	// ForceFloor skips every native rung. It is for tests and for reproducing
	// what another host does.
	ForceFloor bool `json:"force_floor,omitempty"`

	// Cgroup is the absolute path of a control group of the second version that is
	// delegated to the user of this program; the group of each command is made in it.
	// Empty means the group that this program is in, where that can be had. With the
	// memory controller enabled for the groups in it the kernel holds Limits.Memory as
	// well: at once, and counting what is not resident, such as files in a tmpfs. One
	// that cannot be used refuses the command. It has no effect on other systems than
	// Linux.
	Cgroup string `json:"-"`

	// NestedUserNamespaces lets the command create user namespaces, which the
	// sandboxes of browsers need and which widen what the kernel exposes.
	NestedUserNamespaces bool `json:"nested_user_namespaces,omitempty"`

	// Shim says whether the namespaces rung may start this program's own
	// executable again as its helper. Zero is [ShimAuto].
	Shim Shim `json:"shim,omitempty"`

	// AccessConfinement asks for the AppContainer rung on Windows, which confines
	// files; where it cannot be had the command is refused. It has no effect on
	// other systems. The entries that it makes in the access lists of the workspace
	// and of what else is granted stay there; they are for this boundary alone.
	AccessConfinement bool `json:"access_confinement,omitempty"`

	// Programs are absolute directories that toolchains start programs from. Only
	// AppContainer needs them, because nothing can be read there that is not
	// granted. One that does not exist, and one that holds the user's own
	// directory, is left out.
	Programs []string `json:"-"`

	only Rung // tests: this rung and no other
}

// Shim says whether the executable of this program may be started again as the
// helper of the namespaces rung.
type Shim string

const (
	// ShimAuto uses the helper where its probe passed.
	ShimAuto Shim = "auto"
	// ShimOff never does.
	ShimOff Shim = "off"
	// ShimRequired refuses a command that would run without it.
	ShimRequired Shim = "required"
)

// Egress is what a command may reach over the network.
type Egress struct {
	// Open lets the command use the network as the host does.
	Open bool `json:"open,omitempty"`
	// Proxy, when valid and Open is false, is the one address that the command
	// may connect to, and is exported in the usual proxy variables. It is a
	// loopback address.
	Proxy netip.AddrPort `json:"-"`
	// ProxyLogin asks whoever starts the proxy of a run for one that serves only
	// those who know its token, which then stands in the proxy variables of the
	// commands. Other programs of the host, and the commands of other runs, can
	// otherwise use the port. Off by default: the Java runtime's own client and
	// browsers do not take a login from there, and reach nothing with it.
	ProxyLogin bool `json:"proxy_login,omitempty"`
	// ProxyToken is that token, in letters and digits; empty when the proxy wants
	// none. It is blotted out of the output of commands.
	ProxyToken ProxyToken `json:"-"`
}

func (e Egress) denied() bool  { return !e.Open && !e.Proxy.IsValid() }
func (e Egress) proxied() bool { return !e.Open && e.Proxy.IsValid() }

// Reads names what a command may not read.
type Reads struct {
	// Deny are absolute paths of files and directories. A rung that can hide them
	// does; [Applied.Reads] says whether it could. A path that does not exist
	// when the command starts is left out.
	Deny []string `json:"deny,omitempty"`
}

// Require turns a degrade into a refusal: the command is not started, and the
// error matches [ErrRequired].
type Require struct {
	// Writes demands a rung that confines writes.
	Writes bool `json:"writes,omitempty"`
	// Egress demands that the kernel holds the network boundary that was asked
	// for, unix sockets of other programs included. Where it cannot tell those
	// from a project's own (Landlock below version 9) a command gets no unix
	// socket but pairs. Without effect when the network is open.
	Egress bool `json:"egress,omitempty"`
	// Reads demands that every existing path in Reads.Deny is hidden.
	Reads bool `json:"reads,omitempty"`
}

// Limits are ceilings on one command and everything it starts. A zero field is
// no ceiling, except Output. [Applied.Caps] lists those that are in force.
type Limits struct {
	// CPU is processor time, summed over the process tree.
	CPU time.Duration `json:"cpu,omitempty"`
	// Wall is the time from start to end.
	Wall time.Duration `json:"wall,omitempty"`
	// Memory is resident memory in bytes, summed over the process tree every 40 ms; see
	// also [Profile.Cgroup].
	Memory uint64 `json:"memory,omitempty"`
	// Processes is the number of processes at one time.
	Processes uint64 `json:"processes,omitempty"`
	// OpenFiles is the number of descriptors in each process.
	OpenFiles uint64 `json:"open_files,omitempty"`
	// Output is how many bytes of each stream are kept in memory, half from the
	// head and half from the tail. Zero means [DefaultOutput]; less than
	// [MinOutput] means MinOutput. What is left out is counted, and the command
	// is never slowed down or killed for it.
	Output int `json:"output,omitempty"`
}

const (
	// DefaultOutput is kept of each stream when Limits.Output is zero: twice the
	// observation cap of a model with a context of 200,000 tokens.
	DefaultOutput = 256 << 10
	// MinOutput is the least that is kept of each stream.
	MinOutput = 64 << 10
)

// DefaultLimits are the ceilings of a gate: 60 s of processor time, 120 s of
// wall clock, 2 GiB of memory, 512 descriptors.
func DefaultLimits() Limits {
	return Limits{CPU: 60 * time.Second, Wall: 120 * time.Second, Memory: 2 << 30, OpenFiles: 512}
}

func (l Limits) output() int {
	switch {
	case l.Output == 0:
		return DefaultOutput
	case l.Output < MinOutput:
		return MinOutput
	}
	return l.Output
}

// Grant returns a copy of p for the commands of a toolchain: dirs are its cache
// directories, absolute, which commands may then write, and vars what to add to
// the environment, as NAME=value. A directory that does not exist is made, mode
// 0755, because only what exists can be granted; those that cannot be made are
// returned and are not granted.
func (p Profile) Grant(dirs, vars []string) (granted Profile, missing []string) {
	p.Writable = slices.Clone(p.Writable)
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			missing = append(missing, dir)
			continue
		}
		p.Writable = append(p.Writable, dir)
	}
	p.Vars = slices.Concat(p.Vars, vars)
	return p, missing
}

// Validate reports everything in p that can never work, as one error that
// matches [ErrInvalid]. It touches no file.
func (p Profile) Validate() error {
	var errs []error
	if !p.Mode.Valid() {
		errs = append(errs, fmt.Errorf("mode %q is not read-only, workspace-write or full-access", p.Mode))
	}
	switch p.Shim {
	case "", ShimAuto, ShimOff, ShimRequired:
	default:
		errs = append(errs, fmt.Errorf("shim %q is not auto, off or required", p.Shim))
	}
	if p.Mode.Contained() && p.Workspace == "" {
		errs = append(errs, errors.New("workspace is empty: name the directory the command works in"))
	}
	paths := slices.Concat([]string{p.Workspace, p.Temp, p.Cgroup}, p.Writable, p.Programs, p.Reads.Deny, p.Protect)
	for _, dir := range paths {
		if dir == "" {
			continue
		}
		if !filepath.IsAbs(dir) {
			errs = append(errs, fmt.Errorf("path %q is not absolute", dir))
		}
		if strings.ContainsFunc(dir, isControl) {
			errs = append(errs, fmt.Errorf("path %q holds a control character", dir))
		}
	}
	if p.Egress.Proxy.IsValid() && !p.Egress.Proxy.Addr().IsLoopback() {
		errs = append(errs, fmt.Errorf("proxy %s is not a loopback address", p.Egress.Proxy))
	}
	if !p.Egress.ProxyToken.valid() {
		errs = append(errs, errors.New("the token of the proxy is not made of letters and digits"))
	}
	if p.Limits.CPU < 0 || p.Limits.Wall < 0 || p.Limits.Output < 0 {
		errs = append(errs, errors.New("a limit is negative: zero means no limit"))
	}
	if len(errs) == 0 {
		return nil
	}
	return &Error{Kind: ErrInvalid, Op: "check profile", Err: errors.Join(errs...)}
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) }
