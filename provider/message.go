package provider

import (
	"encoding/json"
	"slices"
)

// Role says who speaks in a Message.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// A Message is one turn of a conversation. User, Assistant and Results build
// the three kinds.
type Message struct {
	Role Role   `json:"role"`
	Text string `json:"text,omitempty"` // user and assistant

	Calls []ToolCall `json:"calls,omitempty"` // assistant: what it called, in order

	// Carry is what the vendor wants back with this assistant turn (signed
	// thinking and the like): Response.Carry of the answer that this message
	// replays, untouched. Only the wire that made it reads it; others leave it
	// out. It is never shown and never part of a recording's key.
	Carry json.RawMessage `json:"carry,omitempty"`

	Results []ToolResult `json:"results,omitempty"` // tool: answers to the assistant message right before
}

// User is a message in the user's words.
func User(text string) Message { return Message{Role: RoleUser, Text: text} }

// Assistant is an earlier answer of the model.
func Assistant(text string, calls ...ToolCall) Message {
	return Message{Role: RoleAssistant, Text: text, Calls: calls}
}

// Results answers the calls of the assistant message right before it.
func Results(results ...ToolResult) Message { return Message{Role: RoleTool, Results: results} }

func (m Message) clone() Message {
	m.Calls = slices.Clone(m.Calls)
	for i := range m.Calls {
		m.Calls[i].Arguments = slices.Clone(m.Calls[i].Arguments)
	}
	m.Results = slices.Clone(m.Results)
	m.Carry = slices.Clone(m.Carry)
	return m
}

// A ToolCall is a model's wish to use a tool.
type ToolCall struct {
	// ID pairs the call with its result. In a Response it is unique within that
	// response only; a caller that keeps calls may replace it by an id of its
	// own, as long as call and result say the same. It never reaches a vendor:
	// wires number calls by their position, so that no vendor can confuse two.
	ID string `json:"id,omitempty"`

	Name string `json:"name"`

	// Arguments is always one JSON object in compact form, with numbers as the
	// model wrote them. Nothing else about it has been checked.
	Arguments json.RawMessage `json:"arguments"`

	// ArgumentsError says what was wrong when the model's arguments were no
	// JSON object; Arguments is then {} and the call must not be run. Empty when
	// all is well.
	ArgumentsError string `json:"arguments_error,omitempty"`
}

// A ToolResult answers one call.
type ToolResult struct {
	CallID  string `json:"call_id"`
	Content string `json:"content"`
}
