package harness_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// checkout is a repository with one commit and a change that is not committed.
type checkout struct {
	t   *testing.T
	dir string
	st  *store.Store
}

func newCheckout(t *testing.T) *checkout {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	k := &checkout{t: t, dir: filepath.Join(base, "project")}
	k.write("main.txt", "committed\n")
	k.write("sub/a.txt", "a\n")
	k.write(".gitignore", "*.log\n")
	k.git("init", "-q", "-b", "main")
	k.git("add", ".")
	k.git("commit", "-q", "-m", "first")
	k.write("main.txt", "being worked on\n")
	if k.st, err = store.Memory(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.st.Close() })
	return k
}

func (k *checkout) write(name, text string) {
	k.t.Helper()
	path := filepath.Join(k.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
}

func (k *checkout) git(argv ...string) string {
	k.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=A Person", "-c", "user.email=p@example.com"}, argv...)...)
	cmd.Dir = k.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		k.t.Fatalf("git %q: %v\n%s", argv, err, out)
	}
	return string(out)
}

func (k *checkout) run(c task.Contract, opt harness.WorktreeOptions, turns ...scripted.Turn) (*harness.Result, *harness.Worktree, error) {
	k.t.Helper()
	return k.harness(policy.Default().Layer("test").AllowWrite("*").AllowWrite(".git").AllowExec("git"), turns...).RunInWorktree(k.t.Context(), c, opt)
}

func (k *checkout) harness(p policy.Policy, turns ...scripted.Turn) *harness.Harness {
	k.t.Helper()
	h, err := harness.New(harness.Config{
		Provider: scripted.New(turns...), Store: k.st, Policy: p,
		Approver: approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Defer(), nil }),
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return h
}

// untouched holds that the caller's checkout is as it was.
func (k *checkout) untouched() {
	k.t.Helper()
	if got := k.git("status", "--porcelain=v1"); got != " M main.txt\n" {
		k.t.Errorf("the caller's checkout has changed:\n%s", got)
	}
	if got := strings.TrimSpace(k.git("branch", "--show-current")); got != "main" {
		k.t.Errorf("the caller's checkout is on %s", got)
	}
}

// left are the branches and worktrees beside the caller's own.
func (k *checkout) left() (branches, worktrees int) {
	k.t.Helper()
	return strings.Count(k.git("branch", "--format=x"), "x") - 1, strings.Count(k.git("worktree", "list", "--porcelain"), "worktree ") - 1
}

func edits(path, content string) scripted.Turn {
	return scripted.Call("write_file", map[string]string{"path": path, "content": content})
}

func TestARunInAWorktreeLeavesTheCallersCheckoutAlone(t *testing.T) {
	commit := []scripted.Turn{
		edits("new.txt", "n\n"), scripted.Call("git_add", map[string]any{"paths": []string{"new.txt"}}),
		scripted.Call("git_commit", map[string]string{"message": "work"}), scripted.Say("done"),
	}
	for _, tc := range []struct {
		name  string
		keep  harness.Keep
		turns []scripted.Turn
		gone  bool
	}{
		{"a file is kept", harness.KeepChanged, []scripted.Turn{edits("new.txt", "n\n"), scripted.Say("done")}, false},
		{"a commit is kept", harness.KeepChanged, commit, false},
		{"nothing is removed", harness.KeepChanged, []scripted.Turn{scripted.Call("read_file", map[string]string{"path": "main.txt"}), scripted.Say("done")}, true},
		{"what git ignores is removed", harness.KeepChanged, []scripted.Turn{edits("x.log", "n\n"), scripted.Say("done")}, true},
		{"nothing is kept, when told so", harness.KeepAlways, []scripted.Turn{scripted.Say("done")}, false},
		{"work is removed, when told so", harness.KeepNever, commit, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newCheckout(t)
			res, w, err := k.run(task.New("Tidy UP, please!", k.dir), harness.WorktreeOptions{Keep: tc.keep}, tc.turns...)
			if err != nil || res.Outcome.Kind != trace.Finished {
				t.Fatalf("%+v, %v", res, err)
			}
			k.untouched()
			branches, trees := k.left()
			if gone := branches == 0 && trees == 0; gone != tc.gone || w.Removed != tc.gone || branches != trees {
				t.Errorf("%d branches and %d worktrees are left, %+v", branches, trees, w)
			}
			if !strings.HasPrefix(w.Branch, "io-harness/tidy-up-please-") || filepath.Dir(w.Dir) != k.dir+".worktrees" {
				t.Errorf("%+v", w)
			}
			if info, err := k.st.Run(t.Context(), res.RunID); err != nil || info.Root != w.Dir {
				t.Errorf("the run's root is %s, %v", info.Root, err)
			}
			if _, err := os.Stat(filepath.Join(w.Dir, "main.txt")); (err == nil) == tc.gone {
				t.Errorf("the checkout: %v", err)
			}
			if _, err := os.Stat(k.dir + ".worktrees"); (err == nil) == tc.gone {
				t.Errorf("the directory of worktrees: %v", err)
			}
		})
	}
}

