package anthropic

import (
	"encoding/json"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

// wireName marks the carry that this wire made.
const wireName = "anthropic"

// carry is what goes back with an assistant turn. The vendor signs its thinking:
// the blocks go back byte for byte, to the same model, or not at all.
type carry struct {
	Wire     string `json:"wire"`
	Provider string `json:"provider"`
	Model    string `json:"model"`

	// Blocks are the thinking blocks in stream order. Empty, and present, for a
	// turn in which the model could think and did not.
	Blocks []json.RawMessage `json:"blocks"`

	// Paused is the whole content of a turn that the vendor paused.
	Paused []json.RawMessage `json:"paused,omitempty"`
}

// carryFor reads a carry if it belongs to this provider and model.
func (c *Client) carryFor(raw json.RawMessage, model string) (carry, bool) {
	back, ok := c.readCarry(raw)
	return back, ok && back.Model == model
}

func (c *Client) readCarry(raw json.RawMessage) (carry, bool) {
	var back carry
	if len(raw) == 0 || json.Unmarshal(raw, &back) != nil {
		return carry{}, false
	}
	return back, back.Wire == wireName && back.Provider == c.cfg.Name
}

// bareCarry reports whether a message without text and calls is worth keeping
// for its carry: a paused turn may hold nothing else.
func (c *Client) bareCarry(raw json.RawMessage) bool {
	back, ok := c.readCarry(raw)
	return ok && len(back.Paused) > 0 && !c.cfg.NoPauseEcho
}

// paused reports whether the turn is to go back whole, so that the vendor goes
// on where it stopped.
func (c *Client) paused(t wire.Turn, model string) bool {
	back, ok := c.carryFor(t.Carry, model)
	return ok && len(back.Paused) > 0 && !c.cfg.NoPauseEcho && len(t.Calls) == 0
}

// thinkingHolds reports whether a request may ask for thinking: the vendor
// refuses one whose newest calls come without the thinking that led to them,
// as after a change of the model or a resume without the blocks.
func (c *Client) thinkingHolds(turns []wire.Turn, p plan) bool {
	for i := len(turns) - 1; i >= 0 && turns[i].Working; i-- {
		if turns[i].Role == provider.RoleAssistant && len(turns[i].Calls) > 0 {
			back, ok := c.carryFor(turns[i].Carry, p.model)
			// With a budget the model always thinks first; where it decides for
			// itself, a turn without blocks is one in which it did not.
			return ok && (len(back.Blocks) > 0 || p.mode == ThinkingAdaptive)
		}
	}
	return true
}
