package testkit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ResponsesEvents is a reply of the Responses API: each payload as an event named
// by its type, numbered in order.
func ResponsesEvents(payloads ...string) Reply {
	var r Reply
	for i, p := range payloads {
		var head struct {
			Type string `json:"type"`
		}
		_ = json.Unmarshal([]byte(p), &head)
		p = strings.TrimSuffix(p, "}") + fmt.Sprintf(`,"sequence_number":%d}`, i)
		r.Chunks = append(r.Chunks, Chunk{Data: "event: " + head.Type + "\ndata: " + p + "\n\n"})
	}
	return r
}

// ResponsesStart is the first event of an answer.
func ResponsesStart(model string) string {
	return fmt.Sprintf(`{"type":"response.created","response":{"id":"resp_1","object":"response","status":"in_progress","model":%s,"output":[],"usage":null,"error":null}}`, jsonText(model))
}

// ResponsesEnd is the last event of an answer; reason is empty for one that is
// complete.
func ResponsesEnd(model, reason string) string {
	status, details := "completed", "null"
	if reason != "" {
		status, details = "incomplete", `{"reason":`+jsonText(reason)+`}`
	}
	return fmt.Sprintf(`{"type":"response.%s","response":{"id":"resp_1","object":"response","status":%q,"model":%s,"error":null,"incomplete_details":%s,"usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":4},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":18}}}`,
		status, status, jsonText(model), details)
}

// ResponsesText is a plain answer.
func ResponsesText(model, text string) Reply {
	payloads := []string{ResponsesStart(model), `{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}`}
	for _, w := range strings.SplitAfter(text, " ") {
		payloads = append(payloads, fmt.Sprintf(`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":%s}`, jsonText(w)))
	}
	payloads = append(payloads,
		fmt.Sprintf(`{"type":"response.output_text.done","item_id":"msg_1","output_index":0,"content_index":0,"text":%s}`, jsonText(text)),
		fmt.Sprintf(`{"type":"response.output_item.done","output_index":0,"item":{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":%s,"annotations":[]}]}}`, jsonText(text)),
		ResponsesEnd(model, ""))
	return ResponsesEvents(payloads...)
}

// ResponsesCalls is an answer that calls tools. With a thought it begins with
// encrypted thinking of that content.
func ResponsesCalls(model, thought string, calls ...VendorCall) Reply {
	payloads := []string{ResponsesStart(model)}
	at := 0
	if thought != "" {
		payloads = append(payloads, `{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}`,
			fmt.Sprintf(`{"type":"response.output_item.done","output_index":0,"item":%s}`, ResponsesThought(thought)))
		at++
	}
	for i, c := range calls {
		item := func(args, status string) string {
			return fmt.Sprintf(`{"id":"fc_%d","type":"function_call","status":%q,"arguments":%s,"call_id":%s,"name":%s}`, i, status, jsonText(args), jsonText(c.ID), jsonText(c.Name))
		}
		half := len(c.Args) / 2
		for half > 0 && !utf8.RuneStart(c.Args[half]) {
			half--
		}
		payloads = append(payloads, fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":%s}`, at+i, item("", "in_progress")))
		for _, piece := range []string{c.Args[:half], c.Args[half:]} {
			payloads = append(payloads, fmt.Sprintf(`{"type":"response.function_call_arguments.delta","item_id":"fc_%d","output_index":%d,"delta":%s}`, i, at+i, jsonText(piece)))
		}
		payloads = append(payloads,
			fmt.Sprintf(`{"type":"response.function_call_arguments.done","item_id":"fc_%d","output_index":%d,"arguments":%s}`, i, at+i, jsonText(c.Args)),
			fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, at+i, item(c.Args, "completed")))
	}
	return ResponsesEvents(append(payloads, ResponsesEnd(model, ""))...)
}

// ResponsesThought is an item of encrypted thinking as the server gives it out.
func ResponsesThought(thought string) string {
	return fmt.Sprintf(`{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":%s}`, jsonText("E:"+thought))
}

