package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/policy"
)

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"*", "a/b", true}, {"", "", true}, {"", "a", false},
		{"src/*.rs", "src/deep/x.rs", true}, {"src/**/x.rs", "src/x.rs", false}, {"src/**/x.rs", "src/a/x.rs", true},
		{"?", "é", true}, {"?", "/", true}, {"?", "", false}, {"??", "é", false},
		{"*.go", "x.go", true}, {"*.go", "x.goo", false}, {"a.c", "abc", false},
		{"[ab]", "a", false}, {"[ab]", "[ab]", true}, {"{a,b}", "a", false},
		{"a*b*c", "axxbyyc", true}, {"a*b*c", "axxbyy", false}, {"*a*", "xax", true},
		{"\xff*", "\xffx", true}, {"\xff", "\xfe", false}, {"?", "\xff", true},
	} {
		if got := matchGlob(tc.pattern, tc.name); got != tc.want {
			t.Errorf("matchGlob(%q, %q) = %t", tc.pattern, tc.name, got)
		}
	}
	// Stars that could be tried in every combination end all the same.
	if matchGlob(strings.Repeat("a*", 40)+"b", strings.Repeat("a", 4000)) {
		t.Error("no b, and it matched")
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("a*b?", "axxbc")
	f.Add("**", "")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 50 || len(name) > 200 || !utf8.ValidString(pattern) || !utf8.ValidString(name) {
			return
		}
		quoted := regexp.QuoteMeta(pattern)
		quoted = strings.ReplaceAll(strings.ReplaceAll(quoted, `\*`, `(?s:.*)`), `\?`, `(?s:.)`)
		want := regexp.MustCompile(`\A` + quoted + `\z`).MatchString(name)
		if got := matchGlob(pattern, name); got != want {
			t.Errorf("matchGlob(%q, %q) = %t, a regular expression says %t", pattern, name, got, want)
		}
	})
}

func TestGrepOrderAndFiles(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	for f, text := range map[string]string{
		"b.txt": "hit 1\nmiss\nhit 2\n", "a/z.txt": "hit\n", "a.txt": "hit\n", ".hidden": "hit\n",
		".git/config": "hit\n", "node_modules/m/i.js": "hit\n", "sub/target/x": "hit\n", "sub/node_modules/x": "hit\n",
		"bin": "hit\x00", "latin": "hit \xfc", "marked": "\xef\xbb\xbfhit\n", "targets/x": "hit\n",
	} {
		tr.put(f, text)
	}
	tr.link("a.txt", "link")
	tr.link("a", "dirlink")
	m, err := tr.Grep(t.Context(), "^hit", "", 50)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range m.Hits {
		got = append(got, fmt.Sprintf("%s:%d", h.Path, h.Line))
	}
	want := []string{".hidden:1", "a.txt:1", "a/z.txt:1", "b.txt:1", "b.txt:3", "marked:1", "targets/x:1"}
	if !slices.Equal(got, want) || m.Total != len(want) {
		t.Errorf("Grep = %q (%d), want %q", got, m.Total, want)
	}
	m, err = tr.Grep(t.Context(), "hit", "a*", 50)
	if err != nil || m.Total != 2 {
		t.Errorf("with a glob over whole paths = %+v, %v, want a.txt and a/z.txt", m, err)
	}
}

func TestGrepPatterns(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "alpha beta\nBETA\n\nfoo(bar)\na.b\naxb\n  end  \ncr\r\n")
	for pattern, lines := range map[string]string{
		"beta": "1", "(?i)beta": "1 2", "^BETA$": "2", "^$": "3", `foo\(`: "4", `a\.b`: "5", "a.b": "1 5 6",
		`\bend\b`: "7", "foo\nbar": "", "cr$": "", `cr\r$`: "8", `\Aalpha`: "1", `bar\)\z`: "4", "nothere": "", "": "1 2 3 4 5 6 7 8",
	} {
		m, err := tr.Grep(t.Context(), pattern, "", 50)
		if err != nil {
			t.Errorf("Grep(%q) = %v", pattern, err)
			continue
		}
		var got []string
		for _, h := range m.Hits {
			got = append(got, fmt.Sprint(h.Line))
		}
		if strings.Join(got, " ") != lines {
			t.Errorf("Grep(%q) hits lines %q, want %q", pattern, got, lines)
		}
	}
	_, err := tr.Grep(t.Context(), "foo(", "", 1)
	var pe *PatternError
	if !errors.As(err, &pe) || !strings.Contains(err.Error(), "backslash") {
		t.Errorf("Grep of a bad pattern = %v", err)
	}
	for n, fits := range map[int]bool{maxPattern: true, maxPattern + 1: false} {
		_, err := tr.Grep(t.Context(), strings.Repeat("x", n), "", 50)
		if long := errors.Is(err, errPatternTooLong); long == fits || len(fmt.Sprint(err)) > 1000 {
			t.Errorf("Grep of %d bytes = %.200v", n, err)
		}
	}
}

