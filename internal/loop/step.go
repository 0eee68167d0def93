package loop

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// step is one pass of the loop, from what the model is shown to the outcome it
// may lead to. Nothing of it exists for anybody else until it has committed.
type step struct {
	n      int
	user   string // the whole user text that was sent
	begun  string // the text of the paused turn that it goes on with
	tokens int64  // what the step draws on the budget
	// reported is what the provider counted for the completion alone.
	reported int64
	room     int // tokens of its observation section
	asked    int // completions asked for it so far, failed ones included

	record    func() // of what the request carries, once it was answered
	response  *provider.Response
	fell      string // the provider of a chain whose answer streamed in, told with its tokens
	answered  bool   // the model answered: no call, and an ending that is one
	misshapen bool   // it answered, and not in the demanded shape
	moved     bool   // the workspace may be another than before the step
	calls     []*call
	notes     []trace.Observation // observations that answer no call, told behind the calls'

	plan        *approve.Plan      // approved in this step; in force behind it
	accounted   []trace.AttemptID  // of a dead drive, which calls of the step were answered from
	toldAnswers []trace.QuestionID // answered, and told with this step
	toldPlans   []trace.PlanID     // decided, likewise

	progress   progress
	speculated trace.Speculated
	recalled   recalled

	pause    *trace.Outcome // the step stops here and waits for a person
	pausedBy *call          // the call that waits; its result comes with the decision
	stopped  bool           // the operator ended the turn before a tool of it ran
}

// carried records what the request carried, once for a step: of a request that
// was refused and made again only what came of it is told.
func (s *step) carried() {
	if s.record != nil {
		s.record()
		s.record = nil
	}
}

// observations are what the step adds to the ledger, in order: one for each
// call that has a result, then what the loop has to say.
func (s *step) observations() []trace.Observation {
	obs := make([]trace.Observation, 0, len(s.calls)+len(s.notes))
	for _, c := range s.calls {
		if c.done {
			obs = append(obs, c.observation)
		}
	}
	return append(obs, s.notes...)
}

// said is the message of a step that asked for nothing, with that of the paused
// turns which it goes on with.
func (s *step) said() string {
	if len(s.calls) > 0 {
		return ""
	}
	return s.begun + s.response.Text
}

// decision is the step in one line for the trace.
func (s *step) decision() string {
	if len(s.calls) == 0 {
		return noToolCall
	}
	var parts []string
	for _, c := range s.calls {
		if c.decision != "" {
			parts = append(parts, c.decision)
		}
	}
	return strings.Join(parts, "; ")
}

// noToolCall is the decision of a step in which the model only spoke.
const noToolCall = "no tool call"

// signature tells two steps apart for the stall policy and for readers of the
// trace: every call as name:arguments.
func (s *step) signature() string {
	parts := make([]string, len(s.calls))
	for i, c := range s.calls {
		parts[i] = c.name + ":" + string(c.args)
	}
	return strings.Join(parts, " | ")
}

func (s *step) changed() bool {
	for _, c := range s.calls {
		if c.done && c.changed {
			return true
		}
	}
	return false
}

// moved reports whether the workspace may be another than before the step: a tool
// changed a file, a command ran, or a tool that is not the library's did what it
// does.
func (d *drive) moved(st *step) bool {
	if d.commanded.Swap(false) || st.changed() {
		return true
	}
	return slices.ContainsFunc(st.calls, func(c *call) bool {
		entry, ok := d.catalogue.byName[c.name]
		return ok && c.ran && !entry.builtin && !c.spec.IsReadOnly()
	})
}

// turn is the step as the model's own turn, to be sent back to it.
func (s *step) turn() trace.AssistantTurn {
	t := trace.AssistantTurn{Step: s.n, Text: s.response.Text, Carry: s.response.Carry}
	for _, c := range s.calls {
		t.Calls = append(t.Calls, trace.ToolCall{ID: c.id, Name: c.name, Arguments: c.args})
	}
	return t
}

