package trace

import (
	"encoding/json"
	"fmt"
)

// Status says where a run stands, as the store holds it.
type Status string

// The statuses. A running run is either being driven or its process died: the
// run's lease tells which.
const (
	StatusRunning   Status = "running"
	StatusPaused    Status = "paused"    // waits for a person
	StatusCompleted Status = "completed" // ended, however it ended
	StatusFailed    Status = "failed"    // could not go on; a resume may try again
)

// OutcomeKind says how a run ended or why it waits. Its value is the stored text.
type OutcomeKind string

// The outcomes. Every one of them is a row of the table that decides its
// status and what a resume does with it.
const (
	Success              OutcomeKind = "success"                // the gate passed
	Finished             OutcomeKind = "finished"               // nothing checks, and the model answered
	StepCapReached       OutcomeKind = "step_cap_reached"       // the steps ran out
	VerificationFailed   OutcomeKind = "verification_failed"    // the steps ran out, and the gate had said no
	SchemaUnsatisfied    OutcomeKind = "schema_unsatisfied"     // the answer never had the demanded shape
	TimeBudgetExceeded   OutcomeKind = "time_budget_exceeded"   // the wall clock ran out, downtime included
	CostBudgetExceeded   OutcomeKind = "cost_budget_exceeded"   // the tokens ran out
	BudgetCeilingReached OutcomeKind = "budget_ceiling_reached" // the shared ceiling of a tree was met
	Stalled              OutcomeKind = "stalled"                // it repeated itself after being told once
	Denied               OutcomeKind = "denied"                 // a person denied what the run waited for
	Refused              OutcomeKind = "refused"                // the provider's host may not be dialled
	Cancelled            OutcomeKind = "cancelled"              // an observer, a hook or the operator stopped it
	PlanRejected         OutcomeKind = "plan_rejected"          // the plan was cancelled
	EscalatedRetryable   OutcomeKind = "escalated_retryable"    // the provider failed for good, and may heal
	EscalatedTerminal    OutcomeKind = "escalated_terminal"     // the provider failed for good
	AwaitingApproval     OutcomeKind = "awaiting_approval"      // an approver deferred
	AwaitingAnswer       OutcomeKind = "awaiting_answer"        // a question has no answer yet
	AwaitingPlan         OutcomeKind = "awaiting_plan"          // a plan has no verdict yet
	AwaitingRecovery     OutcomeKind = "awaiting_recovery"      // a call was started and nobody knows whether it ended
	Failed               OutcomeKind = "failed"                 // the drive could not go on
	ConfigError          OutcomeKind = "config_error"           // the contract can never work
)

// outcomeFacts is the one table about outcomes: the status a run has after it,
// and whether a resume reports it (final) or drives on.
var outcomeFacts = map[OutcomeKind]struct {
	status Status
	final  bool
}{
	Success:              {StatusCompleted, true},
	Finished:             {StatusCompleted, true},
	StepCapReached:       {StatusCompleted, false},
	VerificationFailed:   {StatusCompleted, false},
	SchemaUnsatisfied:    {StatusCompleted, false},
	TimeBudgetExceeded:   {StatusCompleted, false},
	CostBudgetExceeded:   {StatusCompleted, false},
	BudgetCeilingReached: {StatusCompleted, true},
	Stalled:              {StatusCompleted, true},
	Denied:               {StatusCompleted, true},
	Refused:              {StatusCompleted, true},
	Cancelled:            {StatusCompleted, true},
	PlanRejected:         {StatusCompleted, true},
	EscalatedRetryable:   {StatusCompleted, true},
	EscalatedTerminal:    {StatusCompleted, true},
	AwaitingApproval:     {StatusPaused, false},
	AwaitingAnswer:       {StatusPaused, false},
	AwaitingPlan:         {StatusPaused, false},
	AwaitingRecovery:     {StatusPaused, false},
	Failed:               {StatusFailed, false},
	ConfigError:          {StatusFailed, false},
}

// OutcomeKinds lists every outcome, in no particular order.
func OutcomeKinds() []OutcomeKind {
	kinds := make([]OutcomeKind, 0, len(outcomeFacts))
	for k := range outcomeFacts {
		kinds = append(kinds, k)
	}
	return kinds
}

// Known reports whether k is one of the outcomes of this version.
func (k OutcomeKind) Known() bool { _, ok := outcomeFacts[k]; return ok }

// Status is the status of a run that ended so. A kind that this version does
// not know reads as paused: never as finished well, and never as removable.
func (k OutcomeKind) Status() Status {
	if f, ok := outcomeFacts[k]; ok {
		return f.status
	}
	return StatusPaused
}

// Final reports whether a resume of such a run returns the outcome unchanged
// instead of driving on.
func (k OutcomeKind) Final() bool { return outcomeFacts[k].final }

// Outcome is how a run ended or why it waits.
type Outcome struct {
	Kind  OutcomeKind
	Steps int // the last committed step

	// What it waits for; at most one is set, and only for the awaiting kinds.
	RequestID  RequestID
	QuestionID QuestionID
	PlanID     PlanID
	AttemptID  AttemptID
}

// Succeeded reports whether the run's gate passed. A run that merely finished
// was judged by nobody and does not count.
func (o Outcome) Succeeded() bool { return o.Kind == Success }

// Retryable reports whether the provider failure that ended the run may heal.
func (o Outcome) Retryable() bool { return o.Kind == EscalatedRetryable }

func (o Outcome) String() string {
	switch {
	case o.RequestID != 0:
		return fmt.Sprintf("%s (request %d) after %d steps", o.Kind, o.RequestID, o.Steps)
	case o.QuestionID != 0:
		return fmt.Sprintf("%s (question %d) after %d steps", o.Kind, o.QuestionID, o.Steps)
	case o.PlanID != 0:
		return fmt.Sprintf("%s (plan %d) after %d steps", o.Kind, o.PlanID, o.Steps)
	case o.AttemptID != 0:
		return fmt.Sprintf("%s (attempt %d) after %d steps", o.Kind, o.AttemptID, o.Steps)
	}
	kind := string(o.Kind)
	if kind == "" {
		kind = "no outcome"
	}
	return fmt.Sprintf("%s after %d steps", kind, o.Steps)
}

type outcomeJSON struct {
	Outcome    OutcomeKind `json:"outcome"`
	Steps      int         `json:"steps"`
	RequestID  RequestID   `json:"request_id,omitempty"`
	QuestionID QuestionID  `json:"question_id,omitempty"`
	PlanID     PlanID      `json:"plan_id,omitempty"`
	AttemptID  AttemptID   `json:"attempt_id,omitempty"`
	Retryable  *bool       `json:"retryable,omitempty"`
}

// MarshalJSON writes the outcome flat, with ids only for the kinds that have
// them and "retryable" only for an escalation.
func (o Outcome) MarshalJSON() ([]byte, error) {
	j := outcomeJSON{o.Kind, o.Steps, o.RequestID, o.QuestionID, o.PlanID, o.AttemptID, nil}
	if o.Kind == EscalatedRetryable || o.Kind == EscalatedTerminal {
		r := o.Retryable()
		j.Retryable = &r
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (o *Outcome) UnmarshalJSON(b []byte) error {
	var j outcomeJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*o = Outcome{j.Outcome, j.Steps, j.RequestID, j.QuestionID, j.PlanID, j.AttemptID}
	return nil
}
