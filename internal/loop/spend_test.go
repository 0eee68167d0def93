package loop

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/fallback"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
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
