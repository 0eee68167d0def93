//go:build unix

package loop

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// counted answers every request with dec and keeps the requests.
type counted struct {
	mu  sync.Mutex
	dec approve.Decision
	got []approve.Request
}

func (c *counted) Decide(_ context.Context, r approve.Request) (approve.Decision, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, r)
	return c.dec, nil
}

func (c *counted) targets() (out []string) {
	for _, r := range c.got {
		out = append(out, string(r.Act)+" "+r.Target)
	}
	return out
}

func TestADeniedActNeverReachesTheApprover(t *testing.T) {
	f := newFixture(t, write("locked/a", "1"), write("locked/a", "2"), write("locked/b", "3"))
	yes := &counted{dec: approve.Approve()}
	f.host.Policy, f.host.Approver = asking, yes
	res := f.must(trace.StepCapReached, withSteps(3))
	if len(yes.got) != 0 || f.read("locked/a") != "" {
		t.Errorf("asked about %v, locked/a is %q", yes.targets(), f.read("locked/a"))
	}
	if rows := f.refusals(res.RunID); len(rows) != 3 || f.seen.count("refused") != 3 || rows[2].Step != 3 {
		t.Errorf("%d refusals and %d events for three attempts", len(rows), f.seen.count("refused"))
	}
	if res.Outcome.Steps != 3 {
		t.Errorf("%s: a refusal costs its step", res.Outcome)
	}
}

func TestUnderTheDefaultPolicyEveryWriteAsksAndNoReadDoes(t *testing.T) {
	f := newFixture(t, readCall("a.txt"), scripted.Call("list_dir", nil), scripted.Call("grep", map[string]string{"pattern": "x"}),
		write("a.txt", "1"), write("a.txt", "2"), write("new.txt", "3"), scripted.Say("done"))
	f.write("a.txt", "was here\n")
	yes := &counted{dec: approve.Approve()}
	f.host.Policy, f.host.Approver = policy.Default(), yes
	f.must(trace.Finished)
	same(t, "asked", yes.targets(), []string{"write a.txt", "write a.txt", "write new.txt"})
}

func TestWhatEachAnswerLeaves(t *testing.T) {
	for _, tc := range []struct {
		name    string
		dec     approve.Decision
		end     trace.OutcomeKind
		file    string
		row     string
		events  []string
		verdict store.ApprovalVerdict
	}{
		{"a yes", approve.Approve(), trace.Finished, "x", "approve", []string{"approval_requested", "approval_decided approve"}, store.Approve},
		{"a no", approve.Deny("not today"), trace.Finished, "", "deny", []string{"approval_requested", "approval_decided deny"}, store.Deny},
		{"not now", approve.Defer(), trace.AwaitingApproval, "", "defer", []string{"approval_requested", "approval_decided defer"}, store.Undecided},
		{"no decision at all", approve.Decision{}, trace.AwaitingApproval, "", "defer", []string{"approval_requested", "approval_decided defer"}, store.Undecided},
		{"a decision that does not exist", approve.Decision{Kind: "perhaps"}, trace.AwaitingApproval, "", "defer", []string{"approval_requested", "approval_decided defer"}, store.Undecided},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(write("a.txt", "x"), scripted.Say("I see"))
			f.host.Policy, f.host.Approver = asking, &counted{dec: tc.dec}
			res := f.must(tc.end)
			if got := f.read("a.txt"); got != tc.file {
				t.Errorf("a.txt is %q", got)
			}
			rows := f.decisions(res.RunID)
			if len(rows) != 1 || rows[0].Decision != tc.row || rows[0].Source != "approver" || rows[0].Act != "write" || rows[0].Target != "a.txt" || rows[0].Rule != "*" || rows[0].Layer != "test" {
				t.Errorf("decisions %+v", rows)
			}
			var events []string
			for _, ev := range f.seen.all {
				switch fact := ev.Fact.(type) {
				case trace.ApprovalRequested:
					events = append(events, ev.Kind())
				case trace.ApprovalDecided:
					events = append(events, ev.Kind()+" "+fact.Decision)
				case trace.RefusedAct:
					events = append(events, ev.Kind())
				}
			}
			same(t, "events", events, tc.events)
			requests, err := f.store.Approvals(context.Background(), res.RunID)
			if err != nil || len(requests) != 1 || requests[0].Verdict != tc.verdict || requests[0].PerformedAt.IsZero() != (tc.verdict != store.Approve) {
				t.Errorf("requests %+v, %v", requests, err)
			}
			if tc.verdict == store.Deny {
				contains(t, "what the model is told", lastUser(m), "write denied", "a.txt", "not today")
			}
		})
	}
}

