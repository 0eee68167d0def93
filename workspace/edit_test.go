package workspace

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
)

func TestEditReplacesOneOccurrenceOrNothing(t *testing.T) {
	for _, tc := range []struct {
		name, old, search, replace, want string
		count                            int // 1: it is replaced
	}{
		{"once", "a b c\n", "b", "B", "a B c\n", 1},
		{"delete", "a b c\n", " b", "", "a c\n", 1},
		{"same", "a b c\n", "b", "b", "a b c\n", 1},
		{"none", "a b c\n", "x", "y", "", 0},
		{"twice", "b b\n", "b", "c", "", 2},
		{"overlapping counts once", "aaa", "aa", "b", "ba", 1},
		{"case counts", "B\n", "b", "c", "", 0},
		{"whole file", "all", "all", "", "", 1},
		{"across lines", "a\nb\nc\n", "a\nb", "x", "x\nc\n", 1},
		{"at the end without newline", "a\nb", "b", "c", "a\nc", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			tr.put("f", tc.old)
			j := &recorder{}
			_, err := tr.WithJournal(j).EditFile(t.Context(), "f", tc.search, tc.replace)
			if tc.count == 1 {
				if err != nil || tr.get("f") != tc.want {
					t.Errorf("EditFile = %v, file %q, want %q", err, tr.get("f"), tc.want)
				}
				return
			}
			var ee *EditError
			if !errors.As(err, &ee) || ee.Count != tc.count || errors.Is(err, ErrNoMatch) != (tc.count == 0) || errors.Is(err, ErrAmbiguous) != (tc.count > 1) {
				t.Errorf("EditFile = %v, want %d occurrences told", err, tc.count)
			}
			if !strings.Contains(err.Error(), "f") || tr.get("f") != tc.old || len(j.points)+len(j.edits) > 0 {
				t.Errorf("after %v the file is %q with %d restore points", err, tr.get("f"), len(j.points))
			}
		})
	}
}

func TestReplacementIsDataNeverATemplate(t *testing.T) {
	const text = "$& $1 ${n} $$ \\1 \\n ’ “ \u00a0 %s %!d {{.}}"
	tr := newTree(t, policy.Permissive())
	tr.put("a.txt", "cost(x)\n")
	mustEdit(t, tr.Workspace, "a.txt", "cost(x)", text)
	if got := tr.get("a.txt"); got != text+"\n" {
		t.Errorf("edited file = %q", got)
	}
	if _, err := tr.WriteFile(t.Context(), "b.txt", text); err != nil || tr.get("b.txt") != text {
		t.Errorf("written file = %q, %v", tr.get("b.txt"), err)
	}
	tr.put("c.txt", "x\n")
	if _, _, err := tr.PatchFile(t.Context(), "c.txt", "@@ -1 +1 @@\n-x\n+"+text+"\n"); err != nil || tr.get("c.txt") != text+"\n" {
		t.Errorf("patched file = %q, %v", tr.get("c.txt"), err)
	}
	tr.put("quote", "don’t\n")
	if _, err := tr.EditFile(t.Context(), "quote", "don't", "do not"); !errors.Is(err, ErrNoMatch) || tr.get("quote") != "don’t\n" {
		t.Errorf("a typewriter quote matched a typographic one: %v", err)
	}
}

func TestBytesOutsideTheEditStay(t *testing.T) {
	le, be := binary.LittleEndian, binary.BigEndian
	for _, tc := range []struct{ name, old, search, replace, want string }{
		{"mixed endings", "one\r\ntwo\nthree\r\n", "two", "2", "one\r\n2\nthree\r\n"},
		{"mark and crlf", "\xef\xbb\xbfé = 1\r\n", "1", "2", "\xef\xbb\xbfé = 2\r\n"},
		{"utf-16 little", utf16Bytes(true, le, "a 𝄞 b\r\n"), "b", "bé", utf16Bytes(true, le, "a 𝄞 bé\r\n")},
		{"utf-16 big", utf16Bytes(true, be, "a b"), "a ", "", utf16Bytes(true, be, "b")},
		{"form feed and lone cr", "a\fb\rc\u2028d", "c", "C", "a\fb\rC\u2028d"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			tr.put("f", tc.old)
			c := mustEdit(t, tr.Workspace, "f", tc.search, tc.replace)
			if got := tr.get("f"); got != tc.want {
				t.Errorf("f = %q, want %q", got, tc.want)
			}
			if c.Hunk == nil {
				t.Fatal("no hunk is recorded")
			}
			if _, err := tr.Revert(t.Context(), "f", *c.Hunk); err != nil || tr.get("f") != tc.old {
				t.Errorf("reverted: %q, %v, want %q", tr.get("f"), err, tc.old)
			}
		})
	}
}

func TestWhatIsNotTextIsNotEdited(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	for name, content := range map[string]string{"latin1": "rate = 3\n# gr\xfcn\n", "nul": "rate = 3\x00", "pic.png": "rate = 3", "a.docx": "rate = 3"} {
		tr.put(name, content)
		_, err := tr.EditFile(t.Context(), name, "rate = 3", "rate = 4")
		if !errors.Is(err, ErrNotText) || tr.get(name) != content {
			t.Errorf("EditFile(%s) = %v, file %q", name, err, tr.get(name))
		}
		_, _, err = tr.PatchFile(t.Context(), name, "@@ -1 +1 @@\n-rate = 3\n+rate = 4\n")
		if !errors.Is(err, ErrNotText) || tr.get(name) != content {
			t.Errorf("PatchFile(%s) = %v, file %q", name, err, tr.get(name))
		}
	}
}

