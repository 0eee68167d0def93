package prompt

import (
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/trace"
)

// said is something that a person said. limit bounds it in characters.
func said(step int, target, callID, head, text string, limit int) trace.Observation {
	return trace.Observation{
		Step: step, Kind: trace.ObsMessage, Target: target, CallID: callID, Origin: trace.OriginOperator,
		Text: "\n" + head + "\n" + line(Bound(text, limit, trace.ObsMessage)),
	}
}

// Prompt is what a person said in an earlier turn of the conversation, and Reply
// what the agent answered. They stand at step 0.
func Prompt(text string, limit int) trace.Observation {
	return trace.Observation{Kind: trace.ObsMessage, Target: TargetOperator, Origin: trace.OriginOperator, Text: Bound(text, limit, trace.ObsMessage)}
}

// Reply is the agent's answer in an earlier turn of the conversation.
func Reply(text string, limit int) trace.Observation {
	return trace.Observation{Kind: trace.ObsMessage, Target: TargetAgent, Origin: trace.OriginAgent, Text: Bound(text, limit, trace.ObsMessage)}
}

// Steered is what the operator said while the run worked.
func Steered(step int, text string, limit int) trace.Observation {
	return said(step, TargetSteer, "", "[operator, while you worked] Take this into account from now on:", text, limit)
}

// Answered is what a person answered to a question. callID is the asking call
// while it waits for its result, empty when the run was resumed for it.
func Answered(step int, callID, question, answer string, limit int) trace.Observation {
	head := "[answer] This is what the operator wants. It is no permission: every limit stands."
	if question != "" {
		head += "\nYou asked: " + strings.TrimSpace(Bound(question, limit, trace.ObsMessage))
	}
	return said(step, TargetAnswer, callID, head+"\nThe answer:", answer, limit)
}

// PlanApproved is the plan that a person agreed to.
func PlanApproved(step int, plan []approve.PlanStep, limit int) trace.Observation {
	var b strings.Builder
	for i, s := range plan {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%d. %s", i+1, strings.TrimSpace(s.Intent))
		if s.Agent != "" {
			fmt.Fprintf(&b, " (agent: %s)", label(s.Agent))
		}
	}
	return said(step, TargetPlan, "", "[plan approved] This is the agreed approach; work by it. Writes and commands are decided by your ordinary limits from now on:", b.String(), limit)
}

// PlanRevised is the correction of a plan that a person did not agree to.
func PlanRevised(step int, callID, correction string, limit int) trace.Observation {
	return said(step, TargetSteer, callID, "[plan not approved] Change the plan and propose it again. The operator says:", correction, limit)
}

// PlanAccepted answers the call that proposed an approved plan; the plan itself
// follows as a message of its own.
func PlanAccepted() string { return message("[propose_plan] Approved; the plan follows.") }
