package loop

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// judge is a reviewer that says what its list says, one verdict for each time that
// it is asked and the last for ever, and that uses tokens for it.
type judge struct {
	says  []string // "yes", "no" or "down"
	asked int
	uses  int64
	name  string
}

func (j *judge) Model() string { return j.name }

func (j *judge) Review(context.Context, verify.ReviewRequest) (verify.ReviewResult, error) {
	says := j.says[min(j.asked, len(j.says)-1)]
	j.asked++
	used := provider.Usage{PromptTokens: j.uses, TotalTokens: j.uses}
	switch says {
	case "down":
		return verify.ReviewResult{}, &provider.Error{Kind: provider.Server, Status: 529, Message: "overloaded", Usage: &used}
	case "yes":
		return verify.ReviewResult{Passed: true, Usage: used}, nil
	}
	return verify.ReviewResult{Reasons: []string{"not good", "not enough"}, Usage: used}, nil
}

// sound demands that the store contradicts itself nowhere.
func (f *fixture) sound() {
	f.t.Helper()
	rep, err := f.store.Check(context.Background())
	if err != nil || !rep.Sound() {
		f.t.Errorf("the store: %+v, %v", rep, err)
	}
}

// drawn is what the steps of a run drew together, and what its reviews used.
func (f *fixture) drawn(id trace.RunID) (steps, reviews int64) {
	f.t.Helper()
	for _, s := range f.steps(id) {
		steps += s.Tokens
	}
	calls, err := store.Collect(f.store.ProviderCalls(context.Background(), id))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, c := range calls {
		if c.Purpose == store.ForReview {
			reviews += c.Usage.TotalTokens
		}
	}
	return steps, reviews
}

func TestWhatAReviewUsesIsDrawnByTheRun(t *testing.T) {
	const used = 1000
	for _, tc := range []struct {
		name    string
		says    []string
		turns   []scripted.Turn
		end     trace.OutcomeKind
		reviews int64
	}{
		{"of a gate that passes", []string{"yes"}, []scripted.Turn{write("a", "1")}, trace.Success, 1},
		{"of one that fails and then passes", []string{"no", "yes"}, []scripted.Turn{write("a", "1"), write("a", "2")}, trace.Success, 2},
		{"of the last step", []string{"no"}, []scripted.Turn{write("a", "1"), write("a", "2")}, trace.VerificationFailed, 2},
		{"of one that errs", []string{"down"}, []scripted.Turn{write("a", "1")}, "", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := &judge{says: tc.says, uses: used, name: "judge"}
			f := newFixture(t, tc.turns...)
			res, err := f.run(gate(verify.Review("r", j)), withSteps(len(tc.turns)))
			if res.Outcome.Kind != tc.end || (err != nil) != (tc.end == "") {
				t.Fatalf("%s, %v", res.Outcome, err)
			}
			info := f.info(res.RunID)
			steps, reviews := f.drawn(res.RunID)
			if reviews != tc.reviews*used {
				t.Errorf("the ledger has %d tokens of reviews, want %d", reviews, tc.reviews*used)
			}
			if bare := int64(len(tc.turns)) * f.completion(); info.Tokens != bare+reviews || steps != info.Tokens {
				t.Errorf("the run drew %d tokens and its steps %d, want %d of completions and %d of reviews", info.Tokens, steps, bare, reviews)
			}
			for _, e := range f.seen.all {
				if end, ok := e.Fact.(trace.Ended); ok && end.Tokens != info.Tokens {
					t.Errorf("the watcher hears of %d tokens, and the run drew %d", end.Tokens, info.Tokens)
				}
			}
			f.sound()
		})
	}
}

// completion is what one completion of a scripted model uses.
func (f *fixture) completion() int64 {
	f.t.Helper()
	resp, err := scripted.New(readCall("x")).Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{})
	if err != nil {
		f.t.Fatal(err)
	}
	return resp.Usage.TotalTokens
}

