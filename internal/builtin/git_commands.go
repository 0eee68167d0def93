package builtin

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/initorigin/io-harness-go/policy"
)

// Bounds of git_log.
const (
	logDefault = 20
	logMost    = 200
)

// scoped are the paths of a reader: those that were named, or in a repository
// that reaches above the workspace the workspace alone.
func (g *gitCall) scoped(paths []string) []string {
	if len(paths) == 0 && g.prefix != "" {
		return []string{"."}
	}
	return paths
}

// maxStatus bounds what is kept of git_status, in bytes.
const maxStatus = 1 << 20

func gitStatus(g *gitCall, in gitArgs) (gitResult, error) {
	var b strings.Builder
	left, more := 0, 0
	r, err := g.list(func(entry string) {
		if len(entry) < 4 {
			return
		}
		// Names come from the top of the repository.
		name, ok := strings.CutPrefix(entry[3:], g.prefix)
		switch {
		case !ok:
		case g.call.Workspace.CheckPath(policy.Read, strings.TrimSuffix(name, "/")).Effect == policy.Deny:
			left++
		case b.Len() >= maxStatus:
			more++
		default:
			fmt.Fprintf(&b, "%s %s\n", entry[:2], printable(name))
		}
	}, []string{"status", "--porcelain=v1", "--untracked-files=normal", "--ignore-submodules=dirty", "--no-renames", "-z"}, g.scoped(in.Paths)...)
	if err != nil || !r.Success() {
		return r, err
	}
	r.out = b.String()
	if r.out == "" {
		r.out = "(no output)"
	}
	if more > 0 {
		r.note = fmt.Sprintf("\n[%s more: name paths]", commas(more))
	}
	r.note += leftOut(left)
	return r, nil
}

func leftOut(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("\n[%s left out: the policy forbids reading]", plural(n, "file", "files"))
}

// diffOptions start no program of the repository's choosing. Renames are not
// looked for, because they show the old name of a file beside the new. Of a
// repository within this one only the commit is compared: a diff inside of it
// would follow that repository's settings, which nobody has looked at, and show
// files past the policy.
func diffOptions(in gitArgs) []string {
	argv := []string{"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=dirty", "--submodule=short", "--relative"}
	if in.Staged {
		argv = append(argv, "--cached")
	}
	return argv
}

func gitDiff(g *gitCall, in gitArgs) (gitResult, error) {
	paths := g.scoped(in.Paths)
	names, err := g.list(nil, append(diffOptions(in), "--name-only", "-z"), paths...)
	if err != nil || !names.Success() {
		return names, err
	}
	if names.Stdout.Elided > 0 {
		return gitResult{}, errors.New("so many files are changed that they cannot all be checked: name fewer paths")
	}
	changed := slices.Compact(splitNames(names.Stdout.String())) // one in conflict is named twice
	allowed, denied := g.permitted(changed)
	if len(denied) > 0 {
		allowed = notAbove(allowed, denied)
		if len(allowed) == 0 {
			names.out, names.note = "(no output)", leftOut(len(changed))
			return names, nil
		}
		paths = allowed
	}
	r, err := g.git(diffOptions(in), paths...)
	if len(denied) > 0 {
		r.note = leftOut(len(changed) - len(allowed))
	}
	return r, err
}

// notAbove takes out of paths those that others lie below: a file that became a
// directory, or the other way round. To git its name stands for both.
func notAbove(paths, others []string) []string {
	above := map[string]bool{}
	for _, o := range others {
		for i := strings.LastIndexByte(o, '/'); i > 0; i = strings.LastIndexByte(o[:i], '/') {
			above[o[:i]] = true
		}
	}
	return slices.DeleteFunc(paths, func(p string) bool { return above[p] })
}

func splitNames(list string) []string {
	if list = strings.TrimSuffix(list, "\x00"); list == "" {
		return nil
	}
	return strings.Split(list, "\x00")
}

func gitLog(g *gitCall, in gitArgs) (gitResult, error) {
	n := int64(logDefault)
	if in.MaxCount != nil {
		n = min(max(*in.MaxCount, 1), logMost)
	}
	return g.git([]string{"log", "--no-color", "--oneline", "--no-decorate", "--max-count=" + strconv.FormatInt(n, 10)}, g.scoped(in.Paths)...)
}

var errTooMany = errors.New("there are so many files below these paths that they cannot all be checked: name fewer. Nothing was staged")

// over is the one of the paths that name lies below.
func over(paths []string, name string) string {
	for _, p := range paths {
		clean := path.Clean(p)
		if rest, ok := strings.CutPrefix(name, clean); ok && (rest == "" || rest[0] == '/') {
			return p
		}
	}
	return paths[0]
}

