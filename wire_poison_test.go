package harness_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// One call that no vendor would take back does not spoil the conversation: the
// model is told once what was wrong, and every later request, also from a resume,
// passes the vendor's own checks, which the vendor of these tests makes.
func TestABrokenCallPoisonsNoLaterRequest(t *testing.T) {
	const empty = "" // no arguments at all are an object without members
	for name, bad := range map[string]testkit.VendorCall{
		"no arguments":          {ID: "call00009", Name: "list_dir", Args: empty},
		"a blank":               {ID: "call00009", Name: "list_dir", Args: " "},
		"cut off":               {ID: "call00009", Name: "read_file", Args: `{"a":1`},
		"an array":              {ID: "call00009", Name: "read_file", Args: `[1]`},
		"null":                  {ID: "call00009", Name: "read_file", Args: `null`},
		"a text":                {ID: "call00009", Name: "read_file", Args: `"x"`},
		"megabytes of brackets": {ID: "call00009", Name: "read_file", Args: strings.Repeat("[", 1<<20)},
		"an unlawful name":      {ID: "call00009", Name: "read file!" + strings.Repeat("n", 200), Args: `{}`},
		"an id that is there":   {ID: "call00001", Name: "read_file", Args: `{"path":"b.txt"}`},
	} {
		t.Run(name, func(t *testing.T) {
			eachWire(t, func(t *testing.T, w wire) {
				f := wireTo(t, w,
					w.call(vread("call00001", "a.txt"), bad),
					w.call(vread("call00001", "a.txt")), w.call(vread("call00002", "b.txt")), w.call(vread("call00003", "a.txt")))
				f.write("a.txt", "alpha\n")
				f.write("b.txt", "beta\n")
				res, err := f.run(func(c *task.Contract) { c.Budget.Steps = 4; c.Stall = task.Stall{Window: -1} })
				f.expect(res, err, trace.StepCapReached, 4)
				f.more(w.say("done"))
				c := f.contract()
				c.Budget.Steps = 9
				res, err = f.h.Resume(t.Context(), res.RunID, harness.WithContract(c))
				f.expect(res, err, trace.Finished, 5)
				for i, a := range f.vendor.Asked() {
					if i > 0 && len(a.Body) > 400_000 {
						t.Errorf("request %d has %d bytes", i, len(a.Body))
					}
				}
				steps, err := store.Collect(f.store.Steps(t.Context(), res.RunID))
				if err != nil || len(steps) != 5 {
					t.Fatalf("%d steps, %v", len(steps), err)
				}
				if name == "no arguments" || name == "a blank" {
					if !strings.Contains(steps[0].Result, "b.txt") {
						t.Errorf("a call that needs no arguments was not made:\n%.500s", steps[0].Result)
					}
					return
				}
				if name == "an id that is there" {
					if !strings.Contains(steps[0].Result, "alpha") || !strings.Contains(steps[0].Result, "beta") {
						t.Errorf("two calls of one id were not both made:\n%.500s", steps[0].Result)
					}
					return
				}
				if !strings.Contains(steps[0].Result, "error") && !strings.Contains(steps[0].Result, "unknown tool") {
					t.Errorf("the model is not told:\n%.500s", steps[0].Result)
				}
				for _, s := range steps[1:] {
					if strings.Contains(s.Result, "error") {
						t.Errorf("the model is told again in step %d:\n%.500s", s.Step, s.Result)
					}
				}
			})
		})
	}
}

// A completion of which one call waited for a person and one was never made, and
// one that its caller cut off, leave a history that every vendor takes.
func TestAHistoryWithCallsThatWereNotMadeIsTaken(t *testing.T) {
	eachWire(t, func(t *testing.T, w wire) {
		f := wireTo(t, w, w.call(vread("call00001", "a.txt"), vwrite("call00002", "b.txt", "x\n"), vread("call00003", "a.txt")))
		f.write("a.txt", "alpha\n")
		cfg := f.config()
		cfg.Policy = policy.Default().Layer("app").AllowRead("*").AskWrite("*")
		cfg.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Defer(), nil })
		f.h = newHarness(t, cfg)
		res, err := f.run()
		f.expect(res, err, trace.AwaitingApproval, 1)

		// The next completion is cut off by the caller, and the one behind it ends well.
		f.more(w.call(vread("call00001", "a.txt")), w.say("never heard"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f.onAsk = func(n int) {
			if n == 2 {
				cancel()
			}
		}
		yes := harness.Decide(res.Outcome.RequestID, approve.Approve())
		if _, err := f.h.Resume(ctx, res.RunID, yes); !errors.Is(err, context.Canceled) {
			t.Fatalf("the resume that is cut off: %v", err)
		}
		f.onAsk = nil
		f.more(w.say("done"))
		res, err = f.h.Resume(t.Context(), res.RunID)
		f.expect(res, err, trace.Finished, 3)
		last := f.vendor.Asked()[len(f.vendor.Asked())-1].Body
		if !strings.Contains(last, "not executed") {
			t.Errorf("the call behind the pause has no result that says so:\n%.2000s", last)
		}
	})
}
