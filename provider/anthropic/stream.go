package anthropic

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/sse"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

// accumulator makes a response of the events of one stream.
type accumulator struct {
	cfg   Config
	plan  plan
	on    provider.Sink
	start time.Time

	text      strings.Builder
	reasoning strings.Builder
	served    string
	stop      string
	ended     bool
	ttft      time.Duration
	seen      int

	calls  *wire.Slots
	inputs map[*wire.Slot]string // arguments that came whole with the start of a block
	blocks []*content            // in order
	names  map[string]string     // of server tools, by id

	sources wire.Sources
	tools   []provider.ServerToolCall

	usage   provider.Usage // PromptTokens holds what the vendor calls input
	metered bool
}

// content is one block as far as it must go back.
type content struct {
	index     int64
	kind      string
	raw       string // of the start event
	text      strings.Builder
	signature strings.Builder
	input     strings.Builder
}

func newAccumulator(cfg Config, p plan, on provider.Sink, start time.Time) *accumulator {
	return &accumulator{
		cfg: cfg, plan: p, on: on, start: start,
		calls:  wire.NewSlots(on.Call, true),
		inputs: map[*wire.Slot]string{}, names: map[string]string{},
	}
}

// whole reports whether the vendor has said how the answer ends.
func (a *accumulator) whole() bool { return a.ended }

// event reads one payload. It is the Event handler of the client.
func (a *accumulator) event(e sse.Event) (stop bool, err error) {
	if e.IsDone() { // some gateways end this wire with the other one's word
		return true, nil
	}
	doc := gjson.ParseBytes(e.Data)
	a.seen++
	switch doc.Get("type").String() {
	case "message_start":
		m := doc.Get("message")
		if a.served == "" {
			a.served = m.Get("model").String()
		}
		a.count(m.Get("usage"))
	case "content_block_start":
		a.open(doc.Get("index").Int(), doc.Get("content_block"))
		if e := a.calls.Check(); e != nil {
			return false, a.partial(e)
		}
	case "content_block_delta":
		a.grow(doc.Get("index").Int(), doc.Get("delta"))
	case "message_delta":
		a.count(doc.Get("usage"))
		if reason := doc.Get("delta.stop_reason").String(); reason != "" {
			a.stop, a.ended = reason, true
		}
	case "message_stop":
		a.ended = true
		return true, nil
	default:
		if f, ok := wire.FailureIn(doc); ok {
			return false, a.partial(f.Err())
		}
	}
	a.calls.Report()
	return false, nil
}

// document reads an answer that came in one piece.
func (a *accumulator) document(b []byte) error {
	if !json.Valid(b) {
		return a.partial(&provider.Error{Kind: provider.Malformed, Message: "the answer is not a completion: " + wire.Excerpt(string(b))})
	}
	doc := gjson.ParseBytes(b)
	a.seen++
	if f, ok := wire.FailureIn(doc); ok {
		return a.partial(f.Err())
	}
	a.served = doc.Get("model").String()
	a.count(doc.Get("usage"))
	for i, c := range doc.Get("content").Array() {
		a.open(int64(i), c)
		if e := a.calls.Check(); e != nil {
			return a.partial(e)
		}
	}
	a.stop = doc.Get("stop_reason").String()
	if a.ended = a.stop != ""; !a.ended {
		return a.partial(&provider.Error{Kind: provider.Malformed, Message: "the answer is not a whole completion: " + wire.Excerpt(string(b))})
	}
	a.calls.Report()
	return nil
}

// open begins a block. Text and thinking that are there at once, as in a whole
// document, are taken as their first delta.
func (a *accumulator) open(index int64, c gjson.Result) {
	b := &content{index: index, kind: c.Get("type").String(), raw: c.Raw}
	a.blocks = append(a.blocks, b)
	switch {
	case b.kind == "tool_use":
		slot := a.calls.Open(int(max(index, 0)))
		slot.SetName(c.Get("name").String())
		if in := c.Get("input"); in.IsObject() && len(in.Map()) > 0 {
			a.inputs[slot] = in.Raw
		}
		a.first()
	case b.kind == "server_tool_use":
		a.names[c.Get("id").String()] = c.Get("name").String()
	case strings.HasSuffix(b.kind, "_tool_result"):
		a.serverResult(b.kind, c)
	case b.kind == "text":
		a.say(b, c.Get("text").String())
	case b.kind == "thinking":
		a.think(b, c.Get("thinking").String())
		b.signature.WriteString(c.Get("signature").String())
	}
	for _, cited := range c.Get("citations").Array() {
		a.cite(cited)
	}
}

