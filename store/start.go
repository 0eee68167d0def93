package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// Mode is the shape of a run. The value is the stored text.
type Mode string

// The modes.
const (
	ModeWorkspace Mode = "workspace"
	ModeFile      Mode = "file"
	ModeTree      Mode = "tree"
)

// TurnKind tells a turn that was answered from one that did work. The value is
// the stored text; empty for a run that is no turn and was never typed.
type TurnKind string

// The kinds.
const (
	KindReply TurnKind = "reply"
	KindRun   TurnKind = "run"
)

// RunStart is everything that is durable before the first completion of a run.
type RunStart struct {
	Goal     string
	Root     string // the workspace's root, or the file of a single-file run
	Mode     Mode   // empty means ModeWorkspace
	Kind     TurnKind
	Provider string
	// Policy is the caller's policy as given, before any layer that the harness
	// adds; a resume without a policy reads it back. Empty records none.
	Policy json.RawMessage
	// Contract holds the facts of the contract that a resume compares, such as
	// the containment. Optional.
	Contract json.RawMessage
	// Turn makes the run a turn of a session. Optional.
	Turn *TurnStart
	// Seed opens the ledger: the conversation so far, at step 0.
	Seed []trace.Observation
	// LeaseTTL is how long the run stays held without a sign of life; zero means
	// DefaultLeaseTTL. A heartbeat renews it three times in that time.
	LeaseTTL time.Duration
}

// TurnStart ties a run to a session.
type TurnStart struct {
	Session trace.SessionID
	Parent  trace.TurnID // the head that the turn follows; zero for the first turn
	Prompt  string
}

var (
	insertRun = statement{"insert run", `INSERT INTO runs
		(parent_run_id, root_run_id, depth, goal, file, mode, provider, turn_kind, status, started_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'running', ?) RETURNING id`}
	setRoot     = statement{"set root", `UPDATE runs SET root_run_id = id WHERE id = ?`}
	readHead    = statement{"read head", `SELECT coalesce(head_turn_id, 0) FROM sessions WHERE id = ?`}
	insertTurn  = statement{"insert turn", `INSERT INTO session_turns (session_id, parent_turn_id, run_id, prompt, created_at) VALUES (?, ?, ?, ?, ?) RETURNING id`}
	setTurnKind = statement{"set turn kind", `UPDATE runs SET turn_kind = ? WHERE id = ?`}
)

// StartRun writes in one transaction whatever must be durable before anything
// is billed: the run, its lease, its turn, its provider, its policy and its
// seed. It fails with a ConflictError when the session's head is not the parent
// named, and with ErrNotFound when there is no such session. The caller must
// end the drive with FinishRun or Release.
func (s *Store) StartRun(ctx context.Context, r RunStart) (*Drive, error) {
	if r.Mode == "" {
		r.Mode = ModeWorkspace
	}
	if err := identifier("start run", "root", r.Root); err != nil {
		return nil, err
	}
	var d *Drive
	err := s.write(ctx, "start run", func(t *txn) error {
		if r.Turn != nil {
			if err := checkHead(t, r.Turn.Session, r.Turn.Parent); err != nil {
				return err
			}
		}
		id, err := t.insert(insertRun, nil, 0, 0, cleanText(r.Goal), r.Root, string(r.Mode), null(r.Provider), null(string(r.Kind)), t.now)
		if err != nil {
			return err
		}
		if _, err := t.exec(setRoot, id); err != nil {
			return err
		}
		run := trace.RunID(id)
		l, _, err := s.acquire(t, run, r.LeaseTTL)
		if err != nil {
			return err
		}
		if d, err = s.newDrive(t, run, run, l, TookNothing, 1, r.Provider, r.Policy, r.Contract); err != nil {
			return err
		}
		d.RunStarted, d.RootStart = d.StartedAt, d.StartedAt
		if _, err := t.exec(bindLease, d.ID, run, l.owner, l.generation); err != nil {
			return err
		}
		if tn := r.Turn; tn != nil {
			turn, err := t.insert(insertTurn, tn.Session, nullID(tn.Parent), run, cleanText(tn.Prompt), t.now)
			if err != nil {
				return err
			}
			d.SessionID, d.TurnID = tn.Session, trace.TurnID(turn)
		}
		_, err = appendObservations(t, run, r.Seed)
		return err
	})
	if err != nil {
		return nil, err
	}
	d.attach()
	d.lease.hold()
	return d, nil
}

// checkHead compares a session's head with the one that the caller stands on.
func checkHead(t *txn, session trace.SessionID, parent trace.TurnID) error {
	var head trace.TurnID
	if err := t.row(readHead, []any{session}, &head); err != nil {
		if noRows(err) {
			return notFound("session", int64(session))
		}
		return err
	}
	if head != parent {
		return &ConflictError{SessionID: session, Expected: parent, Head: head}
	}
	return nil
}

// SetTurnKind corrects the kind of a turn once its first completion shows
// whether it answers or works.
func (s *Store) SetTurnKind(ctx context.Context, d *Drive, kind TurnKind) error {
	switch kind {
	case KindReply, KindRun:
	default:
		return &Error{Kind: KindInvalid, Op: "set turn kind", Err: errors.New("the kind is neither reply nor run")}
	}
	// It need not be synced by itself: whatever is synced later takes it along, and
	// a power cut that takes it leaves a turn without an effect, to be said again.
	return d.writeAheadSync(ctx, "set turn kind", SyncNormal, func(t *txn) error {
		_, err := t.exec(setTurnKind, string(kind), d.RunID)
		return err
	})
}
