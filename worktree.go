package harness

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/initorigin/io-harness-go/internal/builtin"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/workspace"
)

// Worktree is a checkout of a git repository of its own, on a branch of its own,
// beside the checkout that it was made from. It is plain data: another process may
// keep it and remove the worktree later. Two goroutines must not remove one.
type Worktree struct {
	Repository string // the directory that it was asked for, in the caller's checkout
	Dir        string // the same directory in this one: what an agent works in
	Top        string // of the whole checkout
	Branch     string
	Base       string // the commit that both checkouts stood on
	Removed    bool   // the checkout and its branch are gone
}

// Keep says what becomes of a worktree when the run in it has ended for good. A
// run that waits, failed or can be resumed always keeps it.
type Keep string

// The ways.
const (
	// KeepChanged removes a worktree in which nothing was left: no commit, no other
	// branch, no file that is changed or new. What git ignores does not count.
	KeepChanged Keep = ""
	KeepAlways  Keep = "always"
	// KeepNever removes it with everything that the run did.
	KeepNever Keep = "never"
)

// WorktreeOptions say where a worktree is made. The zero value decides by itself.
type WorktreeOptions struct {
	// Dir is the new directory, absolute or relative to the process. Empty means a
	// new one beside the caller's checkout, below a directory that is named like
	// it with ".worktrees" behind.
	Dir string
	// Branch is the new branch: up to 100 characters of letters, digits, . _ / and
	// -. Empty means one that is named after the goal and told apart by chance.
	Branch string
	// Keep is for RunInWorktree.
	Keep Keep
}

// WorktreeError says why a worktree could not be made, looked at or removed.
type WorktreeError struct {
	Op  string // "add", "inspect" or "remove"
	Dir string // in the caller's checkout
	Err error  // *workspace.OpenError, *tool.ArgsError, *policy.RefusedError, or git's own words
}

func (e *WorktreeError) Error() string {
	return fmt.Sprintf("worktree of %s: %s: %v", e.Dir, e.Op, e.Err)
}

// Unwrap returns the cause.
func (e *WorktreeError) Unwrap() error { return e.Err }

// AddWorktree makes a worktree of the repository that root lies in, at the commit
// that its checkout stands on. What is not committed there is not in it. purpose
// names it where the options do not.
//
// It runs git as the git tools do, without hooks and without the settings of the
// user, and refuses a repository whose own settings start programs. It fails with
// a *WorktreeError, and then has left nothing.
func AddWorktree(ctx context.Context, root, purpose string, opt WorktreeOptions) (*Worktree, error) {
	w, err := addWorktree(ctx, root, purpose, opt)
	if err != nil {
		return nil, &WorktreeError{Op: "add", Dir: root, Err: err}
	}
	return w, nil
}

func addWorktree(ctx context.Context, root, purpose string, opt WorktreeOptions) (*Worktree, error) {
	r, err := builtin.OpenRepository(ctx, root)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	w := &Worktree{Repository: r.Root(), Branch: opt.Branch, Top: opt.Dir}
	if w.Base, err = r.Head(ctx); err != nil {
		return nil, fmt.Errorf("there is no commit to begin from: %w", err)
	}
	name := slug(purpose) + "-" + chance()
	if w.Branch == "" {
		w.Branch = "io-harness/" + name
	}
	if w.Top == "" {
		top, err := r.Toplevel(ctx)
		if err != nil {
			return nil, err
		}
		w.Top = filepath.Join(filepath.Dir(top), filepath.Base(top)+".worktrees", name)
	}
	if w.Top, err = filepath.Abs(w.Top); err != nil {
		return nil, err
	}
	w.Dir = filepath.Join(w.Top, filepath.FromSlash(r.Prefix))
	if err := r.AddWorktree(ctx, w.Top, w.Branch); err != nil {
		return nil, err
	}
	if _, err := os.Stat(w.Dir); err != nil { // the directory is in no commit
		return nil, errors.Join(err, w.Discard(context.WithoutCancel(ctx)))
	}
	return w, nil
}

// slug is a purpose as a part of a name.
func slug(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, s)
	for strings.Contains(s, "--") {
		s = strings.ReplaceAll(s, "--", "-")
	}
	s = strings.Trim(s[:min(len(s), 40)], "-")
	if s == "" {
		return "run"
	}
	return s
}

func chance() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// Changed reports whether the worktree holds anything that would be lost with it:
// a commit, another branch, a file that is changed or new and not ignored.
func (w *Worktree) Changed(ctx context.Context) (bool, error) {
	r, err := builtin.OpenRepository(ctx, w.Top)
	if err == nil {
		defer r.Close()
		var touched bool
		if touched, err = r.Touched(ctx, w.Branch, w.Base); err == nil {
			return touched, nil
		}
	}
	return false, &WorktreeError{Op: "inspect", Dir: w.Repository, Err: err}
}

