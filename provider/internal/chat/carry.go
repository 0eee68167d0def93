package chat

import (
	"encoding/json"
)

// carry is what a vendor wants back with an assistant turn. Only the same
// provider and model get it back.
type carry struct {
	Wire     string `json:"wire"`
	Provider string `json:"provider"`
	Model    string `json:"model"`

	ReasoningContent string            `json:"reasoning_content,omitempty"`
	ReasoningDetails json.RawMessage   `json:"reasoning_details,omitempty"`
	ExtraContent     []json.RawMessage `json:"extra_content,omitempty"` // by position of the call; null for none
}

// carryFor reads a carry if it belongs to this dialect and model.
func (d Dialect) carryFor(raw json.RawMessage, model string) (carry, bool) {
	var c carry
	if len(raw) == 0 || json.Unmarshal(raw, &c) != nil {
		return carry{}, false
	}
	return c, c.Wire == wireName && c.Provider == d.Provider && c.Model == model
}
