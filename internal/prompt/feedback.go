package prompt

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/provider"
)

// The functions of this file are what the loop tells a model in messages of its
// own. Such a message answers no call, has no target and supersedes nothing.

// MaxOutputFailures is how many failures of one answer a model is told.
const MaxOutputFailures = 20

// Characters counts Unicode code points, which is how every limit on a text
// counts.
func Characters(s string) int { return utf8.RuneCountInString(s) }

// message starts and ends with a line break, as every observation does.
func message(text string) string { return "\n" + line(text) }

// NoToolCall records a completion that called nothing: what it said, and, when
// its ending was no ending, what that means.
func NoToolCall(step int, text string, ending provider.Finish) string {
	head := fmt.Sprintf("[step %d] (no tool call)\n", step)
	if strings.TrimSpace(text) != "" {
		head += line(text)
	}
	return message(head + unfinished(ending))
}

// unfinished says why a completion without a call was not taken as an answer. It
// is empty for an ordinary stop.
func unfinished(ending provider.Finish) string {
	switch ending {
	case provider.FinishLength:
		return "[cut] It ended at the output limit and was not taken as an answer. Go on with less text at a time."
	case provider.FinishContentFilter:
		return "[withheld] The provider withheld it, and it was not taken as an answer. Go on another way."
	case provider.FinishRefusal:
		return "[declined] It was reported as a refusal and was not taken as an answer. Do what you can do of the task, and say what you cannot."
	case provider.FinishMalformedCall:
		return "[malformed call] You meant to call a tool, and the call could not be formed. Call it again with one JSON object as arguments."
	case provider.FinishPaused:
		return "[paused] The provider paused in the middle of your turn. Go on where you were."
	case provider.FinishError:
		return "[error] The provider broke it off, and it was not taken as an answer. Go on."
	case provider.FinishEmpty:
		return "[empty] It was empty. Call a tool, or say in words that you are done."
	}
	return ""
}

// SearchFailed tells of a search or fetch that the provider ran and that failed,
// which must not look like a search that found nothing.
func SearchFailed(name, reason string) string {
	return message(fmt.Sprintf("[%s failed] The provider could not run it: %s. That is no sign that there is nothing to find.", label(name), label(reason)))
}

// Replan tells a run that repeats itself to change its approach. repeated is
// what it did again and again, empty for steps without a call.
func Replan(window int, repeated string) string {
	what := "which called nothing"
	if repeated != "" {
		what = "such as " + label(repeated)
	}
	return message(fmt.Sprintf("[change your approach] Your last %d steps, %s, did not move the work on. Do something else: read what you have not read, take another way, or say what stands in your way. If they repeat the run is stopped.", max(window, 2), what))
}

// GateFailed tells why the work does not pass. feedback is the verdict's own
// account, bounded; a caller tells the same account once.
func GateFailed(feedback string) string { return message("[check failed] " + feedback) }

// OutputRejected tells what was wrong with a final answer that does not conform.
// left is how often it may still be tried.
func OutputRejected(failures []string, left int) string {
	var b strings.Builder
	b.WriteString("[answer rejected] Your answer does not conform to the JSON schema:\n")
	for i, f := range failures {
		if i == MaxOutputFailures {
			n := len(failures) - i
			fmt.Fprintf(&b, "- and %d more %s\n", n, plural(n, "failure", "failures"))
			break
		}
		b.WriteString("- " + label(f) + "\n")
	}
	fmt.Fprintf(&b, "Send the whole document again, and nothing but the document. %d %s left.", left, plural(left, "try is", "tries are"))
	return message(b.String())
}
