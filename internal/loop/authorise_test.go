//go:build unix

package loop

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// askedOf is an approver that counts how often it was asked.
func askedOf(n *int, d approve.Decision) approve.Approver {
	return approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		*n++
		return d, nil
	})
}

func TestTheHostOfAProviderIsOnRecord(t *testing.T) {
	const url, target = "https://api.example.com/v1", "api.example.com:443"
	closed := policy.Default().WithDefaults(policy.Defaults{Read: policy.Allow, Write: policy.Allow, Exec: policy.Allow, Net: policy.Deny})
	for _, tc := range []struct {
		name     string
		pol      policy.Policy
		decision approve.Decision
		want     trace.OutcomeKind
		asked    int
		row      string
	}{
		{"under a policy that denies every host", closed, approve.Approve(), trace.Finished, 0, `0 decision ` + target + ` by "` + target + `" in "provider": allow`},
		{"a deny", closed.Layer("team").DenyNet("api.example.com"), approve.Approve(), trace.Refused, 0, `0 refusal ` + target + ` by "api.example.com" in "team": deny`},
		{"an ask that is approved", closed.Layer("team").AskNet("*"), approve.Approve(), trace.Finished, 1, `0 decision ` + target + ` by "*" in "team": approve`},
		{"an ask that is denied", closed.Layer("team").AskNet("*"), approve.Deny("no"), trace.Refused, 1, `0 decision ` + target + ` by "*" in "team": deny`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := scripted.New(scripted.Say("hello"))
			f.model(hosted{m, []string{url}})
			asked := 0
			f.host.Policy, f.host.Approver = tc.pol, askedOf(&asked, tc.decision)
			res, err := f.run()
			if res.Outcome.Kind != tc.want || (err != nil) != (tc.want == trace.Refused) {
				t.Fatalf("%s, %v", res.Outcome, err)
			}
			same(t, "rows", f.netRows(res.RunID), []string{tc.row})
			if n := len(m.Requests()); (n == 1) != (tc.want == trace.Finished) || n > 1 {
				t.Errorf("%d completions", n)
			}
			again, err := f.resume(res.RunID, Resumption{})
			if err != nil || again.Outcome.Kind != tc.want || asked != tc.asked || len(m.Requests()) > 1 {
				t.Errorf("resumed: %s, %v; asked %d times, want %d", again.Outcome, err, asked, tc.asked)
			}
		})
	}
}

func TestAHostThatAResumeMayNotDialTakesNoStepAway(t *testing.T) {
	for name, tc := range map[string]struct {
		pol  policy.Policy
		want trace.OutcomeKind
	}{
		"refused": {open.DenyNet("api.example.com"), trace.Refused},
		"asked":   {open.AskNet("*"), trace.AwaitingApproval},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, readCall("a"), readCall("b"))
			res := f.must(trace.StepCapReached, withSteps(2))
			f.model(hosted{scripted.New(), []string{"https://api.example.com/v1"}})
			f.host.Approver = deferring
			c := f.contract(withSteps(9))
			end, err := f.resume(res.RunID, Resumption{Policy: &tc.pol, Contract: &c})
			if (err != nil) != (tc.want == trace.Refused) || end.Outcome.Kind != tc.want || end.Outcome.Steps != 2 {
				t.Errorf("%s after %d steps, %v", end.Outcome, end.Outcome.Steps, err)
			}
			if got := f.info(res.RunID).Outcome.Steps; got != 2 {
				t.Errorf("%d steps are recorded with the outcome", got)
			}
		})
	}
}

// A dial that waits for a person waits in the store: another process of the harness
// takes it up.
func TestADialThatWaitsIsTakenUpFromTheStore(t *testing.T) {
	f := newFixture(t)
	file := filepath.Join(t.TempDir(), "runs.db")
	reopen := func() {
		st, err := store.Open(context.Background(), file)
		if err != nil {
			t.Fatal(err)
		}
		f.store, f.host.Store = st, st
	}
	reopen()
	m := scripted.New(scripted.Say("hello"))
	f.model(hosted{m, []string{"https://api.example.com/v1"}})
	asked := 0
	f.host.Policy, f.host.Approver = open.AskNet("*"), askedOf(&asked, approve.Decision{})
	res := f.must(trace.AwaitingApproval)
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	reopen()
	t.Cleanup(func() { _ = f.store.Close() })
	end, err := f.resume(res.RunID, Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()}})
	if err != nil || end.Outcome.Kind != trace.Finished || asked != 1 || len(m.Requests()) != 1 {
		t.Errorf("%v, %v; asked %d times, %d completions", end, err, asked, len(m.Requests()))
	}
}
