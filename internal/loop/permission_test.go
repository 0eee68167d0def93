package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// asking is a policy under which everything that is not a read asks.
var asking = policy.Default().Layer("test").AllowRead("*").AskWrite("*").DenyWrite("locked/*")

func TestARefusalIsInTheTraceWithRuleAndLayerAndTheRunGoesOn(t *testing.T) {
	f := newFixture(t)
	m := f.script(write("locked/a", "x"), scripted.Say("I may not"))
	res := f.must(trace.Finished)
	got := f.refusals(res.RunID)
	if len(got) != 1 || got[0].Act != "write" || got[0].Target != "locked/a" || got[0].Rule != "locked/*" || got[0].Layer != "test" || got[0].Step != 1 {
		t.Errorf("refusals: %+v", got)
	}
	if f.seen.count("refused") != 1 {
		t.Errorf("events: %v", f.seen.kinds())
	}
	told, _ := scripted.LastResult(m.Requests()[1], "write_file")
	contains(t, "what the model is told", told, "refused", "locked/a", "locked/*")
}

func TestNothingReachesOutsideTheWorkspace(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret.txt")
	if err := os.WriteFile(secret, []byte("the secret of outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		turn scripted.Turn
	}{
		{"a read by dot-dot", readCall("../" + filepath.Base(outside) + "/secret.txt")},
		{"a read by an absolute path", readCall(secret)},
		{"a read through a link", readCall("out/secret.txt")},
		{"a read through a file link", readCall("leak.txt")},
		// A rung may refuse the read or show nothing: what counts is the content.
		{"a read of a denied path", readCall("hidden/key")},
		{"a read of a denied path by another spelling", readCall("./hidden/../hidden/key")},
		{"a read of a denied path through a link inside", readCall("alias")},
		{"a write by dot-dot", write("../"+filepath.Base(outside)+"/new.txt", "x")},
		{"a write by an absolute path", write(filepath.Join(outside, "new.txt"), "x")},
		{"a write through a link", write("out/new.txt", "x")},
		{"a write through a dangling link", write("dangling", "x")},
		{"an edit through a link", scripted.Call("edit_file", map[string]string{"path": "leak.txt", "search": "secret", "replace": "x"})},
		{"a listing by dot-dot", scripted.Call("list_dir", map[string]string{"path": ".."})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(tc.turn, scripted.Say("no way"))
			f.write("hidden/key", "the hidden key")
			for link, target := range map[string]string{
				"out": outside, "leak.txt": secret, "alias": filepath.Join(f.dir, "hidden/key"), "dangling": filepath.Join(outside, "new.txt"),
			} {
				if err := os.Symlink(target, filepath.Join(f.dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			res := f.must(trace.Finished)
			if len(f.refusals(res.RunID)) == 0 {
				t.Error("the attempt is not in the trace")
			}
			if text := m.Requests()[1].User; strings.Contains(text, "the secret of outside") || strings.Contains(text, "the hidden key") {
				t.Error("the model read what it may not read")
			}
			entries, err := os.ReadDir(outside)
			if err != nil || len(entries) != 1 {
				t.Errorf("outside holds %v, %v: something was left behind", entries, err)
			}
			if b, _ := os.ReadFile(secret); string(b) != "the secret of outside" {
				t.Errorf("the file outside is now %q", b)
			}
		})
	}
}

func TestACommandDoesNotReachWhatItsToolsMayNot(t *testing.T) {
	outside := t.TempDir()
	for _, tc := range []struct {
		name string
		line string
	}{
		{"a write outside by an absolute path", "echo x > " + outside + "/new.txt"},
		{"a write outside by dot-dot", "echo x > ../" + filepath.Base(outside) + "/new.txt"},
		{"a write outside through a link", "echo x > out/new.txt"},
		{"a link out and a write through it", "ln -s " + outside + " tunnel; echo x > tunnel/new.txt"},
		{"a read of a denied path", "cat hidden/key"},
		{"a read of a denied path through a link", "ln -s hidden/key soft; cat soft"},
		{"a hard link to a denied path", "ln hidden/key hard && cat hard"},
		{"renaming the denied directory", "mv hidden seen && cat seen/key"},
		{"the environment of the host", "env | grep HARNESS_TEST_API_KEY && echo READ"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("HARNESS_TEST_API_KEY", "the key of the host")
			f := newFixture(t)
			m := f.script(command("sh", "-c", tc.line), scripted.Say("no way"))
			f.write("hidden/key", "the hidden key")
			if err := os.Symlink(outside, filepath.Join(f.dir, "out")); err != nil {
				t.Fatal(err)
			}
			res := f.must(trace.Finished)
			if a := f.applied(res.RunID); a == "" || strings.Contains(a, "floor") {
				t.Skipf("no rung of this host confines files: %s", a)
			}
			got, _ := scripted.LastResult(m.Requests()[1], "exec")
			for _, leak := range []string{"the hidden key", "the key of the host", "READ\n"} {
				if strings.Contains(got, leak) {
					t.Errorf("the command read it:\n%s", got)
				}
			}
			if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
				t.Errorf("outside holds %v, %v: something was left behind", entries, err)
			}
			events, err := store.Collect(f.store.SandboxEvents(context.Background(), res.RunID))
			if err != nil || len(events) < 2 {
				t.Errorf("the command is not in the trace: %+v, %v", events, err)
			}
		})
	}
}

// applied is the backend that the run recorded.
func (f *fixture) applied(id trace.RunID) string {
	f.t.Helper()
	events, err := store.Collect(f.store.SandboxEvents(context.Background(), id))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == "containment" {
			return e.Backend
		}
	}
	return ""
}

