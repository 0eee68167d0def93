package store

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

// fakeClock is a clock that only moves when a test moves it.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *fakeClock {
	return &fakeClock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// openAt opens a file and closes it at the end of the test.
func openAt(t testing.TB, path string, opts ...Option) *Store {
	t.Helper()
	s, err := Open(context.Background(), path, opts...)
	if err != nil {
		t.Fatalf("Open(%s): %v", path, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func newFile(t testing.TB, opts ...Option) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "runs.db"), opts...)
}

func start(t testing.TB, s *Store, r RunStart) *Drive {
	t.Helper()
	if r.Goal == "" {
		r.Goal = "make the tests pass"
	}
	if r.Root == "" {
		r.Root = "/repo"
	}
	if r.Provider == "" {
		r.Provider = "scripted"
	}
	d, err := s.StartRun(context.Background(), r)
	if err != nil {
		t.Fatalf("StartRun: %v", err)
	}
	return d
}

// aStep is a plausible step of ten tokens.
func aStep(n int) StepCommit {
	return StepCommit{
		Step: n, Decision: "read_file", Prompt: "the prompt", ToolCall: `read_file:{"path":"a.go"}`, Tokens: 10,
		Turn:         &trace.AssistantTurn{Text: "let me look", Calls: []trace.ToolCall{{ID: "c1", Name: "read_file", Arguments: []byte(`{"path":"a.go"}`)}}},
		Observations: []trace.Observation{{Step: n, Kind: trace.ObsRead, Target: "a.go", CallID: "c1", Text: "package a", Origin: trace.OriginFile}},
	}
}

func commit(t testing.TB, s *Store, d *Drive, c StepCommit) {
	t.Helper()
	if err := s.CommitStep(context.Background(), d, c); err != nil {
		t.Fatalf("CommitStep(%d): %v", c.Step, err)
	}
}

func finish(t testing.TB, s *Store, d *Drive, kind trace.OutcomeKind, steps int) {
	t.Helper()
	if err := s.FinishRun(context.Background(), d, Finish{Outcome: trace.Outcome{Kind: kind, Steps: steps}}); err != nil {
		t.Fatalf("FinishRun(%s): %v", kind, err)
	}
}

func release(t testing.TB, d *Drive) {
	t.Helper()
	if err := d.Release(context.Background()); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

func enter(t testing.TB, s *Store, run trace.RunID, opt EnterOptions) (*Drive, *Resumed) {
	t.Helper()
	d, res, err := s.EnterDrive(context.Background(), run, opt)
	if err != nil {
		t.Fatalf("EnterDrive(%d): %v", run, err)
	}
	if d != nil {
		t.Cleanup(func() { _ = d.Release(context.Background()) })
	}
	return d, res
}

// sound fails the test when the store contradicts itself.
func sound(t testing.TB, s *Store) {
	t.Helper()
	rep, err := s.Check(context.Background())
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	for _, p := range rep.Problems {
		t.Errorf("Check: %s", p)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

func call(step int, tokens int64) ProviderCall {
	return ProviderCall{Step: step, Provider: "p", Model: "m", Usage: &provider.Usage{TotalTokens: tokens}}
}
