package store

import (
	"context"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// QueuedAgent is a child that waits for a place: nothing of it has run, and it
// exists nowhere else.
type QueuedAgent struct {
	Parent    trace.RunID // set by the store
	Step      int         // of the parent
	CallIndex int         // of the call within its completion, from 0
	Goal      string
	Depth     int
	Ticket    int64     // set by the store: the order of admission in the tree
	QueuedAt  time.Time // set by the store
}

const queueColumns = `parent_run_id, step, call_index, goal, depth, ticket, queued_at`

var (
	enqueue = statement{"enqueue agent", `INSERT INTO agent_queue (parent_run_id, step, call_index, root_run_id, goal, depth, ticket, queued_at)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, (SELECT coalesce(max(ticket) + 1, 1) FROM agent_queue WHERE root_run_id = ?4), ?7
		WHERE true ON CONFLICT (parent_run_id, step, call_index) DO NOTHING`}
	dequeue     = statement{"dequeue agent", `DELETE FROM agent_queue WHERE parent_run_id = ? AND step = ? AND call_index = ?`}
	queuedUnder = statement{"queued under", `SELECT ` + queueColumns + ` FROM agent_queue WHERE parent_run_id = ? ORDER BY ticket`}
	// queuedInTree seeks by the root's index.
	queuedInTree = statement{"queued in tree", `SELECT ` + queueColumns + ` FROM agent_queue WHERE root_run_id = ? ORDER BY ticket`}
)

// EnqueueAgent records that a child waits for a place, before it waits, and
// reports whether the wait is new: one that a dead process left is taken up.
func (s *Store) EnqueueAgent(ctx context.Context, parent *Drive, a QueuedAgent) (bool, error) {
	var n int64
	err := parent.writeAhead(ctx, "enqueue agent", func(t *txn) (err error) {
		n, err = t.exec(enqueue, parent.RunID, a.Step, a.CallIndex, parent.RootID, cleanText(a.Goal), a.Depth, t.now)
		return err
	})
	return n == 1, err
}

// DequeueAgent takes a waiting child out of the queue without starting it, and
// reports whether it was there. StartChild does it by itself.
func (s *Store) DequeueAgent(ctx context.Context, parent *Drive, step, callIndex int) (bool, error) {
	var n int64
	err := parent.writeAhead(ctx, "dequeue agent", func(t *txn) (err error) {
		n, err = t.exec(dequeue, parent.RunID, step, callIndex)
		return err
	})
	return n == 1, err
}

// QueuedAgents lists who waits in the tree under a root, first in first out.
func (s *Store) QueuedAgents(ctx context.Context, root trace.RunID) (as []QueuedAgent, err error) {
	err = s.read(ctx, "queued agents", func(q *query) (err error) {
		as, err = list(q, queuedInTree, []any{root}, scanQueued)
		return err
	})
	return as, err
}

func scanQueued(r scanner) (a QueuedAgent, err error) {
	var at int64
	err = r.Scan(&a.Parent, &a.Step, &a.CallIndex, &a.Goal, &a.Depth, &a.Ticket, &at)
	a.QueuedAt = timeOf(at)
	return a, err
}
