package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// deaf is a tool that does not hear the end of its context.
func deaf(t *testing.T, entered chan<- struct{}, opts ...tool.Option) tool.Tool {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	return tool.New("slow", "Does not stop.", func(context.Context, struct{}) (string, error) {
		if entered != nil {
			close(entered)
		}
		<-release
		return "at last", nil
	}, opts...)
}

func TestAToolThatIgnoresItsOwnTimeIsLeftBehindAndItsAttemptStaysOpen(t *testing.T) {
	t.Parallel() // it takes as long as the grace
	f := newFixture(t)
	m := f.script(scripted.Call("slow", nil), scripted.Say("I see"))
	res := f.must(trace.Finished, withTools(deaf(t, nil, tool.Timeout(10*time.Millisecond))))
	got, _ := scripted.LastResult(m.Requests()[1], "slow")
	if !strings.Contains(got, "left behind") || f.steps(res.RunID)[0].Decision != "slow abandoned" {
		t.Errorf("the model is told %q, decision %q", got, f.steps(res.RunID)[0].Decision)
	}
	open, err := f.store.OpenAttempts(context.Background(), res.RunID)
	if err != nil || len(open) != 1 || open[0].Tool != "slow" {
		t.Errorf("open attempts: %+v, %v", open, err)
	}
}

func TestAToolThatIgnoresTheEndOfTheRunIsAskedAboutByAResume(t *testing.T) {
	t.Parallel()
	f := newFixture(t, scripted.Call("slow", nil), scripted.Say("never"))
	entered := make(chan struct{})
	contract := f.contract(withTools(deaf(t, entered)))
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		<-entered
		stop()
	}()
	res, err := Run(ctx, f.host, contract, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%s, %v", res.Outcome, err)
	}
	m := f.script(scripted.Say("never"))
	again, err := f.resume(res.RunID, Resumption{Defaults: contract})
	if err != nil || again.Outcome.Kind != trace.AwaitingRecovery || len(m.Requests()) != 0 {
		t.Errorf("%s, %v, %d requests, want it to wait for a person's word", again.Outcome, err, len(m.Requests()))
	}
}

func TestReadsOfOneCompletionDoNotExceedTheirBound(t *testing.T) {
	const most, calls = 3, 20
	var running, seen atomic.Int32
	full := make(chan struct{})
	slow := tool.New("slow", "Counts who is there.", func(ctx context.Context, _ struct{}) (string, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for old := seen.Load(); n > old && !seen.CompareAndSwap(old, n); old = seen.Load() {
		}
		if n == most {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		select { // the first ones wait until as many are inside as may be
		case <-full:
			return "counted", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}, tool.ReadOnly)
	f := newFixture(t, scripted.Calls(slices.Repeat([]provider.ToolCall{scripted.Tool("slow", nil)}, calls)...), scripted.Say("done"))
	res := f.must(trace.Finished, withTools(slow), func(c *task.Contract) { c.MaxParallelReads = most })
	if seen.Load() != most {
		t.Errorf("%d ran at once, want %d", seen.Load(), most)
	}
	if n := strings.Count(f.steps(res.RunID)[0].Result, "counted"); n != calls {
		t.Errorf("%d of %d are answered", n, calls)
	}
}
