package builtin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
)

// A condition may hold in a new checkout and not in the one that makes it.
func TestSettingsOfANewCheckoutAloneStartNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the planted programs are shell scripts")
	}
	for _, condition := range []string{"gitdir:**/worktrees/**", "onbranch:w"} {
		t.Run(condition, func(t *testing.T) {
			r := newRepo(t, policy.Permissive())
			script, mark := r.plant("smudge")
			r.write(".gitattributes", "* filter=x\n")
			r.write("more", "[filter \"x\"]\n\tsmudge = "+script+"\n")
			r.git("add", ".")
			r.git("commit", "-qm", "attributes")
			r.git("config", "includeIf."+condition+".path", "../more")
			got, res := r.call("git_worktree", `{"name":"w","path":"wt"}`)
			if !res.Failed {
				t.Errorf("git_worktree = %q", got)
			}
			wantHas(t, got, "refused", "includeif.", ".git/config")
			if repo, err := OpenRepository(t.Context(), r.root); err == nil {
				defer repo.Close()
				t.Errorf("the repository was opened: AddWorktree = %v", repo.AddWorktree(t.Context(), filepath.Join(t.TempDir(), "wt"), "w"))
			}
			if _, err := os.Lstat(mark); err == nil {
				t.Fatal("a program of the repository was started")
			}
			if got, res := r.call("git_status", `{}`); res.Failed {
				t.Errorf("git_status = %q", got)
			}
			// The control: plain git does start it.
			r.git("worktree", "add", "-q", "-b", "w", "wt")
			if _, err := os.Lstat(mark); err != nil {
				t.Error("plain git did not start the planted program either, so nothing was shown")
			}
		})
	}
}

// Git has hooks that are settings and not files, which no directory turns off.
func TestHooksOfTheConfigurationAreRefused(t *testing.T) {
	r := newRepo(t, policy.Permissive())
	r.git("config", "hook.x.event", "post-checkout")
	r.git("config", "hook.x.command", "evil")
	got, _ := r.call("git_branch", `{"name":"b"}`)
	wantHas(t, got, "refused", "hook.x.command")
}

// A directory is a repository for git when it holds a HEAD, and a file there can say
// that the rest is somewhere else. A model can write both.
func TestARepositoryElsewhereIsNotRead(t *testing.T) {
	other := newRepo(t, policy.Permissive())
	other.write("private", "PRIVATE\n")
	other.git("add", ".")
	other.git("commit", "-qm", "their words")
	at := filepath.ToSlash(filepath.Join(other.root, ".git"))
	for name, plant := range map[string]func(b *bench){
		"a bare repository": func(b *bench) {
			b.write("HEAD", "ref: refs/heads/main\n")
			b.write("commondir", at+"\n")
		},
		"a file called .git": func(b *bench) { b.write(".git", "gitdir: "+at+"\n") },
		"settings from elsewhere": func(b *bench) {
			b.write(".git/HEAD", "ref: refs/heads/main\n")
			b.write(".git/commondir", at+"\n")
		},
	} {
		b := newBench(t, policy.Permissive())
		plant(b)
		for _, call := range [][2]string{
			{"git_status", `{}`}, {"git_log", `{}`}, {"git_diff", `{"staged":true}`}, {"git_diff", `{}`},
			{"git_commit", `{"message":"m"}`}, {"git_branch", `{"name":"b"}`}, {"git_worktree", `{"name":"w","path":"wt"}`},
		} {
			got, res := b.call(call[0], call[1])
			if !res.Failed {
				t.Errorf("%s: %s %s = %q", name, call[0], call[1], got)
			}
			wantLacks(t, got, "PRIVATE", "private", "their words")
		}
		if repo, err := OpenRepository(t.Context(), b.root); err == nil {
			repo.Close()
			t.Errorf("%s: it was opened", name)
		}
	}
	// The control: plain git reads it.
	b := newBench(t, policy.Permissive())
	b.write("HEAD", "ref: refs/heads/main\n")
	b.write("commondir", at+"\n")
	if got := gitIn(t, b.root, "diff", "--cached"); !strings.Contains(got, "PRIVATE") {
		t.Errorf("plain git does not read it either:\n%s", got)
	}
}

