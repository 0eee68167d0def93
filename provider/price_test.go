package provider_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
)

func TestCost(t *testing.T) {
	table := provider.PriceTable{AsOf: "2026-08-01"}.
		With("m", provider.Price{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite: 3_750_000}).
		With("search", provider.Price{Input: 1_000_000, PerServerToolRequest: 14_000}).
		With("requests", provider.Price{PerServerToolRequest: 1 << 32}).
		With("half", provider.Price{Input: 1}).
		With("dear", provider.Price{Input: math.MaxInt64, Output: math.MaxInt64, PerServerToolRequest: math.MaxInt64}).
		With("tiered", provider.Price{Input: 1_000_000, Output: 1_000_000}).
		WithTiers("tiered", provider.PriceTier{MinPromptTokens: 200_000, Price: provider.Price{Input: 2_000_000, Output: 3_000_000}}, provider.PriceTier{MinPromptTokens: 32_000, Price: provider.Price{Input: 1_500_000, Output: 1_000_000}}).
		WithTiers("orphan", provider.PriceTier{Price: provider.Price{Input: 1}})
	table.Aliases = map[string]string{"m-2026-01-31": "m"}
	for _, tc := range []struct {
		name  string
		model string
		u     provider.Usage
		want  int64
		ok    bool
	}{
		{"a million tokens", "m", provider.Usage{PromptTokens: 1_000_000, CompletionTokens: 1_000_000}, 18_000_000, true},
		// What goes into a cache is not also charged as fresh, and neither is what comes from it.
		{"written to the cache", "m", provider.Usage{PromptTokens: 1_000_000, CacheWriteTokens: 400_000}, 3_300_000, true},
		{"written to the cache and read from it", "m", provider.Usage{PromptTokens: 1_000_000, CacheReadTokens: 500_000, CacheWriteTokens: 400_000}, 1_950_000, true},
		{"counters below nothing", "m", provider.Usage{PromptTokens: -5, CompletionTokens: -5, CacheReadTokens: -5, CacheWriteTokens: -5, ServerToolRequests: -5}, 0, true},
		{"the first sum that is too large", "requests", provider.Usage{ServerToolRequests: 1 << 32}, math.MaxInt64, true},
		// A measured pair: the prompt read from the cache, and without one.
		{"read from the cache", "m", provider.Usage{PromptTokens: 7_421, CompletionTokens: 5, CacheWriteTokens: 0, CacheReadTokens: 7_408}, 2_336, true},
		{"the same without a cache", "m", provider.Usage{PromptTokens: 7_421, CompletionTokens: 5}, 22_338, true},
		{"thinking is not charged twice", "m", provider.Usage{CompletionTokens: 100, ReasoningTokens: 90}, 1_500, true},
		{"more cached than there was", "m", provider.Usage{PromptTokens: 10, CacheReadTokens: 20, CacheWriteTokens: 5}, 25, true},
		{"nothing used", "m", provider.Usage{}, 0, true},
		{"no such model", "other", provider.Usage{PromptTokens: 1}, 0, false},
		{"a dated id", "m-2026-01-31", provider.Usage{PromptTokens: 1_000_000}, 3_000_000, true},
		{"requests of the provider's own", "search", provider.Usage{PromptTokens: 1_000_000, ServerToolRequests: 2}, 1_028_000, true},
		{"half is rounded up once", "half", provider.Usage{PromptTokens: 500_000}, 1, true},
		{"less than half is rounded down", "half", provider.Usage{PromptTokens: 499_999}, 0, true},
		{"a sum beyond counting stays at the end", "dear", provider.Usage{PromptTokens: math.MaxInt64, CompletionTokens: math.MaxInt64, ServerToolRequests: math.MaxInt64}, math.MaxInt64, true},
		{"one below the tier", "tiered", provider.Usage{PromptTokens: 31_999}, 31_999, true},
		{"at the tier", "tiered", provider.Usage{PromptTokens: 32_000}, 48_000, true},
		{"below the next", "tiered", provider.Usage{PromptTokens: 199_999, CompletionTokens: 2}, 300_001, true},
		{"at the next, the whole request", "tiered", provider.Usage{PromptTokens: 200_000, CompletionTokens: 2}, 400_006, true},
		{"a tier without a base price", "orphan", provider.Usage{PromptTokens: 5}, 0, false},
	} {
		for range 2 {
			got, ok := table.CostMicros(tc.model, tc.u)
			if got != tc.want || ok != tc.ok {
				t.Errorf("%s = %d, %v; want %d, %v", tc.name, got, ok, tc.want, tc.ok)
			}
			slices.Reverse(table.Tiers["tiered"]) // the order of tiers means nothing
		}
	}
}

