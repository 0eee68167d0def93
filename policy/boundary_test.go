package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBoundaryOfAPolicy(t *testing.T) {
	p := Default().Layer("ops").AllowRead("*", "secrets/*").DenyRead("secrets/*").AskWrite("db/*").AllowWrite("src/*").
		AllowExec("go test*", "git push*", "/usr/bin/git status").DenyExec("git").
		AllowNet("*.good.com").DenyNet("*.Evil.com")
	got := p.Boundary()
	want := []Boundary{
		{Act: Read, Default: Allow, Allowed: []string{"*"}, Refused: []Refused{
			{".env", LayerSecrets}, {"*.pem", LayerSecrets}, {"id_rsa", LayerSecrets}, {"id_ed25519", LayerSecrets}, {"*.key", LayerSecrets}, {"secrets/*", "ops"}}},
		{Act: Write, Default: Ask, Allowed: []string{"src/*"}, Asked: []string{"db/*"}, Refused: []Refused{
			{".env", LayerSecrets}, {"*.pem", LayerSecrets}, {"id_rsa", LayerSecrets}, {"id_ed25519", LayerSecrets}, {"*.key", LayerSecrets},
			{".git/*", LayerConfig}, {"*/.git/*", LayerConfig}, {"io.toml", LayerConfig}, {"io.local.toml", LayerConfig}}},
		{Act: Exec, Default: Ask, Allowed: []string{"rustc", "<test-binary>", "go test*"}, Refused: []Refused{
			{"git push*", "ops"}, {"/usr/bin/git status", "ops"}, {"git", "ops"}}},
		{Act: Net, Default: Deny, Allowed: []string{"*.good.com"}, Refused: []Refused{{"*.Evil.com", "ops"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the boundary differs (-want +got):\n%s", diff)
	}
}

func TestAPatternStandsWhereCheckPutsIt(t *testing.T) {
	for _, tc := range []struct {
		name string
		p    Policy
		act  Act
		want string
	}{
		{"an allow behind an ask needs approval", Permissive().Layer("l").AllowWrite("a").AskWrite("*"), Write, "write: allowed by default; needs approval: `a`, `*`"},
		{"a plan lock is named on everything it stops", Default().Layer("l").AllowExec("go *").PlanLock(), Exec, "exec: only after a person or an approver agrees by default; refused: `rustc` (plan-gate), `<test-binary>` (plan-gate), `go *` (plan-gate), `*` (plan-gate)"},
		{"an allow that never matches stands where it falls", Default().Layer("l").AllowNet("API.good.com"), Net, "net: refused by default; refused: `API.good.com`"},
		{"a pattern that climbs out is refused", Permissive().Layer("l").AllowRead("../x"), Read, "read: allowed by default; refused: `../x`"},
		{"a repeated pattern is named once", Permissive().Layer("l").DenyRead("a", "a").Layer("m").AllowRead("a"), Read, "read: allowed by default; refused: `a` (l)"},
		{"a line break cannot forge a line", Permissive().Layer("l\nread: x").DenyRead("a\nwrite: allowed"), Read, `read: allowed by default; refused: ` + "`a\\nwrite: allowed` (l\\nread: x)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, b := range tc.p.Boundary() {
				if b.Act == tc.act && b.String() != tc.want {
					t.Errorf("told as\n%s\nwant\n%s", b, tc.want)
				}
			}
		})
	}
}

func TestBoundaryNamesAtMostSoMany(t *testing.T) {
	p := Permissive().Layer("l")
	for i := range BoundaryPatterns + 3 {
		p = p.DenyRead(fmt.Sprintf("f%d", i))
	}
	b := p.Boundary()[0]
	if len(b.Refused) != BoundaryPatterns || b.More != 3 {
		t.Errorf("%d patterns named and %d counted, want %d and 3", len(b.Refused), b.More, BoundaryPatterns)
	}
	if s := b.String(); !strings.HasSuffix(s, "; 3 more patterns are enforced and not listed") {
		t.Errorf("the line ends %q", s[max(0, len(s)-60):])
	}
	if v := p.Check(Need{Act: Read, Target: fmt.Sprintf("f%d", BoundaryPatterns+2)}); v.Effect != Deny {
		t.Errorf("a pattern that is not named is not enforced: %+v", v)
	}
}

func TestThePermissivePolicyHasNoBoundaryToTell(t *testing.T) {
	if got := Permissive().Layer("empty").Boundary(); got != nil {
		t.Errorf("told as %v", got)
	}
	if got := (Policy{}).Boundary(); len(got) != 4 || got[0].Default != Deny {
		t.Errorf("the zero policy is told as %v", got)
	}
}
