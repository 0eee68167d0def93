package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"modernc.org/sqlite"
)

// A statement is one SQL text with the name under which tests make it fail.
// Statements live in the file of their subject.
type statement struct{ name, sql string }

// A scanner is one row.
type scanner interface{ Scan(dest ...any) error }

// A query runs statements on one connection or on the pool of readers. It has
// only methods that read.
type query struct {
	ctx     context.Context
	prepare func(statement) (*sql.Stmt, error)
	fail    func(string) error
	heed    context.Context // asked before each statement; nil when ctx does it
}

// point is passed before each statement: there a cancellation is heard that the
// statement itself cannot hear, and there a test makes it fail.
func (q *query) point(name string) error {
	if q.heed != nil {
		if err := q.heed.Err(); err != nil {
			return err
		}
	}
	if q.fail == nil {
		return nil
	}
	return q.fail(name)
}

// row reads one row; sql.ErrNoRows means that there is none.
func (q *query) row(st statement, args []any, dest ...any) error {
	if err := q.point(st.name); err != nil {
		return err
	}
	ps, err := q.prepare(st)
	if err != nil {
		return fmt.Errorf("%s: %w", st.name, err)
	}
	if err := ps.QueryRowContext(q.ctx, args...).Scan(dest...); err != nil {
		return fmt.Errorf("%s: %w", st.name, err)
	}
	return nil
}

// each hands every row to fn.
func (q *query) each(st statement, args []any, fn func(scanner) error) (err error) {
	if err := q.point(st.name); err != nil {
		return err
	}
	ps, err := q.prepare(st)
	if err != nil {
		return fmt.Errorf("%s: %w", st.name, err)
	}
	rows, err := ps.QueryContext(q.ctx, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", st.name, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", st.name, err)
	}
	return nil
}

// list collects every row.
func list[T any](q *query, st statement, args []any, scan func(scanner) (T, error)) ([]T, error) {
	var out []T
	err := q.each(st, args, func(r scanner) error {
		v, err := scan(r)
		if err != nil {
			return err
		}
		out = append(out, v)
		return nil
	})
	return out, err
}

// A txn is a write transaction: the only type that can change the file. Helpers
// take a txn and never a *Store, so that nobody can ask for the writer twice.
type txn struct {
	query
	conn *sql.Conn
	now  int64 // one stamp for everything in the transaction
}

