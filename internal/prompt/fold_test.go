package prompt

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/trace"
)

func TestCompactionThresholds(t *testing.T) {
	for _, tc := range []struct {
		c         Compaction
		enabled   bool
		threshold int
		keep      int
	}{
		{Compaction{}, true, 19_200, 8},
		{Compaction{AtShare: 0.5, KeepRecent: 3}, true, 12_000, 3},
		{Compaction{AtShare: 1}, false, math.MaxInt, 8},
		{Compaction{AtShare: 1.5}, false, math.MaxInt, 8},
		{Compaction{AtShare: -0.5}, false, math.MaxInt, 8},
		{Compaction{AtShare: math.NaN()}, false, math.MaxInt, 8},
		{Compaction{AtShare: math.Inf(1)}, false, math.MaxInt, 8},
		{Compaction{KeepRecent: -4}, true, 19_200, 1},
	} {
		if tc.c.Enabled() != tc.enabled || tc.c.Threshold(24_000) != tc.threshold || tc.c.keep() != tc.keep {
			t.Errorf("%+v: %t %d %d, want %t %d %d", tc.c, tc.c.Enabled(), tc.c.Threshold(24_000), tc.c.keep(), tc.enabled, tc.threshold, tc.keep)
		}
	}
}

func steps(from, to, chars int) (out []trace.Observation) {
	for s := from; s <= to; s++ {
		out = append(out, trace.Observation{Step: s, Kind: trace.ObsTool, Text: fmt.Sprintf("%-*d", chars, s)})
	}
	return out
}

func TestHowMuchAFoldTakes(t *testing.T) {
	for _, tc := range []struct {
		name              string
		durable, fresh    int
		keep              int
		chars, tokens     int
		forced            bool
		through, through2 int // 0: nothing is folded
	}{
		{"the oldest but the kept ones", 20, 0, 8, 4000, 24_000, false, 12, 12},
		{"only what is stored", 10, 10, 8, 4000, 24_000, false, 10, 10},
		{"a short ledger never", 8, 0, 8, 40_000, 24_000, true, 0, 0},
		{"one more than the kept", 9, 0, 8, 40_000, 24_000, false, 1, 1},
		{"below the threshold", 20, 0, 8, 400, 24_000, false, 0, 0},
		{"below it when forced", 20, 0, 8, 400, 24_000, true, 12, 12},
		{"nothing stored", 0, 20, 8, 4000, 24_000, true, 0, 0},
	} {
		log := NewLog(steps(1, tc.durable, tc.chars), nil)
		log.Add(steps(tc.durable+1, tc.durable+tc.fresh, tc.chars)...)
		cut, ok := log.Due(Compaction{KeepRecent: tc.keep}, tc.tokens, tc.forced)
		if ok != (tc.through > 0) || cut.Through != tc.through || ok && cut.ThroughStep != tc.through2 {
			t.Errorf("%s: cut %+v %t, want %d", tc.name, Cut{Through: cut.Through, ThroughStep: cut.ThroughStep}, ok, tc.through)
		}
	}
	log := NewLog(steps(1, 20, 4000), nil)
	if _, ok := log.Due(Compaction{AtShare: 1}, 24_000, true); ok {
		t.Error("what is off stays off, forced or not")
	}
}

func TestAFoldReplacesItsPart(t *testing.T) {
	log := NewLog(steps(1, 20, 4000), nil)
	cut, _ := log.Due(Compaction{}, 24_000, false)
	if strings.Contains(cut.Notes, "13") || !strings.Contains(cut.Notes, "12 ") {
		t.Errorf("the notes must be exactly what goes")
	}
	if _, ok := log.Apply(cut, 21, " \n", 4000); ok || len(log.Live()) != 20 {
		t.Error("a blank paragraph must fold nothing")
	}
	f, ok := log.Apply(cut, 21, "  what was done\n", 4000)
	live := log.Live()
	if !ok || len(live) != 9 || !IsSummary(live[0]) || live[0].Step != 21 || live[1].Step != 13 || log.FoldedStep() != 12 {
		t.Fatalf("%+v\n%d entries", f, len(live))
	}
	want := Fold{Through: 12, ThroughStep: 12, Step: 21, Text: "what was done", Before: 20_000, After: log.Tokens()}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Error(diff)
	}
	if got, ok := log.Fold(); !ok || got != f {
		t.Errorf("Fold() = %+v", got)
	}
	if _, ok := log.Apply(cut, 22, "again", 4000); ok {
		t.Error("a cut can be applied once only")
	}
}