func TestWhatIsNotCommittedIsNotInAWorktree(t *testing.T) {
	k := newCheckout(t)
	_, w, err := k.run(task.New("look", k.dir), harness.WorktreeOptions{Keep: harness.KeepAlways, Branch: "agents/look", Dir: filepath.Join(k.dir, "..", "elsewhere")}, scripted.Say("done"))
	if err != nil || w.Branch != "agents/look" || filepath.Base(w.Dir) != "elsewhere" {
		t.Fatalf("%+v, %v", w, err)
	}
	if b, err := os.ReadFile(filepath.Join(w.Dir, "main.txt")); err != nil || strings.TrimSpace(string(b)) != "committed" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestAWorktreeOfADirectoryInARepository(t *testing.T) {
	k := newCheckout(t)
	c := task.New("work", filepath.Join(k.dir, "sub"))
	_, w, err := k.run(c, harness.WorktreeOptions{}, edits("b.txt", "b\n"), scripted.Say("done"))
	if err != nil || filepath.Base(w.Dir) != "sub" {
		t.Fatalf("%+v, %v", w, err)
	}
	if _, err := os.Stat(filepath.Join(w.Top, "sub", "b.txt")); err != nil {
		t.Error(err)
	}
	k.untouched()
}

func TestAWorktreeStaysForAResume(t *testing.T) {
	k := newCheckout(t)
	ask := policy.Default().Layer("test").AskWrite("*")
	res, w, err := k.harness(ask, edits("new.txt", "n\n")).RunInWorktree(t.Context(), task.New("work", k.dir), harness.WorktreeOptions{Keep: harness.KeepNever})
	if err != nil || res.Outcome.Kind != trace.AwaitingApproval || w.Removed {
		t.Fatalf("%+v, %+v, %v", res, w, err)
	}
	if _, err := k.harness(ask, scripted.Say("done")).Resume(t.Context(), res.RunID, harness.Decide(res.Outcome.RequestID, approve.Approve())); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(w.Dir, "new.txt")); err != nil || string(b) != "n\n" {
		t.Fatalf("%q, %v", b, err)
	}
	k.untouched()
	if err := w.Remove(t.Context()); !errors.Is(err, harness.ErrWorktreeChanged) {
		t.Errorf("removed with work in it: %v", err)
	}
	if changed, err := w.Changed(t.Context()); !changed || err != nil {
		t.Errorf("%t, %v", changed, err)
	}
	if err := w.Discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	if branches, trees := k.left(); branches+trees != 0 || !w.Removed {
		t.Errorf("%d branches and %d worktrees are left", branches, trees)
	}
}

func TestAWorktreeThatIsGoneAlreadyCanStillBeRemoved(t *testing.T) {
	k := newCheckout(t)
	w, err := harness.AddWorktree(t.Context(), k.dir, "", harness.WorktreeOptions{})
	if err != nil || !strings.HasPrefix(w.Branch, "io-harness/run-") {
		t.Fatalf("%+v, %v", w, err)
	}
	if err := os.RemoveAll(w.Top); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if branches, trees := k.left(); branches+trees != 0 {
		t.Errorf("%d branches and %d worktrees are left", branches, trees)
	}
}

