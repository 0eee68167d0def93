package prompt

import (
	"fmt"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/policy"
)

// The functions of this file answer a call that did not happen or went wrong.
// Their observation is of kind error and has no target, so it never takes the
// place of an earlier success. Texts of other people are shown as they came:
// the pipeline bounds the whole.

// Refused answers a call that the policy forbids. rule and layer are empty where
// a default decided.
func Refused[A ~string](act A, target, rule, layer string) string {
	why := "by default"
	switch {
	case rule != "" && layer != "":
		why = fmt.Sprintf("by the rule `%s` of %s", label(rule), label(layer))
	case rule != "":
		why = fmt.Sprintf("by the rule `%s`", label(rule))
	case layer != "":
		why = "by " + label(layer)
	}
	return message(fmt.Sprintf("[%s refused] %s\nThe policy forbids it %s. Nothing was done. Try something else.", string(act), label(target), why))
}

// Denied answers a call that a person or an approver did not allow.
func Denied[A ~string](act A, target, reason string) string {
	text := fmt.Sprintf("[%s denied] %s\nThe approver said no. Nothing was done.", string(act), label(target))
	if reason = strings.TrimSpace(reason); reason != "" {
		text += " The reason given: " + reason
	}
	return message(text)
}

// HookRefused answers a call that a hook of the operator refused. words is what
// the hook said.
func HookRefused(tool, program, words string) string {
	text := fmt.Sprintf("[%s refused] The operator's hook %s refused the call. Nothing was done.", label(tool), label(program))
	if words != "" {
		text += "\n" + words
	}
	return message(text)
}

// NeedsContainment answers a call of a tool that needs wider access than the run
// was granted.
func NeedsContainment(tool, needs, granted string) string {
	return message(fmt.Sprintf("[%s refused] It needs %s and this run is granted %s. Nothing was started.", label(tool), label(needs), label(granted)))
}

// PlanFirst answers a call that has to wait for the approval of a plan.
func PlanFirst(tool string) string {
	return message(fmt.Sprintf("[%s refused] No plan is approved yet. Nothing was done. Propose one with propose_plan first.", label(tool)))
}

// Withheld answers a call of a tool that the operator withholds for the turn.
func Withheld(tool string) string {
	return message(fmt.Sprintf("[%s refused] The operator withholds this tool for now. Nothing was done. Go on without it.", label(tool)))
}

// UnknownTool answers a call of a tool that is not offered.
func UnknownTool(name string, offered []string) string {
	text := fmt.Sprintf("[unknown tool %s] There is no such tool; nothing was done.", label(name))
	if len(offered) > 0 {
		shown := make([]string, len(offered))
		for i, n := range offered {
			shown[i] = label(n)
		}
		text += " You have: " + strings.Join(shown, ", ") + "."
	}
	return message(text)
}

// BadArguments answers a call whose arguments cannot be used. problem names the
// field and what is wrong with it.
func BadArguments(tool, problem string) string {
	return message(fmt.Sprintf("[%s error] The arguments cannot be used: %s. Nothing was done.", label(tool), strings.TrimRight(problem, ". \n")))
}

// ToolError answers a call that failed.
func ToolError(tool, problem string) string {
	return message(fmt.Sprintf("[%s error] %s", label(tool), problem))
}

// ToolPanicked answers a call that crashed inside its tool, with the type and the
// beginning of what it panicked with.
func ToolPanicked(tool string, with any) string {
	return message(fmt.Sprintf("[%s error] The tool crashed with %T: %s. What it had done by then is not known; look before you call it again.", label(tool), with, label(fmt.Sprint(with))))
}

// ToolTimedOut answers a call that was stopped by its own timeout.
func ToolTimedOut(tool string, after time.Duration) string {
	return message(fmt.Sprintf("[%s timed out] It was stopped after %s and nothing of its output was kept. Ask for something narrower.", label(tool), after))
}

// ToolAbandoned answers a call that did not return after it was told to stop.
func ToolAbandoned(tool string) string {
	return message(fmt.Sprintf("[%s error] It did not stop when told to and was left behind. Whether it still acts is not known.", label(tool)))
}

// ToolResult is what a tool of a program or a server brought, under a head that
// names it. Built-in tools write their own.
func ToolResult(tool, text string) string {
	return message(fmt.Sprintf("[%s]\n%s", label(tool), text))
}