func TestWhatAsksIsPutToTheApproverOnce(t *testing.T) {
	var asked []approve.Request
	f := newFixture(t, write("a.txt", "hello"), scripted.Say("done"))
	f.host.Policy = asking
	f.host.Approver = approve.ApproverFunc(func(_ context.Context, req approve.Request) (approve.Decision, error) {
		asked = append(asked, req)
		return approve.Approve(), nil
	})
	res := f.must(trace.Finished)
	if len(asked) != 1 {
		t.Fatalf("asked %d times", len(asked))
	}
	r := asked[0]
	if r.Act != policy.Write || r.Target != "a.txt" || r.Tool != "write_file" || r.Rule != "*" || r.Layer != "test" || r.Goal != "do what is asked" || r.RunID != res.RunID || r.Step != 1 || r.ID == 0 {
		t.Errorf("request: %+v", r)
	}
	contains(t, "the content that is shown", r.Content, "hello")
	if f.read("a.txt") != "hello" {
		t.Error("the approved write did not happen")
	}
	want := []string{"approve approver"}
	var got []string
	for _, e := range f.decisions(res.RunID) {
		got = append(got, e.Decision+" "+e.Source)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

func TestADenialIsAnObservationWithTheReason(t *testing.T) {
	f := newFixture(t)
	m := f.script(write("a.txt", "x"), scripted.Say("so be it"))
	f.host.Policy = asking
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		return approve.Deny("not on a Friday"), nil
	})
	f.must(trace.Finished)
	told, _ := scripted.LastResult(m.Requests()[1], "write_file")
	contains(t, "what the model is told", told, "denied", "not on a Friday")
	if f.read("a.txt") != "" {
		t.Error("a denied write happened")
	}
}

