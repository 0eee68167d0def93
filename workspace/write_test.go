package workspace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/policy"
)

func TestWriteSaysWhatItDid(t *testing.T) {
	for _, tc := range []struct {
		name, old, content string
		exists             bool
		want               Wrote
	}{
		{"created", "", "x\n", false, Created},
		{"created empty", "", "", false, Created},
		{"changed", "a\n", "b\n", true, Changed},
		{"changed, same length and time", "abc", "abd", true, Changed},
		{"unchanged", "same\n", "same\n", true, Unchanged},
		{"unchanged multibyte", "日本\n", "日本\n", true, Unchanged},
		{"emptied", "x", "", true, Changed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			if tc.exists {
				tr.put("f", tc.old)
			}
			c, err := tr.WriteFile(t.Context(), "f", tc.content)
			if err != nil || c.Wrote != tc.want || c.Moved() != (tc.want != Unchanged) {
				t.Errorf("WriteFile = %q, moved %t, %v, want %q", c.Wrote, c.Moved(), err, tc.want)
			}
			if got := tr.get("f"); got != tc.content {
				t.Errorf("f = %q, want %q", got, tc.content)
			}
			tr.noTemporary()
		})
	}
}

func TestWriteMakesDirectories(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	if _, err := tr.WriteFile(t.Context(), "a/b/c/d.txt", "x"); err != nil {
		t.Fatal(err)
	}
	tr.put("file", "x")
	_, err := tr.WriteFile(t.Context(), "file/below", "x")
	if err == nil || tr.get("file") != "x" {
		t.Errorf("WriteFile below a file = %v", err)
	}
	if _, err := tr.WriteFile(t.Context(), "", "x"); err == nil {
		t.Error("the root was written")
	}
}

func TestDeniedWriteLeavesEverythingAsItIs(t *testing.T) {
	tr := newTree(t, policy.Permissive().Layer("ops").DenyWrite("ro/*"))
	tr.put("ro/a", "old\n")
	j := &recorder{}
	w := tr.WithJournal(j)
	for what, err := range map[string]error{
		"write":  second(w.WriteFile(t.Context(), "ro/a", "new")),
		"create": second(w.WriteFile(t.Context(), "ro/sub/new", "new")),
		"edit":   second(w.EditFile(t.Context(), "ro/a", "old", "new")),
		"revert": second(w.Revert(t.Context(), "ro/a", "@@ -1 +1 @@\n-new\n+old\n")),
		"remove": w.Remove(t.Context(), "ro/a"),
	} {
		var re *policy.RefusedError
		if !errors.As(err, &re) || re.Rule != "ro/*" || re.Layer != "ops" {
			t.Errorf("%s = %v, want it refused by ro/* of ops", what, err)
		}
	}
	if tr.get("ro/a") != "old\n" || len(j.points)+len(j.edits) > 0 {
		t.Errorf("a refused write left %q, %d restore points, %d edits", tr.get("ro/a"), len(j.points), len(j.edits))
	}
	tr.absent("ro/sub")
}

func TestContentOverTheCeilingIsRefused(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "old")
	_, err := tr.WriteBytes(t.Context(), "f", make([]byte, MaxWrite+1))
	var big *TooLargeError
	if !errors.As(err, &big) || big.Which != CeilingContent || tr.get("f") != "old" {
		t.Errorf("WriteBytes = %v", err)
	}
	if _, err := tr.WriteBytes(t.Context(), "most", make([]byte, MaxWrite)); err != nil {
		t.Errorf("WriteBytes of just as much as fits = %v", err)
	}
	ten := bytes.Repeat([]byte("0123456789abcde\n"), 10<<20/16)
	if _, err := tr.WriteBytes(t.Context(), "ten", ten); err != nil {
		t.Fatal(err)
	}
	if got, err := tr.ReadBytes(t.Context(), "ten"); err != nil || !bytes.Equal(got, ten) {
		t.Errorf("ten MiB came back as %d bytes, %v", len(got), err)
	}
}

