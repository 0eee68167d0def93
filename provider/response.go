package provider

import (
	"encoding/json"
	"slices"
	"time"
)

// A Response is what one completion brought.
type Response struct {
	Text  string     `json:"text"`       // "" when the model wrote none
	Calls []ToolCall `json:"tool_calls"` // in order; ids unique within this response

	// Reasoning is the model's thinking as far as the vendor shows it. It is
	// for a watcher; it belongs in no later prompt. What a vendor needs back
	// is in Carry.
	Reasoning string `json:"reasoning,omitempty"`

	Usage *Usage `json:"usage"` // nil: the vendor said nothing, which is not zero

	Model string `json:"model,omitempty"` // the model that answered, in the vendor's words

	// FinishReason is the vendor's own word, verbatim. Ending classifies it.
	FinishReason string `json:"finish_reason,omitempty"`

	// Finish is set by a provider that knows more about the ending than
	// FinishReason tells, for instance a refusal that a vendor reports beside
	// an ordinary stop. Read Ending, which takes it into account.
	Finish Finish `json:"finish,omitempty"`

	// TTFT is the time from before the connection was opened to the first
	// text, thinking or tool-call content. Zero means that it was not measured.
	TTFT time.Duration `json:"ttft_ns,omitempty"`

	// ServedBy names the provider of a chain that answered, when that was not
	// the chain's first.
	ServedBy string `json:"served_by,omitempty"`

	// Failed are the calls that a chain made in vain before the one that
	// answered, in order. The vendor may have billed them.
	Failed []FailedCall `json:"failed,omitempty"`

	// SchemaDropped says that the vendor refused Request.Output and was asked
	// again without it; nothing held the answer to that shape.
	SchemaDropped bool `json:"schema_dropped,omitempty"`

	Citations   []Citation       `json:"citations,omitempty"`
	ServerTools []ServerToolCall `json:"server_tools,omitempty"`

	// Carry must be handed back as Message.Carry of this turn. Nil for most.
	Carry json.RawMessage `json:"carry,omitempty"`
}

// A FailedCall is one that failed inside of a completion that did not.
type FailedCall struct {
	Provider string        `json:"provider"` // name of the provider that failed
	Failure  string        `json:"failure"`  // kind with status: Error.Text
	Usage    *Usage        `json:"usage"`    // nil: not known, which is not zero
	Took     time.Duration `json:"took_ns"`
}

// Clone returns a copy that shares no memory with r but the immutable texts.
func (r *Response) Clone() *Response {
	if r == nil {
		return nil
	}
	c := *r
	c.Calls = slices.Clone(r.Calls)
	for i := range c.Calls {
		c.Calls[i].Arguments = slices.Clone(c.Calls[i].Arguments)
	}
	if r.Usage != nil {
		u := *r.Usage
		c.Usage = &u
	}
	c.Failed = slices.Clone(r.Failed)
	for i, f := range c.Failed {
		if f.Usage != nil {
			u := *f.Usage
			c.Failed[i].Usage = &u
		}
	}
	c.Citations = slices.Clone(r.Citations)
	c.ServerTools = slices.Clone(r.ServerTools)
	c.Carry = slices.Clone(r.Carry)
	return &c
}

// Message is the response as the assistant message of a later request.
func (r *Response) Message() Message {
	c := r.Clone()
	return Message{Role: RoleAssistant, Text: c.Text, Calls: c.Calls, Carry: c.Carry}
}
