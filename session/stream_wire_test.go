package session_test

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/trace"
)

// cutting streams a text in pieces of size bytes, wherever they end.
type cutting struct {
	size int
	text string
}

func (*cutting) Name() string        { return "cutting" }
func (*cutting) Endpoints() []string { return nil }

func (m *cutting) Complete(_ context.Context, _ *provider.Request, on provider.Sink) (*provider.Response, error) {
	for s := m.text; s != "" && on.Token != nil; {
		n := min(m.size, len(s))
		on.Token(s[:n])
		s = s[n:]
	}
	return &provider.Response{Text: m.text, FinishReason: "stop"}, nil
}

func TestNoDeltaCutsACharacter(t *testing.T) {
	for _, text := range []string{words, "🙂🙂🙂", "a\xffb", "the end is cut \xf0\x9f", "a\x00b"} {
		for size := 1; size <= 5; size++ {
			f := newFixture(t)
			f.cfg.Provider = &cutting{size, text}
			turn := f.turn(f.open(), "hi", session.WithObserver(trace.ObserverFunc(func(ev trace.Event) trace.Flow {
				if tok, ok := ev.Fact.(trace.Token); ok && !utf8.ValidString(tok.Text) {
					t.Errorf("%q in pieces of %d: the delta %q is no text", text, size, tok.Text)
				}
				return f.seen.Observe(ev)
			})))
			if got := f.seen.text(); got != turn.Reply {
				t.Errorf("pieces of %d: streamed %q, replied %q", size, got, turn.Reply)
			}
		}
	}
}

func TestAProviderThatDoesNotStreamGivesOneDelta(t *testing.T) {
	f := newFixture(t, scripted.Call("read_file", map[string]string{"path": "a"}).Saying("I look."), read("b"), scripted.Say(words))
	f.model.Quiet = true
	f.turn(f.open(), "hi", session.WithObserver(f.seen))
	var got []string
	for _, ev := range f.seen.all {
		switch fact := ev.Fact.(type) {
		case trace.Token:
			got = append(got, fact.Text)
		case trace.StepCommitted:
			got = append(got, "step")
		}
	}
	if want := "I look.|step|step|" + words + "|step"; strings.Join(got, "|") != want {
		t.Errorf("deltas and steps %q, want %q", got, want)
	}
}

// The words of a completion are shown while it is being made, and before what
// follows from it.
func TestDeltasArriveWhileTheProviderSpeaks(t *testing.T) {
	f := newFixture(t)
	heard := make(chan struct{})
	f.cfg.Provider = speaking(func(on provider.Sink) {
		on.Token("first ")
		select {
		case <-heard:
		case <-time.After(20 * time.Second):
			t.Error("the first delta was not shown before the second was spoken")
		}
		on.Token("second")
	})
	once := false
	f.turn(f.open(), "hi", session.WithObserver(trace.ObserverFunc(func(ev trace.Event) trace.Flow {
		if ev.Kind() == "token" && !once {
			once = true
			close(heard)
		}
		return f.seen.Observe(ev)
	})))
	if kinds := strings.Join(f.seen.kinds(), " "); !strings.Contains(kinds, "token token finished") {
		t.Errorf("events %s", kinds)
	}
}

// speaking is a provider that says "first second" its own way.
type speaking func(on provider.Sink)

func (speaking) Name() string        { return "speaking" }
func (speaking) Endpoints() []string { return nil }

func (m speaking) Complete(_ context.Context, _ *provider.Request, on provider.Sink) (*provider.Response, error) {
	m(on)
	return &provider.Response{Text: "first second", FinishReason: "stop"}, nil
}
