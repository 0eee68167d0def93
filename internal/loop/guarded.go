package loop

import (
	"context"
	"strings"
	"sync"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/store"
)

// guarded watches the places whose content is run or obeyed later, outside of any
// boundary: hooks and settings of git, and the library's own configuration. Where
// the host can, commands cannot change them; everywhere a change is noticed behind
// the command that made it.
type guarded struct {
	root string

	mu      sync.Mutex
	look    func() (changed []string, partial bool) // made before the first command
	state   func() string                           // what was seen last
	changed []string                                // by commands of the step in progress
	between []string                                // since an earlier drive of the run looked last
	partial bool                                    // it is on record that not everything is looked at
}

const (
	// watchState is the kind of the row that holds what was seen last, for the drive
	// that goes on behind a crash.
	watchState = "watch_state"
	// maxWatchState bounds that row, in bytes: some thousand files.
	maxWatchState = 512 << 10
)

// begin looks at the places before the first command. state is what was seen; empty
// when there was a look already.
func (g *guarded) begin() (state string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.look != nil {
		return ""
	}
	g.with(sandbox.NewWatch(g.root))
	return g.state()
}

func (g *guarded) with(w *sandbox.Watch) {
	g.look = func() ([]string, bool) { return w.Changes(), w.Partial }
	g.state = w.State
}

// end names what has changed since the last look, with what is seen now, and says once
// when the workspace is too large to be looked through.
func (g *guarded) end() (now []string, state string, partial bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.look == nil {
		return nil, "", false
	}
	now, partial = g.look()
	if len(now) > 0 {
		g.changed = append(g.changed, now...)
		state = g.state()
	}
	first := partial && !g.partial
	g.partial = g.partial || partial
	return now, state, first
}

// take returns what the commands of a step changed, once.
func (g *guarded) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.changed
	g.changed = nil
	return c
}

// watchGuarded looks at the guarded places before a command. What is seen first is
// durable before the command begins: one that takes the harness with it must not decide
// what is compared with afterwards. That it cannot be written shows with the next record.
func (d *drive) watchGuarded() {
	if state := d.guarded.begin(); state != "" {
		d.keepWatchState(state)
		_ = d.lease.Flush(context.Background())
	}
}

// keepWatchState records what was seen of the guarded places. A workspace with more of
// them than a row should hold is looked at anew behind a crash.
func (d *drive) keepWatchState(state string) {
	if len(state) <= maxWatchState {
		d.lease.Record(store.SandboxEvent{Kind: watchState, Detail: state})
	}
}

// restoreGuarded goes on from what an earlier drive saw of the guarded places, and
// notices what has changed since: by a command that was cut off with it, or by anybody
// else.
func (d *drive) restoreGuarded(ctx context.Context) error {
	last, err := d.store.LastSandboxEvent(ctx, d.runID(), watchState)
	if err != nil || last == nil || last.Detail == "" { // or archived
		return err
	}
	watch, err := sandbox.WatchSince(d.guarded.root, last.Detail)
	if err != nil {
		d.log.Warn("what was seen of hooks and settings before cannot be read: they are looked at anew", "run", d.runID(), "error", err)
		return nil
	}
	d.guarded.with(watch)
	d.noticeGuarded(d.last)
	d.guarded.between = d.guarded.take()
	return nil
}

// noticeGuarded records what a command changed of the guarded places.
func (d *drive) noticeGuarded(n int) {
	now, state, partial := d.guarded.end()
	if partial {
		d.lease.Record(store.SandboxEvent{Step: n, Kind: "watch_partial"})
		d.log.Warn("the workspace has more directories than are looked through: a change of hooks or settings in one of them may be missed", "run", d.runID())
	}
	for _, path := range now {
		d.rec.guarded(n, path)
		d.log.Warn("a place whose content is run or obeyed later was changed", "run", d.runID(), "path", path)
	}
	if state != "" {
		d.keepWatchState(state)
	}
}

// tellGuarded tells the model of it, with the step. What was left running is looked
// after here; everything else at its own end.
func (d *drive) tellGuarded(st *step) {
	if d.handles.Running() {
		d.noticeGuarded(st.n)
	}
	if between := d.guarded.between; len(between) > 0 {
		d.guarded.between = nil
		st.notes = append(st.notes, note(st.n, prompt.GuardedChangedBetween(between)))
	}
	if changed := d.guarded.take(); len(changed) > 0 {
		st.notes = append(st.notes, note(st.n, prompt.GuardedChanged(changed)))
	}
}

// guarded records that a command changed a place whose content is run later.
func (r *recorder) guarded(step int, path string) {
	r.lease.Record(store.SandboxEvent{Step: step, Kind: "protected", Detail: strings.ToValidUTF8(path, "\uFFFD")})
}
