//go:build unix

package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// watchFlushes has look called at each flush, with the path below the root of what is
// about to be flushed, "." for the root.
func watchFlushes(t *testing.T, root string, look func(path string) error) {
	t.Helper()
	file, dir := flushFile, flushDir
	t.Cleanup(func() { flushFile, flushDir = file, dir })
	below := func(name string) string {
		rel, err := filepath.Rel(root, name)
		if err != nil {
			t.Error(err)
		}
		return rel
	}
	flushFile = func(f *os.File) error {
		if err := look(below(f.Name())); err != nil {
			return err
		}
		return file(f)
	}
	flushDir = func(d *os.Root) error {
		if err := look(below(d.Name())); err != nil {
			return err
		}
		return dir(d)
	}
}

// A loss of power leaves the old or the new file: the new content is on the disk before it
// gets the file's name, and the name, and those of the directories on the way there,
// before the write is done.
func TestAFileIsOnTheDiskBeforeItHasItsName(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("old/f", "old\n")
	var flushed []string
	watchFlushes(t, tr.Root(), func(p string) error {
		if strings.HasPrefix(filepath.Base(p), tempPrefix) {
			if got := tr.get(p); got != "new\n" {
				t.Errorf("flushed with %q", got)
			}
			p = filepath.Join(filepath.Dir(p), "TEMP")
		}
		now := "absent"
		if data, err := os.ReadFile(tr.path("old/f")); err == nil {
			now = strings.TrimSpace(string(data))
		}
		flushed = append(flushed, p+" "+now)
		return nil
	})
	for _, p := range []string{"old/f", "a/b/f"} {
		if _, err := tr.WriteFile(t.Context(), p, "new\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.Remove(t.Context(), "old/f"); err != nil {
		t.Fatal(err)
	}
	want := "old/TEMP old, old new, . new, a new, a/b/TEMP new, a/b new, old absent"
	if got := strings.Join(flushed, ", "); got != want {
		t.Errorf("flushed %s\nwant    %s", got, want)
	}
}

// Content that may not be on the disk replaces nothing, and where a file had to be
// overwritten in place it is said that it holds parts of both.
func TestContentThatCannotBeFlushedReplacesNothing(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("d/f", "old\n")
	broken := errors.New("input/output error")
	watchFlushes(t, tr.Root(), func(p string) error {
		if strings.HasPrefix(filepath.Base(p), tempPrefix) || p == "d/f" {
			return broken
		}
		return nil
	})
	j := &abandoning{}
	w := tr.WithJournal(j)
	for what, err := range map[string]error{
		"write":  second(w.WriteFile(t.Context(), "d/f", "new\n")),
		"edit":   second(w.EditFile(t.Context(), "d/f", "old", "new")),
		"create": second(w.WriteFile(t.Context(), "d/g", "new\n")),
	} {
		if !errors.Is(err, broken) {
			t.Errorf("%s = %v", what, err)
		}
	}
	if len(j.edits) != 0 || j.abandoned != 3 || tr.get("d/f") != "old\n" {
		t.Errorf("%d edits on record, %d announcements taken back, d/f = %q", len(j.edits), j.abandoned, tr.get("d/f"))
	}
	tr.absent("d/g")
	tr.noTemporary()
	target, err := tr.target(t.Context(), "d/f")
	if err != nil {
		t.Fatal(err)
	}
	defer target.close()
	var partly *PartlyWrittenError
	if err := target.overwrite([]byte("new\n")); !errors.As(err, &partly) || !errors.Is(err, broken) || partly.Path != "d/f" {
		t.Errorf("overwriting in place = %v", err)
	}
}
