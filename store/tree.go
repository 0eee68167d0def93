package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// RootAddress is the name of the root in the mailbox of its tree.
const RootAddress = "root"

// Spawn is a child as its parent asked for it.
type Spawn struct {
	Child      trace.RunID // set by the store
	Root       trace.RunID // set by the store
	Parent     trace.RunID // set by the store
	Step       int         // of the parent
	CallIndex  int         // of the call within its completion, from 0
	CallID     string
	Goal       string
	VerifyFile string
	Needle     string
	MaxSteps   int             // zero for none
	DenyWrite  json.RawMessage // array of globs; empty means none
	Agent      string          // the role; empty for none
	// Name is the child's address in the tree. Empty lets the store derive one
	// from the role and the child's id.
	Name       string
	Arguments  json.RawMessage // the whole call, from which a resume rebuilds the child
	Policy     json.RawMessage // the child's own, narrowed
	Returns    string          // wait, detach or wait_until
	SettledAt  time.Time       // zero until the child ended
	FoldedStep int             // the parent's step that carries the report; zero until then
}

// ChildStart is a child run as it begins.
type ChildStart struct {
	Spawn
	Workspace string          // the child's root: the parent's, or a worktree
	Provider  string          // empty means the parent's
	Contract  json.RawMessage // optional
}

const spawnColumns = `child_run_id, root_run_id, parent_run_id, step, call_index, coalesce(call_id, ''), goal, verify_file, needle,
	coalesce(max_steps, 0), deny_write, coalesce(agent, ''), coalesce(as_name, ''), arguments, policy, returns, settled_at, coalesce(folded_step, 0)`

