package compatible_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/compatible"
	"github.com/initorigin/io-harness-go/provider/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "sk-canary-0123456789"

// client asks v.
func client(t *testing.T, v *testkit.Vendor, change func(*compatible.Config)) *compatible.Client {
	t.Helper()
	cfg := compatible.Config{BaseURL: v.URL + "/deep/v1/", Key: provider.NewSecret(canary), Model: "m", Transport: v.Transport()}
	if change != nil {
		change(&cfg)
	}
	c, err := compatible.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func same(r testkit.Reply) func(*testing.T) provider.Provider {
	return func(t *testing.T) provider.Provider {
		return client(t, testkit.NewVendorFunc(t, func(int, testkit.Asked) testkit.Reply { return r }), nil)
	}
}

func TestConformance(t *testing.T) {
	two := testkit.Stream(
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"y","arguments":"{\"n\":1}"}}]}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, "[DONE]")
	providertest.Run(t, providertest.Suite{
		Key:   canary,
		Text:  same(testkit.ChatText("m", "some words é 🙂 to stream")),
		Calls: same(two),
		Hang:  same(testkit.Reply{Deaf: true}),
		Fails: map[provider.Kind]func(*testing.T) provider.Provider{
			provider.Auth:            same(testkit.Status(401, `{"error":{"message":"bad key `+canary+`"}}`)),
			provider.RateLimited:     same(testkit.Status(429, "slow")),
			provider.Server:          same(testkit.Status(503, "down")),
			provider.InvalidRequest:  same(testkit.Status(404, "no model")),
			provider.ContextOverflow: same(testkit.Status(400, "maximum context length")),
			provider.Malformed:       same(testkit.Stream(`{"choices":[{"delta":{"content":"half"}}]}`)),
			provider.Transport:       same(testkit.Reply{Chunks: []testkit.Chunk{{Data: "data: {}\n\n"}}, Cut: true}),
		},
	})
}

func TestWhatIsSent(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*compatible.Config)
		auth   []string
	}{
		{"bearer", nil, []string{"Bearer " + canary}},
		{"no credential header at all", func(c *compatible.Config) { c.Auth = compatible.AuthNone }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := testkit.NewVendor(t, testkit.ChatText("m", "x"))
			if _, err := client(t, v, tc.change).Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{}); err != nil {
				t.Fatal(err)
			}
			a := v.Asked()[0]
			if got := a.Header["Authorization"]; fmt.Sprint(got) != fmt.Sprint(tc.auth) {
				t.Errorf("Authorization = %q, want %q", got, tc.auth)
			}
			if a.Path != "/deep/v1/chat/completions" {
				t.Errorf("path = %s, want every segment of the base kept", a.Path)
			}
		})
	}
}

// TestOneAnswerInManyShapes serves one answer in all the ways that proxies and
// servers bend a stream, and wants the same response from each.
func TestOneAnswerInManyShapes(t *testing.T) {
	args := `{"path":"é — 🙂 漢字","n":1}`
	lines := func(end string) string {
		var b strings.Builder
		for _, c := range testkit.ChatCall("served", "id1", "write", args).Chunks {
			b.WriteString(strings.ReplaceAll(c.Data, "\n", end))
		}
		return b.String()
	}
	plain := lines("\n")
	shapes := map[string]testkit.Reply{
		"as it is":               testkit.Pieces(plain, 1<<20),
		"one byte per read":      testkit.Pieces(plain, 1),
		"three bytes per read":   testkit.Pieces(plain, 3),
		"carriage returns":       testkit.Pieces(lines("\r\n"), 7),
		"lone carriage returns":  testkit.Pieces(lines("\r"), 7),
		"no space":               testkit.Pieces(strings.ReplaceAll(plain, "data: ", "data:"), 11),
		"comments between":       testkit.Pieces(": hi\n\n"+strings.ReplaceAll(plain, "data: ", ": PROCESSING\n\ndata: "), 64),
		"a mark in front":        testkit.Pieces("\xef\xbb\xbf"+plain, 5),
		"no last line end":       testkit.Pieces(strings.TrimRight(plain, "\n"), 64),
		"a chunk without choice": testkit.Pieces("data: {\"id\":\"x\",\"model\":\"served\"}\n\ndata: {\"choices\":null}\n\n"+plain, 64),
		"no blank lines":         testkit.Pieces(strings.ReplaceAll(plain, "\n\n", "\n"), 64),
	}
	for name, reply := range shapes {
		t.Run(name, func(t *testing.T) {
			resp, err := client(t, testkit.NewVendor(t, reply), nil).Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{})
			if err != nil {
				t.Fatal(err)
			}
			if len(resp.Calls) != 1 || resp.Calls[0].Name != "write" || string(resp.Calls[0].Arguments) != args {
				t.Errorf("calls = %+v", resp.Calls)
			}
			if resp.Usage == nil || resp.Usage.TotalTokens != 18 || resp.Model != "served" || resp.FinishReason != "tool_calls" || resp.TTFT <= 0 {
				t.Errorf("response = %+v", resp)
			}
		})
	}
}

