package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

// ErrExhausted says that a script was asked for more turns than it has.
var ErrExhausted = errors.New("the script has no more turns")

// A Turn answers one request. It gets a copy of the request and may read the
// results of its earlier calls in it; any function of this type is a turn. The
// helpers below make the usual ones, and the methods refine them.
type Turn func(ctx context.Context, req *provider.Request) (*provider.Response, error)

func (m *Model) exhausted() error {
	return &provider.Error{
		Kind:     provider.InvalidRequest,
		Provider: m.Name(),
		Message:  fmt.Sprintf("the script has %d turns and was asked for one more: add a turn, or find out why the run did not stop", len(m.turns)),
		Err:      ErrExhausted,
	}
}

// Say answers with text and calls nothing.
func Say(text string) Turn {
	return Respond(&provider.Response{Text: text})
}

// Call answers with one tool call. args is marshalled to JSON; a string, a
// []byte or a json.RawMessage is taken as the text that the model wrote, valid
// or not, and treated as a live provider treats it.
func Call(name string, args any) Turn {
	return Calls(Tool(name, args))
}

// Calls answers with several tool calls at once.
func Calls(calls ...provider.ToolCall) Turn {
	return Respond(&provider.Response{Calls: calls})
}

// Tool is one call for Calls, with args as in Call. It panics when args cannot
// be marshalled.
func Tool(name string, args any) provider.ToolCall {
	var text string
	switch a := args.(type) {
	case nil:
	case string:
		text = a
	case []byte:
		text = string(a)
	case json.RawMessage:
		text = string(a)
	default:
		b, err := json.Marshal(a)
		if err != nil {
			panic(fmt.Sprintf("scripted: arguments of %s: %v", name, err))
		}
		text = string(b)
	}
	raw, problem := wire.Arguments(text)
	return provider.ToolCall{Name: name, Arguments: raw, ArgumentsError: problem}
}

// Respond answers with a copy of resp. Usage that is nil becomes 100 prompt and
// 20 completion tokens; ids of calls that are empty become call_0, call_1 and so
// on; an empty finish reason becomes stop or tool_calls.
func Respond(resp *provider.Response) Turn {
	fixed := resp.Clone()
	return func(context.Context, *provider.Request) (*provider.Response, error) {
		r := fixed.Clone()
		if r.Usage == nil {
			u := turnUsage
			r.Usage = &u
		}
		return r, nil
	}
}

// Fail fails with err, usually a *provider.Error.
func Fail(err error) Turn {
	return func(context.Context, *provider.Request) (*provider.Response, error) { return nil, err }
}

// FailKind fails with a *provider.Error of that kind.
func FailKind(kind provider.Kind, message string) Turn {
	return Fail(&provider.Error{Kind: kind, Message: message})
}

// Hang answers nothing and returns when ctx ends, as a dead vendor does.
func Hang() Turn {
	return func(ctx context.Context, _ *provider.Request) (*provider.Response, error) {
		<-ctx.Done()
		return nil, ended(ctx)
	}
}

// With changes the answer of t; a failure passes unchanged.
func (t Turn) With(change func(*provider.Response)) Turn {
	return func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		r, err := t(ctx, req)
		if err == nil && r != nil {
			change(r)
		}
		return r, err
	}
}

// Using makes the answer report this usage.
func (t Turn) Using(u provider.Usage) Turn {
	return t.With(func(r *provider.Response) { r.Usage = &u })
}

// Unmetered makes the answer report no usage at all.
func (t Turn) Unmetered() Turn {
	return t.With(func(r *provider.Response) { r.Usage = nil })
}

// Saying puts text beside the calls of the answer.
func (t Turn) Saying(text string) Turn {
	return t.With(func(r *provider.Response) { r.Text = text })
}

// Thinking gives the answer a reasoning text.
func (t Turn) Thinking(text string) Turn {
	return t.With(func(r *provider.Response) { r.Reasoning = text })
}

// Finishing gives the answer the vendor's word for how it ended.
func (t Turn) Finishing(reason string) Turn {
	return t.With(func(r *provider.Response) { r.FinishReason = reason })
}

// After makes the model think for d before t, or until ctx ends.
func (t Turn) After(d time.Duration) Turn {
	return func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return nil, ended(ctx)
		case <-timer.C:
			return t(ctx, req)
		}
	}
}

// LastResult is the newest result of a call to the tool of that name in req,
// so that a turn can react to it. Without such a result it returns false.
func LastResult(req *provider.Request, tool string) (string, bool) {
	for i := len(req.Messages) - 1; i > 0; i-- {
		m := req.Messages[i]
		if m.Role != provider.RoleTool || req.Messages[i-1].Role != provider.RoleAssistant {
			continue
		}
		for j := len(m.Results) - 1; j >= 0; j-- {
			for _, c := range req.Messages[i-1].Calls {
				if c.ID == m.Results[j].CallID && c.Name == tool {
					return m.Results[j].Content, true
				}
			}
		}
	}
	return "", false
}
