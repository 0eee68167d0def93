package loop

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a run in the making: a directory, a store, and what a Host needs.
type fixture struct {
	t     *testing.T
	dir   string
	store *store.Store
	host  Host
	seen  *events
}

// open allows what most tests need and denies what some of them try.
var open = policy.Default().Layer("test").
	AllowRead("*").AllowWrite("*").DenyWrite("locked/*").DenyRead("hidden/*").
	AllowExec("echo *", "cat *", "sh *", "sleep *", "true", "false", "probe", "note", "slow", "boom")

func newFixture(t *testing.T, turns ...scripted.Turn) *fixture {
	t.Helper()
	st, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		originsKnown(t, st)
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &fixture{t: t, dir: t.TempDir(), store: st, seen: &events{}}
	f.host = Host{Provider: &paired{t: t, Provider: scripted.New(turns...)}, Store: st, Policy: open, Approver: approve.None, Observer: f.seen}
	return f
}

// script puts another model in the place of the first.
func (f *fixture) script(turns ...scripted.Turn) *scripted.Model {
	m := scripted.New(turns...)
	f.host.Provider = &paired{t: f.t, Provider: m}
	return m
}

func (f *fixture) model(p provider.Provider) { f.host.Provider = &paired{t: f.t, Provider: p} }

func (f *fixture) contract(change ...func(*task.Contract)) task.Contract {
	c := task.New("do what is asked", f.dir)
	for _, ch := range change {
		ch(&c)
	}
	return c
}

func (f *fixture) run(change ...func(*task.Contract)) (*trace.Result, error) {
	f.t.Helper()
	return Run(context.Background(), f.host, f.contract(change...), nil)
}

// started is the drive of a run that has begun and made no step yet.
func (f *fixture) started() *drive {
	f.t.Helper()
	d, err := newDrive(f.t.Context(), f.host.withDefaults(), f.contract())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(d.close)
	if err := d.start(f.t.Context(), nil); err != nil {
		f.t.Fatal(err)
	}
	return d
}

// must runs and demands an outcome.
func (f *fixture) must(want trace.OutcomeKind, change ...func(*task.Contract)) *trace.Result {
	f.t.Helper()
	res, err := f.run(change...)
	if err != nil {
		f.t.Fatalf("run: %v", err)
	}
	if res.Outcome.Kind != want {
		f.t.Fatalf("outcome %s, want %s", res.Outcome, want)
	}
	return res
}

func (f *fixture) resume(id trace.RunID, r Resumption) (*trace.Result, error) {
	f.t.Helper()
	return Resume(context.Background(), f.host, id, r)
}

func (f *fixture) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) read(name string) string {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, filepath.FromSlash(name)))
	if err != nil {
		return ""
	}
	return string(b)
}

func (f *fixture) steps(id trace.RunID) []store.StepRow {
	f.t.Helper()
	rows, err := store.Collect(f.store.Steps(context.Background(), id))
	if err != nil {
		f.t.Fatal(err)
	}
	return rows
}

func (f *fixture) info(id trace.RunID) store.RunInfo {
	f.t.Helper()
	info, err := f.store.Run(context.Background(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return info
}

func (f *fixture) canonical(id trace.RunID) string {
	f.t.Helper()
	s, err := f.store.CanonicalTrace(context.Background(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) refusals(id trace.RunID) []store.PolicyEvent {
	f.t.Helper()
	rows, err := store.Collect(f.store.Refusals(context.Background(), id))
	if err != nil {
		f.t.Fatal(err)
	}
	return rows
}

func (f *fixture) decisions(id trace.RunID) []store.PolicyEvent {
	f.t.Helper()
	rows, err := store.Collect(f.store.PolicyEvents(context.Background(), id))
	if err != nil {
		f.t.Fatal(err)
	}
	return slices.DeleteFunc(rows, func(e store.PolicyEvent) bool { return e.Kind != store.PolicyDecision })
}

// runs counts the rows that a failure must not leave.
func (f *fixture) runs() int {
	f.t.Helper()
	rows, err := store.Collect(f.store.Runs(context.Background(), store.RunFilter{}))
	if err != nil {
		f.t.Fatal(err)
	}
	return len(rows)
}

// events is an observer that remembers.
type events struct {
	mu   sync.Mutex
	all  []trace.Event
	stop string // kind at which it cancels
}

func (e *events) Observe(ev trace.Event) trace.Flow {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
	if ev.Kind() == e.stop {
		return trace.Cancel
	}
	return trace.Continue
}

func (e *events) kinds() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]string, len(e.all))
	for i, ev := range e.all {
		out[i] = ev.Kind()
	}
	return out
}

func (e *events) count(kind string) int {
	n := 0
	for _, k := range e.kinds() {
		if k == kind {
			n++
		}
	}
	return n
}

// paired holds what every vendor demands of every request of every test: each
// call has exactly one result, right behind it, and each result has its call.
type paired struct {
	provider.Provider
	t *testing.T
}

func (p *paired) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	for i, m := range req.Messages {
		if m.Role == provider.RoleTool && (i == 0 || req.Messages[i-1].Role != provider.RoleAssistant) {
			p.t.Errorf("message %d: results without a turn before them", i)
		}
		if len(m.Calls) == 0 {
			continue
		}
		if i+1 >= len(req.Messages) {
			p.t.Errorf("message %d: calls without results", i)
			continue
		}
		var want, got []string
		for _, c := range m.Calls {
			want = append(want, c.ID)
		}
		for _, r := range req.Messages[i+1].Results {
			got = append(got, r.CallID)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			p.t.Errorf("message %d: calls %v are answered by %v", i, want, got)
		}
	}
	return p.Provider.Complete(ctx, req, on)
}

func (p *paired) ModelHint() string { return provider.ModelHint(p.Provider) }

// lastUser is the whole user text of the newest request to m.
func lastUser(m *scripted.Model) string {
	reqs := m.Requests()
	if len(reqs) == 0 {
		return ""
	}
	return reqs[len(reqs)-1].User
}

func write(path, content string) scripted.Turn {
	return scripted.Call("write_file", map[string]string{"path": path, "content": content})
}

func readCall(path string) scripted.Turn {
	return scripted.Call("read_file", map[string]string{"path": path})
}

func command(argv ...string) scripted.Turn {
	return scripted.Call("exec", map[string]any{"argv": argv})
}

// probe is a registered tool that counts its calls.
type probe struct {
	mu    sync.Mutex
	calls int
}

func (p *probe) tool(opts ...tool.Option) tool.Tool {
	return tool.New("probe", "Probes.", func(context.Context, struct{}) (string, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls++
		return "probed", nil
	}, opts...)
}

func (p *probe) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

func withTools(tools ...tool.Tool) func(*task.Contract) {
	return func(c *task.Contract) { c.Tools = tools }
}

func withSteps(n int) func(*task.Contract) {
	return func(c *task.Contract) { c.Budget.Steps = n }
}

// quick keeps retries from waiting.
func quick(c *task.Contract) {
	c.Retry = provider.RetryPolicy{Base: time.Nanosecond, Max: time.Nanosecond}
}

func contains(t *testing.T, what, text string, wants ...string) {
	t.Helper()
	for _, w := range wants {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not contain %q:\n%s", what, w, text)
		}
	}
}
