package session

import (
	"context"
	"iter"

	"github.com/initorigin/io-harness-go/trace"
)

// Stream is a turn that is read event by event. It starts with the first use of
// Events or Turn, and belongs to one goroutine.
type Stream struct {
	run func(trace.ObserverFunc, context.Context) (*Turn, error)
	ctx context.Context

	started, running bool

	turn *Turn
	err  error
}

// Stream is Turn, read event by event:
//
//	st := s.Stream(ctx, "why is the build red?")
//	for ev, err := range st.Events() {
//		…
//	}
//	turn, err := st.Turn()
//
// An observer that watches the session, or comes as an option, is told as well.
func (s *Session) Stream(ctx context.Context, prompt string, opts ...Option) *Stream {
	return &Stream{ctx: ctx, run: func(tell trace.ObserverFunc, ctx context.Context) (*Turn, error) {
		tap := func(o *options) {
			inner := trace.NewWatch(o.host.Observer, o.host.Log) // that one breaks must not end the stream
			o.host.Observer = trace.ObserverFunc(func(ev trace.Event) trace.Flow {
				inner.Emit(ev)
				if tell(ev) == trace.Cancel || inner.Cancelled() {
					return trace.Cancel
				}
				return trace.Continue
			})
		}
		return s.Turn(ctx, prompt, append(append([]Option{}, opts...), tap)...)
	}}
}

// Events drives the turn and yields its events in order, on the turn's own path:
// a slow reader slows the turn, though never the stream of its provider. An
// error of the turn comes last, beside an empty event.
//
// Leaving the loop early cancels the turn's context and waits until the turn has
// stopped: its run stays resumable, and the conversation stands where it stood.
// To end a turn for good, interrupt it with a Steer and read on to its end.
func (st *Stream) Events() iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		if st.started {
			return
		}
		st.started, st.running = true, true
		ctx, cancel := context.WithCancel(st.ctx)
		events, seen := make(chan trace.Event), make(chan struct{})
		gone, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			st.turn, st.err = st.run(func(ev trace.Event) trace.Flow {
				select {
				case events <- ev:
					// The turn goes on when the event was read and not when it was
					// taken: who leaves at this event leaves at this point.
					select {
					case <-seen:
					case <-gone:
					}
				case <-gone:
				}
				return trace.Continue
			}, ctx)
		}()
		defer func() {
			cancel() // first, so that a turn that is let go on finds its context ended
			close(gone)
			<-done
			st.running = false
		}()
		for {
			select {
			case ev := <-events:
				if !yield(ev, nil) {
					return
				}
				seen <- struct{}{}
			case <-done:
				st.running = false
				if st.err != nil {
					yield(trace.Event{}, st.err)
				}
				return
			}
		}
	}
}

// Turn is what the turn came to, as Session.Turn returns it. It drives the turn
// to its end first, if nobody has read its events. While its events are being read
// there is nothing to return, and it fails with ErrTurnInProgress.
func (st *Stream) Turn() (*Turn, error) {
	for range st.Events() {
	}
	if st.running {
		return nil, ErrTurnInProgress
	}
	return st.turn, st.err
}
