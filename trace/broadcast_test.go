package trace

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// batches keeps what was written, batch by batch.
type batches struct {
	mu  sync.Mutex
	got [][]Event
	err error
}

func (b *batches) PutEvents(_ context.Context, events ...Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, events)
	return b.err
}

func (b *batches) all() [][]Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got
}

func TestAStreamOfTokensBecomesAFewRows(t *testing.T) {
	w := &batches{}
	seen := 0
	b := Broadcast(w, ObserverFunc(func(Event) Flow { seen++; return Continue }))
	for range 5000 {
		b.Observe(Event{RunID: 1, Step: 1, Fact: Token{Text: "x"}})
	}
	b.Observe(Event{RunID: 2, Step: 1, Fact: Token{Text: "y"}})
	b.Observe(Event{RunID: 1, Step: 1, Fact: Token{Text: "z"}})
	b.Observe(Event{RunID: 1, Step: 1, Fact: StepCommitted{}})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	rows, text := 0, ""
	for _, batch := range w.all() {
		rows += len(batch)
		for _, ev := range batch {
			if tok, ok := ev.Fact.(Token); ok && ev.RunID == 1 {
				text += tok.Text
			}
		}
	}
	if rows > 200 || len(text) != 5001 || seen != 5003 {
		t.Errorf("%d rows with %d characters, and %d events passed on", rows, len(text), seen)
	}
}

func TestWhatSomebodyWaitsForIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &batches{}
		b := Broadcast(w, nil)
		quiet := Event{RunID: 1, Fact: ToolCalled{Name: "a"}}
		b.Observe(quiet)
		if n := len(w.all()); n != 0 {
			t.Fatalf("%d batches before there was anything to hurry for", n)
		}
		b.Observe(Event{RunID: 1, Fact: ApprovalRequested{}})
		if got := w.all(); len(got) != 1 || len(got[0]) != 2 {
			t.Fatalf("batches: %v", got)
		}
		b.Observe(quiet)
		time.Sleep(broadcastDelay)
		synctest.Wait()
		if got := w.all(); len(got) != 2 || len(got[1]) != 1 {
			t.Fatalf("batches after the wait: %v", got)
		}
		b.Observe(quiet)
		for range 2 {
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		b.Observe(quiet)
		if got := w.all(); len(got) != 4 {
			t.Errorf("%d batches after the close", len(got))
		}
	})
}

func TestAWriteThatFailsCostsTheEventsAndNothingElse(t *testing.T) {
	w := &batches{err: errors.New("no space")}
	b := Broadcast(w, ObserverFunc(func(Event) Flow { return Cancel }))
	if f := b.Observe(Event{RunID: 1, Fact: Ended{Outcome: Finished}}); f != Cancel {
		t.Errorf("the inner answer is %q", f)
	}
	if n, err := b.Dropped(); n != 1 || !errors.Is(err, w.err) {
		t.Errorf("dropped %d, %v", n, err)
	}
}

func TestEventsOfManyAgentsKeepTheOrderOfTheirRun(t *testing.T) {
	w := &batches{}
	b := Broadcast(w, nil)
	var wg sync.WaitGroup
	for run := range 4 {
		wg.Go(func() {
			for step := range 500 {
				b.Observe(Event{RunID: RunID(run + 1), Step: step, Fact: ToolCalled{}})
			}
		})
	}
	wg.Wait()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	next := map[RunID]int{}
	for _, batch := range w.all() {
		for _, ev := range batch {
			if ev.Step != next[ev.RunID] {
				t.Fatalf("run %d: step %d after %d", ev.RunID, ev.Step, next[ev.RunID]-1)
			}
			next[ev.RunID]++
		}
	}
	if diff := cmp.Diff(map[RunID]int{1: 500, 2: 500, 3: 500, 4: 500}, next); diff != "" {
		t.Error(diff)
	}
}

func TestEveryWaitForAPersonAndEveryEndIsWrittenAtOnce(t *testing.T) {
	for _, f := range []Fact{
		StepCommitted{}, ApprovalRequested{}, QuestionAsked{}, QuestionsAsked{}, PlanProposed{}, RecoveryPaused{}, Answered{}, Aborted{}, Ended{},
	} {
		w := &batches{}
		b := Broadcast(w, nil)
		b.Observe(Event{RunID: 1, Fact: ToolCalled{}})
		b.Observe(Event{RunID: 1, Fact: f})
		if got := w.all(); len(got) != 1 || len(got[0]) != 2 {
			t.Errorf("%s waits: %v", f.Kind(), got)
		}
	}
}

func TestAFullBufferDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &batches{}
		b := Broadcast(w, nil)
		for range 64 {
			b.Observe(Event{RunID: 1, Fact: ToolCalled{}})
		}
		if got := w.all(); len(got) != 1 || len(got[0]) != 64 {
			t.Errorf("%d batches", len(got))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(w.all()); n != 1 {
			t.Errorf("%d batches: an empty one was written", n)
		}
	})
}

func TestOnlyAdjacentTokensOfOneStepAreJoined(t *testing.T) {
	w := &batches{}
	b := Broadcast(w, nil)
	token := func(run RunID, step int, s string) Event { return Event{RunID: run, Step: step, Fact: Token{Text: s}} }
	sent := []Event{
		token(1, 1, " a"), token(1, 1, "b "), token(1, 2, "c"), token(2, 2, "d"), token(1, 2, "e"),
		{RunID: 1, Step: 2, Fact: ToolCalled{}}, token(1, 2, "f"), token(1, 2, "g"), {RunID: 1, Step: 2, Fact: Ended{}},
	}
	for _, ev := range sent {
		b.Observe(ev)
	}
	want := []Event{token(1, 1, " ab "), token(1, 2, "c"), token(2, 2, "d"), token(1, 2, "e"), sent[5], token(1, 2, "fg"), sent[8]}
	var got []Event
	for _, batch := range w.all() {
		got = append(got, batch...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