func TestARememberedRuleHoldsFromTheNextCallOnAndIsHandedBack(t *testing.T) {
	remember := approve.Approve(policy.Rule{Act: policy.Write, Effect: policy.Allow, Pattern: "*.txt"})
	two := scripted.Calls(scripted.Tool("write_file", map[string]string{"path": "a.txt", "content": "1"}), scripted.Tool("write_file", map[string]string{"path": "b.txt", "content": "2"}))
	byDefault := policy.Default()
	byRule := policy.Default().Layer("test").AskWrite("*")
	for _, tc := range []struct {
		name   string
		end    trace.OutcomeKind
		turns  []scripted.Turn
		change func(*task.Contract)
		stop   string
	}{
		{"it finishes", trace.Finished, []scripted.Turn{two, scripted.Say("done")}, nil, ""},
		{"at the step cap", trace.StepCapReached, []scripted.Turn{two}, withSteps(1), ""},
		{"it pauses", trace.AwaitingAnswer, []scripted.Turn{two, ask("which?")}, nil, ""},
		{"it stalls", trace.Stalled, append([]scripted.Turn{two}, slices.Repeat([]scripted.Turn{readCall("a.txt")}, 9)...), nil, ""},
		{"it is cancelled", trace.Cancelled, []scripted.Turn{two, readCall("a.txt")}, nil, "tool_call"},
	} {
		for name, pol := range map[string]policy.Policy{"asked by a default": byDefault, "asked by a rule": byRule} {
			t.Run(tc.name+", "+name, func(t *testing.T) {
				f := newFixture(t, tc.turns...)
				f.seen.stop = tc.stop
				who := &counted{dec: remember}
				f.host.Policy, f.host.Approver = pol, who
				res := f.must(tc.end, func(c *task.Contract) {
					if tc.change != nil {
						tc.change(c)
					}
				})
				if len(who.got) != 1 || f.read("a.txt") != "1" || f.read("b.txt") != "2" {
					t.Errorf("asked about %v; files %q and %q", who.targets(), f.read("a.txt"), f.read("b.txt"))
				}
				if len(res.Remembered) != 1 || res.Remembered[0].Pattern != "*.txt" {
					t.Errorf("handed back: %+v", res.Remembered)
				}
				var sources []string
				for _, e := range f.decisions(res.RunID) {
					sources = append(sources, e.Target+" "+e.Decision+" "+e.Source)
				}
				same(t, "decisions", sources, []string{"a.txt approve approver", "b.txt approve remembered"})
			})
		}
	}
}

// another is the same run as another process has it: the store opened a second time.
func (f *fixture) another() Host {
	f.t.Helper()
	st, err := store.Open(context.Background(), f.store.Path())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := st.Close(); err != nil {
			f.t.Error(err)
		}
	})
	h := f.host
	h.Store = st
	return h
}

func TestARememberedRuleHoldsInTheProcessThatResumes(t *testing.T) {
	f := newFixture(t, write("a.txt", "1"), ask("go on?"))
	f.host.Policy = asking
	f.host.Approver = &counted{dec: approve.Approve(policy.Rule{Act: policy.Write, Effect: policy.Allow, Pattern: "*"})}
	res := f.must(trace.AwaitingAnswer)
	f.script(write("b.txt", "2"), write("locked/c", "3"), scripted.Say("done"))
	who := &counted{dec: approve.Deny("nobody asked before")}
	h := f.another()
	h.Approver = who
	end, err := Resume(context.Background(), h, res.RunID, Resumption{Answer: &Answer{res.Outcome.QuestionID, []string{"yes"}}})
	if err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	if len(who.got) != 0 || f.read("b.txt") != "2" || f.read("locked/c") != "" || len(end.Remembered) != 1 {
		t.Errorf("asked about %v, b.txt %q, locked/c %q, handed back %+v", who.targets(), f.read("b.txt"), f.read("locked/c"), end.Remembered)
	}
}

