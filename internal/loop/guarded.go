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
	watch   *sandbox.Watch // made before the first command
	changed []string       // by commands of the step in progress
}

// begin looks at the places before a command.
func (g *guarded) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watch == nil {
		g.watch = sandbox.NewWatch(g.root)
	}
}

// end names what has changed since the last look.
func (g *guarded) end() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.watch.Changes()
	g.changed = append(g.changed, now...)
	return now
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
	for _, path := range d.guarded.end() {
		d.rec.guarded(n, path)
		d.log.Warn("a command changed a place whose content is run or obeyed later", "run", d.runID(), "path", path)
	}
}

// tellGuarded tells the model of it, with the step.
func (d *drive) tellGuarded(st *step) {
	if changed := d.guarded.take(); len(changed) > 0 {
		st.notes = append(st.notes, note(st.n, prompt.GuardedChanged(changed)))
	}
}

// guarded records that a command changed a place whose content is run later.
func (r *recorder) guarded(step int, path string) {
	r.lease.Record(store.SandboxEvent{Step: step, Kind: "protected", Detail: strings.ToValidUTF8(path, "\uFFFD")})
}
