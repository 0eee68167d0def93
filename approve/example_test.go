package approve_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

// An approver that lets the test suite run, remembers that it did, and leaves the
// rest to a person.
func ExampleApproverFunc() {
	a := approve.ApproverFunc(func(_ context.Context, req approve.Request) (approve.Decision, error) {
		if req.Target != "go test ./..." {
			return approve.Defer(), nil
		}
		if rule, ok := policy.RuleFor(policy.Need{Act: req.Act, Target: req.Target, Argv: req.Argv}, policy.Allow); ok {
			return approve.Approve(rule), nil
		}
		return approve.Approve(), nil
	})
	for _, argv := range [][]string{{"go", "test", "./..."}, {"git", "push"}} {
		d, err := approve.Ask(context.Background(), a, approve.Request{Act: policy.Exec, Target: strings.Join(argv, " "), Argv: argv})
		fmt.Println(d.Kind, d.Remember, err)
	}
	// Output:
	// approve [{exec allow go test ./...}] <nil>
	// defer [] <nil>
}

func ExampleStdin() {
	var screen bytes.Buffer
	person := approve.Stdin(strings.NewReader("y\nuse the build directory\n"), &screen)
	for _, target := range []string{"src/main.go", "/tmp/out"} {
		d, _ := person.Decide(context.Background(), approve.Request{Act: policy.Write, Target: target})
		fmt.Printf("%s %q\n", d.Kind, d.Reason)
	}
	// Output:
	// approve ""
	// deny "not approved by the person at the terminal, who wrote: use the build directory"
}

func ExampleModel() {
	judge := scripted.New(scripted.Say(`{"decision":"deny","reason":"the goal needs no push"}`))
	d, _ := approve.Model(judge, "small-judge").Decide(context.Background(), approve.Request{
		Goal: "fix the failing test", Act: policy.Exec, Target: "git push", Argv: []string{"git", "push"},
	})
	fmt.Println(d.Kind, d.Reason, d.Spent[0].Usage.TotalTokens)
	// Output: deny the goal needs no push 120
}

func ExamplePlanGateFunc() {
	gate := approve.PlanGateFunc(func(_ context.Context, p approve.Plan) (approve.PlanVerdict, error) {
		if len(p.Steps) > 2 {
			return approve.Revise("at most two steps"), nil
		}
		return approve.Accept(), nil
	})
	v, _ := approve.AskPlan(context.Background(), gate, approve.Plan{Steps: make([]approve.PlanStep, 3)})
	fmt.Println(v.Kind, v.Correction)
	// Output: revise at most two steps
}

func ExampleQuestion_AnswerOf() {
	q := approve.Question{
		Text:     "Which formats?",
		Choices:  []approve.Choice{{Label: "csv"}, {Label: "json"}, {Label: "xml"}},
		Multiple: true,
	}
	fmt.Println(q.Render())
	fmt.Println(q.AnswerOf("xml", "csv"))
	// Output:
	// Which formats?
	//   1) csv
	//   2) json
	//   3) xml
	//   (more than one may be taken)
	// csv; xml
}

func ExampleAlways() {
	replies, _ := approve.AskQuestions(context.Background(), approve.Always("port 7171"), []approve.Question{{Text: "Which port?"}})
	fmt.Println(replies[0].Text, replies[0].Answered)
	// Output: port 7171 true
}
