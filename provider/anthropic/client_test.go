package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/anthropic"
	"github.com/initorigin/io-harness-go/provider/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "sk-ant-canary-0123456789"

func client(t *testing.T, v *testkit.Vendor, change func(*anthropic.Config)) *anthropic.Client {
	t.Helper()
	cfg := anthropic.Config{BaseURL: v.URL, Key: provider.NewSecret(canary), Model: "claude-sonnet-4-20250514", Transport: v.Transport()}
	if change != nil {
		change(&cfg)
	}
	c, err := anthropic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask asks a client of v and returns the body that was sent last.
func ask(t *testing.T, v *testkit.Vendor, c *anthropic.Client, req *provider.Request) (*provider.Response, string, error) {
	t.Helper()
	resp, err := c.Complete(context.Background(), req, provider.Sink{})
	a := v.Asked()
	if len(a) == 0 {
		return resp, "", err
	}
	return resp, a[len(a)-1].Body, err
}

func same(r testkit.Reply) func(*testing.T) provider.Provider {
	return func(t *testing.T) provider.Provider {
		return client(t, testkit.NewVendorFunc(t, func(_ int, a testkit.Asked) testkit.Reply {
			if err := testkit.CheckAnthropic(a.Body, nil); err != nil {
				return testkit.Status(400, err.Error())
			}
			return r
		}), nil)
	}
}

func TestConformance(t *testing.T) {
	two := testkit.AnthropicEvents(append([]string{
		testkit.AnthropicStart("m"),
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"x","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"n\": 1}"}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"b","name":"y","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}`,
	}, testkit.AnthropicEnd("tool_use")...)...)
	providertest.Run(t, providertest.Suite{
		Key:   canary,
		Text:  same(testkit.AnthropicText("m", "some words é 🙂 to stream")),
		Calls: same(two),
		Hang:  same(testkit.Reply{Deaf: true}),
		Fails: map[provider.Kind]func(*testing.T) provider.Provider{
			provider.Auth:            same(testkit.Status(401, `{"type":"error","error":{"type":"authentication_error","message":"bad `+canary+`"}}`)),
			provider.RateLimited:     same(testkit.Status(429, "slow")),
			provider.Server:          same(testkit.Status(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)),
			provider.InvalidRequest:  same(testkit.Status(404, "no model")),
			provider.ContextOverflow: same(testkit.Status(400, "prompt is too long: 9 tokens > 8 maximum")),
			provider.Malformed:       same(testkit.AnthropicEvents(testkit.AnthropicStart("m"))),
		},
	})
}

func TestRequestHead(t *testing.T) {
	for _, fetch := range []bool{false, true} {
		v := testkit.NewVendor(t, testkit.AnthropicText("m", "x"))
		if _, _, err := ask(t, v, client(t, v, nil), &provider.Request{User: "u", Web: provider.WebAccess{Search: true, Fetch: fetch}}); err != nil {
			t.Fatal(err)
		}
		a := v.Asked()[0]
		beta := ""
		if fetch {
			beta = "web-fetch-2025-09-10"
		}
		if a.Path != "/v1/messages" || a.Header.Get("X-Api-Key") != canary || a.Header.Get("Anthropic-Version") != "2023-06-01" || a.Header.Get("Anthropic-Beta") != beta || a.Header.Get("Authorization") != "" {
			t.Errorf("asked %s with %v", a.Path, a.Header)
		}
	}
}

