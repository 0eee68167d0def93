package builtin

import (
	"os"
	"path/filepath"
	"runtime"
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
