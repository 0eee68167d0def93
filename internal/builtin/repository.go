package builtin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/workspace"
)

// Repository works a git repository for the program that embeds the library, in
// the way of the git tools: fixed command lines, no hook, no foreign program. No
// policy is asked, since no model has a word in it. It belongs to one goroutine.
type Repository struct {
	env *Env
	ws  *workspace.Workspace

	// Prefix is where the directory lies in its repository: "" or "dir/".
	Prefix string
}

// OpenRepository finds the repository of a directory, and refuses one whose own
// configuration would start programs. The caller must Close it.
func OpenRepository(ctx context.Context, dir string) (*Repository, error) {
	ws, err := workspace.Open(dir, policy.Permissive())
	if err != nil {
		return nil, err
	}
	r := &Repository{ws: ws, env: &Env{git: &gitProgram{}, ParentRepository: true}}
	r.env.RunNarrowed = func(ctx context.Context, c tool.Call, cmd sandbox.Cmd, narrow func(*sandbox.Profile)) (*sandbox.Result, error) {
		p := sandbox.Profile{Workspace: ws.Root(), Mode: sandbox.FullAccess}
		narrow(&p)
		return sandbox.Run(ctx, cmd, p)
	}
	g := r.call(ctx, false)
	said, err := g.prepare()
	if err == nil && said != nil {
		err = complaint("rev-parse", *said)
	}
	if err != nil {
		ws.Close()
		return nil, err
	}
	r.Prefix = g.prefix
	return r, nil
}

// Close gives back the directory.
func (r *Repository) Close() error { return r.ws.Close() }

// Root is the directory that was opened, free of links.
func (r *Repository) Root() string { return r.ws.Root() }

func (r *Repository) call(ctx context.Context, writes bool) *gitCall {
	return &gitCall{ctx: ctx, env: r.env, call: tool.Call{Workspace: r.ws}, tool: gitTool{name: "git_worktree", writes: writes}}
}

// run runs one git command and returns what it printed.
func (r *Repository) run(ctx context.Context, writes bool, command []string, paths ...string) (string, error) {
	g := r.call(ctx, writes)
	res, err := r.ask(g, command, paths...)
	if err != nil {
		return "", err
	}
	if res.Stdout.Elided > 0 {
		return "", fmt.Errorf("git %s printed too much", command[0])
	}
	return strings.TrimRight(res.Stdout.String(), "\n"), nil
}

// ask runs one git command, which must succeed.
func (r *Repository) ask(g *gitCall, command []string, paths ...string) (res gitResult, err error) {
	if g.program, err = r.env.git.find(r.ws.Root(), nil); err != nil {
		return res, err
	}
	if res, err = g.git(command, paths...); err == nil && !res.Success() {
		err = complaint(command[0], res)
	}
	return res, err
}

// maxComplaint bounds what of git's own words an error carries, in characters.
const maxComplaint = 4000

func complaint(command string, r gitResult) error {
	said := strings.TrimSpace(r.Stderr.String())
	switch {
	case r.timedOut:
		said = "it did not end in time"
	case said == "":
		said = fmt.Sprintf("exit %d", r.Exit)
	}
	return fmt.Errorf("git %s: %s", command, within(said, maxComplaint))
}

// Toplevel is the directory of the whole checkout.
func (r *Repository) Toplevel(ctx context.Context) (string, error) {
	top, err := r.run(ctx, false, []string{"rev-parse", "--show-toplevel"})
	return filepath.FromSlash(top), err
}

// Head is the commit that the checkout stands on.
func (r *Repository) Head(ctx context.Context) (string, error) {
	return r.run(ctx, false, []string{"rev-parse", "--verify", "HEAD^{commit}"})
}

// AddWorktree makes a checkout of the present commit in dir, which must not
// exist, on a new branch. When it fails it has left nothing.
func (r *Repository) AddWorktree(ctx context.Context, dir, branch string) error {
	if err := branchFault(branch); err != nil {
		return err
	}
	above, err := makeNew(dir)
	if err != nil {
		return err
	}
	before := r.hasBranch(ctx, branch)
	if _, err = r.run(ctx, true, []string{"worktree", "add", "--quiet", "-b", branch}, dir); err == nil {
		return nil
	}
	left := r.takeBack(context.WithoutCancel(ctx), dir, branch, ctx.Err() != nil && !before)
	for _, d := range above {
		_ = os.Remove(d) // unless somebody has put something there
	}
	return errors.Join(err, left)
}

// makeNew makes the directory dir and returns what it had to make above it, the
// lowest first. Of two that want the same directory only one gets it, so that
// whoever fails later takes nothing away but its own.
func makeNew(dir string) (above []string, err error) {
	for up := filepath.Dir(dir); up != filepath.Dir(up); up = filepath.Dir(up) {
		if _, err := os.Lstat(up); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		above = append(above, up)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o777); errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s exists: name a directory that does not", dir)
	} else if err != nil {
		return nil, err
	}
	return above, nil
}

