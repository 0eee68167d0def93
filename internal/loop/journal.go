package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/workspace"
)

// journal makes what one call writes through its workspace undoable, and safe to
// be asked for again after a crash: what a file was, and what the call is about
// to make of it, are durable before it is touched.
type journal struct {
	d    *drive
	step int
	call *call
	past []store.WriteIntent // what calls in this place of the step did before a crash

	mu     sync.Mutex
	points map[string]workspace.RestorePoint // by path: each goes with the next intent for it
	sorted bool                              // own and free are set
	own    []store.WriteIntent               // those of past that this very call did, in order
	free   int                               // the next number that no change in this place has
	n      int                               // changes so far
	number map[string]int                    // by path: of the change that was announced last
}

// announced are the facts of a change as they are stored with its intent.
type announced struct {
	workspace.Change
	// Call names the arguments of the call: a model that asks for something else
	// after a crash must get that, and not what it asked for before.
	Call string
	// Drive and Order are when it was announced, among all changes of the run.
	Drive trace.DriveID
	Order int64
}

// before reports whether a was announced before b.
func (a announced) before(b announced) bool {
	return a.Drive < b.Drive || a.Drive == b.Drive && a.Order < b.Order
}

// factsOf reads what a change was announced with.
func factsOf(w store.WriteIntent) (announced, error) {
	var a announced
	if err := json.Unmarshal(w.Facts, &a); err != nil {
		return a, fmt.Errorf("the change of %s in step %d cannot be read: %w", w.Path, w.Step, err)
	}
	if w.Hunk != "" {
		a.Hunk = &w.Hunk
	}
	return a, nil
}

var _ workspace.Recaller = (*journal)(nil)

// Before keeps the restore point for the intent that follows at once, so that
// both are one transaction.
func (j *journal) Before(_ context.Context, p workspace.RestorePoint) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.points == nil {
		j.points = map[string]workspace.RestorePoint{}
	}
	j.points[p.Path] = p
	return nil
}

// sort tells what this very call did before a crash from what other calls did that
// the model asked for in its place. Those were made all the same, so they keep
// their records and their numbers. What this one did before another one came in its
// place is nothing to answer from: the files are as the other one left them. j.mu is
// held.
func (j *journal) sort() {
	if j.sorted {
		return
	}
	j.sorted, j.number = true, map[string]int{}
	var other announced // the last change in this place by another call
	made := make([]announced, len(j.past))
	own := make([]bool, len(j.past))
	for i, w := range j.past {
		j.free = max(j.free, w.Ordinal+1)
		var err error
		if made[i], err = factsOf(w); err != nil {
			j.d.log.Error("what a call did before the crash cannot be read, and it is made again", "run", j.d.runID(), "path", w.Path, "error", err)
			continue
		}
		own[i] = w.Tool == j.call.name && made[i].Call == j.call.fingerprint()
		if !own[i] && other.before(made[i]) {
			other = made[i]
		}
	}
	for i, w := range j.past {
		if own[i] && other.before(made[i]) {
			j.own = append(j.own, w)
		}
	}
}

// ordinal is the number of the next change, which is to path: that of the same
// change before a crash, which was announced and not made, or is not there any more.
func (j *journal) ordinal(path string) int {
	if j.n < len(j.own) && j.own[j.n].Path == path {
		return j.own[j.n].Ordinal
	}
	j.free++
	return j.free - 1
}

// Intend makes a change durable before it is made.
func (j *journal) Intend(ctx context.Context, c workspace.Change, after string, known bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	hunk := ""
	if c.Hunk != nil {
		hunk = *c.Hunk
	}
	facts := announced{Change: c, Call: j.call.fingerprint(), Drive: j.d.lease.ID, Order: j.d.announced.Add(1)}
	facts.Hunk = nil // it has a column of its own
	raw, err := json.Marshal(facts)
	if err != nil {
		return fmt.Errorf("the change of %s cannot be stored: %w", c.Path, err)
	}
	j.sort()
	var point *store.RestorePoint
	if p, ok := j.points[c.Path]; ok {
		point = &store.RestorePoint{
			Step: j.step, Path: p.Path, State: store.RestoreState(p.State), Before: p.Before, Mode: uint32(p.Mode.Perm()), Reason: p.Reason,
		}
	}
	number := j.ordinal(c.Path)
	err = j.d.store.PutWriteIntent(ctx, j.d.lease, point, store.WriteIntent{
		Step: j.step, CallIndex: j.call.index, Ordinal: number, Tool: j.call.name, Path: c.Path,
		Added: c.LinesAdded, Removed: c.LinesRemoved, Hunk: hunk, After: after, Known: known, Facts: raw,
	})
	if err == nil {
		delete(j.points, c.Path)
		j.number[c.Path] = number
		j.n++
	}
	return err
}

// Abandon takes back a change that was announced and could not be made.
func (j *journal) Abandon(ctx context.Context, c workspace.Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.n--
	if err := j.d.store.DropWriteIntent(ctx, j.d.lease, j.step, j.call.index, j.number[c.Path]); err != nil {
		j.d.log.Error("a change that did not happen stays recorded", "run", j.d.runID(), "path", c.Path, "error", err)
	}
}

// Wrote has nothing to add: the intent is the record of the edit.
func (j *journal) Wrote(context.Context, workspace.Edit) error { return nil }

// Recall answers from what this very call did before a crash: the next change of
// it, if that is to the same file, and the file is as it or a later change of the
// step left it. A later change was announced only after this
// one had been made.
func (j *journal) Recall(path, now string) (workspace.Change, bool, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sort()
	if j.n >= len(j.own) || j.own[j.n].Path != path {
		return workspace.Change{}, false, false
	}
	p := j.own[j.n]
	made, err := factsOf(p)
	if err != nil || p.After != now && !j.followed(made, path, now) {
		return workspace.Change{}, false, false
	}
	j.n++
	made.Temp = ""
	return made.Change, p.Known, true
}

// followed reports whether a change of the same file that was announced behind
// made has left it as it is now.
func (j *journal) followed(made announced, path, now string) bool {
	for _, w := range j.d.writes {
		if w.Step != j.step || w.Path != path || w.After != now {
			continue
		}
		if later, err := factsOf(w); err == nil && made.before(later) {
			return true
		}
	}
	return false
}

// discardLeftovers removes the files in which changes were made ready that a
// crash cut short.
func (d *drive) discardLeftovers() {
	for _, w := range d.writes {
		facts, err := factsOf(w)
		if err == nil && facts.Temp != "" {
			err = d.workspace.Discard(w.Path, facts.Temp)
		}
		if err != nil {
			d.log.Warn("what a change left behind that was cut short stays", "run", d.runID(), "path", w.Path, "error", err)
		}
	}
}

// workspaceFor is the run's workspace as one call sees it. All calls share what
// the run knows of files.
func (d *drive) workspaceFor(st *step, c *call) *workspace.Workspace {
	if c.journal == nil {
		c.journal = &journal{d: d, step: st.n, call: c}
		for _, w := range d.writes {
			if w.Step == st.n && w.CallIndex == c.index {
				c.journal.past = append(c.journal.past, w)
			}
		}
	}
	return d.workspace.WithTool(c.name).ForCall(c.journal)
}
