package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

func gate(c verify.Criterion) func(*task.Contract) {
	return func(t *task.Contract) { t.Verify = c }
}

func TestAGateKilledByASignalNeverPasses(t *testing.T) {
	f := newFixture(t, readCall("x"), readCall("y"))
	f.must(trace.VerificationFailed, withSteps(2), gate(verify.Command("sh", "-c", "kill -9 $$").ExpectExit(137)))
}

func TestAGateWhoseProgramIsMissingErrsAndCanBeRetried(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	tool := filepath.Join(bin, "judge")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	f.host.Policy = open.Layer("more").AllowExec("judge")
	m := f.script(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		if err := os.Remove(tool); err != nil {
			t.Error(err)
		}
		return readCall("x")(ctx, req)
	})
	res, err := f.run(gate(verify.Command("judge")))
	var ge *verify.GateError
	if !errors.As(err, &ge) || res.RunID == 0 {
		t.Fatalf("%+v, %v; want a *verify.GateError", res, err)
	}
	if err := os.WriteFile(tool, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	end, err := RetryGate(context.Background(), f.host, res.RunID, Resumption{})
	if err != nil || end.Outcome.Kind != trace.Success || end.Outcome.Steps != 1 {
		t.Errorf("retry: %s, %v", end.Outcome, err)
	}
	if len(m.Requests()) != 1 {
		t.Errorf("%d completions: retrying a gate asks no model", len(m.Requests()))
	}
	_, err = RetryGate(context.Background(), f.host, res.RunID, Resumption{})
	var re *store.ResumeError
	if !errors.As(err, &re) || re.Reason != store.GateNotRetryable {
		t.Errorf("retrying a gate that judged: %v", err)
	}
}

func TestAGateThatIsCancelledCanBeRetried(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f := newFixture(t, readCall("x"))
	slow := verify.Command("sh", "-c", "test -f done && exit 0; touch begun; sleep 60")
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(f.dir, "begun")); err == nil {
				cancel()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	res, err := Run(ctx, f.host, f.contract(gate(slow)), nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	a, err := f.store.LastGateAttempt(context.Background(), res.RunID)
	if err != nil || a == nil || a.Outcome != store.GateErrored {
		t.Fatalf("%+v, %v", a, err)
	}
	f.write("done", "")
	end, err := RetryGate(context.Background(), f.host, res.RunID, Resumption{})
	if err != nil || end.Outcome.Kind != trace.Success {
		t.Errorf("%s, %v", end.Outcome, err)
	}
}

func TestAReviewerThatWasDownJudgesOnARetry(t *testing.T) {
	down := true
	by := verify.ReviewerFunc(func(context.Context, verify.ReviewRequest) (verify.ReviewResult, error) {
		if down {
			return verify.ReviewResult{}, &provider.Error{Kind: provider.Server, Status: 529, Message: "overloaded"}
		}
		return verify.ReviewResult{Passed: true}, nil
	})
	c := verify.Protect(verify.Review("r", by), "tests/*")
	f := newFixture(t, write("a", "x"))
	f.write("tests/one", "1")
	res, err := f.run(gate(c))
	var ge *verify.GateError
	if !errors.As(err, &ge) {
		t.Fatalf("%v", err)
	}
	down = false
	if _, err := RetryGate(context.Background(), f.host, res.RunID, Resumption{}); !errors.Is(err, task.ErrInvalid) && !errors.As(err, new(*verify.InvalidError)) {
		t.Errorf("without the reviewer: %v", err)
	}
	f.write("tests/one", "2") // behind the run's back: the pins are those of its start
	stated := f.contract(gate(c))
	end, err := RetryGate(context.Background(), f.host, res.RunID, Resumption{Contract: &stated})
	if err != nil || end.Outcome.Kind != "" {
		t.Errorf("a changed test passed: %s, %v", end.Outcome, err)
	}
	f.write("tests/one", "1")
	f.script(scripted.Say("done"))
	if end, err = f.resume(res.RunID, Resumption{Defaults: task.Contract{Verify: c}}); err != nil || end.Outcome.Kind != trace.Success {
		t.Errorf("%s, %v", end.Outcome, err)
	}
}

func TestAResumeTellsNoMoreThanTheDriveDid(t *testing.T) {
	no := verify.ReviewerFunc(func(context.Context, verify.ReviewRequest) (verify.ReviewResult, error) {
		return verify.ReviewResult{Reasons: []string{"the secret reason"}}, nil
	})
	for _, tc := range []struct {
		name string
		c    verify.Criterion
		told bool
	}{
		{"a silent reviewer", verify.Review("r", no), false},
		{"a reviewer that tells", verify.Review("r", no).TellModel(), true},
		{"content", verify.Contains("a.txt", "y"), false},
		{"a command", verify.Command("sh", "-c", "echo the secret reason; exit 1"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, write("a.txt", "x"))
			id := f.must(trace.VerificationFailed, withSteps(1), gate(tc.c)).RunID
			m := f.script(readCall("a.txt"))
			c := f.contract(gate(tc.c), withSteps(2))
			if _, err := f.resume(id, Resumption{Contract: &c}); err != nil {
				t.Fatal(err)
			}
			told := lastUser(m)
			if got := strings.Contains(told, "[check failed]"); got != tc.told {
				t.Errorf("the verdict was told: %t\n%s", got, told)
			}
			if strings.Contains(told, "the secret reason") != tc.told {
				t.Errorf("the reasons:\n%s", told)
			}
		})
	}
}

