package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/initorigin/io-harness-go/policy"
)

func Example() {
	pol := policy.Default().Layer("app").
		AllowRead("*").AllowWrite("src/*").DenyRead("secrets/*").
		AllowExec("go test*").DenyExec("git push*")

	for _, n := range []policy.Need{
		{Act: policy.Read, Target: "README.md"},
		{Act: policy.Read, Target: "src/../secrets/key"},
		{Act: policy.Write, Target: "src/main.go"},
		{Act: policy.Write, Target: "go.mod"},
		{Act: policy.Exec, Argv: []string{"go", "test", "./..."}},
		{Act: policy.Exec, Argv: []string{"/usr/bin/git", "push", "origin", "main"}},
		{Act: policy.Net, Target: "example.com:443"},
	} {
		fmt.Println(pol.Explain(n).Verdict.Effect)
	}
	// Output:
	// allow
	// deny
	// allow
	// ask
	// allow
	// deny
	// deny
}

func ExamplePolicy_Check() {
	pol := policy.Default().Layer("team").DenyWrite("db/*").Layer("app").AllowWrite("*")
	v := pol.Check(policy.Need{Act: policy.Write, Target: "db/schema.sql"})
	fmt.Println(v.Effect, v.Rule, v.Layer)
	// Output: deny db/* team
}

func ExamplePolicy_Explain() {
	pol := policy.Permissive().Layer("team").DenyExec("git push*").Layer("app").AskExec("git")
	fmt.Println(pol.Explain(policy.Need{Act: policy.Exec, Argv: []string{"git", "push", "origin"}}))
	// Output:
	// exec "git push origin": deny by rule "git push*" of layer "team"
	//   also matched: ask "git" of layer "app"
}

func ExamplePolicy_Merge() {
	company := policy.Default().Layer("company").DenyNet("*.internal.example")
	project := policy.Permissive().Layer("project").AllowNet("*")
	pol := company.Merge(project)
	for _, host := range []string{"example.com:443", "db.internal.example:5432"} {
		fmt.Println(host, pol.Check(policy.Need{Act: policy.Net, Target: host}).Effect)
	}
	// Output:
	// example.com:443 allow
	// db.internal.example:5432 deny
}

func ExamplePolicy_Contain() {
	parent := policy.Default().Layer("app").AllowWrite("*")
	child := parent.Contain(policy.Permissive().Layer("reviewer").DenyWrite("*").AllowNet("*"))
	fmt.Println(parent.Check(policy.Need{Act: policy.Write, Target: "a"}).Effect, parent.Check(policy.Need{Act: policy.Net, Target: "a.com:443"}).Effect)
	fmt.Println(child.Check(policy.Need{Act: policy.Write, Target: "a"}).Effect, child.Check(policy.Need{Act: policy.Net, Target: "a.com:443"}).Effect)
	// Output:
	// allow deny
	// deny deny
}

func ExamplePolicy_Lint() {
	pol := policy.Default().WithMoreSecrets().Layer("app").AllowExec("mkdir*").DenyNet("*.evil.test")
	for _, w := range pol.Lint() {
		fmt.Println(w.Kind, w.Rule.Pattern, w.Instead)
	}
	// Output:
	// word_border mkdir* [mkdir mkdir *]
	// any_arguments mkdir* []
	// apex_missing *.evil.test [*.evil.test evil.test]
}

func ExamplePolicy_Boundary() {
	pol := policy.Policy{}.WithDefaults(policy.Defaults{Read: policy.Allow, Write: policy.Ask}).
		Layer("ops").AllowWrite("src/*").DenyRead("secrets").DenyExec("rm")
	for _, line := range pol.Boundary() {
		fmt.Println(line)
	}
	// Output:
	// read: allowed by default; refused: `secrets` (ops)
	// write: only after a person or an approver agrees by default; allowed: `src/*`
	// exec: refused by default; refused: `rm` (ops)
	// net: refused by default
}

func ExamplePolicy_Remember() {
	pol := policy.Default()
	need := policy.Need{Act: policy.Exec, Argv: []string{"go", "vet", "./..."}}
	rule, ok := policy.RuleFor(need, policy.Allow)
	pol = pol.Remember(rule)
	fmt.Println(ok, rule.Pattern, pol.Check(need).Effect)
	fmt.Println(pol.Check(policy.Need{Act: policy.Exec, Argv: []string{"go", "run", "."}}).Effect)
	// Output:
	// true go vet ./... allow
	// ask
}

func ExamplePolicy_json() {
	data, err := json.Marshal(policy.Permissive().Layer("ops").DenyNet("evil.test"))
	fmt.Println(string(data), err)
	var back policy.Policy
	err = json.Unmarshal([]byte(`{"layers":[],"defaults":{"read":"allow","write":"alow","exec":"ask"}}`), &back)
	fmt.Println(err)
	// Output:
	// {"layers":[{"name":"ops","rules":[{"act":"net","effect":"deny","pattern":"evil.test"}]}],"defaults":{"read":"allow","write":"allow","exec":"allow","net":"allow"}} <nil>
	// policy defaults: write "alow" is none of allow, ask and deny
}

func ExampleRefusedError() {
	pol := policy.Default().Layer("ops").DenyExec("gopls")
	need := policy.Need{Act: policy.Exec, Target: "gopls"}
	var err error = pol.Check(need).Refusal(need)
	fmt.Println(errors.Is(err, policy.ErrRefused), err)
	// Output: true exec of "gopls" refused: rule "gopls" of layer "ops" denies it
}

func ExampleNetTarget() {
	for _, url := range []string{"https://good.test@EVIL.test./x", "http://127.1/"} {
		fmt.Println(policy.NetTarget(url))
	}
	// Output:
	// evil.test:443 true
	//  false
}
