package scripted

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/provider"
)

var (
	_ provider.Provider      = (*Model)(nil)
	_ provider.ModelHinter   = (*Model)(nil)
	_ provider.ImageAccepter = (*Model)(nil)
	_ provider.FamilyHinter  = (*Model)(nil)
)

// turnUsage is what a turn reports that says nothing about its usage.
var turnUsage = provider.Usage{PromptTokens: 100, CompletionTokens: 20, TotalTokens: 120}

// A Model is a scripted provider. The exported fields may be set before its
// first use and not after. Complete may be called from several goroutines;
// turns are handed out in the order in which the calls arrive.
type Model struct {
	Label  string          // name in the trace; "" means "scripted"
	Hint   string          // the model it claims to be, and the Model of its responses
	Family provider.Family // "" means what Hint suggests
	Blind  bool            // refuses images, as a text-only model does
	Quiet  bool            // neither streams nor reports calls early

	each Turn // a function for every request; nil when there is a list

	mu       sync.Mutex
	turns    []Turn
	next     int
	requests []*provider.Request
}

// New is a model that answers its n-th request with the n-th turn. A request
// after the last turn fails with a terminal *provider.Error that wraps
// ErrExhausted.
func New(turns ...Turn) *Model { return &Model{turns: turns} }

// Func is a model that answers every request by fn, which may be called from
// several goroutines at once. A response without Usage reports none, so that no
// budget of tokens draws anything; one made by a helper, as in
//
//	return scripted.Say("done")(ctx, req)
//
// reports what that helper says.
func Func(fn func(ctx context.Context, req *provider.Request) (*provider.Response, error)) *Model {
	return &Model{each: fn}
}

// Name returns Label, or "scripted".
func (m *Model) Name() string {
	if m.Label != "" {
		return m.Label
	}
	return "scripted"
}

// Endpoints returns nil: a script dials nothing.
func (m *Model) Endpoints() []string { return nil }

// ModelHint returns Hint.
func (m *Model) ModelHint() string { return m.Hint }

// AcceptsImages reports whether the model is not Blind.
func (m *Model) AcceptsImages() bool { return !m.Blind }

// PromptFamily returns Family, or what Hint suggests.
func (m *Model) PromptFamily() provider.Family {
	if m.Family != "" {
		return m.Family
	}
	return provider.FamilyOf(m.Hint)
}

// Requests returns copies of all requests so far, oldest first, those included
// that were answered by a failure.
func (m *Model) Requests() []*provider.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*provider.Request, len(m.requests))
	for i, r := range m.requests {
		out[i] = r.Clone()
	}
	return out
}

// Remaining is how many turns of a list have not been handed out.
func (m *Model) Remaining() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.turns) - m.next
}

// Push appends turns to the list.
func (m *Model) Push(turns ...Turn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turns = append(m.turns, turns...)
}

// Complete answers with the next turn. A turn that panics is not caught: the
// script is the caller's own code.
func (m *Model) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name(), ended(ctx))
	}
	if m.Blind && len(req.Media) > 0 {
		return nil, &provider.ConfigError{Provider: m.Name(), Message: "the model takes no images: send none, or unset Blind"}
	}
	turn, err := m.take(req)
	if err != nil {
		return nil, err
	}
	resp, err := turn(ctx, req.Clone())
	if err != nil {
		return nil, m.named(err)
	}
	if resp == nil {
		return nil, fmt.Errorf("%s: the script returned neither a response nor an error", m.Name())
	}
	return m.settle(ctx, resp.Clone(), on)
}

func (m *Model) take(req *provider.Request) (Turn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, req.Clone())
	if m.each != nil {
		return m.each, nil
	}
	if m.next >= len(m.turns) {
		return nil, m.exhausted()
	}
	t := m.turns[m.next]
	m.next++
	return t, nil
}

// named fills in who failed, without touching an error that the script may
// share between turns.
func (m *Model) named(err error) error {
	if e, ok := err.(*provider.Error); ok && e.Provider == "" {
		c := *e
		c.Provider = m.Name()
		return &c
	}
	return err
}

// settle completes what a turn left out and plays the response to the sink the
// way a live stream does: text in small deltas, then each finished call.
func (m *Model) settle(ctx context.Context, resp *provider.Response, on provider.Sink) (*provider.Response, error) {
	for i := range resp.Calls {
		if resp.Calls[i].ID == "" {
			resp.Calls[i].ID = fmt.Sprintf("call_%d", i)
		}
		if len(resp.Calls[i].Arguments) == 0 {
			resp.Calls[i].Arguments = []byte("{}")
		}
	}
	if resp.Model == "" {
		resp.Model = m.Hint
	}
	if resp.FinishReason == "" && resp.Finish == "" {
		resp.FinishReason = "stop"
		if len(resp.Calls) > 0 {
			resp.FinishReason = "tool_calls"
		}
	}
	if m.Quiet {
		return resp, nil
	}
	if on.Token != nil {
		for _, d := range deltas(resp.Text) {
			on.Token(d)
			if ctx.Err() != nil {
				return nil, fmt.Errorf("%s: %w", m.Name(), ended(ctx))
			}
		}
	}
	if on.Call != nil {
		for i, c := range resp.Calls {
			if c.ArgumentsError != "" {
				break // a live stream never sees such a call complete
			}
			on.Call(i, c)
		}
	}
	return resp, nil
}

// ended is why ctx ended: always its own error, and the cause beside it when
// there is a particular one.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return errors.Join(ctx.Err(), cause)
	}
	return ctx.Err()
}

// deltas cuts a text behind its spaces and line ends, about as a tokenizer
// would, and long words every 16 characters.
func deltas(s string) []string {
	var out []string
	start, runes := 0, 0
	for i, r := range s {
		runes++
		if strings.ContainsRune(" \n\t", r) || runes == 16 {
			end := i + utf8.RuneLen(r)
			if r == utf8.RuneError {
				_, size := utf8.DecodeRuneInString(s[i:])
				end = i + size
			}
			out = append(out, s[start:end])
			start, runes = end, 0
		}
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}
