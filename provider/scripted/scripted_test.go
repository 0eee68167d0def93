package scripted_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

func ask(text string) *provider.Request {
	return &provider.Request{Messages: []provider.Message{provider.User(text)}}
}

func TestTurnsAreGivenInOrderAndThenRunOut(t *testing.T) {
	m := scripted.New(scripted.Call("look", map[string]any{"n": 1}), scripted.Say("done"))
	ctx := context.Background()

	first, err := m.Complete(ctx, ask("a"), provider.Sink{})
	if err != nil {
		t.Fatal(err)
	}
	want := []provider.ToolCall{{ID: "call_0", Name: "look", Arguments: []byte(`{"n":1}`)}}
	if d := cmp.Diff(want, first.Calls); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	if first.Ending() != provider.FinishToolCalls {
		t.Errorf("ending = %q, want tool_calls", first.Ending())
	}
	second, err := m.Complete(ctx, ask("b"), provider.Sink{})
	if err != nil || second.Text != "done" || !second.Ending().Ends() {
		t.Fatalf("second = %+v, %v; want the text done and an ending", second, err)
	}
	if second.Usage == nil || second.Usage.TotalTokens == 0 {
		t.Errorf("usage = %v, want the fixed default", second.Usage)
	}

	_, err = m.Complete(ctx, ask("c"), provider.Sink{})
	if !errors.Is(err, scripted.ErrExhausted) {
		t.Fatalf("third = %v, want ErrExhausted", err)
	}
	e, ok := provider.AsError(err)
	if !ok || e.Retryable() {
		t.Errorf("exhaustion = %v, want a terminal *provider.Error", err)
	}
	if !strings.Contains(err.Error(), "2 turns") {
		t.Errorf("exhaustion %q does not say how many turns there were", err)
	}
	if got := len(m.Requests()); got != 3 {
		t.Errorf("saw %d requests, want 3", got)
	}
}

