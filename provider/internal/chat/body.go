package chat

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

type body struct {
	Model         string         `json:"model"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options,omitempty"`
	Messages      []message      `json:"messages"`
	Tools         []tool         `json:"tools,omitempty"`

	MaxTokens           int64 `json:"max_tokens,omitempty"`
	MaxCompletionTokens int64 `json:"max_completion_tokens,omitempty"`

	ReasoningEffort provider.Effort `json:"reasoning_effort,omitempty"`
	Reasoning       *reasoning      `json:"reasoning,omitempty"`

	WebSearchOptions *webOptions `json:"web_search_options,omitempty"`
	Plugins          []plugin    `json:"plugins,omitempty"`

	ResponseFormat *responseFormat `json:"response_format,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type reasoning struct {
	Effort provider.Effort `json:"effort"`
}

type webOptions struct {
	Filters *webFilters `json:"filters,omitempty"`
}

type webFilters struct {
	AllowedDomains []string `json:"allowed_domains"`
}

type plugin struct {
	ID         string `json:"id"`
	MaxResults int    `json:"max_results,omitempty"`
}

type responseFormat struct {
	Type   string     `json:"type"`
	Schema jsonSchema `json:"json_schema"`
}

type jsonSchema struct {
	Name   string          `json:"name"`
	Strict bool            `json:"strict"`
	Schema json.RawMessage `json:"schema"`
}

type message struct {
	Role             string          `json:"role"`
	Content          any             `json:"content"` // string, []part, or null
	ReasoningContent string          `json:"reasoning_content,omitempty"`
	ReasoningDetails json.RawMessage `json:"reasoning_details,omitempty"`
	ToolCalls        []toolCall      `json:"tool_calls,omitempty"`
	ToolCallID       string          `json:"tool_call_id,omitempty"`
}

type part struct {
	Type         string        `json:"type"`
	Text         *string       `json:"text,omitempty"`
	ImageURL     *imageURL     `json:"image_url,omitempty"`
	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type cacheControl struct {
	Type string `json:"type"`
}

type toolCall struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Function     function        `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type tool struct {
	Type     string       `json:"type"`
	Function toolFunction `json:"function"`
}

type toolFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// Body is the body of req in this dialect. What the dialect cannot carry is a
// *provider.ConfigError.
func (d Dialect) Body(req *provider.Request) ([]byte, error) {
	if err := wire.Check(req); err != nil {
		return nil, err
	}
	model, err := wire.Model(req, d.Model)
	if err != nil {
		return nil, err
	}
	b := body{Model: model, Stream: true}
	if !d.OmitStreamOptions {
		b.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if err := d.web(&b, req.Web); err != nil {
		return nil, err
	}
	if b.Messages, err = d.messages(req, model); err != nil {
		return nil, err
	}
	for _, t := range req.Tools {
		b.Tools = append(b.Tools, tool{"function", toolFunction{t.Name, t.Description, wire.ToolSchema(t.Schema)}})
	}
	if d.MaxTokensField == "max_completion_tokens" {
		b.MaxCompletionTokens = req.MaxTokens
	} else {
		b.MaxTokens = req.MaxTokens
	}
	if d.OpenRouter && req.Effort != "" {
		b.Reasoning = &reasoning{req.Effort}
	} else {
		b.ReasoningEffort = req.Effort
	}
	if req.Output != nil && d.OutputSchema {
		b.ResponseFormat = &responseFormat{"json_schema", jsonSchema{wire.SchemaName(req.Output.Name), wire.Strict(req.Output.Schema), req.Output.Schema}}
	}
	return wire.Encode(b)
}

// web adds what the provider may look up, or refuses what this wire cannot
// state, so that no filter is ever dropped silently.
func (d Dialect) web(b *body, w provider.WebAccess) error {
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
	if d.OpenRouter {
		if len(allowed)+len(blocked) > 0 {
			return &provider.ConfigError{Message: "web search through this gateway takes no domain lists: leave them out, or use a vendor's own provider"}
		}
		b.Plugins = []plugin{{ID: "web", MaxResults: w.MaxUses}}
		return nil
	}
	if len(blocked) > 0 {
		return &provider.ConfigError{Message: "web search on this wire takes no blocked domains: allow domains by name instead"}
	}
	b.WebSearchOptions = &webOptions{}
	if len(allowed) > 0 {
		b.WebSearchOptions.Filters = &webFilters{allowed}
	}
	return nil
}

func (d Dialect) messages(req *provider.Request, model string) ([]message, error) {
	var out []message
	if system := req.SystemText(); system != "" {
		m := message{Role: "system", Content: system}
		if d.OpenRouter {
			m.Content = []part{marked(system)}
		}
		out = append(out, m)
	}
	if len(req.Messages) == 0 {
		return append(out, d.flat(req)), nil
	}
	turns, err := wire.Transcript(req.Messages, nil)
	if err != nil {
		return nil, err
	}
	markAt := -1 // index of the turn whose text ends the stable prefix
	if n := req.CacheThrough; d.OpenRouter && n > 0 && n <= len(req.Messages) {
		for i, t := range turns {
			if t.Role == provider.RoleUser && t.Source >= 0 && t.Source < n {
				markAt = i
			}
		}
	}
	for i, t := range turns {
		switch t.Role {
		case provider.RoleUser:
			m := message{Role: "user", Content: t.Text}
			if i == markAt {
				m.Content = []part{marked(t.Text)}
			}
			if i == len(turns)-1 && len(req.Media) > 0 {
				m.Content = append(parts(m.Content), images(req.Media)...)
			}
			out = append(out, m)
		case provider.RoleAssistant:
			out = append(out, d.assistant(t, model))
		case provider.RoleTool:
			for _, r := range t.Results {
				out = append(out, message{Role: "tool", Content: r.Content, ToolCallID: r.ID})
			}
		}
	}
	if len(req.Media) > 0 && (len(turns) == 0 || turns[len(turns)-1].Role != provider.RoleUser) {
		// Neither a result nor an assistant message can hold an image here.
		out = append(out, message{Role: "user", Content: images(req.Media)})
	} else if len(turns) > 0 && turns[len(turns)-1].Role == provider.RoleAssistant {
		out = append(out, message{Role: "user", Content: wire.ContinueUser})
	}
	return out, nil
}

// flat is the one user message of a request without messages.
func (d Dialect) flat(req *provider.Request) message {
	m := message{Role: "user", Content: req.User}
	if at := req.CacheBoundary; d.OpenRouter && at > 0 && at < len(req.User) && utf8.RuneStart(req.User[at]) {
		m.Content = []part{marked(req.User[:at]), text(req.User[at:])}
	}
	if len(req.Media) > 0 {
		m.Content = append(parts(m.Content), images(req.Media)...)
	}
	return m
}

func (d Dialect) assistant(t wire.Turn, model string) message {
	m := message{Role: "assistant"}
	if t.Text != "" {
		m.Content = t.Text
	}
	var back carry
	if t.Working {
		if c, ok := d.carryFor(t.Carry, model); ok {
			back = c
		}
	}
	for i, c := range t.Calls {
		call := toolCall{ID: c.ID, Type: "function", Function: function{c.Name, string(c.Args)}}
		if d.ExtraContent && i < len(back.ExtraContent) && string(back.ExtraContent[i]) != "null" {
			call.ExtraContent = back.ExtraContent[i]
		}
		m.ToolCalls = append(m.ToolCalls, call)
	}
	if d.ReasoningContent && len(t.Calls) > 0 {
		// The vendor refuses the message without the key, and an empty text
		// counts as missing.
		m.ReasoningContent = " "
		if strings.TrimSpace(back.ReasoningContent) != "" {
			m.ReasoningContent = back.ReasoningContent
		}
	}
	if d.OpenRouter {
		m.ReasoningDetails = back.ReasoningDetails
	}
	return m
}

func text(s string) part { return part{Type: "text", Text: &s} }

func marked(s string) part {
	p := text(s)
	p.CacheControl = &cacheControl{"ephemeral"}
	return p
}

func parts(content any) []part {
	if p, ok := content.([]part); ok {
		return p
	}
	return []part{text(content.(string))}
}

func images(media []provider.Media) []part {
	var out []part
	for _, m := range media {
		out = append(out, part{Type: "image_url", ImageURL: &imageURL{"data:" + m.Type + ";base64," + m.Base64}})
	}
	return out
}
