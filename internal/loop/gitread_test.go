//go:build unix

package loop

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

func TestCallsThatStartCommandsAreToldOfOneByOne(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	told := func(most int) (out []string) {
		f := newFixture(t, scripted.Calls(scripted.Tool("git_status", nil), scripted.Tool("git_log", nil)), scripted.Say("done"))
		f.git(".", "init", "-q", "-b", "main")
		f.host.Policy = open.Layer("git").AllowExec("git*")
		f.must(trace.Finished, func(c *task.Contract) { c.MaxParallelReads = most })
		for _, k := range f.seen.kinds() {
			if k == "tool_call" || k == "sandbox" {
				out = append(out, k)
			}
		}
		return out
	}
	one, ten := told(1), told(10)
	if diff := cmp.Diff(one, ten); diff != "" || !slices.Contains(one, "sandbox") {
		t.Errorf("events with one and with ten at a time:\n%s", diff)
	}
	t.Run("and do not start early", func(t *testing.T) {
		f := newFixture(t)
		f.git(".", "init", "-q", "-b", "main")
		f.host.Policy = open.Layer("git").AllowExec("git*")
		f.write("a", "x")
		f.host.Provider = &slowly{calls: []provider.ToolCall{scripted.Tool("git_status", nil)}, settle: []provider.ToolCall{file("a")}}
		f.turn()
		if n := f.seen.count("sandbox"); n != 0 {
			t.Errorf("%d commands of a call that never was one", n)
		}
	})
}
