package trace

import (
	"log/slog"
	"sync"
)

// Flow is an observer's answer to an event.
type Flow string

// The answers. The zero value goes on.
const (
	Continue Flow = ""
	Cancel   Flow = "cancel"
)

// Observer watches a run. Observe is called once for each event, in the order
// in which the run produced them and on the run's own path, so a slow observer
// slows the run. It is never entered twice at once. It cannot fail a run: a
// panic is recovered and logged, and the observer is not called again.
//
// Answering Cancel to any event ends the run as cancelled at its next step
// boundary; the step in progress is finished and committed first. To stop at
// once and keep the run resumable, cancel the context instead.
type Observer interface {
	Observe(Event) Flow
}

// ObserverFunc makes an Observer of a function.
type ObserverFunc func(Event) Flow

// Observe calls f.
func (f ObserverFunc) Observe(ev Event) Flow { return f(ev) }

// Watch passes events to one observer and remembers a cancel. It is safe for
// concurrent use; a nil *Watch, and one without an observer, watch nothing.
type Watch struct {
	observer Observer
	log      *slog.Logger

	mu        sync.Mutex
	cancelled bool
	dead      bool
}

// NewWatch returns a watch for o, which may be nil. A nil logger is silent.
func NewWatch(o Observer, log *slog.Logger) *Watch {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Watch{observer: o, log: log}
}

// Watched reports whether anybody watches, so that costly events can be left out.
func (w *Watch) Watched() bool { return w != nil && w.observer != nil }

// Emit hands ev to the observer.
func (w *Watch) Emit(ev Event) {
	if !w.Watched() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			w.dead = true
			w.log.Error("observer panicked and is not called again for this run",
				"run", ev.RunID, "event", ev.Kind(), "panic", p)
		}
	}()
	if w.observer.Observe(ev) == Cancel {
		w.cancelled = true
	}
}

// Cancelled reports whether the observer asked for the end of the run.
func (w *Watch) Cancelled() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cancelled
}
