package prompt

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/trace"
)

// Bound cuts text to limit characters when it is longer, and says so in a marker
// with the number that was cut and the whole. Of a read the end is kept, because
// it is what a log or a growing file is read for; of everything else the
// beginning. Bytes that are not UTF-8 become U+FFFD. The marker comes on top of
// the limit.
func Bound(text string, limit int, kind trace.ObservationKind) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	total := utf8.RuneCountInString(text)
	limit = max(limit, 0)
	if total <= limit {
		return text
	}
	how := "ask for less at a time to see the rest"
	if kind == trace.ObsRead {
		how = "read it again with offset and limit to see the rest"
	}
	cut := total - limit
	mark := fmt.Sprintf("[truncated: %s of %s characters elided; %s]", commas(cut), commas(total), how)
	if kind == trace.ObsRead {
		return mark + "\n" + text[runeOffset(text, cut):]
	}
	return text[:runeOffset(text, limit)] + "\n" + mark
}

// runeOffset is the byte offset of the nth character of s.
func runeOffset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// commas writes n with thousands separators.
func commas(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// labelChars is how much of a name that somebody else chose is shown inside one
// of our own sentences: enough for any ordinary path.
const labelChars = 200

// label makes a foreign name fit for a line of our own: control characters and
// line breaks escaped, and cut to labelChars.
func label(s string) string {
	if n := runeOffset(s, labelChars); n < len(s) {
		s = s[:n] + "…"
	}
	return policy.Escape(s)
}

// line is a text as it stands in a section: valid UTF-8 without NUL, which no
// vendor accepts, and closed by a line break, so that whatever follows starts on
// its own line.
func line(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

// plural picks the form of a noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
