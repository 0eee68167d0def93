package prompt

import (
	"math"
	"slices"
	"strings"

	"github.com/initorigin/io-harness-go/trace"
)

// Defaults of compaction.
const (
	// DefaultAtShare is how full the section's budget may get before the older
	// observations are folded: late enough that a short run never pays for a
	// summary, early enough that the summary's own request still fits.
	DefaultAtShare = 0.8
	// DefaultKeepRecent is how many of the newest observations a fold leaves
	// whole: about the last two or three steps of ordinary work.
	DefaultKeepRecent = 8
)

// Compaction says when the older observations of a run become one paragraph.
// The zero value means the defaults.
type Compaction struct {
	// AtShare is the part of the section's budget that the ledger must fill.
	// Zero means DefaultAtShare; 1 or more, negative, and NaN never fold.
	AtShare float64
	// KeepRecent is how many of the newest observations stay whole. Zero means
	// DefaultKeepRecent; at least 1 stays.
	KeepRecent int
}

func (c Compaction) share() float64 {
	if c.AtShare == 0 {
		return DefaultAtShare
	}
	return c.AtShare
}

// Enabled reports whether c ever folds.
func (c Compaction) Enabled() bool { s := c.share(); return s > 0 && s < 1 }

// Threshold is the size of a ledger in tokens at which it is folded, under a
// section of effective tokens. It is out of reach when c is off.
func (c Compaction) Threshold(effective int) int {
	if !c.Enabled() {
		return math.MaxInt
	}
	return int(math.Floor(float64(effective) * c.share()))
}

func (c Compaction) keep() int {
	if c.KeepRecent == 0 {
		return DefaultKeepRecent
	}
	return max(c.KeepRecent, 1)
}

// Fold is a paragraph that stands for the first observations of a run. It is
// stored before the ledger is changed and read again on a resume, so that no
// fold is bought twice. It is known by how far it reaches and not by how many
// entries it replaced: two folds can replace equally many.
type Fold struct {
	Through     int    // how many stored observations of the run it covers, an earlier fold's among them
	ThroughStep int    // the last step that it covers any part of
	Step        int    // the step at which it was made
	Text        string // the paragraph, bounded
	Before      int    // tokens of the ledger before and after
	After       int
}

// weak reports that the fold gained less than a quarter.
func (f Fold) weak() bool { return (f.Before-f.After)*4 < f.Before }

// Log is a run's ledger in memory: what a fold covers is replaced by its
// paragraph and by the operator's words of that part, verbatim. It only grows
// at its end, and only a fold shortens its front. It is not safe for concurrent use.
type Log struct {
	fold    *Fold
	words   []trace.Observation // said by a person within the folded part
	tail    []trace.Observation // observed after it
	through int                 // stored observations before tail
	durable int                 // entries of tail that are stored
}

// NewLog restores the log of a run from its stored observations, all of them and
// in order, and from its newest fold, nil for none. A fold that reaches past the
// observations is ignored.
func NewLog(stored []trace.Observation, fold *Fold) *Log {
	l := &Log{}
	if fold != nil && fold.Through > 0 && fold.Through <= len(stored) {
		f := *fold
		l.fold, l.through = &f, f.Through
		l.words = wordsOf(stored[:f.Through])
		stored = stored[f.Through:]
	}
	l.tail = slices.Clone(stored)
	l.durable = len(l.tail)
	return l
}

func wordsOf(obs []trace.Observation) (words []trace.Observation) {
	for _, o := range obs {
		if Word(o) {
			words = append(words, o)
		}
	}
	return words
}

// Clone returns a log that changes without l, so that a fold can be made
// durable before it counts.
func (l *Log) Clone() *Log {
	c := *l
	c.words, c.tail = slices.Clone(l.words), slices.Clone(l.tail)
	return &c
}

// Add appends what was observed.
func (l *Log) Add(obs ...trace.Observation) { l.tail = append(l.tail, obs...) }

// Committed says that everything added so far is stored.
func (l *Log) Committed() { l.durable = len(l.tail) }

// Uncommitted is what was added since.
func (l *Log) Uncommitted() []trace.Observation { return slices.Clone(l.tail[l.durable:]) }

// Discard drops what was added since, for a step that is not committed.
func (l *Log) Discard() { l.tail = slices.Clip(l.tail[:l.durable]) }

// Stored is how many observations of the run are stored, those under a fold among
// them.
func (l *Log) Stored() int { return l.through + l.durable }

// Since is what was observed after the first n, as far as no fold covers it. It is
// to be read only.
func (l *Log) Since(n int) []trace.Observation {
	return slices.Clip(l.tail[min(max(n-l.through, 0), len(l.tail)):])
}

