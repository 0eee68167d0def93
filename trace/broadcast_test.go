package trace

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
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

func piecing(run RunID, step int, s string) Event {
	return Event{RunID: run, Step: step, Fact: Token{Text: s}}
}

func TestAnEventIsWrittenBeforeItIsPassedOn(t *testing.T) {
	for _, f := range facts {
		w := &batches{}
		written := 0
		b := Broadcast(w, ObserverFunc(func(Event) Flow {
			for _, batch := range w.all() {
				written += len(batch)
			}
			return Continue
		}))
		b.Observe(Event{RunID: 1, Fact: f})
		waits := piece(Event{Fact: f})
		if written == 0 != waits {
			t.Errorf("%s: %d written before it was passed on", f.Kind(), written)
		}
		if err := b.Close(); err != nil || len(w.all()) != 1 {
			t.Errorf("%s: %d batches behind the close, %v", f.Kind(), len(w.all()), err)
		}
	}
}

func TestThePiecesOfAnAnswerWaitForOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &batches{}
		b := Broadcast(w, nil)
		for range 20 { // a piece every 50 ms for a second
			b.Observe(piecing(1, 1, "x"))
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		text := ""
		for _, batch := range w.all() {
			for _, ev := range batch {
				text += ev.Fact.(Token).Text
			}
		}
		if n := len(w.all()); n > 5 || n < 3 || len(text) != 20 {
			t.Errorf("%d rows with %q in a second", n, text)
		}
		b.Observe(piecing(1, 1, "y"))
		for range 2 {
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		n := len(w.all())
		b.Observe(piecing(1, 1, "z"))
		if got := w.all(); len(got) != n+1 {
			t.Errorf("%d batches behind the close, want %d", len(got), n+1)
		}
	})
}

func TestTokensOfTwoRunsAtOnceAreOneRowEach(t *testing.T) {
	w := &batches{}
	b := Broadcast(w, nil)
	for range 30 {
		b.Observe(piecing(1, 1, "a"))
		b.Observe(piecing(2, 4, "b"))
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	want := [][]Event{{piecing(1, 1, strings.Repeat("a", 30)), piecing(2, 4, strings.Repeat("b", 30))}}
	if diff := cmp.Diff(want, w.all()); diff != "" {
		t.Error(diff)
	}
}

// Another process follows the run by what is written: what breaks here must not end it.
func TestAnObserverThatPanicsDoesNotEndTheBroadcast(t *testing.T) {
	w := &batches{}
	var told []RunID
	b := Broadcast(w, ObserverFunc(func(ev Event) Flow {
		if told = append(told, ev.RunID); ev.RunID == 1 {
			panic("at the disco")
		}
		return Cancel
	}))
	watch := NewWatch(b, nil)
	for _, run := range []RunID{1, 1, 2} {
		watch.Emit(Event{RunID: run, Fact: StepCommitted{}})
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(w.all()); n != 3 {
		t.Errorf("%d of 3 events are written", n)
	}
	if diff := cmp.Diff([]RunID{1, 2}, told); diff != "" || !watch.Cancelled() {
		t.Errorf("cancelled: %t; told of the runs:\n%s", watch.Cancelled(), diff)
	}
}

func TestOnlyWhatIsWantedIsWrittenAndEverythingPassedOn(t *testing.T) {
	w := &batches{}
	seen := 0
	b := Broadcast(w, ObserverFunc(func(Event) Flow { seen++; return Continue }),
		BroadcastOnly(func(ev Event) bool { return ev.Kind() != "token" }), nil)
	b.Observe(piecing(1, 1, "secret"))
	b.Observe(Event{RunID: 1, Fact: StepCommitted{}})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]Event{{{RunID: 1, Fact: StepCommitted{}}}}, w.all()); diff != "" || seen != 2 {
		t.Errorf("%d passed on; %s", seen, diff)
	}
}