func TestAnAnswerThatNeverComesEndsOneStepBeyondTheCap(t *testing.T) {
	yes := verify.ReviewerFunc(func(context.Context, verify.ReviewRequest) (verify.ReviewResult, error) {
		return verify.ReviewResult{Passed: true}, nil
	})
	turns := []scripted.Turn{write("a.txt", "x")}
	for i := range 8 {
		turns = append(turns, readCall(fmt.Sprint("other", i))) // the model calls what it was not offered
	}
	f := newFixture(t, turns...)
	res := f.must(trace.SchemaUnsatisfied, withSteps(1), shaped(t), gate(verify.Review("r", yes)))
	if res.Outcome.Steps > 2 {
		t.Errorf("%d steps with a cap of 1", res.Outcome.Steps)
	}
}

func TestAFailingGateIsOnRecordAndTold(t *testing.T) {
	for _, tc := range []struct {
		name, script, told, detail string
		wall                       time.Duration
	}{
		{"its status", "echo boo; exit 1", "boo", "exit status 1", 0},
		{"a ceiling that it hit", "echo boo; sleep 60", "boo", "wall", 300 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(readCall("x"), readCall("y"))
			res := f.must(trace.VerificationFailed, withSteps(2), gate(verify.Command("sh", "-c", tc.script)), func(c *task.Contract) {
				c.Sandbox.Limits.Wall = tc.wall
			})
			contains(t, "the next request", lastUser(m), "[check failed]", tc.told)
			rows, err := store.Collect(f.store.SandboxEvents(context.Background(), res.RunID))
			if err != nil {
				t.Fatal(err)
			}
			kinds := map[string]string{}
			for _, r := range rows {
				kinds[r.Kind] += r.Detail + " "
			}
			if !strings.Contains(kinds["gate_phase_failed"]+kinds["cap_hit"], tc.detail) || !strings.Contains(kinds["gate_output"], "boo") {
				t.Errorf("rows: %v", kinds)
			}
			again, err := f.resume(res.RunID, Resumption{})
			if err != nil || again.Outcome.Kind != trace.VerificationFailed || len(m.Requests()) != 2 {
				t.Errorf("resumed without steps: %s, %v, %d requests", again.Outcome, err, len(m.Requests()))
			}
		})
	}
}

func TestEachDistinctFailureIsToldOnce(t *testing.T) {
	f := newFixture(t)
	m := f.script(readCall("x"), write("b.txt", ""), readCall("y"), readCall("z"), readCall("w"))
	res := f.must(trace.VerificationFailed, withSteps(5), gate(verify.Command("sh", "-c", "ls; exit 1")))
	if got := strings.Count(lastUser(m), "[check failed]"); got != 2 {
		t.Errorf("told %d times, want once for each of two failures:\n%s", got, lastUser(m))
	}
	events, err := store.Collect(f.store.ContextEvents(context.Background(), res.RunID))
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, e := range events {
		if e.Kind == "gate_feedback" {
			told++
		}
	}
	if told != 2 {
		t.Errorf("%d rows of feedback", told)
	}
}