func TestWholeFileWriteOverAnUnseenChangeIsRefused(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("todo.md", "a\n")
	w := tr.WithJournal(nil)
	if _, err := w.ReadFile(t.Context(), "todo.md"); err != nil {
		t.Fatal(err)
	}
	tr.put("todo.md", "a\nb\n")
	_, err := w.WriteFile(t.Context(), "todo.md", "a\nc\n")
	if !errors.Is(err, ErrStale) || tr.get("todo.md") != "a\nb\n" {
		t.Fatalf("WriteFile = %v, file %q, want it refused as stale and untouched", err, tr.get("todo.md"))
	}
	if _, err := w.ReadFile(t.Context(), "todo.md"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteFile(t.Context(), "todo.md", "a\nc\n"); err != nil {
		t.Errorf("after reading again: %v", err)
	}
}

func TestStaleIsAMatterOfContent(t *testing.T) {
	touch := func(tr *tree) {
		later := time.Now().Add(time.Hour)
		if err := os.Chtimes(tr.path("f"), later, later); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name  string
		do    func(tr *tree, w *Workspace)
		stale bool
	}{
		{"only the time changed", func(tr *tree, w *Workspace) { touch(tr) }, false},
		{"rewritten with the same bytes", func(tr *tree, w *Workspace) { tr.put("f", "a\n") }, false},
		{"own edit between", func(tr *tree, w *Workspace) { mustEdit(t, w, "f", "a", "b") }, false},
		{"own write between", func(tr *tree, w *Workspace) {
			if _, err := w.WriteFile(t.Context(), "f", "z\n"); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"deleted", func(tr *tree, w *Workspace) { os.Remove(tr.path("f")) }, false},
		{"foreign change, then own edit of another place", func(tr *tree, w *Workspace) {
			tr.put("f", "a\nforeign\n")
			mustEdit(t, w, "f", "a\n", "A\n")
		}, true},
		{"other run's write", func(tr *tree, w *Workspace) {
			if _, err := tr.WithJournal(nil).WriteFile(t.Context(), "f", "other\n"); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"appended", func(tr *tree, w *Workspace) { tr.put("f", "a\nb\n") }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			tr.put("f", "a\n")
			w := tr.WithJournal(nil)
			if _, err := w.ReadLines(t.Context(), "f", 1, 1, 0); err != nil {
				t.Fatal(err)
			}
			tc.do(tr, w)
			_, err := w.WriteFile(t.Context(), "f", "mine\n")
			if errors.Is(err, ErrStale) != tc.stale || !tc.stale && err != nil {
				t.Errorf("WriteFile = %v, want stale %t", err, tc.stale)
			}
		})
	}
}

func mustEdit(t *testing.T, w *Workspace, p, search, replace string) Change {
	t.Helper()
	c, err := w.EditFile(t.Context(), p, search, replace)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFileThatAppearedAfterItWasReadAsMissingIsNotBuried(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	w := tr.WithJournal(nil)
	if _, err := w.ReadFile(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	tr.put("new", "somebody's\n")
	if _, err := w.WriteFile(t.Context(), "new", "mine\n"); !errors.Is(err, ErrStale) {
		t.Errorf("WriteFile = %v, want ErrStale", err)
	}
}

// What can be read no longer is not what was read, also where that was nothing.
func TestAFileThatGrewBeyondReadingIsNotBuried(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("log", "")
	w := tr.WithJournal(nil)
	if _, err := w.ReadFile(t.Context(), "log"); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(tr.path("log"), MaxFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteFile(t.Context(), "log", "mine\n"); !errors.Is(err, ErrStale) {
		t.Errorf("WriteFile = %v, want ErrStale", err)
	}
	if info, err := os.Stat(tr.path("log")); err != nil || info.Size() != MaxFile+1 {
		t.Errorf("the file: %v, %v", info, err)
	}
}

// interrupted lets something happen in the middle of a change.
type interrupted struct {
	recorder
	middle func()
}

func (i *interrupted) Before(ctx context.Context, p RestorePoint) error {
	err := i.recorder.Before(ctx, p)
	if i.middle != nil {
		i.middle()
	}
	return err
}

// Two runs of one root may both be about to change a file. What the second bases its
// change on is what the first has left.
func TestNobodyChangesAFileInTheMiddleOfAChange(t *testing.T) {
	changes := map[string]func(*Workspace) error{
		"write":  func(w *Workspace) error { return second(w.WriteFile(t.Context(), "f", "new\n")) },
		"edit":   func(w *Workspace) error { return second(w.EditFile(t.Context(), "f", "o", "O")) },
		"remove": func(w *Workspace) error { return w.Remove(t.Context(), "f") },
	}
	for first, change := range changes {
		for other, between := range changes {
			t.Run(first+" and "+other, func(t *testing.T) {
				tr := newTree(t, policy.Permissive())
				tr.put("f", "o\n")
				began, done := make(chan struct{}), make(chan struct{})
				slow := &interrupted{}
				slow.middle = func() {
					go func() {
						defer close(done)
						_ = between(tr.WithJournal(&interrupted{middle: func() { close(began) }})) // it may find nothing left to do
					}()
					select {
					case <-began:
						t.Errorf("a %s of another run got into the middle of a %s", other, first)
					case <-time.After(30 * time.Millisecond): // whoever does not wait is there sooner
					}
				}
				if err := change(tr.WithJournal(slow)); err != nil {
					t.Error(err)
				}
				<-done
				if n := len(tr.dir.locks); n != 0 {
					t.Errorf("%d locks are kept behind the changes", n)
				}
			})
		}
	}
}

func TestARefusedReadIsNoRead(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", strings.Repeat("x", 100))
	w := tr.WithJournal(nil)
	if _, err := w.ReadLines(t.Context(), "f", 0, 0, 10); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	if _, err := w.Digest(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Grep(t.Context(), "x", "", 1); err != nil {
		t.Fatal(err)
	}
	c, err := w.WriteFile(t.Context(), "f", "y")
	if err != nil || c.Unread != 100 {
		t.Errorf("Unread = %d, %v, want 100", c.Unread, err)
	}
	c, err = w.WriteFile(t.Context(), "f", "z")
	if err != nil || c.Unread != -1 {
		t.Errorf("after its own write Unread = %d, %v, want -1", c.Unread, err)
	}
}

func TestRunsOfOneRootHaveTheirOwnMemory(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "a\n")
	one, two := tr.WithJournal(nil), tr.WithJournal(nil)
	if _, err := one.ReadFile(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	tr.put("f", "b\n")
	if _, err := two.WriteFile(t.Context(), "f", "c\n"); err != nil {
		t.Errorf("the other run: %v", err)
	}
	if _, err := one.WithTool("x").WithPolicy(policy.Permissive()).WriteFile(t.Context(), "f", "d\n"); !errors.Is(err, ErrStale) {
		t.Errorf("the same run under another tool and policy: %v, want ErrStale", err)
	}
}

func TestWriteTellsOfEndingsAndEncoding(t *testing.T) {
	le := binary.LittleEndian
	for _, tc := range []struct {
		name, old, content string
		endings            bool
		oldE, newE         Encoding
		binary             bool
	}{
		{"crlf to lf", strings.Repeat("l\r\n", 40), strings.Repeat("l\n", 40), true, UTF8, UTF8, false},
		{"mixed to lf", "a\r\nb\n", "a\nb\n", true, UTF8, UTF8, false},
		{"lf stays", "a\n", "b\n", false, UTF8, UTF8, false},
		{"one line without ending", "a\r\n", "b", false, UTF8, UTF8, false},
		{"code page", "\xd6\xd0\n", "x\n", false, "", UTF8, true},
		{"utf-16", utf16Bytes(true, le, "a\n"), "a\n", false, UTF16LE, UTF8, false},
		{"bom", "\xef\xbb\xbfa\n", "a\n", false, UTF8BOM, UTF8, false},
		{"new file", "", "a\r\n", false, "", UTF8, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			if tc.old != "" {
				tr.put("f", tc.old)
			}
			c, err := tr.WriteFile(t.Context(), "f", tc.content)
			if err != nil || c.EndingsChanged() != tc.endings || c.OldEncoding != tc.oldE || c.NewEncoding != tc.newE || c.WasBinary != tc.binary {
				t.Errorf("WriteFile = %+v, %v, want endings changed %t, encodings %q and %q, binary %t", c, err, tc.endings, tc.oldE, tc.newE, tc.binary)
			}
			if tr.get("f") != tc.content {
				t.Errorf("f = %q: something was converted", tr.get("f"))
			}
			if c.Hunk != nil && tc.oldE != tc.newE && tc.old != "" {
				t.Errorf("a hunk is recorded over a change of encoding, which it could not take back")
			}
		})
	}
}

func TestJournalHearsOfEveryWrite(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "one\ntwo\n")
	tr.put("bin", "\x00\xff")
	tr.put("big", strings.Repeat("x", MaxKept+1))
	tr.link("f", "l")
	j := &recorder{}
	w := tr.WithJournal(j).WithTool("write_file")
	for _, step := range []func() error{
		func() error { return second(w.WriteFile(t.Context(), "l", "one\n2\n")) },
		func() error { return second(w.WithTool("edit_file").EditFile(t.Context(), "f", "2", "two")) },
		func() error { return second(w.WriteFile(t.Context(), "new/file", "x\n")) },
		func() error { return second(w.WriteBytes(t.Context(), "bin", []byte{1, 0xfe})) },
		func() error { return second(w.WriteFile(t.Context(), "big", "small\n")) },
		func() error { return second(w.WriteFile(t.Context(), "f", "one\ntwo\n")) },
		func() error { return w.Remove(t.Context(), "new/file") },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	wantPoints := []RestorePoint{
		{Path: "f", State: StateText, Before: []byte("one\ntwo\n")},
		{Path: "new/file", State: StateAbsent},
		{Path: "bin", State: StateText, Before: []byte("\x00\xff")},
		{Path: "big", State: StateUnkept, Reason: "it has 1048577 bytes, over 1048576"},
	}
	if len(j.points) != len(wantPoints) {
		t.Fatalf("restore points %+v, want one for each of %d paths", j.points, len(wantPoints))
	}
	for i, want := range wantPoints {
		if got := j.points[i]; got.Path != want.Path || got.State != want.State || got.Reason != want.Reason || !bytes.Equal(got.Before, want.Before) {
			t.Errorf("restore point %d is %+v, want %+v", i, got, want)
		}
	}
	wantEdits := []struct {
		path, tool     string
		wrote          Wrote
		added, removed int
		hunk           bool
	}{
		{"f", "write_file", Changed, 1, 1, true},
		{"f", "edit_file", Changed, 1, 1, true},
		{"new/file", "write_file", Created, 1, 0, true},
		{"bin", "write_file", Changed, 0, 0, false},
		{"big", "write_file", Changed, 1, 1, false},
		{"f", "write_file", Unchanged, 0, 0, false},
		{"new/file", "write_file", Removed, 0, 1, true},
	}
	for i, want := range wantEdits {
		got := j.edits[i]
		if got.Path != want.path || got.Tool != want.tool || got.Wrote != want.wrote || got.LinesAdded != want.added || got.LinesRemoved != want.removed || (got.Hunk != nil) != want.hunk {
			t.Errorf("edit %d is %+v, want %+v", i, got, want)
		}
	}
}

func TestJournalThatCannotKeepTheOldContentRefusesTheWrite(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "old\n")
	full := errors.New("disk full")
	j := &recorder{fail: full}
	w := tr.WithJournal(j)
	for _, err := range []error{
		second(w.WriteFile(t.Context(), "f", "new\n")),
		second(w.WriteFile(t.Context(), "dir/new", "new\n")),
		second(w.EditFile(t.Context(), "f", "old", "new")),
		w.Remove(t.Context(), "f"),
	} {
		if !errors.Is(err, full) {
			t.Errorf("error %v, want the journal's", err)
		}
	}
	if tr.get("f") != "old\n" || len(j.edits) > 0 {
		t.Errorf("f = %q, %d edits", tr.get("f"), len(j.edits))
	}
	tr.absent("dir")
	j.fail = nil
	if _, err := w.WriteFile(t.Context(), "f", "new\n"); err != nil || len(j.points) != 1 {
		t.Errorf("once it can: %v, %d restore points", err, len(j.points))
	}
}

func TestEditThatTheJournalLostStandsAndIsTold(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	lost := errors.New("lost")
	w := tr.WithJournal(&recorder{lost: lost})
	c, err := w.WriteFile(t.Context(), "f", "x")
	if err != nil || !errors.Is(c.Unrecorded, lost) || tr.get("f") != "x" {
		t.Errorf("WriteFile = %v, unrecorded %v, file %q", err, c.Unrecorded, tr.get("f"))
	}
}

func TestUnreadableOldFileIsChangedAndUnkeptNeverAbsent(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("as root nothing is unreadable by its mode; the size stands for it here")
	}
	tr := newTree(t, policy.Permissive())
	tr.put("f", "")
	if err := os.Truncate(tr.path("f"), MaxFile+1); err != nil {
		t.Skipf("no sparse file here: %v", err)
	}
	j := &recorder{}
	c, err := tr.WithJournal(j).WriteFile(t.Context(), "f", "new\n")
	if err != nil || c.Wrote != Changed || c.Hunk != nil {
		t.Errorf("WriteFile = %+v, %v, want changed without a hunk", c, err)
	}
	if len(j.points) != 1 || j.points[0].State != StateUnkept || j.points[0].Reason == "" {
		t.Errorf("restore point %+v, want unkept with a reason", j.points)
	}
}

func TestTheLargestRestorePoint(t *testing.T) {
	for size, want := range map[int]State{MaxKept: StateText, MaxKept + 1: StateUnkept} {
		tr := newTree(t, policy.Permissive())
		tr.put("f", strings.Repeat("x", size))
		j := &recorder{}
		if _, err := tr.WithJournal(j).WriteFile(t.Context(), "f", "new\n"); err != nil {
			t.Fatal(err)
		}
		if len(j.points) != 1 || j.points[0].State != want || (want == StateText) != (len(j.points[0].Before) == size) {
			t.Errorf("of %d bytes %d points, the first %s with %d", size, len(j.points), j.points[0].State, len(j.points[0].Before))
		}
	}
}

func TestRemoveNeedsAnOutrightAllow(t *testing.T) {
	tr := newTree(t, policy.Permissive().Layer("ops").AskWrite("ask/*"))
	tr.put("ask/a", "x")
	tr.put("ok", "x")
	var re *policy.RefusedError
	if err := tr.Remove(t.Context(), "ask/a"); !errors.As(err, &re) || !re.Asks {
		t.Errorf("Remove = %v, want a refusal because the policy asks", err)
	}
	if tr.get("ask/a") != "x" {
		t.Error("ask/a is gone")
	}
	if err := tr.Remove(t.Context(), "ok"); err != nil {
		t.Error(err)
	}
	tr.absent("ok")
	if err := tr.Remove(t.Context(), "ok"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Remove of nothing = %v, want fs.ErrNotExist", err)
	}
}

func TestDigestIsOfTheBytes(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "abc")
	got, err := tr.Digest(t.Context(), "f")
	if want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; got != want || err != nil {
		t.Errorf("Digest = %q, %v, want %q", got, err, want)
	}
	if got, err := tr.Digest(t.Context(), "none"); got != "" || err != nil {
		t.Errorf("Digest of nothing = %q, %v", got, err)
	}
	s, err := tr.ReadLines(t.Context(), "f", 1, 1, 0)
	if err != nil || s.Digest != got && s.Digest == "" {
		t.Errorf("ReadLines gives the digest %q, %v", s.Digest, err)
	}
}

func TestFailedWriteLeavesNoTemporaryFile(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "old")
	tt, err := tr.target(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer tt.close()
	tr.put("f", "changed in between, after the look")
	if err := tt.replace([]byte("new"), ".io-harness-x.tmp"); !errors.Is(err, ErrStale) {
		t.Errorf("replace = %v, want ErrStale", err)
	}
	if got := tr.get("f"); got != "changed in between, after the look" {
		t.Errorf("f = %q", got)
	}
	tr.noTemporary()
	if err := os.RemoveAll(filepath.Dir(tr.path("f"))); err != nil {
		t.Fatal(err)
	}
}

// What is removed is what was looked at: not a file that was changed meanwhile.
func TestAFileThatChangesWhileItIsTakenAwayStays(t *testing.T) {
	for name, remove := range map[string]func(*Workspace) error{
		"by name":    func(w *Workspace) error { return w.Remove(t.Context(), "f") },
		"by content": func(w *Workspace) error { return w.RemoveIf(t.Context(), "f", digestOf([]byte("old\n"))) },
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			tr.put("f", "old\n")
			j := &interrupted{middle: func() { tr.put("f", "somebody's\n") }}
			if err := remove(tr.WithJournal(j)); !errors.Is(err, ErrStale) || tr.get("f") != "somebody's\n" || len(j.edits) != 0 {
				t.Errorf("error %v, file %q, %d edits on record", err, tr.get("f"), len(j.edits))
			}
		})
	}
}

