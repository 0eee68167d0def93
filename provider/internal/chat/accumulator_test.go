package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/sse"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

// read runs a stream through the reader and the accumulator.
func read(d Dialect, req *provider.Request, stream string, on provider.Sink) (*provider.Response, error) {
	if req == nil {
		req = &provider.Request{}
	}
	a := NewAccumulator(d, req, "asked", on, time.Now())
	r := sse.NewReader(strings.NewReader(stream), sse.Limits{})
	for {
		e, err := r.Next()
		if err == io.EOF {
			return a.Finish()
		}
		if err != nil {
			return nil, err
		}
		stop, err := a.Event(e)
		if err != nil {
			return nil, err
		}
		if stop {
			return a.Finish()
		}
	}
}

func stream(payloads ...string) string {
	var b strings.Builder
	for _, p := range payloads {
		b.WriteString("data: " + p + "\n\n")
	}
	return b.String()
}

// frag is a chunk with tool-call fragments.
func frag(calls ...string) string {
	return `{"choices":[{"index":0,"delta":{"tool_calls":[` + strings.Join(calls, ",") + `]},"finish_reason":null}]}`
}

const endCalls = `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`

func TestFragmentsFindTheirCall(t *testing.T) {
	three := []string{`save{"p":"a"}`, `save{"p":"b"}`, `look{}`}
	for _, tc := range []struct {
		name   string
		chunks []string
		want   []string
	}{
		{"indexes and ids, arguments in pieces", []string{
			frag(`{"index":0,"id":"x","function":{"name":"save","arguments":""}}`),
			frag(`{"index":0,"function":{"arguments":"{\"p\":"}}`), frag(`{"index":0,"function":{"arguments":"\"a\"}"}}`),
			frag(`{"index":1,"id":"y","function":{"name":"save","arguments":"{\"p\":\"b\"}"}}`),
			frag(`{"index":2,"id":"z","function":{"name":"look","arguments":"{}"}}`),
		}, three},
		{"all index 0 with different ids", []string{
			frag(`{"index":0,"id":"x","function":{"name":"save","arguments":"{\"p\":\"a\"}"}}`),
			frag(`{"index":0,"id":"y","function":{"name":"save","arguments":"{\"p\":\"b\"}"}}`),
			frag(`{"index":0,"id":"z","function":{"name":"look","arguments":""}}`),
		}, three},
		{"all index 0 without ids", []string{
			frag(`{"index":0,"function":{"name":"save","arguments":"{\"p\":\"a\"}"}}`),
			frag(`{"index":0,"function":{"name":"save","arguments":"{\"p\":\"b\"}"}}`),
			frag(`{"index":0,"function":{"name":"look","arguments":"{}"}}`),
		}, three},
		{"no index, ids", []string{
			frag(`{"id":"x","function":{"name":"save","arguments":"{\"p\":"}}`), frag(`{"id":"x","function":{"arguments":"\"a\"}"}}`),
			frag(`{"id":"y","function":{"name":"save","arguments":"{\"p\":\"b\"}"}}`),
			frag(`{"id":"z","function":{"name":"look","arguments":"{}"}}`),
		}, three},
		{"no index and no id, one whole call per chunk", []string{
			frag(`{"function":{"name":"save","arguments":"{\"p\":\"a\"}"}}`),
			frag(`{"function":{"name":"save","arguments":"{\"p\":\"b\"}"}}`),
			frag(`{"function":{"name":"look","arguments":""}}`),
		}, three},
		{"no index and no id, the first without arguments", []string{
			frag(`{"function":{"name":"look","arguments":""}}`),
			frag(`{"function":{"name":"save","arguments":"{\"p\":"}}`), frag(`{"function":{"arguments":"\"a\"}"}}`),
		}, []string{`look{}`, `save{"p":"a"}`}},
		{"no index and no id, none with arguments", []string{
			frag(`{"function":{"name":"look"}}`, `{"function":{"name":"list"}}`), frag(`{"function":{"name":"wait","arguments":""}}`),
		}, []string{`look{}`, `list{}`, `wait{}`}},
		{"all index 0 without ids, the first without arguments", []string{
			frag(`{"index":0,"function":{"name":"look","arguments":""}}`),
			frag(`{"index":0,"function":{"name":"save","arguments":"{\"p\":\"a\"}"}}`),
		}, []string{`look{}`, `save{"p":"a"}`}},
		{"no index and no id, all in one chunk", []string{
			frag(`{"function":{"name":"save","arguments":"{\"p\":\"a\"}"}}`, `{"function":{"name":"save","arguments":"{\"p\":\"b\"}"}}`, `{"function":{"name":"look","arguments":"{}"}}`),
		}, three},
		{"interleaved, ids only on the first", []string{
			frag(`{"index":0,"id":"x","function":{"name":"save"}}`, `{"index":1,"id":"y","function":{"name":"save"}}`, `{"index":2,"id":"z","function":{"name":"look"}}`),
			frag(`{"index":1,"function":{"arguments":"{\"p\""}}`), frag(`{"index":0,"function":{"arguments":"{\"p\":"}}`),
			frag(`{"index":1,"function":{"arguments":":\"b\"}"}}`), frag(`{"index":0,"function":{"arguments":"\"a\"}"}}`),
			frag(`{"index":2,"function":{"arguments":"{}"}}`),
		}, three},
		{"the same id for different calls", []string{
			frag(`{"index":0,"id":"x","function":{"name":"save","arguments":"{\"p\":\"a\"}"}}`),
			frag(`{"index":0,"id":"x","function":{"name":"save","arguments":"{\"p\":\"b\"}"}}`),
			frag(`{"index":0,"id":"x","function":{"name":"look","arguments":"{}"}}`),
		}, three},
		{"the same id for different calls, without indexes", []string{
			frag(`{"id":"x","function":{"name":"save","arguments":"{\"p\":\"a\"}"}}`),
			frag(`{"id":"x","function":{"name":"save","arguments":"{\"p\":\"b\"}"}}`),
			frag(`{"id":"x","function":{"name":"look","arguments":"{}"}}`),
		}, three},
		{"name repeated in each fragment", []string{
			frag(`{"index":0,"id":"x","function":{"name":"save","arguments":"{\"p\""}}`), frag(`{"index":0,"id":"x","function":{"name":"save","arguments":":\"a\"}"}}`),
			frag(`{"index":1,"id":"y","function":{"name":"save","arguments":"{\"p\":"}}`), frag(`{"index":1,"id":"y","function":{"name":"save","arguments":"\"b\"}"}}`),
			frag(`{"index":2,"id":"z","function":{"name":"look","arguments":"{}"}}`),
		}, three},
		{"a fresh id on every fragment of one call", []string{
			frag(`{"index":0,"id":"1","function":{"name":"save","arguments":"{\"p\":"}}`), frag(`{"index":0,"id":"2","function":{"arguments":"\"a\""}}`),
			frag(`{"index":0,"id":"3","function":{"arguments":"}"}}`),
		}, three[:1]},
		{"a fresh id and the name on every fragment of one call", []string{
			frag(`{"index":0,"id":"1","function":{"name":"save","arguments":"{\"p\":"}}`), frag(`{"index":0,"id":"2","function":{"name":"save","arguments":"\"a\"}"}}`),
		}, three[:1]},
		{"arguments as an object", []string{
			frag(`{"index":0,"id":"x","function":{"name":"save","arguments":{"p": "a"}}}`),
			frag(`{"index":0,"id":"y","function":{"name":"save","arguments":{"p":"b"}}}`),
			frag(`{"index":0,"id":"z","function":{"name":"look","arguments":{}}}`),
		}, three},
		{"id null", []string{
			frag(`{"index":0,"id":null,"function":{"name":"save","arguments":"{\"p\":\"a\"}"}}`),
			frag(`{"index":1,"id":null,"function":{"name":"save","arguments":"{\"p\":\"b\"}"}}`),
			frag(`{"index":2,"id":null,"function":{"name":"look","arguments":null}}`),
		}, three},
		{"later index first", []string{
			frag(`{"index":1,"id":"y","function":{"name":"save","arguments":"{\"p\":\"b\"}"}}`),
			frag(`{"index":0,"id":"x","function":{"name":"save","arguments":"{\"p\":\"a\"}"}}`),
		}, three[:2]},
		{"name behind the arguments", []string{
			frag(`{"index":0,"id":"x","function":{"arguments":"{\"p\":\"a\"}"}}`), frag(`{"index":0,"function":{"name":"save"}}`),
		}, three[:1]},
		{"a call without a name is left out", []string{
			frag(`{"index":0,"function":{"arguments":"{}"}}`), frag(`{"index":1,"id":"x","function":{"name":"save","arguments":"{\"p\":\"a\"}"}}`),
		}, three[:1]},
		{"numbering starts at one", []string{
			frag(`{"index":1,"id":"x","function":{"name":"save","arguments":"{\"p\":\"a\"}"}}`),
			frag(`{"index":2,"id":"y","function":{"name":"save","arguments":"{\"p\":\"b\"}"}}`),
		}, three[:2]},
		{"the single call of the older form", []string{
			`{"choices":[{"delta":{"function_call":{"name":"save","arguments":""}}}]}`, `{"choices":[{"delta":{"function_call":{"arguments":"{\"p\":\"a\"}"}}}]}`,
		}, three[:1]},
		{"no text of arguments at all", []string{frag(`{"index":0,"id":"x","function":{"name":"look","arguments":""}}`)}, []string{"look{}"}},
		{"numbers keep their digits", []string{frag(`{"index":0,"id":"x","function":{"name":"n","arguments":"{\"i\": 9007199254740993, \"e\":1.50e+3}"}}`)}, []string{`n{"i":9007199254740993,"e":1.50e+3}`}},
		{"a whole character in escapes", []string{frag(`{"index":0,"id":"x","function":{"name":"n","arguments":"{\"a\":\"\\ud83d\\ude42 \\\\ud83d\"}"}}`)}, []string{`n{"a":"\ud83d\ude42 \\ud83d"}`}},
		{"a brace inside a text", []string{
			frag(`{"index":0,"id":"x","function":{"name":"n","arguments":"{\"a\":\"}\""}}`), frag(`{"index":0,"function":{"arguments":",\"b\":\"\\\\\\\"{\"}"}}`),
		}, []string{`n{"a":"}","b":"\\\"{"}`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var early []provider.ToolCall
			resp, err := read(Dialect{}, nil, stream(append(tc.chunks, endCalls, sse.Done)...), provider.Sink{
				Call: func(i int, c provider.ToolCall) {
					if i != len(early) {
						t.Errorf("call reported at %d after %d others", i, len(early))
					}
					early = append(early, c)
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, c := range resp.Calls {
				got = append(got, c.Name+string(c.Arguments))
				if c.ArgumentsError != "" {
					t.Errorf("call %d: %s", i, c.ArgumentsError)
				}
				if c.ID != fmt.Sprintf("call_%d", i) {
					t.Errorf("call %d has the id %q", i, c.ID)
				}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("calls (-want +got):\n%s", d)
			}
			for i, c := range early {
				if d := cmp.Diff(resp.Calls[i], c); d != "" {
					t.Errorf("call %d was reported otherwise than it settled:\n%s", i, d)
				}
			}
		})
	}
}

func TestEarlyReports(t *testing.T) {
	t.Run("never a prefix, once, and not past a gap", func(t *testing.T) {
		var got []string
		a := NewAccumulator(Dialect{}, &provider.Request{}, "m", provider.Sink{Call: func(i int, c provider.ToolCall) {
			got = append(got, fmt.Sprintf("%d %s%s", i, c.Name, c.Arguments))
		}}, time.Now())
		feed := func(payload string, want ...string) {
			t.Helper()
			if _, err := a.Event(sse.Event{Data: []byte(payload)}); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("after %s (-want +got):\n%s", payload, d)
			}
		}
		feed(frag(`{"index":1,"id":"b","function":{"name":"second","arguments":"{}"}}`))
		feed(frag(`{"index":0,"id":"a","function":{"name":"first","arguments":"{\"x\":{\"y\":1}"}}`))
		feed(frag(`{"index":0,"function":{"arguments":"}"}}`), `0 first{"x":{"y":1}}`, `1 second{}`)
		feed(frag(`{"index":2,"id":"c","function":{"name":"third","arguments":""}}`), `0 first{"x":{"y":1}}`, `1 second{}`)
		feed(endCalls, `0 first{"x":{"y":1}}`, `1 second{}`)
	})

	t.Run("a long argument in small pieces stays linear", func(t *testing.T) {
		whole := `{"t":"` + strings.Repeat("}", 1<<18) + `"}`
		reports := 0
		a := NewAccumulator(Dialect{}, &provider.Request{}, "m", provider.Sink{Call: func(int, provider.ToolCall) { reports++ }}, time.Now())
		first := true
		for rest := whole; rest != ""; {
			n := min(20, len(rest))
			name := ""
			if first {
				name, first = `"name":"w",`, false
			}
			piece, _ := json.Marshal(rest[:n])
			if _, err := a.Event(sse.Event{Data: []byte(frag(`{"index":0,"function":{` + name + `"arguments":` + string(piece) + `}}`))}); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if reports != 1 {
			t.Errorf("reported %d times, want once", reports)
		}
	})
}

func TestArgumentsThatAreNoObject(t *testing.T) {
	for _, tc := range []struct{ name, args, problem string }{
		{"cut", `{"a":1`, "not valid JSON"},
		{"an array", `[1]`, "not an object"},
		{"null", `null`, "not an object"},
		{"a text", `"x"`, "not an object"},
		{"deep nesting", strings.Repeat("[", 10<<10), "not valid JSON"},
		{"two objects", `{}{}`, "not valid JSON"},
		{"half a character", `{"a":"\ud83d"}`, "half a character"},
		{"the other half", `{"a":"x\\\ude42 "}`, "half a character"},
		{"two first halves", `{"a":"\ud83d\ud83d"}`, "half a character"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, _ := json.Marshal(tc.args)
			early := 0
			resp, err := read(Dialect{}, nil, stream(frag(`{"index":0,"id":"x","function":{"name":"n","arguments":`+string(text)+`}}`), endCalls), provider.Sink{Call: func(int, provider.ToolCall) { early++ }})
			if err != nil {
				t.Fatal(err)
			}
			c := resp.Calls[0]
			if string(c.Arguments) != "{}" || !strings.Contains(c.ArgumentsError, tc.problem) || len(c.ArgumentsError) > 600 {
				t.Errorf("call = %s with %q, want {} and %q", c.Arguments, c.ArgumentsError, tc.problem)
			}
			if early != 0 {
				t.Error("reported early")
			}
		})
	}
}

func say(s string) string {
	b, _ := json.Marshal(s)
	return `{"choices":[{"index":0,"delta":{"content":` + string(b) + `},"finish_reason":null}]}`
}

const endStop = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`

func TestTextAndThinking(t *testing.T) {
	for _, tc := range []struct {
		name     string
		in       []string
		text     string
		thinking string
		ending   provider.Finish
	}{
		{"deltas join", []string{say("a"), say(""), say(" b"), endStop}, "a b", "", provider.FinishStop},
		{"reasoning and reasoning_content", []string{
			`{"choices":[{"delta":{"reasoning":"x"}}]}`, `{"choices":[{"delta":{"reasoning_content":"y"}}]}`, say("t"), endStop}, "t", "xy", provider.FinishStop},
		{"content as a list", []string{
			`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"so"}]}}]}`, endStop}, "so", "hm", provider.FinishStop},
		{"refusal", []string{`{"choices":[{"delta":{"refusal":"I will not"}}]}`, endStop}, "I will not", "", provider.FinishRefusal},
		{"a whole message instead of deltas", []string{`{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]}`}, "whole", "", provider.FinishStop},
		{"a whole message behind deltas is a repetition", []string{say("a"), `{"choices":[{"delta":{"content":"b"},"message":{"content":"ab"}}]}`, `{"choices":[{"message":{"content":"ab"},"finish_reason":"stop"}]}`}, "ab", "", provider.FinishStop},
		{"chunks without choices", []string{`{"id":"x","model":"m"}`, `{"choices":null}`, say("a"), `{"choices":[],"usage":{"prompt_tokens":1}}`, endStop}, "a", "", provider.FinishStop},
		{"cut by the output cap", []string{say("half a"), `{"choices":[{"delta":{},"finish_reason":"length"}]}`}, "half a", "", provider.FinishLength},
		{"withheld without a word", []string{`{"choices":[{"delta":{},"finish_reason":"content_filter"}]}`}, "", "", provider.FinishContentFilter},
		{"quiet with usage", []string{endStop, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":0}}`}, "", "", provider.FinishEmpty},
		{"only the end word behind text", []string{say("a"), sse.Done}, "a", "", provider.FinishStop},
		{"an unknown word is an ordinary stop", []string{say("a"), `{"choices":[{"finish_reason":"eos_id"}]}`}, "a", "", provider.FinishStop},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var streamed strings.Builder
			resp, err := read(Dialect{}, nil, stream(tc.in...), provider.Sink{Token: func(s string) {
				if s == "" {
					t.Error("an empty delta")
				}
				streamed.WriteString(s)
			}})
			if err != nil {
				t.Fatal(err)
			}
			if resp.Text != tc.text || resp.Reasoning != tc.thinking || resp.Ending() != tc.ending {
				t.Errorf("got %q, thinking %q, ending %q; want %q, %q, %q", resp.Text, resp.Reasoning, resp.Ending(), tc.text, tc.thinking, tc.ending)
			}
			if streamed.String() != resp.Text {
				t.Errorf("streamed %q, settled %q", streamed.String(), resp.Text)
			}
		})
	}
}

