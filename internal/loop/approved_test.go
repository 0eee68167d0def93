package loop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// approving decides the request that res waits for.
func approving(res *trace.Result, d approve.Decision) Resumption {
	return Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: d}}
}

func TestAWriteThatIsApprovedLaterLeavesWhatAnyWriteLeaves(t *testing.T) {
	const before = "one\ntwo\nthree\n"
	for _, tc := range []struct {
		tool string
		turn scripted.Turn
	}{
		{"write_file", write("a.txt", "one\n2\nthree\n")},
		{"edit_file", edit("a.txt", "two", "2")},
		{"patch_file", scripted.Call("patch_file", map[string]string{"path": "a.txt", "patch": "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"})},
	} {
		t.Run(tc.tool, func(t *testing.T) {
			f := newFixture(t, tc.turn)
			f.host.Policy, f.host.Approver = asking, deferring
			f.write("a.txt", before)
			res := f.must(trace.AwaitingApproval)
			if rows := f.edits(res.RunID); len(rows) != 0 {
				t.Errorf("edits before the decision: %+v", rows)
			}
			m := f.script(scripted.Say("done"))
			if end, err := f.resume(res.RunID, approving(res, approve.Approve())); err != nil || end.Outcome.Kind != trace.Finished {
				t.Fatalf("%s, %v", end.Outcome, err)
			}
			rows := f.edits(res.RunID)
			if len(rows) != 1 || rows[0].Tool != tc.tool || rows[0].Path != "a.txt" || rows[0].Step != 1 || rows[0].Hunk == "" {
				t.Errorf("edits: %+v", rows)
			}
			point, err := f.store.RestorePointOf(context.Background(), res.RunID, "a.txt")
			if err != nil || string(point.Before) != before {
				t.Errorf("restore point %+v, %v", point, err)
			}
			told, _ := scripted.LastResult(m.Requests()[0], tc.tool)
			contains(t, "the result of the call", told, "a.txt")
			f.rewind(res.RunID, Undo{All: true})
			if got := f.read("a.txt"); got != before {
				t.Errorf("after the undo a.txt is %q", got)
			}
			f.sound()
		})
	}
}

func TestALaterApprovalMayMoveAWriteButNotPastADeny(t *testing.T) {
	for _, tc := range []struct {
		to   string
		want trace.OutcomeKind
	}{{"b.txt", trace.Finished}, {"locked/b.txt", trace.Denied}, {"../b.txt", trace.Denied}} {
		t.Run(tc.to, func(t *testing.T) {
			f := newFixture(t, write("a.txt", "x"))
			f.host.Policy, f.host.Approver = asking, deferring
			res := f.must(trace.AwaitingApproval)
			f.script(scripted.Say("done"))
			d := approve.Approve()
			d.Modified = &approve.Modified{Target: tc.to}
			end, err := f.resume(res.RunID, approving(res, d))
			if err != nil || end.Outcome.Kind != tc.want {
				t.Fatalf("%s, %v", end.Outcome, err)
			}
			moved := tc.want == trace.Finished
			if f.read("a.txt") != "" || (f.read(tc.to) == "x") != moved {
				t.Errorf("a.txt %q, %s %q", f.read("a.txt"), tc.to, f.read(tc.to))
			}
			if n := len(f.refusals(res.RunID)); (n == 1) == moved {
				t.Errorf("%d refusals", n)
			}
			if rows := f.edits(res.RunID); (len(rows) == 1) != moved {
				t.Errorf("edits: %+v", rows)
			}
		})
	}
}

func TestARequestIsDecidedOnce(t *testing.T) {
	f := newFixture(t, write("a.txt", "x"))
	f.host.Policy, f.host.Approver = asking, deferring
	res := f.must(trace.AwaitingApproval)
	first := Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()}
	if won, err := DecideFrom(context.Background(), f.store, first, "attached"); err != nil || !won {
		t.Fatal(won, err)
	}
	if won, err := DecideFrom(context.Background(), f.store, Decision{ID: first.ID, Decision: approve.Deny("no")}, "attached"); err != nil || won {
		t.Errorf("a second decision from elsewhere: %t, %v", won, err)
	}
	m := f.script(scripted.Say("done"))
	_, err := f.resume(res.RunID, approving(res, approve.Deny("no")))
	var re *store.ResumeError
	if !errors.As(err, &re) || re.Reason != store.AlreadyDecided || len(m.Requests()) != 0 || f.read("a.txt") != "" {
		t.Errorf("a second decision: %v after %d requests", err, len(m.Requests()))
	}
	if end, err := f.resume(res.RunID, Resumption{}); err != nil || end.Outcome.Kind != trace.Finished || f.read("a.txt") != "x" {
		t.Errorf("%s, %v, a.txt %q: the first decision counts", end.Outcome, err, f.read("a.txt"))
	}
}