// A rule that could not be read back must not reach the store: no drive could begin
// behind it.
func TestARuleToRememberThatCanNeverHoldApprovesNothing(t *testing.T) {
	f := newFixture(t, write("a.txt", "1"))
	bad := approve.Approve(policy.Rule{Effect: policy.Allow, Pattern: "*.txt"})
	f.host.Policy, f.host.Approver = asking, &counted{dec: bad}
	res := f.must(trace.AwaitingApproval)
	if _, err := f.resume(res.RunID, Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: bad}}); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("the same word of a person: %v", err)
	}
	if _, err := DecideFrom(t.Context(), f.store, Decision{ID: res.Outcome.RequestID, Decision: bad}, "attached"); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("the same word from another process: %v", err)
	}
	f.script(scripted.Say("done"))
	end, err := f.resume(res.RunID, Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()}})
	if err != nil || end.Outcome.Kind != trace.Finished || f.read("a.txt") != "1" {
		t.Errorf("%s, %v; a.txt %q", end.Outcome, err, f.read("a.txt"))
	}
}

// Who is asked may end the goroutine that asks, as a failing test does.
func TestWhoeverEndsWithoutAWordHasSaidNothing(t *testing.T) {
	for _, tc := range []struct {
		want trace.OutcomeKind
		turn scripted.Turn
		host func(*Host)
	}{
		{trace.AwaitingApproval, write("a.txt", "1"), func(h *Host) {
			h.Policy = asking
			h.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
				runtime.Goexit()
				return approve.Approve(), nil
			})
		}},
		{trace.AwaitingAnswer, ask("which?"), func(h *Host) {
			h.Responder = approve.ResponderFunc(func(context.Context, approve.Question) (approve.Reply, error) {
				runtime.Goexit()
				return approve.Say("x"), nil
			})
		}},
		{trace.AwaitingPlan, scripted.Call("propose_plan", map[string]any{"steps": []any{map[string]any{"intent": "look"}}}), func(h *Host) {
			h.PlanGate = approve.PlanGateFunc(func(context.Context, approve.Plan) (approve.PlanVerdict, error) {
				runtime.Goexit()
				return approve.Accept(), nil
			})
		}},
	} {
		f := newFixture(t, tc.turn)
		tc.host(&f.host)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		res, err := Run(ctx, f.host, f.contract(), nil)
		cancel()
		if err != nil || res.Outcome.Kind != tc.want {
			t.Errorf("%s, %v; want %s", res.Outcome, err, tc.want)
		}
	}
}

// spender decides when it is told that nobody wants to know any more, or at once,
// and has spent tokens in any case.
type spender struct {
	asked chan trace.RequestID
	late  bool
}

func (s *spender) Decide(ctx context.Context, r approve.Request) (approve.Decision, error) {
	d := approve.Approve()
	d.Spent = []approve.Spend{{Provider: "judge", Usage: &provider.Usage{TotalTokens: 1000}}}
	s.asked <- r.ID
	if s.late {
		<-ctx.Done()
		return d, ctx.Err()
	}
	return d, nil
}

