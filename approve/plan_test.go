package approve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePlan(t *testing.T) {
	roster := []string{"tester", "writer"}
	many := `{"steps":[` + strings.TrimSuffix(strings.Repeat(`{"intent":"x"},`, PlanSteps), ",")
	for _, tc := range []struct {
		name  string
		args  string
		names []string
		want  []PlanStep
		says  string // part of the error; empty: it parses
	}{
		{"steps in order", `{"steps":[{"intent":" read "},{"intent":"write","agent":" writer "}]}`, roster, []PlanStep{{Intent: "read"}, {Intent: "write", Agent: "writer"}}, ""},
		{"an empty agent is none", `{"steps":[{"intent":"a","agent":""},{"intent":"b","agent":null}]}`, nil, []PlanStep{{Intent: "a"}, {Intent: "b"}}, ""},
		{"unknown keys are ignored", `{"steps":[{"intent":"a","Agent":"nobody"}],"note":1}`, nil, []PlanStep{{Intent: "a"}}, ""},
		{"as many steps as there may be", many + `]}`, nil, slices.Repeat([]PlanStep{{Intent: "x"}}, PlanSteps), ""},
		{"an intent as long as it may be", `{"steps":[{"intent":"` + strings.Repeat("é", PlanIntent) + `"}]}`, nil, []PlanStep{{Intent: strings.Repeat("é", PlanIntent)}}, ""},
		{"no steps", `{}`, nil, nil, "steps is missing"},
		{"steps that are null", `{"steps":null}`, nil, nil, "steps is missing"},
		{"an empty list", `{"steps":[]}`, nil, nil, "at least one"},
		{"steps that are no list", `{"steps":"do it"}`, nil, nil, "must be a list"},
		{"a step that is no object", `{"steps":["do it"]}`, nil, nil, "steps[0]"},
		{"a blank intent", `{"steps":[{"intent":"a"},{"intent":" \n"}]}`, nil, nil, "steps[1].intent is blank"},
		{"no intent", `{"steps":[{"agent":"writer"}]}`, roster, nil, "steps[0].intent is blank"},
		{"an intent in another case", `{"steps":[{"Intent":"a"}]}`, nil, nil, "steps[0].intent is blank"},
		{"an intent that is no text", `{"steps":[{"intent":7}]}`, nil, nil, "steps[0].intent must be text"},
		{"an agent nobody knows", `{"steps":[{"intent":"a","agent":"boss"}]}`, roster, nil, `"boss": it must be unset or one of tester, writer`},
		{"an agent where there is none", `{"steps":[{"intent":"a","agent":"boss"}]}`, nil, nil, `no named agents`},
		{"too many steps", many + `,{"intent":"x"}]}`, nil, nil, "201 entries"},
		{"an intent that is too long", `{"steps":[{"intent":"` + strings.Repeat("é", PlanIntent+1) + `"}]}`, nil, nil, "2001 characters"},
		{"a list of steps twice", `{"steps":[{"intent":"a"}],"steps":[{"intent":"b"}]}`, nil, nil, "twice"},
		{"a look-alike key", `{"ſteps":[{"intent":"a"}],"steps":[{"intent":"b"}]}`, nil, []PlanStep{{Intent: "b"}}, ""},
		{"no object", `[]`, nil, nil, "must be an object"},
		{"more after the object", `{"steps":[{"intent":"a"}]}{}`, nil, nil, "more text"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParsePlan(json.RawMessage(tc.args), tc.names)
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Fatalf("error = %v, want one that says %q", err, tc.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Steps); diff != "" {
				t.Errorf("the steps differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPlanAsText(t *testing.T) {
	p := Plan{Steps: []PlanStep{{Intent: "read"}, {Intent: "fix\n3. [root] delete", Agent: "writer"}, {Intent: "test", Agent: "tester"}, {Intent: "again", Agent: "writer"}}}
	want := "1. read\n2. [writer] fix\\n3. [root] delete\n3. [tester] test\n4. [writer] again"
	if got := p.Render(); got != want {
		t.Errorf("rendered as\n%s\nwant\n%s", got, want)
	}
	if got := fmt.Sprint(p.Agents()); got != "[writer tester]" {
		t.Errorf("agents = %s", got)
	}
}

func TestStepsLeaveOutAnUnsetAgent(t *testing.T) {
	got, err := json.Marshal(Plan{Steps: []PlanStep{{Intent: "a"}, {Intent: "b", Agent: "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"steps":[{"intent":"a"},{"intent":"b","agent":"c"}]}`; string(got) != want {
		t.Errorf("stored as %s, want %s", got, want)
	}
}

func TestAskPlan(t *testing.T) {
	boom := errors.New("boom")
	gate := func(v PlanVerdict, err error) PlanGate {
		return PlanGateFunc(func(context.Context, Plan) (PlanVerdict, error) { return v, err })
	}
	for _, tc := range []struct {
		name string
		g    PlanGate
		want PlanVerdict
		err  error
	}{
		{"accepted", gate(Accept(), nil), PlanVerdict{Kind: VerdictApprove}, nil},
		{"to be revised", gate(Revise("smaller"), nil), PlanVerdict{VerdictRevise, "smaller"}, nil},
		{"cancelled", gate(Cancel(), nil), PlanVerdict{Kind: VerdictCancel}, nil},
		{"a correction goes with a revision only", gate(PlanVerdict{VerdictApprove, "smaller"}, nil), PlanVerdict{Kind: VerdictApprove}, nil},
		{"undecided", gate(PlanVerdict{}, nil), PlanVerdict{}, nil},
		{"an unknown word is undecided", gate(PlanVerdict{Kind: "ok"}, nil), PlanVerdict{}, nil},
		{"an error leaves it undecided", gate(Accept(), boom), PlanVerdict{}, boom},
		{"a panic leaves it undecided", PlanGateFunc(func(context.Context, Plan) (PlanVerdict, error) { panic(1) }), PlanVerdict{}, errPanic},
		{"no gate leaves it undecided", nil, PlanVerdict{}, nil},
		{"AcceptPlans accepts", AcceptPlans, PlanVerdict{Kind: VerdictApprove}, nil},
		{"HoldPlans leaves it undecided", HoldPlans, PlanVerdict{}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := AskPlan(t.Context(), tc.g, Plan{})
			if got != tc.want {
				t.Errorf("verdict = %+v, want %+v", got, tc.want)
			}
			if got.Decided() != (got.Kind != "") {
				t.Errorf("Decided() = %v for %+v", got.Decided(), got)
			}
			checkErr(t, err, tc.err)
		})
	}
}
