package store

import (
	"context"

	"github.com/initorigin/io-harness-go/trace"
)

// ResumableReason says why a run stands still.
type ResumableReason string

// The reasons.
const (
	Crashed ResumableReason = "crashed"  // its driver is gone, and did not say that it went
	Stopped ResumableReason = "stopped"  // its driver let it go without an outcome: it was cancelled, or something failed around it
	Forked  ResumableReason = "forked"   // nobody has driven it yet
	Paused  ResumableReason = "paused"   // it waits for a person, or was told what it waited for
	InDoubt ResumableReason = "recovery" // a call was started and nobody knows whether it ended
	Broken  ResumableReason = "failed"   // its last drive could not go on
)

// ResumableRun is a run that stands still and may be entered.
type ResumableRun struct {
	Run    RunInfo
	Reason ResumableReason
}

var (
	// The words of the partial index runs_open must be repeated for it to be used.
	waitingRuns = statement{"waiting runs", `SELECT ` + runColumns + ` FROM runs WHERE status IN ('running', 'paused') AND (status = 'paused'
		OR EXISTS (SELECT 1 FROM pending_approvals p WHERE p.run_id = runs.id AND p.resolved IS NULL)
		OR EXISTS (SELECT 1 FROM pending_questions q WHERE q.run_id = runs.id AND q.answered_at IS NULL)
		OR EXISTS (SELECT 1 FROM plans l WHERE l.run_id = runs.id AND l.verdict IS NULL)) ORDER BY id`}
	lastEnd    = statement{"end of the last drive", `SELECT generation, ended_at IS NOT NULL FROM drives WHERE run_id = ? ORDER BY id DESC LIMIT 1`}
	stillRuns  = statement{"still runs", `SELECT ` + runColumns + ` FROM runs WHERE status IN ('running', 'paused') AND parent_run_id IS NULL ORDER BY id`}
	failedRuns = statement{"failed runs", `SELECT ` + runColumns + ` FROM runs WHERE status = 'failed' AND parent_run_id IS NULL ORDER BY id`}
)

// erroredGates reads the runs that are still open, and the newest evaluation of
// each: checks of an output's shape are none.
var erroredGates = statement{"runs with an errored gate", `SELECT ` + runColumns + ` FROM runs WHERE status IN ('running', 'paused')
	AND coalesce((SELECT g.outcome FROM gate_attempts g WHERE g.run_id = runs.id AND g.phase <> 'output' ORDER BY g.id DESC LIMIT 1), 'passed')
		NOT IN ('passed', 'failed') ORDER BY id`}

// RunsWithErroredGate lists the runs without an end whose gate did not get to
// judge when it was last evaluated, the oldest first. Each may be resumed, or have
// that evaluation made again by itself once the cause is mended.
func (s *Store) RunsWithErroredGate(ctx context.Context) ([]RunInfo, error) {
	return s.runs(ctx, erroredGates)
}

// Waiting lists every run that waits for a person, the oldest first: those that
// paused, whose Outcome says for what, and those whose process still waits for its
// own approver, responder or plan gate, which have no Outcome yet. What exactly each
// waits for is what session.Attach lists. Answering takes no lease.
func (s *Store) Waiting(ctx context.Context) ([]RunInfo, error) {
	return s.runs(ctx, waitingRuns)
}

// Resumable lists the roots that nobody drives and that may go on, the oldest
// first: left behind by a crash, waiting for a person, or failed. Turns that
// died while they answered are not among them: they are taken again.
func (s *Store) Resumable(ctx context.Context) (out []ResumableRun, err error) {
	err = s.snapshot(ctx, "resumable runs", func(q *query) error {
		out = nil
		now := s.stamp()
		for _, st := range []statement{stillRuns, failedRuns} {
			runs, err := list(q, st, nil, scanRun)
			if err != nil {
				return err
			}
			for _, r := range runs {
				if r.Kind == KindReply && r.LastStep == 0 && r.Status == trace.StatusRunning {
					continue
				}
				if _, _, _, err := s.available(q, r.ID, now); err != nil {
					if isConflict(err) {
						continue
					}
					return err
				}
				reason, err := reasonOf(q, r)
				if err != nil {
					return err
				}
				out = append(out, ResumableRun{Run: r, Reason: reason})
			}
		}
		return nil
	})
	return out, err
}

func reasonOf(q *query, r RunInfo) (ResumableReason, error) {
	switch {
	case r.Status == trace.StatusFailed:
		return Broken, nil
	case r.Outcome.Kind == trace.AwaitingRecovery:
		return InDoubt, nil
	case r.Status == trace.StatusPaused:
		return Paused, nil
	}
	var generation int64
	var ended bool
	switch err := q.row(lastEnd, []any{r.ID}, &generation, &ended); {
	case noRows(err) || err == nil && generation == 0:
		return Forked, nil
	case err != nil:
		return "", err
	case ended:
		return Stopped, nil
	}
	return Crashed, nil
}
