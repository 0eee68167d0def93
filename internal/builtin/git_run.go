package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// gitProgram is git's file, looked for once: a command of the run must not be
// able to put another in its place later.
type gitProgram struct {
	once sync.Once
	file string
	err  error
}

// find takes git from the directories of PATH that lie outside of everything
// that a command of the run may write.
func (p *gitProgram) find(root string, writable []string) (string, error) {
	p.once.Do(func() {
		p.file, p.err = findHelper("git", os.Getenv("PATH"), append([]string{root, os.TempDir()}, writable...))
	})
	return p.file, p.err
}

func findHelper(name, path string, forbidden []string) (string, error) {
	inside := func(file string) bool {
		return slices.ContainsFunc(forbidden, func(dir string) bool {
			if real, err := filepath.EvalSymlinks(dir); err == nil {
				dir = real
			}
			rel, err := filepath.Rel(dir, file)
			return err == nil && filepath.IsLocal(rel)
		})
	}
	var usable []string
	passed := ""
	for _, dir := range filepath.SplitList(path) {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || !filepath.IsAbs(dir) {
			continue
		}
		if inside(real) {
			if _, err := sandbox.Resolve(name, dir, []string{"PATH=" + dir}); err == nil {
				passed = dir
			}
			continue
		}
		usable = append(usable, dir)
	}
	file, err := sandbox.Resolve(name, string(filepath.Separator), []string{"PATH=" + strings.Join(usable, string(filepath.ListSeparator)), "PATHEXT=" + os.Getenv("PATHEXT")})
	if err == nil {
		var real string
		if real, err = filepath.EvalSymlinks(file); err == nil && inside(real) {
			err = fmt.Errorf("%s leads into a directory that commands of the run may write", file)
		}
	}
	if err != nil && passed != "" {
		return "", fmt.Errorf("the only one is in %s, which commands of the run may write", passed)
	}
	return file, err
}

// gitCall is one call of a git tool.
type gitCall struct {
	ctx  context.Context
	env  *Env
	call tool.Call
	tool gitTool

	program string
	stdout  io.Writer // sees all that a command prints, beside what is kept of it; may be nil
	prefix  string    // of the workspace in its repository, "" or "dir/"
	extra   []string  // directories of a repository outside of the workspace, for writing
}

// gitResult is what git said.
type gitResult struct {
	*sandbox.Result
	out      string // what to show; empty: the streams
	note     string // below it
	timedOut bool
}

// common are the options of every git command: no pager, no hook, no monitor, no
// editor, no signature program, no background upkeep, whatever the repository's
// configuration says.
func (g *gitCall) common() []string {
	argv := []string{g.program, "--no-pager"}
	if !g.tool.writes {
		argv = append(argv, "--no-optional-locks")
	}
	argv = append(argv,
		"-c", "core.hooksPath="+os.DevNull, "-c", "core.fsmonitor=false",
		"-c", "commit.gpgSign=false", "-c", "log.showSignature=false", "-c", "core.editor=true",
		"-c", "gc.auto=0", "-c", "maintenance.auto=false",
		// The state of a repository within this one is asked of that repository,
		// whose settings can start programs.
		"-c", "diff.ignoreSubmodules=dirty", "-c", "status.submoduleSummary=false", "-c", "submodule.recurse=false",
		// The user's own attributes, which no variable turns off.
		"-c", "core.attributesFile="+os.DevNull,
		// The owner of the workspace was chosen by whoever opened it.
		"-c", "safe.directory="+filepath.ToSlash(g.call.Workspace.Root()),
	)
	if g.tool.name == "git_commit" {
		id := g.env.Identity.orDefault()
		for _, who := range []string{"user", "author", "committer"} { // the repository may set the latter two
			argv = append(argv, "-c", who+".name="+id.Name, "-c", who+".email="+id.Email)
		}
		argv = append(argv, "-c", "user.useConfigOnly=true")
	}
	return argv
}

// gitEnv is the environment beside the scrubbed one.
func (g *gitCall) gitEnv() []string {
	env := []string{
		"GIT_PAGER=cat", "PAGER=cat", "LC_ALL=C", "LANG=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_COUNT=0", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=",
		"GIT_LITERAL_PATHSPECS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none",
	}
	if g.tool.writes && !g.env.ParentRepository {
		// What is changed is the workspace's own repository or none.
		env = append(env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(g.call.Workspace.Root()))
	}
	return env
}

