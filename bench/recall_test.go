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

// remembering is a store with n notes of one workspace that 20 runs have drawn on.
func remembering(b *testing.B, n int, value func(i int) string) (*store.Store, []memory.Note) {
	b.Helper()
	ctx := context.Background()
	st, err := store.Memory(ctx)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	notes := make([]memory.Note, n)
	for i := range notes {
		notes[i] = memory.Note{Key: fmt.Sprintf("k%d", i), Value: value(i)}
		if err := st.MemoryPut(ctx, store.MemoryEntry{Workspace: noted, Key: notes[i].Key, Value: notes[i].Value}); err != nil {
			b.Fatal(err)
		}
	}
	for range recallers {
		d := startRun(b, st)
		for i := range notes {
			d.Record(store.MemoryRecall{Step: 1, Workspace: noted, Key: notes[i].Key})
		}
		if err := st.FinishRun(ctx, d, store.Finish{Outcome: trace.Outcome{Kind: trace.Finished}}); err != nil {
			b.Fatal(err)
		}
	}
	return st, notes
}

const (
	noted     = "/work" // the workspace of the notes
	recallers = 20
)

func startRun(b *testing.B, st *store.Store) *store.Drive {
	b.Helper()
	d, err := st.StartRun(context.Background(), store.RunStart{Goal: "g", Root: noted, Provider: "p", Policy: json.RawMessage(`{}`)})
	if err != nil {
		b.Fatal(err)
	}
	return d
}

func longNote(i int) string {
	return fmt.Sprintf("note %d about the parser and the column it stopped at, ", i) + strings.Repeat("detail ", 10)
}

// BenchmarkRecall is what choosing the notes of one request costs, with n notes
// that 20 runs have drawn on each, a goal, and 200 named files. The metrics are
// medians in milliseconds: of a drive's first step, which counts the evidence and
// takes the notes apart, and of every later one, which has both. ms-least is the
// fastest of the first ones: what it costs while nobody else has the processor.
func BenchmarkRecall(b *testing.B) {
	ctx := context.Background()
	for _, n := range []int{64, 512, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			st, notes := remembering(b, n, longNote)
			signals := memory.WordsOf("make the parser report the column it stopped at")
			for i := range 200 {
				signals.Add(fmt.Sprintf("src/module%d/handler.rs", i))
			}
			rank := func(c *memory.Cache, draws map[string]int) {
				for i := range notes {
					notes[i].Draws = draws[notes[i].Key]
				}
				if order := c.Rank(noted, signals, notes); len(order) != n || draws["k0"] != recallers {
					b.Fatalf("%d notes ranked of %d, %d draws of %d", len(order), n, draws["k0"], recallers)
				}
			}
			var first, later []time.Duration
			for b.Loop() {
				var cache memory.Cache
				began := time.Now()
				draws, err := st.MemoryDraws(ctx, noted)
				if err != nil {
					b.Fatal(err)
				}
				rank(&cache, draws)
				first = append(first, time.Since(began))
				began = time.Now()
				rank(&cache, draws)
				later = append(later, time.Since(began))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(first), "ms-first")
			b.ReportMetric(float64(slices.Min(first).Microseconds())/1000, "ms-least")
			b.ReportMetric(median(later), "ms-later")
		})
	}
}

// BenchmarkCappedWrite is what keeping a note costs where each write evicts one,
// among n notes that 20 runs have drawn on. The metric is the median. The values
// have no word, so that none is compared with the others: what that costs beside is
// in BenchmarkRemember of the store.
func BenchmarkCappedWrite(b *testing.B) {
	ctx := context.Background()
	for _, n := range []int{64, 512, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			st, _ := remembering(b, n, func(int) string { return "v" })
			d := startRun(b, st)
			limits := store.MemoryLimits{Entries: int64(n), Chars: math.MaxInt64}
			var took []time.Duration
			i := 0
			for b.Loop() {
				i++
				began := time.Now()
				r, err := st.Remember(ctx, d, store.MemoryEntry{Workspace: noted, Key: fmt.Sprintf("fresh%d", i), Value: "v", Step: 1}, limits)
				took = append(took, time.Since(began))
				if err != nil || len(r.Evicted) != 1 {
					b.Fatal(r, err)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(took), "ms/write")
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