func TestACommandIsOneQuestion(t *testing.T) {
	n := 0
	f := newFixture(t, command("sh", "-c", "true"), scripted.Say("done"))
	f.host.Policy = policy.Default()
	f.host.Approver = approve.ApproverFunc(func(_ context.Context, req approve.Request) (approve.Decision, error) {
		n++
		if req.Target != "sh -c true" || len(req.Argv) != 3 {
			t.Errorf("request %+v", req)
		}
		return approve.Approve(), nil
	})
	f.must(trace.Finished)
	if n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestARememberedRuleAnswersTheNextAskButNoDeny(t *testing.T) {
	n := 0
	f := newFixture(t, write("a.txt", "1"), write("b.txt", "2"), write("locked/c", "3"), scripted.Say("done"))
	f.host.Policy = asking
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		n++
		return approve.Approve(policy.Rule{Act: policy.Write, Effect: policy.Allow, Pattern: "*"}), nil
	})
	res := f.must(trace.Finished)
	if n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
	if f.read("a.txt") != "1" || f.read("b.txt") != "2" || f.read("locked/c") != "" {
		t.Errorf("files: %q %q %q", f.read("a.txt"), f.read("b.txt"), f.read("locked/c"))
	}
	if len(res.Remembered) != 1 || res.Remembered[0].Pattern != "*" {
		t.Errorf("remembered: %+v", res.Remembered)
	}
}

func TestAnApproverMayChangeAWriteButNotPastADeny(t *testing.T) {
	const changed = "$& $1 ${n} $$ \\1 ’ “ %s {{.}}" // data, never a template
	to := func(path string) approve.Approver {
		content := changed
		return approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
			d := approve.Approve()
			d.Modified = &approve.Modified{Target: path, Content: &content}
			return d, nil
		})
	}
	f := newFixture(t, write("a.txt", "x"), scripted.Say("done"))
	f.host.Policy, f.host.Approver = asking, to("b.txt")
	res := f.must(trace.Finished)
	if f.read("a.txt") != "" || f.read("b.txt") != changed {
		t.Errorf("a.txt %q, b.txt %q", f.read("a.txt"), f.read("b.txt"))
	}
	performed := ""
	for _, e := range f.decisions(res.RunID) {
		performed += e.Performed
	}
	if performed != "b.txt" {
		t.Errorf("performed %q is on record, want b.txt", performed)
	}

	f = newFixture(t, write("a.txt", "x"), scripted.Say("done"))
	f.host.Policy, f.host.Approver = asking, to("locked/b.txt")
	res = f.must(trace.Finished)
	if f.read("locked/b.txt") != "" || len(f.refusals(res.RunID)) != 1 {
		t.Errorf("an approval crossed a deny: %q, %+v", f.read("locked/b.txt"), f.refusals(res.RunID))
	}
}

func TestAChangedCommandRunsNothing(t *testing.T) {
	f := newFixture(t)
	m := f.script(command("sh", "-c", "echo x > ran.txt"), scripted.Say("done"))
	f.host.Policy = policy.Default().Layer("test").AllowWrite("*")
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		d := approve.Approve()
		d.Modified = &approve.Modified{Target: "true"}
		return d, nil
	})
	f.must(trace.Finished)
	if f.read("ran.txt") != "" {
		t.Error("the command ran although the approver changed it")
	}
	told, _ := scripted.LastResult(m.Requests()[1], "exec")
	contains(t, "what the model is told", told, "denied", "cannot be changed")
}

func TestAnApproverThatPanicsOrFailsDefers(t *testing.T) {
	for name, a := range map[string]approve.Approver{
		"panics": approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { panic("boom") }),
		"fails": approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
			return approve.Approve(), errors.New("no line")
		}),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, write("a.txt", "x"))
			f.host.Policy, f.host.Approver = asking, a
			res := f.must(trace.AwaitingApproval)
			if f.read("a.txt") != "" {
				t.Error("the write happened")
			}
			if info := f.info(res.RunID); info.Status != trace.StatusPaused {
				t.Errorf("status %s", info.Status)
			}
		})
	}
}

// deferring leaves every question for later.
var deferring = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Defer(), nil })

