package prompt

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/trace"
)

// memoryShare, wordShare and stubShare divide a section: the memory block gets
// at most a quarter of it, the operator's words and the fold's summary together
// at most a quarter of the rest before age can elide them, and the stubs an
// eighth, though never less than minStubTokens.
const (
	memoryShare   = 4
	wordShare     = 4
	stubShare     = 8
	minStubTokens = 64
)

// Input is everything that one step's section is made of.
type Input struct {
	// Ledger is what the run has observed, oldest first, each text bounded when
	// it was added: Log.Live.
	Ledger []trace.Observation
	// Turns are the model's own turns by step. A step without one is told as
	// prose.
	Turns map[int]trace.AssistantTurn
	// Folded is the last step that a fold's summary covers: Log.FoldedStep.
	Folded int
	// Tokens is the section's size in estimated tokens: Budget.Effective.
	Tokens int
	Notes  Notes
	// Fresh answers Reads by index. A read that the run's own write made
	// stale and that has no answer is elided.
	Fresh map[int]Fresh
	// FoldCase says that the host's file system takes two cases of a name for one.
	FoldCase bool
	// Resume sends turns that the provider paused, and behind which nothing
	// happened, as they were: it goes on with them where they end the request.
	Resume bool
}

// PieceKind says how a piece of a section travels in a transcript.
type PieceKind string

// The kinds of piece.
const (
	PieceProse    PieceKind = "prose"    // in a user message
	PieceOperator PieceKind = "operator" // a user message of its own
	PieceAgent    PieceKind = "agent"    // an assistant message of its own
	PieceTurn     PieceKind = "turn"     // the model's own turn; it has no text in the section
	PieceResult   PieceKind = "result"   // the answer to a call of the turn before it
	PiecePaused   PieceKind = "paused"   // tells of the turn before it, which is sent itself: in no message
)

// Piece is a part of a section. The texts of all pieces in order are the section.
type Piece struct {
	Kind PieceKind
	Step int
	Text string
	Call int                  // of a result: which call of the turn it answers, from 0
	Turn *trace.AssistantTurn // of a turn
}

// Reread tells of one read that was made again, for the trace.
type Reread struct {
	Read Read
	Why  string // why it is not shown; empty when it is
}

// Assembled is the section of one step.
type Assembled struct {
	Text   string
	Pieces []Piece

	Carried   int  // entries shown whole, refreshed ones among them
	Stubbed   int  // entries shown as a stub, also when those were collapsed
	Reread    int  // reads that were made again, whether or not it worked
	Recalled  int  // notes shown
	Notes     int  // notes that could have been shown
	Collapsed bool // all stubs became one line

	Tokens int // of Text, estimated
	// RecalledOwn and RecalledShared are the keys of the notes in printed order.
	RecalledOwn, RecalledShared []string
	Rereads                     []Reread
	// Frozen is the length in bytes of the prefix of Text that ends with the
	// fold's summary; 0 when there is none or it is not shown.
	Frozen int
}

// Detail is the text of the trace row of an assembly.
func (a Assembled) Detail() string {
	return fmt.Sprintf("carried=%d stubbed=%d reread=%d recalled=%d collapsed=%t",
		a.Carried, a.Stubbed, a.Reread, a.Recalled, a.Collapsed)
}

// RecallDetail is the text of the trace row of a recall. It is empty when there
// were no notes, which leaves no row.
func (a Assembled) RecallDetail() string {
	if a.Notes == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d carried", a.Recalled, a.Notes)
}

// Subjects are the targets of a ledger that name a thing: what its recall of
// notes goes by. Who spoke in a message is no subject.
func Subjects(ledger []trace.Observation) []string {
	var out []string
	for _, o := range ledger {
		if o.Target != "" && o.Kind != trace.ObsMessage {
			out = append(out, o.Target)
		}
	}
	return out
}

// Assemble writes the section: notes, then what was observed, oldest first, with
// what no longer fits or no longer holds replaced by one line each.
//
// The section is never larger than the budget, except for what always stands:
// the best note, the newest entry that still holds, and the sentences that
// answer calls without a result, an eighth of the section at most. The time it
// takes is linear in the entries, and in the text of those that could be shown.
func Assemble(in Input) Assembled {
	var a Assembled
	mem := in.Notes.render(max(in.Tokens, 0) / memoryShare)
	a.RecalledOwn, a.RecalledShared = mem.own, mem.shared
	a.Recalled, a.Notes = len(mem.own)+len(mem.shared), mem.of

	f := fit{in: in, room: max(in.Tokens-EstimateTokens(mem.text), 0)}
	f.shape()
	a.Rereads, a.Reread = f.rereads, len(f.rereads)
	f.choose()
	for i := range f.entries {
		if f.entries[i].whole {
			a.Carried++
		} else {
			a.Stubbed++
		}
	}
	a.Collapsed = f.collapsed()

	e := emitter{in: in, fit: &f, stubs: a.Stubbed, collapsed: a.Collapsed}
	if mem.text != "" {
		e.prose(0, mem.text)
	}
	e.run()
	a.Pieces, a.Frozen = e.pieces, e.frozen
	var b strings.Builder
	b.Grow(e.size)
	for _, p := range a.Pieces {
		b.WriteString(p.Text)
	}
	a.Text = b.String()
	a.Tokens = EstimateTokens(a.Text)
	return a
}

