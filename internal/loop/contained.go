package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/initorigin/io-harness-go/internal/builtin"
	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// maxCommandText bounds what is recorded of a command line, in bytes. The whole of
// it is in the call.
const maxCommandText = 4 << 10

// sandboxed records what the containment of commands did, and tells of it.
func (d *drive) sandboxed(step int, e store.SandboxEvent) {
	e.Step = step
	d.lease.Record(e)
	d.emit(step, trace.Sandboxed{Action: e.Kind, Backend: e.Backend})
}

// recordContainment records how the commands of the drive are contained, and by
// name what their environment lacks and what it was told to keep.
func (d *drive) recordContainment(a sandbox.Applied) {
	if len(a.Why) > 0 {
		d.log.Info("a stronger sandbox cannot be had for commands", "run", d.runID(), "rung", a.Rung, "why", a.Why)
	}
	d.recordApplied(0, a)
	if d.profile.Mode.Contained() {
		_, scrubbed := sandbox.Environ(d.profile)
		d.lease.Record(store.SandboxEvent{Kind: "env_scrub", Detail: scrubbed.String()})
	}
}

// recordApplied records everything that is known of a boundary: what it holds, by
// which means, and why it is no stronger one.
func (d *drive) recordApplied(step int, a sandbox.Applied) {
	a.Scrubbed = nil // has a row of its own
	detail, err := json.Marshal(a)
	if err != nil { // it is plain data
		detail = []byte(a.String())
	}
	d.lease.Record(store.SandboxEvent{Step: step, Kind: "containment", Backend: string(a.Rung), Detail: string(detail)})
}

// containedEvent is what watchers are told of a boundary.
func containedEvent(a sandbox.Applied) trace.Contained {
	return trace.Contained{
		Mode: string(a.Mode), Backend: string(a.Rung), Roots: len(a.Roots),
		Egress: string(a.Egress), Scrubbed: len(a.Scrubbed),
	}
}

// rungs are those that commands of the drive started on beside the one that was
// announced. The zero value is none.
type rungs struct {
	mu    sync.Mutex
	known []sandbox.Rung
	news  []sandbox.Applied // not told to the model yet
}

// add takes a boundary, and reports whether it is the first on its rung.
func (r *rungs) add(a sandbox.Applied) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.known, a.Rung) {
		return false
	}
	r.known, r.news = append(r.known, a.Rung), append(r.news, a)
	return true
}

func (r *rungs) take() []sandbox.Applied {
	r.mu.Lock()
	defer r.mu.Unlock()
	news := r.news
	r.news = nil
	return news
}

// noticeRung records a boundary that is not the announced one: its apparatus could not
// be built for this command, or what must be hidden has changed.
func (d *drive) noticeRung(step int, a sandbox.Applied) {
	if a.Rung == d.selected.Rung || a.Mode != d.selected.Mode || !d.rungs.add(a) {
		return
	}
	d.recordApplied(step, a)
	d.log.Warn("a command has another sandbox than was announced", "run", d.runID(), "step", step,
		"announced", d.selected.Rung, "rung", a.Rung, "why", a.Why)
}

// tellRungs tells the model of it, with the step: what its system block says is not
// what it got.
func (d *drive) tellRungs(st *step) {
	for _, a := range d.rungs.take() {
		st.notes = append(st.notes, note(st.n, prompt.OtherBoundary(a.String(), string(d.selected.Rung), a.Why)))
	}
}

// maxWithheld is how many commands in a row may be refused because the host cannot hold
// what the caller requires of their boundary.
const maxWithheld = 3

// startCommand is the one way in which a drive starts a process.
func (d *drive) startCommand(ctx context.Context, cmd sandbox.Cmd, p sandbox.Profile) (*sandbox.Process, error) {
	pr, err := sandbox.Start(ctx, cmd, d.hidden.from(ctx, d.workspace, p))
	switch {
	case err == nil:
		d.withheld.Store(0)
	case errors.Is(err, sandbox.ErrRequired):
		d.withheld.Add(1)
	}
	return pr, err
}

// boundaryLost is the error of a run whose commands are refused one after the other,
// though the boundary could be had when it began. A model can do nothing about it, so
// the run is left for a resume, on this host or on a better one.
func (d *drive) boundaryLost() error {
	n := d.withheld.Load()
	if n < maxWithheld {
		return nil
	}
	return &sandbox.Error{Kind: sandbox.ErrRequired, Op: "start commands", Err: fmt.Errorf("%d of them in a row were not started", n)}
}

