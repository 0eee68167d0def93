package loop

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// sqlOf runs a script on the file of the fixture's store, behind its back.
func (f *fixture) sqlOf(script string) {
	f.t.Helper()
	db, err := sql.Open("sqlite", testkit.DSN(f.store.Path()))
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(script); err != nil {
		f.t.Fatalf("%s: %v", script, err)
	}
}

// A stored value that is JSON and not what was written there is named, with its
// run; nobody is asked anything on the strength of it, and the run is left free.
func TestAStoredValueOfAnotherShapeIsNamedAndNothingIsDriven(t *testing.T) {
	approved := func(f *fixture) (trace.RunID, Resumption) {
		f.script(write("a.txt", "x"))
		f.host.Policy, f.host.Approver = asking, deferring
		res := f.must(trace.AwaitingApproval)
		return res.RunID, approving(res, approve.Approve())
	}
	stopped := func(f *fixture) (trace.RunID, Resumption) {
		f.script(readCall("a"))
		return f.must(trace.StepCapReached, withSteps(1)).RunID, Resumption{}
	}
	for _, tc := range []struct {
		name, script string
		park         func(f *fixture) (trace.RunID, Resumption)
		reason       store.ResumeReason // empty: a damaged row
	}{
		{"a policy", `UPDATE drives SET policy = '7'`, stopped, store.UnreadablePolicy},
		{"a contract", `UPDATE drives SET contract = '7'`, stopped, store.UnreadableContract},
		{"half a contract", `UPDATE drives SET contract = '{"budget":'`, stopped, store.UnreadableContract},
		{"the rules that came with a yes", `UPDATE pending_approvals SET resolved = 'approve', resolved_at = 1, remember = '7'`, func(f *fixture) (trace.RunID, Resumption) {
			id, _ := approved(f)
			return id, Resumption{}
		}, ""},
		{"the change that came with a yes", `UPDATE pending_approvals SET resolved = 'approve', resolved_at = 1, modified = '7'`, func(f *fixture) (trace.RunID, Resumption) {
			id, _ := approved(f)
			return id, Resumption{}
		}, ""},
		{"half a call that was asked about", `UPDATE pending_approvals SET arguments = '{"path":'`, approved, ""},
		{"a plan", `UPDATE plans SET steps = '7'`, func(f *fixture) (trace.RunID, Resumption) {
			f.script(plan("do it"))
			f.host.PlanGate = approve.HoldPlans
			res := f.must(trace.AwaitingPlan)
			return res.RunID, Resumption{Verdict: &Verdict{ID: res.Outcome.PlanID, Verdict: approve.Accept()}}
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			id, r := tc.park(f)
			f.sqlOf(tc.script)
			m := f.script(scripted.Say("never"))
			_, err := f.resume(id, r)
			var re *store.ResumeError
			var se *store.Error
			switch {
			case tc.reason != "":
				if !errors.As(err, &re) || re.Reason != tc.reason || re.RunID != id {
					t.Errorf("%v, want %s", err, tc.reason)
				}
			case !errors.As(err, &se) || se.Kind != store.KindCorrupt || !strings.Contains(err.Error(), "run "+id.String()):
				t.Errorf("%v, want a damaged row of run %d", err, id)
			}
			if len(m.Requests()) != 0 || f.read("a.txt") != "" {
				t.Errorf("%d requests, a.txt %q", len(m.Requests()), f.read("a.txt"))
			}
			if l, err := f.store.LeaseOf(context.Background(), id); err != nil || l != nil {
				t.Errorf("the run stays held: %+v, %v", l, err)
			}
		})
	}
}

// One change of which nobody knows any more what it did keeps its own file from
// being taken back, and no other.
func TestAnUnreadableChangeKeepsNoOtherFromBeingTakenBack(t *testing.T) {
	f := newFixture(t, edit("a.txt", "old", "new"), edit("b.txt", "old", "new"), scripted.Say("done"))
	f.write("a.txt", "old\n")
	f.write("b.txt", "old\n")
	res := f.must(trace.Finished)
	f.sqlOf(`UPDATE edits SET facts = '{"half":' WHERE path = 'b.txt'`)
	r := f.rewind(res.RunID, Undo{From: 1})
	if diff := cmp.Diff(map[string]trace.Undone{"a.txt": trace.Applied, "b.txt": trace.UndoFailed}, verdicts(r)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if f.read("a.txt") != "old\n" || f.read("b.txt") != "new\n" || r.Clean() {
		t.Errorf("a.txt %q, b.txt %q", f.read("a.txt"), f.read("b.txt"))
	}
	for _, i := range r.Files {
		if i.Name == "b.txt" && !strings.Contains(i.Detail, "step 2") {
			t.Errorf("why: %q", i.Detail)
		}
	}
}
