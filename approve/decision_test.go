package approve

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/policy"
)

func answering(d Decision, err error) Approver {
	return ApproverFunc(func(context.Context, Request) (Decision, error) { return d, err })
}

func TestNothingButAnApprovalApproves(t *testing.T) {
	boom := errors.New("boom")
	rules := []policy.Rule{{Act: policy.Write, Effect: policy.Allow, Pattern: "a"}}
	changed := &Modified{Target: "b"}
	for _, tc := range []struct {
		name string
		a    Approver
		want Decision
		err  error // matched by errors.Is; errPanic stands for any PanicError
	}{
		{"an approval", answering(Approve(rules...), nil), Decision{Kind: DecisionApprove, Remember: rules}, nil},
		{"an approval with a change", answering(Decision{Kind: DecisionApprove, Modified: changed}, nil), Decision{Kind: DecisionApprove, Modified: changed}, nil},
		{"a denial", answering(Deny("no"), nil), Decision{Kind: DecisionDeny, Reason: "no"}, nil},
		{"a denial without a reason gets one", answering(Deny(""), nil), Decision{Kind: DecisionDeny, Reason: "the approver gave no reason"}, nil},
		{"a denial remembers and changes nothing", answering(Decision{Kind: DecisionDeny, Reason: "no", Modified: changed, Remember: rules}, nil), Decision{Kind: DecisionDeny, Reason: "no"}, nil},
		{"a deferral", answering(Defer(), nil), Decision{Kind: DecisionDefer}, nil},
		{"the zero decision defers", answering(Decision{}, nil), Decision{Kind: DecisionDefer}, nil},
		{"the zero decision remembers nothing", answering(Decision{Remember: rules, Modified: changed}, nil), Decision{Kind: DecisionDefer}, nil},
		{"an unknown word defers", answering(Decision{Kind: "yes"}, nil), Decision{Kind: DecisionDefer}, nil},
		{"a word in another case defers", answering(Decision{Kind: "Approve"}, nil), Decision{Kind: DecisionDefer}, nil},
		{"an error defers even beside an approval", answering(Approve(rules...), boom), Decision{Kind: DecisionDefer}, boom},
		{"a panic defers", ApproverFunc(func(context.Context, Request) (Decision, error) { panic("at the disco") }), Decision{Kind: DecisionDefer}, errPanic},
		{"no approver denies", nil, Decision{Kind: DecisionDeny, Reason: "nobody is available to approve this: do without it, or use what the policy allows"}, nil},
		{"All approves unchanged", All, Decision{Kind: DecisionApprove}, nil},
		{"None denies with a reason", None, Decision{Kind: DecisionDeny, Reason: "nobody is available to approve this: do without it, or use what the policy allows"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Ask(t.Context(), tc.a, Request{Act: policy.Write, Target: "a"})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the decision differs (-want +got):\n%s", diff)
			}
			checkErr(t, err, tc.err)
		})
	}
}

// A rule that cannot hold could not be read back from the store either.
func TestAnApprovalWithARuleThatCanNeverHoldIsADeferral(t *testing.T) {
	for name, r := range map[string]policy.Rule{
		"no act": {Effect: policy.Allow, Pattern: "*"}, "no effect": {Act: policy.Write, Pattern: "*"},
		"a pattern that is no text": {Act: policy.Write, Effect: policy.Allow, Pattern: "\xff"},
	} {
		d := Approve(policy.Rule{Act: policy.Write, Effect: policy.Allow, Pattern: "a"}, r)
		d.Spent = []Spend{{Provider: "p"}}
		var bad *policy.InvalidError
		got, err := Ask(t.Context(), answering(d, nil), Request{Act: policy.Write, Target: "a"})
		if got.Kind != DecisionDefer || len(got.Remember) > 0 || len(got.Spent) != 1 || !errors.As(err, &bad) || bad.Rule.Pattern != r.Pattern {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

var errPanic = errors.New("any panic")

func checkErr(t *testing.T, got, want error) {
	t.Helper()
	if want == errPanic {
		var p *PanicError
		if !errors.As(got, &p) {
			t.Errorf("error = %v, want a PanicError", got)
		}
		return
	}
	if !errors.Is(got, want) || (want == nil) != (got == nil) {
		t.Errorf("error = %v, want %v", got, want)
	}
}

func TestOnlyReadsAndWritesCanBeChanged(t *testing.T) {
	text := func(s string) *string { return &s }
	for _, tc := range []struct {
		name string
		req  Request
		m    *Modified
		ok   bool
	}{
		{"no change", Request{Act: policy.Exec, Target: "rm -rf build"}, nil, true},
		{"another file to write", Request{Act: policy.Write, Target: "a"}, &Modified{Target: "b"}, true},
		{"another content to write", Request{Act: policy.Write, Target: "a", Content: "x"}, &Modified{Content: text("y")}, true},
		{"an empty content to write", Request{Act: policy.Write, Target: "a", Content: "x"}, &Modified{Content: text("")}, true},
		{"another file to read", Request{Act: policy.Read, Target: "a"}, &Modified{Target: "b"}, true},
		{"a content for a read", Request{Act: policy.Read, Target: "a"}, &Modified{Content: text("x")}, false},
		{"another command", Request{Act: policy.Exec, Target: "rm -rf build"}, &Modified{Target: "ls build"}, false},
		{"other arguments of a tool", Request{Act: policy.Exec, Target: "lookup", Content: `{"id":1}`}, &Modified{Content: text(`{"id":2}`)}, false},
		{"another host", Request{Act: policy.Net, Target: "a.com:443"}, &Modified{Target: "b.com:443"}, false},
		{"a content that could not be kept as it is", Request{Act: policy.Write, Target: "a", Content: "x"}, &Modified{Content: text("caf\xe9")}, false},
		{"a file whose name could not be kept as it is", Request{Act: policy.Read, Target: "a"}, &Modified{Target: "caf\xe9"}, false},
		{"the same command again", Request{Act: policy.Exec, Target: "ls"}, &Modified{Target: "ls"}, true},
		{"the same arguments again", Request{Act: policy.Exec, Target: "lookup", Content: `{"id":1}`}, &Modified{Content: text(`{"id":1}`)}, true},
		{"an empty change", Request{Act: policy.Net, Target: "a.com:443"}, &Modified{}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.req.CheckModified(tc.m)
			if (err == nil) != tc.ok {
				t.Fatalf("CheckModified(%+v) = %v, want ok %v", tc.m, err, tc.ok)
			}
			var rewrite *RewriteError
			if err != nil && (!errors.As(err, &rewrite) || rewrite.Asked != tc.req.Target || rewrite.Act != tc.req.Act) {
				t.Errorf("the error does not carry what was asked: %#v", err)
			}
		})
	}
}

func TestADecisionTravelsAsJSON(t *testing.T) {
	body := ""
	want := Decision{
		Kind: DecisionApprove, Modified: &Modified{Target: "b", Content: &body},
		Remember: []policy.Rule{{Act: policy.Exec, Effect: policy.Allow, Pattern: "go vet"}},
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Decision
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", data, diff)
	}
	if err := json.Unmarshal([]byte(`{"remember":[{"act":"tool","effect":"allow","pattern":"*"}]}`), &got); err == nil {
		t.Error("a remembered rule with an unknown act was read")
	}
}
