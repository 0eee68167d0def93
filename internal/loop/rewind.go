package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/workspace"
)

// Undo says what of a run is to be taken back: exactly one of its fields is set.
type Undo struct {
	Path string
	Step int
	From int // this step and every later one
	All  bool
}

// Rewind takes back what a run did to its workspace, under the policy that the
// run was last driven under: putting a file back needs that writing it is not
// denied, removing one that it is allowed outright. Something that cannot be
// taken back is reported and does not keep the rest from it. Effects outside of
// the workspace are not undone, and the trace stays as it was.
//
// A run that is being driven is a *store.ConflictError, one that was archived
// matches store.ErrArchived, and a step that the run never came to is a
// *task.InvalidError.
func Rewind(ctx context.Context, h Host, id trace.RunID, what Undo) (*trace.Rewound, error) {
	h = h.withDefaults()
	if what.Step < 0 || what.From < 0 || what == (Undo{}) {
		return nil, &task.InvalidError{Field: "Undo", Reason: "names nothing: say UndoFile with a path, UndoStep or UndoFrom with a step from 1 on, or UndoRun"}
	}
	info, err := h.Store.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := knownStep(ctx, h.Store, info, max(what.Step, what.From)); err != nil {
		return nil, err
	}
	pol := h.Policy
	raw, err := h.Store.RunPolicy(ctx, id)
	if err != nil {
		return nil, err
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &pol); err != nil {
			return nil, &store.ResumeError{RunID: id, Reason: store.UnreadablePolicy, Detail: err.Error()}
		}
	}
	ws, err := workspace.Open(info.Root, pol)
	if err != nil {
		return nil, err
	}
	defer ws.Close()
	row, err := h.Store.BeginRewind(ctx, id, what.Step)
	if err != nil {
		return nil, err
	}
	r := &rewind{store: h.Store, ws: ws, row: row, out: &trace.Rewound{RunID: id, Step: what.Step}}
	err = r.run(ctx, what)
	if derr := row.Done(ctx, err == nil); err == nil {
		err = derr
	}
	if err != nil {
		return r.out, err
	}
	watch := trace.NewWatch(h.Observer, h.Log)
	if what.Step > 0 {
		watch.Emit(trace.Event{RunID: id, Step: info.LastStep, Depth: info.Depth, Fact: trace.StepReverted{UndidStep: what.Step, Files: undone(r.out.Files)}})
	} else {
		watch.Emit(trace.Event{RunID: id, Step: info.LastStep, Depth: info.Depth, Fact: trace.RunRewound{
			Files: undone(r.out.Files), Memory: undone(r.out.Memory), Queued: len(r.out.Queued),
		}})
	}
	return r.out, nil
}

// knownStep refuses a step that the run never came to. One that died before its
// commit has edits all the same, and a run that is driven may come to it yet.
func knownStep(ctx context.Context, st *store.Store, info store.RunInfo, step int) error {
	if step <= info.LastStep {
		return nil
	}
	for e, err := range st.Edits(ctx, info.ID) {
		if err != nil {
			return err
		}
		if e.Step >= step {
			return nil
		}
	}
	if driven, err := st.LeaseOf(ctx, info.ID); err != nil || driven != nil {
		return err
	}
	return &task.InvalidError{Field: "Undo", Reason: fmt.Sprintf("run %d has no step %d: its last one is %d", info.ID, step, info.LastStep)}
}

func undone(items []trace.RewoundItem) int {
	n := 0
	for _, i := range items {
		switch i.Verdict {
		case trace.Restored, trace.Removed, trace.Applied:
			n++
		}
	}
	return n
}

// rewind is one rewind in progress. Each item is recorded as it happens.
type rewind struct {
	store *store.Store
	ws    *workspace.Workspace
	row   *store.Rewinding
	out   *trace.Rewound
	stand map[string][]int64 // by path: the edits that a file's restore point takes back
}

func (r *rewind) run(ctx context.Context, what Undo) error {
	switch {
	case what.Step > 0:
		return r.steps(ctx, what.Step, what.Step)
	case what.From > 0:
		return r.steps(ctx, what.From, math.MaxInt)
	case what.Path != "":
		return r.path(ctx, what.Path)
	}
	return r.all(ctx)
}