func TestDeltasComeBeforeTheEnd(t *testing.T) {
	reply := testkit.ChatText("m", "first second")
	last := len(reply.Chunks) - 1
	reply.Chunks = reply.Chunks[:last] // the end word is missing, and the server waits
	reply.Hang = true
	v := testkit.NewVendor(t, reply)
	ctx, cancel := context.WithCancel(context.Background())
	var got strings.Builder
	_, err := client(t, v, nil).Complete(ctx, &provider.Request{User: "u"}, provider.Sink{Token: func(s string) {
		if got.WriteString(s); got.String() == "first second" {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || got.String() != "first second" {
		t.Errorf("streamed %q, %v; want the whole text while the server still holds the stream open", got.String(), err)
	}
}

func TestWholeDocuments(t *testing.T) {
	doc := `{"model":"m","choices":[{"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`
	streamed := ""
	resp, err := client(t, testkit.NewVendor(t, testkit.Document(doc)), nil).Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{Token: func(s string) { streamed += s }})
	if err != nil || resp.Text != "whole" || streamed != "whole" || resp.Usage.TotalTokens != 3 {
		t.Errorf("got %+v, streamed %q, %v", resp, streamed, err)
	}
	for name, tc := range map[string]struct {
		reply testkit.Reply
		kind  provider.Kind
	}{
		"an error in JSON":             {testkit.Document(`{"error":{"code":503,"message":"` + canary + `"}}`), provider.Server},
		"an array of errors":           {testkit.Document(`[{"error":{"code":429,"message":"x"}}]`), provider.RateLimited},
		"a page":                       {testkit.Reply{Header: map[string][]string{"Content-Type": {"text/html"}}, Chunks: []testkit.Chunk{{Data: "<html>login</html>"}}}, provider.Malformed},
		"an empty body":                {testkit.Reply{}, provider.Malformed},
		"an error as a line":           {testkit.Reply{Chunks: []testkit.Chunk{{Data: "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n{\"error\":{\"code\":502,\"message\":\"x\"}}\n"}}}, provider.Server},
		"an error in front of the end": {testkit.Reply{Chunks: []testkit.Chunk{{Data: "{\"error\":{\"code\":401,\"message\":\"x\"}}\n\ndata: [DONE]\n\n"}}}, provider.Auth},
		"an event of that name":        {testkit.Reply{Chunks: []testkit.Chunk{{Data: "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\nevent: error\ndata: {\"message\":\"x\",\"code\":429}\n\n"}}}, provider.RateLimited},
		"an error in a event":          {testkit.Stream(`{"object":"error","message":"x","code":500}`), provider.Server},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client(t, testkit.NewVendor(t, tc.reply), nil).Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{})
			if !errors.Is(err, tc.kind) || strings.Contains(err.Error(), canary) {
				t.Errorf("error = %v, want %s without the key", err, tc.kind)
			}
		})
	}
}

// What a vendor sends instead of an answer is quoted in part, and the part may end
// inside of a key.
func TestAQuotedPageShowsNoPartOfTheKey(t *testing.T) {
	for before := 180; before < 200; before++ {
		page := "<html>" + strings.Repeat("x", before-len("<html>")) + canary + " was refused</html>"
		_, err := client(t, testkit.NewVendor(t, testkit.Reply{Chunks: []testkit.Chunk{{Data: page}}}), nil).Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{})
		if !errors.Is(err, provider.Malformed) || strings.Contains(err.Error(), canary[:8]) {
			t.Errorf("behind %d bytes: %v", before, err)
		}
	}
}

func TestADocumentThatIsNoCompletionIsQuoted(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Document(`{"detail":"not authenticated"}`))
	_, err := client(t, v, nil).Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{})
	if !errors.Is(err, provider.Malformed) || !strings.Contains(err.Error(), "not authenticated") || strings.Contains(err.Error(), "cut") {
		t.Errorf("error = %v, want what the server said", err)
	}
}

