package harness_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

func newStore(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func newHarness(t *testing.T, cfg harness.Config) *harness.Harness {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = newStore(t)
	}
	h, err := harness.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAConfigurationThatCanNeverWorkIsRefused(t *testing.T) {
	st := newStore(t)
	model := scripted.New()
	for _, tc := range []struct {
		name  string
		cfg   harness.Config
		field string
	}{
		{"without a provider", harness.Config{Store: st}, "Provider"},
		{"without a store", harness.Config{Provider: model}, "Store"},
		{"with a policy that is broken", harness.Config{Provider: model, Store: st, Policy: policy.Default().Layer("")}, "Policy"},
		{"with defaults that are broken", harness.Config{Provider: model, Store: st, Defaults: task.Contract{Effort: "heroic"}}, "Effort"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := harness.New(tc.cfg)
			var invalid *task.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != tc.field {
				t.Errorf("got %v; want a *task.InvalidError for %s", err, tc.field)
			}
		})
	}
}

func TestTheZeroPolicyOfAConfigurationIsTheDefaultOne(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte("KEY=1"), 0o644); err != nil {
		t.Fatal(err)
	}
	st := newStore(t)
	h := newHarness(t, harness.Config{Store: st, Provider: scripted.New(
		scripted.Call("read_file", map[string]string{"path": ".env"}),
		scripted.Call("write_file", map[string]string{"path": "a", "content": "x"}),
		scripted.Say("I may not"),
	)})
	res, err := h.Run(t.Context(), task.New("try", dir))
	if err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", res.Outcome, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); !os.IsNotExist(err) {
		t.Error("a write that asks happened although nobody was there to be asked")
	}
	refused, err := store.Collect(st.Refusals(t.Context(), res.RunID))
	if err != nil || len(refused) != 1 || refused[0].Target != ".env" {
		t.Errorf("refusals: %+v, %v", refused, err)
	}
}

func TestAConversationGoesOnInAnotherHarness(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "runs.db")
	ctx := t.Context()
	st, err := store.Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, harness.Config{Store: st, Provider: scripted.New(scripted.Say("hello, I am listening"))})
	s, err := h.Open(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	turn, err := s.Turn(ctx, "hello, my name is Ada")
	if err != nil || turn.Kind != session.Reply || turn.Reply != "hello, I am listening" || turn.Outcome.Kind != trace.Finished || turn.Outcome.Steps != 0 {
		t.Fatalf("%+v, %v", turn, err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}

	st2, err := store.Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer st2.Close()
	model := scripted.New(scripted.Say("Ada"))
	s2, err := newHarness(t, harness.Config{Store: st2, Provider: model}).Reopen(ctx, s.ID())
	if err != nil {
		t.Fatal(err)
	}
	turn, err = s2.Turn(ctx, "what is my name?")
	if err != nil || turn.Reply != "Ada" {
		t.Fatalf("%+v, %v", turn, err)
	}
	if text := model.Requests()[0].User; !strings.Contains(text, "my name is Ada") || !strings.Contains(text, "I am listening") {
		t.Errorf("the conversation so far is not in the request:\n%s", text)
	}
	history, err := s2.History(ctx)
	if err != nil || len(history) != 2 || history[0].Prompt != "hello, my name is Ada" || history[1].Reply != "Ada" {
		t.Errorf("history: %+v, %v", history, err)
	}
	if steps, err := store.Collect(st2.Steps(ctx, turn.RunID)); err != nil || len(steps) != 0 {
		t.Errorf("a turn that was only answered has %d steps, %v", len(steps), err)
	}
	if _, err := newHarness(t, harness.Config{Store: st2, Provider: model}).Reopen(ctx, 999); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown session: %v", err)
	}
}