// gitAdd looks first at what a path stands for: a directory must not stage a
// file that may not be read.
func gitAdd(g *gitCall, in gitArgs) (gitResult, error) {
	list, err := g.list(nil, []string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"}, in.Paths...)
	if err != nil || !list.Success() {
		return list, err
	}
	if list.Stdout.Elided > 0 {
		return gitResult{}, errTooMany
	}
	names := splitNames(list.Stdout.String())
	if _, denied := g.permitted(names); len(denied) > 0 {
		// What is recorded is the path that was named, with the rule of the first
		// file below it: no name that the model may not know.
		return gitResult{}, refuse(g.tool.name, policy.Need{Act: policy.Read, Target: over(in.Paths, denied[0])}, g.call.Workspace.CheckPath(policy.Read, denied[0]),
			fmt.Sprintf("The policy forbids reading %s below these paths, so nothing was staged: name the files to stage one by one.", plural(len(denied), "file", "files")))
	}
	// For a repository within this one git asks that repository for its state, by
	// its own settings, which nobody has looked at.
	staged, err := g.list(nil, []string{"ls-files", "-z", "--stage"}, in.Paths...)
	if err != nil || !staged.Success() {
		return staged, err
	}
	if staged.Stdout.Elided > 0 {
		return gitResult{}, errTooMany
	}
	for _, entry := range append(splitNames(list.Stdout.String()), splitNames(staged.Stdout.String())...) {
		if _, name, ok := strings.Cut(entry, "\t"); ok && strings.HasPrefix(entry, "160000 ") || strings.HasSuffix(entry, "/") {
			if name == "" {
				name = entry
			}
			name = strings.TrimSuffix(name, "/")
			return gitResult{}, refuse(g.tool.name, policy.Need{Act: policy.Read, Target: name}, byRule("<a repository of its own>"),
				printable(name)+" is a repository of its own below these paths, so nothing was staged: name the files to stage.")
		}
	}
	r, err := g.git([]string{"add"}, in.Paths...)
	if err == nil && r.Success() && len(names) == 0 {
		return gitResult{}, errors.New("there is no file to stage at these paths, so nothing was staged: they are empty, or lie in a repository of their own")
	}
	return r, err
}

// gitCommit looks first whether there is something to commit: git itself would
// answer with the state of the whole tree, which names files that may not be
// read. What it did is told in our words for the same reason.
func gitCommit(g *gitCall, in gitArgs) (gitResult, error) {
	fields, conflicts := 0, 0 // a state, its path, and so on
	staged, err := g.list(func(field string) {
		if fields%2 == 0 && field == "U" {
			conflicts++
		}
		fields++
	}, []string{"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--submodule=short", "--ignore-submodules=dirty", "--cached", "--name-status", "-z"})
	if err != nil || !staged.Success() {
		return staged, err
	}
	switch {
	case fields == 0:
		return gitResult{}, errors.New("nothing is staged, so there is nothing to commit: stage files with git_add first")
	case conflicts > 0:
		return gitResult{}, fmt.Errorf("%s in conflict: settle that in the files and stage them with git_add first", plural(conflicts, "file is", "files are"))
	}
	done, err := g.git([]string{"commit", "--no-verify", "--quiet", "-m", in.Message})
	if err != nil || !done.Success() {
		return done, err
	}
	said, err := g.git([]string{"log", "--no-color", "--no-decorate", "--max-count=1", "--format=%h %s"})
	if err == nil && said.Success() {
		done.out = "committed " + said.Stdout.String()
	}
	return done, nil
}

// gitBranch is quiet, because in a sparse checkout git lists what is changed.
func gitBranch(g *gitCall, in gitArgs) (gitResult, error) {
	r, err := g.git([]string{"switch", "--create=" + in.Name, "--quiet"})
	if err == nil && r.Success() {
		r.out = "on the new branch " + in.Name
	}
	return r, err
}

// gitWorktree hands git the path as it resolves, so that a link on it cannot be
// exchanged between the check and git's own look.
func gitWorktree(g *gitCall, in gitArgs) (gitResult, error) {
	real, err := g.call.Workspace.Canonical(in.Path)
	if err != nil {
		return gitResult{}, err
	}
	if real == "" || isGitName(real) {
		return gitResult{}, refuse(g.tool.name, policy.Need{Act: policy.Write, Target: in.Path}, byRule("<not a new directory below the workspace root>"),
			fmt.Sprintf("%q is not a new directory below the workspace root.", in.Path))
	}
	if g.prefix != "" {
		return gitResult{}, refuse(g.tool.name, policy.Need{Act: policy.Read, Target: in.Path}, byRule("<a checkout of what lies above the workspace>"),
			"The root of the git repository lies above the workspace, and a checkout would bring what is outside of the workspace into it.")
	}
	// A checkout is a copy of every tracked file, below another name.
	var reads, writes *policy.Verdict
	tracked, err := g.list(func(name string) {
		if v := g.call.Workspace.CheckPath(policy.Read, name); v.Effect == policy.Deny && reads == nil {
			reads = &v
		}
		// A rule about a name wherever it stands, such as io.toml, is not about the place.
		if v := g.call.Workspace.CheckPath(policy.Write, path.Join(real, name)); v.Effect == policy.Deny && writes == nil && v != g.call.Workspace.CheckPath(policy.Write, name) {
			writes = &v
		}
	}, []string{"ls-tree", "-r", "-z", "--name-only", "HEAD"})
	switch {
	case err != nil || !tracked.Success():
		return tracked, err
	case reads != nil:
		return gitResult{}, refuse(g.tool.name, policy.Need{Act: policy.Read, Target: in.Path}, *reads,
			"The policy forbids reading a file that git tracks, and a checkout would be a copy of it.")
	case writes != nil:
		return gitResult{}, refuse(g.tool.name, policy.Need{Act: policy.Write, Target: in.Path}, *writes,
			"The policy forbids writing a file that the checkout would put below this path.")
	}
	return g.git([]string{"worktree", "add", "-b", in.Name}, "./"+path.Clean(real))
}
