package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Landlock's rights, by the numbers of the kernel's interface.
const (
	fsExecute     = 1 << 0
	fsWriteFile   = 1 << 1
	fsReadFile    = 1 << 2
	fsReadDir     = 1 << 3
	fsRemoveDir   = 1 << 4
	fsRemoveFile  = 1 << 5
	fsMakeChar    = 1 << 6
	fsMakeDir     = 1 << 7
	fsMakeReg     = 1 << 8
	fsMakeSock    = 1 << 9
	fsMakeFifo    = 1 << 10
	fsMakeBlock   = 1 << 11
	fsMakeSym     = 1 << 12
	fsRefer       = 1 << 13
	fsTruncate    = 1 << 14
	fsIoctlDev    = 1 << 15
	fsResolveUnix = 1 << 16

	netBindTCP    = 1 << 0
	netConnectTCP = 1 << 1
	netBindUDP    = 1 << 2
	netSendUDP    = 1 << 3

	scopeAbstract = 1 << 0
	scopeSignal   = 1 << 1
)

// landlockABI is what one version of Landlock adds to those before it.
type landlockABI struct{ fs, net, scope uint64 }

// landlockABIs is indexed by version; version 0 is no Landlock. Versions 7, 8
// and 11 add only flags that are of no use to a single thread.
var landlockABIs = []landlockABI{
	0: {},
	1: {fs: 1<<13 - 1},
	2: {fs: fsRefer},
	3: {fs: fsTruncate},
	4: {net: netBindTCP | netConnectTCP},
	5: {fs: fsIoctlDev},
	6: {scope: scopeAbstract | scopeSignal},
	7: {}, 8: {},
	9:  {fs: fsResolveUnix},
	10: {net: netBindUDP | netSendUDP},
	11: {},
}

// newestABI is the newest version whose rights are known here; a newer kernel
// is treated as this one.
var newestABI = len(landlockABIs) - 1

// sameProcessFix is the erratum without which the signal scope would also cut
// off the threads of one process from each other.
const sameProcessFix = 1 << 1

const (
	readRights = fsExecute | fsReadFile | fsReadDir
	// deviceRights are for device files: a directory right on one makes the
	// kernel refuse the rule.
	deviceRights = fsReadFile | fsWriteFile
	// withheld are never granted anywhere: with them a command that runs as root
	// makes a device node in the workspace and opens the disk through it.
	withheld = fsMakeChar | fsMakeBlock | fsIoctlDev
)

// landlockRule grants rights on a path and everything beneath it.
type landlockRule struct {
	path   string
	rights uint64
}

// landlockPlan is a whole ruleset as data.
type landlockPlan struct {
	fs, net, scope uint64 // what is refused unless a rule grants it
	rules          []landlockRule
	connect        uint16 // the one TCP port that may be connected to; 0 is none
}

// devices are what programs expect to be able to write.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

const (
	deviceDir    = "/dev"
	sharedMemory = deviceDir + "/shm"
)

// planLandlock lays out the ruleset of one command for a kernel of the given
// version. What is not there is named in it all the same, and left out when the ruleset
// is built.
func planLandlock(s *spec, abi, errata int, list lister) landlockPlan {
	abi = min(abi, newestABI)
	var p landlockPlan
	for _, v := range landlockABIs[:abi+1] {
		p.fs |= v.fs
		p.net |= v.net
		p.scope |= v.scope
	}
	if s.profile.Egress.Open {
		p.net = 0
	}
	if errata&sameProcessFix == 0 {
		p.scope &^= scopeSignal
	}
	if s.profile.Egress.Open {
		// Whoever may use the network may also speak to local services.
		p.fs &^= fsResolveUnix
		p.scope &^= scopeAbstract
	}
	write := p.writeRights()
	// In namespaces /dev is the command's own, and lies elsewhere.
	p.rules = readRules(s.denied, s.rung == RungLandlock, list)
	for _, dir := range s.roots {
		p.add(dir, write&^beneathDenied(dir, s.denied))
	}
	p.add(s.temp, write&^holdingDenied(s.temp, s.denied))
	for _, d := range devices {
		p.add(d, deviceRights)
	}
	if s.profile.Mode != ReadOnly {
		p.add(sharedMemory, write&^holdingDenied(sharedMemory, s.denied))
	}
	if p.fs&fsResolveUnix != 0 {
		// A project's own sockets work; those of other programs do not.
		for _, dir := range append(slices.Clone(s.roots), s.temp) {
			p.add(dir, fsResolveUnix)
		}
	}
	if p.net&netConnectTCP != 0 && s.profile.Egress.proxied() {
		p.connect = s.profile.Egress.Proxy.Port()
	}
	return p
}

