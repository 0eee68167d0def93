package loop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

func edit(path, search, replace string) scripted.Turn {
	return scripted.Call("edit_file", map[string]string{"path": path, "search": search, "replace": replace})
}

func (f *fixture) rewind(id trace.RunID, what Undo) *trace.Rewound {
	f.t.Helper()
	r, err := Rewind(context.Background(), f.host, id, what)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func verdicts(r *trace.Rewound) map[string]trace.Undone {
	out := map[string]trace.Undone{}
	for _, i := range r.Files {
		out[i.Name] = i.Verdict
	}
	return out
}

func TestAWholeRunIsUndoneAndItsTraceStays(t *testing.T) {
	f := newFixture(t,
		write("kept.txt", "new\n"), edit("kept.txt", "new", "newer"), write("made.txt", "x"), write("gone.txt", "x"),
		write("tool.sh", "#!/bin/sh\nexit 1\n"), write("blob.bin", "text now"), scripted.Say("done"))
	f.write("kept.txt", "old\r\nno newline")
	f.write("tool.sh", "#!/bin/sh\nexit 0\n")
	if err := os.Chmod(filepath.Join(f.dir, "tool.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.write("blob.bin", "\xff\xfe\x00binary")
	res := f.must(trace.Finished)
	if err := os.Remove(filepath.Join(f.dir, "gone.txt")); err != nil { // a person was quicker
		t.Fatal(err)
	}
	before := f.canonical(res.RunID)
	r := f.rewind(res.RunID, Undo{All: true})
	want := map[string]trace.Undone{
		"kept.txt": trace.Restored, "made.txt": trace.Removed, "gone.txt": trace.Removed, "tool.sh": trace.Restored, "blob.bin": trace.NotKept,
	}
	if diff := cmp.Diff(want, verdicts(r)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if got := f.read("kept.txt"); got != "old\r\nno newline" {
		t.Errorf("kept.txt is %q", got)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "made.txt")); !os.IsNotExist(err) {
		t.Errorf("made.txt is still there: %v", err)
	}
	if info, err := os.Stat(filepath.Join(f.dir, "tool.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode of tool.sh: %v, %v", info.Mode(), err)
	}
	if got := f.read("blob.bin"); got != "text now" {
		t.Errorf("blob.bin is %q: what is not kept is not touched", got)
	}
	if f.canonical(res.RunID) != before {
		t.Error("the trace changed")
	}
	if f.seen.count("rewound") != 1 {
		t.Errorf("events: %v", f.seen.kinds())
	}
	rows, err := f.store.Rewinds(context.Background(), res.RunID)
	if err != nil || len(rows) != 1 || !rows[0].Done || len(rows[0].Items) != 5 {
		t.Errorf("record: %+v, %v", rows, err)
	}
	again := f.rewind(res.RunID, Undo{All: true})
	for _, i := range again.Files {
		if i.Changed {
			t.Errorf("the second rewind changed %s", i.Name)
		}
	}
}

func TestAFileIsUndoneAlone(t *testing.T) {
	f := newFixture(t, write("a.txt", "1"), write("b.txt", "2"), scripted.Say("done"))
	f.write("a.txt", "0")
	res := f.must(trace.Finished)
	f.rewind(res.RunID, Undo{Path: "./a.txt"})
	if f.read("a.txt") != "0" || f.read("b.txt") != "2" {
		t.Errorf("a.txt %q, b.txt %q", f.read("a.txt"), f.read("b.txt"))
	}
	if v := verdicts(f.rewind(res.RunID, Undo{Path: "never.txt"})); v["never.txt"] != trace.NotRecorded {
		t.Errorf("%v", v)
	}
}

func TestAStepIsUndoneLastChangeFirst(t *testing.T) {
	f := newFixture(t,
		scripted.Calls(
			scripted.Tool("edit_file", map[string]string{"path": "a.txt", "search": "one", "replace": "1"}),
			scripted.Tool("edit_file", map[string]string{"path": "a.txt", "search": "1", "replace": "uno"}),
			scripted.Tool("write_file", map[string]string{"path": "made.txt", "content": "x\n"}),
		),
		edit("b.txt", "two", "2"), edit("b.txt", "2", "dos"), scripted.Say("done"))
	f.write("a.txt", "one\r\ntwo\r\nthree")
	f.write("b.txt", "two\n")
	res := f.must(trace.Finished)
	if diff := cmp.Diff(map[string]trace.Undone{"a.txt": trace.Applied, "made.txt": trace.Applied}, verdicts(f.rewind(res.RunID, Undo{Step: 1}))); diff != "" {
		t.Errorf("step 1 (-want +got):\n%s", diff)
	}
	if got := f.read("a.txt"); got != "one\r\ntwo\r\nthree" {
		t.Errorf("a.txt is %q", got)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "made.txt")); !os.IsNotExist(err) {
		t.Error("made.txt is still there")
	}
	if v := verdicts(f.rewind(res.RunID, Undo{Step: 2})); v["b.txt"] != trace.Stale || f.read("b.txt") != "dos\n" {
		t.Errorf("step 2 under step 3: %v, %q", v, f.read("b.txt"))
	}
	f.rewind(res.RunID, Undo{Step: 3})
	f.rewind(res.RunID, Undo{Step: 2})
	if got := f.read("b.txt"); got != "two\n" {
		t.Errorf("b.txt is %q", got)
	}
	if r := f.rewind(res.RunID, Undo{Step: 3}); len(r.Files) != 0 {
		t.Errorf("a step was undone twice: %+v", r.Files)
	}
	if f.seen.count("reverted") != 5 {
		t.Errorf("events: %v", f.seen.kinds())
	}
}

func TestAForkGetsTheFilesThatBelongToItsStep(t *testing.T) {
	f := newFixture(t,
		edit("a.txt", "one", "1"), write("early.txt", "early\n"),
		edit("a.txt", "1", "uno"), write("late.txt", "late\n"), edit("early.txt", "early", "changed"), edit("a.txt", "uno", "eins"),
		scripted.Say("done"))
	f.write("a.txt", "one\ntwo\n")
	res := f.must(trace.Finished)
	fork, err := f.store.ForkRun(context.Background(), res.RunID, 2)
	if err != nil {
		t.Fatal(err)
	}
	r := f.rewind(res.RunID, Undo{From: 3})
	if !r.Clean() || len(r.Files) != 3 {
		t.Errorf("%+v", r)
	}
	if got := f.read("a.txt"); got != "1\ntwo\n" {
		t.Errorf("a.txt is %q", got)
	}
	if got := f.read("early.txt"); got != "early\n" {
		t.Errorf("early.txt is %q", got)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "late.txt")); !os.IsNotExist(err) {
		t.Errorf("late.txt is still there: %v", err)
	}
	f.script(edit("a.txt", "1", "ein"), scripted.Say("done otherwise"))
	end, err := f.resume(fork, Resumption{})
	if err != nil || end.Outcome.Kind != trace.Finished || f.read("a.txt") != "ein\ntwo\n" {
		t.Errorf("%s, %v, a.txt %q", end.Outcome, err, f.read("a.txt"))
	}
	if again := f.rewind(res.RunID, Undo{From: 3}); len(again.Files) != 0 {
		t.Errorf("taken back twice: %+v", again.Files)
	}
}

func TestALaterChangeByAnotherKeepsTheWholeFile(t *testing.T) {
	f := newFixture(t, edit("a.txt", "one", "1"), edit("a.txt", "two", "2"), scripted.Say("done"))
	f.write("a.txt", "one\ntwo\n")
	res := f.must(trace.Finished)
	f.write("a.txt", "1\nby hand\n")
	r := f.rewind(res.RunID, Undo{From: 1})
	if v := verdicts(r); v["a.txt"] != trace.Stale || f.read("a.txt") != "1\nby hand\n" {
		t.Errorf("%v, a.txt %q", v, f.read("a.txt"))
	}
}

func TestOneFileThatIsRefusedDoesNotKeepTheRestFromBeingUndone(t *testing.T) {
	f := newFixture(t, write("a.txt", "1"), write("b.txt", "2"), write("c.txt", "3"))
	f.write("a.txt", "0")
	f.write("b.txt", "0")
	res := f.must(trace.StepCapReached, withSteps(3))
	stricter := open.Layer("later").DenyWrite("a.txt").AskWrite("c.txt")
	c := f.contract(withSteps(5))
	f.script(scripted.Say("done"))
	if _, err := f.resume(res.RunID, Resumption{Policy: &stricter, Contract: &c}); err != nil {
		t.Fatal(err)
	}
	want := map[string]trace.Undone{"a.txt": trace.UndoRefused, "b.txt": trace.Restored, "c.txt": trace.UndoRefused}
	r := f.rewind(res.RunID, Undo{All: true})
	if diff := cmp.Diff(want, verdicts(r)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if f.read("a.txt") != "1" || f.read("b.txt") != "0" || f.read("c.txt") != "3" || r.Clean() {
		t.Errorf("a.txt %q, b.txt %q, c.txt %q", f.read("a.txt"), f.read("b.txt"), f.read("c.txt"))
	}
}

func TestARunThatIsDrivenCannotBeUndone(t *testing.T) {
	f := newFixture(t)
	var conflict *store.ConflictError
	f.model(scripted.Func(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		last, err := f.store.LastRun(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := Rewind(ctx, f.host, last.ID, Undo{All: true}); !errors.As(err, &conflict) {
			t.Errorf("rewinding a driven run: %v", err)
		}
		return scripted.Say("done")(ctx, req)
	}))
	f.must(trace.Finished)
}

func TestAnUndoThatNamesNothingIsRefused(t *testing.T) {
	f := newFixture(t, scripted.Say("done"))
	res := f.must(trace.Finished)
	for _, u := range []Undo{{}, {Step: -1}} {
		if _, err := Rewind(context.Background(), f.host, res.RunID, u); !errors.Is(err, task.ErrInvalid) {
			t.Errorf("%+v: %v", u, err)
		}
	}
	if _, err := Rewind(context.Background(), f.host, 4242, Undo{All: true}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown run: %v", err)
	}
}

func TestAHardLinkedFileOutsideIsNotReachedByAnUndo(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "rc")
	if err := os.WriteFile(outside, []byte("theirs\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, write("notes.txt", "mine\n"), scripted.Say("done"))
	f.write("notes.txt", "before\n")
	res := f.must(trace.Finished)
	notes := filepath.Join(f.dir, "notes.txt")
	if err := errors.Join(os.Remove(notes), os.Link(outside, notes)); err != nil {
		t.Fatal(err)
	}
	f.rewind(res.RunID, Undo{All: true})
	if b, err := os.ReadFile(outside); err != nil || string(b) != "theirs\n" {
		t.Errorf("the file outside is now %q, %v", b, err)
	}
	if got := f.read("notes.txt"); !strings.HasPrefix(got, "before") {
		t.Errorf("notes.txt is %q", got)
	}
}

func TestALinkInTheFilesPlaceIsNotFollowedByAnUndo(t *testing.T) {
	for name, undo := range map[string]Undo{
		"whole run": {All: true}, "one step": {Step: 1}, "later steps": {From: 1},
		"one file": {Path: "made.txt"}, "a file that was there": {Path: "./kept.txt"}, "a file below a link": {Path: "dir/in.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t,
				scripted.Calls(
					scripted.Tool("write_file", map[string]string{"path": "made.txt", "content": "same\n"}),
					scripted.Tool("write_file", map[string]string{"path": "kept.txt", "content": "same\n"}),
					scripted.Tool("write_file", map[string]string{"path": "dir/in.txt", "content": "same\n"}),
				), scripted.Say("done"))
			f.write("kept.txt", "old\n")
			res := f.must(trace.Finished)
			f.write("precious.txt", "same\n")
			f.write("other/in.txt", "same\n")
			for file, to := range map[string]string{"made.txt": "precious.txt", "kept.txt": "precious.txt", "dir": "other"} {
				if err := os.RemoveAll(filepath.Join(f.dir, file)); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(to, filepath.Join(f.dir, file)); err != nil {
					t.Skipf("no symbolic links here: %v", err)
				}
			}
			want := map[string]trace.Undone{"made.txt": trace.Stale, "kept.txt": trace.Stale, "dir/in.txt": trace.Stale}
			if undo.Path != "" {
				want = map[string]trace.Undone{filepath.ToSlash(filepath.Clean(undo.Path)): trace.Stale}
			}
			if diff := cmp.Diff(want, verdicts(f.rewind(res.RunID, undo))); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
			if f.read("precious.txt") != "same\n" || f.read("other/in.txt") != "same\n" {
				t.Errorf("files that the run never wrote are %q and %q", f.read("precious.txt"), f.read("other/in.txt"))
			}
		})
	}
}

// stoppedWhen is a context that ends at the first look at it behind something.
type stoppedWhen struct {
	context.Context
	cancel context.CancelFunc
	behind func() bool
}

func (c *stoppedWhen) Err() error {
	if c.behind() {
		c.cancel()
	}
	return c.Context.Err()
}

// An undo that is broken off has recorded what it did, and the next one takes back
// the rest.
func TestAnUndoThatIsBrokenOffHasRecordedWhatItDid(t *testing.T) {
	for _, what := range []Undo{{Step: 1}, {All: true}} {
		f := newFixture(t, scripted.Calls(
			scripted.Tool("edit_file", map[string]string{"path": "a.txt", "search": "one", "replace": "two"}),
			scripted.Tool("edit_file", map[string]string{"path": "b.txt", "search": "one", "replace": "two"}),
		), scripted.Say("done"))
		f.write("a.txt", "one\n")
		f.write("b.txt", "one\n")
		res := f.must(trace.Finished)
		undone := func(path string) bool { return f.read(path) == "one\n" }
		ctx, cancel := context.WithCancel(t.Context())
		stopped := &stoppedWhen{ctx, cancel, func() bool { return undone("a.txt") || undone("b.txt") }}
		if _, err := Rewind(stopped, f.host, res.RunID, what); !errors.Is(err, context.Canceled) || undone("a.txt") == undone("b.txt") {
			t.Errorf("%+v: %v; a.txt %q, b.txt %q", what, err, f.read("a.txt"), f.read("b.txt"))
		}
		cancel()
		for _, e := range f.edits(res.RunID) {
			if undone(e.Path) != (e.Reverted != 0) {
				t.Errorf("%+v: %s is undone: %t, and its edit says %+v", what, e.Path, undone(e.Path), e)
			}
		}
		f.rewind(res.RunID, what)
		if !undone("a.txt") || !undone("b.txt") {
			t.Errorf("%+v: a.txt %q, b.txt %q", what, f.read("a.txt"), f.read("b.txt"))
		}
	}
}

func TestTheUndoOfAStepThatNeverWasIsRefused(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, write("a.txt", "one\n"), scripted.Say("done"))
	res := f.must(trace.Finished)
	last := f.info(res.RunID).LastStep
	for _, what := range []Undo{{Step: last + 1}, {From: last + 1}, {Step: 99}} {
		var ie *task.InvalidError
		r, err := Rewind(ctx, f.host, res.RunID, what)
		if !errors.As(err, &ie) || ie.Field != "Undo" || r != nil {
			t.Errorf("%+v: %+v, %v", what, r, err)
		}
	}
	if rows, err := f.store.Rewinds(ctx, res.RunID); err != nil || len(rows) != 0 {
		t.Errorf("a refused undo is recorded: %+v, %v", rows, err)
	}
	if _, err := Rewind(ctx, f.host, res.RunID, Undo{Step: last}); err != nil {
		t.Errorf("the last step, which wrote nothing: %v", err)
	}
}