// Two folds of equally many entries are two different folds.
func TestASecondFoldOfTheSameSizeHasItsOwnParagraph(t *testing.T) {
	rows := steps(1, 20, 4000)
	log := NewLog(rows, nil)
	cut, _ := log.Due(Compaction{}, 24_000, false)
	first, _ := log.Apply(cut, 21, "alpha", 4000)
	more := steps(21, 32, 4000)
	rows = append(rows, more...)
	log.Add(more...)
	log.Committed()
	cut, ok := log.Due(Compaction{}, 24_000, false)
	if !ok || !strings.HasPrefix(cut.Notes, "alpha\n") {
		t.Fatalf("the second fold must read the first paragraph: %.20q", cut.Notes)
	}
	second, _ := log.Apply(cut, 33, "omega", 4000)
	if first.Through != 12 || second.Through != 24 || strings.Contains(log.Live()[0].Text, "alpha") || !strings.Contains(log.Live()[0].Text, "omega") {
		t.Errorf("%+v %+v", first, second)
	}
	if diff := cmp.Diff(log.Live(), NewLog(rows, &second).Live()); diff != "" {
		t.Error("a resume must see what the run saw: " + diff)
	}
}

func TestAResumeOneStepLaterFindsTheFold(t *testing.T) {
	rows := steps(1, 20, 4000)
	log := NewLog(rows, nil)
	cut, _ := log.Due(Compaction{}, 24_000, false)
	f, _ := log.Apply(cut, 21, "one", 4000)
	extra := steps(21, 23, 100)
	log.Add(extra...)
	log.Committed()
	if diff := cmp.Diff(log.Live(), NewLog(append(rows, extra...), &f).Live()); diff != "" {
		t.Error(diff)
	}
	tooFar := f
	tooFar.Through = 99
	if got := NewLog(rows, &tooFar).Live(); len(got) != 20 {
		t.Errorf("a fold past the stored rows must be ignored, got %d entries", len(got))
	}
}

func TestAFoldDoesNotCutAStepInTwo(t *testing.T) {
	var rows []trace.Observation
	for s := 1; s <= 4; s++ {
		for c := range 5 {
			rows = append(rows, answering(fmt.Sprintf("c%d", c), obs(s, trace.ObsTool, "", "", words(100))))
		}
	}
	log := NewLog(rows, nil)
	cut, ok := log.Due(Compaction{KeepRecent: 8}, 2000, true)
	if !ok || cut.Through != 10 || cut.ThroughStep != 2 {
		t.Errorf("cut through %d, want the border before the twelfth", cut.Through)
	}
	// One huge step is cut all the same, and its turn is told as prose.
	one := NewLog(rows[:5], nil)
	cut, ok = one.Due(Compaction{KeepRecent: 2}, 2000, true)
	if !ok || cut.Through != 3 {
		t.Fatalf("cut through %d, want 3", cut.Through)
	}
	one.Apply(cut, 2, "part of it", 1000)
	r := render(t, Input{Tokens: 24_000, Ledger: one.Live(), Folded: one.FoldedStep(), Turns: turnsOf(turn(1, "", "c0", "c1", "c2", "c3", "c4"))})
	if len(results(r)) != 0 {
		t.Errorf("a turn whose results are partly folded must not be replayed:\n%s", conversation(r))
	}
}

