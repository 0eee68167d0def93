package store

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// evidenceDelay is the longest that recorded evidence waits for a transaction
// to join: what a killed process may lose of a step that never committed.
const evidenceDelay = 20 * time.Millisecond

// A Row is a piece of evidence about a run: PolicyEvent, ProviderCall,
// StepAttempt, Edit, SandboxEvent, MCPEvent, GateAttempt, ContextEvent,
// Citation, ServerToolCall, AgentEvent, HandleOutput, MemoryRecall, Said.
type Row interface {
	table() string
	insert(t *txn, run trace.RunID) error
}

// Record hands over evidence. It is written with whichever comes first: the
// next commit of this drive, a Flush, or 20 ms. Rows keep their order. A row
// that cannot be written is counted in Dropped and the run goes on, except a
// PolicyEvent: it stays and fails the next Flush and the next commit, so that
// no action outruns the record of its permission.
func (d *Drive) Record(rows ...Row) {
	if len(rows) == 0 {
		return
	}
	d.buf.mu.Lock()
	defer d.buf.mu.Unlock()
	for _, r := range rows {
		if g, ok := r.(GateAttempt); ok {
			g.Drive = d.ID
			r = g
		}
		d.buf.rows = append(d.buf.rows, r)
	}
	d.buf.arm()
}

// Flush writes the evidence recorded so far and returns when it is committed.
// Call it before an effect or a wait starts. It looks for the lease, also when there
// is nothing to write, and returns a ConflictError when somebody else has the run.
// Other errors say that a policy event could not be written, or that nobody could
// look. With any error the effect must not happen.
func (d *Drive) Flush(ctx context.Context) error {
	if err := d.Err(); err != nil {
		return err
	}
	wrote, err := d.buf.flush(ctx)
	if err != nil {
		return err
	}
	if !wrote && !d.lease.isFreed() {
		// Not cancellable, as it never was with nothing to write.
		err := d.store.read(context.WithoutCancel(ctx), "look for lease", func(q *query) error {
			_, err := d.lease.admits(q, d.RunID)
			return err
		})
		if err != nil {
			return err
		}
	}
	return d.Err()
}

// Dropped counts evidence of this drive that could not be written, by table.
// It is nil when the trace has no hole.
func (d *Drive) Dropped() map[string]int64 {
	d.buf.mu.Lock()
	defer d.buf.mu.Unlock()
	return maps.Clone(d.buf.dropped)
}

// evidence is the buffer of one drive.
type evidence struct {
	drive *Drive

	// writing is held from the moment rows are taken until they are committed or
	// put back, so that rows keep their order.
	writing sync.Mutex
	taken   []Row // guarded by writing
	lost    map[string]int64

	mu      sync.Mutex
	rows    []Row
	dropped map[string]int64
	timer   *time.Timer
	halted  bool
	late    func()
	running sync.WaitGroup
}

func (e *evidence) init(d *Drive) {
	e.drive = d
	e.late = func() {
		e.mu.Lock()
		e.timer = nil
		if e.halted {
			e.mu.Unlock()
			return
		}
		e.running.Add(1)
		e.mu.Unlock()
		defer e.running.Done()
		ctx, cancel := context.WithTimeout(context.Background(), d.store.opt.busyTimeout)
		defer cancel()
		if _, err := e.flush(ctx); err != nil {
			d.store.opt.log.Error("evidence of a run could not be written", "run", d.RunID, "error", err)
		}
	}
}

// arm sets the timer when there is something to write; e.mu is held.
func (e *evidence) arm() {
	if !e.halted && e.timer == nil && len(e.rows) > 0 {
		e.timer = time.AfterFunc(evidenceDelay, e.late)
	}
}

// halt stops the timer and waits for a flush in progress.
func (e *evidence) halt() {
	e.mu.Lock()
	e.halted = true
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	e.mu.Unlock()
	e.running.Wait()
}