func TestADeferredCallIsPerformedOnResumeAsTheToolItWas(t *testing.T) {
	counter := new(probe)
	for _, tc := range []struct {
		name  string
		turn  scripted.Turn
		check func(t *testing.T, f *fixture)
	}{
		{"write_file", write("a.txt", "new"), func(t *testing.T, f *fixture) {
			if got := f.read("a.txt"); got != "new" {
				t.Errorf("a.txt is %q", got)
			}
		}},
		{"edit_file", scripted.Call("edit_file", map[string]string{"path": "a.txt", "search": "two", "replace": "2"}), func(t *testing.T, f *fixture) {
			if got := f.read("a.txt"); got != "one\n2\nthree\n" {
				t.Errorf("a.txt is %q: an edit must edit", got)
			}
		}},
		{"patch_file", scripted.Call("patch_file", map[string]string{"path": "a.txt", "patch": "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"}), func(t *testing.T, f *fixture) {
			if got := f.read("a.txt"); got != "one\n2\nthree\n" {
				t.Errorf("a.txt is %q: a patch must be applied", got)
			}
		}},
		{"exec", command("sh", "-c", "echo ran >> log.txt"), func(t *testing.T, f *fixture) {
			if got := f.read("log.txt"); got != "ran\n" {
				t.Errorf("log.txt is %q: the command must run once", got)
			}
			if _, err := os.Stat(filepath.Join(f.dir, "sh -c echo ran >> log.txt")); err == nil {
				t.Error("a file is named after the command")
			}
		}},
		{"a registered tool", scripted.Call("probe", nil), func(t *testing.T, f *fixture) {
			if n := counter.count(); n != 1 {
				t.Errorf("called %d times", n)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.turn, scripted.Say("never asked before the decision"))
			f.host.Policy, f.host.Approver = asking, deferring
			f.write("a.txt", "one\ntwo\nthree\n")
			before := f.read("a.txt")
			res := f.must(trace.AwaitingApproval, withTools(counter.tool()))
			if res.Outcome.RequestID == 0 || res.Outcome.Steps != 1 {
				t.Fatalf("%s", res.Outcome)
			}
			if f.read("a.txt") != before || f.read("log.txt") != "" {
				t.Fatal("something happened before the decision")
			}
			if sum, err := f.store.RunSummary(context.Background(), res.RunID); sum != nil || err != nil {
				t.Errorf("a paused run has a summary: %+v, %v", sum, err)
			}

			waiting, err := f.resume(res.RunID, Resumption{})
			if err != nil || waiting.Outcome != res.Outcome {
				t.Errorf("a resume without a decision: %s, %v", waiting.Outcome, err)
			}

			m := f.script(scripted.Say("done"))
			r := Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()}}
			r.Defaults.Tools = tool.Toolbox{counter.tool()}
			end, err := f.resume(res.RunID, r)
			if err != nil || end.Outcome.Kind != trace.Finished {
				t.Fatalf("resume: %s, %v", end.Outcome, err)
			}
			tc.check(t, f)
			if len(m.Requests()) != 1 || len(m.Requests()[0].Messages) < 3 {
				t.Fatalf("the model was asked %d times", len(m.Requests()))
			}
			if got := len(f.steps(res.RunID)); got != 2 {
				t.Errorf("%d steps, want the asking one and the answer", got)
			}

			_, err = f.resume(res.RunID, r)
			var re *store.ResumeError
			if err != nil && !errors.As(err, &re) {
				t.Errorf("deciding twice: %v", err)
			}
			tc.check(t, f)
		})
	}
}

