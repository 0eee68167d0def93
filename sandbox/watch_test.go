package sandbox

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWatchFindsWhatWouldBeRunLater(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, root string)
		want   []string
	}{
		{"nothing", func(*testing.T, string) {}, nil},
		{"ordinary work", func(t *testing.T, root string) { put(t, root, "src/a.go", "x"); put(t, root, ".git/index", "x") }, nil},
		{"a hook is made", func(t *testing.T, root string) { put(t, root, ".git/hooks/post-checkout", "x") }, []string{".git/hooks/post-checkout"}},
		{"a hook is changed", func(t *testing.T, root string) { put(t, root, ".git/hooks/pre-commit", "other") }, []string{".git/hooks/pre-commit"}},
		{"a hook is made executable", func(t *testing.T, root string) {
			if err := os.Chmod(filepath.Join(root, ".git/hooks/pre-commit"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, []string{".git/hooks/pre-commit"}},
		{"a hook is removed", func(t *testing.T, root string) { _ = os.Remove(filepath.Join(root, ".git/hooks/pre-commit")) }, []string{".git/hooks/pre-commit"}},
		{"a hook becomes a link", func(t *testing.T, root string) {
			p := filepath.Join(root, ".git/hooks/pre-commit")
			_ = os.Remove(p)
			switch err := os.Symlink("../../src/a.go", p); {
			case err != nil && runtime.GOOS == "windows":
				t.Skip("this user may make no links: ", err)
			case err != nil:
				t.Fatal(err)
			}
		}, []string{".git/hooks/pre-commit"}},
		{"settings of git", func(t *testing.T, root string) { put(t, root, ".git/config", "[core]\nhooksPath=x") }, []string{".git/config"}},
		{"attributes", func(t *testing.T, root string) { put(t, root, ".git/info/attributes", "* filter=x") }, []string{".git/info/attributes"}},
		{"a nested repository", func(t *testing.T, root string) { put(t, root, "vendor/lib/.git/hooks/post-checkout", "x") }, []string{"vendor/lib/.git/hooks/post-checkout"}},
		{"settings of a nested repository", func(t *testing.T, root string) { put(t, root, "deep/a/b/c/.git/config", "x") }, []string{"deep/a/b/c/.git/config"}},
		{"a git file that leads elsewhere", func(t *testing.T, root string) { put(t, root, "sub/.git", "gitdir: ../evil") }, []string{"sub/.git"}},
		{"hooks of a submodule", func(t *testing.T, root string) { put(t, root, ".git/modules/a/b/hooks/x", "x") }, []string{".git/modules/a/b/hooks/x"}},
		{"settings of a submodule", func(t *testing.T, root string) {
			put(t, root, ".git/modules/a/HEAD", "x")
			put(t, root, ".git/modules/a/config", "x")
			put(t, root, ".git/modules/a/info/attributes", "x")
		}, []string{".git/modules/a/config", ".git/modules/a/info/attributes"}},
		{"settings from elsewhere", func(t *testing.T, root string) { put(t, root, ".git/commondir", "../evil") }, []string{".git/commondir"}},
		{"settings of a submodule from elsewhere", func(t *testing.T, root string) {
			put(t, root, ".git/modules/a/HEAD", "x")
			put(t, root, ".git/modules/a/commondir", "../..")
		}, []string{".git/modules/a/commondir"}},
		{"a linked worktree as git makes it", func(t *testing.T, root string) {
			put(t, root, ".git/worktrees/w/HEAD", "x")
			put(t, root, ".git/worktrees/w/commondir", "../..\n")
			put(t, root, ".git/worktrees/w/gitdir", "/w/.git")
		}, nil},
		{"a linked worktree with settings of its own", func(t *testing.T, root string) {
			put(t, root, ".git/worktrees/w/HEAD", "x")
			put(t, root, ".git/worktrees/w/commondir", "../../evil\n")
			put(t, root, ".git/worktrees/w/config.worktree", "x")
		}, []string{".git/worktrees/w/commondir", ".git/worktrees/w/config.worktree"}},
		{"a repository without a .git", func(t *testing.T, root string) {
			put(t, root, "docs/HEAD", "ref: refs/heads/x")
			put(t, root, "docs/objects/x", "x")
			put(t, root, "docs/refs/x", "x")
			put(t, root, "docs/config", "x")
			put(t, root, "docs/hooks/x", "x")
		}, []string{"docs/config", "docs/hooks/x"}},
		{"the workspace becomes a repository without a .git", func(t *testing.T, root string) {
			put(t, root, "HEAD", "ref: refs/heads/x")
			put(t, root, "commondir", "evil")
			put(t, root, "config", "x")
		}, []string{"commondir", "config"}},
		{"files that only look like it", func(t *testing.T, root string) { put(t, root, "notes/HEAD", "x"); put(t, root, "notes/config", "x") }, nil},
		{"the list of submodules", func(t *testing.T, root string) { put(t, root, ".gitmodules", "x") }, []string{".gitmodules"}},
		{"the harness's configuration is made", func(t *testing.T, root string) { put(t, root, "io.toml", "x"); put(t, root, "io.local.toml", "x") }, []string{"io.local.toml", "io.toml"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.name == "a hook is made executable" && runtime.GOOS == "windows" {
				t.Skip("files there have no such mode")
			}
			root := realTempDir(t)
			put(t, root, ".git/hooks/pre-commit", "old")
			put(t, root, "src/a.go", "package a")
			w := NewWatch(root)
			tc.change(t, root)
			if d := cmp.Diff(tc.want, w.Changes()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if again := w.Changes(); len(again) != 0 {
				t.Errorf("reported twice: %v", again)
			}
			tc.change(t, root)
			put(t, root, "io.toml", "meant")
			w.Refresh()
			if got := w.Changes(); len(got) != 0 {
				t.Errorf("after a change that was meant: %v", got)
			}
		})
	}
}

func TestProtectedPathsAreThoseThatExist(t *testing.T) {
	root := realTempDir(t)
	if got := ProtectedPaths(root); len(got) != 0 {
		t.Errorf("got %v in an empty workspace", got)
	}
	put(t, root, ".git/hooks/pre-commit", "")
	put(t, root, ".git/modules/a/hooks/x", "")
	put(t, root, "io.toml", "")
	got := ProtectedPaths(root)
	slices.Sort(got)
	want := []string{filepath.Join(root, ".git/hooks"), filepath.Join(root, ".git/modules/a/hooks"), filepath.Join(root, "io.toml")}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, path, text)
}

func TestAWatchGoesOnFromItsState(t *testing.T) {
	root := realTempDir(t)
	odd := "a\n\"b\" c/.git/config"
	if runtime.GOOS == "windows" {
		odd = "a b/.git/config"
	}
	put(t, root, "io.toml", "old")
	put(t, root, ".git/config", "same")
	put(t, root, ".git/hooks/gone", "x")
	put(t, root, odd, "x")
	w := NewWatch(root)
	state := w.State()
	if again, err := WatchSince(root, state); err != nil || again.State() != state || len(again.Changes()) != 0 {
		t.Fatalf("from %q: %v", state, err)
	}
	put(t, root, "io.toml", "new")
	put(t, root, odd, "y")
	if err := os.Remove(filepath.Join(root, ".git", "hooks", "gone")); err != nil {
		t.Fatal(err)
	}
	later, err := WatchSince(root, state)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{".git/hooks/gone", odd, "io.toml"}, later.Changes()); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	if got := later.Changes(); len(got) != 0 {
		t.Errorf("told again: %q", got)
	}
	for _, bad := range []string{"", "x", "harness watch 2\n", stateHeader + "x\n", stateHeader + "\"a\"\n", stateHeader + "\"a\" \n", state[:len(state)-2]} {
		if _, err := WatchSince(root, bad); err == nil {
			t.Errorf("%q was taken for a state", bad)
		}
	}
}
