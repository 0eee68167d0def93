package loop

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// An undo that dies between a file and its record has taken the file back all the
// same: the next one finds that, and takes nothing back a second time.
func TestAnUndoThatDiedBeforeItsRecordIsFoundToBeDone(t *testing.T) {
	same := strings.Repeat("same\n", 20) // with one line less, every hunk fits still
	for name, tc := range map[string]struct {
		turns  []scripted.Turn
		what   Undo
		before string
		want   string
	}{
		"one change": {
			[]scripted.Turn{edit("a.txt", "one", "two")}, Undo{Step: 1}, "one\n", "one\n",
		},
		"two changes of a step": {
			[]scripted.Turn{scripted.Calls(
				scripted.Tool("edit_file", map[string]string{"path": "a.txt", "search": "one", "replace": "two"}),
				scripted.Tool("edit_file", map[string]string{"path": "a.txt", "search": "two", "replace": "three"}),
			)}, Undo{Step: 1}, "one\n", "one\n",
		},
		"two steps": {
			[]scripted.Turn{edit("a.txt", "one", "two"), edit("a.txt", "two", "three")}, Undo{From: 1}, "one\n", "one\n",
		},
		"a step under another": {
			[]scripted.Turn{edit("a.txt", "one", "two"), edit("a.txt", "END", "end")}, Undo{Step: 1},
			"one\n" + same + "END\n", "one\n" + same + "end\n",
		},
		"lines that repeat": {
			[]scripted.Turn{write("a.txt", same+"same\n")}, Undo{Step: 1}, same, same,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, m := newMortal(t)
			f.write("a.txt", tc.before)
			f.script(append([]scripted.Turn{readCall("a.txt")}, append(tc.turns, scripted.Say("done"))...)...)
			res := f.must(trace.Finished)
			tc.what = Undo{Step: tc.what.Step + min(tc.what.Step, 1), From: tc.what.From + min(tc.what.From, 1)} // behind the read
			m.dieAt("insert rewind item", 0)
			if _, err := Rewind(context.Background(), f.host, res.RunID, tc.what); !errors.Is(err, errDied) {
				t.Fatalf("%v: want an undo that died", err)
			}
			if got := f.read("a.txt"); got != tc.want {
				t.Fatalf("a.txt is %q behind the undo that died", got)
			}
			r := f.wants(res.RunID, tc.what, map[string]trace.Undone{"a.txt": trace.Applied})
			if got := f.read("a.txt"); got != tc.want {
				t.Errorf("a.txt is %q, want %q", got, tc.want)
			}
			for _, i := range r.Files {
				if i.Changed {
					t.Errorf("something is said to have changed: %+v", i)
				}
			}
			f.wants(res.RunID, tc.what, map[string]trace.Undone{}) // and now nothing is left of it
		})
	}
}

// What is neither what the step left nor what was before it stays stale.
func TestAFileThatSomebodyChangedBehindADeadUndoIsStale(t *testing.T) {
	f, m := newMortal(t)
	f.write("a.txt", "one\n")
	f.script(edit("a.txt", "one", "two"), scripted.Say("done"))
	res := f.must(trace.Finished)
	m.dieAt("insert rewind item", 0)
	if _, err := Rewind(context.Background(), f.host, res.RunID, Undo{Step: 1}); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	f.write("a.txt", "by hand\n")
	f.wants(res.RunID, Undo{Step: 1}, map[string]trace.Undone{"a.txt": trace.Stale})
	if got := f.read("a.txt"); got != "by hand\n" {
		t.Errorf("a.txt is %q", got)
	}
}

// A step that died is undone, and then made again: what it did then stands, and can
// be taken back.
func TestWhatIsMadeAgainBehindAnUndoIsTakenBackAgain(t *testing.T) {
	f, m := newMortal(t)
	f.write("a.txt", "one\n")
	m.dieAt("insert step", 0)
	f.script(edit("a.txt", "one", "two"))
	id := f.died()
	f.wants(id, Undo{Step: 1}, map[string]trace.Undone{"a.txt": trace.Applied})
	f.script(edit("a.txt", "one", "two"), scripted.Say("done"))
	if res, err := f.resume(id, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished || f.read("a.txt") != "two\n" {
		t.Fatalf("%+v, %v, a.txt %q", res, err, f.read("a.txt"))
	}
	if paths, err := f.store.EditedPaths(context.Background(), id, 1); err != nil || len(paths) != 1 {
		t.Errorf("files that the run wrote: %v, %v", paths, err)
	}
	f.wants(id, Undo{Step: 1}, map[string]trace.Undone{"a.txt": trace.Applied})
	if got := f.read("a.txt"); got != "one\n" {
		t.Errorf("a.txt is %q", got)
	}
	rows, err := store.Collect(f.store.Edits(context.Background(), id))
	if err != nil || len(rows) != 1 || rows[0].Reverted == 0 {
		t.Errorf("%+v, %v", rows, err)
	}
}
