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

// withNested adds a repository of its own in sub, as a submodule has it: the outer
// index holds its commit, and it has moved on since.
func (r *repo) withNested() (git func(argv ...string) string) {
	r.t.Helper()
	r.write("sub/secret", "OLDKEY\n")
	r.write("sub/a.txt", "one\n")
	sub := filepath.Join(r.root, "sub")
	git = func(argv ...string) string { r.t.Helper(); return gitIn(r.t, sub, argv...) }
	git("init", "-q", "-b", "main")
	git("add", ".")
	git("commit", "-qm", "inner")
	r.write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub\n")
	r.git("add", ".gitmodules")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+git("rev-parse", "HEAD")[:40]+",sub")
	r.git("commit", "-qm", "with a repository within")
	return git
}

func TestDiffDoesNotLookIntoARepositoryWithin(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the planted program is a shell script")
	}
	r := newRepo(t, policy.Permissive().Layer("ops").DenyRead("sub/secret"))
	inner := r.withNested()
	r.write("sub/secret", "NEWKEY\n")
	inner("add", ".")
	inner("commit", "-qm", "more")
	script, mark := r.plant("external")
	inner("config", "diff.external", script)
	r.git("config", "diff.submodule", "diff")
	for _, a := range []string{`{}`, `{"paths":["sub"]}`} {
		got, res := r.call("git_diff", a)
		if res.Failed {
			t.Errorf("git_diff %s = %q", a, got)
		}
		wantHas(t, got, "+Subproject commit")
		wantLacks(t, got, "KEY", "secret")
	}
	if _, err := os.Lstat(mark); err == nil {
		t.Fatal("the external diff of the inner repository was started")
	}
	// The control: plain git starts it.
	r.git("--no-pager", "diff")
	if _, err := os.Lstat(mark); err != nil {
		t.Error("plain git did not start the planted program either, so nothing was shown")
	}
}

func TestCommitStartsNoFilterOfARepositoryWithin(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the planted program is a shell script")
	}
	for _, ignore := range []string{"", "none"} {
		t.Run("ignore="+ignore, func(t *testing.T) {
			r := newRepo(t, policy.Permissive())
			inner := r.withNested()
			script, mark := r.plant("clean")
			inner("config", "filter.x.clean", script)
			r.write("sub/.git/info/attributes", "* filter=x\n")
			if ignore != "" {
				r.git("config", "submodule.sub.ignore", ignore)
			}
			r.git("config", "status.submoduleSummary", "true")
			r.write("sub/a.txt", "two\n")
			got, res := r.call("git_commit", `{"message":"nothing"}`)
			if !res.Failed {
				t.Errorf("git_commit = %q", got)
			}
			r.write("f", "x\n")
			if got, res := r.call("git_add", `{"paths":["f"]}`); res.Failed {
				t.Errorf("git_add = %q", got)
			}
			if got, res := r.call("git_commit", `{"message":"one file"}`); res.Failed {
				t.Errorf("git_commit = %q", got)
			}
			if _, err := os.Lstat(mark); err == nil {
				t.Fatal("a filter of the inner repository was started")
			}
			// The control: plain git starts it.
			r.write("sub/a.txt", "six\n")
			r.git("status")
			if _, err := os.Lstat(mark); err != nil {
				t.Error("plain git did not start the planted program either, so nothing was shown")
			}
		})
	}
}

// Git itself says nothing and stages nothing.
func TestAddInARepositoryWithinIsNoSuccess(t *testing.T) {
	r := newRepo(t, policy.Permissive())
	r.withNested()
	r.git("init", "-q", "other")
	r.write("other/f", "x\n")
	for _, p := range []string{"other/f", "sub/a.txt"} {
		got, res := r.call("git_add", args("paths", []string{p}))
		if !res.Failed || res.Changed {
			t.Errorf("git_add %s = %q", p, got)
		}
	}
	if staged := r.git("diff", "--cached", "--name-only"); staged != "" {
		t.Errorf("%q was staged", staged)
	}
}

