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

func TestNothingIsMarkedWithoutAFold(t *testing.T) {
	m := markRun{t: t, in: Input{Tokens: 24_000, Notes: someNotes(), Ledger: []trace.Observation{read(1, "a", "x")}}}
	for range 3 {
		if _, at, began := m.step(); at != 0 || began {
			t.Errorf("marked %d", at)
		}
	}
}

func TestAPrefixIsMarkedOnlyWhenItWasSentBefore(t *testing.T) {
	m := markRun{t: t, in: Input{Tokens: 24_000, Notes: someNotes(), Ledger: folded(answering("a", read(5, "a", "x"))), Turns: turnsOf(turn(5, "", "a"), turn(6, "", "b"), turn(7, "", "c")), Folded: 4}}
	if _, at, _ := m.step(); at != 0 {
		t.Error("the step of the fold must not be marked")
	}
	m.in.Ledger = append(m.in.Ledger, answering("b", read(6, "b", "y")))
	r, at, began := m.step()
	if !began || at == 0 || !strings.HasSuffix(r.User[:at], "The work so far.\n") {
		t.Errorf("the second time must be marked through the summary: %d %t %q", at, began, r.User[max(at-30, 0):at])
	}
	if n := r.CacheThrough(at); n != 1 || r.Messages[0].Text != r.User[:at] {
		t.Errorf("CacheThrough = %d, want the one message that is the prefix", n)
	}
	if _, again, began := m.step(); again != at || began {
		t.Error("the event comes once for a prefix")
	}
	m.in.Notes.Own = append(m.in.Notes.Own, Note{Key: "new", Value: "note", Order: 9})
	if _, at, _ := m.step(); at != 0 {
		t.Error("a new note withdraws the mark for one step")
	}
	if _, at, began := m.step(); at == 0 || !began {
		t.Error("and it comes back with an event")
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
