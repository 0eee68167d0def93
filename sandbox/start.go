package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxArgv bounds an argv in bytes; kernels refuse somewhat larger ones anyway,
// and the refusal should read the same everywhere.
const maxArgv = 1 << 20

// spec is one command with everything decided that can be decided without the
// kernel. It is what a rung gets.
type spec struct {
	argv    []string // the caller's
	path    string   // the resolved program
	dir     string
	env     []string
	files   []*os.File // the three streams of the child
	profile Profile
	work    string   // the workspace as a real path; empty under full access
	roots   []string // writable directories as real paths, the workspace first unless read-only
	// withheld are the directories that were asked for and not granted
	withheld []string
	temp     string   // the temporary directory as a real path; empty under full access
	denied   []string // existing paths that must not be read, as real paths
	marker   string   // NAME=value, unique to this command
	host     Host
	rung     Rung
}

// Start starts c inside the strongest rung of this host that can serve p, and
// returns once the program is running. The process and everything it starts
// are killed when ctx ends, when a limit is hit, when [Process.Kill] is called
// and when the program itself has ended. [Process.Wait] must be called.
//
// Nothing of the calling process is changed: not its directory, environment,
// limits, credentials, signal handlers nor any thread that other goroutines
// use. Start may be called from several goroutines at once. A failure is an
// [*Error]; nothing of the command is then running.
func Start(ctx context.Context, c Cmd, p Profile) (*Process, error) {
	host, err := admit(ctx, c, p)
	if err != nil {
		return nil, err
	}
	return start(ctx, host, c, p)
}

// admit refuses what cannot be started, and finds what this host can do for it.
func admit(ctx context.Context, c Cmd, p Profile) (Host, error) {
	if err := ctx.Err(); err != nil {
		return Host{}, &Error{Kind: ErrStart, Op: "start", Program: first(c.Argv), Err: context.Cause(ctx)}
	}
	if err := checkCmd(c); err != nil {
		return Host{}, err
	}
	return hostFor(ctx, p)
}

// start is Start on a host that is given: tests give one that can do less.
func start(ctx context.Context, host Host, c Cmd, p Profile) (*Process, error) {
	pr, err := begin(host, c, p)
	if err != nil {
		return nil, err
	}
	go pr.supervise(ctx)
	return pr, nil
}

// begin starts a command that nobody supervises yet.
func begin(host Host, c Cmd, p Profile) (*Process, error) {
	s, applied, err := prepare(host, c, p)
	if err != nil {
		return nil, err
	}
	removeTemp := func() error { return nil }
	if p.Mode.Contained() {
		if removeTemp, err = s.makeTemp(); err != nil {
			return nil, err
		}
	}
	pr := newProcess(s, removeTemp)
	if err := pr.open(c); err != nil {
		pr.abandon()
		return nil, err
	}
	if err := pr.climb(applied); err != nil {
		pr.abandon()
		return nil, err
	}
	pr.run()
	return pr, nil
}

// Run starts c and waits for its end. The Result is nil only when the command
// was not started; when ctx ended it, both the Result, with the output so far,
// and the cause of ctx are returned.
func Run(ctx context.Context, c Cmd, p Profile) (*Result, error) {
	host, err := admit(ctx, c, p)
	if err != nil {
		return nil, err
	}
	pr, err := begin(host, c, p)
	if err != nil {
		return nil, err
	}
	pr.supervise(ctx) // by the one who waits: to wake another goroutine takes its time
	return pr.Wait()
}

// Plan says what a command with profile p would get on this host, without
// starting one: it is what a boundary text is written from. A rung whose
// apparatus fails later is passed over then, so the Applied of a [Result] is
// the one to record.
func Plan(ctx context.Context, p Profile) (Applied, error) {
	host, err := hostFor(ctx, p)
	if err != nil {
		return Applied{}, err
	}
	s, applied, err := prepare(host, Cmd{}, p)
	if err != nil {
		return Applied{}, err
	}
	ladder := candidates(host, p)
	if len(ladder) == 0 {
		return Applied{}, &Error{Kind: ErrApparatus, Op: "plan", Err: errors.New("no rung is left")}
	}
	a := s.describe(ladder[0], applied)
	return a, s.refuses(a)
}

