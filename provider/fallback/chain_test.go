package fallback_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/fallback"
	"github.com/initorigin/io-harness-go/provider/providertest"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

func always(label string, turn scripted.Turn) *scripted.Model {
	m := scripted.Func(turn)
	m.Label = label
	return m
}

func chain(t *testing.T, providers ...provider.Provider) *fallback.Chain {
	t.Helper()
	c, err := fallback.New(providers...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ask() *provider.Request { return &provider.Request{User: "q"} }

func TestConformance(t *testing.T) {
	down := scripted.FailKind(provider.Server, "down")
	through := func(turn scripted.Turn) func(*testing.T) provider.Provider {
		return func(t *testing.T) provider.Provider { return chain(t, always("a", down), always("b", turn)) }
	}
	providertest.Run(t, providertest.Suite{
		Text:  through(scripted.Say("some words")),
		Calls: through(scripted.Calls(scripted.Tool("x", nil), scripted.Tool("y", nil))),
		Hang:  through(scripted.Hang()),
		Fails: map[provider.Kind]func(*testing.T) provider.Provider{
			provider.Timeout: through(scripted.FailKind(provider.Timeout, "late")),
			provider.Auth: func(t *testing.T) provider.Provider {
				return chain(t, always("a", scripted.FailKind(provider.Auth, "no")), always("b", scripted.Say("never")))
			},
		},
	})
}

func TestWhoIsAsked(t *testing.T) {
	for kind, over := range map[provider.Kind]bool{
		provider.Transport: true, provider.Timeout: true, provider.RateLimited: true, provider.Server: true, provider.Malformed: true,
		provider.Auth: false, provider.Quota: false, provider.InvalidRequest: false, provider.ContextOverflow: false,
	} {
		t.Run(string(kind), func(t *testing.T) {
			a, b := always("a", scripted.FailKind(kind, "x")), always("b", scripted.Say("from b"))
			resp, err := chain(t, a, b).Complete(context.Background(), ask(), provider.Sink{})
			if len(a.Requests()) != 1 || (len(b.Requests()) == 1) != over {
				t.Errorf("asked %d and %d times", len(a.Requests()), len(b.Requests()))
			}
			if over && (err != nil || resp.ServedBy != "b") || !over && !errors.Is(err, kind) {
				t.Errorf("got %+v, %v", resp, err)
			}
		})
	}
	t.Run("a configuration error stays", func(t *testing.T) {
		b := always("b", scripted.Say("never"))
		_, err := chain(t, always("a", scripted.Fail(&provider.ConfigError{Message: "no"})), b).Complete(context.Background(), ask(), provider.Sink{})
		var ce *provider.ConfigError
		if !errors.As(err, &ce) || len(b.Requests()) != 0 {
			t.Errorf("error = %v, second asked %d times", err, len(b.Requests()))
		}
	})
	t.Run("what the second cannot carry is said", func(t *testing.T) {
		b := always("b", scripted.Fail(&provider.ConfigError{Provider: "b", Message: "no web access here"}))
		_, err := chain(t, always("a", scripted.FailKind(provider.Server, "down")), b).Complete(context.Background(), ask(), provider.Sink{})
		var ce *provider.ConfigError
		if !errors.As(err, &ce) || ce.Provider != "b" {
			t.Errorf("error = %v, want the second one's ConfigError", err)
		}
	})
	t.Run("a cancellation stays", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		b := always("b", scripted.Say("never"))
		a := always("a", func(context.Context, *provider.Request) (*provider.Response, error) {
			cancel()
			return nil, &provider.Error{Kind: provider.Transport}
		})
		if _, err := chain(t, a, b).Complete(ctx, ask(), provider.Sink{}); err == nil || len(b.Requests()) != 0 {
			t.Errorf("error = %v, second asked %d times", err, len(b.Requests()))
		}
	})
	t.Run("a healthy first leaves no mark", func(t *testing.T) {
		resp, err := chain(t, always("a", scripted.Say("x")), always("b", scripted.Say("never"))).Complete(context.Background(), ask(), provider.Sink{})
		if err != nil || resp.ServedBy != "" {
			t.Errorf("got %+v, %v", resp, err)
		}
	})
	t.Run("both down is the last one's error with the usage of both", func(t *testing.T) {
		fail := func(n int64) scripted.Turn {
			return scripted.Fail(&provider.Error{Kind: provider.Server, Usage: &provider.Usage{TotalTokens: n}})
		}
		_, err := chain(t, always("a", fail(3)), always("b", fail(4))).Complete(context.Background(), ask(), provider.Sink{})
		if e, ok := provider.AsError(err); !ok || e.Provider != "b" || e.Usage.TotalTokens != 7 {
			t.Errorf("error = %+v", err)
		}
	})
}

func TestTheLeafThatAnsweredIsNamed(t *testing.T) {
	down := scripted.FailKind(provider.Server, "down")
	up := scripted.Say("x")
	for _, tc := range []struct {
		name string
		make func() provider.Provider
		want string
	}{
		{"a -> (b -> c), c answers", func() provider.Provider {
			return chain(t, always("a", down), chain(t, always("b", down), always("c", up)))
		}, "c"},
		{"a -> (b -> c), b answers", func() provider.Provider {
			return chain(t, always("a", down), chain(t, always("b", up), always("c", up)))
		}, "b"},
		{"(a -> b) -> c, b answers", func() provider.Provider {
			return chain(t, chain(t, always("a", down), always("b", up)), always("c", up))
		}, "b"},
		{"(a -> b) -> c, a answers", func() provider.Provider {
			return chain(t, chain(t, always("a", up), always("b", up)), always("c", up))
		}, ""},
		{"three in a row", func() provider.Provider { return chain(t, always("a", down), always("b", down), always("c", up)) }, "c"},
	} {
		resp, err := tc.make().Complete(context.Background(), ask(), provider.Sink{})
		if err != nil || resp.ServedBy != tc.want {
			t.Errorf("%s: %+v, %v; want served by %q", tc.name, resp, err, tc.want)
		}
	}
}

func TestEachOfManyAnswersNamesItsOwnLeaf(t *testing.T) {
	// The first provider answers half of the questions.
	a := always("a", func(_ context.Context, r *provider.Request) (*provider.Response, error) {
		if r.User == "0" {
			return &provider.Response{Text: "a"}, nil
		}
		return nil, &provider.Error{Kind: provider.Server}
	})
	c := chain(t, a, always("b", scripted.Say("b")))
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			resp, err := c.Complete(context.Background(), &provider.Request{User: fmt.Sprint(i % 2)}, provider.Sink{})
			want := []string{"", "b"}[i%2]
			if err != nil || resp.ServedBy != want {
				t.Errorf("question %d: %+v, %v; want served by %q", i, resp, err, want)
			}
		})
	}
	wg.Wait()
}

