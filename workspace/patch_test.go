package workspace

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/initorigin/io-harness-go/policy"
)

func TestPatchApplies(t *testing.T) {
	const ten = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
	for _, tc := range []struct{ name, old, patch, want string }{
		{"one line", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "a\nB\n"},
		{"counts left out", "a\n", "@@ -1 +1 @@\n-a\n+b\n", "b\n"},
		{"headers and prose before", "a\n", "Here it is:\ndiff --git a/x b/x\n--- a/x\n+++ b/other\n@@ -1 +1 @@\n-a\n+b\n", "b\n"},
		{"section heading", "a\n", "@@ -1 +1 @@ func main() { @@ \n-a\n+b\n", "b\n"},
		{"growth first, later hunks at their original places", ten,
			"@@ -1,1 +1,4 @@\n 1\n+a\n+b\n+c\n@@ -5 +8 @@\n-5\n+five\n@@ -10 +13 @@\n-10\n+ten\n",
			"1\na\nb\nc\n2\n3\n4\nfive\n6\n7\n8\n9\nten\n"},
		{"blank context line eaten by an editor", "a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n", "a\n\nB\n"},
		{"blank lines after the patch", "a\n", "@@ -1 +1 @@\n-a\n+b\n\n\n", "b\n"},
		{"insertion after a line", "a\nb\n", "@@ -1,0 +2 @@\n+x\n", "a\nx\nb\n"},
		{"insertion at the beginning", "a\n", "@@ -0,0 +1 @@\n+x\n", "x\na\n"},
		{"into an empty file", "", "@@ -0,0 +1,2 @@\n+x\n+y\n", "x\ny\n"},
		{"everything removed", "a\n", "@@ -1 +0,0 @@\n-a\n", ""},
		{"crlf kept", "a\r\nb\r\n", "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n", "a\r\nB\r\n"},
		{"no newline kept on context", "a\nb", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n", "A\nb"},
		{"no newline kept away from the end", "a\nb\nc\nd", "@@ -1 +1 @@\n-a\n+A\n", "A\nb\nc\nd"},
		{"newline gained", "a", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", "a\n"},
		{"newline lost", "a\n", "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n", "a"},
		{"marker with carriage return", "a", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\r\n+b\n\\ No newline at end of file\n", "b"},
		{"line added behind one without newline", "a", "@@ -1 +1,2 @@\n a\n+b\n", "a\nb\n"},
		{"last line removed", "a\nb", "@@ -1,2 +1 @@\n a\n-b\n\\ No newline at end of file\n", "a\n"},
		{"last body line decides", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n", "a\nc"},
		{"patch text without final newline", "a\n", "@@ -1 +1 @@\n-a\n+b", "b\n"},
		{"removed line that looks like a header", "-- x\n", "@@ -1 +1 @@\n--- x\n+++ y\n", "++ y\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			tr.put("f", tc.old)
			if _, _, err := tr.PatchFile(t.Context(), "f", tc.patch); err != nil || tr.get("f") != tc.want {
				t.Errorf("PatchFile = %v, file %q, want %q", err, tr.get("f"), tc.want)
			}
		})
	}
}

func TestPatchThatDoesNotFitChangesNothing(t *testing.T) {
	const old = "1\n2\n3\n4\n5\n6\n7\n8\n"
	for _, tc := range []struct {
		name, patch string
		parse       bool
		line, hunk  int
		says        []string
	}{
		{"no hunk", "just words\n", true, 0, 0, []string{"@@ -START,COUNT"}},
		{"empty", "", true, 0, 0, []string{"no hunk"}},
		{"bad header", "@@ nonsense @@\n", true, 1, 0, []string{"nonsense"}},
		{"signed count", "@@ -1,+1 +1,1 @@\n", true, 1, 0, nil},
		{"huge number", "@@ -99999999999999999999 +1 @@\n", true, 1, 0, nil},
		{"foreign line", "@@ -1 +1 @@\n-1\n+one\nwords\n", true, 4, 0, []string{"'w'"}},
		{"counts disagree", "@@ -1,2 +1,3 @@\n-1\n+one\n", true, 0, 1, []string{"2 old and 3 new", "1 and 1"}},
		{"marker behind nothing", "@@ -1 +1 @@\n\\ No newline at end of file\n", true, 2, 0, nil},
		{"second hunk wrong", "@@ -1 +1 @@\n-1\n+one\n@@ -4 +4 @@\n-x\n+four\n", false, 0, 2, []string{`"x"`, `"4"`, "line 4"}},
		{"third hunk wrong", "@@ -1 +1 @@\n-1\n+one\n@@ -3 +3 @@\n-3\n+three\n@@ -5 +5 @@\n-4\n+four\n", false, 0, 3, nil},
		{"start past the end", "@@ -9 +9 @@\n-9\n+nine\n", false, 0, 1, []string{"8 lines"}},
		{"insert past the end", "@@ -9,0 +10 @@\n+nine\n", false, 0, 1, nil},
		{"runs past the end", "@@ -8,2 +8,2 @@\n 8\n-9\n+nine\n", false, 0, 1, []string{"ends at line 8"}},
		{"line zero", "@@ -0,1 +0,1 @@\n-1\n+one\n", false, 0, 1, []string{"line 0"}},
		{"out of order", "@@ -5 +5 @@\n-5\n+five\n@@ -1 +1 @@\n-1\n+one\n", false, 0, 2, []string{"order"}},
		{"overlap", "@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n@@ -3 +3 @@\n-3\n+three\n", false, 0, 2, []string{"overlap"}},
		{"marker against the file", "@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+one\n", false, 0, 1, []string{"newline"}},
		{"marker in the middle", "@@ -1 +1 @@\n-1\n+one\n\\ No newline at end of file\n", false, 0, 1, []string{"not the last"}},
		{"only the ending differs", "@@ -2 +2 @@\n-2\r\n+two\r\n", false, 0, 1, []string{"only the line ending differs"}},
		{"only blanks differ", "@@ -2 +2 @@\n- 2\n+two\n", false, 0, 1, []string{"white space"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			tr.put("f", old)
			j := &recorder{}
			_, _, err := tr.WithJournal(j).PatchFile(t.Context(), "f", tc.patch)
			var pe *PatchError
			if !errors.As(err, &pe) || pe.Line != tc.line || pe.Hunk != tc.hunk || errors.Is(err, ErrPatchParse) != tc.parse || errors.Is(err, ErrPatchApply) == tc.parse {
				t.Errorf("PatchFile = %v, want line %d, hunk %d, parse error %t", err, tc.line, tc.hunk, tc.parse)
			}
			for _, s := range tc.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not say %q", err, s)
				}
			}
			if tr.get("f") != old || len(j.points)+len(j.edits) > 0 {
				t.Errorf("f = %q, %d restore points, %d edits", tr.get("f"), len(j.points), len(j.edits))
			}
		})
	}
}

func TestThreeHunksEqualThreeEdits(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	old := "a\nb\nc\nd\ne\nf\ng\n"
	tr.put("p", old)
	tr.put("e", old)
	if _, n, err := tr.PatchFile(t.Context(), "p", "@@ -1,2 +1,3 @@\n-a\n+A\n+A2\n b\n@@ -4 +5 @@\n-d\n+D\n@@ -7 +8,0 @@\n-g\n"); err != nil || n != 3 {
		t.Fatalf("PatchFile = %d hunks, %v", n, err)
	}
	mustEdit(t, tr.Workspace, "e", "a\n", "A\nA2\n")
	mustEdit(t, tr.Workspace, "e", "d", "D")
	mustEdit(t, tr.Workspace, "e", "g\n", "")
	if tr.get("p") != tr.get("e") {
		t.Errorf("patched %q, edited %q", tr.get("p"), tr.get("e"))
	}
}

func TestRevertNeedsTheFileAsTheHunkLeftIt(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "a\nb\nc\n")
	c := mustEdit(t, tr.Workspace, "f", "b", "B")
	later := mustEdit(t, tr.Workspace, "f", "a", "A")
	if _, err := tr.Revert(t.Context(), "f", *c.Hunk); !errors.Is(err, ErrPatchApply) || tr.get("f") != "A\nB\nc\n" {
		t.Errorf("out of order: %v, file %q", err, tr.get("f"))
	}
	for _, h := range []*string{later.Hunk, c.Hunk} {
		if _, err := tr.Revert(t.Context(), "f", *h); err != nil {
			t.Fatal(err)
		}
	}
	if tr.get("f") != "a\nb\nc\n" {
		t.Errorf("after both: %q", tr.get("f"))
	}
}