func TestWhatAnApproverSpentCountsWhoeverDecides(t *testing.T) {
	calls := func(f *fixture, id trace.RunID) (n int, tokens int64) {
		for _, c := range f.providerCalls(id) {
			if c.Purpose == store.ForApproval {
				n++
				tokens += c.Usage.TotalTokens
			}
		}
		return n, tokens
	}
	t.Run("another process", func(t *testing.T) {
		f := newFixture(t, write("a.txt", "1"), scripted.Say("done"))
		who := &spender{make(chan trace.RequestID, 1), true}
		f.host.Policy, f.host.Approver = asking, who
		go func() {
			if _, err := DecideFrom(context.Background(), f.store, Decision{ID: <-who.asked, Decision: approve.Approve()}, "attached"); err != nil {
				t.Error(err)
			}
		}()
		res := f.must(trace.Finished)
		if n, tokens := calls(f, res.RunID); n != 1 || tokens != 1000 {
			t.Errorf("%d calls of the approver with %d tokens are on record", n, tokens)
		}
		if got := f.info(res.RunID).Tokens; got < 1000 {
			t.Errorf("the run drew %d tokens", got)
		}
	})
	t.Run("nobody, since the run was stopped", func(t *testing.T) {
		f := newFixture(t, write("a.txt", "1"))
		who := &spender{make(chan trace.RequestID, 1), true}
		f.host.Policy, f.host.Approver = asking, who
		ctx, cancel := context.WithCancel(context.Background())
		go func() { <-who.asked; cancel() }()
		res, err := Run(ctx, f.host, f.contract(), nil)
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if n, tokens := calls(f, res.RunID); n != 1 || tokens != 1000 {
			t.Errorf("%d calls of the approver with %d tokens are on record", n, tokens)
		}
	})
}

func TestNoRowOfThePolicyHoldsWhatIsWritten(t *testing.T) {
	const payload = "PAYLOAD-4711"
	type args = map[string]any
	for name, dec := range map[string]approve.Decision{"approved": approve.Approve(), "denied": approve.Deny("no"), "deferred": approve.Defer()} {
		for _, call := range []scripted.Turn{
			write("a.txt", payload), write("locked/a.txt", payload), scripted.Call("edit_file", args{"path": "b.txt", "search": "one", "replace": payload}),
			scripted.Call("patch_file", args{"path": "b.txt", "patch": "@@ -1 +1 @@\n-one\n+" + payload + "\n"}), scripted.Call("probe", args{"text": payload}),
		} {
			f := newFixture(t, call, scripted.Say("done"))
			f.write("b.txt", "one\n")
			f.host.Policy, f.host.Approver = asking, &counted{dec: dec}
			if _, err := f.run(withTools(new(probe).tool())); err != nil {
				t.Fatal(err)
			}
			n := 0
			for line := range strings.SplitSeq(f.rows(), "\n") {
				if strings.HasPrefix(line, "policy_events ") {
					n++
					if strings.Contains(line, payload) {
						t.Errorf("%s: %s", name, line)
					}
				}
			}
			if n == 0 {
				t.Errorf("%s: no row of the policy", name)
			}
		}
	}
}

