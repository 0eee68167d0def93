package loop

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/fallback"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

func plan(intents ...string) scripted.Turn { return scripted.Calls(planCall(intents...)) }

func planCall(intents ...string) provider.ToolCall {
	steps := make([]map[string]string, len(intents))
	for i, in := range intents {
		steps[i] = map[string]string{"intent": in}
	}
	return scripted.Tool("propose_plan", map[string]any{"steps": steps})
}

func deciding(vs ...approve.PlanVerdict) approve.PlanGate {
	return approve.PlanGateFunc(func(context.Context, approve.Plan) (approve.PlanVerdict, error) {
		if len(vs) == 0 {
			return approve.PlanVerdict{}, nil
		}
		v := vs[0]
		vs = vs[1:]
		return v, nil
	})
}

func (f *fixture) plans(id trace.RunID) []store.PendingPlan {
	f.t.Helper()
	rows, err := f.store.Plans(context.Background(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return rows
}

// offers reports whether a request offers the named tool.
func offers(req *provider.Request, name string) bool {
	return slices.ContainsFunc(req.Tools, func(s provider.ToolSpec) bool { return s.Name == name })
}

// contents is every file under dir with what it holds.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		out[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNothingWritesOrRunsUntilAPlanIsApproved(t *testing.T) {
	for _, tc := range []struct {
		name string
		call provider.ToolCall
		act  policy.Act
	}{
		{"a write", scripted.Tool("write_file", map[string]string{"path": "a.txt", "content": "new"}), policy.Write},
		{"an edit", scripted.Tool("edit_file", map[string]string{"path": "a.txt", "search": "old", "replace": "new"}), policy.Write},
		{"a command", scripted.Tool("exec", map[string]any{"argv": []string{"sh", "-c", "echo new > a.txt"}}), policy.Exec},
		{"a tool of the program", scripted.Tool("probe", nil), policy.Exec},
		{"a note", scripted.Tool("remember", map[string]string{"key": "k", "value": "v"}), policy.Exec},
		{"taking a note back", scripted.Tool("forget", map[string]string{"key": "k"}), policy.Exec},
		{"a reading git", scripted.Tool("git_status", nil), policy.Exec},
		{"a writing git", scripted.Tool("git_commit", map[string]any{"message": "x"}), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(scripted.Calls(tc.call), scripted.Calls(scripted.Tool("read_file", map[string]string{"path": "a.txt"}), planCall("do it")))
			f.host.PlanGate = approve.HoldPlans
			f.host.Policy = open.AllowExec("git *")
			f.write("a.txt", "old")
			before := contents(t, f.dir)
			p := new(probe)
			res := f.must(trace.AwaitingPlan, withTools(p.tool()))
			if diff := cmp.Diff(before, contents(t, f.dir)); diff != "" || p.count() != 0 {
				t.Errorf("something happened before the approval, and the tool was called %d times:\n%s", p.count(), diff)
			}
			refused := f.refusals(res.RunID)
			if len(refused) != 1 || refused[0].Layer != policy.LayerPlanGate || tc.act != "" && refused[0].Act != string(tc.act) {
				t.Errorf("refusals: %+v", refused)
			}
			if ev := facts[trace.RefusedAct](f.seen); len(ev) != 1 || ev[0].Layer != policy.LayerPlanGate {
				t.Errorf("events: %+v", ev)
			}
			told, _ := scripted.LastResult(m.Requests()[1], tc.call.Name)
			contains(t, "what the model is told", told, "propose_plan", "Nothing was done")
			if got := f.plans(res.RunID); len(got) != 1 || got[0].Step != 2 {
				t.Errorf("plans: %+v", got)
			}
		})
	}
}

func TestReadingAskingAndListingGoOnWhileAPlanIsPending(t *testing.T) {
	f := newFixture(t)
	m := f.script(scripted.Calls(
		scripted.Tool("read_file", map[string]string{"path": "a.txt"}),
		scripted.Tool("grep", map[string]string{"pattern": "old"}),
		scripted.Tool("ask_question", map[string]string{"question": "which?"}),
		scripted.Tool("todo_write", map[string]any{"items": []any{map[string]string{"text": "look", "state": "active"}}}),
	), plan("do it"))
	f.host.PlanGate, f.host.Responder = approve.HoldPlans, approve.Always("this one")
	f.write("a.txt", "old")
	res := f.must(trace.AwaitingPlan)
	if n := len(f.refusals(res.RunID)); n != 0 {
		t.Errorf("%d refusals", n)
	}
	contains(t, "the second prompt", m.Requests()[1].User, "this one", "look")
}

