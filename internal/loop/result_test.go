package loop

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// A write of what is there already is told as one that changed nothing, to the model
// and in the trace.
func TestAWriteOfWhatIsThereChangesNothing(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "same\n")
	m := f.script(write("a.txt", "same\n"), write("a.txt", "else\n"), scripted.Say("done"))
	res := f.must(trace.Finished)
	told, _ := scripted.LastResult(m.Requests()[1], "write_file")
	contains(t, "what the model is told", told, "[wrote a.txt", "did not change")
	control, _ := scripted.LastResult(m.Requests()[2], "write_file")
	if strings.Contains(control, "did not change") {
		t.Errorf("a write that changed the file is told as %q", control)
	}
	steps := f.steps(res.RunID)
	if steps[0].Changed || !steps[1].Changed {
		t.Errorf("steps that changed something: %t, %t, want the second", steps[0].Changed, steps[1].Changed)
	}
	edits, err := store.Collect(f.store.Edits(context.Background(), res.RunID))
	if err != nil || len(edits) != 2 || edits[0].Added+edits[0].Removed != 0 || edits[0].Hunk != "" || edits[1].Hunk == "" {
		t.Errorf("edits %+v, %v", edits, err)
	}
}

// What is too long is cut once, and the trace has the form that the model read.
func TestTheTraceHasTheCutFormOfALongResult(t *testing.T) {
	long := tool.New("probe", "Brings much.", func(context.Context, struct{}) (string, error) {
		return "HEAD" + strings.Repeat("é", 1<<20) + "TAIL", nil
	})
	f := newFixture(t)
	m := f.script(scripted.Call("probe", nil), scripted.Say("done"))
	res := f.must(trace.Finished, withTools(long))
	told, _ := scripted.LastResult(m.Requests()[1], "probe")
	contains(t, "what the model is told", told, "HEAD", "truncated")
	if len(told) > 100_000 || strings.Contains(told, "TAIL") || strings.Contains(told, "\uFFFD") {
		t.Errorf("%d bytes are told", len(told))
	}
	obs, err := store.Collect(f.store.Observations(context.Background(), res.RunID))
	if err != nil || len(obs) == 0 || strings.TrimSpace(obs[0].Text) != strings.TrimSpace(told) || !strings.Contains(f.steps(res.RunID)[0].Result, "truncated") || len(f.steps(res.RunID)[0].Result) > 100_000 {
		t.Errorf("the trace has another form: %d observations, %v", len(obs), err)
	}
}

// Only what declares that it reads runs beside other calls.
func TestWhatMayChangeSomethingRunsAlone(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts []tool.Option
	}{{"nothing declared", nil}, {"it may be repeated", []tool.Option{tool.Replayable}}} {
		var running, most atomic.Int32
		act := tool.New("slow", "Acts.", func(context.Context, struct{}) (string, error) {
			defer running.Add(-1)
			most.Store(max(most.Load(), running.Add(1)))
			return "acted", nil
		}, tc.opts...)
		calls := make([]provider.ToolCall, 50)
		for i := range calls {
			calls[i] = scripted.Tool("slow", nil)
		}
		f := newFixture(t, scripted.Calls(calls...), scripted.Say("done"))
		f.must(trace.Finished, withTools(act))
		if most.Load() != 1 {
			t.Errorf("%s: %d ran at once", tc.name, most.Load())
		}
	}
}
