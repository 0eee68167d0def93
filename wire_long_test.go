package harness_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/anthropic"
	"github.com/initorigin/io-harness-go/provider/compatible"
	"github.com/initorigin/io-harness-go/provider/fallback"
	"github.com/initorigin/io-harness-go/provider/openai"
	"github.com/initorigin/io-harness-go/provider/openrouter"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// A thinkingWire is a vendor whose models think and want their thinking back, or
// do not take it.
type thinkingWire struct {
	name   string
	client func(t testing.TB, v *testkit.Vendor, label string) provider.Provider
	think  func(thought string, calls ...testkit.VendorCall) testkit.Reply
	say    func(text string) testkit.Reply
	// check is what the server refuses, given the thoughts that it gave out. own
	// says whether it made the newest answer itself.
	check func(body string, given map[string]bool, own bool) error
	asks  string // where the body asks for thinking
}

// handedBack checks what an assistant message has of the model's thinking: all
// of it is what the server gave out, and the newest answer has its own.
func handedBack(body, path string, given map[string]bool, own bool, blank bool) error {
	var calling []gjson.Result
	for _, m := range gjson.Get(body, "messages").Array() {
		if m.Get("role").Str == "assistant" && m.Get("tool_calls").Exists() {
			calling = append(calling, m)
		}
	}
	for i, m := range calling {
		thought := m.Get(path)
		switch {
		case thought.Exists() && !given[thought.String()] && (!blank || strings.TrimSpace(thought.String()) != ""):
			return fmt.Errorf("%s %s was never given out here", path, thought.Raw)
		case blank && thought.String() == "":
			return fmt.Errorf("missing %s beside tool calls", path)
		case i == len(calling)-1 && own && !given[thought.String()]:
			return fmt.Errorf("the newest answer came back without its %s: %s", path, m.Raw)
		}
	}
	return nil
}

