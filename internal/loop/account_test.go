package loop

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// sender is a tool that does something outside, once for each call.
type sender struct {
	mu   sync.Mutex
	sent []string
}

func (s *sender) tool() tool.Tool {
	return tool.New("send", "Sends.", func(_ context.Context, in struct {
		To string `json:"to"`
	}) (string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent = append(s.sent, in.To)
		return "receipt for " + in.To, nil
	})
}

func send(to string) scripted.Turn { return scripted.Call("send", map[string]string{"to": to}) }

// What a call did before its step died is told, whatever the step comes to when it
// is made again: nobody else knows of it.
func TestWhatACallDidBeforeTheCrashIsAlwaysTold(t *testing.T) {
	for _, tc := range []struct {
		name  string
		again scripted.Turn
		r     Resumption
		sent  []string
	}{
		{"the same call", send("a"), Resumption{}, []string{"a"}},
		{"the same call, and the tool is withheld now", send("a"), Resumption{ToolMask: []string{"send"}}, []string{"a"}},
		{"another call of the tool", send("b"), Resumption{}, []string{"a", "b"}},
		{"another call, and the tool is withheld now", send("b"), Resumption{ToolMask: []string{"send"}}, []string{"a"}},
		{"no such call", readCall("x"), Resumption{}, []string{"a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, m := newMortal(t)
			f.host.Policy = open.AllowExec("send")
			s := &sender{}
			f.script(send("a"))
			m.dieAt("insert step", 0)
			run := f.died(withTools(s.tool()))
			model := f.script(tc.again, scripted.Say("done"))
			tc.r.Defaults = task.Contract{Tools: tool.Toolbox{s.tool()}}
			res, err := f.resume(run, tc.r)
			if err != nil || res.Outcome.Kind != trace.Finished {
				t.Fatalf("%+v, %v", res, err)
			}
			if fmt.Sprint(s.sent) != fmt.Sprint(tc.sent) {
				t.Errorf("sent to %v, want %v", s.sent, tc.sent)
			}
			contains(t, "what the model is told", lastUser(model), "receipt for a")
		})
	}
}

// An approval of what was not done does not say that it was.
func TestAnApprovedCallThatIsNotMadeIsNotPerformed(t *testing.T) {
	for _, tc := range []struct {
		name string
		r    Resumption
		by   string
	}{
		{"withheld now", Resumption{ToolMask: []string{"send"}, Defaults: task.Contract{Tools: tool.Toolbox{(&sender{}).tool()}}}, "resume"},
		{"no such tool any more", Resumption{}, "resume"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, send("a"))
			f.host.Policy, f.host.Approver = open.AskExec("send"), deferring
			paused := f.must(trace.AwaitingApproval, withTools((&sender{}).tool()))
			m := f.script(scripted.Say("done"))
			tc.r.Decision = &Decision{ID: paused.Outcome.RequestID, Decision: approve.Approve()}
			if res, err := f.resume(paused.RunID, tc.r); err != nil || res.Outcome.Kind != trace.Finished {
				t.Fatalf("%+v, %v", res, err)
			}
			row := f.requests(paused.RunID)[0]
			if !row.PerformedAt.IsZero() || row.Verdict != store.Deny || row.DecidedBy != tc.by {
				t.Errorf("%+v", row)
			}
			if told, ok := scripted.LastResult(m.Requests()[0], "send"); !ok || told == "" {
				t.Error("the model is not told what became of its call")
			}
		})
	}
}

func TestAnApprovedCallIsNotPerformedByAnotherThatWasMadeInItsPlace(t *testing.T) {
	f, m := newMortal(t)
	f.host.Policy = open.AllowExec("send")
	s := &sender{}
	f.script(send("b"))
	m.dieAt("insert step", 0)
	id := f.died(withTools(s.tool()))
	asks := open.AskExec("send")
	box := Resumption{Policy: &asks, Defaults: task.Contract{Tools: tool.Toolbox{s.tool()}}}
	f.host.Approver = deferring
	f.script(send("a"))
	paused, err := f.resume(id, box)
	if err != nil || paused.Outcome.Kind != trace.AwaitingApproval {
		t.Fatalf("%+v, %v", paused, err)
	}
	box.ToolMask, box.Decision = []string{"send"}, &Decision{ID: paused.Outcome.RequestID, Decision: approve.Approve()}
	f.script(scripted.Say("done"))
	if res, err := f.resume(id, box); err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("%+v, %v", res, err)
	}
	if row := f.requests(id)[0]; !row.PerformedAt.IsZero() || row.Verdict != store.Deny || row.DecidedBy != "resume" || fmt.Sprint(s.sent) != "[b]" {
		t.Errorf("%+v; sent to %v", row, s.sent)
	}
}

// The approver of the resume says no to what the policy asks beside it.
func TestAnApprovedCallThatIsDeniedOnTheResumeIsNotPerformed(t *testing.T) {
	f := newFixture(t, command("sh", "tick.sh"))
	f.write("tick.sh", "echo x >> log\n")
	f.host.Policy, f.host.Approver = asking, deferring
	paused := f.must(trace.AwaitingApproval)
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Deny("no"), nil })
	f.script(scripted.Say("done"))
	p := policy.Policy(asking.Layer("more").AskRead("tick.sh"))
	r := approving(paused, approve.Approve())
	r.Policy = &p
	res, err := f.resume(paused.RunID, r)
	if err != nil {
		t.Fatal(err)
	}
	row := f.requests(paused.RunID)[0]
	if done := f.read("log") != ""; done == row.PerformedAt.IsZero() {
		t.Errorf("done: %t, and the request says %+v; %s", done, row, res.Outcome)
	}
}

// An approval that was given before the crash, and that the step made again does not
// use, says that it was carried out only if it was.
func TestAnApprovalThatTheReplayDoesNotUse(t *testing.T) {
	for _, tc := range []struct {
		name, diesAt string
		again        scripted.Turn
		performed    bool
	}{
		{"the same call, which was made before", "insert step", write("a.txt", "x"), true},
		{"the same call, which was not made", "read approval", write("a.txt", "x"), true},
		{"another call, and the approved one was made", "insert step", readCall("b.txt"), true},
		{"another call, and the approved one was not made", "read approval", readCall("b.txt"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, m := newMortal(t)
			f.host.Policy, f.host.Approver = asking, approve.All
			f.script(write("a.txt", "x"))
			m.dieAt(tc.diesAt, 0)
			run := f.died()
			if row := f.requests(run)[0]; row.Verdict != store.Approve || !row.PerformedAt.IsZero() {
				t.Fatalf("%+v", row)
			}
			f.host.Approver = deferring
			f.script(tc.again, scripted.Say("done"))
			if res, err := f.resume(run, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished {
				t.Fatalf("%+v, %v", res, err)
			}
			row := f.requests(run)[0]
			if !row.PerformedAt.IsZero() != tc.performed || (row.Verdict == store.Approve) != tc.performed || (f.read("a.txt") == "x") != tc.performed {
				t.Errorf("a.txt %q, and the request says %+v", f.read("a.txt"), row)
			}
			if !tc.performed && row.DecidedBy != "replay" {
				t.Errorf("taken back by %q", row.DecidedBy)
			}
		})
	}
}
