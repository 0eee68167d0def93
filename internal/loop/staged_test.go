//go:build unix

package loop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

func TestWhatIsStagedIsKnownByItsEntries(t *testing.T) {
	for _, version := range []string{"2", "3", "4"} {
		t.Run("index version "+version, func(t *testing.T) {
			f := newFixture(t)
			f.git(".", "init", "-q")
			index := indexOf(f.dir, false)
			if _, err := stagedIn(index); !os.IsNotExist(err) {
				t.Fatalf("without an index: %v", err)
			}
			for _, name := range []string{"a", "dir/a", "dir/a-longer-name", "dir/b", "z"} {
				f.write(name, name)
			}
			f.git(".", "add", ".")
			if version == "3" { // written for entries with extended flags
				f.write("later", "x")
				f.git(".", "add", "-N", "later")
			}
			f.git(".", "update-index", "--force-write-index", "--index-version", version)
			seen := map[string]string{}
			look := func(what string, changes bool) {
				t.Helper()
				data, err := os.ReadFile(index)
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := entriesOf(data); !ok {
					t.Errorf("%s: the index is not understood", what)
				}
				got, err := stagedIn(index)
				if before := seen[got]; err != nil || changes != (before == "") {
					t.Errorf("%s: staged as before = %v (%s), %v", what, before != "", before, err)
				}
				seen[got] = what
			}
			look("at first", true)
			if err := os.Chtimes(filepath.Join(f.dir, "a"), time.Now(), time.Now().Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
			f.git(".", "status")
			f.git(".", "update-index", "-q", "--force-write-index", "--refresh")
			look("times noted anew", false)
			f.write("a", "other")
			look("a change that is not staged", false)
			f.git(".", "add", "a")
			look("a change that is staged", true)
			f.git(".", "update-index", "--chmod=+x", "z")
			look("a mode", true)
			f.git(".", "rm", "-q", "--cached", "dir/a-longer-name")
			look("a removal", true)
			f.git(".", "commit", "-qm", "x")
			look("a commit", false)
		})
	}
}

func TestAnIndexThatIsNotUnderstoodIsKnownByItsBytes(t *testing.T) {
	index := filepath.Join(t.TempDir(), "index")
	for _, data := range []string{"", "DIRC", "DIRC\x00\x00\x00\x09\x00\x00\x00\x00" + strings.Repeat("\x00", 20), "DIRC\x00\x00\x00\x04\x7f\xff\xff\xff" + strings.Repeat("\xff", 100) + strings.Repeat("\x00", 20)} {
		if err := os.WriteFile(index, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := entriesOf([]byte(data)); ok {
			t.Errorf("%q is taken for an index", data)
		}
		b := binding{}
		b.addStaged(index)
		if what := b.changed(); what != "" {
			t.Errorf("%q: %s counts as changed", data, what)
		}
		if err := os.WriteFile(index, []byte(data+"x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if b.changed() == "" {
			t.Errorf("a change of %q goes unnoticed", data)
		}
	}
}

func FuzzEntriesOfAnIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00" + strings.Repeat("\x00", 20)))
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01" + strings.Repeat("\x00", 62) + "\x00a\x00" + strings.Repeat("\x00", 20)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if sum, ok := entriesOf(data); ok && len(sum) != 64 {
			t.Errorf("digest %q", sum)
		}
	})
}

func TestAnApprovalOfACommitIsForWhatIsStaged(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(f *fixture)
		commits bool
	}{
		"nothing changed":             {func(*fixture) {}, true},
		"another file was staged":     {func(f *fixture) { f.write("more.txt", "x"); f.git(".", "add", "more.txt") }, false},
		"the file was staged anew":    {func(f *fixture) { f.write("a.txt", "evil"); f.git(".", "add", "a.txt") }, false},
		"the staged file was changed": {func(f *fixture) { f.write("a.txt", "not staged") }, true},
		"a person looked":             {func(f *fixture) { f.git(".", "update-index", "-q", "--force-write-index", "--refresh") }, true},
	} {
		for _, above := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " above"}[above], func(t *testing.T) {
				f := newFixture(t)
				f.git(".", "init", "-q", "-b", "main")
				f.git(".", "commit", "-q", "--allow-empty", "-m", "by a person")
				if above {
					f.dir = filepath.Join(f.dir, "ws")
				}
				f.write("a.txt", "looked at")
				f.git(".", "add", "a.txt")
				f.script(scripted.Call("git_commit", map[string]any{"message": "by the agent"}))
				f.host.Policy, f.host.Approver = policy.Permissive().Layer("ops").AskWrite(".git"), deferring
				res := f.must(trace.AwaitingApproval, func(c *task.Contract) { c.ParentRepository = above })
				tc.change(f)
				m := f.script(scripted.Say("I see"))
				if end, err := f.resume(res.RunID, yes(res)); err != nil || end.Outcome.Kind != trace.Finished {
					t.Fatalf("%s, %v", end.Outcome, err)
				}
				want := map[bool]string{true: "by the agent\n", false: "by a person\n"}[tc.commits]
				if got := f.git(".", "log", "-1", "--format=%s"); got != want {
					t.Errorf("the repository is at %q, want %q", got, want)
				}
				if !tc.commits {
					contains(t, "what the model is told", lastUser(m), "index", "has changed since")
				}
				f.checkRequest(res.Outcome.RequestID, !tc.commits)
			})
		}
	}
}
