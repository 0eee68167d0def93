package policy

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestOrderOfRules(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy Policy
		need   Need
		want   Verdict
	}{
		{"deny in a lower layer beats allow above", Policy{}.Layer("base").DenyRead("a").Layer("team").AllowRead("a"), Need{Act: Read, Target: "a"}, Verdict{Deny, "a", "base", true}},
		{"deny in an upper layer beats allow below", Policy{}.Layer("base").AllowRead("a").Layer("team").DenyRead("a"), Need{Act: Read, Target: "a"}, Verdict{Deny, "a", "team", true}},
		{"a broad deny beats a narrow allow", Policy{}.Layer("l").AllowRead("src/a.go").DenyRead("*"), Need{Act: Read, Target: "src/a.go"}, Verdict{Deny, "*", "l", true}},
		{"ask beats allow from below", Policy{}.Layer("base").AskWrite("*").Layer("team").AllowWrite("a"), Need{Act: Write, Target: "a"}, Verdict{Ask, "*", "base", true}},
		{"ask beats allow from above", Policy{}.Layer("base").AllowWrite("a").Layer("team").AskWrite("*"), Need{Act: Write, Target: "a"}, Verdict{Ask, "*", "team", true}},
		{"deny beats ask", Policy{}.Layer("l").AskWrite("a").DenyWrite("a"), Need{Act: Write, Target: "a"}, Verdict{Deny, "a", "l", true}},
		{"the first of two rules is named", Policy{}.Layer("l").DenyRead("a*", "ab"), Need{Act: Read, Target: "ab"}, Verdict{Deny, "a*", "l", true}},
		{"the first of two layers is named", Policy{}.Layer("one").DenyRead("*").Layer("two").DenyRead("ab"), Need{Act: Read, Target: "ab"}, Verdict{Deny, "*", "one", true}},
		{"without a rule the default decides and names nobody", Default(), Need{Act: Write, Target: "a"}, Verdict{Effect: Ask}},
		{"the zero policy denies reads", Policy{}, Need{Act: Read, Target: "a"}, Verdict{Effect: Deny}},
		{"the zero policy denies hosts", Policy{}, Need{Act: Net, Target: "a.com:443"}, Verdict{Effect: Deny}},
		{"an act that does not exist is denied", Permissive(), Need{Act: "tool", Target: "a"}, Verdict{Effect: Deny}},
		{"the permissive policy allows hosts", Permissive(), Need{Act: Net, Target: "a.com:443"}, Verdict{Effect: Allow}},
		{"the default policy refuses hosts", Default(), Need{Act: Net, Target: "a.com:443"}, Verdict{Effect: Deny}},
		{"an ask rule opens what the default denies", Default().Layer("l").AskNet("a.com"), Need{Act: Net, Target: "a.com:443"}, Verdict{Ask, "a.com", "l", true}},
		{"an ask of a program leaves a line that the default denies", Policy{}.Layer("l").AskExec("git"), Need{Act: Exec, Argv: []string{"git", "status"}}, Verdict{Effect: Deny}},
		{"an ask of a line opens it where the default denies", Policy{}.Layer("l").AskExec("git *"), Need{Act: Exec, Argv: []string{"git", "status"}}, Verdict{Ask, "git *", "l", true}},
		{"an ask of a program still tightens an allow where the default denies", Policy{}.Layer("l").AskExec("git").AllowExec("git status"), Need{Act: Exec, Argv: []string{"git", "status"}}, Verdict{Ask, "git", "l", true}},
		{"a rule on the bare default policy is the caller's own", Default().DenyRead("x"), Need{Act: Read, Target: "x"}, Verdict{Deny, "x", "policy", true}},
		{"an ask by what a path resolves to tightens an allow", Policy{}.Layer("l").AllowRead("link").AskRead("/r/db"), Need{Act: Read, Target: "link", Resolved: "/r/db/x"}, Verdict{Ask, "/r/db", "l", true}},
		{"an ask by what a path resolves to opens nothing", Policy{}.Layer("l").AskRead("/r/db"), Need{Act: Read, Target: "link", Resolved: "/r/db/x"}, Verdict{Effect: Deny}},
		{"an ask by another case of a folded name opens nothing", Policy{}.Layer("l").AskRead("DB"), Need{Act: Read, Target: "db", FoldCase: true}, Verdict{Effect: Deny}},
		{"an ask by what a name resolves to opens nothing", Policy{}.Layer("l").AskNet("10.0.0.5"), Need{Act: Net, Target: "a.com:80", Resolved: "10.0.0.5"}, Verdict{Effect: Deny}},
		{"an ask of a directory opens what is in it", Policy{}.Layer("l").AskRead("docs"), Need{Act: Read, Target: "docs/a"}, Verdict{Ask, "docs", "l", true}},
		{"the empty pattern can decide", Permissive().Layer("l").DenyRead(""), Need{Act: Read, Target: ""}, Verdict{Deny, "", "l", true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.policy.Check(tc.need); got != tc.want {
				t.Errorf("Check(%+v) = %+v, want %+v", tc.need, got, tc.want)
			}
		})
	}
}

