package workspace

import (
	"context"
	"io/fs"
)

// Journal is told of every write of one run. It is called with the lock of the
// path held, so calls for one path never overlap; calls for different paths may.
type Journal interface {
	// Before is called before this workspace first changes a path: it must have
	// made p durable when it returns, since the change follows (a Recaller has time
	// until Intend returns). An error refuses the write, and the path is reported
	// again with the next one. After a resume the path is reported again, with what is there
	// then: the journal keeps the first restore point of a run and path.
	Before(ctx context.Context, p RestorePoint) error
	// Wrote is called after a change. An error is told to the caller of the
	// write ([Change].Unrecorded); the change stands.
	Wrote(ctx context.Context, e Edit) error
}

// State says what a restore point holds. Its value is the stored text.
type State string

// The states. A path whose content could not be kept is never taken for one
// that was absent, because undoing that would delete it.
const (
	StateText   State = "text"   // the content, byte for byte
	StateAbsent State = "absent" // there was nothing
	StateUnkept State = "unkept" // there was something, and Reason says why it is not here
)

// RestorePoint is a path as it was before a run first changed it.
type RestorePoint struct {
	Path   string // canonical: links resolved, relative to the root
	State  State
	Before []byte      // set for StateText
	Mode   fs.FileMode // permission bits; zero when there was nothing
	Reason string      // set for StateUnkept
}

// Edit is one change, as it is recorded.
type Edit struct {
	Path string // canonical: links resolved, relative to the root
	Tool string // who made it; empty when the embedding program did
	Wrote
	// LinesAdded and LinesRemoved count whole lines, of the file for a write or
	// a patch, of the replaced fragment for an edit.
	LinesAdded, LinesRemoved int
	// Hunk is the change of the whole file as one hunk of a unified diff. It is
	// nil when nothing changed, when one side is not text, when the encoding
	// changed, or when it is over MaxKept.
	Hunk *string
}

// Wrote says what a write did to a path. Its value is the stored text.
type Wrote string

// What a write can do.
const (
	Created   Wrote = "created"
	Changed   Wrote = "changed"
	Unchanged Wrote = "unchanged" // the bytes were the same
	Removed   Wrote = "removed"
)

// Moved reports whether the workspace is different afterwards.
func (w Wrote) Moved() bool { return w != Unchanged && w != "" }