func TestMandatoryTextIsInEveryMatch(t *testing.T) {
	for pattern, want := range map[string]string{
		"word": "word", `\bTODO\b`: "TODO", `func.*Reader\) Read\(`: "Reader) Read(", "(abc)+x": "abc", "(?i)word": "", "a|b": "",
		"colou?r": "colo", "x*": "", "(ab){2,3}": "ab", "(ab){0,3}cd": "cd", "[ab]c": "c", "": "", "^a$": "a", "a(?i)bcd": "a", "(": "",
	} {
		if got := mandatory(pattern); got != want {
			t.Errorf("mandatory(%q) = %q, want %q", pattern, got, want)
		}
	}
}

func FuzzGrepFindsWhatTheExpressionMatches(f *testing.F) {
	f.Add("a.b", "xa\nacb\n")
	f.Add("(?i)ab+|c", "AB\nC")
	f.Add("a(bc){1,2}$", "abc\nabcbc\r\n")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		re, err := regexp.Compile(pattern)
		if err != nil || len(pattern) > 100 || len(text) > 1000 {
			return
		}
		needle := mandatory(pattern)
		for line := range strings.SplitSeq(text, "\n") {
			if re.MatchString(line) && !strings.Contains(line, needle) {
				t.Errorf("%q matches %q, which lacks %q", pattern, line, needle)
			}
		}
	})
}

func TestGrepLimits(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	for i := range 60 {
		tr.put(fmt.Sprintf("d/%03d", i), strings.Repeat("hit\n", 200))
	}
	m, err := tr.Grep(t.Context(), "hit", "", 50)
	if err != nil || len(m.Hits) != 50 || m.Total != MaxGrepHits || !m.Stopped {
		t.Errorf("Grep shows %d of %d, stopped %t, %v, want 50 of %d and stopped", len(m.Hits), m.Total, m.Stopped, err, MaxGrepHits)
	}
	tr.put("one", strings.Repeat("single\n", 51))
	m, err = tr.Grep(t.Context(), "single", "", 50)
	if err != nil || len(m.Hits) != 50 || m.Total != 51 || m.Stopped {
		t.Errorf("Grep shows %d of %d, stopped %t, %v, want 50 of 51", len(m.Hits), m.Total, m.Stopped, err)
	}
	tr.put("large", "")
	if err := os.Truncate(tr.path("large"), MaxGrepFile+1); err == nil {
		if m, err := tr.Grep(t.Context(), "single", "", 1); err != nil || m.TooLarge != 1 {
			t.Errorf("TooLarge = %d, %v, want 1", m.TooLarge, err)
		}
	}
}

func TestGrepShowsThePartOfALongLineAroundTheMatch(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("bundle.js", strings.Repeat("é", 1_500_000)+"NEEDLE"+strings.Repeat("y", 1_500_000))
	tr.put("start", "NEEDLE"+strings.Repeat("z", 1000)+"\n")
	tr.put("end", strings.Repeat("z", 1000)+"NEEDLE\n")
	tr.put("exact", strings.Repeat("x", MaxMatchText-6)+"NEEDLE\n")
	m, err := tr.Grep(t.Context(), "NEEDLE", "", 50)
	if err != nil || m.Total != 4 {
		t.Fatalf("Grep = %d hits, %v", m.Total, err)
	}
	for _, h := range m.Hits {
		if n := utf8.RuneCountInString(strings.Trim(h.Text, "…")); n > MaxMatchText || !strings.Contains(h.Text, "NEEDLE") || !utf8.ValidString(h.Text) {
			t.Errorf("%s shows %d characters, with the match %t", h.Path, n, strings.Contains(h.Text, "NEEDLE"))
		}
		if cut := strings.Contains(h.Text, "…"); cut != (h.Path != "exact") {
			t.Errorf("%s: marked as cut %t", h.Path, cut)
		}
	}
}

