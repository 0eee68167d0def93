package provider

import (
	"encoding/json"
	"slices"
	"strings"
)

// A Request is what a model is asked. The zero value of every field but the
// texts asks for nothing: no key for it appears on the wire, and none in a
// recording.
//
// A provider reads a request and never changes it; the caller must not change
// it either before Complete has returned.
type Request struct {
	// System is the instructions, as text blocks in order. Wires that take one
	// text join them with a blank line. Blocks of white space are not sent.
	System []string `json:"system"`

	// User is the whole user turn as one text. It is what is sent when Messages
	// is empty. With Messages it is not sent, and is then the rendering of the
	// same content that a recording is keyed by.
	User string `json:"user"`

	// Messages is the conversation, oldest first. It may end with assistant
	// messages: turns that the vendor paused, to be gone on with. A wire that
	// cannot go on with its own turn asks the model to.
	Messages []Message `json:"messages,omitempty"`

	// Tools is what the model may call. Empty asks for prose only.
	Tools []ToolSpec `json:"tools"`

	// Model overrides the provider's own model for this one request. The model
	// that really answered is in Response.Model.
	Model string `json:"model,omitempty"`

	// Effort is how hard the model should think; "" leaves it to the vendor.
	Effort Effort `json:"effort,omitempty"`

	// MaxTokens caps the generated tokens; 0 leaves it to the wire's default.
	MaxTokens int64 `json:"max_tokens,omitempty"`

	// Media are images beside the newest user turn.
	Media []Media `json:"media,omitempty"`

	// Web is what the provider may look up by itself.
	Web WebAccess `json:"web,omitzero"`

	// Output demands the shape of the answer from vendors that can promise one.
	// Whether the answer has that shape is the caller's to check.
	Output *OutputSchema `json:"output_schema,omitempty"`

	// CacheBoundary is a byte offset into User: the end of the prefix that is
	// stated to be the same on the next request. It is used only without
	// Messages, and ignored when it is not inside User on a character border.
	CacheBoundary int `json:"cache_boundary,omitempty"`

	// CacheThrough is how many leading Messages are stated to be the same on
	// the next request. Ignored when it exceeds their number.
	CacheThrough int `json:"cache_through,omitempty"`
}

// SystemText is the system blocks as one text: joined with a blank line, blocks
// of white space left out.
func (r *Request) SystemText() string {
	var kept []string
	for _, s := range r.System {
		if strings.TrimSpace(s) != "" {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, "\n\n")
}

// Clone returns a copy that shares no memory with r but the immutable texts.
func (r *Request) Clone() *Request {
	if r == nil {
		return nil
	}
	c := *r
	c.System = slices.Clone(r.System)
	c.Messages = slices.Clone(r.Messages)
	for i := range c.Messages {
		c.Messages[i] = c.Messages[i].clone()
	}
	c.Tools = slices.Clone(r.Tools)
	for i := range c.Tools {
		c.Tools[i].Schema = slices.Clone(c.Tools[i].Schema)
	}
	c.Media = slices.Clone(r.Media)
	c.Web.AllowedDomains = slices.Clone(r.Web.AllowedDomains)
	c.Web.BlockedDomains = slices.Clone(r.Web.BlockedDomains)
	if r.Output != nil {
		o := *r.Output
		o.Schema = slices.Clone(o.Schema)
		c.Output = &o
	}
	return &c
}

// ToolSpec offers one tool, in terms that no vendor owns.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"parameters"` // JSON Schema of the arguments, an object
}

// OutputSchema is the shape that the final answer should have.
type OutputSchema struct {
	Name   string          `json:"name,omitempty"` // "" means "output"; wires replace characters they refuse
	Schema json.RawMessage `json:"schema"`
}

// Effort is how hard a model should think. The tiers are ordered.
type Effort string

// The tiers.
const (
	EffortLow    Effort = "low"
	EffortMedium Effort = "medium"
	EffortHigh   Effort = "high"
)

// ParseEffort reads a tier, with white space around it and in any case. The
// empty text is the empty tier; anything else is a *ConfigError.
func ParseEffort(s string) (Effort, error) {
	switch e := Effort(strings.ToLower(strings.TrimSpace(s))); e {
	case "", EffortLow, EffortMedium, EffortHigh:
		return e, nil
	}
	return "", &ConfigError{Message: "effort " + quote(s) + " is not a tier: write low, medium or high"}
}
