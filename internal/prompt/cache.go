package prompt

import (
	"bytes"
	"slices"

	"github.com/initorigin/io-harness-go/provider"
)

// PrefixGuard decides how much of a request may be marked for the vendor's cache.
// A mark costs a quarter more than it would to send the text, and saves nine
// tenths of it on each request that repeats it, so nothing is marked on a guess:
//
//   - what was sent before, message for message, may be marked;
//   - and when the last request came again whole, but for the instruction at its
//     end, then the conversation only grows, and all of this one may be marked but
//     for its own end.
//
// A change in the middle (a fold, a note, a read that no longer holds) withdraws
// the mark to what stands before it, for one step. A flat request is marked
// through the summary of a fold, once it was sent before.
//
// One guard serves one agent for one drive; the zero value has seen nothing. It
// keeps the messages of the last request, and is not safe for concurrent use.
type PrefixGuard struct {
	messages []provider.Message
	flat     string
	marking  bool
}

// Mark looks at the request of the next step and returns the boundary for it in
// bytes of User, 0 for none. began says that marking starts with this request.
func (g *PrefixGuard) Mark(r Rendered) (boundary int, began bool) {
	boundary = g.repeated(r)
	g.messages, g.flat = r.Messages, r.User[:r.Frozen]
	began = boundary > 0 && !g.marking
	g.marking = boundary > 0
	return boundary, began
}

func (g *PrefixGuard) repeated(r Rendered) int {
	if len(r.Messages) == 0 {
		if flat := r.User[:r.Frozen]; flat == g.flat {
			return len(flat)
		}
		return 0
	}
	n := 0
	for n < len(g.messages) && n < len(r.Messages) && same(g.messages[n], r.Messages[n]) {
		n++
	}
	if end := len(g.messages) - 1; n >= end && end > 0 {
		n = len(r.Messages)
	}
	n = min(n, len(r.Messages)-1) // its end is the instruction of this step
	for n > 0 && len(r.Messages[n-1].Calls) > 0 {
		n--
	}
	if n == 0 {
		return 0
	}
	return r.ends[n-1]
}

func same(a, b provider.Message) bool {
	return a.Role == b.Role && a.Text == b.Text && bytes.Equal(a.Carry, b.Carry) && slices.Equal(a.Results, b.Results) &&
		slices.EqualFunc(a.Calls, b.Calls, func(x, y provider.ToolCall) bool {
			return x.ID == y.ID && x.Name == y.Name && bytes.Equal(x.Arguments, y.Arguments)
		})
}

// CacheThrough is how many leading messages lie wholly inside the boundary: 0
// when that is none of them or all. A turn with calls is never the last of them.
func (r Rendered) CacheThrough(boundary int) int {
	if boundary <= 0 {
		return 0
	}
	n := 0
	for n < len(r.ends) && r.ends[n] <= boundary {
		n++
	}
	if n == len(r.ends) {
		return 0
	}
	for n > 0 && len(r.Messages[n-1].Calls) > 0 {
		n-- // a turn may be told as prose on the next request
	}
	return n
}

// StepThrough is the newest step that one of the first n messages tells of.
func (r Rendered) StepThrough(n int) int {
	step := 0
	for _, s := range r.steps[:min(max(n, 0), len(r.steps))] {
		step = max(step, s)
	}
	return step
}