func TestWhatThePersonSaidSurvivesEveryFold(t *testing.T) {
	said := []string{"never touch the folder billing", "use port 7171", "1. Read the parser."}
	rows := steps(1, 1, 3000)
	rows = append(rows, PlanApproved(2, nil, 100))
	rows[1].Text = "\n[plan approved]\n1. Read the parser.\n"
	rows = append(rows, Steered(3, said[0], 1000), Answered(4, "", "port?", said[1], 1000))
	rows = append(rows, steps(5, 16, 6000)...)
	log := NewLog(rows, nil)
	once := func(when string, l *Log) {
		t.Helper()
		text := render(t, Input{Tokens: 24_000, Ledger: l.Live(), Folded: l.FoldedStep()}).User
		for _, s := range said {
			if n := strings.Count(text, s); n != 1 {
				t.Errorf("%s: %q stands %d times:\n%.1500s", when, s, n, text)
			}
		}
	}
	once("before", log)
	cut, ok := log.Due(Compaction{}, 24_000, true)
	if !ok || strings.Contains(cut.Notes, "billing") {
		t.Fatalf("the summariser must not be given what stays")
	}
	log.Apply(cut, 9, "stub", 1000)
	once("after a fold", log)
	more := steps(17, 30, 6000)
	rows = append(rows, more...)
	log.Add(more...)
	log.Committed()
	cut, _ = log.Due(Compaction{}, 24_000, true)
	f, _ := log.Apply(cut, 17, "stub", 1000)
	once("after a second fold", log)
	once("after a resume", NewLog(rows, &f))
	if diff := cmp.Diff(log.Live(), NewLog(rows, &f).Live()); diff != "" {
		t.Error(diff)
	}
}

// A fold keeps what a person said, so that a summary of nothing else is paid for in vain.
func TestWordsAloneAreNotFolded(t *testing.T) {
	words := []trace.Observation{Steered(1, "one", 100), Steered(1, "two", 100)}
	log := NewLog(append(words, steps(2, 9, 1000)...), nil)
	if cut, ok := log.Due(Compaction{}, 24_000, true); ok {
		t.Errorf("a summary is due of %q", cut.Notes)
	}
	log.Add(steps(10, 10, 1000)...)
	log.Committed()
	if cut, ok := log.Due(Compaction{}, 24_000, true); !ok || cut.Through != 3 {
		t.Errorf("with the first step behind them: %+v, %v", cut, ok)
	}
}

// Eight newest entries that alone fill the threshold, and thirty small steps: one
// fold may be paid for, not thirty.
func TestAFoldThatGainsNothingIsNotRepeated(t *testing.T) {
	log := NewLog(append(steps(1, 4, 1000), steps(5, 12, 12_000)...), nil)
	folds, spent := 0, 0
	for step := 13; step <= 42; step++ {
		if cut, ok := log.Due(Compaction{}, 24_000, false); ok {
			folds++
			spent += EstimateTokens(cut.Notes)
			f, _ := log.Apply(cut, step, "little", 4000)
			if f.Before <= 0 || f.After <= 0 {
				t.Errorf("a fold must show before and after: %+v", f)
			}
		}
		log.Add(steps(step, step, 200)...)
		log.Committed()
	}
	if folds != 1 || spent > 2_000 {
		t.Errorf("%d folds read %d tokens of notes in 30 steps, want one of at most 2,000", folds, spent)
	}
}

