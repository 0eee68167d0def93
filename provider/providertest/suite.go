package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
)

// A Suite says how to make the provider under test answer in a certain way.
// Each function makes a fresh provider, usually one that talks to a fake server
// or plays a script; it is called once for each test. A nil function leaves out
// the tests that need it.
type Suite struct {
	// Text answers every request with a non-empty text. Required.
	Text func(t *testing.T) provider.Provider

	// Calls answers every request with two or more tool calls.
	Calls func(t *testing.T) provider.Provider

	// Hang answers no request before its context ends.
	Hang func(t *testing.T) provider.Provider

	// Fails answers every request with a failure of the given kind.
	Fails map[provider.Kind]func(t *testing.T) provider.Provider

	// Key is the credential that the providers were made with. It must show
	// nowhere.
	Key string
}

// cancelPatience is how long a provider may take to notice that its caller is
// gone before the suite gives up on it.
const cancelPatience = 5 * time.Second

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	t.Helper()
	if s.Text == nil {
		t.Fatal("providertest: Suite.Text is required")
	}
	t.Run("name and endpoints are stable", s.identity)
	t.Run("the text streams as it settles", s.streams)
	t.Run("nobody needs to listen", s.silentSink)
	t.Run("the request is only read", s.readsOnly)
	t.Run("many may ask at once", s.concurrent)
	t.Run("an ended context is its own error", s.ended)
	t.Run("images ride or are refused", s.images)
	t.Run("no credential shows", s.secrets)
	if s.Calls != nil {
		t.Run("calls are whole and paired", s.calls)
	}
	if s.Hang != nil {
		t.Run("a cancelled wait ends", s.cancelled)
	}
	for kind, build := range s.Fails {
		t.Run("failure of kind "+string(kind), func(t *testing.T) { s.fails(t, kind, build(t)) })
	}
}

// request uses most of what a request can hold, so that a provider that cannot
// take something shows it.
func request() *provider.Request {
	return &provider.Request{
		System: []string{"You are being tested.", "Answer."},
		Messages: []provider.Message{
			provider.User("first <question> & é 🙂"),
			provider.Assistant("", provider.ToolCall{ID: "a", Name: "look", Arguments: json.RawMessage(`{"n":9007199254740993}`)}),
			provider.Results(provider.ToolResult{CallID: "a", Content: "seen"}),
			provider.User("second"),
		},
		Tools: []provider.ToolSpec{{Name: "look", Description: "looks", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}},
		Model: "model-under-test",
	}
}

func (s Suite) identity(t *testing.T) {
	p := s.Text(t)
	if first, second := p.Name(), p.Name(); first == "" || first != second {
		t.Errorf("name = %q and then %q, want a stable one", first, second)
	}
	first := p.Endpoints()
	for _, e := range first {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Scheme == "" {
			t.Errorf("endpoint %q is no URL with a host", e)
		}
	}
	if len(first) > 0 {
		first[0] = "http://meddled.invalid"
		if second := p.Endpoints(); slices.Contains(second, first[0]) {
			t.Error("a caller can change the endpoints")
		}
	}
	if f := provider.PromptFamily(p); f == "" {
		t.Error("the prompt family is empty")
	}
}

func (s Suite) streams(t *testing.T) {
	p := s.Text(t)
	var text strings.Builder
	var returned atomic.Bool
	resp, err := p.Complete(context.Background(), request(), provider.Sink{Token: func(d string) {
		if returned.Load() {
			t.Error("a delta came after Complete had returned")
		}
		text.WriteString(d)
	}})
	returned.Store(true)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Text == "" || text.String() != resp.Text {
		t.Errorf("streamed %q, settled %q", text.String(), resp.Text)
	}
	if u := resp.Usage; u != nil && (u.PromptTokens < 0 || u.CompletionTokens < 0 || u.TotalTokens < 0) {
		t.Errorf("usage = %+v", *u)
	}
	if resp.TTFT < 0 {
		t.Errorf("time to first content = %v", resp.TTFT)
	}
}

func (s Suite) silentSink(t *testing.T) {
	if resp, err := s.Text(t).Complete(context.Background(), request(), provider.Sink{}); err != nil || resp.Text == "" {
		t.Errorf("got %+v, %v; want a text", resp, err)
	}
}

func (s Suite) readsOnly(t *testing.T) {
	req, before := request(), request()
	if _, err := s.Text(t).Complete(context.Background(), req, provider.Sink{}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, req); d != "" {
		t.Errorf("the request was changed:\n%s", d)
	}
}

