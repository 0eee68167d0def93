package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// MicrosPerUnit is how many micro-units one unit of the caller's currency has.
const MicrosPerUnit = 1_000_000

// Price is what a model costs, in micro-units of the caller's currency: the
// first four per million tokens, the last for one request of a tool that the
// provider runs itself. The library ships no prices.
type Price struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`

	PerServerToolRequest int64 `json:"per_server_tool_request"`
}

// UnmarshalJSON refuses members that it does not know, as a *ConfigError: a price
// that is misspelled would read as free.
func (p *Price) UnmarshalJSON(b []byte) error {
	type plain Price
	var in plain
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return &ConfigError{Message: "price: " + err.Error()}
	}
	*p = Price(in)
	return nil
}

// PriceTier is the price of requests with a long prompt. It is whole, never a
// patch of another, and it prices the whole request.
type PriceTier struct {
	MinPromptTokens int64 `json:"min_prompt_tokens"`
	Price           Price `json:"price"`
}

// PriceTable turns usage into cost when the cost is read. Cost is never stored,
// so that a corrected price corrects the past.
type PriceTable struct {
	AsOf   string                 `json:"as_of"` // when the prices held, in the caller's words; required in JSON
	Prices map[string]Price       `json:"prices"`
	Tiers  map[string][]PriceTier `json:"tiers,omitempty"` // in any order

	// Aliases maps an id that a vendor reports to one that is priced, such as a
	// dated id to the plain one.
	Aliases map[string]string `json:"aliases,omitempty"`
}

// CostMicros is the cost of one completion in micro-units, rounded half-up
// once. It is false for a model without a base price, which is not a cost of
// zero. A sum beyond the largest int64 stays there.
func (t PriceTable) CostMicros(model string, u Usage) (int64, bool) {
	if alias, ok := t.Aliases[model]; ok {
		model = alias
	}
	p, ok := t.Prices[model]
	if !ok {
		return 0, false
	}
	floor := int64(-1)
	for _, tier := range t.Tiers[model] {
		if tier.MinPromptTokens <= u.PromptTokens && tier.MinPromptTokens > floor {
			floor, p = tier.MinPromptTokens, tier.Price
		}
	}
	fresh := max(max(u.PromptTokens-max(u.CacheReadTokens, 0), 0)-max(u.CacheWriteTokens, 0), 0)
	var sum wide
	sum.add(fresh, p.Input)
	sum.add(u.CompletionTokens, p.Output) // thinking is inside of it
	sum.add(u.CacheReadTokens, p.CacheRead)
	sum.add(u.CacheWriteTokens, p.CacheWrite)
	sum.add(1, MicrosPerUnit/2)
	cost := sum.over(MicrosPerUnit)
	var requests wide
	requests.add(u.ServerToolRequests, p.PerServerToolRequest)
	return satAdd(cost, requests.over(1)), true
}

// wide is a sum of products in 128 bits: a million tokens at a million micros
// each, times a million requests, must not wrap.
type wide struct{ hi, lo uint64 }

func (w *wide) add(a, b int64) {
	if a <= 0 || b <= 0 {
		return
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, lo, 0)
	w.hi, _ = bits.Add64(w.hi, hi, carry)
}

func (w *wide) over(n uint64) int64 {
	if w.hi >= n {
		return math.MaxInt64
	}
	q, _ := bits.Div64(w.hi, w.lo, n)
	return int64(min(q, math.MaxInt64))
}

// With returns a copy of t in which model has that base price.
func (t PriceTable) With(model string, p Price) PriceTable {
	prices := make(map[string]Price, len(t.Prices)+1)
	for k, v := range t.Prices {
		prices[k] = v
	}
	prices[model] = p
	t.Prices = prices
	return t
}

// WithTiers returns a copy of t in which model has those tiers; none removes
// them.
func (t PriceTable) WithTiers(model string, tiers ...PriceTier) PriceTable {
	all := make(map[string][]PriceTier, len(t.Tiers)+1)
	for k, v := range t.Tiers {
		all[k] = v
	}
	delete(all, model)
	if len(tiers) > 0 {
		all[model] = slices.Clone(tiers)
	}
	t.Tiers = all
	return t
}

// writtenTable is a table as JSON has it: what is not there can be told from zero.
type writtenTable struct {
	AsOf    string                   `json:"as_of"`
	Prices  map[string]*Price        `json:"prices"`
	Tiers   map[string][]writtenTier `json:"tiers"`
	Aliases map[string]string        `json:"aliases"`
}

type writtenTier struct {
	MinPromptTokens *int64 `json:"min_prompt_tokens"`
	Price           *Price `json:"price"`
}

// UnmarshalJSON refuses members that it does not know, negative prices, a model or
// a tier without its price, a tier without its floor, and a table without as_of: a
// price that is misspelled or missing would read as free.
func (t *PriceTable) UnmarshalJSON(b []byte) error {
	var p writtenTable
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return &ConfigError{Message: "price table: " + err.Error()}
	}
	if p.AsOf == "" {
		return &ConfigError{Message: "price table: as_of is missing: write when the prices held, such as 2026-08-01"}
	}
	out := PriceTable{AsOf: p.AsOf, Prices: make(map[string]Price, len(p.Prices)), Aliases: p.Aliases}
	for model, price := range p.Prices {
		switch {
		case price == nil:
			return &ConfigError{Message: fmt.Sprintf("price table: model %s has no price: leave it out, or write zeros if it is free", quote(model))}
		case !price.valid():
			return &ConfigError{Message: fmt.Sprintf("price table: model %s has a negative price", quote(model))}
		}
		out.Prices[model] = *price
	}
	for model, tiers := range p.Tiers {
		for _, tier := range tiers {
			switch {
			case tier.Price == nil || tier.MinPromptTokens == nil:
				return &ConfigError{Message: fmt.Sprintf("price table: a tier of model %s lacks its min_prompt_tokens or its price", quote(model))}
			case !tier.Price.valid() || *tier.MinPromptTokens < 0:
				return &ConfigError{Message: fmt.Sprintf("price table: model %s has a tier with a negative number", quote(model))}
			}
			if out.Tiers == nil {
				out.Tiers = make(map[string][]PriceTier, len(p.Tiers))
			}
			out.Tiers[model] = append(out.Tiers[model], PriceTier{*tier.MinPromptTokens, *tier.Price})
		}
	}
	*t = out
	return nil
}

func (p Price) valid() bool {
	return min(p.Input, p.Output, p.CacheRead, p.CacheWrite, p.PerServerToolRequest) >= 0
}