func TestAReviewerSeesTheFilesBeforeAndAfter(t *testing.T) {
	var seen []verify.FileChange
	judge := verify.ReviewerFunc(func(_ context.Context, r verify.ReviewRequest) (verify.ReviewResult, error) {
		seen = r.Changes
		return verify.ReviewResult{Passed: true}, nil
	})
	f := newFixture(t, scripted.Calls(
		scripted.Tool("write_file", map[string]string{"path": "new", "content": "n"}),
		scripted.Tool("write_file", map[string]string{"path": "old", "content": "2"}),
		scripted.Tool("write_file", map[string]string{"path": "gone", "content": "x"}),
		scripted.Tool("write_file", map[string]string{"path": "big", "content": "small"}),
		scripted.Tool("write_file", map[string]string{"path": "dir/part", "content": "x"}),
		scripted.Tool("write_file", map[string]string{"path": "whole", "content": "x"}),
		scripted.Tool("write_file", map[string]string{"path": "grown", "content": "x"}),
		scripted.Tool("write_file", map[string]string{"path": "pipe", "content": "x"}),
		scripted.Tool("exec", map[string][]string{"argv": {"sh", "-c", "rm gone; rm -r dir; touch dir; rm whole; mkdir whole; rm pipe; mkfifo pipe; dd if=/dev/zero of=grown bs=1048576 seek=65 count=0"}}),
	))
	f.write("old", "1")
	f.write("gone", "g")
	f.write("quiet", "q")
	f.write("big", strings.Repeat("x", 2<<20))
	f.must(trace.Success, gate(verify.Review("r", judge)))
	for i, c := range seen {
		if c.Unkept != "" {
			seen[i].Unkept = "why"
		}
		if c.Unread != "" {
			seen[i].Unread = "why"
		}
	}
	want := []verify.FileChange{
		{Path: "new", After: "n", Created: true},
		{Path: "old", Before: "1", After: "2"},
		{Path: "gone", Before: "g", Deleted: true},
		{Path: "big", After: "small", Unkept: "why"},
		{Path: "dir/part", Created: true, Deleted: true},
		{Path: "whole", Created: true, Deleted: true},
		{Path: "grown", Created: true, Unread: "why"},
		{Path: "pipe", Created: true, Unread: "why"},
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("the reviewer's files (-want +got):\n%s", diff)
	}
}

// Somebody else changes a file between the model's write and the gate. The reviewer
// sees that change, the model does not, and must not write over it.
func TestWhatAReviewerSeesTheModelHasNotSeen(t *testing.T) {
	f := newFixture(t)
	once := sync.OnceFunc(func() { f.write("a.txt", "a person's") })
	f.host.Observer = trace.ObserverFunc(func(e trace.Event) trace.Flow {
		if e.Kind() == "step" {
			once()
		}
		return trace.Continue
	})
	var shown []string
	no := verify.ReviewerFunc(func(_ context.Context, r verify.ReviewRequest) (verify.ReviewResult, error) {
		shown = append(shown, r.Changes[0].After)
		return verify.ReviewResult{}, nil
	})
	f.script(write("a.txt", "mine"), write("a.txt", "mine again"))
	f.must(trace.VerificationFailed, gate(verify.Review("r", no)), withSteps(2))
	if len(shown) == 0 || shown[0] != "a person's" {
		t.Fatalf("the reviewer was shown %q", shown)
	}
	if got := f.read("a.txt"); got != "a person's" {
		t.Errorf("the model wrote over a change that it had not seen: %q", got)
	}
}

func TestAGateIsAdmittedByItsLineOrItsProgram(t *testing.T) {
	base := policy.Default().Layer("t").AllowWrite("*")
	for _, tc := range []struct {
		name string
		pol  policy.Policy
		runs bool
	}{
		{"its line", base.AllowExec("ls -a*"), true},
		{"its program", base.AllowExec("ls"), true},
		{"its program, and the line is denied", base.AllowExec("ls").DenyExec("ls -a*"), false},
		{"its program, and the line is to be asked about", base.AllowExec("ls").AskExec("ls -a*"), false},
		{"another line", base.AllowExec("ls -l*"), false},
		{"nothing", base, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, readCall("x"))
			f.host.Policy = tc.pol
			res, err := f.run(gate(verify.Command("ls", "-a")))
			if ran := err == nil && res.Outcome.Kind == trace.Success; ran != tc.runs {
				t.Errorf("%s, %v", res.Outcome, err)
			}
			if refused := errors.Is(err, policy.ErrRefused); refused == tc.runs {
				t.Errorf("refused: %t, %v", refused, err)
			}
		})
	}
}