func TestAnApprovedPlanEndsThePlanning(t *testing.T) {
	f := newFixture(t)
	m := f.script(readCall("a.txt"), plan("look <here>", "write it"), write("b.txt", "x"), scripted.Say("done"))
	f.host.PlanGate = deciding(approve.Accept())
	f.write("a.txt", "old")
	res := f.must(trace.Finished)
	if f.read("b.txt") != "x" {
		t.Error("the write after the approval did not happen")
	}
	reqs := m.Requests()
	for i, want := range []bool{true, true, false, false} {
		if offers(reqs[i], "propose_plan") != want {
			t.Errorf("request %d offers propose_plan: %t", i+1, !want)
		}
		if last := reqs[i].Tools[len(reqs[i].Tools)-1].Name; want && last != "propose_plan" {
			t.Errorf("request %d: the last tool is %s", i+1, last)
		}
	}
	if reqs[0].System[0] != reqs[1].System[0] || reqs[2].System[0] != reqs[3].System[0] {
		t.Error("the system block changes between steps of one phase")
	}
	contains(t, "the block while planning", reqs[0].System[0], "propose_plan", "plan-gate")
	if strings.Contains(reqs[2].System[0], "propose_plan") || strings.Contains(reqs[2].System[0], "plan-gate") {
		t.Error("the block after the approval still speaks of planning")
	}
	contains(t, "the prompt after the approval", reqs[2].User, "plan approved", "1. look <here>", "2. write it")
	if n := strings.Count(reqs[3].User, "2. write it"); n != 1 {
		t.Errorf("the plan is told %d times", n)
	}
	rows := f.plans(res.RunID)
	if len(rows) != 1 || rows[0].Verdict != store.PlanApprove || rows[0].DecidedBy != "gate" || !rows[0].Delivered {
		t.Errorf("plans: %+v", rows)
	}
	want := []trace.PlanProposed{{PlanID: rows[0].ID, Steps: []trace.ProposedStep{{Intent: "look <here>"}, {Intent: "write it"}}}}
	if diff := cmp.Diff(want, facts[trace.PlanProposed](f.seen)); diff != "" {
		t.Errorf("plan_proposed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]trace.PlanDecided{{PlanID: rows[0].ID, Verdict: "approve", By: "gate"}}, facts[trace.PlanDecided](f.seen)); diff != "" {
		t.Errorf("plan_decided (-want +got):\n%s", diff)
	}
	contains(t, "the trace", f.canonical(res.RunID), "plan_proposed", "plan_decided")
}

func TestAPromptWithoutAGateSaysNothingOfPlans(t *testing.T) {
	f := newFixture(t)
	m := f.script(plan("do it"), scripted.Say("done"))
	res := f.must(trace.Finished)
	req := m.Requests()[0]
	if offers(req, "propose_plan") || strings.Contains(req.System[0], "propose_plan") {
		t.Error("a plan is offered where none is demanded")
	}
	told, _ := scripted.LastResult(m.Requests()[1], "propose_plan")
	contains(t, "what the model is told", told, "unknown tool")
	if n := len(f.plans(res.RunID)); n != 0 {
		t.Errorf("%d plans are stored", n)
	}
}

func TestTheSystemBlockAfterAnApprovalIsTheOneWithoutAGate(t *testing.T) {
	f := newFixture(t)
	m := f.script(plan("do it"), scripted.Say("done"))
	f.host.PlanGate = approve.AcceptPlans
	f.must(trace.Finished)
	g := newFixture(t)
	n := g.script(scripted.Say("done"))
	g.must(trace.Finished)
	if diff := cmp.Diff(strings.ReplaceAll(n.Requests()[0].System[0], g.dir, f.dir), m.Requests()[1].System[0]); diff != "" {
		t.Errorf("system block (-without a gate +after the approval):\n%s", diff)
	}
	if diff := cmp.Diff(n.Requests()[0].Tools, m.Requests()[1].Tools); diff != "" {
		t.Errorf("tools (-without a gate +after the approval):\n%s", diff)
	}
}

func TestARevisionIsReadAndThePlanProposedAgain(t *testing.T) {
	f := newFixture(t)
	m := f.script(plan("delete it"), plan("keep it"), write("b.txt", "x"), scripted.Say("done"))
	f.host.PlanGate = deciding(approve.Revise("delete nothing"), approve.Accept())
	res := f.must(trace.Finished)
	told, _ := scripted.LastResult(m.Requests()[1], "propose_plan")
	contains(t, "the result of the first proposal", told, "not approved", "delete nothing")
	rows := f.plans(res.RunID)
	if len(rows) != 2 || rows[0].Verdict != store.PlanRevise || rows[0].Correction != "delete nothing" || rows[1].Verdict != store.PlanApprove {
		t.Errorf("plans: %+v", rows)
	}
	contains(t, "the prompt after the approval", m.Requests()[2].User, "keep it")
}

func TestACancelledPlanEndsTheRun(t *testing.T) {
	f := newFixture(t)
	m := f.script(scripted.Calls(planCall("do it"), scripted.Tool("write_file", map[string]string{"path": "b.txt", "content": "x"})), scripted.Say("never asked"))
	f.host.PlanGate = deciding(approve.Cancel())
	res := f.must(trace.PlanRejected)
	if res.Outcome.Steps != 1 || len(m.Requests()) != 1 || len(contents(t, f.dir)) != 0 {
		t.Errorf("%s after %d requests, files %v", res.Outcome, len(m.Requests()), contents(t, f.dir))
	}
	again, err := f.resume(res.RunID, Resumption{})
	if err != nil || again.Outcome.Kind != trace.PlanRejected || len(m.Requests()) != 1 {
		t.Errorf("resume: %s, %v", again.Outcome, err)
	}
}

func TestAGateThatDoesNotDecidePausesTheRun(t *testing.T) {
	for name, g := range map[string]approve.PlanGate{
		"holds":  approve.HoldPlans,
		"panics": approve.PlanGateFunc(func(context.Context, approve.Plan) (approve.PlanVerdict, error) { panic("boom") }),
		"fails": approve.PlanGateFunc(func(context.Context, approve.Plan) (approve.PlanVerdict, error) {
			return approve.Accept(), errors.New("no line")
		}),
		"says something else": deciding(approve.PlanVerdict{Kind: "maybe"}),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(scripted.Calls(planCall("do it"), scripted.Tool("write_file", map[string]string{"path": "b.txt", "content": "x"})), scripted.Say("never asked"))
			f.host.PlanGate = g
			res := f.must(trace.AwaitingPlan)
			row := f.plans(res.RunID)[0]
			if res.Outcome.PlanID != row.ID || row.Verdict != store.PlanUndecided || f.info(res.RunID).Status != trace.StatusPaused {
				t.Errorf("%s, row %+v", res.Outcome, row)
			}
			again, err := f.resume(res.RunID, Resumption{Verdict: &Verdict{ID: row.ID}})
			if err != nil || again.Outcome != res.Outcome || len(m.Requests()) != 1 {
				t.Errorf("resume without a verdict: %s, %v", again.Outcome, err)
			}
			failed := name == "fails" || name == "panics"
			if got := strings.Contains(f.canonical(res.RunID), "plan_gate_failed"); got != failed {
				t.Errorf("a failure of the gate is in the trace: %t, want %t", got, failed)
			}
		})
	}
}

