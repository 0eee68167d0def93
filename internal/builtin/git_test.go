package builtin

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
)

// repo is a bench whose workspace is a repository with one commit.
type repo struct{ *bench }

func newRepo(t *testing.T, p policy.Policy, change ...func(*Env)) *repo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	r := &repo{newBench(t, p, change...)}
	r.git("init", "-q", "-b", "main")
	r.write("README.md", "hello\n")
	r.git("add", ".")
	r.git("commit", "-q", "-m", "first")
	return r
}

// git runs plain git, as a person would, in the workspace.
func (r *repo) git(argv ...string) string {
	r.t.Helper()
	return gitIn(r.t, r.root, argv...)
}

func gitIn(t *testing.T, dir string, argv ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=A Person", "-c", "user.email=p@example.com"}, argv...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", argv, err, out)
	}
	return string(out)
}

func TestGitWorks(t *testing.T) {
	r := newRepo(t, policy.Permissive())
	r.write("src/a.go", "package a\n")
	got, res := r.call("git_status", `{}`)
	if got != "\n[git_status]\n?? src/\n" || res.Decision != "git_status ok" || res.Changed {
		t.Errorf("git_status = %q, %+v", got, res)
	}
	got, res = r.call("git_add", `{"paths":["src/a.go"]}`)
	if got != "\n[git_add]\n(no output)\n" || !res.Changed {
		t.Errorf("git_add = %q, %+v", got, res)
	}
	got, _ = r.call("git_diff", `{"staged":true}`)
	wantHas(t, got, "+package a")
	got, _ = r.call("git_diff", `{}`)
	wantHas(t, got, "(no output)")
	got, res = r.call("git_commit", args("message", "second; $(touch x) `y`\n\nbody 'q'"))
	wantHas(t, got, "[git_commit]\ncommitted "+strings.TrimSpace(r.git("rev-parse", "--short", "HEAD"))+" second; $(touch x) `y`\n")
	wantLacks(t, got, "src/a.go", "body")
	if !res.Changed {
		t.Errorf("git_commit = %+v", res)
	}
	got, res = r.call("git_commit", `{"message":"nothing"}`)
	wantHas(t, got, "[git_commit failed]", "nothing to commit", "git_add")
	if res.Decision != "git_commit failed" || res.Changed || !res.Failed {
		t.Errorf("a commit of nothing = %+v", res)
	}
	got, _ = r.call("git_log", `{"max_count":1}`)
	wantHas(t, got, "second; $(touch x) `y`")
	wantLacks(t, got, "first")
	got, _ = r.call("git_log", `{"max_count":"500","paths":["README.md"]}`)
	wantHas(t, got, "first")
	wantLacks(t, got, "second")
	if author := r.git("log", "-1", "--format=%an <%ae> %cn <%ce>"); author != "io-harness agent <agent@io-harness.invalid> io-harness agent <agent@io-harness.invalid>\n" {
		t.Errorf("the commit is by %q", author)
	}
	if out, err := exec.Command("git", "-C", r.root, "config", "--local", "user.name").Output(); err == nil {
		t.Errorf("the repository's configuration now has the name %q", out)
	}
	if r.exists("x") {
		t.Error("a shell read the commit message")
	}
}

func TestGitIdentity(t *testing.T) {
	r := newRepo(t, policy.Permissive(), func(e *Env) { e.Identity = Identity{Name: "Bot = x", Email: "b@example.org"} })
	r.write("f", "x")
	r.call("git_add", `{"paths":["f"]}`)
	r.call("git_commit", `{"message":"m"}`)
	if author := r.git("log", "-1", "--format=%an <%ae>"); author != "Bot = x <b@example.org>\n" {
		t.Errorf("the commit is by %q", author)
	}
	for _, bad := range []Identity{{Name: "a\nb"}, {Email: "x\x00"}, {Name: "  "}, {Email: "a<b"}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is taken for an identity", bad)
		}
	}
	if err := (Identity{}).Validate(); err != nil {
		t.Errorf("the zero identity: %v", err)
	}
}

