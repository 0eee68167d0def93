package provider_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
)

// bare has the required methods and nothing else.
type bare struct{}

func (bare) Name() string        { return "bare" }
func (bare) Endpoints() []string { return nil }
func (bare) Complete(context.Context, *provider.Request, provider.Sink) (*provider.Response, error) {
	return nil, nil
}

// hinted knows its model only.
type hinted struct {
	bare
	model string
}

func (h hinted) ModelHint() string { return h.model }

func TestMissingCapabilitiesHaveSafeDefaults(t *testing.T) {
	p := bare{}
	if got := provider.ModelHint(p); got != "" {
		t.Errorf("model hint = %q", got)
	}
	if provider.AcceptsImages(p) {
		t.Error("it accepts images without having said so")
	}
	if ok, err := provider.Reachable(context.Background(), p); !ok || err != nil {
		t.Errorf("reachable = %v, %v; want true", ok, err)
	}
	if m, err := provider.Models(context.Background(), p); m != nil || err != nil {
		t.Errorf("models = %v, %v", m, err)
	}
	for model, want := range map[string]provider.Family{
		"": provider.FamilyGeneric, "Claude-3": provider.FamilyAnthropic, "anthropic/x": provider.FamilyAnthropic, "vendor/claude-x": provider.FamilyAnthropic,
		"openai/o9": provider.FamilyOpenAI, "GPT-9": provider.FamilyOpenAI, "x-gpt-oss": provider.FamilyOpenAI, "mistral": provider.FamilyGeneric, "x/openai/": provider.FamilyGeneric,
	} {
		if got := provider.PromptFamily(hinted{model: model}); got != want {
			t.Errorf("family of %q = %s, want %s", model, got, want)
		}
	}
}

