package testkit

import (
	"encoding/json"
	"fmt"
)

// CheckChat is what strict servers of Chat Completions demand of a body.
func CheckChat(body string) error {
	var b struct {
		Model    string          `json:"model"`
		Tools    json.RawMessage `json:"tools"`
		Messages []struct {
			Role       string  `json:"role"`
			Content    any     `json:"content"`
			ToolCallID string  `json:"tool_call_id"`
			Name       *string `json:"name"`
			ToolCalls  []struct {
				ID       string `json:"id"`
				Type     string `json:"type"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		return err
	}
	if b.Model == "" || len(b.Messages) == 0 || string(b.Tools) == "[]" {
		return fmt.Errorf("model and messages are required, and tools must not be empty")
	}
	var open []string
	seen := map[string]bool{}
	for i, m := range b.Messages {
		if m.Role == "tool" {
			if len(open) == 0 || m.ToolCallID != open[0] {
				return fmt.Errorf("messages.%d: unexpected tool_call_id %q", i, m.ToolCallID)
			}
			open = open[1:]
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("messages.%d: tool_call_ids %v have no response", i, open)
		}
		if m.Content == nil && len(m.ToolCalls) == 0 {
			return fmt.Errorf("messages.%d: content must not be null", i)
		}
		for _, c := range m.ToolCalls {
			var args map[string]json.RawMessage
			if len(c.ID) != 9 || seen[c.ID] || c.Type != "function" || !toolName.MatchString(c.Function.Name) || json.Unmarshal([]byte(c.Function.Arguments), &args) != nil || args == nil {
				return fmt.Errorf("messages.%d: tool call %+v", i, c)
			}
			seen[c.ID] = true
			open = append(open, c.ID)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("tool_call_ids %v have no response", open)
	}
	return nil
}
