package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	_ "modernc.org/sqlite" // the driver; nothing of it leaves the package

	"github.com/initorigin/io-harness-go/internal/failpoint"
)

// Store is a handle on one file. It is safe for concurrent use: writes take
// turns, reads run beside them and see whatever has been committed.
type Store struct {
	opt  options // fixed at construction
	path string  // empty in memory
	host hostIdentity
	mode string // journal mode found

	frozen *[2]int64 // how the file was found, when it is read as one that nothing changes

	w *writer
	r *readers // nil in memory, where the writer's connection is all there is

	mu     sync.Mutex
	closed bool
	drives map[*lease]struct{} // leases that this handle holds
	busy   sync.WaitGroup      // calls in progress
	wake   chan struct{}       // closed and replaced when events were written
}

// Open opens the file at path, creating it with mode 0600 when it is absent;
// its directory must exist. A store without a file is made with Memory, and the
// path ":memory:" is refused, as the empty one is. An older file is migrated in place, a newer one is
// used as far as it allows, and a file of something else is refused with
// ErrForeignStore and left as it was. Two processes may open one file; the file
// must be on a disk of this machine.
func Open(ctx context.Context, path string, opts ...Option) (*Store, error) {
	opt := defaults()
	for _, o := range opts {
		o(&opt)
	}
	if opt.fail == nil {
		opt.fail = failpoint.From(ctx)
	}
	switch path {
	case "":
		return nil, invalid("open", "the path is empty: name a file, or use Memory for a store that need not last")
	case ":memory:":
		return nil, invalid("open", "%q is no file: use Memory for a store that need not last", path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, &Error{Kind: KindCantOpen, Op: "open", Path: path, Err: err}
	}
	if err := prepareFile(abs, &opt); err != nil {
		return nil, located(abs, err)
	}
	if fs := networkFileSystem(abs); fs != "" {
		opt.log.Warn("the store is on a network file system: use it from one machine only", "path", abs, "file_system", fs)
	}
	// Two first openers can meet in the switch to the write-ahead log, where the
	// busy timeout does not help, so the whole sequence is tried again.
	deadline := time.Now().Add(opt.busyTimeout)
	for {
		s, err := open(ctx, abs, opt)
		var se *Error
		if err == nil || !errors.As(err, &se) || !se.Retryable() || time.Now().After(deadline) {
			return s, located(abs, err)
		}
		if perr := pause(ctx, 5*time.Millisecond+rand.N(20*time.Millisecond)); perr != nil {
			return nil, fmt.Errorf("store: open: %w", perr)
		}
	}
}

// Memory makes a store that lives as long as its handle, for tests and runs
// that nobody will resume. Reads and writes share one connection.
func Memory(ctx context.Context, opts ...Option) (*Store, error) {
	opt := defaults()
	for _, o := range opts {
		o(&opt)
	}
	if opt.readOnly {
		return nil, &Error{Kind: KindInvalid, Op: "open", Err: errors.New("a store in memory cannot be opened for reading only")}
	}
	db, err := sql.Open("sqlite", dsn(":memory:", opt, "memory"))
	if err != nil {
		return nil, classify(ctx, "open", err)
	}
	db.SetMaxOpenConns(1)
	s := newStore("", opt)
	s.w = newWriter(db, opt.sync)
	s.mode = "memory"
	if err := s.transact(ctx, "open", opt.sync, s.migrate); err != nil {
		_ = db.Close()
		return nil, classify(ctx, "open", err)
	}
	return s, nil
}

func newStore(path string, opt options) *Store {
	return &Store{opt: opt, path: path, host: thisHost(), drives: map[*lease]struct{}{}, wake: make(chan struct{})}
}

func open(ctx context.Context, path string, opt options) (_ *Store, err error) {
	s := newStore(path, opt)
	defer func() {
		if err != nil {
			s.closeConnections()
		}
	}()
	found, err := examine(ctx, path, opt)
	if notSQLite(path, err) {
		err = foreignFile(path)
	}
	if err != nil {
		return nil, err
	}
	if !opt.readOnly {
		wdb, err := sql.Open("sqlite", dsn(path, opt, "rw"))
		if err != nil {
			return nil, classify(ctx, "open", err)
		}
		wdb.SetMaxOpenConns(1)
		wdb.SetMaxIdleConns(1)
		s.w = newWriter(wdb, opt.sync)
		if err := s.initialise(ctx, found); err != nil {
			return nil, classify(ctx, "open", err)
		}
	}
	if err := s.openReaders(ctx); err != nil {
		return nil, classify(ctx, "open", err)
	}
	if s.mode != "wal" && !opt.readOnly {
		opt.log.Warn("the file system has no write-ahead log: readers wait for the writer", "path", path, "journal_mode", s.mode)
	}
	return s, nil
}

// openReaders connects the readers. A file with a write-ahead log cannot be read
// in the ordinary way where its side files cannot be made, as in a directory
// that its reader may not write; when nobody has it open, it can be read as what
// nothing changes.
func (s *Store) openReaders(ctx context.Context) error {
	err := s.connectReaders(ctx, "ro")
	state, resting := atRest(s.path)
	if err == nil || !s.opt.readOnly || !resting || !cannotMakeSideFiles(err) {
		return err
	}
	s.frozen = &state
	return s.connectReaders(ctx, "immutable")
}

func (s *Store) connectReaders(ctx context.Context, mode string) error {
	db, err := sql.Open("sqlite", dsn(s.path, s.opt, mode))
	if err != nil {
		return err
	}
	if err := db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&s.mode); err != nil {
		return errors.Join(err, db.Close())
	}
	db.SetMaxOpenConns(s.opt.readers)
	db.SetMaxIdleConns(s.opt.readers)
	s.r = &readers{db: db, stmts: map[string]*sql.Stmt{}}
	return nil
}

