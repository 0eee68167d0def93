package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/anthropic"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
)

// BenchmarkPromptCache tells which share of its prompts a run reads from the
// cache of a vendor that keeps prefixes as the Messages API documents it, and how
// that compares with the most that a run of that many calls can read from a cache
// that was empty before: all that the call before has sent.
func BenchmarkPromptCache(b *testing.B) {
	for _, calls := range []int{6, 30} {
		b.Run(fmt.Sprintf("calls=%d", calls), func(b *testing.B) {
			for b.Loop() {
				share, most := cachedShare(b, calls)
				b.ReportMetric(share, "hit-rate")
				b.ReportMetric(most, "most-possible")
			}
		})
	}
}

func cachedShare(b *testing.B, calls int) (share, most float64) {
	b.Helper()
	const model = "claude-sonnet-4"
	var cache testkit.AnthropicCache
	var prompts []int64
	v := testkit.NewVendorFunc(b, func(n int, a testkit.Asked) testkit.Reply {
		use, err := cache.Ask(a.Body)
		if err != nil {
			b.Error(err)
		}
		prompts = append(prompts, use.Prompt())
		if n+1 == calls {
			return use.Metered(testkit.AnthropicText(model, "done"))
		}
		return use.Metered(testkit.AnthropicCalls(model, testkit.VendorCall{ID: "t", Name: "lookup", Args: fmt.Sprintf(`{"n":%d}`, n)}))
	})
	defer v.Close()
	p, err := anthropic.New(anthropic.Config{BaseURL: v.URL, Key: provider.NewSecret("key"), Model: model, Transport: v.Transport()})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	st, err := store.Open(ctx, filepath.Join(b.TempDir(), "runs.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	c := task.New("look things up", b.TempDir())
	c.Budget.Steps, c.Stall.Window = calls+1, -1
	c.Tools = append(c.Tools, lookup)
	if _, err := newHarness(b, st, p).Run(ctx, c); err != nil {
		b.Fatal(err)
	}
	spend, err := st.Spend(ctx, store.ByModel, store.SpendFilter{}, provider.PriceTable{})
	if err != nil || len(spend) != 1 {
		b.Fatal(spend, err)
	}
	share, _ = spend[0].CacheHitRate()
	var sum int64
	for _, p := range prompts {
		sum += p
	}
	return share, float64(sum-prompts[len(prompts)-1]) / float64(sum)
}
