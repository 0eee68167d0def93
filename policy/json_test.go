package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestStoredForm(t *testing.T) {
	p := Policy{}.WithDefaults(Defaults{Read: Allow, Write: Ask}).Layer("ops").AllowRead("src/*").DenyNet("*").Layer("empty")
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"layers":[{"name":"ops","rules":[{"act":"read","effect":"allow","pattern":"src/*"},{"act":"net","effect":"deny","pattern":"*"}]},{"name":"empty","rules":[]}],"defaults":{"read":"allow","write":"ask","exec":"deny","net":"deny"}}`
	if string(got) != want {
		t.Errorf("stored as\n%s\nwant\n%s", got, want)
	}
}

func TestTheDefaultPolicyAsStored(t *testing.T) {
	got := Default().Layers()
	deny := func(act Act, pattern string) Rule { return Rule{act, Deny, pattern} }
	want := []Layer{
		{Name: "builtin-secrets", Rules: []Rule{
			deny(Read, ".env"), deny(Write, ".env"), deny(Read, "*.pem"), deny(Write, "*.pem"),
			deny(Read, "id_rsa"), deny(Write, "id_rsa"), deny(Read, "id_ed25519"), deny(Write, "id_ed25519"),
			deny(Read, "*.key"), deny(Write, "*.key"),
		}},
		{Name: "builtin-exec", Rules: []Rule{{Exec, Allow, "rustc"}, {Exec, Allow, "<test-binary>"}}},
		{Name: "builtin-config", Rules: []Rule{deny(Write, ".git/*"), deny(Write, "*/.git/*"), deny(Write, "io.toml"), deny(Write, "io.local.toml")}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the default layers differ (-want +got):\n%s", diff)
	}
}

func TestRoundTripIsAnEqualPolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t, Acts()...)
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 1:
			p = Default().Merge(p)
		case 2:
			p = p.Contain(drawPolicy(t, Acts()...))
		case 3:
			p = p.PlanLock().Remember(Rule{Exec, Allow, "a\n\"<&>é"})
		case 4:
			p = p.ForChild([]string{"*"}, []string{"a.com"})
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var q Policy
		if err := json.Unmarshal(data, &q); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if !p.Equal(q) || !q.Equal(p) {
			t.Fatalf("%s is not equal after a round trip", data)
		}
		n := drawNeed(t, Acts()...)
		if got, want := q.Check(n), p.Check(n); got != want {
			t.Fatalf("%s decides %+v as %+v, before it was stored as %+v", data, n, got, want)
		}
	})
}

func TestEqualSeesEveryDifference(t *testing.T) {
	base := Default().Layer("l").AllowRead("a")
	for name, other := range map[string]Policy{
		"another pattern":  Default().Layer("l").AllowRead("b"),
		"another effect":   Default().Layer("l").AskRead("a"),
		"another act":      Default().Layer("l").AllowWrite("a"),
		"another name":     Default().Layer("m").AllowRead("a"),
		"one rule more":    base.AllowRead("a"),
		"one layer more":   base.Layer("n"),
		"another default":  base.WithDefaults(Defaults{Exec: Deny}),
		"a fault":          base.Layer(""),
		"the zero policy":  {},
		"a narrowed layer": Default().Contain(Policy{}.Layer("l").AskRead("a")),
	} {
		if base.Equal(other) || other.Equal(base) {
			t.Errorf("%s: counts as equal", name)
		}
	}
	if !base.Equal(Default().Layer("l").AllowRead("a")) {
		t.Error("two policies built alike are not equal")
	}
}

func TestAPolicyStoredBeforeTheNetworkDeniesIt(t *testing.T) {
	var p Policy
	err := json.Unmarshal([]byte(`{"layers":[],"defaults":{"read":"allow","write":"allow","exec":"allow"}}`), &p)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Check(Need{Act: Net, Target: "a.com:443"}); got.Effect != Deny {
		t.Errorf("the network is %s, want deny", got.Effect)
	}
	if got := p.Check(Need{Act: Exec, Target: "x"}); got.Effect != Allow {
		t.Errorf("control: commands are %s, want allow", got.Effect)
	}
}

func TestDecodingIsStrict(t *testing.T) {
	const defaults = `"defaults":{"read":"allow","write":"ask","exec":"ask","net":"deny"}`
	rule := func(s string) string { return `{"layers":[{"name":"l","rules":[` + s + `]}],` + defaults + `}` }
	for _, tc := range []struct{ name, in, says string }{
		{"an empty object", `{}`, "layers"},
		{"no defaults", `{"layers":[]}`, "defaults"},
		{"no read", `{"layers":[],"defaults":{"write":"ask","exec":"ask"}}`, `"read"`},
		{"no write", `{"layers":[],"defaults":{"read":"ask","exec":"ask"}}`, `"write"`},
		{"no exec", `{"layers":[],"defaults":{"read":"ask","write":"ask"}}`, `"exec"`},
		{"an unknown effect in a default", `{"layers":[],"defaults":{"read":"Allow","write":"ask","exec":"ask"}}`, "Allow"},
		{"an unknown default", `{"layers":[],"defaults":{"read":"allow","write":"ask","exec":"ask","spawn":"allow"}}`, "spawn"},
		{"an unknown key", `{"layers":[],` + defaults + `,"version":2}`, "version"},
		{"an unknown key in a layer", `{"layers":[{"name":"l","rules":[],"priority":1}],` + defaults + `}`, "priority"},
		{"an unknown key in a rule", rule(`{"act":"read","effect":"deny","pattern":"a","unless":"b"}`), "unless"},
		{"an unknown act", rule(`{"act":"tool","effect":"deny","pattern":"a"}`), "tool"},
		{"an unknown effect", rule(`{"act":"read","effect":"warn","pattern":"a"}`), "warn"},
		{"no effect", rule(`{"act":"read","pattern":"a"}`), "effect"},
		{"no pattern", rule(`{"act":"read","effect":"deny"}`), "pattern"},
		{"a key in another case", rule(`{"act":"read","effect":"deny","Pattern":"a"}`), "Pattern"},
		{"a key in another case at the top", `{"Layers":[],"layers":[],` + defaults + `}`, "Layers"},
		{"a key twice", rule(`{"act":"read","effect":"deny","effect":"allow","pattern":"a"}`), "twice"},
		{"a default twice", `{"layers":[],"defaults":{"read":"deny","read":"allow","write":"ask","exec":"ask"}}`, "twice"},
		{"null for a pattern", rule(`{"act":"read","effect":"deny","pattern":null}`), "pattern"},
		{"a number for a pattern", rule(`{"act":"read","effect":"deny","pattern":1}`), "pattern"},
		{"null for the layers", `{"layers":null,` + defaults + `}`, "layers"},
		{"null for the rules", `{"layers":[{"name":"l","rules":null}],` + defaults + `}`, "rules"},
		{"an array", `[]`, "object"},
		{"a text for narrows", `{"layers":[{"name":"l","rules":[],"narrows":"yes"}],` + defaults + `}`, "narrows"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := Permissive()
			err := json.Unmarshal([]byte(tc.in), &p)
			if err == nil {
				t.Fatalf("%s was accepted", tc.in)
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("the error does not name %q: %v", tc.says, err)
			}
			if !p.Equal(Permissive()) {
				t.Error("a failed decoding changed the policy")
			}
		})
	}
}

func TestAnInvalidPolicyCannotBeStored(t *testing.T) {
	if data, err := json.Marshal(Default().Layer(LayerPlanGate).AllowRead("a")); err == nil {
		t.Errorf("stored as %s", data)
	}
}

func TestAStoredReservedLayerIsRead(t *testing.T) {
	data, err := json.Marshal(Default().PlanLock())
	if err != nil {
		t.Fatal(err)
	}
	var p Policy
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err != nil {
		t.Errorf("a stored policy with layers of the harness is invalid: %v", err)
	}
}
