package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestExplain(t *testing.T) {
	p := Default().Layer("ops").AllowRead("*").DenyRead("secrets/*").Layer("team").AskRead("secrets/k").DenyRead("k")
	got := p.Explain(Need{Act: Read, Target: "secrets/k"})
	want := Explanation{
		Need:    Need{Act: Read, Target: "secrets/k"},
		Verdict: Verdict{Deny, "secrets/*", "ops", true},
		Matches: []Match{
			{"ops", Rule{Read, Deny, "secrets/*"}}, {"team", Rule{Read, Deny, "k"}},
			{"team", Rule{Read, Ask, "secrets/k"}}, {"ops", Rule{Read, Allow, "*"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the explanation differs (-want +got):\n%s", diff)
	}
	text := `read "secrets/k": deny by rule "secrets/*" of layer "ops"
  also matched: deny "k" of layer "team"
  also matched: ask "secrets/k" of layer "team"
  also matched: allow "*" of layer "ops"`
	if got.String() != text {
		t.Errorf("reads\n%s\nwant\n%s", got, text)
	}
	for _, tc := range []struct {
		n    Need
		want string
	}{
		{Need{Act: Write, Target: "x"}, `write "x": ask by default`},
		{Need{Act: Read, Target: "../x"}, `read "../x": deny, <resolves outside workspace root>, which no policy can allow`},
		{Need{Act: Exec, Argv: []string{"rustc"}}, `exec "rustc": allow by rule "rustc" of layer "builtin-exec"`},
	} {
		if got := p.Explain(tc.n).String(); got != tc.want {
			t.Errorf("reads %q, want %q", got, tc.want)
		}
	}
}

func TestExplainAgreesWithCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, n := drawPolicy(t, Acts()...), drawNeed(t, Acts()...)
		e := p.Explain(n)
		if want := p.Check(n); e.Verdict != want {
			t.Fatalf("Explain says %+v, Check %+v", e.Verdict, want)
		}
		if e.Verdict.Layer == "" {
			return
		}
		for _, m := range e.Matches {
			if m.Layer == e.Verdict.Layer && m.Rule.Pattern == e.Verdict.Rule && m.Rule.Effect == e.Verdict.Effect {
				return
			}
		}
		t.Fatalf("%+v decided and is not among the matches %+v", e.Verdict, e.Matches)
	})
}

func TestExplainingAnInvalidPolicy(t *testing.T) {
	e := Permissive().Layer("").Explain(Need{Act: Read, Target: "a"})
	if want := `read "a": deny, <invalid policy>, which no policy can allow`; e.String() != want {
		t.Errorf("reads %q, want %q", e.String(), want)
	}
}
