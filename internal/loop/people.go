package loop

import (
	"context"
	"errors"
	"time"

	"github.com/initorigin/io-harness-go/internal/builtin"
	"github.com/initorigin/io-harness-go/tool"
)

// A runTool acts on the run that it belongs to: it asks a person, ends the
// planning, or writes what the run keeps of itself. It needs no permission, since
// it touches nothing else, and it is performed on the loop's own path, in its
// place among the calls of its step, because it may pause the step.
type runTool struct {
	spec    tool.Spec
	perform func(ctx context.Context, st *step, c *call) error
}

var _ tool.Tool = (*runTool)(nil)

// errNeedsRun answers whoever calls such a tool beside a run.
var errNeedsRun = errors.New("this tool acts on the run that offers it, and cannot be called from elsewhere")

func (t *runTool) Spec() tool.Spec { return t.spec }

func (t *runTool) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{}, errNeedsRun
}

// runTools are the tools that every run offers beside those of package builtin.
func (d *drive) runTools() []tool.Tool {
	return []tool.Tool{d.askQuestionTool(), d.askQuestionsTool(), d.todoTool(), d.rememberTool(), d.forgetTool()}
}

// libraryTools are all tools of the library in the order of its catalogue.
func (d *drive) libraryTools() []tool.Tool {
	return builtin.Arrange(append(d.builtinTools(), d.runTools()...))
}

// await asks somebody, and looks meanwhile whether another process has put its
// answer into the row. It returns own when the word is the one that was asked
// for here; otherwise the row has the answer. Nothing but ctx bounds the wait,
// and what was recorded so far is durable before it begins.
func await[T any](ctx context.Context, d *drive, ask func(context.Context) T, landed func(context.Context) (bool, error)) (word T, own bool, err error) {
	if err := d.lease.Flush(ctx); err != nil {
		return word, false, err
	}
	askCtx, stop := context.WithCancel(ctx)
	words, done := make(chan T, 1), make(chan struct{})
	go func() {
		defer close(done)
		words <- ask(askCtx)
	}()
	defer func() {
		stop()
		select {
		case <-done:
		case <-time.After(toolGrace):
			d.log.Error("somebody who was asked ignores the end of the wait and is left behind", "run", d.runID())
		}
	}()
	tick := time.NewTicker(attachPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return word, false, context.Cause(ctx)
		case <-done:
			select {
			case word = <-words:
			default:
				d.log.Error("somebody who was asked ended without a word, which says nothing", "run", d.runID())
			}
			if ctx.Err() != nil {
				return word, false, context.Cause(ctx)
			}
			return word, true, nil
		case <-tick.C:
			there, err := landed(ctx)
			if err != nil || there {
				return word, false, err
			}
		}
	}
}
