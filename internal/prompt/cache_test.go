package prompt

import (
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/trace"
)

// markRun renders steps of a growing ledger and marks them.
type markRun struct {
	t     *testing.T
	guard PrefixGuard
	in    Input
}

func (m *markRun) step() (Rendered, int, bool) {
	m.t.Helper()
	r := render(m.t, m.in)
	at, began := m.guard.Mark(r)
	return r, at, began
}

func folded(rest ...trace.Observation) []trace.Observation {
	return append([]trace.Observation{SummaryObservation(4, "The work so far.")}, rest...)
}

func TestAFlatRequestIsNotMarkedWithoutAFold(t *testing.T) {
	m := markRun{t: t, in: Input{Tokens: 24_000, Notes: someNotes(), Ledger: []trace.Observation{read(1, "a", "x")}}}
	for range 3 {
		if _, at, began := m.step(); at != 0 || began {
			t.Errorf("marked %d", at)
		}
	}
}

func TestAConversationIsMarkedOnceItWasSeenToGrow(t *testing.T) {
	for name, ledger := range map[string][]trace.Observation{"without a fold": nil, "behind a fold": folded()} {
		t.Run(name, func(t *testing.T) {
			m := markRun{t: t, in: Input{Tokens: 24_000, Notes: someNotes(), Turns: turnsOf(turn(5, "", "a"), turn(6, "", "b"), turn(7, "", "c"))}}
			if len(ledger) > 0 {
				m.in.Folded = 4
			}
			m.in.Ledger = append(ledger, answering("a", read(5, "a", "x")))
			if _, at, _ := m.step(); at != 0 {
				t.Error("what was never sent must not be marked")
			}
			m.in.Ledger = append(m.in.Ledger, answering("b", read(6, "b", "y")))
			r, at, began := m.step()
			if !began || !strings.HasSuffix(r.User[:at], "[read b]\ny\n") {
				t.Errorf("a conversation that grew is marked up to its own end: %d %t %q", at, began, r.User[max(at-30, 0):at])
			}
			n := r.CacheThrough(at)
			if n != len(r.Messages)-1 || r.StepThrough(n) != 6 {
				t.Errorf("%d of %d messages, through step %d", n, len(r.Messages), r.StepThrough(n))
			}
			m.in.Ledger = append(m.in.Ledger, answering("c", read(7, "c", "z")))
			if r, again, began := m.step(); again <= at || began || r.StepThrough(r.CacheThrough(again)) != 7 {
				t.Errorf("the mark goes on to %d with the conversation, and the event comes once: %t", again, began)
			}
			m.in.Notes.Own = append(m.in.Notes.Own, Note{Key: "new", Value: "note", Order: 9})
			if _, at, _ := m.step(); at != 0 {
				t.Error("a new note withdraws the mark for one step")
			}
			if _, at, began := m.step(); at == 0 || !began {
				t.Error("and it comes back with an event")
			}
		})
	}
}

func TestAChangeInTheMiddleIsMarkedOnlyUpToIt(t *testing.T) {
	m := markRun{t: t, in: Input{Tokens: 24_000, Turns: turnsOf(turn(1, "", "a"), turn(2, "", "b"), turn(3, "", "c"), turn(4, "", "d"))}}
	m.in.Ledger = []trace.Observation{answering("a", read(1, "a", "x")), answering("b", read(2, "b", "y"))}
	m.step()
	m.in.Ledger = append(m.in.Ledger, answering("c", wrote(3, "c")))
	m.step()
	m.in.Ledger = append(m.in.Ledger, answering("d", read(4, "b", "y again"))) // the first read of b becomes a stub
	r, at, _ := m.step()
	if !strings.HasSuffix(r.User[:at], "[read a]\nx\n") {
		t.Errorf("marked through %q", r.User[max(at-40, 0):at])
	}
	if n := r.CacheThrough(at); n != 3 || r.StepThrough(n) != 1 {
		t.Errorf("%d messages through step %d", n, r.StepThrough(n))
	}
	if r, at, _ := m.step(); r.CacheThrough(at) != len(r.Messages)-1 {
		t.Error("and once it has been repeated all of it is marked again")
	}
}

func TestATurnThatIsToldOtherwiseIsNoRepetition(t *testing.T) {
	turns := turnsOf(turn(1, "", "a"), turn(2, "", "b"), turn(3, "", "c"))
	m := markRun{t: t, in: Input{Tokens: 24_000, Turns: turns, Ledger: []trace.Observation{answering("a", read(1, "a", "x")), answering("b", read(2, "b", "y"))}}}
	m.step()
	carried := turns[1]
	carried.Carry = []byte(`{"blocks":[]}`)
	turns[1] = carried // the texts are the same to the byte, and the messages are not
	m.in.Ledger = append(m.in.Ledger, answering("c", read(3, "c", "z")))
	if r, at, _ := m.step(); r.CacheThrough(at) != 1 {
		t.Errorf("%d messages are marked, and only the first was sent before", r.CacheThrough(at))
	}
}

func TestASummaryThatIsNotShownIsNotMarked(t *testing.T) {
	huge := SummaryObservation(4, words(5000))
	m := markRun{t: t, in: Input{Tokens: 2000, Ledger: []trace.Observation{huge, read(5, "a", words(300))}}}
	for range 2 {
		if r, at, _ := m.step(); at != 0 || r.Frozen != 0 {
			t.Errorf("marked %d of a summary that is one line", at)
		}
	}
}

func TestTheMarkDoesNotMoveWithTheNumberOfElidedEntries(t *testing.T) {
	m := markRun{t: t, in: Input{Tokens: 2000, Ledger: folded()}}
	for step := 5; step < 60; step++ {
		m.in.Ledger = append(m.in.Ledger, read(step, "some/dir/file"+strings.Repeat("x", step)+".go", words(100)))
		if _, at, began := m.step(); step > 5 && at == 0 || step > 6 && began {
			t.Fatalf("step %d: at=%d began=%t", step, at, began)
		}
	}
}

func TestCacheThroughCountsWholeMessages(t *testing.T) {
	r := render(t, Input{Tokens: 24_000, Ledger: folded(answering("a", read(5, "a", "x"))), Turns: turnsOf(turn(5, "", "a")), Folded: 4})
	for _, at := range []int{0, -1, 1, r.Frozen - 1} {
		if n := r.CacheThrough(at); n != 0 {
			t.Errorf("CacheThrough(%d) = %d, want 0", at, n)
		}
	}
	if n := r.CacheThrough(r.Frozen); n != 1 {
		t.Errorf("CacheThrough(%d) = %d, want 1: the model's turn behind it is no stable end", r.Frozen, n)
	}
	if n := r.CacheThrough(len(r.User)); n != 0 {
		t.Errorf("CacheThrough(all) = %d, want 0", n)
	}
	if n := (Rendered{User: "flat", Frozen: 2}).CacheThrough(2); n != 0 {
		t.Errorf("a flat request has no messages, got %d", n)
	}
}
