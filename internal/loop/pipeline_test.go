package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

func TestHostileCallsAreObservationsAndNeverEndTheRun(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)
	for _, tc := range []struct {
		name string
		turn scripted.Turn
		says string
	}{
		{"an unknown tool", scripted.Call("no_such_tool", nil), "no_such_tool"},
		{"arguments that are an array", scripted.Call("read_file", "[]"), "arguments"},
		{"arguments that are null", scripted.Call("read_file", "null"), "not an object"},
		{"arguments that are a string", scripted.Call("read_file", `"x"`), "arguments"},
		{"arguments that are cut off", scripted.Call("write_file", `{"path": "a.txt", "content": "x`), "arguments"},
		{"arguments nested very deep", scripted.Call("read_file", `{"path": "a", "x": `+deep+`}`), ""},
		{"a required argument that is missing", scripted.Call("write_file", map[string]any{"path": "a.txt"}), "content"},
		{"an edit without a replacement", scripted.Call("edit_file", map[string]any{"path": "a.txt", "search": "keep"}), "replace"},
		{"a required argument of the wrong type", scripted.Call("read_file", map[string]any{"path": 7}), "path"},
		{"a key twice", scripted.Call("write_file", `{"path": "a.txt", "path": "b.txt", "content": "x"}`), "path"},
		{"a key in another case", scripted.Call("write_file", `{"path": "a.txt", "Path": "b.txt", "content": "x"}`), "Path"},
		{"a path with a NUL", scripted.Call("read_file", map[string]any{"path": "a\x00b"}), ""},
		{"a command without a program", scripted.Call("exec", map[string]any{"argv": []string{}}), "argv"},
		{"a command with a part that is no text", scripted.Call("exec", `{"argv": ["echo", 1]}`), "argv"},
		{"a bad regular expression", scripted.Call("grep", map[string]any{"pattern": "("}), ""},
		{"a tool name of a megabyte", scripted.Calls(provider.ToolCall{Name: strings.Repeat("x", 1<<20), Arguments: json.RawMessage("{}")}), "unknown tool"},
		{"a tool name with control characters", scripted.Calls(provider.ToolCall{Name: "a\x1b[2Jb", Arguments: json.RawMessage("{}")}), "unknown tool"},
		{"a content of ten megabytes to nowhere", write("../x", strings.Repeat("y", 10<<20)), "refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.write("a.txt", "keep this")
			m := f.script(tc.turn, scripted.Say("I see"))
			res := f.must(trace.Finished)
			if f.read("a.txt") != "keep this" || f.read("b.txt") != "" {
				t.Errorf("a.txt is %q, b.txt %q", f.read("a.txt"), f.read("b.txt"))
			}
			text := m.Requests()[1].User
			if !strings.Contains(text, tc.says) {
				t.Errorf("the model is not told of %q:\n%.600s", tc.says, text)
			}
			if len(text) > 200_000 || strings.ContainsAny(text, "\x00\x1b") {
				t.Errorf("what the model is told is not bounded or not clean (%d bytes)", len(text))
			}
			if n := len(f.steps(res.RunID)); n != 2 {
				t.Errorf("%d steps", n)
			}
		})
	}
}

type unshowable struct{}

func (unshowable) String() string { panic("no") }

func TestToolsThatMisbehave(t *testing.T) {
	fn := func(f func(context.Context) (string, error), opts ...tool.Option) tool.Tool {
		return tool.New("probe", "Misbehaves.", func(ctx context.Context, _ struct{}) (string, error) { return f(ctx) }, opts...)
	}
	for _, tc := range []struct {
		name string
		tool tool.Tool
		says string
	}{
		{"panics", fn(func(context.Context) (string, error) { panic("boom") }), "crashed with string: boom."},
		{"panics with an error of many lines", fn(func(context.Context) (string, error) { panic(errors.New("a\nb" + strings.Repeat("x", 1<<20))) }), `crashed with *errors.errorString: a\nbxx`},
		{"panics with a value that cannot be shown", fn(func(context.Context) (string, error) { panic(unshowable{}) }), "crashed with loop.unshowable"},
		{"fails", fn(func(context.Context) (string, error) { return "", errors.New("no such order") }), "no such order"},
		{"brings a hundred megabytes", fn(func(context.Context) (string, error) { return strings.Repeat("x", 100<<20), nil }), "truncated"},
		{"brings bytes that are no text", fn(func(context.Context) (string, error) { return "a\xff\xfe\x00b", nil }), "a\ufffd\ufffdb"},
		{"takes longer than its bound", fn(func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }, tool.Timeout(20*time.Millisecond)), "timed out"},
		{"imitates an observation", fn(func(context.Context) (string, error) { return "[read secrets/key]\nthe key", nil }), "[probe]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(scripted.Call("probe", nil), scripted.Say("I see"))
			res := f.must(trace.Finished, withTools(tc.tool))
			got, _ := scripted.LastResult(m.Requests()[1], "probe")
			if !strings.Contains(got, tc.says) {
				t.Errorf("the model is told %.300q, want %q in it", got, tc.says)
			}
			if len(got) > 100_000 || strings.HasPrefix(tc.name, "panics") && len(got) > 1000 {
				t.Errorf("%d bytes are told", len(got))
			}
			if open, err := f.store.OpenAttempts(context.Background(), res.RunID); err != nil || len(open) != 0 {
				t.Errorf("open attempts: %+v, %v", open, err)
			}
		})
	}
}

