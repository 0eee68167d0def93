package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// recorded keeps every request whole, as JSON, with the run's directory left out.
type recorded struct {
	provider.Provider
	dir string

	mu  sync.Mutex
	all []string
}

func (a *recorded) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	whole := *req
	whole.CacheBoundary, whole.CacheThrough = 0, 0 // what a vendor may keep is known to the process that sent it
	raw, err := json.MarshalIndent(whole, "", " ")
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.all = append(a.all, strings.ReplaceAll(string(raw), a.dir, "DIR"))
	a.mu.Unlock()
	return a.Provider.Complete(ctx, req, on)
}

func (a *recorded) ModelHint() string { return provider.ModelHint(a.Provider) }

// What a resumed run asks its model is what it would have asked had nothing
// happened: every request, to the byte.
func TestTheRequestsBehindACrashAreThoseOfAnUndisturbedRun(t *testing.T) {
	turns := []scripted.Turn{
		readCall("a.txt"),
		scripted.Calls(scripted.Tool("write_file", map[string]string{"path": "b.txt", "content": "one\ntwo\n"}), scripted.Tool("grep", map[string]string{"pattern": "one"})),
		edit("b.txt", "two", "2"),
		scripted.Call("remember", map[string]string{"key": "k", "value": "b has two lines"}),
		scripted.Call("write_file", map[string]string{"path": "locked/x", "content": "no"}),
		scripted.Call("todo_write", map[string]any{"items": []any{map[string]string{"text": "look", "state": "active"}}}),
		command("cat", "b.txt"),
		readCall("b.txt"),
		scripted.Say("done"),
	}
	folding := func(c *task.Contract) { c.Compaction.Share = task.NoCompaction }
	plain := newFixture(t)
	plain.write("a.txt", "first\n")
	whole := &recorded{Provider: sayThrough(turns...), dir: plain.dir}
	plain.model(whole)
	plain.must(trace.Finished, folding)
	if len(whole.all) != len(turns) {
		t.Fatalf("%d requests", len(whole.all))
	}
	for stop := 1; stop < len(turns); stop++ {
		if stop == 4 {
			continue // a note is there at once, and the step that is made again sees it
		}
		t.Run(fmt.Sprintf("died in step %d", stop), func(t *testing.T) {
			f, m := newMortal(t)
			f.write("a.txt", "first\n")
			f.model(sayThrough(turns...))
			m.dieAt("insert step", stop-1)
			id := f.died(folding)
			behind := &recorded{Provider: sayThrough(turns...), dir: f.dir}
			f.model(behind)
			if end, err := f.resume(id, Resumption{}); err != nil || end.Outcome.Kind != trace.Finished {
				t.Fatalf("%s, %v", end.Outcome, err)
			}
			if diff := cmp.Diff(whole.all[stop-1:], behind.all); diff != "" {
				t.Errorf("requests (-undisturbed +resumed):\n%s", diff)
			}
			f.sound()
		})
	}
}

// A run that died while it waited to ask again goes on with the step that it was
// in: the tries are on record before it and count as no step.
func TestARunThatDiedInTheWaitForARetryGoesOnWithThatStep(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "first\n")
	ctx, cancel := context.WithCancel(context.Background())
	f.script(readCall("a.txt"), scripted.FailKind(provider.Server, "x"), scripted.FailKind(provider.Server, "x"))
	f.host.Observer = trace.ObserverFunc(func(ev trace.Event) trace.Flow {
		if r, ok := ev.Fact.(trace.Retry); ok && r.Attempt == 2 {
			cancel() // in the wait before the third try
		}
		return f.seen.Observe(ev)
	})
	slow := func(c *task.Contract) {
		c.Budget.Retries, c.Retry = 5, provider.RetryPolicy{Base: time.Nanosecond, Max: time.Nanosecond}
	}
	res, err := Run(ctx, f.host, f.contract(slow), nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", res, err)
	}
	f.host.Observer = f.seen
	f.script(write("b.txt", "x"), scripted.Say("done"))
	end, err := f.resume(res.RunID, Resumption{})
	if err != nil || end.Outcome.Kind != trace.Finished || end.Outcome.Steps != 3 {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	drives, err := f.store.Drives(context.Background(), res.RunID)
	if err != nil || len(drives) != 2 || drives[1].StartStep != 2 {
		t.Errorf("drives: %+v, %v", drives, err)
	}
	var order []string
	for _, line := range strings.Split(f.canonical(res.RunID), "\n") {
		if w := strings.Fields(line); len(w) > 2 && (w[0] == "step" || w[0] == "attempt") {
			order = append(order, w[0]+" "+w[1])
		}
	}
	if diff := cmp.Diff([]string{"step 1", "attempt 2", "attempt 2", "step 2", "step 3"}, order); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
	sum, err := f.store.RunSummary(context.Background(), res.RunID)
	if err != nil || sum.Steps != 3 {
		t.Errorf("summary: %+v, %v", sum, err)
	}
	f.sound()
}