func TestGitBranchAndWorktree(t *testing.T) {
	r := newRepo(t, policy.Permissive().Layer("ops").DenyWrite("closed/*"))
	main := r.git("rev-parse", "main")
	r.write("README.md", "in work\n")
	if got, res := r.call("git_branch", `{"name":"agent/work"}`); res.Failed || !res.Changed {
		t.Fatalf("git_branch = %q", got)
	}
	if head := strings.TrimSpace(r.git("branch", "--show-current")); head != "agent/work" || r.read("README.md") != "in work\n" {
		t.Errorf("on branch %q, README %q", head, r.read("README.md"))
	}
	if r.git("rev-parse", "main") != main {
		t.Error("main moved")
	}
	got, res := r.call("git_branch", `{"name":"main"}`)
	wantHas(t, got, "[git_branch failed]", "already exists")
	if res.Changed {
		t.Error("a branch that exists counts as progress")
	}
	if got, res := r.call("git_worktree", `{"name":"wt","path":".worktrees/wt"}`); res.Failed {
		t.Errorf("git_worktree = %q", got)
	}
	if r.read(".worktrees/wt/README.md") != "hello\n" {
		t.Errorf("the second checkout holds %q", r.read(".worktrees/wt/README.md"))
	}
	outside := filepath.Join(t.TempDir(), "x")
	for _, p := range []string{outside, "../x", "closed/x"} {
		got, _ := r.call("git_worktree", args("name", "other", "path", p))
		wantHas(t, got, "gate: write")
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(r.root, "out")); err == nil {
		got, _ := r.call("git_worktree", args("name", "other", "path", "out/x"))
		wantHas(t, got, "gate: write", policy.OutsideRoot)
	}
}

func TestGitUnderTheDefaultPolicy(t *testing.T) {
	r := newRepo(t, policy.Default().Layer("app").AllowExec("git").AllowWrite(".git"))
	r.write("f", "x\n")
	for _, call := range [][2]string{{"git_status", `{}`}, {"git_add", `{"paths":["f"]}`}, {"git_commit", `{"message":"m"}`}, {"git_branch", `{"name":"b"}`}} {
		if got, res := r.call(call[0], call[1]); res.Failed || len(r.asked) > 0 {
			t.Errorf("%s = %q, asked %v, want it allowed by the two rules", call[0], got, r.asked)
		}
	}
	got, _ := r.call("write_file", args("path", ".git/config", "content", "x"))
	wantHas(t, got, "gate: write .git/config")
	r.call("exec", args("argv", []string{"git", "push"}))
	if len(r.asked) == 0 {
		t.Error("git push was not asked about")
	}
	plain := newRepo(t, policy.Default())
	plain.call("git_commit", `{"message":"m"}`)
	if len(plain.asked) != 2 {
		t.Errorf("asked %v, want it about git and about writing .git", plain.asked)
	}
}

func TestBranchNames(t *testing.T) {
	for _, ok := range []string{"a", "feature/x-1", "v1.2_3", "A/b/C", strings.Repeat("n", 100)} {
		if err := branchFault(ok); err != nil {
			t.Errorf("branchFault(%q) = %v", ok, err)
		}
	}
	reasons := map[string]string{}
	for _, tc := range []struct{ name, why string }{
		{"", "empty"}, {strings.Repeat("n", 101), "101"}, {"-m", "begins with -"}, {"--help", "begins with -"},
		{"a..b", ".."}, {"a b", "' '"}, {"a~1", "'~'"}, {"a^", "'^'"}, {"a:b", "':'"}, {"a\\b", `'\\'`}, {"é", "'é'"}, {"a\x00", `'\x00'`},
		{"a//b", "empty part"}, {"/a", "empty part"}, {"a/", "empty part"}, {"a/./b", "dot"}, {".a", "dot"},
		{"x.lock", ".lock"}, {"a/x.lock/b", ".lock"}, {"a.", "ends in a dot"}, {"@{u}", "'@'"},
	} {
		err := branchFault(tc.name)
		if err == nil || !strings.Contains(err.Error(), tc.why) {
			t.Errorf("branchFault(%q) = %v, want %q in it", tc.name, err, tc.why)
			continue
		}
		reasons[err.Error()] = tc.name
	}
	if len(reasons) < 10 {
		t.Errorf("%d different reasons, want each fault to have its own", len(reasons))
	}
}

