package trace

import "encoding/json"

// ObservationKind says what an observation is about. Its value is the stored text.
type ObservationKind string

// The kinds of observation. Those with a subject (read, grep, find, write) can
// be superseded by a later observation of the same subject; the others stand.
const (
	ObsRead    ObservationKind = "read"
	ObsGrep    ObservationKind = "grep"
	ObsFind    ObservationKind = "find"
	ObsWrite   ObservationKind = "write"
	ObsSkill   ObservationKind = "skill"
	ObsTool    ObservationKind = "tool"
	ObsMCP     ObservationKind = "mcp"
	ObsChild   ObservationKind = "child"
	ObsMessage ObservationKind = "message"
	ObsError   ObservationKind = "error"
)

// Known reports whether k is one of the kinds of this version.
func (k ObservationKind) Known() bool {
	switch k {
	case ObsRead, ObsGrep, ObsFind, ObsWrite, ObsSkill, ObsTool, ObsMCP, ObsChild, ObsMessage, ObsError:
		return true
	}
	return false
}

// Observation is one entry of a run's ledger: something that the model was or
// will be shown.
type Observation struct {
	Step   int
	Kind   ObservationKind
	Target string // what it is about; empty when it can never be superseded
	CallID string // the tool call it answers; empty for a message
	Text   string
	// Origin says who or what the text comes from. It is empty in entries of
	// stores that are older than the mark.
	Origin Origin

	// First and Count are the lines of a read that asked for a range, counted
	// from 1; both are zero for a whole file.
	First, Count int
	// Digest names the bytes that a read saw, so that a change by somebody else
	// shows; empty when nothing was read.
	Digest string
}

// ToolCall is a call as the model asked for it.
type ToolCall struct {
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// AssistantTurn is what the model said and asked for on one step, kept so that
// it can be sent back as the model's own turn.
type AssistantTurn struct {
	Step  int
	Text  string
	Calls []ToolCall
	// Carry is what the vendor wants handed back with the turn, untouched.
	Carry json.RawMessage
}