// entry is one observation with what is shown of it. Most entries of a long run
// are older than what fits: their texts and stubs are made only when somebody
// asks, so that what they cost does not grow with the run.
type entry struct {
	text  string // when whole; empty until it is asked for
	stub  string // when not; likewise
	why   string // the stub's, when it is neither superseded nor too old
	over  int    // by the entry of which step it was superseded, plus one; zero when it was not
	whole bool
	dead  bool // never shown whole: superseded, or stale and not to be had
	fixed bool // shown whole before anything else is fitted
	cost  int  // tokens of text, once that was asked for
}

// fit decides which entries are shown whole.
type fit struct {
	in      Input
	room    int
	entries []entry
	rereads []Reread

	used   int // tokens of the whole entries
	stubs  int // tokens of the stubs, no longer counted once they collapse
	count  int // number of stubs
	newest int // the entry that always stands, -1 for none
}

// shape finds what no longer holds, and what stands in its place.
func (f *fit) shape() {
	marks := supersession(f.in.Ledger, f.in.FoldCase)
	limit := EntryCap(f.in.Tokens)
	f.entries = make([]entry, len(f.in.Ledger))
	for i, o := range f.in.Ledger {
		if over := marks[i].superseded; over > 0 {
			f.entries[i].dead, f.entries[i].over = true, over
			continue
		}
		f.refresh(i, o, marks[i].written, limit)
	}
}

// cost is what entry i takes when it is whole, in tokens.
func (f *fit) cost(i int) int {
	e := &f.entries[i]
	if e.cost == 0 {
		if e.text == "" {
			e.text = line(f.in.Ledger[i].Text)
		}
		e.cost = EstimateTokens(e.text)
	}
	return e.cost
}

// stub is the line that stands for entry i when it is not whole.
func (f *fit) stub(i int) string {
	e, o := &f.entries[i], f.in.Ledger[i]
	if e.stub == "" {
		why := e.why
		switch {
		case e.over > 0:
			why = supersededWhy(o, e.over-1)
		case why == "":
			why = tooOldWhy(o)
		}
		e.stub = stub(o, why)
	}
	return e.stub
}

// refresh replaces a read that no longer holds.
func (f *fit) refresh(i int, o trace.Observation, written, limit int) {
	if o.Kind != trace.ObsRead || o.Target == "" {
		return
	}
	got, asked := f.in.Fresh[i]
	if written == 0 && !asked {
		return
	}
	if got.Beyond {
		f.entries[i].dead = true
		return
	}
	r := Read{Index: i, Target: o.Target, First: o.First, Count: o.Count, Digest: o.Digest, Step: o.Step, WrittenAt: written}
	chars := utf8.RuneCountInString(got.Text)
	switch {
	case got.Why != "":
	case !asked:
		got.Why = "it was not read again"
	case chars == 0:
		got.Why = "it is empty or gone"
	case chars > limit:
		got.Why = fmt.Sprintf("it has %s characters by now, over the %s that one read may show: ask for a range with offset and limit", commas(chars), commas(limit))
	}
	f.rereads = append(f.rereads, Reread{Read: r, Why: got.Why})
	if got.Why != "" {
		f.entries[i] = entry{dead: true, why: staleWhy(r, got.Why)}
		return
	}
	f.entries[i].text = fresh(r, got.Text)
}

// choose fits the entries into the room: first what a person said and the
// summary, then the newest of the rest until the first that does not fit.
func (f *fit) choose() {
	f.newest = -1
	f.pin()
	stopped := false
	for i := len(f.entries) - 1; i >= 0; i-- {
		e := &f.entries[i]
		if e.fixed || e.dead {
			continue
		}
		if f.newest < 0 {
			f.newest = i
		} else if stopped || f.used+f.cost(i) > f.room {
			stopped = true
			continue
		}
		e.whole = true
		f.used += f.cost(i)
	}
	for i := range f.entries {
		if !f.entries[i].whole {
			f.elide(i)
		}
	}
	// The stubs stand in the same room. Where they do not fit beside the whole
	// entries, the oldest of those gives way.
	for i := range f.entries {
		e := &f.entries[i]
		if !e.whole || e.fixed || i == f.newest {
			continue
		}
		if f.used+f.stubCost() <= f.room {
			break
		}
		e.whole = false
		f.used -= e.cost
		f.elide(i)
	}
}

// elide counts the stub of entry i. Once all stubs have become one line, how long
// each of them would be makes no difference.
func (f *fit) elide(i int) {
	f.count++
	if !f.collapsed() {
		f.stubs += EstimateTokens(f.stub(i))
	}
}

// pin fixes the summary of a fold and the newest of the operator's words, up to
// a bound of their own.
func (f *fit) pin() {
	left := f.room / wordShare
	fix := func(i int) {
		if cost := f.cost(i); cost <= left {
			left -= cost
			f.used += cost
			f.entries[i].whole, f.entries[i].fixed = true, true
		}
	}
	if len(f.in.Ledger) > 0 && IsSummary(f.in.Ledger[0]) {
		fix(0)
	}
	talk := false
	for i := len(f.in.Ledger) - 1; i >= 0; i-- {
		if Word(f.in.Ledger[i]) {
			fix(i)
		}
		talk = talk || seeded(f.in.Ledger[i])
	}
	if talk {
		f.used += EstimateTokens(seedLead) + EstimateTokens(seedTail)
	}
}

func (f *fit) collapsed() bool { return f.stubs > max(f.room/stubShare, minStubTokens) }

func (f *fit) stubCost() int {
	if f.collapsed() {
		return EstimateTokens(collapseLine(f.count))
	}
	return f.stubs
}