// checkRequest holds the row of an approved request against what became of it.
func (f *fixture) checkRequest(id trace.RequestID, changed bool) {
	f.t.Helper()
	row, err := f.store.Pending(context.Background(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	switch {
	case !changed && (row.Verdict != store.Approve || row.PerformedAt.IsZero()):
		f.t.Errorf("an act that was carried out is recorded as %+v", row)
	case changed && (row.Verdict != store.Deny || row.DecidedBy != "binding" || !strings.Contains(row.Reason, "has changed since") || !row.PerformedAt.IsZero()):
		f.t.Errorf("an approval that was for something else is recorded as %+v", row)
	}
}

func TestAnApprovalIsForWhatWasLookedAt(t *testing.T) {
	script := command("sh", "deploy.sh")
	for _, tc := range []struct {
		name   string
		turn   scripted.Turn
		change func(f *fixture)
		ran    func(f *fixture) bool
	}{
		{"a script that is rewritten", script, func(f *fixture) { f.write("deploy.sh", "echo other > ran.txt\n") }, func(f *fixture) bool { return f.read("ran.txt") != "" }},
		{"a file that a person changes", write("plan.md", "the agent's\n"), func(f *fixture) { f.write("plan.md", "a person's\n") }, func(f *fixture) bool { return f.read("plan.md") == "the agent's\n" }},
		{"a file that comes to be", write("new.md", "the agent's\n"), func(f *fixture) { f.write("new.md", "a person's\n") }, func(f *fixture) bool { return f.read("new.md") == "the agent's\n" }},
	} {
		for _, changed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, changed %v", tc.name, changed), func(t *testing.T) {
				f := newFixture(t, tc.turn)
				f.host.Policy, f.host.Approver = asking, deferring
				f.write("deploy.sh", "echo right > ran.txt\n")
				f.write("plan.md", "old\n")
				res := f.must(trace.AwaitingApproval)
				if changed {
					tc.change(f)
				}
				m := f.script(scripted.Say("I see"))
				end, err := f.resume(res.RunID, Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()}})
				if err != nil || end.Outcome.Kind != trace.Finished {
					t.Fatalf("%s, %v", end.Outcome, err)
				}
				if got := tc.ran(f); got == changed {
					t.Errorf("performed = %v", got)
				}
				if changed {
					contains(t, "what the model is told", lastUser(m), "has changed since")
				}
				f.checkRequest(res.Outcome.RequestID, changed)
			})
		}
	}
	t.Run("also while the approver thinks", func(t *testing.T) {
		f := newFixture(t, script, scripted.Say("I see"))
		f.host.Policy = asking
		f.write("deploy.sh", "echo right > ran.txt\n")
		f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
			f.write("deploy.sh", "echo other > ran.txt\n")
			return approve.Approve(), nil
		})
		res := f.must(trace.Finished)
		if f.read("ran.txt") != "" {
			t.Error("what ran is not what was approved")
		}
		rows, err := f.store.Approvals(context.Background(), res.RunID)
		if err != nil || len(rows) != 1 {
			t.Fatalf("requests %+v, %v", rows, err)
		}
		f.checkRequest(rows[0].ID, true)
	})
}

func TestADeferredCallThatIsDeniedEndsTheRun(t *testing.T) {
	f := newFixture(t, write("a.txt", "x"))
	f.host.Policy, f.host.Approver = asking, deferring
	res := f.must(trace.AwaitingApproval)
	m := f.script(scripted.Say("never"))
	end, err := f.resume(res.RunID, Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Deny("no")}})
	if err != nil || end.Outcome.Kind != trace.Denied || len(m.Requests()) != 0 {
		t.Errorf("%s, %v, %d completions", end.Outcome, err, len(m.Requests()))
	}
	if f.read("a.txt") != "" {
		t.Error("the write happened")
	}
}

func TestAPauseGrantsNoImmunity(t *testing.T) {
	for _, attached := range []bool{false, true} {
		f := newFixture(t, write("a.txt", "x"))
		f.host.Policy, f.host.Approver = asking, deferring
		res := f.must(trace.AwaitingApproval)
		m := f.script(scripted.Say("never"))
		stricter := asking.Layer("later").DenyWrite("a.txt")
		d := Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()}
		r := Resumption{Policy: &stricter, Decision: &d}
		if attached { // decided by another process, while nobody drove the run
			if won, err := DecideFrom(context.Background(), f.store, d, "attached"); err != nil || !won {
				t.Fatal(won, err)
			}
			r.Decision = nil
		}
		end, err := f.resume(res.RunID, r)
		if err != nil || end.Outcome.Kind != trace.Denied || len(m.Requests()) != 0 {
			t.Fatalf("%s, %v, %d requests, want it denied without another step", end.Outcome, err, len(m.Requests()))
		}
		refusals := f.refusals(res.RunID)
		if f.read("a.txt") != "" || len(refusals) != 1 || refusals[0].Layer != "later" || f.seen.count("refused") != 1 {
			t.Errorf("a.txt %q, refusals %+v", f.read("a.txt"), refusals)
		}
		row, err := f.store.Pending(context.Background(), d.ID)
		if err != nil || row.Verdict != store.Deny || row.DecidedBy != "policy" || !strings.Contains(row.Reason, "later") || !row.PerformedAt.IsZero() {
			t.Errorf("the request is recorded as %+v, %v", row, err)
		}
		// It stays so, also under the policy of before.
		again, err := f.resume(res.RunID, Resumption{Policy: &asking})
		if err != nil || again.Outcome.Kind != trace.Denied || f.read("a.txt") != "" {
			t.Errorf("resumed once more: %s, %v, a.txt %q", again.Outcome, err, f.read("a.txt"))
		}
	}
}

