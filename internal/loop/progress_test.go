package loop

import (
	"context"
	"slices"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

func TestWhatCountsAsGettingNowhere(t *testing.T) {
	for _, tc := range []struct {
		name  string
		turns func(i int) scripted.Turn
		want  trace.OutcomeKind
		steps int
	}{
		{"the same write of what is there", func(int) scripted.Turn { return write("a.txt", "end\n") }, trace.Stalled, 6},
		{"the same edit, which changes the file each time", func(int) scripted.Turn { return edit("a.txt", "end", "more\nend") }, trace.Stalled, 6},
		{"the same command", func(int) scripted.Turn { return command("true") }, trace.Stalled, 6},
		{"reads of other files", func(i int) scripted.Turn { return readCall(string(rune('a' + i))) }, trace.StepCapReached, 8},
		{"edits that differ", func(i int) scripted.Turn { return edit("a.txt", "end", string(rune('a'+i))+"\nend") }, trace.StepCapReached, 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var turns []scripted.Turn
			for i := range 9 {
				turns = append(turns, tc.turns(i))
			}
			f := newFixture(t, turns...)
			f.write("a.txt", "end\n")
			res := f.must(tc.want, withSteps(8))
			if res.Outcome.Steps != tc.steps {
				t.Errorf("%s, want %d steps", res.Outcome, tc.steps)
			}
			told := f.contextKinds(res.RunID, "replan", "stalled")
			want := []string{"3 replan window 3", "6 stalled "}
			if tc.want != trace.Stalled {
				want = nil
			}
			if !slices.Equal(told, want) || f.seen.count("replan") != len(want)/2 {
				t.Errorf("on record %q, want %q; told %v", told, want, f.seen.kinds())
			}
		})
	}
}

func TestAnApprovalIsWaitedForAlsoWhereTheRunWouldStall(t *testing.T) {
	f := newFixture(t, write("a.txt", "x"), write("a.txt", "x"), write("a.txt", "x"))
	n := 0
	f.host.Policy = asking
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		if n++; n == 3 {
			return approve.Defer(), nil
		}
		return approve.Approve(), nil
	})
	res := f.must(trace.AwaitingApproval, func(c *task.Contract) { c.Stall = task.Stall{Window: 3, Replans: -1} })
	if res.Outcome.Steps != 3 || f.seen.count("stalled") != 0 {
		t.Errorf("%s, told %v", res.Outcome, f.seen.kinds())
	}
}
