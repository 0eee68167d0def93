package loop

import (
	"context"
	"errors"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// writer is a registered tool that needs its own name and a file.
type writer struct{ calls int }

func (w *writer) Spec() tool.Spec { return tool.Spec{Name: "note", Description: "Writes a note down."} }

func (w *writer) Needs(tool.Call) ([]policy.Need, error) {
	return []policy.Need{{Act: policy.Exec, Target: "note"}, {Act: policy.Write, Target: "a.txt"}}, nil
}

func (w *writer) Call(context.Context, tool.Call) (tool.Result, error) {
	w.calls++
	return tool.Result{Text: "noted"}, nil
}

// A call that was approved is asked about once more when the policy of the resume
// wants it, and is made once, wherever the process dies in between.
func TestACallThatIsAskedAboutOnceMoreIsMadeOnceAcrossACrash(t *testing.T) {
	base := policy.Default().Layer("test").AllowRead("*").AskExec("note")
	deferring := func(context.Context, approve.Request) (approve.Decision, error) { return approve.Defer(), nil }
	for _, tc := range []struct {
		name    string
		between func(f *fixture, id trace.RunID, second trace.RequestID) // between the death and the next resume
		die     string                                                   // empty: while the approver is asked
		asked   int                                                      // how often the approver of the last resume is
		calls   int
	}{
		{"nobody has decided", func(*fixture, trace.RunID, trace.RequestID) {}, "", 1, 1},
		{"somebody said yes", func(f *fixture, _ trace.RunID, second trace.RequestID) {
			if won, err := DecideFrom(context.Background(), f.store, Decision{ID: second, Decision: approve.Approve()}, "attached"); err != nil || !won {
				f.t.Fatal(won, err)
			}
		}, "", 0, 1},
		{"somebody said no", func(f *fixture, _ trace.RunID, second trace.RequestID) {
			if won, err := DecideFrom(context.Background(), f.store, Decision{ID: second, Decision: approve.Deny("no")}, "attached"); err != nil || !won {
				f.t.Fatal(won, err)
			}
		}, "", 0, 0},
		{"died before the pause was written", func(*fixture, trace.RunID, trace.RequestID) {}, "set outcome", 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, m := newMortal(t)
			w := &writer{}
			f.host.Policy = base.AllowWrite("a.txt")
			f.host.Approver = approve.ApproverFunc(deferring)
			f.script(scripted.Call("note", nil))
			res := f.must(trace.AwaitingApproval, withTools(w))
			more := base.AskWrite("a.txt")
			r := Resumption{
				Policy: &more, Defaults: task.Contract{Tools: tool.Toolbox{w}},
				Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()},
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if tc.die == "" {
				f.host.Approver = approve.ApproverFunc(func(ctx context.Context, _ approve.Request) (approve.Decision, error) {
					cancel()
					<-ctx.Done()
					return approve.Defer(), ctx.Err()
				})
			} else {
				m.dieAt(tc.die, 0)
			}
			if _, err := Resume(ctx, f.host, res.RunID, r); !errors.Is(err, context.Canceled) && !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			rows := f.requests(res.RunID)
			if len(rows) != 2 || rows[0].Verdict != store.Approve || w.calls != 0 {
				t.Fatalf("%+v, called %d times", rows, w.calls)
			}
			tc.between(f, res.RunID, rows[1].ID)
			asked := 0
			f.host.Approver = approve.ApproverFunc(func(_ context.Context, req approve.Request) (approve.Decision, error) {
				if asked++; req.ID != rows[1].ID {
					t.Errorf("request %d is put, and %d was open", req.ID, rows[1].ID)
				}
				return approve.Approve(), nil
			})
			r.Decision = nil
			s := f.script(scripted.Say("done"))
			end, err := f.resume(res.RunID, r)
			if err != nil || end.Outcome.Kind != trace.Finished {
				t.Fatalf("%+v, %v", end, err)
			}
			if asked != tc.asked || w.calls != tc.calls {
				t.Errorf("asked %d times, called %d times", asked, w.calls)
			}
			if got, ok := scripted.LastResult(s.Requests()[0], "note"); !ok {
				t.Errorf("the call has no result: %q", got)
			}
			performed := 0
			for _, p := range f.requests(res.RunID) {
				if p.Verdict == store.Undecided {
					t.Errorf("open: %+v", p)
				}
				if !p.PerformedAt.IsZero() {
					performed++
				}
			}
			if performed < tc.calls || tc.calls == 0 && performed > 0 {
				t.Errorf("%d requests read as carried out, and %d calls were made", performed, w.calls)
			}
		})
	}
}