func checkCmd(c Cmd) error {
	invalid := func(why string) error {
		return &Error{Kind: ErrInvalid, Op: "check command", Program: first(c.Argv), Err: errors.New(why)}
	}
	if len(c.Argv) == 0 || strings.TrimSpace(c.Argv[0]) == "" {
		return invalid("argv needs a program as its first element")
	}
	total := 0
	for i, a := range c.Argv {
		if strings.IndexByte(a, 0) >= 0 {
			return invalid(fmt.Sprintf("argv element %d holds a NUL byte", i))
		}
		total += len(a) + 1
	}
	if total > maxArgv {
		return invalid(fmt.Sprintf("argv has %d bytes, at most %d are allowed", total, maxArgv))
	}
	return nil
}

func first(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	return argv[0]
}

// prepare decides everything that needs no process. Without an argv it decides
// what [Plan] needs.
func prepare(host Host, c Cmd, p Profile) (*spec, Applied, error) {
	if err := p.Validate(); err != nil {
		return nil, Applied{}, err
	}
	if p.Mode.Contained() && p.AccessConfinement && host.OS == "windows" {
		// Nothing on the loopback is reached from inside, so there is no proxy.
		p.Egress.Proxy, p.Egress.ProxyToken = netip.AddrPort{}, ""
	}
	s := &spec{argv: slices.Clone(c.Argv), profile: p, host: host, marker: newMarker()}
	env, report := Environ(p, c.Env...)
	s.env = append(dropNames(env, c.Unset...), s.marker)
	if p.Mode.Contained() {
		work, err := realDir(p.Workspace)
		if err != nil {
			return nil, Applied{}, &Error{Kind: ErrInvalid, Op: "open workspace", Err: err}
		}
		s.work = work
		var path []string
		if len(p.Writable) > 0 { // it is for those alone, and costs a look at every part of it
			path = hostPath()
		}
		s.roots, s.withheld = writableRoots(p, work, path)
		s.denied = existing(p.Reads.Deny)
		s.temp = p.Temp
		if p.SharedTemp {
			s.temp = os.TempDir()
		}
	}
	applied := Applied{Mode: p.Mode.orDefault(), Roots: s.roots, Withheld: s.withheld, Scrubbed: report.Removed}
	if len(c.Argv) == 0 {
		return s, applied, nil
	}
	if err := s.place(c.Dir); err != nil {
		return nil, Applied{}, err
	}
	path, err := Resolve(c.Argv[0], s.dir, s.env)
	if err != nil {
		return nil, Applied{}, err
	}
	s.path = path
	return s, applied, nil
}

// place finds the working directory.
func (s *spec) place(dir string) error {
	base := s.work
	if base == "" {
		base = s.profile.Workspace
	}
	switch {
	case dir == "":
		dir = base
	case !filepath.IsAbs(dir):
		dir = filepath.Join(base, dir)
	}
	if dir == "" || !filepath.IsAbs(dir) {
		return &Error{Kind: ErrInvalid, Op: "find working directory", Program: s.argv[0], Err: errors.New("neither a workspace nor an absolute directory is given")}
	}
	if dir == s.work { // it was looked at
		s.dir = dir
		return nil
	}
	fi, err := os.Stat(dir)
	if err == nil && !fi.IsDir() {
		err = &fs.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return &Error{Kind: ErrStart, Op: "find working directory", Program: s.argv[0], Err: err}
	}
	s.dir = dir
	return nil
}

// makeTemp settles the temporary directory and exports it.
func (s *spec) makeTemp() (func() error, error) {
	remove := func() error { return nil }
	if s.temp == "" {
		dir, rm, err := NewTemp()
		if err != nil {
			return nil, err
		}
		s.temp, remove = dir, rm
	} else {
		real, err := realDir(s.temp)
		if err != nil {
			return nil, &Error{Kind: ErrInvalid, Op: "open temporary directory", Err: err}
		}
		s.temp = real
	}
	if s.profile.Mode == ReadOnly && (s.work == s.temp || beneath(s.work, s.temp)) {
		_ = remove()
		return nil, &Error{Kind: ErrInvalid, Op: "open temporary directory",
			Err: fmt.Errorf("the workspace %s lies in it, and would be writable under read-only: use a private one", s.work)}
	}
	s.env = tempEnv(s.env, s.temp)
	return remove, nil
}

