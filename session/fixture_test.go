package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("SESSION_TEST_CHILD"); dir != "" {
		child(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

var ctx = context.Background()

// fixture is a store, a directory and a model.
type fixture struct {
	t     *testing.T
	dir   string
	path  string
	store *store.Store
	model *scripted.Model
	seen  *events
	cfg   harness.Config
}

func rules() policy.Policy {
	return policy.Default().Layer("test").AllowWrite("*").DenyWrite("locked/*").AllowExec("sleep *", "probe")
}

func newFixture(t *testing.T, turns ...scripted.Turn) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), path: filepath.Join(t.TempDir(), "runs.db"), model: scripted.New(turns...), seen: &events{}}
	st, err := store.Open(ctx, f.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		for i, r := range f.model.Requests() {
			if why := unpaired(r); why != "" {
				t.Errorf("request %d: %s", i+1, why)
			}
		}
	})
	f.store = st
	f.cfg = harness.Config{Provider: f.model, Store: st, Policy: rules()}
	return f
}

// unpaired says what every vendor would refuse of a request: a call without exactly
// one result right behind it, or a result without a call.
func unpaired(r *provider.Request) string {
	for i, m := range r.Messages {
		if m.Role == provider.RoleTool && (i == 0 || len(r.Messages[i-1].Calls) == 0) {
			return fmt.Sprintf("message %d answers no call", i)
		}
		if len(m.Calls) == 0 {
			continue
		}
		if i+1 == len(r.Messages) {
			return fmt.Sprintf("the calls of message %d have no results", i)
		}
		want, got := map[string]int{}, map[string]int{}
		for _, c := range m.Calls {
			want[c.ID]++
		}
		for _, res := range r.Messages[i+1].Results {
			got[res.CallID]++
		}
		if !maps.Equal(want, got) {
			return fmt.Sprintf("the calls %v of message %d are answered by %v", want, i, got)
		}
	}
	return ""
}

func (f *fixture) harness() *harness.Harness {
	f.t.Helper()
	h, err := harness.New(f.cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	return h
}

func (f *fixture) open() *session.Session {
	f.t.Helper()
	s, err := f.harness().Open(ctx, f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) reopen(id trace.SessionID) *session.Session {
	f.t.Helper()
	s, err := f.harness().Reopen(ctx, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) turn(s *session.Session, prompt string, opts ...session.Option) *session.Turn {
	f.t.Helper()
	t, err := s.Turn(ctx, prompt, opts...)
	if err != nil {
		f.t.Fatalf("turn %q: %v", prompt, err)
	}
	return t
}

func (f *fixture) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) exists(name string) bool {
	_, err := os.Stat(filepath.Join(f.dir, name))
	return err == nil
}

func (f *fixture) last() *provider.Request {
	f.t.Helper()
	reqs := f.model.Requests()
	if len(reqs) == 0 {
		f.t.Fatal("the model was never asked")
	}
	return reqs[len(reqs)-1]
}

// said is all that a request tells the model.
func said(r *provider.Request) string {
	var b strings.Builder
	b.WriteString(r.User)
	for _, m := range r.Messages {
		b.WriteString("\n" + string(m.Role) + ": " + m.Text)
	}
	return b.String()
}

func write(path, content string) scripted.Turn {
	return scripted.Call("write_file", map[string]string{"path": path, "content": content})
}

func read(path string) scripted.Turn {
	return scripted.Call("read_file", map[string]string{"path": path})
}

// during runs fn while the model is being asked, and then answers as turn does.
func during(fn func(), turn scripted.Turn) scripted.Turn {
	return func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		fn()
		return turn(ctx, req)
	}
}

// events is an observer that remembers.
type events struct {
	mu  sync.Mutex
	all []trace.Event
}

func (e *events) Observe(ev trace.Event) trace.Flow {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
	return trace.Continue
}

func (e *events) kinds() (out []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.all {
		out = append(out, ev.Kind())
	}
	return out
}

func (e *events) count(kind string) (n int) {
	for _, k := range e.kinds() {
		if k == kind {
			n++
		}
	}
	return n
}

func (e *events) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, ev := range e.all {
		switch f := ev.Fact.(type) {
		case trace.Token:
			b.WriteString(f.Text)
		case trace.Retry:
			b.Reset() // what a failed attempt streamed is said again
		}
	}
	return b.String()
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func turnError(t *testing.T, err error) *session.TurnError {
	t.Helper()
	var te *session.TurnError
	if !errors.As(err, &te) {
		t.Fatalf("got %v, want a *session.TurnError", err)
	}
	return te
}

// content is what a file of the workspace holds; nothing when there is none.
func (f *fixture) content(name string) string {
	b, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		return ""
	}
	return string(b)
}
