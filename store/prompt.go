package store

import (
	"strconv"
	"strings"
	"sync"

	"github.com/initorigin/io-harness-go/trace"
)

// The prompt of a step is mostly that of the step before it: lines are added at the
// end, and some in between are replaced by shorter ones. Stored whole, the prompts of
// a run would grow with the square of its steps, and writing them would be most of
// what a step costs. So a step keeps only what changed, unless that is no gain.
const (
	// promptChain is after how many steps a prompt is stored whole again: whoever
	// reads one step puts together at most so many.
	promptChain = 64
	// promptWhole is the length in bytes up to which a prompt is always stored whole.
	promptWhole = 1 << 10
	// anchorLine is the length of a line, in bytes, from which on it is looked for
	// elsewhere in the prompt before. Shorter ones are all over it.
	anchorLine = 12
)

// storedPrompt is a prompt as its row holds it: whole, or as the change to the prompt
// of the step before. from is the step of the last whole one, and 0 in a whole one.
type storedPrompt struct {
	whole  string
	change *string
	from   int
}

// after is the prompt, given that of the step before. It is empty when that one is
// not what it was, as when its words were archived.
func (p storedPrompt) after(before string) string {
	if p.change == nil {
		return p.whole
	}
	text, ok := applyChange(before, *p.change)
	if !ok {
		return ""
	}
	return text
}

// lastPrompt is what the next step's prompt is compared with.
type lastPrompt struct {
	mu         sync.Mutex
	step, from int // from is the step of the last whole prompt
	text       string
}

// keep remembers the prompt of a step that was committed, and how it is stored.
func (l *lastPrompt) keep(step int, text string, p storedPrompt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.change == nil {
		l.from = step
	}
	l.step, l.text = step, text
}

// take is how the prompt of a step is to be stored.
func (l *lastPrompt) take(step int, text string) storedPrompt {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.step == step-1 && l.text != "" && step-l.from < promptChain && len(text) > promptWhole {
		if change := changeOf(l.text, text); len(change) <= len(text)/2 {
			return storedPrompt{change: &change, from: l.from}
		}
	}
	return storedPrompt{whole: text}
}

// A piece of a prompt is copied from the prompt before, or new.
type piece struct {
	copied     bool
	start, end int // in the prompt before, or in the new one
}

// changeOf says how text is made of the text before: a sequence of `=start,length;`
// for bytes of before, and of `+length;` with the bytes for new ones. It works line by
// line and finds what stayed, what was put in and what was left out; it need not find
// the shortest change.
func changeOf(before, text string) string {
	head := sharedLines(before, text)
	var pieces []piece
	add := func(copied bool, start, end int) {
		if n := len(pieces); n > 0 && pieces[n-1].copied == copied && pieces[n-1].end == start {
			pieces[n-1].end = end
		} else if start < end {
			pieces = append(pieces, piece{copied, start, end})
		}
	}
	add(true, 0, head)
	var anchors map[string]int // made when the first line differs
	follow := head             // where the prompt before goes on behind what was copied last
	for at := head; at < len(text); {
		end := lineEnd(text, at)
		line := text[at:end]
		from, found := follow, strings.HasPrefix(before[follow:], line)
		if !found {
			if anchors == nil {
				anchors = linesOf(before, head)
			}
			from, found = anchors[line]
		}
		if found {
			follow = from + len(line)
			add(true, from, follow)
		} else {
			add(false, at, end)
		}
		at = end
	}
	var b strings.Builder
	for _, p := range pieces {
		if p.copied {
			b.WriteString("=" + strconv.Itoa(p.start) + "," + strconv.Itoa(p.end-p.start) + ";")
		} else {
			b.WriteString("+" + strconv.Itoa(p.end-p.start) + ";" + text[p.start:p.end])
		}
	}
	return b.String()
}

// applyChange makes a text of the one before. It reports false for a change that was
// made for another text.
func applyChange(before, change string) (string, bool) {
	var b strings.Builder
	for change != "" {
		kind := change[0]
		numbers, rest, ok := strings.Cut(change[1:], ";")
		if !ok {
			return "", false
		}
		switch kind {
		case '=':
			first, second, _ := strings.Cut(numbers, ",")
			start, err := strconv.Atoi(first)
			n, err2 := strconv.Atoi(second)
			if err != nil || err2 != nil || start < 0 || n < 0 || start > len(before)-n {
				return "", false
			}
			b.WriteString(before[start : start+n])
		case '+':
			n, err := strconv.Atoi(numbers)
			if err != nil || n < 0 || n > len(rest) {
				return "", false
			}
			b.WriteString(rest[:n])
			rest = rest[n:]
		default:
			return "", false
		}
		change = rest
	}
	return b.String(), true
}

// sharedLines is the length of the lines that a and b begin with alike.
func sharedLines(a, b string) int {
	const block = 512
	n, most := 0, min(len(a), len(b))
	for n+block <= most && a[n:n+block] == b[n:n+block] {
		n += block
	}
	for n < most && a[n] == b[n] {
		n++
	}
	return strings.LastIndexByte(b[:n], '\n') + 1
}

// linesOf is where each line of s begins that is long enough to be looked for, from
// start on.
func linesOf(s string, start int) map[string]int {
	lines := map[string]int{}
	for at := start; at < len(s); {
		end := lineEnd(s, at)
		if end-at >= anchorLine {
			if _, twice := lines[s[at:end]]; !twice {
				lines[s[at:end]] = at
			}
		}
		at = end
	}
	return lines
}

// lineEnd is where the line that begins at start ends, its line break included.
func lineEnd(s string, start int) int {
	if i := strings.IndexByte(s[start:], '\n'); i >= 0 {
		return start + i + 1
	}
	return len(s)
}

var readPrompts = statement{"read prompts", `SELECT prompt, prompt_change, coalesce(prompt_from, 0)
	FROM steps WHERE run_id = ? AND step >= ? AND step < ? ORDER BY step`}

// joinPrompts puts the prompts of a page together.
func joinPrompts(q *query, run trace.RunID, rows []StepRow) error {
	before, at := "", 0
	for i := range rows {
		r := &rows[i]
		if r.stored.change != nil && at != r.Step-1 {
			// The first of a page that begins in the middle.
			before = ""
			err := q.each(readPrompts, []any{run, r.stored.from, r.Step}, func(sc scanner) error {
				var p storedPrompt
				err := sc.Scan(&p.whole, &p.change, &p.from)
				before = p.after(before)
				return err
			})
			if err != nil {
				return err
			}
		}
		before, at = r.stored.after(before), r.Step
		r.Prompt, r.stored = before, storedPrompt{}
	}
	return nil
}