func TestGoldenBodies(t *testing.T) {
	png := provider.Media{Type: "image/png", Base64: "cG5n"}
	conversation := []provider.Message{
		provider.User("a <b> & c"),
		provider.Assistant("so", provider.ToolCall{ID: "x", Name: "read file", Arguments: []byte(`{"p": 9007199254740993}`)}, provider.ToolCall{ID: "y", Name: "ls", Arguments: []byte(`null`)}),
		provider.Results(provider.ToolResult{CallID: "y", Content: ""}),
	}
	const turns = `{"role":"user","content":[{"type":"text","text":"a <b> & c"}]},` +
		`{"role":"assistant","content":[{"type":"text","text":"so"},{"type":"tool_use","id":"t00010000","name":"read_file","input":{"p":9007199254740993}},{"type":"tool_use","id":"t00010001","name":"ls","input":{}}]},`
	const head = `{"model":"claude-sonnet-4-20250514","max_tokens":8192,"stream":true,`
	for _, tc := range []struct {
		name string
		req  provider.Request
		want string
	}{
		{"the least", provider.Request{User: "u"}, head + `"messages":[{"role":"user","content":"u"}]}`},
		{"system in blocks", provider.Request{System: []string{"a", " ", "b"}, User: "u"},
			head + `"system":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"u"}]}`},
		{"tools", provider.Request{User: "u", Tools: []provider.ToolSpec{{Name: "t", Description: "d", Schema: []byte(`{"type":"object","properties":{}}`)}}},
			head + `"messages":[{"role":"user","content":"u"}],"tools":[{"name":"t","description":"d","input_schema":{"type":"object","properties":{}}}]}`},
		{"conversation", provider.Request{Messages: conversation},
			head + `"messages":[` + turns + `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t00010000","content":"no result of this call is available here"},{"type":"tool_result","tool_use_id":"t00010001","content":""}]}]}`},
		{"an image behind results", provider.Request{Messages: conversation, Media: []provider.Media{png}},
			head + `"messages":[` + turns + `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t00010000","content":"no result of this call is available here"},{"type":"tool_result","tool_use_id":"t00010001","content":""},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}}]}]}`},
		{"an image before the text", provider.Request{Messages: conversation[:1], Media: []provider.Media{png}},
			head + `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}},{"type":"text","text":"a <b> & c"}]}]}`},
		{"an image behind an answer", provider.Request{Messages: []provider.Message{provider.User("u"), provider.Assistant("a")}, Media: []provider.Media{png}},
			head + `"messages":[{"role":"user","content":[{"type":"text","text":"u"}]},{"role":"assistant","content":[{"type":"text","text":"a"}]},{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}}]}]}`},
		{"an image and no conversation, no boundary", provider.Request{User: "stable rest", CacheBoundary: 6, Media: []provider.Media{png}},
			head + `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}},{"type":"text","text":"stable rest"}]}]}`},
		{"an image beside an empty turn", provider.Request{Messages: []provider.Message{provider.User(" ")}, Media: []provider.Media{png}},
			head + `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}}]}]}`},
		{"an image and no words at all", provider.Request{Media: []provider.Media{png}},
			head + `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}}]}]}`},
		{"nothing but an empty turn", provider.Request{Messages: []provider.Message{provider.User("")}},
			head + `"messages":[{"role":"user","content":[{"type":"text","text":"(go on)"}]}]}`},
		{"ends with an answer", provider.Request{Messages: []provider.Message{provider.User("u"), provider.Assistant("a")}},
			head + `"messages":[{"role":"user","content":[{"type":"text","text":"u"}]},{"role":"assistant","content":[{"type":"text","text":"a"}]},{"role":"user","content":[{"type":"text","text":"(go on)"}]}]}`},
		{"effort", provider.Request{User: "u", Effort: provider.EffortLow},
			`{"model":"claude-sonnet-4-20250514","max_tokens":9216,"stream":true,"messages":[{"role":"user","content":"u"}],"thinking":{"type":"enabled","budget_tokens":1024}}`},
		{"effort of a newer model", provider.Request{User: "u", Model: "claude-opus-4-7", Effort: provider.EffortHigh},
			`{"model":"claude-opus-4-7","max_tokens":24576,"stream":true,"messages":[{"role":"user","content":"u"}],"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}}`},
		{"output cap", provider.Request{User: "u", MaxTokens: 100, Effort: provider.EffortMedium},
			`{"model":"claude-sonnet-4-20250514","max_tokens":4196,"stream":true,"messages":[{"role":"user","content":"u"}],"thinking":{"type":"enabled","budget_tokens":4096}}`},
		{"search and fetch", provider.Request{User: "u", Web: provider.WebAccess{Search: true, Fetch: true, MaxUses: 3, AllowedDomains: []string{"docs.example"}}},
			head + `"messages":[{"role":"user","content":"u"}],"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":3,"allowed_domains":["docs.example"]},{"type":"web_fetch_20250910","name":"web_fetch","max_uses":3,"allowed_domains":["docs.example"]}]}`},
		{"blocked domains", provider.Request{User: "u", Web: provider.WebAccess{Search: true, BlockedDomains: []string{"x.example"}}},
			head + `"messages":[{"role":"user","content":"u"}],"tools":[{"type":"web_search_20250305","name":"web_search","blocked_domains":["x.example"]}]}`},
		{"shape of the answer", provider.Request{User: "u", Model: "claude-sonnet-4-5", Output: &provider.OutputSchema{Schema: []byte(`{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"additionalProperties":false}`)}},
			`{"model":"claude-sonnet-4-5","max_tokens":8192,"stream":true,"messages":[{"role":"user","content":"u"}],"output_config":{"format":{"type":"json_schema","schema":{"additionalProperties":false,"properties":{"n":{"description":"(minimum 1)","type":"integer"}},"type":"object"}}}}`},
		{"shape of the answer, an older model", provider.Request{User: "u", Output: &provider.OutputSchema{Schema: []byte(`{"type":"object","additionalProperties":false}`)}},
			head + `"messages":[{"role":"user","content":"u"}]}`},
		{"shape of the answer, an open object", provider.Request{User: "u", Model: "claude-sonnet-4-5", Output: &provider.OutputSchema{Schema: []byte(`{"type":"object"}`)}},
			`{"model":"claude-sonnet-4-5","max_tokens":8192,"stream":true,"messages":[{"role":"user","content":"u"}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := testkit.NewVendor(t, testkit.AnthropicText("m", "x"))
			_, body, err := ask(t, v, client(t, v, nil), &tc.req)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, body); d != "" {
				t.Errorf("body (-want +got):\n%s", d)
			}
			if err := testkit.CheckAnthropic(body, nil); err != nil {
				t.Errorf("a strict server would refuse it: %v", err)
			}
		})
	}
}

func TestCacheMarks(t *testing.T) {
	body := func(req *provider.Request) string {
		v := testkit.NewVendor(t, testkit.AnthropicText("m", "x"))
		_, b, err := ask(t, v, client(t, v, nil), req)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	flat := &provider.Request{System: []string{"s"}, User: "stable — rest", CacheBoundary: 6}
	if got, want := gjson.Get(body(flat), "messages.0.content").Raw, `[{"type":"text","text":"stable","cache_control":{"type":"ephemeral"}},{"type":"text","text":" — rest"}]`; got != want {
		t.Errorf("content = %s, want %s", got, want)
	}
	for _, at := range []int{-1, 0, 8, 9, len(flat.User), len(flat.User) + 9} {
		r := *flat
		r.CacheBoundary = at
		plain := *flat
		plain.CacheBoundary = 0
		if body(&r) != body(&plain) {
			t.Errorf("boundary %d changed the body", at)
		}
	}
	conversation := &provider.Request{System: []string{"s"}, Tools: []provider.ToolSpec{{Name: "t"}}, Messages: []provider.Message{
		provider.User("one"), provider.Assistant("two", provider.ToolCall{ID: "x", Name: "t", Arguments: []byte(`{}`)}),
		provider.Results(provider.ToolResult{CallID: "x", Content: "three"}), provider.User("four"),
	}}
	for n, want := range []string{0: "", 1: `0.content.0`, 2: `1.content.1`, 3: `2.content.0`, 4: `3.content.0`, 5: ""} {
		conversation.CacheThrough = n
		b := body(conversation)
		marks := strings.Count(b, "cache_control")
		if want == "" && marks != 1 || want != "" && (marks != 2 || !gjson.Get(b, "messages."+want+".cache_control").Exists()) {
			t.Errorf("through %d: %d marks, want one more at %q in %s", n, marks, want, b)
		}
	}
}

func TestEventsBecomeAResponse(t *testing.T) {
	v := testkit.NewVendor(t, testkit.AnthropicEvents(
		`{"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":1}}}`,
		`{"type":"ping"}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"","citations":[{"url":"https://a/","title":"A"}]}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"so "}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"é"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"url":"https://a/","cited_text":"quote"}}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","url":"https://b/","title":"B"}]}}`,
		`{"type":"content_block_start","index":4,"content_block":{"type":"web_search_tool_result","tool_use_id":"s1","content":{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}}}`,
		`{"type":"content_block_start","index":5,"content_block":{"type":"web_fetch_tool_result","tool_use_id":"gone","content":{"type":"web_fetch_result","url":"https://c/"}}}`,
		`{"type":"content_block_start","index":6,"content_block":{"type":"tool_use","id":"a","name":"grep","input":{}}}`,
		`{"type":"content_block_delta","index":6,"delta":{"type":"input_json_delta","partial_json":"{\"n\": 900719925474"}}`,
		`{"type":"content_block_delta","index":6,"delta":{"type":"input_json_delta","partial_json":"0993}"}}`,
		`{"type":"content_block_start","index":7,"content_block":{"type":"tool_use","id":"b","name":"whole","input":{"k":1}}}`,
		`{"type":"content_block_start","index":8,"content_block":{"type":"tool_use","id":"c","name":"none","input":{}}}`,
		`{"type":"something_new","index":9}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"input_tokens":15,"output_tokens":40,"server_tool_use":{"web_search_requests":2,"web_fetch_requests":1}}}`,
		`{"type":"message_stop"}`,
	))
	var streamed strings.Builder
	var early []string
	resp, err := client(t, v, nil).Complete(context.Background(), &provider.Request{User: "u", Web: provider.WebAccess{Search: true}}, provider.Sink{
		Token: func(s string) { streamed.WriteString(s) },
		Call:  func(i int, c provider.ToolCall) { early = append(early, fmt.Sprint(i, c.Name)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	resp.TTFT, resp.Carry = 0, nil
	want := &provider.Response{
		Text: "so é", Reasoning: "hm", Model: "claude-x", FinishReason: "tool_use",
		Calls: []provider.ToolCall{
			{ID: "call_0", Name: "grep", Arguments: []byte(`{"n":9007199254740993}`)},
			{ID: "call_1", Name: "whole", Arguments: []byte(`{"k":1}`)},
			{ID: "call_2", Name: "none", Arguments: []byte(`{}`)},
		},
		Usage:     &provider.Usage{PromptTokens: 65, CompletionTokens: 40, TotalTokens: 105, CacheReadTokens: 30, CacheWriteTokens: 20, ServerToolRequests: 3},
		Citations: []provider.Citation{{URL: "https://a/", Title: "A", Text: "quote"}, {URL: "https://b/", Title: "B"}, {URL: "https://c/"}},
		ServerTools: []provider.ServerToolCall{
			{Provider: "anthropic", Tool: "web_search"}, {Provider: "anthropic", Tool: "web_search", Error: "max_uses_exceeded"}, {Provider: "anthropic", Tool: "web_fetch"},
		},
	}
	if d := cmp.Diff(want, resp); d != "" {
		t.Errorf("response (-want +got):\n%s", d)
	}
	if streamed.String() != "so é" || fmt.Sprint(early) != "[0grep]" {
		t.Errorf("streamed %q, early %v", streamed.String(), early)
	}
}

// Some gateways put zeros where the vendor leaves a counter out.
func TestZerosResetNoCounter(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Stream(
		`{"type":"message_start","message":{"model":"m","usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":4}}`,
		`{"type":"message_stop"}`,
	))
	resp, err := client(t, v, nil).Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{})
	want := provider.Usage{PromptTokens: 60, CompletionTokens: 4, TotalTokens: 64, CacheReadTokens: 30, CacheWriteTokens: 20}
	if err != nil || resp.Usage == nil || *resp.Usage != want {
		t.Errorf("got %+v, %v; want %+v", resp, err, want)
	}
}

func TestStreamsThatAreNoAnswer(t *testing.T) {
	start, text := testkit.AnthropicStart("m"), `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"half"}}`
	call := `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"x","input":{}}}`
	args := `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"a\"}"}}`
	for _, tc := range []struct {
		name  string
		reply testkit.Reply
		kind  provider.Kind
		usage bool
	}{
		{"cut in the text", testkit.AnthropicEvents(start, text), provider.Malformed, true},
		{"cut behind a call that looks whole", testkit.AnthropicEvents(start, call, args), provider.Malformed, true},
		{"nothing", testkit.Reply{}, provider.Malformed, false},
		{"overloaded in the middle", testkit.AnthropicEvents(start, text, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`), provider.Server, true},
		{"refused in the stream", testkit.AnthropicEvents(`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}`), provider.ContextOverflow, false},
		{"an error in one document", testkit.Document(`{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`), provider.RateLimited, false},
		{"thinking alone", testkit.AnthropicEvents(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"x"}}`, `{"type":"message_stop"}`), provider.Malformed, false},
		{"an end at the output limit, and nothing else", testkit.AnthropicEvents(`{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}`, `{"type":"message_stop"}`), provider.Malformed, false},
		{"a pause, and nothing else", testkit.AnthropicEvents(`{"type":"message_delta","delta":{"stop_reason":"pause_turn"}}`, `{"type":"message_stop"}`), provider.Malformed, false},
		{"a page", testkit.Reply{Chunks: []testkit.Chunk{{Data: "<html>"}}}, provider.Malformed, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := testkit.NewVendor(t, tc.reply)
			resp, _, err := ask(t, v, client(t, v, nil), &provider.Request{User: "u"})
			e, ok := provider.AsError(err)
			if !ok || e.Kind != tc.kind || resp != nil {
				t.Fatalf("got %v, %v; want %s", resp, err, tc.kind)
			}
			if (e.Usage != nil) != tc.usage {
				t.Errorf("usage in the error = %v, want it: %v", e.Usage, tc.usage)
			}
		})
	}
}