func TestOnlyTheNamedContentIsRemoved(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "old\n")
	if err := tr.RemoveIf(t.Context(), "f", digestOf([]byte("other\n"))); !errors.Is(err, ErrStale) || tr.get("f") != "old\n" {
		t.Errorf("RemoveIf of other content = %v", err)
	}
	if err := tr.RemoveIf(t.Context(), "f", digestOf([]byte("old\n"))); err != nil {
		t.Errorf("RemoveIf = %v", err)
	}
	tr.absent("f")
}

// A run that has removed a file knows that it is gone: what is there then is somebody's.
func TestAFileThatCameInPlaceOfARemovedOneIsNotBuried(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "old\n")
	w := tr.WithJournal(nil)
	if err := w.Remove(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	tr.put("f", "somebody's\n")
	if _, err := w.WriteFile(t.Context(), "f", "mine\n"); !errors.Is(err, ErrStale) || tr.get("f") != "somebody's\n" {
		t.Errorf("WriteFile = %v, file %q", err, tr.get("f"))
	}
}

func TestNothingIsWrittenOnceTheContextHasEnded(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "old\n")
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	j := &recorder{}
	w := tr.WithJournal(j)
	for what, err := range map[string]error{
		"write":  second(w.WriteFile(ctx, "f", "new\n")),
		"create": second(w.WriteFile(ctx, "dir/new", "new\n")),
		"edit":   second(w.EditFile(ctx, "f", "old", "new")),
		"remove": w.Remove(ctx, "f"),
	} {
		if !errors.Is(err, stopped) {
			t.Errorf("%s = %v, want the cause", what, err)
		}
	}
	if tr.get("f") != "old\n" || len(j.points)+len(j.edits) > 0 {
		t.Errorf("f = %q, %d restore points, %d edits", tr.get("f"), len(j.points), len(j.edits))
	}
	tr.absent("dir")
}