func TestEffectsAreOrdered(t *testing.T) {
	for _, tc := range []struct{ a, b, want Effect }{
		{Allow, Ask, Ask}, {Ask, Deny, Deny}, {Deny, Allow, Deny}, {Allow, Allow, Allow},
		{Allow, "", Deny}, {"", Ask, Deny}, {Ask, "never", Deny},
	} {
		if got := Stricter(tc.a, tc.b); got != tc.want {
			t.Errorf("Stricter(%q, %q) = %q, want %q", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestMergeIsPeerStacking(t *testing.T) {
	base := Default().Layer("base").DenyRead("a").AskWrite("b")
	wide := base.Merge(Permissive().Layer("over").AllowRead("a").AllowWrite("b", "c"))
	for _, tc := range []struct {
		name string
		p    Policy
		n    Need
		want Effect
	}{
		{"an overlay widens what a default decided", wide, Need{Act: Write, Target: "c"}, Allow},
		{"an overlay does not lift a deny", wide, Need{Act: Read, Target: "a"}, Deny},
		{"an overlay does not lift an ask", wide, Need{Act: Write, Target: "b"}, Ask},
		{"an overlay does not loosen a default", wide, Need{Act: Write, Target: "d"}, Ask},
		{"an overlay tightens a default", base.Merge(Policy{}), Need{Act: Read, Target: "x"}, Deny},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.p.Check(tc.n).Effect; got != tc.want {
				t.Errorf("Check(%+v) = %s, want %s", tc.n, got, tc.want)
			}
		})
	}
}

func TestMergingAPolicyWithItselfChangesNoVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, n := drawPolicy(t, Acts()...), drawNeed(t, Acts()...)
		if got, want := p.Merge(p).Check(n), p.Check(n); got != want {
			t.Fatalf("merged with itself %+v, alone %+v", got, want)
		}
	})
}

func TestMergingStricterDefaultsChangesNoVerdictByRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, n := drawPolicy(t, Acts()...), drawNeed(t, Acts()...)
		n.Resolved, n.FoldCase = "", false
		before, after := p.Check(n), p.Merge(Policy{}.WithDefaults(Default().Defaults())).Check(n)
		if before.Matched && before != after {
			t.Fatalf("%+v became %+v", before, after)
		}
		if Stricter(before.Effect, after.Effect) != after.Effect {
			t.Fatalf("%+v was loosened to %+v", before, after)
		}
	})
}

func TestContainNeverLoosens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNeed(t, Acts()...)
		p := drawPolicy(t, Acts()...)
		for depth := range 3 {
			child := p.Contain(drawPolicy(t, Acts()...))
			parent, got := p.Check(n).Effect, child.Check(n).Effect
			if Stricter(parent, got) != got {
				t.Fatalf("at depth %d %+v is %s and its parent says %s", depth+1, n, got, parent)
			}
			p = child
		}
	})
}