// writeRights are what a writable directory gets.
func (p *landlockPlan) writeRights() uint64 { return p.fs &^ (withheld | fsResolveUnix) }

func (p *landlockPlan) add(path string, rights uint64) {
	if rights&p.fs != 0 && path != "" {
		p.rules = append(p.rules, landlockRule{path, rights & p.fs})
	}
}

// lister names the entries of a directory; none for one that cannot be read. It comes
// in from outside so that a plan is tested without such a directory.
type lister func(dir string) []entry

type entry struct {
	name string
	dir  bool
	link bool
}

// listHost lists directories of this machine.
func listHost(dir string) []entry {
	des, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	out := make([]entry, len(des))
	for i, d := range des {
		out[i] = entry{name: d.Name(), dir: d.IsDir(), link: d.Type()&os.ModeSymlink != 0}
	}
	return out
}

// readRules grants reading everywhere but beneath the denied paths. Landlock
// can only add, so in place of a directory that holds a denied path each of its
// other entries is granted. Listing stays allowed everywhere: names are not
// hidden, contents are. What is created in such a directory while the command
// runs can be read by the next command only.
//
// With ownDevices reading is not granted in /dev either, but for shared memory: the
// terminals of the user are there, and whoever reads from one takes what is typed.
func readRules(denied []string, ownDevices bool, list lister) []landlockRule {
	top := []entry{}
	if len(denied) > 0 || ownDevices {
		top = list("/")
	}
	if len(denied) == 0 && len(top) == 0 { // it may be unreadable
		return []landlockRule{{"/", readRights}}
	}
	rules := []landlockRule{{"/", fsReadDir}}
	hidden, onTheWay := map[string]bool{}, map[string]bool{}
	for _, d := range denied {
		hidden[d] = true
		for _, dir := range parents(d) {
			onTheWay[dir] = true
		}
	}
	var walk func(dir string, entries []entry)
	walk = func(dir string, entries []entry) {
		for _, e := range entries {
			path := filepath.Join(dir, e.name)
			switch {
			case e.link:
				// A link is judged by what it leads to.
			case hidden[path]:
			case ownDevices && path == deviceDir:
				walk(deviceDir, []entry{{name: filepath.Base(sharedMemory), dir: true}})
			case onTheWay[path]:
				walk(path, list(path))
			case e.dir:
				rules = append(rules, landlockRule{path, readRights})
			default:
				rules = append(rules, landlockRule{path, fsExecute | fsReadFile})
			}
		}
	}
	walk("/", top)
	return rules
}

// beneathDenied are the rights to take from a writable directory that lies
// beneath a denied path: none for writing. Reading is not among the write
// rights to begin with when something in or above it is denied.
func beneathDenied(dir string, denied []string) uint64 {
	if slices.ContainsFunc(denied, func(d string) bool { return d == dir || beneath(d, dir) || beneath(dir, d) }) {
		return readRights
	}
	return 0
}

// holdingDenied is beneathDenied for a directory that is granted for what commands
// make in it, wherever it lies: reading is taken only where something denied is in it.
func holdingDenied(dir string, denied []string) uint64 {
	if slices.ContainsFunc(denied, func(d string) bool { return d == dir || beneath(d, dir) }) {
		return readRights
	}
	return 0
}

// beneath reports whether path lies inside dir.
func beneath(path, dir string) bool {
	sep := string(filepath.Separator)
	return path != dir && strings.HasPrefix(path, strings.TrimSuffix(dir, sep)+sep) // a root ends in one
}