func TestWorkOnAnotherBranchOfAWorktreeIsNotRemoved(t *testing.T) {
	for name, work := range map[string][]string{
		"another branch":    {"switch", "-q", "-c", "other"},
		"a commit":          {"commit", "-q", "--allow-empty", "-m", "x"},
		"a detached commit": {"-c", "advice.detachedHead=false", "checkout", "-q", "--detach"},
	} {
		k := newCheckout(t)
		w, err := harness.AddWorktree(t.Context(), k.dir, "x", harness.WorktreeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		k.git(append([]string{"-C", w.Top}, work...)...)
		if err := w.Remove(t.Context()); !errors.Is(err, harness.ErrWorktreeChanged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAWorktreeThatCannotBeMadeLeavesNothing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before func(k *checkout)
		root   func(k *checkout) string
		opt    harness.WorktreeOptions
		want   string
	}{
		{"no repository", func(k *checkout) { os.RemoveAll(filepath.Join(k.dir, ".git")) }, nil, harness.WorktreeOptions{}, "not a git repository"},
		{"no directory", nil, func(k *checkout) string { return filepath.Join(k.dir, "none") }, harness.WorktreeOptions{}, "none"},
		{"a directory that is in no commit", func(k *checkout) { k.write("fresh/a", "a") }, func(k *checkout) string { return filepath.Join(k.dir, "fresh") }, harness.WorktreeOptions{}, "fresh"},
		{"a name that is an option", nil, nil, harness.WorktreeOptions{Branch: "--force"}, "begins with -"},
		{"a branch that exists", nil, nil, harness.WorktreeOptions{Branch: "main"}, "already exists"},
		{"a directory that exists", nil, nil, harness.WorktreeOptions{Dir: os.TempDir()}, "exists"},
		{"a repository that starts programs", func(k *checkout) { k.git("config", "filter.x.smudge", "touch /tmp/x") }, nil, harness.WorktreeOptions{}, "filter.x.smudge"},
		{"no commit", func(k *checkout) {
			os.RemoveAll(filepath.Join(k.dir, ".git"))
			k.git("init", "-q", "-b", "main")
		}, nil, harness.WorktreeOptions{}, "no commit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newCheckout(t)
			if tc.before != nil {
				tc.before(k)
			}
			root := k.dir
			if tc.root != nil {
				root = tc.root(k)
			}
			w, err := harness.AddWorktree(t.Context(), root, "x", tc.opt)
			var failed *harness.WorktreeError
			if !errors.As(err, &failed) || w != nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("%+v, %v", w, err)
			}
			if _, err := os.Stat(k.dir + ".worktrees"); err == nil {
				t.Error("a directory is left")
			}
			if tc.name != "no repository" && tc.name != "no commit" {
				if branches, trees := k.left(); branches+trees != 0 {
					t.Errorf("%d branches and %d worktrees are left", branches, trees)
				}
			}
		})
	}
	k := newCheckout(t)
	for field, c := range map[string]task.Contract{"Goal": task.New("", k.dir), "ToolMask[0]": {Goal: "x", Root: k.dir, ToolMask: []string{"nothing"}}} {
		var bad *task.InvalidError
		if _, w, err := k.run(c, harness.WorktreeOptions{}); !errors.As(err, &bad) || bad.Field != field || w != nil {
			t.Errorf("%+v, %v", w, err)
		}
	}
	if _, _, err := k.run(task.New("x", k.dir), harness.WorktreeOptions{Keep: "sometimes"}); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("%v", err)
	}
	if branches, trees := k.left(); branches+trees != 0 {
		t.Errorf("%d branches and %d worktrees are left", branches, trees)
	}
}

func TestRunsInWorktreesStandBesideOneAnother(t *testing.T) {
	k := newCheckout(t)
	trees := make([]*harness.Worktree, 4)
	for i := range trees { // git itself takes one at a time
		w, err := harness.AddWorktree(t.Context(), k.dir, "side", harness.WorktreeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		trees[i] = w
	}
	var wg sync.WaitGroup
	for i, w := range trees {
		wg.Go(func() {
			h := k.harness(policy.Default().Layer("test").AllowWrite("*"), edits("same.txt", w.Branch), scripted.Say("done"))
			if _, err := h.Run(t.Context(), task.Contract{Goal: "x", Root: w.Dir, Tools: tool.Toolbox{}}); err != nil {
				t.Error(i, err)
			}
		})
	}
	wg.Wait()
	for _, w := range trees {
		if b, err := os.ReadFile(filepath.Join(w.Dir, "same.txt")); err != nil || string(b) != w.Branch {
			t.Errorf("%q, %v: want %s", b, err, w.Branch)
		}
	}
	k.untouched()
}
