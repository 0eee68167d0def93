package openai

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

type responsesBody struct {
	Model           string           `json:"model"`
	Stream          bool             `json:"stream"`
	Store           bool             `json:"store"`
	Instructions    string           `json:"instructions,omitempty"`
	Input           []any            `json:"input"`
	Tools           []any            `json:"tools,omitempty"`
	Reasoning       *reasoning       `json:"reasoning,omitempty"`
	Include         []string         `json:"include,omitempty"`
	MaxOutputTokens int64            `json:"max_output_tokens,omitempty"`
	MaxToolCalls    int              `json:"max_tool_calls,omitempty"`
	Text            *responsesFormat `json:"text,omitempty"`
}

type reasoning struct {
	Effort  provider.Effort `json:"effort"`
	Summary string          `json:"summary,omitempty"`
}

type responsesFormat struct {
	Format schemaFormat `json:"format"`
}

type schemaFormat struct {
	Type   string          `json:"type"`
	Name   string          `json:"name"`
	Strict bool            `json:"strict"`
	Schema json.RawMessage `json:"schema"`
}

type responsesTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

type searchTool struct {
	Type    string         `json:"type"`
	Filters *searchFilters `json:"filters,omitempty"`
}

type searchFilters struct {
	AllowedDomains []string `json:"allowed_domains"`
}

type inputMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"` // string or []inputPart
}

type inputPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
}

type functionCall struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type functionOutput struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output string `json:"output"`
}

// body is the body of req, with the thoughts that it hands back. What this wire
// cannot carry is a *provider.ConfigError.
func (c *Responses) body(req *provider.Request, model string, known lessons) (body []byte, thoughts []json.RawMessage, err error) {
	if err := wire.Check(req); err != nil {
		return nil, nil, err
	}
	b := responsesBody{Model: model, Stream: true, Instructions: req.SystemText(), MaxOutputTokens: req.MaxTokens}
	for _, t := range req.Tools {
		b.Tools = append(b.Tools, responsesTool{Type: "function", Name: t.Name, Description: t.Description, Parameters: wire.ToolSchema(t.Schema)})
	}
	if err := b.search(req.Web); err != nil {
		return nil, nil, err
	}
	if req.Effort != "" {
		b.Reasoning = &reasoning{Effort: req.Effort}
		if c.cfg.Summaries {
			b.Reasoning.Summary = "auto"
		}
		if !known.noEncrypted {
			b.Include = []string{"reasoning.encrypted_content"}
		}
	}
	if req.Output != nil && !known.noSchema {
		b.Text = &responsesFormat{schemaFormat{"json_schema", wire.SchemaName(req.Output.Name), wire.Strict(req.Output.Schema), req.Output.Schema}}
	}
	if b.Input, thoughts, err = c.input(req, model); err != nil {
		return nil, nil, err
	}
	body, err = wire.Encode(b)
	return body, thoughts, err
}

// search adds the vendor's own search, or refuses what this wire cannot state.
func (b *responsesBody) search(w provider.WebAccess) error {
	if !w.Enabled() {
		return nil
	}
	if w.Fetch {
		return &provider.ConfigError{Message: "web fetch cannot be asked of this wire: ask for search alone, or use the anthropic provider"}
	}
	allowed, blocked, err := w.Filter()
	if err != nil {
		return err
	}
	if len(blocked) > 0 {
		return &provider.ConfigError{Message: "web search on this wire takes no blocked domains: allow domains by name instead"}
	}
	tool := searchTool{Type: "web_search"}
	if len(allowed) > 0 {
		tool.Filters = &searchFilters{allowed}
	}
	b.Tools = append(b.Tools, tool)
	b.MaxToolCalls = w.MaxUses
	return nil
}