func TestAWithheldAnswerKeepsTheVendorsWord(t *testing.T) {
	v := testkit.NewVendor(t, testkit.AnthropicEvents(`{"type":"message_delta","delta":{"stop_reason":"refusal"}}`, `{"type":"message_stop"}`))
	resp, _, err := ask(t, v, client(t, v, nil), &provider.Request{User: "u"})
	if err != nil || resp.FinishReason != "refusal" || resp.Ending() != provider.FinishRefusal {
		t.Errorf("%+v, %v", resp, err)
	}
}

func TestCutAtEveryEvent(t *testing.T) {
	whole := testkit.AnthropicThinkingCall("m", "thought", "sig", "toolu_1", "look", `{"n":1}`)
	for n := range len(whole.Chunks) + 1 {
		v := testkit.NewVendor(t, testkit.Reply{Chunks: whole.Chunks[:n]})
		_, _, err := ask(t, v, client(t, v, nil), &provider.Request{User: "u"})
		ended := n >= len(whole.Chunks)-1 // the stop reason is there
		if ended != (err == nil) || err != nil && !errors.Is(err, provider.Malformed) {
			t.Errorf("cut behind %d of %d events: %v, want success: %v", n, len(whole.Chunks), err, ended)
		}
	}
}

// The stop reason comes with the account of what was used: nothing is missing behind it.
func TestABrokenConnectionBehindTheStopReasonIsNoFailure(t *testing.T) {
	whole := testkit.AnthropicText("m", "words")
	for n := range len(whole.Chunks) + 1 {
		v := testkit.NewVendor(t, testkit.Reply{Chunks: whole.Chunks[:n], Cut: true})
		resp, _, err := ask(t, v, client(t, v, nil), &provider.Request{User: "u"})
		ended := n >= len(whole.Chunks)-1
		switch {
		case ended && (err != nil || resp.Text != "words" || resp.Usage == nil):
			t.Errorf("broken behind %d of %d events: %+v, %v; want the answer", n, len(whole.Chunks), resp, err)
		case !ended && !errors.Is(err, provider.Transport):
			t.Errorf("broken behind %d of %d events: %v, want Transport", n, len(whole.Chunks), err)
		}
	}
}

