package harness_test

import (
	"context"
	"errors"
	"testing"
	"time"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// Whatever wants a run for itself, or wants it gone, is refused by the name of who
// drives it, from another handle of the file as well, and changes nothing.
func TestEveryWayIntoADrivenRunIsRefusedByName(t *testing.T) {
	ctx := t.Context()
	st := newStore(t)
	beside, err := store.Open(ctx, st.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	asked := scripted.New()
	other := newHarness(t, harness.Config{Store: beside, Provider: asked, Policy: policy.Permissive()})
	dir := t.TempDir()

	var run trace.RunID
	var sess trace.SessionID
	resume := func(opts ...harness.ResumeOption) func() error {
		return func() error { _, err := other.Resume(ctx, run, opts...); return err }
	}
	rewind := func(what harness.Undo) func() error {
		return func() error { _, err := other.Rewind(ctx, run, what); return err }
	}
	entries := map[string]func() error{
		"Resume":                       resume(),
		"Resume with a policy":         resume(harness.WithPolicy(policy.Permissive())),
		"Resume with a contract":       resume(harness.WithContract(task.New("g", dir))),
		"Resume with a decision":       resume(harness.Decide(1, approve.Approve())),
		"Resume with an answer":        resume(harness.Answer(1, "yes")),
		"Resume with a verdict":        resume(harness.Verdict(1, approve.Accept())),
		"Resume with a retry":          resume(harness.Recover(1, harness.Retry())),
		"Resume with an account":       resume(harness.Recover(1, harness.Completed("it is done"))),
		"Resume with an abort":         resume(harness.Recover(1, harness.Abort())),
		"RetryGate":                    func() error { _, err := other.RetryGate(ctx, run); return err },
		"Rewind of the run":            rewind(harness.UndoRun()),
		"Rewind of a step":             rewind(harness.UndoStep(1)),
		"Rewind from a step":           rewind(harness.UndoFrom(1)),
		"Rewind of a file":             rewind(harness.UndoFile("a.txt")),
		"DeleteSession":                func() error { _, err := beside.DeleteSession(ctx, sess); return err },
		"ArchiveSession":               func() error { _, err := beside.ArchiveSession(ctx, sess); return err },
		"Compact":                      func() error { _, err := beside.Compact(ctx); return err },
		"Resume through the same file": func() error { _, _, err := st.EnterDrive(ctx, run, store.EnterOptions{}); return err },
	}
	model := scripted.Func(func(c context.Context, req *provider.Request) (*provider.Response, error) {
		last, err := st.LastRun(c)
		if err != nil {
			return nil, err
		}
		turn, err := st.TurnForRun(c, last.ID)
		if err != nil {
			return nil, err
		}
		run, sess = last.ID, turn.SessionID
		lease, err := st.LeaseOf(c, run)
		if err != nil {
			return nil, err
		}
		for name, enter := range entries {
			var conflict *store.ConflictError
			err := enter()
			if name == "RetryGate" {
				// It looks first whether there is anything to repeat.
				if err == nil {
					t.Errorf("%s went through", name)
				}
				continue
			}
			if !errors.As(err, &conflict) || conflict.Owner != lease.Owner || !conflict.ExpiresAt.After(time.Now()) {
				t.Errorf("%s: %v, want a refusal by the name of %s", name, err, lease.Owner)
			}
		}
		swept, err := beside.SweepSessions(c, time.Now().Add(time.Hour))
		if err != nil || swept.Sessions != 0 || len(swept.Refused) != 1 {
			t.Errorf("a sweep: %+v, %v", swept, err)
		}
		return scripted.Say("done")(c, req)
	})
	h := newHarness(t, harness.Config{Store: st, Provider: model})
	s, err := h.Open(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	turn, err := s.Turn(ctx, "work")
	if err != nil || turn.Reply != "done" {
		t.Errorf("the turn: %+v, %v", turn, err)
	}
	if len(asked.Requests()) != 0 {
		t.Errorf("a second driver asked its model %d times", len(asked.Requests()))
	}
	if drives, err := st.Drives(ctx, run); err != nil || len(drives) != 1 {
		t.Errorf("drives: %+v, %v", drives, err)
	}
	rep, err := st.Check(ctx)
	if err != nil || !rep.Sound() {
		t.Errorf("check: %+v, %v", rep, err)
	}
}

func TestATurnWhoseSessionIsTakenByForceEndsWithAConflict(t *testing.T) {
	ctx := context.Background()
	for name, take := range map[string]func(*store.Store, trace.SessionID) error{
		"deleted": func(st *store.Store, id trace.SessionID) error {
			_, err := st.DeleteSession(ctx, id, store.Force())
			return err
		},
		"archived": func(st *store.Store, id trace.SessionID) error {
			_, err := st.ArchiveSession(ctx, id, store.Force())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStore(t)
			beside, err := store.Open(ctx, st.Path())
			if err != nil {
				t.Fatal(err)
			}
			defer beside.Close()
			var sess trace.SessionID
			asked := 0
			model := scripted.Func(func(c context.Context, req *provider.Request) (*provider.Response, error) {
				if asked++; asked == 1 {
					if err := take(beside, sess); err != nil {
						return nil, err
					}
				}
				return scripted.Call("list_files", map[string]string{})(c, req)
			})
			h := newHarness(t, harness.Config{Store: st, Provider: model})
			s, err := h.Open(ctx, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			sess = s.ID()
			if turn, err := s.Turn(ctx, "work"); !errors.Is(err, store.ErrConflict) {
				t.Errorf("the turn: %+v, %v", turn, err)
			}
			if asked != 1 {
				t.Errorf("the model was asked %d times", asked)
			}
			if rep, err := beside.Check(ctx); err != nil || !rep.Sound() {
				t.Errorf("check: %+v, %v", rep, err)
			}
		})
	}
}