// writableRoots are the directories a command may write besides its temporary
// one: the workspace, then what else exists of Profile.Writable, sorted and
// each once. Nothing under read-only. A directory that holds one of path is
// withheld.
func writableRoots(p Profile, work string, path []string) (roots, withheld []string) {
	if p.Mode == ReadOnly {
		return nil, nil
	}
	var extra []string
	for _, dir := range p.Writable {
		real, err := realDir(dir)
		switch {
		case err != nil || real == work:
		case slices.ContainsFunc(path, func(d string) bool { return d == real || beneath(d, real) }):
			withheld = append(withheld, real)
		default:
			extra = append(extra, real)
		}
	}
	slices.Sort(extra)
	return append([]string{work}, slices.Compact(extra)...), withheld
}

// hostPath is the PATH of this process as real directories.
func hostPath() []string {
	var out []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if real, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(real) {
			out = append(out, real)
		}
	}
	return out
}

// existing resolves the links of each path, and leaves out what is not there
// and what lies in another of them: a rung works on real paths.
func existing(paths []string) []string {
	var all []string
	for _, p := range paths {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			all = append(all, filepath.Clean(real))
		}
	}
	slices.Sort(all) // a directory before what is in it
	var out []string
	kept := map[string]bool{}
	for _, p := range slices.Compact(all) {
		if covered := slices.ContainsFunc(parents(p), func(d string) bool { return kept[d] }); !covered {
			out, kept[p] = append(out, p), true
		}
	}
	return out
}

// parents are the directories that hold path, the nearest first.
func parents(path string) []string {
	var out []string
	for dir := filepath.Dir(path); dir != path; path, dir = dir, filepath.Dir(dir) {
		out = append(out, dir)
	}
	return out
}

// protected are the paths inside the writable directories that stay read-only.
func (s *spec) protected() []string {
	var out []string
	for _, p := range s.profile.Protect {
		if real, err := filepath.EvalSymlinks(p); err == nil && slices.ContainsFunc(s.roots, func(r string) bool { return beneath(real, r) }) {
			out = append(out, real)
		}
	}
	slices.SortFunc(out, strings.Compare)
	return slices.Compact(out)
}

func realDir(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	fi, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	if !fi.IsDir() {
		return "", &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	return filepath.Abs(real)
}

// refuses is the error for a boundary that the profile requires and a does not
// have.
func (s *spec) refuses(a Applied) error {
	p := s.profile
	var short []string
	if p.Require.Writes && !a.Confined() {
		short = append(short, "writes cannot be confined")
	}
	if p.Require.Egress && !p.Egress.Open {
		switch a.Egress {
		case EgressOpen, EgressAdvisory, EgressAll:
			short = append(short, "the network boundary cannot be held")
		}
		if a.LocalSockets {
			short = append(short, "unix sockets of other programs can be reached")
		}
	}
	if p.Require.Reads && !a.Reads {
		short = append(short, "denied reads cannot be hidden")
	}
	if p.Shim == ShimRequired && a.Rung != RungNamespaces {
		short = append(short, "the helper process is required and is not used")
	}
	if p.AccessConfinement && s.host.OS == "windows" && a.Rung != RungAppContainer {
		short = append(short, "access confinement was asked for and cannot be had, so nothing was started")
	}
	if len(short) == 0 {
		return nil
	}
	why := strings.Join(short, "; ")
	if len(a.Why) > 0 {
		why += " (" + strings.Join(a.Why, "; ") + ")"
	}
	return &Error{Kind: ErrRequired, Op: "choose rung", Program: first(s.argv), Rung: a.Rung, Err: errors.New(why)}
}

// stream is one output of the child: either a file of the caller's, or a pipe
// that is drained.
type stream struct {
	r    *os.File
	kept []*capture
	to   io.Writer // of the caller; may be nil
	mask *masker   // nil: nothing is hidden
}
