package testkit

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// AnthropicEvents is a reply that sends each payload as an event of the
// Messages API, named by its type.
func AnthropicEvents(payloads ...string) Reply {
	var r Reply
	for _, p := range payloads {
		var head struct {
			Type string `json:"type"`
		}
		_ = json.Unmarshal([]byte(p), &head)
		r.Chunks = append(r.Chunks, Chunk{Data: "event: " + head.Type + "\ndata: " + p + "\n\n"})
	}
	return r
}

// AnthropicStart is the first event of an answer.
func AnthropicStart(model string) string {
	return fmt.Sprintf(`{"type":"message_start","message":{"id":"msg_1","model":%s,"usage":{"input_tokens":11,"output_tokens":1}}}`, jsonText(model))
}

// AnthropicEnd are the last events of an answer.
func AnthropicEnd(reason string) []string {
	return []string{
		fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%s},"usage":{"output_tokens":7}}`, jsonText(reason)),
		`{"type":"message_stop"}`,
	}
}

// AnthropicText is a plain answer.
func AnthropicText(model, text string) Reply {
	payloads := []string{AnthropicStart(model), `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"ping"}`}
	for _, w := range strings.SplitAfter(text, " ") {
		payloads = append(payloads, fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}`, jsonText(w)))
	}
	payloads = append(payloads, `{"type":"content_block_stop","index":0}`)
	return AnthropicEvents(append(payloads, AnthropicEnd("end_turn")...)...)
}

// AnthropicThinkingCall is an answer that thinks, signs its thinking, and calls
// a tool. args is the text of the arguments.
func AnthropicThinkingCall(model, thought, signature, id, name, args string) Reply {
	payloads := []string{
		AnthropicStart(model),
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":%s}}`, jsonText(thought)),
		fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":%s}}`, jsonText(signature)),
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"ENC"}}`,
		`{"type":"content_block_stop","index":1}`,
		fmt.Sprintf(`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":%s,"name":%s,"input":{}}}`, jsonText(id), jsonText(name)),
		fmt.Sprintf(`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":%s}}`, jsonText(args)),
		`{"type":"content_block_stop","index":2}`,
	}
	return AnthropicEvents(append(payloads, AnthropicEnd("tool_use")...)...)
}