func TestTheEndOfTheContextLeavesTheRequestOpen(t *testing.T) {
	f := newFixture(t, write("a.txt", "x"))
	f.host.Policy = asking
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.host.Approver = approve.ApproverFunc(func(ctx context.Context, _ approve.Request) (approve.Decision, error) {
		cancel()
		<-ctx.Done()
		return approve.Approve(), nil // too late: the run is over
	})
	res, err := Run(ctx, f.host, f.contract(), nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	rows, err := f.store.Approvals(context.Background(), res.RunID)
	if err != nil || len(rows) != 1 || rows[0].Verdict != store.Undecided || f.read("a.txt") != "" || len(f.steps(res.RunID)) != 0 {
		t.Fatalf("requests %+v, %v; a.txt %q; %d steps", rows, err, f.read("a.txt"), len(f.steps(res.RunID)))
	}
	f.script(write("a.txt", "x"), scripted.Say("done"))
	f.host.Approver = approve.All
	if end, err := f.resume(res.RunID, Resumption{}); err != nil || end.Outcome.Kind != trace.Finished || f.read("a.txt") != "x" {
		t.Errorf("%s, %v, a.txt %q", end.Outcome, err, f.read("a.txt"))
	}
}

func TestAnApprovedCallLeavesInAnotherProcessWhatAnyCallLeaves(t *testing.T) {
	type args = map[string]any
	for _, tc := range []struct {
		name  string
		call  scripted.Turn
		told  string
		edits int
	}{
		{"write_file", write("a.txt", "one\n2\n"), "wrote a.txt", 1},
		{"edit_file", scripted.Call("edit_file", args{"path": "a.txt", "search": "two", "replace": "2"}), "edited a.txt", 1},
		{"patch_file", scripted.Call("patch_file", args{"path": "a.txt", "patch": "@@ -2 +2 @@\n-two\n+2\n"}), "patched a.txt", 1},
		{"exec", command("sh", "-c", "printf 'one\\n2\\n' > a.txt; echo said-by-it"), "said-by-it", 0},
		{"shell", shellCall("printf 'one\\n2\\n' > a.txt; echo said-by-it"), "said-by-it", 0},
		{"probe", scripted.Call("probe", nil), "probed", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := new(probe)
			f := newFixture(t, tc.call)
			f.write("a.txt", "one\ntwo\n")
			f.host.Policy, f.host.Approver = asking, deferring
			res := f.must(trace.AwaitingApproval, withTools(p.tool()))
			m := f.script(scripted.Say("done"))
			h := f.another()
			if waiting, err := Resume(context.Background(), h, res.RunID, Resumption{}); err != nil || waiting.Outcome != res.Outcome || len(m.Requests()) != 0 {
				t.Errorf("a resume without a word: %s, %v, %d requests", waiting.Outcome, err, len(m.Requests()))
			}
			end, err := Resume(context.Background(), h, res.RunID, Resumption{
				Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()}, Defaults: task.Contract{Tools: tool.Toolbox{p.tool()}},
			})
			if err != nil || end.Outcome.Kind != trace.Finished {
				t.Fatalf("%s, %v", end.Outcome, err)
			}
			if got := f.read("a.txt"); tc.name != "probe" && got != "one\n2\n" {
				t.Errorf("a.txt is %q", got)
			}
			contains(t, "the next request", resultsOf(m), tc.told)
			edits, err := store.Collect(f.store.Edits(context.Background(), res.RunID))
			if err != nil || len(edits) != tc.edits {
				t.Errorf("edits %+v, %v", edits, err)
			}
			if tc.edits > 0 {
				point, err := f.store.RestorePointOf(context.Background(), res.RunID, "a.txt")
				if err != nil || string(point.Before) != "one\ntwo\n" || edits[0].Tool != tc.name || edits[0].Step != 1 {
					t.Errorf("restore point %+v, %v; edit %+v", point, err, edits[0])
				}
			}
			if len(m.Requests()) != 1 {
				t.Errorf("%d requests", len(m.Requests()))
			}
		})
	}
}

func TestOfTwoProcessesThatResumeOneApprovalOnePerformsIt(t *testing.T) {
	for range 5 {
		f := newFixture(t, command("sh", "-c", "echo ran >> log.txt"))
		f.host.Policy, f.host.Approver = asking, deferring
		res := f.must(trace.AwaitingApproval)
		f.model(scripted.Func(scripted.Say("done")))
		hosts := []Host{f.another(), f.another()}
		var ended [2]*trace.Result
		var errs [2]error
		var wg sync.WaitGroup
		for i, h := range hosts {
			wg.Go(func() {
				ended[i], errs[i] = Resume(context.Background(), h, res.RunID, Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()}})
			})
		}
		wg.Wait()
		if got := f.read("log.txt"); got != "ran\n" {
			t.Fatalf("log.txt is %q: the command must run once", got)
		}
		finished := 0
		for i, err := range errs {
			var conflict *store.ConflictError
			var resume *store.ResumeError
			switch {
			case err == nil && ended[i].Outcome.Kind == trace.Finished:
				finished++ // or told that it had ended
			case errors.As(err, &conflict), errors.As(err, &resume):
			default:
				t.Errorf("process %d: %+v, %v", i, ended[i], err)
			}
		}
		drives, err := f.store.Drives(context.Background(), res.RunID)
		if err != nil || len(drives) != 2 || finished == 0 {
			t.Errorf("%d drives, %v; %d of two say that it finished: %v", len(drives), err, finished, errs)
		}
	}
}

