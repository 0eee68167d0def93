package trace

import (
	"encoding/json"
	"time"

	"github.com/initorigin/io-harness-go/policy"
)

// Result is what a drive of a run hands back. RunID is set as soon as the run
// has a row, also beside an error.
type Result struct {
	RunID   RunID
	Outcome Outcome
	// Reply is the model's last words of the run: the answer of a conversation,
	// or what it said when it stopped working.
	Reply string
	// Output is the validated answer when the contract demanded a shape.
	Output json.RawMessage
	// Remembered are the rules an approver asked to keep. They held for the
	// rest of this run; whoever wants them to last must add them to the policy.
	Remembered []policy.Rule
	// Undelivered is what an operator said to the run, also to an earlier drive
	// whose process died, and what nobody has read. It is handed over once.
	Undelivered []string
	// Unmetered counts the completions of the run, of all its drives, that were
	// answered without a word on what they used: they draw nothing on a token budget
	// and cost nothing in the accounts.
	Unmetered int64
	// Dropped counts evidence that could not be written, by kind. It is nil
	// when the trace has no hole.
	Dropped map[string]int64
}

// Summary is the one row that a finished run has. A run that is going on, or
// waits for a person, has none.
type Summary struct {
	RunID      RunID         `json:"run_id"`
	Outcome    OutcomeKind   `json:"outcome"`
	Success    bool          `json:"success"`
	Steps      int           `json:"steps"`
	Tokens     int64         `json:"tokens"`
	Duration   time.Duration `json:"duration_ns"` // from the first start, downtime included
	FinishedAt time.Time     `json:"finished_at"`
}