var (
	anthropicID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	toolName    = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

type anthropicBody struct {
	Model     string          `json:"model"`
	MaxTokens int64           `json:"max_tokens"`
	System    json.RawMessage `json:"system"`
	Tools     json.RawMessage `json:"tools"`
	Messages  []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Thinking *struct {
		Type         string `json:"type"`
		BudgetTokens int64  `json:"budget_tokens"`
	} `json:"thinking"`
}

type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Thinking  *string         `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
}

// CheckAnthropic is what the Messages API demands of a body, as far as a run can
// get it wrong: it returns what the vendor would answer 400 with. signatures
// maps each signed thinking that the server has given out to its signature.
func CheckAnthropic(body string, signatures map[string]string) error {
	var b anthropicBody
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		return err
	}
	switch {
	case b.Model == "" || b.MaxTokens <= 0 || len(b.Messages) == 0:
		return fmt.Errorf("model, max_tokens and messages are required")
	case string(b.Tools) == "[]" || string(b.System) == "[]" || string(b.System) == `""`:
		return fmt.Errorf("an empty list or text is not accepted")
	case b.Thinking != nil && b.Thinking.Type == "enabled" && (b.Thinking.BudgetTokens < 1024 || b.Thinking.BudgetTokens >= b.MaxTokens):
		return fmt.Errorf("thinking.budget_tokens %d does not fit max_tokens %d", b.Thinking.BudgetTokens, b.MaxTokens)
	case b.Messages[0].Role != "user":
		return fmt.Errorf("the first message must be of the user")
	}
	var open []string
	for i, m := range b.Messages {
		blocks, err := anthropicBlocks(m.Content)
		if err != nil {
			return fmt.Errorf("messages.%d: %w", i, err)
		}
		if err := anthropicServerTools(m.Role, blocks, i == len(b.Messages)-1); err != nil {
			return fmt.Errorf("messages.%d: %w", i, err)
		}
		answered, err := anthropicAnswers(m.Role, blocks, open)
		if err != nil {
			return fmt.Errorf("messages.%d: %w", i, err)
		}
		if len(open) > 0 && !answered {
			return fmt.Errorf("messages.%d: tool_use ids %v have no tool_result in the next message", i, open)
		}
		if open, err = anthropicSpoken(m.Role, blocks, b.Thinking != nil, i == lastCalling(b), signatures); err != nil {
			return fmt.Errorf("messages.%d: %w", i, err)
		}
	}
	return nil
}

// lastCalling is the index of the newest message with calls that nothing but
// results follows.
func lastCalling(b anthropicBody) int {
	for i := len(b.Messages) - 1; i >= 0; i-- {
		blocks, err := anthropicBlocks(b.Messages[i].Content)
		if err != nil {
			return -1
		}
		for _, bl := range blocks {
			if bl.Type == "tool_use" {
				return i
			}
		}
		if b.Messages[i].Role == "user" && (len(blocks) == 0 || blocks[0].Type != "tool_result") {
			return -1
		}
	}
	return -1
}

func anthropicBlocks(raw json.RawMessage) ([]anthropicBlock, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []anthropicBlock{{Type: "text", Text: &text}}, nil
	}
	var blocks []anthropicBlock
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return nil, err
	}
	if len(blocks) == 0 {
		return nil, fmt.Errorf("content must not be empty")
	}
	return blocks, nil
}

// anthropicServerTools checks the tools that the vendor runs itself. A turn that
// it paused in may end the conversation, and nothing else of the assistant may.
func anthropicServerTools(role string, blocks []anthropicBlock, last bool) error {
	ran := false
	var open string
	for _, b := range blocks {
		switch {
		case b.Type == "server_tool_use":
			ran, open = true, b.ID
		case b.Type != "tool_result" && strings.HasSuffix(b.Type, "_tool_result"):
			if b.ToolUseID != open || open == "" {
				return fmt.Errorf("%s answers no server_tool_use", b.Type)
			}
			open = ""
		}
	}
	switch {
	case ran && role != "assistant":
		return fmt.Errorf("server_tool_use is not expected here")
	case last && role == "assistant" && !ran:
		return fmt.Errorf("the last message must not be of the assistant")
	case !last && open != "":
		return fmt.Errorf("server_tool_use %q has no result", open)
	}
	return nil
}

// anthropicAnswers checks the results of one message against the calls that are
// open.
func anthropicAnswers(role string, blocks []anthropicBlock, open []string) (bool, error) {
	n, other := 0, false
	for _, b := range blocks {
		if b.Type != "tool_result" {
			other = true
			continue
		}
		if role != "user" || other {
			return false, fmt.Errorf("tool_result must come first in a user message")
		}
		if n >= len(open) || b.ToolUseID != open[n] {
			return false, fmt.Errorf("unexpected tool_use_id %q", b.ToolUseID)
		}
		n++
	}
	return n == len(open), nil
}

func anthropicSpoken(role string, blocks []anthropicBlock, thinking, current bool, signatures map[string]string) (open []string, err error) {
	seen := map[string]bool{}
	for i, b := range blocks {
		switch b.Type {
		case "text":
			if b.Text == nil || strings.TrimSpace(*b.Text) == "" {
				return nil, fmt.Errorf("text content must not be blank")
			}
		case "thinking", "redacted_thinking":
			switch {
			case role != "assistant" || !thinking:
				return nil, fmt.Errorf("thinking is not expected here")
			case b.Type == "thinking" && (b.Thinking == nil || b.Signature == "" || signatures[*b.Thinking] != b.Signature):
				return nil, fmt.Errorf("invalid signature in thinking block")
			}
		case "tool_use":
			var input map[string]json.RawMessage
			if json.Unmarshal(b.Input, &input) != nil || input == nil {
				return nil, fmt.Errorf("tool_use.input must be an object")
			}
			if !anthropicID.MatchString(b.ID) || seen[b.ID] || !toolName.MatchString(b.Name) {
				return nil, fmt.Errorf("tool_use %q named %q", b.ID, b.Name)
			}
			seen[b.ID] = true
			open = append(open, b.ID)
		}
		if i == 0 && thinking && current && b.Type != "thinking" && b.Type != "redacted_thinking" {
			return nil, fmt.Errorf("expected thinking before tool_use, found %s", b.Type)
		}
	}
	return open, nil
}
