package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/initorigin/io-harness-go/internal/builtin"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// handleJournal keeps the life of handles in the store and tells watchers of it.
type handleJournal struct{ d *drive }

var _ builtin.HandleJournal = handleJournal{}

func (j handleJournal) Begin(ctx context.Context, step int, line string) (int, error) {
	n, err := j.d.store.StartHandle(ctx, j.d.lease, step, line)
	if err == nil {
		j.d.emit(step, trace.HandleStarted{Handle: n, Line: line})
	}
	return n, err
}

func (j handleJournal) Processes(ctx context.Context, handle int, pids []int) error {
	return j.d.store.SetHandlePIDs(ctx, j.d.lease, handle, pids)
}

func (j handleJournal) Read(step, handle int, chunk string) {
	j.d.lease.Record(store.HandleOutput{Handle: handle, Step: step, Chunk: chunk})
}

func (j handleJournal) Polled(step, handle, bytes int) {
	j.d.emit(step, trace.HandlePolled{Handle: handle, Bytes: bytes})
}

// Over writes the end of a handle, and tells of it when this is the first word
// about it.
func (j handleJournal) Over(ctx context.Context, step, handle int, s builtin.HandleState) error {
	state := store.HandleExited
	if s.Killed {
		state = store.HandleKilled
	}
	first, err := j.d.store.EndHandle(ctx, j.d.lease, handle, state, s.Code, s.Reason)
	if err != nil || !first {
		return err
	}
	if j.d.profile.Mode.Contained() {
		j.d.sandboxed(step, store.SandboxEvent{Kind: "destroy", Detail: fmt.Sprintf("shell_start handle %d", handle)})
	}
	if s.Killed {
		j.d.emit(step, trace.HandleKilled{Handle: handle})
	} else {
		j.d.emit(step, trace.HandleExited{Handle: handle, Code: s.Code})
	}
	return nil
}

// adoptHandles notes what an earlier drive of the run left behind. Nothing of it
// is signalled: its process ids may belong to others by now.
func (d *drive) adoptHandles(ctx context.Context, orphans []int) error {
	rows, err := d.store.ProcessHandles(ctx, d.runID())
	if err != nil {
		return err
	}
	for _, h := range rows {
		s := builtin.HandleState{Code: h.Code, Reason: h.Reason, Killed: h.State == store.HandleKilled}
		s.Orphaned = h.State == store.HandleOrphaned
		d.handles.Adopt(h.Handle, s)
		if slices.Contains(orphans, h.Handle) {
			d.orphans = append(d.orphans, h)
		}
	}
	return nil
}

// tellOrphans tells watchers, once, what was lost with an earlier process.
func (d *drive) tellOrphans() {
	for _, h := range d.orphans {
		d.emit(d.last, trace.HandleOrphaned{Handle: h.Handle, Reason: h.Reason})
	}
	d.orphans = nil
}

// housekeep is what a step begins with: the handles that ended by themselves, and
// what the run's proxy decided since the last time.
func (d *drive) housekeep(ctx context.Context, n int) error {
	d.egress.settle(d)
	return d.handles.Housekeep(ctx, n)
}

// endCommands leaves nothing of the run's commands behind: what was left running
// is killed, and the proxy is closed. It comes before whatever ends the drive is
// written, so that the rows belong to it, and may be called again.
func (d *drive) endCommands(ctx context.Context) error {
	// The end must be recorded also when the reason for it is that ctx ended.
	ctx = context.WithoutCancel(ctx)
	var err error
	if d.handles != nil && d.lease != nil {
		err = d.handles.End(ctx, d.last)
	}
	return errors.Join(err, d.egress.end(d))
}
