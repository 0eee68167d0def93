//go:build unix

package loop

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/toolchain"
	"github.com/initorigin/io-harness-go/trace"
)

// changing approves every call as something else.
func changing(target string, content *string) approve.Approver {
	return approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		d := approve.Approve(policy.Rule{Act: policy.Exec, Effect: policy.Allow, Pattern: "*"})
		d.Modified = &approve.Modified{Target: target, Content: content}
		return d, nil
	})
}

// refusedOnce demands one refusal, in the trace and before the watcher, and that no
// row says of a request that it was approved or carried out.
func (f *fixture) refusedOnce(id trace.RunID, act policy.Act, target, performed string) {
	f.t.Helper()
	rows := f.refusals(id)
	if len(rows) != 1 || rows[0].Act != string(act) || rows[0].Target != target || rows[0].Performed != performed || rows[0].Decision != "deny" {
		f.t.Errorf("refusals %+v, want one %s of %q changed into %q", rows, act, target, performed)
	}
	var told []trace.RefusedAct
	for _, ev := range f.seen.all {
		if r, ok := ev.Fact.(trace.RefusedAct); ok {
			told = append(told, r)
		}
	}
	if len(told) != 1 || told[0].Act != string(act) || told[0].Target != target {
		f.t.Errorf("events %+v, want one of %s %q", told, act, target)
	}
	requests, err := f.store.Approvals(context.Background(), id)
	if err != nil || len(requests) != 1 || requests[0].Verdict != store.Deny || !requests[0].PerformedAt.IsZero() || requests[0].Reason == "" || len(requests[0].Remember) > 0 {
		f.t.Errorf("requests %+v, %v, want one that was denied with a reason", requests, err)
	}
	for _, e := range f.decisions(id) {
		if e.Decision == "approve" {
			f.t.Errorf("a decision says approve: %+v", e)
		}
	}
}

func TestAChangeThatCannotBeMadeIsRefusedAndNothingRuns(t *testing.T) {
	type args = map[string]any
	p := new(probe)
	other := "other"
	for _, tc := range []struct {
		name    string
		call    scripted.Turn
		act     policy.Act
		asked   string
		target  string
		content *string
		into    string
	}{
		{"a command", command("sh", "-c", "echo x > ran"), policy.Exec, "sh -c echo x > ran", "true", nil, "true"},
		{"a command line", shellCall("echo x > ran"), policy.Exec, "echo x > ran", "true", nil, "true"},
		{"a line that is left running", startCall("echo x > ran"), policy.Exec, "echo x > ran", "true", nil, "true"},
		{"a git tool", scripted.Call("git_add", args{"paths": []string{"a"}}), policy.Write, ".git", "b", nil, "b"},
		{"the checker", scripted.Call("check", nil), policy.Exec, "sh -c echo x > ran", "true", nil, "true"},
		{"a registered tool", scripted.Call("probe", nil), policy.Exec, "probe", "note", nil, "note"},
		{"the arguments of a registered tool", scripted.Call("probe", nil), policy.Exec, "probe", "", &other, "other content"},
		{"a content for a reader", readCall("a"), policy.Read, "a", "", &other, "other content"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.git(".", "init", "-q")
			f.write("a", "one\n")
			m := f.script(tc.call, scripted.Say("I see"))
			f.host.Policy, f.host.Approver = policy.Default().Layer("test").AskRead("a").AllowRead("*").AllowExec("git").AllowWrite("ran"), changing(tc.target, tc.content)
			if tc.name == "a git tool" { // one that asks about a write and is shown no path of its own
				f.host.Policy = policy.Default().Layer("test").AllowRead("*").AllowExec("git", "git *")
			}
			f.write("go.mod", "module x\n")
			res := f.must(trace.Finished, withTools(p.tool()), func(c *task.Contract) {
				c.Toolchain = toolchain.Overrides{"go": {Check: []string{"sh", "-c", "echo x > ran"}}}
			})
			f.refusedOnce(res.RunID, tc.act, tc.asked, tc.into)
			if f.read("ran") != "" || p.count() != 0 || f.git(".", "ls-files") != "" || len(f.handles(res.RunID)) != 0 {
				t.Error("something ran")
			}
			told := lastUser(m)
			contains(t, "what the model is told", told, "denied", "changed")
			if len(res.Remembered) != 0 {
				t.Errorf("the rules of a change that is refused are kept: %+v", res.Remembered)
			}
			again, err := f.resume(res.RunID, Resumption{})
			if err != nil || again.Outcome.Kind != trace.Finished || f.read("ran") != "" || p.count() != 0 {
				t.Errorf("a resume: %s, %v", again.Outcome, err)
			}
		})
	}
}