func TestAnAskAmongReadsLetsTheEarlierOnesStandAndStartsNoneBehindIt(t *testing.T) {
	var mu sync.Mutex
	var ran []int
	look := tool.New("probe", "Looks.", func(_ context.Context, in struct {
		N int `json:"n"`
	}) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		ran = append(ran, in.N)
		return "looked", nil
	}, tool.ReadOnly)
	at := func(n int) provider.ToolCall { return scripted.Tool("probe", map[string]int{"n": n}) }
	f := newFixture(t, scripted.Calls(
		at(1), at(2),
		scripted.Tool("read_file", map[string]string{"path": "asked/x"}),
		at(4), at(5),
	))
	f.host.Policy, f.host.Approver = open.Layer("more").AskRead("asked/*"), deferring
	f.write("asked/x", "what was asked about")
	res := f.must(trace.AwaitingApproval, withTools(look))
	slices.Sort(ran)
	if diff := cmp.Diff([]int{1, 2}, ran); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
	m := f.script(scripted.Say("done"))
	r := approving(res, approve.Approve())
	r.Defaults = task.Contract{Tools: tool.Toolbox{look}}
	if end, err := f.resume(res.RunID, r); err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	results := map[string]string{}
	for _, msg := range m.Requests()[0].Messages {
		for _, r := range msg.Results {
			results[r.CallID] = r.Content
		}
	}
	for id, want := range map[string]string{"1-0": "looked", "1-1": "looked", "1-2": "what was asked about", "1-3": "not executed", "1-4": "not executed"} {
		contains(t, "the result of call "+id, results[id], want)
	}
	if len(ran) != 2 {
		t.Errorf("ran %v: what stood behind the ask is not carried over", ran)
	}
}

func TestARuleThatWasRememberedAnswersTheSameCallAgain(t *testing.T) {
	asked := 0
	f := newFixture(t, command("sh", "tick.sh"), command("sh", "tick.sh"), scripted.Say("done"))
	f.write("tick.sh", "echo x >> log\n")
	f.host.Policy = asking
	f.host.Approver = approve.ApproverFunc(func(_ context.Context, r approve.Request) (approve.Decision, error) {
		asked++
		rule, ok := policy.RuleFor(policy.Need{Act: r.Act, Target: r.Target, Argv: r.Argv}, policy.Allow)
		if !ok {
			t.Errorf("no rule names %q", r.Target)
		}
		return approve.Approve(rule), nil
	})
	f.must(trace.Finished)
	if asked != 1 || f.read("log") != "x\nx\n" {
		t.Errorf("asked %d times, log %q", asked, f.read("log"))
	}
}

// stuckAt drives a run whose approver never answers, until its context ends.
func (f *fixture) stuckAt(turn scripted.Turn) trace.RunID {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.script(turn)
	f.host.Approver = approve.ApproverFunc(func(ctx context.Context, _ approve.Request) (approve.Decision, error) {
		cancel()
		<-ctx.Done()
		return approve.Defer(), ctx.Err()
	})
	res, err := Run(ctx, f.host, f.contract(), nil)
	if !errors.Is(err, context.Canceled) {
		f.t.Fatalf("%s, %v", res.Outcome, err)
	}
	return res.RunID
}