// commandBegan records a contained command before anything is known of its end, so
// that one which takes the harness with it is on record all the same.
func (d *drive) commandBegan(step int, a sandbox.Applied, what string) {
	if !a.Mode.Contained() {
		return
	}
	what = clean(what)
	if len(what) > maxCommandText {
		what = strings.ToValidUTF8(what[:maxCommandText], "") + "…"
	}
	d.noticeRung(step, a)
	d.sandboxed(step, store.SandboxEvent{Kind: "create", Backend: string(a.Rung), Detail: string(a.Mode)})
	d.sandboxed(step, store.SandboxEvent{Kind: "exec", Backend: string(a.Rung), Detail: what})
}

// spawnNarrowed runs a command of a call that needs less than the run is granted,
// and tells once for the call under what it runs.
func (d *drive) spawnNarrowed(ctx context.Context, c tool.Call, cmd sandbox.Cmd, p sandbox.Profile) (*sandbox.Result, error) {
	if p.Mode != d.profile.Mode && p.Mode.Contained() {
		if _, told := d.narrowed.LoadOrStore(c.Key, true); !told {
			if a, err := sandbox.Plan(ctx, p); err == nil {
				d.emit(c.Step, containedEvent(a))
			}
		}
	}
	return d.spawn(ctx, c.Step, c.Name, cmd, p)
}

// capHit records the ceiling that ended a command.
func (d *drive) capHit(step int, a sandbox.Applied, hit sandbox.Cap) {
	if !a.Mode.Contained() {
		return
	}
	d.sandboxed(step, store.SandboxEvent{Kind: "cap_hit", Backend: string(a.Rung), Detail: string(hit)})
}

// commandOver records that nothing of a contained command is left.
func (d *drive) commandOver(step int, a sandbox.Applied, how string) {
	if a.Mode.Contained() {
		d.sandboxed(step, store.SandboxEvent{Kind: "destroy", Backend: string(a.Rung), Detail: how})
	}
}

// ending is how a command ended, in a few words.
func ending(res *sandbox.Result) string {
	switch {
	case res.Cap != "" || res.Killed:
		return "killed"
	case res.Signal != "":
		return "signal " + res.Signal
	}
	return fmt.Sprintf("exit %d", res.Exit)
}

// line is a command line of the drive while it runs. What is recorded of it is one
// row for the whole line under each containment that its commands had, nearly always
// the same one, and one for each ceiling that a stage hit.
type line struct {
	d        *drive
	step     int
	text     string
	detached bool
	applied  []sandbox.Applied // of the commands, each kind of containment once
	last     string
}

func (d *drive) beginLine(c tool.Call, text string, detached bool) builtin.Line {
	d.command(c)
	d.watchGuarded()
	return &line{d: d, step: c.Step, text: text, detached: detached}
}

// Start starts one stage. The line as a whole has a clock, so the stage has none.
func (l *line) Start(ctx context.Context, cmd sandbox.Cmd) (*sandbox.Process, error) {
	p := l.d.profile
	p.Limits.Wall = 0
	pr, err := l.d.startCommand(ctx, cmd, p)
	if err == nil {
		l.began(pr.Applied())
	}
	return pr, err
}

// began records the line when this is its first command under such a containment.
// Where the host falls back to a weaker one in its middle, that is on record too.
func (l *line) began(a sandbox.Applied) {
	known := func(b sandbox.Applied) bool { return a.Rung == b.Rung && a.Mode == b.Mode }
	if !slices.ContainsFunc(l.applied, known) {
		l.applied = append(l.applied, a)
		l.d.commandBegan(l.step, a, l.text)
	}
}

func (l *line) Ended(res *sandbox.Result) {
	l.last = ending(res)
	if res.Cap != "" {
		l.d.capHit(l.step, res.Applied, res.Cap)
	}
}

// Refused records what the policy refused behind the gate, as the gate does.
func (l *line) Refused(re *policy.RefusedError) { l.d.toolRefused(l.step, re) }

// Over looks at the places that the line must leave alone, and ends the record of
// the line. That of a handle is ended when the run learns of it.
func (l *line) Over(hit sandbox.Cap) {
	l.d.noticeGuarded(l.step)
	if len(l.applied) == 0 || l.detached {
		return
	}
	if hit != "" {
		l.d.capHit(l.step, l.applied[0], hit)
	}
	for _, a := range l.applied {
		l.d.commandOver(l.step, a, l.last)
	}
}
