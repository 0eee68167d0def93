package workspace

import (
	"context"
	"errors"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
)

// announcer stores a restore point with the change that follows it, as a journal
// does that outlives its process.
type announcer struct {
	recorder
	waiting *RestorePoint
	refuse  error
}

func (a *announcer) Before(_ context.Context, p RestorePoint) error {
	a.waiting = &p
	return nil
}

func (a *announcer) Intend(ctx context.Context, _ Change, _ string, _ bool) error {
	if a.refuse != nil {
		return a.refuse
	}
	if a.waiting == nil {
		return nil
	}
	p := *a.waiting
	a.waiting = nil
	return a.recorder.Before(ctx, p)
}

func (a *announcer) Abandon(context.Context, Change) {}

func (a *announcer) Recall(string, string) (Change, bool, bool) { return Change{}, false, false }

func TestAWriteThatCouldNotBeAnnouncedTakesNoRestorePointWithIt(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "old\n")
	busy := errors.New("busy")
	for name, write := range map[string]func(w *Workspace) error{
		"write":  func(w *Workspace) error { return second(w.WriteFile(t.Context(), "f", "new\n")) },
		"edit":   func(w *Workspace) error { return second(w.EditFile(t.Context(), "f", "old", "new")) },
		"remove": func(w *Workspace) error { return w.Remove(t.Context(), "f") },
	} {
		t.Run(name, func(t *testing.T) {
			tr.put("f", "old\n")
			j := &announcer{refuse: busy}
			w := tr.WithJournal(j)
			if err := write(w); !errors.Is(err, busy) || tr.get("f") != "old\n" {
				t.Fatalf("error %v, f %q, want the journal's and the old content", err, tr.get("f"))
			}
			j.refuse, j.waiting = nil, nil // the next call has a journal of its own
			if err := write(w); err != nil {
				t.Fatal(err)
			}
			if len(j.points) != 1 || string(j.points[0].Before) != "old\n" {
				t.Errorf("restore points %+v, want the old content", j.points)
			}
			if _, err := w.WriteFile(t.Context(), "f", "newer\n"); err != nil || len(j.points) != 1 {
				t.Errorf("a second write: %v, %d restore points", err, len(j.points))
			}
		})
	}
}
