package harness_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// withSubmodule records a repository of its own at dep in a commit, as a submodule
// has it, and returns its commit.
func (k *checkout) withSubmodule() string {
	k.t.Helper()
	k.write("dep/a.txt", "one\n")
	k.git("-C", "dep", "init", "-q", "-b", "main")
	k.git("-C", "dep", "add", ".")
	k.git("-C", "dep", "commit", "-q", "-m", "inner")
	head := strings.TrimSpace(k.git("-C", "dep", "rev-parse", "HEAD"))
	k.write(".gitmodules", "[submodule \"dep\"]\n\tpath = dep\n\turl = ./dep\n")
	k.git("add", ".gitmodules")
	k.git("update-index", "--add", "--cacheinfo", "160000,"+head+",dep")
	k.git("commit", "-q", "-m", "with a submodule")
	return head
}

func TestAWorktreeOfARepositoryWithSubmodulesIsRemoved(t *testing.T) {
	k := newCheckout(t)
	k.withSubmodule()
	res, w, err := k.run(task.New("look", k.dir), harness.WorktreeOptions{}, scripted.Say("done"))
	if err != nil || res.Outcome.Kind != trace.Finished || !w.Removed {
		t.Fatalf("%+v, %+v, %v", res, w, err)
	}
	if branches, trees := k.left(); branches+trees != 0 {
		t.Errorf("%d branches and %d worktrees are left", branches, trees)
	}
}

// What an agent's commands put into a submodule's place is work that would be lost,
// and its settings start nothing when the worktree is looked at, which happens
// outside of every boundary.
func TestWhatLiesInASubmodulesPlaceIsKeptAndStartsNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the planted program is a shell script")
	}
	for _, tc := range []struct {
		name  string
		plant func(k *checkout, dep string)
	}{
		{"a file", func(k *checkout, dep string) { k.put(filepath.Join(dep, "new.txt"), "work") }},
		{"a repository with a filter", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newCheckout(t)
			head := k.withSubmodule()
			w, err := harness.AddWorktree(t.Context(), k.dir, "x", harness.WorktreeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			dep := filepath.Join(w.Top, "dep")
			mark, script := filepath.Join(t.TempDir(), "started"), filepath.Join(t.TempDir(), "filter.sh")
			k.put(script, "#!/bin/sh\ntouch "+mark+"\ncat\n")
			if err := os.Chmod(script, 0o755); err != nil {
				t.Fatal(err)
			}
			if tc.plant != nil {
				tc.plant(k, dep)
			} else {
				k.git("clone", "-q", filepath.Join(k.dir, "dep"), dep)
				if got := strings.TrimSpace(k.git("-C", dep, "rev-parse", "HEAD")); got != head {
					t.Fatalf("the clone stands on %s", got)
				}
				k.git("-C", dep, "config", "filter.x.clean", script)
				k.put(filepath.Join(dep, ".git", "info", "attributes"), "* filter=x\n")
				k.put(filepath.Join(dep, "a.txt"), "two\n")
			}
			if changed, err := w.Changed(t.Context()); !changed || err != nil {
				t.Errorf("changed: %t, %v", changed, err)
			}
			if err := w.Remove(t.Context()); !errors.Is(err, harness.ErrWorktreeChanged) {
				t.Errorf("removed with something in it: %v", err)
			}
			if _, err := os.Lstat(mark); err == nil {
				t.Fatal("a program that the worktree names was started")
			}
			if tc.plant == nil { // the control: plain git starts it
				k.put(filepath.Join(dep, "a.txt"), "six\n")
				_ = exec.Command("git", "-C", w.Top, "status").Run()
				if _, err := os.Lstat(mark); err != nil {
					t.Error("plain git did not start the planted program either, so nothing was shown")
				}
				_ = os.Remove(mark)
				k.put(filepath.Join(dep, "a.txt"), "ten\n")
			}
			if err := w.Discard(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(mark); err == nil {
				t.Fatal("a program that the worktree names was started by its removal")
			}
		})
	}
}

