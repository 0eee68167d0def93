package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// An AppContainer may do nothing on files but what their access lists give to it by
// its own name. This file decides what is given; it works on Windows paths as text,
// so that all of it is tested anywhere.

// access is what a grant lets the container do.
type access uint8

const (
	traverse    access = iota // pass through a directory and see that it is there
	readExecute               // read, list and run
	fullAccess                // everything, its own permissions included
)

// mask are the rights of an access in the form that is stored. The generic rights
// would be stored as they are and would give nothing.
func (a access) mask() uint32 {
	const (
		fileTraverse       = 0x20
		fileReadAttributes = 0x80
		fileGenericRead    = 0x120089
		fileGenericExecute = 0x1200A0
		fileAllAccess      = 0x1F01FF
	)
	switch a {
	case readExecute:
		return fileGenericRead | fileGenericExecute
	case fullAccess:
		return fileAllAccess
	}
	return fileTraverse | fileReadAttributes
}

// reach is how far down a grant is carried when it is made.
type reach uint8

const (
	thisObject reach = iota // the object; what is made in it later inherits
	wholeTree               // and what is in it already
)

// grant is one entry in the access list of a file or directory.
type grant struct {
	path   string
	access access
	reach  reach
}

// inheritance are the flags of the entry: containers and objects, or nothing.
func (g grant) inheritance() uint32 {
	if g.access == traverse {
		return 0
	}
	return 3
}

// aceEntry is an entry of an access list that is about whom a grant is for.
type aceEntry struct {
	denies bool
	flags  uint8
	mask   uint32
}

// heldBy reports whether entries give already what g is to give, here and, where it is
// inherited, in what is made below.
func (g grant) heldBy(entries []aceEntry) bool {
	const objects, containers, inheritOnly = 0x1, 0x2, 0x8
	var here, below uint32
	for _, e := range entries {
		if e.denies {
			return false
		}
		if e.flags&inheritOnly == 0 {
			here |= e.mask
		}
		if e.flags&(objects|containers) == objects|containers {
			below |= withGeneric(e.mask)
		}
	}
	want := g.access.mask()
	return here&want == want && (g.inheritance() == 0 || below&want == want)
}

// withGeneric adds what the generic rights of an entry become where it is inherited.
func withGeneric(mask uint32) uint32 {
	for generic, rights := range map[uint32]uint32{
		0x80000000: 0x120089, // read
		0x40000000: 0x120116, // write
		0x20000000: 0x1200A0, // execute
		0x10000000: 0x1F01FF, // all
	} {
		if mask&generic != 0 {
			mask |= rights
		}
	}
	return mask
}

// needed reports whether a command must not start without the grant. Places to read
// are as a rule open to every container already, and so are the ways to them.
func (g grant) needed() bool { return g.access == fullAccess }

// containerPlan is everything that a container is made of.
type containerPlan struct {
	name         string
	capabilities []string // as texts of their identifiers
	grants       []grant  // in the order in which they are made
}

// internetClient is the capability to connect to the internet.
const internetClient = "S-1-15-3-1"

// containerWish is what a container is planned from. All paths are absolute, real and
// exist.
type containerWish struct {
	workspace  string
	readOnly   bool
	writable   []string // further directories to write; none when readOnly
	temp       string
	keptTemp   bool     // it outlasts the command, and so do the entries in it
	programs   []string // where toolchains start their programs from
	program    string   // the program to be started
	systemRoot string
	home       string // the user's profile, which is never granted
	network    bool
}

