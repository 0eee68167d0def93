package prompt

import (
	"encoding/json"
	"strings"
)

// Task is what stands around the observations in the user text of a step.
// Except for Closing it must stay the same over the steps of a run, or the
// vendor's cache of the prefix is lost.
type Task struct {
	// Goal is shown verbatim.
	Goal string
	// Constraints are shown verbatim, in one line when they have none of their own.
	Constraints []string
	// Criterion says in prose what the gate checks. Empty: nothing checks.
	Criterion string
	// Output is the JSON schema of the final answer, nil for none. It is shown
	// as it was written.
	Output json.RawMessage
	// Project is the line about the detected toolchain, empty for none.
	Project string
	// Opening is the first completion of a turn that may be answered without
	// work: the operator's words and nothing else around them.
	Opening bool
	// Closing is a step that offers no tools and wants the final document only.
	Closing bool
}

// Frame is the text before the observations, in their absence, and after them.
type Frame struct{ Head, Empty, Tail string }

// Frame writes the text around the observations.
func (t Task) Frame() Frame {
	if t.Opening {
		return Frame{Head: line(t.Goal)}
	}
	var b strings.Builder
	b.WriteString("# Task\n" + line(t.Goal))
	b.WriteString("\n# Constraints\n")
	if len(t.Constraints) == 0 {
		b.WriteString("None are stated.\n")
	} else {
		b.WriteString(line(strings.Join(t.Constraints, "; ")))
	}
	if t.Output != nil {
		b.WriteString("Your final answer must be one JSON document that conforms to the following JSON schema, with nothing before or after it:\n")
		b.WriteString(line(string(t.Output)))
	}
	b.WriteString("\n# Success criterion\n")
	switch {
	case t.Criterion != "":
		b.WriteString(line(t.Criterion))
	default:
		b.WriteString("Nothing checks this work. A reply without a tool call ends the run, so give one only when the task is done or cannot be done.\n")
	}
	if t.Project != "" {
		b.WriteString("\n# Project\n" + line(t.Project))
	}
	b.WriteString("\n# Observations\n")
	f := Frame{
		Head:  b.String(),
		Empty: "Nothing has been observed yet. Start by looking at what the task is about.\n",
		Tail:  "\nTake the next step towards the task: call the tools it needs.\n",
	}
	if t.Criterion == "" {
		f.Tail = "\nTake the next step towards the task: call the tools it needs, or give the final answer.\n"
	}
	if t.Closing {
		f.Tail = "\nNo tools are offered now. Reply with the final JSON document only, conforming to the schema above.\n"
	}
	return f
}
