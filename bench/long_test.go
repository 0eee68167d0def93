package bench

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/budget"
	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// BenchmarkAssemble is what making one request costs out of a ledger of n
// observations: reads of which some were superseded and some written since, with
// searches and commands between. The metric ns/entry stays as it is, or falls,
// where the cost grows no faster than the ledger.
func BenchmarkAssemble(b *testing.B) {
	for _, n := range []int{50, 500, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			in := prompt.Input{Tokens: 24_000, Turns: map[int]trace.AssistantTurn{}, Fresh: map[int]prompt.Fresh{}}
			for i := range n {
				step := i + 1
				o := trace.Observation{Step: step, CallID: fmt.Sprintf("%d-0", step), Text: strings.Repeat("a line of what was seen\n", 20)}
				switch i % 5 {
				case 0, 1:
					o.Kind, o.Target, o.Digest = trace.ObsRead, fmt.Sprintf("src/f%d.go", i%97), "d"
				case 2:
					o.Kind, o.Target = trace.ObsWrite, fmt.Sprintf("src/f%d.go", i%89)
				case 3:
					o.Kind, o.Target = trace.ObsGrep, fmt.Sprintf("pattern%d", i%31)
				default:
					o.Kind = trace.ObsTool
				}
				in.Ledger = append(in.Ledger, o)
				in.Turns[step] = trace.AssistantTurn{Step: step, Calls: []trace.ToolCall{{ID: o.CallID, Name: "tool", Arguments: []byte(`{}`)}}}
			}
			frame := prompt.Task{Goal: "make the parser report the column it stopped at"}.Frame()
			b.ReportAllocs()
			began := time.Now()
			times := 0
			for b.Loop() {
				times++
				reads := prompt.Reads(in.Ledger, false, in.Tokens)
				clear(in.Fresh)
				used := 0
				for i := len(reads) - 1; i >= 0; i-- {
					if r := reads[i]; r.Beyond(in.Tokens, used) {
						in.Fresh[r.Index] = prompt.Fresh{Beyond: true}
					} else if used += r.Cost(); r.Stale() {
						in.Fresh[r.Index] = prompt.Fresh{Text: in.Ledger[r.Index].Text}
					}
				}
				if r := prompt.Render(frame, prompt.Assemble(in)); len(r.Messages) == 0 {
					b.Fatal("nothing was made")
				}
			}
			b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(times)/float64(n), "ns/entry")
		})
	}
}

// tireless calls lookup in every step and answers after steps of them. It keeps
// nothing of what it is asked.
type tireless struct{ steps, n int }

func (*tireless) Name() string        { return "tireless" }
func (*tireless) Endpoints() []string { return nil }

func (m *tireless) Complete(context.Context, *provider.Request, provider.Sink) (*provider.Response, error) {
	if m.n++; m.n > m.steps {
		return &provider.Response{Text: "done", FinishReason: "stop"}, nil
	}
	return &provider.Response{Calls: []provider.ToolCall{scripted.Tool("lookup", map[string]any{"n": m.n})}, FinishReason: "tool_calls"}, nil
}

// page answers with about 250 tokens, so that the window is full early in a run.
var page = tool.New("lookup", "Looks something up.", func(_ context.Context, in struct {
	N int `json:"n"`
}) (string, error) {
	return fmt.Sprintf("entry %d: ", in.N) + strings.Repeat("nothing of note. ", 60), nil
}, tool.ReadOnly)

// BenchmarkLongRun is a run of 2,000 steps with a model and a tool that answer at
// once. The metrics are the most live memory above what stood before it, as the
// collector counts it, and the time of a step in the last tenth over that of one
// in the second, when the window is full.
func BenchmarkLongRun(b *testing.B) {
	const steps = 2000
	ctx := context.Background()
	var peak, slower float64
	n := 0
	for b.Loop() {
		n++
		st := openStore(b)
		c := task.New("look everything up", b.TempDir())
		c.Tools = tool.Toolbox{page}
		c.Budget = budget.Limits{Steps: steps + 1}
		c.Stall.Window = -1
		c.Compaction.Share = task.NoCompaction
		var at [4]time.Time // of the steps that begin and end both tenths
		seen := trace.ObserverFunc(func(ev trace.Event) trace.Flow {
			if _, ok := ev.Fact.(trace.StepCommitted); ok {
				for i, mark := range []int{steps / 10, steps / 5, steps - steps/10, steps} {
					if ev.Step == mark {
						at[i] = time.Now()
					}
				}
			}
			return trace.Continue
		})
		h := watched(b, st, &tireless{steps: steps}, seen)
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		restore := debug.SetGCPercent(20) // so that what is counted is near what is live
		var most atomic.Uint64
		done, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most.Store(max(most.Load(), m.HeapAlloc))
				select {
				case <-done:
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		}()
		res, err := h.Run(ctx, c)
		close(done)
		<-stopped
		debug.SetGCPercent(restore)
		if err != nil || res.Outcome.Steps != steps+1 {
			b.Fatalf("%v: %v", res.Outcome, err)
		}
		peak = max(peak, float64(most.Load()-min(before.HeapAlloc, most.Load()))/(1<<20))
		slower += float64(at[3].Sub(at[2])) / float64(at[1].Sub(at[0]))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(peak, "MiB-peak")
	b.ReportMetric(slower/float64(n), "x-last-tenth")
}