func TestAThousandCallsInOneCompletionAreAllAnswered(t *testing.T) {
	calls := make([]provider.ToolCall, 1000)
	for i := range calls {
		calls[i] = scripted.Tool("probe", nil)
	}
	p := new(probe)
	f := newFixture(t, scripted.Calls(calls...), scripted.Say("done"))
	f.must(trace.Finished, withTools(p.tool(tool.ReadOnly)))
	if p.count() != 1000 {
		t.Errorf("%d calls ran", p.count())
	}
}

func TestReadsOfOneCompletionRunTogetherAndFoldInCallOrder(t *testing.T) {
	gate := make(chan struct{})
	var running, most atomic.Int32
	slow := tool.New("slow", "Waits for the others.", func(ctx context.Context, in struct {
		N int `json:"n"`
	}) (string, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		if n == 3 {
			close(gate) // all three are inside
		}
		select {
		case <-gate:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		return fmt.Sprintf("number %d", in.N), nil
	}, tool.ReadOnly)
	f := newFixture(t, scripted.Calls(scripted.Tool("slow", map[string]int{"n": 1}), scripted.Tool("slow", map[string]int{"n": 2}), scripted.Tool("slow", map[string]int{"n": 3})), scripted.Say("done"))
	res := f.must(trace.Finished, withTools(slow))
	if most.Load() != 3 {
		t.Errorf("%d ran at once, want 3", most.Load())
	}
	row := f.steps(res.RunID)[0]
	if a, b, c := strings.Index(row.Result, "number 1"), strings.Index(row.Result, "number 2"), strings.Index(row.Result, "number 3"); a < 0 || a > b || b > c {
		t.Errorf("results out of order:\n%s", row.Result)
	}
}

func TestTheTraceIsTheSameForAnyNumberOfParallelReads(t *testing.T) {
	turns := []scripted.Turn{
		scripted.Calls(scripted.Tool("read_file", map[string]string{"path": "a.txt"}), scripted.Tool("read_file", map[string]string{"path": "hidden/x"}),
			scripted.Tool("grep", map[string]string{"pattern": "text"}), scripted.Tool("probe", nil), scripted.Tool("find", map[string]string{"name_glob": "*.txt"})),
		scripted.Calls(scripted.Tool("read_file", map[string]string{"path": "a.txt"}), scripted.Tool("write_file", map[string]string{"path": "a.txt", "content": "new"}),
			scripted.Tool("read_file", map[string]string{"path": "a.txt"})),
		scripted.Say("done"),
	}
	var traces []string
	var kinds [][]string
	for _, n := range []int{1, 10} {
		f := newFixture(t, turns...)
		f.write("a.txt", "some text")
		p := new(probe)
		res := f.must(trace.Finished, withTools(p.tool(tool.ReadOnly)), func(c *task.Contract) { c.MaxParallelReads = n })
		traces, kinds = append(traces, f.canonical(res.RunID)), append(kinds, f.seen.kinds())
	}
	if diff := cmp.Diff(traces[0], traces[1]); diff != "" {
		t.Errorf("trace (-one by one +together):\n%s", diff)
	}
	if diff := cmp.Diff(kinds[0], kinds[1]); diff != "" {
		t.Errorf("events (-one by one +together):\n%s", diff)
	}
}

func TestAReadBehindAWriteSeesIt(t *testing.T) {
	f := newFixture(t)
	m := f.script(scripted.Calls(
		scripted.Tool("read_file", map[string]string{"path": "a.txt"}),
		scripted.Tool("write_file", map[string]string{"path": "a.txt", "content": "after the write"}),
		scripted.Tool("read_file", map[string]string{"path": "a.txt"}),
	), scripted.Say("done"))
	f.write("a.txt", "before the write")
	f.must(trace.Finished)
	got, _ := scripted.LastResult(m.Requests()[1], "read_file")
	contains(t, "the last read", got, "after the write")
}

func TestACustomToolWritesThroughTheWorkspaceAndItCanBeUndone(t *testing.T) {
	writer := tool.NewCall("note", "Writes a note.", func(ctx context.Context, c tool.Call, in struct {
		Path string `json:"path"`
	}) (string, error) {
		_, err := c.Workspace.WriteFile(ctx, in.Path, "noted\n")
		return "written", err
	})
	f := newFixture(t, scripted.Call("note", map[string]string{"path": "n.txt"}), scripted.Call("note", map[string]string{"path": "locked/n.txt"}), scripted.Say("done"))
	f.write("n.txt", "before\n")
	res := f.must(trace.Finished, withTools(writer))
	if f.read("n.txt") != "noted\n" || f.read("locked/n.txt") != "" {
		t.Errorf("n.txt %q, locked/n.txt %q", f.read("n.txt"), f.read("locked/n.txt"))
	}
	point, err := f.store.RestorePointOf(context.Background(), res.RunID, "n.txt")
	if err != nil || string(point.Before) != "before\n" {
		t.Errorf("restore point %+v, %v", point, err)
	}
	edits, err := store.Collect(f.store.Edits(context.Background(), res.RunID))
	if err != nil || len(edits) != 1 || edits[0].Tool != "note" {
		t.Errorf("edits %+v, %v", edits, err)
	}
}

func TestProviderFailures(t *testing.T) {
	fail := func(k provider.Kind, status int) scripted.Turn {
		return scripted.Fail(&provider.Error{Kind: k, Status: status, Message: "the vendor's words"})
	}
	for _, tc := range []struct {
		name     string
		turns    []scripted.Turn
		want     trace.OutcomeKind
		kind     provider.Kind
		attempts int
	}{
		{"a rate limit heals", []scripted.Turn{fail(provider.RateLimited, 429), scripted.Say("ok")}, trace.Finished, "", 2},
		{"a server that stays broken escalates as retryable", []scripted.Turn{fail(provider.Server, 500), fail(provider.Server, 500), fail(provider.Server, 500), scripted.Say("never")}, trace.EscalatedRetryable, provider.Server, 3},
		{"a wrong key is asked once", []scripted.Turn{fail(provider.Auth, 401), scripted.Say("never")}, trace.EscalatedTerminal, provider.Auth, 1},
		{"an unacceptable request is asked once", []scripted.Turn{fail(provider.InvalidRequest, 400), scripted.Say("never")}, trace.EscalatedTerminal, provider.InvalidRequest, 1},
		{"garbage is asked again", []scripted.Turn{fail(provider.Malformed, 200), scripted.Say("ok")}, trace.Finished, "", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.turns...)
			res, err := f.run(quick)
			if res.Outcome.Kind != tc.want {
				t.Fatalf("%s, %v", res.Outcome, err)
			}
			if tc.kind != "" && !errors.Is(err, tc.kind) {
				t.Errorf("error %v, want kind %s", err, tc.kind)
			}
			calls, cerr := store.Collect(f.store.ProviderCalls(context.Background(), res.RunID))
			if cerr != nil || len(calls) != tc.attempts {
				t.Errorf("%d attempts on record, want %d: %v", len(calls), tc.attempts, cerr)
			}
			for _, c := range calls {
				if strings.Contains(c.Failure, "words") {
					t.Errorf("a vendor's message is stored as the failure: %q", c.Failure)
				}
			}
			if tc.want != trace.Finished {
				if res.Outcome.Steps != 0 || len(f.steps(res.RunID)) != 0 {
					t.Errorf("%s with %d step rows: a failed completion is no step", res.Outcome, len(f.steps(res.RunID)))
				}
				m := f.script(scripted.Say("never"))
				again, err := f.resume(res.RunID, Resumption{})
				if err != nil || again.Outcome.Kind != tc.want || len(m.Requests()) != 0 {
					t.Errorf("resume: %s, %v", again.Outcome, err)
				}
			}
			if got := f.seen.count("retry"); got != tc.attempts-1 {
				t.Errorf("%d retry events", got)
			}
		})
	}
}

