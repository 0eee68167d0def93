package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// Takeover says why a lease changed hands. The value is the stored text.
type Takeover string

// The reasons. The zero value means that nobody held the run.
const (
	TookNothing   Takeover = ""
	TookLapsed    Takeover = "lapsed"     // the holder showed no sign of life for its whole term
	TookOwnerGone Takeover = "owner_gone" // the holder's process no longer runs
)

// LeaseInfo tells who drives a run.
type LeaseInfo struct {
	RunID      trace.RunID // the root of the tree: one lease holds all of it
	Owner      string
	Generation int64 // grows by one with each takeover
	DriveID    trace.DriveID
	AcquiredAt time.Time
	RenewedAt  time.Time
	ExpiresAt  time.Time
	TTL        time.Duration
	Expired    bool // by the store's clock
}

const (
	heartbeatMin = 50 * time.Millisecond
	heartbeatMax = 60 * time.Second
)

var (
	readLease = statement{"read lease", `SELECT owner, host, pid, pid_started, generation, drive_id, acquired_at, renewed_at, ttl_ms
		FROM run_leases WHERE run_id = ?`}
	insertLease = statement{"insert lease", `INSERT INTO run_leases
		(run_id, owner, host, pid, pid_started, generation, drive_id, acquired_at, renewed_at, ttl_ms)
		VALUES (?, ?, ?, ?, ?, 1, 0, ?, ?, ?)`}
	takeLease = statement{"take lease", `UPDATE run_leases
		SET owner = ?, host = ?, pid = ?, pid_started = ?, generation = generation + 1, acquired_at = ?, renewed_at = ?, ttl_ms = ?
		WHERE run_id = ? AND owner = ? AND generation = ?`}
	bindLease = statement{"bind lease", `UPDATE run_leases SET drive_id = ? WHERE run_id = ? AND owner = ? AND generation = ?`}
	// renewLease also works after the term has passed, as long as nobody took the run.
	renewLease = statement{"renew lease", `UPDATE run_leases SET renewed_at = ? WHERE run_id = ? AND owner = ? AND generation = ?`}
	dropLease  = statement{"drop lease", `DELETE FROM run_leases WHERE run_id = ? AND owner = ? AND generation = ?`}
	// readStanding tells whether a lease is held, and whether a run of its tree was
	// archived; NULL when the run is gone.
	readStanding = statement{"standing of drive", `SELECT EXISTS (SELECT 1 FROM run_leases WHERE run_id = ?1 AND owner = ?2 AND generation = ?3),
		(SELECT archived_at IS NOT NULL FROM runs WHERE id = ?4)`}
	rootOf = statement{"root of run", `SELECT root_run_id FROM runs WHERE id = ?`}
)

// leaseRow is the stored lease of a root run.
type leaseRow struct {
	owner, host, started       string
	pid, generation, drive     int64
	acquired, renewed, ttlMsec int64
}

func (l leaseRow) lapsed(now int64) bool { return now-l.renewed >= l.ttlMsec }

func (l leaseRow) conflict(root trace.RunID) *ConflictError {
	return &ConflictError{RunID: root, Owner: l.owner, ExpiresAt: timeOf(satAdd(l.renewed, l.ttlMsec))}
}

func leaseOf(q *query, root trace.RunID) (l leaseRow, ok bool, err error) {
	err = q.row(readLease, []any{root}, &l.owner, &l.host, &l.pid, &l.started, &l.generation, &l.drive, &l.acquired, &l.renewed, &l.ttlMsec)
	if noRows(err) {
		return l, false, nil
	}
	return l, err == nil, err
}

// available reports how a run may be taken, or the conflict that forbids it.
func (s *Store) available(q *query, root trace.RunID, now int64) (old leaseRow, held bool, how Takeover, err error) {
	old, held, err = leaseOf(q, root)
	if err != nil || !held {
		return old, held, TookNothing, err
	}
	switch {
	case s.host.ownerGone(old.host, old.pid, old.started):
		return old, true, TookOwnerGone, nil
	case old.lapsed(now):
		return old, true, TookLapsed, nil
	}
	return old, true, TookNothing, old.conflict(root)
}

// acquire takes the lease of a root run inside t, or returns the conflict.
func (s *Store) acquire(t *txn, root trace.RunID, ttl time.Duration) (*lease, Takeover, error) {
	if ttl <= 0 {
		ttl = DefaultLeaseTTL
	}
	l := &lease{
		store: s, root: root, owner: s.host.newOwner(), ttl: ttl,
		lost: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
	}
	ms := max(1, ttl.Milliseconds())
	old, held, how, err := s.available(&t.query, root, t.now)
	if err != nil {
		return nil, "", err
	}
	if !held {
		l.generation = 1
		_, err := t.exec(insertLease, root, l.owner, s.host.host, s.host.pid, s.host.started, t.now, t.now, ms)
		return l, "", err
	}
	l.generation = old.generation + 1
	n, err := t.exec(takeLease, l.owner, s.host.host, s.host.pid, s.host.started, t.now, t.now, ms, root, old.owner, old.generation)
	if err != nil {
		return nil, "", err
	}
	if n != 1 {
		return nil, "", old.conflict(root)
	}
	return l, how, nil
}

// A lease is the right to drive a run and all runs beneath it, held by one
// drive of this process. A heartbeat renews it until it is released or lost.
type lease struct {
	store      *Store // fixed at construction
	root       trace.RunID
	owner      string
	generation int64
	ttl        time.Duration

	lost chan struct{} // closed when somebody else has the run
	stop chan struct{} // closed to end the heartbeat
	done chan struct{} // closed by the heartbeat as its last act

	mu      sync.Mutex
	started bool
	stopped bool
	freed   bool  // its row was given back by a drive of its own, or is being given back
	cause   error // set before lost is closed
	drives  map[*Drive]struct{}
}

