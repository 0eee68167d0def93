package openai_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/openai"
	"github.com/initorigin/io-harness-go/provider/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "sk-canary-0123456789"

func responses(t *testing.T, v *testkit.Vendor) *openai.Responses {
	t.Helper()
	c, err := openai.NewResponses(openai.Config{BaseURL: v.URL, Key: provider.NewSecret(canary), Model: "m", Transport: v.Transport()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ask(t *testing.T, v *testkit.Vendor, c *openai.Responses, req *provider.Request) (*provider.Response, string, error) {
	t.Helper()
	resp, err := c.Complete(context.Background(), req, provider.Sink{})
	asked := v.Asked()
	if len(asked) == 0 {
		return resp, "", err
	}
	return resp, asked[len(asked)-1].Body, err
}

func TestResponsesConformance(t *testing.T) {
	same := func(r testkit.Reply) func(*testing.T) provider.Provider {
		return func(t *testing.T) provider.Provider {
			return responses(t, testkit.NewVendorFunc(t, func(_ int, a testkit.Asked) testkit.Reply {
				if err := testkit.CheckResponses(a.Body, nil); err != nil {
					return testkit.Status(400, err.Error())
				}
				return r
			}))
		}
	}
	providertest.Run(t, providertest.Suite{
		Key:   canary,
		Text:  same(testkit.ResponsesText("m", "some words é 🙂 to stream")),
		Calls: same(testkit.ResponsesCalls("m", "hm", testkit.VendorCall{ID: "a", Name: "x", Args: `{}`}, testkit.VendorCall{ID: "b", Name: "y", Args: `{"n":1}`})),
		Hang:  same(testkit.Reply{Deaf: true}),
		Fails: map[provider.Kind]func(*testing.T) provider.Provider{
			provider.Auth:            same(testkit.Status(401, `{"error":{"message":"bad key `+canary+`"}}`)),
			provider.RateLimited:     same(testkit.Status(429, "slow")),
			provider.Server:          same(testkit.ResponsesEvents(testkit.ResponsesStart("m"), `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"gone"}}}`)),
			provider.ContextOverflow: same(testkit.ResponsesEvents(`{"type":"error","code":"context_length_exceeded","message":"too long","param":null}`)),
			provider.Malformed:       same(testkit.ResponsesEvents(testkit.ResponsesStart("m"), `{"type":"response.output_text.delta","output_index":0,"delta":"half"}`)),
			provider.Transport:       same(testkit.Reply{Chunks: []testkit.Chunk{{Data: "data: {}\n\n"}}, Cut: true}),
		},
	})
}

func TestResponsesBodies(t *testing.T) {
	png := provider.Media{Type: "image/png", Base64: "cG5n"}
	conversation := []provider.Message{
		provider.User("a <b> & c"),
		provider.Assistant("so", provider.ToolCall{ID: "x", Name: "read file", Arguments: []byte(`{"p": 9007199254740993}`)}, provider.ToolCall{ID: "y", Name: "ls", Arguments: []byte(`null`)}),
		provider.Results(provider.ToolResult{CallID: "y", Content: "2"}),
	}
	const head = `{"model":"m","stream":true,"store":false,`
	for _, tc := range []struct {
		name string
		req  provider.Request
		want string
	}{
		{"the least", provider.Request{User: "u"}, head + `"input":[{"role":"user","content":"u"}]}`},
		{"system and tools", provider.Request{System: []string{"a", " ", "b"}, User: "u", Tools: []provider.ToolSpec{{Name: "t", Description: "d", Schema: []byte(`{ "type":"object","properties":{} }`)}}},
			head + `"instructions":"a\n\nb","input":[{"role":"user","content":"u"}],"tools":[{"type":"function","name":"t","description":"d","parameters":{"type":"object","properties":{}},"strict":false}]}`},
		{"conversation", provider.Request{Messages: conversation},
			head + `"input":[{"role":"user","content":"a <b> & c"},{"role":"assistant","content":"so"},` +
				`{"type":"function_call","call_id":"t00010000","name":"read_file","arguments":"{\"p\":9007199254740993}"},{"type":"function_call","call_id":"t00010001","name":"ls","arguments":"{}"},` +
				`{"type":"function_call_output","call_id":"t00010000","output":"no result of this call is available here"},{"type":"function_call_output","call_id":"t00010001","output":"2"}]}`},
		{"ends with an answer", provider.Request{Messages: []provider.Message{provider.User("u"), provider.Assistant("a")}},
			head + `"input":[{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"role":"user","content":"(go on)"}]}`},
		{"image", provider.Request{User: "u", Media: []provider.Media{png}},
			head + `"input":[{"role":"user","content":[{"type":"input_text","text":"u"},{"type":"input_image","image_url":"data:image/png;base64,cG5n"}]}]}`},
		{"image behind an answer", provider.Request{Messages: []provider.Message{provider.User("u"), provider.Assistant("a")}, Media: []provider.Media{png}},
			head + `"input":[{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,cG5n"}]}]}`},
		{"effort and cap", provider.Request{User: "u", Effort: provider.EffortHigh, MaxTokens: 9},
			head + `"input":[{"role":"user","content":"u"}],"reasoning":{"effort":"high"},"include":["reasoning.encrypted_content"],"max_output_tokens":9}`},
		{"search", provider.Request{User: "u", Web: provider.WebAccess{Search: true, MaxUses: 3, AllowedDomains: []string{"go.dev"}}},
			head + `"input":[{"role":"user","content":"u"}],"tools":[{"type":"web_search","filters":{"allowed_domains":["go.dev"]}}],"max_tool_calls":3}`},
		{"shape of the answer", provider.Request{User: "u", Output: &provider.OutputSchema{Name: "my answer", Schema: []byte(`{"type":"object","properties":{},"additionalProperties":false}`)}},
			head + `"input":[{"role":"user","content":"u"}],"text":{"format":{"type":"json_schema","name":"my_answer","strict":true,"schema":{"type":"object","properties":{},"additionalProperties":false}}}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := testkit.NewVendor(t, testkit.ResponsesText("m", "x"))
			_, body, err := ask(t, v, responses(t, v), &tc.req)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, body); d != "" {
				t.Errorf("body (-want +got):\n%s", d)
			}
			if a := v.Asked()[0]; a.Path != "/responses" || a.Header.Get("Authorization") != "Bearer "+canary {
				t.Errorf("asked %s with %v", a.Path, a.Header)
			}
		})
	}
	for what, web := range map[string]provider.WebAccess{"a fetch": {Fetch: true}, "blocked domains": {Search: true, BlockedDomains: []string{"a.com"}}} {
		v := testkit.NewVendor(t)
		var ce *provider.ConfigError
		if _, _, err := ask(t, v, responses(t, v), &provider.Request{User: "u", Web: web}); !errors.As(err, &ce) {
			t.Errorf("%s: %v, want a ConfigError and nothing sent", what, err)
		}
	}
}

func TestResponsesAreRead(t *testing.T) {
	usage := &provider.Usage{PromptTokens: 11, CompletionTokens: 7, TotalTokens: 18, CacheReadTokens: 4, ReasoningTokens: 3}
	searched := *usage
	searched.ServerToolRequests = 2
	delta := func(kind, text string) string {
		return fmt.Sprintf(`{"type":"response.%s.delta","output_index":0,"delta":%q}`, kind, text)
	}
	for _, tc := range []struct {
		name string
		in   testkit.Reply
		want provider.Response
		end  provider.Finish
	}{
		{"text", testkit.ResponsesText("m-1", "two words"), provider.Response{Text: "two words", Usage: usage, Model: "m-1", FinishReason: "completed"}, provider.FinishStop},
		{"calls", testkit.ResponsesCalls("m-1", "", testkit.VendorCall{ID: "a", Name: "x", Args: `{"n":1}`}, testkit.VendorCall{ID: "b", Name: "y"}),
			provider.Response{Calls: []provider.ToolCall{{Name: "x", Arguments: []byte(`{"n":1}`)}, {Name: "y", Arguments: []byte(`{}`)}}, Usage: usage, Model: "m-1", FinishReason: "completed"}, provider.FinishToolCalls},
		{"cut at the cap", testkit.ResponsesEvents(delta("output_text", "half"), testkit.ResponsesEnd("m-1", "max_output_tokens")),
			provider.Response{Text: "half", Usage: usage, Model: "m-1", FinishReason: "max_output_tokens"}, provider.FinishLength},
		{"withheld", testkit.ResponsesEvents(testkit.ResponsesEnd("m-1", "content_filter")), provider.Response{Usage: usage, Model: "m-1", FinishReason: "content_filter"}, provider.FinishContentFilter},
		{"declined", testkit.ResponsesEvents(delta("refusal", "I will not"), testkit.ResponsesEnd("m-1", "")),
			provider.Response{Text: "I will not", Usage: usage, Model: "m-1", FinishReason: "completed", Finish: provider.FinishRefusal}, provider.FinishRefusal},
		{"thinking that is shown", testkit.ResponsesEvents(delta("reasoning_summary_text", "hm"), delta("output_text", "x"), testkit.ResponsesEnd("m-1", "")),
			provider.Response{Text: "x", Reasoning: "hm", Usage: usage, Model: "m-1", FinishReason: "completed"}, provider.FinishStop},
		{"a search that worked and one that did not", testkit.ResponsesEvents(
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"web_search_call","status":"completed"}}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"web_search_call","status":"failed"}}`,
			delta("output_text", "x"), `{"type":"response.output_text.annotation.added","annotation":{"type":"url_citation","url":"https://go.dev/","title":"Go"}}`, testkit.ResponsesEnd("m-1", "")),
			provider.Response{Text: "x", Usage: &searched, Model: "m-1", FinishReason: "completed", Citations: []provider.Citation{{URL: "https://go.dev/", Title: "Go"}},
				ServerTools: []provider.ServerToolCall{{Provider: "openai", Tool: "web_search"}, {Provider: "openai", Tool: "web_search", Error: "failed"}}}, provider.FinishStop},
		{"items that come whole", testkit.ResponsesEvents(
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"x"}]}}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","name":"","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\":"}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","name":"t","arguments":"{\"a\":1}"}}`, testkit.ResponsesEnd("m-1", "")),
			provider.Response{Text: "x", Calls: []provider.ToolCall{{Name: "t", Arguments: []byte(`{"a":1}`)}}, Usage: usage, Model: "m-1", FinishReason: "completed"}, provider.FinishToolCalls},
		{"one document", testkit.Document(`{"object":"response","status":"completed","model":"m-1","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"x","annotations":[]}]},{"type":"function_call","name":"t","arguments":"{\"a\":1}"}],"usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":4},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3}}}`),
			provider.Response{Text: "x", Calls: []provider.ToolCall{{Name: "t", Arguments: []byte(`{"a":1}`)}}, Usage: usage, Model: "m-1", FinishReason: "completed"}, provider.FinishToolCalls},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := testkit.NewVendor(t, tc.in)
			resp, _, err := ask(t, v, responses(t, v), &provider.Request{User: "u"})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(&tc.want, resp, cmpopts.IgnoreFields(provider.Response{}, "TTFT"), cmpopts.IgnoreFields(provider.ToolCall{}, "ID")); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if resp.Ending() != tc.end {
				t.Errorf("ending %s, want %s", resp.Ending(), tc.end)
			}
		})
	}
}

func TestResponsesCutAtEveryEvent(t *testing.T) {
	whole := testkit.ResponsesCalls("m", "thought", testkit.VendorCall{ID: "a", Name: "look", Args: `{"n":1}`})
	for n := range len(whole.Chunks) + 1 {
		r := whole
		r.Chunks = whole.Chunks[:n]
		v := testkit.NewVendor(t, r)
		resp, _, err := ask(t, v, responses(t, v), &provider.Request{User: "u"})
		if done := n == len(whole.Chunks); done != (err == nil) || !done && !errors.Is(err, provider.Malformed) {
			t.Errorf("after %d of %d events: %+v, %v", n, len(whole.Chunks), resp, err)
		}
	}
}

func TestEncryptedThinkingGoesBackInItsPlace(t *testing.T) {
	v := testkit.NewVendorFunc(t, func(int, testkit.Asked) testkit.Reply {
		return testkit.ResponsesCalls("m", "deep", testkit.VendorCall{ID: "a", Name: "look", Args: `{}`}, testkit.VendorCall{ID: "b", Name: "look", Args: `{}`})
	})
	c := responses(t, v)
	req := &provider.Request{Messages: []provider.Message{provider.User("u")}, Effort: provider.EffortLow}
	resp, _, err := ask(t, v, c, req)
	if err != nil {
		t.Fatal(err)
	}
	results := provider.Results(provider.ToolResult{CallID: resp.Calls[0].ID, Content: "1"}, provider.ToolResult{CallID: resp.Calls[1].ID, Content: "2"})
	req.Messages = append(req.Messages, resp.Message(), results)
	given := map[string]bool{"deep": true}
	_, body, err := ask(t, v, c, req)
	if err != nil {
		t.Fatal(err)
	}
	if err := testkit.CheckResponses(body, given); err != nil {
		t.Error(err)
	}
	if got := gjson.Get(body, "input.1").Raw; got != testkit.ResponsesThought("deep") {
		t.Errorf("behind the question stands %s, want the thinking byte for byte", got)
	}
	for name, change := range map[string]func(*provider.Request){
		"of another model": func(r *provider.Request) { r.Model = "other" },
		"of before a new turn": func(r *provider.Request) {
			r.Messages = append(r.Messages, provider.Assistant("done"), provider.User("next"))
		},
		"of calls that are gone": func(r *provider.Request) { r.Messages[1].Calls = r.Messages[1].Calls[:1] },
		"that cannot be read":    func(r *provider.Request) { r.Messages[1].Carry = []byte(`{"wire":"responses","order":7}`) },
		"of another wire": func(r *provider.Request) {
			r.Messages[1].Carry = []byte(`{"wire":"chat","provider":"openai","model":"m"}`)
		},
	} {
		other := req.Clone()
		change(other)
		_, body, err := ask(t, v, c, other)
		if err != nil || strings.Contains(body, "encrypted_content\":") || testkit.CheckResponses(body, given) != nil {
			t.Errorf("thinking %s goes back: %v\n%s", name, err, body)
		}
	}
}

// Thinking that the vendor can no longer read, for instance because the key or the
// account is another one, must not keep the conversation from going on.
func TestThinkingThatTheVendorCannotReadIsLeftOut(t *testing.T) {
	for _, effort := range []provider.Effort{provider.EffortLow, ""} {
		t.Run(string(effort), func(t *testing.T) {
			refused := 0
			v := testkit.NewVendorFunc(t, func(n int, a testkit.Asked) testkit.Reply {
				switch {
				case n == 0:
					return testkit.ResponsesCalls("m", "deep", testkit.VendorCall{ID: "a", Name: "look", Args: `{}`})
				case strings.Contains(a.Body, `"encrypted_content":`):
					refused++
					return testkit.Status(400, `{"error":{"message":"The encrypted content gAAA... could not be verified.","code":"invalid_encrypted_content"}}`)
				}
				return testkit.ResponsesText("m", "done")
			})
			c := responses(t, v)
			req := &provider.Request{Messages: []provider.Message{provider.User("u")}, Effort: provider.EffortLow}
			resp, _, err := ask(t, v, c, req)
			if err != nil {
				t.Fatal(err)
			}
			req.Effort = effort
			req.Messages = append(req.Messages, resp.Message(), provider.Results(provider.ToolResult{CallID: resp.Calls[0].ID, Content: "1"}))
			for range 2 {
				if resp, body, err := ask(t, v, c, req); err != nil || resp.Text != "done" {
					t.Fatalf("%+v, %v\n%s", resp, err, body)
				}
			}
			if refused != 1 {
				t.Errorf("refused %d times", refused)
			}
		})
	}
}

func TestWhatAModelRefusesIsLeftOutOnce(t *testing.T) {
	v := testkit.NewVendor(t,
		testkit.Status(400, `{"error":{"message":"Encrypted content is not supported with this model."}}`),
		testkit.Status(400, `{"error":{"message":"Invalid parameter: 'text.format' of type 'json_schema' is not supported with this model."}}`),
		testkit.ResponsesText("m", "x"), testkit.ResponsesText("m", "y"),
		testkit.Status(400, `{"error":{"message":"Encrypted content is not supported with this model."}}`))
	c := responses(t, v)
	req := &provider.Request{User: "u", Effort: provider.EffortLow, Output: &provider.OutputSchema{Schema: []byte(`{"type":"object"}`)}}
	for range 2 {
		if resp, body, err := ask(t, v, c, req); err != nil || !resp.SchemaDropped || strings.Contains(body, "include") || strings.Contains(body, "json_schema") {
			t.Fatalf("%+v, %v\n%s", resp, err, body)
		}
	}
	if _, _, err := ask(t, v, c, req); !errors.Is(err, provider.InvalidRequest) || len(v.Asked()) != 5 {
		t.Errorf("a refusal of what was not sent: %v after %d requests", err, len(v.Asked()))
	}
}
