package builtin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

func shellStart(e *Env) tool.Tool {
	return newLineTool(e, "shell_start",
		"Start a command line in the workspace root and leave it running, for example a server; the answer is its handle. "+
			fmt.Sprintf("At most %d run at one time. They end with the run and cannot be taken up again after it. ", maxHandles)+shellGrammar,
		e.startHandle)
}

func (e *Env) startHandle(ctx context.Context, c tool.Call, line *shellLine) (tool.Result, error) {
	h, err := e.Handles.start(ctx, e, c, line)
	if h == nil {
		if errors.Is(err, errHandleLimit) || errors.Is(err, errRunOver) {
			return failed("shell_start refused", "shell_start refused", err.Error()+". Nothing was started."), nil
		}
		return failed("shell_start failed", "shell_start error", reason(err)), nil
	}
	if err != nil {
		return tool.Result{}, err
	}
	if err := ended(ctx); err != nil {
		return tool.Result{}, err
	}
	head := fmt.Sprintf("shell_start handle %d: %s", h.n, h.state())
	body := within(oneLine(line.text), 300)
	if h.over() {
		// What it said is the reason, and is read here so that nobody has to ask.
		if text, skipped := e.Handles.read(c.Step, h, e.handleRoom(head)); strings.TrimSpace(text) != "" {
			head, body = head+passedOver(skipped), strings.TrimRight(text, "\n")
		}
	}
	return tool.Result{
		Text: observation(head, body), Decision: fmt.Sprintf("shell_start handle %d", h.n),
		Kind: trace.ObsTool, Target: line.text,
	}, nil
}

// handleTool makes a tool that takes the number of a handle. The line behind it
// was permitted when it was started.
func handleTool(e *Env, name, description string, call func(context.Context, tool.Call, int) (tool.Result, error)) tool.Tool {
	return &act{
		spec: tool.Spec{
			Name: name, Description: description, Origin: trace.OriginShell,
			Schema: schema([]string{"handle"}, "handle", `{"type":"integer","minimum":1,"description":"the handle that shell_start gave"}`),
		},
		needs: func(tool.Call) ([]policy.Need, error) { return nil, nil },
		call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
			in, err := decode[struct {
				Handle *int64 `json:"handle"`
			}](c)
			if err == nil && in.Handle == nil {
				err = missing("handle", "the number that shell_start gave")
			}
			if err == nil && (*in.Handle < 1 || *in.Handle > math.MaxInt32) {
				err = &tool.ArgsError{Field: "handle", Reason: fmt.Sprintf("is %d: it must be the number that shell_start gave", *in.Handle)}
			}
			if err != nil {
				return failed(name+" missing handle", name+" error", err.Error()), nil
			}
			return call(ctx, c, int(*in.Handle))
		},
	}
}

func unknownHandle(name string, n int) tool.Result {
	return failed(fmt.Sprintf("%s unknown handle %d", name, n), name+" error", fmt.Sprintf("there is no handle %d: shell_start gives one", n))
}

func shellPoll(e *Env) tool.Tool {
	return handleTool(e, "shell_poll",
		fmt.Sprintf("Tell whether a command that shell_start left running still runs, and return only what it printed since the last poll: at most the newest %s bytes.", commas(pollWindow)),
		func(_ context.Context, c tool.Call, n int) (tool.Result, error) {
			h, past, ok := e.Handles.find(n)
			if !ok {
				return unknownHandle("shell_poll", n), nil
			}
			state, text, skipped := past, "", int64(0)
			if h != nil {
				// The state first: what an ended command printed is complete.
				state = h.state()
			}
			head := fmt.Sprintf("shell_poll handle %d: %s", n, state)
			if h != nil {
				text, skipped = e.Handles.read(c.Step, h, e.handleRoom(head))
			}
			e.Handles.journal.Polled(c.Step, n, len(text))
			head += passedOver(skipped)
			body := strings.TrimRight(text, "\n")
			if body == "" {
				body = "(no new output)"
			}
			return tool.Result{
				Text: observation(head, body), Decision: fmt.Sprintf("shell_poll handle %d (%d bytes)", n, len(text)), Kind: trace.ObsTool,
			}, nil
		})
}

func shellKill(e *Env) tool.Tool {
	return handleTool(e, "shell_kill",
		"End a command that shell_start left running, with everything that it started. What is left running when the run ends is ended as well.",
		func(ctx context.Context, c tool.Call, n int) (tool.Result, error) {
			h, past, ok := e.Handles.find(n)
			switch {
			case !ok:
				return unknownHandle("shell_kill", n), nil
			case h == nil && past.Orphaned:
				return failed(fmt.Sprintf("shell_kill handle %d refused", n), "shell_kill refused", fmt.Sprintf("handle %d is %s. Nothing is left of it to end.", n, past)), nil
			case h == nil:
				return killResult(n, overAlready(n, past), ""), nil
			}
			was := h.over()
			if !was {
				if err := e.Handles.snapshot(ctx, h); err != nil {
					return tool.Result{}, err
				}
				e.Handles.kill(ctx, "shell_kill", h)
			}
			head := fmt.Sprintf("shell_kill handle %d: %s", n, h.state())
			if was {
				head = overAlready(n, h.state())
			}
			text, skipped := e.Handles.read(c.Step, h, e.handleRoom(head))
			if err := e.Handles.settle(ctx, c.Step, h); err != nil {
				return tool.Result{}, err
			}
			return killResult(n, head+passedOver(skipped), text), nil
		})
}

// handleRoom is how many bytes of output have room in an observation below its head.
func (e *Env) handleRoom(head string) int { return e.entryCap() - runes(head) - elisionRoom }

// passedOver tells in a head of output that is not shown.
func passedOver(skipped int64) string {
	if skipped == 0 {
		return ""
	}
	return fmt.Sprintf("; %s bytes before this are passed over", commas(skipped))
}

func overAlready(n int, s HandleState) string {
	return fmt.Sprintf("shell_kill handle %d: it had ended already: %s", n, s)
}

func killResult(n int, head, text string) tool.Result {
	return tool.Result{
		Text: observation(head, strings.TrimRight(text, "\n")), Decision: fmt.Sprintf("shell_kill handle %d", n), Kind: trace.ObsTool,
	}
}
