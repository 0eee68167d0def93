package loop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

func lasting(d time.Duration) func(*task.Contract) {
	return func(c *task.Contract) { c.Budget.Duration = d }
}

func TestNobodyIsWaitedForBeyondTheTimeOfTheRun(t *testing.T) {
	stuck := tool.New("probe", "Waits.", func(ctx context.Context, _ struct{}) (string, error) { <-ctx.Done(); return "", ctx.Err() })
	for _, tc := range []struct {
		name  string
		turn  scripted.Turn
		host  func(*Host)
		c     func(*task.Contract)
		steps int // that were committed before the wait
	}{
		{"an approver", write("a.txt", "x"), func(h *Host) {
			h.Policy = asking
			h.Approver = approve.ApproverFunc(func(ctx context.Context, _ approve.Request) (approve.Decision, error) {
				<-ctx.Done()
				return approve.Approve(), nil
			})
		}, nil, 0},
		{"a gate for plans", plan("do it"), func(h *Host) {
			h.PlanGate = approve.PlanGateFunc(func(ctx context.Context, _ approve.Plan) (approve.PlanVerdict, error) {
				<-ctx.Done()
				return approve.Accept(), nil
			})
		}, nil, 0},
		{"a reviewer", write("a.txt", "x"), nil, gate(verify.Review("r", verify.ReviewerFunc(func(ctx context.Context, _ verify.ReviewRequest) (verify.ReviewResult, error) {
			<-ctx.Done()
			return verify.ReviewResult{}, ctx.Err()
		}))), 1},
		{"the command of a gate", write("a.txt", "x"), nil, gate(verify.Command("sleep", "60")), 1},
		{"a tool of the program", scripted.Call("probe", nil), nil, withTools(stuck), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.turn, scripted.Say("never asked"))
			if tc.host != nil {
				tc.host(&f.host)
			}
			if tc.c == nil {
				tc.c = func(*task.Contract) {}
			}
			res := f.must(trace.TimeBudgetExceeded, tc.c, lasting(700*time.Millisecond))
			if res.Outcome.Steps != tc.steps || len(f.steps(res.RunID)) != tc.steps {
				t.Errorf("%s with %d rows, want %d steps", res.Outcome, len(f.steps(res.RunID)), tc.steps)
			}
			if f.read("a.txt") != "" && tc.steps == 0 {
				t.Error("an approval that came too late was used")
			}
		})
	}
}

func TestARequestThatTheDeadlineCutOffStaysOpenForALongerRun(t *testing.T) {
	f := newFixture(t, write("a.txt", "x"))
	f.host.Policy = asking
	f.host.Approver = approve.ApproverFunc(func(ctx context.Context, _ approve.Request) (approve.Decision, error) {
		<-ctx.Done()
		return approve.Approve(), nil
	})
	res := f.must(trace.TimeBudgetExceeded, lasting(700*time.Millisecond))
	rows, err := f.store.Approvals(context.Background(), res.RunID)
	if err != nil || len(rows) != 1 || rows[0].Verdict != store.Undecided {
		t.Fatalf("requests %+v, %v", rows, err)
	}
	asked := 0
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		asked++
		return approve.Approve(), nil
	})
	f.script(write("a.txt", "x"), scripted.Say("done"))
	c := f.contract()
	end, err := f.resume(res.RunID, Resumption{Contract: &c})
	if err != nil || end.Outcome.Kind != trace.Finished || f.read("a.txt") != "x" || asked != 1 {
		t.Errorf("%s, %v, a.txt %q, asked %d times", end.Outcome, err, f.read("a.txt"), asked)
	}
	rows, err = f.store.Approvals(context.Background(), res.RunID)
	if err != nil || len(rows) != 1 || rows[0].Verdict != store.Approve {
		t.Errorf("requests %+v, %v: the call that is made again takes up its row", rows, err)
	}
}

// A clock that was set back since the run began gives it no more time than it had.
func TestAClockThatWasSetBackGivesARunNoMoreTime(t *testing.T) {
	f := newFixture(t)
	f.host.Clock = func() time.Time { return time.Now().Add(-24 * time.Hour) }
	f.script(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5 * time.Second):
			return scripted.Say("done")(ctx, req)
		}
	})
	f.must(trace.TimeBudgetExceeded, func(c *task.Contract) { c.Budget.Duration = 50 * time.Millisecond })

	f = newFixture(t)
	f.host.Clock = func() time.Time { return time.Now().Add(-24 * time.Hour) }
	f.script(scripted.FailKind(provider.Server, "down"), scripted.Say("never asked"))
	res, err := f.run(func(c *task.Contract) {
		c.Budget.Duration = 20 * time.Second
		c.Retry = provider.RetryPolicy{Base: 30 * time.Second, Max: 30 * time.Second}
	})
	if err == nil || res.Outcome.Kind != trace.EscalatedRetryable {
		t.Errorf("a wait that outlasts the run: %s, %v", res.Outcome, err)
	}
}

