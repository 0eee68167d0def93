package loop

import (
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
	changed []string                                // by commands of the step in progress
	partial bool                                    // it is on record that not everything is looked at
}

// begin looks at the places before a command.
func (g *guarded) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.look == nil {
		w := sandbox.NewWatch(g.root)
		g.look = func() ([]string, bool) { return w.Changes(), w.Partial }
	}
}

// end names what has changed since the last look, and says once when the workspace
// is too large to be looked through.
func (g *guarded) end() (now []string, partial bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.look == nil {
		return nil, false
	}
	now, partial = g.look()
	g.changed = append(g.changed, now...)
	first := partial && !g.partial
	g.partial = g.partial || partial
	return now, first
}

// take returns what the commands of a step changed, once.
func (g *guarded) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.changed
	g.changed = nil
	return c
}

// noticeGuarded records what a command changed of the guarded places.
func (d *drive) noticeGuarded(n int) {
	now, partial := d.guarded.end()
	if partial {
		d.lease.Record(store.SandboxEvent{Step: n, Kind: "watch_partial"})
		d.log.Warn("the workspace has more directories than are looked through: a change of hooks or settings in one of them may be missed", "run", d.runID())
	}
	for _, path := range now {
		d.rec.guarded(n, path)
		d.log.Warn("a command changed a place whose content is run or obeyed later", "run", d.runID(), "path", path)
	}
}

// tellGuarded tells the model of it, with the step. What was left running is looked
// after here; everything else at its own end.
func (d *drive) tellGuarded(st *step) {
	if d.handles.Running() {
		d.noticeGuarded(st.n)
	}
	if changed := d.guarded.take(); len(changed) > 0 {
		st.notes = append(st.notes, note(st.n, prompt.GuardedChanged(changed)))
	}
}

// guarded records that a command changed a place whose content is run later.
func (r *recorder) guarded(step int, path string) {
	r.lease.Record(store.SandboxEvent{Step: step, Kind: "protected", Detail: strings.ToValidUTF8(path, "\uFFFD")})
}
