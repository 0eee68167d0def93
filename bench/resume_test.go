package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/budget"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// longRun drives a real run of steps in which every step reads size bytes, and
// which folds its ledger on the way. It is left behind at its cap.
func longRun(b *testing.B, st *store.Store, dir string, steps, size int) trace.RunID {
	b.Helper()
	read := tool.New("lookup", "Looks something up.", func(_ context.Context, in struct {
		N int `json:"n"`
	}) (string, error) {
		return fmt.Sprintf("entry %d: %s", in.N, strings.Repeat("detail ", size/7)), nil
	}, tool.ReadOnly)
	n := 0
	m := scripted.Func(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		if len(req.Tools) == 0 { // a summary
			return scripted.Say("nothing of note so far")(ctx, req)
		}
		n++
		return scripted.Call("lookup", map[string]any{"n": n})(ctx, req)
	})
	m.Quiet = true
	c := task.New("look everything up", dir)
	c.Tools = tool.Toolbox{read}
	c.Budget = budget.Limits{Steps: steps}
	c.Stall = task.Stall{Window: -1}
	res, err := benchHarness(b, st, m, read).Run(context.Background(), c)
	if err != nil || res.Outcome.Kind != trace.StepCapReached {
		b.Fatalf("%v: %v", res.Outcome, err)
	}
	return res.RunID
}

func benchHarness(b *testing.B, st *store.Store, p provider.Provider, tools ...tool.Tool) *harness.Harness {
	b.Helper()
	h, err := harness.New(harness.Config{
		Provider: p, Store: st, Policy: policy.Default().Layer("bench").AllowExec("lookup"),
		Defaults: task.Contract{Tools: tool.Toolbox(tools)},
	})
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// toFirstRequest resumes a run and returns how long it took until the model was
// asked. The run stays as it was, but for one more drive.
func toFirstRequest(b *testing.B, st *store.Store, dir string, id trace.RunID) time.Duration {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var took time.Duration
	began := time.Now()
	m := scripted.Func(func(ctx context.Context, _ *provider.Request) (*provider.Response, error) {
		took = time.Since(began)
		cancel()
		return nil, ctx.Err()
	})
	m.Quiet = true
	c := task.New("look everything up", dir)
	c.Tools = tool.Toolbox{lookup}
	c.Stall = task.Stall{Window: -1}
	c.Budget = budget.Limits{Steps: 1 << 20}
	_, err := benchHarness(b, st, m, lookup).Resume(ctx, id, harness.WithContract(c))
	if took == 0 {
		b.Fatalf("the model was never asked: %v", err)
	}
	return took
}

// BenchmarkResumeToRequest is the time from the call of Resume to the first
// request to the model. x-tokens is that of a thousand steps that read sixteen
// times as much each, over that of a thousand steps: what was folded away long ago
// should not count. x-steps is a thousand steps over a hundred.
func BenchmarkResumeToRequest(b *testing.B) {
	dir := b.TempDir()
	kinds := []struct {
		name        string
		steps, size int
		st          *store.Store
		id          trace.RunID
		total       time.Duration
	}{{name: "100", steps: 100, size: 256}, {name: "1000", steps: 1000, size: 256}, {name: "1000-large", steps: 1000, size: 4096}}
	for i := range kinds {
		k := &kinds[i]
		k.st = openStore(b)
		k.id = longRun(b, k.st, dir, k.steps, k.size)
	}
	rounds := 0
	for b.Loop() {
		rounds++
		for i := range kinds {
			k := &kinds[i]
			k.total += toFirstRequest(b, k.st, dir, k.id)
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, k := range kinds {
		b.ReportMetric(float64(k.total.Microseconds())/1000/float64(rounds), "ms/"+k.name)
	}
	b.ReportMetric(float64(kinds[2].total)/float64(kinds[1].total), "x-tokens")
	b.ReportMetric(float64(kinds[1].total)/float64(kinds[0].total), "x-steps")
}
