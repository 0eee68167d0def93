package loop

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/budget"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
	"github.com/initorigin/io-harness-go/workspace"
)

func TestALastStepThatCannotBeWrittenIsNoEnding(t *testing.T) {
	f, m := newMortal(t)
	f.script(readCall("a"), scripted.Say("done"))
	m.dieAt("insert step", 1)
	res, err := f.run()
	if !errors.Is(err, errDied) || res.Outcome.Kind != "" || res.Outcome.Steps != 1 {
		t.Fatalf("%+v, %v: want the error and no outcome", res.Outcome, err)
	}
	if l, err := f.store.LeaseOf(context.Background(), res.RunID); err != nil || l != nil {
		t.Errorf("the run is still held: %+v, %v", l, err)
	}
	if f.seen.count("aborted") != 1 || f.seen.count("finished") != 0 {
		t.Errorf("events %v", f.seen.kinds())
	}
	f.script(scripted.Say("done"))
	if res, err = f.resume(res.RunID, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished || res.Reply != "done" {
		t.Errorf("resumed: %+v, %v", res, err)
	}
}

func TestOnlyARunThatEndedWellHasAReply(t *testing.T) {
	for _, tc := range []struct {
		name   string
		want   trace.OutcomeKind
		policy policy.Policy
		turns  []scripted.Turn
		change func(*task.Contract)
	}{
		{"it pauses behind a step in which it only spoke", trace.AwaitingApproval, open.Layer("asks").AskWrite("asked"),
			[]scripted.Turn{scripted.Say("I believe it is done"), write("asked", "x")}, gate(verify.Contains("asked", "x"))},
		{"its answer was too dear", trace.CostBudgetExceeded, open,
			[]scripted.Turn{readCall("a"), scripted.Say("too dear").Using(provider.Usage{TotalTokens: 500})},
			func(c *task.Contract) { c.Budget = budget.Limits{Tokens: 400} }},
		{"it came to its last step", trace.StepCapReached, open,
			[]scripted.Turn{readCall("a"), readCall("b")}, withSteps(2)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.turns...)
			f.host.Policy, f.host.Approver = tc.policy, deferring
			res := f.turn(tc.change)
			if res.Outcome.Kind != tc.want || res.Reply != "" {
				t.Fatalf("%s with the reply %q", res.Outcome, res.Reply)
			}
			row, err := f.store.TurnForRun(context.Background(), res.RunID)
			if err != nil || row.Reply != "" {
				t.Errorf("the turn has the reply %q: %v", row.Reply, err)
			}
		})
	}
}

func TestCompletionsWhoseStepNeverCameToBeCountAgainstTheBudget(t *testing.T) {
	f := newFixture(t)
	dear := provider.Usage{TotalTokens: 120}
	var cancel context.CancelFunc
	stops := tool.New("probe", "Stops.", func(ctx context.Context, _ struct{}) (string, error) {
		cancel()
		<-ctx.Done()
		return "", ctx.Err()
	}, tool.ReadOnly)
	c := f.contract(withTools(stops), func(c *task.Contract) { c.Budget.Tokens = 300 })
	drive := func(id trace.RunID) (*trace.Result, error) {
		var ctx context.Context
		ctx, cancel = context.WithCancel(context.Background())
		defer cancel()
		if id == 0 {
			return Run(ctx, f.host, c, nil)
		}
		return Resume(ctx, f.host, id, Resumption{Contract: &c})
	}
	f.script(scripted.Call("probe", nil).Using(dear))
	res, err := drive(0)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", res, err)
	}
	f.script(scripted.Call("probe", nil).Using(dear))
	if res, err = drive(res.RunID); !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", res, err)
	}
	f.script(readCall("a").Using(dear), scripted.Say("never asked"))
	res, err = drive(res.RunID)
	if err != nil || res.Outcome.Kind != trace.CostBudgetExceeded {
		t.Errorf("%+v, %v: three completions of 120 tokens are more than 300", res, err)
	}
	if n := f.info(res.RunID).Tokens; n != 120 {
		t.Errorf("the committed step drew %d tokens", n)
	}
}