// flush writes the rows in a transaction of their own, which is not synced: a
// later commit of a step syncs it, and only the power going out can lose it. It
// reports whether there were any.
func (e *evidence) flush(ctx context.Context) (bool, error) {
	e.mu.Lock()
	empty := len(e.rows) == 0
	e.mu.Unlock()
	if empty {
		// Rows that another goroutine has taken must be committed before an effect.
		e.writing.Lock()
		defer e.writing.Unlock()
		return false, nil
	}
	err := e.carry(func() error {
		return e.drive.store.writeSync(ctx, "flush evidence", SyncNormal, func(t *txn) error {
			_, err := e.joinLate(t)
			return err
		})
	})
	var se *Error
	if err == nil || !errors.As(err, &se) || se.Retryable() {
		return true, err
	}
	return true, e.giveUp(err)
}

// giveUp drops what cannot be written, except policy events; it returns the
// error when there is one of those.
func (e *evidence) giveUp(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	kept := e.rows[:0]
	for _, r := range e.rows {
		if r.table() == policyTable {
			kept = append(kept, r)
			continue
		}
		e.drop(r.table(), 1)
	}
	clear(e.rows[len(kept):])
	e.rows = kept
	if len(kept) == 0 {
		e.drive.store.opt.log.Warn("evidence of a run was dropped", "run", e.drive.RunID, "error", err)
		return nil
	}
	return err
}

// carry runs a transaction that joins the rows. Its end settles them: forgotten
// after a commit, back at the front after a failure.
func (e *evidence) carry(fn func() error) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	err := fn()
	taken, lost := e.taken, e.lost
	e.taken, e.lost = nil, nil
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.rows = append(taken, e.rows...)
		e.arm()
		return err
	}
	for table, n := range lost {
		e.drop(table, n)
	}
	return nil
}

func (e *evidence) drop(table string, n int64) {
	if e.dropped == nil {
		e.dropped = map[string]int64{}
	}
	e.dropped[table] += n
}

// An admission is what a run takes of a drive's evidence.
type admission int

const (
	admitNothing admission = iota // the run is gone
	admitFigures                  // the run was archived: what completions cost, and no words
	admitAll                      // the drive holds its lease, or what it saw is no secret
)

// takes reports whether a row may be written.
func (a admission) takes(r Row) bool {
	_, cost := r.(ProviderCall)
	return a == admitAll || a == admitFigures && cost
}

// joinLate is join for a transaction that does not renew the lease. It may come when
// the run has long been taken, archived or deleted by force; what then must not be
// written is counted as dropped.
func (e *evidence) joinLate(t *txn) (admission, error) {
	a, err := e.drive.lease.admits(&t.query, e.drive.RunID)
	if err != nil {
		return admitNothing, err
	}
	return a, e.join(t, a)
}

// join writes the rows into t. A row that contradicts the schema is left out
// and counted; a policy event that does fails the transaction, as does any
// failure that SQLite may have answered by rolling back.
func (e *evidence) join(t *txn, a admission) error {
	// What follows in a drive's transaction touches a few rows by their keys. The
	// driver would start a goroutine for each statement, only to be able to stop
	// what is over sooner than it could be stopped.
	t.ctx = context.WithoutCancel(t.ctx)
	e.mu.Lock()
	// A transaction that is tried again takes its rows again.
	e.rows = append(e.taken, e.rows...)
	e.taken, e.rows = e.rows, nil
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	e.mu.Unlock()
	e.lost = map[string]int64{}
	for _, r := range e.taken {
		if !a.takes(r) {
			e.lost[r.table()]++
			continue
		}
		err := r.insert(t, e.drive.RunID)
		if err == nil {
			continue
		}
		var own *Error
		refused := kindOf(err) == KindConstraint || errors.As(err, &own) && own.Kind == KindInvalid
		if !refused || r.table() == policyTable {
			return err
		}
		e.lost[r.table()]++
		e.drive.store.opt.log.Warn("evidence of a run was dropped", "run", e.drive.RunID, "table", r.table(), "error", err)
	}
	return nil
}

func (e *evidence) droppedJSON() any {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := maps.Clone(e.dropped)
	for table, n := range e.lost {
		if all == nil {
			all = map[string]int64{}
		}
		all[table] += n
	}
	if len(all) == 0 {
		return nil
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil
	}
	return string(raw)
}