func TestWhatIsNoAnswer(t *testing.T) {
	usage := `{"choices":[],"usage":{"prompt_tokens":1200,"completion_tokens":3}}`
	for _, tc := range []struct {
		name  string
		in    []string
		kind  provider.Kind
		usage bool
	}{
		{"nothing at all", nil, provider.Malformed, false},
		{"rubbish only", []string{"hello", "{"}, provider.Malformed, false},
		{"text without an end", []string{say("half")}, provider.Malformed, false},
		{"a call cut in its arguments", []string{frag(`{"index":0,"id":"x","function":{"name":"save","arguments":"{\"path\":\"src/ma"}}`)}, provider.Malformed, false},
		{"a call that looks whole, without an end", []string{frag(`{"index":0,"id":"x","function":{"name":"save","arguments":"{\"path\":\"a\"}"}}`)}, provider.Malformed, false},
		{"cut behind the counters", []string{say("half"), usage}, provider.Malformed, true},
		{"thinking alone", []string{`{"choices":[{"delta":{"reasoning":"x"}}]}`, endStop}, provider.Malformed, false},
		{"an end at the output limit, and nothing else", []string{`{"choices":[{"delta":{},"finish_reason":"length"}]}`}, provider.Malformed, false},
		{"a pause, and nothing else", []string{`{"choices":[{"delta":{},"finish_reason":"pause_turn"}]}`}, provider.Malformed, false},
		{"the end word alone", []string{sse.Done}, provider.Malformed, false},
		{"a call that could not be formed", []string{`{"choices":[{"delta":{},"finish_reason":"MALFORMED_FUNCTION_CALL"}]}`, usage}, provider.Malformed, true},
		{"a call announced and none given", []string{endCalls, usage}, provider.Malformed, true},
		{"ended by an error word", []string{say("half"), `{"choices":[{"delta":{},"finish_reason":"error"}]}`}, provider.Server, false},
		{"ended by a network error", []string{say("half"), `{"choices":[{"delta":{},"finish_reason":"network_error"}]}`}, provider.Server, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, err := read(Dialect{}, nil, stream(tc.in...), provider.Sink{})
			e, ok := provider.AsError(err)
			if !ok || e.Kind != tc.kind || !e.Retryable() || e.Status != 0 {
				t.Fatalf("got %+v, %v; want a retryable %s", resp, err, tc.kind)
			}
			if (e.Usage != nil) != tc.usage {
				t.Errorf("usage in the error = %v, want it: %v", e.Usage, tc.usage)
			}
		})
	}

	t.Run("a server that never says the end", func(t *testing.T) {
		resp, err := read(Dialect{NoTerminalSignal: true}, nil, stream(say("all")), provider.Sink{})
		if err != nil || resp.Text != "all" {
			t.Errorf("got %v, %v; want the text", resp, err)
		}
	})
}