func TestAWriteThatFailsCostsTheEventsAndNothingElse(t *testing.T) {
	w := &batches{err: errors.New("no space")}
	var log bytes.Buffer
	b := Broadcast(w, ObserverFunc(func(Event) Flow { return Cancel }), BroadcastLog(slog.New(slog.NewTextHandler(&log, nil))), BroadcastLog(nil))
	if f := b.Observe(Event{RunID: 7, Fact: Ended{Outcome: Finished}}); f != Cancel {
		t.Errorf("the inner answer is %q", f)
	}
	if n, err := b.Dropped(); n != 1 || !errors.Is(err, w.err) {
		t.Errorf("dropped %d, %v", n, err)
	}
	if !strings.Contains(log.String(), "run=7") || !strings.Contains(log.String(), "no space") {
		t.Errorf("the log says %q", log.String())
	}
}

// picky refuses every batch that holds a certain event, as a store does with one
// that it cannot make JSON of.
type picky struct{ batches }

func (p *picky) PutEvents(ctx context.Context, events ...Event) error {
	for _, ev := range events {
		if ev.Step == 13 {
			return errors.New("an event that cannot be written")
		}
	}
	return p.batches.PutEvents(ctx, events...)
}

func TestAnEventThatCannotBeWrittenTakesNoOtherWithIt(t *testing.T) {
	w := &picky{}
	b := Broadcast(w, nil)
	for step := 12; step <= 14; step++ {
		b.Observe(piecing(1, step, "x"))
	}
	b.Observe(Event{RunID: 1, Step: 15, Fact: StepCommitted{}})
	var steps []int
	for _, batch := range w.all() {
		for _, ev := range batch {
			steps = append(steps, ev.Step)
		}
	}
	n, err := b.Dropped()
	if diff := cmp.Diff([]int{12, 14, 15}, steps); diff != "" || n != 1 || err == nil {
		t.Errorf("%d dropped, %v; %s", n, err, diff)
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

func TestAFullBufferDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &batches{}
		b := Broadcast(w, nil)
		for i := range broadcastMax {
			b.Observe(piecing(1, i, "x"))
		}
		if got := w.all(); len(got) != 1 || len(got[0]) != broadcastMax {
			t.Errorf("%d batches", len(got))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(w.all()); n != 1 {
			t.Errorf("%d batches: an empty one was written", n)
		}
	})
}

func TestOnlyTokensOfOneStepAreJoined(t *testing.T) {
	w := &batches{}
	b := Broadcast(w, nil)
	sent := []Event{
		piecing(1, 1, " a"), piecing(1, 1, "b "), piecing(1, 2, "c"), piecing(2, 2, "d"), piecing(1, 2, "e"),
		{RunID: 1, Step: 2, Fact: ToolCalled{}}, piecing(1, 2, "f"), piecing(1, 2, "g"), {RunID: 1, Step: 2, Fact: Ended{}},
	}
	for _, ev := range sent {
		b.Observe(ev)
	}
	want := []Event{piecing(1, 1, " ab "), piecing(1, 2, "ce"), piecing(2, 2, "d"), sent[5], piecing(1, 2, "fg"), sent[8]}
	var got []Event
	for _, batch := range w.all() {
		got = append(got, batch...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// slowWriter lets something happen while the first batch is written.
type slowWriter struct {
	batches
	middle    func()
	unbounded bool // a write could have taken for ever
}

func (w *slowWriter) PutEvents(ctx context.Context, events ...Event) error {
	if _, bounded := ctx.Deadline(); !bounded {
		w.unbounded = true
	}
	if w.middle != nil {
		middle := w.middle
		w.middle = nil
		middle()
	}
	return w.batches.PutEvents(ctx, events...)
}

// What happened first is written first, however long that takes.
func TestALaterBatchDoesNotOvertake(t *testing.T) {
	w := &slowWriter{}
	b := Broadcast(w, nil)
	done := make(chan struct{})
	w.middle = func() {
		go func() {
			defer close(done)
			b.Observe(Event{RunID: 1, Step: 2, Fact: StepCommitted{}})
		}()
		select {
		case <-done:
			t.Error("an event was written while the one before it was")
		case <-time.After(30 * time.Millisecond): // whoever does not wait is done sooner
		}
	}
	b.Observe(Event{RunID: 1, Step: 1, Fact: StepCommitted{}})
	<-done
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	var steps []int
	for _, batch := range w.all() {
		for _, ev := range batch {
			steps = append(steps, ev.Step)
		}
	}
	if diff := cmp.Diff([]int{1, 2}, steps); diff != "" {
		t.Error(diff)
	}
	if w.unbounded {
		t.Error("a write may take for ever")
	}
}
