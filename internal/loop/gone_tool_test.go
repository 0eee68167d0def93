package loop

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// A call that was made before a crash was made, whatever has become of its tool.
func TestACallThatWasMadeIsToldAlsoWhenItsToolIsGone(t *testing.T) {
	told := func(t *testing.T, f *fixture, m *scripted.Model, n int) {
		t.Helper()
		got, _ := scripted.LastResult(m.Requests()[n], "note")
		if !strings.Contains(got, "noted") || strings.Contains(got, "nothing was done") {
			t.Errorf("the model is told %q", got)
		}
	}
	t.Run("approved later", func(t *testing.T) {
		f, m := newMortal(t)
		o := &once{}
		f.host.Policy = policy.Default().Layer("test").AllowRead("*").AskExec("note")
		f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Decision{}, nil })
		f.script(scripted.Call("note", nil))
		res := f.must(trace.AwaitingApproval, withTools(o.tool()))
		m.dieAt("mark performed", 0)
		if _, err := f.resume(res.RunID, Resumption{
			Defaults: task.Contract{Tools: tool.Toolbox{o.tool()}},
			Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()},
		}); !errors.Is(err, errDied) || len(o.keys) != 1 {
			t.Fatalf("%v, called %d times", err, len(o.keys))
		}
		s := f.script(scripted.Say("done"))
		if end, err := f.resume(res.RunID, Resumption{}); err != nil || end.Outcome.Kind != trace.Finished {
			t.Fatalf("%+v, %v", end, err)
		}
		told(t, f, s, 0)
	})
	t.Run("in a step that is made again", func(t *testing.T) {
		f, m := newMortal(t)
		o := &once{}
		m.dieAt("insert step", 0)
		f.script(scripted.Call("note", nil))
		id := f.died(withTools(o.tool()))
		s := f.script(scripted.Call("note", nil), scripted.Say("done"))
		if end, err := f.resume(id, Resumption{}); err != nil || end.Outcome.Kind != trace.Finished || len(o.keys) != 1 {
			t.Fatalf("%+v, %v, called %d times", end, err, len(o.keys))
		}
		told(t, f, s, 1)
	})
}