func TestContain(t *testing.T) {
	parent := Default().Layer("ops").AllowWrite("*").AllowNet("good.com").AllowExec("go *")
	child := func(build func(Policy) Policy) Policy { return parent.Contain(build(Permissive().Layer("kid"))) }
	for _, tc := range []struct {
		name string
		p    Policy
		n    Need
		want Effect
	}{
		{"an allow of the child is dropped", child(func(k Policy) Policy { return k.AllowNet("evil.com") }), Need{Act: Net, Target: "evil.com:443"}, Deny},
		{"a deny of the child holds", child(func(k Policy) Policy { return k.DenyWrite("db/*") }), Need{Act: Write, Target: "db/x"}, Deny},
		{"an ask of the child narrows an allow", child(func(k Policy) Policy { return k.AskWrite("db/*") }), Need{Act: Write, Target: "db/x"}, Ask},
		{"an ask of the child narrows an allow under a denying default", child(func(k Policy) Policy { return k.AskNet("*") }), Need{Act: Net, Target: "good.com:443"}, Ask},
		{"an ask of the child opens nothing", child(func(k Policy) Policy { return k.AskNet("*") }), Need{Act: Net, Target: "evil.com:443"}, Deny},
		{"a host of the parent stays open", child(func(k Policy) Policy { return k }), Need{Act: Net, Target: "good.com:443"}, Allow},
		{"a silent grandchild restores nothing", child(func(k Policy) Policy { return k.DenyWrite("db/*") }).Contain(Permissive()), Need{Act: Write, Target: "db/x"}, Deny},
		{"a stricter default does not close what a rule of the parent allows", parent.Contain(Policy{}), Need{Act: Write, Target: "x"}, Allow},
		{"a stricter default closes what a default of the parent allows", parent.Contain(Policy{}), Need{Act: Read, Target: "x"}, Deny},
		{"rules added afterwards are the adder's own again", child(func(k Policy) Policy { return k.AskNet("*") }).AskNet("new.com"), Need{Act: Net, Target: "new.com:443"}, Ask},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.p.Check(tc.n); got.Effect != tc.want {
				t.Errorf("Check(%+v) = %+v, want %s", tc.n, got, tc.want)
			}
		})
	}
}

func TestHarnessLayers(t *testing.T) {
	base := Default().Layer("ops").AllowWrite("*").AllowExec("*").AllowNet("a.com")
	for _, tc := range []struct {
		name string
		p    Policy
		n    Need
		want Verdict
	}{
		{"a pending plan stops writes", base.PlanLock(), Need{Act: Write, Target: "x"}, Verdict{Deny, "*", LayerPlanGate, true}},
		{"a pending plan stops tools", base.PlanLock(), Need{Act: Exec, Target: "lookup"}, Verdict{Deny, "*", LayerPlanGate, true}},
		{"a pending plan leaves reads", base.PlanLock(), Need{Act: Read, Target: "x"}, Verdict{Effect: Allow}},
		{"a pending plan leaves the network", base.PlanLock(), Need{Act: Net, Target: "a.com:1"}, Verdict{Allow, "a.com", "ops", true}},
		{"a child that may not write", base.ForChild([]string{"*"}, nil), Need{Act: Write, Target: "x"}, Verdict{Deny, "*", LayerChild, true}},
		{"a child that may not dial", base.ForChild(nil, []string{"a.com"}), Need{Act: Net, Target: "A.com:443"}, Verdict{Deny, "a.com", LayerChild, true}},
		{"a child without limits of its own", base.ForChild(nil, nil), Need{Act: Write, Target: "x"}, Verdict{Allow, "*", "ops", true}},
		{"the provider's own call", Default().ForProvider("api.x.com:443"), Need{Act: Net, Target: "api.x.com:443"}, Verdict{Allow, "api.x.com:443", LayerProvider, true}},
		{"the provider's host on another port", Default().ForProvider("api.x.com:443"), Need{Act: Net, Target: "api.x.com:80"}, Verdict{Effect: Deny}},
		{"a denied provider stays denied", Default().Layer("ops").DenyNet("api.x.com").ForProvider("api.x.com:443"), Need{Act: Net, Target: "api.x.com:443"}, Verdict{Deny, "api.x.com", "ops", true}},
		{"a provider that must be asked about", Default().Layer("ops").AskNet("api.x.com").ForProvider("api.x.com:443"), Need{Act: Net, Target: "api.x.com:443"}, Verdict{Ask, "api.x.com", "ops", true}},
		{"a remembered deny tightens", base.Remember(Rule{Write, Deny, "db/*"}), Need{Act: Write, Target: "db/x"}, Verdict{Deny, "db/*", LayerRemembered, true}},
		{"a remembered allow lifts no deny", Default().Remember(Rule{Read, Allow, "*"}), Need{Act: Read, Target: ".env"}, Verdict{Deny, ".env", LayerSecrets, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.p.Check(tc.n); got != tc.want {
				t.Errorf("Check(%+v) = %+v, want %+v", tc.n, got, tc.want)
			}
		})
	}
}