func TestEndingsThatAreNoEnding(t *testing.T) {
	for reason, want := range map[string]provider.Finish{
		"end_turn": provider.FinishStop, "stop_sequence": provider.FinishStop, "max_tokens": provider.FinishLength,
		"refusal": provider.FinishRefusal, "pause_turn": provider.FinishPaused, "model_context_window_exceeded": provider.FinishLength,
	} {
		reply := testkit.AnthropicText("m", "words")
		reply.Chunks[len(reply.Chunks)-2] = testkit.AnthropicEvents(testkit.AnthropicEnd(reason)[0]).Chunks[0]
		v := testkit.NewVendor(t, reply)
		resp, _, err := ask(t, v, client(t, v, nil), &provider.Request{User: "u"})
		if err != nil || resp.Ending() != want || resp.FinishReason != reason {
			t.Errorf("%s: %+v, %v; want %s", reason, resp, err, want)
		}
	}
	t.Run("declined without a word", func(t *testing.T) {
		v := testkit.NewVendor(t, testkit.AnthropicEvents(testkit.AnthropicEnd("refusal")...))
		resp, _, err := ask(t, v, client(t, v, nil), &provider.Request{User: "u"})
		if err != nil || resp.Ending() != provider.FinishRefusal {
			t.Errorf("got %+v, %v; want a refusal", resp, err)
		}
	})
}

