package chat

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/sse"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

// An Accumulator makes a response of the documents of one stream. It is for one
// goroutine and one answer.
type Accumulator struct {
	d     Dialect
	model string // that was asked
	web   bool   // the request let the provider search
	on    provider.Sink
	start time.Time

	text      strings.Builder
	reasoning strings.Builder
	refused   bool
	served    string
	finish    string
	ended     bool // a terminal signal was seen
	closed    bool // and it came by itself, behind everything that was said
	usage     *provider.Usage
	ttft      time.Duration
	calls     *wire.Slots
	sources   wire.Sources
	tools     []provider.ServerToolCall
	details   details
	deltas    bool // a delta was seen, so that a whole message is a repetition
	seen      int  // documents that were read
}

// NewAccumulator reads the answer to req, asked at start of that model.
func NewAccumulator(d Dialect, req *provider.Request, model string, on provider.Sink, start time.Time) *Accumulator {
	return &Accumulator{
		d: d, model: model, web: req.Web.Enabled(), on: on, start: start,
		calls: wire.NewSlots(on.Call, false),
	}
}

// Whole reports whether the vendor has said by a word of its own how the answer ends.
// What it used may be missing still. A finish reason beside content is no such word,
// since some servers send one with every piece.
func (a *Accumulator) Whole() bool { return a.closed }

// Event reads one payload of the stream. It is the Event handler of the client.
func (a *Accumulator) Event(e sse.Event) (stop bool, err error) {
	if e.IsDone() {
		a.ended, a.closed = true, true
		return true, nil
	}
	doc := gjson.ParseBytes(e.Data)
	if e.Name == "error" && !doc.Get("error").Exists() {
		return false, a.partial(wire.FailureOf(doc).Err())
	}
	return false, a.ingest(doc)
}

// Document reads an answer that came in one piece.
func (a *Accumulator) Document(b []byte) error {
	if !json.Valid(b) {
		return a.partial(&provider.Error{Kind: provider.Malformed, Message: "the answer is not a completion: " + wire.Excerpt(string(b))})
	}
	doc := gjson.ParseBytes(b)
	if err := a.ingest(doc); err != nil {
		return err
	}
	if a.ended = doc.Get("choices").IsArray(); !a.ended {
		return a.partial(&provider.Error{Kind: provider.Malformed, Message: "the answer is not a completion: " + wire.Excerpt(string(b))})
	}
	return nil
}

func (a *Accumulator) ingest(doc gjson.Result) error {
	a.seen++
	// The last word counts, but for one that counts nothing behind one that did:
	// some gateways end with zeros.
	if u, ok := usageOf(doc); ok && (a.usage == nil || u.TotalTokens > 0) {
		a.usage = &u
	}
	if a.served == "" {
		a.served = doc.Get("model").String()
	}
	choice := doc.Get("choices.0")
	f, failed := wire.FailureIn(doc)
	if !failed {
		f, failed = wire.FailureIn(choice)
	}
	if failed {
		if !a.web || !f.OfWeb() {
			return a.partial(f.Err())
		}
		a.tools = append(a.tools, provider.ServerToolCall{Provider: a.d.Provider, Tool: "web_search", Error: f.WebCode()})
	}
	a.topCitations(doc)
	delta := choice.Get("delta")
	if f := choice.Get("finish_reason"); f.Type == gjson.String && f.Str != "" {
		a.finish, a.ended = f.Str, true
		a.closed = silent(delta)
	} else if a.closed && !silent(delta) {
		a.closed = false
	}
	if delta.IsObject() {
		a.deltas = true
	} else if !a.deltas {
		delta = choice.Get("message")
	}
	if delta.IsObject() {
		return a.delta(delta, !a.deltas)
	}
	return nil
}

// silent reports whether a piece adds nothing to the answer.
func silent(delta gjson.Result) bool {
	for _, name := range []string{"content", "refusal", "reasoning", "reasoning_content", "tool_calls", "function_call"} {
		v := delta.Get(name)
		if v.Type == gjson.String && v.Str != "" || v.IsArray() && len(v.Array()) > 0 || v.IsObject() {
			return false
		}
	}
	return true
}

// delta reads one piece of the answer; whole says that it is all of it.
func (a *Accumulator) delta(d gjson.Result, whole bool) error {
	a.think(d.Get("reasoning"))
	a.think(d.Get("reasoning_content"))
	a.details.add(d.Get("reasoning_details"))
	switch c := d.Get("content"); {
	case c.Type == gjson.String:
		a.say(c.Str)
	case c.IsArray():
		for _, p := range c.Array() {
			a.contentPart(p)
		}
	}
	if r := d.Get("refusal"); r.Type == gjson.String && r.Str != "" {
		a.refused = true
		a.say(r.Str)
	}
	for _, n := range d.Get("annotations").Array() {
		a.annotation(n)
	}
	for i, f := range d.Get("tool_calls").Array() {
		at := -1
		if whole {
			at = i
		}
		a.fragment(f, at)
		if e := a.calls.Check(); e != nil {
			return a.partial(e)
		}
	}
	if c := d.Get("function_call"); c.IsObject() {
		a.legacyCall(c)
	}
	a.calls.Report()
	return nil
}

