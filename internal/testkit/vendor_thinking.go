package testkit

import (
	"encoding/json"
	"fmt"
	"slices"
)

// AnthropicThinkingCalls is an answer that thinks, signs its thinking, and calls
// several tools.
func AnthropicThinkingCalls(model, thought, signature string, calls ...VendorCall) Reply {
	payloads := []string{
		AnthropicStart(model),
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":%s}}`, jsonText(thought)),
		fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":%s}}`, jsonText(signature)),
		`{"type":"content_block_stop","index":0}`,
	}
	for i, c := range calls {
		payloads = append(payloads,
			fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%s,"name":%s,"input":{}}}`, i+1, jsonText(c.ID), jsonText(c.Name)),
			fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i+1, jsonText(c.Args)),
			fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i+1))
	}
	return AnthropicEvents(append(payloads, AnthropicEnd("tool_use")...)...)
}

// ChatThinkingCalls is an answer of Chat Completions that thinks and calls several
// tools. thought is the JSON object of the delta that holds its thinking.
func ChatThinkingCalls(model, thought string, calls ...VendorCall) Reply {
	r := ChatCalls(model, calls...)
	first := Stream(fmt.Sprintf(`{"model":%s,"choices":[{"index":0,"delta":%s,"finish_reason":null}]}`, jsonText(model), thought))
	r.Chunks = append(first.Chunks, r.Chunks...)
	return r
}

// ChatKeys says which keys a strict server of Chat Completions knows beside those
// of the plain wire: any other is refused, as some vendors do.
type ChatKeys struct{ Body, Assistant []string }

// CheckChatKeys is what a server demands that refuses keys it does not know.
func (k ChatKeys) CheckChatKeys(body string) error {
	var b map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		return err
	}
	known := append([]string{"model", "stream", "stream_options", "messages", "tools"}, k.Body...)
	for key := range b {
		if !slices.Contains(known, key) {
			return fmt.Errorf("unrecognized request argument %q", key)
		}
	}
	var messages []map[string]json.RawMessage
	if err := json.Unmarshal(b["messages"], &messages); err != nil {
		return err
	}
	for i, m := range messages {
		known := []string{"role", "content"}
		switch string(m["role"]) {
		case `"assistant"`:
			known = append(known, append([]string{"tool_calls"}, k.Assistant...)...)
		case `"tool"`:
			known = append(known, "tool_call_id")
		case `"system"`, `"user"`:
		default:
			return fmt.Errorf("messages.%d: role %s", i, m["role"])
		}
		for key := range m {
			if !slices.Contains(known, key) {
				return fmt.Errorf("messages.%d: unexpected key %q", i, key)
			}
		}
	}
	return nil
}
