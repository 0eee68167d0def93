package prompt

import (
	"fmt"
	"slices"
	"testing"

	"github.com/initorigin/io-harness-go/trace"
)

// Notes that all fit stand the same in every request, however they are ranked,
// and cost no mark. Of notes that do not fit others are chosen as the run goes on:
// that can lose marks, and never makes one.
func TestNotesThatFitCostNoMark(t *testing.T) {
	marks := func(notes int, chars int) (at []int) {
		m := markRun{t: t, in: Input{Tokens: 4000, Turns: map[int]trace.AssistantTurn{}}}
		for i := range notes {
			m.in.Notes.Own = append(m.in.Notes.Own, Note{Key: fmt.Sprintf("k%d", i), Value: words(chars), Order: i})
		}
		for step := 1; step <= 12; step++ {
			m.in.Turns[step] = turn(step, "", "c")
			m.in.Ledger = append(m.in.Ledger, answering("c", read(step, fmt.Sprintf("f%d", step), "x")))
			if n := len(m.in.Notes.Own); n > 0 && step%3 == 0 { // another note is the best by now
				m.in.Notes.Own = append(m.in.Notes.Own[1:n:n], m.in.Notes.Own[0])
			}
			if _, mark, _ := m.step(); mark > 0 {
				at = append(at, step)
			}
		}
		return at
	}
	none, fitting, over := marks(0, 0), marks(5, 10), marks(40, 50)
	if !slices.Equal(none, fitting) || len(none) != 11 {
		t.Errorf("without notes the steps %v are marked, with notes that fit %v", none, fitting)
	}
	if len(over) >= len(none) || len(over) == 0 {
		t.Errorf("with more notes than fit the steps %v are marked", over)
	}
	for _, step := range over {
		if !slices.Contains(none, step) {
			t.Errorf("step %d is marked only because notes do not fit", step)
		}
	}
}