var (
	insertSpawn = statement{"insert spawn", `INSERT INTO spawns (child_run_id, root_run_id, parent_run_id, step, call_index, call_id, goal,
		verify_file, needle, max_steps, deny_write, agent, as_name, arguments, policy, returns)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	setChildRoot    = statement{"set child root", `UPDATE runs SET root_run_id = ? WHERE id = ?`}
	unsettledSpawns = statement{"unsettled spawns", `SELECT ` + spawnColumns + ` FROM spawns
		WHERE parent_run_id = ? AND (settled_at IS NULL OR folded_step IS NULL) ORDER BY step, call_index`}
	readSpawn      = statement{"read spawn", `SELECT ` + spawnColumns + ` FROM spawns WHERE parent_run_id = ? AND step = ? AND call_index = ?`}
	readSpawns     = statement{"read spawns", `SELECT ` + spawnColumns + ` FROM spawns WHERE parent_run_id = ? ORDER BY step, call_index`}
	settleSpawn    = statement{"settle spawn", `UPDATE spawns SET settled_at = ?1 WHERE child_run_id = ?2 AND settled_at IS NULL`}
	readChildren   = statement{"read children", `SELECT ` + runColumns + ` FROM runs WHERE parent_run_id = ? ORDER BY id`}
	readTree       = statement{"read tree", `SELECT ` + runColumns + ` FROM runs WHERE root_run_id = ? ORDER BY id`}
	treeAddresses  = statement{"tree addresses", `SELECT as_name, child_run_id FROM spawns WHERE root_run_id = ? AND as_name <> '' ORDER BY as_name`}
	addressOfChild = statement{"address of child", `SELECT coalesce(as_name, ''), parent_run_id FROM spawns WHERE child_run_id = ?`}
	// treeSpend counts a reply, which commits no step, by its completions.
	treeSpend = statement{"tree spend", `SELECT count(*), coalesce(sum(CASE WHEN r.turn_kind = 'reply' AND r.last_step = 0
		THEN (SELECT coalesce(sum(c.total_tokens), 0) FROM provider_calls c WHERE c.run_id = r.id) ELSE r.spent_tokens END), 0)
		FROM runs r WHERE r.root_run_id = ?`}
)

// StartChild starts a child under a parent's drive. Its run, its spawn with the
// whole call and its own policy, the event on the parent, the child's drive and
// the removal from the queue are one transaction. The child shares the lease of
// the tree. A second child of the same call, or with an address that is taken,
// is refused with KindConstraint: look for the first with FindSpawn.
func (s *Store) StartChild(ctx context.Context, parent *Drive, c ChildStart) (*Drive, error) {
	if err := identifier("start child", "workspace", c.Workspace); err != nil {
		return nil, err
	}
	if c.Name == RootAddress {
		return nil, invalid("start child", "the address %q is the root's", c.Name)
	}
	var d *Drive
	err := parent.writeAhead(ctx, "start child", func(t *txn) (err error) {
		d, err = s.startChild(t, parent, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	d.attach()
	return d, nil
}

func (s *Store) startChild(t *txn, parent *Drive, c ChildStart) (*Drive, error) {
	var last string
	if err := t.row(providerOf, []any{parent.ID}, &last); err != nil {
		return nil, err
	}
	if c.Provider == "" {
		c.Provider = last
	}
	id, err := t.insert(insertRun, parent.RunID, 0, parent.Depth+1, cleanText(c.Goal), c.Workspace, string(ModeTree), null(c.Provider), nil, t.now)
	if err != nil {
		return nil, err
	}
	run := trace.RunID(id)
	if _, err := t.exec(setChildRoot, parent.RootID, run); err != nil {
		return nil, err
	}
	d, err := s.newDrive(t, run, parent.RootID, parent.lease, TookNothing, 1, c.Provider, c.Policy, c.Contract)
	if err != nil {
		return nil, err
	}
	d.Depth, d.RunStarted, d.RootStart = parent.Depth+1, d.StartedAt, parent.RootStart
	role := c.Agent
	if role == "" {
		role = "agent"
	}
	if c.Name == "" {
		c.Name = fmt.Sprintf("%s#%d", role, run)
	}
	deny := c.DenyWrite
	if len(deny) == 0 {
		deny = json.RawMessage(`[]`)
	}
	if _, err := t.exec(insertSpawn, run, parent.RootID, parent.RunID, c.Step, c.CallIndex, null(c.CallID), cleanText(c.Goal), cleanText(c.VerifyFile),
		cleanText(c.Needle), nullID(c.MaxSteps), rawJSON(deny), null(c.Agent), c.Name, rawJSON(c.Arguments), rawJSON(c.Policy), c.Returns); err != nil {
		return nil, err
	}
	detail := c.Name + ": " + c.Goal
	if c.Agent != "" {
		detail = c.Name + " as " + c.Agent + ": " + c.Goal
	}
	if err := (AgentEvent{Step: c.Step, Kind: "spawn", Other: run, Detail: detail}).insert(t, parent.RunID); err != nil {
		return nil, err
	}
	_, err = t.exec(dequeue, parent.RunID, c.Step, c.CallIndex)
	return d, err
}

var providerOf = statement{"provider of drive", `SELECT provider FROM drives WHERE id = ?`}

// EnterChild takes up a child that was started before, under the drive of an
// agent above it: like EnterDrive, but the lease is the tree's.
func (s *Store) EnterChild(ctx context.Context, parent *Drive, child trace.RunID, opt EnterOptions) (*Drive, *Resumed, error) {
	var d *Drive
	var res *Resumed
	err := parent.writeAhead(ctx, "enter child", func(t *txn) (err error) {
		d, res, err = s.enterChild(t, parent, child, opt)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if d != nil {
		d.attach()
	}
	if err := s.load(ctx, child, res); err != nil {
		if d != nil {
			err = joinErrors(err, d.Release(ctx))
		}
		return nil, nil, err
	}
	return d, res, nil
}

func (s *Store) enterChild(t *txn, parent *Drive, child trace.RunID, opt EnterOptions) (*Drive, *Resumed, error) {
	info, err := resumable(&t.query, child)
	if err != nil {
		return nil, nil, err
	}
	if info.RootID != parent.RootID || info.ID == info.RootID {
		return nil, nil, &ResumeError{RunID: child, Reason: NoSuchRun, Detail: fmt.Sprintf("it is no child in the tree of run %d", parent.RootID)}
	}
	res := &Resumed{Info: info}
	if info.Status == trace.StatusCompleted && info.Outcome.Kind.Final() {
		o := info.Outcome
		res.Outcome = &o
		return nil, res, nil
	}
	// Calls of other agents of the tree are in flight, not in doubt.
	open, err := list(&t.query, openAttempts, []any{child}, scanAttempt)
	if err != nil {
		return nil, nil, err
	}
	if len(open) > 0 {
		res.Attempts = open
		res.Outcome = &trace.Outcome{Kind: trace.AwaitingRecovery, Steps: info.LastStep, AttemptID: open[0].ID}
		return nil, res, nil
	}
	end, err := decide(t, info, opt)
	if end == nil && err == nil {
		end, err = waits(t, info)
	}
	if err != nil {
		return nil, nil, err
	}
	if end != nil {
		res.Outcome, res.Written = end.outcome, end.written
		return nil, res, nil
	}
	d, err := s.reopen(t, info, parent.lease, TookNothing, opt, res)
	if err != nil {
		return nil, nil, err
	}
	d.owns = false
	return d, res, nil
}

// settleChild follows the end of a child: its spawn is settled, and its parent
// gets one short note, however often the child ends.
func settleChild(t *txn, child trace.RunID, o trace.Outcome) error {
	if o.Kind.Status() != trace.StatusCompleted {
		return nil
	}
	var name string
	var parent trace.RunID
	err := t.row(addressOfChild, []any{child}, &name, &parent)
	switch {
	case noRows(err):
		return nil
	case err != nil:
		return err
	}
	if _, err := t.exec(settleSpawn, t.now, child); err != nil {
		return err
	}
	return postFinished(t, child, parent, name, o)
}

// FoldReport adds a child's report to its parent's ledger outside a step, for
// one that came after the parent's last step. It reports false when the report
// was folded before; then nothing is added.
func (s *Store) FoldReport(ctx context.Context, d *Drive, child trace.RunID, obs ...trace.Observation) (bool, error) {
	var first bool
	err := d.writeAhead(ctx, "fold report", func(t *txn) error {
		var last int
		if err := t.row(lastStepOf, []any{d.RunID}, &last); err != nil {
			return err
		}
		n, err := t.exec(foldReport, last, child, d.RunID)
		if err != nil {
			return err
		}
		if first = n == 1; !first {
			return nil
		}
		_, err = appendObservations(t, d.RunID, obs)
		return err
	})
	return first, err
}

// FindSpawn is the child that one call of one step started, or nil.
func (s *Store) FindSpawn(ctx context.Context, parent trace.RunID, step, callIndex int) (*Spawn, error) {
	ss, err := s.spawns(ctx, readSpawn, parent, step, callIndex)
	if err != nil || len(ss) == 0 {
		return nil, err
	}
	return &ss[0], nil
}

// Spawns lists the children that one run started, in the order asked for.
func (s *Store) Spawns(ctx context.Context, parent trace.RunID) ([]Spawn, error) {
	return s.spawns(ctx, readSpawns, parent)
}

func (s *Store) spawns(ctx context.Context, st statement, args ...any) (ss []Spawn, err error) {
	err = s.read(ctx, st.name, func(q *query) (err error) {
		ss, err = list(q, st, args, scanSpawn)
		return err
	})
	return ss, err
}

// Children lists the runs that one run started.
func (s *Store) Children(ctx context.Context, run trace.RunID) ([]RunInfo, error) {
	return s.runs(ctx, readChildren, run)
}

// Tree lists every run of the tree under a root, the root first; it is empty
// for a run that is no root.
func (s *Store) Tree(ctx context.Context, root trace.RunID) ([]RunInfo, error) {
	return s.runs(ctx, readTree, root)
}

func (s *Store) runs(ctx context.Context, st statement, args ...any) (rs []RunInfo, err error) {
	err = s.read(ctx, st.name, func(q *query) (err error) {
		rs, err = list(q, st, args, scanRun)
		return err
	})
	return rs, err
}

// TreeLedger is what a tree has spent and who waits in it.
type TreeLedger struct {
	Agents int   // runs of the tree, the root included
	Tokens int64 // drawn by all of them
	Queued []QueuedAgent
}

// TreeLedger reads the shared ledger of the tree under a root.
func (s *Store) TreeLedger(ctx context.Context, root trace.RunID) (l TreeLedger, err error) {
	err = s.snapshot(ctx, "tree ledger", func(q *query) (err error) {
		if err := q.row(treeSpend, []any{root}, &l.Agents, &l.Tokens); err != nil {
			return err
		}
		l.Queued, err = list(q, queuedInTree, []any{root}, scanQueued)
		return err
	})
	return l, err
}

// Address is a name under which an agent of a tree gets mail.
type Address struct {
	Name string
	Run  trace.RunID
}

// TreeAddresses lists who can be written to in the tree under a root, by name.
func (s *Store) TreeAddresses(ctx context.Context, root trace.RunID) ([]Address, error) {
	var out []Address
	err := s.read(ctx, "tree addresses", func(q *query) (err error) {
		out, err = list(q, treeAddresses, []any{root}, func(r scanner) (a Address, err error) { return a, r.Scan(&a.Name, &a.Run) })
		return err
	})
	if err != nil {
		return nil, err
	}
	at := len(out)
	for i, a := range out {
		if a.Name > RootAddress {
			at = i
			break
		}
	}
	return append(out[:at:at], append([]Address{{RootAddress, root}}, out[at:]...)...), nil
}

func scanSpawn(r scanner) (s Spawn, err error) {
	var deny, args, policy []byte
	var settled *int64
	err = r.Scan(&s.Child, &s.Root, &s.Parent, &s.Step, &s.CallIndex, &s.CallID, &s.Goal, &s.VerifyFile, &s.Needle,
		&s.MaxSteps, &deny, &s.Agent, &s.Name, &args, &policy, &s.Returns, &settled, &s.FoldedStep)
	s.DenyWrite, s.Arguments, s.Policy, s.SettledAt = deny, args, policy, timeOrZero(settled)
	return s, err
}
