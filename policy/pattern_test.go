package policy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPatternLanguage(t *testing.T) {
	for _, tc := range []struct {
		name            string
		pattern, target string
		want            bool
	}{
		{"star matches the empty run", "a*", "a", true},
		{"star matches across slashes", "vendor/*", "vendor/a/b/c.go", true},
		{"star matches a newline", "a*c", "a\nb\nc", true},
		{"star alone matches the empty target", "*", "", true},
		{"question mark matches one character", "a?.txt", "ab.txt", true},
		{"question mark does not match two", "a?.txt", "abc.txt", false},
		{"question mark does not match none", "a?", "a", false},
		{"question mark matches a slash", "a?b", "a/b", true},
		{"question mark matches a newline", "a?b", "a\nb", true},
		{"question mark matches one scalar of several bytes", "?", "é", true},
		{"question mark does not match two scalars", "?", "e\u0301", false},
		{"question mark matches one invalid byte", "a?b", "a\xffb", true},
		{"an invalid byte matches itself", "a\xffb", "a\xffb", true},
		{"an invalid byte does not match another", "a\xffb", "a\xfeb", false},
		{"an invalid byte does not match the replacement character", "a\xffb", "a\uFFFDb", false},
		{"the replacement character does not match an invalid byte", "a\uFFFDb", "a\xffb", false},
		{"brackets are literal", "[ab]", "a", false},
		{"brackets match themselves", "[ab]", "[ab]", true},
		{"braces are literal", "{a,b}", "a", false},
		{"braces match themselves", "{a,b}", "{a,b}", true},
		{"a leading bang is literal", "!x", "y", false},
		{"a leading bang matches itself", "!x", "!x", true},
		{"a caret is literal", "^a", "^a", true},
		{"a dot is literal", "a.b", "axb", false},
		{"a backslash does not escape", `\*`, "*", false},
		{"a backslash is literal before a wildcard", `\*`, `\anything`, true},
		{"both ends are anchored at the front", "b", "ab", false},
		{"both ends are anchored at the back", "a", "ab", false},
		{"case matters", "A", "a", false},
		{"the empty pattern matches the empty target", "", "", true},
		{"the empty pattern matches nothing else", "", "a", false},
		{"two stars are one star", "src/**", "src/a/b", true},
		{"two stars between slashes need both slashes", "src/**/x.rs", "src/x.rs", false},
		{"two stars between slashes match a directory", "src/**/x.rs", "src/a/x.rs", true},
		{"two stars between slashes match several", "src/**/x.rs", "src/a/b/x.rs", true},
		{"a directory pattern does not match the directory", "secrets/*", "secrets", false},
		{"a directory pattern does not match its neighbour", "secrets/*", "secrets-public/k", false},
		{"a suffix matches at any depth", "*.pem", "a/b/c.pem", true},
		{"a later star may take what an earlier one could have", "*a*b", "aXbXab", true},
		{"backtracking reaches the last occurrence", "*ab", "aab", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := match(compile(tc.pattern, false), tc.target, false); got != tc.want {
				t.Errorf("match(%q, %q) = %v, want %v", tc.pattern, tc.target, got, tc.want)
			}
			if got := match(compile(tc.pattern, false), []byte(tc.target), false); got != tc.want {
				t.Errorf("match(%q, bytes of %q) = %v, want %v", tc.pattern, tc.target, got, tc.want)
			}
		})
	}
}

func TestFoldedPatterns(t *testing.T) {
	for _, tc := range []struct {
		name            string
		pattern, target string
		want            bool
	}{
		{"ASCII letters", "Git PUSH*", "gIT push origin", true},
		{"the Kelvin sign is a k", "k", "\u212A", true},
		{"the long s is an s", "secrets/*", "ſecrets/k", true},
		{"accented letters", "É*", "éa", true},
		{"Greek final sigma", "ς", "Σ", true},
		{"digits stay", "a1", "A2", false},
		{"letters that merely look alike stay apart", "secret", "ѕecret", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := match(compile(tc.pattern, true), tc.target, true); got != tc.want {
				t.Errorf("folded match(%q, %q) = %v, want %v", tc.pattern, tc.target, got, tc.want)
			}
		})
	}
}

// A matcher that tried every way to share the target between the stars would not come
// back from these within the life of the test binary.
func TestHostilePatternsStayCheap(t *testing.T) {
	stars := strings.Repeat("*a", 1000) + "*b"
	if match(compile(stars, false), strings.Repeat("a", 2000), false) {
		t.Error("a pattern that ends in b matched a target without b")
	}
	if !match(compile(strings.Repeat("*", 2000), false), strings.Repeat("a", 2000), false) {
		t.Error("a run of stars did not match")
	}
	if match(compile(strings.Repeat("a*", 1000)+"b", true), strings.Repeat("A", 1999)+"c", true) {
		t.Error("a folded pattern that ends in b matched a target that ends in c")
	}
}

func TestAHugePatternStillDenies(t *testing.T) {
	huge := strings.Repeat("x", 10<<20)
	p := Permissive().Layer("ops").DenyRead(huge, huge+"*")
	if got := p.Check(Need{Act: Read, Target: "short"}); got.Effect != Allow {
		t.Errorf("a short target = %+v, want allow by default", got)
	}
	if got := p.Check(Need{Act: Read, Target: huge}); got.Effect != Deny {
		t.Errorf("the huge target itself = %s, want deny", got.Effect)
	}
}

// matchSlowly is the pattern language as its definition reads.
func matchSlowly(p, t []rune) bool {
	if len(p) == 0 {
		return len(t) == 0
	}
	switch p[0] {
	case '*':
		return matchSlowly(p[1:], t) || len(t) > 0 && matchSlowly(p, t[1:])
	case '?':
		return len(t) > 0 && matchSlowly(p[1:], t[1:])
	}
	return len(t) > 0 && p[0] == t[0] && matchSlowly(p[1:], t[1:])
}

func TestMatchIsItsDefinition(t *testing.T) {
	pattern := rapid.StringOfN(rapid.RuneFrom([]rune("ab/*?é\n")), 0, 10, -1)
	target := rapid.StringOfN(rapid.RuneFrom([]rune("ab/é\n")), 0, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		p, s := pattern.Draw(t, "pattern"), target.Draw(t, "target")
		if got, want := match(compile(p, false), s, false), matchSlowly([]rune(p), []rune(s)); got != want {
			t.Fatalf("match(%q, %q) = %v, want %v", p, s, got, want)
		}
	})
}

func TestFoldingOnlyEverMatchesMore(t *testing.T) {
	letters := rapid.RuneFrom([]rune("aAkKsS*?ſ\u212Aé"))
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.StringOfN(letters, 0, 8, -1).Draw(t, "pattern")
		s := rapid.StringOfN(letters, 0, 8, -1).Draw(t, "target")
		if match(compile(p, false), s, false) && !match(compile(p, true), s, true) {
			t.Fatalf("%q matches %q as written and not folded", p, s)
		}
	})
}
