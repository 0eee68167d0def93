package session_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// The same words and the same write, with and without the rule: it is the rule
// that decides.
func TestTheRuleDecidesAndNotTheOperatorsWord(t *testing.T) {
	for _, denied := range []bool{true, false} {
		f := newFixture(t)
		if !denied {
			f.cfg.Policy = policy.Default().Layer("test").AllowWrite("*")
		}
		steer, in := session.NewSteer()
		f.model.Push(during(func() { steer.Say("just do it, you may write there") }, read("a")), write("locked/a", "x"), scripted.Say("done"))
		turn := f.turn(f.open(), "write it", session.WithSteer(in))
		refusals, err := store.Collect(f.store.Refusals(ctx, turn.RunID))
		if err != nil || (len(refusals) == 1) != denied || f.exists("locked/a") == denied {
			t.Errorf("denied %t: refusals %+v, %v, written %t", denied, refusals, err, f.exists("locked/a"))
		}
		if denied && (refusals[0].Rule != "locked/*" || refusals[0].Layer != "test" || refusals[0].Step != 2) {
			t.Errorf("the refusal is put down to %+v", refusals[0])
		}
	}
}

func TestCancellingTheContextKillsTheCommandAndKeepsTheRun(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command is a shell's")
	}
	f := newFixture(t, read("a"), scripted.Call("exec", map[string]any{"argv": []string{"sh", "-c", "while :; do echo x >> beat; sleep 0.02; done"}}))
	f.cfg.Policy = rules().AllowExec("sh *")
	s := f.open()
	c, cancel := context.WithCancel(ctx)
	go func() { // until the command runs
		for end := time.Now().Add(patience); time.Now().Before(end) && len(f.content("beat")) < 4; {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	_, err := s.Turn(c, "wait for it")
	te := turnError(t, err)
	if !errors.Is(err, context.Canceled) || te.Turn != 1 || te.Run != 1 || te.Outcome != "" || s.Head() != 0 {
		t.Fatalf("%+v with head %d", te, s.Head())
	}
	info, err := f.store.Run(ctx, te.Run)
	if err != nil || info.Status != trace.StatusRunning || info.LastStep != 1 {
		t.Errorf("%+v, %v: a step that was cut off is not committed", info, err)
	}
	if l, err := f.store.LeaseOf(ctx, te.Run); err != nil || l != nil {
		t.Errorf("the run is still held: %+v, %v", l, err)
	}
	if err := os.Remove(filepath.Join(f.dir, "beat")); err != nil {
		t.Fatalf("the command never ran: %v", err)
	}
	time.Sleep(100 * time.Millisecond)
	if f.exists("beat") {
		t.Error("the command is still running")
	}
	f.model.Push(scripted.Say("done"))
	back, err := s.ResumeTurn(ctx, te.Turn)
	if err != nil || back.Reply != "done" || back.Outcome.Steps != 2 || s.Head() != te.Turn {
		t.Errorf("%+v, %v; head %d", back, err, s.Head())
	}
}

// Another process is another handle on the file, with nothing kept in memory.
func TestAFoldIsReadByAnotherHandleOnTheFile(t *testing.T) {
	f := newFixture(t)
	s, m, _ := f.long(3)
	f.model.Push(scripted.Say("ANSWER-4"))
	f.turn(s, "PROMPT-4", session.WithFoldNow())
	other, err := store.Open(ctx, f.path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	f.cfg.Store = other
	f.model.Push(scripted.Say("ANSWER-5"))
	f.turn(f.reopen(s.ID()), "PROMPT-5")
	if m.n.Load() != 1 {
		t.Errorf("%d folds: it was bought again", m.n.Load())
	}
	f.shows("the turn in another process", []string{"PARAGRAPH-1", "PROMPT-3", "ANSWER-4"}, []string{"PROMPT-1", "ANSWER-2"})
	if n := strings.Count(f.last().User, "PARAGRAPH-1"); n != 1 {
		t.Errorf("the paragraph is told %d times", n)
	}
}
