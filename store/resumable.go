package store

import (
	"context"

	"github.com/initorigin/io-harness-go/trace"
)

// ResumableReason says why a run stands still.
type ResumableReason string

// The reasons.
const (
	Crashed ResumableReason = "crashed"  // its driver is gone, or let it go without an outcome
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
	waitingRuns = statement{"waiting runs", `SELECT ` + runColumns + ` FROM runs WHERE status IN ('running', 'paused') AND status = 'paused' ORDER BY id`}
	stillRuns   = statement{"still runs", `SELECT ` + runColumns + ` FROM runs WHERE status IN ('running', 'paused') AND parent_run_id IS NULL ORDER BY id`}
	failedRuns  = statement{"failed runs", `SELECT ` + runColumns + ` FROM runs WHERE status = 'failed' AND parent_run_id IS NULL ORDER BY id`}
)

// Waiting lists every run that waits for a person, the oldest first; its
// Outcome says for what. Answering takes no lease.
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
				out = append(out, ResumableRun{Run: r, Reason: reasonOf(r)})
			}
		}
		return nil
	})
	return out, err
}

func reasonOf(r RunInfo) ResumableReason {
	switch {
	case r.Status == trace.StatusFailed:
		return Broken
	case r.Outcome.Kind == trace.AwaitingRecovery:
		return InDoubt
	case r.Status == trace.StatusPaused:
		return Paused
	}
	return Crashed
}
