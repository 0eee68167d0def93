package session_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// What a person refuses after the driver was killed is refused as it is while the
// driver lives, and the conversation hears the end.
func TestADriverThatIsKilledWhileItWaitsIsRefusedAndResumed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a lease of a dead process is freed by its time only")
	}
	for _, tc := range []struct {
		role, name string
		attached   bool // said while nobody drives, and not with the resume
		end        trace.OutcomeKind
		reply      string
	}{
		{"approval", "a denial with the resume", false, trace.Denied, ""},
		{"approval", "a denial of another process", true, trace.Finished, "done"},
		{"plan", "a plan cancelled with the resume", false, trace.PlanRejected, ""},
		{"plan", "a plan cancelled by another process", true, trace.PlanRejected, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPair(t)
			a, w := p.killed(tc.role)
			var opts []session.Option
			switch w := w.(type) {
			case session.WaitingApproval:
				opts = append(opts, session.Decide(w.RequestID, approve.Deny("not on a Friday")))
			case session.WaitingPlan:
				opts = append(opts, session.Verdict(w.PlanID, approve.Cancel()))
			}
			if tc.attached {
				if won, err := answer(t.Context(), a, w, false); err != nil || !won {
					t.Fatalf("answer: %t, %v", won, err)
				}
				opts = nil
			}
			turns, _ := parkedScript(tc.role)
			cfg := attachConfig(p.store, tc.role, turns...)
			cfg.Approver = approve.None
			h, err := harness.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			s, err := h.Reopen(t.Context(), 1)
			if err != nil || s.Head() != 0 {
				t.Fatalf("head %d, %v: the turn has not ended", s.Head(), err)
			}
			turn, err := s.ResumeTurn(t.Context(), 1, opts...)
			if err != nil || turn.Outcome.Kind != tc.end || turn.Reply != tc.reply || s.Head() != turn.ID {
				t.Fatalf("%+v, %v; head %d", turn, err, s.Head())
			}
			if p.read("asked/a.txt") != "" {
				t.Error("what was refused was written")
			}
			if tc.end == trace.Finished && !strings.Contains(p.read("told.txt"), "not on a Friday") {
				t.Errorf("the model was told %q and not the reason", p.read("told.txt"))
			}
			more := scripted.New(scripted.Say("next"))
			next, err := s.Turn(t.Context(), "and now?", session.WithProvider(more), session.WithPlanGate(nil))
			if err != nil || next.Parent != turn.ID || next.Reply != "next" {
				t.Fatalf("the next turn: %+v, %v", next, err)
			}
			if !strings.Contains(said(more.Requests()[0]), "do it") {
				t.Error("the next turn does not see the prompt of the killed one")
			}
		})
	}
}

// A second watcher takes up where a killed one stood, and together they have seen
// every event once and in order.
func TestAWatcherTakesUpWhereAKilledOneStood(t *testing.T) {
	p := newPair(t)
	var printed []string
	res, _ := p.watched(func(watcher *exec.Cmd, sees *bufio.Scanner) []scripted.Turn {
		look := scripted.Call("read_file", map[string]string{"path": "a"})
		return []scripted.Turn{look, look,
			func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
				if !sees.Scan() {
					return nil, errors.New("the watcher saw nothing")
				}
				printed = append(printed, sees.Text())
				if err := watcher.Process.Kill(); err != nil {
					return nil, err
				}
				for sees.Scan() { // what it had printed before
					printed = append(printed, sees.Text())
				}
				_ = watcher.Wait()
				return look(ctx, req)
			}, scripted.Say("done")}
	})
	// The last batch may be printed in part, as whatever the watcher did with its
	// events: it begins again at the batch before.
	type line struct {
		kind   string
		cursor store.EventCursor
	}
	var seen []line
	for _, text := range printed {
		var l line
		if n, _ := fmt.Sscan(text, &l.kind, &l.cursor); n == 2 {
			seen = append(seen, l)
		}
	}
	last := seen[len(seen)-1].cursor
	from := store.EventCursor(0)
	var kinds []string
	for _, l := range seen {
		if l.cursor < from {
			t.Fatalf("the cursor went back from %d to %d", from, l.cursor)
		}
		if l.cursor < last {
			kinds, from = append(kinds, l.kind), l.cursor
		}
	}
	all, err := session.Attach(p.store, res.RunID).Poll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rest, err := session.Attach(p.store, res.RunID, session.FromCursor(from)).Poll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range rest {
		kinds = append(kinds, ev.Kind())
	}
	var want []string
	for _, ev := range all {
		want = append(want, ev.Kind())
	}
	if diff := cmp.Diff(want, kinds); diff != "" || want[len(want)-1] != "finished" {
		t.Errorf("what both watchers saw (-all +seen):\n%s", diff)
	}
}