// A bound that is reached keeps what was spent, and a larger one goes on from it.
func TestALargerBoundGoesOnFromWhatWasSpent(t *testing.T) {
	f := newFixture(t, readCall("a"), readCall("b"))
	res := f.must(trace.StepCapReached, withSteps(2))
	each := f.info(res.RunID).Tokens / 2
	if spent := f.info(res.RunID).Tokens; spent == 0 || spent != 2*each || res.Outcome.Steps != 2 {
		t.Fatalf("%s after %d tokens", res.Outcome, spent)
	}
	f.script(scripted.Say("done"))
	c := f.contract(withSteps(5))
	end, err := f.resume(res.RunID, Resumption{Contract: &c})
	if err != nil || end.Outcome.Kind != trace.Finished || end.Outcome.Steps != 3 || f.info(res.RunID).Tokens != 3*each {
		t.Errorf("%s, %v after %d tokens, want %d", end.Outcome, err, f.info(res.RunID).Tokens, 3*each)
	}
	sum, err := f.store.RunSummary(context.Background(), res.RunID)
	if err != nil || sum.Tokens != 3*each || sum.Steps != 3 {
		t.Errorf("summary: %+v, %v", sum, err)
	}
}

// A registered call is made exactly as often as the journal allows: again when
// nothing had been written down, not again when its end was, and on a person's
// word in between.
func TestWhereTheProcessDiedDecidesHowOftenACallIsMade(t *testing.T) {
	for _, tc := range []struct {
		name, point string
		before      int // calls until the death
		waits       bool
		after       int // calls in all when the run has ended
	}{
		{"before it was written down", "insert attempt", 0, false, 1},
		{"behind the effect and before its end was written down", "close attempt", 1, true, 1},
		{"behind its end", "insert step", 1, false, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, m := newMortal(t)
			p := &probe{}
			f.script(scripted.Call("probe", nil))
			m.dieAt(tc.point, 0)
			id := f.died(withTools(p.tool()))
			if p.count() != tc.before {
				t.Fatalf("called %d times before the death", p.count())
			}
			box := Resumption{Defaults: task.Contract{Tools: tool.Toolbox{p.tool()}}}
			s := f.script(scripted.Call("probe", nil), scripted.Say("done"))
			end, err := f.resume(id, box)
			if tc.waits {
				if err != nil || end.Outcome.Kind != trace.AwaitingRecovery || len(s.Requests()) != 0 || p.count() != tc.before {
					t.Fatalf("%s, %v, %d requests, %d calls", end.Outcome, err, len(s.Requests()), p.count())
				}
				box.Recovery = &store.RecoveryDecision{ID: end.Outcome.AttemptID, Verdict: store.RecoveredCompleted, Account: "it probed"}
				end, err = f.resume(id, box)
			}
			if err != nil || end.Outcome.Kind != trace.Finished || p.count() != tc.after {
				t.Errorf("%s, %v after %d calls, want %d", end.Outcome, err, p.count(), tc.after)
			}
			f.sound()
		})
	}
}

// No recorded policy is no permission: such a run goes on under a policy that is
// stated with the resume, and under none that the program happens to have.
func TestARunWithoutARecordedPolicyGoesOnUnderAStatedOneOnly(t *testing.T) {
	f := newFixture(t, readCall("a"))
	res := f.must(trace.StepCapReached, withSteps(1))
	f.sqlOf(`UPDATE drives SET policy = NULL`)
	m := f.script(write("locked/x", "y"), scripted.Say("done"))
	c := f.contract(withSteps(9))
	f.host.Policy = policy.Permissive()
	_, err := f.resume(res.RunID, Resumption{Contract: &c})
	var re *store.ResumeError
	if !errors.As(err, &re) || re.Reason != store.NoRecordedPolicy || re.RunID != res.RunID || len(m.Requests()) != 0 {
		t.Errorf("%v after %d requests", err, len(m.Requests()))
	}
	if info := f.info(res.RunID); info.Outcome != res.Outcome {
		t.Errorf("the refused resume left %+v", info)
	}
	end, err := f.resume(res.RunID, Resumption{Contract: &c, Policy: &open})
	if err != nil || end.Outcome.Kind != trace.Finished || f.read("locked/x") != "" || len(f.refusals(res.RunID)) != 1 {
		t.Errorf("%s, %v, locked/x %q", end.Outcome, err, f.read("locked/x"))
	}
	if raw, err := f.store.RunPolicy(context.Background(), res.RunID); err != nil || raw == nil {
		t.Errorf("what it went on under is not recorded: %s, %v", raw, err)
	}
}
