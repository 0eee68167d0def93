package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/anthropic"
	"github.com/initorigin/io-harness-go/provider/compatible"
	"github.com/initorigin/io-harness-go/provider/openai"
	"github.com/initorigin/io-harness-go/provider/openrouter"
	"github.com/initorigin/io-harness-go/provider/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "sk-canary-0123456789"

// wires makes a client of each kind that asks v.
func wires(t *testing.T, v *testkit.Vendor) map[string]provider.Provider {
	t.Helper()
	key := provider.NewSecret(canary)
	a, err1 := anthropic.New(anthropic.Config{BaseURL: v.URL, Key: key, Model: "claude-sonnet-4", Transport: v.Transport(), Timeout: 5 * time.Second})
	o, err2 := openai.New(openai.Config{BaseURL: v.URL, Key: key, Transport: v.Transport(), Timeout: 5 * time.Second})
	r, err3 := openrouter.New(openrouter.Config{BaseURL: v.URL, Key: key, Transport: v.Transport(), Timeout: 5 * time.Second})
	c, err4 := compatible.New(compatible.Config{BaseURL: v.URL, Key: key, Model: "m", Transport: v.Transport(), Timeout: 5 * time.Second})
	p, err5 := openai.NewResponses(openai.Config{BaseURL: v.URL, Key: key, Name: "responses", Transport: v.Transport(), Timeout: 5 * time.Second})
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
	return map[string]provider.Provider{"anthropic": a, "openai": o, "openrouter": r, "compatible": c, "responses": p}
}

func TestAllWiresClassifyAlike(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		kind   provider.Kind
		retry  bool
	}{
		{429, "slow", provider.RateLimited, true}, {401, "no", provider.Auth, false}, {403, "no", provider.Auth, false},
		{400, "unknown parameter", provider.InvalidRequest, false}, {404, "none", provider.InvalidRequest, false}, {409, "x", provider.InvalidRequest, false}, {422, "x", provider.InvalidRequest, false},
		{408, "late", provider.Timeout, true}, {402, "pay", provider.Quota, false},
		{500, "x", provider.Server, true}, {502, "x", provider.Server, true}, {503, "x", provider.Server, true}, {504, "x", provider.Server, true}, {529, "x", provider.Server, true},
		{302, "moved", provider.InvalidRequest, false}, {400, "prompt is too long", provider.ContextOverflow, false}, {413, "too many tokens", provider.ContextOverflow, false},
	} {
		v := testkit.NewVendorFunc(t, func(int, testkit.Asked) testkit.Reply {
			return testkit.Status(tc.status, tc.body, "Retry-After", "3", "Location", "http://example.invalid/")
		})
		for name, p := range wires(t, v) {
			_, err := p.Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{})
			e, ok := provider.AsError(err)
			if !ok || e.Kind != tc.kind || e.Status != tc.status || e.Retryable() != tc.retry || e.Provider != name || e.RetryAfter == nil || *e.RetryAfter != 3*time.Second {
				t.Errorf("%s on %d %q: %+v, want %s", name, tc.status, tc.body, err, tc.kind)
			}
		}
		if n := len(v.Asked()); n != 5 {
			t.Errorf("%d: asked %d times, want once by each", tc.status, n)
		}
	}
}

func TestAllWiresTakeLimitsOfAnAnswer(t *testing.T) {
	long := testkit.Stream(`{"type":"ping","pad":"`+strings.Repeat("x", 4096)+`"}`, "[DONE]")
	for what, limits := range map[string]provider.StreamLimits{"line": {Line: 1024}, "event": {Event: 1024}, "stream": {Stream: 1024}} {
		v := testkit.NewVendorFunc(t, func(int, testkit.Asked) testkit.Reply { return long })
		key := provider.NewSecret(canary)
		a, err1 := anthropic.New(anthropic.Config{BaseURL: v.URL, Key: key, Transport: v.Transport(), Limits: limits})
		o, err2 := openai.New(openai.Config{BaseURL: v.URL, Key: key, Transport: v.Transport(), Limits: limits})
		r, err3 := openrouter.New(openrouter.Config{BaseURL: v.URL, Key: key, Transport: v.Transport(), Limits: limits})
		c, err4 := compatible.New(compatible.Config{BaseURL: v.URL, Key: key, Model: "m", Transport: v.Transport(), Limits: limits})
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		for _, p := range []provider.Provider{a, o, r, c} {
			_, err := p.Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{})
			if !errors.Is(err, provider.Malformed) || !strings.Contains(err.Error(), what+" is longer than 1024 bytes") {
				t.Errorf("%s over the limit of a %s: %v", p.Name(), what, err)
			}
		}
	}
}

