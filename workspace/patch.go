package workspace

import (
	"fmt"
	"strconv"
	"strings"
)

// hunk is one hunk of a unified diff.
type hunk struct {
	at                 int // its header's line in the patch, 1-based
	oldStart, oldCount int
	newStart, newCount int
	body               []hunkLine
}

type hunkLine struct {
	op         byte // ' ', '-' or '+'
	text       string
	noNewline  bool
	lineNumber int // in the patch
}

const patchForm = "write it as a unified diff: @@ -START,COUNT +START,COUNT @@ and then lines that begin with a space, - or +"

// parsePatch reads the hunks of a unified diff for one file. What stands before
// the first hunk is not looked at: the caller knows which file is meant.
func parsePatch(patch string) ([]hunk, error) {
	fail := func(line int, format string, args ...any) ([]hunk, error) {
		return nil, &PatchError{Line: line, Reason: fmt.Sprintf(format, args...)}
	}
	var hunks []hunk
	for i, raw := range lines(patch) {
		line := strings.TrimSuffix(raw, "\n")
		n := i + 1
		if strings.HasPrefix(line, "@@ ") {
			h, ok := parseHeader(line)
			if !ok {
				return fail(n, "the hunk header %s is not of the form @@ -START,COUNT +START,COUNT @@", quote(clip(line)))
			}
			h.at = n
			hunks = append(hunks, h)
			continue
		}
		if len(hunks) == 0 {
			continue
		}
		h := &hunks[len(hunks)-1]
		switch {
		case line == "" || line == "\r":
			if old, new := h.counted(); old == h.oldCount && new == h.newCount {
				continue // blank lines after a hunk that is complete
			}
			h.body = append(h.body, hunkLine{op: ' ', text: line, lineNumber: n})
		case line[0] == ' ' || line[0] == '-' || line[0] == '+':
			h.body = append(h.body, hunkLine{op: line[0], text: line[1:], lineNumber: n})
		case strings.TrimSuffix(line, "\r") == noNewline:
			if len(h.body) == 0 {
				return fail(n, "a no-newline marker follows no line")
			}
			h.body[len(h.body)-1].noNewline = true
		default:
			return fail(n, "it begins with %q: a line of a hunk begins with a space, - or +", []rune(line)[0])
		}
	}
	if len(hunks) == 0 {
		return nil, &PatchError{Reason: "there is no hunk in it: " + patchForm}
	}
	for i := range hunks {
		h := &hunks[i]
		if old, new := h.counted(); old != h.oldCount || new != h.newCount {
			return nil, &PatchError{Hunk: i + 1, Reason: fmt.Sprintf(
				"its header announces %d old and %d new lines and its body has %d and %d", h.oldCount, h.newCount, old, new)}
		}
	}
	return hunks, nil
}

func (h *hunk) counted() (old, new int) {
	for _, l := range h.body {
		if l.op != '+' {
			old++
		}
		if l.op != '-' {
			new++
		}
	}
	return old, new
}

// parseHeader reads "@@ -a,b +c,d @@…". A count that is left out is 1.
func parseHeader(line string) (h hunk, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || fields[0] != "@@" || !strings.HasPrefix(fields[3], "@@") {
		return h, false
	}
	if h.oldStart, h.oldCount, ok = parseSpan(fields[1], "-"); !ok {
		return h, false
	}
	h.newStart, h.newCount, ok = parseSpan(fields[2], "+")
	return h, ok
}

func parseSpan(s, sign string) (start, count int, ok bool) {
	s, ok = strings.CutPrefix(s, sign)
	if !ok {
		return 0, 0, false
	}
	first, second, both := strings.Cut(s, ",")
	if !both {
		second = "1"
	}
	start, ok = parseCount(first)
	if !ok {
		return 0, 0, false
	}
	count, ok = parseCount(second)
	return start, count, ok
}

