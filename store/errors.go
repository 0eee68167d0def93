package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"

	"github.com/initorigin/io-harness-go/trace"
)

// Conditions that callers test with errors.Is.
var (
	ErrConflict     = errors.New("store: conflict")                  // see ConflictError
	ErrResume       = errors.New("store: cannot resume")             // see ResumeError
	ErrNotFound     = errors.New("store: not found")                 // a value asked for by id is not there
	ErrClosed       = errors.New("store: closed")                    // the handle was closed
	ErrNewerStore   = errors.New("store: written by newer software") // the file demands software newer than this
	ErrForeignStore = errors.New("store: not a harness store")       // the file belongs to something else
	ErrArchived     = errors.New("store: archived")                  // the words asked for were emptied by an archive
)

// ErrorKind is the class of a failure of the database.
type ErrorKind string

// The kinds. Busy is the only one that heals by itself.
const (
	KindBusy       ErrorKind = "busy"       // another connection held the file beyond the busy timeout
	KindConstraint ErrorKind = "constraint" // the rows would contradict each other; a bug of the caller or of this package
	KindCorrupt    ErrorKind = "corrupt"    // the file is damaged; one that never was a database is ErrForeignStore
	KindFull       ErrorKind = "full"       // no space left
	KindReadOnly   ErrorKind = "readonly"   // the handle or the file cannot be written
	KindIO         ErrorKind = "io"         // the operating system failed a read or a write
	KindCantOpen   ErrorKind = "cantopen"   // the file cannot be opened, for example because its directory is missing
	KindInvalid    ErrorKind = "invalid"    // what was handed in can never be stored, such as a path that is not UTF-8
	// KindWALNotTruncated says that the call did what was asked, but that a reader
	// keeps removed words, or freed space, in the write-ahead log.
	KindWALNotTruncated ErrorKind = "wal_not_truncated"
	KindOther           ErrorKind = "other"
)

// Error is a failure of the database or of what was handed to it.
type Error struct {
	Kind ErrorKind
	Op   string // what was being done
	Path string // the store's file; empty in memory and for KindInvalid
	Err  error  // the cause, and what to do where that is certain

	raw bool // the words are the driver's, which name neither the file nor a remedy
}

func (e *Error) Error() string {
	cause := fmt.Sprint(e.Err)
	if e.Path != "" && !strings.Contains(cause, e.Path) {
		cause = e.Path + ": " + cause
	}
	return fmt.Sprintf("store: %s: %s: %s", e.Op, e.Kind, cause)
}

func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same call may succeed later.
func (e *Error) Retryable() bool { return e.Kind == KindBusy }

// ConflictError says that somebody else was first: another driver has the run,
// or the head of the session moved. Nothing of what was asked has been written,
// except that a turn which lost its session's head stays finished.
type ConflictError struct {
	RunID     trace.RunID     // the run that is driven; zero for a session's head
	SessionID trace.SessionID // the session whose head moved; zero for a run
	Owner     string          // who drives the run: host, process id and a drive's token
	ExpiresAt time.Time       // by the store's clock: when the run may be taken, if the lease is not renewed
	Expected  trace.TurnID    // where the caller took the session's head to be; zero for the beginning, and for a run
	Head      trace.TurnID    // where the session's head is now
}

func (e *ConflictError) Error() string {
	if e.SessionID != 0 {
		return fmt.Sprintf("session %d: the head is at %s and not at %s any more: refresh the handle, or reopen the session, and take the turn again",
			e.SessionID, place(e.Head), place(e.Expected))
	}
	if e.Owner == "" {
		return fmt.Sprintf("run %d: this drive no longer holds the run: resume it to drive it again", e.RunID)
	}
	return fmt.Sprintf("run %d is driven by %s, which holds it until %s: let it end, or stop it, and try again",
		e.RunID, e.Owner, e.ExpiresAt.UTC().Format(time.RFC3339))
}

func place(head trace.TurnID) string {
	if head == 0 {
		return "the beginning"
	}
	return fmt.Sprintf("turn %d", head)
}

// Is makes every ConflictError match ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// ResumeReason says why a run cannot be resumed as asked.
type ResumeReason string