func TestNoWireShowsTheKey(t *testing.T) {
	v := testkit.NewVendorFunc(t, func(_ int, a testkit.Asked) testkit.Reply {
		return testkit.Status(400, fmt.Sprintf(`{"error":{"message":"you sent %v %v"}}`, a.Header["Authorization"], a.Header["X-Api-Key"]))
	})
	var out strings.Builder
	for name, p := range wires(t, v) {
		_, err := p.Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{})
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		if got := fmt.Sprintf("%+v|%#v|%d", p, p, p); strings.Count(got, name+"(") != 3 || len(got) > 200 {
			t.Errorf("%s renders as %s", name, got)
		}
		_, reach := provider.Reachable(context.Background(), p)
		_, models := provider.Models(context.Background(), p)
		for _, x := range []any{p, err, reach, models} {
			fmt.Fprintf(&out, "%v %+v %#v %s\n", x, x, x, x)
			if b, err := json.Marshal(x); err == nil {
				out.Write(b)
			}
			slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "value", x)
			slog.New(slog.NewTextHandler(&out, nil)).Info("x", "value", x)
		}
	}
	if i := strings.Index(out.String(), "canary"); i >= 0 {
		t.Errorf("the key shows: %s", out.String()[max(0, i-200):i+20])
	}
}

func TestReachability(t *testing.T) {
	for status, want := range map[int]bool{200: true, 404: true, 429: true, 401: false, 403: false, 302: false, 500: false, 503: false} {
		v := testkit.NewVendorFunc(t, func(int, testkit.Asked) testkit.Reply {
			return testkit.Status(status, `{"data":[]}`, "Location", "/elsewhere")
		})
		for name, p := range wires(t, v) {
			if ok, err := provider.Reachable(context.Background(), p); ok != want || (err == nil) != want {
				t.Errorf("%s on %d: reachable = %v, %v; want %v", name, status, ok, err, want)
			}
		}
	}
	v := testkit.NewVendor(t)
	gone := wires(t, v)
	v.Close()
	for name, p := range gone {
		if ok, err := provider.Reachable(context.Background(), p); ok || !errors.Is(err, provider.Transport) {
			t.Errorf("%s on a dead port: reachable = %v, %v", name, ok, err)
		}
	}
}