func TestGrants(t *testing.T) {
	asks := Default().Layer("ops").AskWrite("src/*").DenyWrite("src/secret")
	for _, tc := range []struct {
		name string
		p    Policy
		n    Need
		want bool
	}{
		{"a grant answers an ask by rule", asks.Remember(Rule{Write, Allow, "src/a"}), Need{Act: Write, Target: "src/a"}, true},
		{"a grant answers an ask by default", asks.Remember(Rule{Exec, Allow, "make test"}), Need{Act: Exec, Argv: []string{"make", "test"}}, true},
		{"a grant is for what it names", asks.Remember(Rule{Write, Allow, "src/a"}), Need{Act: Write, Target: "src/b"}, false},
		{"a grant of a command is not one of its program", asks.Remember(Rule{Exec, Allow, "make test"}), Need{Act: Exec, Argv: []string{"make", "clean"}}, false},
		{"a grant of everything lifts no deny", asks.Remember(Rule{Write, Allow, "*"}), Need{Act: Write, Target: "src/secret"}, false},
		{"a remembered ask beats a remembered allow", asks.Remember(Rule{Write, Allow, "*"}).Remember(Rule{Write, Ask, "src/a"}), Need{Act: Write, Target: "src/a"}, false},
		{"an allow of another layer is no grant", asks.Layer("more").AllowWrite("src/a"), Need{Act: Write, Target: "src/a"}, false},
		{"nothing is granted where nothing is asked", asks.Remember(Rule{Read, Allow, "*"}), Need{Act: Read, Target: "a"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, got := tc.p.Granted(tc.n)
			if got != tc.want {
				t.Errorf("Granted(%+v) = %v, want %v", tc.n, got, tc.want)
			}
			if got && v.Layer != LayerRemembered {
				t.Errorf("the grant is attributed to %q", v.Layer)
			}
		})
	}
}

func TestRuleForIsExactlyWhatWasAsked(t *testing.T) {
	for _, tc := range []struct {
		name string
		n    Need
		want string
		ok   bool
	}{
		{"a path in its normal form", Need{Act: Write, Target: "./src//a"}, "src/a", true},
		{"a whole command line", Need{Act: Exec, Target: "shown", Argv: []string{"go", "test", "./..."}}, "go test ./...", true},
		{"a host in its canonical form", Need{Act: Net, Target: "A.com.:443"}, "a.com:443", true},
		{"a tool", Need{Act: Exec, Target: "lookup"}, "lookup", true},
		{"a wildcard cannot be named exactly", Need{Act: Exec, Argv: []string{"rm", "*"}}, "", false},
		{"an argument with a space would name three", Need{Act: Exec, Argv: []string{"rm", "a b"}}, "", false},
		{"an empty argument is no part of a line", Need{Act: Exec, Argv: []string{"rm", "", "a"}}, "", false},
		{"a question mark cannot be named exactly", Need{Act: Write, Target: "a?"}, "", false},
		{"a host that cannot be checked", Need{Act: Net, Target: "127.1:80"}, "", false},
		{"an act that does not exist", Need{Act: "tool", Target: "x"}, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := RuleFor(tc.n, Allow)
			if ok != tc.ok || got.Pattern != tc.want {
				t.Fatalf("RuleFor(%+v) = %+v, %v, want pattern %q, %v", tc.n, got, ok, tc.want, tc.ok)
			}
			if ok {
				if v := (Policy{}).Layer("l").With(got).Check(tc.n); v.Effect != Allow {
					t.Errorf("the rule %+v does not allow %+v", got, tc.n)
				}
			}
		})
	}
}

