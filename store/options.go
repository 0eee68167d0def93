package store

import (
	"log/slog"
	"runtime"
	"time"
)

// Limits of the store that a caller may want to name.
const (
	// BusyTimeout bounds how long one statement waits for another writer.
	BusyTimeout = 5 * time.Second
	// DefaultLeaseTTL is how long a run stays held by a driver that shows no
	// sign of life: twice the longest command that a run may start by default.
	DefaultLeaseTTL = 1800 * time.Second
	// CheckpointFormat is what this software can resume. It grows only when an
	// older program would misread a checkpoint.
	CheckpointFormat = 1

	// commitGrace is added to the busy timeout for the commit of a step or of an
	// outcome, which must not be given up because the run was cancelled.
	commitGrace = 10 * time.Second
	// walSizeLimit is the size to which SQLite cuts an outgrown write-ahead log.
	walSizeLimit = 64 << 20
)

// Synchronous says when a commit is on the disk.
type Synchronous string

const (
	// SyncFull syncs every commit of a step, of an effect's restore point and of
	// an outcome: they survive a power cut.
	SyncFull Synchronous = "full"
	// SyncNormal syncs at checkpoints only: a dead process loses nothing, a
	// crash of the operating system may lose the last steps, and never tears one.
	SyncNormal Synchronous = "normal"
)

type options struct {
	busyTimeout  time.Duration
	sync         Synchronous
	fullFSync    bool
	readOnly     bool
	clock        func() time.Time
	log          *slog.Logger
	readers      int
	strictPerm   bool
	secureDelete bool
	promptTrace  bool
	fail         func(point string) error // tests only: called before each statement and around each commit
	migrations   []migration
	maxPages     int // tests only: a disk of that many pages
}

func defaults() options {
	return options{
		busyTimeout:  BusyTimeout,
		sync:         SyncFull,
		clock:        time.Now,
		log:          slog.New(slog.DiscardHandler),
		readers:      max(4, runtime.GOMAXPROCS(0)),
		secureDelete: true,
		promptTrace:  true,
		migrations:   migrations(),
	}
}

// An Option changes how Open and Memory work.
type Option func(*options)

// WithBusyTimeout bounds how long one statement waits for another writer of the
// file. Zero or less keeps BusyTimeout.
func WithBusyTimeout(d time.Duration) Option {
	return func(o *options) {
		if d > 0 {
			o.busyTimeout = d
		}
	}
}

// WithSynchronous says when a commit is on the disk. The default is SyncFull.
func WithSynchronous(s Synchronous) Option { return func(o *options) { o.sync = s } }

// WithFullFSync makes a sync flush the drive's own cache on macOS, where an
// ordinary sync does not. It costs several milliseconds for each commit.
func WithFullFSync() Option { return func(o *options) { o.fullFSync = true } }

// WithReadOnly opens an existing file without creating or migrating it; every
// method that writes fails with KindReadOnly. A file that nobody has open can
// also be read from a directory that the caller cannot write; such a handle does
// not follow later changes, and every read after one fails with KindReadOnly.
func WithReadOnly() Option { return func(o *options) { o.readOnly = true } }

// WithClock replaces the clock behind every stamp and every lease. The default
// is time.Now. It is called from several goroutines.
func WithClock(now func() time.Time) Option {
	return func(o *options) {
		if now != nil {
			o.clock = now
		}
	}
}

// WithLogger receives what the store could not do and went on without, such as
// dropped evidence. Nil is silent.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) {
		if l != nil {
			o.log = l
		}
	}
}

// WithReaders sets how many reads run beside the writer. The default is the
// larger of four and the number of processors Go uses.
func WithReaders(n int) Option {
	return func(o *options) {
		if n > 0 {
			o.readers = n
		}
	}
}

// WithStrictPermissions refuses a file that others than its owner can read,
// instead of logging a warning. A file that Open creates has mode 0600 anyway.
func WithStrictPermissions() Option { return func(o *options) { o.strictPerm = true } }

// WithSecureDelete says whether deleted and archived words are overwritten in
// the file. The default is true; false makes a deletion two to three times
// cheaper and leaves the words readable in free pages and in the log until Compact.
func WithSecureDelete(on bool) Option { return func(o *options) { o.secureDelete = on } }

// WithoutPromptTrace leaves out the prompt of each step. Of most prompts only what
// differs from the step before is stored, and a whole one every 64 steps; they are
// still the largest column of a long run. Resume does not need them; an audit may.
func WithoutPromptTrace() Option { return func(o *options) { o.promptTrace = false } }