// contentPart reads content that comes as a list of typed parts.
func (a *Accumulator) contentPart(p gjson.Result) {
	switch p.Get("type").String() {
	case "text":
		a.say(p.Get("text").String())
	case "thinking":
		t := p.Get("thinking")
		if t.IsArray() {
			for _, piece := range t.Array() {
				a.think(piece.Get("text"))
			}
			return
		}
		a.think(t)
	}
}

func (a *Accumulator) say(s string) {
	if s == "" {
		return
	}
	a.first()
	a.text.WriteString(s)
	if a.on.Token != nil {
		a.on.Token(s)
	}
}

func (a *Accumulator) think(r gjson.Result) {
	if r.Type == gjson.String && r.Str != "" {
		a.first()
		a.reasoning.WriteString(r.Str)
	}
}

// first stops the clock at the first content. An empty delta is not content:
// some vendors send one at once and think afterwards.
func (a *Accumulator) first() {
	if a.ttft == 0 {
		a.ttft = max(time.Since(a.start), 1)
	}
}

func (a *Accumulator) annotation(n gjson.Result) {
	c := n.Get("url_citation")
	if !c.IsObject() {
		c = n
	}
	a.cite(provider.Citation{URL: c.Get("url").String(), Title: c.Get("title").String(), Text: c.Get("content").String()})
}

// topCitations reads sources that stand beside the choices.
func (a *Accumulator) topCitations(doc gjson.Result) {
	for _, c := range doc.Get("citations").Array() {
		if c.Type == gjson.String {
			a.cite(provider.Citation{URL: c.Str})
		}
	}
	for _, r := range doc.Get("search_results").Array() {
		a.cite(provider.Citation{URL: r.Get("url").String(), Title: r.Get("title").String()})
	}
}

// cite notes a source. The first one also shows that a search worked, which
// nothing else on this wire says.
func (a *Accumulator) cite(c provider.Citation) {
	if c.URL == "" {
		return
	}
	a.sources.Add(c)
	worked := func(t provider.ServerToolCall) bool { return t.Tool == "web_search" && t.Error == "" }
	if !slices.ContainsFunc(a.tools, worked) {
		a.tools = append(a.tools, provider.ServerToolCall{Provider: a.d.Provider, Tool: "web_search"})
	}
}

// partial puts what the failed call is known to have used into its error.
func (a *Accumulator) partial(e *provider.Error) error {
	e.Usage = a.usage
	return e
}

// Finish is the response, or why there is none.
func (a *Accumulator) Finish() (*provider.Response, error) {
	resp := &provider.Response{
		Text:         a.text.String(),
		Calls:        a.calls.Calls(),
		Reasoning:    a.reasoning.String(),
		Usage:        a.usage,
		Model:        a.served,
		FinishReason: a.finish,
		TTFT:         a.ttft,
		Citations:    a.sources.List(),
		ServerTools:  a.tools,
	}
	if a.refused {
		resp.Finish = provider.FinishRefusal
	}
	if err := a.unusable(resp); err != nil {
		return nil, err
	}
	carry, err := a.carry()
	if err != nil {
		return nil, err
	}
	resp.Carry = carry
	return resp, nil
}

// unusable tells an answer from what only looks like one. Taken for a decision,
// half a text or half a call would end a run or start a wrong effect.
func (a *Accumulator) unusable(resp *provider.Response) error {
	bare := resp.Text == "" && len(resp.Calls) == 0
	ending := resp.Ending()
	malformed := func(message string) error {
		return a.partial(&provider.Error{Kind: provider.Malformed, Message: message})
	}
	switch {
	case a.seen == 0:
		return malformed("the answer holds nothing that can be read")
	case !a.ended && !a.d.NoTerminalSignal:
		return malformed("the stream was cut before its end")
	case ending == provider.FinishError:
		return a.partial(&provider.Error{Kind: provider.Server, Message: "the vendor ended the answer with " + strconv.Quote(a.finish)})
	case bare && ending == provider.FinishMalformedCall:
		return malformed("the model meant to call a tool and the call could not be formed (" + strconv.Quote(a.finish) + ")")
	case bare && resp.Usage == nil && !wire.Withheld(ending):
		return malformed("the answer holds no text, no tool call and no usage")
	}
	return nil
}

// carry is what must go back with this answer, nil for most vendors.
func (a *Accumulator) carry() (json.RawMessage, error) {
	c := carry{Wire: wireName, Provider: a.d.Provider, Model: a.model}
	found := false
	if a.d.ReasoningContent && a.reasoning.Len() > 0 {
		c.ReasoningContent, found = a.reasoning.String(), true
	}
	if a.d.OpenRouter {
		raw, err := a.details.encode()
		if err != nil {
			return nil, err
		}
		c.ReasoningDetails, found = raw, found || raw != nil
	}
	if a.d.ExtraContent {
		for _, s := range a.calls.Named() {
			extra := json.RawMessage("null")
			if s.Extra != "" {
				extra, found = json.RawMessage(s.Extra), true
			}
			c.ExtraContent = append(c.ExtraContent, extra)
		}
	}
	if !found {
		return nil, nil
	}
	return wire.Encode(c)
}