// git runs one git command: the options that are fixed, "--", and the paths.
func (g *gitCall) git(command []string, paths ...string) (gitResult, error) {
	argv := append(g.common(), command...)
	if len(paths) > 0 {
		argv = append(append(argv, "--"), paths...)
	}
	if err := checkArgv(argv); err != nil {
		return gitResult{}, errors.New("too many paths for one git command: name fewer, or a directory")
	}
	cmd := sandbox.Cmd{Argv: argv, Env: g.gitEnv(), Unset: g.foreign(), Stdout: g.stdout}
	res, timedOut, err := g.env.bounded(g.ctx, g.env.timeout(), func(ctx context.Context) (*sandbox.Result, error) {
		if g.env.RunNarrowed == nil {
			return g.env.Run(ctx, g.call, cmd)
		}
		return g.env.RunNarrowed(ctx, g.call, cmd, g.narrow)
	})
	if res == nil {
		if err == nil {
			err = errors.New("it brought no result")
		}
		return gitResult{}, err
	}
	return gitResult{Result: res, timedOut: timedOut}, nil
}

// list runs a git command whose output names files for us. What one that fails has
// printed is not for the model: nobody has looked at the names.
func (g *gitCall) list(each func(entry string), command []string, paths ...string) (gitResult, error) {
	if each != nil {
		g.stdout = &entries{each: each}
		defer func() { g.stdout = nil }()
	}
	r, err := g.git(command, paths...)
	if r.Result != nil && !r.Success() {
		quiet := *r.Result
		quiet.Stdout = sandbox.Output{}
		r.Result = &quiet
	}
	return r, err
}

// foreign names what the host's environment tells git: a program that git itself
// has started, as from a hook, finds there which repository that was for.
func (g *gitCall) foreign() []string {
	ours := g.gitEnv()
	var names []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(strings.ToUpper(name), "GIT_") && !slices.ContainsFunc(ours, func(o string) bool { return strings.HasPrefix(o, name+"=") }) {
			names = append(names, name)
		}
	}
	return names
}

// narrow lets readers write nothing.
func (g *gitCall) narrow(p *sandbox.Profile) {
	if !g.tool.writes && (p.Mode == "" || p.Mode == sandbox.WorkspaceWrite) {
		p.Mode = sandbox.ReadOnly
	}
	if g.tool.writes {
		p.Writable = append(slices.Clip(p.Writable), g.extra...)
	}
}

// prepare finds git and the repository, and refuses one whose configuration
// would start programs. A result means that git itself already said no.
func (g *gitCall) prepare() (*gitResult, error) {
	file, err := g.env.git.find(g.call.Workspace.Root(), g.env.Writable)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", sandbox.ErrMissing, reason(err))
	}
	g.program = file
	r, err := g.git([]string{"rev-parse", "--show-prefix", "--absolute-git-dir", "--git-common-dir"})
	if err != nil {
		return nil, err
	}
	if !r.Success() {
		if g.repositoryAbove() {
			return nil, errors.New(aboveWorkspace)
		}
		return &r, nil
	}
	lines := strings.Split(strings.TrimSuffix(r.Stdout.String(), "\n"), "\n")
	if len(lines) != 3 {
		return nil, errors.New("git's answer about where its repository is cannot be told apart: the name of a directory holds a line break")
	}
	g.prefix = lines[0]
	if g.prefix != "" && g.tool.writes && !g.env.ParentRepository {
		return nil, errors.New(aboveWorkspace) // the ceiling that git was given did not hold
	}
	root := g.call.Workspace.Root()
	top := root // of the checkout
	for range strings.Count(g.prefix, "/") {
		top = filepath.Dir(top)
	}
	gitDir, common := filepath.FromSlash(lines[1]), filepath.FromSlash(lines[2])
	if !filepath.IsAbs(common) {
		common = filepath.Join(root, common)
	}
	linked := linkedRepository(top, gitDir, common)
	switch {
	case !g.tool.writes:
	case g.prefix != "": // above the workspace, and ParentRepository let it be found
		g.extra = []string{gitDir, common}
	default:
		g.extra = linked
	}
	if err := g.checkConfig(); err != nil {
		return nil, err
	}
	if linked == nil && !(below(top, gitDir) && below(top, common)) {
		return nil, refuse(g.tool.name, policy.Need{Act: policy.Read, Target: ".git"}, byRule("<a repository that lies elsewhere>"),
			"The directory of the git repository lies outside of its checkout, and it does not name this checkout as one of its worktrees. Nothing was done.")
	}
	return nil, nil
}