// planContainer decides what a container is given. It fails where a command could
// only be served by giving away the user's own directory.
func planContainer(w containerWish) (containerPlan, error) {
	p := containerPlan{name: containerName(w)}
	if w.network {
		p.capabilities = []string{internetClient}
	}
	add := func(g grant) {
		covered := slices.ContainsFunc(p.grants, func(o grant) bool {
			return o.access >= g.access && (winSame(o.path, g.path) || o.reach == wholeTree && winBeneath(g.path, o.path))
		})
		if !covered {
			p.grants = append(p.grants, g)
		}
	}
	work := grant{w.workspace, fullAccess, wholeTree}
	if w.readOnly {
		work.access = readExecute
	}
	wanted := []grant{work}
	if !w.readOnly {
		for _, dir := range w.writable {
			wanted = append(wanted, grant{dir, fullAccess, wholeTree})
		}
	}
	// What is in the temporary directory already is not the command's.
	wanted = append(wanted, grant{w.temp, fullAccess, thisObject})
	for _, g := range wanted {
		if holdsHome(g.path, w.home) {
			return containerPlan{}, fmt.Errorf("%s holds the user's own directory, which is given to no container", g.path)
		}
		add(g)
	}
	// The system's directory is not walked: it is open to containers, and where it is
	// not it is not ours to change.
	for _, g := range append(trees(append(slices.Clone(w.programs), winDir(w.program))), grant{w.systemRoot, readExecute, thisObject}) {
		if g.path != "" && !holdsHome(g.path, w.home) {
			add(g)
		}
	}
	for _, g := range slices.Clone(p.grants) {
		for dir := winDir(g.path); dir != "" && !winIsRoot(dir); dir = winDir(dir) {
			add(grant{dir, traverse, thisObject})
		}
	}
	return p, nil
}

func trees(dirs []string) []grant {
	var out []grant
	for _, d := range dirs {
		out = append(out, grant{d, readExecute, wholeTree})
	}
	return out
}

// containerName is the name of the container for a boundary. Entries in access lists
// outlast a command, so every boundary has a name of its own: a run that may only
// read does not find what one that may write was given, nor does a run in another
// workspace, nor one with a private temporary directory what one with a shared one
// was, in which that of the private ones lies. Equal boundaries share one, also between processes.
func containerName(w containerWish) string {
	parts := []string{fmt.Sprintf("read-only=%t network=%t", w.readOnly, w.network), winFold(w.workspace)}
	if !w.readOnly {
		var writable []string
		for _, dir := range w.writable {
			writable = append(writable, winFold(dir))
		}
		slices.Sort(writable)
		parts = append(parts, slices.Compact(writable)...)
	}
	if w.keptTemp {
		parts = append(parts, "temp="+winFold(w.temp))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "io-harness-go." + hex.EncodeToString(sum[:16])
}

// holdsHome reports whether dir is the user's profile or holds it.
func holdsHome(dir, home string) bool {
	return home != "" && (winSame(dir, home) || winBeneath(home, dir))
}

// winFold is a path in the form in which it is compared.
func winFold(path string) string {
	path = strings.ToLower(strings.ReplaceAll(path, "/", `\`))
	if trimmed := strings.TrimRight(path, `\`); !strings.HasSuffix(trimmed, ":") {
		return trimmed
	}
	return path
}

func winSame(a, b string) bool { return winFold(a) == winFold(b) }

// winBeneath reports whether path lies in dir.
func winBeneath(path, dir string) bool {
	return strings.HasPrefix(winFold(path), strings.TrimRight(winFold(dir), `\`)+`\`) && !winSame(path, dir)
}

// winDir is the directory that holds path, and empty for a root.
func winDir(path string) string {
	path = strings.TrimRight(strings.ReplaceAll(path, "/", `\`), `\`)
	i := strings.LastIndexByte(path, '\\')
	if i < 0 || winIsRoot(path) {
		return ""
	}
	if dir := path[:i]; !strings.HasSuffix(dir, ":") {
		return dir
	}
	return path[:i+1]
}

// winIsRoot reports whether path is the root of a volume or of a share.
func winIsRoot(path string) bool {
	path = strings.TrimRight(strings.ReplaceAll(path, "/", `\`), `\`)
	if len(path) == 2 && path[1] == ':' || path == "" {
		return true
	}
	share, ok := strings.CutPrefix(path, `\\`)
	return ok && strings.Count(share, `\`) <= 1
}
