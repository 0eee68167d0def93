package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// RunInfo is the row of a run.
type RunInfo struct {
	ID        trace.RunID
	ParentID  trace.RunID // zero for the root of a tree
	RootID    trace.RunID // the run itself when it is a root
	Depth     int
	Goal      string
	Root      string // the workspace's root, or the file of a single-file run
	Mode      Mode
	Provider  string
	Kind      TurnKind
	Status    trace.Status
	Outcome   trace.Outcome // its kind is empty while the run is driven or was left behind by a crash
	StartedAt time.Time
	LastStep  int
	Tokens    int64
	Archived  bool
	// ForkedFrom and ForkedStep name the run and the step that this one was
	// copied from; zero for a run that was started.
	ForkedFrom trace.RunID
	ForkedStep int
}

const runColumns = `id, coalesce(parent_run_id, 0), root_run_id, depth, goal, file, mode, coalesce(provider, ''), coalesce(turn_kind, ''),
	status, coalesce(outcome, ''), coalesce(outcome_steps, 0), coalesce(waiting_id, 0), started_at, last_step, spent_tokens, archived_at IS NOT NULL,
	coalesce(forked_run_id, 0), coalesce(forked_step, 0)`

var (
	readRun    = statement{"read run", `SELECT ` + runColumns + ` FROM runs WHERE id = ?`}
	lastStepOf = statement{"last step", `SELECT last_step FROM runs WHERE id = ?`}
	startedAt  = statement{"started at", `SELECT started_at FROM runs WHERE id = ?`}
)

func scanRun(r scanner) (i RunInfo, err error) {
	var kind trace.OutcomeKind
	var steps int
	var waiting, started int64
	err = r.Scan(&i.ID, &i.ParentID, &i.RootID, &i.Depth, &i.Goal, &i.Root, &i.Mode, &i.Provider, &i.Kind,
		&i.Status, &kind, &steps, &waiting, &started, &i.LastStep, &i.Tokens, &i.Archived,
		&i.ForkedFrom, &i.ForkedStep)
	switch i.Status {
	case trace.StatusRunning, trace.StatusPaused, trace.StatusCompleted, trace.StatusFailed:
	default:
		i.Status = trace.StatusRunning // a word of newer software: never taken as ended
	}
	if kind != "" {
		i.Outcome = outcomeOf(kind, steps, waiting)
	}
	i.StartedAt = timeOf(started)
	return i, err
}

// runInfo reads one run; sql.ErrNoRows when there is none.
func runInfo(q *query, run trace.RunID) (info RunInfo, err error) {
	var found bool
	err = q.each(readRun, []any{run}, func(r scanner) (err error) {
		found = true
		info, err = scanRun(r)
		return err
	})
	if err == nil && !found {
		err = sql.ErrNoRows
	}
	return info, err
}

func rootRun(q *query, run trace.RunID) (root trace.RunID, err error) {
	err = q.row(rootOf, []any{run}, &root)
	return root, err
}

func startOf(q *query, run trace.RunID) (time.Time, error) {
	var ms int64
	err := q.row(startedAt, []any{run}, &ms)
	return timeOf(ms), err
}

// Run reads the row of a run; ErrNotFound when there is none.
func (s *Store) Run(ctx context.Context, run trace.RunID) (RunInfo, error) {
	var info RunInfo
	err := s.read(ctx, "read run", func(q *query) (err error) {
		info, err = runInfo(q, run)
		if noRows(err) {
			return notFound("run", int64(run))
		}
		return err
	})
	return info, err
}

// Status is a run's stored status; ErrNotFound when there is no such run.
// Whether a running run really runs is answered by LeaseOf.
func (s *Store) Status(ctx context.Context, run trace.RunID) (trace.Status, error) {
	info, err := s.Run(ctx, run)
	return info.Status, err
}

// Outcome is how a run ended or why it waits; its kind is empty while the run
// is driven or was left behind by a crash.
func (s *Store) Outcome(ctx context.Context, run trace.RunID) (trace.Outcome, error) {
	info, err := s.Run(ctx, run)
	return info.Outcome, err
}

// SpentTokens is what the committed steps of one run drew.
func (s *Store) SpentTokens(ctx context.Context, run trace.RunID) (int64, error) {
	info, err := s.Run(ctx, run)
	return info.Tokens, err
}

func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

func isResume(err error) bool { return errors.Is(err, ErrResume) }

func withRun(err error, run trace.RunID) error {
	var re *ResumeError
	if errors.As(err, &re) {
		re.RunID = run
	}
	return err
}

func joinErrors(err, other error) error {
	if other == nil {
		return err
	}
	return errors.Join(err, other)
}

func isConflict(err error) bool { return errors.Is(err, ErrConflict) }