func TestCallsBehindAPauseAreNotRunAndAreToldSo(t *testing.T) {
	f := newFixture(t, scripted.Calls(
		scripted.Tool("read_file", map[string]string{"path": "a.txt"}),
		scripted.Tool("write_file", map[string]string{"path": "b.txt", "content": "x"}),
		scripted.Tool("write_file", map[string]string{"path": "c.txt", "content": "y"}),
	))
	f.host.Policy, f.host.Approver = asking, deferring
	f.write("a.txt", "first")
	res := f.must(trace.AwaitingApproval)
	m := f.script(scripted.Say("done"))
	if _, err := f.resume(res.RunID, Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()}}); err != nil {
		t.Fatal(err)
	}
	if f.read("b.txt") != "x" || f.read("c.txt") != "" {
		t.Errorf("b.txt %q, c.txt %q", f.read("b.txt"), f.read("c.txt"))
	}
	results := map[string]string{}
	for _, msg := range m.Requests()[0].Messages {
		for _, r := range msg.Results {
			results[r.CallID] = r.Content
		}
	}
	if len(results) != 3 {
		t.Fatalf("%d results, want 3", len(results))
	}
	contains(t, "the first result", results["1-0"], "first")
	contains(t, "the second result", results["1-1"], "b.txt")
	contains(t, "the third result", results["1-2"], "not executed")
}

func TestAnotherProcessMayDecideWhileTheApproverThinks(t *testing.T) {
	f := newFixture(t, write("a.txt", "x"), scripted.Say("done"))
	f.host.Policy = asking
	f.host.Approver = approve.ApproverFunc(func(ctx context.Context, req approve.Request) (approve.Decision, error) {
		won, err := f.store.ResolvePending(ctx, store.ApprovalDecision{ID: req.ID, Verdict: store.Approve, By: "attached"})
		if err != nil || !won {
			t.Errorf("attached decision: %v, %v", won, err)
		}
		<-ctx.Done() // thinks until somebody else has decided
		return approve.Deny("too late"), nil
	})
	res := f.must(trace.Finished)
	if f.read("a.txt") != "x" {
		t.Error("the attached approval was not used")
	}
	if d := f.decisions(res.RunID); len(d) != 1 || d[0].Source != "attached" {
		t.Errorf("decisions: %+v", d)
	}
}

func TestOfTwoAnswersExactlyOneLands(t *testing.T) {
	for range 20 {
		f := newFixture(t, write("a.txt", "x"), scripted.Say("done"))
		f.host.Policy = asking
		var wg sync.WaitGroup
		f.host.Approver = approve.ApproverFunc(func(ctx context.Context, req approve.Request) (approve.Decision, error) {
			wg.Go(func() {
				_, _ = f.store.ResolvePending(context.Background(), store.ApprovalDecision{ID: req.ID, Verdict: store.Deny, By: "attached", Reason: "no"})
			})
			return approve.Approve(), nil
		})
		res := f.must(trace.Finished)
		wg.Wait()
		d := f.decisions(res.RunID)
		if len(d) != 1 {
			t.Fatalf("%d decisions", len(d))
		}
		if (d[0].Decision == "approve") != (f.read("a.txt") == "x") {
			t.Fatalf("decided %s, and the file is %q", d[0].Decision, f.read("a.txt"))
		}
	}
}

