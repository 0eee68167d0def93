package policy

import (
	"slices"
	"strings"
	"testing"
)

func TestLint(t *testing.T) {
	quiet := Default().WithMoreSecrets() // nothing to say about it
	for _, tc := range []struct {
		name    string
		p       Policy
		pattern string
		kind    WarningKind
		instead []string
	}{
		{"two stars", quiet.Layer("l").DenyRead("src/**/x.rs"), "src/**/x.rs", WarnDoubleStar, []string{"src/*/x.rs", "src/x.rs"}},
		{"two stars at the end", quiet.Layer("l").AllowRead("src/**"), "src/**", WarnDoubleStar, []string{"src/*"}},
		{"a character class", quiet.Layer("l").DenyRead("[ab].txt"), "[ab].txt", WarnLiteral, nil},
		{"braces", quiet.Layer("l").DenyRead("{a,b}"), "{a,b}", WarnLiteral, nil},
		{"a negation", quiet.Layer("l").DenyRead("!keep"), "!keep", WarnLiteral, nil},
		{"an allow with a leading dot", quiet.Layer("l").AllowWrite("./src/*"), "./src/*", WarnNeverMatches, []string{"src/*"}},
		{"an allow with a closing slash", quiet.Layer("l").AllowWrite("src/"), "src/", WarnNeverMatches, []string{"src/*"}},
		{"an absolute allow", quiet.Layer("l").AllowWrite("/src/*"), "/src/*", WarnNeverMatches, []string{"src/*"}},
		{"a path with two dots", quiet.Layer("l").DenyRead("../x"), "../x", WarnNeverMatches, nil},
		{"a directory left open", quiet.Layer("l").DenyRead("secrets/*"), "secrets/*", WarnDirectoryOpen, []string{"secrets"}},
		{"every write", quiet.Layer("l").AllowWrite("*"), "*", WarnEverything, nil},
		{"every command", quiet.Layer("l").AllowExec("*"), "*", WarnEverything, nil},
		{"every host", quiet.Layer("l").AllowNet("*"), "*", WarnEverything, nil},
		{"a word that goes on", quiet.Layer("l").AllowExec("mkdir*"), "mkdir*", WarnWordBorder, []string{"mkdir", "mkdir *"}},
		{"an argument that goes on", quiet.Layer("l").AllowExec("git log*"), "git log*", WarnWordBorder, []string{"git log", "git log *"}},
		{"options of an allowed line", quiet.Layer("l").AllowExec("git log*"), "git log*", WarnAnyArguments, nil},
		{"options of an allowed program", quiet.Layer("l").AllowExec("git *"), "git *", WarnAnyArguments, nil},
		{"a program without its arguments", quiet.Layer("l").AllowExec("cargo"), "cargo", WarnBareProgram, []string{"cargo", "cargo *"}},
		{"an allow behind a deny", quiet.Layer("l").AllowRead("a.pem"), "a.pem", WarnShadowed, nil},
		{"an allow behind an ask", quiet.Layer("l").AskExec("git").AllowExec("git status"), "git status", WarnShadowed, nil},
		{"a wildcard that misses the domain", quiet.Layer("l").DenyNet("*.example.com"), "*.example.com", WarnApexMissing, []string{"*.example.com", "example.com"}},
		{"a suffix that is no domain", quiet.Layer("l").AllowNet("*example.com"), "*example.com", WarnHostPrefix, []string{"example.com", "*.example.com"}},
		{"an allowed host in upper case", quiet.Layer("l").AllowNet("API.good.com"), "API.good.com", WarnNeverMatches, []string{"api.good.com"}},
		{"an allowed host with a closing dot", quiet.Layer("l").AllowNet("good.com."), "good.com.", WarnNeverMatches, []string{"good.com"}},
		{"an allowed host in unicode", quiet.Layer("l").AllowNet("bücher.example"), "bücher.example", WarnNeverMatches, []string{"xn--bcher-kva.example"}},
		{"a URL", quiet.Layer("l").DenyNet("https://evil.com/"), "https://evil.com/", WarnNeverMatches, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			warnings := tc.p.Lint()
			i := slices.IndexFunc(warnings, func(w Warning) bool { return w.Kind == tc.kind && w.Rule.Pattern == tc.pattern })
			if i < 0 {
				t.Fatalf("no %s for %q in %v", tc.kind, tc.pattern, warnings)
			}
			w := warnings[i]
			if w.Layer != "l" {
				t.Errorf("attributed to layer %q", w.Layer)
			}
			if tc.instead != nil && !slices.Equal(w.Instead, tc.instead) {
				t.Errorf("suggests %q, want %q", w.Instead, tc.instead)
			}
			if s := w.String(); strings.Contains(s, "\n") || !strings.Contains(s, Escape(tc.pattern)) {
				t.Errorf("reads %q", s)
			}
		})
	}
}

func TestLintIsQuietAboutWhatIsMeant(t *testing.T) {
	p := Default().WithMoreSecrets().WithLauncherAsk().WithControlFiles().Layer("ops").
		AllowRead("src/*", "go.mod").AllowWrite("src/*").DenyRead("private").DenyWrite("db").
		AllowExec("go test", "go vet", "mcp__files__*", "cargo", "cargo build").AllowExec("cargo *").DenyExec("git push*").
		AllowNet("good.com", "api.good.com:443").DenyNet("evil.com")
	for _, w := range p.Lint() {
		if w.Kind != WarnAnyArguments {
			t.Errorf("unexpected: %s", w)
		}
	}
}

func TestLintTellsOfOpenSecrets(t *testing.T) {
	has := func(p Policy) bool {
		return slices.ContainsFunc(p.Lint(), func(w Warning) bool { return w.Kind == WarnSecretsOpen })
	}
	if !has(Default()) {
		t.Error("the default policy reads more key files than it names, and Lint is silent")
	}
	if has(Default().WithMoreSecrets()) || has(Policy{}) || has(Permissive()) {
		t.Error("Lint reports open secrets where they are closed, or where everything is open on purpose")
	}
}