// Remove removes the worktree and its branch, unless something would be lost; then
// it is an error that matches ErrWorktreeChanged. Discard removes it all the same.
func (w *Worktree) Remove(ctx context.Context) error {
	if _, err := os.Lstat(w.Top); err == nil {
		changed, err := w.Changed(ctx)
		if err != nil {
			return err
		}
		if changed {
			return &WorktreeError{Op: "remove", Dir: w.Repository, Err: ErrWorktreeChanged}
		}
	}
	return w.remove(ctx, false)
}

// Discard removes the worktree and its branch with everything in them.
func (w *Worktree) Discard(ctx context.Context) error { return w.remove(ctx, true) }

// ErrWorktreeChanged says that a worktree holds something that nobody else has.
var ErrWorktreeChanged = errors.New("it holds work that would be lost")

func (w *Worktree) remove(ctx context.Context, force bool) error {
	r, err := builtin.OpenRepository(ctx, w.Repository)
	if err == nil {
		defer r.Close()
		err = r.RemoveWorktree(ctx, w.Top, w.Branch, w.Base, force)
	}
	if err != nil {
		return &WorktreeError{Op: "remove", Dir: w.Repository, Err: err}
	}
	w.Removed = true
	if home := filepath.Dir(w.Top); strings.HasSuffix(home, ".worktrees") {
		_ = os.Remove(home) // unless there are others
	}
	return nil
}

// deniesAlike refuses a copy of a file that may not be read where it is copied from: a
// rule that names it by its absolute path does not speak of the copy.
func (h *Harness) deniesAlike(ctx context.Context, from, to string) error {
	before, err := workspace.Open(from, h.host.Policy)
	if err != nil {
		return err
	}
	defer before.Close()
	after, err := workspace.Open(to, h.host.Policy)
	if err != nil {
		return err
	}
	defer after.Close()
	r, err := builtin.OpenRepository(ctx, to)
	if err != nil {
		return err
	}
	defer r.Close()
	var denied error
	err = r.Tracked(ctx, func(name string) {
		if denied != nil {
			return
		}
		if v := before.CheckPath(policy.Read, name); v.Effect == policy.Deny && after.CheckPath(policy.Read, name).Effect != policy.Deny {
			denied = fmt.Errorf("it would hold a copy of a file that may not be read: %w", v.Refusal(policy.Need{Act: policy.Read, Target: name}))
		}
	})
	return errors.Join(err, denied)
}

// RunInWorktree is Run in a worktree of its own: c.Root names a directory of a git
// repository, and the run works in the same directory of a new checkout, so that
// it can stand beside your own work and beside other runs. Policy, toolchain,
// notes and gate are those of that directory. A rule that denies the reading of a
// tracked file by its absolute path would not hold there, and refuses the run:
// deny it by a path that is relative to the root. Nothing is merged: the work is on
// Worktree.Branch, as far as the agent committed it, and in Worktree.Dir.
//
// When the run has ended for good, the worktree is kept or removed as
// WorktreeOptions.Keep says. Otherwise it stays for Resume, and whoever resumes
// removes it. The worktree is nil when none could be made; the error is a
// *WorktreeError then.
func (h *Harness) RunInWorktree(ctx context.Context, c task.Contract, opt WorktreeOptions) (*Result, *Worktree, error) {
	switch opt.Keep {
	case KeepChanged, KeepAlways, KeepNever:
	default:
		return &Result{}, nil, &task.InvalidError{Field: "Keep", Reason: fmt.Sprintf("is %q: write KeepChanged, KeepAlways or KeepNever", opt.Keep)}
	}
	if err := c.Validate(); err != nil {
		return &Result{}, nil, err
	}
	w, err := AddWorktree(ctx, c.Root, c.Goal, opt)
	if err != nil {
		return &Result{}, nil, err
	}
	if err := h.deniesAlike(ctx, c.Root, w.Dir); err != nil {
		err = &WorktreeError{Op: "add", Dir: c.Root, Err: err}
		return &Result{}, nil, errors.Join(err, w.Discard(context.WithoutCancel(ctx)))
	}
	c.Root = w.Dir
	res, err := h.Run(ctx, c)
	// The run is over, whatever became of ctx.
	ctx = context.WithoutCancel(ctx)
	switch {
	case res.RunID == 0: // it never came to be
		return res, w, errors.Join(err, w.Discard(ctx))
	case !res.Outcome.Kind.Final(), opt.Keep == KeepAlways:
		return res, w, err
	case opt.Keep == KeepNever:
		return res, w, errors.Join(err, w.Discard(ctx))
	}
	if gone := w.Remove(ctx); gone != nil && !errors.Is(gone, ErrWorktreeChanged) {
		err = errors.Join(err, gone)
	}
	return res, w, err
}