func TestEachHostOfAChainThatAsksIsAskedAbout(t *testing.T) {
	urls := []string{"https://one.example.com/v1", "https://two.example.com/v1"}
	for _, tc := range []struct {
		name  string
		deny  string
		asked []string
		end   trace.OutcomeKind
	}{
		{"both are allowed", "", []string{"net one.example.com:443", "net two.example.com:443"}, trace.Finished},
		{"the first is denied", "one.example.com:443", []string{"net one.example.com:443"}, trace.Refused},
		{"the second is denied", "two.example.com:443", []string{"net one.example.com:443", "net two.example.com:443"}, trace.Refused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := scripted.New(scripted.Say("hello"))
			f.model(hosted{m, urls})
			var asked []string
			f.host.Policy = open.AskNet("*")
			f.host.Approver = approve.ApproverFunc(func(_ context.Context, r approve.Request) (approve.Decision, error) {
				asked = append(asked, fmt.Sprint(r.Act, " ", r.Target))
				if r.Target == tc.deny {
					return approve.Deny("no"), nil
				}
				return approve.Approve(), nil
			})
			res, err := f.run()
			if res.Outcome.Kind != tc.end || (err == nil) != (tc.end == trace.Finished) || (len(m.Requests()) > 0) != (tc.end == trace.Finished) {
				t.Errorf("%s, %v, %d requests", res.Outcome, err, len(m.Requests()))
			}
			same(t, "asked", asked, tc.asked)
		})
	}
}

func TestAGitToolAsksOnceAndIsNotStartedWhereItIsDenied(t *testing.T) {
	type args = map[string]any
	for _, tc := range []struct {
		name string
		args args
	}{
		{"git_status", args{"paths": []string{"a.txt"}}}, {"git_diff", args{"paths": []string{"a.txt"}}}, {"git_log", args{}}, {"git_add", args{"paths": []string{"a.txt", "b.txt"}}},
		{"git_commit", args{"message": "m"}}, {"git_branch", args{"name": "work"}}, {"git_worktree", args{"name": "wt", "path": "wt"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			prepared := func(pol policy.Policy) (*fixture, *counted) {
				f := newFixture(t, scripted.Call(tc.name, tc.args), scripted.Say("done"))
				f.git(".", "init", "-q", "-b", "main")
				f.git(".", "commit", "-q", "--allow-empty", "-m", "first")
				f.write("a.txt", "a\n")
				f.write("b.txt", "b\n")
				f.write("c.txt", "c\n")
				f.git(".", "add", "c.txt")
				who := &counted{dec: approve.Approve()}
				f.host.Policy, f.host.Approver = pol, who
				return f, who
			}
			f, who := prepared(policy.Default().Layer("test").AskRead("*"))
			res := f.must(trace.Finished)
			if len(who.got) != 1 || who.got[0].Tool != tc.name || len(who.got[0].Args) == 0 {
				t.Errorf("asked about %v, want one question", who.targets())
			}
			if got := f.steps(res.RunID)[0].Decision; got != tc.name+" ok" {
				t.Errorf("decision %q", got)
			}
			asked := map[string]int{}
			for _, e := range f.decisions(res.RunID) {
				asked[e.Act+" "+e.Target]++
			}
			if len(asked) < 2 {
				t.Errorf("decisions %v, want one for each act that asked", asked)
			}
			for what, n := range asked {
				if n != 1 {
					t.Errorf("%d decisions about %s", n, what)
				}
			}
			f, who = prepared(policy.Default().Layer("test").DenyExec("git"))
			res = f.must(trace.Finished)
			if rows := f.refusals(res.RunID); len(who.got) != 0 || len(rows) != 1 || rows[0].Act != "exec" || f.seen.count("sandbox") != 0 {
				t.Errorf("asked about %v, refusals %+v, %d events of commands", who.targets(), rows, f.seen.count("sandbox"))
			}
		})
	}
}