func TestDiffForm(t *testing.T) {
	for _, tc := range []struct{ name, old, new, want string }{
		{"equal", "a\n", "a\n", ""},
		{"both empty", "", "", ""},
		{"created", "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"emptied", "a\n", "", "@@ -1,1 +0,0 @@\n-a\n"},
		{"three lines of context", "1\n2\n3\n4\nX\n6\n7\n8\n9\n", "1\n2\n3\n4\nY\n6\n7\n8\n9\n", "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-X\n+Y\n 6\n 7\n 8\n"},
		{"one hunk for two places", "1\n2\n3\n", "A\n2\nC\n", "@@ -1,3 +1,3 @@\n-1\n-2\n-3\n+A\n+2\n+C\n"},
		{"newline gained", "a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		{"newline lost", "a\n", "a", "@@ -1,1 +1,1 @@\n-a\n+a\n\\ No newline at end of file\n"},
		{"context without newline", "a\nb", "A\nb", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n"},
		{"crlf", "a\r\nb\r\n", "a\r\nB\r\n", "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n"},
		{"only the ending", "a\r\n", "a\n", "@@ -1,1 +1,1 @@\n-a\r\n+a\n"},
		{"repeated lines", "a\na\n", "a\na\na\n", "@@ -1,2 +1,3 @@\n a\n a\n+a\n"},
	} {
		if got := Diff(tc.old, tc.new); got != tc.want {
			t.Errorf("%s: Diff = %q, want %q", tc.name, got, tc.want)
		}
	}
}

// texts draws a text of a few lines, such that lines repeat, look alike and may
// lack the final newline.
func texts(t *rapid.T, label string) string {
	ls := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "a\r", "", "  a", "- a", "+b", "@@ -1 +1 @@", "\\ No newline at end of file"}), 0, 12).Draw(t, label)
	s := strings.Join(ls, "\n")
	if len(ls) > 0 && rapid.Bool().Draw(t, label+" ends with a newline") {
		s += "\n"
	}
	return s
}

func TestDiffRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, now := texts(t, "old"), texts(t, "new")
		d := Diff(old, now)
		if d == "" {
			if old != now {
				t.Fatalf("Diff of %q and %q is empty", old, now)
			}
			return
		}
		hunks, err := parsePatch(d)
		if err != nil || len(hunks) != 1 {
			t.Fatalf("Diff of %q and %q is %q: %d hunks, %v", old, now, d, len(hunks), err)
		}
		if got, err := applyHunks(old, hunks); err != nil || got != now {
			t.Fatalf("applying %q to %q gives %q, %v, want %q", d, old, got, err, now)
		}
		if got, err := applyHunks(now, reverseHunks(hunks)); err != nil || got != old {
			t.Fatalf("taking %q back from %q gives %q, %v, want %q", d, now, got, err, old)
		}
	})
}

func TestDiffRoundTripsForManyTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) // the same texts every time
	alphabet := []string{"a", "b", "c", "a\r", "", "  a"}
	text := func() string {
		ls := make([]string, r.IntN(15))
		for i := range ls {
			ls[i] = alphabet[r.IntN(len(alphabet))]
		}
		s := strings.Join(ls, "\n")
		if len(ls) > 0 && r.IntN(2) == 0 {
			s += "\n"
		}
		return s
	}
	for range 2000 {
		old, now := text(), text()
		if old == now {
			continue
		}
		hunks, err := parsePatch(Diff(old, now))
		if err != nil {
			t.Fatalf("diff of %q and %q: %v", old, now, err)
		}
		there, err1 := applyHunks(old, hunks)
		back, err2 := applyHunks(now, reverseHunks(hunks))
		if err := errors.Join(err1, err2); err != nil || there != now || back != old {
			t.Fatalf("%q to %q and back: %q, %q, %v", old, now, there, back, err)
		}
		if again := reverseHunks(reverseHunks(hunks)); !reflect.DeepEqual(again, hunks) {
			t.Fatalf("turned round twice %+v is %+v", hunks, again)
		}
	}
}

func TestGitAgreesWithOurDiffs(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	pairs := [][2]string{
		{"a\nb\nc\n", "a\nB\nc\n"}, {"a", "a\n"}, {"a\n", "a"}, {"a\nb", "A\nb"}, {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\nx\n5\n6\n7\n8\n9\n"},
		{"a\r\nb\r\n", "a\r\nc\r\n"}, {"x\n\n\ny\n", "x\n\ny\n"}, {"a\na\na\n", "a\na\n"}, {"z\ny\n", "z\nnew\ny\n"}, {"q\nlast", "q\nlast\nmore"},
	}
	for _, p := range pairs {
		for _, way := range []bool{false, true} {
			name := filepath.Join(dir, "f")
			from, to := p[0], p[1]
			if way {
				from, to = to, from
			}
			putFile(t, name, from)
			patch := filepath.Join(dir, "p")
			putFile(t, patch, "--- a/f\n+++ b/f\n"+Diff(from, to))
			cmd := exec.Command(git, "apply", "--whitespace=nowarn", "--unidiff-zero", patch)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("git does not apply our diff of %q and %q: %v\n%s", from, to, err, out)
				continue
			}
			if got := getFile(t, name); got != to {
				t.Errorf("git makes %q of %q with our diff, want %q", got, from, to)
			}
		}
	}
}

func FuzzPatch(f *testing.F) {
	f.Add("a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n")
	f.Add("", "@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n")
	f.Add("a", "@@ -1 +1,2 @@\n a\n+b")
	f.Add("x\r\n", "@@ -1 +1 @@ x\r\n-x\r\n+y\r\n")
	f.Fuzz(func(t *testing.T, old, patch string) {
		hunks, err := parsePatch(patch)
		if err != nil {
			var pe *PatchError
			if !errors.As(err, &pe) || !errors.Is(err, ErrPatchParse) {
				t.Errorf("parse error %v (%T)", err, err)
			}
			return
		}
		now, err := applyHunks(old, hunks)
		if err != nil {
			if now != "" || !errors.Is(err, ErrPatchApply) {
				t.Errorf("apply gave %q beside %v", now, err)
			}
			return
		}
		// Whatever a patch did, our own diff of it takes it back.
		if d := Diff(old, now); d != "" {
			own, err := parsePatch(d)
			if err != nil {
				t.Fatalf("our diff %q does not parse: %v", d, err)
			}
			if back, err := applyHunks(now, reverseHunks(own)); err != nil || back != old {
				t.Errorf("%q back from %q gives %q, %v, want %q", d, now, back, err, old)
			}
		}
	})
}
