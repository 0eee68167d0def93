package loop

import (
	"context"
	"errors"
	"testing"

	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

func TestAForkGoesOnFromAStepOfAnotherRunAndLeavesThatAlone(t *testing.T) {
	f := newFixture(t, readCall("a.txt"), write("b.txt", "left"), scripted.Say("went left"))
	f.write("a.txt", "the sign")
	first := f.must(trace.Finished)
	before := f.canonical(first.RunID)

	id, err := f.store.ForkRun(context.Background(), first.RunID, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := f.script(write("b.txt", "right"), scripted.Say("went right"))
	res, err := f.resume(id, Resumption{})
	if err != nil || res.Outcome.Kind != trace.Finished || res.Outcome.Steps != 3 || res.Reply != "went right" {
		t.Fatalf("%s %q, %v", res.Outcome, res.Reply, err)
	}
	got, ok := scripted.LastResult(m.Requests()[0], "read_file")
	if !ok {
		t.Fatal("the fork does not know what was read before it")
	}
	contains(t, "what the fork knows", got, "the sign")
	if f.canonical(first.RunID) != before || f.info(first.RunID).Outcome.Kind != trace.Finished {
		t.Error("the run that was forked changed")
	}
	if info := f.info(id); info.Tokens != 2*120 {
		t.Errorf("the fork drew %d tokens: what was paid for before is not paid again", info.Tokens)
	}
	if _, err := f.store.ForkRun(context.Background(), first.RunID, 9); err == nil {
		t.Error("a step that does not exist was forked")
	}
	if _, err := f.store.ForkRun(context.Background(), 4242, 0); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown run: %v", err)
	}
}