func TestNothingDeniedIsStaged(t *testing.T) {
	r := newRepo(t, policy.Permissive().Layer("ops").DenyRead("secrets/*", "*.pem"))
	r.write("secrets/k", "KEY\n")
	r.write("sub/ok.txt", "fine\n")
	r.write("sub/x.pem", "PEM\n")
	r.write("*", "a file called star\n")
	if err := os.Symlink("secrets", filepath.Join(r.root, "d")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	for _, p := range []string{".", "secrets", "sub", "./", "secrets/k", "d/k", ":/", ":(top)secrets/k", ":(glob)**", "../../.kube/config", "s*", ":!x"} {
		got, res := r.call("git_add", args("paths", []string{p}))
		if !res.Failed {
			t.Errorf("git_add %q = %q", p, got)
		}
		if staged := r.git("ls-files", "-s"); strings.Contains(staged, "secrets") || strings.Contains(staged, "pem") {
			t.Fatalf("after git_add %q the index holds\n%s", p, staged)
		}
	}
	got, _ := r.call("git_add", args("paths", []string{"."}))
	wantHas(t, got, "[git_add refused]", "2 files", "nothing was staged")
	wantLacks(t, got, "secrets", "pem")
	// A star is a name like any other.
	if got, res := r.call("git_add", args("paths", []string{"*", "sub/ok.txt"})); res.Failed {
		t.Errorf("git_add of permitted files = %q", got)
	}
	if staged := r.git("ls-files"); strings.TrimSpace(staged) != "*\nREADME.md\nsub/ok.txt" {
		t.Errorf("the index holds %q", staged)
	}
}

func TestIgnoredDeniedFileDoesNotStandInTheWay(t *testing.T) {
	r := newRepo(t, policy.Permissive().Layer("ops").DenyRead(".env"))
	r.write(".gitignore", ".env\n")
	r.write(".env", "KEY=1\n")
	r.write("a", "x\n")
	if got, res := r.call("git_add", args("paths", []string{"."})); res.Failed {
		t.Errorf("git_add = %q", got)
	}
	if staged := r.git("ls-files"); strings.Contains(staged, ".env\n") || !strings.Contains(staged, "a\n") {
		t.Errorf("the index holds %q", staged)
	}
}

func TestDiffAndStatusHideWhatMayNotBeRead(t *testing.T) {
	r := newRepo(t, policy.Permissive().Layer("ops").DenyRead("secrets/*", "*.pem"))
	r.write("secrets/k", "OLDKEY\n")
	r.write("secrets/old.pem", strings.Repeat("long enough to be seen as renamed\n", 20))
	r.write("a.txt", "one\n")
	r.git("add", ".")
	r.git("commit", "-q", "-m", "with secrets")
	r.write("secrets/k", "NEWKEY\n")
	r.write("a.txt", "two\n")
	r.write("new.pem", "PEM\n")
	r.git("mv", "secrets/old.pem", "renamed.txt")
	for _, a := range []string{`{}`, `{"paths":["."]}`, `{"staged":true}`} {
		got, res := r.call("git_diff", a)
		if res.Failed {
			t.Errorf("git_diff %s = %q", a, got)
		}
		wantHas(t, got, "left out")
		wantLacks(t, got, "KEY", "secrets/", ".pem")
	}
	got, _ := r.call("git_diff", `{}`)
	wantHas(t, got, "+two", "1 file left out")
	got, _ = r.call("git_diff", `{"paths":["secrets/k"]}`)
	wantHas(t, got, "gate: read secrets/k")
	got, _ = r.call("git_diff", `{"paths":["secrets"]}`)
	wantHas(t, got, "(no output)", "1 file left out")
	got, _ = r.call("git_status", `{}`)
	wantHas(t, got, " M a.txt", "A  renamed.txt", "3 files left out")
	wantLacks(t, got, "secrets/k", ".pem")
}

func TestStatusQuotesNamesThatWouldBreakTheLine(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names cannot hold a newline on Windows")
	}
	r := newRepo(t, policy.Permissive())
	r.write("a\nM  forged", "x")
	r.write("héllo wörld", "x")
	r.write("-n", "x")
	got, _ := r.call("git_status", `{}`)
	wantHas(t, got, `?? "a\nM  forged"`, "?? héllo wörld", "?? -n")
	if got, res := r.call("git_add", args("paths", []string{"./-n", "a\nM  forged"})); res.Failed {
		t.Errorf("git_add = %q", got)
	}
}