func TestARetriedGateThatFailsChangesNothingElse(t *testing.T) {
	f := newFixture(t, write("a.txt", "x"))
	f.host.Policy = policy.Default().Layer("t").AllowWrite("*").AllowExec("./judge")
	res, err := f.run(gate(verify.Command("./judge"))) // it is not there
	if err == nil {
		t.Fatalf("%s", res.Outcome)
	}
	before, err := f.store.Run(context.Background(), res.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "judge"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	m := f.script()
	end, err := RetryGate(context.Background(), f.host, res.RunID, Resumption{})
	if err != nil || end.Outcome.Kind != "" {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	after, err := f.store.Run(context.Background(), res.RunID)
	if err != nil || after.Status != before.Status || after.LastStep != before.LastStep || after.Tokens != before.Tokens {
		t.Errorf("before %+v\nafter %+v, %v", before, after, err)
	}
	if f.read("a.txt") != "x" || len(m.Requests()) != 0 {
		t.Errorf("a.txt is %q after %d completions", f.read("a.txt"), len(m.Requests()))
	}
}

func TestRetryingAGateThatWasNeverEvaluatedIsRefused(t *testing.T) {
	f := newFixture(t, scripted.Say("hello"))
	res := f.must(trace.Finished)
	_, err := RetryGate(context.Background(), f.host, res.RunID, Resumption{})
	var re *store.ResumeError
	if !errors.As(err, &re) || re.Reason != store.NoGateAttempt {
		t.Errorf("%v", err)
	}
}

func TestAReviewerJudgesTheChange(t *testing.T) {
	f := newFixture(t, write("a.txt", "bad\n"), readCall("x"), write("a.txt", "good\n"), scripted.Say("never asked"))
	f.write("a.txt", "old\n")
	var seen []verify.ReviewRequest
	reviewer := verify.ReviewerFunc(func(_ context.Context, r verify.ReviewRequest) (verify.ReviewResult, error) {
		seen = append(seen, r)
		return verify.ReviewResult{Passed: strings.Contains(r.Changes[0].After, "good"), Reasons: []string{"it is bad"}}, nil
	})
	f.must(trace.Success, gate(verify.Review("a.txt must be good", reviewer)))
	if len(seen) != 2 {
		t.Errorf("%d reviews: an unchanged workspace is not reviewed again", len(seen))
	}
	if c := seen[0].Changes[0]; c.Before != "old\n" || c.After != "bad\n" || c.Created {
		t.Errorf("the change: %+v", c)
	}
}

func TestAModelDoesNotReviewItself(t *testing.T) {
	f := newFixture(t)
	m := scripted.New(scripted.Say("never"))
	m.Hint = "same-model"
	f.model(m)
	_, err := f.run(gate(verify.Review("x", verify.Model(scripted.New(), "same-model"))))
	if !errors.Is(err, task.ErrInvalid) || !errors.Is(err, verify.ErrSelfReview) || len(m.Requests()) != 0 || f.runs() != 0 {
		t.Errorf("%v, %d completions, %d runs", err, len(m.Requests()), f.runs())
	}
}

type verdict struct {
	Fixed bool     `json:"fixed"`
	Files []string `json:"files"`
}

func shaped(t *testing.T) func(*task.Contract) {
	t.Helper()
	s, err := verify.SchemaOf[verdict]()
	if err != nil {
		t.Fatal(err)
	}
	return func(c *task.Contract) { c.Output = s }
}

const good = `{"fixed": true, "files": ["a.go"]}`

func TestAnAnswerInTheDemandedShapeIsHandedBack(t *testing.T) {
	f := newFixture(t, readCall("x"), scripted.Say("Here it is:\n```json\n"+good+"\n```\n"))
	res := f.must(trace.Finished, shaped(t))
	v, err := verify.Decode[verdict](res.Output)
	if err != nil || !v.Fixed || len(v.Files) != 1 {
		t.Errorf("%s: %+v, %v", res.Output, v, err)
	}
	out, err := f.store.RunOutput(context.Background(), res.RunID)
	if err != nil || out == nil || !out.Valid || !json.Valid(out.Value) {
		t.Errorf("stored: %+v, %v", out, err)
	}
}

func TestAMisshapenAnswerIsToldWhyAndAskedAgain(t *testing.T) {
	f := newFixture(t)
	m := f.script(scripted.Say(`{"fixed": "yes"}`), scripted.Say(good))
	res := f.must(trace.Finished, shaped(t))
	if res.Outcome.Steps != 2 || res.Output == nil {
		t.Errorf("%s, %s", res.Outcome, res.Output)
	}
	contains(t, "what the model is told", m.Requests()[1].User, "[answer rejected]", "/fixed", "files")
	if m.Requests()[0].Output == nil {
		t.Error("the schema was not sent natively")
	}
}

func TestAPassingGateWithoutAnAnswerAsksForTheAnswerOnly(t *testing.T) {
	f := newFixture(t)
	m := f.script(write("done.txt", "yes"), scripted.Say(good))
	res := f.must(trace.Success, shaped(t), gate(verify.Command("sh", "-c", "test -f done.txt")))
	if res.Output == nil || res.Outcome.Steps != 2 {
		t.Errorf("%s, output %s", res.Outcome, res.Output)
	}
	if got := m.Requests()[1].Tools; len(got) != 0 {
		t.Errorf("the closing step offers %d tools", len(got))
	}
}

func TestTheRightAnswerAfterWrongOnesIsNoStall(t *testing.T) {
	strict := func(c *task.Contract) {
		c.Stall = task.Stall{Window: 2, Replans: -1}
		c.Budget.Retries = 3
	}
	f := newFixture(t, readCall("x"), scripted.Say("prose"), scripted.Say(good))
	if res := f.must(trace.Finished, shaped(t), strict); res.Output == nil {
		t.Error("no output")
	}
	f = newFixture(t, write("done.txt", "yes"), scripted.Say("prose"), scripted.Say(good))
	if res := f.must(trace.Success, shaped(t), strict, gate(verify.Command("sh", "-c", "test -f done.txt"))); res.Output == nil {
		t.Error("no output")
	}
}

func TestAClosingStepIsAllowedBeyondTheCapOnce(t *testing.T) {
	f := newFixture(t, write("done.txt", "yes"), scripted.Say(good))
	res := f.must(trace.Success, withSteps(1), shaped(t), gate(verify.Command("sh", "-c", "test -f done.txt")))
	if res.Output == nil {
		t.Error("no output")
	}
	f = newFixture(t, write("done.txt", "yes"), scripted.Say("prose"))
	f.must(trace.SchemaUnsatisfied, withSteps(1), shaped(t), gate(verify.Command("sh", "-c", "test -f done.txt")))
}

func TestRejectedAnswersAreCountedOverResumes(t *testing.T) {
	f := newFixture(t, scripted.Say("no json"), scripted.FailKind(provider.Auth, "later"))
	res, err := f.run(shaped(t), func(c *task.Contract) { c.Budget.Retries = 3 })
	if err == nil || res.Outcome.Kind != trace.EscalatedTerminal {
		t.Fatalf("%s, %v", res.Outcome, err)
	}
	// An escalated run is final; a cap is not.
	f = newFixture(t, scripted.Say("no json"))
	res = f.must(trace.StepCapReached, shaped(t), withSteps(1), func(c *task.Contract) { c.Budget.Retries = 2 })
	f.script(scripted.Say("still no json"))
	c := f.contract(shaped(t), withSteps(5), func(c *task.Contract) { c.Budget.Retries = 2 })
	end, err := f.resume(res.RunID, Resumption{Contract: &c})
	if err != nil || end.Outcome.Kind != trace.SchemaUnsatisfied || end.Outcome.Steps != 2 {
		t.Errorf("%s, %v", end.Outcome, err)
	}
}