func TestEndings(t *testing.T) {
	call := []provider.ToolCall{{Name: "t"}}
	for _, tc := range []struct {
		name string
		r    provider.Response
		want provider.Finish
	}{
		{"stop with text", provider.Response{Text: "x", FinishReason: "stop"}, provider.FinishStop},
		{"Anthropic's word", provider.Response{Text: "x", FinishReason: "end_turn"}, provider.FinishStop},
		{"no word", provider.Response{Text: "x"}, provider.FinishStop},
		{"an unknown word", provider.Response{Text: "x", FinishReason: "eos_id"}, provider.FinishStop},
		{"stop beside calls", provider.Response{Calls: call, FinishReason: "stop"}, provider.FinishToolCalls},
		{"calls", provider.Response{Calls: call, FinishReason: "tool_use"}, provider.FinishToolCalls},
		{"calls announced and none there", provider.Response{Text: "x", FinishReason: "tool_calls"}, provider.FinishMalformedCall},
		{"a call that could not be formed", provider.Response{FinishReason: "MALFORMED_FUNCTION_CALL"}, provider.FinishMalformedCall},
		{"cut", provider.Response{Text: "half", FinishReason: "length"}, provider.FinishLength},
		{"cut beside calls", provider.Response{Calls: call, FinishReason: "max_tokens"}, provider.FinishLength},
		{"the window is full", provider.Response{Text: "x", FinishReason: "model_context_window_exceeded"}, provider.FinishLength},
		{"withheld", provider.Response{FinishReason: "content_filter"}, provider.FinishContentFilter},
		{"withheld, another word", provider.Response{FinishReason: "SAFETY"}, provider.FinishContentFilter},
		{"withheld, a third word", provider.Response{FinishReason: "sensitive"}, provider.FinishContentFilter},
		{"declined", provider.Response{Text: "no", FinishReason: "refusal"}, provider.FinishRefusal},
		{"declined, told beside a stop", provider.Response{Text: "no", FinishReason: "stop", Finish: provider.FinishRefusal}, provider.FinishRefusal},
		{"paused", provider.Response{Text: "x", FinishReason: "pause_turn"}, provider.FinishPaused},
		{"broken", provider.Response{Text: "x", FinishReason: "error"}, provider.FinishError},
		{"the window is full, another word", provider.Response{Text: "half", FinishReason: "model_length"}, provider.FinishLength},
		{"broken off for want of machines", provider.Response{Text: "half", FinishReason: "insufficient_system_resource"}, provider.FinishError},
		{"broken off", provider.Response{Text: "half", FinishReason: "abort"}, provider.FinishError},
		{"a call that could not be formed, behind a class", provider.Response{Text: "I look", FinishReason: "function_call_filter: MALFORMED_FUNCTION_CALL"}, provider.FinishMalformedCall},
		{"an unknown word behind a known class", provider.Response{Text: "x", FinishReason: "function_call_filter: SOMETHING_NEW"}, provider.FinishMalformedCall},
		{"withheld, behind a class", provider.Response{Text: "x", FinishReason: "content_filter: PROHIBITED_CONTENT"}, provider.FinishContentFilter},
		{"an unknown word and an unknown class", provider.Response{Text: "x", FinishReason: "ended: well"}, provider.FinishStop},
		{"nothing said", provider.Response{Text: " \n", FinishReason: "stop"}, provider.FinishEmpty},
	} {
		if got := tc.r.Ending(); got != tc.want || got.Ends() != (tc.want == provider.FinishStop) {
			t.Errorf("%s = %s (ends %v), want %s", tc.name, got, got.Ends(), tc.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for kind, want := range map[provider.Kind]bool{
		provider.Transport: true, provider.Timeout: true, provider.RateLimited: true, provider.Server: true, provider.Malformed: true,
		provider.Auth: false, provider.Quota: false, provider.InvalidRequest: false, provider.ContextOverflow: false, "SomethingNew": false,
	} {
		if kind.Retryable() != want {
			t.Errorf("%s retryable = %v, want %v", kind, !want, want)
		}
	}
	cause := errors.New("cause")
	e := &provider.Error{Kind: provider.Server, Status: 503, Message: "two\n  lines", Provider: "p", RequestID: "r1", Err: cause}
	wrapped := fmt.Errorf("step 3: %w", e)
	if want := "p: Server (HTTP 503): two lines (request r1)"; e.Error() != want {
		t.Errorf("text = %q, want %q", e.Error(), want)
	}
	if e.Text() != "Server (HTTP 503)" || (&provider.Error{Kind: provider.Malformed}).Text() != "Malformed" {
		t.Errorf("kind text = %q", e.Text())
	}
	if got, ok := provider.AsError(wrapped); !ok || got != e || !errors.Is(wrapped, provider.Server) || errors.Is(wrapped, provider.Auth) || !errors.Is(wrapped, cause) {
		t.Error("a wrapped error is not found by its type, kind and cause")
	}
	if e.TooLong() || !(&provider.Error{Kind: provider.ContextOverflow}).TooLong() {
		t.Error("TooLong is not the overflow")
	}
}

func TestWaits(t *testing.T) {
	wait := func(d time.Duration) *time.Duration { return &d }
	server := func(d *time.Duration) error {
		return fmt.Errorf("wrapped: %w", &provider.Error{Kind: provider.Server, RetryAfter: d})
	}
	for _, tc := range []struct {
		name   string
		policy provider.RetryPolicy
		retry  int
		err    error
		want   time.Duration
		ok     bool
	}{
		{"first", provider.RetryPolicy{}, 1, server(nil), 500 * time.Millisecond, true},
		{"doubled", provider.RetryPolicy{}, 3, server(nil), 2 * time.Second, true},
		{"at the ceiling", provider.RetryPolicy{}, 7, server(nil), 30 * time.Second, true},
		{"far beyond", provider.RetryPolicy{}, math.MaxInt, server(nil), 30 * time.Second, true},
		{"before the first", provider.RetryPolicy{}, 0, server(nil), 500 * time.Millisecond, true},
		{"own base", provider.RetryPolicy{Base: 40 * time.Millisecond}, 3, server(nil), 160 * time.Millisecond, true},
		{"own ceiling below the base", provider.RetryPolicy{Base: time.Minute, Max: time.Second}, 1, server(nil), time.Second, true},
		{"a base that would overflow", provider.RetryPolicy{Base: math.MaxInt64 / 2, Max: math.MaxInt64}, 9, server(nil), math.MaxInt64, true},
		{"the server's wait wins above the ceiling", provider.RetryPolicy{Base: time.Millisecond}, 1, server(wait(90 * time.Second)), 90 * time.Second, true},
		{"the server's wait of nothing", provider.RetryPolicy{}, 1, server(wait(0)), 0, true},
		{"a negative one is nothing", provider.RetryPolicy{}, 1, server(wait(-time.Second)), 0, true},
		{"at the cap", provider.RetryPolicy{}, 1, server(wait(5 * time.Minute)), 5 * time.Minute, true},
		{"above the cap", provider.RetryPolicy{}, 1, server(wait(5*time.Minute + 1)), 5*time.Minute + 1, false},
		{"above an own cap", provider.RetryPolicy{MaxServerWait: time.Second}, 1, server(wait(2 * time.Second)), 2 * time.Second, false},
		{"no cap", provider.RetryPolicy{MaxServerWait: -1}, 1, server(wait(999999 * time.Second)), 999999 * time.Second, true},
		{"not worth it", provider.RetryPolicy{}, 1, &provider.Error{Kind: provider.Auth, RetryAfter: wait(1)}, 0, false},
		{"not a provider's", provider.RetryPolicy{}, 1, context.Canceled, 0, false},
		{"nil", provider.RetryPolicy{}, 1, nil, 0, false},
	} {
		if got, ok := tc.policy.Wait(tc.retry, tc.err); got != tc.want || ok != tc.ok {
			t.Errorf("%s = %v, %v; want %v, %v", tc.name, got, ok, tc.want, tc.ok)
		}
	}
}

func TestImages(t *testing.T) {
	for _, typ := range []string{"image/jpeg", "image/png", "image/gif", "image/webp"} {
		if _, err := provider.Image(typ, []byte("x")); err != nil {
			t.Errorf("%s: %v", typ, err)
		}
	}
	var ce *provider.ConfigError
	for _, typ := range []string{"image/svg+xml", "image/bmp", "text/plain", "", "IMAGE/PNG"} {
		if _, err := provider.Image(typ, []byte("x")); !errors.As(err, &ce) {
			t.Errorf("%q: %v, want a ConfigError", typ, err)
		}
	}
	if _, err := provider.Image("image/png", nil); !errors.As(err, &ce) {
		t.Errorf("no bytes: %v", err)
	}
	if _, err := provider.Image("image/png", make([]byte, provider.MaxImageBytes)); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := provider.Image("image/png", make([]byte, provider.MaxImageBytes+1)); !errors.As(err, &ce) {
		t.Errorf("over the limit: %v", err)
	}
	// One that was made elsewhere is held to the same.
	for name, tc := range map[string]struct {
		m  provider.Media
		ok bool
	}{
		"the largest":             {provider.Media{Type: "image/png", Base64: base64.StdEncoding.EncodeToString(make([]byte, provider.MaxImageBytes))}, true},
		"too large":               {provider.Media{Type: "image/png", Base64: base64.StdEncoding.EncodeToString(make([]byte, provider.MaxImageBytes+1))}, false},
		"lines":                   {provider.Media{Type: "image/png", Base64: "AAAA\nAAAA"}, false},
		"lines of another system": {provider.Media{Type: "image/png", Base64: "AAAA\r\nAAAA"}, false},
		"no base64":               {provider.Media{Type: "image/png", Base64: "A*AA"}, false},
		"no bytes":                {provider.Media{Type: "image/png"}, false},
		"another type":            {provider.Media{Type: "image/bmp", Base64: "AAAA"}, false},
	} {
		if err := tc.m.Validate(); (err == nil) != tc.ok || err != nil && !errors.As(err, &ce) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for path, want := range map[string]string{"a.JPG": "image/jpeg", "b/c.jpeg": "image/jpeg", "x.png": "image/png", "x.gif": "image/gif", "x.WebP": "image/webp", "x.bmp": "", "x": "", "": "", ".png": "image/png"} {
		if got := provider.MediaTypeFor(path); got != want {
			t.Errorf("type of %q = %q, want %q", path, got, want)
		}
	}
	for b64, want := range map[string]int{"": 0, "=": 0, "==": 0, "====": 0, "AAAA": 3, "AAA=": 2, "AA==": 1, "AAAAA": 3} {
		if got := (provider.Media{Base64: b64}).ByteLen(); got != want {
			t.Errorf("length of %q = %d, want %d", b64, got, want)
		}
	}
	a, b := provider.Media{Type: "image/png", Base64: "AAAA"}, provider.Media{Type: "image/gif", Base64: "AAAA"}
	if again := a; len(a.Digest()) != 16 || a.Digest() != again.Digest() || a.Digest() == b.Digest() {
		t.Errorf("digests %s and %s", a.Digest(), b.Digest())
	}
}

func TestSecretsShowNowhere(t *testing.T) {
	const canary = "sk-canary-0123456789"
	s := provider.NewSecret(canary)
	type inner struct{ key provider.Secret }
	type outer struct {
		Key provider.Secret
		in  inner
		ptr *inner
		m   map[string]provider.Secret
	}
	v := outer{s, inner{s}, &inner{s}, map[string]provider.Secret{"k": s}}
	var b strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&b, verb+verb+verb, s, v, &v)
	}
	j, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	b.Write(j)
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "secret", s, "struct", v)
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "secret", s, "struct", v)
	if strings.Contains(b.String(), canary) || strings.Contains(b.String(), fmt.Sprintf("%x", canary)) {
		t.Errorf("the secret shows: %s", b.String())
	}
	if s.Reveal() != canary || s.IsZero() || !provider.NewSecret("").IsZero() || (provider.Secret{}).String() != "" {
		t.Error("the secret is not kept")
	}
}

