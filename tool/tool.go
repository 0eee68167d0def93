package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/workspace"
)

// Effect says whether a call may change anything outside the run. Its value is
// the stored text.
type Effect string

// The effects. The zero value is mutating, the careful reading.
const (
	Mutating Effect = "mutating"
	ReadOnly Effect = "read_only"
)

// Recovery says what a resume may do about a call that was started and whose
// end is not recorded. Its value is the stored text.
type Recovery string

// The recoveries. The zero value follows from the effect: a read-only tool is
// replayable, a mutating one indeterminate.
const (
	Replayable    Recovery = "replayable"    // may simply be called again
	Indeterminate Recovery = "indeterminate" // a person must say whether it happened
)

// Spec is what the model is shown of a tool, and what the loop must know of it.
// It is read once, when the run starts.
type Spec struct {
	// Name is what the model calls and what the policy decides on: 1 to 64 of
	// the characters A-Z a-z 0-9 _ -.
	Name        string
	Description string
	// Schema is a JSON schema of the arguments, an object. Empty means no arguments.
	Schema json.RawMessage
	Effect Effect
	// Recovery is derived from Effect when empty.
	Recovery Recovery
	// Timeout bounds one call. Zero means no bound but the run's own.
	Timeout time.Duration
	// Origin says where what a call brings comes from. What a tool brings from the
	// web, an MCP server or a language server stands before the model in a frame
	// that calls it data from outside. Zero means trace.OriginTool. The words of
	// the operator, of the agent and of the harness are no tool's to bring.
	Origin trace.Origin
	// Strict makes an optional argument of the wrong type an error. Otherwise it
	// counts as left out, which is wrong where an argument narrows what is done.
	Strict bool
}

// IsReadOnly reports whether a call may overlap other reads.
func (s Spec) IsReadOnly() bool { return s.Effect == ReadOnly }

// IsIndeterminate reports whether an interrupted call needs a person's word.
func (s Spec) IsIndeterminate() bool {
	if s.Recovery != "" {
		return s.Recovery == Indeterminate
	}
	return s.Effect != ReadOnly
}

// Call is one call, ready to run: its arguments are a JSON object, decoded once
// and valid against the schema.
type Call struct {
	ID   string // the model's id of the call, unique within its step
	Name string
	Args json.RawMessage

	Run  trace.RunID
	Step int
	// Key is the same for every attempt at this very call, across crashes and
	// resumes: hand it to a service that can recognise a repeated request. It is
	// the place of the call, store/run/step/index, and no other call has it. A copy
	// of a store is the same store to it, and a store that was made by software
	// which did not name stores has no name in front: put one there. When a step is
	// made again and the model asks for something else there, that has the same key.
	Key string
	// Workspace is the run's directory, checked by the run's policy; a write
	// through it can be undone. A tool should use it in place of package os.
	Workspace *workspace.Workspace
}

// Result is what a call brings.
type Result struct {
	// Text is what the model reads. The pipeline bounds it and replaces
	// invalid UTF-8.
	Text string
	// Media is shown to the model with the next request, where it accepts any.
	Media []provider.Media
	// Changed says that the call moved the work on. A run whose calls repeat and
	// change nothing is told so once and then stopped as stalled.
	Changed bool
	// Failed says that Text tells of a failure.
	Failed bool

	// Decision is one line for the trace; empty means "called <name>".
	Decision string
	// Kind and Target place the observation: a later one of the same kind and
	// target supersedes it. Zero means trace.ObsTool and no target, and so does
	// trace.ObsMessage: a tool does not speak for anybody.
	Kind   trace.ObservationKind
	Target string
	// First and Count are the lines of a read that asked for a range; Digest
	// names the bytes that were read. See trace.Observation.
	First, Count int
	Digest       string
}

// Tool is one thing that a model may call. Spec must be constant. Call may run
// at the same time as other calls when the tool is read-only, and at the same
// time as calls of other runs in any case. It must return soon after ctx ends.
// An error is told to the model and never ends the run; neither does a panic.
//
// The loop decides whether a call may happen. What a registered tool does once
// it runs is its own affair: no sandbox surrounds it.
type Tool interface {
	Spec() Spec
	Call(ctx context.Context, c Call) (Result, error)
}

// Needer is implemented by a tool that acts on paths, programs or hosts. Needs
// must not act; an error is told to the model as an error of the call. A tool
// that does not implement it needs the permission to execute its own name.
type Needer interface {
	Needs(c Call) ([]policy.Need, error)
}

// ModeNeeder is implemented by a tool that makes no sense where the commands of the
// run may write to less than it needs. Such a call is refused before anybody is
// asked. The empty mode declares nothing. What a registered tool starts is not
// contained for that: the declaration only refuses.
type ModeNeeder interface{ NeedsMode() sandbox.Mode }

// Previewer is implemented by a tool whose call can be shown to an approver
// better than by its arguments, such as the content of a write.
type Previewer interface {
	Preview(c Call) string
}
