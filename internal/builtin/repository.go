package builtin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	var err error
	if g.program, err = r.env.git.find(r.ws.Root(), nil); err != nil {
		return "", err
	}
	res, err := g.git(command, paths...)
	if err != nil {
		return "", err
	}
	if !res.Success() {
		return "", complaint(command[0], res)
	}
	if res.Stdout.Elided > 0 {
		return "", fmt.Errorf("git %s printed too much", command[0])
	}
	return strings.TrimRight(res.Stdout.String(), "\n"), nil
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
// exist, on a new branch.
func (r *Repository) AddWorktree(ctx context.Context, dir, branch string) error {
	if err := branchFault(branch); err != nil {
		return err
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s exists: name a directory that does not", dir)
	}
	_, err := r.run(ctx, true, []string{"worktree", "add", "--quiet", "-b", branch}, dir)
	if err == nil {
		return nil
	}
	// Git that was stopped half-way leaves what it made. It makes the directory
	// only when the branch was free, so what is there is nobody else's.
	if _, made := os.Lstat(dir); made == nil {
		err = errors.Join(err, r.RemoveWorktree(context.WithoutCancel(ctx), dir, branch, "", true))
	}
	return err
}

// Touched reports whether a worktree holds anything that its repository did not
// have when it stood on base: a file that is changed or new and not ignored, a
// commit, another branch.
func (r *Repository) Touched(ctx context.Context, branch, base string) (bool, error) {
	for _, is := range []struct {
		command []string
		want    string
	}{
		{[]string{"status", "--porcelain=v1", "--untracked-files=all", "--ignore-submodules=none"}, ""},
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

// RemoveWorktree removes a worktree of the repository and its branch. Without
// force git refuses one that holds something that would be lost, and the branch
// goes only if it still stands at base.
func (r *Repository) RemoveWorktree(ctx context.Context, dir, branch, base string, force bool) error {
	remove := []string{"worktree", "remove"}
	if force {
		remove = append(remove, "--force")
	}
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		remove, dir = []string{"worktree", "prune"}, "" // somebody has removed it already
	}
	var err error
	if dir == "" {
		_, err = r.run(ctx, true, remove)
	} else {
		_, err = r.run(ctx, true, remove, dir)
	}
	if err != nil {
		return err
	}
	if _, err := r.run(ctx, false, []string{"rev-parse", "--verify", "--quiet", "refs/heads/" + branch}); err != nil {
		return nil // it is gone
	}
	drop := []string{"update-ref", "-d", "refs/heads/" + branch}
	if !force {
		drop = append(drop, base)
	}
	_, err = r.run(ctx, true, drop)
	return err
}