func TestWebFilter(t *testing.T) {
	for _, tc := range []struct {
		name             string
		w                provider.WebAccess
		allowed, blocked []string
		fails            bool
	}{
		{"nothing", provider.WebAccess{}, nil, nil, false},
		{"blocked alone", provider.WebAccess{BlockedDomains: []string{"b"}}, nil, []string{"b"}, false},
		{"allowed without what is blocked", provider.WebAccess{AllowedDomains: []string{"a", "b"}, BlockedDomains: []string{"b", "c"}}, []string{"a"}, nil, false},
		{"nothing left", provider.WebAccess{AllowedDomains: []string{"b"}, BlockedDomains: []string{"b"}}, nil, nil, true},
	} {
		a, b, err := tc.w.Filter()
		if (err != nil) != tc.fails || cmp.Diff(tc.allowed, a) != "" || cmp.Diff(tc.blocked, b) != "" {
			t.Errorf("%s = %v, %v, %v", tc.name, a, b, err)
		}
	}
	if (provider.WebAccess{MaxUses: 3, AllowedDomains: []string{"a"}}).Enabled() {
		t.Error("domains and a cap alone enable web access")
	}
}

// A bound that is misspelled must not be taken for none.
func TestAMisspelledBoundIsRefused(t *testing.T) {
	var web provider.WebAccess
	want := provider.WebAccess{Search: true, MaxUses: 2, AllowedDomains: []string{"a"}}
	if err := json.Unmarshal([]byte(`{"search":true,"max_uses":2,"allowed_domains":["a"]}`), &web); err != nil || cmp.Diff(want, web) != "" {
		t.Errorf("web access = %+v, %v", web, err)
	}
	var price provider.Price
	if err := json.Unmarshal([]byte(`{"input":5}`), &price); err != nil || price != (provider.Price{Input: 5}) {
		t.Errorf("price = %+v, %v", price, err)
	}
	for in, to := range map[string]any{
		`{"search":true,"allowed_domain":["a"]}`: &provider.WebAccess{},
		`{"search":1}`:                           &provider.WebAccess{},
		`{"web":{"search":true,"maxuses":1}}`:    &provider.Request{},
		`{"inptu":5}`:                            &provider.Price{},
		`{"id":"m","price":{"cached":5}}`:        &provider.ModelInfo{},
	} {
		var ce *provider.ConfigError
		if err := json.Unmarshal([]byte(in), to); !errors.As(err, &ce) {
			t.Errorf("%s: %v, want a ConfigError", in, err)
		}
	}
}