func TestStreamsWhatItReturns(t *testing.T) {
	text := "über die Straße — naïve 🙂 words\nand a verylongwordthatmustbecutsomewhere \xff end"
	m := scripted.New(scripted.Calls(scripted.Tool("a", nil), scripted.Tool("b", `{"x": 1}`)).Saying(text))
	var got strings.Builder
	var deltas int
	var calls []provider.ToolCall
	resp, err := m.Complete(context.Background(), ask("x"), provider.Sink{
		Token: func(s string) {
			if len(calls) > 0 {
				t.Error("a token came after a call")
			}
			got.WriteString(s)
			deltas++
		},
		Call: func(i int, c provider.ToolCall) {
			if i != len(calls) {
				t.Errorf("call %d reported at position %d", len(calls), i)
			}
			calls = append(calls, c)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != resp.Text || deltas < 5 {
		t.Errorf("streamed %d deltas making %q, want several making %q", deltas, got.String(), resp.Text)
	}
	if d := cmp.Diff(resp.Calls, calls); d != "" {
		t.Errorf("reported calls differ from the settled ones:\n%s", d)
	}
}

func TestQuietModelReportsNothing(t *testing.T) {
	m := scripted.New(scripted.Call("a", nil).Saying("text"))
	m.Quiet = true
	_, err := m.Complete(context.Background(), ask("x"), provider.Sink{
		Token: func(string) { t.Error("streamed") },
		Call:  func(int, provider.ToolCall) { t.Error("reported") },
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBrokenArgumentsAreToldAndNeverReportedEarly(t *testing.T) {
	m := scripted.New(scripted.Calls(scripted.Tool("ok", nil), scripted.Tool("bad", `{"a":1`), scripted.Tool("later", nil)))
	var early int
	resp, err := m.Complete(context.Background(), ask("x"), provider.Sink{Call: func(int, provider.ToolCall) { early++ }})
	if err != nil {
		t.Fatal(err)
	}
	if early != 1 {
		t.Errorf("%d calls reported early, want the one before the broken one", early)
	}
	bad := resp.Calls[1]
	if string(bad.Arguments) != "{}" || !strings.Contains(bad.ArgumentsError, "not valid JSON") {
		t.Errorf("broken call = %s, %q", bad.Arguments, bad.ArgumentsError)
	}
}

func TestFunctionReactsToResults(t *testing.T) {
	m := scripted.Func(func(_ context.Context, req *provider.Request) (*provider.Response, error) {
		if r, ok := scripted.LastResult(req, "weather"); ok {
			return &provider.Response{Text: "it is " + r}, nil
		}
		return &provider.Response{Calls: []provider.ToolCall{scripted.Tool("weather", nil)}}, nil
	})
	ctx := context.Background()
	req := ask("weather?")
	first, err := m.Complete(ctx, req, provider.Sink{})
	if err != nil {
		t.Fatal(err)
	}
	req.Messages = append(req.Messages, first.Message(),
		provider.Results(provider.ToolResult{CallID: first.Calls[0].ID, Content: "raining"}))
	second, err := m.Complete(ctx, req, provider.Sink{})
	if err != nil || second.Text != "it is raining" {
		t.Fatalf("second = %v, %v", second, err)
	}
}

func TestFailuresAreTypedAndNamed(t *testing.T) {
	shared := &provider.Error{Kind: provider.RateLimited, Status: 429}
	m := scripted.New(scripted.Fail(shared), scripted.FailKind(provider.Auth, "no"), scripted.Say("ok"))
	m.Label = "pretend"
	ctx := context.Background()
	_, err := m.Complete(ctx, ask("x"), provider.Sink{})
	if e, ok := provider.AsError(err); !ok || e.Provider != "pretend" || !errors.Is(err, provider.RateLimited) || !e.Retryable() {
		t.Errorf("first failure = %v", err)
	}
	if shared.Provider != "" {
		t.Error("the script's own error was changed")
	}
	if _, err = m.Complete(ctx, ask("x"), provider.Sink{}); !errors.Is(err, provider.Auth) {
		t.Errorf("second failure = %v, want Auth", err)
	}
	if _, err = m.Complete(ctx, ask("x"), provider.Sink{}); err != nil {
		t.Errorf("third = %v, want an answer", err)
	}
}

func TestCancellationIsTheContextsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(scripted.Hang(), scripted.Say("late").After(time.Hour))
		for _, name := range []string{"hanging", "slow"} {
			cause := errors.New("enough")
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			_, err := m.Complete(ctx, ask("x"), provider.Sink{})
			if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
				t.Errorf("%s turn returned %v, want context.Canceled and its cause", name, err)
			}
			if _, ok := provider.AsError(err); ok {
				t.Errorf("%s turn made a provider error of a cancellation", name)
			}
		}
	})
}

func TestRequestsAreCopies(t *testing.T) {
	m := scripted.New(scripted.Say("x"))
	req := ask("before")
	req.Messages = append(req.Messages, provider.Assistant("", scripted.Tool("t", `{"a":1}`)))
	if _, err := m.Complete(context.Background(), req, provider.Sink{}); err != nil {
		t.Fatal(err)
	}
	req.Messages[0].Text = "after"
	req.Messages[1].Calls[0].Arguments[2] = 'b'
	m.Requests()[0].Messages[0].Text = "meddled"
	got := m.Requests()[0]
	if got.Messages[0].Text != "before" || string(got.Messages[1].Calls[0].Arguments) != `{"a":1}` {
		t.Errorf("kept request changed: %+v", got)
	}
}

func TestManyAgentsMayAskAtOnce(t *testing.T) {
	const n = 50
	var turns []scripted.Turn
	for i := range n {
		turns = append(turns, scripted.Say(fmt.Sprint(i)))
	}
	m := scripted.New(turns...)
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			r, err := m.Complete(context.Background(), ask("x"), provider.Sink{})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[r.Text] {
				t.Errorf("turn %s was given twice", r.Text)
			}
			seen[r.Text] = true
		})
	}
	wg.Wait()
	if len(seen) != n || m.Remaining() != 0 {
		t.Errorf("%d distinct turns, %d left; want %d and 0", len(seen), m.Remaining(), n)
	}
}

func TestBlindModelRefusesImages(t *testing.T) {
	m := scripted.New(scripted.Say("x"))
	m.Blind = true
	img, err := provider.Image("image/png", []byte("png"))
	if err != nil {
		t.Fatal(err)
	}
	req := ask("look")
	req.Media = []provider.Media{img}
	_, err = m.Complete(context.Background(), req, provider.Sink{})
	var ce *provider.ConfigError
	if !errors.As(err, &ce) || provider.AcceptsImages(m) {
		t.Errorf("err = %v, accepts = %v; want a ConfigError and false", err, provider.AcceptsImages(m))
	}
	if m.Remaining() != 1 {
		t.Error("the refusal used up a turn")
	}
}

func TestAScriptedAnswerKeepsItsPrivateMemory(t *testing.T) {
	turn := scripted.Say("same")
	m := scripted.New(turn, turn)
	a, _ := m.Complete(context.Background(), ask("x"), provider.Sink{})
	a.Usage.TotalTokens = -1
	b, _ := m.Complete(context.Background(), ask("x"), provider.Sink{})
	if b.Usage.TotalTokens == -1 {
		t.Error("two answers of one turn share their usage")
	}
}