func TestADeferredActIsDecidedByResumingTheTurn(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	later := approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Defer(), nil })
	h := newHarness(t, harness.Config{
		Approver: later, Policy: policy.Default(),
		Provider: scripted.New(scripted.Call("write_file", map[string]string{"path": "a.txt", "content": "x"}), scripted.Say("written")),
	})
	s, err := h.Open(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	turn, err := s.Turn(ctx, "write a.txt")
	if err != nil || turn.Outcome.Kind != trace.AwaitingApproval || turn.Reply != "" {
		t.Fatalf("%+v, %v", turn, err)
	}
	done, err := s.ResumeTurn(ctx, turn.ID, session.Decide(turn.Outcome.RequestID, approve.Approve()))
	if err != nil || done.ID != turn.ID || done.Outcome.Kind != trace.Finished || done.Reply != "written" {
		t.Fatalf("%+v, %v", done, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(b) != "x" {
		t.Errorf("a.txt: %q, %v", b, err)
	}
	history, err := s.History(ctx)
	if err != nil || len(history) != 1 || history[0].Reply != "written" || history[0].Outcome.Kind != trace.Finished {
		t.Errorf("history: %+v, %v", history, err)
	}
}

func TestARunThroughTheDoorIsTheRunOfTheLoop(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	calls := 0
	count := tool.New("count", "Counts.", func(context.Context, struct{}) (string, error) { calls++; return "counted", nil })
	h := newHarness(t, harness.Config{
		Policy:   policy.Default().Layer("app").AllowWrite("*").AllowExec("count", "test *"),
		Provider: scripted.New(scripted.Call("count", nil), scripted.Call("write_file", map[string]string{"path": "done", "content": "x"})),
	})
	c := task.New("finish", dir)
	c.Verify = verify.Command("test", "-f", "done")
	c.Tools = tool.Toolbox{count}
	res, err := h.Run(ctx, c)
	if err != nil || res.Outcome.Kind != trace.Success || res.Outcome.Steps != 2 || calls != 1 {
		t.Fatalf("%s, %v, %d calls", res.Outcome, err, calls)
	}
	again, err := h.Resume(ctx, res.RunID)
	if err != nil || again.Outcome != res.Outcome {
		t.Errorf("resume: %s, %v", again.Outcome, err)
	}
	undone, err := h.Rewind(ctx, res.RunID, harness.UndoRun())
	if err != nil || len(undone.Files) != 1 || undone.Files[0].Verdict != trace.Removed {
		t.Errorf("rewind: %+v, %v", undone, err)
	}
	fork, err := h.Fork(ctx, res.RunID, 1)
	if err != nil || fork == res.RunID {
		t.Errorf("fork: %d, %v", fork, err)
	}
}

func TestAFailedTurnNamesItsRun(t *testing.T) {
	ctx := t.Context()
	h := newHarness(t, harness.Config{Provider: scripted.New(scripted.FailKind(provider.Auth, "wrong key"))})
	s, err := h.Open(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Turn(ctx, "hello")
	var te *session.TurnError
	if !errors.As(err, &te) || te.Run == 0 || te.Turn == 0 || te.Outcome != trace.EscalatedTerminal || !errors.Is(err, provider.Auth) {
		t.Errorf("got %v", err)
	}
}

func TestATurnInADirectoryThatIsGoneLeavesNoRow(t *testing.T) {
	ctx := t.Context()
	st := newStore(t)
	h := newHarness(t, harness.Config{Store: st, Provider: scripted.New(scripted.Say("never"))})
	dir := filepath.Join(t.TempDir(), "gone")
	var invalid *task.InvalidError
	if _, err := h.Open(ctx, dir); !errors.As(err, &invalid) || invalid.Field != "Root" {
		t.Errorf("a conversation about nothing: %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := h.Open(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Turn(ctx, "hello"); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if last, err := st.LastRun(ctx); last != nil || err != nil {
		t.Errorf("a run was opened: %+v, %v", last, err)
	}
}

func TestTwoHandlesOnOneConversationLoseNothing(t *testing.T) {
	ctx := t.Context()
	st := newStore(t)
	model := scripted.New(scripted.Say("first"), scripted.Say("second"))
	h := newHarness(t, harness.Config{Store: st, Provider: model})
	a, err := h.Open(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b, err := h.Reopen(ctx, a.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Turn(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	_, err = b.Turn(ctx, "two")
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || conflict.SessionID != a.ID() || len(model.Requests()) != 1 {
		t.Errorf("a handle that is behind: %v, %d completions", err, len(model.Requests()))
	}
	if err := b.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if turn, err := b.Turn(ctx, "two"); err != nil || turn.Reply != "second" {
		t.Errorf("after a refresh: %+v, %v", turn, err)
	}
}

func TestAnUnreadableStoreIsATypedError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), path); !errors.Is(err, store.ErrForeignStore) {
		t.Errorf("a file of something else: %v", err)
	}
	var se *store.Error
	if _, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "no", "such", "runs.db")); !errors.As(err, &se) || se.Kind != store.KindCantOpen {
		t.Errorf("a missing directory: %v", err)
	}
}