func TestAVerdictOnResume(t *testing.T) {
	for _, tc := range []struct {
		name    string
		verdict approve.PlanVerdict
		turns   []scripted.Turn
		want    trace.OutcomeKind
		offered bool
		told    []string
	}{
		{"an approval", approve.Accept(), []scripted.Turn{write("b.txt", "x"), scripted.Say("done")}, trace.Finished, false, []string{"plan approved", "1. do it"}},
		{"a revision", approve.Revise("smaller steps"), []scripted.Turn{write("b.txt", "x"), plan("small")}, trace.AwaitingPlan, true, []string{"not approved", "smaller steps"}},
		{"a cancel", approve.Cancel(), nil, trace.PlanRejected, false, nil},
	} {
		// The process that resumes may demand no plan of its own: what was begun
		// behind a gate stays behind it.
		for _, g := range []approve.PlanGate{approve.HoldPlans, nil} {
			t.Run(tc.name, func(t *testing.T) {
				f := newFixture(t)
				f.script(plan("do it"))
				f.host.PlanGate = approve.HoldPlans
				first := f.must(trace.AwaitingPlan)
				m := f.script(tc.turns...)
				f.host.PlanGate = g
				res, err := f.resume(first.RunID, Resumption{Verdict: &Verdict{ID: first.Outcome.PlanID, Verdict: tc.verdict}})
				if err != nil || res.Outcome.Kind != tc.want {
					t.Fatalf("%s, %v", res.Outcome, err)
				}
				reqs := m.Requests()
				if len(reqs) != len(tc.turns) {
					t.Errorf("%d requests, want %d", len(reqs), len(tc.turns))
				}
				if len(reqs) > 0 {
					told, _ := scripted.LastResult(reqs[0], "propose_plan")
					contains(t, "the result of the proposal", told, tc.told...)
					if offers(reqs[0], "propose_plan") != tc.offered {
						t.Errorf("propose_plan is offered: %t", !tc.offered)
					}
				}
				if written := f.read("b.txt") != ""; written != (tc.want == trace.Finished) {
					t.Errorf("written: %t", written)
				}
				if row := f.plans(first.RunID)[0]; row.DecidedBy != "human" {
					t.Errorf("row: %+v", row)
				}
			})
		}
	}
}