func TestCutAtEveryEvent(t *testing.T) {
	chunks := []string{say("a"), frag(`{"index":0,"id":"x","function":{"name":"n","arguments":"{}"}}`), endCalls, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, sse.Done}
	for n := range len(chunks) + 1 {
		_, err := read(Dialect{}, nil, stream(chunks[:n]...), provider.Sink{})
		ended := n >= 3 // the finish reason is there
		if ended != (err == nil) {
			t.Errorf("cut behind %d of %d events: %v, want success: %v", n, len(chunks), err, ended)
		}
		if err != nil && !errors.Is(err, provider.Malformed) {
			t.Errorf("cut behind %d: %v, want Malformed", n, err)
		}
	}
}

func TestFailuresInsideASuccess(t *testing.T) {
	for _, tc := range []struct {
		name    string
		payload string
		kind    provider.Kind
		status  int
	}{
		{"numeric code", `{"error":{"code":502,"message":"worker gone"},"choices":[]}`, provider.Server, 502},
		{"numeric code as text", `{"error":{"code":"429","message":"slow down"}}`, provider.RateLimited, 429},
		{"code beside a finish", `{"error":{"code":503,"message":"gone"},"choices":[{"delta":{},"finish_reason":"error"}]}`, provider.Server, 503},
		{"overflow", `{"error":{"code":400,"message":"maximum context length is 8192"}}`, provider.ContextOverflow, 400},
		{"by type", `{"error":{"type":"rate_limit_error","message":"x"}}`, provider.RateLimited, 0},
		{"by code word", `{"error":{"code":"invalid_api_key","message":"x"}}`, provider.Auth, 0},
		{"request with overflow words", `{"error":{"type":"invalid_request_error","message":"prompt is too long"}}`, provider.ContextOverflow, 0},
		{"request", `{"error":{"type":"invalid_request_error","message":"unknown key"}}`, provider.InvalidRequest, 0},
		{"quota", `{"error":{"type":"insufficient_quota","message":"pay"}}`, provider.Quota, 0},
		{"unknown word", `{"error":{"type":"odd","message":"x"}}`, provider.Server, 0},
		{"text", `{"error":"engine died"}`, provider.Server, 0},
		{"object of kind error", `{"object":"error","message":"bad","type":"BadRequestError","code":400}`, provider.InvalidRequest, 400},
		{"array", `[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}]`, provider.RateLimited, 429},
		{"array by status word", `[{"error":{"message":"x","status":"UNAUTHENTICATED"}}]`, provider.Auth, 0},
		{"inside of the choice", `{"choices":[{"error":{"code":502,"message":"gone"},"delta":{},"finish_reason":"error"}]}`, provider.Server, 502},
		{"web words without web access", `{"error":{"code":"web_search_failed","message":"x"}}`, provider.Server, 0},
	} {
		for _, before := range [][]string{nil, {say("half the ")}} {
			t.Run(fmt.Sprintf("%s after %d events", tc.name, len(before)), func(t *testing.T) {
				resp, err := read(Dialect{}, nil, stream(append(before, tc.payload, sse.Done)...), provider.Sink{})
				e, ok := provider.AsError(err)
				if !ok || e.Kind != tc.kind || e.Status != tc.status {
					t.Fatalf("got %v, %v; want %s with status %d", resp, err, tc.kind, tc.status)
				}
			})
		}
	}

	t.Run("error null is no failure", func(t *testing.T) {
		if _, err := read(Dialect{}, nil, stream(`{"error":null,"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`), provider.Sink{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("a failed search inside a declared one keeps the answer", func(t *testing.T) {
		req := &provider.Request{Web: provider.WebAccess{Search: true}}
		resp, err := read(Dialect{Provider: "v"}, req, stream(say("a"), `{"error":{"code":"web_search_unavailable","message":"x"}}`, say("b"), endStop), provider.Sink{})
		if err != nil {
			t.Fatal(err)
		}
		want := []provider.ServerToolCall{{Provider: "v", Tool: "web_search", Error: "web_search_unavailable"}}
		if d := cmp.Diff(want, resp.ServerTools); d != "" || resp.Text != "ab" {
			t.Errorf("text %q, tools:\n%s", resp.Text, d)
		}
	})
	t.Run("a numeric code fails also with web declared", func(t *testing.T) {
		req := &provider.Request{Web: provider.WebAccess{Search: true}}
		if _, err := read(Dialect{}, req, stream(`{"error":{"code":502,"message":"web gone"}}`), provider.Sink{}); !errors.Is(err, provider.Server) {
			t.Errorf("got %v, want Server", err)
		}
	})
}

func TestUsageWhereverItStands(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   string
		want provider.Usage
	}{
		{"on a chunk of its own", `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":3},"server_tool_use":{"web_search_requests":2}}}`,
			provider.Usage{PromptTokens: 10, CompletionTokens: 5, TotalTokens: 15, CacheReadTokens: 4, CacheWriteTokens: 2, ReasoningTokens: 3, ServerToolRequests: 2}},
		{"no total", `{"usage":{"prompt_tokens":10,"completion_tokens":5}}`, provider.Usage{PromptTokens: 10, CompletionTokens: 5, TotalTokens: 15}},
		{"a total of zero", `{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":0}}`, provider.Usage{PromptTokens: 10, CompletionTokens: 5, TotalTokens: 15}},
		{"a total that disagrees", `{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":99}}`, provider.Usage{PromptTokens: 10, CompletionTokens: 5, TotalTokens: 99}},
		{"cache hits under another name", `{"usage":{"prompt_tokens":10,"prompt_cache_hit_tokens":7}}`, provider.Usage{PromptTokens: 10, TotalTokens: 10, CacheReadTokens: 7}},
		{"cache hits at the top", `{"usage":{"prompt_tokens":10,"cached_tokens":7}}`, provider.Usage{PromptTokens: 10, TotalTokens: 10, CacheReadTokens: 7}},
		{"in the choice", `{"choices":[{"usage":{"prompt_tokens":1,"completion_tokens":1}}]}`, provider.Usage{PromptTokens: 1, CompletionTokens: 1, TotalTokens: 2}},
		{"in a vendor's member", `{"x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":2}}}`, provider.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3}},
		{"the top wins", `{"usage":{"prompt_tokens":5},"x_groq":{"usage":{"prompt_tokens":1}}}`, provider.Usage{PromptTokens: 5, TotalTokens: 5}},
		{"the choice before a vendor's member", `{"choices":[{"usage":{"prompt_tokens":5}}],"x_groq":{"usage":{"prompt_tokens":1}}}`, provider.Usage{PromptTokens: 5, TotalTokens: 5}},
		{"beyond counting", `{"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}}`, provider.Usage{PromptTokens: 1 << 50, CompletionTokens: 1 << 50, TotalTokens: 1 << 51}},
		{"negative is none", `{"usage":{"prompt_tokens":-5,"completion_tokens":2}}`, provider.Usage{CompletionTokens: 2, TotalTokens: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, err := read(Dialect{}, nil, stream(`{"choices":[{"delta":{"content":"a"}}],"usage":null}`, endStop, tc.in, `{"usage":null}`), provider.Sink{})
			if err != nil {
				t.Fatal(err)
			}
			if resp.Usage == nil {
				t.Fatal("no usage")
			}
			if d := cmp.Diff(tc.want, *resp.Usage); d != "" {
				t.Errorf("usage (-want +got):\n%s", d)
			}
		})
	}
	t.Run("zeros behind it", func(t *testing.T) {
		for _, zeros := range []string{`{"usage":{}}`, `{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`} {
			resp, err := read(Dialect{}, nil, stream(say("a"), `{"usage":{"prompt_tokens":3,"completion_tokens":4}}`, endStop, zeros), provider.Sink{})
			if err != nil || resp.Usage == nil || *resp.Usage != (provider.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7}) {
				t.Errorf("%s: usage = %v, %v", zeros, resp.Usage, err)
			}
		}
	})
	t.Run("none is nil and not zero", func(t *testing.T) {
		resp, err := read(Dialect{}, nil, stream(say("a"), `{"usage":null}`, endStop), provider.Sink{})
		if err != nil || resp.Usage != nil {
			t.Errorf("usage = %v, %v; want nil", resp.Usage, err)
		}
	})
}

func TestTimeToFirstContent(t *testing.T) {
	a := NewAccumulator(Dialect{}, &provider.Request{}, "m", provider.Sink{}, time.Now())
	for _, p := range []string{`{"choices":[{"delta":{"role":"assistant","content":""}}]}`, `{"choices":[{"delta":{"reasoning":""}}]}`, `{"usage":{"prompt_tokens":1}}`} {
		if _, err := a.Event(sse.Event{Data: []byte(p)}); err != nil {
			t.Fatal(err)
		}
	}
	if a.ttft != 0 {
		t.Error("an empty delta stopped the clock")
	}
	for _, p := range []string{`{"choices":[{"delta":{"reasoning":"x"}}]}`, frag(`{"index":0,"function":{"name":"n"}}`), say("x")} {
		b := NewAccumulator(Dialect{}, &provider.Request{}, "m", provider.Sink{}, time.Now())
		if _, err := b.Event(sse.Event{Data: []byte(p)}); err != nil || b.ttft == 0 {
			t.Errorf("%s did not stop the clock (%v)", p, err)
		}
	}
}

func TestSources(t *testing.T) {
	resp, err := read(Dialect{Provider: "v"}, nil, stream(
		`{"choices":[{"delta":{"content":"a","annotations":[{"type":"url_citation","url_citation":{"url":"https://a/","title":"","content":""}},{"url":"https://b/","title":"B"},{"url":""}]}}]}`,
		`{"citations":["https://a/","https://c/"],"search_results":[{"url":"https://a/","title":"A"}],"choices":[{"delta":{"annotations":[{"url_citation":{"url":"https://a/","title":"other","content":"quoted"}}]},"finish_reason":"stop"}]}`,
	), provider.Sink{})
	if err != nil {
		t.Fatal(err)
	}
	want := []provider.Citation{{URL: "https://a/", Title: "A", Text: "quoted"}, {URL: "https://b/", Title: "B"}, {URL: "https://c/"}}
	if d := cmp.Diff(want, resp.Citations); d != "" {
		t.Errorf("citations (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]provider.ServerToolCall{{Provider: "v", Tool: "web_search"}}, resp.ServerTools); d != "" {
		t.Errorf("server tools (-want +got):\n%s", d)
	}
}

func TestDocumentInsteadOfAStream(t *testing.T) {
	for _, tc := range []struct {
		name, in, text string
		calls          int
		kind           provider.Kind
	}{
		{"a completion", `{"model":"m","choices":[{"message":{"content":"hi","tool_calls":[{"id":"a","function":{"name":"x","arguments":"{}"}},{"id":"a","function":{"name":"y","arguments":""}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`, "hi", 2, ""},
		{"an error", `{"error":{"code":401,"message":"no"}}`, "", 0, provider.Auth},
		{"an array of one error", `[{"error":{"code":503,"message":"no"}}]`, "", 0, provider.Server},
		{"a page", `<html>busy</html>`, "", 0, provider.Malformed},
		{"something else", `{"hello":1}`, "", 0, provider.Malformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := NewAccumulator(Dialect{}, &provider.Request{}, "m", provider.Sink{}, time.Now())
			err := a.Document([]byte(tc.in))
			var resp *provider.Response
			if err == nil {
				resp, err = a.Finish()
			}
			if tc.kind != "" {
				if !errors.Is(err, tc.kind) {
					t.Fatalf("got %v, %v; want %s", resp, err, tc.kind)
				}
				return
			}
			if err != nil || resp.Text != tc.text || len(resp.Calls) != tc.calls || resp.Usage == nil {
				t.Fatalf("got %+v, %v", resp, err)
			}
		})
	}
}

func FuzzAccumulator(f *testing.F) {
	f.Add(stream(say("a"), frag(`{"index":0,"id":"x","function":{"name":"n","arguments":"{}"}}`), endCalls))
	f.Add(stream(frag(`{"index":-1}`, `{"index":9e9,"function":{"name":1,"arguments":[{}]}}`, `null`, `3`)))
	f.Add(stream(`{"choices":[{"delta":{"reasoning_details":[{"index":0,"text":"a"},{"index":0,"text":3},4]}}]}`, sse.Done))
	f.Add(stream(`{"usage":{"prompt_tokens":1e400}}`, `{"error":[]}`))
	f.Fuzz(func(t *testing.T, in string) {
		var text strings.Builder
		var early []provider.ToolCall
		resp, err := read(Dialect{OpenRouter: true, ExtraContent: true, ReasoningContent: true}, nil, in, provider.Sink{
			Token: func(s string) { text.WriteString(s) },
			Call: func(i int, c provider.ToolCall) {
				if i != len(early) {
					t.Fatalf("call %d reported after %d", i, len(early))
				}
				early = append(early, c)
			},
		})
		if (resp == nil) == (err == nil) {
			t.Fatalf("response %v and error %v", resp, err)
		}
		if err != nil {
			return
		}
		if text.String() != resp.Text {
			t.Fatalf("streamed %q, settled %q", text.String(), resp.Text)
		}
		if len(early) > len(resp.Calls) {
			t.Fatalf("%d calls reported, %d settled", len(early), len(resp.Calls))
		}
		for i, c := range resp.Calls {
			var object map[string]json.RawMessage
			if c.Name == "" || json.Unmarshal(c.Arguments, &object) != nil {
				t.Fatalf("call %d is %+v", i, c)
			}
		}
		if len(resp.Carry) > 0 && !json.Valid(resp.Carry) {
			t.Fatalf("carry %q", resp.Carry)
		}
	})
}

func TestAnAnswerHoldsOnlySoManyCalls(t *testing.T) {
	many := strings.Repeat(`{"id":"","function":{"name":"look","arguments":"{}"}},`, wire.MaxCalls)
	few, more := strings.TrimSuffix(many, ","), many+`{"function":{"name":"look","arguments":"{}"}}`
	if resp, err := read(Dialect{}, nil, stream(frag(few), endCalls), provider.Sink{}); err != nil || len(resp.Calls) != wire.MaxCalls {
		t.Errorf("as many as may be: %v", err)
	}
	if _, err := read(Dialect{}, nil, stream(frag(more), endCalls), provider.Sink{}); !errors.Is(err, provider.Malformed) {
		t.Errorf("one more: %v, want Malformed", err)
	}
}

// Gateways name the model in every event, some of them another one at the end.
func TestTheFirstModelNamedIsTheOneThatServed(t *testing.T) {
	resp, err := read(Dialect{}, nil, stream(`{"model":"","choices":[]}`, `{"model":"m-2026","choices":[{"delta":{"content":"a"}}]}`,
		`{"model":"other","choices":[{"delta":{},"finish_reason":"stop"}]}`, sse.Done), provider.Sink{})
	if err != nil || resp.Model != "m-2026" {
		t.Errorf("served by %+v, %v", resp, err)
	}
}