// takeBack removes what git made before it failed or was stopped. It makes the
// checkout only when the branch was free, so that one in dir tells whose the branch
// is; where it was stopped before, ours says that the branch was not there.
func (r *Repository) takeBack(ctx context.Context, dir, branch string, ours bool) error {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
		return r.RemoveWorktree(ctx, dir, branch, "", true)
	}
	err := os.RemoveAll(dir)
	// What it had written of its own by then, locked so that no prune takes it.
	_, _ = r.run(ctx, true, []string{"worktree", "remove", "--force", "--force"}, dir)
	if ours && r.hasBranch(ctx, branch) {
		_, gone := r.run(ctx, true, []string{"branch", "--quiet", "-D", branch}) // not one that is in use
		err = errors.Join(err, gone)
	}
	return err
}

func (r *Repository) hasBranch(ctx context.Context, branch string) bool {
	_, err := r.run(ctx, false, []string{"rev-parse", "--verify", "--quiet", "refs/heads/" + branch})
	return err == nil
}

// Touched reports whether a worktree holds anything that its repository did not
// have when it stood on base: a file that is changed or new and not ignored, a
// commit, another branch, anything in the place of a repository within it. Such a
// repository is not asked for its state: it would answer by its own settings, which
// start programs, and whoever worked in the worktree may have written them.
func (r *Repository) Touched(ctx context.Context, branch, base string) (bool, error) {
	if filled, err := r.filled(ctx); err != nil || filled {
		return filled, err
	}
	status, err := r.ask(r.call(ctx, false), []string{"status", "--porcelain=v1", "--untracked-files=all", "--ignore-submodules=dirty"})
	if err != nil || status.Stdout.String() != "" {
		return err == nil, err
	}
	for _, is := range []struct {
		command []string
		want    string
	}{
		{[]string{"rev-parse", "--verify", "HEAD^{commit}"}, base},
		{[]string{"rev-parse", "--verify", "refs/heads/" + branch + "^{commit}"}, base},
		{[]string{"rev-parse", "--symbolic-full-name", "HEAD"}, "refs/heads/" + branch},
	} {
		got, err := r.run(ctx, false, is.command)
		if err != nil {
			return false, err
		}
		if got != is.want {
			return true, nil
		}
	}
	return false, nil
}

// Tracked hands on each file below the directory that the present commit holds.
func (r *Repository) Tracked(ctx context.Context, each func(name string)) error {
	g := r.call(ctx, false)
	g.stdout = &entries{each: each}
	_, err := r.ask(g, []string{"ls-tree", "-r", "-z", "--name-only", "HEAD"})
	return err
}

// filled reports whether there is anything in the place of a repository within this
// one. A new checkout leaves the place empty.
func (r *Repository) filled(ctx context.Context) (bool, error) {
	var within []string
	g := r.call(ctx, false)
	g.stdout = &entries{each: func(entry string) {
		if _, name, ok := strings.Cut(entry, "\t"); ok && strings.HasPrefix(entry, "160000 ") {
			within = append(within, name)
		}
	}}
	if _, err := r.ask(g, []string{"ls-files", "-z", "--stage"}); err != nil {
		return false, err
	}
	for _, name := range within {
		place := filepath.Join(r.ws.Root(), filepath.FromSlash(name))
		switch info, err := os.Lstat(place); {
		case errors.Is(err, fs.ErrNotExist):
			continue // git says that it is missing
		case err != nil:
			return false, err
		case !info.IsDir():
			return true, nil
		}
		in, err := os.ReadDir(place)
		if err != nil || len(in) > 0 {
			return true, err
		}
	}
	return false, nil
}

// RemoveWorktree removes a worktree of the repository and its branch. Without
// force git refuses one that holds something that would be lost, and the branch
// goes only if it still stands at base.
func (r *Repository) RemoveWorktree(ctx context.Context, dir, branch, base string, force bool) error {
	remove := []string{"worktree", "remove"}
	if force {
		remove = append(remove, "--force", "--force") // the second for one that is locked
	}
	if _, err := r.run(ctx, true, remove, dir); err != nil {
		// Somebody may have removed all of it already. Others of the repository's
		// worktrees can be out of reach at the moment, so nothing is pruned.
		if _, gone := os.Lstat(dir); !errors.Is(gone, fs.ErrNotExist) {
			return err
		}
		if r.checkedOut(ctx, branch) {
			return err
		}
	}
	if !r.hasBranch(ctx, branch) {
		return nil
	}
	drop := []string{"update-ref", "-d", "refs/heads/" + branch}
	if !force {
		drop = append(drop, base)
	}
	_, err := r.run(ctx, true, drop)
	return err
}

// checkedOut reports whether a worktree of the repository stands on branch, or may.
func (r *Repository) checkedOut(ctx context.Context, branch string) bool {
	list, err := r.run(ctx, false, []string{"worktree", "list", "--porcelain"})
	return err != nil || slices.Contains(strings.Split(list, "\n"), "branch refs/heads/"+branch)
}