// Live is the ledger as it stands: the fold's paragraph, the words that it
// covers, and everything after it. It is to be read only, and stays as it is while
// the log grows.
func (l *Log) Live() []trace.Observation {
	if l.fold == nil {
		return l.Since(0)
	}
	live := make([]trace.Observation, 0, 1+len(l.words)+len(l.tail))
	live = append(live, SummaryObservation(l.fold.Step, l.fold.Text))
	live = append(live, l.words...)
	return append(live, l.tail...)
}

// FoldedStep is the last step that the fold covers any part of, 0 for none.
func (l *Log) FoldedStep() int {
	if l.fold == nil {
		return 0
	}
	return l.fold.ThroughStep
}

// Fold is the newest fold, if there is one.
func (l *Log) Fold() (Fold, bool) {
	if l.fold == nil {
		return Fold{}, false
	}
	return *l.fold, true
}

// Tokens estimates the ledger as it stands.
func (l *Log) Tokens() int {
	n := 0
	for _, o := range l.Live() {
		n += EstimateTokens(o.Text)
	}
	return n
}

// Cut is a part of a ledger that should be folded.
type Cut struct {
	Through     int    // as in Fold
	ThroughStep int    // as in Fold
	Before      int    // tokens of the whole ledger
	Notes       string // what the paragraph must replace, for the summariser

	entries int // of the log's tail
}

// Due says whether the ledger should be folded now, and which part. forced goes
// past the threshold and past the fruitlessness of an earlier fold, and past
// nothing else: what is off stays off, and what is not stored is never folded.
//
// Otherwise a ledger is folded when it fills the threshold. After a fold that
// gained less than a quarter the next waits until the ledger has grown by half.
func (l *Log) Due(c Compaction, effective int, forced bool) (Cut, bool) {
	if !c.Enabled() {
		return Cut{}, false
	}
	n := l.foldable(c.keep())
	if n <= 0 || !slices.ContainsFunc(l.tail[:n], func(o trace.Observation) bool { return !Word(o) }) {
		return Cut{}, false // a fold keeps the words that it covers: nothing would be gained
	}
	before := l.Tokens()
	if !forced {
		if before < c.Threshold(effective) {
			return Cut{}, false
		}
		if l.fold != nil && l.fold.weak() && before*2 < l.fold.After*3 {
			return Cut{}, false
		}
	}
	cut := Cut{Through: l.through + n, Before: before, ThroughStep: l.FoldedStep(), entries: n}
	for _, o := range l.tail[:n] {
		cut.ThroughStep = max(cut.ThroughStep, o.Step)
	}
	cut.Notes = l.notes(n, effective)
	return cut, true
}

// foldable is how many entries of the tail may go. A step with results is not
// cut in two while an earlier border is there, because a turn whose results are
// partly gone cannot be replayed.
func (l *Log) foldable(keep int) int {
	n := min(len(l.tail)-keep, l.durable)
	if n <= 0 || n >= len(l.tail) {
		return n
	}
	for border := n; border > 0; border-- {
		if s := l.tail[border].Step; s == 0 || l.tail[border-1].Step != s {
			return border
		}
	}
	return n
}

// notes is what the summariser reads: the earlier paragraph and the entries that
// go, without the operator's words, which stay. It is held to twice the section's
// budget by shortening the entries.
func (l *Log) notes(n, effective int) string {
	var parts []string
	if l.fold != nil {
		parts = append(parts, line(l.fold.Text))
	}
	total := 0
	for _, o := range l.tail[:n] {
		if !Word(o) {
			total += EstimateTokens(o.Text)
		}
	}
	limit := math.MaxInt
	if most := 2 * max(effective, MinTokens); total > most {
		limit = max(most*charsPerToken/n, 80)
	}
	for _, o := range l.tail[:n] {
		if !Word(o) {
			parts = append(parts, line(shorten(o, limit)))
		}
	}
	return strings.Join(parts, "")
}

// Apply puts a paragraph in the place of a cut and returns the fold to store.
// ok is false, and nothing changes, when the text is blank. Store the fold
// before the next request is made of the log. limit bounds the text in characters.
func (l *Log) Apply(cut Cut, step int, text string, limit int) (f Fold, ok bool) {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if text == "" || cut.entries <= 0 || cut.entries > l.durable {
		return Fold{}, false
	}
	l.fold = &Fold{
		Through: cut.Through, ThroughStep: cut.ThroughStep, Step: step,
		Text: Bound(text, limit, trace.ObsMessage), Before: cut.Before,
	}
	l.words = append(l.words, wordsOf(l.tail[:cut.entries])...)
	l.tail = slices.Clone(l.tail[cut.entries:])
	l.through = cut.Through
	l.durable -= cut.entries
	l.fold.After = l.Tokens()
	return *l.fold, true
}
