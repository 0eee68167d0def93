package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

func TestARunReadsWritesAndFinishesWhenTheModelAnswers(t *testing.T) {
	f := newFixture(t, readCall("a.txt"), write("b.txt", "new\n"), scripted.Say("b.txt is written"))
	f.write("a.txt", "old\n")
	res := f.must(trace.Finished)
	if res.Outcome.Steps != 3 || res.Reply != "b.txt is written" {
		t.Errorf("got %s and reply %q", res.Outcome, res.Reply)
	}
	if got := f.read("b.txt"); got != "new\n" {
		t.Errorf("b.txt is %q", got)
	}
	info := f.info(res.RunID)
	if info.Status != trace.StatusCompleted || info.Tokens != 3*120 || info.LastStep != 3 {
		t.Errorf("run row: %+v", info)
	}
	edits, err := store.Collect(f.store.Edits(context.Background(), res.RunID))
	if err != nil || len(edits) != 1 || edits[0].Path != "b.txt" || edits[0].Added != 1 {
		t.Errorf("edits: %+v, %v", edits, err)
	}
	want := []string{"started", "prompt_composed", "contained", "tool_call", "step", "tool_call", "step", "cache_marked", "step", "finished"}
	if diff := cmp.Diff(want, f.seen.kinds()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestTheModelReadsWhatItsToolsBrought(t *testing.T) {
	f := newFixture(t)
	m := f.script(readCall("a.txt"), scripted.Say("done"))
	f.write("a.txt", "the content of a\n")
	f.must(trace.Finished)
	reqs := m.Requests()
	if len(reqs) != 2 {
		t.Fatalf("%d requests, want 2", len(reqs))
	}
	got, ok := scripted.LastResult(reqs[1], "read_file")
	if !ok || !strings.Contains(got, "the content of a") {
		t.Errorf("result of read_file in the second request: %q, %v", got, ok)
	}
	if len(reqs[0].Messages) != 0 {
		t.Errorf("a first step is a flat request; it has %d messages", len(reqs[0].Messages))
	}
	if !slices.Equal(reqs[0].System, reqs[1].System) {
		t.Error("the system block changed between two steps")
	}
	if diff := cmp.Diff(reqs[0].Tools, reqs[1].Tools); diff != "" {
		t.Errorf("the tools changed between two steps:\n%s", diff)
	}
}

func TestAPassingGateIsSuccess(t *testing.T) {
	f := newFixture(t)
	m := f.script(readCall("x"), write("done.txt", "yes"), scripted.Say("never asked"))
	res := f.must(trace.Success, func(c *task.Contract) { c.Verify = verify.Command("sh", "-c", "test -f done.txt") })
	if res.Outcome.Steps != 2 {
		t.Errorf("%s, want 2 steps", res.Outcome)
	}
	if len(m.Requests()) != 2 {
		t.Errorf("%d completions: a passing gate asks no further", len(m.Requests()))
	}
	gates, err := store.Collect(f.store.GateAttempts(context.Background(), res.RunID))
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []store.GateOutcome
	for _, g := range gates {
		outcomes = append(outcomes, g.Outcome)
	}
	if diff := cmp.Diff([]store.GateOutcome{store.GateFailed, store.GatePassed}, outcomes); diff != "" {
		t.Errorf("gate attempts:\n%s", diff)
	}
}

func TestAFailingGateIsToldToTheModelOnce(t *testing.T) {
	f := newFixture(t)
	m := f.script(readCall("x"), readCall("y"), write("done.txt", "yes"))
	f.must(trace.Success, func(c *task.Contract) {
		c.Verify = verify.Command("sh", "-c", "test -f done.txt || { echo the file is missing; exit 3; }")
	})
	second := m.Requests()[1].User
	contains(t, "the second request", second, "[check failed]", "the file is missing")
	if n := strings.Count(m.Requests()[2].User, "[check failed]"); n != 1 {
		t.Errorf("the same verdict was told %d times", n)
	}
}

func TestAGateThatMayNotRunLeavesTheRunResumable(t *testing.T) {
	f := newFixture(t, readCall("x"))
	res, err := f.run(func(c *task.Contract) { c.Verify = verify.Command("ls") })
	var refused *policy.RefusedError
	if !errors.As(err, &refused) || res.RunID == 0 {
		t.Fatalf("got %+v, %v; want a *policy.RefusedError with the run's id", res, err)
	}
	if info := f.info(res.RunID); info.Status != trace.StatusRunning || info.Outcome.Kind != "" {
		t.Errorf("run row: %+v; want running and without outcome", info)
	}
	if f.seen.count("aborted") != 1 || f.seen.count("finished") != 0 {
		t.Errorf("events: %v", f.seen.kinds())
	}
	f.script(readCall("x"))
	pol := open.Layer("more").AllowExec("ls")
	res, err = f.resume(res.RunID, Resumption{Policy: &pol})
	if err != nil || res.Outcome.Kind != trace.Success || res.Outcome.Steps != 1 {
		t.Errorf("resume: %s, %v; want the work done and the gate judged", res.Outcome, err)
	}
}

func TestTheStepCapEndsTheRunAndALargerOneGoesOn(t *testing.T) {
	f := newFixture(t, readCall("a"), readCall("b"), readCall("c"))
	res := f.must(trace.StepCapReached, withSteps(3))
	same, err := f.resume(res.RunID, Resumption{})
	if err != nil || same.Outcome.Kind != trace.StepCapReached || same.Outcome.Steps != 3 {
		t.Errorf("resume under the same cap: %s, %v", same.Outcome, err)
	}
	m := f.script(readCall("d"), scripted.Say("enough"))
	c := f.contract(withSteps(6))
	res, err = f.resume(res.RunID, Resumption{Contract: &c})
	if err != nil || res.Outcome.Kind != trace.Finished || res.Outcome.Steps != 5 || len(m.Requests()) != 2 {
		t.Errorf("resume under a larger cap: %s, %v, %d completions", res.Outcome, err, len(m.Requests()))
	}
}

func TestNoStepsAtAllAsksNobody(t *testing.T) {
	f := newFixture(t)
	res := f.must(trace.StepCapReached, withSteps(-1))
	if res.Outcome.Steps != 0 {
		t.Errorf("%s", res.Outcome)
	}
}

func TestTheTokenBudgetIsStrictlyGreater(t *testing.T) {
	use := func(n int64) provider.Usage { return provider.Usage{PromptTokens: n, TotalTokens: n} }
	f := newFixture(t, readCall("a").Using(use(100)), readCall("b").Using(use(50)), readCall("c").Using(use(1)))
	res := f.must(trace.CostBudgetExceeded, func(c *task.Contract) { c.Budget.Tokens = 150 })
	if res.Outcome.Steps != 3 {
		t.Errorf("%s: exactly the budget is allowed, one more is not", res.Outcome)
	}
}

func TestAnExceededBudgetOutranksAPassingGate(t *testing.T) {
	f := newFixture(t, write("a", "x").Using(provider.Usage{TotalTokens: 500}))
	f.must(trace.CostBudgetExceeded, func(c *task.Contract) {
		c.Budget.Tokens = 100
		c.Verify = verify.Command("true")
	})
}

func TestATimeBudgetCancelsTheCallInFlight(t *testing.T) {
	f := newFixture(t, scripted.Hang())
	res := f.must(trace.TimeBudgetExceeded, func(c *task.Contract) { c.Budget.Duration = 500 * time.Millisecond }) // the call must have begun by then
	if res.Outcome.Steps != 0 || len(f.steps(res.RunID)) != 0 {
		t.Errorf("%s with %d step rows", res.Outcome, len(f.steps(res.RunID)))
	}
	calls, err := store.Collect(f.store.ProviderCalls(context.Background(), res.RunID))
	if err != nil || len(calls) != 1 || calls[0].Failure == "" {
		t.Errorf("the cancelled attempt must be on record: %+v, %v", calls, err)
	}
}

func TestATimeBudgetKillsACommandAndCommitsNothingOfItsStep(t *testing.T) {
	f := newFixture(t, command("sleep", "60"))
	res := f.must(trace.TimeBudgetExceeded, func(c *task.Contract) { c.Budget.Duration = 200 * time.Millisecond })
	if len(f.steps(res.RunID)) != 0 {
		t.Error("the step of a killed command was committed")
	}
}

func TestTimeSpentWhileNobodyDroveCounts(t *testing.T) {
	f := newFixture(t, readCall("a"), readCall("b"))
	res := f.must(trace.StepCapReached, withSteps(2))
	start := time.Now()
	f.host.Clock = func() time.Time { return start.Add(time.Hour) }
	m := f.script(readCall("c"))
	c := f.contract(withSteps(5), func(c *task.Contract) { c.Budget.Duration = 30 * time.Minute })
	res, err := f.resume(res.RunID, Resumption{Contract: &c})
	if err != nil || res.Outcome.Kind != trace.TimeBudgetExceeded || len(m.Requests()) != 0 {
		t.Errorf("%s, %v, %d completions; want the budget to be over without asking", res.Outcome, err, len(m.Requests()))
	}
}

func TestTheCallersCancelLeavesTheRunResumable(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f := newFixture(t)
	f.model(scripted.Func(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	res, err := Run(ctx, f.host, f.contract(), nil)
	if !errors.Is(err, context.Canceled) || res.RunID == 0 {
		t.Fatalf("got %+v, %v", res, err)
	}
	if info := f.info(res.RunID); info.Status != trace.StatusRunning {
		t.Errorf("status %s, want running", info.Status)
	}
	f.script(scripted.Say("done"))
	res, err = f.resume(res.RunID, Resumption{})
	if err != nil || res.Outcome.Kind != trace.Finished {
		t.Errorf("resume: %s, %v", res.Outcome, err)
	}
}

func TestAnObserversCancelEndsTheRunAtTheNextBoundary(t *testing.T) {
	f := newFixture(t, readCall("a"), readCall("b"))
	f.seen.stop = "tool_call"
	res := f.must(trace.Cancelled)
	if res.Outcome.Steps != 1 {
		t.Errorf("%s: the step in progress is finished", res.Outcome)
	}
	m := f.script(scripted.Say("no"))
	f.seen.stop = ""
	again, err := f.resume(res.RunID, Resumption{})
	if err != nil || again.Outcome.Kind != trace.Cancelled || len(m.Requests()) != 0 {
		t.Errorf("a cancelled run is final: %s, %v", again.Outcome, err)
	}
}

func TestAStallIsToldOnceAndThenEndsTheRun(t *testing.T) {
	var turns []scripted.Turn
	for range 8 {
		turns = append(turns, readCall("a"))
	}
	f := newFixture(t)
	m := f.script(turns...)
	res := f.must(trace.Stalled)
	if res.Outcome.Steps != 6 {
		t.Errorf("%s, want 6 steps", res.Outcome)
	}
	if f.seen.count("replan") != 1 || f.seen.count("stalled") != 1 {
		t.Errorf("events: %v", f.seen.kinds())
	}
	contains(t, "the request after the replan", m.Requests()[3].User, "change your approach")
}

func TestDefaultsOfAContract(t *testing.T) {
	var turns []scripted.Turn
	for i := range 20 {
		turns = append(turns, readCall(strings.Repeat("x", i+1)))
	}
	f := newFixture(t, turns...)
	if res := f.must(trace.StepCapReached); res.Outcome.Steps != 12 {
		t.Errorf("%s, want the default of 12 steps", res.Outcome)
	}
}

func TestACompletionThatIsNoEndingDoesNotEndTheRun(t *testing.T) {
	for _, reason := range []string{"length", "content_filter", "refusal", "pause_turn"} {
		t.Run(reason, func(t *testing.T) {
			f := newFixture(t, scripted.Say("half of it").Finishing(reason), scripted.Say("all of it"))
			res := f.must(trace.Finished)
			if res.Outcome.Steps != 2 || res.Reply != "all of it" {
				t.Errorf("%s, reply %q", res.Outcome, res.Reply)
			}
		})
	}
	t.Run("empty", func(t *testing.T) {
		f := newFixture(t, scripted.Say(""), scripted.Say("done"))
		if res := f.must(trace.Finished); res.Outcome.Steps != 2 {
			t.Errorf("%s: an empty completion is no answer", res.Outcome)
		}
	})
}

func TestAContractThatCanNeverWorkLeavesNoRow(t *testing.T) {
	dup := new(probe)
	for _, tc := range []struct {
		name   string
		change func(*task.Contract)
		field  string
	}{
		{"no goal", func(c *task.Contract) { c.Goal = " " }, "Goal"},
		{"no root", func(c *task.Contract) { c.Root = "" }, "Root"},
		{"a root that does not exist", func(c *task.Contract) { c.Root += "/nowhere" }, "Root"},
		{"a root that is a file", func(c *task.Contract) { c.Root += "/a.txt" }, "Root"},
		{"a reserved tool name", withTools(tool.New("grep", "", func(context.Context, struct{}) (string, error) { return "", nil })), "Tools"},
		{"a tool twice", withTools(dup.tool(), dup.tool()), "Tools"},
		{"a name of an MCP tool", withTools(tool.New("mcp__x", "", func(context.Context, struct{}) (string, error) { return "", nil })), "Tools"},
		{"a gate without a command", func(c *task.Contract) { c.Verify = verify.Command() }, "Verify"},
		{"a gate whose file leaves the root", func(c *task.Contract) { c.Verify = verify.Contains("../x", "y") }, "Verify"},
		{"a negative duration", func(c *task.Contract) { c.Budget.Duration = -1 }, "Budget"},
		{"a share above one", func(c *task.Contract) { c.Context.Share = 1.5 }, "Context.Share"},
		{"an author with a line break", func(c *task.Contract) { c.Identity.Name = "a\nb" }, "Identity"},
		{"an unknown effort", func(c *task.Contract) { c.Effort = "heroic" }, "Effort"},
		{"an unknown preset", func(c *task.Contract) { c.Prompt.Preset = "loud" }, "Prompt.Preset"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.write("a.txt", "a file")
			_, err := f.run(tc.change)
			var invalid *task.InvalidError
			if !errors.As(err, &invalid) || !errors.Is(err, task.ErrInvalid) {
				t.Fatalf("got %v; want a *task.InvalidError", err)
			}
			if !strings.Contains(err.Error(), tc.field) {
				t.Errorf("%q does not name the field %s", err, tc.field)
			}
			if n := f.runs(); n != 0 {
				t.Errorf("%d runs in the store", n)
			}
		})
	}
}

func TestEverythingWrongIsReportedAtOnce(t *testing.T) {
	f := newFixture(t)
	_, err := f.run(func(c *task.Contract) {
		c.Goal, c.Effort, c.Budget.Tokens = "", "heroic", -1
	})
	contains(t, "the error", err.Error(), "Goal", "Effort", "Budget")
}

func TestAnInvalidPolicyIsRefused(t *testing.T) {
	f := newFixture(t)
	f.host.Policy = policy.Default().Layer("remembered").AllowExec("*")
	if _, err := f.run(); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestARunOfTheZeroPolicyRefusesEverythingAndGoesOn(t *testing.T) {
	f := newFixture(t, readCall("a"), write("b", "x"), command("true"), scripted.Say("nothing is allowed"))
	f.host.Policy = policy.Policy{}
	f.host.Approver = approve.All
	res := f.must(trace.Finished)
	if got := len(f.refusals(res.RunID)); got != 3 {
		t.Errorf("%d refusals, want 3", got)
	}
	if f.read("b") != "" {
		t.Error("b was written")
	}
}

func TestSummaryOfARun(t *testing.T) {
	f := newFixture(t, readCall("a"), scripted.Say("done"))
	res := f.must(trace.Finished)
	sum, err := f.store.RunSummary(context.Background(), res.RunID)
	if err != nil || sum == nil {
		t.Fatal(sum, err)
	}
	if sum.Success || sum.Steps != 2 || sum.Tokens != 240 || sum.Outcome != trace.Finished {
		t.Errorf("%+v", *sum)
	}
}
