package store

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// RunFilter narrows Runs. The zero value lists every run.
type RunFilter struct {
	Status    trace.Status    // empty for any
	Root      trace.RunID     // only runs of this tree; zero for any
	Session   trace.SessionID // only runs that are turns of this session; zero for any
	RootsOnly bool            // leave out the children of trees
	Since     time.Time       // started at or after; zero for any
	Until     time.Time       // started before; zero for any
}

// DriveRow is one period in which one owner drove a run.
type DriveRow struct {
	ID         trace.DriveID
	Owner      string
	Generation int64
	Takeover   Takeover
	Provider   string
	Policy     json.RawMessage // empty when none was recorded
	Contract   json.RawMessage
	StartStep  int
	StartedAt  time.Time
	EndedAt    time.Time         // zero while it drives, or when its process died and nobody resumed
	Outcome    trace.OutcomeKind // empty when it ended without one
	Dropped    map[string]int64  // evidence that could not be written, by table
}

// CheckpointEvent is one line of a run's history of commits and resumes.
type CheckpointEvent struct {
	Step   int
	Kind   string // checkpoint, resume or skipped
	Detail string
}

var (
	runsBetween = statement{"runs between", `SELECT coalesce(min(id), 0), coalesce(max(id), -1) FROM runs WHERE started_at >= ? AND started_at < ?`}
	readDrives  = statement{"read drives", `SELECT id, owner, generation, coalesce(takeover, ''), provider, policy, contract, start_step,
		started_at, ended_at, coalesce(outcome, ''), dropped FROM drives WHERE run_id = ? ORDER BY id`}
	readSummary = statement{"read run summary", `SELECT run_id, outcome, success, steps, tokens, duration_ms, finished_at FROM run_outcomes WHERE run_id = ?`}
	readOutput  = statement{"read output", `SELECT schema, value, valid, attempts FROM run_outputs WHERE run_id = ?`}
	runContract = statement{"run contract", `SELECT contract FROM drives WHERE run_id = ? ORDER BY id DESC LIMIT 1`}
	runPolicy   = statement{"run policy", `SELECT policy FROM drives WHERE run_id = ? AND policy IS NOT NULL ORDER BY id DESC LIMIT 1`}
)

// statement selects a page of the runs that the filter lets through. It names only
// what the filter asks for, so that each form is served in the order of the ids
// and never sorts: a page costs what it yields.
func (f RunFilter) statement() statement {
	where := `id < ?1 AND id >= ?2`
	if f.Status != "" {
		if f.Status == trace.StatusRunning || f.Status == trace.StatusPaused {
			where += ` AND status IN ('running', 'paused')` // the words of the index
		}
		where += ` AND status = ?3`
	}
	if f.Root != 0 {
		where += ` AND root_run_id = ?4`
	}
	if f.RootsOnly {
		where += ` AND parent_run_id IS NULL`
	}
	if !f.Since.IsZero() || !f.Until.IsZero() {
		where += ` AND +started_at >= ?5 AND +started_at < ?6` // bounds of ids have used the index
	}
	if f.Session != 0 {
		where += ` AND id IN (SELECT run_id FROM session_turns WHERE session_id = ?7)`
	}
	return statement{"read runs", `SELECT ` + runColumns + ` FROM runs WHERE ` + where + ` ORDER BY id DESC LIMIT ?8`}
}

// Runs yields runs, the newest first.
func (s *Store) Runs(ctx context.Context, f RunFilter) iter.Seq2[RunInfo, error] {
	since, until := int64(0), int64(1)<<62
	if !f.Since.IsZero() {
		since = f.Since.UnixMilli()
	}
	if !f.Until.IsZero() {
		until = f.Until.UnixMilli()
	}
	st := f.statement()
	return func(yield func(RunInfo, error) bool) {
		first, before := int64(0), int64(1)<<62
		n := 1 // most readers want the newest only
		for {
			var page []RunInfo
			err := s.read(ctx, "read runs", func(q *query) (err error) {
				if n == 1 && (since > 0 || until < int64(1)<<62) {
					var last int64
					if err := q.row(runsBetween, []any{since, until}, &first, &last); err != nil {
						return err
					}
					before = last + 1
				}
				page, err = list(q, st, []any{before, first, string(f.Status), f.Root, since, until, f.Session, n}, scanRun)
				return err
			})
			if err != nil {
				yield(RunInfo{}, err)
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
			}
			if len(page) < n {
				return
			}
			before, n = int64(page[len(page)-1].ID), pageSize
		}
	}
}

// LastRun is the newest run, or nil in an empty store: what a caller whose run
// returned an error may look for.
func (s *Store) LastRun(ctx context.Context) (*RunInfo, error) {
	for r, err := range s.Runs(ctx, RunFilter{}) {
		if err != nil {
			return nil, err
		}
		return &r, nil
	}
	return nil, nil
}

// Elapsed is how long ago a run started, downtime included; never negative. A
// tree's ceiling counts from its root: pass that run.
func (s *Store) Elapsed(ctx context.Context, run trace.RunID) (time.Duration, error) {
	info, err := s.Run(ctx, run)
	if err != nil {
		return 0, err
	}
	return max(0, timeOf(s.stamp()).Sub(info.StartedAt)), nil
}