func TestAReviewThatCrossesTheBudgetEndsTheRunBeforeItIsAskedAgain(t *testing.T) {
	j := &judge{says: []string{"no"}, uses: 1000, name: "judge"}
	f := newFixture(t)
	m := f.script(write("a", "1"), write("a", "2"))
	limited := func(c *task.Contract) { c.Budget.Tokens = 500 }
	res := f.must(trace.CostBudgetExceeded, gate(verify.Review("r", j)), limited)
	if res.Outcome.Steps != 1 || len(m.Requests()) != 1 || j.asked != 1 {
		t.Errorf("%s, %d completions, %d reviews", res.Outcome, len(m.Requests()), j.asked)
	}
	again, err := f.resume(res.RunID, Resumption{Defaults: f.contract(gate(verify.Review("r", j)))})
	if err != nil || again.Outcome.Kind != trace.CostBudgetExceeded || len(m.Requests()) != 1 || j.asked != 1 {
		t.Errorf("resumed: %s, %v, %d completions, %d reviews", again.Outcome, err, len(m.Requests()), j.asked)
	}
	f.sound()
	t.Run("and a pass that crosses it is one", func(t *testing.T) {
		j := &judge{says: []string{"yes"}, uses: 1000, name: "judge"}
		newFixture(t, write("a", "1")).must(trace.Success, gate(verify.Review("r", j)), limited)
	})
}

func TestARetriedReviewChargesItselfAndNothingElse(t *testing.T) {
	j := &judge{says: []string{"down", "yes"}, uses: 70, name: "judge"}
	f := newFixture(t, write("a", "1"))
	c := f.contract(gate(verify.Review("r", j)))
	res, err := Run(context.Background(), f.host, c, nil)
	if err == nil {
		t.Fatal(res.Outcome)
	}
	before, stepsBefore := f.info(res.RunID), f.steps(res.RunID)
	end, err := RetryGate(context.Background(), f.host, res.RunID, Resumption{Contract: &c})
	if err != nil || end.Outcome.Kind != trace.Success {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	after, stepsAfter := f.info(res.RunID), f.steps(res.RunID)
	if after.Tokens != before.Tokens+70 || after.LastStep != before.LastStep || f.read("a") != "1" {
		t.Errorf("tokens %d, then %d; %q", before.Tokens, after.Tokens, f.read("a"))
	}
	for i := range stepsAfter {
		stepsAfter[i].Tokens = stepsBefore[i].Tokens
	}
	if !reflect.DeepEqual(stepsBefore, stepsAfter) {
		t.Errorf("the steps were %+v and are %+v", stepsBefore, stepsAfter)
	}
	f.sound()
}

func TestAReviewIsSparedAndTheCommandBesideItIsNot(t *testing.T) {
	// Each evaluation of the command leaves a line.
	counting := verify.Command("sh", "-c", "echo x >> evaluated")
	for _, tc := range []struct {
		name    string
		c       func(by verify.Reviewer) verify.Criterion
		turns   []scripted.Turn
		reviews int
	}{
		{"steps that change nothing", func(by verify.Reviewer) verify.Criterion { return verify.All(counting, verify.Review("r", by)) },
			[]scripted.Turn{write("a", "1"), readCall("a"), readCall("a")}, 1},
		{"the review stands first", func(by verify.Reviewer) verify.Criterion { return verify.Review("r", by) },
			[]scripted.Turn{write("a", "1"), readCall("a"), readCall("a")}, 1},
		{"a command of the model counts as a change", func(by verify.Reviewer) verify.Criterion { return verify.All(counting, verify.Review("r", by)) },
			[]scripted.Turn{write("a", "1"), command("sh", "-c", "echo 2 > a"), readCall("a")}, 2},
		{"so does a command line", func(by verify.Reviewer) verify.Criterion { return verify.All(counting, verify.Review("r", by)) },
			[]scripted.Turn{write("a", "1"), scripted.Call("shell", map[string]string{"line": "echo 2 > a"}), readCall("a")}, 2},
		{"and a tool of the caller's", func(by verify.Reviewer) verify.Criterion { return verify.Review("r", by) },
			[]scripted.Turn{write("a", "1"), scripted.Call("probe", struct{}{}), readCall("a")}, 2},
		{"also one that does not say what it changes", func(by verify.Reviewer) verify.Criterion { return verify.Review("r", by) },
			[]scripted.Turn{write("a", "1"), scripted.Call("note", struct{}{}), readCall("a")}, 2},
		{"an edit", func(by verify.Reviewer) verify.Criterion { return verify.All(counting, verify.Review("r", by)) },
			[]scripted.Turn{write("a", "1"), write("a", "2"), readCall("a")}, 2},
		{"the model says that it is done", func(by verify.Reviewer) verify.Criterion { return verify.All(counting, verify.Review("r", by)) },
			[]scripted.Turn{write("a", "1"), scripted.Say("done"), readCall("a")}, 2},
		{"asked at every step", func(by verify.Reviewer) verify.Criterion {
			return verify.All(counting, verify.Review("r", by).EveryStep())
		}, []scripted.Turn{write("a", "1"), readCall("a"), readCall("a")}, 3},
		{"two reviews with one rubric", func(by verify.Reviewer) verify.Criterion {
			return verify.All(verify.Review("r", verify.ReviewerFunc(agrees)), verify.Review("r", by))
		}, []scripted.Turn{write("a", "1"), readCall("a"), readCall("a")}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := &judge{says: []string{"no"}, name: "judge"}
			f := newFixture(t, tc.turns...)
			var p probe
			c := tc.c(j)
			res := f.must(trace.VerificationFailed, gate(c), withSteps(len(tc.turns)), withTools(p.tool(), silent{}), func(c *task.Contract) { c.Stall.Window = -1 })
			if j.asked != tc.reviews {
				t.Errorf("the reviewer was asked %d times, want %d", j.asked, tc.reviews)
			}
			if all, ok := c.(verify.AllCriterion); ok && all.Validate() == nil && f.read("evaluated") != "" && f.read("evaluated") != "x\nx\nx\n" {
				t.Errorf("the command was evaluated with %q, want once for each step", f.read("evaluated"))
			}
			attempts, err := store.Collect(f.store.GateAttempts(context.Background(), res.RunID))
			if err != nil || len(attempts) != tc.reviews || f.seen.count("reviewed") < tc.reviews {
				t.Errorf("%d evaluations on record, want %d; told %v; %v", len(attempts), tc.reviews, f.seen.kinds(), err)
			}
		})
	}
}