func TestARememberedCommandIsThatCommandAndNoOtherOfTheSameLine(t *testing.T) {
	asking := Policy{}.WithDefaults(Defaults{Exec: Ask})
	kept := asking.Remember(Rule{Act: Exec, Effect: Allow, Pattern: "rm a b"})
	open := asking.Remember(Rule{Act: Exec, Effect: Allow, Pattern: "rm a*"})
	for _, tc := range []struct {
		p    Policy
		argv []string
		want Effect
	}{
		{kept, []string{"rm", "a", "b"}, Allow},
		{kept, []string{"rm", "a b"}, Ask},
		{kept, []string{"rm a", "b"}, Ask},
		{kept, []string{"rm", "a", "", "b"}, Ask},
		{open, []string{"rm", "a b"}, Allow},
	} {
		n := Need{Act: Exec, Target: tc.argv[0], Argv: tc.argv}
		if v := tc.p.Check(n); v.Effect != tc.want {
			t.Errorf("%q is %s, want %s", tc.argv, v.Effect, tc.want)
		}
		asks := asking.Layer("asks").AskExec("rm*").Remember(rulesIn(tc.p, LayerRemembered)...)
		if _, ok := asks.Granted(n); ok != (tc.want == Allow) {
			t.Errorf("%q is granted against an ask: %v", tc.argv, ok)
		}
	}
}

func rulesIn(p Policy, name string) (out []Rule) {
	for _, l := range p.layers {
		for _, r := range l.rules {
			if l.name == name {
				out = append(out, r.Rule)
			}
		}
	}
	return out
}

// A rule added to one policy must not appear in another that was made from the same
// base. Appending to a shared slice would do just that.
func TestDerivedPoliciesShareNothing(t *testing.T) {
	base := Default().Layer("base").AllowRead("a", "b", "c")
	left, right := base.DenyRead("left"), base.DenyRead("right")
	merged, contained := base.Merge(left), base.Contain(left)
	one, two := base.Layer("one"), base.Layer("two")
	for _, p := range []Policy{left, right, merged, contained, one, two, base} {
		_ = p.DenyRead("later")
		_ = p.Layer("later").DenyRead("later")
		_ = p.PlanLock()
		_ = p.Remember(Rule{Read, Deny, "later"})
	}
	for name, p := range map[string]Policy{"base": base, "left": left, "right": right, "merged": merged, "contained": contained, "one": one, "two": two} {
		if got := p.Check(Need{Act: Read, Target: "later"}); got.Effect != Allow {
			t.Errorf("%s sees a rule of another policy: %+v", name, got)
		}
	}
	if got := left.Check(Need{Act: Read, Target: "right"}); got.Effect != Allow {
		t.Errorf("left sees the rule of right: %+v", got)
	}
	if got := right.Check(Need{Act: Read, Target: "left"}); got.Effect != Allow {
		t.Errorf("right sees the rule of left: %+v", got)
	}
	if one.Layers()[len(one.Layers())-1].Name != "one" {
		t.Error("the last layer of one policy was replaced by that of another")
	}
	layers := base.Layers()
	layers[len(layers)-1].Rules[0].Effect = Deny
	if got := base.Check(Need{Act: Read, Target: "a"}); got.Effect != Allow {
		t.Errorf("changing the returned layers changed the policy: %+v", got)
	}
}

// Growing a slice leaves room at its end. Two policies that append into the same room
// overwrite each other, so this goes through every length up to several growths.
func TestDerivedPoliciesShareNoRoom(t *testing.T) {
	base := Policy{}
	for n := range 20 {
		base = base.Layer(fmt.Sprint("base", n))
		for name, derive := range map[string]func(string) Policy{
			"Layer":    base.Layer,
			"Merge":    func(s string) Policy { return base.Merge(Policy{}.Layer(s)) },
			"Contain":  func(s string) Policy { return base.Contain(Policy{}.Layer(s).DenyRead("*")) },
			"With":     func(s string) Policy { return base.DenyRead(s) },
			"ForChild": func(s string) Policy { return base.ForChild([]string{s}, nil) },
			"fault":    func(s string) Policy { return base.With(Rule{Act: Act(s)}) },
		} {
			one := derive("one")
			before, faults := fmt.Sprint(one.Layers()), fmt.Sprint(one.Validate())
			derive("two")
			if after := fmt.Sprint(one.Layers()); after != before {
				t.Errorf("%s on %d layers: %s became %s", name, n+1, before, after)
			}
			if after := fmt.Sprint(one.Validate()); after != faults {
				t.Errorf("%s on %d layers: %s became %s", name, n+1, faults, after)
			}
		}
	}
}

