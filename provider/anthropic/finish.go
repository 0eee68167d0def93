package anthropic

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

// finish is the response, or why there is none.
func (a *accumulator) finish() (*provider.Response, error) {
	for slot, input := range a.inputs {
		if slot.Empty() {
			slot.Replace(input)
		}
	}
	resp := &provider.Response{
		Text:         a.text.String(),
		Calls:        a.calls.Calls(),
		Reasoning:    a.reasoning.String(),
		Usage:        a.counters(),
		Model:        a.served,
		FinishReason: a.stop,
		TTFT:         a.ttft,
		Citations:    a.sources.List(),
		ServerTools:  a.tools,
	}
	if err := a.unusable(resp); err != nil {
		return nil, err
	}
	back, err := a.carry(resp)
	if err != nil {
		return nil, err
	}
	resp.Carry = back
	return resp, nil
}

// unusable tells an answer from what only looks like one.
func (a *accumulator) unusable(resp *provider.Response) error {
	bare := resp.Text == "" && len(resp.Calls) == 0
	malformed := func(message string) error {
		return a.partial(&provider.Error{Kind: provider.Malformed, Message: message})
	}
	switch ending := resp.Ending(); {
	case a.seen == 0:
		return malformed("the answer holds nothing that can be read")
	case !a.ended:
		return malformed("the stream was cut before its end")
	case bare && ending == provider.FinishMalformedCall:
		return malformed("the model meant to call a tool and named none")
	case bare && resp.Usage == nil && !wire.Withheld(ending) && !(ending == provider.FinishPaused && len(a.blocks) > 0):
		return malformed("the answer holds no text, no tool call and no usage")
	}
	return nil
}

func (a *accumulator) carry(resp *provider.Response) (json.RawMessage, error) {
	back := carry{Wire: wireName, Provider: a.cfg.Name, Model: a.plan.model, Blocks: []json.RawMessage{}}
	pausing := resp.Ending() == provider.FinishPaused && !a.cfg.NoPauseEcho
	for _, b := range a.blocks {
		raw, err := b.back()
		if err != nil {
			return nil, err
		}
		if raw == nil {
			continue
		}
		if thought(b.kind) {
			back.Blocks = append(back.Blocks, raw)
		}
		if pausing {
			back.Paused = append(back.Paused, raw)
		}
	}
	if len(back.Blocks) == 0 && len(back.Paused) == 0 && a.plan.mode == "" {
		return nil, nil
	}
	return wire.Encode(back)
}

// thought reports whether a block of that type is of the model's thinking.
func thought(kind string) bool { return kind == "thinking" || kind == "redacted_thinking" }

// back is the block as the vendor wants it again, nil when it is none that
// could be sent.
func (b *content) back() (json.RawMessage, error) {
	switch b.kind {
	case "":
		return nil, nil
	case "thinking":
		return wire.Encode(struct {
			Type      string `json:"type"`
			Thinking  string `json:"thinking"`
			Signature string `json:"signature"`
		}{b.kind, b.text.String(), b.signature.String()})
	case "text":
		if b.text.Len() == 0 {
			return nil, nil
		}
		return wire.Encode(block{Type: "text", Text: b.text.String()})
	case "tool_use", "server_tool_use":
		input := b.input.String()
		if input == "" {
			return json.RawMessage(b.raw), nil
		}
		args, _ := wire.Arguments(input)
		start := gjson.Parse(b.raw)
		return wire.Encode(block{Type: b.kind, ID: start.Get("id").String(), Name: start.Get("name").String(), Input: args})
	}
	return json.RawMessage(b.raw), nil
}