func TestADriveThatPanicsTakesNothingDownAndGivesTheRunBack(t *testing.T) {
	f := newFixture(t, readCall("a"), scripted.Say("done"))
	stepped := false
	f.host.Observer = trace.ObserverFunc(func(ev trace.Event) trace.Flow {
		stepped = stepped || ev.Kind() == "step"
		return trace.Continue
	})
	f.host.Clock = func() time.Time {
		if stepped {
			panic("the host's clock is broken")
		}
		return time.Now()
	}
	res, err := f.run(func(c *task.Contract) { c.Budget.Duration = time.Hour })
	if err == nil || !strings.Contains(err.Error(), "the host's clock is broken") || res.RunID == 0 || res.Outcome.Steps != 1 {
		t.Fatalf("%+v, %v: want an error that names the run", res, err)
	}
	f.host.Clock, f.host.Observer = nil, nil
	if res, err := f.resume(1, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestAResumeThatCannotBeginLeavesTheEndOnRecord(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, f *fixture) Resumption
	}{
		{"the workspace is gone", func(t *testing.T, f *fixture) Resumption {
			if err := os.Rename(f.dir, f.dir+"-moved"); err != nil {
				t.Fatal(err)
			}
			return Resumption{}
		}},
		{"the approver is the model itself", func(_ *testing.T, f *fixture) Resumption {
			f.host.Approver = approve.Model(f.host.Provider, provider.ModelHint(f.host.Provider))
			return Resumption{}
		}},
		{"a tool has a name that no vendor takes", func(_ *testing.T, _ *fixture) Resumption {
			bad := tool.New("not a name", "x", func(context.Context, struct{}) (string, error) { return "", nil })
			return Resumption{Defaults: task.Contract{Tools: tool.Toolbox{bad}}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(readCall("a"))
			m.Hint = "writer"
			res := f.must(trace.StepCapReached, withSteps(1))
			r := tc.spoil(t, f)
			if _, err := f.resume(res.RunID, r); err == nil {
				t.Fatal("no error")
			}
			info := f.info(res.RunID)
			if info.Outcome != res.Outcome || info.Status != trace.StatusCompleted {
				t.Errorf("the run is %s with the outcome %s", info.Status, info.Outcome)
			}
			if sum, err := f.store.RunSummary(context.Background(), res.RunID); err != nil || sum == nil {
				t.Errorf("its summary: %+v, %v", sum, err)
			}
		})
	}
}

func TestAPausedRunIsReportedWhereItCouldNotBeDriven(t *testing.T) {
	f := newFixture(t)
	res := f.mustWait(t)
	if err := os.Rename(f.dir, f.dir+"-moved"); err != nil {
		t.Fatal(err)
	}
	if got, err := f.resume(res.RunID, Resumption{}); err != nil || got.Outcome != res.Outcome {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAPrimaryFoundDownOnceAPersonAllowedTheDialEndsTheRunAsMisconfigured(t *testing.T) {
	f := newFixture(t)
	p := &pinged{Model: scripted.New(scripted.Say("done")), endpoints: []string{"https://models.example/v1"}}
	f.host.Provider, f.host.Policy, f.host.Approver = p, open.Layer("net").AskNet("models.example:443"), approve.All
	res, err := f.run(routing(task.Routing{RequirePrimary: true}))
	var invalid *task.InvalidError
	if !errors.As(err, &invalid) || res.Outcome.Kind != trace.ConfigError {
		t.Fatalf("%+v, %v", res, err)
	}
	if info := f.info(res.RunID); info.Status != trace.StatusFailed || info.Outcome.Kind != trace.ConfigError || f.seen.count("finished") != 1 {
		t.Errorf("the run is %s, %s; events %v", info.Status, info.Outcome, f.seen.kinds())
	}
	p.up = true
	if res, err := f.resume(res.RunID, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished {
		t.Errorf("resumed: %+v, %v", res, err)
	}
}

func TestAWatcherOfAResumeIsToldOfTheDecisionGiven(t *testing.T) {
	for _, tc := range []struct {
		name string
		dec  approve.Decision
		want []string
	}{
		{"approved", approve.Approve(), []string{"started", "approval_decided", "tool_call"}},
		{"denied", approve.Deny("no"), []string{"started", "approval_decided", "finished"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			res := f.mustWait(t)
			f.seen.all = nil
			f.script(scripted.Say("done"))
			if _, err := f.resume(res.RunID, Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: tc.dec}}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, k := range f.seen.kinds() {
				if slices.Contains(tc.want, k) && !slices.Contains(got, k) {
					got = append(got, k)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || f.seen.count("approval_decided") != 1 {
				t.Errorf("events %v (-want +got):\n%s", f.seen.kinds(), diff)
			}
		})
	}
	t.Run("a plan", func(t *testing.T) {
		f := newFixture(t)
		id := f.parked(scripted.Call("propose_plan", map[string]any{"steps": []map[string]string{{"intent": "look"}}}))
		plans := f.plans(id)
		f.seen.all = nil
		if _, err := f.resume(id, Resumption{Verdict: &Verdict{ID: plans[0].ID, Verdict: approve.Cancel()}}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"started", "plan_decided", "finished"}, f.seen.kinds()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// nervous is a tool that panics outside of its call.
type nervous struct {
	tool.Tool
	at string
}

func (n nervous) Needs(tool.Call) ([]policy.Need, error) {
	if n.at == "Needs" {
		panic("boom")
	}
	return []policy.Need{{Act: policy.Exec, Target: "probe"}}, nil
}

func (n nervous) Preview(tool.Call) string {
	if n.at == "Preview" {
		panic("boom")
	}
	return "probes"
}

func TestAToolThatPanicsBeforeItsCallTakesNothingDown(t *testing.T) {
	for _, tc := range []struct {
		at   string
		want string
	}{{"Needs", "crashed"}, {"Preview", "probed"}, {"", "probed"}} {
		t.Run("in "+tc.at, func(t *testing.T) {
			f, p := newFixture(t), &probe{}
			m := f.script(scripted.Call("probe", nil), scripted.Say("done"))
			f.host.Policy, f.host.Approver = policy.Default().Layer("t").AskExec("probe"), approve.All
			f.must(trace.Finished, withTools(nervous{p.tool(), tc.at}))
			got, _ := scripted.LastResult(m.Requests()[1], "probe")
			contains(t, "what the model is told", got, tc.want)
		})
	}
	t.Run("while the completion streams in", func(t *testing.T) {
		f, p := newFixture(t), &probe{}
		f.host.Provider = &slowly{calls: []provider.ToolCall{scripted.Tool("probe", nil)}}
		if res := f.turn(withTools(nervous{p.tool(tool.ReadOnly), "Needs"})); res.Outcome.Kind != trace.Finished {
			t.Errorf("%s", res.Outcome)
		}
	})
}

func TestASearchElsewhereDoesNotTakeThePlaceOfTheFirst(t *testing.T) {
	f := newFixture(t)
	f.write("a.go", "word in go\n")
	f.write("b.txt", "word in text\n")
	search := func(glob string) scripted.Turn {
		return scripted.Call("grep", map[string]string{"pattern": "word", "path_glob": glob})
	}
	m := f.script(search("*.go"), search("*.txt"), scripted.Say("done"))
	f.must(trace.Finished)
	contains(t, "the prompt", lastUser(m), "word in go", "word in text")
}

func TestARangeThatAFileNoLongerHasIsNotShownAsItWas(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", strings.Repeat("line\n", 20))
	m := f.script(
		scripted.Call("read_file", map[string]any{"path": "a.txt", "offset": 5, "limit": 10}),
		write("a.txt", "1\n2\n3\n4\n5\n6\n"), scripted.Say("done"))
	f.must(trace.Finished)
	contains(t, "the prompt", lastUser(m), "has only 6 lines by now")
	if strings.Contains(lastUser(m), "lines 5-14 of") {
		t.Errorf("the old range is still shown:\n%s", lastUser(m))
	}
}

func TestWhatAnApproverSpendsIsDrawnFromTheRunsBudget(t *testing.T) {
	f := newFixture(t, write("a.txt", "x"), scripted.Say("done"))
	f.host.Policy = asking
	f.host.Approver = approve.Model(scripted.New(scripted.Say(`{"decision":"approve","reason":"fine"}`).Using(provider.Usage{TotalTokens: 7000})), "judge")
	res := f.must(trace.Finished)
	steps := f.steps(res.RunID)
	if got := steps[0].Tokens - steps[1].Tokens; got != 7000 || f.info(res.RunID).Tokens < 7000 {
		t.Errorf("the steps drew %d and %d tokens", steps[0].Tokens, steps[1].Tokens)
	}
}

func TestTheCountOfTheProviderIsKeptBesideTheEstimate(t *testing.T) {
	f := newFixture(t, readCall("a").Using(provider.Usage{TotalTokens: 120}), scripted.Say("done").Using(provider.Usage{TotalTokens: 80}))
	f.host.Policy = asking.AllowRead("*")
	check := func(id trace.RunID, want ...int64) {
		t.Helper()
		var got []int64
		rows, err := store.Collect(f.store.ContextEvents(context.Background(), id))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.Kind == "assembled" && r.Reported != nil {
				got = append(got, *r.Reported)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
	}
	check(f.must(trace.Finished).RunID, 120, 80)
	f.script(scripted.Say("hello").Using(provider.Usage{TotalTokens: 33}))
	check(f.turn().RunID, 33)
}

func TestAProviderThatIsNoneIsRefused(t *testing.T) {
	f := newFixture(t)
	var none *scripted.Model
	f.host.Provider = none
	var invalid *task.InvalidError
	if _, err := f.run(); !errors.As(err, &invalid) || invalid.Field != "Provider" || f.runs() != 0 {
		t.Errorf("got %v", err)
	}
	if _, err := f.resume(1, Resumption{}); !errors.As(err, &invalid) {
		t.Errorf("resume: got %v", err)
	}
}

func TestAToolThatEndsItsGoroutineDidNotSucceed(t *testing.T) {
	f := newFixture(t)
	m := f.script(scripted.Call("probe", nil), scripted.Say("done"))
	quits := tool.New("probe", "Quits.", func(context.Context, struct{}) (string, error) {
		runtime.Goexit()
		return "", nil
	})
	f.must(trace.Finished, withTools(quits))
	told, _ := scripted.LastResult(m.Requests()[1], "probe")
	contains(t, "what the model is told", told, "[probe error]")
}

func TestCallsOfAProviderThatWritesNoJSONAreToldAsSuch(t *testing.T) {
	f := newFixture(t)
	bad := provider.ToolCall{Name: "read_file", Arguments: json.RawMessage("{path: .}")}
	m := f.script(scripted.Calls(scripted.Tool("exec", map[string]any{"argv": []string{"sh", "-c", "echo hi >> log.txt"}}), bad), scripted.Say("done"))
	res := f.must(trace.Finished)
	if f.read("log.txt") != "hi\n" || len(f.steps(res.RunID)) != 2 {
		t.Errorf("log.txt %q, %d steps", f.read("log.txt"), len(f.steps(res.RunID)))
	}
	told, _ := scripted.LastResult(m.Requests()[1], "read_file")
	contains(t, "what the model is told", told, "no JSON")
}

func TestWhatAProviderWantsBackAndIsNoJSONIsNoAnswer(t *testing.T) {
	f := newFixture(t)
	f.script(func(context.Context, *provider.Request) (*provider.Response, error) {
		return &provider.Response{Text: "hi", FinishReason: "stop", Carry: json.RawMessage("{")}, nil
	}, scripted.Say("done"))
	if res := f.must(trace.Finished, quick); res.Reply != "done" {
		t.Errorf("%+v", res)
	}
}

func TestARunWhoseWorkspaceIsGoneDoesNotGoOnWithAnEmptyOne(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(dir string) error
	}{
		{"moved", func(dir string) error { return os.Rename(dir, dir+"-moved") }},
		{"removed", os.RemoveAll},
		{"replaced", func(dir string) error {
			if err := os.Rename(dir, dir+"-old"); err != nil {
				return err
			}
			return os.Mkdir(dir, 0o755)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if runtime.GOOS == "windows" {
				t.Skip("an open directory cannot be moved there")
			}
			f := newFixture(t)
			m := f.script(scripted.Call("probe", nil), scripted.Say("nothing is there"))
			spoil := tool.New("probe", "Spoils.", func(context.Context, struct{}) (string, error) { return "", tc.spoil(f.dir) })
			res, err := f.run(withTools(spoil))
			var gone *workspace.OpenError
			if !errors.As(err, &gone) || res.Outcome.Kind != "" || res.Outcome.Steps != 1 || len(m.Requests()) != 1 {
				t.Errorf("%+v, %v after %d completions", res, err, len(m.Requests()))
			}
			if info := f.info(res.RunID); info.Status != trace.StatusRunning {
				t.Errorf("the run is %s", info.Status)
			}
		})
	}
}
