package catalog

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

// MaxBytes bounds a list of models. The largest known one has some hundred
// kilobytes.
const MaxBytes = 32 << 20

// Parse reads a list of models in the shapes that vendors use: {"data":[…]},
// {"models":[…]}, or the list alone. A row without an id is skipped.
func Parse(b []byte) ([]provider.ModelInfo, error) {
	if !json.Valid(b) {
		return nil, &provider.Error{Kind: provider.Malformed, Message: "the list of models is not JSON: " + wire.Excerpt(string(b))}
	}
	doc := gjson.ParseBytes(b)
	if f, ok := wire.FailureIn(doc); ok {
		return nil, f.Err()
	}
	list := doc
	for _, member := range []string{"data", "models"} {
		if l := doc.Get(member); doc.IsObject() && l.IsArray() {
			list = l
			break
		}
	}
	if !list.IsArray() {
		return nil, &provider.Error{Kind: provider.Malformed, Message: "the list of models holds no list: " + wire.Excerpt(string(b))}
	}
	out := []provider.ModelInfo{}
	for _, row := range list.Array() {
		if id := row.Get("id").String(); row.IsObject() && id != "" {
			out = append(out, info(id, row))
		}
	}
	return out, nil
}

func info(id string, row gjson.Result) provider.ModelInfo {
	m := provider.ModelInfo{
		ID:              id,
		ContextLength:   number(row, "context_length", "context_window", "max_model_len", "max_context_length"),
		MaxOutputTokens: number(row, "top_provider.max_completion_tokens", "max_completion_tokens", "max_output_tokens"),
		AcceptsImages:   listed(row, "architecture.input_modalities", "image", "capabilities.vision"),
		AcceptsTools:    listed(row, "supported_parameters", "tools", "capabilities.function_calling"),
	}
	if base, ok := price(row.Get("pricing"), provider.Price{}); ok {
		m.Price, m.PriceSource = &base, provider.PriceFromVendor
		for _, o := range row.Get("pricing.overrides").Array() {
			floor := number(o, "min_prompt_tokens")
			if floor == nil {
				continue
			}
			if p, ok := price(o, base); ok {
				m.PriceTiers = append(m.PriceTiers, provider.PriceTier{MinPromptTokens: *floor, Price: p})
			} else if states(o) {
				// A tier that makes no sense leaves the model unpriced: its base
				// price would be wrong for the requests that cost most.
				m.Price, m.PriceTiers, m.PriceSource = nil, nil, ""
				break
			}
		}
	}
	return m
}

// dimensions are the members of a price, what they fill, and how far their
// point moves: per token to micro-units per million tokens is twelve digits,
// per request to micro-units six.
var dimensions = []struct {
	member string
	places int
	field  func(*provider.Price) *int64
}{
	{"prompt", 12, func(p *provider.Price) *int64 { return &p.Input }},
	{"completion", 12, func(p *provider.Price) *int64 { return &p.Output }},
	{"input_cache_read", 12, func(p *provider.Price) *int64 { return &p.CacheRead }},
	{"input_cache_write", 12, func(p *provider.Price) *int64 { return &p.CacheWrite }},
	{"web_search", 6, func(p *provider.Price) *int64 { return &p.PerServerToolRequest }},
}

// price reads a price over base. It is false when none of the members is there,
// or one of them is no price: a variable price is often written as -1.
func price(r gjson.Result, base provider.Price) (provider.Price, bool) {
	found := false
	for _, d := range dimensions {
		v := r.Get(d.member)
		text := v.Raw
		switch v.Type {
		case gjson.String:
			text = v.Str
		case gjson.Number:
		case gjson.Null: // missing or null
			continue
		}
		n, ok := scaled(text, d.places)
		if !ok {
			return provider.Price{}, false
		}
		*d.field(&base) = n
		found = true
	}
	return base, found
}

// states reports whether any member of a price is there.
func states(r gjson.Result) bool {
	for _, d := range dimensions {
		if v := r.Get(d.member); v.Exists() && v.Type != gjson.Null {
			return true
		}
	}
	return false
}

func number(row gjson.Result, paths ...string) *int64 {
	for _, p := range paths {
		if v := row.Get(p); v.Type == gjson.Number && v.Int() > 0 {
			n := v.Int()
			return &n
		}
	}
	return nil
}

// listed answers whether a list contains a word, or a flag is set; nil when
// neither is there.
func listed(row gjson.Result, list, word, flag string) *bool {
	yes := false
	if l := row.Get(list); l.IsArray() {
		for _, v := range l.Array() {
			yes = yes || v.String() == word
		}
		return &yes
	}
	if f := row.Get(flag); f.IsBool() {
		yes = f.Bool()
		return &yes
	}
	return nil
}
