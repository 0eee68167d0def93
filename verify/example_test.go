package verify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/verify"
)

// A run's loop brings the environment. A program that has none can bring its own:
// this one has no sandbox and no policy, so it admits one command by name.
func Example() {
	root, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	env := verify.Env{
		Root:    root,
		Resolve: func(program string) (string, error) { return sandbox.Resolve(program, root, os.Environ()) },
		Admit: func(_ context.Context, argv []string, program string) error {
			need := policy.Need{Act: policy.Exec, Argv: argv, Resolved: program}
			if v := policy.Default().Layer("app").AllowExec("go version").Check(need); v.Effect != policy.Allow {
				return v.Refusal(need)
			}
			return nil
		},
		Run: func(ctx context.Context, cmd sandbox.Cmd) (*sandbox.Result, error) {
			return sandbox.Run(ctx, cmd, sandbox.Profile{Workspace: root, Mode: sandbox.FullAccess})
		},
	}
	ctx := context.Background()
	for _, c := range []verify.Criterion{verify.Command("go", "version"), verify.Command("git", "push")} {
		ready, err := verify.Prepare(ctx, c, env)
		if err != nil {
			fmt.Println(err)
			continue
		}
		verdict, err := verify.Evaluate(ctx, ready, env)
		fmt.Println(verdict.Passed, verdict.Detail, errors.Is(err, policy.ErrRefused))
	}
	// Output:
	// true exit status 0 false
	// false  true
}

func ExampleContains() {
	root, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	c := verify.Contains("CHANGELOG.md", "## 2.0")
	for _, text := range []string{"## 1.9\n", "## 2.0\n"} {
		if err := os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte(text), 0o644); err != nil {
			fmt.Println(err)
			return
		}
		verdict, err := verify.Evaluate(context.Background(), c, verify.Env{Root: root})
		fmt.Println(verdict.Passed, verdict.Detail, err)
	}
	// Output:
	// false CHANGELOG.md does not contain the text <nil>
	// true  <nil>
}

func ExampleProtect() {
	c := verify.Protect(verify.Command("go", "test", "./..."), "*_test.go", "go.mod", "go.sum")
	fmt.Println(verify.ProtectedGlobs(c))
	fmt.Println(c.Describe())
	// Output:
	// [*_test.go go.mod go.sum]
	// This command, run in the workspace root without a shell, must exit with status 0: go test ./...
	// Files that match any of these must stay exactly as they were, and none may be added: *_test.go, go.mod, go.sum
}

func ExampleReview() {
	judge := scripted.New(scripted.Say(`{"passed": false, "reasons": ["the error is dropped in open.go"]}`))
	c := verify.Review("Every error is handled or returned.", verify.Model(judge, "judge-model"))
	if err := verify.Preflight(c, verify.Env{}, []string{"writer-model"}); err != nil {
		fmt.Println(err)
		return
	}
	verdict, err := verify.Evaluate(context.Background(), c, verify.Env{
		Goal: "Make Open report a missing file.",
		Changes: func(context.Context) ([]verify.FileChange, error) {
			return []verify.FileChange{{Path: "open.go", Before: "old", After: "new"}}, nil
		},
	})
	fmt.Println(verdict.Passed, verdict.Detail, err)
	fmt.Println(verify.Preflight(c, verify.Env{}, []string{"judge-model"}))
	// Output:
	// false the error is dropped in open.go <nil>
	// verify: model "judge-model" would review its own work: name another reviewer, or allow it with AllowSelfReview
}

func ExampleSchemaOf() {
	type Finding struct {
		File     string `json:"file"`
		Line     uint   `json:"line"`
		Severity string `json:"severity" schema:"enum=low|high"`
	}
	type Report struct {
		Findings []Finding `json:"findings" schema:"maxItems=20"`
		Summary  *string   `json:"summary"`
	}
	schema, err := verify.SchemaOf[Report]()
	if err != nil {
		fmt.Println(err)
		return
	}
	answer := "Here is what I found:\n```json\n" +
		`{"findings": [{"file": "a.go", "line": 12, "severity": "grave"}]}` + "\n```"
	if _, fail := schema.Check(answer); fail != nil {
		for _, v := range fail.Violations {
			fmt.Println(v)
		}
	}
	output, fail := schema.Check(`{"findings": [{"file": "a.go", "line": 12, "severity": "high"}], "summary": null}`)
	if fail != nil {
		fmt.Println(fail)
		return
	}
	report, err := verify.Decode[Report](output)
	fmt.Println(report.Findings[0].File, report.Findings[0].Line, report.Summary == nil, err)
	// Output:
	// /findings/0/severity: found the string "grave", want one of "low", "high"
	// a.go 12 true <nil>
}

func ExampleParseSchema() {
	_, err := verify.ParseSchema([]byte(`{"type": "object", "properties": {"id": {"pattern": "^[a-z]+$"}}}`))
	var invalid *verify.InvalidSchemaError
	if errors.As(err, &invalid) {
		fmt.Println(invalid.Keyword, invalid.Pointer)
	}
	// Output:
	// pattern /properties/id/pattern
}

func ExampleSchema_Strict() {
	schema, err := verify.ParseSchema(json.RawMessage(`{
		"title": "Rating",
		"type": "object",
		"properties": {"stars": {"type": "integer", "minimum": 1, "maximum": 5}, "words": {"type": ["string", "null"]}},
		"required": ["stars"],
		"additionalProperties": false
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	doc, ok := schema.Strict()
	fmt.Println(ok, string(doc))
	// Output:
	// true {"type":"object","properties":{"stars":{"type":"integer","minimum":1,"maximum":5},"words":{"type":["string","null"]}},"additionalProperties":false,"required":["stars","words"]}
}