// unfrozen is an error when a file that is read as one that nothing changes has
// been changed: what was just read may be half of the change.
func (s *Store) unfrozen() error {
	if s.frozen == nil {
		return nil
	}
	if now, resting := atRest(s.path); !resting || now != *s.frozen {
		return fmt.Errorf("%s was changed by somebody else, which a reader in its directory cannot follow: open it again", s.path)
	}
	return nil
}

// dsn spells the connection string; pragmas belong in it because the pool runs
// it for every connection that it makes.
func dsn(path string, opt options, mode string) string {
	v := url.Values{}
	v.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", opt.busyTimeout.Milliseconds()))
	v.Add("_pragma", "foreign_keys(1)")
	v.Add("_pragma", "trusted_schema(0)")
	switch mode {
	case "ro", "immutable":
		v.Set("mode", "ro")
		if mode == "immutable" {
			v.Set("immutable", "1")
		}
		v.Add("_pragma", "query_only(1)")
	case "plain":
		v.Set("mode", "rw")
	default:
		v.Set("_txlock", "immediate")
		if mode == "rw" {
			v.Set("mode", "rw")
			v.Add("_pragma", "journal_mode(WAL)")
			v.Add("_pragma", fmt.Sprintf("journal_size_limit(%d)", walSizeLimit))
		}
		v.Add("_pragma", "synchronous("+string(opt.sync)+")")
		if opt.fullFSync {
			v.Add("_pragma", "fullfsync(1)")
			v.Add("_pragma", "checkpoint_fullfsync(1)")
		}
		if opt.secureDelete {
			v.Add("_pragma", "secure_delete(1)")
		}
		if opt.maxPages > 0 {
			v.Add("_pragma", fmt.Sprintf("max_page_count(%d)", opt.maxPages))
		}
	}
	if path == ":memory:" {
		return ":memory:?" + v.Encode()
	}
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?" + v.Encode()
}