func (f *fixture) requests(id trace.RunID) []store.PendingApproval {
	f.t.Helper()
	rows, err := f.store.Approvals(context.Background(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return rows
}

func TestACallThatIsMadeAgainTakesUpItsOpenRequest(t *testing.T) {
	for _, tc := range []struct {
		name    string
		again   scripted.Turn
		between func(f *fixture)
		same    bool
	}{
		{"the same call", write("a.txt", "x"), func(*fixture) {}, true},
		{"another content", write("a.txt", "y"), func(*fixture) {}, false},
		{"the same call about another file", write("a.txt", "x"), func(f *fixture) { f.write("a.txt", "a person's") }, false},
		{"no call that asks", readCall("b.txt"), func(*fixture) {}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.host.Policy = asking
			id := f.stuckAt(write("a.txt", "x"))
			if rows := f.requests(id); len(rows) != 1 || rows[0].Verdict != store.Undecided {
				t.Fatalf("requests %+v", rows)
			}
			tc.between(f)
			f.host.Approver = approve.ApproverFunc(func(_ context.Context, r approve.Request) (approve.Decision, error) {
				if (r.ID == 1) != tc.same {
					t.Errorf("the approver is shown request %d", r.ID)
				}
				if open, err := f.store.UnresolvedApprovals(context.Background(), r.RunID); err != nil || len(open) != 1 || open[0].ID != r.ID {
					t.Errorf("others are shown %+v, %v", open, err)
				}
				return approve.Approve(), nil
			})
			f.script(tc.again, scripted.Say("done"))
			if end, err := f.resume(id, Resumption{}); err != nil || end.Outcome.Kind != trace.Finished {
				t.Fatalf("%s, %v", end.Outcome, err)
			}
			rows := f.requests(id)
			if tc.same {
				if len(rows) != 1 || rows[0].Verdict != store.Approve {
					t.Errorf("requests %+v", rows)
				}
				return
			}
			if rows[0].Verdict != store.Deny || rows[0].DecidedBy != "replay" || !rows[0].PerformedAt.IsZero() {
				t.Errorf("what nobody waits for is %+v", rows[0])
			}
			if open, err := f.store.UnresolvedApprovals(context.Background(), id); err != nil || len(open) != 0 {
				t.Errorf("open: %+v, %v", open, err)
			}
		})
	}
}

func TestTheHostOfTheProviderIsAskedAboutThroughOneRequest(t *testing.T) {
	f := newFixture(t)
	f.host.Policy = open.AskNet("*")
	ctx, cancel := context.WithCancel(context.Background())
	f.model(hosted{scripted.New(scripted.Say("never")), []string{"https://api.example.com/v1"}})
	f.host.Approver = approve.ApproverFunc(func(ctx context.Context, _ approve.Request) (approve.Decision, error) {
		cancel()
		<-ctx.Done()
		return approve.Defer(), ctx.Err()
	})
	res, err := Run(ctx, f.host, f.contract(), nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%s, %v", res.Outcome, err)
	}
	f.model(hosted{scripted.New(scripted.Say("done")), []string{"https://api.example.com/v1"}})
	f.host.Approver = approve.All
	if end, err := f.resume(res.RunID, Resumption{}); err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	if rows := f.requests(res.RunID); len(rows) != 1 || rows[0].Verdict != store.Approve {
		t.Errorf("requests %+v", rows)
	}
}

// Somebody may answer a request that a dead drive left open while its step is being
// made again and does not ask it: nothing is done on that answer.
func TestALateYesToARequestThatIsNotPutAgainDoesNothing(t *testing.T) {
	f := newFixture(t)
	f.host.Policy = asking.AllowExec("probe")
	id := f.stuckAt(write("a.txt", "x"))
	late := tool.New("probe", "Probes.", func(ctx context.Context, _ struct{}) (string, error) {
		won, err := DecideFrom(ctx, f.store, Decision{ID: f.requests(id)[0].ID, Decision: approve.Approve()}, "attached")
		if err != nil || !won {
			t.Errorf("the late yes: %v, %v", won, err)
		}
		return "probed", nil
	}, tool.Replayable)
	f.script(scripted.Call("probe", nil), scripted.Say("done"))
	end, err := f.resume(id, Resumption{Defaults: task.Contract{Tools: tool.Toolbox{late}}})
	if err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%+v, %v", end, err)
	}
	rows := f.requests(id)
	if len(rows) != 1 || rows[0].Verdict != store.Deny || rows[0].DecidedBy != "replay" || !rows[0].PerformedAt.IsZero() || f.read("a.txt") != "" {
		t.Errorf("%+v, a.txt %q", rows, f.read("a.txt"))
	}
}

// Only a person's no is a no: a request that the run itself withdrew is put again
// when the step asks the same after all.
func TestARequestThatWasWithdrawnIsPutAgain(t *testing.T) {
	f, m := newMortal(t)
	f.host.Policy = asking
	id := f.stuckAt(write("a.txt", "x"))
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Approve(), nil })
	f.script(write("a.txt", "another text"))
	m.dieAt("insert step", 0)
	if _, err := f.resume(id, Resumption{}); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	if rows := f.requests(id); len(rows) != 2 || rows[0].Verdict != store.Deny || rows[0].DecidedBy != "replay" {
		t.Fatalf("%+v", rows)
	}
	if err := os.Remove(filepath.Join(f.dir, "a.txt")); err != nil {
		t.Fatal(err)
	}
	s := f.script(write("a.txt", "x"), scripted.Say("done"))
	if end, err := f.resume(id, Resumption{}); err != nil || end.Outcome.Kind != trace.Finished || f.read("a.txt") != "x" {
		got, _ := scripted.LastResult(s.Requests()[1], "write_file")
		t.Errorf("%+v, %v: a.txt %q, and the model is told %q", end, err, f.read("a.txt"), got)
	}
}

func TestAnApprovalThatWasTakenBackBeforeACrashIsAskedForAgain(t *testing.T) {
	f, m := newMortal(t)
	f.host.Policy = asking
	f.write("a.txt", "old")
	asked := 0
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		if asked++; asked == 1 {
			f.write("a.txt", "changed while the question was open")
		}
		return approve.Approve(), nil
	})
	f.script(write("a.txt", "x"))
	m.dieAt("insert step", 0)
	id := f.died()
	if rows := f.requests(id); len(rows) != 1 || rows[0].DecidedBy != "binding" {
		t.Fatalf("%+v", rows)
	}
	f.script(write("a.txt", "x"), scripted.Say("done"))
	if end, err := f.resume(id, Resumption{}); err != nil || end.Outcome.Kind != trace.Finished || asked != 2 {
		t.Errorf("%+v, %v: asked %d times", end, err, asked)
	}
}