func approveAll() approve.Decision { return approve.Approve() }

// hosted is a scripted provider that claims to dial somewhere.
type hosted struct {
	*scripted.Model
	urls []string
}

func (h hosted) Endpoints() []string { return h.urls }

// Who is told that a provider cannot be asked learns whether a rule or a person said
// no, and in the second case why.
func TestADenialOfTheProvidersHostIsNoRefusalByARule(t *testing.T) {
	const url = "https://api.example.com/v1"
	said := approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		return approve.Deny("not at night"), nil
	})
	for _, tc := range []struct {
		name     string
		pol      policy.Policy
		approver approve.Approver
		want     policy.RefusedError
	}{
		{"by a person", open.AskNet("*"), said, policy.RefusedError{Denied: true, Reason: "not at night"}},
		{"by a rule", open.DenyNet("api.example.com"), said, policy.RefusedError{Rule: "api.example.com", Layer: "test"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.model(hosted{scripted.New(scripted.Say("never asked")), []string{url}})
			f.host.Policy, f.host.Approver = tc.pol, tc.approver
			res, err := f.run()
			var refused *policy.RefusedError
			if res.Outcome.Kind != trace.Refused || !errors.As(err, &refused) {
				t.Fatalf("%s, %v", res.Outcome, err)
			}
			tc.want.Act, tc.want.Target = policy.Net, "api.example.com:443"
			if *refused != tc.want {
				t.Errorf("refused %+v, want %+v", *refused, tc.want)
			}
		})
	}
}

func TestTheProvidersHostIsAskedAboutBeforeTheFirstCompletion(t *testing.T) {
	const url = "https://api.example.com/v1"
	for _, tc := range []struct {
		name     string
		pol      policy.Policy
		approver approve.Approver
		urls     []string
		want     trace.OutcomeKind
		err      bool
	}{
		{"it needs no rule of its own", open, approve.None, []string{url}, trace.Finished, false},
		{"a deny on it holds", open.DenyNet("api.example.com"), approve.All, []string{url}, trace.Refused, true},
		{"an ask is put to the approver", open.AskNet("*"), approve.All, []string{url}, trace.Finished, false},
		{"a denial by the approver ends the run", open.AskNet("*"), approve.None, []string{url}, trace.Refused, true},
		{"a deferral waits", open.AskNet("*"), deferring, []string{url}, trace.AwaitingApproval, false},
		{"every host of a chain is checked", open.DenyNet("second.example.com"), approve.All, []string{url, "https://second.example.com"}, trace.Refused, true},
		{"a host that cannot be read is refused", open, approve.All, []string{"not a url"}, trace.Refused, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := scripted.New(scripted.Say("hello"))
			f.model(hosted{m, tc.urls})
			f.host.Policy, f.host.Approver = tc.pol, tc.approver
			res, err := f.run()
			if res.Outcome.Kind != tc.want || (err != nil) != tc.err {
				t.Fatalf("%s, %v", res.Outcome, err)
			}
			if tc.err && !errors.Is(err, policy.ErrRefused) {
				t.Errorf("%v is no refusal", err)
			}
			if asked := len(m.Requests()); (asked > 0) != (tc.want == trace.Finished) {
				t.Errorf("%d completions", asked)
			}
			if tc.want == trace.Refused {
				again, err := f.resume(res.RunID, Resumption{})
				if err != nil || again.Outcome.Kind != trace.Refused {
					t.Errorf("resume: %s, %v: a refused run is reported", again.Outcome, err)
				}
			}
			if tc.want == trace.AwaitingApproval {
				end, err := f.resume(res.RunID, Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()}})
				if err != nil || end.Outcome.Kind != trace.Finished {
					t.Errorf("resume with approval: %s, %v", end.Outcome, err)
				}
			}
		})
	}
}