func (s Suite) concurrent(t *testing.T) {
	p := s.Text(t)
	req := request() // one request for all: it is only read
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var text strings.Builder
			resp, err := p.Complete(context.Background(), req, provider.Sink{Token: func(d string) { text.WriteString(d) }})
			if err != nil {
				t.Error(err)
			} else if resp.Text != text.String() {
				t.Errorf("streamed %q, settled %q", text.String(), resp.Text)
			}
		})
	}
	wg.Wait()
}

func (s Suite) ended(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	resp, err := s.Text(t).Complete(ctx, request(), provider.Sink{})
	cancellation(t, resp, err)
}

func (s Suite) cancelled(t *testing.T) {
	p := s.Hang(t)
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(20*time.Millisecond, cancel)
	defer timer.Stop()
	type outcome struct {
		resp *provider.Response
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		resp, err := p.Complete(ctx, request(), provider.Sink{})
		done <- outcome{resp, err}
	}()
	select {
	case o := <-done:
		cancellation(t, o.resp, o.err)
	case <-time.After(cancelPatience):
		t.Fatal("Complete did not return after its context had ended")
	}
}

func cancellation(t *testing.T, resp *provider.Response, err error) {
	t.Helper()
	if resp != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v; want context.Canceled", resp, err)
	}
	if e, ok := provider.AsError(err); ok {
		t.Errorf("a cancellation came as a failure of kind %s, which a loop would retry or fall over", e.Kind)
	}
}

func (s Suite) images(t *testing.T) {
	p := s.Text(t)
	img, err := provider.Image("image/png", []byte("png"))
	if err != nil {
		t.Fatal(err)
	}
	req := request()
	req.Media = []provider.Media{img}
	_, err = p.Complete(context.Background(), req, provider.Sink{})
	var refused *provider.ConfigError
	switch {
	case provider.AcceptsImages(p) && err != nil:
		t.Errorf("it accepts images and failed: %v", err)
	case !provider.AcceptsImages(p) && !errors.As(err, &refused):
		t.Errorf("it takes no images and returned %v, want a *provider.ConfigError", err)
	}
}

func (s Suite) secrets(t *testing.T) {
	if s.Key == "" {
		t.Skip("the suite names no key")
	}
	p := s.Text(t)
	type holder struct{ p provider.Provider }
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, v := range []any{p, holder{p}, &holder{p}} {
			if strings.Contains(fmt.Sprintf(verb, v), s.Key) {
				t.Errorf("%s of a %T shows the key", verb, v)
			}
		}
	}
	if b, err := json.Marshal(p); err == nil && strings.Contains(string(b), s.Key) {
		t.Error("its JSON shows the key")
	}
	for _, e := range p.Endpoints() {
		if strings.Contains(e, s.Key) {
			t.Error("an endpoint shows the key")
		}
	}
}

func (s Suite) calls(t *testing.T) {
	var early []provider.ToolCall
	resp, err := s.Calls(t).Complete(context.Background(), request(), provider.Sink{Call: func(i int, c provider.ToolCall) {
		if i != len(early) {
			t.Errorf("call %d was reported after %d others", i, len(early))
		}
		early = append(early, c)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Calls) < 2 {
		t.Fatalf("%d calls, want two or more", len(resp.Calls))
	}
	ids := map[string]bool{}
	for i, c := range resp.Calls {
		var object map[string]json.RawMessage
		if c.Name == "" || json.Unmarshal(c.Arguments, &object) != nil || object == nil {
			t.Errorf("call %d has no name or no argument object: %+v", i, c)
		}
		if c.ID == "" || ids[c.ID] {
			t.Errorf("call %d has the id %q, want one that no other has", i, c.ID)
		}
		ids[c.ID] = true
	}
	if len(early) > len(resp.Calls) {
		t.Fatalf("%d calls were reported and %d settled", len(early), len(resp.Calls))
	}
	if d := cmp.Diff(resp.Calls[:len(early)], early); len(early) > 0 && d != "" {
		t.Errorf("calls were reported otherwise than they settled:\n%s", d)
	}
	if resp.Ending().Ends() {
		t.Errorf("an answer with calls counts as an ending (%s)", resp.Ending())
	}
}

func (s Suite) fails(t *testing.T, kind provider.Kind, p provider.Provider) {
	resp, err := p.Complete(context.Background(), request(), provider.Sink{})
	e, ok := provider.AsError(err)
	if !ok || resp != nil {
		t.Fatalf("got %v, %v; want no response and a *provider.Error", resp, err)
	}
	if e.Kind != kind || !errors.Is(err, kind) {
		t.Errorf("kind = %s, want %s", e.Kind, kind)
	}
	if e.Provider == "" {
		t.Error("the error does not say who failed")
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has several lines: %q", err)
	}
	if s.Key != "" && strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), s.Key) {
		t.Error("the error shows the key")
	}
}
