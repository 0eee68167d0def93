package trace

import (
	"context"
	"errors"
	"sync"
	"time"
)

// EventLog keeps events where another process can read them. *store.Store is one.
type EventLog interface {
	// PutEvents makes events durable, in their order.
	PutEvents(ctx context.Context, events ...Event) error
	// Path is the file that others open; empty when there is none.
	Path() string
}

// Bounds of a Broadcaster's buffer. A reader looks every 200 ms at best, so a row
// that is 50 ms late is not late; and one transaction for many events costs
// little more than one for each.
const (
	broadcastDelay = 50 * time.Millisecond
	broadcastBatch = 64
	// broadcastWait bounds one write: a store that is busy for longer loses the
	// events, since a run must not wait for its watchers.
	broadcastWait = 5 * time.Second
)

// ErrNoFile says that a log has no file, so that nobody could follow it.
var ErrNoFile = errors.New("trace: events of a store in memory cannot be followed by another process: open a file")

// Broadcaster is an observer that makes a run's events durable, so that another
// process can attach to the run. It is safe for concurrent use and may watch
// several runs.
type Broadcaster struct {
	log  EventLog
	next Observer

	writing sync.Mutex // held while a batch is written, so that the order stays

	mu      sync.Mutex
	buf     []Event
	timer   *time.Timer
	dropped int64
}

// Broadcast returns an observer that keeps each event in log and passes it on to
// next, which may be nil and whose answer it gives.
//
// Events are written in batches, at most 50 ms or 64 events late, and at once
// with a step's commit and with the end of a drive. Pieces of an answer that come
// one after the other become one event; their texts, one after the other, stay
// the answer. What cannot be written is counted and never fails or delays the run
// by more than 5 s. It fails with ErrNoFile for a store in memory.
func Broadcast(log EventLog, next Observer) (*Broadcaster, error) {
	if log.Path() == "" {
		return nil, ErrNoFile
	}
	return &Broadcaster{log: log, next: next}, nil
}

// Observe keeps ev and passes it on.
func (b *Broadcaster) Observe(ev Event) Flow {
	if b.add(ev) {
		b.flush()
	}
	if b.next == nil {
		return Continue
	}
	return b.next.Observe(ev)
}

// Dropped counts the events that could not be written.
func (b *Broadcaster) Dropped() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}

// add puts ev into the buffer and reports whether it must be written now.
func (b *Broadcaster) add(ev Event) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := len(b.buf) - 1; last < 0 || !coalesce(&b.buf[last], ev) {
		b.buf = append(b.buf, ev)
	}
	switch ev.Fact.(type) {
	case StepCommitted, Ended, Aborted, Answered:
		return true
	}
	if len(b.buf) >= broadcastBatch {
		return true
	}
	if b.timer == nil {
		b.timer = time.AfterFunc(broadcastDelay, b.flush)
	}
	return false
}

// coalesce adds a piece of an answer to the piece before it.
func coalesce(last *Event, ev Event) bool {
	a, ok := last.Fact.(Token)
	b, also := ev.Fact.(Token)
	if !ok || !also || last.RunID != ev.RunID || last.Step != ev.Step || last.Depth != ev.Depth {
		return false
	}
	last.Fact = Token{Text: a.Text + b.Text}
	return true
}

// flush writes what there is.
func (b *Broadcaster) flush() {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	batch := b.buf
	b.buf = nil
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	b.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), broadcastWait)
	defer cancel()
	if err := b.log.PutEvents(ctx, batch...); err != nil {
		b.mu.Lock()
		b.dropped += int64(len(batch))
		b.mu.Unlock()
	}
}
