package loop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// Two equal calls are two acts, and each yes is for one of them, wherever the
// process dies: none is made a third time, and none on the other's yes.
func TestEqualCallsAreMadeOnceEachOnTheirOwnYes(t *testing.T) {
	twice := scripted.Calls(scripted.Tool("probe", nil), scripted.Tool("probe", nil))
	askEach := func(f *fixture) *int {
		asked := new(int)
		f.host.Policy = asking
		f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
			*asked++
			return approve.Approve(), nil
		})
		return asked
	}
	t.Run("undisturbed", func(t *testing.T) {
		f, p := newFixture(t, twice, scripted.Say("done")), &probe{}
		asked := askEach(f)
		res := f.must(trace.Finished, withTools(p.tool()))
		if p.count() != 2 || *asked != 2 {
			t.Errorf("called %d times on %d questions", p.count(), *asked)
		}
		for _, r := range f.requests(res.RunID) {
			if r.PerformedAt.IsZero() {
				t.Errorf("a yes that was used stays open: %+v", r)
			}
		}
	})
	for _, tc := range []struct {
		name, point string
		skip        int
		waits       int // calls whose end a person has to tell
	}{
		{"died between the first yes and its call", "insert attempt", 0, 0},
		{"died in the first call", "close attempt", 0, 1},
		{"died between the calls", "insert attempt", 1, 0},
		{"died in the second call", "close attempt", 1, 1},
		{"died behind both", "insert step", 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, m := newMortal(t)
			p := &probe{}
			asked := askEach(f)
			f.script(twice)
			m.dieAt(tc.point, tc.skip)
			id := f.died(withTools(p.tool()))
			box := Resumption{Defaults: task.Contract{Tools: tool.Toolbox{p.tool()}}}
			f.script(twice, scripted.Say("done"))
			end, err := f.resume(id, box)
			for range tc.waits {
				if err != nil || end.Outcome.Kind != trace.AwaitingRecovery {
					t.Fatalf("%s, %v", end.Outcome, err)
				}
				box.Recovery = &store.RecoveryDecision{ID: end.Outcome.AttemptID, Verdict: store.RecoveredCompleted, Account: "probed"}
				end, err = f.resume(id, box)
			}
			if err != nil || end.Outcome.Kind != trace.Finished {
				t.Fatalf("%s, %v", end.Outcome, err)
			}
			if p.count() != 2 {
				t.Errorf("called %d times", p.count())
			}
			if *asked != 2 {
				t.Errorf("somebody was asked %d times", *asked)
			}
			f.sound()
		})
	}
}

// Of two that take up one decided run at once, one performs the act and the other
// is refused by name or told the end.
func TestTwoResumesAtOnceMakeAnApprovedCallOnce(t *testing.T) {
	for range 5 {
		f, p := newFixture(t, scripted.Call("probe", nil)), &probe{}
		f.host.Policy, f.host.Approver = asking, deferring
		res := f.must(trace.AwaitingApproval, withTools(p.tool()))
		if won, err := DecideFrom(context.Background(), f.store, Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()}, "attached"); err != nil || !won {
			t.Fatal(won, err)
		}
		f.model(sayThrough(nil, scripted.Say("done")))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				end, err := f.resume(res.RunID, Resumption{Defaults: task.Contract{Tools: tool.Toolbox{p.tool()}}})
				if err != nil && !errors.Is(err, store.ErrConflict) || err == nil && end.Outcome.Kind != trace.Finished {
					t.Errorf("%s, %v", end.Outcome, err)
				}
			})
		}
		wg.Wait()
		if p.count() != 1 {
			t.Errorf("called %d times", p.count())
		}
	}
}

// A yes for a program is for the program that was there, also where a link has
// taken its place.
func TestAnApprovalOfAProgramIsNotForALinkInItsPlace(t *testing.T) {
	for _, swapped := range []bool{false, true} {
		f := newFixture(t, command("./build"))
		f.host.Policy, f.host.Approver = asking, deferring
		program := func(name, says string) {
			f.write(name, "#!/bin/sh\necho "+says+" > log\n")
			if err := os.Chmod(filepath.Join(f.dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		program("build", "asked")
		program("other", "other")
		res := f.must(trace.AwaitingApproval)
		if swapped {
			at := filepath.Join(f.dir, "build")
			if err := errors.Join(os.Remove(at), os.Symlink("other", at)); err != nil {
				t.Skipf("no symbolic links here: %v", err)
			}
		}
		m := f.script(scripted.Say("I see"))
		end, err := f.resume(res.RunID, approving(res, approve.Approve()))
		if err != nil || end.Outcome.Kind != trace.Finished {
			t.Fatalf("%s, %v", end.Outcome, err)
		}
		if want := map[bool]string{false: "asked\n", true: ""}[swapped]; f.read("log") != want {
			t.Errorf("swapped %t: what ran wrote %q", swapped, f.read("log"))
		}
		if swapped {
			contains(t, "what the model is told", lastUser(m), "has changed since")
		}
		f.checkRequest(res.Outcome.RequestID, swapped)
	}
}
