package loop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/workspace"
)

// A tool that refuses something behind the gate, or before it, leaves what the
// gate leaves: one row, one event, one answer. Nobody is asked.
func TestEveryRefusalOfAToolIsRecorded(t *testing.T) {
	type args = map[string]any
	for _, tc := range []struct {
		name string
		call scripted.Turn
		git  bool
		act  policy.Act
		says string // of the rule
	}{
		{name: "an edit of what may not be read", call: scripted.Call("edit_file", args{"path": "hidden/k", "search": "a", "replace": "b"}), act: policy.Read, says: "hidden/*"},
		{name: "a patch of what may not be read", call: scripted.Call("patch_file", args{"path": "hidden/k", "patch": "@@ -1 +1 @@\n-a\n+b\n"}), act: policy.Read, says: "hidden/*"},
		{name: "a file called .git", call: write("sub/.git", "gitdir: /x"), act: policy.Write, says: workspace.GitFile},
		{name: "a file called .git in the root", call: write(".git", "gitdir: /x"), act: policy.Write, says: workspace.GitFile},
		{name: "a directory with a denied file", git: true, call: scripted.Call("git_add", args{"paths": []string{"."}}), act: policy.Read, says: "hidden/*"},
		{name: "an option for a path", git: true, call: scripted.Call("git_add", args{"paths": []string{"-A"}}), act: policy.Read, says: "may not begin with -"},
		{name: "an empty path", git: true, call: scripted.Call("git_log", args{"paths": []string{""}}), act: policy.Read, says: "<empty path>"},
		{name: "a branch name", git: true, call: scripted.Call("git_branch", args{"name": "a..b"}), act: policy.Write, says: "range"},
		{name: "a worktree called .git", git: true, call: scripted.Call("git_worktree", args{"name": "a", "path": "x/.git"}), act: policy.Write, says: workspace.GitFile},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := exec.LookPath("git"); tc.git && err != nil {
				t.Skip("git is not installed")
			}
			f := newFixture(t)
			m := f.script(tc.call, scripted.Say("done"))
			f.host.Policy = policy.Permissive().Layer("test").DenyRead("hidden/*").AskWrite("*")
			asked := 0
			f.host.Approver = approve.ApproverFunc(func(_ context.Context, r approve.Request) (approve.Decision, error) {
				if r.Target != ".git" {
					asked++
				}
				return approve.Approve(), nil
			})
			f.write("hidden/k", "a\n")
			if tc.git {
				for _, argv := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "x"}} {
					if out, err := exec.Command("git", append([]string{"-C", f.dir}, argv...)...).CombinedOutput(); err != nil {
						t.Fatalf("git: %v\n%s", err, out)
					}
				}
			}
			res := f.must(trace.Finished)
			rows := f.refusals(res.RunID)
			if len(rows) != 1 || rows[0].Act != string(tc.act) || !strings.Contains(rows[0].Rule, tc.says) || f.seen.count("refused") != 1 {
				t.Errorf("refusals %+v and %d events, want one %s by a rule with %q", rows, f.seen.count("refused"), tc.act, tc.says)
			}
			if asked > 0 {
				t.Errorf("the approver was asked %d times about what can never happen", asked)
			}
			if strings.HasPrefix(tc.name, "a directory") && strings.Contains(lastUser(m), "hidden/k") {
				t.Errorf("the model is told the name of the hidden file:\n%s", lastUser(m))
			}
			if _, err := os.Lstat(filepath.Join(f.dir, "sub")); err == nil {
				t.Error("something was made")
			}
		})
	}
}