func TestVerdictsThatDoNotFitChangeNothing(t *testing.T) {
	f := newFixture(t, plan("do it"))
	f.host.PlanGate = approve.HoldPlans
	first := f.must(trace.AwaitingPlan)
	other := newFixture(t, plan("another run's"))
	other.store, other.host.Store, other.host.PlanGate = f.store, f.store, approve.HoldPlans
	foreign := other.must(trace.AwaitingPlan).Outcome.PlanID
	for _, tc := range []struct {
		name string
		id   trace.PlanID
		want store.ResumeReason
	}{{"unknown", 99, store.NoSuchPlan}, {"another run's", foreign, store.PlanOfOtherRun}} {
		_, err := f.resume(first.RunID, Resumption{Verdict: &Verdict{tc.id, approve.Accept()}})
		var re *store.ResumeError
		if !errors.As(err, &re) || re.Reason != tc.want {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if won, err := f.store.DecidePlan(context.Background(), planDecision(first.Outcome.PlanID, approve.Accept(), "attached")); err != nil || !won {
		t.Fatalf("attached: %t, %v", won, err)
	}
	_, err := f.resume(first.RunID, Resumption{Verdict: &Verdict{first.Outcome.PlanID, approve.Cancel()}})
	var re *store.ResumeError
	if !errors.As(err, &re) || re.Reason != store.AlreadyDecided {
		t.Errorf("a second verdict: %v", err)
	}
}

func TestAPlanThatCannotBeReadIsNotStored(t *testing.T) {
	long := make([]any, approve.PlanSteps+1)
	for i := range long {
		long[i] = map[string]string{"intent": "x"}
	}
	step := func(s map[string]any) any { return map[string]any{"steps": []any{s}} }
	for _, tc := range []struct {
		name string
		args any
		want string
	}{
		{"no steps", map[string]any{}, "steps"},
		{"an empty list", map[string]any{"steps": []any{}}, "empty"},
		{"steps that are no list", map[string]any{"steps": "x"}, "steps"},
		{"a blank intent", step(map[string]any{"intent": "  "}), "steps[0].intent"},
		{"no intent", step(map[string]any{}), "steps[0].intent"},
		{"too many steps", map[string]any{"steps": long}, "200"},
		{"an intent that is too long", step(map[string]any{"intent": strings.Repeat("x", approve.PlanIntent+1)}), "2000"},
		{"an owner that does not exist", step(map[string]any{"intent": "x", "agent": "scribe"}), `"scribe"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(scripted.Call("propose_plan", tc.args), scripted.Say("I give up"))
			f.host.PlanGate = approve.AcceptPlans
			res := f.must(trace.Finished)
			told, _ := scripted.LastResult(m.Requests()[1], "propose_plan")
			contains(t, "what the model is told", told, tc.want)
			if n := len(f.plans(res.RunID)); n != 0 {
				t.Errorf("%d plans are stored", n)
			}
			if !offers(m.Requests()[1], "propose_plan") {
				t.Error("the planning ended")
			}
		})
	}
	f := newFixture(t)
	f.script(scripted.Call("propose_plan", step(map[string]any{"intent": " do it ", "agent": " "})), scripted.Say("done"))
	f.host.PlanGate = approve.AcceptPlans
	if rows := f.plans(f.must(trace.Finished).RunID); len(rows) != 1 || string(rows[0].Steps) != `[{"intent":"do it"}]` {
		t.Errorf("a blank owner is none: %+v", rows)
	}
}

func TestWhatIsAskedTogetherWithAPlanIsAskedWithoutOne(t *testing.T) {
	f := newFixture(t)
	m := f.script(scripted.Calls(
		planCall("do it"),
		scripted.Tool("write_file", map[string]string{"path": "b.txt", "content": "x"}),
		planCall("do something else"),
	), write("c.txt", "x"), scripted.Say("done"))
	f.host.PlanGate = approve.AcceptPlans
	res := f.must(trace.Finished)
	if f.read("b.txt") != "" || f.read("c.txt") != "x" {
		t.Errorf("b.txt %q, c.txt %q", f.read("b.txt"), f.read("c.txt"))
	}
	told, _ := scripted.LastResult(m.Requests()[1], "write_file")
	contains(t, "the write in the same completion", told, "No plan is approved yet")
	if n := len(f.plans(res.RunID)); n != 1 {
		t.Errorf("%d plans: a second one in the same completion is not available", n)
	}
	contains(t, "the prompt", m.Requests()[1].User, "unknown tool propose_plan")
}

func TestTheGateOfTheWorkDoesNotJudgeAPlan(t *testing.T) {
	// The criterion would run a command, and would pass: neither may happen
	// before anybody has agreed to anything.
	f := newFixture(t)
	m := f.script(readCall("a"), plan("do it"), scripted.Say("never asked"))
	f.host.PlanGate = approve.AcceptPlans
	res := f.must(trace.Success, func(c *task.Contract) { c.Verify = verify.Command("true") })
	attempts, err := store.Collect(f.store.GateAttempts(context.Background(), res.RunID))
	if err != nil || len(attempts) != 1 || attempts[0].Step != 2 || len(m.Requests()) != 2 {
		t.Errorf("attempts %+v, %v after %d requests", attempts, err, len(m.Requests()))
	}
	g := newFixture(t, readCall("a"), plan("do it"))
	g.host.PlanGate = approve.HoldPlans
	res = g.must(trace.AwaitingPlan, func(c *task.Contract) { c.Verify = verify.Command("true") })
	if attempts, err := store.Collect(g.store.GateAttempts(context.Background(), res.RunID)); err != nil || len(attempts) != 0 {
		t.Errorf("attempts %+v, %v", attempts, err)
	}
}

func TestRememberedRulesHoldBehindThePlanning(t *testing.T) {
	f := newFixture(t, readCall("asked/a"), plan("do it"), write("asked/a", "x"), readCall("asked/a"), scripted.Say("done"))
	f.write("asked/a", "old")
	f.host.Policy = policy.Default().Layer("test").AllowWrite("*").AskRead("asked/*")
	asked := 0
	f.host.Approver = approve.ApproverFunc(func(_ context.Context, r approve.Request) (approve.Decision, error) {
		asked++
		return approve.Approve(policy.Rule{Act: r.Act, Effect: policy.Allow, Pattern: "asked/*"}), nil
	})
	f.host.PlanGate = approve.AcceptPlans
	f.must(trace.Finished)
	if asked != 1 || f.read("asked/a") != "x" {
		t.Errorf("asked %d times, file %q", asked, f.read("asked/a"))
	}
}

func TestAGreetingMeetsNoPlanGate(t *testing.T) {
	f := newFixture(t)
	m := f.script(scripted.Say("hello"))
	f.host.PlanGate = approve.PlanGateFunc(func(context.Context, approve.Plan) (approve.PlanVerdict, error) {
		t.Error("a person is asked about a greeting")
		return approve.PlanVerdict{}, nil
	})
	id, err := f.store.CreateSession(context.Background(), f.dir)
	if err != nil {
		t.Fatal(err)
	}
	res, err := Run(context.Background(), f.host, f.contract(), &Turn{Session: id})
	if err != nil || res.Outcome.Kind != trace.Finished || res.Outcome.Steps != 0 {
		t.Fatalf("%s, %v", res.Outcome, err)
	}
	sys := m.Requests()[0].System[0]
	contains(t, "the opening block", sys, "If what was said calls for work", "plan-gate")
	if n := len(f.plans(res.RunID)); n != 0 {
		t.Errorf("%d plans", n)
	}
}

func TestTheBoundaryOfTheOpeningIsThatOfTheWork(t *testing.T) {
	f := newFixture(t)
	m := f.script(readCall("a"), plan("do it"))
	f.host.PlanGate = approve.HoldPlans
	id, err := f.store.CreateSession(context.Background(), f.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), f.host, f.contract(), &Turn{Session: id}); err != nil {
		t.Fatal(err)
	}
	section := func(s string) string {
		_, rest, ok := strings.Cut(s, "# boundary\n")
		if !ok {
			t.Fatalf("no boundary in:\n%s", s)
		}
		body, _, _ := strings.Cut(rest, "\n\n")
		return body
	}
	opening, work := section(m.Requests()[0].System[0]), section(m.Requests()[1].System[0])
	if opening != work || !strings.Contains(work, "plan-gate") {
		t.Errorf("opening:\n%s\nwork:\n%s", opening, work)
	}
}

func TestPlanningCountsAgainstTheBudget(t *testing.T) {
	f := newFixture(t, plan("a"), plan("b"), plan("c"))
	f.host.PlanGate = approve.PlanGateFunc(func(context.Context, approve.Plan) (approve.PlanVerdict, error) { return approve.Revise("no"), nil })
	if res := f.must(trace.StepCapReached, withSteps(2)); res.Outcome.Steps != 2 || len(f.plans(res.RunID)) != 2 {
		t.Errorf("%s, %d plans", res.Outcome, len(f.plans(res.RunID)))
	}
}

// parked drives a run until its gate is entered, and then takes the context away,
// as a process that dies there would leave it.
func (f *fixture) parked(turns ...scripted.Turn) trace.RunID {
	f.t.Helper()
	f.script(turns...)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.host.PlanGate = approve.PlanGateFunc(func(ctx context.Context, _ approve.Plan) (approve.PlanVerdict, error) {
		cancel()
		<-ctx.Done()
		return approve.Accept(), ctx.Err()
	})
	res, err := Run(ctx, f.host, f.contract(), nil)
	if !errors.Is(err, context.Canceled) {
		f.t.Fatalf("%s, %v", res.Outcome, err)
	}
	return res.RunID
}

func TestAVerdictForARunThatDiedInTheWait(t *testing.T) {
	for _, tc := range []struct {
		name    string
		verdict approve.PlanVerdict
		turns   []scripted.Turn
		want    trace.OutcomeKind
		offered bool
		told    string
	}{
		{"approved: it never plans again", approve.Accept(), []scripted.Turn{write("b.txt", "x"), scripted.Say("done")}, trace.Finished, false, "plan approved"},
		{"revised: it plans again with the correction", approve.Revise("smaller"), []scripted.Turn{write("b.txt", "x"), plan("small")}, trace.AwaitingPlan, true, "smaller"},
		{"cancelled: nothing is asked any more", approve.Cancel(), nil, trace.PlanRejected, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			run := f.parked(readCall("a"), plan("do it"))
			row := f.plans(run)[0]
			if !row.DecidedAt.IsZero() || f.info(run).LastStep != 1 {
				t.Fatalf("row %+v, last step %d", row, f.info(run).LastStep)
			}
			if won, err := f.store.DecidePlan(context.Background(), planDecision(row.ID, tc.verdict, "attached")); err != nil || !won {
				t.Fatalf("attached: %t, %v", won, err)
			}
			m := f.script(tc.turns...)
			f.host.PlanGate = approve.HoldPlans
			res, err := f.resume(run, Resumption{})
			if err != nil || res.Outcome.Kind != tc.want {
				t.Fatalf("%s, %v", res.Outcome, err)
			}
			for i, req := range m.Requests() {
				if offers(req, "propose_plan") != tc.offered {
					t.Errorf("request %d offers propose_plan: %t", i+1, !tc.offered)
				}
				if n := strings.Count(req.User, tc.told); n != 1 {
					t.Errorf("request %d tells the verdict %d times", i+1, n)
				}
			}
			if len(m.Requests()) != len(tc.turns) {
				t.Errorf("%d requests", len(m.Requests()))
			}
			if got := facts[trace.PlanDecided](f.seen); len(got) != 1 || got[0].By != "attached" {
				t.Errorf("plan_decided: %+v", got)
			}
		})
	}
}

func TestAProposalThatIsReplayedTakesUpItsRow(t *testing.T) {
	f := newFixture(t)
	run := f.parked(plan("do it"))
	f.script(plan("do it"), write("b.txt", "x"), scripted.Say("done"))
	f.host.PlanGate = approve.AcceptPlans
	res, err := f.resume(run, Resumption{})
	if err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", res.Outcome, err)
	}
	if rows := f.plans(run); len(rows) != 1 || rows[0].Verdict != store.PlanApprove {
		t.Errorf("plans: %+v", rows)
	}
}

func TestARunThatNeverPlannedStaysLockedAfterACrash(t *testing.T) {
	f := newFixture(t)
	f.host.PlanGate = approve.HoldPlans
	f.script(readCall("a"))
	first := f.must(trace.StepCapReached, withSteps(1))
	m := f.script(write("b.txt", "x"), plan("do it"))
	c := f.contract(withSteps(5))
	res, err := f.resume(first.RunID, Resumption{Contract: &c})
	if err != nil || res.Outcome.Kind != trace.AwaitingPlan || f.read("b.txt") != "" || !offers(m.Requests()[0], "propose_plan") {
		t.Errorf("%s, %v, b.txt %q", res.Outcome, err, f.read("b.txt"))
	}
}

func TestAnotherProcessDecidesWhileTheGateThinks(t *testing.T) {
	f := newFixture(t, plan("do it"), write("b.txt", "x"), scripted.Say("done"))
	f.host.PlanGate = approve.PlanGateFunc(func(ctx context.Context, _ approve.Plan) (approve.PlanVerdict, error) {
		if won, err := f.store.DecidePlan(ctx, planDecision(1, approve.Accept(), "attached")); err != nil || !won {
			t.Errorf("attached: %t, %v", won, err)
		}
		<-ctx.Done()
		return approve.Cancel(), nil
	})
	res := f.must(trace.Finished)
	if row := f.plans(res.RunID)[0]; row.DecidedBy != "attached" || row.Verdict != store.PlanApprove {
		t.Errorf("row: %+v", row)
	}
}

func TestAModelMayNotApproveItself(t *testing.T) {
	for _, tc := range []struct {
		name     string
		approver approve.Approver
		model    string
		fails    bool
	}{
		{"the provider's own model", approve.Model(scripted.New(), "m1"), "", true},
		{"the model of the contract", approve.Model(scripted.New(), "m2"), "m2", true},
		{"a model that routing may escalate to", approve.Model(scripted.New(), "m4"), "m2", true},
		{"a model that routing may go down to", approve.Model(scripted.New(), "m5"), "m2", true},
		{"another model", approve.Model(scripted.New(), "m3"), "m2", false},
		{"stated as meant", approve.Model(scripted.New(), "m1").AllowSelf(), "", false},
		{"a person", approve.All, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(scripted.Say("done"))
			m.Hint = "m1"
			f.host.Approver = tc.approver
			_, err := f.run(func(c *task.Contract) {
				c.Model = tc.model
				c.Routing = task.Routing{EscalateAfter: task.EscalateAfter{Failures: 2, Model: "m4"}, DownshiftUnder: task.DownshiftUnder{Bytes: 1 << 10, Model: "m5"}}
				c.Verify = verify.Command("true")
			})
			var self *approve.SelfApprovalError
			if errors.As(err, &self) != tc.fails || tc.fails && !errors.Is(err, task.ErrInvalid) {
				t.Errorf("error %v", err)
			}
			if tc.fails && (f.runs() != 0 || len(m.Requests()) != 0) {
				t.Errorf("%d runs and %d requests", f.runs(), len(m.Requests()))
			}
		})
	}
}

func TestAModelMayNotApproveWhatAChainMayFallBackTo(t *testing.T) {
	f := newFixture(t)
	first, second := scripted.New(scripted.Say("never asked")), scripted.New()
	first.Hint, second.Hint = "m1", "m2"
	chain, err := fallback.New(first, second)
	if err != nil {
		t.Fatal(err)
	}
	f.host.Provider, f.host.Approver = chain, approve.Model(scripted.New(), "m2")
	_, err = f.run()
	var self *approve.SelfApprovalError
	if !errors.As(err, &self) || self.Model != "m2" || f.runs() != 0 || len(first.Requests()) != 0 {
		t.Errorf("error %v, %d runs, %d requests", err, f.runs(), len(first.Requests()))
	}
}
