package prompt

import "github.com/initorigin/io-harness-go/trace"

// Targets of message observations. A message is never superseded, so its target
// is free to say who speaks.
const (
	// TargetOperator is what a person said in an earlier turn of the conversation.
	TargetOperator = "operator"
	// TargetAgent is what the agent answered in an earlier turn.
	TargetAgent = "agent"
	// TargetSummary is the paragraph that took the place of folded observations.
	TargetSummary = "summary"
	// TargetSteer is what a person said while the run worked, and the correction
	// of a plan.
	TargetSteer = "steer"
	// TargetAnswer is what a person answered to a question of the run.
	TargetAnswer = "answer"
	// TargetPlan is the plan that a person approved.
	TargetPlan = "plan"
	// TargetPaused is a turn that the provider paused and wants back as it was.
	TargetPaused = "paused"
)

// Word reports whether o is something that a person said to this run. Such words
// outlive a fold: they stand verbatim beside its summary.
func Word(o trace.Observation) bool {
	if o.Kind != trace.ObsMessage {
		return false
	}
	switch o.Target {
	case TargetSteer, TargetAnswer, TargetPlan:
		return true
	}
	return false
}

// IsSummary reports whether o is the paragraph of a fold.
func IsSummary(o trace.Observation) bool {
	return o.Kind == trace.ObsMessage && o.Target == TargetSummary
}

func seeded(o trace.Observation) bool {
	return o.Kind == trace.ObsMessage && (o.Target == TargetOperator || o.Target == TargetAgent)
}