// input is the conversation as items, and the carries of the turns whose thinking is
// among them.
func (c *Responses) input(req *provider.Request, model string) (items []any, thoughts []json.RawMessage, err error) {
	if len(req.Messages) == 0 {
		return []any{said(req.User, req.Media)}, nil, nil
	}
	turns, err := wire.Transcript(req.Messages, nil)
	if err != nil {
		return nil, nil, err
	}
	last := len(turns) - 1
	for i, t := range turns {
		switch t.Role {
		case provider.RoleUser:
			var media []provider.Media
			if i == last {
				media = req.Media
			}
			items = append(items, said(t.Text, media))
		case provider.RoleAssistant:
			order, ok := c.carried(t, model)
			if ok {
				thoughts = append(thoughts, t.Carry)
			}
			items = append(items, answer(t, order, ok)...)
		case provider.RoleTool:
			for _, r := range t.Results {
				items = append(items, functionOutput{"function_call_output", r.ID, r.Content})
			}
		}
	}
	switch {
	case last < 0 || turns[last].Role == provider.RoleUser:
	case len(req.Media) > 0:
		items = append(items, said("", req.Media))
	case turns[last].Role == provider.RoleAssistant:
		items = append(items, said(wire.ContinueUser, nil))
	}
	return items, thoughts, nil
}

// said is a message of the user.
func said(text string, media []provider.Media) inputMessage {
	if len(media) == 0 {
		return inputMessage{"user", text}
	}
	var parts []inputPart
	if text != "" {
		parts = append(parts, inputPart{Type: "input_text", Text: text})
	}
	for _, m := range media {
		parts = append(parts, inputPart{Type: "input_image", ImageURL: "data:" + m.Type + ";base64," + m.Base64})
	}
	return inputMessage{"user", parts}
}

// answer is a replayed answer: text and calls, in order and with the model's thinking
// where it stood if that is known. Thinking comes back only in front of what it led
// to, or the vendor refuses it.
func answer(t wire.Turn, order []carried, known bool) []any {
	var text []any
	if t.Text != "" {
		text = append(text, inputMessage{"assistant", t.Text})
	}
	calls := make([]any, len(t.Calls))
	for i, call := range t.Calls {
		calls[i] = functionCall{"function_call", call.ID, call.Name, string(call.Args)}
	}
	if known {
		var items []any
		for _, o := range order {
			switch {
			case o.Reasoning != nil:
				items = append(items, o.Reasoning)
			case o.Call != nil:
				items = append(items, calls[*o.Call])
			default:
				items = append(items, text...)
			}
		}
		return items
	}
	return append(text, calls...)
}

// responsesWire marks the carry that this wire made.
const responsesWire = "responses"

// carry is the order of one answer, with the model's thinking in it.
type carry struct {
	Wire     string    `json:"wire"`
	Provider string    `json:"provider"`
	Model    string    `json:"model"`
	Order    []carried `json:"order"`
}

// carried is one item of an answer: thinking as it came, the call with that
// number, or the text.
type carried struct {
	Reasoning json.RawMessage `json:"reasoning,omitempty"`
	Call      *int            `json:"call,omitempty"`
}

// carried reads the order of a turn whose thinking must go back: one of this
// provider and model, since the user last spoke, that has text and calls once
// each.
func (c *Responses) carried(t wire.Turn, model string) ([]carried, bool) {
	var back carry
	if !t.Working || len(t.Carry) == 0 || json.Unmarshal(t.Carry, &back) != nil {
		return nil, false
	}
	if back.Wire != responsesWire || back.Provider != c.cfg.Name || back.Model != model {
		return nil, false
	}
	calls, texts := 0, 0
	for _, o := range back.Order {
		switch {
		case o.Reasoning != nil:
		case o.Call != nil:
			if *o.Call != calls {
				return nil, false
			}
			calls++
		default:
			texts++
		}
	}
	if calls != len(t.Calls) || texts > 1 || texts == 0 && t.Text != "" {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unreadable[sha256.Sum256(t.Carry)] {
		return nil, false
	}
	return back.Order, true
}
