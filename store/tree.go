package store

import (
	"encoding/json"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// Spawn is a child as its parent asked for it.
type Spawn struct {
	Child      trace.RunID
	Root       trace.RunID
	Parent     trace.RunID
	Step       int
	CallIndex  int // of the call within its completion, from 0
	CallID     string
	Goal       string
	VerifyFile string
	Needle     string
	MaxSteps   int             // zero for none
	DenyWrite  json.RawMessage // array of globs
	Agent      string          // the role; empty for none
	Name       string          // the address in the tree; empty for none
	Arguments  json.RawMessage // the whole call
	Policy     json.RawMessage // the child's own, narrowed
	Returns    string          // wait, detach or wait_until
	SettledAt  time.Time       // zero until the child ended
	FoldedStep int             // the parent's step that carries the report; zero until then
}

// QueuedAgent is a child that waits for a place: nothing of it has run.
type QueuedAgent struct {
	Parent    trace.RunID
	Step      int
	CallIndex int
	Goal      string
	Depth     int
	Ticket    int64 // the order of admission
	QueuedAt  time.Time
}

const (
	spawnColumns = `child_run_id, root_run_id, parent_run_id, step, call_index, coalesce(call_id, ''), goal, verify_file, needle,
		coalesce(max_steps, 0), deny_write, coalesce(agent, ''), coalesce(as_name, ''), arguments, policy, returns, settled_at, coalesce(folded_step, 0)`
	queueColumns = `parent_run_id, step, call_index, goal, depth, ticket, queued_at`
)

var (
	unsettledSpawns = statement{"unsettled spawns", `SELECT ` + spawnColumns + ` FROM spawns
		WHERE parent_run_id = ? AND (settled_at IS NULL OR folded_step IS NULL) ORDER BY step, call_index`}
	queuedUnder = statement{"queued under", `SELECT ` + queueColumns + ` FROM agent_queue WHERE parent_run_id = ? ORDER BY ticket`}
)

func scanSpawn(r scanner) (s Spawn, err error) {
	var deny, args, policy []byte
	var settled *int64
	err = r.Scan(&s.Child, &s.Root, &s.Parent, &s.Step, &s.CallIndex, &s.CallID, &s.Goal, &s.VerifyFile, &s.Needle,
		&s.MaxSteps, &deny, &s.Agent, &s.Name, &args, &policy, &s.Returns, &settled, &s.FoldedStep)
	s.DenyWrite, s.Arguments, s.Policy, s.SettledAt = deny, args, policy, timeOrZero(settled)
	return s, err
}

func scanQueued(r scanner) (a QueuedAgent, err error) {
	var at int64
	err = r.Scan(&a.Parent, &a.Step, &a.CallIndex, &a.Goal, &a.Depth, &a.Ticket, &at)
	a.QueuedAt = timeOf(at)
	return a, err
}
