package prompt

import (
	"github.com/initorigin/io-harness-go/trace"
)

const (
	seedLead = "\nEarlier in this conversation, oldest first:\n"
	seedTail = "(End of the earlier conversation. What was said last stands at the top of this request.)\n"

	notExecuted   = "[not executed] The run paused or stopped before this call.\n"
	resultsElided = "[elided] This result is no longer shown.\n"
)

// emitter puts the entries of a fit in order and pairs calls with results.
type emitter struct {
	in        Input
	fit       *fit
	stubs     int
	collapsed bool

	pieces []Piece
	size   int // bytes so far
	frozen int
	talk   int // 0 before the seed of a conversation, 1 in it, 2 after it
}

func (e *emitter) add(p Piece) {
	e.pieces = append(e.pieces, p)
	e.size += len(p.Text)
}

func (e *emitter) prose(step int, text string) {
	e.add(Piece{Kind: PieceProse, Step: step, Text: text})
}

// shown is the text of entry i, empty when the collapse line stands for it.
func (e *emitter) shown(i int) string {
	en := &e.fit.entries[i]
	if en.whole {
		return en.text
	}
	if e.collapsed {
		return ""
	}
	return e.fit.stub(i)
}

func (e *emitter) run() {
	ledger := e.in.Ledger
	turns := e.replayed()
	from := e.base()
	// The summary goes first, before the line that changes with the number of
	// stubs, so that the prefix that ends with it stays the same.
	if from > 0 && e.fit.entries[0].whole {
		e.prose(ledger[0].Step, e.fit.entries[0].text)
		e.frozen = e.size
	} else if from > 0 {
		e.spoken(0)
	}
	if e.collapsed {
		e.prose(0, collapseLine(e.stubs))
	}
	paused := e.paused(from)
	for from < len(ledger) {
		to := stepEnd(ledger, from)
		if from >= paused {
			turn := e.in.Turns[ledger[from].Step]
			e.talking(false)
			e.add(Piece{Kind: PieceTurn, Step: turn.Step, Turn: &turn})
			e.add(Piece{Kind: PiecePaused, Step: turn.Step, Text: e.shown(from)})
		} else if turn := turns[from]; turn != nil {
			e.answered(from, to, turn)
		} else {
			for i := from; i < to; i++ {
				e.spoken(i)
			}
		}
		from = to
	}
	e.talking(false)
}

// paused is the first of the entries that end the ledger and tell of paused
// turns alone, as far as those fit beside the section; the ledger's length when
// there is none.
func (e *emitter) paused(base int) int {
	ledger, left := e.in.Ledger, e.in.Tokens
	at := len(ledger)
	for e.in.Resume && at > base {
		o := ledger[at-1]
		turn, ok := e.in.Turns[o.Step]
		alone := at < 2 || ledger[at-2].Step != o.Step
		if o.Kind != trace.ObsMessage || o.Target != TargetPaused || !alone || !ok || len(turn.Calls) > 0 || len(turn.Carry) == 0 || o.Step <= e.in.Folded {
			break
		}
		if left -= turnCost(&turn); left < 0 {
			return len(ledger) // a part of them would be no turn to go on with
		}
		at--
	}
	return at
}

// base is the first entry that is no summary.
func (e *emitter) base() int {
	if len(e.in.Ledger) > 0 && IsSummary(e.in.Ledger[0]) {
		return 1
	}
	return 0
}

// stepEnd is the end of the run of entries that have the step of entry from.
func stepEnd(ledger []trace.Observation, from int) int {
	to := from + 1
	for to < len(ledger) && ledger[to].Step == ledger[from].Step {
		to++
	}
	return to
}

// spoken emits an entry that answers no call.
func (e *emitter) spoken(i int) {
	text := e.shown(i)
	if text == "" {
		return
	}
	o := e.in.Ledger[i]
	if !seeded(o) || !e.fit.entries[i].whole {
		e.talking(false)
		e.prose(o.Step, text)
		return
	}
	e.talking(true)
	kind := PieceOperator
	if o.Target == TargetAgent {
		kind = PieceAgent
	}
	e.add(Piece{Kind: kind, Step: o.Step, Text: text})
}

// talking frames the seed of a conversation, so that it is told from what is
// wanted now, and so that the agent's last reply and its next turn are apart.
func (e *emitter) talking(on bool) {
	switch {
	case on && e.talk == 0:
		e.prose(0, seedLead)
		e.talk = 1
	case !on && e.talk == 1:
		e.prose(0, seedTail)
		e.talk = 2
	}
}