func TestWhatTheChainSaysOfItself(t *testing.T) {
	a, b := always("a", scripted.Say("x")), always("b", scripted.Say("x"))
	a.Hint, b.Hint = "claude-x", "gpt-x"
	nested := chain(t, a, chain(t, b, always("c", scripted.Say("x"))))
	if nested.Name() != "a -> b -> c" || provider.ModelHint(nested) != "claude-x" || provider.PromptFamily(nested) != provider.FamilyAnthropic || !provider.AcceptsImages(nested) {
		t.Errorf("chain = %s, %s, %s", nested.Name(), provider.ModelHint(nested), provider.PromptFamily(nested))
	}
	if rows, err := provider.Models(context.Background(), nested); rows != nil || err != nil {
		t.Errorf("models = %v, %v; neither catalogue is the chain's", rows, err)
	}
	b.Blind = true
	if provider.AcceptsImages(nested) {
		t.Error("the chain accepts images that its second provider does not")
	}
	two := chain(t, dials{a, "http://a/"}, dials{b, "http://b/"})
	if d := cmp.Diff([]string{"http://a/", "http://b/"}, two.Endpoints()); d != "" {
		t.Errorf("endpoints:\n%s", d)
	}
	for _, down := range []bool{true, false} {
		c := chain(t, reach{a, !down}, reach{b, down})
		if ok, _ := provider.Reachable(context.Background(), c); ok == down {
			t.Errorf("reachable = %v with the first down: %v", ok, down)
		}
	}
}

type dials struct {
	provider.Provider
	at string
}

func (d dials) Endpoints() []string { return []string{d.at} }

type reach struct {
	provider.Provider
	up bool
}

func (r reach) Reachable(context.Context) (bool, error) { return r.up, nil }

