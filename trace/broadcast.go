package trace

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// EventWriter makes events durable; *store.Store is one.
type EventWriter interface {
	PutEvents(ctx context.Context, events ...Event) error
}

const (
	// broadcastDelay is the longest that a piece of an answer waits for others to
	// be written with it, so that a stream of tokens is a few rows and not thousands.
	broadcastDelay = 250 * time.Millisecond
	// broadcastMax bounds how many rows wait; the run then waits for the writer.
	broadcastMax = 64
	// broadcastTimeout bounds one write.
	broadcastTimeout = 10 * time.Second
)

// Broadcaster is an Observer that writes what it sees, so that another process
// can follow the run, and passes it on. It is safe for concurrent use.
type Broadcaster struct {
	to    EventWriter // fixed at construction, as what follows
	inner Observer    // may be nil
	keep  func(Event) bool
	log   *slog.Logger

	writing sync.Mutex // held while a batch is on its way, so that batches keep their order

	mu      sync.Mutex
	waiting []Event // pieces of answers
	timer   *time.Timer
	closed  bool
	dropped int64
	last    error
	broken  map[RunID]bool // runs in which inner panicked
	flushes sync.WaitGroup
}

var _ Observer = (*Broadcaster)(nil)

// BroadcastOption changes what a Broadcaster writes, and whom it tells when it
// cannot.
type BroadcastOption func(*Broadcaster)

// BroadcastOnly writes the events for which keep says yes; all are passed on. It
// is called on the run's own goroutine.
func BroadcastOnly(keep func(Event) bool) BroadcastOption {
	return func(b *Broadcaster) { b.keep = keep }
}

// BroadcastLog tells l of events that could not be written. Nil: silent.
func BroadcastLog(l *slog.Logger) BroadcastOption {
	return func(b *Broadcaster) {
		if l != nil {
			b.log = l
		}
	}
}

// Broadcast writes each event through w and then passes it on to inner, which may
// be nil: what an observer has seen, another process can see as well.
//
// The pieces of an answer, Token and Reasoning, are passed on at once and written
// later: with the next event of another kind, after 250 ms, or when 64 rows wait.
// The tokens of a step become one row then.
//
// An inner that panics is not called again for that run, which goes on being written.
//
// A write that fails is tried once more event by event. What cannot be written is
// counted by Dropped and told to the logger of BroadcastLog, and fails nothing.
// Call Close when the run is over.
//
// What is written to a store in memory can be followed in its own process only.
func Broadcast(w EventWriter, inner Observer, opts ...BroadcastOption) *Broadcaster {
	b := &Broadcaster{to: w, inner: inner, log: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		if opt != nil {
			opt(b)
		}
	}
	return b
}

// Observe writes the event, or keeps a piece of an answer for writing, and passes
// it on.
func (b *Broadcaster) Observe(ev Event) Flow {
	if b.keep == nil || b.keep(ev) {
		b.put(ev)
	}
	if b.inner == nil {
		return Continue
	}
	return b.pass(ev)
}

// pass tells inner. One that panics is not told of that run again, and takes what is
// written nowhere with it: another process may follow the run by it.
func (b *Broadcaster) pass(ev Event) (flow Flow) {
	b.mu.Lock()
	broken := b.broken[ev.RunID]
	b.mu.Unlock()
	if broken {
		return Continue
	}
	defer func() {
		if p := recover(); p != nil {
			b.log.Error("the observer behind the broadcast panicked and is not called again for this run",
				"run", ev.RunID, "event", ev.Kind(), "panic", p)
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.broken == nil {
				b.broken = map[RunID]bool{}
			}
			b.broken[ev.RunID], flow = true, Continue
		}
	}()
	return b.inner.Observe(ev)
}

func (b *Broadcaster) put(ev Event) {
	b.mu.Lock()
	if !b.merge(ev) {
		b.waiting = append(b.waiting, ev)
	}
	now := b.closed || !piece(ev) || len(b.waiting) >= broadcastMax
	if !now && b.timer == nil {
		b.timer = time.AfterFunc(broadcastDelay, b.late)
	}
	b.mu.Unlock()
	if now {
		b.flush()
	}
}

// merge adds a token to what its run said last, when that was a token of the same
// step.
func (b *Broadcaster) merge(ev Event) bool {
	tok, ok := ev.Fact.(Token)
	if !ok {
		return false
	}
	for i := len(b.waiting) - 1; i >= 0; i-- {
		prev := &b.waiting[i]
		if prev.RunID != ev.RunID {
			continue
		}
		before, ok := prev.Fact.(Token)
		if !ok || prev.Step != ev.Step || prev.Depth != ev.Depth {
			return false
		}
		prev.Fact = Token{Text: before.Text + tok.Text}
		return true
	}
	return false
}

// piece reports whether an event is a part of an answer that is still coming in.
func piece(ev Event) bool {
	switch ev.Fact.(type) {
	case Token, Reasoning:
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
	err := b.to.PutEvents(ctx, batch...)
	if err == nil {
		return
	}
	if len(batch) == 1 {
		b.lose(batch[0], err)
		return
	}
	// One that can never be written must not take the others with it.
	for _, ev := range batch {
		if err := b.to.PutEvents(ctx, ev); err != nil {
			b.lose(ev, err)
		}
	}
}

func (b *Broadcaster) lose(ev Event, err error) {
	b.log.Error("an event could not be written", "run", ev.RunID, "step", ev.Step, "event", ev.Kind(), "error", err)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropped++
	b.last = err
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
