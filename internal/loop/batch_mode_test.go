//go:build unix

package loop

import (
	"context"
	"testing"

	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// Reads that need more than the run grants are refused beside others as they are
// alone.
func TestReadsThatNeedMoreThanTheRunHasAreRefusedBesideOthers(t *testing.T) {
	for _, most := range []int{1, 10} {
		p, q := new(probe), 0
		count := func(name string) tool.Tool {
			return needing{tool.New(name, "Needs everything.", func(context.Context, struct{}) (string, error) { q++; return "", nil }, tool.ReadOnly), sandbox.FullAccess}
		}
		f := newFixture(t, scripted.Calls(file("a"), scripted.Tool("note", nil), scripted.Tool("slow", nil), scripted.Tool("probe", nil)), scripted.Say("done"))
		res := f.must(trace.Finished, withTools(count("note"), count("slow"), p.tool(tool.ReadOnly)), func(c *task.Contract) { c.MaxParallelReads = most })
		if q != 0 || p.count() != 1 {
			t.Errorf("%d at once: %d calls that need more ran, and %d of the other", most, q, p.count())
		}
		want := "read a; note refused: needs full-access; slow refused: needs full-access; called probe"
		if got := f.steps(res.RunID)[0].Decision; got != want {
			t.Errorf("%d at once: %q, want %q", most, got, want)
		}
	}
}
