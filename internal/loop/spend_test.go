package loop

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/fallback"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

func named(label string, turns ...scripted.Turn) *scripted.Model {
	m := scripted.New(turns...)
	m.Label, m.Hint = label, label+"-model"
	return m
}

// callRows are the parts of rows that do not depend on time.
var callRows = cmpopts.IgnoreFields(store.ProviderCall{}, "ID", "Latency", "FirstToken", "At")

func TestAFalloverThatWorkedIsPaidForTwice(t *testing.T) {
	f := newFixture(t)
	used := &provider.Usage{PromptTokens: 50, TotalTokens: 50}
	chain, err := fallback.New(
		named("a", scripted.Fail(&provider.Error{Kind: provider.Server, Status: 502, Usage: used}), scripted.FailKind(provider.Timeout, "late")),
		named("b", readCall("x"), scripted.Say("done")))
	if err != nil {
		t.Fatal(err)
	}
	f.host.Provider = chain
	res := f.must(trace.Finished)
	answered := &provider.Usage{PromptTokens: 100, CompletionTokens: 20, TotalTokens: 120}
	want := []store.ProviderCall{
		{Step: 1, Purpose: store.ForStep, Provider: "a", Usage: used, Failure: "Server (HTTP 502)"},
		{Step: 1, Purpose: store.ForStep, Provider: "a -> b", Model: "b-model", Usage: answered, FinishReason: "tool_calls"},
		{Step: 2, Purpose: store.ForStep, Provider: "a -> b", Model: "b-model", Usage: answered, FinishReason: "stop"},
	}
	if diff := cmp.Diff(want, f.providerCalls(res.RunID), callRows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if steps := f.steps(res.RunID); steps[0].Tokens != 170 || steps[1].Tokens != 120 {
		t.Errorf("the steps drew %d and %d tokens, want 170 and 120", steps[0].Tokens, steps[1].Tokens)
	}
}

func TestAnEscalationSaysWhyItWasNotTriedAgain(t *testing.T) {
	minutes := func(n int) *time.Duration {
		d := time.Duration(n) * time.Minute
		return &d
	}
	limited := func(after *time.Duration) scripted.Turn {
		return scripted.Fail(&provider.Error{Kind: provider.RateLimited, Status: 429, RetryAfter: after})
	}
	for _, tc := range []struct {
		name   string
		turn   scripted.Turn
		change func(*task.Contract)
		want   string
	}{
		{"tries used up", scripted.FailKind(provider.Server, "x"), func(c *task.Contract) { c.Budget.Retries = -1 }, "escalated after Server"},
		{"of no use", scripted.FailKind(provider.Auth, "x"), func(*task.Contract) {}, "escalated after Auth"},
		{"the server wants longer than is waited for", limited(minutes(90)), func(*task.Contract) {}, "escalated after RateLimited (HTTP 429) (the server asked for 1h30m0s)"},
		{"the run has less time", limited(minutes(2)), func(c *task.Contract) { c.Budget.Duration = time.Minute },
			"escalated after RateLimited (HTTP 429) (a retry in 2m0s would outlast the time budget)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.turn)
			res, err := f.run(tc.change)
			if err == nil || res.Outcome.Kind != trace.EscalatedRetryable && res.Outcome.Kind != trace.EscalatedTerminal {
				t.Fatalf("%s, %v", res.Outcome, err)
			}
			rows, err := store.Collect(f.store.StepAttempts(context.Background(), res.RunID))
			if err != nil || len(rows) != 1 || rows[0].Decision != tc.want {
				t.Errorf("%+v, %v; want %q", rows, err, tc.want)
			}
		})
	}
}

func TestACallThatWasEndedKeepsWhatItUsed(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	used := &provider.Usage{PromptTokens: 40, TotalTokens: 40}
	f.script(func(context.Context, *provider.Request) (*provider.Response, error) {
		cancel()
		return nil, &provider.Interrupted{Provider: "scripted", Usage: used, Err: context.Canceled}
	})
	res, err := Run(ctx, f.host, f.contract(), nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	want := []store.ProviderCall{{Step: 1, Purpose: store.ForStep, Provider: "scripted", Usage: used, Failure: "Cancelled"}}
	if diff := cmp.Diff(want, f.providerCalls(res.RunID), callRows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestNonsenseFromAProviderLiftsNoBudget(t *testing.T) {
	f := newFixture(t)
	nonsense := &provider.Usage{TotalTokens: math.MaxInt64}
	f.script(scripted.Fail(&provider.Error{Kind: provider.Server, Usage: nonsense}), readCall("x"), scripted.Say("done"))
	f.must(trace.CostBudgetExceeded, func(c *task.Contract) {
		c.Budget.Tokens = 1000
		c.Retry = provider.RetryPolicy{Base: time.Millisecond}
	})
}

func TestTheWaitsOfACompletionAreOnRecord(t *testing.T) {
	f := newFixture(t)
	f.script(scripted.FailKind(provider.Server, "x"), scripted.FailKind(provider.Server, "x"), scripted.FailKind(provider.Server, "x"), scripted.FailKind(provider.Server, "x"))
	res, err := f.run(func(c *task.Contract) {
		c.Budget.Retries = 3
		c.Retry = provider.RetryPolicy{Base: 40 * time.Millisecond}
	})
	if !errors.Is(err, provider.Server) || res.Outcome.Kind != trace.EscalatedRetryable {
		t.Fatalf("%s, %v", res.Outcome, err)
	}
	rows, err := store.Collect(f.store.StepAttempts(context.Background(), res.RunID))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, r.Decision)
	}
	want := []string{"retry 1 after Server in 40ms", "retry 2 after Server in 80ms", "retry 3 after Server in 160ms", "escalated after Server"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	if n := len(f.providerCalls(res.RunID)); n != 4 {
		t.Errorf("%d calls, want 4", n)
	}
}

func TestARequestThatIsTooLongEndsTheRunAtOnceWhereNothingIsFolded(t *testing.T) {
	f := newFixture(t, scripted.FailKind(provider.ContextOverflow, "too long"))
	res, err := f.run(func(c *task.Contract) { c.Compaction.Share = task.NoCompaction })
	if !errors.Is(err, provider.ContextOverflow) || res.Outcome.Kind != trace.EscalatedTerminal {
		t.Errorf("%s, %v", res.Outcome, err)
	}
}