// The reasons.
const (
	NewerFormat           ResumeReason = "newer_format"           // the checkpoint is of a newer format than this software's
	NoSuchRun             ResumeReason = "no_such_run"            // the store has no such run
	UnfinishedReply       ResumeReason = "unfinished_reply"       // the turn died while it answered: take it again
	NoRecordedPolicy      ResumeReason = "no_recorded_policy"     // the run never recorded a policy
	UnreadablePolicy      ResumeReason = "unreadable_policy"      // the recorded policy cannot be read
	UnreadableContract    ResumeReason = "unreadable_contract"    // the recorded contract cannot be read
	UnreadableObservation ResumeReason = "unreadable_observation" // a ledger row cannot be read
	UnreadableTurn        ResumeReason = "unreadable_turn"        // a stored turn cannot be read
	NoSuchRequest         ResumeReason = "no_such_request"
	RequestOfOtherRun     ResumeReason = "request_of_other_run"
	NoSuchQuestion        ResumeReason = "no_such_question"
	QuestionOfOtherRun    ResumeReason = "question_of_other_run"
	AlreadyAnswered       ResumeReason = "already_answered"
	AnswersDoNotFit       ResumeReason = "answers_do_not_fit" // as many answers as the ask has questions, or one for all
	NoSuchPlan            ResumeReason = "no_such_plan"
	PlanOfOtherRun        ResumeReason = "plan_of_other_run"
	AlreadyDecided        ResumeReason = "already_decided"
	NoSuchAttempt         ResumeReason = "no_such_attempt"
	AttemptOfOtherRun     ResumeReason = "attempt_of_other_run"
	AttemptClosed         ResumeReason = "attempt_closed"
	NoGateAttempt         ResumeReason = "no_gate_attempt"    // no gate was evaluated yet
	GateNotRetryable      ResumeReason = "gate_not_retryable" // the last evaluation judged; only one that errored is retried
)

// ResumeError says why a run cannot be continued, or why a person's decision
// cannot be applied. Nothing has been written.
type ResumeError struct {
	RunID  trace.RunID
	Reason ResumeReason
	Detail string // what was found and what to do
}

func (e *ResumeError) Error() string {
	if e.RunID == 0 { // what was to be answered belongs to no run
		return fmt.Sprintf("store: %s: %s", e.Reason, e.Detail)
	}
	if e.Detail == "" {
		return fmt.Sprintf("run %d cannot be resumed: %s", e.RunID, e.Reason)
	}
	return fmt.Sprintf("run %d cannot be resumed: %s: %s", e.RunID, e.Reason, e.Detail)
}

// Is makes every ResumeError match ErrResume.
func (e *ResumeError) Is(target error) bool { return target == ErrResume }

// notFound names what is missing.
func notFound(what string, id int64) error {
	return fmt.Errorf("store: %s %d: %w", what, id, ErrNotFound)
}

// classify is the one place where a driver's error becomes one of ours. Errors
// that this package made itself pass through.
func classify(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	var own *Error
	var conflict *ConflictError
	var resume *ResumeError
	switch {
	case errors.As(err, &own), errors.As(err, &conflict), errors.As(err, &resume):
		return err
	case errors.Is(err, ErrClosed), errors.Is(err, ErrNotFound), errors.Is(err, ErrNewerStore),
		errors.Is(err, ErrForeignStore), errors.Is(err, ErrArchived):
		return err
	}
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("store: %s: %w", op, cause)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("store: %s: %w", op, err)
	}
	return &Error{Kind: kindOf(err), Op: op, Err: scrubbed(err), raw: true}
}

// failure is classify for an error of this store, whose file it names.
func (s *Store) failure(ctx context.Context, op string, err error) error {
	return located(s.path, classify(ctx, op, err))
}

// located names the file in an error of its store, and what to do about it.
func located(path string, err error) error {
	own, ok := err.(*Error)
	if !ok || path == "" || own.Path != "" || own.Kind == KindInvalid {
		return err
	}
	at := *own
	at.Path = path
	if do := remedy(path, own.Kind); own.raw && do != "" {
		at.Err = fmt.Errorf("%w: %s", own.Err, do)
	}
	return &at
}

// remedy is what to do about a failure that the driver reported; empty where it
// is not certain. No file is opened for it: closing one would drop the locks that
// this process has on it.
func remedy(path string, kind ErrorKind) string {
	switch kind {
	case KindFull:
		return "make room on its disk and do the same again"
	case KindReadOnly, KindCantOpen:
	default:
		return ""
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := notWritable(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Sprintf("%s cannot be read and written (%v): open the store as the user who owns its files", path+suffix, err)
		}
	}
	if err := notWritable(filepath.Dir(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Sprintf("its directory cannot be written (%v): open the store as a user who may, or with WithReadOnly while nobody writes it", err)
	}
	return ""
}

// scrubbed keeps a driver's words without its type, so that no caller can come
// to depend on the driver.
func scrubbed(err error) error {
	var se *sqlite.Error
	if errors.As(err, &se) {
		return errors.New(err.Error())
	}
	return err
}

func kindOf(err error) ErrorKind {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return KindOther
	}
	switch se.Code() & 0xff { // the low byte of an extended code is the primary one
	case 5, 6:
		return KindBusy
	case 8:
		return KindReadOnly
	case 10:
		return KindIO
	case 11, 26:
		return KindCorrupt
	case 13:
		return KindFull
	case 14:
		return KindCantOpen
	case 19:
		return KindConstraint
	}
	return KindOther
}

// noRows reports whether a query found nothing, which is never a failure by itself.
func noRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// invalid refuses what was handed in.
func invalid(op, format string, args ...any) error {
	return &Error{Kind: KindInvalid, Op: op, Err: fmt.Errorf(format, args...)}
}
