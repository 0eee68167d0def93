package loop

import (
	"context"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// What a person approved, said and answered during a run stands in every later
// request word for word and once, whatever was folded meanwhile and whoever drives
// the run. It is nothing for the summariser to rewrite.
func TestWhatPeopleDecidedSurvivesFoldsAndAnotherProcess(t *testing.T) {
	const (
		planned  = "move the parser before the lexer"
		steered  = "never touch the folder billing"
		answered = "use port 7171"
	)
	f := newFixture(t)
	f.host.PlanGate = approve.AcceptPlans
	f.host.Responder = approve.Always(answered)
	f.host.Inbox = &said1{at: 3, text: steered}
	turns := []scripted.Turn{plan(planned), readCall(f.page(40)), ask("which port?")}
	m := f.folds(append(append(turns, f.pages(9)...), scripted.Say("never asked"))...)
	short := func(c *task.Contract) { small(c); c.Budget.Steps = len(turns) + 9 }
	res := f.must(trace.StepCapReached, short)
	folds := len(f.foldRows(res.RunID))
	if folds < 2 {
		t.Fatalf("%d folds", folds)
	}
	check := func(m *folding, from int) {
		t.Helper()
		for i, r := range m.Requests()[from:] {
			for _, words := range []string{planned, steered, answered} {
				if n := strings.Count(r.User, words); n != 1 {
					t.Errorf("request %d has %q %d times:\n%s", from+i+1, words, n, r.User)
				}
			}
			if at := strings.Index(r.User, "SUMMARY-"); at >= 0 {
				end := at + strings.IndexByte(r.User[at:], '\n')
				for _, words := range []string{planned, steered, answered} {
					if strings.Contains(r.User[at:end], words) {
						t.Errorf("request %d shows %q as the model's own notes", from+i+1, words)
					}
				}
			}
		}
		for _, a := range m.asks {
			for _, words := range []string{planned, steered, answered} {
				if strings.Contains(a.User, words) {
					t.Errorf("the summariser was given %q to rewrite", words)
				}
			}
		}
	}
	check(m, len(turns)+1)
	f.host.Inbox = nil
	again := f.folds(append([]scripted.Turn{readCall(f.page(41)), readCall(f.page(42)), readCall(f.page(43)), readCall(f.page(44))}, scripted.Say("done"))...)
	c := f.contract(small)
	end, err := f.resume(res.RunID, Resumption{Contract: &c})
	if err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	check(again, 0)
	if now := len(f.foldRows(res.RunID)); now <= folds {
		t.Errorf("%d folds before and %d behind the resume", folds, now)
	}
	if rep, err := f.store.Check(context.Background()); err != nil || !rep.Sound() {
		t.Errorf("check: %+v, %v", rep, err)
	}
}
