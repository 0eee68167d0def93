package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
)

func secrets() policy.Policy {
	return policy.Permissive().Layer("ops").DenyRead("secrets/*").DenyWrite("secrets/*")
}

func TestLinkInsideTheRootIsFollowed(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("lib/real.txt", "text\n")
	tr.link("real.txt", "lib/leaf")
	tr.link("lib", "dir")
	tr.link(tr.path("lib"), "absolute")
	tr.link("../root/lib", "roundabout")
	tr.link("../absolute/leaf", "sub/chain")
	for _, p := range []string{"lib/leaf", "dir/real.txt", "dir/leaf", "absolute/real.txt", "roundabout/leaf", "sub/chain"} {
		if got, err := tr.ReadFile(t.Context(), p); got != "text\n" || err != nil {
			t.Errorf("ReadFile(%q) = %q, %v", p, got, err)
		}
		if got, err := tr.Canonical(p); got != "lib/real.txt" || err != nil {
			t.Errorf("Canonical(%q) = %q, %v, want lib/real.txt", p, got, err)
		}
	}
	if _, err := tr.WriteFile(t.Context(), "dir/new/x.txt", "new\n"); err != nil {
		t.Fatal(err)
	}
	if got := tr.get("lib/new/x.txt"); got != "new\n" {
		t.Errorf("written through the link: %q", got)
	}
}

func TestWriteThroughALinkKeepsTheLink(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("tool.sh", "old\n")
	tr.link("tool.sh", "run")
	c, err := tr.EditFile(t.Context(), "run", "old", "new")
	if err != nil {
		t.Fatal(err)
	}
	if c.Path != "tool.sh" {
		t.Errorf("the change is recorded under %q, want tool.sh", c.Path)
	}
	if target, err := os.Readlink(tr.path("run")); target != "tool.sh" || err != nil {
		t.Errorf("run is no longer the link: %q, %v", target, err)
	}
	if got := tr.get("tool.sh"); got != "new\n" {
		t.Errorf("tool.sh = %q", got)
	}
}

func TestLinkOutOfTheRootIsDenied(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	putFile(t, filepath.Join(tr.outside, "file"), "outside\n")
	tr.link(filepath.Join(tr.outside, "file"), "leaf")
	tr.link("../outside", "dir")
	tr.link("../outside/not-yet", "dangling")
	tr.link("dir", "second")
	tr.link("../../../../../../../../../../etc", "up")
	for _, p := range []string{"leaf", "dir/file", "dir/new.txt", "dir/a/b/new.txt", "dangling", "second/file", "up/passwd", "dir"} {
		if v := tr.CheckPath(policy.Read, p); v.Effect != policy.Deny || v.Rule != policy.OutsideRoot {
			t.Errorf("CheckPath(read, %q) = %+v, want deny by %s", p, v, policy.OutsideRoot)
		}
		_, err := tr.ReadFile(t.Context(), p)
		wantRefused(t, err, policy.OutsideRoot)
		_, err = tr.WriteFile(t.Context(), p, "mine\n")
		wantRefused(t, err, policy.OutsideRoot)
		_, err = tr.EditFile(t.Context(), p, "outside", "mine")
		wantRefused(t, err, policy.OutsideRoot)
		wantRefused(t, tr.Remove(t.Context(), p), policy.OutsideRoot)
	}
	if got := getFile(t, filepath.Join(tr.outside, "file")); got != "outside\n" {
		t.Errorf("file outside holds %q", got)
	}
	entries, err := os.ReadDir(tr.outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("outside now holds %v, %v", entries, err)
	}
}

func TestLinkToADeniedFileIsDeniedLikeTheFile(t *testing.T) {
	tr := newTree(t, secrets())
	tr.put("secrets/k", "KEY\n")
	tr.link("../secrets/k", "notes/n.txt")
	tr.link("notes/n.txt", "m")
	tr.link("secrets", "d")
	tr.link("secrets/missing", "dangling")
	tr.link("../root/secrets/k", "roundabout") // out of the root and in again by its own name
	tr.link("../../root/secrets", "sub/about")
	tr.put("public", "fine\n")
	tr.link("../public", "secrets/back")
	tr.link("secrets/back", "through") // ends in an allowed file, by way of a denied name
	for _, p := range []string{"secrets/k", "m", "notes/n.txt", "d/k", "d/new", "dangling", "roundabout", "sub/about/k", "through", "./secrets//k", "x/../secrets/k"} {
		_, err := tr.ReadFile(t.Context(), p)
		wantRefused(t, err, "secrets/*")
		_, err = tr.WriteFile(t.Context(), p, "x")
		wantRefused(t, err, "secrets/*")
	}
	if got := tr.get("secrets/k"); got != "KEY\n" {
		t.Errorf("secrets/k = %q", got)
	}
	tr.absent("secrets/new")
}