// hold starts the heartbeat, after the transaction that took the lease.
func (l *lease) hold() {
	l.mu.Lock()
	l.started = true
	l.mu.Unlock()
	l.store.mu.Lock()
	l.store.drives[l] = struct{}{}
	l.store.mu.Unlock()
	go l.beat()
}

func (l *lease) beat() {
	defer close(l.done)
	every := min(max(l.ttl/3, heartbeatMin), heartbeatMax)
	tick := time.NewTicker(every)
	defer tick.Stop()
	renewed := time.Now()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), l.store.opt.busyTimeout)
		// A renewal that a power cut takes back was of a process that is gone too.
		err := l.store.writeSync(ctx, "renew lease", SyncNormal, l.renew)
		cancel()
		switch {
		case err == nil:
			renewed = time.Now()
		case errors.Is(err, ErrConflict):
			if l.Err() != nil {
				return
			} // else it is just being given back, and halt ends this
		case errors.Is(err, ErrClosed):
			return
		default:
			l.store.opt.log.Warn("a lease could not be renewed", "run", l.root, "error", err)
			if time.Since(renewed) >= l.ttl {
				// Nobody can be told from here that the run is still held, so
				// it must be taken as lost.
				l.lose(&ConflictError{RunID: l.root})
				return
			}
		}
	}
}

// lose makes a loss known, at once to everybody who drives under the lease. What was
// given back was not lost.
func (l *lease) lose(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil && !l.freed {
		l.cause = cause
		close(l.lost)
	}
}

// Err is the conflict by which the lease was lost, or nil.
func (l *lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// renew extends the term inside t. When somebody else has the run, it returns the
// conflict that names the present holder, and the lease is lost.
func (l *lease) renew(t *txn) error {
	n, err := t.exec(renewLease, t.now, l.root, l.owner, l.generation)
	if err != nil || n == 1 {
		return err
	}
	return l.missed(&t.query)
}

// missed is for a lease whose row was not found.
func (l *lease) missed(q *query) error {
	now, held, err := leaseOf(q, l.root)
	if err != nil {
		return err
	}
	conflict := &ConflictError{RunID: l.root}
	if held && now.owner != l.owner { // else it was outlived, and nobody has it
		conflict = now.conflict(l.root)
	}
	l.lose(conflict)
	return conflict
}

// admits tells what a run of the tree takes from a drive that does not renew the
// lease. A lease that is gone is lost.
func (l *lease) admits(q *query, run trace.RunID) (admission, error) {
	var held bool
	var archived *bool
	if err := q.row(readStanding, []any{l.root, l.owner, l.generation, run}, &held, &archived); err != nil {
		return admitNothing, err
	}
	if held {
		return admitAll, nil
	}
	if err := l.missed(q); !errors.Is(err, ErrConflict) {
		return admitNothing, err
	}
	switch {
	case archived == nil:
		return admitNothing, nil
	case *archived:
		return admitFigures, nil
	}
	return admitAll, nil
}

// halt ends the heartbeat and waits for it.
func (l *lease) halt() {
	l.mu.Lock()
	first := !l.stopped
	l.stopped = true
	started := l.started
	l.mu.Unlock()
	if first {
		close(l.stop)
	}
	if started {
		<-l.done
	}
	l.store.mu.Lock()
	delete(l.store.drives, l)
	l.store.mu.Unlock()
}

// release ends the drives that are still open under the lease and deletes it.
// What one no longer holds is left alone.
func (l *lease) release(ctx context.Context) error {
	l.halt()
	l.mu.Lock()
	open := make([]*Drive, 0, len(l.drives))
	for d := range l.drives {
		open = append(open, d)
	}
	l.mu.Unlock()
	var errs []error
	for _, d := range open {
		errs = append(errs, d.end(ctx))
	}
	err := l.letGo(func() error {
		return l.store.writeSurely(ctx, "release lease", func(t *txn) error {
			_, err := t.exec(dropLease, l.root, l.owner, l.generation)
			return err
		})
	})
	return errors.Join(append(errs, err)...)
}

// letGo runs a transaction that gives the lease back. It counts as given back from
// before that: whoever looks behind the commit must not take it for lost.
func (l *lease) letGo(fn func() error) error {
	set := func(freed bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.freed = freed
	}
	set(true)
	err := fn()
	if err != nil {
		set(false)
	}
	return err
}

func (l *lease) isFreed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.freed
}

// LeaseOf tells who drives the run or the tree that it belongs to; nil when
// nobody does. Whether a run with status running really runs is answered here
// and nowhere else. It takes nothing.
func (s *Store) LeaseOf(ctx context.Context, run trace.RunID) (*LeaseInfo, error) {
	var info *LeaseInfo
	err := s.snapshot(ctx, "lease of run", func(q *query) error {
		var root trace.RunID
		if err := q.row(rootOf, []any{run}, &root); err != nil {
			if noRows(err) {
				return nil
			}
			return err
		}
		l, held, err := leaseOf(q, root)
		if err != nil || !held {
			return err
		}
		info = &LeaseInfo{
			RunID: root, Owner: l.owner, Generation: l.generation, DriveID: trace.DriveID(l.drive),
			AcquiredAt: timeOf(l.acquired), RenewedAt: timeOf(l.renewed), ExpiresAt: timeOf(satAdd(l.renewed, l.ttlMsec)),
			TTL: time.Duration(l.ttlMsec) * time.Millisecond, Expired: l.lapsed(s.stamp()),
		}
		return nil
	})
	return info, err
}