func TestAChangeAcrossADenyIsRefusedBeforeTheAnswerIsStored(t *testing.T) {
	for _, target := range []string{"locked/b.txt", "../b.txt", "/etc/b.txt", ".git", "sub/.git"} {
		f := newFixture(t)
		m := f.script(write("a.txt", "asked"), scripted.Say("done"))
		text := "changed"
		f.host.Policy, f.host.Approver = asking, changing(target, &text)
		res := f.must(trace.Finished)
		f.refusedOnce(res.RunID, policy.Write, target, "")
		if f.read("a.txt") != "" || f.read("locked/b.txt") != "" {
			t.Error("something was written")
		}
		contains(t, "what the model is told", lastUser(m), "may not be done")
	}
	t.Run("by another process", func(t *testing.T) {
		f := newFixture(t, write("a.txt", "asked"), scripted.Say("done"))
		f.host.Policy = asking
		f.host.Approver = approve.ApproverFunc(func(ctx context.Context, req approve.Request) (approve.Decision, error) {
			dec := approve.Approve()
			dec.Modified = &approve.Modified{Target: "locked/b.txt"}
			if won, err := DecideFrom(ctx, f.store, Decision{ID: req.ID, Decision: dec}, "attached"); err != nil || !won {
				t.Errorf("%v, %v", won, err)
			}
			<-ctx.Done()
			return approve.Approve(), nil
		})
		res := f.must(trace.Finished)
		rows, err := f.store.Approvals(context.Background(), res.RunID)
		if err != nil || len(rows) != 1 || rows[0].Verdict != store.Deny || rows[0].DecidedBy != "policy" || !rows[0].PerformedAt.IsZero() || !strings.Contains(rows[0].Reason, "locked/*") {
			t.Errorf("requests %+v, %v", rows, err)
		}
		if refusals := f.refusals(res.RunID); len(refusals) != 1 || refusals[0].Target != "locked/b.txt" || f.seen.count("refused") != 1 || f.read("a.txt") != "" {
			t.Errorf("refusals %+v, a.txt %q", refusals, f.read("a.txt"))
		}
	})
}

func TestAReadIsMadeOfThePathThatTheApproverNames(t *testing.T) {
	for _, resumed := range []bool{false, true} {
		t.Run(fmt.Sprintf("resumed %t", resumed), func(t *testing.T) {
			f := newFixture(t)
			f.write("a.txt", "CONTENT-A\n")
			f.write("b.txt", "CONTENT-B\n")
			m := f.script(readCall("a.txt"), scripted.Say("done"))
			f.host.Policy = policy.Permissive().Layer("test").AskRead("a.txt")
			f.host.Approver = changing("b.txt", nil)
			if resumed {
				f.host.Approver = deferring
				res := f.must(trace.AwaitingApproval)
				m = f.script(scripted.Say("done"))
				dec := approve.Approve()
				dec.Modified = &approve.Modified{Target: "b.txt"}
				if _, err := f.resume(res.RunID, Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: dec}}); err != nil {
					t.Fatal(err)
				}
			} else {
				f.must(trace.Finished)
			}
			text := lastUser(m) + resultsOf(m)
			if !strings.Contains(text, "CONTENT-B") || strings.Contains(text, "CONTENT-A") {
				t.Errorf("the model is told\n%s", text)
			}
		})
	}
}

func TestAHostCannotBeChangedIntoAnother(t *testing.T) {
	f := newFixture(t)
	m := scripted.New(scripted.Say("hello"))
	f.model(hosted{m, []string{"https://api.example.com/v1"}})
	f.host.Policy, f.host.Approver = open.AskNet("*"), changing("other.example.com:443", nil)
	res, err := f.run()
	if err == nil || res.Outcome.Kind != trace.Refused || len(m.Requests()) != 0 {
		t.Fatalf("%s, %v, %d requests", res.Outcome, err, len(m.Requests()))
	}
	f.refusedOnce(res.RunID, policy.Net, "api.example.com:443", "other.example.com:443")
	asked := 0
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		asked++
		return approve.Approve(), nil
	})
	if again, err := f.resume(res.RunID, Resumption{}); err != nil || again.Outcome.Kind != trace.Refused || asked != 0 || len(m.Requests()) != 0 {
		t.Errorf("a resume: %s, %v, asked %d times", again.Outcome, err, asked)
	}
}

func TestAChangeIntoWhatWasAskedIsNone(t *testing.T) {
	for name, turn := range map[string]scripted.Turn{"sh -c echo x > ran": command("sh", "-c", "echo x > ran"), "echo x > ran": shellCall("echo x > ran")} {
		f := newFixture(t, turn, scripted.Say("done"))
		f.host.Policy, f.host.Approver = policy.Default().Layer("test").AllowWrite("*"), changing(name, nil)
		res := f.must(trace.Finished)
		if f.read("ran") != "x\n" || len(f.refusals(res.RunID)) != 0 {
			t.Errorf("%s: ran is %q, refusals %+v", name, f.read("ran"), f.refusals(res.RunID))
		}
	}
}