// answered emits a step as the model's own turn and the answers to its calls:
// what came before the first answer, the turn, one answer for each call, and
// then what else the step has.
func (e *emitter) answered(from, to int, turn *trace.AssistantTurn) {
	calls := callsOf(turn)
	given := make([][]int, len(turn.Calls)) // entries that answer each call
	hidden := make([]bool, len(turn.Calls))
	var order, rest []int // calls by their first answer; entries that answer none
	for i := from; i < to; i++ {
		call, ok := calls.take(e.in.Ledger[i])
		switch {
		case ok && e.shown(i) == "":
			hidden[call] = true
		case ok:
			if len(order) == 0 {
				for _, j := range rest {
					e.spoken(j)
				}
				rest = rest[:0]
			}
			if given[call] == nil {
				order = append(order, call)
			}
			given[call] = append(given[call], i)
		default:
			rest = append(rest, i)
		}
	}
	e.talking(false)
	e.add(Piece{Kind: PieceTurn, Step: turn.Step, Turn: turn})
	result := func(call int, text string) {
		e.add(Piece{Kind: PieceResult, Step: turn.Step, Call: call, Text: text})
	}
	for _, call := range order {
		for _, i := range given[call] {
			result(call, e.shown(i))
		}
	}
	for call, entries := range given {
		switch {
		case entries != nil:
		case hidden[call]:
			result(call, resultsElided)
		default:
			result(call, notExecuted)
		}
	}
	for _, i := range rest {
		e.spoken(i)
	}
}

// replayed chooses the turns that are sent as such, by the index of the first
// entry of their step. A step is told as prose when it has no stored turn, when
// a fold took part of it, when none of its calls has an answer to show, when
// the replayed turns would outgrow the section's own budget, or when its
// calls without an answer would.
func (e *emitter) replayed() map[int]*trace.AssistantTurn {
	ledger := e.in.Ledger
	turns := map[int]*trace.AssistantTurn{}
	done := map[int]bool{}
	left := e.in.Tokens
	fill := max(e.fit.room/stubShare, minStubTokens)
	base := e.base()
	for to := len(ledger); to > base; {
		from := to - 1
		for from > base && ledger[from-1].Step == ledger[from].Step {
			from--
		}
		step := ledger[from].Step
		start, end := from, to
		to = from
		if !e.anyShown(start, end) {
			continue
		}
		turn, ok := e.in.Turns[step]
		if !ok || len(turn.Calls) == 0 || step <= e.in.Folded || done[step] {
			continue
		}
		shown, open := e.answers(start, end, &turn)
		if shown == 0 {
			continue
		}
		done[step] = true
		cost := turnCost(&turn)
		missing := open * EstimateTokens(notExecuted)
		if missing > fill {
			continue
		}
		if cost > left && len(turns) > 0 {
			break
		}
		left -= cost
		fill -= missing
		turns[start] = &turn
	}
	return turns
}

// anyShown reports whether an entry of a step is shown at all.
func (e *emitter) anyShown(from, to int) bool {
	for i := from; i < to; i++ {
		if e.shown(i) != "" {
			return true
		}
	}
	return false
}

// answers counts a step's answers that are shown, and its calls that have none.
func (e *emitter) answers(from, to int, turn *trace.AssistantTurn) (shown, open int) {
	calls := callsOf(turn)
	given := make([]bool, len(turn.Calls))
	for i := from; i < to; i++ {
		if call, ok := calls.take(e.in.Ledger[i]); ok && e.shown(i) != "" && !given[call] {
			given[call] = true
			shown++
		}
	}
	return shown, len(given) - shown
}

// turnCost estimates what a turn adds to a request: its text, its calls with
// their arguments, and what the vendor wants back.
func turnCost(t *trace.AssistantTurn) int {
	n := EstimateTokens(t.Text) + len(t.Carry)/charsPerToken
	for _, c := range t.Calls {
		n += EstimateTokens(c.Name) + EstimateTokens(string(c.Arguments))
	}
	return n
}

// openCalls finds the call that an observation answers.
type openCalls struct {
	byID map[string][]int // calls of an id in order; more than one if a vendor repeats ids
}

func callsOf(t *trace.AssistantTurn) openCalls {
	o := openCalls{byID: make(map[string][]int, len(t.Calls))}
	for i, c := range t.Calls {
		if c.ID != "" {
			o.byID[c.ID] = append(o.byID[c.ID], i)
		}
	}
	return o
}

// take returns the call that obs answers. Where several calls share an id, the
// answers take them in order and the last gets the surplus.
func (o openCalls) take(obs trace.Observation) (int, bool) {
	if obs.CallID == "" || seeded(obs) || IsSummary(obs) {
		return 0, false
	}
	calls := o.byID[obs.CallID]
	if len(calls) == 0 {
		return 0, false
	}
	if len(calls) > 1 {
		o.byID[obs.CallID] = calls[1:]
	}
	return calls[0], true
}
