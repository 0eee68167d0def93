//go:build unix

package loop

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

var stageAndCommit = []scripted.Turn{
	scripted.Call("git_add", map[string]any{"paths": []string{"in.txt"}}),
	scripted.Call("git_commit", map[string]any{"message": "by the agent"}),
	scripted.Say("done"),
}

func TestARepositoryAboveTheWorkspaceIsChangedOnlyWhereTheContractSaysSo(t *testing.T) {
	for _, opened := range []bool{false, true} {
		f := newFixture(t)
		f.git(".", "init", "-q", "-b", "main")
		f.git(".", "commit", "-q", "--allow-empty", "-m", "by a person")
		f.dir = filepath.Join(f.dir, "ws")
		f.write("in.txt", "new\n")
		f.host.Policy = policy.Permissive()
		f.script(stageAndCommit...)
		res := f.must(trace.Finished, func(c *task.Contract) { c.ParentRepository = opened })
		want := map[bool]string{false: "by a person\n", true: "by the agent\n"}[opened]
		if got := f.git("..", "log", "-1", "--format=%s"); got != want {
			t.Errorf("opened %v: the repository is at %q", opened, got)
		}
		raw, err := f.store.RunContract(context.Background(), res.RunID)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := (task.Contract{}).Restore(raw); err != nil || c.ParentRepository != opened {
			t.Errorf("a resume would have ParentRepository %v, %v, want %v", c.ParentRepository, err, opened)
		}
	}
}

func TestACommitOfTheAgentIsByTheAuthorOfTheContract(t *testing.T) {
	f := newFixture(t)
	f.host.Policy = policy.Permissive()
	f.git(".", "init", "-q")
	f.write("in.txt", "new\n")
	f.script(stageAndCommit...)
	f.must(trace.Finished, func(c *task.Contract) { c.Identity = task.Identity{Name: "Release Robot", Email: "robot@example.com"} })
	if got := f.git(".", "log", "-1", "--format=%an <%ae>, %cn <%ce>"); got != "Release Robot <robot@example.com>, Release Robot <robot@example.com>\n" {
		t.Errorf("the commit is by %q", got)
	}
}
