package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"modernc.org/sqlite"
)

//go:embed schema.sql
var schemaSQL string

//go:embed generation2.sql
var generation2SQL string

//go:embed generation3.sql
var generation3SQL string

//go:embed generation4.sql
var generation4SQL string

const (
	// applicationID marks the file as ours: "IOHR".
	applicationID = 0x494F4852
)

// A migration brings a file from generation number-1 to number, in one
// transaction. Rewrites says that it changes or drops data, so that a copy of
// the file is made first and older software is shut out.
type migration struct {
	number   int
	sql      string
	rewrites bool
}

// migrations lists every generation in order; the first makes an empty file a store.
func migrations() []migration {
	return []migration{{number: 1, sql: schemaSQL}, {number: 2, sql: generation2SQL}, {number: 3, sql: generation3SQL}, {number: 4, sql: generation4SQL}}
}

// generation is the schema that this software writes, in user_version.
func (o options) generation() int { return o.migrations[len(o.migrations)-1].number }

// fileFacts is what a file says about itself before anything is changed.
type fileFacts struct {
	path       string
	empty      bool
	appID      int64
	generation int
	minReader  int
	tables     []string
}

// examine decides whether this software may use the file, and leaves one that
// it may not use as it is. Even a connection for reading would leave side files
// of a write-ahead log, so a file at rest is read as if nothing could change
// it; when something did change meanwhile, the refusal is not believed.
func examine(ctx context.Context, path string, opt options) (fileFacts, error) {
	mode := "ro"
	before, resting := atRest(path)
	if resting {
		mode = "immutable"
	}
	f, err := inspect(ctx, path, opt, mode)
	if err == nil {
		err = f.admit(opt)
	}
	if err != nil && resting {
		if after, still := atRest(path); !still || after != before {
			err = &Error{Kind: KindBusy, Op: "open", Err: fmt.Errorf("%s changes while it is examined", path)}
		}
	}
	return f, err
}

// atRest tells a file's size and time, and whether no writer's log lies beside it.
func atRest(path string) (state [2]int64, resting bool) {
	fi, err := os.Stat(path)
	if err != nil {
		return state, false
	}
	for _, suffix := range []string{"-wal", "-journal"} {
		if _, err := os.Stat(path + suffix); err == nil {
			return state, false
		}
	}
	return [2]int64{fi.Size(), fi.ModTime().UnixNano()}, true
}

// inspect reads a file's identity through a connection that cannot write.
func inspect(ctx context.Context, path string, opt options, mode string) (f fileFacts, err error) {
	f.path = path
	db, err := sql.Open("sqlite", dsn(path, opt, mode))
	if err != nil {
		return f, classify(ctx, "open", err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	// One snapshot, so that a file is not seen half before and half after another
	// opener made it a store.
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return f, classify(ctx, "open", err)
	}
	defer func() { _ = tx.Rollback() }()
	err = f.read(ctx, tx)
	if !leftInTransaction(err) {
		return f, classify(ctx, "open", err)
	}
	if opt.readOnly {
		return f, &Error{Kind: KindReadOnly, Op: "open", Err: fmt.Errorf("%s was left in the middle of a transaction: open it once for writing", path)}
	}
	_ = tx.Rollback()
	if err := rollBackLeft(ctx, path, opt); err != nil {
		return f, classify(ctx, "open", err)
	}
	return f, &Error{Kind: KindBusy, Op: "open", Err: fmt.Errorf("%s was rolled back to its last transaction", path)} // and is examined again
}

// leftInTransaction reports that a writer died while it committed and left a
// rollback journal that must be played back before anybody can read. It happens
// to a store that is just being created: later there is a write-ahead log.
func leftInTransaction(err error) bool {
	const readonlyRollback = 776 // SQLITE_READONLY_ROLLBACK
	var se *sqlite.Error
	return errors.As(err, &se) && se.Code() == readonlyRollback
}

// cannotMakeSideFiles reports that the files beside a write-ahead log are not
// there and cannot be made.
func cannotMakeSideFiles(err error) bool {
	const (
		readonlyCantInit  = 1288 // SQLITE_READONLY_CANTINIT
		readonlyDirectory = 1544 // SQLITE_READONLY_DIRECTORY
		cantOpen          = 14   // SQLITE_CANTOPEN
	)
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return false
	}
	code := se.Code()
	return code == readonlyCantInit || code == readonlyDirectory || code&0xff == cantOpen
}

