package harness_test

import (
	"context"
	"fmt"
	"os"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
)

// What a run cost, by a table of one's own. The store keeps what was used and
// never a price, so that a corrected table corrects the past.
func ExampleConfig_accounting() {
	ctx, dir := context.Background(), tempDir()
	defer os.RemoveAll(dir)
	st, err := store.Memory(ctx)
	check(err)
	defer st.Close()
	model := scripted.New(
		scripted.Call("list_dir", nil).Using(provider.Usage{PromptTokens: 7_420, CompletionTokens: 5, TotalTokens: 7_425}),
		scripted.Say("There is nothing.").Using(provider.Usage{PromptTokens: 7_421, CompletionTokens: 5, TotalTokens: 7_426, CacheReadTokens: 7_408}),
	)
	model.Hint = "acme/large"
	h, err := harness.New(harness.Config{Provider: model, Store: st})
	check(err)
	_, err = h.Run(ctx, task.New("say what is here", dir))
	check(err)

	prices := provider.PriceTable{AsOf: "2026-08-01"}.With("acme/large", provider.Price{
		Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite: 3_750_000, // micro-units per million tokens
	})
	spend, err := st.Spend(ctx, store.ByModel, store.SpendFilter{}, prices)
	check(err)
	for _, s := range spend {
		rate, _ := s.CacheHitRate()
		fmt.Printf("%s: %d calls, %d tokens, %.6f, %.0f%% from the cache, %d unpriced\n",
			s.Key, s.Calls, s.Usage.TotalTokens, float64(s.CostMicros)/provider.MicrosPerUnit, rate*100, s.Unpriced)
	}
	// Output: acme/large: 2 calls, 14851 tokens, 0.024671, 50% from the cache, 0 unpriced
}
