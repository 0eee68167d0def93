package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/internal/loop"
	"github.com/initorigin/io-harness-go/internal/prompt"
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

	mu   sync.Mutex
	head trace.TurnID
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
}

// TurnError is the failure of a turn whose run has a row: the run can be looked
// at, and resumed with ResumeTurn unless Outcome says how it ended.
type TurnError struct {
	Turn    trace.TurnID
	Run     trace.RunID
	Outcome trace.OutcomeKind // empty: the run is resumable
	Err     error
}

func (e *TurnError) Error() string {
	return fmt.Sprintf("turn %d (run %d): %v", e.Turn, e.Run, e.Err)
}

// Unwrap returns the cause.
func (e *TurnError) Unwrap() error { return e.Err }

// Open starts a new conversation about the directory root, which is kept as an
// absolute path. The directory is looked at when a turn runs, not now.
func Open(ctx context.Context, h loop.Host, defaults task.Contract, root string) (*Session, error) {
	if root == "" {
		return nil, &task.InvalidError{Field: "Root", Reason: "is empty: name the directory to work in"}
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, &task.InvalidError{Field: "Root", Reason: err.Error(), Err: err}
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
	if prompt != "" || !o.stated {
		o.contract.Goal = prompt
	}
	o.contract.Root = s.root
	parent := s.Head()
	seed, err := s.seed(ctx, parent, o.contract)
	if err != nil {
		return nil, err
	}
	res, err := loop.Run(ctx, o.host, o.contract, &loop.Turn{Session: s.id, Parent: parent, Seed: seed})
	return s.conclude(ctx, o.host, res, err)
}

// ResumeTurn goes on with a turn that paused, was interrupted, or whose process
// died, and closes it again with its new outcome. Decide answers the request
// that it waits for. A turn that ended is reported as it ended.
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
	o.resume.Defaults = s.defaults
	res, err := loop.Resume(ctx, o.host, row.RunID, o.resume)
	return s.conclude(ctx, o.host, res, err)
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

// conclude makes a turn of what the loop brought back.
func (s *Session) conclude(ctx context.Context, h loop.Host, res *trace.Result, err error) (*Turn, error) {
	if res == nil || res.RunID == 0 {
		return nil, err
	}
	// The turn is over, whatever became of ctx: what it left must still be read.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), concludeTime)
	defer cancel()
	row, rerr := s.host.Store.TurnForRun(ctx, res.RunID)
	if rerr != nil || row == nil {
		return nil, errors.Join(err, rerr)
	}
	info, rerr := s.host.Store.Run(ctx, res.RunID)
	if rerr != nil {
		return nil, errors.Join(err, rerr)
	}
	t := turnOf(*row)
	t.Kind, t.Outcome, t.Output = Kind(info.Kind), res.Outcome, res.Output
	if res.Reply != "" {
		t.Reply = res.Reply
	}
	head, rerr := s.host.Store.SessionHead(ctx, s.id)
	if rerr != nil {
		return nil, errors.Join(err, rerr)
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
		return nil, &TurnError{Turn: t.ID, Run: t.RunID, Outcome: res.Outcome.Kind, Err: err}
	}
	if t.Kind == Reply && t.Outcome.Kind == trace.Finished {
		trace.NewWatch(h.Observer, h.Log).Emit(trace.Event{RunID: t.RunID, Fact: trace.Answered{TurnID: t.ID}})
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
// the turns left behind can be branched from again.
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

// seed is the conversation so far, as the model is told it: what was said and
// what was answered, each bounded, and nothing of the work between.
func (s *Session) seed(ctx context.Context, head trace.TurnID, c task.Contract) ([]trace.Observation, error) {
	if head == 0 {
		return nil, nil
	}
	rows, err := s.host.Store.History(ctx, s.id, head)
	if err != nil {
		return nil, err
	}
	budget := prompt.Budget{MaxTokens: c.Context.MaxTokens, Share: c.Context.Share}
	limit := prompt.EntryCap(budget.Effective(c.Budget.Tokens, c.Budget.Tokens > 0))
	var seed []trace.Observation
	for _, r := range rows {
		seed = append(seed, prompt.Prompt(r.Prompt, limit))
		if r.Reply != "" {
			seed = append(seed, prompt.Reply(r.Reply, limit))
		}
	}
	return seed, nil
}
