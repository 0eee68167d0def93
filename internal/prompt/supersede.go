package prompt

import (
	"math"
	"path"
	"slices"
	"strings"

	"github.com/initorigin/io-harness-go/trace"
)

// Read is a file read whose text would be shown again and may no longer be true.
type Read struct {
	Index        int    // of the observation in the ledger
	Target       string // the path as the observation names it
	First, Count int    // the range of lines, both zero for the whole file
	Digest       string // of the bytes it saw, empty when unknown
	Step         int    // of the read
	WrittenAt    int    // the first step at which this run wrote the path since, 0 for never
	Newer        int    // tokens of what stands behind it in the ledger, other Reads aside, as far as they were counted

	text string
}

// Cost is how many tokens the read takes as it stands in the ledger.
func (r Read) Cost() int { return EstimateTokens(line(r.text)) }

// Stale reports whether the run itself made the read wrong.
func (r Read) Stale() bool { return r.WrittenAt > 0 }

// Beyond reports that the read has no place in a section of room tokens, whatever
// the file holds by now: nobody has to look at it. reads are the tokens of the
// newer Reads, as they will be shown.
func (r Read) Beyond(room, reads int) bool { return r.Newer+reads > max(room, 0) }

// Fresh is the caller's second look at a Read: the text as it is now, of the
// same lines, or why it cannot be shown.
type Fresh struct {
	Text string
	// Why is a short clause ("the policy refuses it"), empty for success.
	Why string
	// Beyond says that nobody looked, because the read has no place: Read.Beyond.
	Beyond bool
}

// Reads lists the file reads of a ledger that no later read covers and that
// somebody must look at before Assemble: those that a write of the run made
// stale, which must be read again, and those with a digest, which must be read
// again when the file has another one by now. foldCase says that the host's file
// system takes two cases of a name for one. What stands behind a read is counted
// until it outgrows a section of room tokens: what is older is Beyond anyway.
//
// The caller reads them through policy and workspace as the model would, an ask
// counting as a refusal, and passes the results to Assemble by their Index. A
// file that is no longer text is a reason, not a text.
func Reads(ledger []trace.Observation, foldCase bool, room int) []Read {
	marks := supersession(ledger, foldCase)
	var reads []Read
	newer := 0
	for i, o := range slices.Backward(ledger) {
		switch {
		case marks[i].superseded > 0:
		case o.Kind != trace.ObsRead || o.Target == "" || marks[i].written == 0 && o.Digest == "":
			if newer <= max(room, 0) {
				newer += EstimateTokens(line(o.Text))
			}
		default:
			reads = append(reads, Read{
				Index: i, Target: o.Target, First: o.First, Count: o.Count,
				Digest: o.Digest, Step: o.Step, WrittenAt: marks[i].written,
				Newer: newer, text: o.Text,
			})
		}
	}
	slices.Reverse(reads)
	return reads
}

// mark says what later entries did to one entry. Steps are stored plus one, so
// that zero means never and the step 0 of a conversation's seed is not lost.
type mark struct {
	superseded int // step+1 of the nearest later entry that says the same, newer
	written    int // step of the nearest later write to the path of a read
}

type subject struct {
	kind   trace.ObservationKind
	target string
}

// supersession walks a ledger once, backwards.
func supersession(ledger []trace.Observation, foldCase bool) []mark {
	marks := make([]mark, len(ledger))
	nearest := map[subject]int{}  // step+1 of the next entry of a subject
	written := map[string]int{}   // step of the next write of a path
	seen := map[string]coverage{} // ranges of later reads of a path
	for i := len(ledger) - 1; i >= 0; i-- {
		o := ledger[i]
		if o.Target == "" {
			continue
		}
		switch o.Kind {
		case trace.ObsRead:
			p := pathKey(o.Target, foldCase)
			r := span(o)
			marks[i].superseded = seen[p].over(r)
			seen[p] = seen[p].add(r, o.Step+1)
			marks[i].written = written[p]
		case trace.ObsWrite:
			p := pathKey(o.Target, foldCase)
			key := subject{o.Kind, p}
			marks[i].superseded = nearest[key]
			nearest[key] = o.Step + 1
			written[p] = max(o.Step, 1)
		case trace.ObsGrep, trace.ObsFind, trace.ObsSkill:
			key := subject{o.Kind, o.Target}
			marks[i].superseded = nearest[key]
			nearest[key] = o.Step + 1
		}
	}
	return marks
}

// pathKey is the identity of a workspace path: ./a, a and b/../a are one file.
func pathKey(p string, foldCase bool) string {
	p = path.Clean(p)
	if foldCase {
		p = strings.ToLower(p)
	}
	return p
}

// lines is a range of lines, both ends included; the end of a file is unknown
// and taken as infinite.
type lines struct{ first, last int }

const maxLine = math.MaxInt

func span(o trace.Observation) lines {
	r := lines{max(o.First, 1), maxLine}
	if o.Count > 0 && o.Count < maxLine-r.first {
		r.last = r.first + o.Count - 1
	}
	return r
}

// coverage holds the later reads of one path, the nearest last, without those
// that lie inside a nearer one. A read of the whole file clears it, so it is as
// long as the number of different ranges that were read since.
type coverage []struct {
	lines
	step int // step+1
}

// over is the step+1 of the nearest later read that shows all of r, 0 for none.
func (c coverage) over(r lines) int {
	for _, later := range slices.Backward(c) {
		if later.first <= r.first && later.last >= r.last {
			return later.step
		}
	}
	return 0
}

func (c coverage) add(r lines, step int) coverage {
	kept := c[:0]
	for _, later := range c {
		if r.first > later.first || r.last < later.last {
			kept = append(kept, later)
		}
	}
	return append(kept, struct {
		lines
		step int
	}{r, step})
}
