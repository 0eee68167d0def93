package store

import (
	"encoding/json"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// StepAttemptKind says why a step asked again or gave up. The value is the stored text.
type StepAttemptKind string

// The kinds of attempt.
const (
	AttemptRetry      StepAttemptKind = "retry"
	AttemptCompacting StepAttemptKind = "compacting"
	AttemptEscalated  StepAttemptKind = "escalated"
)

// StepAttempt is a completion of a step that did not become its result. It
// never makes the step count as committed.
type StepAttempt struct {
	ID       int64 // set by the store
	Step     int
	Kind     StepAttemptKind
	Decision string // such as "retry 1 after rate_limited in 2s"
	Result   string
	Delay    time.Duration // the wait before the next attempt; zero for none
	At       time.Time
}

// SandboxEvent is one thing that the containment of commands did.
type SandboxEvent struct {
	ID      int64 // set by the store
	Step    int
	Kind    string // create, exec, cap_hit, destroy, dial, gate_phase_failed or gate_output
	Backend string // what applied, not what was asked for
	Phase   string // the gate's phase, for gate_phase_failed
	Detail  string
	At      time.Time
}

// MCPEvent is one exchange with a tool server. It holds no argument and no result.
type MCPEvent struct {
	ID     int64 // set by the store
	Step   int   // 0 while connecting
	Kind   string
	Server string
	Tool   string
	OK     *bool         // nil where nothing succeeded or failed
	Took   time.Duration // zero when it was not measured
	Detail string
	At     time.Time
}

// ContextEvent is one thing that happened to what the model is shown, or to a
// run's notes, questions and plans.
type ContextEvent struct {
	ID     int64 // set by the store
	Step   int
	Kind   string // assembled, reread, memory_write, question_asked, served, replan, stalled …
	Detail string
	Est    *int64 // estimated tokens; nil when the kind has none
	// Reported is what the provider counted for the request that this row
	// describes; nil until a committed step said so.
	Reported *int64
	// Superseded says that the row tells of a step that died before its commit
	// and was made again.
	Superseded bool
	At         time.Time
}

// GateOutcome is a gate's verdict. The value is the stored text; a text that
// this version does not know reads as GateErrored, so that no unknown word
// counts as a pass.
type GateOutcome string

// The verdicts.
const (
	GatePassed  GateOutcome = "passed"
	GateFailed  GateOutcome = "failed"
	GateErrored GateOutcome = "errored" // the gate did not get to judge; the only one that is retried
)

// GateAttempt is one evaluation of a run's gate.
type GateAttempt struct {
	ID      int64         // set by the store
	Drive   trace.DriveID // set by the store: in which drive it was made; zero if older software wrote it
	Step    int
	Phase   string
	Outcome GateOutcome
	Detail  string
	At      time.Time
}

// Edit is one write of a file by a tool.
type Edit struct {
	ID      int64 // set by the store
	Step    int
	Tool    string
	Path    string          // relative to the root, with slashes
	Added   int             // lines
	Removed int             // lines
	Hunk    string          // unified diff of the whole file, without its header; empty when it was not kept
	After   string          // digest of the file after the change; empty when there was none
	Facts   json.RawMessage // as WriteIntent had them; nil once they were archived
	// Reverted names the rewind that took the edit back; zero when it stands.
	Reverted int64
	At       time.Time
}

// AgentEvent is one thing that happened between the agents of a tree.
type AgentEvent struct {
	ID        int64 // set by the store
	Step      int
	Kind      string      // spawn, spawn_refused, budget_draw, said, message_sent or message_read
	Other     trace.RunID // the child, or the other end of a message
	Detail    string
	Tokens    *int64 // drawn, for budget_draw
	Remaining *int64 // of the tree's ceiling, for budget_draw
	At        time.Time
}

// MemoryRecall says that a note was carried in the prompt of a step.
type MemoryRecall struct {
	Step      int
	Workspace string
	Key       string
	Ordinal   int       // set by the store: the order within the step
	At        time.Time // set by the store
}

var (
	insertStepAttempt = statement{"insert step attempt", `INSERT INTO step_attempts
		(run_id, step, kind, decision, result, delay_ms, at) VALUES (?, ?, ?, ?, ?, ?, ?)`}
	insertSandboxEvent = statement{"insert sandbox event", `INSERT INTO sandbox_events
		(run_id, step, kind, backend, phase, detail, at) VALUES (?, ?, ?, ?, ?, ?, ?)`}
	insertMCPEvent = statement{"insert mcp event", `INSERT INTO mcp_events
		(run_id, step, kind, server, tool, ok, millis, detail, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	insertContextEvent = statement{"insert context event", `INSERT INTO context_events
		(run_id, step, kind, detail, est_tokens, reported_tokens, at) VALUES (?, ?, ?, ?, ?, ?, ?)`}
	insertGateAttempt = statement{"insert gate attempt", `INSERT INTO gate_attempts
		(run_id, step, phase, outcome, detail, at, drive_id) VALUES (?, ?, ?, ?, ?, ?, ?)`}
	insertEdit = statement{"insert edit", `INSERT INTO edits
		(run_id, step, tool, path, lines_added, lines_removed, hunk, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`}
	insertAgentEvent = statement{"insert agent event", `INSERT INTO agent_events
		(run_id, step, kind, child_run_id, detail, tokens, remaining, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`}
	insertMemoryRecall = statement{"insert memory recall", `INSERT INTO memory_recalls (run_id, step, workspace, key, ordinal, at)
		SELECT ?1, ?2, ?3, ?4, (SELECT count(*) FROM memory_recalls WHERE run_id = ?1 AND step = ?2), ?5
		WHERE true ON CONFLICT (run_id, step, workspace, key) DO NOTHING`}
)

func (StepAttempt) table() string  { return "step_attempts" }
func (SandboxEvent) table() string { return "sandbox_events" }
func (MCPEvent) table() string     { return "mcp_events" }
func (ContextEvent) table() string { return "context_events" }
func (GateAttempt) table() string  { return "gate_attempts" }
func (Edit) table() string         { return "edits" }
func (AgentEvent) table() string   { return "agent_events" }
func (MemoryRecall) table() string { return "memory_recalls" }

func (a StepAttempt) insert(t *txn, run trace.RunID) error {
	var delay any
	if a.Delay > 0 {
		delay = a.Delay.Milliseconds()
	}
	_, err := t.exec(insertStepAttempt, run, a.Step, string(a.Kind), cleanText(a.Decision), cleanText(a.Result), delay, t.now)
	return err
}

func (e SandboxEvent) insert(t *txn, run trace.RunID) error {
	_, err := t.exec(insertSandboxEvent, run, e.Step, e.Kind, null(e.Backend), null(e.Phase), null(e.Detail), t.now)
	return err
}

func (e MCPEvent) insert(t *txn, run trace.RunID) error {
	var ok, millis any
	if e.OK != nil {
		ok = boolInt(*e.OK)
	}
	if e.Took > 0 {
		millis = e.Took.Milliseconds()
	}
	_, err := t.exec(insertMCPEvent, run, e.Step, e.Kind, cleanText(e.Server), null(e.Tool), ok, millis, null(e.Detail), t.now)
	return err
}

func (e ContextEvent) insert(t *txn, run trace.RunID) error {
	_, err := t.exec(insertContextEvent, run, e.Step, e.Kind, null(e.Detail), optional(e.Est), optional(e.Reported), t.now)
	return err
}

func (g GateAttempt) insert(t *txn, run trace.RunID) error {
	_, err := t.exec(insertGateAttempt, run, g.Step, cleanText(g.Phase), string(g.Outcome), null(g.Detail), t.now, nullID(g.Drive))
	return err
}

func (e Edit) insert(t *txn, run trace.RunID) error {
	if err := identifier("record edit", "path", e.Path); err != nil {
		return err
	}
	_, err := t.exec(insertEdit, run, e.Step, cleanText(e.Tool), e.Path, e.Added, e.Removed, null(e.Hunk), t.now)
	return err
}

func (e AgentEvent) insert(t *txn, run trace.RunID) error {
	_, err := t.exec(insertAgentEvent, run, e.Step, e.Kind, nullID(e.Other), null(e.Detail), optional(e.Tokens), optional(e.Remaining), t.now)
	return err
}

func (r MemoryRecall) insert(t *txn, run trace.RunID) error {
	_, err := t.exec(insertMemoryRecall, run, r.Step, cleanText(r.Workspace), cleanText(r.Key), t.now)
	return err
}

// optional stores a nil counter as absent.
func optional(v *int64) any {
	if v == nil {
		return nil
	}
	return counter(*v)
}