func TestEditCannotCreate(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	_, err := tr.EditFile(t.Context(), "new", "a", "b")
	if !errors.Is(err, ErrNoMatch) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("EditFile = %v", err)
	}
	_, _, err = tr.PatchFile(t.Context(), "new", "@@ -0,0 +1 @@\n+a\n")
	if err == nil || !strings.Contains(err.Error(), "write_file") {
		t.Errorf("PatchFile = %v, want it to point to write_file", err)
	}
	tr.absent("new")
	if _, err := tr.EditFile(t.Context(), "new", "", "b"); err == nil {
		t.Error("an empty search was taken")
	}
}

func TestFileThatMayNotBeReadIsNotEdited(t *testing.T) {
	tr := newTree(t, policy.Permissive().Layer("ops").DenyRead("hidden"))
	tr.put("hidden", "password\n")
	_, err := tr.EditFile(t.Context(), "hidden", "password", "x")
	wantRefused(t, err, "hidden")
	_, _, err = tr.PatchFile(t.Context(), "hidden", "@@ -1 +1 @@\n-guess\n+x\n")
	wantRefused(t, err, "hidden")
	if strings.Contains(err.Error(), "password") {
		t.Errorf("the refusal tells the content: %v", err)
	}
	if _, err := tr.WriteFile(t.Context(), "hidden", "new\n"); err != nil {
		t.Errorf("writing it whole is not reading it: %v", err)
	}
}

func TestNearMissIsAHintAndChangesNothing(t *testing.T) {
	for _, tc := range []struct{ name, file, search, hint string }{
		{"crlf", "a\r\nb\r\n", "a\nb\n", "CRLF"},
		{"lf", "a\nb\n", "a\r\nb\r\n", "LF"},
		{"indentation", "func f() {\n\treturn 1\n}\n", "func f() {\n    return 1\n}", "line 1"},
		{"closest", "x\nalpha\nbeta\ngamma\n", "alpha\nbeta\ndelta", "line 2"},
		{"nothing near", "abc\n", "zzz", ""},
		{"blank search", "abc\n", "\t\t", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			tr.put("f", tc.file)
			_, err := tr.EditFile(t.Context(), "f", tc.search, "new")
			var ee *EditError
			if !errors.As(err, &ee) || !strings.Contains(ee.Hint, tc.hint) || tc.hint == "" && ee.Hint != "" {
				t.Errorf("EditFile = %v, want a hint with %q", err, tc.hint)
			}
			if tr.get("f") != tc.file {
				t.Errorf("f = %q", tr.get("f"))
			}
		})
	}
}

func TestEditCountsTheFragmentAndWritesCountTheFile(t *testing.T) {
	for _, tc := range []struct {
		name, old, search, replace string
		added, removed             int // of the edit
		fileAdded, fileRemoved     int // of the same change as a write
	}{
		{"a word", "a b\nc\n", "b", "B", 1, 1, 1, 1},
		{"delete inside a line", "a b\nc\n", " b", "", 0, 1, 1, 1},
		{"insert inside a line", "a\n", "a", "a\nb", 2, 1, 1, 0},
		{"insert a line", "a\nc\n", "a\n", "a\nb\n", 1, 0, 1, 0},
		{"delete a line", "a\nb\nc\n", "b\n", "", 0, 1, 0, 1},
		{"same", "a\n", "a", "a", 0, 0, 0, 0},
		{"gain the last newline", "a\nb", "b", "b\n", 1, 1, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			tr.put("f", tc.old)
			c := mustEdit(t, tr.Workspace, "f", tc.search, tc.replace)
			if c.LinesAdded != tc.added || c.LinesRemoved != tc.removed {
				t.Errorf("edit counts +%d -%d, want +%d -%d", c.LinesAdded, c.LinesRemoved, tc.added, tc.removed)
			}
			now := tr.get("f")
			tr.put("g", tc.old)
			c, err := tr.WriteFile(t.Context(), "g", now)
			if err != nil || c.LinesAdded != tc.fileAdded || c.LinesRemoved != tc.fileRemoved {
				t.Errorf("write counts +%d -%d (%v), want +%d -%d", c.LinesAdded, c.LinesRemoved, err, tc.fileAdded, tc.fileRemoved)
			}
		})
	}
}

func TestPreviewOfAnEditShowsTheChangeAndChangesNothing(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "a\nb\nc\n")
	diff, err := tr.PreviewEdit(t.Context(), "f", "b", "B")
	if want := "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"; diff != want || err != nil {
		t.Errorf("PreviewEdit = %q, %v, want %q", diff, err, want)
	}
	if tr.get("f") != "a\nb\nc\n" {
		t.Errorf("f = %q", tr.get("f"))
	}
	tr.put("f", "changed\n")
	if _, err := tr.WriteFile(t.Context(), "f", "x\n"); err != nil {
		t.Errorf("a preview counted as a read: %v", err)
	}
}