func thinkingWires() []thinkingWire {
	key := provider.NewSecret(wireKey)
	say := func(text string) testkit.Reply { return testkit.ChatText(wireModel, text) }
	return []thinkingWire{
		{"anthropic", func(t testing.TB, v *testkit.Vendor, label string) provider.Provider {
			return clientOf(t)(anthropic.New(anthropic.Config{BaseURL: v.URL, Key: key, Name: label, Model: wireModel, Transport: v.Transport()}))
		}, func(thought string, calls ...testkit.VendorCall) testkit.Reply {
			return testkit.AnthropicThinkingCalls(wireModel, thought, "signed:"+thought, calls...)
		}, func(text string) testkit.Reply { return testkit.AnthropicText(wireModel, text) },
			func(body string, given map[string]bool, own bool) error {
				signatures := map[string]string{}
				for thought := range given {
					signatures[thought] = "signed:" + thought
				}
				if own && !gjson.Get(body, "thinking").Exists() {
					return errors.New("thinking was switched off although nothing was lost")
				}
				return testkit.CheckAnthropic(body, signatures)
			}, "thinking.type"},
		{"openai", func(t testing.TB, v *testkit.Vendor, label string) provider.Provider {
			return clientOf(t)(openai.New(openai.Config{BaseURL: v.URL, Key: key, Name: label, Model: wireModel, Transport: v.Transport()}))
		}, func(_ string, calls ...testkit.VendorCall) testkit.Reply {
			return testkit.ChatCalls(wireModel, calls...) // it shows nothing of its thinking
		}, say, func(body string, _ map[string]bool, _ bool) error {
			return errors.Join(testkit.CheckChat(body), testkit.ChatKeys{Body: []string{"reasoning_effort"}}.CheckChatKeys(body))
		}, "reasoning_effort"},
		{"openrouter", func(t testing.TB, v *testkit.Vendor, label string) provider.Provider {
			return clientOf(t)(openrouter.New(openrouter.Config{BaseURL: v.URL, Key: key, Name: label, Model: wireModel, Transport: v.Transport()}))
		}, func(thought string, calls ...testkit.VendorCall) testkit.Reply {
			return testkit.ChatThinkingCalls(wireModel, `{"reasoning":"`+thought+`","reasoning_details":[{"type":"reasoning.text","text":"`+thought+`","signature":"s","index":0}]}`, calls...)
		}, say, func(body string, given map[string]bool, own bool) error {
			return errors.Join(testkit.CheckChat(body), handedBack(body, "reasoning_details.0.text", given, own, false),
				testkit.ChatKeys{Body: []string{"reasoning"}, Assistant: []string{"reasoning_details"}}.CheckChatKeys(body))
		}, "reasoning.effort"},
		{"deepseek", func(t testing.TB, v *testkit.Vendor, label string) provider.Provider {
			return clientOf(t)(compatible.New(compatible.Config{Preset: "deepseek", BaseURL: v.URL, Key: key, Name: label, Model: wireModel, Transport: v.Transport()}))
		}, func(thought string, calls ...testkit.VendorCall) testkit.Reply {
			return testkit.ChatThinkingCalls(wireModel, `{"reasoning_content":"`+thought+`"}`, calls...)
		}, say, func(body string, given map[string]bool, own bool) error {
			return errors.Join(testkit.CheckChat(body), handedBack(body, "reasoning_content", given, own, true),
				testkit.ChatKeys{Body: []string{"reasoning_effort"}, Assistant: []string{"reasoning_content"}}.CheckChatKeys(body))
		}, "reasoning_effort"},
		{"responses", func(t testing.TB, v *testkit.Vendor, label string) provider.Provider {
			return clientOf(t)(openai.NewResponses(openai.Config{BaseURL: v.URL, Key: key, Name: label, Model: wireModel, Transport: v.Transport()}))
		}, func(thought string, calls ...testkit.VendorCall) testkit.Reply {
			return testkit.ResponsesCalls(wireModel, thought, calls...)
		}, func(text string) testkit.Reply { return testkit.ResponsesText(wireModel, text) },
			func(body string, given map[string]bool, own bool) error {
				if items := gjson.Get(body, `input.#(type=="reasoning")#`).Array(); own && len(items) == 0 {
					return errors.New("the newest answer came back without its thinking")
				}
				return testkit.CheckResponses(body, given)
			}, "reasoning.effort"},
	}
}

// longRun is a run of thirty steps over two vendors of one wire: the first is
// asked, the second stands by. Both fail once in the same step (a retry), the
// first once alone (a fallover), and once the request is too long (a fold).
type longRun struct {
	t     *testing.T
	w     thinkingWire
	steps int

	mu     sync.Mutex
	step   int // answered so far
	failed map[string]bool
	given  map[string]map[string]bool // by vendor: the thoughts that it gave out
	newest string                     // the vendor that answered last
	before int                        // bytes of the request that was too long
	asked  map[string]int
}

const (
	retryStep, falloverStep, overflowStep = 8, 14, 22
	longSummary                           = "files one to twenty were read"
)

// once reports whether this is the first time that what happens.
func (l *longRun) once(what string) bool {
	if l.failed[what] {
		return false
	}
	l.failed[what] = true
	return true
}

