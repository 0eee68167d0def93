package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/internal/loop"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// ErrTurnInProgress says that the handle is busy: a session handle runs one turn
// at a time.
var ErrTurnInProgress = errors.New("session: a turn is in progress on this handle")

// Session is a handle on a durable conversation about one directory. It runs one
// turn at a time: a second call while one runs fails with ErrTurnInProgress.
// Several handles, also in several processes, may stand on one conversation; the
// turn that ends first becomes its head, and the others get a
// *store.ConflictError and lose nothing.
type Session struct {
	host     loop.Host
	defaults task.Contract
	id       trace.SessionID
	root     string

	busy sync.Mutex // held while a turn runs

	mu     sync.Mutex
	head   trace.TurnID
	staged []provider.Media
}

// Kind tells a turn that was answered from one that did work.
type Kind string

// The kinds of turn.
const (
	Reply Kind = "reply" // answered in one completion: no step, no tool
	Run   Kind = "run"
)

// Turn is one exchange of a session.
type Turn struct {
	ID      trace.TurnID
	RunID   trace.RunID
	Parent  trace.TurnID // zero for a first turn
	Kind    Kind
	Prompt  string
	Outcome trace.Outcome // its Kind is empty while the turn runs, or when its process died
	// Reply is the agent's last word, when that was words and no tool call. A
	// turn that met a ceiling, paused or was stopped has none.
	Reply string
	// Output is the validated answer, when the contract demanded a shape.
	Output    json.RawMessage
	CreatedAt time.Time

	// Remembered are the rules that an approver asked to keep during the turn.
	// They hold for no other turn, unless they are added to its policy.
	Remembered []policy.Rule
	// Undelivered is what was said to the turn too late to be read.
	Undelivered Steering
	// Unmetered counts the completions that were answered without a word on what they
	// used: they draw nothing on a token budget and cost nothing in the accounts.
	Unmetered int64
	// Dropped counts evidence of the turn that could not be written, by kind. It is
	// nil when its trace has no hole.
	Dropped map[string]int64
}

// TurnError is the failure of a turn whose run has a row: the run can be looked
// at, and resumed with ResumeTurn unless Outcome says how it ended.
type TurnError struct {
	Turn    trace.TurnID // zero when it could not be read back, as when it was removed meanwhile
	Run     trace.RunID
	Outcome trace.OutcomeKind // empty: the run is resumable
	// Undelivered is what was said to the turn and not read.
	Undelivered Steering
	Err         error
}

func (e *TurnError) Error() string {
	return fmt.Sprintf("turn %d (run %d): %v", e.Turn, e.Run, e.Err)
}

// Unwrap returns the cause.
func (e *TurnError) Unwrap() error { return e.Err }

// Open starts a new conversation about the directory root, which is kept as an
// absolute path. A root that is no directory is a *task.InvalidError; each turn looks
// again.
func Open(ctx context.Context, h loop.Host, defaults task.Contract, root string) (*Session, error) {
	if root == "" {
		return nil, &task.InvalidError{Field: "Root", Reason: "is empty: name the directory to work in"}
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, &task.InvalidError{Field: "Root", Reason: err.Error(), Err: err}
	}
	switch fi, err := os.Stat(abs); {
	case err != nil:
		return nil, &task.InvalidError{Field: "Root", Reason: err.Error(), Err: err}
	case !fi.IsDir():
		return nil, &task.InvalidError{Field: "Root", Reason: abs + " is no directory"}
	}
	id, err := h.Store.CreateSession(ctx, abs)
	if err != nil {
		return nil, err
	}
	return &Session{host: h, defaults: defaults, id: id, root: abs}, nil
}

// Reopen takes up the conversation id where it stands. An id that the store does
// not know is an error that matches store.ErrNotFound.
func Reopen(ctx context.Context, h loop.Host, defaults task.Contract, id trace.SessionID) (*Session, error) {
	root, err := h.Store.SessionRoot(ctx, id)
	if err != nil {
		return nil, err
	}
	s := &Session{host: h, defaults: defaults, id: id, root: root}
	return s, s.Refresh(ctx)
}

// ID names the conversation in its store.
func (s *Session) ID() trace.SessionID { return s.id }

// Root is the absolute path of the directory that the conversation is about.
func (s *Session) Root() string { return s.root }

// Head is the turn that the next one follows; zero before the first.
func (s *Session) Head() trace.TurnID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head
}

