//go:build unix

package loop

import (
	"context"
	"errors"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// A command of the library has no journal. Its approval still says that it was carried
// out only when the command had begun.
func TestAnApprovedCommandThatTheReplayDoesNotUse(t *testing.T) {
	tick := command("sh", "tick.sh")
	for _, tc := range []struct {
		name, diesAt string
		first        scripted.Turn
		begun        bool
	}{
		{"exec, which had not begun", "read approval", tick, false},
		{"exec, which had ended", "insert step", tick, true},
		{"a line, which had not begun", "read approval", shellCall("sh tick.sh | cat"), false},
		{"a line, which had ended", "insert step", shellCall("sh tick.sh | cat"), true},
		{"one that is left running, which had not begun", "read approval", startCall("sh tick.sh"), false},
		{"one that is left running, which had begun", "insert step", startCall("sh tick.sh"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, m := newMortal(t)
			f.host.Policy, f.host.Approver = asking, approve.All
			f.write("tick.sh", "echo x >> log\n")
			f.script(tc.first)
			m.dieAt(tc.diesAt, 0)
			run := f.died()
			f.host.Approver = deferring
			f.script(readCall("b.txt"), scripted.Say("done"))
			if res, err := f.resume(run, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished {
				t.Fatalf("%+v, %v", res, err)
			}
			f.checkUsed(run, tc.begun)
		})
	}
}

// checkUsed demands that the only request of a run says what was made of its approval.
func (f *fixture) checkUsed(run trace.RunID, used bool) {
	f.t.Helper()
	row := f.requests(run)[0]
	if row.PerformedAt.IsZero() == used || (row.Verdict == store.Approve) != used || !used && row.DecidedBy != withdrawnByReplay {
		f.t.Errorf("used: %t, and the request says %+v", used, row)
	}
}

// What git changes is announced by nobody either, and its request is about a path.
func TestAnApprovedCommitThatTheReplayDoesNotUse(t *testing.T) {
	f, m := newMortal(t)
	f.git(".", "init", "-q")
	f.write("a.txt", "x")
	f.host.Policy, f.host.Approver = policy.Policy(open.AskWrite(".git").AllowExec("git")), approve.All
	f.script(scripted.Call("git_add", map[string]any{"paths": []string{"a.txt"}}))
	m.dieAt("insert step", 0)
	run := f.died()
	if row := f.requests(run)[0]; row.Tool != "git_add" {
		t.Fatalf("%+v", row)
	}
	f.script(readCall("b.txt"), scripted.Say("done"))
	if res, err := f.resume(run, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("%+v, %v", res, err)
	}
	f.checkUsed(run, true)
}

// A yes that comes as the run is stopped is no command that began.
func TestAnApprovedCommandOfARunThatIsStoppedHadNotBegun(t *testing.T) {
	f := newFixture(t, command("sh", "tick.sh"))
	f.write("tick.sh", "echo x >> log\n")
	f.host.Policy, f.host.Approver = asking, approve.All
	ctx, cancel := context.WithCancel(t.Context())
	seen := f.host.Observer
	f.host.Observer = trace.ObserverFunc(func(e trace.Event) trace.Flow {
		if _, ok := e.Fact.(trace.ApprovalDecided); ok {
			cancel()
		}
		return seen.Observe(e)
	})
	res, err := Run(ctx, f.host, f.contract(), nil)
	if !errors.Is(err, context.Canceled) || f.read("log") != "" {
		t.Fatalf("%s, %v; log %q", res.Outcome, err, f.read("log"))
	}
	f.script(readCall("b.txt"), scripted.Say("done"))
	if end, err := f.resume(res.RunID, Resumption{}); err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	f.checkUsed(res.RunID, false)
}

// The same holds for a registered tool that may be called again, of which no attempt
// is kept.
func TestAnApprovedCallOfAReplayableToolThatTheReplayDoesNotUse(t *testing.T) {
	f, m := newMortal(t)
	s := &sender{}
	again := tool.New("send", "Sends.", func(ctx context.Context, in struct {
		To string `json:"to"`
	}) (string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent = append(s.sent, in.To)
		return "", nil
	}, tool.Replayable)
	f.host.Policy, f.host.Approver = open.AskExec("send"), approve.All
	f.script(send("a"))
	m.dieAt("insert step", 0)
	run := f.died(withTools(again))
	f.script(readCall("b.txt"), scripted.Say("done"))
	if res, err := f.resume(run, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("%+v, %v", res, err)
	}
	f.checkUsed(run, true)
}

// A command that was approved later is made by no model again: it is carried out once,
// and what became of one that was cut off is for a person to tell.
func TestACommandThatIsApprovedLaterIsCarriedOutOnce(t *testing.T) {
	for _, turn := range []scripted.Turn{command("sh", "tick.sh"), shellCall("sh tick.sh | cat")} {
		for _, tc := range []struct {
			diesAt string
			waits  bool
		}{{"mark performed", false}, {"close attempt", true}} {
			f, m := newMortal(t)
			f.host.Policy, f.host.Approver = asking, deferring
			f.write("tick.sh", "echo x >> log\n")
			f.script(turn)
			paused := f.must(trace.AwaitingApproval)
			m.dieAt(tc.diesAt, 0)
			s := f.script(scripted.Say("done"))
			if res, err := f.resume(paused.RunID, approving(paused, approve.Approve())); !errors.Is(err, errDied) {
				t.Fatalf("%+v, %v", res, err)
			}
			var r Resumption
			end, err := f.resume(paused.RunID, r)
			if tc.waits {
				if err != nil || end.Outcome.Kind != trace.AwaitingRecovery {
					t.Fatalf("%s, %v", end.Outcome, err)
				}
				r.Recovery = &store.RecoveryDecision{ID: end.Outcome.AttemptID, Verdict: store.RecoveredCompleted, Account: "it ticked"}
				end, err = f.resume(paused.RunID, r)
			}
			if err != nil || end.Outcome.Kind != trace.Finished || f.read("log") != "x\n" {
				t.Errorf("died at %q: %s, %v, log %q", tc.diesAt, end.Outcome, err, f.read("log"))
			}
			if tc.waits {
				contains(t, "what the model is told", lastUser(s), "it ticked")
			}
			f.checkUsed(paused.RunID, true)
			f.sound()
		}
	}
}