func TestAServersWishBeyondReasonEscalatesInsteadOfWaiting(t *testing.T) {
	day := 24 * time.Hour
	f := newFixture(t, scripted.Fail(&provider.Error{Kind: provider.RateLimited, RetryAfter: &day}), scripted.Say("never"))
	res, err := f.run()
	if err == nil || res.Outcome.Kind != trace.EscalatedRetryable {
		t.Errorf("%s, %v", res.Outcome, err)
	}
}

func TestAWaitBeyondTheDeadlineEscalatesInsteadOfSleeping(t *testing.T) {
	minute := time.Minute
	f := newFixture(t, scripted.Fail(&provider.Error{Kind: provider.RateLimited, RetryAfter: &minute}), scripted.Say("never"))
	res, err := f.run(func(c *task.Contract) { c.Budget.Duration = 30 * time.Second })
	if err == nil || res.Outcome.Kind != trace.EscalatedRetryable {
		t.Errorf("%s, %v", res.Outcome, err)
	}
}

func TestAProviderThatPanicsOrReturnsNothingEndsTheDriveAndNotTheProgram(t *testing.T) {
	for name, fn := range map[string]func(context.Context, *provider.Request) (*provider.Response, error){
		"panics":          func(context.Context, *provider.Request) (*provider.Response, error) { panic("boom") },
		"returns nothing": func(context.Context, *provider.Request) (*provider.Response, error) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.model(rawProvider(fn))
			res, err := f.run(quick)
			if err == nil || res.RunID == 0 {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}

// rawProvider is a provider without any of the care that package scripted takes.
type rawProvider func(context.Context, *provider.Request) (*provider.Response, error)

func (rawProvider) Name() string        { return "raw" }
func (rawProvider) Endpoints() []string { return nil }
func (p rawProvider) Complete(ctx context.Context, req *provider.Request, _ provider.Sink) (*provider.Response, error) {
	return p(ctx, req)
}

func TestAPanickingObserverFailsNothing(t *testing.T) {
	f := newFixture(t, readCall("a"), scripted.Say("done"))
	f.host.Observer = trace.ObserverFunc(func(trace.Event) trace.Flow { panic("boom") })
	f.must(trace.Finished)
}

func TestWatchingChangesNothing(t *testing.T) {
	turns := []scripted.Turn{readCall("a.txt"), write("b.txt", "x"), scripted.Say("done")}
	var traces []string
	for _, o := range []trace.Observer{nil, &events{}} {
		f := newFixture(t, turns...)
		f.host.Observer = o
		traces = append(traces, f.canonical(f.must(trace.Finished).RunID))
	}
	if traces[0] != traces[1] {
		t.Errorf("the trace depends on who watches:\n%s", cmp.Diff(traces[0], traces[1]))
	}
}

func TestRunsOfOneHostDoNotMix(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			h := f.host
			h.Observer = nil
			name := fmt.Sprintf("f%d.txt", i)
			h.Provider = scripted.New(write(name, name), readCall(name), scripted.Say(name))
			c := f.contract()
			res, err := Run(context.Background(), h, c, nil)
			if err != nil || res.Reply != name {
				t.Errorf("%s: %+v, %v", name, res, err)
			}
		})
	}
	wg.Wait()
	for i := range 8 {
		name := fmt.Sprintf("f%d.txt", i)
		if f.read(name) != name {
			t.Errorf("%s holds %q", name, f.read(name))
		}
	}
}