func TestOneDocument(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Document(`{"type":"message","model":"m","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"whole"},{"type":"tool_use","id":"a","name":"x","input":{"n":1}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}`))
	resp, _, err := ask(t, v, client(t, v, nil), &provider.Request{User: "u"})
	if err != nil || resp.Text != "whole" || resp.Reasoning != "hm" || len(resp.Calls) != 1 || string(resp.Calls[0].Arguments) != `{"n":1}` || resp.Usage.TotalTokens != 3 {
		t.Fatalf("got %+v, %v", resp, err)
	}
	if got := gjson.GetBytes(resp.Carry, "blocks.0").Raw; got != `{"type":"thinking","thinking":"hm","signature":"s"}` {
		t.Errorf("carry = %s", resp.Carry)
	}
}

// thinker is a vendor that refuses whatever the real one refuses, and whose
// answers think, sign and call a tool.
func thinker(t *testing.T) *testkit.Vendor {
	signatures := map[string]string{}
	return testkit.NewVendorFunc(t, func(n int, a testkit.Asked) testkit.Reply {
		if err := testkit.CheckAnthropic(a.Body, signatures); err != nil {
			return testkit.Status(400, `{"type":"error","error":{"type":"invalid_request_error","message":`+quote(err.Error())+`}}`)
		}
		thought := fmt.Sprintf("thought <%d> é", n)
		signatures[thought] = fmt.Sprintf("sig/%d==", n)
		if !gjson.Get(a.Body, "thinking").Exists() {
			return testkit.AnthropicText("m", "without thinking")
		}
		return testkit.AnthropicThinkingCall("m", thought, signatures[thought], "toolu_same", "look", `{"n":1}`)
	})
}

