package store_test

import (
	"context"
	"fmt"
	"log"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// A store tells afterwards what runs did and what they cost.
func Example() {
	ctx := context.Background()
	st, err := store.Memory(ctx) // or store.Open(ctx, "runs.db")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = st.Close() }()

	// The harness does this while it drives a run.
	d, err := st.StartRun(ctx, store.RunStart{Goal: "mend the build", Root: "/repo", Provider: "anthropic"})
	if err != nil {
		log.Fatal(err)
	}
	d.Record(store.ProviderCall{Step: 1, Provider: "anthropic", Model: "m",
		Usage: &provider.Usage{PromptTokens: 40_000, CompletionTokens: 2_000, TotalTokens: 42_000}})
	err = st.CommitStep(ctx, d, store.StepCommit{Step: 1, Decision: "read_file", Tokens: 42_000,
		Finish: &store.Finish{Outcome: trace.Outcome{Kind: trace.Success, Steps: 1}}})
	if err != nil {
		log.Fatal(err)
	}

	// This is for you.
	sum, err := st.RunSummary(ctx, d.RunID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum.Outcome, sum.Steps, sum.Tokens)
	prices := provider.PriceTable{AsOf: "2026-03-01"}.With("m", provider.Price{Input: 3_000_000, Output: 15_000_000})
	spend, err := st.Spend(ctx, store.ByModel, store.SpendFilter{}, prices)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range spend {
		fmt.Printf("%s: %d call, %.2f\n", s.Key, s.Calls, float64(s.CostMicros)/provider.MicrosPerUnit)
	}
	// Output:
	// success 1 42000
	// m: 1 call, 0.15
}