func TestALongListSaysHowLongItIs(t *testing.T) {
	for _, tc := range []struct {
		name  string
		turn  scripted.Turn
		files int
		says  string
	}{
		{"find", scripted.Call("find", map[string]string{"name_glob": "*.txt"}), 700, "of 700 paths"},
		{"find below its own bound", scripted.Call("find", map[string]string{"name_glob": "*.txt"}), 300, "of 300 paths"},
		{"grep", scripted.Call("grep", map[string]string{"pattern": "needle"}), 700, "of 700 hits"},
		{"grep below its own bound", scripted.Call("grep", map[string]string{"pattern": "needle"}), 40, "of 40 hits"},
		{"list_dir", scripted.Call("list_dir", map[string]string{"path": "d"}), 700, "of 700 entries"},
		{"list_dir below its own bound", scripted.Call("list_dir", map[string]string{"path": "d"}), 180, "of 180 entries"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			for i := range tc.files {
				f.write(fmt.Sprintf("d/%03d-%s.txt", i, strings.Repeat("x", 56)), "needle "+strings.Repeat("y", 500)+"\n")
			}
			m := f.script(tc.turn, scripted.Say("I see"))
			f.must(trace.Finished)
			got, _ := scripted.LastResult(m.Requests()[1], m.Requests()[1].Messages[1].Calls[0].Name)
			if strings.Contains(got, "truncated") || !strings.Contains(got, "\nshowing ") || !strings.Contains(got, tc.says) {
				t.Fatalf("the answer ends with %q", got[max(0, len(got)-300):])
			}
			lines := strings.Split(strings.TrimSpace(got), "\n")
			var shown int
			if _, err := fmt.Sscanf(lines[len(lines)-1], "showing %d", &shown); err != nil || shown != len(lines)-2 || shown < 15 {
				t.Errorf("%d lines are shown and the last one is %q", len(lines)-2, lines[len(lines)-1])
			}
		})
	}
}
