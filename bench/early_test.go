package bench

import (
	"context"
	"testing"
	"time"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
)

// The two times of BenchmarkEarlyRead: how long the model goes on after its
// first call is complete, and how long that call takes.
const (
	window = 400 * time.Millisecond
	look   = 300 * time.Millisecond
)

// wordy reports its one call at once and goes on writing for the window.
type wordy struct{ n int }

func (*wordy) Name() string        { return "wordy" }
func (*wordy) Endpoints() []string { return nil }

func (m *wordy) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	if m.n++; m.n%2 == 0 {
		return &provider.Response{Text: "done", FinishReason: "stop"}, nil
	}
	c := scripted.Tool("look", nil)
	if on.Call != nil {
		on.Call(0, c)
	}
	select {
	case <-time.After(window):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &provider.Response{Calls: []provider.ToolCall{c}, FinishReason: "tool_calls"}, nil
}

// BenchmarkEarlyRead is what starting a read while its completion still streams
// saves: a turn whose model writes for 400 ms after its first call, with a read
// of 300 ms, streamed and not. The metric ms-saved can be at most 300.
func BenchmarkEarlyRead(b *testing.B) {
	ctx := context.Background()
	st := openStore(b)
	dir := b.TempDir()
	slow := tool.New("look", "Looks.", func(ctx context.Context, _ struct{}) (string, error) {
		select {
		case <-time.After(look):
		case <-ctx.Done():
		}
		return "seen", nil
	}, tool.ReadOnly)
	h, err := harness.New(harness.Config{
		Provider: &wordy{}, Store: st, Policy: policy.Default().Layer("bench").AllowExec("look"),
		Defaults: task.Contract{Tools: tool.Toolbox{slow}},
	})
	if err != nil {
		b.Fatal(err)
	}
	took := map[bool]time.Duration{}
	n := 0
	for b.Loop() {
		n++
		for _, streams := range []bool{false, true} {
			s, err := h.Open(ctx, dir)
			if err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			if turn, err := s.Turn(ctx, "look", session.WithStreaming(streams)); err != nil || turn.Reply != "done" {
				b.Fatalf("%+v: %v", turn, err)
			}
			took[streams] += time.Since(began)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64((took[false]-took[true]).Microseconds())/1000/float64(n), "ms-saved")
	b.ReportMetric(float64(took[false].Milliseconds())/float64(n), "ms-in-turn")
	b.ReportMetric(float64(took[true].Milliseconds())/float64(n), "ms-early")
}
