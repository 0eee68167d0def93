package loop

import (
	"slices"

	"github.com/initorigin/io-harness-go/task"
)

// stall decides whether a run gets anywhere. It is fed every step before the
// step commits and starts afresh with every drive: a resumed run gets a whole
// window.
type stall struct {
	window, replansLeft int

	recent       []string // signatures of the window, oldest first
	repeats      int      // how many steps in a row had the last signature
	unproductive int      // how many steps in a row changed nothing
}

type progress int

const (
	moving  progress = iota
	replan           // to be told once to change its approach
	stalled          // told before, and still nothing
)

func newStall(policy task.Stall) *stall {
	window, replans := policy.Limits()
	return &stall{window: window, replansLeft: replans}
}

// step judges one step by what it asked for and whether anything changed.
//
// Two things count as a stall: the same calls again and again, whatever they
// changed, and a window of steps that changed nothing and come back to calls
// already made in it. Looking around with different calls never does.
func (s *stall) step(signature string, changed bool) progress {
	if s.window == 0 {
		return moving
	}
	if n := len(s.recent); n > 0 && s.recent[n-1] == signature {
		s.repeats++
	} else {
		s.repeats = 1
	}
	seen := slices.Contains(s.recent, signature)
	if changed {
		s.unproductive = 0
		s.recent = s.recent[:0]
	} else {
		s.unproductive++
	}
	s.recent = append(s.recent, signature)
	if over := len(s.recent) - s.window; over > 0 {
		s.recent = s.recent[over:]
	}
	// A window of one would otherwise fire on every step: a stall takes two
	// equal steps at the least.
	same := s.repeats >= max(s.window, 2)
	circling := !changed && s.unproductive >= s.window && seen
	if !same && !circling {
		return moving
	}
	if s.replansLeft == 0 {
		return stalled
	}
	s.replansLeft--
	s.recent, s.repeats, s.unproductive = nil, 0, 0
	return replan
}