func TestEffort(t *testing.T) {
	for in, want := range map[string]provider.Effort{"": "", " Low\n": provider.EffortLow, "MEDIUM": provider.EffortMedium, "high": provider.EffortHigh} {
		if got, err := provider.ParseEffort(in); err != nil || got != want {
			t.Errorf("%q = %q, %v", in, got, err)
		}
	}
	_, err := provider.ParseEffort("extreme")
	var ce *provider.ConfigError
	if !errors.As(err, &ce) || !strings.Contains(err.Error(), "low, medium or high") {
		t.Errorf("error = %v", err)
	}
}

func TestUnsetFieldsStayOutOfARequestsJSON(t *testing.T) {
	b, err := json.Marshal(&provider.Request{System: []string{"s"}, User: "u", Tools: []provider.ToolSpec{}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"system":["s"],"user":"u","tools":[]}`; string(b) != want {
		t.Errorf("JSON = %s, want %s", b, want)
	}
}

func TestUsageAddsAndSaturates(t *testing.T) {
	u := provider.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3, CacheReadTokens: 4, CacheWriteTokens: 5, ReasoningTokens: 6, ServerToolRequests: 7}
	if d := cmp.Diff(provider.Usage{PromptTokens: 2, CompletionTokens: 4, TotalTokens: 6, CacheReadTokens: 8, CacheWriteTokens: 10, ReasoningTokens: 12, ServerToolRequests: 14}, u.Add(u)); d != "" {
		t.Error(d)
	}
	if got := (provider.Usage{TotalTokens: math.MaxInt64}).Add(u).TotalTokens; got != math.MaxInt64 {
		t.Errorf("total = %d, want it to stop at the largest", got)
	}
}

func TestSystemText(t *testing.T) {
	r := provider.Request{System: []string{"a", " \n", "", "b"}}
	if got := r.SystemText(); got != "a\n\nb" {
		t.Errorf("system = %q", got)
	}
}

func TestScopeRidesTheContext(t *testing.T) {
	ctx := context.Background()
	if provider.Scope(ctx) != "" || provider.Scope(provider.WithScope(ctx, "run-1")) != "run-1" {
		t.Error("the scope is lost")
	}
}

func TestUsageAddsUpWithoutWrapping(t *testing.T) {
	for _, tc := range []struct {
		name       string
		a, b, want int64
	}{
		{"a sum", 1, 2, 3},
		{"beyond the end", math.MaxInt64, 1, math.MaxInt64},
		{"a negative one is none", 5, -1, 5},
		{"another negative one", math.MinInt64, 7, 7},
	} {
		if got := (provider.Usage{TotalTokens: tc.a}).Add(provider.Usage{TotalTokens: tc.b}); got != (provider.Usage{TotalTokens: tc.want}) {
			t.Errorf("%s = %+v, want %d", tc.name, got, tc.want)
		}
	}
}

// What failed calls used is known by the error, wherever it stands in a chain.
func TestWhatAFailureUsedIsFoundInItsChain(t *testing.T) {
	own, all := &provider.Usage{TotalTokens: 3}, &provider.Usage{TotalTokens: 7}
	failed := &provider.Error{Kind: provider.Server, Usage: own}
	stopped := &provider.Interrupted{Provider: "p", Usage: own, Err: context.Canceled}
	for name, tc := range map[string]struct {
		err  error
		want *provider.Usage
	}{
		"a failure":                      {failed, own},
		"one that is wrapped":            {fmt.Errorf("step 3: %w", failed), own},
		"one that the caller ended":      {fmt.Errorf("step 3: %w", stopped), own},
		"a chain that counted them all":  {fmt.Errorf("step 3: %w", provider.WithUsage(failed, all)), all},
		"a chain that the caller ended":  {provider.WithUsage(stopped, all), all},
		"a chain that knows nothing new": {provider.WithUsage(failed, nil), own},
		"one that says nothing":          {&provider.Error{Kind: provider.Server}, nil},
		"something else":                 {errors.New("x"), nil},
	} {
		if got := provider.UsageOf(tc.err); got != tc.want {
			t.Errorf("%s used %+v, want %+v", name, got, tc.want)
		}
	}
	if provider.WithUsage(nil, all) != nil {
		t.Error("a success became an error")
	}
	if err := provider.WithUsage(failed, all); !errors.Is(err, provider.Server) || err.Error() != failed.Error() {
		t.Errorf("the failure itself is lost: %v", err)
	}
}

// spoil changes every byte and every element that can be reached from v.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			spoil(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				spoil(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.String:
		v.SetString(v.String() + "!")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	}
}

func TestCopiesOfRequestsAndAnswersAreApart(t *testing.T) {
	request := func() *provider.Request {
		return &provider.Request{
			System: []string{"s"}, User: "u", Model: "m", MaxTokens: 1,
			Messages: []provider.Message{{Role: provider.RoleAssistant, Text: "t", Calls: []provider.ToolCall{{ID: "1", Name: "n", Arguments: json.RawMessage("{}")}}, Carry: json.RawMessage("{}"), Results: []provider.ToolResult{{CallID: "1", Content: "c"}}}},
			Tools:    []provider.ToolSpec{{Name: "n", Description: "d", Schema: json.RawMessage("{}")}},
			Media:    []provider.Media{{Type: "image/png", Base64: "AAAA"}},
			Web:      provider.WebAccess{Search: true, AllowedDomains: []string{"a"}, BlockedDomains: []string{"b"}},
			Output:   &provider.OutputSchema{Name: "o", Schema: json.RawMessage("{}")},
		}
	}
	response := func() *provider.Response {
		return &provider.Response{
			Text: "t", Calls: []provider.ToolCall{{ID: "1", Name: "n", Arguments: json.RawMessage("{}")}},
			Usage: &provider.Usage{TotalTokens: 1}, Failed: []provider.FailedCall{{Provider: "p", Usage: &provider.Usage{TotalTokens: 1}}},
			Citations: []provider.Citation{{URL: "u"}}, ServerTools: []provider.ServerToolCall{{Tool: "t"}}, Carry: json.RawMessage("{}"),
		}
	}
	asked, answered := request(), response()
	copied, again := asked.Clone(), answered.Clone()
	if diff := cmp.Diff(asked, copied) + cmp.Diff(answered, again); diff != "" {
		t.Errorf("a copy is another: %s", diff)
	}
	spoil(reflect.ValueOf(copied))
	spoil(reflect.ValueOf(again))
	message := answered.Message()
	spoil(reflect.ValueOf(&message))
	if diff := cmp.Diff(request(), asked) + cmp.Diff(response(), answered); diff != "" {
		t.Errorf("a change of the copy is one of the original: %s", diff)
	}
	if (*provider.Request)(nil).Clone() != nil || (*provider.Response)(nil).Clone() != nil {
		t.Error("a copy of nothing is something")
	}
}