// silent is a tool that may change anything and says nothing of it.
type silent struct{}

func (silent) Spec() tool.Spec {
	return tool.Spec{Name: "note", Description: "Notes.", Schema: []byte(`{"type":"object"}`)}
}

func (silent) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{Text: "ok"}, nil
}

func agrees(context.Context, verify.ReviewRequest) (verify.ReviewResult, error) {
	return verify.ReviewResult{Passed: true}, nil
}

func TestAnUnchangedWorkspaceDoesNotSilenceTheCommand(t *testing.T) {
	// The review fails, and then the command does, with nothing changed by the run.
	f := newFixture(t)
	j := &judge{says: []string{"no"}, name: "judge"}
	f.script(write("a", "1"), func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		f.write("broken", "")
		return readCall("a")(ctx, req)
	})
	res := f.must(trace.VerificationFailed, withSteps(2), gate(verify.All(verify.Command("sh", "-c", "test ! -e broken"), verify.Review("r", j))))
	last, err := f.store.LastGateAttempt(context.Background(), res.RunID)
	if err != nil || last.Phase != string(verify.PhaseCommand) || last.Step != 2 || j.asked != 1 {
		t.Errorf("the last evaluation: %+v, %v; %d reviews", last, err, j.asked)
	}
}

func TestAVerdictIsToldToTheWatcherAndAnOutageIsNone(t *testing.T) {
	j := &judge{says: []string{"no", "down"}, name: "judge"}
	f := newFixture(t, write("a", "1"), write("a", "2"))
	if _, err := f.run(gate(verify.Review("r", j))); err == nil {
		t.Fatal("no error")
	}
	var told []trace.Reviewed
	for _, e := range f.seen.all {
		if r, ok := e.Fact.(trace.Reviewed); ok {
			told = append(told, r)
		}
	}
	if diff := cmp.Diff([]trace.Reviewed{{Reasons: []string{"not good", "not enough"}}}, told); diff != "" {
		t.Errorf("reviewed (-want +got):\n%s", diff)
	}
}