func TestAWorktreeWithMoreChangesThanGitCanListIsChanged(t *testing.T) {
	k := newCheckout(t)
	w, err := harness.AddWorktree(t.Context(), k.dir, "x", harness.WorktreeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("n", 200)
	for i := range 1500 {
		k.put(filepath.Join(w.Top, "new", name+strconv.Itoa(i)), "")
	}
	if err := w.Remove(t.Context()); !errors.Is(err, harness.ErrWorktreeChanged) {
		t.Errorf("%v", err)
	}
}

func TestALockedWorktreeIsDiscardedAndNotRemoved(t *testing.T) {
	k := newCheckout(t)
	w, err := harness.AddWorktree(t.Context(), k.dir, "x", harness.WorktreeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k.git("worktree", "lock", w.Top) // as git itself does while it makes one
	if err := w.Remove(t.Context()); err == nil {
		t.Error("a locked worktree was removed")
	}
	if err := w.Discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	if branches, trees := k.left(); branches+trees != 0 {
		t.Errorf("%d branches and %d worktrees are left", branches, trees)
	}
}

// Of two that want the same directory one gets it, and the other takes nothing away.
func TestOfTwoWorktreesInOneDirectoryOneStands(t *testing.T) {
	k := newCheckout(t)
	opt := harness.WorktreeOptions{Dir: filepath.Join(k.dir, "..", "some", "where"), Branch: "agents/one"}
	var trees [3]*harness.Worktree
	var wg sync.WaitGroup
	for i := range trees {
		wg.Go(func() { trees[i], _ = harness.AddWorktree(t.Context(), k.dir, "x", opt) })
	}
	wg.Wait()
	made := slices.DeleteFunc(trees[:], func(w *harness.Worktree) bool { return w == nil })
	if len(made) != 1 {
		t.Fatalf("%d were made", len(made))
	}
	if _, err := os.Stat(filepath.Join(made[0].Dir, "main.txt")); err != nil {
		t.Error(err)
	}
	if branches, trees := k.left(); branches != 1 || trees != 1 {
		t.Errorf("%d branches and %d worktrees", branches, trees)
	}
	// One that fails for another reason leaves no directory behind.
	opt.Dir = filepath.Join(k.dir, "..", "none", "of", "these")
	if _, err := harness.AddWorktree(t.Context(), k.dir, "x", opt); err == nil {
		t.Error("the branch was taken")
	}
	if _, err := os.Lstat(filepath.Join(k.dir, "..", "none")); err == nil {
		t.Error("a directory is left")
	}
}

func (k *checkout) put(path, text string) {
	k.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
}

// A rule about a file by its absolute path says nothing of a copy of it.
func TestAWorktreeHoldsNoCopyOfWhatIsDeniedByItsAbsolutePath(t *testing.T) {
	for _, tc := range []struct {
		name, rule string
		absolute   bool
	}{{"by its absolute path", "sub/*", true}, {"by a relative one", "sub/*", false}} {
		t.Run(tc.name, func(t *testing.T) {
			k := newCheckout(t)
			if tc.absolute {
				tc.rule = filepath.ToSlash(filepath.Join(k.dir, tc.rule))
			}
			p := policy.Default().Layer("test").DenyRead(tc.rule)
			_, w, err := k.harness(p, scripted.Say("done")).RunInWorktree(t.Context(), task.New("look", k.dir), harness.WorktreeOptions{})
			var failed *harness.WorktreeError
			if refused := errors.As(err, &failed) && errors.Is(err, policy.ErrRefused) && w == nil; refused != tc.absolute || !refused && err != nil {
				t.Errorf("%+v, %v", w, err)
			}
			if branches, trees := k.left(); branches+trees != 0 {
				t.Errorf("%d branches and %d worktrees are left", branches, trees)
			}
		})
	}
}