// call is one tool call, from what the model asked for to what it is told.
type call struct {
	index int
	id    string // our own, so that no vendor can pair a result with another call
	name  string
	args  json.RawMessage // as asked; once prepared, checked against the schema
	fault string          // what was wrong with the arguments as they came

	tool  tool.Tool // nil: there is none of that name
	spec  tool.Spec
	early *early // the read that this call is was started while the completion streamed in
	grant *grant // a person has already agreed to this very act

	approved *store.PendingApproval // the request whose answer lets it happen; nil: nobody was asked
	denied   *store.PendingApproval // the request whose answer forbids it

	journal *journal // of what it writes; made when it first needs a workspace

	ready   bool // prepared, permitted, and to be run
	ran     bool // begun, whatever came of it
	attempt trace.AttemptID

	done        bool
	observation trace.Observation
	decision    string
	changed     bool
	media       []provider.Media
	refusal     *policy.RefusedError // made by the tool itself, to be recorded
	forbidden   string               // the policy forbids it, and by what
}

// newCalls gives the calls of a response identities of our own.
func newCalls(n int, from []provider.ToolCall) []*call {
	calls := make([]*call, len(from))
	for i, c := range from {
		calls[i] = &call{index: i, id: callID(n, i), name: boundName(c.Name), args: c.Arguments, fault: c.ArgumentsError}
		if len(c.Arguments) > 0 && !json.Valid(c.Arguments) {
			// A provider should have said so itself; what is no JSON could not be kept.
			calls[i].args = json.RawMessage(`{}`)
			calls[i].fault = cmp.Or(c.ArgumentsError, "they are no JSON")
		}
	}
	return calls
}

func callID(step, index int) string { return fmt.Sprintf("%d-%d", step, index) }

// boundName keeps what a model takes for a tool's name from flooding the trace.
func boundName(name string) string {
	name = strings.ToValidUTF8(name, "\uFFFD")
	name = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, name)
	if runes := []rune(name); len(runes) > tool.MaxNameLength {
		return string(runes[:tool.MaxNameLength]) + "…"
	}
	return name
}

// end records what a call came to: a line for the trace, and what the model is
// told.
func (c *call) end(decision string, o trace.Observation) {
	o.CallID = c.id
	c.done, c.ready, c.decision, c.observation = true, false, decision, o
}

// refuse ends a call that did not happen or went wrong. Its observation has no
// target: a failure on a path tells nothing of its content and must not take the
// place of a success.
func (c *call) refuse(step int, decision, text string) {
	c.end(decision, trace.Observation{Step: step, Kind: trace.ObsError, Origin: trace.OriginProse, Text: text})
}

// fingerprint names what the call asks for.
func (c *call) fingerprint() string { return fingerprintOf(c.name, c.args) }

func fingerprintOf(name string, args []byte) string {
	sum := sha256.Sum256(args)
	return name + ":" + hex.EncodeToString(sum[:])
}

// maxAnnounced is how many characters of a target a watcher is told: more than any
// path has, and little enough to be passed on for every call.
const maxAnnounced = 8192

// shortTarget is a target as a watcher is told it. The whole stands in the trace, with
// the arguments of the call.
func shortTarget(target string) string {
	if len(target) <= maxAnnounced {
		return target
	}
	if runes := []rune(target); len(runes) > maxAnnounced {
		return string(runes[:maxAnnounced]) + "…"
	}
	return target
}

// target is what an announcement of the call names: the first of the usual
// arguments, else the tool itself.
func (c *call) target() string {
	var args map[string]json.RawMessage
	if json.Unmarshal(c.args, &args) == nil {
		for _, key := range []string{"path", "pattern", "name_glob", "glob", "key", "name", "line"} {
			var s string
			if json.Unmarshal(args[key], &s) == nil && s != "" {
				return s
			}
		}
		var argv []string
		if json.Unmarshal(args["argv"], &argv) == nil && len(argv) > 0 {
			return strings.Join(argv, " ")
		}
	}
	return c.name
}