func TestPriceTablesInJSON(t *testing.T) {
	var old provider.PriceTable
	if err := json.Unmarshal([]byte(`{"as_of":"2026-08-01","prices":{"m":{"input":5}}}`), &old); err != nil || old.Prices["m"] != (provider.Price{Input: 5}) || old.Tiers != nil {
		t.Errorf("a table without tiers: %+v, %v", old, err)
	}
	full := old.WithTiers("m", provider.PriceTier{MinPromptTokens: 9, Price: provider.Price{Output: 7}})
	b, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var again provider.PriceTable
	if err := json.Unmarshal(b, &again); err != nil || cmp.Diff(full, again) != "" {
		t.Errorf("round trip: %v\n%s", err, cmp.Diff(full, again))
	}
	if b, _ := json.Marshal(old); strings.Contains(string(b), "tiers") {
		t.Errorf("empty tiers are written: %s", b)
	}
	for name, in := range map[string]string{
		"no date":            `{"prices":{}}`,
		"a misspelled price": `{"as_of":"x","prices":{"m":{"inptu":5}}}`,
		"an unknown member":  `{"as_of":"x","prices":{},"currency":"EUR"}`,
		"a patch as a tier":  `{"as_of":"x","prices":{},"tiers":{"m":[{"min_prompt_tokens":1,"input":5}]}}`,
		"a negative price":   `{"as_of":"x","prices":{"m":{"input":-1}}}`,
		"a negative tier":    `{"as_of":"x","prices":{},"tiers":{"m":[{"min_prompt_tokens":1,"price":{"output":-5}}]}}`,
		"a model without":    `{"as_of":"x","prices":{"m":null}}`,
		"a tier without":     `{"as_of":"x","prices":{},"tiers":{"m":[{"min_prompt_tokens":1}]}}`,
		"a tier of nowhere":  `{"as_of":"x","prices":{},"tiers":{"m":[{"price":{"output":5}}]}}`,
		"a fraction":         `{"as_of":"x","prices":{"m":{"input":1.5}}}`,
	} {
		var p provider.PriceTable
		var ce *provider.ConfigError
		if err := json.Unmarshal([]byte(in), &p); !errors.As(err, &ce) {
			t.Errorf("%s: %v, want a ConfigError", name, err)
		}
	}
}

func TestCopiesOfATableAreApart(t *testing.T) {
	base := provider.PriceTable{AsOf: "x"}.With("a", provider.Price{Input: 1}).WithTiers("a", provider.PriceTier{MinPromptTokens: 1})
	_ = base.With("b", provider.Price{})
	without := base.WithTiers("a")
	if len(base.Prices) != 1 || len(base.Tiers["a"]) != 1 || len(without.Tiers) != 0 {
		t.Errorf("base = %+v, without tiers = %+v", base, without)
	}
}

func TestTablesOfCatalogues(t *testing.T) {
	rows := []provider.ModelInfo{
		{ID: "priced", Price: &provider.Price{Input: 5}, PriceTiers: []provider.PriceTier{{MinPromptTokens: 9}}},
		{ID: "free", Price: &provider.Price{}}, {ID: "unpriced"},
	}
	table := provider.PriceTableOf(rows, "2026-08-01")
	if len(table.Prices) != 2 || len(table.Tiers) != 1 || table.AsOf != "2026-08-01" {
		t.Errorf("table = %+v", table)
	}
	if _, ok := table.CostMicros("unpriced", provider.Usage{}); ok {
		t.Error("an unpriced model has a cost")
	}
	if cost, ok := table.CostMicros("free", provider.Usage{PromptTokens: 5}); !ok || cost != 0 {
		t.Errorf("a free model costs %d, %v", cost, ok)
	}
	if s := provider.PriceFromReference("h"); s.Reference() != "h" || provider.PriceFromVendor.Reference() != "" {
		t.Errorf("source %q names %q", s, s.Reference())
	}
}