func TestInvalidPoliciesSaySoAndDeny(t *testing.T) {
	for _, tc := range []struct {
		name string
		p    Policy
	}{
		{"a layer of the harness", Permissive().Layer(LayerSecrets).AllowRead("*")},
		{"a layer without a name", Permissive().Layer("")},
		{"a layer with a broken name", Permissive().Layer("\xff")},
		{"an unknown act", Permissive().Layer("l").With(Rule{"tool", Allow, "*"})},
		{"an unknown effect", Permissive().Layer("l").With(Rule{Read, "maybe", "*"})},
		{"an effect left out", Permissive().Layer("l").With(Rule{Act: Read, Pattern: "*"})},
		{"a pattern that cannot be stored", Permissive().Layer("l").DenyRead("a\xff")},
		{"an unknown default", Permissive().WithDefaults(Defaults{Exec: "never"})},
		{"a fault that came by merging", Permissive().Merge(Permissive().Layer(""))},
		{"a fault that came with a child", Permissive().Contain(Permissive().Layer(""))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.p.Validate(); err == nil {
				t.Error("Validate found nothing wrong")
			}
			if got := tc.p.Check(Need{Act: Read, Target: "a"}); got.Effect != Deny || got.Rule != InvalidPolicy {
				t.Errorf("Check = %+v, want deny as %s", got, InvalidPolicy)
			}
			if tc.p.IsPermissive() || tc.p.AllowsAnyHost() {
				t.Error("an invalid policy counts as open")
			}
			if b := tc.p.Boundary(); len(b) != 4 || b[0].Default != Deny {
				t.Errorf("the boundary of an invalid policy is told as %+v", b)
			}
		})
	}
	if err := Default().Layer("l").AllowRead("*").Validate(); err != nil {
		t.Errorf("a good policy is invalid: %v", err)
	}
}

func TestWhatAPolicyIs(t *testing.T) {
	if !(Policy{}).IsZero() || Default().IsZero() || Permissive().IsZero() || (Policy{}).Layer("l").IsZero() {
		t.Error("IsZero is true for the zero policy only")
	}
	if !Permissive().IsPermissive() || !Permissive().Layer("empty").IsPermissive() {
		t.Error("the permissive policy, with empty layers or without, is permissive")
	}
	if Default().IsPermissive() || Permissive().DenyRead("a").IsPermissive() || Permissive().AllowRead("a").IsPermissive() ||
		Permissive().WithDefaults(Defaults{Net: Ask}).IsPermissive() {
		t.Error("a rule or a default that is not allow ends permissiveness")
	}
	if got, want := (Policy{}).Defaults(), (Defaults{Deny, Deny, Deny, Deny}); got != want {
		t.Errorf("the zero policy has defaults %+v", got)
	}
	if got, want := Default().WithDefaults(Defaults{Exec: Deny}).Defaults(), (Defaults{Allow, Ask, Deny, Deny}); got != want {
		t.Errorf("setting one default gave %+v, want %+v", got, want)
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	p := Default().Layer("many").AllowRead("*").AllowExec("go *").AllowNet("*.example.com")
	for range 25 {
		p = p.DenyRead("private/*/x").DenyExec("rm -rf *").DenyNet("*.evil.com").AskWrite("db/*")
	}
	for _, n := range []Need{
		{Act: Read, Target: "src/a/b/c.go", Resolved: "/home/u/project/src/a/b/c.go"},
		{Act: Write, Target: "doc/guide.md"},
		{Act: Exec, Argv: []string{"go", "test", "-run", "TestX", "./..."}, Resolved: "/usr/local/go/bin/go"},
		{Act: Exec, Target: "mcp__files__read"},
		{Act: Net, Target: "api.example.com:443"},
	} {
		if got := testing.AllocsPerRun(100, func() { p.Check(n) }); got != 0 {
			t.Errorf("Check(%+v) allocates %v times", n, got)
		}
	}
}
