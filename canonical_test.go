package harness_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/loop"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// execution is one way to carry out the same work.
type execution struct {
	reads     int  // at once
	observed  bool // somebody watches
	broadcast bool // and another process could
	facade    bool // through the door, or the loop by itself
	open      bool // under a policy that permits everything
	cut       int  // the completion, from 1, in which the caller stops; it is resumed. 0: none
}

func (e execution) String() string {
	return fmt.Sprintf("reads=%d observed=%t broadcast=%t facade=%t cut=%d", e.reads, e.observed, e.broadcast, e.facade, e.cut)
}

// carry does the work that all executions have in common and returns its
// canonical trace, and the most reads that ever ran together.
func (e execution) carry(t *testing.T) (canonical string, together int64) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a.txt": "alpha\n", "b.txt": "beta\n", "secret/c.txt": "no\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	st, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.MemoryPut(t.Context(), store.MemoryEntry{Workspace: dir, Key: "note", Value: "the alpha file comes first"}); err != nil {
		t.Fatal(err)
	}
	var running, most atomic.Int64
	// The later a call stands, the sooner it is done: they end in the wrong order.
	peek := tool.New("peek", "Peeks.", func(ctx context.Context, in struct {
		N int `json:"n"`
	}) (string, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		select {
		case <-time.After(time.Duration(6-in.N) * 3 * time.Millisecond):
		case <-ctx.Done():
		}
		return fmt.Sprintf("peeked %d", in.N), ctx.Err()
	}, tool.ReadOnly)
	call := scripted.Tool
	work := []scripted.Turn{
		scripted.Calls(
			call("peek", map[string]int{"n": 1}), call("read_file", map[string]string{"path": "a.txt"}), call("peek", map[string]int{"n": 2}),
			call("grep", map[string]string{"pattern": "a"}), call("peek", map[string]int{"n": 3}), call("read_file", map[string]string{"path": "none.txt"}),
			call("read_file", map[string]string{"path": "secret/c.txt"}), call("peek", map[string]int{"n": 4}), call("peek", map[string]string{"n": "x"}),
		),
		scripted.Calls(
			call("write_file", map[string]string{"path": "a.txt", "content": "changed\n"}), call("read_file", map[string]string{"path": "a.txt"}),
			call("peek", map[string]int{"n": 1}), call("peek", map[string]int{"n": 5}), call("remember", map[string]string{"key": "k", "value": "v"}),
		),
		scripted.Calls(call("read_file", map[string]string{"path": "b.txt"}), call("nothing", nil), call("todo_write", map[string]any{"todos": []any{}})),
		scripted.Say("done"),
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	turns := work
	if e.cut > 0 {
		turns = append(append([]scripted.Turn{}, work[:e.cut-1]...), func(c context.Context, _ *provider.Request) (*provider.Response, error) {
			stop()
			<-c.Done()
			return nil, c.Err()
		})
		turns = append(turns, work[e.cut-1:]...)
	}
	rules := policy.Default().Layer("app").AllowWrite("*").AllowExec("peek").DenyRead("secret/*")
	if e.open {
		rules = policy.Permissive()
	}
	var watch trace.Observer
	if e.observed {
		watch = trace.ObserverFunc(func(trace.Event) trace.Flow { return trace.Continue })
	}
	if e.broadcast {
		b := trace.Broadcast(st, watch)
		defer b.Close()
		watch = b
	}
	model := scripted.New(turns...)
	c := task.New("look around, then change a", dir)
	c.Tools, c.MaxParallelReads = tool.Toolbox{peek}, e.reads
	host := loop.Host{Provider: model, Store: st, Policy: rules, Approver: approve.None, Observer: watch}
	h, err := harness.New(harness.Config{Provider: model, Store: st, Policy: rules, Observer: watch, Defaults: task.Contract{Tools: c.Tools}})
	if err != nil {
		t.Fatal(err)
	}
	drive := func(ctx context.Context) (*trace.Result, error) {
		if e.facade {
			return h.Run(ctx, c)
		}
		return loop.Run(ctx, host, c, nil)
	}
	res, err := drive(ctx)
	if e.cut > 0 {
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%v: %+v, %v: want a run that was cut off", e, res, err)
		}
		if e.facade {
			res, err = h.Resume(t.Context(), res.RunID)
		} else {
			res, err = loop.Resume(t.Context(), host, res.RunID, loop.Resumption{Defaults: task.Contract{Tools: c.Tools}})
		}
	}
	if err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("%v: %+v, %v", e, res, err)
	}
	text, err := st.CanonicalTrace(t.Context(), res.RunID)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(text, dir, "DIR"), most.Load()
}

// What a run did does not tell how it was carried out: how many reads ran at once,
// who watched, through which door it came, and whether it was cut off and resumed.
func TestTheCanonicalTraceDoesNotTellHowARunWasCarriedOut(t *testing.T) {
	want, together := execution{reads: 1}.carry(t)
	if together != 1 {
		t.Errorf("%d reads ran at once under a cap of 1", together)
	}
	for _, mark := range []string{"peeked 4", "alpha", "changed", "none.txt", "assembled", "memory_recall", "memory_write", "unknown tool"} {
		if !strings.Contains(want, mark) {
			t.Errorf("the work leaves no %q in its trace:\n%s", mark, want)
		}
	}
	var overlapped atomic.Int64
	t.Cleanup(func() {
		if overlapped.Load() < 2 {
			t.Error("no two reads ever ran at once under a cap of 10")
		}
	})
	for _, reads := range []int{1, 10} {
		for _, watch := range []int{0, 2} {
			for cut := range 5 {
				for _, facade := range []bool{false, true} {
					e := execution{reads: reads, observed: watch > 0, broadcast: watch == 2, facade: facade, cut: cut}
					t.Run(e.String(), func(t *testing.T) {
						t.Parallel()
						got, together := e.carry(t)
						if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
							t.Error(diff)
						}
						if reads == 1 && together != 1 {
							t.Errorf("%d reads ran at once under a cap of 1", together)
						}
						overlapped.Store(max(overlapped.Load(), together))
					})
				}
			}
		}
	}
}

func TestTheDoorAddsNothingUnderAnOpenPolicyEither(t *testing.T) {
	want, _ := execution{reads: 4, open: true}.carry(t)
	if !strings.Contains(want, "secret/c.txt") || strings.Contains(want, "read refused") {
		t.Errorf("something is refused under an open policy:\n%s", want)
	}
	got, _ := execution{reads: 4, open: true, facade: true, observed: true}.carry(t)
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Error(diff)
	}
}
