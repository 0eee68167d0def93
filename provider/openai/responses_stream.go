package openai

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/sse"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

// responseStream makes a response of the events of one stream. It is for one
// goroutine and one answer.
type responseStream struct {
	provider string
	model    string // that was asked
	on       provider.Sink
	start    time.Time

	text      strings.Builder
	reasoning strings.Builder
	refused   bool
	served    string
	word      string // how it ended, in the vendor's words
	ended     bool
	usage     *provider.Usage
	ttft      time.Duration
	calls     *wire.Slots
	items     []outputItem // finished, in order
	sources   wire.Sources
	tools     []provider.ServerToolCall
	seen      int
}

// outputItem is an item as far as its place among the others matters.
type outputItem struct {
	kind      string
	reasoning string     // as it came
	slot      *wire.Slot // of a call
}

// event reads one payload. It is the Event handler of the client.
func (a *responseStream) event(e sse.Event) (stop bool, err error) {
	if e.IsDone() { // some gateways end this wire with the other one's word
		return true, nil
	}
	doc := gjson.ParseBytes(e.Data)
	a.seen++
	at := int(max(doc.Get("output_index").Int(), 0))
	switch doc.Get("type").String() {
	case "response.output_text.delta":
		a.say(doc.Get("delta").String())
	case "response.refusal.delta":
		a.refused = true
		a.say(doc.Get("delta").String())
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		a.think(doc.Get("delta").String())
	case "response.output_item.added":
		a.open(at, doc.Get("item"))
	case "response.function_call_arguments.delta":
		if slot := a.calls.ByIndex(at, ""); slot != nil {
			a.first()
			slot.Append(doc.Get("delta").String())
		}
	case "response.output_text.annotation.added":
		a.cite(doc.Get("annotation"))
	case "response.output_item.done":
		a.close(at, doc.Get("item"))
	case "response.completed", "response.incomplete":
		a.settle(doc.Get("response"))
		a.calls.Report()
		return true, nil
	case "response.failed":
		a.settle(doc.Get("response"))
		return false, a.failed(doc.Get("response"))
	default:
		if f, ok := wire.FailureIn(doc); ok {
			return false, a.partial(f.Err())
		}
	}
	if e := a.calls.Check(); e != nil {
		return false, a.partial(e)
	}
	a.calls.Report()
	return false, nil
}

// document reads an answer that came in one piece.
func (a *responseStream) document(b []byte) error {
	if !json.Valid(b) {
		return a.partial(&provider.Error{Kind: provider.Malformed, Message: "the answer is not a response: " + wire.Excerpt(string(b))})
	}
	doc := gjson.ParseBytes(b)
	a.seen++
	a.settle(doc)
	if f, ok := wire.FailureIn(doc); ok {
		return a.partial(f.Err())
	}
	if doc.Get("status").String() == "failed" {
		return a.failed(doc)
	}
	if !a.ended {
		return a.partial(&provider.Error{Kind: provider.Malformed, Message: "the answer is not a whole response: " + wire.Excerpt(string(b))})
	}
	for i, item := range doc.Get("output").Array() {
		a.open(i, item)
		if item.Get("type").String() == "message" {
			a.parts(item)
		}
		for _, part := range item.Get("summary").Array() {
			a.think(part.Get("text").String())
		}
		a.close(i, item)
		if e := a.calls.Check(); e != nil {
			return a.partial(e)
		}
	}
	a.calls.Report()
	return nil
}

// parts reads a message as a whole.
func (a *responseStream) parts(item gjson.Result) {
	for _, part := range item.Get("content").Array() {
		a.refused = a.refused || part.Get("type").String() == "refusal"
		a.say(part.Get("text").String() + part.Get("refusal").String())
		for _, n := range part.Get("annotations").Array() {
			a.cite(n)
		}
	}
}

// open begins an item.
func (a *responseStream) open(at int, item gjson.Result) {
	if item.Get("type").String() != "function_call" {
		return
	}
	a.first()
	slot := a.calls.Open(at)
	slot.SetName(item.Get("name").String())
}

// close ends an item. What it says as a whole stands in for deltas that did not
// come.
func (a *responseStream) close(at int, item gjson.Result) {
	kind := item.Get("type").String()
	it := outputItem{kind: kind}
	switch kind {
	case "reasoning":
		if item.Get("encrypted_content").String() == "" {
			return // without it there is nothing that the vendor could read again
		}
		it.reasoning = item.Raw
	case "function_call":
		if it.slot = a.calls.ByIndex(at, ""); it.slot == nil {
			a.open(at, item)
			it.slot = a.calls.ByIndex(at, "")
		}
		it.slot.SetName(item.Get("name").String())
		if args := item.Get("arguments").String(); !it.slot.Complete() && args != "" {
			it.slot.Replace(args)
		}
	case "web_search_call":
		call := provider.ServerToolCall{Provider: a.provider, Tool: "web_search"}
		if item.Get("status").String() == "failed" {
			call.Error = "failed"
		}
		a.tools = append(a.tools, call)
		return
	case "message":
		if a.text.Len() == 0 {
			a.parts(item)
		}
	default:
		return
	}
	a.items = append(a.items, it)
}

