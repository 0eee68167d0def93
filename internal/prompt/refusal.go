package prompt

import (
	"fmt"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/trace"
)

// failure answers a call that did not happen or went wrong. It has no target, so
// it never takes the place of an earlier success.
func failure(step int, callID, text string) trace.Observation {
	return trace.Observation{Step: step, Kind: trace.ObsError, CallID: callID, Text: "\n" + line(text)}
}

// Refused answers a call that the policy forbids.
func Refused(step int, callID string, act policy.Act, target string, v policy.Verdict) trace.Observation {
	why := "by default"
	if v.Matched {
		why = fmt.Sprintf("by the rule `%s` of %s", label(v.Rule), label(v.Layer))
	}
	return failure(step, callID, fmt.Sprintf("[%s refused] %s\nThe policy forbids it %s. Nothing was done. Try something else.", act, label(target), why))
}

// Denied answers a call that a person or an approver did not allow.
func Denied(step int, callID string, act policy.Act, target, reason string, limit int) trace.Observation {
	text := fmt.Sprintf("[%s denied] %s\nThe approver said no. Nothing was done.", act, label(target))
	if reason != "" {
		text += " The reason given: " + Bound(strings.TrimSpace(reason), limit, trace.ObsError)
	}
	return failure(step, callID, text)
}

// HookRefused answers a call that a hook of the operator refused. words is what
// the hook said.
func HookRefused(step int, callID, tool, program, words string, limit int) trace.Observation {
	text := fmt.Sprintf("[%s refused] The operator's hook %s refused the call. Nothing was done.", label(tool), label(program))
	if words != "" {
		text += "\n" + Bound(words, limit, trace.ObsError)
	}
	return failure(step, callID, text)
}

// NeedsContainment answers a call of a tool that needs wider access than the run
// was granted.
func NeedsContainment(step int, callID, tool, needs, granted string) trace.Observation {
	return failure(step, callID, fmt.Sprintf("[%s refused] It needs %s and this run is granted %s. Nothing was started.", label(tool), label(needs), label(granted)))
}

// PlanFirst answers a call that has to wait for the approval of a plan.
func PlanFirst(step int, callID, tool string) trace.Observation {
	return failure(step, callID, fmt.Sprintf("[%s refused] No plan is approved yet. Nothing was done. Propose one with propose_plan first.", label(tool)))
}

// UnknownTool answers a call of a tool that is not offered.
func UnknownTool(step int, callID, name string, offered []string) trace.Observation {
	text := fmt.Sprintf("[unknown tool %s] There is no such tool; nothing was done.", label(name))
	if len(offered) > 0 {
		shown := make([]string, len(offered))
		for i, n := range offered {
			shown[i] = label(n)
		}
		text += " You have: " + strings.Join(shown, ", ") + "."
	}
	return failure(step, callID, text)
}

// BadArguments answers a call whose arguments cannot be used. problem names the
// field and what is wrong with it.
func BadArguments(step int, callID, tool, problem string) trace.Observation {
	return failure(step, callID, fmt.Sprintf("[%s error] The arguments cannot be used: %s. Nothing was done.", label(tool), label(problem)))
}

// ToolFailed answers a call that returned an error.
func ToolFailed(step int, callID, tool string, err error, limit int) trace.Observation {
	return failure(step, callID, fmt.Sprintf("[%s error] %s", label(tool), Bound(err.Error(), limit, trace.ObsError)))
}

// ToolPanicked answers a call that crashed inside its tool. What it had done by
// then is unknown.
func ToolPanicked(step int, callID, tool string) trace.Observation {
	return failure(step, callID, fmt.Sprintf("[%s error] The tool crashed. What it had done by then is not known; look before you call it again.", label(tool)))
}

// ToolTimedOut answers a call that was stopped by its own timeout.
func ToolTimedOut(step int, callID, tool string, after time.Duration) trace.Observation {
	return failure(step, callID, fmt.Sprintf("[%s timed out] It was stopped after %s and nothing of its output was kept. Ask for something narrower.", label(tool), after))
}

// ToolAbandoned answers a call that did not return after it was told to stop.
func ToolAbandoned(step int, callID, tool string) trace.Observation {
	return failure(step, callID, fmt.Sprintf("[%s error] It did not stop when told to and was left behind. Whether it still acts is not known.", label(tool)))
}

// Settled answers a call that was interrupted and of which a person said what
// became of it.
func Settled(step int, callID, tool, account string, limit int) trace.Observation {
	text := fmt.Sprintf("[%s] The call was interrupted. The operator says that it was completed; it was not made again.", label(tool))
	if account != "" {
		text += " What it brought:\n" + Bound(account, limit, trace.ObsTool)
	}
	return trace.Observation{Step: step, Kind: trace.ObsTool, CallID: callID, Text: "\n" + line(text)}
}

// Unexecuted answers a call that was never made because the run stopped first.
func Unexecuted(step int, callID string) trace.Observation {
	return failure(step, callID, notExecuted)
}
