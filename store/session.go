package store

import (
	"context"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// SessionTurn is one exchange of a conversation.
type SessionTurn struct {
	ID         trace.TurnID
	SessionID  trace.SessionID
	ParentID   trace.TurnID // zero for a first turn
	RunID      trace.RunID
	Prompt     string
	Reply      string            // empty while it runs, and when there is no closing message
	Outcome    trace.OutcomeKind // empty while it runs or when its process died
	CreatedAt  time.Time
	FinishedAt time.Time // zero while it runs
}

const turnColumns = `id, session_id, coalesce(parent_turn_id, 0), run_id, prompt, coalesce(reply, ''), coalesce(outcome, ''), created_at, finished_at`

var (
	insertSession = statement{"insert session", `INSERT INTO sessions (root, created_at) VALUES (?, ?) RETURNING id`}
	readSession   = statement{"read session", `SELECT root, coalesce(head_turn_id, 0), created_at FROM sessions WHERE id = ?`}
	readTurn      = statement{"read turn", `SELECT ` + turnColumns + ` FROM session_turns WHERE id = ?`}
	readTurnOfRun = statement{"read turn of run", `SELECT ` + turnColumns + ` FROM session_turns WHERE run_id = ?`}
	sessionTurns  = statement{"session turns", `SELECT ` + turnColumns + ` FROM session_turns WHERE session_id = ? ORDER BY id`}
	turnsUntil    = statement{"turns until", `SELECT ` + turnColumns + ` FROM session_turns WHERE session_id = ? AND id <= ? ORDER BY id DESC`}
)

// CreateSession starts a conversation about root, which should be an absolute
// path: nothing else finds it again from another directory.
func (s *Store) CreateSession(ctx context.Context, root string) (trace.SessionID, error) {
	if err := identifier("create session", "root", root); err != nil {
		return 0, err
	}
	var id int64
	err := s.write(ctx, "create session", func(t *txn) (err error) {
		id, err = t.insert(insertSession, root, t.now)
		return err
	})
	return trace.SessionID(id), err
}

func (s *Store) session(ctx context.Context, id trace.SessionID) (root string, head trace.TurnID, created time.Time, err error) {
	err = s.read(ctx, "read session", func(q *query) error {
		var at int64
		err := q.row(readSession, []any{id}, &root, &head, &at)
		if noRows(err) {
			return notFound("session", int64(id))
		}
		created = timeOf(at)
		return err
	})
	return root, head, created, err
}

// SessionRoot is the root that the session was created with; ErrNotFound when
// there is no such session.
func (s *Store) SessionRoot(ctx context.Context, id trace.SessionID) (string, error) {
	root, _, _, err := s.session(ctx, id)
	return root, err
}

// SessionHead is the turn that the next one follows, zero before the first;
// ErrNotFound when there is no such session.
func (s *Store) SessionHead(ctx context.Context, id trace.SessionID) (trace.TurnID, error) {
	_, head, _, err := s.session(ctx, id)
	return head, err
}

// SessionCreatedAt is when the session was created.
func (s *Store) SessionCreatedAt(ctx context.Context, id trace.SessionID) (time.Time, error) {
	_, _, at, err := s.session(ctx, id)
	return at, err
}

// SetSessionHeadIf moves the head when it still is where the caller expects it,
// zero being the head of a session without turns. Otherwise it returns a
// ConflictError that names both heads. The new head must be a turn of the
// session, or zero.
func (s *Store) SetSessionHeadIf(ctx context.Context, id trace.SessionID, expected, head trace.TurnID) error {
	return s.write(ctx, "move head", func(t *txn) error {
		if head != 0 {
			ts, err := list(&t.query, readTurn, []any{head}, scanSessionTurn)
			if err != nil {
				return err
			}
			if len(ts) == 0 || ts[0].SessionID != id {
				return notFound("turn of this session", int64(head))
			}
		}
		n, err := t.exec(moveHead, nullID(head), id, nullID(expected))
		if err != nil || n == 1 {
			return err
		}
		var now trace.TurnID
		if err := t.row(readHead, []any{id}, &now); err != nil {
			if noRows(err) {
				return notFound("session", int64(id))
			}
			return err
		}
		return &ConflictError{SessionID: id, Expected: expected, Head: now}
	})
}

// SessionTurn reads one turn; ErrNotFound when there is none.
func (s *Store) SessionTurn(ctx context.Context, id trace.TurnID) (SessionTurn, error) {
	ts, err := s.turns(ctx, readTurn, id)
	if err != nil {
		return SessionTurn{}, err
	}
	if len(ts) == 0 {
		return SessionTurn{}, notFound("turn", int64(id))
	}
	return ts[0], nil
}

// TurnForRun is the turn that a run serves, or nil: children of a tree and
// one-shot runs serve none.
func (s *Store) TurnForRun(ctx context.Context, run trace.RunID) (*SessionTurn, error) {
	ts, err := s.turns(ctx, readTurnOfRun, run)
	if err != nil || len(ts) == 0 {
		return nil, err
	}
	return &ts[0], nil
}

// SessionTurns lists every turn of a session, branches included, oldest first.
func (s *Store) SessionTurns(ctx context.Context, id trace.SessionID) ([]SessionTurn, error) {
	return s.turns(ctx, sessionTurns, id)
}

// History walks from a turn to the first one and returns the path, oldest
// first. A parent that is missing ends the walk.
func (s *Store) History(ctx context.Context, id trace.SessionID, from trace.TurnID) ([]SessionTurn, error) {
	ts, err := s.turns(ctx, turnsUntil, id, from)
	if err != nil {
		return nil, err
	}
	// Parents are older than their children, so one pass from the newest back
	// finds the path.
	var path []SessionTurn
	next := from
	for _, t := range ts {
		if t.ID == next {
			path = append(path, t)
			next = t.ParentID
		}
	}
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	return path, nil
}

func (s *Store) turns(ctx context.Context, st statement, args ...any) (ts []SessionTurn, err error) {
	err = s.read(ctx, st.name, func(q *query) (err error) {
		ts, err = list(q, st, args, scanSessionTurn)
		return err
	})
	return ts, err
}

func scanSessionTurn(r scanner) (t SessionTurn, err error) {
	var created int64
	var finished *int64
	err = r.Scan(&t.ID, &t.SessionID, &t.ParentID, &t.RunID, &t.Prompt, &t.Reply, &t.Outcome, &created, &finished)
	t.CreatedAt, t.FinishedAt = timeOf(created), timeOrZero(finished)
	return t, err
}