// responsesKeys are the keys that the API knows, as far as anything here may send
// them.
var responsesKeys = []string{"model", "stream", "store", "instructions", "input", "tools", "reasoning", "include", "max_output_tokens", "max_tool_calls", "text"}

// CheckResponses is what the Responses API demands of a body: it returns what the
// vendor would answer 400 with. given are the thoughts that the server gave out.
func CheckResponses(body string, given map[string]bool) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &keys); err != nil {
		return err
	}
	for k := range keys {
		if !slices.Contains(responsesKeys, k) {
			return fmt.Errorf("unknown parameter: %q", k)
		}
	}
	var b struct {
		Model, Instructions string
		Stream, Store       *bool
		Tools               []struct{ Type, Name string }
		Input               []json.RawMessage
	}
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		return err
	}
	switch {
	case b.Model == "" || len(b.Input) == 0:
		return fmt.Errorf("model and input are required")
	case b.Store == nil || *b.Store:
		return fmt.Errorf("nothing may be stored for this organization")
	case string(keys["tools"]) == "[]":
		return fmt.Errorf("tools must not be empty")
	}
	for i, t := range b.Tools {
		if t.Type == "function" && !toolName.MatchString(t.Name) {
			return fmt.Errorf("tools.%d: name %q", i, t.Name)
		}
	}
	return responsesInput(b.Input, given)
}

func responsesInput(input []json.RawMessage, given map[string]bool) error {
	open, seen := []string{}, map[string]bool{}
	thinking := "" // encrypted thinking that nothing has followed yet
	for i, raw := range input {
		var it struct {
			Type, Role, Name, Arguments string
			CallID                      string `json:"call_id"`
			Encrypted                   string `json:"encrypted_content"`
			Output                      *string
			Content                     json.RawMessage
		}
		if err := json.Unmarshal(raw, &it); err != nil {
			return err
		}
		fail := func(format string, args ...any) error {
			return fmt.Errorf("input.%d: %s", i, fmt.Sprintf(format, args...))
		}
		if it.Type == "" && it.Role != "" {
			it.Type = "message"
		}
		if thinking != "" && (it.Type == "reasoning" || it.Type == "function_call_output" || it.Role == "user") {
			return fail("item of type 'reasoning' was provided without its required following item")
		}
		thinking = ""
		if len(open) > 0 && it.Type == "message" && it.Role == "user" {
			return fail("no tool output found for function call %s", open[0])
		}
		switch it.Type {
		case "message":
			var text string
			blank := json.Unmarshal(it.Content, &text) == nil && text == ""
			if it.Role != "user" && it.Role != "assistant" || len(it.Content) == 0 || blank && it.Role == "assistant" {
				return fail("message %s", raw)
			}
		case "reasoning":
			thought, ok := strings.CutPrefix(it.Encrypted, "E:")
			if !ok || !given[thought] {
				return fail("encrypted content %q could not be verified", it.Encrypted)
			}
			thinking = it.Encrypted
		case "function_call":
			var args map[string]json.RawMessage
			if it.CallID == "" || seen[it.CallID] || !toolName.MatchString(it.Name) || json.Unmarshal([]byte(it.Arguments), &args) != nil || args == nil {
				return fail("function call %s", raw)
			}
			seen[it.CallID] = true
			open = append(open, it.CallID)
		case "function_call_output":
			at := slices.Index(open, it.CallID)
			if at < 0 || it.Output == nil {
				return fail("no tool call found for function call output with call_id %q", it.CallID)
			}
			open = slices.Delete(open, at, at+1)
		default:
			return fail("type %q", it.Type)
		}
	}
	switch {
	case thinking != "":
		return fmt.Errorf("item of type 'reasoning' was provided without its required following item")
	case len(open) > 0:
		return fmt.Errorf("no tool output found for function call %s", open[0])
	}
	return nil
}
