package trace

import "strconv"

// Ids are distinct types so that a run's id cannot be passed where a turn's
// belongs. All are the integer keys of the store's rows: positive, never
// reused, and meaningful only together with the store they came from.
type (
	// SessionID names a durable conversation.
	SessionID int64
	// TurnID names one exchange of a session.
	TurnID int64
	// RunID names one run: a turn of a session, a one-shot task, or an agent of a tree.
	RunID int64
	// DriveID names one period in which one process drove one run.
	DriveID int64
	// RequestID names a question to an approver that waits for a decision.
	RequestID int64
	// QuestionID names a question of the model that waits for an answer.
	QuestionID int64
	// PlanID names a plan that waits for a verdict.
	PlanID int64
	// AttemptID names a call that was started and whose end is not recorded.
	AttemptID int64
)

func (id SessionID) String() string  { return strconv.FormatInt(int64(id), 10) }
func (id TurnID) String() string     { return strconv.FormatInt(int64(id), 10) }
func (id RunID) String() string      { return strconv.FormatInt(int64(id), 10) }
func (id DriveID) String() string    { return strconv.FormatInt(int64(id), 10) }
func (id RequestID) String() string  { return strconv.FormatInt(int64(id), 10) }
func (id QuestionID) String() string { return strconv.FormatInt(int64(id), 10) }
func (id PlanID) String() string     { return strconv.FormatInt(int64(id), 10) }
func (id AttemptID) String() string  { return strconv.FormatInt(int64(id), 10) }