func (l *longRun) answer(vendor string) func(int, testkit.Asked) testkit.Reply {
	return func(_ int, a testkit.Asked) testkit.Reply {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asked[vendor]++
		summary := !gjson.Get(a.Body, "tools").Exists()
		own := l.newest == vendor && !summary
		if err := l.w.check(a.Body, l.given[vendor], own); err != nil {
			l.t.Errorf("%s would refuse a request of step %d: %v", vendor, l.step+1, err)
			return testkit.Status(400, "refused")
		}
		if own && !gjson.Get(a.Body, l.w.asks).Exists() {
			l.t.Errorf("a request of step %d asks for no thinking", l.step+1)
		}
		switch step := l.step + 1; {
		case summary:
			if l.step+1 != overflowStep {
				l.t.Errorf("a summary was asked for in step %d", step)
			}
			return l.w.say(longSummary)
		case step == retryStep && l.once("retry of "+vendor):
			return testkit.Status(529, "busy")
		case step == falloverStep && vendor == "first" && l.once("fallover"):
			return testkit.Status(503, "down")
		case step == overflowStep && l.once("overflow"):
			l.before = len(a.Body)
			return testkit.Status(400, `{"error":{"message":"prompt is too long: 250000 tokens > 200000 maximum"}}`)
		case step == overflowStep && len(a.Body) >= l.before:
			l.t.Errorf("the request of step %d was made again with %d bytes after %d", step, len(a.Body), l.before)
		case step > 1 && step != overflowStep && !strings.Contains(a.Body, fmt.Sprintf("content-%02d", step-1)):
			l.t.Errorf("the request of step %d does not show the result of the step before", step)
		}
		l.step++
		l.newest = vendor
		if l.step > l.steps {
			return l.w.say("all read")
		}
		thought := fmt.Sprintf("%s thinks of %d", vendor, l.step)
		l.given[vendor][thought] = true
		name := fmt.Sprintf("f%02d.txt", l.step)
		return l.w.think(thought, vread("call00001", name), vcall("call00002", "grep", map[string]string{"pattern": fmt.Sprintf("content-%02d", l.step)}))
	}
}

func TestThirtyThinkingStepsPassStrictVendors(t *testing.T) {
	for _, w := range thinkingWires() {
		t.Run(w.name, func(t *testing.T) {
			l := &longRun{t: t, w: w, steps: 30, failed: map[string]bool{}, asked: map[string]int{}, given: map[string]map[string]bool{"first": {}, "second": {}}}
			first, second := testkit.NewVendorFunc(t, l.answer("first")), testkit.NewVendorFunc(t, l.answer("second"))
			f := wireTo(t, wires()[0])
			for i := range l.steps {
				f.write(fmt.Sprintf("f%02d.txt", i+1), fmt.Sprintf("content-%02d\n%s\n", i+1, strings.Repeat("word ", 200)))
			}
			cfg := f.config()
			cfg.Provider = clientOf(t)(fallback.New(w.client(t, first, "first"), w.client(t, second, "second")))
			res, err := newHarness(t, cfg).Run(t.Context(), func() task.Contract {
				c := f.contract()
				c.Effort, c.Budget.Steps, c.Compaction.Keep = provider.EffortHigh, 40, 4
				c.Context.MaxTokens = 1 << 20 // only the vendor says when it is too long
				return c
			}())
			f.expect(res, err, trace.Finished, l.steps+1)
			if res.Reply != "all read" {
				t.Errorf("reply %q", res.Reply)
			}
			if l.asked["first"] != 34 || l.asked["second"] != 2 {
				t.Errorf("asked %v; want 30 answers, a retry, a fallover, an overflow and a summary of the first, and a failure and an answer of the second", l.asked)
			}
			if r, o, c := facts[trace.Retry](f), facts[trace.FellBackTo](f), facts[trace.Compacted](f); len(r) != 1 || len(o) != 1 || o[0].Provider != "second" || len(c) != 1 {
				t.Errorf("%d retries, %d fallovers, %d folds; want one of each", len(r), len(o), len(c))
			}
			if calls := facts[trace.ToolCalled](f); len(calls) != 2*l.steps {
				t.Errorf("%d calls were made, want %d", len(calls), 2*l.steps)
			}
			rows := f.calls(res.RunID)
			var total int64
			for _, r := range rows {
				if r.Usage != nil {
					total += r.Usage.TotalTokens
				}
			}
			if run, err := f.store.Run(t.Context(), res.RunID); err != nil || run.Tokens != total {
				t.Errorf("the run drew %d tokens and its rows have %d, %v", run.Tokens, total, err)
			}
			if thinks := facts[trace.Reasoning](f); w.name != "openai" && w.name != "responses" && len(thinks) != l.steps {
				t.Errorf("%d thoughts were told, want %d", len(thinks), l.steps)
			}
		})
	}
}
