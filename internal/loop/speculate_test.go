package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// slowly reports its calls one by one and lets the test hold it before it
// answers, as a model does that goes on writing.
type slowly struct {
	calls  []provider.ToolCall
	settle []provider.ToolCall // what it returns; nil: the same
	fail   error               // once, in place of a first answer
	hold   func(reported int)

	mu sync.Mutex
	n  int
}

func (m *slowly) Name() string        { return "slowly" }
func (m *slowly) Endpoints() []string { return nil }

func (m *slowly) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	m.mu.Lock()
	m.n++
	n := m.n
	m.mu.Unlock()
	failed := m.fail != nil
	if n > 2 || n == 2 && !failed {
		return &provider.Response{Text: "done", FinishReason: "stop"}, nil
	}
	for i, c := range m.calls {
		if on.Call != nil {
			on.Call(i, c)
		}
		if m.hold != nil {
			m.hold(i + 1)
		}
	}
	if failed && n == 1 {
		return nil, m.fail
	}
	settled := m.settle
	if settled == nil {
		settled = m.calls
	}
	return &provider.Response{Calls: settled, FinishReason: "tool_calls"}, nil
}

// turn runs c as a first turn of a conversation, which streams.
func (f *fixture) turn(change ...func(*task.Contract)) *trace.Result {
	f.t.Helper()
	ctx := context.Background()
	id, err := f.store.CreateSession(ctx, f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	res, err := Run(ctx, f.host, f.contract(change...), &Turn{Session: id})
	if err != nil {
		f.t.Fatal(err)
	}
	return res
}

func file(path string) provider.ToolCall {
	return scripted.Tool("read_file", map[string]string{"path": path})
}

func (f *fixture) speculated() trace.Speculated {
	f.seen.mu.Lock()
	defer f.seen.mu.Unlock()
	for _, ev := range f.seen.all {
		if s, ok := ev.Fact.(trace.Speculated); ok {
			return s
		}
	}
	return trace.Speculated{}
}

func TestWhichReadsStartEarly(t *testing.T) {
	grep := scripted.Tool("grep", map[string]string{"pattern": "a"})
	for _, tc := range []struct {
		name   string
		calls  []provider.ToolCall
		settle []provider.ToolCall
		fail   error
		change func(*task.Contract)
		want   trace.Speculated
	}{
		{"leading reads", []provider.ToolCall{file("a"), grep, file("b")}, nil, nil, nil, trace.Speculated{Started: 3, Used: 3}},
		{"none behind a write", []provider.ToolCall{file("a"), scripted.Tool("write_file", map[string]string{"path": "c", "content": "x"}), file("b")},
			nil, nil, nil, trace.Speculated{Started: 1, Used: 1}},
		{"none that is denied, and none behind it", []provider.ToolCall{file("hidden/x"), file("a")}, nil, nil, nil, trace.Speculated{}},
		{"none with bad arguments", []provider.ToolCall{scripted.Tool("read_file", map[string]int{"path": 3}), file("a")}, nil, nil, nil, trace.Speculated{}},
		{"none that is withheld, and none behind it", []provider.ToolCall{file("a"), file("b")}, nil, nil,
			func(c *task.Contract) { c.ToolMask = []string{"read_file"} }, trace.Speculated{}},
		{"none of an unknown tool", []provider.ToolCall{scripted.Tool("nothing", nil), file("a")}, nil, nil, nil, trace.Speculated{}},
		{"none when calls run one by one", []provider.ToolCall{file("a"), file("b")}, nil, nil,
			func(c *task.Contract) { c.MaxParallelReads = 1 }, trace.Speculated{}},
		{"as many as may run at once", []provider.ToolCall{file("a"), file("b"), grep}, nil, nil,
			func(c *task.Contract) { c.MaxParallelReads = 2 }, trace.Speculated{Started: 2, Used: 2}},
		{"the rest is given up where the answer differs", []provider.ToolCall{file("a"), file("b"), grep}, []provider.ToolCall{file("a"), file("c"), grep}, nil, nil,
			trace.Speculated{Started: 3, Used: 1, Discarded: 2}},
		{"all of a failed attempt", []provider.ToolCall{file("a"), file("b")}, nil, &provider.Error{Kind: provider.Server, Message: "down"}, quick,
			trace.Speculated{Started: 4, Used: 2, Discarded: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.write("a", "a\n")
			f.write("b", "b\n")
			f.model(&slowly{calls: tc.calls, settle: tc.settle, fail: tc.fail})
			change := []func(*task.Contract){}
			if tc.change != nil {
				change = append(change, tc.change)
			}
			if res := f.turn(change...); res.Outcome.Kind != trace.Finished {
				t.Fatal(res.Outcome)
			}
			if got := f.speculated(); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestNobodyHearsOfAnEarlyReadUntilTheCompletionSettles(t *testing.T) {
	f := newFixture(t)
	f.write("a", "a\n")
	var seen []string
	f.model(&slowly{calls: []provider.ToolCall{file("a")}, hold: func(int) { seen = f.seen.kinds() }})
	f.turn()
	if slices.Contains(seen, "tool_call") || slices.Contains(seen, "speculated") {
		t.Errorf("while the completion streamed, the watcher saw %v", seen)
	}
	kinds := f.seen.kinds()
	if i, j := slices.Index(kinds, "speculated"), slices.Index(kinds, "tool_call"); i < 0 || j < i {
		t.Errorf("events: %v", kinds)
	}
}

func TestAnEarlyReadIsDoneBeforeTheCompletionIs(t *testing.T) {
	f := newFixture(t)
	began := make(chan struct{})
	look := tool.New("slow", "Looks.", func(context.Context, struct{}) (string, error) {
		close(began)
		return "looked", nil
	}, tool.ReadOnly)
	f.model(&slowly{calls: []provider.ToolCall{scripted.Tool("slow", nil)}, hold: func(int) {
		select {
		case <-began:
		case <-time.After(10 * time.Second):
			t.Error("the read did not start while the completion went on")
		}
	}})
	f.turn(withTools(look))
}

// TestTheTraceIsTheSameHoweverReadsRun holds everything that anybody can read of
// a run against itself: one by one, together, early, and early and wrong.
func TestTheTraceIsTheSameHoweverReadsRun(t *testing.T) {
	calls := []provider.ToolCall{
		file("a"), file("missing"), scripted.Tool("find", map[string]string{"name_glob": "*"}), scripted.Tool("probe", nil), file("hidden/x"),
		scripted.Tool("write_file", map[string]string{"path": "a", "content": "new\n"}), file("a"), file("b"), scripted.Tool("boom", nil), file("b"),
	}
	run := func(t *testing.T, cap int, streams, wrong bool) (string, []trace.Event) {
		f := newFixture(t)
		f.write("a", "a\n")
		f.write("b", "b\n")
		f.write("hidden/x", "secret\n")
		m := &slowly{calls: calls}
		if wrong {
			m.calls = append([]provider.ToolCall{file("a"), file("b")}, calls...)
			m.settle = calls
		}
		f.model(m)
		f.host.Stream = &streams
		p := &probe{}
		boom := tool.New("boom", "Panics.", func(context.Context, struct{}) (string, error) { panic("boom") }, tool.ReadOnly)
		res := f.turn(withTools(p.tool(tool.ReadOnly), boom), func(c *task.Contract) { c.MaxParallelReads = cap })
		events := slices.DeleteFunc(f.seen.all, func(ev trace.Event) bool { return ev.Kind() == "speculated" || ev.Kind() == "token" })
		for i := range events {
			if e, ok := events[i].Fact.(trace.PromptComposed); ok {
				e.Bytes = 0
				events[i].Fact = e
			}
		}
		if p.count() < 1 {
			t.Error("the probe was not called")
		}
		return strings.ReplaceAll(f.canonical(res.RunID), f.dir, "DIR"), events
	}
	want, wantEvents := run(t, 1, false, false)
	for _, tc := range []struct {
		cap            int
		streams, wrong bool
	}{{10, false, false}, {1, true, false}, {10, true, false}, {2, true, false}, {10, true, true}} {
		t.Run(fmt.Sprintf("%d at once, streaming %t, wrong %t", tc.cap, tc.streams, tc.wrong), func(t *testing.T) {
			got, events := run(t, tc.cap, tc.streams, tc.wrong)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("trace (-one by one +this):\n%s", diff)
			}
			if diff := cmp.Diff(wantEvents, events); diff != "" {
				t.Errorf("events (-one by one +this):\n%s", diff)
			}
		})
	}
}

func TestAReadThatWasGivenUpIsNoKnowledge(t *testing.T) {
	f := newFixture(t)
	f.write("a", "first\n")
	m := &slowly{
		calls:  []provider.ToolCall{file("a")},
		settle: []provider.ToolCall{scripted.Tool("write_file", map[string]string{"path": "a", "content": "mine\n"})},
		hold: func(int) {
			time.Sleep(20 * time.Millisecond) // the read is likely done by then; the test holds either way
			f.write("a", "somebody else's\n")
		},
	}
	f.model(m)
	f.turn()
	if got := f.read("a"); got != "mine\n" {
		t.Errorf("a is %q: a read that was given up must not make the run know the file", got)
	}
}

func TestAnInterruptedCompletionLeavesNoReadBehind(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	look := tool.New("slow", "Looks.", func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		close(ended)
		return "", ctx.Err()
	}, tool.ReadOnly)
	f.model(&slowly{calls: []provider.ToolCall{scripted.Tool("slow", nil)}, hold: func(int) { cancel() }})
	id, err := f.store.CreateSession(context.Background(), f.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(ctx, f.host, f.contract(withTools(look)), &Turn{Session: id}); err == nil {
		t.Error("a cancelled turn ended well")
	}
	select {
	case <-ended:
	default:
		t.Error("the turn returned before its early read had ended")
	}
}
