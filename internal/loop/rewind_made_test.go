package loop

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// gone fails the test when a file is there.
func (f *fixture) gone(name string) {
	f.t.Helper()
	if b, err := os.ReadFile(filepath.Join(f.dir, name)); !os.IsNotExist(err) {
		f.t.Errorf("%s is still there: %q, %v", name, b, err)
	}
}

// wants compares the verdicts of an undo.
func (f *fixture) wants(id trace.RunID, what Undo, want map[string]trace.Undone) *trace.Rewound {
	f.t.Helper()
	r := f.rewind(id, what)
	if diff := cmp.Diff(want, verdicts(r)); diff != "" {
		f.t.Errorf("%+v (-want +got):\n%s", what, diff)
	}
	return r
}

func TestAMadeFileWhoseRemovalIsRefusedKeepsItsBytes(t *testing.T) {
	for name, what := range map[string]Undo{"step": {Step: 1}, "from": {From: 1}, "file": {Path: "made.txt"}, "run": {All: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, write("made.txt", "precious\n"), readCall("made.txt"))
			res := f.must(trace.StepCapReached, withSteps(2))
			later := open.Layer("later").AskWrite("made.txt")
			c := f.contract(withSteps(5))
			f.script(scripted.Say("done"))
			if _, err := f.resume(res.RunID, Resumption{Policy: &later, Contract: &c}); err != nil {
				t.Fatal(err)
			}
			for range 2 { // and is not half undone, which a second undo would show
				f.wants(res.RunID, what, map[string]trace.Undone{"made.txt": trace.UndoRefused})
				if got := f.read("made.txt"); got != "precious\n" {
					t.Fatalf("made.txt is %q", got)
				}
			}
		})
	}
}

func TestAMadeFileThatIsGoneAlreadyIsTakenBack(t *testing.T) {
	f := newFixture(t, write("made.txt", "x\n"), scripted.Say("done"))
	res := f.must(trace.Finished)
	if err := os.Remove(filepath.Join(f.dir, "made.txt")); err != nil { // as an undo that died before its record
		t.Fatal(err)
	}
	r := f.wants(res.RunID, Undo{Step: 1}, map[string]trace.Undone{"made.txt": trace.Applied})
	if r.Files[0].Changed {
		t.Error("something is said to have changed")
	}
}

func TestAMadeFileThatChangedSinceIsStale(t *testing.T) {
	f := newFixture(t, write("made.txt", "x\n"), scripted.Say("done"))
	res := f.must(trace.Finished)
	f.write("made.txt", "x\nand by hand\n")
	f.wants(res.RunID, Undo{Step: 1}, map[string]trace.Undone{"made.txt": trace.Stale})
	if got := f.read("made.txt"); got != "x\nand by hand\n" {
		t.Errorf("made.txt is %q", got)
	}
}

func TestTheUndoOfAStepKnowsWhatHasNoLines(t *testing.T) {
	f := newFixture(t,
		write("empty.txt", ""), write("blob.bin", "\x00\x01 two\n"), write("new.bin", "\x00\x02"), write("same.txt", "same\n"), scripted.Say("done"))
	f.write("blob.bin", "\x00\x01 one\n")
	f.write("same.txt", "same\n")
	res := f.must(trace.Finished)
	f.wants(res.RunID, Undo{From: 1}, map[string]trace.Undone{
		"empty.txt": trace.Applied, "blob.bin": trace.NoHunk, "new.bin": trace.Applied, "same.txt": trace.Applied,
	})
	f.gone("empty.txt")
	f.gone("new.bin")
	if got := f.read("same.txt"); got != "same\n" {
		t.Errorf("same.txt is %q", got)
	}
	edits, err := store.Collect(f.store.Edits(context.Background(), res.RunID))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		if taken := e.Reverted != 0; taken == (e.Path == "blob.bin") {
			t.Errorf("%s is marked as taken back: %v", e.Path, taken)
		}
	}
	f.wants(res.RunID, Undo{Step: 2}, map[string]trace.Undone{"blob.bin": trace.NoHunk}) // it stays undone, and says so again
}

func TestAFileThatWasMadeAgainIsTakenBackAgain(t *testing.T) {
	f := newFixture(t, write("a.txt", "one\n"), readCall("a.txt"))
	res := f.must(trace.StepCapReached, withSteps(2))
	f.wants(res.RunID, Undo{Step: 1}, map[string]trace.Undone{"a.txt": trace.Applied})
	f.gone("a.txt")
	c := f.contract(withSteps(9))
	f.script(write("a.txt", "two\n"), scripted.Say("done"))
	if _, err := f.resume(res.RunID, Resumption{Contract: &c}); err != nil {
		t.Fatal(err)
	}
	f.wants(res.RunID, Undo{Step: 3}, map[string]trace.Undone{"a.txt": trace.Applied})
	f.gone("a.txt")
}

func TestWhatARestorePointTookBackStandsNoMore(t *testing.T) {
	for name, what := range map[string]Undo{"file": {Path: "a.txt"}, "run": {All: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, write("a.txt", "one\n"), edit("a.txt", "one", "two"), readCall("a.txt"))
			res := f.must(trace.StepCapReached, withSteps(3))
			f.wants(res.RunID, what, map[string]trace.Undone{"a.txt": trace.Removed})
			for _, e := range f.edits(res.RunID) {
				if e.Reverted == 0 {
					t.Errorf("the edit of step %d reads as one that stands", e.Step)
				}
			}
			if paths, err := f.store.EditedPaths(context.Background(), res.RunID, 3); err != nil || len(paths) != 0 {
				t.Errorf("files that the run wrote: %v, %v", paths, err)
			}
			c := f.contract(withSteps(9))
			f.script(write("a.txt", "three\n"), scripted.Say("done"))
			if _, err := f.resume(res.RunID, Resumption{Contract: &c}); err != nil {
				t.Fatal(err)
			}
			f.wants(res.RunID, Undo{From: 1}, map[string]trace.Undone{"a.txt": trace.Applied}) // of what is not taken back
			f.gone("a.txt")
		})
	}
}

func TestAFileThatWasDeletedAndMadeAnewIsTakenBack(t *testing.T) {
	f := newFixture(t, write("a.txt", "one\n"), command("rm", "a.txt"), write("a.txt", "two\n"), scripted.Say("done"))
	f.host.Policy = open.Layer("rm").AllowExec("rm *")
	f.write("a.txt", "zero\n")
	res := f.must(trace.Finished)
	f.wants(res.RunID, Undo{Step: 3}, map[string]trace.Undone{"a.txt": trace.Applied})
	f.gone("a.txt")
	// What the command removed is not the tool's to bring back.
	f.wants(res.RunID, Undo{Step: 1}, map[string]trace.Undone{"a.txt": trace.Stale})
}

func TestTheChangesOfAnArchivedSessionAreNotTakenBack(t *testing.T) {
	f := newFixture(t, write("a.txt", "one\n"), scripted.Say("done"))
	res := f.must(trace.Finished)
	edits, err := store.Collect(f.store.Edits(context.Background(), res.RunID))
	if err != nil || len(edits) != 1 {
		t.Fatalf("%+v, %v", edits, err)
	}
	edits[0].Hunk, edits[0].Facts = "", nil // as an archive leaves it
	if w, err := wayBack(edits); err != nil || !w.lost {
		t.Errorf("%+v, %v", w, err)
	}
}