// script runs several statements at once, unprepared.
func (t *txn) script(name, text string) error {
	if err := t.point(name); err != nil {
		return err
	}
	if _, err := t.conn.ExecContext(t.ctx, text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// exec runs a statement and returns how many rows it changed.
func (t *txn) exec(st statement, args ...any) (int64, error) {
	if err := t.point(st.name); err != nil {
		return 0, err
	}
	ps, err := t.prepare(st)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", st.name, err)
	}
	res, err := ps.ExecContext(t.ctx, args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", st.name, err)
	}
	return res.RowsAffected()
}

// insert runs a statement that returns the id of its row.
func (t *txn) insert(st statement, args ...any) (id int64, err error) {
	err = t.row(st, args, &id)
	return id, err
}

// A writer is the one connection that changes the file.
type writer struct {
	db   *sql.DB
	turn chan struct{} // holds one token: whoever takes it has the connection

	// Guarded by the token.
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	sync  Synchronous
}

func newWriter(db *sql.DB, sync Synchronous) *writer {
	w := &writer{db: db, turn: make(chan struct{}, 1), stmts: map[string]*sql.Stmt{}, sync: sync}
	w.turn <- struct{}{}
	return w
}

func (w *writer) take(ctx context.Context) error {
	select {
	case <-w.turn:
		return nil
	default:
	}
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) give() { w.turn <- struct{}{} }

// connect returns the connection, making it when there is none.
func (w *writer) connect(ctx context.Context) (*sql.Conn, error) {
	if w.conn != nil {
		return w.conn, nil
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w.conn, w.stmts = conn, map[string]*sql.Stmt{}
	return conn, nil
}

// drop closes a connection that cannot be trusted any more. The pool would hand out
// one that is merely given back as it is, in the middle of a transaction.
func (w *writer) drop() {
	for _, st := range w.stmts {
		_ = st.Close()
	}
	if w.conn != nil {
		_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = w.conn.Close()
	}
	w.conn, w.stmts = nil, map[string]*sql.Stmt{}
}

func (w *writer) prepare(ctx context.Context) func(statement) (*sql.Stmt, error) {
	return func(st statement) (*sql.Stmt, error) {
		if ps := w.stmts[st.sql]; ps != nil {
			return ps, nil
		}
		ps, err := w.conn.PrepareContext(ctx, st.sql)
		if err != nil {
			return nil, err
		}
		w.stmts[st.sql] = ps
		return ps, nil
	}
}

var (
	beginImmediate  = statement{"begin", `BEGIN IMMEDIATE`}
	commitNow       = statement{"commit", `COMMIT`}
	rollbackNow     = statement{"rollback", `ROLLBACK`}
	synchronousFull = statement{"synchronous full", `PRAGMA synchronous=FULL`}
	synchronousNorm = statement{"synchronous normal", `PRAGMA synchronous=NORMAL`}
)

// write runs fn in one immediate transaction. A busy file is waited for until
// the busy timeout has passed; any other failure rolls back and is returned.
func (s *Store) write(ctx context.Context, op string, fn func(*txn) error) error {
	return s.writeSync(ctx, op, s.opt.sync, fn)
}

// writeSurely is write for what must not be given up because a run was
// cancelled: its context outlives the caller's by a stated time.
func (s *Store) writeSurely(ctx context.Context, op string, fn func(*txn) error) error {
	return s.writeSurelySync(ctx, op, s.opt.sync, fn)
}

func (s *Store) writeSurelySync(ctx context.Context, op string, sync Synchronous, fn func(*txn) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.busyTimeout+commitGrace)
	defer cancel()
	for attempt := 0; ; attempt++ {
		err := s.writeSync(ctx, op, sync, fn)
		var se *Error
		if err == nil || !errors.As(err, &se) || !se.Retryable() {
			return err
		}
		if pause(ctx, time.Duration(min(attempt+1, 10))*10*time.Millisecond) != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) writeSync(ctx context.Context, op string, sync Synchronous, fn func(*txn) error) error {
	if s.opt.readOnly {
		return &Error{Kind: KindReadOnly, Op: op, Path: s.path, Err: errors.New("the store was opened for reading")}
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.w.take(ctx); err != nil {
		return s.failure(ctx, op, err)
	}
	defer s.w.give()
	return s.failure(ctx, op, s.transact(ctx, op, sync, fn))
}

func (s *Store) transact(ctx context.Context, op string, sync Synchronous, fn func(*txn) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := s.w.connect(ctx); err != nil {
		return err
	}
	whole := context.WithoutCancel(ctx)
	prepare := s.w.prepare(whole) // a rollback is needed most when the caller has gone
	run := func(ctx context.Context, st statement) error {
		ps, err := prepare(st)
		if err != nil {
			return err
		}
		_, err = ps.ExecContext(ctx)
		return err
	}
	if s.w.sync != sync {
		st := synchronousFull
		if sync == SyncNormal {
			st = synchronousNorm
		}
		if err := run(ctx, st); err != nil {
			return err
		}
		s.w.sync = sync
	}
	rollback := func() {
		if err := run(whole, rollbackNow); err != nil && !inNoTransaction(err) {
			s.w.drop()
			s.w.sync = s.opt.sync
		}
	}
	if err := run(ctx, beginImmediate); err != nil {
		if ctx.Err() != nil {
			rollback() // a statement that was interrupted may have come to its end
		}
		return err
	}
	open := true
	defer func() {
		// Also on a panic of fn: the connection must not stay in a transaction.
		if open {
			rollback()
		}
	}()
	// Who holds the file waits for nobody, so a cancellation is heard between two
	// statements. The driver would start a goroutine for each to hear it within.
	t := &txn{query: query{ctx: whole, prepare: s.w.prepare(whole), fail: s.opt.fail, heed: ctx}, conn: s.w.conn, now: s.stamp()}
	if err := fn(t); err != nil {
		return err
	}
	if err := t.around("commit", op); err != nil {
		return err
	}
	// Not cancellable: a commit that went through and reported a cancellation
	// would leave a lease that nobody knows to hold.
	if err := run(whole, commitNow); err != nil {
		return err
	}
	open = false
	t.heed = nil // what is committed is no failure
	return t.around("committed", op)
}

// inNoTransaction reports that a rollback found nothing to roll back, the one thing
// that SQLite calls an error of the statement there.
func inNoTransaction(err error) bool {
	const generic = 1 // SQLITE_ERROR
	var se *sqlite.Error
	return errors.As(err, &se) && se.Code() == generic
}

// around passes the points before and behind a commit: one for all of them, and
// one for those of this operation.
func (t *txn) around(name, op string) error {
	if err := t.point(name); err != nil || t.fail == nil {
		return err
	}
	return t.point(name + ": " + op)
}

// read runs fn against the last committed state. Each statement sees its own
// snapshot; use snapshot for several that must agree.
func (s *Store) read(ctx context.Context, op string, fn func(*query) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if s.r == nil {
		return s.readThroughWriter(ctx, op, fn)
	}
	q := &query{ctx: ctx, fail: s.opt.fail, prepare: func(st statement) (*sql.Stmt, error) { return s.r.prepare(ctx, st) }}
	return s.have(ctx, op, fn(q))
}

// snapshot is read with one state for all statements of fn.
func (s *Store) snapshot(ctx context.Context, op string, fn func(*query) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if s.r == nil {
		return s.readThroughWriter(ctx, op, fn)
	}
	return s.have(ctx, op, s.r.snapshot(ctx, func(prepare func(statement) (*sql.Stmt, error)) error {
		return fn(&query{ctx: ctx, fail: s.opt.fail, prepare: prepare})
	}))
}

// have is the end of a read, whose result counts unless the file changed where
// it must not.
func (s *Store) have(ctx context.Context, op string, err error) error {
	if moved := s.unfrozen(); moved != nil {
		return &Error{Kind: KindReadOnly, Op: op, Path: s.path, Err: moved}
	}
	return s.failure(ctx, op, err)
}

// readThroughWriter serves an in-memory store, whose one connection is all
// there is.
func (s *Store) readThroughWriter(ctx context.Context, op string, fn func(*query) error) error {
	if err := s.w.take(ctx); err != nil {
		return s.failure(ctx, op, err)
	}
	defer s.w.give()
	if _, err := s.w.connect(ctx); err != nil {
		return s.failure(ctx, op, err)
	}
	return s.failure(ctx, op, fn(&query{ctx: ctx, prepare: s.w.prepare(ctx), fail: s.opt.fail}))
}

// readers is the pool of connections that only read.
type readers struct {
	db *sql.DB

	mu    sync.Mutex
	stmts map[string]*sql.Stmt
}

// snapshot runs fn within one read transaction. fn holds one connection of the
// pool and must not wait for a second: when all of them are held by others that
// do the same, nobody ever gets one. So what is not prepared yet is prepared on
// that connection, and for the pool only once it has been given back.
func (r *readers) snapshot(ctx context.Context, fn func(prepare func(statement) (*sql.Stmt, error)) error) (err error) {
	var unknown []statement
	defer func() {
		for _, st := range unknown {
			_, _ = r.prepare(ctx, st) // the next snapshot is the faster for it
		}
	}()
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if rerr := tx.Rollback(); rerr != nil && !errors.Is(rerr, sql.ErrTxDone) {
			err = errors.Join(err, rerr)
		}
	}()
	return fn(func(st statement) (*sql.Stmt, error) {
		if ps := r.known(st); ps != nil {
			return tx.StmtContext(ctx, ps), nil
		}
		unknown = append(unknown, st)
		return tx.PrepareContext(ctx, st.sql) // is closed with the transaction
	})
}

func (r *readers) known(st statement) *sql.Stmt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stmts[st.sql]
}

// prepare waits for a connection; the caller holds none.
func (r *readers) prepare(ctx context.Context, st statement) (*sql.Stmt, error) {
	if ps := r.known(st); ps != nil {
		return ps, nil
	}
	ps, err := r.db.PrepareContext(ctx, st.sql)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.stmts[st.sql]; other != nil {
		_ = ps.Close()
		return other, nil
	}
	r.stmts[st.sql] = ps
	return ps, nil
}
