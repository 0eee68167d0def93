package session

import (
	"errors"
	"strings"
	"sync"

	"github.com/initorigin/io-harness-go/internal/loop"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
)

// ErrTurnEnded says that the turn is over: what was said reaches nobody.
var ErrTurnEnded = errors.New("session: the turn has ended")

// When says at which point of a turn an interrupt takes effect.
type When string

// The points, the latest first.
const (
	// AfterTools waits until the step in progress has committed, its tools
	// included.
	AfterTools When = ""
	// AfterCompletion waits for the model's answer. None of the tools that it
	// asks for runs; what it said is kept.
	AfterCompletion When = "completion"
	// AtOnce drops the call that is being made: its processes are killed and
	// nothing of the step in progress is kept.
	AtOnce When = "at_once"
)

// Steering is what was waiting for a turn.
type Steering struct {
	Messages    []string
	Interrupted bool
	Fold        bool
}

// Steer talks to a running turn. It is safe for concurrent use and never blocks.
// Everything takes effect at the next boundary of a step and nowhere else,
// except for an interrupt that says otherwise; what is said before the turn
// starts is read at its first step. Steering permits nothing: policy, budget and
// sandbox stay what they are.
type Steer struct{ line *steerLine }

// SteerInbox is the turn's end of a Steer: hand it to WithSteer. It serves one
// turn.
type SteerInbox struct{ line *steerLine }

// NewSteer makes both ends.
func NewSteer() (*Steer, *SteerInbox) {
	l := &steerLine{atOnce: make(chan struct{})}
	return &Steer{l}, &SteerInbox{l}
}

// Say tells the model text, in the operator's name, with the next request. White
// space alone says nothing. It fails with ErrTurnEnded once the turn is over.
//
// While the turn runs, what is said is in its store within 20 ms: should the
// process die before the turn has read it, ResumeTurn reads it first. What nobody
// has read when the turn is over is in Turn.Undelivered or TurnError.Undelivered.
func (s *Steer) Say(text string) error {
	return s.line.put(func(p *loop.Steering) {
		if strings.TrimSpace(text) != "" {
			p.Messages = append(p.Messages, s.line.number(text))
		}
	})
}

// Interrupt ends the turn as cancelled at the point that when names. What was
// said before it is kept, and the conversation goes on: the next turn follows
// this one. Of several interrupts the earliest point holds. To stop a turn and
// keep its run resumable, cancel its context instead.
func (s *Steer) Interrupt(when When) error {
	switch when {
	case AfterTools, AfterCompletion, AtOnce:
	default:
		return &task.InvalidError{Field: "when", Reason: "is " + string(when) + ": write AfterTools, AfterCompletion or AtOnce"}
	}
	return s.line.interrupt(loop.When(when))
}

// Fold asks for the older part of what the model is shown to become one
// paragraph before the next request, full or not. Where there is nothing to
// fold, or the contract never folds, nothing happens.
func (s *Steer) Fold() error { return s.line.put(func(p *loop.Steering) { p.Fold = true }) }

// steerLine is a queue between whoever steers and one turn.
type steerLine struct {
	atOnce chan struct{} // closed by an interrupt that does not wait

	mu      sync.Mutex
	busy    bool
	ended   bool
	waiting loop.Steering
	next    int              // the number of the next word
	keep    func(store.Said) // nil until a drive listens
}

// number gives a word its place, and has it kept. l.mu is held.
func (l *steerLine) number(text string) store.Said {
	m := store.Said{Number: l.next, Text: text}
	l.next++
	if l.keep != nil {
		l.keep(m)
	}
	return m
}

// Attach has what waits, and what will be said, kept by a drive.
func (l *steerLine) Attach(next int, keep func(store.Said)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next, l.keep = next, keep
	for i, m := range l.waiting.Messages {
		l.waiting.Messages[i] = l.number(m.Text)
	}
}

func (l *steerLine) put(change func(*loop.Steering)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return ErrTurnEnded
	}
	change(&l.waiting)
	return nil
}

// urgency orders the points, the most urgent last.
var urgency = map[loop.When]int{loop.AfterTools: 0, loop.AfterCompletion: 1, loop.AtOnce: 2}

func (l *steerLine) interrupt(when loop.When) error {
	return l.put(func(p *loop.Steering) {
		if !p.Interrupted || urgency[when] > urgency[p.When] {
			p.When = when
		}
		p.Interrupted = true
		if when == loop.AtOnce {
			select {
			case <-l.atOnce:
			default:
				close(l.atOnce)
			}
		}
	})
}

// bind gives the line to a turn.
func (l *steerLine) bind() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return &task.InvalidError{Field: "WithSteer", Reason: "the turn of this inbox has ended: make another with NewSteer"}
	case l.busy:
		return &task.InvalidError{Field: "WithSteer", Reason: "this inbox serves a turn that is running: make another with NewSteer"}
	}
	l.busy = true
	return nil
}

// release takes the line from its turn. ran says that the turn came to be; then
// the line is closed, and what nobody read is returned.
func (l *steerLine) release(ran bool) Steering {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
	if !ran {
		return Steering{}
	}
	l.ended, l.keep = true, nil
	w := l.waiting
	l.waiting = loop.Steering{}
	left := Steering{Interrupted: w.Interrupted, Fold: w.Fold}
	for _, m := range w.Messages {
		left.Messages = append(left.Messages, m.Text)
	}
	return left
}

// Pending takes what is waiting.
func (l *steerLine) Pending() loop.Steering {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.waiting
	l.waiting = loop.Steering{}
	return w
}

// Unread takes the words that are waiting, and leaves the rest.
func (l *steerLine) Unread() []store.Said {
	l.mu.Lock()
	defer l.mu.Unlock()
	words := l.waiting.Messages
	l.waiting.Messages = nil
	return words
}

// Interrupted reports whether an interrupt waits that is at least as urgent as by.
func (l *steerLine) Interrupted(by loop.When) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting.Interrupted && urgency[l.waiting.When] >= urgency[by]
}

// AtOnce is closed by an interrupt that does not wait.
func (l *steerLine) AtOnce() <-chan struct{} { return l.atOnce }

var _ loop.Inbox = (*steerLine)(nil)
