package trace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// memoryLog is a log that remembers its batches.
type memoryLog struct {
	mu      sync.Mutex
	batches [][]Event
	at      []time.Time
	err     error
	file    string
}

func newLog() *memoryLog { return &memoryLog{file: "runs.db"} }

func (l *memoryLog) Path() string { return l.file }

func (l *memoryLog) PutEvents(_ context.Context, events ...Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.batches = append(l.batches, events)
	l.at = append(l.at, time.Now())
	return nil
}

func (l *memoryLog) sizes() (out []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.batches {
		out = append(out, len(b))
	}
	return out
}

func (l *memoryLog) all() (out []Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.batches {
		out = append(out, b...)
	}
	return out
}

func broadcast(t *testing.T, l EventLog, next Observer) *Broadcaster {
	t.Helper()
	b, err := Broadcast(l, next)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func call(n int) Event { return Event{RunID: 1, Step: 1, Fact: ToolCalled{Name: fmt.Sprint(n)}} }

func TestBroadcastWritesInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		b := broadcast(t, l, nil)
		began := time.Now()
		b.Observe(call(1))
		b.Observe(call(2))
		if n := len(l.sizes()); n != 0 {
			t.Errorf("%d batches at once", n)
		}
		time.Sleep(time.Second)
		if diff := cmp.Diff([]int{2}, l.sizes()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
		if late := l.at[0].Sub(began); late != 50*time.Millisecond {
			t.Errorf("%s late", late)
		}
		for i := range 64 {
			b.Observe(call(i))
		}
		if diff := cmp.Diff([]int{2, 64}, l.sizes()); diff != "" {
			t.Errorf("a full buffer waits (-want +got):\n%s", diff)
		}
		time.Sleep(time.Second)
		if n := len(l.sizes()); n != 2 {
			t.Errorf("%d batches: an empty one was written", n)
		}
	})
}

func TestBroadcastWritesAtOnceWhatEndsSomething(t *testing.T) {
	for _, f := range []Fact{StepCommitted{}, Ended{}, Aborted{}, Answered{}} {
		l := newLog()
		b := broadcast(t, l, nil)
		b.Observe(call(1))
		b.Observe(Event{RunID: 1, Fact: f})
		if diff := cmp.Diff([]int{2}, l.sizes()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f.Kind(), diff)
		}
	}
}

func TestBroadcastMakesOneRowOfAdjacentTokens(t *testing.T) {
	l := newLog()
	b := broadcast(t, l, nil)
	token := func(run RunID, step int, s string) Event { return Event{RunID: run, Step: step, Fact: Token{Text: s}} }
	for _, ev := range []Event{
		token(1, 1, " a"), token(1, 1, "b "), token(1, 2, "c"), token(2, 2, "d"), token(1, 2, "e"), call(1), token(1, 2, "f"), token(1, 2, "g"),
		{RunID: 1, Fact: Ended{}},
	} {
		b.Observe(ev)
	}
	var got []string
	for _, ev := range l.all() {
		if f, ok := ev.Fact.(Token); ok {
			got = append(got, fmt.Sprintf("%d/%d:%s", ev.RunID, ev.Step, f.Text))
		} else {
			got = append(got, ev.Kind())
		}
	}
	if diff := cmp.Diff([]string{"1/1: ab ", "1/2:c", "2/2:d", "1/2:e", "tool_call", "1/2:fg", "finished"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestBroadcastPassesOnEveryEventAndTheAnswer(t *testing.T) {
	var seen []Event
	l := newLog()
	b := broadcast(t, l, ObserverFunc(func(ev Event) Flow {
		seen = append(seen, ev)
		if ev.Kind() == "tool_call" {
			return Cancel
		}
		return Continue
	}))
	sent := []Event{{RunID: 1, Fact: Token{Text: "a"}}, {RunID: 1, Fact: Token{Text: "b"}}, call(1), {RunID: 1, Fact: Ended{}}}
	var flows []Flow
	for _, ev := range sent {
		flows = append(flows, b.Observe(ev))
	}
	if diff := cmp.Diff(sent, seen); diff != "" {
		t.Errorf("passed on (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Flow{Continue, Continue, Cancel, Continue}, flows); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestALogThatFailsLosesEventsAndNothingElse(t *testing.T) {
	l := newLog()
	l.err = errors.New("disk full")
	n := 0
	b := broadcast(t, l, ObserverFunc(func(Event) Flow { n++; return Continue }))
	for range 3 {
		b.Observe(call(1))
	}
	b.Observe(Event{RunID: 1, Fact: Ended{}})
	if b.Dropped() != 4 || n != 4 {
		t.Errorf("dropped %d, passed on %d", b.Dropped(), n)
	}
	l.err = nil
	b.Observe(Event{RunID: 1, Fact: Ended{}})
	if len(l.all()) != 1 {
		t.Errorf("after the failure: %v", l.all())
	}
}

func TestALogWithoutAFileIsRefused(t *testing.T) {
	if _, err := Broadcast(&memoryLog{}, nil); !errors.Is(err, ErrNoFile) || !strings.Contains(err.Error(), "open a file") {
		t.Errorf("error %v", err)
	}
}

func TestBroadcastKeepsTheOrderOfEachRunUnderConcurrency(t *testing.T) {
	l := newLog()
	b := broadcast(t, l, nil)
	var wg sync.WaitGroup
	for run := range 4 {
		wg.Go(func() {
			for i := range 500 {
				b.Observe(Event{RunID: RunID(run + 1), Step: i, Fact: ToolCalled{Name: "x"}})
			}
			b.Observe(Event{RunID: RunID(run + 1), Step: 500, Fact: Ended{}})
		})
	}
	wg.Wait()
	next := map[RunID]int{}
	for _, ev := range l.all() {
		if ev.Step != next[ev.RunID] {
			t.Fatalf("run %d: step %d behind %d", ev.RunID, ev.Step, next[ev.RunID]-1)
		}
		next[ev.RunID]++
	}
	for run, n := range next {
		if n != 501 {
			t.Errorf("run %d: %d events", run, n)
		}
	}
}
