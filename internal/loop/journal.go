package loop

import (
	"context"

	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/workspace"
)

// journal makes what a call writes through its workspace undoable: what a file
// was is durable before it is touched, and the change is evidence of the step.
type journal struct {
	d *drive
	n int // the step
	c *call
}

var _ workspace.Journal = journal{}

// Before is called before the run first changes a path.
func (j journal) Before(ctx context.Context, p workspace.RestorePoint) error {
	return j.d.store.PutRestorePoint(ctx, j.d.lease, store.RestorePoint{
		Step: j.n, Path: p.Path, State: store.RestoreState(p.State), Before: p.Before, Mode: uint32(p.Mode.Perm()), Reason: p.Reason,
	})
}

// Wrote is called after every change.
func (j journal) Wrote(_ context.Context, e workspace.Edit) error {
	hunk := ""
	if e.Hunk != nil {
		hunk = *e.Hunk
	}
	j.d.lease.Record(store.Edit{
		Step: j.n, Tool: j.c.name, Path: e.Path, Added: e.LinesAdded, Removed: e.LinesRemoved, Hunk: hunk,
	})
	return nil
}

// workspaceFor is the run's workspace as one call sees it. All calls share what
// the run knows of files.
func (d *drive) workspaceFor(st *step, c *call) *workspace.Workspace {
	return d.workspace.WithTool(c.name).ForCall(journal{d, st.n, c})
}
