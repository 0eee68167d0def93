package wire

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/initorigin/io-harness-go/provider"
)

// A Slot is one tool call in the making.
type Slot struct {
	order int // position among the slots; unique
	index int // the wire's index, -1 when it gave none

	ID    string // the vendor's id, only for telling calls apart
	Name  string
	Extra string // vendor JSON that must go back with the call, "" for most

	args []byte
	scan objectScan

	// Both are of the closed object, which only white space can follow: they
	// stay, and are found out once however much comes behind.
	judged, whole bool

	reported bool
	unfit    bool // whole, and nothing that may be reported
}

// SetName sets the name; a later name replaces it, because servers that repeat
// a name send it whole each time.
func (s *Slot) SetName(name string) {
	if name != "" {
		s.Name = name
	}
}

// Append adds a fragment of the arguments.
func (s *Slot) Append(fragment string) {
	s.args = append(s.args, fragment...)
	s.scan.feed(fragment)
}

// Replace sets the arguments whole.
func (s *Slot) Replace(args string) {
	s.args, s.scan = s.args[:0], objectScan{}
	s.judged, s.unfit = false, false
	s.Append(args)
}

// Empty reports whether no argument text has come.
func (s *Slot) Empty() bool { return len(s.args) == 0 }

// Complete reports whether the arguments so far are a whole JSON object. No
// strict prefix of an object is one, so that a complete call is a finished one.
func (s *Slot) Complete() bool {
	if !s.scan.closed() {
		return false
	}
	if !s.judged {
		s.judged, s.whole = true, json.Valid(s.args)
	}
	return s.whole
}

// Slots assembles the calls of one response and reports each to the sink as
// soon as it is whole.
type Slots struct {
	slots  []*Slot // in order
	onCall func(int, provider.ToolCall)

	// inOrder is set when the wire opens its blocks in order, whatever their
	// numbers; else a call is only reported while the numbers leave no gap in
	// which an earlier call might still appear.
	inOrder bool
}

// NewSlots assembles calls and reports them to onCall, which may be nil.
func NewSlots(onCall func(int, provider.ToolCall), inOrder bool) *Slots {
	return &Slots{onCall: onCall, inOrder: inOrder}
}

// MaxCalls is how many calls one answer may hold: far more than any model makes,
// and few enough that finding the call of a fragment costs nothing.
const MaxCalls = 4096

// Check is a failure for an answer of more calls than MaxCalls, nil for others.
func (s *Slots) Check() *provider.Error {
	if len(s.slots) <= MaxCalls {
		return nil
	}
	return &provider.Error{Kind: provider.Malformed, Message: fmt.Sprintf("the answer holds more than %d tool calls", MaxCalls)}
}

// Last is the newest slot in order, nil when there is none.
func (s *Slots) Last() *Slot {
	if len(s.slots) == 0 {
		return nil
	}
	return s.slots[len(s.slots)-1]
}

// ByIndex is the slot that was last opened for a wire index, the one with that
// id among them if there is one.
func (s *Slots) ByIndex(index int, id string) *Slot {
	var last, same *Slot
	for _, c := range s.slots {
		if c.index != index {
			continue
		}
		last = c
		if id != "" && c.ID == id {
			same = c
		}
	}
	if same != nil {
		return same
	}
	return last
}

// ByID is the newest slot with that id.
func (s *Slots) ByID(id string) *Slot {
	for _, c := range slices.Backward(s.slots) {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// Open makes a slot for a wire index, or with index -1 one behind all others.
// An index that is taken already gives one behind all others too.
func (s *Slots) Open(index int) *Slot {
	order := index
	if taken := slices.ContainsFunc(s.slots, func(c *Slot) bool { return c.order == index }); index < 0 || taken {
		order = 0
		if last := s.Last(); last != nil {
			order = last.order + 1
		}
	}
	slot := &Slot{order: order, index: index}
	at, _ := slices.BinarySearchFunc(s.slots, order, func(c *Slot, o int) int { return c.order - o })
	s.slots = slices.Insert(s.slots, at, slot)
	return slot
}

// Report tells the sink of every call that has become whole and has no
// unfinished one before it.
func (s *Slots) Report() {
	if s.onCall == nil {
		return
	}
	for position, c := range s.slots {
		if !s.inOrder && c.order != position {
			return
		}
		if c.reported {
			continue
		}
		if c.Name == "" || c.unfit || !c.Complete() {
			return
		}
		call := settle(c, position)
		if c.unfit = call.ArgumentsError != ""; c.unfit {
			return
		}
		c.reported = true
		s.onCall(position, call)
	}
}

// Calls are the settled calls, in order. Calls whose name never came are left
// out.
func (s *Slots) Calls() []provider.ToolCall {
	var out []provider.ToolCall
	for _, c := range s.slots {
		if c.Name != "" {
			out = append(out, settle(c, len(out)))
		}
	}
	return out
}

func settle(c *Slot, position int) provider.ToolCall {
	args, problem := Arguments(string(c.args))
	return provider.ToolCall{ID: fmt.Sprintf("call_%d", position), Name: c.Name, Arguments: args, ArgumentsError: problem}
}

// objectScan follows the nesting of a JSON object byte by byte, so that its end
// is seen without parsing the whole text again for each fragment.
type objectScan struct {
	depth    int
	started  bool
	inString bool
	escaped  bool
	done     bool
	broken   bool
}

func (o *objectScan) feed(fragment string) {
	for i := range len(fragment) {
		c := fragment[i]
		switch {
		case o.broken:
			return
		case o.inString:
			switch {
			case o.escaped:
				o.escaped = false
			case c == '\\':
				o.escaped = true
			case c == '"':
				o.inString = false
			}
		case c == ' ', c == '\t', c == '\r', c == '\n':
		case o.done, !o.started && c != '{':
			o.broken = true
		case c == '"':
			o.inString = true
		case c == '{', c == '[':
			o.started = true
			o.depth++
		case c == '}', c == ']':
			o.depth--
			o.done = o.depth == 0
		}
	}
}

func (o *objectScan) closed() bool { return o.done && !o.broken }

// Named are the slots behind Calls, in the same order.
func (s *Slots) Named() []*Slot {
	var out []*Slot
	for _, c := range s.slots {
		if c.Name != "" {
			out = append(out, c)
		}
	}
	return out
}