func TestWhatACommandStartedEndsWithTheTimeOfTheRun(t *testing.T) {
	f := newFixture(t, command("sh", "-c", "(while :; do echo x >> beats; sleep 0.02; done) & wait"))
	f.must(trace.TimeBudgetExceeded, lasting(1500*time.Millisecond))
	was := len(f.read("beats"))
	if was == 0 {
		t.Skip("the command did not come to start anything")
	}
	time.Sleep(200 * time.Millisecond)
	if is := len(f.read("beats")); is != was {
		t.Errorf("what the command left behind goes on: %d bytes, then %d", was, is)
	}
}

func TestTheServersOwnWaitIsKeptAndIsNoStep(t *testing.T) {
	wait := 30 * time.Millisecond
	f := newFixture(t, scripted.Fail(&provider.Error{Kind: provider.RateLimited, Status: 429, RetryAfter: &wait}), scripted.Say("ok"))
	// The run's own wait would outlast its time and end it.
	res := f.must(trace.Finished, lasting(time.Minute), func(c *task.Contract) { c.Retry = provider.RetryPolicy{Base: time.Hour, Max: time.Hour} })
	if diff := cmp.Diff([]trace.Retry{{Failure: "RateLimited (HTTP 429)", Attempt: 1, DelayMS: 30}}, facts[trace.Retry](f.seen)); diff != "" {
		t.Errorf("retry (-want +got):\n%s", diff)
	}
	rows, err := store.Collect(f.store.StepAttempts(context.Background(), res.RunID))
	if err != nil || len(rows) != 1 || rows[0].Step != 1 || rows[0].Delay != wait {
		t.Errorf("attempts %+v, %v", rows, err)
	}
	if n := len(f.providerCalls(res.RunID)); n != 2 || len(f.steps(res.RunID)) != 1 || res.Outcome.Steps != 1 {
		t.Errorf("%d calls, %d steps, %s", n, len(f.steps(res.RunID)), res.Outcome)
	}
}

// A person who thinks for longer than the lease lasts does not lose the run to
// another process, whatever the person was asked.
func TestTheLeaseOutlivesAPersonWhoThinks(t *testing.T) {
	const term = 400 * time.Millisecond
	for _, tc := range []struct {
		name  string
		turns []scripted.Turn
		host  func(h *Host, think func(context.Context) error)
	}{
		{"a responder", []scripted.Turn{ask("which port?")}, func(h *Host, think func(context.Context) error) {
			h.Responder = approve.ResponderFunc(func(ctx context.Context, _ approve.Question) (approve.Reply, error) {
				return approve.Say("80"), think(ctx)
			})
		}},
		{"an approver", []scripted.Turn{write("a.txt", "x")}, func(h *Host, think func(context.Context) error) {
			h.Policy = asking
			h.Approver = approve.ApproverFunc(func(ctx context.Context, _ approve.Request) (approve.Decision, error) {
				return approve.Approve(), think(ctx)
			})
		}},
		{"a gate for plans", []scripted.Turn{plan("do it")}, func(h *Host, think func(context.Context) error) {
			h.PlanGate = approve.PlanGateFunc(func(ctx context.Context, _ approve.Plan) (approve.PlanVerdict, error) {
				return approve.Accept(), think(ctx)
			})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, append(tc.turns, scripted.Say("done"))...)
			thought := false
			tc.host(&f.host, func(ctx context.Context) error {
				before, err := f.store.LeaseOf(ctx, 1)
				if err != nil || before == nil {
					return fmt.Errorf("lease: %v, %w", before, err)
				}
				for {
					now, err := f.store.LeaseOf(ctx, 1)
					if err != nil || now.Generation != before.Generation {
						return fmt.Errorf("lease: %+v, %w", now, err)
					}
					if now.RenewedAt.After(before.RenewedAt.Add(term)) { // longer than the lease by itself
						thought = true
						return nil
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
			f.must(trace.Finished, func(c *task.Contract) { c.LeaseTTL = term })
			if !thought {
				t.Error("nobody was asked")
			}
		})
	}
}