// plant puts a program into the workspace that leaves a mark where it ran.
func (r *repo) plant(name string) (command, mark string) {
	r.t.Helper()
	mark = filepath.Join(r.root, "mark-"+name)
	script := filepath.Join(r.root, ".git", name+".sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch '"+mark+"'\ncat 2>/dev/null\n"), 0o755); err != nil {
		r.t.Fatal(err)
	}
	return script, mark
}

func TestNoProgramOfTheRepositoryRuns(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the planted programs are shell scripts")
	}
	r := newRepo(t, policy.Permissive())
	hook, mark := r.plant("hook")
	for _, name := range []string{"pre-commit", "commit-msg", "post-commit", "post-checkout", "prepare-commit-msg", "reference-transaction", "post-index-change"} {
		data, err := os.ReadFile(hook)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.root, ".git", "hooks", name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"core.fsmonitor", "core.pager", "core.editor", "core.askPass", "credential.helper"} {
		r.git("config", key, hook)
	}
	r.git("config", "core.hooksPath", filepath.Join(r.root, ".git", "hooks"))
	r.git("config", "commit.gpgSign", "true")
	r.git("config", "log.showSignature", "true")
	os.Remove(mark)
	r.write("f", "x\n")
	for _, call := range [][2]string{
		{"git_status", `{}`}, {"git_diff", `{}`}, {"git_log", `{}`}, {"git_add", `{"paths":["f"]}`}, {"git_diff", `{"staged":true}`},
		{"git_commit", `{"message":"m"}`}, {"git_branch", `{"name":"b"}`}, {"git_worktree", `{"name":"w","path":"wt"}`},
	} {
		if got, res := r.call(call[0], call[1]); res.Failed {
			t.Errorf("%s = %q", call[0], got)
		}
		if _, err := os.Lstat(mark); err == nil {
			t.Fatalf("%s started a program of the repository", call[0])
		}
	}
	// The control: plain git does start it.
	r.write("f", "y\n")
	r.git("-c", "commit.gpgSign=false", "commit", "-qam", "plain")
	if _, err := os.Lstat(mark); err != nil {
		t.Error("plain git did not start the planted program either, so nothing was shown")
	}
}