func TestGrepGivesTheSameAnswerEveryTime(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	for i := range 300 {
		tr.put(fmt.Sprintf("%d/%d.txt", i%7, i), fmt.Sprintf("x %d\ny\nx\n", i))
	}
	first, err := tr.Grep(t.Context(), "x", "", 40)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		again, err := tr.Grep(t.Context(), "x", "", 40)
		if err != nil || !slices.Equal(first.Hits, again.Hits) || first.Total != again.Total {
			t.Fatalf("another answer: %v", err)
		}
	}
}

func TestFind(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	for _, f := range []string{"main.go", "pkg/a.go", "pkg/a_test.go", ".github/x.yml", "node_modules/m.go", "target/t.go", ".git/HEAD"} {
		tr.put(f, "x")
	}
	for glob, want := range map[string]string{
		"*.go": "main.go pkg/a.go pkg/a_test.go", "a.go": "pkg/a.go", "pkg/*": "pkg/a.go pkg/a_test.go",
		"*.yml": ".github/x.yml", "HEAD": "", "m?in.go": "main.go", "none": "",
	} {
		f, err := tr.Find(t.Context(), glob, 100)
		if err != nil || strings.Join(f.Paths, " ") != want {
			t.Errorf("Find(%q) = %q, %v, want %q", glob, f.Paths, err, want)
		}
	}
	f, err := tr.Find(t.Context(), "*", 2)
	if err != nil || len(f.Paths) != 2 || f.Total != 4 {
		t.Errorf("Find with a limit = %+v, %v, want 2 of 4", f, err)
	}
}

func TestListDir(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("d/b.txt", "12345")
	tr.put("d/.hidden", "")
	tr.put("d/sub/x", "")
	tr.put("d/.git/HEAD", "")
	tr.link("sub", "d/link")
	l, err := tr.ListDir(t.Context(), "d/", 100)
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{
		{"d/.git", EntryDir, -1}, {"d/.hidden", EntryFile, 0}, {"d/b.txt", EntryFile, 5},
		{"d/link", EntryLink, -1}, {"d/sub", EntryDir, -1},
	}
	if !slices.Equal(l.Entries, want) || l.Total != len(want) {
		t.Errorf("ListDir = %+v, want %+v", l, want)
	}
	if l, err := tr.ListDir(t.Context(), "", 100); err != nil || l.Total != 1 || l.Entries[0].Path != "d" {
		t.Errorf("ListDir of the root = %+v, %v", l, err)
	}
	if l, err := tr.ListDir(t.Context(), "d/link", 100); err != nil || l.Total != 1 || l.Entries[0].Path != "d/link/x" {
		t.Errorf("ListDir through a link = %+v, %v", l, err)
	}
	for _, p := range []string{"nope", "d/b.txt"} {
		if _, err := tr.ListDir(t.Context(), p, 1); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("ListDir(%q) = %v, want an error that names it", p, err)
		}
	}
	for i := range 300 {
		tr.put(fmt.Sprintf("many/%03d", i), "")
	}
	if l, err := tr.ListDir(t.Context(), "many", 200); err != nil || len(l.Entries) != 200 || l.Total != 300 || l.Entries[199].Path != "many/199" {
		t.Errorf("ListDir of 300 = %d of %d, %v", len(l.Entries), l.Total, err)
	}
}

func TestStatDoesNotFollowTheLastLink(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "12")
	tr.link("f", "l")
	for p, kind := range map[string]EntryKind{"": EntryDir, "f": EntryFile, "l": EntryLink} {
		if e, err := tr.Stat(p); err != nil || e.Kind != kind {
			t.Errorf("Stat(%q) = %+v, %v, want %s", p, e, err, kind)
		}
	}
	if _, err := tr.Stat("none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat of nothing = %v", err)
	}
}

func TestExclusiveLetsOneInAtATime(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	release, err := tr.Exclusive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.WithJournal(nil).Exclusive(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a second holder = %v, want it to wait until its context ends", err)
	}
	release()
	release()
	again, err := tr.Exclusive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again()
}
