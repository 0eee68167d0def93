package chat

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/provider"
)

func bodyOf(t *testing.T, d Dialect, r *provider.Request) string {
	t.Helper()
	if d.Model == "" {
		d.Model = "m"
	}
	b, err := d.Body(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func png(t *testing.T) provider.Media {
	t.Helper()
	m, err := provider.Image("image/png", []byte("png"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGoldenBodies(t *testing.T) {
	conversation := []provider.Message{
		provider.User("a <b> & c"),
		provider.Assistant("", provider.ToolCall{ID: "x", Name: "grep", Arguments: []byte(`{"p": "<&>", "n": 9007199254740993}`)}, provider.ToolCall{ID: "y", Name: "ls", Arguments: []byte(`{}`)}),
		provider.Results(provider.ToolResult{CallID: "y", Content: "2"}, provider.ToolResult{CallID: "x", Content: "1"}),
	}
	for _, tc := range []struct {
		name string
		d    Dialect
		req  provider.Request
		want string
	}{
		{"the least", Dialect{}, provider.Request{System: []string{"s"}, User: "u"},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}`},
		{"no system", Dialect{}, provider.Request{System: []string{" "}, User: "u"},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"}]}`},
		{"system in blocks", Dialect{}, provider.Request{System: []string{"a", "b"}, User: "u"},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"system","content":"a\n\nb"},{"role":"user","content":"u"}]}`},
		{"without stream options", Dialect{OmitStreamOptions: true}, provider.Request{User: "u"},
			`{"model":"m","stream":true,"messages":[{"role":"user","content":"u"}]}`},
		{"tools and another model", Dialect{}, provider.Request{User: "u", Model: "other", Tools: []provider.ToolSpec{{Name: "t", Description: "d", Schema: []byte(`{ "type": "object", "properties": {} }`)}}},
			`{"model":"other","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"}],"tools":[{"type":"function","function":{"name":"t","description":"d","parameters":{"type":"object","properties":{}}}}]}`},
		{"conversation", Dialect{}, provider.Request{System: []string{"s"}, Messages: conversation},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"system","content":"s"},{"role":"user","content":"a <b> & c"},` +
				`{"role":"assistant","content":null,"tool_calls":[{"id":"t00010000","type":"function","function":{"name":"grep","arguments":"{\"p\":\"<&>\",\"n\":9007199254740993}"}},{"id":"t00010001","type":"function","function":{"name":"ls","arguments":"{}"}}]},` +
				`{"role":"tool","content":"1","tool_call_id":"t00010000"},{"role":"tool","content":"2","tool_call_id":"t00010001"}]}`},
		{"conversation that ends with the model", Dialect{}, provider.Request{Messages: []provider.Message{provider.User("u"), provider.Assistant("half")}},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"},{"role":"assistant","content":"half"},{"role":"user","content":"(go on)"}]}`},
		{"effort", Dialect{}, provider.Request{User: "u", Effort: provider.EffortLow},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"}],"reasoning_effort":"low"}`},
		{"effort through the gateway", Dialect{OpenRouter: true}, provider.Request{User: "u", Effort: provider.EffortHigh},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"}],"reasoning":{"effort":"high"}}`},
		{"search", Dialect{}, provider.Request{User: "u", Web: provider.WebAccess{Search: true, MaxUses: 3}},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"}],"web_search_options":{}}`},
		{"search in some domains", Dialect{}, provider.Request{User: "u", Web: provider.WebAccess{Search: true, AllowedDomains: []string{"a.example", "b.example"}, BlockedDomains: []string{"b.example"}}},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"}],"web_search_options":{"filters":{"allowed_domains":["a.example"]}}}`},
		{"search through the gateway", Dialect{OpenRouter: true}, provider.Request{User: "u", Web: provider.WebAccess{Search: true, MaxUses: 3}},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"}],"plugins":[{"id":"web","max_results":3}]}`},
		{"domains without search ask for nothing", Dialect{}, provider.Request{User: "u", Web: provider.WebAccess{BlockedDomains: []string{"x"}, MaxUses: 2}},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"}]}`},
		{"output cap", Dialect{}, provider.Request{User: "u", MaxTokens: 9},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"}],"max_tokens":9}`},
		{"output cap under the newer key", Dialect{MaxTokensField: "max_completion_tokens"}, provider.Request{User: "u", MaxTokens: 9},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"}],"max_completion_tokens":9}`},
		{"shape of the answer", Dialect{OutputSchema: true}, provider.Request{User: "u", Output: &provider.OutputSchema{Name: "my answer", Schema: []byte(`{"type":"object","properties":{},"additionalProperties":false}`)}},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"}],"response_format":{"type":"json_schema","json_schema":{"name":"my_answer","strict":true,"schema":{"type":"object","properties":{},"additionalProperties":false}}}}`},
		{"shape of the answer where it is not taken", Dialect{}, provider.Request{User: "u", Output: &provider.OutputSchema{Schema: []byte(`{}`)}},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"}]}`},
		{"image", Dialect{}, provider.Request{User: "u", Media: []provider.Media{png(t)}},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":[{"type":"text","text":"u"},{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}}]}]}`},
		{"image behind results", Dialect{}, provider.Request{Messages: conversation[:3], Media: []provider.Media{png(t)}},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"a <b> & c"},` +
				`{"role":"assistant","content":null,"tool_calls":[{"id":"t00010000","type":"function","function":{"name":"grep","arguments":"{\"p\":\"<&>\",\"n\":9007199254740993}"}},{"id":"t00010001","type":"function","function":{"name":"ls","arguments":"{}"}}]},` +
				`{"role":"tool","content":"1","tool_call_id":"t00010000"},{"role":"tool","content":"2","tool_call_id":"t00010001"},` +
				`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}}]}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, bodyOf(t, tc.d, &tc.req)); d != "" {
				t.Errorf("body (-want +got):\n%s", d)
			}
		})
	}
}

func TestCacheMarks(t *testing.T) {
	req := &provider.Request{System: []string{"s"}, User: "stable part — rest", CacheBoundary: 11}
	t.Run("the plain wire has none under any input", func(t *testing.T) {
		plain := *req
		plain.CacheBoundary = 0
		if got, want := bodyOf(t, Dialect{}, req), bodyOf(t, Dialect{}, &plain); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("system alone", func(t *testing.T) {
		got := bodyOf(t, Dialect{OpenRouter: true}, &provider.Request{System: []string{"s"}, User: "u"})
		if want := `"messages":[{"role":"system","content":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]},{"role":"user","content":"u"}]`; !strings.Contains(got, want) {
			t.Errorf("got %s", got)
		}
	})
	t.Run("the user text in two", func(t *testing.T) {
		got := bodyOf(t, Dialect{OpenRouter: true}, req)
		if want := `{"role":"user","content":[{"type":"text","text":"stable part","cache_control":{"type":"ephemeral"}},{"type":"text","text":" — rest"}]}`; !strings.Contains(got, want) {
			t.Errorf("got %s", got)
		}
	})
	t.Run("marked text, rest, images", func(t *testing.T) {
		r := *req
		r.Media = []provider.Media{png(t)}
		parts := gjson.Get(bodyOf(t, Dialect{OpenRouter: true}, &r), "messages.1.content").Array()
		if len(parts) != 3 || !parts[0].Get("cache_control").Exists() || parts[1].Get("cache_control").Exists() || parts[2].Get("type").String() != "image_url" {
			t.Errorf("parts = %v", parts)
		}
	})
	for _, at := range []int{-1, 0, 13, 14, len(req.User), len(req.User) + 1} {
		r := *req
		r.CacheBoundary = at
		if got := bodyOf(t, Dialect{OpenRouter: true}, &r); strings.Count(got, "cache_control") != 1 {
			t.Errorf("boundary %d marked the text: %s", at, got)
		}
	}
	t.Run("in a conversation only user messages", func(t *testing.T) {
		r := &provider.Request{System: []string{"s"}, Messages: []provider.Message{
			provider.User("one"), provider.Assistant("", provider.ToolCall{ID: "x", Name: "t", Arguments: []byte(`{}`)}),
			provider.Results(provider.ToolResult{CallID: "x", Content: "r"}), provider.User("two"), provider.Assistant("three"),
		}}
		for n, want := range []string{0: "", 1: "one", 2: "one", 3: "one", 4: "two", 5: "two", 6: ""} {
			r.CacheThrough = n
			got := ""
			for _, m := range gjson.Get(bodyOf(t, Dialect{OpenRouter: true}, r), "messages").Array()[1:] {
				if strings.Contains(m.Raw, "cache_control") {
					got += m.Get("content.0.text").String()
					if m.Get("role").String() != "user" {
						t.Errorf("a %s message is marked", m.Get("role"))
					}
				}
			}
			if got != want {
				t.Errorf("through %d marked %q, want %q", n, got, want)
			}
		}
	})
}

func TestWhatThisWireRefuses(t *testing.T) {
	web := func(w provider.WebAccess) provider.Request {
		w.Search = true
		return provider.Request{User: "u", Web: w}
	}
	for _, tc := range []struct {
		name string
		d    Dialect
		req  provider.Request
		say  string
	}{
		{"fetch", Dialect{}, provider.Request{User: "u", Web: provider.WebAccess{Fetch: true}}, "fetch"},
		{"fetch through the gateway", Dialect{OpenRouter: true}, provider.Request{User: "u", Web: provider.WebAccess{Fetch: true}}, "fetch"},
		{"blocked domains", Dialect{}, web(provider.WebAccess{BlockedDomains: []string{"x"}}), "blocked"},
		{"blocked domains through the gateway", Dialect{OpenRouter: true}, web(provider.WebAccess{BlockedDomains: []string{"x"}}), "domain"},
		{"allowed domains through the gateway", Dialect{OpenRouter: true}, web(provider.WebAccess{AllowedDomains: []string{"x"}}), "domain"},
		{"allowed and blocked alike", Dialect{}, web(provider.WebAccess{AllowedDomains: []string{"x"}, BlockedDomains: []string{"x"}}), "every allowed"},
		{"an image type", Dialect{}, provider.Request{User: "u", Media: []provider.Media{{Type: "image/svg+xml", Base64: "AAAA"}}}, "svg"},
		{"too large an image", Dialect{}, provider.Request{User: "u", Media: []provider.Media{{Type: "image/png", Base64: strings.Repeat("A", 8<<20)}}}, "6291456 bytes"},
		{"no tier", Dialect{}, provider.Request{User: "u", Effort: "extreme"}, "low, medium or high"},
		{"a tier in other letters", Dialect{}, provider.Request{User: "u", Effort: "High"}, "ParseEffort"},
		{"an image before web access", Dialect{}, provider.Request{User: "u", Media: []provider.Media{{Type: "x"}}, Web: provider.WebAccess{Fetch: true}}, "image"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.d.Model = "m"
			_, err := tc.d.Body(&tc.req)
			var ce *provider.ConfigError
			if !errors.As(err, &ce) || !strings.Contains(err.Error(), tc.say) {
				t.Errorf("error = %v, want a ConfigError with %q", err, tc.say)
			}
		})
	}
	t.Run("no model", func(t *testing.T) {
		var ce *provider.ConfigError
		if _, err := (Dialect{}).Body(&provider.Request{User: "u"}); !errors.As(err, &ce) {
			t.Errorf("error = %v, want a ConfigError", err)
		}
	})
}

// assistant is the last assistant message of the body that follows up on resp.
func assistant(t *testing.T, d Dialect, resp *provider.Response, change func(*provider.Request)) gjson.Result {
	t.Helper()
	r := &provider.Request{Messages: []provider.Message{provider.User("do"), resp.Message()}}
	for _, c := range resp.Calls {
		r.Messages = append(r.Messages, provider.Results(provider.ToolResult{CallID: c.ID, Content: "r"}))
	}
	if change != nil {
		change(r)
	}
	d.Model = "asked"
	var last gjson.Result
	for _, m := range gjson.Get(bodyOf(t, d, r), "messages").Array() {
		if m.Get("role").String() == "assistant" && m.Get("tool_calls").Exists() {
			last = m
		}
	}
	return last
}

func TestVendorBlocksGoBack(t *testing.T) {
	deepseek := Dialect{Provider: "deepseek", ReasoningContent: true}
	gemini := Dialect{Provider: "gemini", ExtraContent: true}
	router := Dialect{Provider: "openrouter", OpenRouter: true}
	answer := func(d Dialect) *provider.Response {
		resp, err := read(d, nil, stream(
			`{"choices":[{"delta":{"reasoning_content":"I think "}}]}`, `{"choices":[{"delta":{"reasoning_content":"<so>"}}]}`,
			`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"I ","signature":null}]}}]}`,
			`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"think","signature":"s1"},{"type":"reasoning.encrypted","index":1,"data":"AB"}]}}]}`,
			frag(`{"index":0,"id":"a","function":{"name":"n","arguments":"{}"},"extra_content":{"google":{"thought_signature":"sig<1>"}}}`, `{"index":1,"id":"b","function":{"name":"o","arguments":"{}"}}`),
			endCalls), provider.Sink{})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	t.Run("reasoning content beside calls", func(t *testing.T) {
		if got := assistant(t, deepseek, answer(deepseek), nil).Get("reasoning_content").String(); got != "I think <so>" {
			t.Errorf("reasoning_content = %q", got)
		}
	})
	t.Run("a space where there is none", func(t *testing.T) {
		resp := answer(deepseek)
		resp.Carry = nil
		if got := assistant(t, deepseek, resp, nil).Get("reasoning_content").String(); got != " " {
			t.Errorf("reasoning_content = %q, want a space", got)
		}
	})
	t.Run("signatures of calls", func(t *testing.T) {
		m := assistant(t, gemini, answer(gemini), nil)
		if got := m.Get("tool_calls.0.extra_content").Raw; got != `{"google":{"thought_signature":"sig<1>"}}` {
			t.Errorf("extra_content = %s", got)
		}
		if m.Get("tool_calls.1.extra_content").Exists() {
			t.Error("the second call got one too")
		}
	})
	t.Run("reasoning details joined by index", func(t *testing.T) {
		got := assistant(t, router, answer(router), nil).Get("reasoning_details").Raw
		want := `[{"index":0,"signature":"s1","text":"I think","type":"reasoning.text"},{"data":"AB","index":1,"type":"reasoning.encrypted"}]`
		if got != want {
			t.Errorf("reasoning_details = %s, want %s", got, want)
		}
	})
	t.Run("the plain wire keeps and sends nothing", func(t *testing.T) {
		resp := answer(Dialect{Provider: "mistral"})
		if resp.Carry != nil {
			t.Errorf("carry = %s", resp.Carry)
		}
		m := assistant(t, Dialect{Provider: "mistral"}, answer(deepseek), nil)
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(m.Raw), &object); err != nil {
			t.Fatal(err)
		}
		if keys := slices.Sorted(maps.Keys(object)); !slices.Equal(keys, []string{"content", "role", "tool_calls"}) {
			t.Errorf("keys = %v", keys)
		}
	})
	for name, change := range map[string]func(*provider.Request){
		"another model": func(r *provider.Request) { r.Model = "other" },
		"an older user turn": func(r *provider.Request) {
			r.Messages = append(r.Messages, provider.Assistant("ok"), provider.User("next"))
		},
		"a carry that is no carry": func(r *provider.Request) { r.Messages[1].Carry = []byte(`[1]`) },
	} {
		t.Run("nothing goes back with "+name, func(t *testing.T) {
			m := assistant(t, router, answer(router), change)
			if m.Get("reasoning_details").Exists() || !m.Get("tool_calls").Exists() {
				t.Errorf("message = %s", m.Raw)
			}
		})
	}
	t.Run("another provider's carry is not sent", func(t *testing.T) {
		if m := assistant(t, router, answer(gemini), nil); m.Get("reasoning_details").Exists() {
			t.Errorf("message = %s", m.Raw)
		}
	})
	t.Run("steering behind results does not lose it", func(t *testing.T) {
		m := assistant(t, router, answer(router), func(r *provider.Request) { r.Messages = append(r.Messages, provider.User("also")) })
		if !m.Get("reasoning_details").Exists() {
			t.Errorf("message = %s", m.Raw)
		}
	})
}
