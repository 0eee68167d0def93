package chat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/sse"
)

// BenchmarkLongArguments streams one call whose arguments come in fragments of
// twenty bytes, of a hundred kilobytes and of a megabyte, to a sink that wants
// calls early. x-per-byte is how much longer a byte takes in the longer one: about
// 1 where the time is linear.
func BenchmarkLongArguments(b *testing.B) {
	short, long := longArguments(100<<10), longArguments(1<<20)
	b.ReportAllocs()
	var few, many time.Duration
	for b.Loop() {
		few += readLong(b, short)
		many += readLong(b, long)
	}
	b.ReportMetric(many.Seconds()/few.Seconds()/(float64(len(long))/float64(len(short))), "x-per-byte")
	b.ReportMetric(float64(many.Milliseconds())/float64(b.N), "ms/MiB")
}

func longArguments(n int) []string {
	args := `{"content":"` + strings.Repeat("x", n) + `"}`
	docs := []string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"write_file","arguments":""}}]}}]}`}
	for len(args) > 0 {
		k := min(20, len(args))
		docs = append(docs, fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":%q}}]}}]}`, args[:k]))
		args = args[k:]
	}
	return append(docs, `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`)
}

func readLong(b *testing.B, docs []string) time.Duration {
	early := 0
	on := provider.Sink{Call: func(int, provider.ToolCall) { early++ }}
	began := time.Now()
	a := NewAccumulator(Dialect{}, &provider.Request{}, "m", on, began)
	for _, d := range docs {
		if _, err := a.Event(sse.Event{Data: []byte(d)}); err != nil {
			b.Fatal(err)
		}
	}
	resp, err := a.Finish()
	if err != nil || len(resp.Calls) != 1 || early != 1 {
		b.Fatal(len(resp.Calls), early, err)
	}
	return time.Since(began)
}
