package loop

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

func withMask(names ...string) func(*task.Contract) {
	return func(c *task.Contract) { c.ToolMask = names }
}

func TestAWithheldToolIsOfferedAndNeverStarts(t *testing.T) {
	look := func(mask []string) (*fixture, *probe, *scripted.Model, *trace.Result) {
		f := newFixture(t)
		f.write("a.txt", "CONTENT-A\n")
		p := &probe{}
		m := f.script(scripted.Calls(
			file("a.txt"), scripted.Tool("probe", nil), scripted.Tool("grep", map[string]string{"pattern": "CONTENT"}),
		), write("b.txt", "b"), scripted.Say("done"))
		res := f.must(trace.Finished, withTools(p.tool(tool.ReadOnly)), withMask(mask...))
		return f, p, m, res
	}
	f, p, m, res := look([]string{"probe", "write_file"})
	_, control, free, _ := look(nil)
	if p.count() != 0 || control.count() != 1 {
		t.Errorf("called %d times, and %d times in the control", p.count(), control.count())
	}
	if f.read("b.txt") != "" {
		t.Error("a withheld tool wrote")
	}
	contains(t, "the step", f.steps(res.RunID)[0].Result, "CONTENT-A", "[probe refused]", "[grep")
	contains(t, "what the model is told", lastUser(m), "[write_file refused]", "withholds")
	var refused []trace.RefusedAct
	for _, ev := range f.seen.all {
		if r, ok := ev.Fact.(trace.RefusedAct); ok {
			refused = append(refused, r)
		}
	}
	want := []trace.RefusedAct{
		{Act: "tool", Target: "probe", Rule: "probe", Layer: "turn tool mask"},
		{Act: "tool", Target: "write_file", Rule: "write_file", Layer: "turn tool mask"},
	}
	if diff := cmp.Diff(want, refused); diff != "" {
		t.Error(diff)
	}
	rows := f.refusals(res.RunID)
	if len(rows) != 2 || rows[0].Act != "tool" || rows[0].Rule != "probe" || rows[0].Layer != "turn tool mask" || rows[0].Decision != "deny" {
		t.Errorf("%+v", rows)
	}
	// What the vendor's cache has seen of other turns is what it gets.
	a, b := m.Requests()[0], free.Requests()[0]
	if diff := cmp.Diff(a.System, b.System) + cmp.Diff(a.Tools, b.Tools) + cmp.Diff(a.User, b.User); diff != "" {
		t.Errorf("the mask shows in the request:\n%s", diff)
	}
	if !slices.ContainsFunc(a.Tools, func(s provider.ToolSpec) bool { return s.Name == "probe" }) {
		t.Error("the tool is not offered")
	}
}

func TestEveryKindOfToolCanBeWithheld(t *testing.T) {
	for name, call := range map[string]scripted.Turn{
		"remember":     remember("k", "v"),
		"todo_write":   scripted.Call("todo_write", map[string]any{"items": []map[string]string{{"text": "x", "status": "pending"}}}),
		"ask_question": scripted.Call("ask_question", map[string]string{"question": "which?"}),
		"exec":         command("true"),
		"shell":        scripted.Call("shell", map[string]string{"line": "true"}),
		"git_status":   scripted.Call("git_status", nil),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, call, scripted.Say("done"))
			res := f.must(trace.Finished, withMask(name))
			contains(t, "the step", f.steps(res.RunID)[0].Result, "["+name+" refused]")
			if n := len(f.refusals(res.RunID)); n != 1 {
				t.Errorf("%d refusals", n)
			}
		})
	}
}

func TestAMaskHoldsForTheResumeAndNoApprovalCrossesIt(t *testing.T) {
	f := newFixture(t, write("ask/a.txt", "a"))
	f.host.Policy = open.AskWrite("ask/*")
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Defer(), nil })
	paused := f.must(trace.AwaitingApproval, withMask("exec"))
	yes := &Decision{ID: paused.Outcome.RequestID, Decision: approve.Approve()}
	m := f.script(command("true"), scripted.Say("done"))
	res, err := f.resume(paused.RunID, Resumption{Decision: yes, ToolMask: []string{"write_file", "exec"}})
	if err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("%+v, %v", res, err)
	}
	if f.read("ask/a.txt") != "" {
		t.Error("an approval crossed the mask")
	}
	contains(t, "what the model is told", lastUser(m), "[write_file refused]", "[exec refused]")

	f.script(write("ask/b.txt", "b"))
	paused = f.must(trace.AwaitingApproval, withMask("exec"))
	m = f.script(command("true"), scripted.Say("done"))
	if res, err := f.resume(paused.RunID, Resumption{Decision: &Decision{ID: paused.Outcome.RequestID, Decision: approve.Approve()}}); err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("%+v, %v", res, err)
	}
	if f.read("ask/b.txt") != "b" {
		t.Error("the approved write was not made")
	}
	contains(t, "what the model is told", lastUser(m), "[exec refused]")
}

func TestAMaskThatMakesNoSenseIsRefused(t *testing.T) {
	gate := approve.PlanGateFunc(func(context.Context, approve.Plan) (approve.PlanVerdict, error) { return approve.Accept(), nil })
	for _, tc := range []struct {
		name string
		gate approve.PlanGate
		mask string
		want string
	}{
		{"an unknown name", nil, "reed_file", "ToolMask[0]"},
		{"an empty name", nil, "", "ToolMask[0]"},
		{"a tool that is not registered", nil, "probe", "ToolMask[0]"},
		{"the proposal that a gate demands", gate, "propose_plan", "ToolMask"},
	} {
		f := newFixture(t)
		f.host.PlanGate = tc.gate
		_, err := f.run(withMask(tc.mask))
		var bad *task.InvalidError
		if !errors.As(err, &bad) || bad.Field != tc.want || f.runs() != 0 {
			t.Errorf("%s: %v, %d runs", tc.name, err, f.runs())
		}
	}
	f := newFixture(t, scripted.Say("done"))
	f.must(trace.Finished, withMask("propose_plan", "view_image"))
}