func TestAModelBelongsToItsVendor(t *testing.T) {
	down := scripted.FailKind(provider.Server, "down")
	for _, tc := range []struct {
		name   string
		second string
		models map[string]string
		want   string
	}{
		{"mapped", "b", map[string]string{"big": "b/big"}, "b/big"},
		{"without an entry its own model", "b", nil, ""},
		{"the same vendor again", "a", nil, "big"},
	} {
		b := always(tc.second, scripted.Say("x"))
		c, err := fallback.Of(fallback.Link{Provider: always("a", down)}, fallback.Link{Provider: b, Models: tc.models})
		if err != nil {
			t.Fatal(err)
		}
		req := ask()
		req.Model = "big"
		if _, err := c.Complete(context.Background(), req, provider.Sink{}); err != nil {
			t.Fatal(err)
		}
		if got := b.Requests()[0].Model; got != tc.want || req.Model != "big" {
			t.Errorf("%s: second was asked for %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestEarlyReportsEndWithTheProviderThatMadeThem(t *testing.T) {
	a := always("a", scripted.FailKind(provider.Malformed, "cut"))
	half := reporting{a}
	var calls []int
	var text strings.Builder
	c := chain(t, half, always("b", scripted.Calls(scripted.Tool("y", nil)).Saying("from b")))
	resp, err := c.Complete(context.Background(), ask(), provider.Sink{
		Token: func(s string) { text.WriteString(s) },
		Call:  func(i int, _ provider.ToolCall) { calls = append(calls, i) },
	})
	if err != nil || len(resp.Calls) != 1 {
		t.Fatalf("got %+v, %v", resp, err)
	}
	if fmt.Sprint(calls) != "[0]" {
		t.Errorf("positions reported: %v, want each once", calls)
	}
	if text.String() != "half from b" {
		t.Errorf("shown %q; deltas are not withdrawn", text.String())
	}
}

// reporting streams a little and reports a call before it fails.
type reporting struct{ provider.Provider }

func (r reporting) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	on.Token("half ")
	on.Call(0, provider.ToolCall{Name: "x", Arguments: []byte(`{}`)})
	return r.Provider.Complete(ctx, req, provider.Sink{})
}

func TestImagesNeedEveryProvider(t *testing.T) {
	a, b := always("a", scripted.Say("x")), always("b", scripted.Say("x"))
	b.Blind = true
	req := ask()
	req.Media = []provider.Media{{Type: "image/png", Base64: "AAAA"}}
	_, err := chain(t, a, b).Complete(context.Background(), req, provider.Sink{})
	var ce *provider.ConfigError
	if !errors.As(err, &ce) || len(a.Requests()) != 0 {
		t.Errorf("error = %v after %d requests, want a ConfigError before the first", err, len(a.Requests()))
	}
}

func TestChainsThatAreNone(t *testing.T) {
	var ce *provider.ConfigError
	if _, err := fallback.New(always("a", nil)); !errors.As(err, &ce) {
		t.Errorf("one provider: %v", err)
	}
	if _, err := fallback.New(always("a", nil), nil); !errors.As(err, &ce) {
		t.Errorf("a nil provider: %v", err)
	}
}

func TestFallingOverIsLogged(t *testing.T) {
	var b bytes.Buffer
	c := chain(t, always("a", scripted.FailKind(provider.Server, "secret words")), always("b", scripted.Say("x"))).WithLogger(slog.New(slog.NewTextHandler(&b, nil)))
	if _, err := c.Complete(context.Background(), ask(), provider.Sink{}); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	if !strings.Contains(got, "level=WARN") || !strings.Contains(got, "from=a to=b kind=Server") || strings.Contains(got, "secret words") {
		t.Errorf("log = %q", got)
	}
}

func TestAChainNamesEveryModelThatMayAnswer(t *testing.T) {
	model := func(label, hint string) *scripted.Model { return &scripted.Model{Label: label, Hint: hint} }
	inner, err := fallback.New(model("c", "c-own"), model("d", ""))
	if err != nil {
		t.Fatal(err)
	}
	c, err := fallback.Of(
		fallback.Link{Provider: model("a", "a-own")},
		fallback.Link{Provider: model("b", "b-own"), Models: map[string]string{"big": "b-big"}},
		fallback.Link{Provider: inner},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		asked string
		want  []string
	}{
		{"", []string{"a-own", "b-own", "c-own"}},
		{"big", []string{"big", "b-big", "c-own"}},
		{"other", []string{"other", "b-own", "c-own"}},
	} {
		if diff := cmp.Diff(tc.want, provider.ModelNames(c, tc.asked)); diff != "" {
			t.Errorf("asked for %q (-want +got):\n%s", tc.asked, diff)
		}
	}
}

func TestWhatFailedOnTheWayIsKept(t *testing.T) {
	used := func(n int64) *provider.Usage { return &provider.Usage{PromptTokens: n, TotalTokens: n} }
	broke := func(n int64) scripted.Turn {
		return scripted.Fail(&provider.Error{Kind: provider.Server, Status: 502, Usage: used(n)})
	}
	t.Run("beside the answer", func(t *testing.T) {
		inner := chain(t, always("b", scripted.FailKind(provider.Timeout, "late")), always("c", scripted.Say("x")))
		resp, err := chain(t, always("a", broke(50)), inner).Complete(context.Background(), ask(), provider.Sink{})
		if err != nil {
			t.Fatal(err)
		}
		want := []provider.FailedCall{{Provider: "a", Failure: "Server (HTTP 502)", Usage: used(50)}, {Provider: "b", Failure: "Timeout"}}
		got := resp.Clone().Failed
		for i := range got {
			if got[i].Took < 0 {
				t.Errorf("call %d took %s", i, got[i].Took)
			}
			got[i].Took = 0
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if got[0].Usage == resp.Failed[0].Usage {
			t.Error("a clone shares the usage")
		}
	})
	t.Run("not of one that answered at once", func(t *testing.T) {
		resp, err := chain(t, always("a", scripted.Say("x")), always("b", broke(1))).Complete(context.Background(), ask(), provider.Sink{})
		if err != nil || resp.Failed != nil {
			t.Errorf("%+v, %v", resp, err)
		}
	})
	t.Run("beside a failure of another kind", func(t *testing.T) {
		var ce *provider.ConfigError
		_, err := chain(t, always("a", broke(50)), always("b", scripted.Fail(&provider.ConfigError{Message: "no model"}))).Complete(context.Background(), ask(), provider.Sink{})
		if !errors.As(err, &ce) {
			t.Errorf("error %v", err)
		}
		if diff := cmp.Diff(used(50), provider.UsageOf(err)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("beside a failure that is wrapped in another", func(t *testing.T) {
		why := errors.New("why")
		last := scripted.Fail(fmt.Errorf("%w: %w", why, &provider.Error{Kind: provider.Auth, Usage: used(1)}))
		inner := chain(t, always("a", broke(50)), always("b", last))
		_, err := chain(t, inner, always("c", scripted.Say("never"))).Complete(context.Background(), ask(), provider.Sink{})
		if !errors.Is(err, why) || !errors.Is(err, provider.Auth) {
			t.Errorf("error %v", err)
		}
		if diff := cmp.Diff(used(51), provider.UsageOf(err)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("when the caller ends it", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		why := errors.New("enough")
		end := func(_ context.Context, _ *provider.Request) (*provider.Response, error) {
			cancel(why)
			return nil, &provider.Interrupted{Provider: "b", Usage: used(7), Err: context.Canceled}
		}
		_, err := chain(t, always("a", broke(50)), always("b", end)).Complete(ctx, ask(), provider.Sink{})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			t.Errorf("error %v", err)
		}
		if _, failed := provider.AsError(err); failed {
			t.Errorf("the end of the caller's context is a failure of the provider: %v", err)
		}
		if diff := cmp.Diff(used(57), provider.UsageOf(err)); diff != "" {
			t.Error(diff)
		}
	})
}

// mute breaks the contract: it returns nothing at all.
type mute struct{ provider.Provider }

func (mute) Complete(context.Context, *provider.Request, provider.Sink) (*provider.Response, error) {
	return nil, nil
}

func TestAProviderThatReturnsNothingHasFailed(t *testing.T) {
	broken := mute{always("a", nil)}
	resp, err := chain(t, broken, always("b", scripted.Say("x"))).Complete(context.Background(), ask(), provider.Sink{})
	if err != nil || resp.ServedBy != "b" || len(resp.Failed) != 1 || resp.Failed[0].Failure != "Malformed" {
		t.Errorf("got %+v, %v; want the answer of b", resp, err)
	}
	if _, err := chain(t, always("b", scripted.FailKind(provider.Server, "x")), broken).Complete(context.Background(), ask(), provider.Sink{}); !errors.Is(err, provider.Malformed) {
		t.Errorf("as the last one: %v, want Malformed", err)
	}
}

func TestNoLoggerLogsNothing(t *testing.T) {
	c := chain(t, always("a", scripted.FailKind(provider.Server, "x")), always("b", scripted.Say("x"))).WithLogger(nil)
	if _, err := c.Complete(context.Background(), ask(), provider.Sink{}); err != nil {
		t.Error(err)
	}
}

func TestAnEndedChainSaysSoOnOneLine(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := chain(t, always("a", scripted.Say("x")), always("b", scripted.Say("x"))).Complete(ctx, ask(), provider.Sink{})
	if !errors.Is(err, context.Canceled) || err.Error() != "a -> b: context canceled" {
		t.Errorf("error = %q", err)
	}
}