// Git takes a list of ceilings, parted by a character that a name may hold.
func TestARepositoryAboveAWorkspaceWithAColonIsNotChanged(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no name holds a colon, and a semicolon is the same case")
	}
	base := filepath.Join(t.TempDir(), "a"+string(filepath.ListSeparator)+"b")
	if err := os.MkdirAll(filepath.Join(base, "ws"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	gitIn(t, base, "init", "-q", "-b", "main")
	gitIn(t, base, "commit", "-q", "--allow-empty", "-m", "first")
	b := benchAt(t, filepath.Join(base, "ws"), policy.Permissive())
	b.write("f", "x\n")
	for _, call := range [][2]string{{"git_add", `{"paths":["f"]}`}, {"git_branch", `{"name":"b"}`}} {
		got, res := b.call(call[0], call[1])
		if !res.Failed {
			t.Errorf("%s = %q", call[0], got)
		}
		wantHas(t, got, "above the workspace")
	}
	if got := gitIn(t, base, "status", "--porcelain") + gitIn(t, base, "branch", "--show-current"); got != "?? ws/\nmain\n" {
		t.Errorf("the repository above is changed:\n%s", got)
	}
}

// A name that was a file and is a directory now stands for both to git.
func TestDiffOfAFileThatBecameADirectoryShowsNoDeniedFile(t *testing.T) {
	r := newRepo(t, policy.Permissive().Layer("ops").DenyRead("a/secret", "d/e/secret"))
	r.write("a", "file\n")
	r.write("d", "file\n")
	r.git("add", ".")
	r.git("commit", "-qm", "files")
	for _, name := range []string{"a", "d"} {
		if err := os.Remove(filepath.Join(r.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	r.write("a/secret", "SECRET\n")
	r.write("d/e/secret", "SECRET\n")
	r.write("README.md", "changed\n")
	r.git("add", "-A")
	for _, in := range []string{`{"staged":true}`, `{"staged":true,"paths":["."]}`, `{"staged":true,"paths":["a"]}`} {
		got, _ := r.call("git_diff", in)
		wantLacks(t, got, "SECRET", "secret")
		wantHas(t, got, "files left out")
		if !strings.Contains(in, `"a"`) {
			wantHas(t, got, "+changed")
		}
	}
}

func TestStatusOfMoreThanCanBeShownIsExact(t *testing.T) {
	r := newRepo(t, policy.Permissive().Layer("ops").DenyRead("*hidden*"))
	long := strings.Repeat("n", 150)
	for i := range 9000 {
		name := "seen"
		if i%2 == 1 {
			name = "hidden"
		}
		r.write(fmt.Sprintf("%s-%s-%d", long, name, i), "")
	}
	got, res := r.call("git_status", `{}`)
	if res.Failed {
		t.Fatalf("git_status = %q", got)
	}
	wantHas(t, got, "[4,500 files left out: the policy forbids reading]")
	wantLacks(t, got, "hidden", "characters left out …")
}

func TestACommitIsByNobodyElse(t *testing.T) {
	r := newRepo(t, policy.Permissive())
	for _, who := range []string{"user", "author", "committer"} {
		r.git("config", who+".name", "Somebody Else")
		r.git("config", who+".email", "else@example.com")
	}
	r.write("f", "x\n")
	r.call("git_add", `{"paths":["f"]}`)
	if got, res := r.call("git_commit", `{"message":"m"}`); res.Failed {
		t.Fatalf("git_commit = %q", got)
	}
	const id = "io-harness agent <agent@io-harness.invalid>"
	if got := r.git("log", "-1", "--format=%an <%ae> %cn <%ce>"); got != id+" "+id+"\n" {
		t.Errorf("the commit is by %q", got)
	}
}

func TestACommitMessageThatGitCannotTake(t *testing.T) {
	r := newRepo(t, policy.Permissive())
	r.write("f", "x\n")
	r.git("add", "f")
	for _, message := range []string{"a\x00b", strings.Repeat("m", maxMessage+1)} {
		got, res := r.call("git_commit", args("message", message))
		if !res.Failed || r.git("log", "--format=%s") != "first\n" {
			t.Errorf("it was committed: %q", got)
		}
		wantHas(t, got, "message")
		wantLacks(t, got, "path")
	}
	if got, res := r.call("git_commit", args("message", strings.Repeat("m", maxMessage))); res.Failed {
		t.Errorf("git_commit = %q", got)
	}
}

func TestTheUsersAttributesAreNotRead(t *testing.T) {
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "git", "attributes"), []byte("*.txt text eol=crlf\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CONFIG_HOME", home)
	r := newRepo(t, policy.Permissive())
	r.write("a.txt", "one\r\n")
	if got, res := r.call("git_add", `{"paths":["a.txt"]}`); res.Failed {
		t.Fatalf("git_add = %q", got)
	}
	if got := r.git("show", ":a.txt"); got != "one\r\n" {
		t.Errorf("the attributes of the user turned the file into %q", got)
	}
}

func TestAWorktreePutsNoFileWhereNoneMayBeWritten(t *testing.T) {
	r := newRepo(t, policy.Permissive().Layer("ops").DenyWrite("vendor/*", "io.toml"))
	r.write("io.toml", "x = 1\n")
	r.git("add", "io.toml")
	r.git("commit", "-qm", "settings")
	got, res := r.call("git_worktree", `{"name":"w","path":"vendor"}`)
	if _, err := os.Lstat(filepath.Join(r.root, "vendor")); !res.Failed || err == nil {
		t.Errorf("the checkout was made: %q", got)
	}
	wantHas(t, got, "refused", "writing")
	if got, res := r.call("git_worktree", `{"name":"w","path":"elsewhere"}`); res.Failed {
		t.Errorf("git_worktree = %q", got)
	}
}

// Git can write the way between a worktree and its repository as a relative one.
func TestALinkedWorktreeMayBeNamedByARelativePath(t *testing.T) {
	r := newRepo(t, policy.Permissive())
	dir := filepath.Join(t.TempDir(), "wt")
	r.git("worktree", "add", "-q", "-b", "wt", dir)
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	admin := filepath.Join(r.root, ".git", "worktrees", "wt")
	for file, to := range map[string]string{filepath.Join(admin, "gitdir"): filepath.Join(dir, ".git"), filepath.Join(dir, ".git"): admin} {
		rel, err := filepath.Rel(filepath.Dir(file), to)
		if err != nil {
			t.Fatal(err)
		}
		text := filepath.ToSlash(rel) + "\n"
		if filepath.Base(file) == ".git" {
			text = "gitdir: " + text
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := benchAt(t, dir, policy.Permissive())
	b.write("n", "x\n")
	for _, call := range [][2]string{{"git_status", `{}`}, {"git_add", `{"paths":["n"]}`}, {"git_commit", `{"message":"m"}`}} {
		if got, res := b.call(call[0], call[1]); res.Failed {
			t.Errorf("%s = %q", call[0], got)
		}
	}
}

// The worktree of somebody else may lie on a disk that is not there at the moment.
func TestRemovingAWorktreeThatIsGoneForgetsNoOther(t *testing.T) {
	r := newRepo(t, policy.Permissive())
	base := t.TempDir()
	theirs, away := filepath.Join(base, "theirs"), filepath.Join(base, "away")
	r.git("worktree", "add", "-q", "--detach", theirs)
	repo, err := OpenRepository(t.Context(), r.root)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	head, err := repo.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ours := filepath.Join(base, "deep", "ours")
	if err := repo.AddWorktree(t.Context(), ours, "ours"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(theirs, away); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Dir(ours)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := repo.RemoveWorktree(t.Context(), ours, "ours", head, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(away, theirs); err != nil {
		t.Fatal(err)
	}
	gitIn(t, theirs, "status")
	if got := r.git("worktree", "list", "--porcelain"); strings.Count(got, "worktree ") != 2 || strings.Contains(got, "ours") {
		t.Errorf("the worktrees are\n%s", got)
	}
}

// Killed early, git has made its own directory of the worktree and no .git in it.
func TestAWorktreeThatGitWasKilledOverLeavesNothing(t *testing.T) {
	r := newRepo(t, policy.Permissive())
	repo, err := OpenRepository(t.Context(), r.root)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	dir := filepath.Join(filepath.Dir(r.root), filepath.Base(r.root)+"-wt")
	if _, err := makeNew(dir); err != nil {
		t.Fatal(err)
	}
	r.git("branch", "w")
	r.write(".git/worktrees/wt/locked", "initializing")
	r.write(".git/worktrees/wt/gitdir", filepath.Join(dir, ".git")+"\n")
	r.write(".git/worktrees/wt/commondir", "../..\n")
	if err := repo.takeBack(t.Context(), dir, "w", true); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadDir(filepath.Join(r.root, ".git", "worktrees")); len(got) > 0 || repo.hasBranch(t.Context(), "w") {
		t.Errorf("%v is left", got)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the directory is left")
	}
}
