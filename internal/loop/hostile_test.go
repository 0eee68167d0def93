package loop

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/trace"
)

// However long an argument is, the run goes on, and neither the request
// nor the announcement of the call carries it.
func TestAnArgumentOfAnySizeIsBounded(t *testing.T) {
	big := strings.Repeat("p", 1<<18)
	one := func(k string) map[string]any { return map[string]any{k: big} }
	for _, tc := range []struct {
		tool string
		args any
	}{
		{"read_file", one("path")}, {"list_dir", one("path")}, {"grep", one("pattern")}, {"find", one("name_glob")},
		{"write_file", map[string]any{"path": big, "content": "x"}},
		{"edit_file", map[string]any{"path": "a.txt", "search": big, "replace": "x"}},
		{"patch_file", map[string]any{"path": "a.txt", "patch": big}},
		{"exec", map[string]any{"argv": []string{"echo", big}}}, {"exec", map[string]any{"argv": []string{big}}},
		{"shell", one("line")}, {"shell_start", one("line")}, {"shell_poll", one("id")},
		{"ask_question", one("question")},
		{"todo_write", map[string]any{"items": []any{map[string]any{"text": big, "state": "active"}}}},
		{"todo_write", map[string]any{"items": []any{map[string]any{"text": "a", "state": big}}}},
		{"remember", map[string]any{"key": big, "value": "v"}}, {"remember", map[string]any{"key": "k", "value": big}}, {"forget", one("key")},
		{"git_commit", one("message")}, {"git_diff", map[string]any{"paths": []string{big}}}, {"git_branch", one("name")},
		{"propose_plan", map[string]any{"steps": []any{one("intent")}}}, {"no_such_tool", one("x")}, {"read_file", map[string]any{"path": "a.txt", big: 1}},
	} {
		t.Run(tc.tool, func(t *testing.T) {
			f := newFixture(t)
			f.write("a.txt", "keep this")
			f.host.Policy = open.Layer("more").AllowExec("*")
			f.host.Responder = approve.Always("no")
			m := f.script(scripted.Call(tc.tool, tc.args), scripted.Say("I see"))
			res := f.must(trace.Finished)
			if text := m.Requests()[1].User; len(text) > 200_000 {
				t.Errorf("the model is told %d bytes", len(text))
			}
			if n := len(f.steps(res.RunID)); n != 2 || f.read("a.txt") != "keep this" {
				t.Errorf("%d steps, a.txt %.20q", n, f.read("a.txt"))
			}
			for _, e := range facts[trace.ToolCalled](f.seen) {
				if len(e.Target) > 10_000 {
					t.Errorf("the watcher is told a target of %d bytes", len(e.Target))
				}
			}
		})
	}
}

func TestArgumentsThatAreNoObjectReachNoTool(t *testing.T) {
	p := new(probe)
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	for _, args := range []string{"[]", "null", `"x"`, "1", "true", "", deep, `{"a":` + deep + "}", "{}{}", "{} x"} {
		for _, name := range []string{"probe", "read_file", "todo_write", "ask_question", "git_status"} {
			f := newFixture(t)
			m := f.script(scripted.Calls(provider.ToolCall{Name: name, Arguments: json.RawMessage(args)}), scripted.Say("I see"))
			f.must(trace.Finished, withTools(p.tool()))
			told, ok := scripted.LastResult(m.Requests()[1], name)
			if !ok || told == "" || len(told) > 50_000 {
				t.Errorf("%s with %.20q is told %d bytes", name, args, len(told))
			}
		}
	}
	if n := p.count(); n > 2 { // "" and the deep object may be read as arguments that it does not have
		t.Errorf("the tool was called %d times", n)
	}
}
