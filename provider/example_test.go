package provider_test

import (
	"errors"
	"fmt"

	"github.com/initorigin/io-harness-go/provider"
)

// Cost is worked out when it is read, from a table that the caller owns.
func ExamplePriceTable() {
	table := provider.PriceTable{AsOf: "2026-08-01"}.With("vendor/model", provider.Price{
		Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, // micro-units per million tokens
	})
	usage := provider.Usage{PromptTokens: 7_421, CacheReadTokens: 7_408, CompletionTokens: 5}
	micros, priced := table.CostMicros("vendor/model", usage)
	fmt.Println(micros, priced)
	_, priced = table.CostMicros("vendor/other", usage)
	fmt.Println(priced)
	// Output:
	// 2336 true
	// false
}

// A failure is tested by its kind, wherever it stands in a chain of errors.
func ExampleKind() {
	err := fmt.Errorf("step 3: %w", &provider.Error{Kind: provider.RateLimited, Status: 429, Message: "slow down", Provider: "openai"})
	fmt.Println(errors.Is(err, provider.RateLimited))
	fmt.Println(err)
	// Output:
	// true
	// step 3: openai: RateLimited (HTTP 429): slow down
}