// parseCount takes plain digits only: Atoi would take a sign as well.
func parseCount(s string) (int, bool) {
	if s == "" || len(s) > 9 {
		return 0, false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// applyHunks composes the new text. Each hunk is held against the old text at
// the place that it names, exactly; the first that does not fit fails them all.
func applyHunks(old string, hunks []hunk) (string, error) {
	c := composition{file: lines(old)}
	for i := range hunks {
		if reason := c.apply(&hunks[i], i+1); reason != "" {
			return "", &PatchError{Hunk: i + 1, Reason: reason, apply: true}
		}
	}
	c.keep(len(c.file))
	return c.text()
}

// composition is the new text while it is put together.
type composition struct {
	file []string // the old text
	next int      // its first line that is not yet dealt with
	out  []outLine
}

type outLine struct {
	text     string
	unending int // the hunk that added it and says that no newline follows; 0 otherwise
}

// keep takes the old lines up to the line upTo over as they are.
func (c *composition) keep(upTo int) {
	for ; c.next < upTo; c.next++ {
		c.out = append(c.out, outLine{text: c.file[c.next]})
	}
}

// apply appends what hunk number n makes of the old text, or says why it does
// not fit.
func (c *composition) apply(h *hunk, n int) (reason string) {
	pos := h.oldStart - 1
	if h.oldCount == 0 {
		pos = h.oldStart // inserted after that line
	}
	switch {
	case pos < 0:
		return "it starts at line 0 and has old lines: the first line is 1"
	case pos < c.next:
		return fmt.Sprintf("it starts at line %d, where the hunk before it has not ended: hunks must be in order and not overlap", h.oldStart)
	case pos > len(c.file) || h.oldCount > 0 && pos >= len(c.file):
		return fmt.Sprintf("it starts at line %d and the file has %d %s", h.oldStart, len(c.file), plural(len(c.file), "line", "lines"))
	}
	c.keep(pos)
	for _, l := range h.body {
		if l.op == '+' {
			o := outLine{text: l.text + "\n"}
			if l.noNewline {
				o = outLine{text: l.text, unending: n}
			}
			c.out = append(c.out, o)
			continue
		}
		if c.next >= len(c.file) {
			return fmt.Sprintf("it needs %d lines from line %d on and the file ends at line %d", h.oldCount, h.oldStart, len(c.file))
		}
		text, terminated := strings.CutSuffix(c.file[c.next], "\n")
		if text != l.text {
			return mismatch(c.next+1, l.text, text)
		}
		if l.noNewline && terminated {
			return fmt.Sprintf("it says that line %d has no newline at its end, and it has one", c.next+1)
		}
		if l.op == ' ' {
			c.out = append(c.out, outLine{text: c.file[c.next]})
		}
		c.next++
	}
	return ""
}

// text joins the lines. One without a newline is the last of the file, or was
// the last and now needs one.
func (c *composition) text() (string, error) {
	var b strings.Builder
	for i, l := range c.out {
		b.WriteString(l.text)
		if i == len(c.out)-1 || strings.HasSuffix(l.text, "\n") {
			continue
		}
		if l.unending > 0 {
			return "", &PatchError{Hunk: l.unending, apply: true, Reason: "it says that an added line has no newline at its end, and that line is not the last of the file"}
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

func mismatch(line int, want, found string) string {
	s := fmt.Sprintf("line %d should be %s and is %s", line, quote(clip(want)), quote(clip(found)))
	switch {
	case strings.TrimSuffix(want, "\r") == strings.TrimSuffix(found, "\r"):
		s += ": only the line ending differs"
	case strings.TrimSpace(want) == strings.TrimSpace(found):
		s += ": only white space at an end differs"
	}
	return s
}

// reverseHunks turns a patch round: what it added is removed, and the reverse.
func reverseHunks(hunks []hunk) []hunk {
	out := make([]hunk, len(hunks))
	for i, h := range hunks {
		r := hunk{at: h.at, oldStart: h.newStart, oldCount: h.newCount, newStart: h.oldStart, newCount: h.oldCount}
		for _, l := range h.body {
			switch l.op {
			case '+':
				l.op = '-'
			case '-':
				l.op = '+'
			}
			r.body = append(r.body, l)
		}
		out[i] = r
	}
	return out
}

// clip shortens a line for an error message.
func clip(s string) string {
	const most = 120
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}