func (s *Session) setHead(id trace.TurnID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head = id
}

// Refresh moves the handle to where the conversation stands in the store, after
// another handle went on with it.
func (s *Session) Refresh(ctx context.Context) error {
	head, err := s.host.Store.SessionHead(ctx, s.id)
	if err != nil {
		return err
	}
	s.setHead(head)
	return nil
}

// Turn sends prompt and drives the run that it leads to. A prompt that needs no
// tool is answered in one completion and opens no work.
//
// A turn that pauses for a person, meets a ceiling or is stopped returns
// normally, and its Outcome says so. An error is a *TurnError once the run has a
// row. When another handle moved the conversation on, the error is a
// *store.ConflictError: before anything was billed if the handle was behind,
// else beside the finished turn, whose answer is not lost.
func (s *Session) Turn(ctx context.Context, prompt string, opts ...Option) (*Turn, error) {
	if !s.busy.TryLock() {
		return nil, ErrTurnInProgress
	}
	defer s.busy.Unlock()
	o := s.options(opts)
	o.images = append(s.takeImages(), o.images...)
	if prompt != "" || !o.stated {
		o.contract.Goal = prompt
	}
	o.contract.Root = s.root
	o.contract.Images = append(slices.Clone(o.contract.Images), o.images...)
	if o.answers != nil {
		o.contract.Conversational = *o.answers
	}
	if o.mask != nil {
		o.contract.ToolMask = o.mask
	}
	if err := o.bind(); err != nil {
		return nil, err
	}
	watch := o.watch()
	parent := s.Head()
	seed, err := s.seed(ctx, parent, o.contract)
	if err != nil {
		return s.conclude(ctx, o, nil, err)
	}
	res, err := loop.Run(ctx, o.host, o.contract, &loop.Turn{Session: s.id, Parent: parent, Seed: seed})
	t, err := s.conclude(ctx, o, res, err)
	if err == nil && t != nil && t.Kind == Reply && t.Outcome.Kind == trace.Finished {
		watch.Emit(trace.Event{RunID: t.RunID, Fact: trace.Answered{TurnID: t.ID}})
	}
	return t, err
}

// ResumeTurn goes on with a turn that paused, was interrupted, or whose process
// died, and closes it again with its new outcome. Decide, Answer, Verdict or
// Recover says what it waits for. A turn that ended is reported as it ended.
func (s *Session) ResumeTurn(ctx context.Context, id trace.TurnID, opts ...Option) (*Turn, error) {
	if !s.busy.TryLock() {
		return nil, ErrTurnInProgress
	}
	defer s.busy.Unlock()
	row, err := s.host.Store.SessionTurn(ctx, id)
	if err != nil {
		return nil, err
	}
	if row.SessionID != s.id {
		return nil, &task.InvalidError{Field: "turn", Reason: fmt.Sprintf("%d belongs to session %d, not to %d", id, row.SessionID, s.id)}
	}
	o := s.options(opts)
	if err := o.fitsResume(); err != nil {
		return nil, err
	}
	o.resume.Defaults, o.resume.ToolMask = s.defaults, o.mask
	if err := o.bind(); err != nil {
		return nil, err
	}
	res, err := loop.Resume(ctx, o.host, row.RunID, o.resume)
	return s.conclude(ctx, o, res, err)
}

// StageImages keeps images for the next turn, beside those that come with it. The
// turn takes them whatever becomes of it.
func (s *Session) StageImages(images ...provider.Media) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.staged = append(s.staged, images...)
}

func (s *Session) takeImages() []provider.Media {
	s.mu.Lock()
	defer s.mu.Unlock()
	staged := s.staged
	s.staged = nil
	return staged
}

func (s *Session) options(opts []Option) options {
	o := options{host: s.host, contract: s.defaults.Clone()}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	return o
}

// fitsResume refuses what only a new turn can be given: dropped in silence it
// would look as if it held.
func (o *options) fitsResume() error {
	switch {
	case o.answers != nil:
		return &task.InvalidError{Field: "WithConversational", Reason: "is for a new turn: one that is resumed has shown already whether it is work"}
	case len(o.images) > 0:
		return &task.InvalidError{Field: "WithImages", Reason: "is for a new turn: one that is resumed goes on with its own images, or with those of a contract stated by WithContract"}
	}
	return nil
}

