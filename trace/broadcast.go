package trace

import (
	"context"
	"sync"
	"time"
)

// EventWriter makes events durable; *store.Store is one.
type EventWriter interface {
	PutEvents(ctx context.Context, events ...Event) error
}

const (
	// broadcastDelay is the longest that an event waits for others to be written
	// with it, so that a stream of tokens is a few rows and not thousands. A reader
	// looks every 200 ms at best, so what is 50 ms late is not late.
	broadcastDelay = 50 * time.Millisecond
	// broadcastMax bounds what waits; the run then waits for the writer.
	broadcastMax = 64
	// broadcastTimeout bounds one write.
	broadcastTimeout = 10 * time.Second
)

// Broadcaster is an Observer that writes what it sees, so that another process
// can follow the run, and passes it on. It is safe for concurrent use.
type Broadcaster struct {
	to    EventWriter // fixed at construction
	inner Observer    // may be nil

	writing sync.Mutex // held while a batch is on its way, so that batches keep their order

	mu      sync.Mutex
	waiting []Event
	timer   *time.Timer
	closed  bool
	dropped int64
	last    error
	flushes sync.WaitGroup
}

var _ Observer = (*Broadcaster)(nil)

// Broadcast writes each event through w and passes it on to inner, which may be
// nil. Adjacent tokens of one step become one event in the store. Events are
// written together, 64 at a time or after 50 ms, and at once when a step was
// committed, somebody is asked, or driving ends. A write that fails costs the
// events and nothing else: Dropped counts them. Call Close when the run is over.
//
// What is written to a store in memory can be followed in its own process only.
func Broadcast(w EventWriter, inner Observer) *Broadcaster {
	return &Broadcaster{to: w, inner: inner}
}

// Observe keeps the event for writing and passes it on.
func (b *Broadcaster) Observe(ev Event) Flow {
	b.mu.Lock()
	if !b.merge(ev) {
		b.waiting = append(b.waiting, ev)
	}
	now := b.closed || pressing(ev) || len(b.waiting) >= broadcastMax
	if !now && b.timer == nil {
		b.timer = time.AfterFunc(broadcastDelay, b.late)
	}
	b.mu.Unlock()
	if now {
		b.flush()
	}
	if b.inner == nil {
		return Continue
	}
	return b.inner.Observe(ev)
}

// merge adds a token to the one before it, when both are of one step of one run.
func (b *Broadcaster) merge(ev Event) bool {
	tok, ok := ev.Fact.(Token)
	if !ok || len(b.waiting) == 0 {
		return false
	}
	prev := &b.waiting[len(b.waiting)-1]
	before, ok := prev.Fact.(Token)
	if !ok || prev.RunID != ev.RunID || prev.Step != ev.Step || prev.Depth != ev.Depth {
		return false
	}
	prev.Fact = Token{Text: before.Text + tok.Text}
	return true
}

// pressing events are what a reader acts on, or the last for a while.
func pressing(ev Event) bool {
	switch ev.Fact.(type) {
	case StepCommitted, ApprovalRequested, QuestionAsked, QuestionsAsked, PlanProposed, RecoveryPaused, Answered, Aborted, Ended:
		return true
	}
	return false
}

// late is the timer's flush.
func (b *Broadcaster) late() {
	b.mu.Lock()
	b.timer = nil
	if b.closed {
		b.mu.Unlock()
		return
	}
	b.flushes.Add(1)
	b.mu.Unlock()
	defer b.flushes.Done()
	b.flush()
}

func (b *Broadcaster) flush() {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	batch := b.waiting
	b.waiting = nil
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	b.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), broadcastTimeout)
	defer cancel()
	if err := b.to.PutEvents(ctx, batch...); err != nil {
		b.mu.Lock()
		b.dropped += int64(len(batch))
		b.last = err
		b.mu.Unlock()
	}
}

// Dropped counts the events that could not be written, and names the last cause.
func (b *Broadcaster) Dropped() (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped, b.last
}

// Close writes what still waits and ends the timer. Later events are written
// one by one. It may be called twice.
func (b *Broadcaster) Close() error {
	b.mu.Lock()
	b.closed = true
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	b.mu.Unlock()
	b.flushes.Wait()
	b.flush()
	return nil
}
