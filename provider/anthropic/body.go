package anthropic

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

type body struct {
	Model        string        `json:"model"`
	MaxTokens    int64         `json:"max_tokens"`
	Stream       bool          `json:"stream"`
	System       []block       `json:"system,omitempty"`
	Messages     []message     `json:"messages"`
	Tools        []any         `json:"tools,omitempty"`
	Thinking     *thinking     `json:"thinking,omitempty"`
	OutputConfig *outputConfig `json:"output_config,omitempty"`
}

type thinking struct {
	Type         string `json:"type"`
	BudgetTokens int64  `json:"budget_tokens,omitempty"`
}

type outputConfig struct {
	Effort provider.Effort `json:"effort,omitempty"`
	Format *outputFormat   `json:"format,omitempty"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"` // string, []block, or blocks as written
}

// A block is one content block. Where raw is set it is written in its place: a
// block of the vendor's own that goes back untouched.
type block struct {
	Type         string          `json:"type"`
	Text         string          `json:"text,omitempty"`
	ID           string          `json:"id,omitempty"`
	Name         string          `json:"name,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	ToolUseID    string          `json:"tool_use_id,omitempty"`
	Content      *string         `json:"content,omitempty"`
	Source       *source         `json:"source,omitempty"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`

	raw json.RawMessage
}

// written is content as it is encoded.
func written(content []block) []any {
	out := make([]any, len(content))
	for i := range content {
		if out[i] = &content[i]; content[i].raw != nil {
			out[i] = content[i].raw
		}
	}
	return out
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

type cacheControl struct {
	Type string `json:"type"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type webTool struct {
	Type           string   `json:"type"`
	Name           string   `json:"name"`
	MaxUses        int      `json:"max_uses,omitempty"`
	AllowedDomains []string `json:"allowed_domains,omitempty"`
	BlockedDomains []string `json:"blocked_domains,omitempty"`
}

func ephemeral() *cacheControl { return &cacheControl{"ephemeral"} }

func (c *Client) body(req *provider.Request, p plan) ([]byte, error) {
	if err := wire.Check(req); err != nil {
		return nil, err
	}
	b := body{Model: p.model, MaxTokens: baseTokens, Stream: true}
	if req.MaxTokens > 0 {
		b.MaxTokens = req.MaxTokens
	}
	for _, s := range req.System {
		if strings.TrimSpace(s) != "" {
			b.System = append(b.System, block{Type: "text", Text: s})
		}
	}
	if n := len(b.System); n > 0 {
		b.System[n-1].CacheControl = ephemeral() // covers the tools too, which come before it in the vendor's order
	}
	for _, t := range req.Tools {
		b.Tools = append(b.Tools, tool{t.Name, t.Description, wire.ToolSchema(t.Schema)})
	}
	if err := c.web(&b, req.Web); err != nil {
		return nil, err
	}
	think := p.mode != ""
	if len(req.Messages) == 0 {
		b.Messages = []message{flat(req)}
	} else {
		turns, err := wire.Transcript(req.Messages, c.bareCarry)
		if err != nil {
			return nil, err
		}
		think = think && c.thinkingHolds(turns, p)
		b.Messages = c.conversation(turns, req, p.model, think)
	}
	config := outputConfig{}
	if think {
		b.MaxTokens += budgets[p.effort] // thinking counts against the cap
		b.Thinking = &thinking{Type: "adaptive"}
		if p.mode == ThinkingBudget {
			b.Thinking = &thinking{"enabled", budgets[p.effort]}
		}
	}
	if p.mode == ThinkingAdaptive {
		config.Effort = p.effort
	}
	if p.schema != nil {
		config.Format = &outputFormat{"json_schema", p.schema}
	}
	if config != (outputConfig{}) {
		b.OutputConfig = &config
	}
	return wire.Encode(b)
}

// web adds the vendor's own tools.
func (c *Client) web(b *body, w provider.WebAccess) error {
	if !w.Enabled() {
		return nil
	}
	allowed, blocked, err := w.Filter()
	if err != nil {
		return err
	}
	if w.Search {
		b.Tools = append(b.Tools, webTool{c.cfg.WebSearchTool, "web_search", w.MaxUses, allowed, blocked})
	}
	if w.Fetch {
		b.Tools = append(b.Tools, webTool{c.cfg.WebFetchTool, "web_fetch", w.MaxUses, allowed, blocked})
	}
	return nil
}

// flat is the one user message of a request without messages.
func flat(req *provider.Request) message {
	if len(req.Media) > 0 {
		// Images come first, so that there is no prefix of text to mark.
		content := images(req.Media)
		if strings.TrimSpace(req.User) != "" {
			content = append(content, block{Type: "text", Text: req.User})
		}
		return message{"user", content}
	}
	if at := req.CacheBoundary; at > 0 && at < len(req.User) && utf8.RuneStart(req.User[at]) {
		stable, rest := req.User[:at], req.User[at:]
		if strings.TrimSpace(stable) != "" && strings.TrimSpace(rest) != "" {
			return message{"user", []block{{Type: "text", Text: stable, CacheControl: ephemeral()}, {Type: "text", Text: rest}}}
		}
	}
	return message{"user", req.User}
}

func (c *Client) conversation(turns []wire.Turn, req *provider.Request, model string, think bool) []message {
	var out []message
	resumed := len(turns) // the first of the paused turns that end the conversation
	for resumed > 0 && c.paused(turns[resumed-1], model) {
		resumed--
	}
	markAt := req.CacheThrough - 1
	if markAt >= len(req.Messages) {
		markAt = -1
	}
	for i, t := range turns[:resumed] {
		var content []block
		role := "user"
		last := i == resumed-1
		switch t.Role {
		case provider.RoleUser:
			if last {
				content = append(content, images(req.Media)...)
			}
			if strings.TrimSpace(t.Text) != "" {
				content = append(content, block{Type: "text", Text: t.Text})
			}
			if len(content) == 0 { // nothing else is left of the conversation
				content = append(content, block{Type: "text", Text: wire.ContinueUser})
			}
		case provider.RoleTool:
			for _, r := range t.Results {
				content = append(content, block{Type: "tool_result", ToolUseID: r.ID, Content: &r.Content})
			}
			if last {
				content = append(content, images(req.Media)...) // behind the results, as the vendor demands
			}
		case provider.RoleAssistant:
			role = "assistant"
			content = c.assistant(t, model, think)
		}
		if len(content) == 0 {
			continue
		}
		if markAt >= 0 && t.Source == markAt {
			markLast(content)
		}
		out = append(out, message{role, written(content)})
	}
	if resumed > 0 && turns[resumed-1].Role == provider.RoleAssistant {
		content := images(req.Media)
		if len(content) == 0 {
			content = []block{{Type: "text", Text: wire.ContinueUser}}
		}
		out = append(out, message{"user", written(content)})
	}
	if content := c.resumed(turns[resumed:], model, think); len(content) > 0 {
		out = append(out, message{"assistant", written(content)})
	}
	return out
}

// resumed is what the vendor paused in, as one turn and as it was: with nothing
// behind it the vendor goes on there. Thinking goes back to a request that thinks.
func (c *Client) resumed(turns []wire.Turn, model string, think bool) []block {
	var content []block
	for _, t := range turns {
		back, _ := c.carryFor(t.Carry, model)
		for _, raw := range back.Paused {
			if think || !thought(gjson.GetBytes(raw, "type").Str) {
				content = append(content, block{raw: raw})
			}
		}
	}
	return content
}

// assistant is a replayed answer: the vendor's blocks, text, calls.
func (c *Client) assistant(t wire.Turn, model string, think bool) []block {
	var content []block
	if back, ok := c.carryFor(t.Carry, model); ok && think && t.Working {
		for _, raw := range back.Blocks {
			content = append(content, block{raw: raw})
		}
	}
	spoken := len(content)
	if strings.TrimSpace(t.Text) != "" {
		content = append(content, block{Type: "text", Text: t.Text})
	}
	for _, call := range t.Calls {
		content = append(content, block{Type: "tool_use", ID: call.ID, Name: call.Name, Input: call.Args})
	}
	if len(content) == spoken {
		return nil // thinking alone is no message
	}
	return content
}

// markLast puts the cache mark on the last block that can take one.
func markLast(content []block) {
	for i := len(content) - 1; i >= 0; i-- {
		if content[i].raw == nil {
			content[i].CacheControl = ephemeral()
			return
		}
	}
}

func images(media []provider.Media) []block {
	var out []block
	for _, m := range media {
		out = append(out, block{Type: "image", Source: &source{"base64", m.Type, m.Base64}})
	}
	return out
}