// prepareFile creates the file with a closed mode before SQLite touches it, and
// looks at the mode of one that was there.
func prepareFile(path string, opt *options) error {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && !opt.readOnly:
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%w: make its directory first", err)
		}
		if err != nil {
			return &Error{Kind: KindCantOpen, Op: "open", Err: err}
		}
		return f.Close()
	case err != nil:
		return &Error{Kind: KindCantOpen, Op: "open", Err: err}
	case fi.Size() == 1:
		return foreignFile(path) // SQLite takes one byte for none and would overwrite it
	case fi.IsDir():
		return &Error{Kind: KindCantOpen, Op: "open", Err: fmt.Errorf("%s is a directory", path)}
	}
	if err := notReadable(path); err != nil {
		return &Error{Kind: KindCantOpen, Op: "open", Err: fmt.Errorf("%s cannot be read (%w): open it as the user who owns it", path, err)}
	}
	if !opt.readOnly {
		if err := notWritable(path); err != nil {
			return &Error{Kind: KindReadOnly, Op: "open", Err: fmt.Errorf("%s cannot be written (%w): open it for reading only", path, err)}
		}
	}
	if readableByOthers(fi) {
		if opt.strictPerm {
			return &Error{Kind: KindCantOpen, Op: "open",
				Err: fmt.Errorf("%s has mode %04o: others can read it; close it with chmod 600", path, fi.Mode().Perm())}
		}
		opt.log.Warn("others can read the store", "path", path, "mode", fmt.Sprintf("%04o", fi.Mode().Perm()))
	}
	return nil
}

// sqliteMagic is how every file of SQLite begins.
const sqliteMagic = "SQLite format 3\x00"

// notSQLite reports that a file which SQLite calls damaged was never one of its
// own. Only such a file is opened: closing it drops the locks that this process
// has on it.
func notSQLite(path string, err error) bool {
	var se *Error
	if !errors.As(err, &se) || se.Kind != KindCorrupt {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, len(sqliteMagic))
	n, err := io.ReadFull(f, head)
	return (err == nil || ended(err)) && string(head[:n]) != sqliteMagic
}

func foreignFile(path string) error {
	return fmt.Errorf("%w: %s is no file of SQLite and is left as it is: give a new path", ErrForeignStore, path)
}

// JournalMode is the journal mode that the file really has: wal, or what the
// file system allowed.
func (s *Store) JournalMode() string { return s.mode }

// Path is the absolute path of the file; empty for a store in memory.
func (s *Store) Path() string { return s.path }

// stamp is the store's present time in milliseconds.
func (s *Store) stamp() int64 { return s.opt.clock().UnixMilli() }

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// enter counts a call in, so that Close can wait for it.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.busy.Add(1)
	return nil
}

func (s *Store) leave() { s.busy.Done() }

// Close waits for the calls in progress, ends the drives that this handle still
// holds without giving them an outcome, and closes the file. It is idempotent;
// any later call returns ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	held := make([]*lease, 0, len(s.drives))
	for l := range s.drives {
		held = append(held, l)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), s.opt.busyTimeout+commitGrace)
	defer cancel()
	var errs []error
	for _, l := range held {
		errs = append(errs, l.release(ctx))
	}
	s.mu.Lock()
	already := s.closed
	s.closed = true
	s.mu.Unlock()
	if already {
		return nil
	}
	s.busy.Wait()
	return errors.Join(append(errs, s.closeConnections())...)
}

func (s *Store) closeConnections() error {
	var errs []error
	if s.r != nil {
		errs = append(errs, s.r.db.Close())
	}
	if s.w != nil {
		if s.w.conn != nil && s.path != "" {
			// Best effort: a reader of another process may pin the log.
			_, _ = s.w.conn.ExecContext(context.Background(), `PRAGMA optimize`)
			_, _ = s.w.cutLog(context.Background())
		}
		s.w.drop()
		errs = append(errs, s.w.db.Close())
	}
	return errors.Join(errs...)
}

// cleanText makes text from a tool or a model fit for a column: SQLite would
// keep invalid UTF-8 as it is, and no other reader could.
func cleanText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// identifier refuses a name that is not UTF-8: it could never be found again
// under the same name.
func identifier(op, what, name string) error {
	if name == "" {
		return &Error{Kind: KindInvalid, Op: op, Err: fmt.Errorf("the %s is empty", what)}
	}
	if !utf8.ValidString(name) {
		return &Error{Kind: KindInvalid, Op: op, Err: fmt.Errorf("the %s %q is not valid UTF-8", what, name)}
	}
	return nil
}