func TestDeniedPathReadsTheSameWhetherItExists(t *testing.T) {
	tr := newTree(t, secrets())
	tr.put("secrets/k", "KEY\n")
	tr.link("secrets", "d")
	for _, dir := range []string{"secrets/", "d/"} {
		_, there := tr.ReadFile(t.Context(), dir+"k")
		_, gone := tr.ReadFile(t.Context(), dir+"q")
		if a, b := strings.ReplaceAll(there.Error(), "k", "?"), strings.ReplaceAll(gone.Error(), "q", "?"); strings.ReplaceAll(b, "k", "?") != a {
			t.Errorf("the refusal tells whether the file exists:\n%v\n%v", there, gone)
		}
	}
}

func TestDenyHidesFromSearchAndListing(t *testing.T) {
	tr := newTree(t, policy.Permissive().Layer("ops").DenyRead("secrets/*", "*.pem"))
	tr.put("secrets/k", "NEEDLE secret\n")
	tr.put("open/a.txt", "NEEDLE open\n")
	tr.put("open/b.pem", "NEEDLE pem\n")
	tr.link("../secrets/k", "open/link")
	tr.link("../../outside", "open/out")
	m, err := tr.Grep(t.Context(), "NEEDLE", "", 50)
	if err != nil || m.Total != 1 || m.Hits[0].Path != "open/a.txt" {
		t.Errorf("Grep = %+v, %v, want open/a.txt alone", m, err)
	}
	f, err := tr.Find(t.Context(), "*", 50)
	if err != nil || len(f.Paths) != 1 || f.Paths[0] != "open/a.txt" {
		t.Errorf("Find = %+v, %v, want open/a.txt alone", f, err)
	}
	l, err := tr.ListDir(t.Context(), "open", 50)
	if err != nil || l.Total != 1 || l.Entries[0].Path != "open/a.txt" {
		t.Errorf("ListDir(open) = %+v, %v, want a.txt alone", l, err)
	}
	l, err = tr.ListDir(t.Context(), "secrets", 50)
	if err != nil || l.Total != 0 {
		t.Errorf("ListDir(secrets) = %+v, %v, want nothing", l, err)
	}
}

func TestAskHidesNothing(t *testing.T) {
	tr := newTree(t, policy.Permissive().Layer("ops").AskRead("drafts/*"))
	tr.put("drafts/x.txt", "NEEDLE\n")
	if m, err := tr.Grep(t.Context(), "NEEDLE", "", 5); err != nil || m.Total != 1 {
		t.Errorf("Grep = %+v, %v, want the file that asks", m, err)
	}
	if _, err := tr.ReadFile(t.Context(), "drafts/x.txt"); err != nil {
		t.Errorf("ReadFile = %v: asking is the caller's to settle", err)
	}
}

func TestCheckAgreesWithWhatIsEnforced(t *testing.T) {
	p := policy.Permissive().Layer("ops").
		DenyRead("secrets/*", ".env").DenyWrite("ro/*", "secrets/*").AskWrite("ask/*").AskRead("ask/*")
	tr := newTree(t, p)
	for _, f := range []string{"secrets/k", ".env/prod", "ro/a", "ask/a", "ok/a"} {
		tr.put(f, "text\n")
	}
	tr.link("../ro/a", "ok/ro")
	tr.link("../secrets", "ok/s")
	for _, f := range []string{"secrets/k", "secrets/new", ".env/prod", "ro/a", "ro/new", "ask/a", "ok/a", "ok/ro", "ok/s/k", "ok/s/new", "../x", "/etc/hosts"} {
		_, err := tr.ReadFile(t.Context(), f)
		if got, want := refusedBy(err), tr.CheckPath(policy.Read, f).Effect == policy.Deny; got != want {
			t.Errorf("read of %q: refused %t, CheckPath says deny %t (%v)", f, got, want, err)
		}
		_, err = tr.WithJournal(nil).WriteFile(t.Context(), f, "text\n")
		if got, want := refusedBy(err), tr.CheckPath(policy.Write, f).Effect == policy.Deny; got != want {
			t.Errorf("write of %q: refused %t, CheckPath says deny %t (%v)", f, got, want, err)
		}
	}
}

func refusedBy(err error) bool {
	var re *policy.RefusedError
	return errors.As(err, &re)
}