// Settled answers a call that was interrupted and of which a person said that it
// was completed, with what it brought.
func Settled(tool, account string) string {
	text := fmt.Sprintf("[%s] The call was interrupted. The operator says that it was completed; it was not made again.", label(tool))
	if account != "" {
		text += " What it brought:\n" + account
	}
	return message(text)
}

// MadeBefore tells of a call that was made before a crash and that the step, made
// again, did not ask for.
func MadeBefore(tool, args, result string) string {
	return message(fmt.Sprintf("[%s] Before the run was interrupted, this step made the call %s, and it was carried out. Do not make it again only because you did not see it. It brought:\n%s",
		label(tool), args, result))
}

// NotExecuted answers a call that was never made because the run paused or
// stopped before it.
func NotExecuted(tool string) string {
	return message(fmt.Sprintf("[%s not executed] The run paused or stopped before this call.", label(tool)))
}

// ApprovedBefore answers a call whose approval was for something that is not any
// more what it was: path names what has changed since the question was put.
func ApprovedBefore[A ~string](act A, target, path string) string {
	return message(fmt.Sprintf("[%s denied] %s\nIt was approved, and %s has changed since the question was put, so nothing was done. Ask for it again if it is still wanted.",
		string(act), label(target), label(path)))
}

// ArchivedGoal stands for the goal of a run that was archived and goes on.
const ArchivedGoal = "Go on with the work that was begun here. What it was for has been archived: go by what is said from now on and by the files."

// ApprovedWithoutWords answers a call that was approved when nobody knows any more
// what it asked for in full.
func ApprovedWithoutWords[A ~string](act A, target string) string {
	return message(fmt.Sprintf("[%s denied] %s\nIt was approved, and its arguments have been archived, so nothing was done. Ask for it again if it is still wanted.",
		string(act), label(target)))
}

// ImagesNotShown follows the text of a tool that brought images to a model that
// reads text only.
func ImagesNotShown(n int) string {
	return line(fmt.Sprintf("[%d %s not shown: this model reads text only]", n, plural(n, "image", "images")))
}

// ImageLeftOut follows the text of a tool of which the n-th of so many images
// cannot be shown.
func ImageLeftOut(n, of int, why string) string {
	return line(fmt.Sprintf("[image %d of %d not shown: %s]", n, of, label(why)))
}

// ImagesLeftOut follows the named ones with the number of the others.
func ImagesLeftOut(more int) string {
	return line(fmt.Sprintf("[%d more %s not shown]", more, plural(more, "image", "images")))
}

// ImagesRefused tells that the provider refused a request for its images, and was
// asked again without them.
func ImagesRefused(n int) string {
	return message(fmt.Sprintf("[%s not shown] The provider refused %d %s of the step before, so you have not seen what is on them. Find out another way.",
		plural(n, "image", "images"), n, plural(n, "image", "images")))
}

// ImagesLost tells that the run was interrupted before a request carried images of
// the step before.
func ImagesLost(n int) string {
	return message(fmt.Sprintf("[%s not shown] The run was interrupted before you saw %d %s of the step before. Ask for what you still need to see.",
		plural(n, "image", "images"), n, plural(n, "image", "images")))
}

// GuardedChanged tells that a command changed places whose content is run or
// obeyed later by other programs.
func GuardedChanged(paths []string) string {
	return message("[protected places] A command made or changed " + labels(paths) +
		". Such places are run or obeyed later, outside of your limits, so this is on record. Undo it unless the task asks for exactly that.")
}

// OtherBoundary tells that commands started inside another boundary than the one that
// was announced: what holds there, and why.
func OtherBoundary(holds, announced string, why []string) string {
	text := "[sandbox] A command was not started under " + label(announced) + " as announced. What held for it: " + policy.Escape(holds) + "."
	if len(why) > 0 {
		text += " The reason: " + labels(why) + "."
	}
	return message(text)
}

// GuardedChangedBetween tells of such places that were changed when the run was cut off
// or while it waited.
func GuardedChangedBetween(paths []string) string {
	return message("[protected places] Since this run was interrupted " + labels(paths) +
		" was made, changed or removed, by a command that was cut off or by somebody else. Such places are run or obeyed later, outside of your limits, so this is on record. If a command of yours did it, undo it unless the task asks for exactly that.")
}

func labels(texts []string) string {
	shown := make([]string, len(texts))
	for i, t := range texts {
		shown[i] = label(t)
	}
	return strings.Join(shown, ", ")
}