// RunContract is the contract that a run was last driven under, as it is stored,
// or nil when none was recorded.
func (s *Store) RunContract(ctx context.Context, run trace.RunID) (json.RawMessage, error) {
	var contract []byte
	err := s.read(ctx, "run contract", func(q *query) error {
		err := q.row(runContract, []any{run}, &contract)
		if noRows(err) {
			return nil
		}
		return err
	})
	return contract, err
}

// RunPolicy is the policy recorded last for a run, or nil when there is none,
// which is a fact of its own and never means that everything is allowed.
func (s *Store) RunPolicy(ctx context.Context, run trace.RunID) (json.RawMessage, error) {
	var policy []byte
	err := s.read(ctx, "run policy", func(q *query) error {
		if _, err := runInfo(q, run); err != nil {
			if noRows(err) {
				return notFound("run", int64(run))
			}
			return err
		}
		err := q.row(runPolicy, []any{run}, &policy)
		if noRows(err) {
			return nil
		}
		return err
	})
	if err == nil && policy != nil && !json.Valid(policy) {
		err = &ResumeError{RunID: run, Reason: UnreadablePolicy, Detail: "the recorded policy is no JSON"}
	}
	return policy, err
}

// RunSummary is the summary of a run that ended, or nil while it is driven,
// waits, or was left behind.
func (s *Store) RunSummary(ctx context.Context, run trace.RunID) (*trace.Summary, error) {
	var sum *trace.Summary
	err := s.read(ctx, "read run summary", func(q *query) error {
		return q.each(readSummary, []any{run}, func(r scanner) error {
			var duration, at int64
			sum = &trace.Summary{}
			if err := r.Scan(&sum.RunID, &sum.Outcome, &sum.Success, &sum.Steps, &sum.Tokens, &duration, &at); err != nil {
				return err
			}
			sum.Duration, sum.FinishedAt = time.Duration(duration)*time.Millisecond, timeOf(at)
			return nil
		})
	})
	return sum, err
}

// RunOutput is the answer in a demanded shape, or nil when there is none.
func (s *Store) RunOutput(ctx context.Context, run trace.RunID) (*Output, error) {
	var out *Output
	err := s.read(ctx, "read output", func(q *query) error {
		return q.each(readOutput, []any{run}, func(r scanner) error {
			var schema, value []byte
			out = &Output{}
			if err := r.Scan(&schema, &value, &out.Valid, &out.Attempts); err != nil {
				return err
			}
			out.Schema, out.Value = schema, value
			return legible("run_outputs", int64(run), run, 0, jsonColumn{"schema", schema}, jsonColumn{"value", value})
		})
	})
	return out, err
}

func scanDrive(r scanner) (d DriveRow, err error) {
	var policy, contract, dropped []byte
	var started int64
	var ended *int64
	if err := r.Scan(&d.ID, &d.Owner, &d.Generation, &d.Takeover, &d.Provider, &policy, &contract, &d.StartStep, &started, &ended,
		&d.Outcome, &dropped); err != nil {
		return d, err
	}
	d.Policy, d.Contract, d.StartedAt, d.EndedAt = policy, contract, timeOf(started), timeOrZero(ended)
	if len(dropped) > 0 {
		if err := json.Unmarshal(dropped, &d.Dropped); err != nil {
			return d, &Error{Kind: KindCorrupt, Op: "read drives", Err: fmt.Errorf("the dropped rows of drive %d: %w", d.ID, err)}
		}
	}
	return d, nil
}

// Drives lists who drove a run, when, under which policy and to which end.
func (s *Store) Drives(ctx context.Context, run trace.RunID) (ds []DriveRow, err error) {
	err = s.read(ctx, "read drives", func(q *query) (err error) {
		ds, err = list(q, readDrives, []any{run}, scanDrive)
		return err
	})
	return ds, err
}

// CheckpointEvents tells a run's drives and steps as a list of commits and
// resumes: each resume names the steps that it skipped.
func (s *Store) CheckpointEvents(ctx context.Context, run trace.RunID) ([]CheckpointEvent, error) {
	drives, err := s.Drives(ctx, run)
	if err != nil {
		return nil, err
	}
	var out []CheckpointEvent
	resume := func(d DriveRow) {
		out = append(out, CheckpointEvent{Step: d.StartStep, Kind: "resume",
			Detail: fmt.Sprintf("restarts at step %d; %d committed steps are skipped", d.StartStep, d.StartStep-1)})
		for n := 1; n < d.StartStep; n++ {
			out = append(out, CheckpointEvent{Step: n, Kind: "skipped"})
		}
	}
	i := 1 // the first drive is the start, not a resume
	for st, err := range s.Steps(ctx, run) {
		if err != nil {
			return nil, err
		}
		for ; i < len(drives) && drives[i].StartStep <= st.Step; i++ {
			resume(drives[i])
		}
		out = append(out, CheckpointEvent{Step: st.Step, Kind: "checkpoint"})
	}
	for ; i < len(drives); i++ {
		resume(drives[i])
	}
	return out, nil
}