// bind gives the turn its end of the operator's line.
func (o *options) bind() error {
	if o.steer == nil {
		return nil
	}
	o.host.Inbox = o.steer
	return o.steer.bind()
}

// watch is one watch for the whole turn: an observer that panicked during the run is
// not told what follows the run either.
func (o *options) watch() *trace.Watch {
	w := trace.NewWatch(o.host.Observer, o.host.Log)
	if w.Watched() {
		o.host.Observer = trace.ObserverFunc(func(ev trace.Event) trace.Flow {
			if w.Emit(ev); w.Cancelled() {
				return trace.Cancel
			}
			return trace.Continue
		})
	}
	return w
}

// conclude makes a turn of what the loop brought back, and closes the operator's
// line.
func (s *Session) conclude(ctx context.Context, o options, res *trace.Result, err error) (*Turn, error) {
	ran := res != nil && res.RunID != 0
	var left Steering
	if o.steer != nil {
		left = o.steer.release(ran)
	}
	if !ran {
		return nil, err
	}
	left.Messages = append(res.Undelivered, left.Messages...)
	// The turn is over, whatever became of ctx: what it left must still be read.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), concludeTime)
	defer cancel()
	// A turn that cannot be read back, as when somebody removed it, still hands back
	// what was said to it.
	unread := func(turn trace.TurnID, err error) error {
		return &TurnError{Turn: turn, Run: res.RunID, Outcome: res.Outcome.Kind, Undelivered: left, Err: err}
	}
	row, rerr := s.host.Store.TurnForRun(ctx, res.RunID)
	switch {
	case rerr != nil:
		return nil, unread(0, errors.Join(err, rerr))
	case row == nil && err == nil:
		return nil, unread(0, fmt.Errorf("the turn of run %d is gone: %w", res.RunID, store.ErrNotFound))
	case row == nil:
		return nil, unread(0, err)
	}
	info, rerr := s.host.Store.Run(ctx, res.RunID)
	if rerr != nil {
		return nil, unread(row.ID, errors.Join(err, rerr))
	}
	t := turnOf(*row)
	t.Kind, t.Outcome, t.Output = Kind(info.Kind), res.Outcome, res.Output
	t.Remembered, t.Undelivered = res.Remembered, left
	t.Unmetered, t.Dropped = res.Unmetered, res.Dropped
	if res.Reply != "" {
		t.Reply = res.Reply
	}
	head, rerr := s.host.Store.SessionHead(ctx, s.id)
	if rerr != nil {
		return nil, unread(t.ID, errors.Join(err, rerr))
	}
	if head == t.ID {
		s.setHead(head)
	}
	var conflict *store.ConflictError
	switch {
	case err == nil:
	case errors.As(err, &conflict) && conflict.SessionID != 0:
		return t, err
	default:
		return nil, unread(t.ID, err)
	}
	return t, nil
}

// concludeTime bounds reading back a turn whose context has ended.
const concludeTime = 5 * time.Second

// History is the path from the first turn to the head, oldest first.
func (s *Session) History(ctx context.Context) ([]Turn, error) {
	rows, err := s.host.Store.History(ctx, s.id, s.Head())
	if err != nil {
		return nil, err
	}
	turns := make([]Turn, len(rows))
	for i, r := range rows {
		turns[i] = *turnOf(r)
		info, err := s.host.Store.Run(ctx, r.RunID)
		if err != nil {
			return nil, err
		}
		turns[i].Kind = Kind(info.Kind)
		if info.Outcome.Kind != "" {
			turns[i].Outcome = info.Outcome
		}
	}
	return turns, nil
}

// Branch makes an earlier turn the one that the next follows. Nothing is deleted:
// the turns left behind can be branched from again. Zero is the beginning, before
// the first turn.
func (s *Session) Branch(ctx context.Context, from trace.TurnID) error {
	if !s.busy.TryLock() {
		return ErrTurnInProgress
	}
	defer s.busy.Unlock()
	if err := s.host.Store.SetSessionHeadIf(ctx, s.id, s.Head(), from); err != nil {
		return err
	}
	s.setHead(from)
	return nil
}

func turnOf(r store.SessionTurn) *Turn {
	return &Turn{
		ID: r.ID, RunID: r.RunID, Parent: r.ParentID, Prompt: r.Prompt, Reply: r.Reply,
		Outcome: trace.Outcome{Kind: r.Outcome}, CreatedAt: r.CreatedAt,
	}
}