// The end word was said; that nothing more comes is no failure, however it comes about.
func TestABrokenConnectionBehindTheEndIsNoFailure(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Reply{Cut: true, Chunks: []testkit.Chunk{{Data: "data: {\"choices\":[{\"delta\":{\"content\":\"all\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]"}}})
	if resp, err := client(t, v, nil).Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{}); err != nil || resp.Text != "all" {
		t.Errorf("got %+v, %v", resp, err)
	}
}

// How the answer ends was said: it is whole and paid for, and only its account may be
// missing.
func TestABrokenConnectionBehindTheFinishReasonIsNoFailure(t *testing.T) {
	said := testkit.Stream(`{"choices":[{"delta":{"content":"all"}}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
	half := testkit.Stream(`{"choices":[{"delta":{"content":"half"}}]}`)
	always := testkit.Stream(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`, `{"choices":[{"delta":{"content":"half"},"finish_reason":"stop"}]}`)
	goesOn := testkit.Stream(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"n","arguments":"{}"}}]}}]}`)
	ask := func(r testkit.Reply, change func(*compatible.Config)) (*provider.Response, error) {
		return client(t, testkit.NewVendor(t, r), change).Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{})
	}
	cut := func(r testkit.Reply) testkit.Reply { r.Cut = true; return r }
	hang := func(r testkit.Reply) testkit.Reply { r.Hang = true; return r }
	impatient := func(c *compatible.Config) { c.IdleTimeout = 30 * time.Millisecond }

	for name, reply := range map[string]testkit.Reply{"cut": cut(said), "silent": hang(said)} {
		if resp, err := ask(reply, impatient); err != nil || resp.Text != "all" || resp.FinishReason != "stop" {
			t.Errorf("%s behind the end: got %+v, %v; want the answer", name, resp, err)
		}
	}
	if _, err := ask(cut(half), nil); !errors.Is(err, provider.Transport) {
		t.Errorf("cut in the middle: %v, want Transport", err)
	}
	for name, reply := range map[string]testkit.Reply{"a finish reason with every piece": always, "something behind the finish reason": goesOn} {
		if _, err := ask(cut(reply), nil); !errors.Is(err, provider.Transport) {
			t.Errorf("%s, cut: %v, want Transport", name, err)
		}
	}
	if _, err := ask(hang(half), impatient); !errors.Is(err, provider.Timeout) {
		t.Errorf("silent in the middle: %v, want Timeout", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	v := testkit.NewVendor(t, hang(testkit.Stream(`{"choices":[{"delta":{"content":"all"},"finish_reason":"stop"}]}`)))
	_, err := client(t, v, nil).Complete(ctx, &provider.Request{User: "u"}, provider.Sink{Token: func(string) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the caller's end: %v", err)
	}
}

func TestAFailedCallTellsWhatItUsed(t *testing.T) {
	reply := testkit.Stream(`{"usage":{"prompt_tokens":7,"completion_tokens":1}}`, `{"choices":[{"delta":{"content":"half"}}]}`)
	reply.Cut = true
	_, err := client(t, testkit.NewVendor(t, reply), nil).Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{})
	if e, ok := provider.AsError(err); !ok || e.Usage == nil || e.Usage.TotalTokens != 8 {
		t.Errorf("error = %+v, want the usage in it", err)
	}
}

func TestNothingIsSentForWhatCannotBe(t *testing.T) {
	img := provider.Media{Type: "image/png", Base64: "AAAA"}
	for name, tc := range map[string]struct {
		change func(*compatible.Config)
		req    provider.Request
	}{
		"fetch":                     {nil, provider.Request{User: "u", Web: provider.WebAccess{Fetch: true}}},
		"blocked domains":           {nil, provider.Request{User: "u", Web: provider.WebAccess{Search: true, BlockedDomains: []string{"x"}}}},
		"an image, by a text model": {func(c *compatible.Config) { c.TextOnly = true }, provider.Request{User: "u", Media: []provider.Media{img}}},
		"no model":                  {func(c *compatible.Config) { c.Model = "" }, provider.Request{User: "u"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := testkit.NewVendor(t)
			_, err := client(t, v, tc.change).Complete(context.Background(), &tc.req, provider.Sink{})
			var ce *provider.ConfigError
			if !errors.As(err, &ce) || ce.Provider != "compatible" || len(v.Asked()) != 0 {
				t.Errorf("error = %v after %d requests, want a ConfigError and none", err, len(v.Asked()))
			}
		})
	}
}

func TestReachable(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Document(`{"data":[]}`), testkit.Status(401, "no"))
	c := client(t, v, nil)
	if ok, err := provider.Reachable(context.Background(), c); !ok || err != nil {
		t.Errorf("reachable = %v, %v", ok, err)
	}
	if ok, err := provider.Reachable(context.Background(), c); ok || !errors.Is(err, provider.Auth) {
		t.Errorf("with a refused key = %v, %v", ok, err)
	}
	if a := v.Asked()[0]; a.Method != "GET" || a.Path != "/deep/v1/models" || a.Header.Get("Authorization") != "Bearer "+canary {
		t.Errorf("asked %s %s", a.Method, a.Path)
	}
}

func TestIdleTimeoutIsTheCallers(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Reply{Chunks: []testkit.Chunk{{Data: ": thinking\n\n"}}, Hang: true})
	c := client(t, v, func(c *compatible.Config) { c.IdleTimeout = 20 * time.Millisecond })
	if _, err := c.Complete(context.Background(), &provider.Request{User: "u"}, provider.Sink{}); !errors.Is(err, provider.Timeout) {
		t.Errorf("error = %v, want Timeout", err)
	}
}

func TestConfigurations(t *testing.T) {
	key := provider.NewSecret(canary)
	for _, tc := range []struct {
		name string
		cfg  compatible.Config
		say  string
	}{
		{"nothing", compatible.Config{}, "base URL"},
		{"no host", compatible.Config{BaseURL: "http:///x", Key: key}, "host"},
		{"no scheme", compatible.Config{BaseURL: "host/v1", Key: key}, "http"},
		{"another scheme", compatible.Config{BaseURL: "ftp://host", Key: key}, "http"},
		{"a user in the URL", compatible.Config{BaseURL: "http://me:pw-canary@host/v1", Key: key}, "user or password"},
		{"a query in the URL", compatible.Config{BaseURL: "http://host/v1?key=canary", Key: key}, "query"},
		{"a host hidden behind a backslash", compatible.Config{BaseURL: `http://127.0.0.1:11434\@good.example/v1`, Key: key}, "host"},
		{"a key with a line end", compatible.Config{BaseURL: "http://host/v1", Key: provider.NewSecret(canary + "\n")}, "white space"},
		{"no key", compatible.Config{BaseURL: "http://host/v1"}, "no key"},
		{"odd auth", compatible.Config{BaseURL: "http://host/v1", Key: key, Auth: "basic"}, "bearer or none"},
		{"no such preset", compatible.Config{Preset: "nobody", Key: key}, "cerebras, deepseek"},
		{"an unknown key for the cap", compatible.Config{BaseURL: "http://host/v1", Key: key, Quirks: &compatible.Quirks{MaxTokensField: "max_output_tokens"}}, "max_completion_tokens"},
		{"a hosted preset without a key", compatible.Config{Preset: "groq"}, "no key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := compatible.New(tc.cfg)
			var ce *provider.ConfigError
			if !errors.As(err, &ce) || !strings.Contains(err.Error(), tc.say) || strings.Contains(err.Error(), "canary") {
				t.Errorf("error = %v, want a ConfigError with %q and nothing secret", err, tc.say)
			}
		})
	}
	if s := fmt.Sprintf("%+v %#v", compatible.Config{Key: key}, struct{ c compatible.Config }{compatible.Config{Key: key}}); strings.Contains(s, canary) {
		t.Errorf("a configuration shows its key: %s", s)
	}
}