func TestLinkLoopIsAnError(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.link("b", "a")
	tr.link("a", "b")
	tr.link("self/x", "self")
	for _, p := range []string{"a", "b/x", "self"} {
		if _, err := tr.ReadFile(t.Context(), p); err == nil || refusedBy(err) {
			t.Errorf("ReadFile(%q) = %v, want an error about the loop", p, err)
		}
		if _, err := tr.WriteFile(t.Context(), p, "x"); err == nil {
			t.Errorf("WriteFile(%q) succeeded on a loop of links", p)
		}
	}
}

func TestFileCalledGitIsNotWritten(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	for p, want := range map[string]policy.Effect{
		".git": policy.Allow, "a/../.git": policy.Allow, ".git/.": policy.Allow, // the git tools must be able to ask
		"vendor/.git": policy.Deny, "vendor/.git/": policy.Deny, "./a/.git": policy.Deny,
	} {
		_, err := tr.WriteFile(t.Context(), p, "gitdir: /elsewhere\n")
		wantRefused(t, err, GitFile)
		if v := tr.CheckPath(policy.Write, p); v.Effect != want || want == policy.Deny && v.Rule != GitFile {
			t.Errorf("CheckPath(write, %q) = %+v, want %s", p, v, want)
		}
		if v := tr.CheckPath(policy.Read, p); v.Effect != policy.Allow {
			t.Errorf("CheckPath(read, %q) = %+v", p, v)
		}
	}
	tr.link(".git", "pointer")
	if v := tr.CheckPath(policy.Write, "pointer"); v.Effect != policy.Deny || v.Rule != GitFile {
		t.Errorf("CheckPath(write) of a link to .git = %+v", v)
	}
	_, err := tr.WriteFile(t.Context(), "pointer", "gitdir: /elsewhere\n")
	wantRefused(t, err, GitFile)
	tr.absent(".git")
}

func TestDefaultPolicyGuardsControlFiles(t *testing.T) {
	tr := newTree(t, policy.Default().Layer("app").AllowWrite("*"))
	for _, p := range []string{".git/hooks/pre-commit", ".git/config", "sub/.git/config", "io.toml", "io.local.toml"} {
		_, err := tr.WriteFile(t.Context(), p, "x")
		if !refusedBy(err) {
			t.Errorf("WriteFile(%q) = %v, want a refusal that no allow lifts", p, err)
		}
		tr.absent(p)
	}
	for _, p := range []string{".gitignore", ".gitattributes", ".gitmodules", "src/x.go"} {
		if _, err := tr.WriteFile(t.Context(), p, "x\n"); err != nil {
			t.Errorf("WriteFile(%q) = %v, want it written", p, err)
		}
	}
}

func TestFoldingFileSystemFoldsDenies(t *testing.T) {
	tr := newTree(t, secrets())
	tr.dir.folds = true // as probed on a volume that folds case
	for _, p := range []string{"SECRETS/key", "Secrets/new", "ſecrets/x"} {
		if v := tr.CheckPath(policy.Write, p); v.Effect != policy.Deny {
			t.Errorf("CheckPath(write, %q) = %+v, want deny", p, v)
		}
	}
	_, err := tr.WriteFile(t.Context(), ".GIT", "x")
	wantRefused(t, err, GitFile)
	tr.dir.folds = false
	if v := tr.CheckPath(policy.Write, "SECRETS/key"); v.Effect != policy.Allow && !tr.FoldsCase() {
		t.Errorf("CheckPath(write, SECRETS/key) = %+v where names are bytes, want allow", v)
	}
}

func TestProbeSeesThatThisFileSystemTellsCaseApart(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("lower", "a")
	_, err := os.Lstat(tr.path("LOWER"))
	w, openErr := Open(tr.Root(), policy.Permissive())
	if openErr != nil {
		t.Fatal(openErr)
	}
	defer w.Close()
	if got, want := w.FoldsCase(), err == nil; got != want {
		t.Errorf("FoldsCase = %t, and LOWER exists: %t", got, want)
	}
}

func TestDeniedListsWhatCommandsMustNotSee(t *testing.T) {
	tr := newTree(t, policy.Permissive().Layer("ops").DenyRead("secrets", "*.pem", "deep/x/*"))
	for _, f := range []string{"secrets/a", "secrets/b/c", "k.pem", "node_modules/m/k.pem", "deep/x/1", "deep/y/1", "ok.txt"} {
		tr.put(f, "x")
	}
	got, err := tr.Denied(t.Context(), policy.Read)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{tr.path("deep/x/1"), tr.path("k.pem"), tr.path("node_modules/m/k.pem"), tr.path("secrets")}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("Denied = %q, want %q", got, want)
	}
}
