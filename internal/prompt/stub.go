package prompt

import (
	"fmt"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/trace"
)

// kindLabel is the word for a kind in a prompt. It is not the stored text and
// may change where that may not.
func kindLabel(k trace.ObservationKind) string {
	switch k {
	case trace.ObsWrite:
		return "wrote"
	case trace.ObsMCP:
		return "mcp tool"
	case trace.ObsMessage:
		return "note"
	}
	return string(k)
}

// stub is the line that stands for an entry whose text is not shown.
func stub(o trace.Observation, why string) string {
	head := kindLabel(o.Kind)
	if o.Target != "" {
		head += " " + label(o.Target)
	}
	if o.First > 0 || o.Count > 0 {
		head += " " + span(o).String()
	}
	return "[" + head + "] (elided: " + why + ")\n"
}

func supersededWhy(o trace.Observation, step int) string {
	return fmt.Sprintf("superseded by the %s at step %d", kindLabel(o.Kind), step)
}

func tooOldWhy(o trace.Observation) string {
	size := utf8.RuneCountInString(o.Text)
	why := fmt.Sprintf("%s %s, older than what fits", commas(size), plural(size, "character", "characters"))
	switch o.Kind {
	case trace.ObsRead:
		return why + "; read it again, with offset and limit, if you need it"
	case trace.ObsWrite, trace.ObsMessage:
		return why
	case trace.ObsGrep, trace.ObsFind, trace.ObsSkill:
		return why + "; run it again if you need it"
	}
	return why + "; run it again only if you need its output and may repeat it"
}

// collapseLine stands for all stubs when they would crowd out what is whole.
func collapseLine(n int) string {
	return fmt.Sprintf("(%d older %s elided; ask again for what you still need)\n", n, plural(n, "observation is", "observations are"))
}

// staleWhy says why a read that may be wrong is not shown.
func staleWhy(r Read, reason string) string {
	return fmt.Sprintf("%s, and %s; read it yourself if you need it", changedBy(r), label(reason))
}

// fresh is a read that was made again. It names the steps of the read and of the
// write and nothing that moves, so it stays the same while the file does.
func fresh(r Read, text string) string {
	rng := ""
	if r.First > 0 || r.Count > 0 {
		rng = " " + span(trace.Observation{First: r.First, Count: r.Count}).String()
	}
	return fmt.Sprintf("\n[read %s%s] (read again for this request: %s)\n%s", label(r.Target), rng, changedBy(r), line(text))
}

func changedBy(r Read) string {
	if r.Stale() {
		return fmt.Sprintf("first read at step %d, written at step %d", r.Step, r.WrittenAt)
	}
	return fmt.Sprintf("first read at step %d, changed by somebody else since", r.Step)
}

func (r lines) String() string {
	if r.last == maxLine {
		return fmt.Sprintf("from line %d", r.first)
	}
	return fmt.Sprintf("lines %d-%d", r.first, r.last)
}