func TestPresets(t *testing.T) {
	type hosted func(provider.Secret, string) (*compatible.Client, error)
	constructors := map[string]any{
		"cerebras": hosted(compatible.Cerebras), "deepseek": hosted(compatible.DeepSeek), "fireworks": hosted(compatible.Fireworks),
		"gemini": hosted(compatible.Gemini), "groq": hosted(compatible.Groq), "minimax": hosted(compatible.MiniMax),
		"mistral": hosted(compatible.Mistral), "moonshot": hosted(compatible.Moonshot), "perplexity": hosted(compatible.Perplexity),
		"qwen": hosted(compatible.Qwen), "together": hosted(compatible.Together), "xai": hosted(compatible.XAI), "zhipu": hosted(compatible.Zhipu),
		"jan": compatible.Jan, "koboldcpp": compatible.KoboldCpp, "llamacpp": compatible.LlamaCpp, "lmstudio": compatible.LMStudio,
		"localai": compatible.LocalAI, "ollama": compatible.Ollama, "sglang": compatible.SGLang, "vllm": compatible.VLLM,
	}
	table := compatible.Presets()
	if len(table) != 21 || len(constructors) != 21 {
		t.Fatalf("%d presets and %d constructors, want 21", len(table), len(constructors))
	}
	local := 0
	for _, p := range table {
		u, err := url.Parse(p.BaseURL)
		if err != nil || strings.HasSuffix(p.BaseURL, "/") {
			t.Errorf("%s: base %q", p.Name, p.BaseURL)
		}
		isLocal := u.Hostname() == "localhost"
		if isLocal {
			local++
		}
		if isLocal != (p.Auth == compatible.AuthNone) || isLocal != (p.KeyName == "") || isLocal != (u.Scheme == "http") {
			t.Errorf("%s: %+v is half local", p.Name, p)
		}
		var c *compatible.Client
		switch f := constructors[p.Name].(type) {
		case hosted:
			if c, err = f(provider.NewSecret(canary), "m"); err != nil {
				t.Errorf("%s: %v", p.Name, err)
				continue
			}
		case func(string) *compatible.Client:
			c = f("m")
		default:
			t.Errorf("%s has no constructor", p.Name)
			continue
		}
		if c.Name() != p.Name || c.ModelHint() != "m" || c.Endpoints()[0] != p.BaseURL+"/chat/completions" {
			t.Errorf("%s: name %s, model %s, endpoints %v", p.Name, c.Name(), c.ModelHint(), c.Endpoints())
		}
	}
	if local != 8 {
		t.Errorf("%d local presets, want 8", local)
	}
}