func TestRepositoryWhoseConfigurationStartsProgramsIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the planted programs are shell scripts")
	}
	for _, key := range []string{
		"filter.x.clean", "filter.x.smudge", "filter.a.b.process", "merge.x.driver", "diff.x.command", "diff.x.textconv", "diff.external",
		"core.sshCommand", "core.gitProxy", "gpg.program", "gpg.ssh.program", "core.worktree",
	} {
		t.Run(key, func(t *testing.T) {
			r := newRepo(t, policy.Permissive())
			script, mark := r.plant("driver")
			r.write(".gitattributes", "* filter=x diff=x merge=x\n")
			value := script
			if key == "core.worktree" {
				value = r.root
			}
			r.git("config", key, value)
			for _, call := range [][2]string{{"git_status", `{}`}, {"git_diff", `{}`}, {"git_log", `{}`}, {"git_add", `{"paths":["README.md"]}`}, {"git_commit", `{"message":"m"}`}, {"git_branch", `{"name":"b"}`}} {
				got, res := r.call(call[0], call[1])
				if !res.Failed || !strings.Contains(got, "refused") || !strings.Contains(strings.ToLower(got), strings.ToLower(key)) || !strings.Contains(got, ".git/config") {
					t.Errorf("%s = %q, want a refusal naming %s and its file", call[0], got, key)
				}
			}
			if _, err := os.Lstat(mark); err == nil {
				t.Error("the planted program ran")
			}
		})
	}
}

func TestIncludedAndWorktreeConfigurationCounts(t *testing.T) {
	r := newRepo(t, policy.Permissive())
	r.write(".git/more", "[filter \"x\"]\n\tclean = evil\n")
	r.git("config", "include.path", "more")
	got, _ := r.call("git_status", `{}`)
	wantHas(t, got, "refused", "filter.x.clean", "more")
	r.git("config", "--unset", "include.path")
	r.git("config", "extensions.worktreeConfig", "true")
	r.git("config", "--worktree", "diff.external", "evil")
	got, _ = r.call("git_status", `{}`)
	wantHas(t, got, "refused", "diff.external", "config.worktree")
}

func TestEnvironmentOfTheHostDoesNotSteerGit(t *testing.T) {
	for _, mode := range []sandbox.Mode{sandbox.WorkspaceWrite, sandbox.FullAccess} {
		t.Run(string(mode), func(t *testing.T) { hostDoesNotSteerGit(t, mode) })
	}
}

func hostDoesNotSteerGit(t *testing.T, mode sandbox.Mode) {
	r := newRepo(t, policy.Permissive(), func(e *Env) {
		e.RunNarrowed = func(ctx context.Context, c tool.Call, cmd sandbox.Cmd, narrow func(*sandbox.Profile)) (*sandbox.Result, error) {
			p := sandbox.Profile{Workspace: c.Workspace.Root(), Mode: mode}
			narrow(&p)
			return sandbox.Run(ctx, cmd, p)
		}
	})
	head := strings.TrimSpace(r.git("rev-parse", "HEAD"))
	other := t.TempDir()
	gitIn(t, other, "init", "-q", "-b", "elsewhere")
	t.Setenv("GIT_DIR", filepath.Join(other, ".git"))
	t.Setenv("GIT_WORK_TREE", other)
	t.Setenv("GIT_INDEX_FILE", filepath.Join(other, "index"))
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "core.pager")
	t.Setenv("GIT_CONFIG_VALUE_0", "evil")
	t.Setenv("GIT_TRACE", filepath.Join(other, "trace"))
	got, res := r.call("git_log", `{}`)
	wantHas(t, got, "first")
	if res.Failed {
		t.Errorf("git_log = %q", got)
	}
	repo, err := OpenRepository(t.Context(), r.root)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	if got, err := repo.Head(t.Context()); err != nil || got != head {
		t.Errorf("the host's own repository is at %q, %v; want %s", got, err, head)
	}
	if _, err := os.Stat(filepath.Join(other, "trace")); err == nil {
		t.Error("the host's GIT_TRACE reached git")
	}
}

