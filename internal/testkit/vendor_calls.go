package testkit

import "fmt"

// VendorCall is one tool call as a vendor streams it; Args is the text of its
// arguments.
type VendorCall struct{ ID, Name, Args string }

// ChatCalls is the Chat Completions stream of several calls of one completion,
// each in two fragments.
func ChatCalls(model string, calls ...VendorCall) Reply {
	var payloads []string
	delta := func(call string) {
		payloads = append(payloads, fmt.Sprintf(`{"model":%s,"choices":[{"index":0,"delta":{"tool_calls":[%s]},"finish_reason":null}]}`, jsonText(model), call))
	}
	for i, c := range calls {
		delta(fmt.Sprintf(`{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}`, i, jsonText(c.ID), jsonText(c.Name)))
		delta(fmt.Sprintf(`{"index":%d,"function":{"arguments":%s}}`, i, jsonText(c.Args)))
	}
	return Stream(append(payloads, chatEnd(model, "tool_calls")...)...)
}

// AnthropicCalls is the Messages stream of several calls of one completion.
func AnthropicCalls(model string, calls ...VendorCall) Reply {
	payloads := []string{AnthropicStart(model)}
	for i, c := range calls {
		payloads = append(payloads,
			fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%s,"name":%s,"input":{}}}`, i, jsonText(c.ID), jsonText(c.Name)),
			fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i, jsonText(c.Args)),
			fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
	}
	return AnthropicEvents(append(payloads, AnthropicEnd("tool_use")...)...)
}

// CutAfter is r without its chunks from the n-th on, and without the end that
// HTTP asks for: a connection that broke.
func CutAfter(r Reply, n int) Reply {
	r.Chunks, r.Cut = r.Chunks[:min(n, len(r.Chunks))], true
	return r
}
