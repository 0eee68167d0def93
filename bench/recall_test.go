package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/memory"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// BenchmarkRecall is what choosing the notes of one request costs, with n notes
// that 20 runs have drawn on each: reading the evidence for them and ranking them
// by a goal and 200 named files. The metrics are the medians, in milliseconds:
// with the words of the notes known, as from a drive's second step on, and
// without.
func BenchmarkRecall(b *testing.B) {
	const runs = 20
	const workspace = "/work"
	ctx := context.Background()
	for _, n := range []int{64, 512, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			st, err := store.Memory(ctx)
			if err != nil {
				b.Fatal(err)
			}
			defer st.Close()
			notes := make([]memory.Note, n)
			for i := range notes {
				notes[i] = memory.Note{Key: fmt.Sprintf("k%d", i), Value: fmt.Sprintf("note %d about the parser and the column it stopped at, ", i) + strings.Repeat("detail ", 10)}
				if err := st.MemoryPut(ctx, store.MemoryEntry{Workspace: workspace, Key: notes[i].Key, Value: notes[i].Value}); err != nil {
					b.Fatal(err)
				}
			}
			for range runs {
				d, err := st.StartRun(ctx, store.RunStart{Goal: "g", Root: workspace, Provider: "p", Policy: json.RawMessage(`{}`)})
				if err != nil {
					b.Fatal(err)
				}
				for i := range notes {
					d.Record(store.MemoryRecall{Step: 1, Workspace: workspace, Key: notes[i].Key})
				}
				if err := st.FinishRun(ctx, d, store.Finish{Outcome: trace.Outcome{Kind: trace.Finished}}); err != nil {
					b.Fatal(err)
				}
			}
			signals := memory.WordsOf("make the parser report the column it stopped at")
			for i := range 200 {
				signals.Add(fmt.Sprintf("src/module%d/handler.rs", i))
			}
			var cache memory.Cache
			rank := func(c *memory.Cache) time.Duration {
				began := time.Now()
				draws, err := st.MemoryDraws(ctx, workspace)
				if err != nil {
					b.Fatal(err)
				}
				for i := range notes {
					notes[i].Draws = draws[notes[i].Key]
				}
				if order := c.Rank(workspace, signals, notes); len(order) != n || draws["k0"] != runs {
					b.Fatalf("%d notes ranked of %d, %d draws of %d", len(order), n, draws["k0"], runs)
				}
				return time.Since(began)
			}
			rank(&cache)
			var warm, cold []time.Duration
			for b.Loop() {
				warm = append(warm, rank(&cache))
				cold = append(cold, rank(new(memory.Cache)))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(warm), "ms-warm")
			b.ReportMetric(median(cold), "ms-cold")
		})
	}
}

func median(d []time.Duration) float64 {
	if len(d) == 0 {
		return math.NaN()
	}
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds()) / 1000
}