func TestQuirksTouchOnlyTheirPreset(t *testing.T) {
	req := &provider.Request{System: []string{"s"}, Messages: []provider.Message{
		provider.User("u"), provider.Assistant("", provider.ToolCall{ID: "a", Name: "t", Arguments: []byte(`{}`)}),
		provider.Results(provider.ToolResult{CallID: "a", Content: "r"}),
	}}
	bodies := map[string][]string{}
	for _, p := range compatible.Presets() {
		v := testkit.NewVendor(t, testkit.ChatText("m", "x"))
		c := client(t, v, func(c *compatible.Config) { c.Preset = p.Name })
		if _, err := c.Complete(context.Background(), req, provider.Sink{}); err != nil {
			t.Fatal(err)
		}
		bodies[v.Asked()[0].Body] = append(bodies[v.Asked()[0].Body], p.Name)
	}
	if len(bodies) != 3 {
		t.Errorf("%d different bodies, want those of mistral, of deepseek and moonshot, and of all others: %v", len(bodies), bodies)
	}
	for body, names := range bodies {
		if got := strings.Join(names, " "); strings.Contains(got, "mistral") && got != "mistral" || strings.Contains(got, "deepseek") && got != "deepseek moonshot" {
			t.Errorf("%s share the body %s", got, body)
		}
	}
}

func TestFromEnv(t *testing.T) {
	t.Setenv("GROQ_API_KEY", "")
	t.Setenv("GROQ_MODEL", "")
	var ce *provider.ConfigError
	if _, err := compatible.FromEnv("groq", "m"); !errors.As(err, &ce) || !strings.Contains(err.Error(), "GROQ_API_KEY") {
		t.Errorf("an empty key: %v, want a ConfigError naming the variable", err)
	}
	t.Setenv("GROQ_API_KEY", canary+"\n")
	if _, err := compatible.FromEnv("groq", ""); !errors.As(err, &ce) || !strings.Contains(err.Error(), "GROQ_MODEL") {
		t.Errorf("no model: %v, want a ConfigError naming the variable", err)
	}
	t.Setenv("GROQ_MODEL", "from-env")
	if c, err := compatible.FromEnv("groq", ""); err != nil || c.ModelHint() != "from-env" {
		t.Errorf("got %v, %v", c, err)
	}
	if c, err := compatible.FromEnv("ollama", "m"); err != nil || c.Name() != "ollama" {
		t.Errorf("a local one: %v, %v", c, err)
	}
	if _, err := compatible.FromEnv("nobody", "m"); !errors.As(err, &ce) {
		t.Errorf("no such preset: %v", err)
	}
}
