package harness

import (
	"context"

	"github.com/initorigin/io-harness-go/internal/loop"
	"github.com/initorigin/io-harness-go/trace"
)

// Undo says what of a run Rewind takes back. UndoFile, UndoStep,
// UndoFrom and UndoRun make one.
type Undo struct{ what loop.Undo }

// UndoFile puts one file back to what it was before the run first wrote it. path
// is relative to the run's directory.
func UndoFile(path string) Undo { return Undo{loop.Undo{Path: path}} }

// UndoStep takes the changes of one step back, the last first: all changes of a
// file or none, and only where the file still is as the step left it.
func UndoStep(n int) Undo { return Undo{loop.Undo{Step: n}} }

// UndoFrom takes the changes of step n and of every later one back, in the way of
// UndoStep. Beside a Fork of the step before n it gives the new run the files that
// belong to it.
func UndoFrom(n int) Undo { return Undo{loop.Undo{From: n}} }

// UndoRun takes the whole run back: its files, its notes and its waiting
// children.
func UndoRun() Undo { return Undo{loop.Undo{All: true}} }

// Rewind takes back what a run did to its directory, under the policy that the
// run was last driven under. What cannot be taken back is an item of the result
// that says why, and does not keep the rest from it. Commits, network calls and
// whatever else lies outside of the directory stay, and so does the trace: it
// tells what happened, and the rewind is a record of its own.
//
// A run that is being driven is a *store.ConflictError, and so is undoing it
// while a resume drives it. An archived run is refused whole with
// store.ErrArchived: what its files were before it is gone. A step that the run
// never came to is a *task.InvalidError.
func (h *Harness) Rewind(ctx context.Context, id trace.RunID, what Undo) (*trace.Rewound, error) {
	return loop.Rewind(ctx, h.host, id, what.what)
}
