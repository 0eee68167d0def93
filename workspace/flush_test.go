//go:build unix

package workspace

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
)

// abandoning counts the announcements that were taken back.
type abandoning struct {
	announcer
	abandoned int
}

func (a *abandoning) Abandon(context.Context, Change) { a.abandoned++ }

// A change that was made stands and is on record, though its directory could not be
// written out; only what may come of that is told.
func TestAChangeThatIsMadeIsNoFailureBecauseItsDirectoryCannotBeFlushed(t *testing.T) {
	broken := errors.New("input/output error")
	was := flushDir
	flushDir = func(*os.Root) error { return broken }
	t.Cleanup(func() { flushDir = was })
	tr := newTree(t, policy.Permissive())
	tr.put("f", "old\n")
	j := &abandoning{}
	w := tr.WithJournal(j)
	c, err := w.WriteFile(t.Context(), "f", "new\n")
	if err != nil || !errors.Is(c.Unflushed, broken) || tr.get("f") != "new\n" {
		t.Errorf("WriteFile = %v, unflushed %v, file %q", err, c.Unflushed, tr.get("f"))
	}
	if err := w.Remove(t.Context(), "f"); !errors.Is(err, broken) {
		t.Errorf("Remove = %v", err)
	}
	if _, err := os.Stat(tr.path("f")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the removed file: %v", err)
	}
	if len(j.edits) != 2 || len(j.points) != 1 || string(j.points[0].Before) != "old\n" || j.abandoned != 0 {
		t.Errorf("edits %+v, restore points %+v, %d taken back", j.edits, j.points, j.abandoned)
	}
}