func TestCommitNamesNoFile(t *testing.T) {
	r := newRepo(t, policy.Permissive().Layer("ops").DenyRead("secrets/*", "*.pem"))
	r.write("secrets/k", "KEY\n")
	r.git("add", ".")
	r.git("commit", "-qm", "with a secret")
	r.write("secrets/k", "NEW\n")
	r.write("prod-db.pem", "PEM\n")
	got, res := r.call("git_commit", `{"message":"nothing"}`)
	wantHas(t, got, "[git_commit failed]", "nothing is staged")
	wantLacks(t, got, "secrets", "prod-db", "pem")
	if !res.Failed || res.Changed {
		t.Errorf("a commit of nothing = %+v", res)
	}
	// What a person has staged is committed, and not listed.
	r.git("add", ".")
	got, res = r.call("git_commit", `{"message":"staged by a person"}`)
	wantHas(t, got, "staged by a person")
	wantLacks(t, got, "secrets", "prod-db", "pem")
	if res.Failed {
		t.Errorf("git_commit = %q", got)
	}
	// Files in conflict are counted.
	r.git("switch", "-qc", "other")
	r.write("secrets/k", "THEIRS\n")
	r.git("commit", "-qam", "theirs")
	r.git("switch", "-q", "main")
	r.write("secrets/k", "OURS\n")
	r.git("commit", "-qam", "ours")
	if err := exec.Command("git", "-C", r.root, "merge", "-q", "other").Run(); err == nil {
		t.Fatal("the merge made no conflict")
	}
	got, _ = r.call("git_diff", `{}`)
	wantHas(t, got, "[1 file left out")
	wantLacks(t, got, "secrets", "OURS")
	got, res = r.call("git_commit", `{"message":"in conflict"}`)
	wantHas(t, got, "[git_commit failed]", "1 file is in conflict")
	wantLacks(t, got, "secrets")
	if !res.Failed {
		t.Errorf("git_commit = %q", got)
	}
}

func TestANewBranchNamesNoFile(t *testing.T) {
	r := newRepo(t, policy.Permissive().Layer("ops").DenyRead("secrets/*"))
	r.write("secrets/k", "KEY\n")
	r.git("add", ".")
	r.git("commit", "-qm", "with a secret")
	r.git("config", "core.sparseCheckout", "true")
	r.write(".git/info/sparse-checkout", "/*\n")
	r.write("secrets/k", "NEW\n")
	got, res := r.call("git_branch", `{"name":"agent/x"}`)
	wantHas(t, got, "on the new branch agent/x")
	wantLacks(t, got, "secrets")
	if res.Failed || r.read("secrets/k") != "NEW\n" {
		t.Errorf("git_branch = %+v", res)
	}
}

func TestAWorktreeIsNoCopyOfWhatIsDenied(t *testing.T) {
	r := newRepo(t, policy.Permissive().Layer("ops").DenyRead("secrets/*"))
	r.write("secrets/k", "KEY1\n")
	r.git("add", "secrets/k")
	r.git("commit", "-qm", "by a person")
	got, res := r.call("git_worktree", `{"name":"b","path":"copy"}`)
	if !res.Failed {
		t.Errorf("it was made:\n%s", got)
	}
	wantLacks(t, got, "KEY1", "secrets/k")
	if _, err := os.Stat(filepath.Join(r.root, "copy")); err == nil {
		t.Error("there is a checkout")
	}
}

// How many files git tracks is no way past the look at each of them, and none to
// have a worktree refused.
func TestAWorktreeOfManyFiles(t *testing.T) {
	for _, denied := range []bool{false, true} {
		p := policy.Permissive()
		if denied {
			p = p.Layer("ops").DenyRead("many/*1250")
		}
		r := newRepo(t, p)
		name := strings.Repeat("n", 200)
		for i := range 1500 {
			r.write(fmt.Sprintf("many/%s%d", name, i), "x\n")
		}
		r.git("add", ".")
		r.git("commit", "-qm", "many")
		got, res := r.call("git_worktree", `{"name":"b","path":"copy"}`)
		_, err := os.Stat(filepath.Join(r.root, "copy"))
		if res.Failed != denied || (err == nil) == denied {
			t.Errorf("denied %t: %q, %v", denied, got, err)
		}
	}
}
