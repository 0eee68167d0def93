package workspace

import (
	"fmt"
	"strings"
)

const (
	contextLines = 3
	noNewline    = `\ No newline at end of file`
)

// Diff is the change from old to new as one hunk of a unified diff, with up to
// three lines of context on each side and without file headers: everything from
// the first line that differs to the last. It is "" when the texts are equal.
// A line is the same line only if it is terminated in both texts or in neither.
func Diff(old, new string) string {
	a, b := lines(old), lines(new)
	head, tail := common(a, b)
	if head == len(a) && head == len(b) {
		return ""
	}
	from := max(head-contextLines, 0)
	after := min(tail, contextLines)
	aEnd, bEnd := len(a)-tail, len(b)-tail

	var s strings.Builder
	s.WriteString("@@ -")
	s.WriteString(span(from, aEnd+after-from))
	s.WriteString(" +")
	s.WriteString(span(from, bEnd+after-from))
	s.WriteString(" @@\n")
	put := func(op byte, ls []string) {
		for _, l := range ls {
			s.WriteByte(op)
			s.WriteString(l)
			if !strings.HasSuffix(l, "\n") {
				s.WriteString("\n" + noNewline + "\n")
			}
		}
	}
	put(' ', a[from:head])
	put('-', a[head:aEnd])
	put('+', b[head:bEnd])
	put(' ', a[aEnd:aEnd+after])
	return s.String()
}

// span is one side of a hunk header. A side without lines is placed after the
// line before it.
func span(before, count int) string {
	if count == 0 {
		return fmt.Sprintf("%d,0", before)
	}
	return fmt.Sprintf("%d,%d", before+1, count)
}

// lines cuts a text after each "\n", and nowhere else.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	ls := strings.SplitAfter(text, "\n")
	if ls[len(ls)-1] == "" {
		ls = ls[:len(ls)-1]
	}
	return ls
}

// common is how many lines two texts share at the beginning, and then how many
// of the rest at the end.
func common(a, b []string) (head, tail int) {
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head, tail
}

// countChange counts the lines between the common beginning and the common end.
func countChange(old, new string) (added, removed int) {
	a, b := lines(old), lines(new)
	head, tail := common(a, b)
	return len(b) - head - tail, len(a) - head - tail
}