func TestAfterAWeakFoldTheLedgerMustGrowByHalf(t *testing.T) {
	log := NewLog(append(steps(1, 1, 400), steps(2, 9, 12_000)...), nil)
	cut, _ := log.Due(Compaction{}, 24_000, false)
	f, _ := log.Apply(cut, 10, "a paragraph that is longer than what it replaces "+words(200), 40_000)
	if f.After <= f.Before {
		t.Fatalf("before %d after %d: the case needs a fold that loses", f.Before, f.After)
	}
	grown := 0
	for step := 10; ; step++ {
		if _, ok := log.Due(Compaction{}, 24_000, false); ok {
			break
		}
		if _, ok := log.Due(Compaction{}, 24_000, true); step > 10 && !ok {
			t.Fatal("a forced fold goes past it")
		}
		log.Add(steps(step, step, 4000)...)
		log.Committed()
		grown += 1000
		if grown > 100_000 {
			t.Fatal("never folded again")
		}
	}
	if grown*2 < f.After || grown*2 > f.After+4000 {
		t.Errorf("folded again after it grew by %d from %d, want half", grown, f.After)
	}
}

func TestASummaryIsBounded(t *testing.T) {
	log := NewLog(steps(1, 20, 4000), nil)
	cut, _ := log.Due(Compaction{}, 24_000, false)
	f, _ := log.Apply(cut, 21, strings.Repeat("word ", 10_000)+"\xff", 4000)
	if n := Characters(f.Text); n > 4200 || !strings.Contains(f.Text, "truncated") {
		t.Errorf("the paragraph has %d characters", n)
	}
}

func TestTheNotesOfAHugeStepAreShortened(t *testing.T) {
	log := NewLog(append(steps(1, 50, 12_000), steps(51, 58, 100)...), nil)
	cut, ok := log.Due(Compaction{}, 24_000, false)
	if n := EstimateTokens(cut.Notes); !ok || n > 2*24_000+50*40 {
		t.Errorf("the summariser would read %d tokens", n)
	}
}

// Whoever follows a log from where it was stored last misses nothing, also where a
// step was lost or the front was folded.
func TestALogIsFollowedFromWhereItWasStored(t *testing.T) {
	log := NewLog(steps(1, 20, 4000), nil)
	if got := log.Since(0); len(got) != 20 || log.Stored() != 20 {
		t.Fatalf("%d of %d", len(got), log.Stored())
	}
	was := log.Live()
	log.Add(steps(21, 22, 10)...)
	if got := log.Since(20); len(got) != 2 || got[0].Step != 21 || log.Stored() != 20 {
		t.Errorf("%+v after %d", got, log.Stored())
	}
	log.Discard()
	log.Add(steps(21, 21, 30)...)
	if got := log.Since(log.Stored()); len(got) != 1 || len(got[0].Text) != 30 {
		t.Errorf("%+v in the place of a step that was lost", got)
	}
	log.Committed()
	if len(was) != 20 || was[19].Step != 20 {
		t.Errorf("the ledger that was looked at has changed: %+v", was)
	}
	cut, ok := log.Due(Compaction{}, 24_000, true)
	if !ok {
		t.Fatal("nothing to fold")
	}
	if _, ok := log.Apply(cut, 21, "what was done", 500); !ok {
		t.Fatal("not folded")
	}
	log.Add(steps(22, 22, 10)...)
	if got := log.Since(21); log.Stored() != 21 || len(got) != 1 || got[0].Step != 22 {
		t.Errorf("%+v after %d, behind a fold", got, log.Stored())
	}
	if got := log.Since(0); len(got) != len(log.Live())-1 {
		t.Errorf("%d entries stand beside the paragraph, and %d are new to somebody who knows none", len(log.Live())-1, len(got))
	}
}

func TestUncommittedEntriesAreKnown(t *testing.T) {
	log := NewLog(steps(1, 3, 10), nil)
	log.Add(steps(4, 5, 10)...)
	if got := log.Uncommitted(); len(got) != 2 || got[0].Step != 4 {
		t.Errorf("%+v", got)
	}
	log.Discard()
	if len(log.Live()) != 3 || len(log.Uncommitted()) != 0 {
		t.Errorf("%d entries after Discard", len(log.Live()))
	}
	log.Add(steps(4, 4, 10)...)
	log.Committed()
	if len(log.Uncommitted()) != 0 || len(log.Live()) != 4 {
		t.Error("Committed must mark all")
	}
}
