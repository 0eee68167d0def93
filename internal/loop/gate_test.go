package loop

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// boundaries are the rows of the containment of a run's commands that belong to a
// step, in order.
func (f *fixture) boundaries(id trace.RunID) (rows []store.SandboxEvent) {
	f.t.Helper()
	all, err := store.Collect(f.store.SandboxEvents(context.Background(), id))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range all {
		if e.Step > 0 {
			rows = append(rows, e)
		}
	}
	return rows
}

func kindsOf(rows []store.SandboxEvent) (kinds []string) {
	for _, r := range rows {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

func TestTheLifeOfAGatesCommandIsOnRecord(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script string
		change func(*task.Contract)
		want   []string
		exit   *int
		output string
	}{
		{"it passes", "echo fine", nil, []string{"create", "exec", "destroy"}, nil, ""},
		{"it fails", "echo boo; echo far >&2; exit 3", nil, []string{"create", "exec", "destroy", "gate_phase_failed", "gate_output"}, new(3), "boo\nfar"},
		{"it fails in silence", "exit 3", nil, []string{"create", "exec", "destroy", "gate_phase_failed"}, new(3), ""},
		{"it hits a ceiling", "echo boo; sleep 60", func(c *task.Contract) {
			c.GateSandbox = &sandbox.Profile{Limits: sandbox.Limits{Wall: 300 * time.Millisecond}}
		}, []string{"create", "exec", "cap_hit", "destroy", "gate_phase_failed", "gate_output"}, nil, "boo"},
		{"without a boundary", "echo boo; exit 3", func(c *task.Contract) { c.Sandbox.Mode = sandbox.FullAccess },
			[]string{"gate_phase_failed", "gate_output"}, new(3), "boo"},
		{"without a boundary there is a clock", "sleep 60", func(c *task.Contract) {
			c.Sandbox.Mode, c.Sandbox.Limits.Wall = sandbox.FullAccess, 300*time.Millisecond
		}, []string{"gate_phase_failed"}, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, readCall("x"))
			changes := []func(*task.Contract){gate(verify.Command("sh", "-c", tc.script)), withSteps(1)}
			if tc.change != nil {
				changes = append(changes, tc.change)
			}
			res, err := f.run(changes...)
			if err != nil {
				t.Fatal(err)
			}
			rows := f.boundaries(res.RunID)
			if diff := cmp.Diff(tc.want, kindsOf(rows)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			for _, r := range rows {
				switch r.Kind {
				case "create":
					if r.Backend == "" || r.Detail != string(sandbox.WorkspaceWrite) {
						t.Errorf("the boundary: %+v", r)
					}
				case "exec":
					contains(t, "the row of the command", r.Detail, "sh -c "+tc.script)
				case "gate_output":
					if r.Detail != tc.output {
						t.Errorf("output %q, want %q", r.Detail, tc.output)
					}
				}
			}
			var life []string
			var printed []trace.GateOutput
			for _, e := range f.seen.all {
				switch fact := e.Fact.(type) {
				case trace.Sandboxed:
					life = append(life, fact.Action)
				case trace.GateOutput:
					printed = append(printed, fact)
				}
			}
			if want := slices.DeleteFunc(slices.Clone(tc.want), func(k string) bool { return k == "gate_output" }); !slices.Equal(life, want) {
				t.Errorf("told %v, want %v", life, want)
			}
			failed := slices.Contains(tc.want, "gate_phase_failed")
			if failed != (len(printed) == 1) || f.seen.count("gate") != 1 {
				t.Fatalf("told of the output %+v, and of %d verdicts", printed, f.seen.count("gate"))
			}
			if failed {
				if diff := cmp.Diff(trace.GateOutput{Output: tc.output, ExitCode: tc.exit}, printed[0]); diff != "" {
					t.Errorf("what is told of the output (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestAGateHasCeilingsOfItsOwn(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*task.Contract)
		want   sandbox.Profile
	}{
		{"none is stated", func(*task.Contract) {}, sandbox.Profile{Limits: sandbox.DefaultLimits()}},
		{"the time of the model's commands does not count", func(c *task.Contract) { c.ExecTimeout = time.Hour }, sandbox.Profile{Limits: sandbox.DefaultLimits()}},
		{"what is stated for the run counts", func(c *task.Contract) { c.Sandbox.Limits = sandbox.Limits{Wall: time.Hour, Processes: 9} },
			sandbox.Profile{Limits: sandbox.Limits{CPU: time.Minute, Wall: time.Hour, Memory: 2 << 30, OpenFiles: 512, Processes: 9}}},
		{"what is stated for the gate wins", func(c *task.Contract) {
			c.Sandbox.Limits = sandbox.Limits{Wall: time.Hour, CPU: time.Hour}
			c.GateSandbox = &sandbox.Profile{Mode: sandbox.ReadOnly, Limits: sandbox.Limits{Wall: time.Second, Memory: 1 << 30}}
		}, sandbox.Profile{Mode: sandbox.ReadOnly, Limits: sandbox.Limits{CPU: time.Minute, Wall: time.Second, Memory: 1 << 30, OpenFiles: 512}}},
		{"the network of the gate alone", func(c *task.Contract) { c.GateSandbox = &sandbox.Profile{Egress: sandbox.Egress{Open: true}} },
			sandbox.Profile{Limits: sandbox.DefaultLimits(), Egress: sandbox.Egress{Open: true}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			c := f.contract(tc.change, gate(verify.Command("true")))
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			d, err := newDrive(t.Context(), f.host.withDefaults(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			p := d.gateProfile()
			if p.Workspace == "" || p.Temp == "" {
				t.Errorf("the gate has no workspace or no place for what is temporary: %+v", p)
			}
			got := sandbox.Profile{Mode: p.Mode, Limits: p.Limits, Egress: p.Egress}
			if diff := cmp.Diff(tc.want, got, cmp.Comparer(func(a, b sandbox.Profile) bool {
				return a.Mode == b.Mode && a.Limits == b.Limits && a.Egress == b.Egress
			})); diff != "" {
				t.Errorf("the boundary of the gate (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatTheGateIsGivenIsStoredWithTheRun(t *testing.T) {
	f := newFixture(t)
	c := f.contract(func(c *task.Contract) {
		c.GateSandbox = &sandbox.Profile{Limits: sandbox.Limits{Wall: time.Second}}
		c.OutputAttempts = 5
	})
	raw, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := task.New(c.Goal, c.Root).Restore(raw)
	if err != nil || back.GateLimits() != c.GateLimits() || back.OutputCap() != 5 {
		t.Errorf("%+v, %v", back, err)
	}
	copied := c.Clone()
	copied.GateSandbox.Limits.Wall = time.Hour
	if c.GateSandbox.Limits.Wall != time.Second {
		t.Error("a copy of the contract shares the boundary of its gate")
	}
	for field, bad := range map[string]func(*task.Contract){
		"GateSandbox":    func(c *task.Contract) { c.GateSandbox = &sandbox.Profile{Mode: "open"} },
		"OutputAttempts": func(c *task.Contract) { c.OutputAttempts = -1 },
	} {
		var invalid *task.InvalidError
		if err := f.contract(bad).Validate(); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestWhatThePolicyKeepsFromAGateIsOnRecordAndNotStarted(t *testing.T) {
	base := policy.Default().Layer("app").AllowWrite("*")
	for _, tc := range []struct {
		name        string
		pol         policy.Policy
		rule, layer string
		steps       int // that are made before it is told
	}{
		{"denied", base.Layer("strict").DenyExec("sh judge*"), "sh judge*", "strict", 0},
		{"denied beside an allow", base.AllowExec("sh judge*").Layer("strict").DenyExec("sh"), "sh", "strict", 0},
		{"to be asked about", base.Layer("careful").AskExec("sh judge*"), "sh judge*", "careful", 1},
		{"no rule", base, "", "", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(readCall("judge.sh"))
			f.write("judge.sh", "echo started >> started\n")
			f.host.Policy = tc.pol
			res, err := f.run(gate(verify.Command("sh", "judge.sh", "all")))
			var refused *policy.RefusedError
			var erred *verify.GateError
			if !errors.As(err, &refused) || refused.Rule != tc.rule || refused.Layer != tc.layer || !errors.As(err, &erred) {
				t.Fatalf("%s, %v; want a refusal by %q of %q", res.Outcome, err, tc.rule, tc.layer)
			}
			if n := len(m.Requests()); n != tc.steps || len(f.steps(res.RunID)) != tc.steps {
				t.Errorf("%d completions were paid for before it was told", n)
			}
			if f.read("started") != "" {
				t.Error("the gate was started")
			}
			rows := f.refusals(res.RunID)
			if len(rows) != 1 || rows[0].Act != "exec" || rows[0].Target != "sh judge.sh all" || rows[0].Rule != tc.rule || rows[0].Layer != tc.layer || rows[0].Step != tc.steps {
				t.Errorf("rows %+v", rows)
			}
			told := 0
			for _, e := range f.seen.all {
				if r, ok := e.Fact.(trace.RefusedAct); ok && r.Rule == tc.rule && r.Layer == tc.layer && r.Target == "sh judge.sh all" {
					told++
				}
			}
			if told != 1 {
				t.Errorf("told %d times", told)
			}
			a, err := f.store.LastGateAttempt(context.Background(), res.RunID)
			if err != nil || (a != nil) != (tc.steps > 0) || a != nil && a.Outcome != store.GateErrored {
				t.Errorf("the evaluation: %+v, %v", a, err)
			}
			pol := tc.pol.Layer("free").AllowExec("*")
			if _, err := f.resume(res.RunID, Resumption{Policy: &pol}); tc.rule == "" && err != nil {
				t.Errorf("resumed under a policy that allows it: %v", err)
			}
		})
	}
	t.Run("an allow is on record too", func(t *testing.T) {
		f := newFixture(t, readCall("x"))
		f.host.Policy = base.Layer("ci").AllowExec("sh judge*")
		f.write("judge.sh", "exit 0\n")
		res := f.must(trace.Success, gate(verify.Command("sh", "judge.sh")))
		var found []store.PolicyEvent
		for _, e := range f.decisions(res.RunID) {
			if e.Act == "exec" {
				found = append(found, e)
			}
		}
		if len(found) != 1 || found[0].Target != "sh judge.sh" || found[0].Rule != "sh judge*" || found[0].Layer != "ci" || found[0].Decision != "allow" || found[0].Source != "policy" {
			t.Errorf("decisions %+v", found)
		}
	})
}

// What a run has is left to be decided behind it: a program that it makes, a plan, a
// turn that is only answered.
func TestAGateIsNotRefusedBeforeItsTime(t *testing.T) {
	strict := policy.Default().Layer("app").AllowWrite("*").AllowRead("*").DenyExec("*")
	t.Run("a program that is not there yet", func(t *testing.T) {
		f := newFixture(t, readCall("x"))
		f.host.Policy = strict
		res, err := f.run(gate(verify.Command("./built-later")))
		if err == nil || errors.Is(err, policy.ErrRefused) || len(f.steps(res.RunID)) != 1 {
			t.Errorf("%s, %v after %d steps", res.Outcome, err, len(f.steps(res.RunID)))
		}
	})
	t.Run("a compiler", func(t *testing.T) {
		if _, err := exec.LookPath("rustc"); err != nil {
			t.Skip("no rustc on this host")
		}
		f := newFixture(t, readCall("x"))
		f.host.Policy = strict
		res, err := f.run(gate(verify.All(verify.Contains("a", "b"), verify.EachCompiles(verify.Rust, "a.rs"))))
		if !errors.Is(err, policy.ErrRefused) || len(f.steps(res.RunID)) != 0 {
			t.Errorf("%s, %v after %d steps", res.Outcome, err, len(f.steps(res.RunID)))
		}
	})
	t.Run("what a person allows meanwhile", func(t *testing.T) {
		f := newFixture(t, command("sh", "judge.sh"))
		f.write("judge.sh", "exit 0\n")
		f.host.Policy = policy.Default()
		f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
			return approve.Approve(policy.Rule{Act: policy.Exec, Effect: policy.Allow, Pattern: "sh judge*"}), nil
		})
		f.must(trace.Success, gate(verify.Command("sh", "judge.sh")))
	})
	t.Run("behind a plan", func(t *testing.T) {
		f := newFixture(t, plan("do it"), readCall("x"))
		f.host.PlanGate = approve.PlanGateFunc(func(context.Context, approve.Plan) (approve.PlanVerdict, error) { return approve.Accept(), nil })
		f.must(trace.Success, gate(verify.Command("true")))
	})
	t.Run("a turn that is only answered", func(t *testing.T) {
		f := newFixture(t)
		f.host.Policy = strict
		chatty := func(c *task.Contract) { c.Conversational = task.Allow }
		turn := func(says scripted.Turn) (*trace.Result, error) {
			f.script(says)
			id, err := f.store.CreateSession(context.Background(), f.dir)
			if err != nil {
				t.Fatal(err)
			}
			return Run(context.Background(), f.host, f.contract(chatty, gate(verify.Command("true"))), &Turn{Session: id})
		}
		if res, err := turn(scripted.Say("hello")); err != nil || res.Outcome.Kind != trace.Finished {
			t.Errorf("an answer: %s, %v", res.Outcome, err)
		}
		if res, err := turn(write("a.txt", "x")); !errors.Is(err, policy.ErrRefused) || f.read("a.txt") != "" {
			t.Errorf("work: %s, %v, and a.txt is %q", res.Outcome, err, f.read("a.txt"))
		}
	})
}

func TestARetriedGateHasNoMoreTimeThanItsRun(t *testing.T) {
	f := newFixture(t, readCall("x"))
	f.write("judge.sh", "exit 0\n")
	hour := func(c *task.Contract) { c.Budget.Duration = time.Hour }
	res, err := f.run(gate(verify.Command("no-such-program-here")), hour)
	if err == nil {
		t.Fatal(res.Outcome)
	}
	c := f.contract(gate(verify.Command("sh", "judge.sh")), hour)
	f.host.Clock = func() time.Time { return time.Now().Add(2 * time.Hour) }
	end, err := RetryGate(context.Background(), f.host, res.RunID, Resumption{Contract: &c})
	if err != nil || end.Outcome.Kind != trace.TimeBudgetExceeded {
		t.Errorf("an hour late: %s, %v", end.Outcome, err)
	}
	if a, err := f.store.LastGateAttempt(context.Background(), res.RunID); err != nil || a.Outcome == store.GatePassed {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestARetriedGateNeedsItsRunToBeFree(t *testing.T) {
	f := newFixture(t)
	id := f.stopped()
	before := f.info(id)
	lease, _, err := f.store.EnterDrive(context.Background(), id, store.EnterOptions{Provider: "p", LeaseTTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var busy *store.ConflictError
	if _, err := RetryGate(context.Background(), f.host, id, Resumption{}); !errors.As(err, &busy) {
		t.Errorf("while another driver has the run: %v", err)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	if after := f.info(id); after.LastStep != before.LastStep || after.Tokens != before.Tokens {
		t.Errorf("%+v became %+v", before, after)
	}
}

func TestTheWatcherIsWarnedOfAGateThatTheRunCanWrite(t *testing.T) {
	for _, tc := range []struct {
		name string
		c    verify.Criterion
		pol  policy.Policy
		want []string
	}{
		{"a script that may be written", verify.Command("sh", "check.sh"), open, []string{"check.sh"}},
		{"one that may not", verify.Command("sh", "check.sh"), open.Layer("gate").DenyWrite("check.sh"), nil},
		{"one that is protected", verify.Protect(verify.Command("sh", "check.sh"), "*.sh"), open, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, readCall("x"))
			f.host.Policy = tc.pol
			f.write("check.sh", "exit 0\n")
			f.must(trace.Success, gate(tc.c))
			var got []string
			for _, e := range f.seen.all {
				if w, ok := e.Fact.(trace.GateWeak); ok {
					got = append(got, w.Path)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("warned of %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNothingIsToldOfAGateThatHasNothingToSay(t *testing.T) {
	for name, c := range map[string]verify.Criterion{
		"content":                   verify.Contains("a", "never"),
		"a reviewer that is silent": verify.Review("r", &judge{says: []string{"no"}}),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(write("a", "1"), write("a", "2"))
			f.must(trace.VerificationFailed, gate(c), withSteps(2))
			if told := lastUser(m); strings.Contains(told, "[check failed]") {
				t.Errorf("told:\n%s", told)
			}
		})
	}
	t.Run("the last step", func(t *testing.T) {
		f := newFixture(t, readCall("x"))
		res := f.must(trace.VerificationFailed, gate(verify.Command("sh", "-c", "echo boo; exit 1")), withSteps(1))
		events, err := store.Collect(f.store.ContextEvents(context.Background(), res.RunID))
		if err != nil || slices.ContainsFunc(events, func(e store.ContextEvent) bool { return e.Kind == "gate_feedback" }) {
			t.Errorf("nobody follows who could read it, and yet: %+v, %v", events, err)
		}
	})
}

func TestCredentialsStayOutOfAGateWithAndWithoutABoundary(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-canary-gate")
	for _, mode := range []sandbox.Mode{sandbox.WorkspaceWrite, sandbox.FullAccess} {
		f := newFixture(t, readCall("x"))
		res := f.must(trace.VerificationFailed, withSteps(1), func(c *task.Contract) { c.Sandbox.Mode = mode },
			gate(verify.Command("sh", "-c", "env | grep -q sk-canary-gate && echo leaked; env | grep -q PATH && echo cleaned; exit 1")))
		for _, r := range f.boundaries(res.RunID) {
			if r.Kind == "gate_output" && r.Detail != "cleaned" {
				t.Errorf("%s: the gate printed %q", mode, r.Detail)
			}
		}
	}
}

func TestWhatAGateFloodsIsKeptInPart(t *testing.T) {
	f := newFixture(t, readCall("x"))
	res := f.must(trace.VerificationFailed, withSteps(1), gate(verify.Command("sh", "-c", "echo first; yes filler | head -c 3000000; echo the end; exit 1")))
	rows := f.boundaries(res.RunID)
	last := rows[len(rows)-1]
	if n := len([]rune(last.Detail)); last.Kind != "gate_output" || n > verify.MaxOutput || n < verify.MaxOutput/2 || !strings.HasPrefix(last.Detail, "first") || !strings.HasSuffix(last.Detail, "the end") {
		t.Errorf("%s with %d characters:\n%.300s", last.Kind, n, last.Detail)
	}
}

func TestAMissingProgramMayBeMadeAndTheGateRetried(t *testing.T) {
	f := newFixture(t, scripted.Calls(scripted.Tool("write_file", map[string]string{"path": "a", "content": "1"})))
	f.host.Policy = open.Layer("more").AllowExec("./judge")
	res, err := f.run(gate(verify.Command("./judge")))
	if err == nil || !strings.Contains(err.Error(), "judge") {
		t.Fatalf("%s, %v; want an error that names the program", res.Outcome, err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "judge"), []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	end, err := RetryGate(context.Background(), f.host, res.RunID, Resumption{})
	if err != nil || end.Outcome.Kind != trace.Success {
		t.Errorf("%s, %v", end.Outcome, err)
	}
	if info := f.info(res.RunID); info.Outcome.Kind != trace.Success || f.seen.count("finished") != 1 {
		t.Errorf("%+v, told %v", info.Outcome, f.seen.kinds())
	}
}

// A compiler needs a place for what it makes, and a run that shares the system's
// temporary directory has none of its own.
func TestAFileIsCompiledWhereTheTemporaryDirectoryIsShared(t *testing.T) {
	if out, err := exec.Command("rustc", "--version").CombinedOutput(); err != nil {
		t.Skipf("no usable rustc on this host: %v: %s", err, out)
	}
	f := newFixture(t, write("a.rs", "pub fn f() {}\n"))
	f.host.Policy = open.Layer("gate").AllowExec("rustc")
	f.must(trace.Success, gate(verify.EachCompiles(verify.Rust, "a.rs")), func(c *task.Contract) {
		c.Sandbox.SharedTemp = true
		c.Sandbox.Limits.CPU = time.Hour // a busy machine compiles slowly
	})
}

func TestTheEnvironmentOfTheGateAloneReachesIt(t *testing.T) {
	f := newFixture(t, readCall("x"))
	f.must(trace.Success, gate(verify.Command("sh", "-c", `test "$FOR_GATE" = gate && test "$FOR_BOTH" = gate && test "$FOR_RUN" = run`)), func(c *task.Contract) {
		c.Sandbox.Vars = []string{"FOR_RUN=run", "FOR_BOTH=run"}
		c.GateSandbox = &sandbox.Profile{Vars: []string{"FOR_GATE=gate", "FOR_BOTH=gate"}}
	})
}