// settle takes over what the answer says of itself as a whole.
func (a *responseStream) settle(r gjson.Result) {
	if model := r.Get("model").String(); model != "" {
		a.served = model
	}
	if u := r.Get("usage"); u.IsObject() {
		a.usage = &provider.Usage{
			PromptTokens: wire.Count(u.Get("input_tokens").Int()), CompletionTokens: wire.Count(u.Get("output_tokens").Int()),
			TotalTokens:     wire.Count(u.Get("total_tokens").Int()),
			CacheReadTokens: wire.Count(u.Get("input_tokens_details.cached_tokens").Int()),
			ReasoningTokens: wire.Count(u.Get("output_tokens_details.reasoning_tokens").Int()),
		}
		if a.usage.TotalTokens == 0 {
			a.usage.TotalTokens = a.usage.PromptTokens + a.usage.CompletionTokens
		}
	}
	switch a.word = r.Get("status").String(); a.word {
	case "completed":
		a.ended = true
	case "incomplete":
		a.ended = true
		if reason := r.Get("incomplete_details.reason").String(); reason != "" {
			a.word = reason
		}
	}
}

func (a *responseStream) failed(r gjson.Result) error {
	f, ok := wire.FailureIn(r)
	if !ok {
		f = wire.Failure{Message: "the vendor says that the response failed, and not why"}
	}
	return a.partial(f.Err())
}

func (a *responseStream) say(s string) {
	if s == "" {
		return
	}
	a.first()
	a.text.WriteString(s)
	if a.on.Token != nil {
		a.on.Token(s)
	}
}

func (a *responseStream) think(s string) {
	if s != "" {
		a.first()
		a.reasoning.WriteString(s)
	}
}

// first stops the clock at the first content.
func (a *responseStream) first() {
	if a.ttft == 0 {
		a.ttft = max(time.Since(a.start), 1)
	}
}

func (a *responseStream) cite(n gjson.Result) {
	if url := n.Get("url").String(); url != "" {
		a.sources.Add(provider.Citation{URL: url, Title: n.Get("title").String()})
	}
}

// partial puts what the failed call is known to have used into its error.
func (a *responseStream) partial(e *provider.Error) error {
	e.Usage = a.usage
	return e
}

// finish is the response, or why there is none.
func (a *responseStream) finish() (*provider.Response, error) {
	if a.usage != nil {
		a.usage.ServerToolRequests = int64(len(a.tools)) // its counters leave them out, its bill does not
	}
	resp := &provider.Response{
		Text: a.text.String(), Calls: a.calls.Calls(), Reasoning: a.reasoning.String(), Usage: a.usage,
		Model: a.served, FinishReason: a.word, TTFT: a.ttft, Citations: a.sources.List(), ServerTools: a.tools,
	}
	if a.refused {
		resp.Finish = provider.FinishRefusal
	}
	bare := resp.Text == "" && len(resp.Calls) == 0
	malformed := func(message string) (*provider.Response, error) {
		return nil, a.partial(&provider.Error{Kind: provider.Malformed, Message: message})
	}
	switch ending := resp.Ending(); {
	case a.seen == 0:
		return malformed("the answer holds nothing that can be read")
	case !a.ended:
		return malformed("the stream was cut before its end, at status " + strconv.Quote(a.word))
	case bare && resp.Usage == nil && !wire.Withheld(ending):
		return malformed("the answer holds no text, no tool call and no usage")
	}
	back, err := a.carry(resp)
	if err != nil {
		return nil, err
	}
	resp.Carry = back
	return resp, nil
}

// carry is the order of the answer, where there is thinking in it to hand back.
// Thinking behind which nothing came is left out: it led to nothing.
func (a *responseStream) carry(resp *provider.Response) (json.RawMessage, error) {
	named := a.calls.Named()
	var order []carried
	thought, texts := 0, 0
	for _, it := range a.items {
		switch it.kind {
		case "reasoning":
			order = append(order, carried{Reasoning: json.RawMessage(it.reasoning)})
			thought++
		case "message":
			if texts++; texts == 1 && resp.Text != "" {
				order = append(order, carried{})
			}
		case "function_call":
			for i, s := range named {
				if s == it.slot {
					order = append(order, carried{Call: &i})
				}
			}
		}
	}
	for len(order) > 0 && order[len(order)-1].Reasoning != nil {
		order, thought = order[:len(order)-1], thought-1
	}
	if thought == 0 {
		return nil, nil
	}
	return wire.Encode(carry{responsesWire, a.provider, a.model, order})
}