// below reports whether a file lies in a directory or is it, whatever the names are
// that lead to the two.
func below(dir, file string) bool {
	want, err := os.Stat(dir)
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	for at := file; ; at = filepath.Dir(at) {
		if got, err := os.Stat(at); err == nil && os.SameFile(want, got) {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

const aboveWorkspace = "the root of the git repository lies above the workspace, and what is outside of the workspace is not changed. " +
	"Nothing was done; the tools that only read it work. The operator can let it be changed (ParentRepository of the contract)"

// repositoryAbove reports that a call which changes something found no repository
// only because it may not look for one above the workspace.
func (g *gitCall) repositoryAbove() bool {
	if !g.tool.writes || g.env.ParentRepository {
		return false
	}
	reader := *g
	reader.tool.writes = false
	r, err := reader.git([]string{"rev-parse", "--show-prefix"})
	return err == nil && r.Success() && strings.TrimSpace(r.Stdout.String()) != ""
}

// linkedRepository are the directories that a linked worktree writes outside of
// itself: its own administrative directory and the shared one. The repository
// must name the worktree as well: a .git file alone could be somebody's wish, and so
// could an administrative directory that does not lie where the shared one has them.
func linkedRepository(root, gitDir, common string) []string {
	if rel, err := filepath.Rel(root, gitDir); err == nil && filepath.IsLocal(rel) {
		return nil
	}
	if !sameFile(filepath.Join(common, "worktrees", filepath.Base(gitDir)), gitDir) {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(gitDir, "gitdir"))
	if err != nil {
		return nil
	}
	back := filepath.FromSlash(strings.TrimSpace(string(text)))
	if !filepath.IsAbs(back) { // as git writes it with worktree.useRelativePaths
		back = filepath.Join(gitDir, back)
	}
	named, err := filepath.EvalSymlinks(back)
	if err != nil || !sameFile(filepath.Dir(named), root) {
		return nil
	}
	return []string{gitDir, common}
}

func sameFile(a, b string) bool {
	x, err := os.Lstat(a)
	if err != nil {
		return false
	}
	y, err := os.Lstat(b)
	return err == nil && os.SameFile(x, y)
}

// executes are the settings by which a repository makes git start a program or
// look elsewhere for files. They are compared in lower case; "*" is any part.
var executes = []string{
	"filter.*.clean", "filter.*.smudge", "filter.*.process", "merge.*.driver",
	"diff.external", "diff.*.command", "diff.*.textconv",
	"core.sshcommand", "core.gitproxy", "core.alternaterefscommand", "core.worktree",
	"gpg.program", "gpg.*.program", "hook.*.command",
}

// conditional are the settings that a checkout in another place may have and this
// one not, so that nobody can say from here what git will do there.
const conditional = "includeif.*.path"

// checkConfig reads the repository's own configuration, with what it includes.
func (g *gitCall) checkConfig() error {
	for _, scope := range []string{"--local", "--worktree"} {
		r, err := g.git([]string{"config", "--list", "-z", "--show-origin", "--includes", scope})
		if err != nil {
			return err
		}
		if !r.Success() {
			if scope == "--worktree" {
				continue // there is none
			}
			return errors.New("the configuration of the repository cannot be read: " + strings.TrimSpace(r.Stderr.String()))
		}
		if r.Stdout.Elided > 0 {
			return errors.New("the configuration of the repository is too large to be checked")
		}
		if err := configFault(g.tool.name, r.Stdout.String()); err != nil {
			return err
		}
	}
	return nil
}

// configFault looks for settings that start programs in what git config -z
// --show-origin prints: origin, NUL, key, newline, value, NUL.
func configFault(name, list string) error {
	fields := strings.Split(list, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		key, _, _ := strings.Cut(fields[i+1], "\n")
		if name == "git_worktree" && matches(strings.ToLower(key), conditional) {
			return refuse(name, policy.Need{Act: policy.Exec, Target: "git"}, byRule("<the repository sets "+key+">"),
				fmt.Sprintf("The repository's configuration (%s) sets %s: a new checkout could have settings that start programs. The operator must remove it first.",
					printable(strings.TrimPrefix(fields[i], "file:")), printable(key)))
		}
		if runsPrograms(key) {
			return refuse(name, policy.Need{Act: policy.Exec, Target: "git"}, byRule("<the repository sets "+key+">"),
				fmt.Sprintf("The repository's configuration (%s) sets %s, which makes git start programs or leave the workspace; the operator must remove it first.",
					printable(strings.TrimPrefix(fields[i], "file:")), printable(key)))
		}
	}
	return nil
}

func runsPrograms(key string) bool {
	key = strings.ToLower(key)
	return slices.ContainsFunc(executes, func(pattern string) bool { return matches(key, pattern) })
}

// matches compares a key in lower case with a pattern in which "*" is any part.
func matches(key, pattern string) bool {
	head, tail, wild := strings.Cut(pattern, "*")
	if !wild {
		return key == pattern
	}
	return len(key) >= len(head)+len(tail) && strings.HasPrefix(key, head) && strings.HasSuffix(key, tail)
}

// permitted splits paths of the workspace into those that may be read and those
// that may not.
func (g *gitCall) permitted(paths []string) (allowed, denied []string) {
	for _, p := range paths {
		if g.call.Workspace.CheckPath(policy.Read, p).Effect == policy.Deny {
			denied = append(denied, p)
			continue
		}
		allowed = append(allowed, p)
	}
	return allowed, denied
}

// failure is the result of a call that git did not answer.
func (t gitTool) failure(err error) tool.Result {
	switch {
	case errors.Is(err, sandbox.ErrMissing):
		return failed("git unavailable", "git unavailable", "git cannot be used on this machine: "+strings.TrimPrefix(err.Error(), sandbox.ErrMissing.Error()+": ")+". Go on without it.")
	}
	return failed(t.name+" failed", t.name+" failed", reason(err))
}

// result words what git said: its output when there is any or all went well,
// else its complaint.
func (t gitTool) result(e *Env, r gitResult) tool.Result {
	ok := r.Success()
	out, errOut := r.out, ""
	if out == "" {
		out, errOut = r.Stdout.String(), r.Stderr.String()
	}
	text := out
	if strings.TrimSpace(text) == "" && !ok {
		text = errOut
	}
	text = strings.TrimRight(text, "\n")
	if text == "" {
		text = "(no output)"
	}
	head, decision := t.name, t.name+" ok"
	switch {
	case r.timedOut:
		head, decision = t.name+" timed out: killed after "+seconds(e.timeout())+" s", t.name+" timed out"
	case r.Cap != "":
		head, decision = fmt.Sprintf("%s failed: it hit the sandbox's %s ceiling", t.name, r.Cap), t.name+" exit signal"
	case r.Signal != "" || r.Killed:
		head, decision = t.name+" failed: killed by a signal", t.name+" exit signal"
	case !ok:
		head, decision = t.name+" failed", fmt.Sprintf("%s exit %d", t.name, r.Exit)
	}
	note := r.note
	if !ok {
		note += resultNotes(r.Result)
	}
	room := e.entryCap() - runes(head) - runes(note) - elisionRoom
	text = headOf(text, max(room, 1))
	return tool.Result{
		Text: observation(head, text+note), Decision: decision, Kind: trace.ObsTool,
		Changed: ok && t.writes, Failed: !ok,
	}
}

// headOf keeps the first n characters and says what is missing.
func headOf(s string, n int) string {
	total := runes(s)
	if total <= n {
		return s
	}
	i := 0
	for j := range s {
		if i == n {
			return s[:j] + fmt.Sprintf("\n[truncated: %s of %s characters left out]", commas(total-n), commas(total))
		}
		i++
	}
	return s
}

// entries hands on what git prints with -z, one entry at a time, however much it is.
type entries struct {
	each func(string)
	rest []byte
}

func (e *entries) Write(p []byte) (int, error) {
	e.rest = append(e.rest, p...)
	for {
		entry, rest, whole := bytes.Cut(e.rest, []byte{0})
		if !whole {
			return len(p), nil
		}
		e.each(string(entry))
		e.rest = rest
	}
}