// A model must not judge its own work by any way that leads into a run, and nothing
// may be asked or written before that is known.
func TestNoWayIntoARunLetsAModelReviewItself(t *testing.T) {
	for _, tc := range []struct {
		name    string
		hint    string // the provider's model
		judge   *judge // nil: there is none
		allow   bool
		change  func(*task.Contract)
		refused bool
		warned  bool
	}{
		{name: "no reviewer", hint: "writer", refused: true},
		{name: "the same model", hint: "writer", judge: &judge{name: "writer"}, refused: true},
		{name: "the model that the contract asks for", hint: "writer", judge: &judge{name: "other"}, refused: true,
			change: func(c *task.Contract) { c.Model = "other" }},
		{name: "the model of an escalation", hint: "writer", judge: &judge{name: "big"}, refused: true,
			change: func(c *task.Contract) { c.Routing.EscalateAfter = task.EscalateAfter{Failures: 2, Model: "big"} }},
		{name: "the model of a downshift", hint: "writer", judge: &judge{name: "small"}, refused: true,
			change: func(c *task.Contract) { c.Routing.DownshiftUnder = task.DownshiftUnder{Bytes: 1, Model: "small"} }},
		{name: "allowed", hint: "writer", judge: &judge{name: "writer"}, allow: true},
		{name: "another model", hint: "writer", judge: &judge{name: "judge"}},
		{name: "a reviewer without a name", hint: "writer", judge: &judge{}, warned: true},
		{name: "a provider without a name", judge: &judge{name: "judge"}, warned: true},
	} {
		criterion := func() (verify.Criterion, *judge) {
			if tc.judge == nil {
				return verify.Review("r", nil), &judge{}
			}
			j := &judge{name: tc.judge.name, says: []string{"yes"}}
			c := verify.Review("r", j)
			if tc.allow {
				c = c.AllowSelfReview()
			}
			return c, j
		}
		for _, way := range []struct {
			name string
			in   func(f *fixture, c task.Contract) (*trace.Result, error)
		}{
			{"a run", func(f *fixture, c task.Contract) (*trace.Result, error) {
				return Run(context.Background(), f.host, c, nil)
			}},
			{"a turn of a session", func(f *fixture, c task.Contract) (*trace.Result, error) {
				s, err := f.store.CreateSession(context.Background(), f.dir)
				if err != nil {
					f.t.Fatal(err)
				}
				return Run(context.Background(), f.host, c, &Turn{Session: s})
			}},
			{"a resume", func(f *fixture, c task.Contract) (*trace.Result, error) {
				return f.resume(f.stopped(), Resumption{Contract: &c})
			}},
			{"a retry of the gate", func(f *fixture, c task.Contract) (*trace.Result, error) {
				return RetryGate(context.Background(), f.host, f.stopped(), Resumption{Contract: &c})
			}},
		} {
			t.Run(tc.name+", by "+way.name, func(t *testing.T) {
				f := newFixture(t)
				m := scripted.New(write("a", "1"))
				m.Hint = tc.hint
				f.model(m)
				v, j := criterion()
				c := f.contract(gate(v))
				if tc.change != nil {
					tc.change(&c)
				}
				res, err := way.in(f, c)
				if !tc.refused {
					if err != nil || res.Outcome.Kind != trace.Success || j.asked != 1 {
						t.Errorf("%s, %v, %d reviews; want it to go on", res.Outcome, err, j.asked)
					}
					if got := f.seen.count("review_unverifiable"); way.name != "a retry of the gate" && got != map[bool]int{true: 1}[tc.warned] {
						t.Errorf("%d warnings", got)
					}
					return
				}
				if !errors.Is(err, task.ErrInvalid) || tc.judge != nil && !errors.Is(err, verify.ErrSelfReview) {
					t.Errorf("%v, want it refused", err)
				}
				if n := len(m.Requests()); n != 0 || j.asked != 0 {
					t.Errorf("%d completions and %d reviews were bought", n, j.asked)
				}
			})
		}
	}
}