func quote(s string) string { b, _ := json.Marshal(s); return string(b) }

func TestThinkingGoesBackUntouched(t *testing.T) {
	v := thinker(t)
	c := client(t, v, nil)
	req := &provider.Request{Effort: provider.EffortLow, Messages: []provider.Message{provider.User("do")}}
	step := func() string {
		t.Helper()
		resp, body, err := ask(t, v, c, req)
		if err != nil {
			t.Fatal(err)
		}
		req.Messages = append(req.Messages, resp.Message())
		for _, call := range resp.Calls {
			req.Messages = append(req.Messages, provider.Results(provider.ToolResult{CallID: call.ID, Content: "r"}))
		}
		return body
	}
	step()
	second := step()
	if got, want := gjson.Get(second, "messages.1.content.0").Raw, `{"type":"thinking","thinking":"thought <0> é","signature":"sig/0=="}`; got != want {
		t.Errorf("first block = %s, want %s", got, want)
	}
	if got, want := gjson.Get(second, "messages.1.content.1").Raw, `{"type":"redacted_thinking","data":"ENC"}`; got != want {
		t.Errorf("second block = %s, want %s", got, want)
	}
	if got := gjson.Get(second, "messages.1.content.2.type").String(); got != "tool_use" {
		t.Errorf("third block is %s, want the call", got)
	}
	step() // two turns with blocks; the server checks every signature

	t.Run("a resume without the blocks goes without thinking", func(t *testing.T) {
		bare := req.Clone()
		for i := range bare.Messages {
			bare.Messages[i].Carry = nil
		}
		if _, body, err := ask(t, v, c, bare); err != nil || gjson.Get(body, "thinking").Exists() || strings.Contains(body, "signature") {
			t.Errorf("%v, body %s", err, body)
		}
	})
	t.Run("a turn that did not think goes on where the model decides, and not under a budget", func(t *testing.T) {
		silent := req.Clone()
		for i := range silent.Messages {
			if silent.Messages[i].Carry != nil {
				silent.Messages[i].Carry = []byte(`{"wire":"anthropic","provider":"anthropic","model":"claude-sonnet-4-20250514","blocks":[]}`)
			}
		}
		if _, body, err := ask(t, v, c, silent); err != nil || gjson.Get(body, "thinking").Exists() {
			t.Errorf("under a budget: %v, body %s", err, body)
		}
		lenient := testkit.NewVendor(t, testkit.AnthropicText("m", "x"))
		adaptive := client(t, lenient, func(c *anthropic.Config) { c.Thinking = anthropic.ThinkingAdaptive })
		if _, body, err := ask(t, lenient, adaptive, silent); err != nil || gjson.Get(body, "thinking.type").String() != "adaptive" {
			t.Errorf("where it decides: %v, body %s", err, body)
		}
	})
	t.Run("another model gets none of them", func(t *testing.T) {
		other := req.Clone()
		other.Model = "claude-sonnet-4-1"
		if _, body, err := ask(t, v, c, other); err != nil || strings.Contains(body, "signature") || gjson.Get(body, "thinking").Exists() {
			t.Errorf("%v, body %s", err, body)
		}
	})
	t.Run("without an effort none are sent", func(t *testing.T) {
		off := req.Clone()
		off.Effort = ""
		if _, body, err := ask(t, v, c, off); err != nil || strings.Contains(body, "signature") {
			t.Errorf("%v, body %s", err, body)
		}
	})
	t.Run("a fold takes the blocks with it", func(t *testing.T) {
		folded := req.Clone()
		folded.Messages = append([]provider.Message{provider.User("summary of what was done")}, folded.Messages[3:]...)
		if _, body, err := ask(t, v, c, folded); err != nil || strings.Contains(body, "thought <0>") || !strings.Contains(body, "thought <1>") {
			t.Errorf("%v, body %s", err, body)
		}
	})
	t.Run("steering keeps them", func(t *testing.T) {
		steered := req.Clone()
		steered.Messages = append(steered.Messages, provider.User("also mind this"))
		if _, body, err := ask(t, v, c, steered); err != nil || !strings.Contains(body, "sig/1==") {
			t.Errorf("%v, body %s", err, body)
		}
	})
	t.Run("a new turn of the user leaves them behind", func(t *testing.T) {
		next := req.Clone()
		next.Messages = append(next.Messages, provider.Assistant("done"), provider.User("next"))
		if _, body, err := ask(t, v, c, next); err != nil || strings.Contains(body, "signature") || !gjson.Get(body, "thinking").Exists() {
			t.Errorf("%v, body %s", err, body)
		}
	})
	t.Run("another provider's carry is not read", func(t *testing.T) {
		foreign := req.Clone()
		for i := range foreign.Messages {
			if foreign.Messages[i].Carry != nil {
				foreign.Messages[i].Carry = []byte(`{"wire":"chat","provider":"anthropic","model":"claude-sonnet-4-20250514","blocks":[{"type":"thinking"}]}`)
			}
		}
		if _, body, err := ask(t, v, c, foreign); err != nil || strings.Contains(body, `"thinking"`) {
			t.Errorf("%v, body %s", err, body)
		}
	})
}