func (r *rewind) add(ctx context.Context, i trace.RewoundItem, edits ...int64) error {
	r.out.Files = append(r.out.Files, i)
	// What was done is recorded also when ctx ended meanwhile: a change that does not
	// read as taken back would be taken back a second time.
	return r.row.Add(context.WithoutCancel(ctx), store.RewindItem{Kind: store.RewindFile, Name: i.Name, Verdict: string(i.Verdict), Detail: i.Detail}, edits...)
}

// all takes back the whole run: its waiting children, its files in the order of
// their first write, and what it noted.
func (r *rewind) all(ctx context.Context) error {
	points, err := r.store.RestorePoints(ctx, r.row.RunID)
	if err != nil {
		return err
	}
	if err := r.standing(ctx); err != nil {
		return err
	}
	queued, err := r.row.Queue(ctx)
	if err != nil {
		return err
	}
	r.out.Queued = items(queued)
	for _, p := range points {
		if err := r.file(ctx, p); err != nil {
			return err
		}
	}
	memory, err := r.row.Memory(ctx)
	r.out.Memory = items(memory)
	return err
}

func items(from []store.RewindItem) []trace.RewoundItem {
	var out []trace.RewoundItem
	for _, i := range from {
		v := trace.Undone(i.Verdict)
		if i.Verdict == "absent" {
			v = trace.Removed
		}
		out = append(out, trace.RewoundItem{Name: i.Name, Verdict: v, Changed: i.Verdict != "absent", Detail: i.Detail})
	}
	return out
}

// path takes one file back. It is looked for as it is spelt, since a link may stand
// in its place by now, and then as what the name leads to.
func (r *rewind) path(ctx context.Context, path string) error {
	spelt, err := r.ws.Resolve(path)
	if err != nil {
		return err
	}
	p, err := r.store.RestorePointOf(ctx, r.row.RunID, spelt)
	if errors.Is(err, store.ErrNotFound) {
		var real string
		if real, err = r.ws.Canonical(path); err != nil {
			return err
		}
		p, err = r.store.RestorePointOf(ctx, r.row.RunID, real)
		if errors.Is(err, store.ErrNotFound) {
			return r.add(ctx, trace.RewoundItem{Name: real, Verdict: trace.NotRecorded, Detail: "the run never wrote it"})
		}
	}
	if err != nil {
		return err
	}
	if err := r.standing(ctx); err != nil {
		return err
	}
	return r.file(ctx, p)
}

// standing finds the edits of each file that no earlier rewind took back.
func (r *rewind) standing(ctx context.Context) error {
	r.stand = map[string][]int64{}
	for e, err := range r.store.Edits(ctx, r.row.RunID) {
		if err != nil {
			return err
		}
		if e.Reverted == 0 {
			r.stand[e.Path] = append(r.stand[e.Path], e.ID)
		}
	}
	return nil
}

// file puts one file back to what it was before the run first wrote it.
func (r *rewind) file(ctx context.Context, p store.RestorePoint) error {
	i := trace.RewoundItem{Name: p.Path}
	if stale := r.replacedByLink(p.Path); stale != nil {
		return r.add(ctx, *stale)
	}
	var c workspace.Change
	var err error
	switch p.State {
	case store.KeptText:
		i.Verdict = trace.Restored
		c, err = r.ws.Restore(ctx, p.Path, p.Before, fs.FileMode(p.Mode))
		i.Changed = c.Moved()
	case store.KeptAbsent:
		i.Verdict, i.Changed = trace.Removed, true
		if err = r.ws.Remove(ctx, p.Path); errors.Is(err, fs.ErrNotExist) {
			i.Changed, err = false, nil
		}
	case store.KeptArchived:
		i.Verdict, i.Detail = trace.NotKept, "what it was has been archived"
	default:
		i.Verdict, i.Detail = trace.NotKept, p.Reason
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		i = failedItem(p.Path, err)
	}
	if i.Verdict == trace.Restored || i.Verdict == trace.Removed {
		return r.add(ctx, i, r.stand[p.Path]...)
	}
	return r.add(ctx, i)
}

