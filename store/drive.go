package store

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// Drive is one period in which this process drives one run. It holds the lease
// of the run's tree and renews it in the background until it is released,
// finished or lost. It is safe for concurrent use.
type Drive struct {
	ID         trace.DriveID // fixed at construction, like all fields
	RunID      trace.RunID
	RootID     trace.RunID // the run itself, or the root of its tree
	Depth      int         // 0 for the root of a tree
	Owner      string
	Generation int64
	Takeover   Takeover
	StartStep  int       // the step that this drive commits first
	StartedAt  time.Time // of this drive, by the store's clock
	RunStarted time.Time // of the run's first drive: time budgets count from here
	RootStart  time.Time // of the root run: a tree's time ceiling counts from here

	SessionID trace.SessionID // zero when the run is no turn
	TurnID    trace.TurnID    // zero when the run is no turn

	store *Store
	id    string // of the store, empty for one that has none
	lease *lease
	owns  bool // whether the lease ends with this drive: false for a child of a tree

	buf    evidence
	prompt lastPrompt // of the step that was committed last

	mu     sync.Mutex
	closed bool // nothing more is written in its name
	ended  bool // its end is written down
}

var (
	insertDrive = statement{"insert drive", `INSERT INTO drives
		(run_id, owner, generation, takeover, provider, policy, contract, start_step, started_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`}
	endDrive = statement{"end drive", `UPDATE drives SET ended_at = ?, outcome = ?, dropped = ? WHERE id = ? AND ended_at IS NULL`}
)

// newDrive writes the drive's row and ties it to the lease.
func (s *Store) newDrive(t *txn, run, root trace.RunID, l *lease, how Takeover, start int, provider string, policy, contract json.RawMessage) (*Drive, error) {
	id, err := t.insert(insertDrive, run, l.owner, l.generation, null(string(how)), cleanText(provider), rawJSON(policy), rawJSON(contract), start, t.now)
	if err != nil {
		return nil, err
	}
	d := &Drive{
		ID: trace.DriveID(id), RunID: run, RootID: root, Owner: l.owner, Generation: l.generation, Takeover: how,
		StartStep: start, StartedAt: timeOf(t.now), store: s, lease: l, owns: run == root,
	}
	d.buf.init(d)
	d.id, err = meta(&t.query, storeID)
	return d, err
}

// CallKey is what a tool is handed to tell one call of the run from every other: the
// same for every attempt at it, across crashes and resumes. It names the store, the
// run, the step and the call's place in it, which is counted from 0; in a store that
// was made by software which did not name stores, it begins with the run.
func (d *Drive) CallKey(step, index int) string {
	key := fmt.Sprintf("%d/%d/%d", d.RunID, step, index)
	if d.id == "" {
		return key
	}
	return d.id + "/" + key
}

// Lost is closed when somebody else has the run. No further effect may start
// then; commits fail by themselves.
func (d *Drive) Lost() <-chan struct{} { return d.lease.lost }

// Err is the conflict by which the drive lost its run, or nil.
func (d *Drive) Err() error { return d.lease.Err() }

// Context derives a context that is cancelled, with the conflict as its cause,
// when the drive loses its run. The caller must call cancel.
func (d *Drive) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	var once sync.Once
	go func() {
		select {
		case <-d.Lost():
			cancel(d.Err())
		case <-stop:
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		once.Do(func() { close(stop) })
		cancel(context.Canceled)
	}
}

// Release ends the drive without an outcome: what it recorded is flushed, the
// run stays running and resumable, and the lease is free at once. After
// FinishRun it only flushes what was recorded since. It ignores the cancellation
// of ctx and may be called again, also after it failed.
func (d *Drive) Release(ctx context.Context) error {
	if d.owns && !d.lease.isFreed() {
		return d.lease.release(ctx)
	}
	if err := d.end(ctx); err != nil {
		return err
	}
	// What was recorded after the end, such as the close of a server, has no
	// commit to join any more.
	_, err := d.buf.flush(context.WithoutCancel(ctx))
	return err
}

// end closes the drive's row. It is part of a release, and all of it for a child.
func (d *Drive) end(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	ended := d.ended
	d.mu.Unlock()
	if ended {
		return nil
	}
	d.buf.halt()
	err := d.buf.carry(func() error {
		return d.store.writeSurely(ctx, "end drive", func(t *txn) error {
			if _, err := d.buf.joinLate(t); err != nil {
				return err
			}
			_, err := t.exec(endDrive, t.now, nil, d.buf.droppedJSON(), d.ID)
			return err
		})
	})
	if err == nil {
		d.over()
	}
	return err
}

// over marks the drive as ended, in memory.
func (d *Drive) over() {
	d.mu.Lock()
	d.closed, d.ended = true, true
	d.mu.Unlock()
	d.lease.mu.Lock()
	delete(d.lease.drives, d)
	d.lease.mu.Unlock()
}

// shut marks the drive as over after its finish has committed.
func (d *Drive) shut() {
	d.over()
	d.buf.halt()
	if d.owns {
		d.lease.halt()
	}
}

// ending runs a transaction that may end the drive and with it the lease.
func (d *Drive) ending(ends bool, fn func() error) error {
	if !ends || !d.owns {
		return d.buf.carry(fn)
	}
	return d.lease.letGo(func() error { return d.buf.carry(fn) })
}

func (d *Drive) attach() {
	d.lease.mu.Lock()
	defer d.lease.mu.Unlock()
	if d.lease.drives == nil {
		d.lease.drives = map[*Drive]struct{}{}
	}
	d.lease.drives[d] = struct{}{}
}

// open reports an ended drive, so that nothing is written in its name.
func (d *Drive) open() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return &ConflictError{RunID: d.RunID}
	}
	return nil
}

// writeAhead runs fn in one synced transaction that first checks the lease and
// carries the evidence recorded so far.
func (d *Drive) writeAhead(ctx context.Context, op string, fn func(*txn) error) error {
	return d.writeAheadSync(ctx, op, d.store.opt.sync, fn)
}

func (d *Drive) writeAheadSync(ctx context.Context, op string, sync Synchronous, fn func(*txn) error) error {
	if err := d.open(); err != nil {
		return err
	}
	return d.buf.carry(func() error {
		return d.store.writeSync(ctx, op, sync, func(t *txn) error {
			if err := d.lease.renew(t); err != nil {
				return err
			}
			if err := d.buf.join(t, admitAll); err != nil {
				return err
			}
			return fn(t)
		})
	})
}

// Columns ------------------------------------------------------------------

// null stores an empty text as absent.
func null(s string) any {
	if s == "" {
		return nil
	}
	return cleanText(s)
}

// nullID stores a zero id as absent.
func nullID[T ~int64 | ~int](id T) any {
	if id == 0 {
		return nil
	}
	return int64(id)
}

// rawJSON stores a JSON document as text, and an empty one as absent.
func rawJSON(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return cleanText(string(raw))
}

// maxCounter bounds every stored count of tokens: far more than any model can
// read, and little enough that no sum over a store wraps.
const maxCounter = 1 << 40

// counter brings a count that came from outside into what can be summed.
func counter(n int64) int64 { return max(0, min(n, maxCounter)) }

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// satAdd adds without wrapping: a counter at its bound stays there.
func satAdd(a, b int64) int64 {
	const top = 1<<63 - 1
	if a > 0 && b > top-a {
		return top
	}
	return a + b
}