// rollBackLeft plays the journal back, as whoever opens such a file must. It
// changes nothing that was committed, whoever the file belongs to.
func rollBackLeft(ctx context.Context, path string, opt options) error {
	db, err := sql.Open("sqlite", dsn(path, opt, "plain"))
	if err != nil {
		return err
	}
	var n int
	return errors.Join(db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master`).Scan(&n), db.Close())
}

func (f *fileFacts) read(ctx context.Context, tx *sql.Tx) (err error) {
	if err := tx.QueryRowContext(ctx, `PRAGMA application_id`).Scan(&f.appID); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&f.generation); err != nil {
		return err
	}
	rows, err := tx.QueryContext(ctx, `SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name`)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		f.tables = append(f.tables, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	f.empty = len(f.tables) == 0 && f.appID == 0 && f.generation == 0
	if f.appID != applicationID || f.empty {
		return nil
	}
	var text string
	if err := tx.QueryRowContext(ctx, `SELECT value FROM store_meta WHERE key = 'min_reader'`).Scan(&text); err != nil && !noRows(err) {
		return err
	}
	f.minReader, _ = strconv.Atoi(text)
	return nil
}

// admit decides whether this software may use the file.
func (f fileFacts) admit(opt options) error {
	ours := opt.generation()
	switch {
	case f.empty && opt.readOnly:
		return fmt.Errorf("%w: %s is empty, and a handle for reading creates nothing", ErrForeignStore, f.path)
	case f.empty:
		return nil
	case f.appID != applicationID:
		has := map[string]bool{}
		for _, t := range f.tables {
			has[t] = true
		}
		if f.appID == 0 && has["runs"] && has["steps"] {
			return fmt.Errorf("%w: %s was written by another implementation (schema %d) and is left as it is: give a new path",
				ErrForeignStore, f.path, f.generation)
		}
		return fmt.Errorf("%w: %s has application id %d and %d tables: give a new path", ErrForeignStore, f.path, f.appID, len(f.tables))
	case f.generation < ours && opt.readOnly:
		return &Error{Kind: KindReadOnly, Op: "open", Err: fmt.Errorf("%s is of generation %d and must be brought to %d: open it once for writing", f.path, f.generation, ours)}
	case f.generation > ours && f.minReader > ours:
		return fmt.Errorf("%w: %s is of generation %d and demands software of at least %d; this one is %d: update it",
			ErrNewerStore, f.path, f.generation, f.minReader, ours)
	}
	return nil
}

// initialise makes an empty file a store and brings an older one up to date.
func (s *Store) initialise(ctx context.Context, f fileFacts) error {
	if f.generation >= s.opt.generation() {
		// Nothing to change; connect, so that a file that cannot be written fails here.
		_, err := s.w.connect(ctx)
		return err
	}
	return s.transact(ctx, "open", s.opt.sync, s.migrate)
}

// keepCopy backs the file up as <file>.bak-<generation> before its data are
// rewritten. It is called within the transaction that rewrites them: until that
// ends nobody else writes, copies or migrates, so the copy is the file as it is
// and no other opener is at the same work. A copy that is there is never touched:
// if it differs, which it does when an earlier migration failed and the file was
// written since, the new one gets a number.
func (s *Store) keepCopy(t *txn, generation int) error {
	first := fmt.Sprintf("%s.bak-%d", s.path, generation)
	part := first + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return &Error{Kind: KindIO, Op: "open", Err: err}
	}
	if err := s.Backup(t.ctx, part); err != nil {
		return err
	}
	copied, err := inspect(t.ctx, part, s.opt, "immutable")
	if err == nil && (copied.generation != generation || copied.appID != applicationID) {
		err = &Error{Kind: KindCorrupt, Op: "open", Err: fmt.Errorf("the copy of %s is of generation %d, and the file of %d", s.path, copied.generation, generation)}
	}
	for n, name := 2, first; err == nil; n, name = n+1, fmt.Sprintf("%s-%d", first, n) {
		var same bool
		same, err = sameBytes(part, name)
		switch {
		case errors.Is(err, os.ErrNotExist):
			if err := os.Rename(part, name); err != nil {
				return &Error{Kind: KindIO, Op: "open", Err: err}
			}
			return nil
		case err != nil:
			err = &Error{Kind: KindIO, Op: "open", Err: err}
		case same:
			return os.Remove(part)
		}
	}
	return errors.Join(err, os.Remove(part))
}

// sameBytes compares two files; the error is the second one's when it is not there.
func sameBytes(a, b string) (bool, error) {
	fb, err := os.Open(b)
	if err != nil {
		return false, err
	}
	defer fb.Close()
	fa, err := os.Open(a)
	if err != nil {
		return false, fmt.Errorf("compare copies: %s", err) // not to be taken for a missing b
	}
	defer fa.Close()
	bufA, bufB := make([]byte, 1<<16), make([]byte, 1<<16)
	for {
		n, errA := io.ReadFull(fa, bufA)
		m, errB := io.ReadFull(fb, bufB)
		if n != m || !bytes.Equal(bufA[:n], bufB[:m]) {
			return false, nil
		}
		if errA != nil || errB != nil {
			if ended(errA) && ended(errB) {
				return true, nil
			}
			return false, fmt.Errorf("compare copies: %w", errors.Join(errA, errB))
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

var (
	readGeneration = statement{"read generation", `PRAGMA user_version`}
	putMeta        = statement{"put meta", `INSERT INTO store_meta (key, value) VALUES (?, ?)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`}
	readMeta = statement{"read meta", `SELECT value FROM store_meta WHERE key = ?`}
)

// migrate applies what is missing. It reads the generation again inside the
// transaction, so that of two racing openers only one applies each step.
func (s *Store) migrate(t *txn) error {
	var have int
	if err := t.row(readGeneration, nil, &have); err != nil {
		return err
	}
	fresh := have == 0
	for _, m := range s.opt.migrations {
		if m.number > have && m.rewrites && !fresh {
			if err := s.keepCopy(t, have); err != nil {
				return err
			}
			break
		}
	}
	for _, m := range s.opt.migrations {
		if m.number <= have {
			continue
		}
		// A script of several statements cannot be prepared; it runs as it is.
		if err := t.script(fmt.Sprintf("migration %d", m.number), m.sql); err != nil {
			return err
		}
		if m.rewrites {
			if _, err := t.exec(putMeta, "min_reader", strconv.Itoa(m.number)); err != nil {
				return err
			}
		}
		have = m.number
		if err := t.script("set generation", fmt.Sprintf("PRAGMA user_version=%d; PRAGMA application_id=%d", have, applicationID)); err != nil {
			return err
		}
	}
	if !fresh {
		return nil
	}
	for _, kv := range [][2]string{
		{"checkpoint_format", strconv.Itoa(CheckpointFormat)},
		{"min_reader", "1"},
		{"created_at", strconv.FormatInt(t.now, 10)},
		{storeID, rand.Text()},
	} {
		if _, err := t.exec(putMeta, kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}

// storeID names what tells this store from every other. A store that was made
// before there was one goes without: its keys have been handed out.
const storeID = "store_id"

// meta reads one fact about the file; absent is empty.
func meta(q *query, key string) (string, error) {
	var v string
	err := q.row(readMeta, []any{key}, &v)
	if noRows(err) {
		return "", nil
	}
	return v, err
}