// failedItem is what a file's error makes of its verdict.
func failedItem(path string, err error) trace.RewoundItem {
	i := trace.RewoundItem{Name: path, Verdict: trace.UndoFailed, Detail: err.Error()}
	var patch *workspace.PatchError
	switch {
	case errors.Is(err, policy.ErrRefused):
		i.Verdict = trace.UndoRefused
	case errors.As(err, &patch):
		i.Verdict = trace.Stale
	case errors.Is(err, workspace.ErrStale):
		i.Verdict, i.Detail = trace.Stale, "it is not what the step left"
	}
	return i
}

// steps takes the changes of the steps between from and to back, the last change
// first, file by file: all of these changes of a file or none.
func (r *rewind) steps(ctx context.Context, from, to int) error {
	edits, err := store.Collect(r.store.Edits(ctx, r.row.RunID))
	if err != nil {
		return err
	}
	byPath := map[string][]store.Edit{}
	newest := map[string]string{} // by path: what the last change that stands has left
	var order []string
	for _, e := range edits {
		if e.Reverted == 0 {
			newest[e.Path] = e.After
		}
		if e.Step < from || e.Step > to || e.Reverted != 0 {
			continue
		}
		if byPath[e.Path] == nil {
			order = append(order, e.Path)
		}
		byPath[e.Path] = append(byPath[e.Path], e)
	}
	slices.Reverse(order)
	for _, path := range order {
		if err := r.revert(ctx, path, newest[path], byPath[path]); err != nil {
			return err
		}
	}
	return nil
}

// replacedByLink is the verdict on a path that was a file of its own when the run
// wrote it and leads elsewhere now: what it leads to is none of the run's. Nil
// means that there is no link on it.
func (r *rewind) replacedByLink(path string) *trace.RewoundItem {
	if real, err := r.ws.Canonical(path); err != nil || real == path {
		return nil // an error is told by the act itself
	}
	return &trace.RewoundItem{Name: path, Verdict: trace.Stale, Detail: "a link stands in its place or on the way to it now"}
}

// revert takes changes of one file back, which are given the oldest first. newest is
// what the file was, by its digest, when the run had last changed it: an undo that
// died before its record has taken back what leads to that again.
func (r *rewind) revert(ctx context.Context, path, newest string, edits []store.Edit) error {
	if stale := r.replacedByLink(path); stale != nil {
		return r.add(ctx, *stale)
	}
	var ids []int64
	for _, e := range edits {
		ids = append(ids, e.ID)
	}
	way, err := wayBack(edits)
	if err != nil {
		return r.add(ctx, failedItem(path, err))
	}
	i := trace.RewoundItem{Name: path, Verdict: trace.Applied}
	switch {
	case way.lost:
		return r.add(ctx, trace.RewoundItem{Name: path, Verdict: trace.NoHunk, Detail: "the change was not kept as text"})
	case way.made:
		// One operation that asks before it touches anything: a file that was
		// emptied first could neither be removed nor brought back.
		err = r.ws.RemoveIf(ctx, path, way.after)
		i.Changed = err == nil
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	case len(way.hunks) > 0:
		var c workspace.Change
		c, err = r.ws.RevertAll(ctx, path, newest, way.hunks...)
		i.Changed = c.Moved()
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return r.add(ctx, failedItem(path, err))
	}
	return r.add(ctx, i, ids...)
}

// way is how changes of one file are taken back together.
type way struct {
	made  bool     // nothing was there before the first of them: the file goes
	after string   // what the last of them left, by its digest
	hunks []string // the last change first
	lost  bool     // what was there is not known any more
}

// wayBack reads it from the changes, the oldest first. What a change did is told
// by what it was announced with and never by its counts: a file of no lines was
// made all the same, and a binary that was replaced has no lines to count.
func wayBack(edits []store.Edit) (w way, err error) {
	first := true
	for _, e := range edits {
		did := workspace.Changed
		if e.Facts != nil {
			var facts announced
			if facts, err = factsOf(store.WriteIntent{Step: e.Step, Path: e.Path, Facts: e.Facts}); err != nil {
				return w, err
			}
			did = facts.Wrote
		}
		w.after = e.After
		if did == workspace.Unchanged {
			continue
		}
		if first {
			w.made = did == workspace.Created
		}
		first = false
		if e.Hunk == "" {
			w.lost = true
			continue
		}
		w.hunks = append(w.hunks, e.Hunk)
	}
	slices.Reverse(w.hunks)
	w.lost = w.lost && !w.made
	return w, nil
}
