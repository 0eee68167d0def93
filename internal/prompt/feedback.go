package prompt

import (
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

// Limits of what a model is told about a failed gate and a refused answer.
const (
	GateFeedbackLines = 60
	GateFeedbackChars = 4_000
	OutputFailures    = 20
)

// note is a message of the harness: it answers no call and supersedes nothing.
func note(step int, text string) trace.Observation {
	return trace.Observation{Step: step, Kind: trace.ObsMessage, Text: "\n" + line(text)}
}

// NoToolCall records a completion that called nothing.
func NoToolCall(step int, text string) trace.Observation {
	return note(step, fmt.Sprintf("[step %d] (no tool call)\n%s", step, text))
}

// CutShort tells of a completion without tool calls that was no ending. ok is
// false for an ending, which needs no words.
func CutShort(step int, f provider.Finish) (o trace.Observation, ok bool) {
	var text string
	switch f {
	case provider.FinishLength:
		text = "[cut] Your reply ended at the output limit, so it was not taken as an answer. Go on with less text at a time."
	case provider.FinishContentFilter:
		text = "[withheld] The provider withheld your reply, so it was not taken as an answer. Go on another way."
	case provider.FinishRefusal:
		text = "[declined] Your reply was reported as a refusal and was not taken as an answer. Do the parts of the task that you can do, and say which you cannot."
	case provider.FinishMalformedCall:
		text = "[malformed call] You meant to call a tool and the call could not be formed. Call it again with one JSON object as arguments."
	case provider.FinishPaused:
		text = "[paused] The provider paused in the middle of your turn. Go on where you were."
	case provider.FinishError:
		text = "[error] The provider broke off your reply, so it was not taken as an answer. Go on."
	case provider.FinishEmpty:
		text = "[empty] Your reply was empty. Call a tool, or say in words that you are done."
	default:
		return trace.Observation{}, false
	}
	return note(step, text), true
}

// SearchFailed tells of a search or fetch that the provider ran and that failed,
// which must not look like a search that found nothing.
func SearchFailed(step int, name, reason string) trace.Observation {
	return note(step, fmt.Sprintf("[%s failed] The provider could not run it: %s. That is no sign that there is nothing to find.", label(name), label(reason)))
}

// Replan tells a run that repeats itself to change its approach.
func Replan(step, window int) trace.Observation {
	return note(step, fmt.Sprintf("[change your approach] Your last %d steps repeated what had been tried and moved nothing in the workspace. Do something else: read what you have not read, take another way, or say what stands in your way. If it repeats once more the run may be stopped.", max(window, 2)))
}

// GateTail is the part of a failed gate's output that the model is told: its
// end, at most GateFeedbackLines lines and GateFeedbackChars characters.
func GateTail(output string) string {
	output = strings.TrimSpace(strings.ToValidUTF8(output, "\uFFFD"))
	lines := strings.Split(output, "\n")
	if n := len(lines) - GateFeedbackLines; n > 0 {
		output = strings.Join(lines[n:], "\n")
	}
	if n := len([]rune(output)) - GateFeedbackChars; n > 0 {
		output = output[runeOffset(output, n):]
	}
	return output
}

// GateFailed tells why the work does not pass. ok is false when there is nothing
// to tell: no phase, or one that says no more than the criterion in every
// prompt. The caller adds the same pair of phase and tail only once in a row.
func GateFailed(step int, phase, output string, limit int) (o trace.Observation, ok bool) {
	tail := GateTail(output)
	if phase == "" && tail == "" {
		return trace.Observation{}, false
	}
	text := fmt.Sprintf("[check failed: %s] The success criterion was evaluated after step %d and is not met.", label(phase), step)
	if tail != "" {
		text += " The end of its output:\n" + Bound(tail, limit, trace.ObsRead)
	}
	return note(step, text), true
}

// OutputRejected tells what was wrong with a final answer that does not conform.
// left is how often it may still be tried.
func OutputRejected(step int, failures []string, left int) trace.Observation {
	var b strings.Builder
	b.WriteString("[answer rejected] Your answer does not conform to the JSON schema:\n")
	for i, f := range failures {
		if i == OutputFailures {
			n := len(failures) - i
			fmt.Fprintf(&b, "- and %d more %s\n", n, plural(n, "failure", "failures"))
			break
		}
		b.WriteString("- " + label(f) + "\n")
	}
	fmt.Fprintf(&b, "Send the whole document again, and nothing but the document. %d %s left.", left, plural(left, "try is", "tries are"))
	return note(step, b.String())
}