func TestVendorsOfChatCompletions(t *testing.T) {
	two := testkit.Stream(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"y","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, "[DONE]")
	for _, name := range []string{"openai", "openrouter"} {
		same := func(r testkit.Reply) func(*testing.T) provider.Provider {
			return func(t *testing.T) provider.Provider {
				return wires(t, testkit.NewVendorFunc(t, func(_ int, a testkit.Asked) testkit.Reply {
					if err := testkit.CheckChat(a.Body); err != nil {
						return testkit.Status(400, err.Error())
					}
					return r
				}))[name]
			}
		}
		t.Run(name, func(t *testing.T) {
			providertest.Run(t, providertest.Suite{
				Key: canary, Text: same(testkit.ChatText("m", "some words to stream")), Calls: same(two), Hang: same(testkit.Reply{Deaf: true}),
				Fails: map[provider.Kind]func(*testing.T) provider.Provider{
					provider.Auth:      same(testkit.Status(401, "bad "+canary)),
					provider.Malformed: same(testkit.Stream(`{"choices":[{"delta":{"content":"half"}}]}`)),
					provider.Server:    same(testkit.Stream(`{"error":{"code":502,"message":"worker gone"},"choices":[{"delta":{},"finish_reason":"error"}]}`)),
				},
			})
		})
	}
}

func TestEachVendorsOwnKeys(t *testing.T) {
	req := &provider.Request{System: []string{"s"}, User: "u", Effort: provider.EffortMedium, MaxTokens: 50, Web: provider.WebAccess{Search: true},
		Output: &provider.OutputSchema{Name: "x", Schema: []byte(`{"type":"object"}`)}}
	for name, want := range map[string]map[string]string{
		"openai":     {"reasoning_effort": `"medium"`, "max_completion_tokens": "50", "web_search_options": "{}", "response_format.json_schema.strict": "false", "messages.0.content": `"s"`, "reasoning": "", "plugins": "", "max_tokens": ""},
		"compatible": {"reasoning_effort": `"medium"`, "max_tokens": "50", "web_search_options": "{}", "response_format": "", "reasoning": "", "plugins": ""},
		"openrouter": {"reasoning.effort": `"medium"`, "max_tokens": "50", "plugins.0.id": `"web"`, "response_format.type": `"json_schema"`, "messages.0.content.0.cache_control.type": `"ephemeral"`, "reasoning_effort": "", "web_search_options": ""},
		"anthropic":  {"thinking.budget_tokens": "4096", "max_tokens": "4146", "tools.0.name": `"web_search"`, "output_config": "", "reasoning_effort": ""},
	} {
		reply := testkit.ChatText("m", "x")
		if name == "anthropic" {
			reply = testkit.AnthropicText("m", "x")
		}
		v := testkit.NewVendor(t, reply)
		if _, err := wires(t, v)[name].Complete(context.Background(), req, provider.Sink{}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for path, value := range want {
			if got := gjson.Get(v.Asked()[0].Body, path).Raw; got != value {
				t.Errorf("%s: %s = %s, want %s", name, path, got, value)
			}
		}
	}
}

func TestARefusedSchemaIsDroppedOnce(t *testing.T) {
	for _, name := range []string{"openai", "openrouter"} {
		v := testkit.NewVendor(t, testkit.Status(400, "Invalid parameter: 'response_format' is not supported"), testkit.ChatText("m", "x"), testkit.ChatText("m", "y"), testkit.Status(400, "something else"))
		p := wires(t, v)[name]
		req := &provider.Request{User: "u", Output: &provider.OutputSchema{Schema: []byte(`{"type":"object"}`)}}
		for range 2 {
			resp, err := p.Complete(context.Background(), req, provider.Sink{})
			if err != nil || !resp.SchemaDropped {
				t.Fatalf("%s: %+v, %v; want an answer that says so", name, resp, err)
			}
		}
		if n := len(v.Asked()); n != 3 {
			t.Errorf("%s: asked %d times, want 3", name, n)
		}
		req.Model = "other" // has refused nothing
		if _, err := p.Complete(context.Background(), req, provider.Sink{}); !errors.Is(err, provider.InvalidRequest) || len(v.Asked()) != 4 {
			t.Errorf("%s: another refusal = %v after %d requests, want it at once", name, err, len(v.Asked()))
		}
	}
}

// What has been streamed cannot be taken back by asking again inside of the call: the
// caller would see two beginnings of one answer.
func TestARefusalBehindContentIsNotLearnedFrom(t *testing.T) {
	const refusal = `"code":400,"message":"response_format, output_config and json_schema are not supported"`
	chat := []string{`{"choices":[{"delta":{"content":"half"}}]}`, `{"error":{` + refusal + `}}`}
	for name, payloads := range map[string][]string{
		"openai": chat, "openrouter": chat,
		"anthropic": {`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"half"}}`, `{"type":"error","error":{` + refusal + `}}`},
		"responses": {`{"type":"response.output_text.delta","output_index":0,"delta":"half"}`, `{"type":"error",` + refusal + `}`},
	} {
		v := testkit.NewVendor(t, testkit.Stream(payloads...))
		streamed := ""
		req := &provider.Request{User: "u", Model: "claude-sonnet-4-5", Output: &provider.OutputSchema{Schema: []byte(`{"type":"object","additionalProperties":false}`)}}
		_, err := wires(t, v)[name].Complete(context.Background(), req, provider.Sink{Token: func(s string) { streamed += s }})
		if !errors.Is(err, provider.InvalidRequest) || streamed != "half" || len(v.Asked()) != 1 {
			t.Errorf("%s: %v, streamed %q, asked %d times; want the refusal, once", name, err, streamed, len(v.Asked()))
		}
	}
}

func TestVendorEnvironment(t *testing.T) {
	for name, from := range map[string]func() (provider.Provider, error){
		"OPENAI":     func() (provider.Provider, error) { return openai.FromEnv() },
		"OPENAI ":    func() (provider.Provider, error) { return openai.ResponsesFromEnv() },
		"OPENROUTER": func() (provider.Provider, error) { return openrouter.FromEnv() },
	} {
		name = strings.TrimSpace(name)
		for _, tc := range []struct{ key, model, say string }{
			{"", "m", name + "_API_KEY"}, {canary, "", name + "_MODEL"}, {canary, "m", ""},
		} {
			t.Setenv(name+"_API_KEY", tc.key)
			t.Setenv(name+"_MODEL", tc.model)
			p, err := from()
			var ce *provider.ConfigError
			switch {
			case tc.say == "" && (err != nil || provider.ModelHint(p) != "m"):
				t.Errorf("%s: %v, %v", name, p, err)
			case tc.say != "" && (!errors.As(err, &ce) || !strings.Contains(err.Error(), tc.say) || strings.Contains(err.Error(), canary)):
				t.Errorf("%s: %v, want a ConfigError with %q", name, err, tc.say)
			}
		}
	}
	if f := provider.PromptFamily(mustOpenAI(t, "anything")); f != provider.FamilyOpenAI {
		t.Errorf("family = %s", f)
	}
}

func mustOpenAI(t *testing.T, model string) provider.Provider {
	t.Helper()
	c, err := openai.New(openai.Config{Key: provider.NewSecret(canary), Model: model})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEveryConversationPassesStrictServers sends random conversations to both
// wires and lets servers judge them that refuse what the vendors refuse.
func TestEveryConversationPassesStrictServers(t *testing.T) {
	v := testkit.NewVendorFunc(t, func(_ int, a testkit.Asked) testkit.Reply {
		check, ok := testkit.CheckChat, testkit.ChatText("m", "x")
		if a.Path == "/v1/messages" {
			check, ok = func(b string) error { return testkit.CheckAnthropic(b, nil) }, testkit.AnthropicText("m", "x")
		}
		if a.Path == "/responses" {
			check, ok = func(b string) error { return testkit.CheckResponses(b, nil) }, testkit.ResponsesText("m", "x")
		}
		if err := check(a.Body); err != nil {
			return testkit.Status(400, err.Error()+" in "+a.Body)
		}
		return ok
	})
	all := wires(t, v)
	id := rapid.SampledFrom([]string{"", "a", "b", "c1"})
	text := rapid.SampledFrom([]string{"x", "☃ <&>", " ", ""})
	args := rapid.SampledFrom([]string{"", "{}", `{"a":1}`, "null", `{"a"`, "[1]"})
	message := rapid.Custom(func(t *rapid.T) provider.Message {
		switch rapid.IntRange(0, 2).Draw(t, "role") {
		case 0:
			return provider.User(text.Draw(t, "text"))
		case 1:
			m := provider.Assistant(text.Draw(t, "text"))
			for range rapid.IntRange(0, 3).Draw(t, "calls") {
				m.Calls = append(m.Calls, provider.ToolCall{ID: id.Draw(t, "id"), Name: text.Draw(t, "name"), Arguments: []byte(args.Draw(t, "args"))})
			}
			return m
		}
		var m provider.Message
		for range rapid.IntRange(0, 4).Draw(t, "results") {
			m.Results = append(m.Results, provider.ToolResult{CallID: id.Draw(t, "id"), Content: text.Draw(t, "content")})
		}
		m.Role = provider.RoleTool
		return m
	})
	rapid.Check(t, func(t *rapid.T) {
		req := &provider.Request{
			Messages: append([]provider.Message{provider.User("do")}, rapid.SliceOfN(message, 0, 7).Draw(t, "messages")...),
			Effort:   rapid.SampledFrom([]provider.Effort{"", provider.EffortLow}).Draw(t, "effort"),
		}
		req.CacheThrough = rapid.IntRange(0, len(req.Messages)+1).Draw(t, "through")
		if rapid.Bool().Draw(t, "image") {
			req.Media = []provider.Media{{Type: "image/png", Base64: "AAAA"}}
		}
		for name, p := range all {
			if _, err := p.Complete(context.Background(), req, provider.Sink{}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
}

// Commands are started without the credentials that a client names, and a run asks a
// client for what else it is by interfaces: one that is forgotten fails silently.
func TestAllWiresSayWhatTheyAre(t *testing.T) {
	v := testkit.NewVendorFunc(t, func(int, testkit.Asked) testkit.Reply { return testkit.Status(500, "x") })
	for name, p := range wires(t, v) {
		held := provider.CredentialsOf(p)
		if len(held.Values) != 1 || held.Values[0].Reveal() != canary {
			t.Errorf("%s names %d credentials, want its key", name, len(held.Values))
		}
		if h, ok := p.(provider.ModelHinter); !ok || h.ModelHint() == "" {
			t.Errorf("%s does not name its model", name)
		}
		if _, ok := p.(provider.ImageAccepter); !ok {
			t.Errorf("%s does not say whether it takes images", name)
		}
		if _, ok := p.(provider.Cataloguer); !ok {
			t.Errorf("%s has no catalogue", name)
		}
		if _, ok := p.(provider.ReachableReporter); !ok {
			t.Errorf("%s cannot be asked whether it is there", name)
		}
		if _, ok := p.(fmt.Formatter); !ok {
			t.Errorf("%s prints all it holds", name)
		}
	}
}