// stopped is a run whose gate erred after one step, made by another provider.
func (f *fixture) stopped() trace.RunID {
	f.t.Helper()
	now := f.host.Provider
	f.script(write("a", "0"))
	res, err := f.run(gate(verify.Command("no-such-program-here")), withSteps(5))
	if err == nil || res.RunID == 0 {
		f.t.Fatalf("%s, %v", res.Outcome, err)
	}
	f.host.Provider = now
	return res.RunID
}

func TestRunsWhoseGateErredAreFound(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	erred := f.stopped()
	f.script(write("a", "1"))
	f.must(trace.Success, gate(verify.Contains("a", "1")))
	ids := func() (ids []trace.RunID) {
		runs, err := f.store.RunsWithErroredGate(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			ids = append(ids, r.ID)
		}
		return ids
	}
	if got := ids(); !slices.Equal(got, []trace.RunID{erred}) {
		t.Errorf("runs %v, want %d alone", got, erred)
	}
	c := f.contract(gate(verify.Contains("a", "1")))
	if end, err := RetryGate(ctx, f.host, erred, Resumption{Contract: &c}); err != nil || end.Outcome.Kind != trace.Success {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	if got := ids(); len(got) != 0 {
		t.Errorf("runs %v after the gate has judged", got)
	}
}

// A review is a completion like any other in the accounts: with the model that a
// price is looked up by, also where it brought no verdict.
func TestAReviewIsInTheAccountsWithItsModel(t *testing.T) {
	used := provider.Usage{PromptTokens: 1_000_000, TotalTokens: 1_000_000}
	by := scripted.New(
		scripted.Fail(&provider.Error{Kind: provider.Quota, Status: 402, Message: "no money"}),
		scripted.Say(`{"passed":false}`).Unmetered(),
		scripted.Say(`{"passed":true}`).Using(used).With(func(r *provider.Response) { r.Model = "judge-2026" }))
	f := newFixture(t, write("a", "1"), write("a", "2"))
	c := f.contract(gate(verify.Review("r", verify.Model(by, "judge"))))
	res, err := Run(context.Background(), f.host, c, nil)
	if !errors.Is(err, provider.Quota) {
		t.Fatalf("%s, %v", res.Outcome, err)
	}
	end, err := f.resume(res.RunID, Resumption{Contract: &c})
	if err != nil || end.Outcome.Kind != trace.Success {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	if end.Unmetered != 1 {
		t.Errorf("%d answers without a usage, want the review's", end.Unmetered)
	}
	calls, err := store.Collect(f.store.ProviderCalls(context.Background(), res.RunID))
	if err != nil {
		t.Fatal(err)
	}
	var reviews []store.ProviderCall
	for _, c := range calls {
		if c.Purpose == store.ForReview {
			reviews = append(reviews, store.ProviderCall{Step: c.Step, Provider: c.Provider, Model: c.Model, Usage: c.Usage, Failure: c.Failure})
		}
	}
	want := []store.ProviderCall{
		{Step: 1, Provider: by.Name(), Model: "judge", Failure: "Quota (HTTP 402)"},
		{Step: 1, Provider: by.Name(), Model: "judge"},
		{Step: 2, Provider: by.Name(), Model: "judge-2026", Usage: &used},
	}
	if diff := cmp.Diff(want, reviews); diff != "" {
		t.Error(diff)
	}
	prices := provider.PriceTable{AsOf: "now"}.With("judge-2026", provider.Price{Input: 5})
	spent, err := f.store.Spend(context.Background(), store.ByPurpose, store.SpendFilter{}, prices)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(spent, func(s store.Spend) bool { return s.Key == string(store.ForReview) })
	if i < 0 || spent[i].CostMicros != 5 || spent[i].Calls != 3 || spent[i].Unpriced != 2 {
		t.Errorf("spent: %+v; want reviews that cost 5 in 3 calls, 2 of them unpriced", spent)
	}
	f.sound()
}