func TestAPausedTurnGoesOnWhereItStopped(t *testing.T) {
	pause := testkit.AnthropicEvents(append([]string{
		testkit.AnthropicStart("m"),
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"searching"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"srv1","name":"web_search","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}}`,
	}, testkit.AnthropicEnd("pause_turn")...)...)
	want := `[{"type":"text","text":"searching"},{"type":"server_tool_use","id":"srv1","name":"web_search","input":{"query":"x"}}]`
	for _, tc := range []struct {
		name   string
		change func(*anthropic.Config)
		then   []provider.Message
		want   string
	}{
		{"as the last message", nil, nil, want},
		{"switched off", func(c *anthropic.Config) { c.NoPauseEcho = true }, nil, `[{"type":"text","text":"searching"}]`},
		{"with a message behind it", nil, []provider.Message{provider.User("hurry")}, `[{"type":"text","text":"searching"}]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := testkit.NewVendor(t, pause, testkit.AnthropicText("m", "found"))
			c := client(t, v, tc.change)
			req := &provider.Request{Messages: []provider.Message{provider.User("look")}, Web: provider.WebAccess{Search: true}}
			resp, _, err := ask(t, v, c, req)
			if err != nil || resp.Ending() != provider.FinishPaused {
				t.Fatalf("got %+v, %v", resp, err)
			}
			req.Messages = append(append(req.Messages, resp.Message()), tc.then...)
			_, body, err := ask(t, v, c, req)
			if err != nil {
				t.Fatal(err)
			}
			if got := gjson.Get(body, "messages.1.content").Raw; got != tc.want {
				t.Errorf("content = %s, want %s", got, tc.want)
			}
		})
	}
}

// The vendor refuses each way of asking for the models of the other.
func TestTheWayOfThinkingFollowsTheVersion(t *testing.T) {
	for model, want := range map[string]string{
		"claude-opus-4-5": "enabled", "claude-opus-4-6": "adaptive", "claude-opus-5": "adaptive", "claude-sonnet-4-20250514": "enabled", "house-model": "enabled",
	} {
		v := testkit.NewVendor(t, testkit.AnthropicText("m", "x"))
		_, body, err := ask(t, v, client(t, v, nil), &provider.Request{User: "u", Model: model, Effort: provider.EffortLow})
		if got := gjson.Get(body, "thinking.type").String(); err != nil || got != want {
			t.Errorf("%s is asked %q, want %q: %v", model, got, want, err)
		}
	}
}

func TestThinkingTokensAreCountedWhereTheVendorSays(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Document(`{"content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":9,"output_tokens_details":{"thinking_tokens":7}}}`))
	resp, _, err := ask(t, v, client(t, v, nil), &provider.Request{User: "u"})
	if err != nil || resp.Usage == nil || *resp.Usage != (provider.Usage{PromptTokens: 1, CompletionTokens: 9, TotalTokens: 10, ReasoningTokens: 7}) {
		t.Errorf("usage = %+v, %v", resp, err)
	}
}

func TestTheWayOfThinkingIsLearned(t *testing.T) {
	refuse := testkit.Status(400, `{"type":"error","error":{"type":"invalid_request_error","message":"thinking.type: \"enabled\" is not supported by this model"}}`)
	v := testkit.NewVendor(t, refuse, testkit.AnthropicText("m", "x"), testkit.AnthropicText("m", "y"))
	c := client(t, v, nil)
	req := &provider.Request{User: "u", Model: "house-model", Effort: provider.EffortLow}
	for range 2 {
		if _, _, err := ask(t, v, c, req); err != nil {
			t.Fatal(err)
		}
	}
	var ways []string
	for _, a := range v.Asked() {
		ways = append(ways, gjson.Get(a.Body, "thinking.type").String())
	}
	if fmt.Sprint(ways) != "[enabled adaptive adaptive]" {
		t.Errorf("asked %v, want the refused way once and then the other", ways)
	}
	t.Run("once in a call", func(t *testing.T) {
		v := testkit.NewVendor(t, refuse, refuse)
		c := client(t, v, nil)
		if _, _, err := ask(t, v, c, req); !errors.Is(err, provider.InvalidRequest) || len(v.Asked()) != 2 {
			t.Errorf("%v after %d requests, want the second refusal", err, len(v.Asked()))
		}
	})
	t.Run("a fixed mode is not changed", func(t *testing.T) {
		v := testkit.NewVendor(t, refuse)
		c := client(t, v, func(c *anthropic.Config) { c.Thinking = anthropic.ThinkingBudget })
		if _, _, err := ask(t, v, c, req); !errors.Is(err, provider.InvalidRequest) || len(v.Asked()) != 1 {
			t.Errorf("%v after %d requests, want the refusal at once", err, len(v.Asked()))
		}
	})
}

func TestARefusedSchemaIsDroppedOnce(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Status(400, "output_config: Extra inputs are not permitted"), testkit.AnthropicText("m", "x"), testkit.AnthropicText("m", "y"))
	c := client(t, v, nil)
	req := &provider.Request{User: "u", Model: "claude-sonnet-4-5", Output: &provider.OutputSchema{Schema: []byte(`{"type":"object","additionalProperties":false}`)}}
	for range 2 {
		resp, _, err := ask(t, v, c, req)
		if err != nil || !resp.SchemaDropped {
			t.Fatalf("%+v, %v; want an answer that says the schema was dropped", resp, err)
		}
	}
	if n := len(v.Asked()); n != 3 {
		t.Errorf("asked %d times, want 3", n)
	}
}

func TestConfigurations(t *testing.T) {
	key := provider.NewSecret(canary)
	for name, tc := range map[string]struct {
		cfg anthropic.Config
		say string
	}{
		"no key":            {anthropic.Config{}, "ANTHROPIC_API_KEY"},
		"odd base":          {anthropic.Config{Key: key, BaseURL: "host"}, "base URL"},
		"odd thinking mode": {anthropic.Config{Key: key, Thinking: "deep"}, "auto, budget or adaptive"},
	} {
		_, err := anthropic.New(tc.cfg)
		var ce *provider.ConfigError
		if !errors.As(err, &ce) || !strings.Contains(err.Error(), tc.say) {
			t.Errorf("%s: %v, want a ConfigError with %q", name, err, tc.say)
		}
	}
	c, err := anthropic.New(anthropic.Config{Key: key})
	if err != nil || c.ModelHint() != anthropic.DefaultModel || provider.PromptFamily(c) != provider.FamilyAnthropic || c.Endpoints()[0] != "https://api.anthropic.com/v1/messages" {
		t.Errorf("defaults: %v, %v", c, err)
	}
	t.Setenv("ANTHROPIC_API_KEY", "")
	t.Setenv("ANTHROPIC_MODEL", "m")
	if _, err := anthropic.FromEnv(); err == nil || !strings.Contains(err.Error(), "ANTHROPIC_API_KEY") {
		t.Errorf("an empty key: %v", err)
	}
	t.Setenv("ANTHROPIC_API_KEY", canary)
	t.Setenv("ANTHROPIC_MODEL", "")
	if _, err := anthropic.FromEnv(); err == nil || !strings.Contains(err.Error(), "ANTHROPIC_MODEL") || strings.Contains(err.Error(), canary) {
		t.Errorf("no model: %v", err)
	}
	t.Setenv("ANTHROPIC_MODEL", "m")
	if c, err := anthropic.FromEnv(); err != nil || c.ModelHint() != "m" {
		t.Errorf("got %v, %v", c, err)
	}
}

func TestModelsArePaged(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Document(`{"data":[{"id":"a"},{"id":"b"}],"has_more":true,"last_id":"b"}`), testkit.Document(`{"data":[{"id":"c"}],"has_more":false,"last_id":"c"}`))
	c := client(t, v, nil)
	for range 2 {
		rows, err := c.Models(context.Background())
		if err != nil || len(rows) != 3 || rows[2].ID != "c" || rows[0].Price != nil {
			t.Fatalf("rows = %v, %v", rows, err)
		}
	}
	a := v.Asked()
	if len(a) != 2 || a[0].Path != "/v1/models?limit=1000" || a[1].Path != "/v1/models?limit=1000&after_id=b" || a[1].Header.Get("X-Api-Key") != canary || a[0].Method != http.MethodGet {
		t.Errorf("asked %v", a)
	}
}
