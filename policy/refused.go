package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrRefused is what every [*RefusedError] answers to errors.Is.
var ErrRefused = errors.New("refused by policy")

// RefusedError says that something did not happen because it was not allowed, where
// that cannot be an observation of a running agent: the workspace used directly, the
// endpoint of a provider, the start of a server, a verification command.
type RefusedError struct {
	Act    Act
	Target string // as it was asked; Error shows it escaped
	Rule   string // the pattern that decided; empty with Layer empty: the default did
	Layer  string
	Asks   bool // the policy would have asked, and nobody can be asked here

	// Denied says that an approver was asked and said no. No rule refused it then,
	// and Rule and Layer are empty. Reason is what the approver said, if anything.
	Denied bool
	Reason string
}

// Refusal returns the error for a need that v did not allow.
func (v Verdict) Refusal(n Need) *RefusedError {
	target := n.Target
	if target == "" && len(n.Argv) > 0 {
		target = strings.Join(n.Argv, " ")
	}
	return &RefusedError{Act: n.Act, Target: target, Rule: v.Rule, Layer: v.Layer, Asks: v.Effect == Ask}
}

func (e *RefusedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of \"%s\" refused: ", e.Act, Escape(e.Target))
	if e.Denied {
		b.WriteString("the approver denied it")
		if e.Reason != "" {
			b.WriteString(": " + Escape(e.Reason))
		}
		return b.String()
	}
	verb, object := "denies", " it"
	if e.Asks {
		verb, object = "asks", " about it"
	}
	switch {
	case e.Layer != "":
		fmt.Fprintf(&b, "rule \"%s\" of layer \"%s\" %s%s", Escape(e.Rule), Escape(e.Layer), verb, object)
	case e.Rule != "":
		fmt.Fprintf(&b, "%s, which no policy can allow", Escape(e.Rule))
	default:
		fmt.Fprintf(&b, "no rule allows it and the default for %s %s", e.Act, verb)
	}
	if e.Asks {
		b.WriteString(", and nobody can be asked here: allow it by a rule")
	}
	return b.String()
}

// Is reports that every refusal is [ErrRefused].
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// Escape makes text that an agent chose safe to show to a person or to write into a
// log line: control characters, line breaks, bidirectional overrides, characters
// without width, and bytes that are not UTF-8 are written as Go escapes. Everything
// that can be seen stays. Stored text is never escaped.
func Escape(s string) string {
	clean := true
	for i := 0; i < len(s) && clean; {
		r, n := utf8.DecodeRuneInString(s[i:])
		clean = !hidden(r, n)
		i += n
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case !hidden(r, n):
			b.WriteString(s[i : i+n])
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		i += n
	}
	return b.String()
}

// hidden reports what cannot be seen or moves what can be seen: everything that is
// not graphic, the blanks other than the plain space, and variation selectors,
// fillers and tags that most fonts draw as nothing.
func hidden(r rune, width int) bool {
	switch {
	case r == utf8.RuneError && width == 1:
		return true
	case r == ' ':
		return false
	case !unicode.IsPrint(r):
		return true
	case r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0100 && r <= 0xE01EF, r == 0x034F, r == 0x115F, r == 0x1160, r == 0x3164, r == 0xFFA0:
		return true
	}
	return false
}