func TestRepositoryAboveTheWorkspace(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	top := t.TempDir()
	gitIn(t, top, "init", "-q", "-b", "main")
	for f, s := range map[string]string{"outside.txt": "OUT\n", "ws/in.txt": "IN\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(top, f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, f), []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gitIn(t, top, "add", "ws")
	gitIn(t, top, "commit", "-qm", "inner commit")
	gitIn(t, top, "add", ".")
	gitIn(t, top, "commit", "-qm", "outer commit")
	for f, s := range map[string]string{"outside.txt": "OUT2\n", "ws/in.txt": "IN2\n"} {
		if err := os.WriteFile(filepath.Join(top, f), []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := benchAt(t, filepath.Join(top, "ws"), policy.Permissive())
	got, _ := b.call("git_status", `{}`)
	wantHas(t, got, " M in.txt")
	wantLacks(t, got, "outside", "ws/")
	got, _ = b.call("git_diff", `{}`)
	wantHas(t, got, "+IN2")
	wantLacks(t, got, "OUT")
	got, _ = b.call("git_log", `{}`)
	wantHas(t, got, "inner commit")
	wantLacks(t, got, "outer commit")
	for _, call := range [][2]string{{"git_add", `{"paths":["in.txt"]}`}, {"git_commit", `{"message":"m"}`}, {"git_branch", `{"name":"b"}`}} {
		got, res := b.call(call[0], call[1])
		if !res.Failed {
			t.Errorf("%s = %q, want it to leave the repository above alone", call[0], got)
		}
		wantHas(t, got, "["+call[0]+" failed]", "root of the git repository lies above the workspace", "ParentRepository")
		wantLacks(t, got, "fatal", top+"\n", "not a git repository")
	}
	if head := gitIn(t, top, "log", "-1", "--format=%s"); head != "outer commit\n" {
		t.Errorf("the repository above is at %q", head)
	}
	b.env.ParentRepository = true
	for _, call := range [][2]string{{"git_add", `{"paths":["in.txt"]}`}, {"git_commit", `{"message":"by the agent"}`}} {
		if got, res := b.call(call[0], call[1]); res.Failed {
			t.Errorf("%s = %q, want it to work where the caller lets it", call[0], got)
		}
	}
	if head := gitIn(t, top, "log", "-1", "--format=%s", "--name-only"); head != "by the agent\n\nws/in.txt\n" {
		t.Errorf("the repository above is at %q, want the one file committed", head)
	}
	// A checkout would bring what lies outside of the workspace into it.
	got, res := b.call("git_worktree", `{"name":"copy","path":"copy"}`)
	wantHas(t, got, "above the workspace")
	wantLacks(t, got, "outside.txt")
	if _, err := os.Lstat(filepath.Join(top, "ws", "copy")); err == nil || !res.Failed {
		t.Errorf("git_worktree = %q, %v", got, err)
	}
}

func TestNoRepositoryIsGitsOwnMessage(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	b := newBench(t, policy.Permissive())
	got, res := b.call("git_status", `{}`)
	wantHas(t, got, "[git_status failed]", "not a git repository")
	if !res.Failed || res.Decision != "git_status exit 128" {
		t.Errorf("result is %+v", res)
	}
	got, _ = b.call("git_add", `{"paths":["."]}`)
	wantHas(t, got, "[git_add failed]", "not a git repository")
	wantLacks(t, got, "ParentRepository")
}

func TestGitIsNotTakenFromWhereTheAgentWrites(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the planted program is a shell script")
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	usual := os.Getenv("PATH")
	cache := t.TempDir()
	for _, tc := range []struct {
		name   string
		dir    func(b *bench) string
		path   func(dir string) string
		answer string
	}{
		{"in the workspace, before the real one", func(b *bench) string { return filepath.Join(b.root, "node_modules", ".bin") }, func(d string) string { return d + ":" + usual }, "first"},
		{"in a writable cache", func(*bench) string { return filepath.Join(cache, "bin") }, func(d string) string { return d + ":" + usual }, "first"},
		{"nowhere else", func(b *bench) string { return filepath.Join(b.root, "bin") }, func(d string) string { return d }, "git unavailable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRepo(t, policy.Permissive(), func(e *Env) { e.Writable = []string{cache} })
			dir := tc.dir(r.bench)
			owned := filepath.Join(t.TempDir(), "owned")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\ntouch "+owned+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", tc.path(dir))
			got, _ := r.call("git_log", `{}`)
			wantHas(t, got, tc.answer)
			if _, err := os.Lstat(owned); err == nil {
				t.Error("the planted git ran")
			}
		})
	}
	t.Run("not installed", func(t *testing.T) {
		b := newBench(t, policy.Permissive())
		t.Setenv("PATH", t.TempDir())
		got, res := b.call("git_status", `{}`)
		wantHas(t, got, "[git unavailable]", "Go on without it")
		if !res.Failed || res.Decision != "git unavailable" {
			t.Errorf("result is %+v", res)
		}
	})
}

func TestLinkedWorktreeIsARepositoryOfItsOwn(t *testing.T) {
	r := newRepo(t, policy.Permissive())
	if _, res := r.call("git_worktree", `{"name":"wt","path":".worktrees/wt"}`); res.Failed {
		t.Fatal("no worktree")
	}
	b := benchAt(t, filepath.Join(r.root, ".worktrees", "wt"), policy.Permissive())
	b.write("n", "x\n")
	for _, call := range [][2]string{{"git_status", `{}`}, {"git_add", `{"paths":["n"]}`}, {"git_commit", `{"message":"in the worktree"}`}, {"git_log", `{}`}} {
		got, res := b.call(call[0], call[1])
		if res.Failed {
			t.Errorf("%s in a linked worktree = %q", call[0], got)
		}
	}
	if got := r.git("log", "-1", "--format=%s", "wt"); got != "in the worktree\n" {
		t.Errorf("branch wt is at %q", got)
	}
	// A pointer that the repository does not confirm opens nothing.
	if extra := linkedRepository(b.root, filepath.Join(t.TempDir(), "elsewhere"), t.TempDir()); extra != nil {
		t.Errorf("linkedRepository = %q for a pointer that nothing confirms", extra)
	}
}

func TestGitTimeoutKillsIt(t *testing.T) {
	b := newRepo(t, policy.Permissive())
	b.env.RunNarrowed = nil
	b.env.ExecTimeout = 1
	got, res := b.call("git_log", `{}`)
	if !res.Failed || !strings.Contains(got, "time") {
		t.Errorf("git_log = %q, %+v, want it timed out", got, res)
	}
}

// A command may write its temporary directory, and there an administrative directory
// that names the workspace as its worktree and somebody else's repository as its own.
func TestAForgedWorktreeOpensNoOtherRepository(t *testing.T) {
	b := newBench(t, policy.Permissive())
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	victim, fake := filepath.Join(base, "victim"), filepath.Join(base, "fake")
	if err := os.MkdirAll(fake, 0o755); err != nil {
		t.Fatal(err)
	}
	gitIn(t, base, "init", "-q", "-b", "main", victim)
	gitIn(t, victim, "commit", "-q", "--allow-empty", "-m", "first")
	before := gitIn(t, victim, "rev-parse", "main")
	common := filepath.Join(victim, ".git")
	for name, text := range map[string]string{
		"gitdir": filepath.Join(b.root, ".git"), "HEAD": "ref: refs/heads/main", "commondir": common,
	} {
		if err := os.WriteFile(filepath.Join(fake, name), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.write(".git", "gitdir: "+fake+"\n")
	b.write("a.txt", "planted\n")
	if extra := linkedRepository(b.root, fake, common); extra != nil {
		t.Errorf("linkedRepository = %q for a directory that is not the repository's", extra)
	}
	host, err := sandbox.Probe(t.Context())
	if err != nil || !host.Rung().ConfinesWrites() {
		return // nothing keeps git from it on this host
	}
	_, _ = b.call("git_add", `{"paths":["a.txt"]}`)
	_, _ = b.call("git_commit", `{"message":"planted"}`)
	if after := gitIn(t, victim, "rev-parse", "main"); after != before {
		t.Error("a commit was made in a repository that the workspace has no part in")
	}
}