// block is the newest block with that index.
func (a *accumulator) block(index int64) *content {
	for i := len(a.blocks) - 1; i >= 0; i-- {
		if a.blocks[i].index == index {
			return a.blocks[i]
		}
	}
	b := &content{index: index} // its start was lost; what it says still counts
	a.blocks = append(a.blocks, b)
	return b
}

func (a *accumulator) grow(index int64, d gjson.Result) {
	b := a.block(index)
	switch d.Get("type").String() {
	case "text_delta":
		a.say(b, d.Get("text").String())
	case "thinking_delta":
		a.think(b, d.Get("thinking").String())
	case "signature_delta":
		b.signature.WriteString(d.Get("signature").String())
	case "input_json_delta":
		piece := d.Get("partial_json").String()
		b.input.WriteString(piece)
		if slot := a.calls.ByIndex(int(max(index, 0)), ""); slot != nil && b.kind == "tool_use" && piece != "" {
			slot.Append(piece)
			a.first()
		}
	case "citations_delta":
		a.cite(d.Get("citation"))
	}
}

func (a *accumulator) say(b *content, s string) {
	if s == "" {
		return
	}
	a.first()
	a.text.WriteString(s)
	b.text.WriteString(s)
	if a.on.Token != nil {
		a.on.Token(s)
	}
}

func (a *accumulator) think(b *content, s string) {
	if s == "" {
		return
	}
	a.first()
	a.reasoning.WriteString(s)
	b.text.WriteString(s)
}

// first stops the clock at the first content.
func (a *accumulator) first() {
	if a.ttft == 0 {
		a.ttft = max(time.Since(a.start), 1)
	}
}

func (a *accumulator) cite(c gjson.Result) {
	a.sources.Add(provider.Citation{URL: c.Get("url").String(), Title: c.Get("title").String(), Text: c.Get("cited_text").String()})
}

// serverResult reads what a tool of the vendor's own brought. A failure comes
// inside of the success and must not read as "found nothing".
func (a *accumulator) serverResult(kind string, c gjson.Result) {
	call := provider.ServerToolCall{Provider: a.cfg.Name, Tool: a.names[c.Get("tool_use_id").String()]}
	if call.Tool == "" {
		call.Tool = strings.TrimSuffix(kind, "_tool_result")
	}
	result := c.Get("content")
	if code := result.Get("error_code"); strings.HasSuffix(result.Get("type").String(), "_error") && code.Type == gjson.String {
		call.Error = code.Str
	}
	a.tools = append(a.tools, call)
	switch {
	case result.IsArray():
		for _, item := range result.Array() {
			a.cite(item)
		}
	case result.IsObject() && call.Error == "":
		a.cite(result)
	}
}

// count takes counters over; a counter that an event leaves out, or that a gateway
// fills up with zero, keeps its value. Those of the last event are of the whole
// answer, and larger where the vendor's tools put more into the prompt.
func (a *accumulator) count(u gjson.Result) {
	if !u.IsObject() {
		return
	}
	a.metered = true
	set := func(to *int64, path string) {
		if v := u.Get(path); v.Type == gjson.Number && v.Int() > 0 {
			*to = wire.Count(v.Int())
		}
	}
	set(&a.usage.PromptTokens, "input_tokens")
	set(&a.usage.CompletionTokens, "output_tokens")
	set(&a.usage.CacheReadTokens, "cache_read_input_tokens")
	set(&a.usage.CacheWriteTokens, "cache_creation_input_tokens")
	set(&a.usage.ReasoningTokens, "output_tokens_details.thinking_tokens")
	sum := int64(0)
	u.Get("server_tool_use").ForEach(func(_, v gjson.Result) bool {
		if v.Type == gjson.Number {
			sum = wire.Count(sum + wire.Count(v.Int()))
		}
		return true
	})
	if sum > 0 {
		a.usage.ServerToolRequests = sum
	}
}

// counters is the usage in this library's terms: the vendor does not count
// cached tokens as input. Nil when it said nothing.
func (a *accumulator) counters() *provider.Usage {
	u := a.usage
	u.PromptTokens += u.CacheReadTokens + u.CacheWriteTokens
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	if !a.metered || u.TotalTokens == 0 {
		return nil
	}
	return &u
}

func (a *accumulator) partial(e *provider.Error) error {
	e.Usage = a.counters()
	return e
}
