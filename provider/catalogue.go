package provider

import "strings"

// ModelInfo is one row of a catalogue. A nil pointer means that the vendor did
// not say, which is neither false nor zero.
type ModelInfo struct {
	ID              string `json:"id"`
	ContextLength   *int64 `json:"context_length,omitempty"`    // tokens
	MaxOutputTokens *int64 `json:"max_output_tokens,omitempty"` // tokens
	AcceptsImages   *bool  `json:"accepts_images,omitempty"`
	AcceptsTools    *bool  `json:"accepts_tools,omitempty"`

	Price       *Price      `json:"price,omitempty"`
	PriceTiers  []PriceTier `json:"price_tiers,omitempty"`
	PriceSource PriceSource `json:"price_source,omitempty"` // set exactly when Price is
}

// PriceSource says where a price came from. The set is open.
type PriceSource string

// PriceFromVendor marks a price of the vendor's own catalogue.
const PriceFromVendor PriceSource = "vendor"

const referencePrefix = "reference:"

// PriceFromReference marks a price that another catalogue, on that host, stated.
func PriceFromReference(host string) PriceSource { return PriceSource(referencePrefix + host) }

// Reference is the host of the other catalogue, "" when the price is not from
// one.
func (s PriceSource) Reference() string {
	host, ok := strings.CutPrefix(string(s), referencePrefix)
	if !ok {
		return ""
	}
	return host
}

// PriceTableOf makes a table of a catalogue. Models without a price are left
// out, never entered as free.
func PriceTableOf(models []ModelInfo, asOf string) PriceTable {
	t := PriceTable{AsOf: asOf, Prices: map[string]Price{}}
	for _, m := range models {
		if m.Price == nil {
			continue
		}
		t.Prices[m.ID] = *m.Price
		if len(m.PriceTiers) > 0 {
			t = t.WithTiers(m.ID, m.PriceTiers...)
		}
	}
	return t
}
