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

// remembering is the journal of a call that was made before a crash.
type remembering struct {
	announcer
	done Change
}

func (r *remembering) Recall(string, string) (Change, bool, bool) { return r.done, true, true }

// A call that is made again after a crash, and whose change stands, changes nothing.
func TestAChangeThatWasMadeBeforeTheCrashIsNotMadeAgain(t *testing.T) {
	done := Change{Edit: Edit{Path: "f", Wrote: Changed, LinesAdded: 7}}
	for name, call := range map[string]func(w *Workspace) (Change, error){
		"write": func(w *Workspace) (Change, error) { return w.WriteFile(t.Context(), "f", "x\nx\n") },
		"edit":  func(w *Workspace) (Change, error) { return w.EditFile(t.Context(), "f", "x", "x\nx") },
		"patch": func(w *Workspace) (Change, error) {
			c, _, err := w.PatchFile(t.Context(), "f", "@@ -1 +1,2 @@\n x\n+x\n")
			return c, err
		},
		"remove": func(w *Workspace) (Change, error) { return done, w.Remove(t.Context(), "f") },
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			tr.put("f", "x\n")
			j := &remembering{done: done}
			c, err := call(tr.WithJournal(j))
			if err != nil || c.LinesAdded != 7 || tr.get("f") != "x\n" || len(j.points)+len(j.edits) != 0 {
				t.Errorf("%+v, %v; f = %q, %d points, %d edits", c, err, tr.get("f"), len(j.points), len(j.edits))
			}
		})
	}
}

// Only what a write itself made ready is discarded.
func TestDiscardTakesNoFileOfAnybody(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	temp := tempPrefix + "0123456789ABCDEF" + tempSuffix
	for _, f := range []string{"d/f", "d/other.tmp", "d/" + tempPrefix + "x", "d/sub/" + temp, "d/" + temp} {
		tr.put(f, "x")
	}
	for _, name := range []string{"f", "other.tmp", tempPrefix + "x", "sub/" + temp, "../d/f", "", `sub\` + temp} {
		if err := tr.Discard("d/f", name); err == nil {
			t.Errorf("Discard(%q) = nil", name)
		}
	}
	if err := tr.Discard("d/f", temp); err != nil {
		t.Error(err)
	}
	tr.absent("d/" + temp)
	for _, f := range []string{"d/f", "d/other.tmp", "d/" + tempPrefix + "x", "d/sub/" + temp} {
		tr.get(f)
	}
	if err := tr.Discard("gone/f", temp); err != nil {
		t.Errorf("where the directory is gone: %v", err)
	}
}
