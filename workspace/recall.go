package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Recaller is implemented by a Journal that outlives its process. It is told of
// every change before it is made, and can say that the very same call has made
// it already: after a crash between a change and the record that the call is
// done, the call is made again and must neither fail nor change the file twice.
type Recaller interface {
	Journal
	// Intend is called after Before and before a file is changed, and must have
	// made c, and the restore point that Before brought, durable when it returns. after names the bytes of the file as they
	// will be, empty when it will be gone; known says whether the run then knows
	// them all. An error refuses the change.
	Intend(ctx context.Context, c Change, after string, known bool) error
	// Abandon is called when an intended change could not be made.
	Abandon(ctx context.Context, c Change)
	// Recall returns the change that this call has made to path, when the file
	// is now as that change left it, or as one left it that the run made later.
	// now names its bytes, empty when it is gone.
	Recall(path, now string) (c Change, known, ok bool)
}

// recall finds out whether the change that is about to be made was made before
// a crash.
func (w *Workspace) recall(t *target) (Change, bool) {
	r, ok := w.journal.(Recaller)
	if !ok || t.exists && t.data == nil {
		return Change{}, false
	}
	now := ""
	if t.exists {
		now = digestOf(t.data)
	}
	c, known, ok := r.Recall(t.real, now)
	if !ok {
		return Change{}, false
	}
	switch {
	case !t.exists:
		w.memory.sawAbsent(w.dir.key(t.real))
	case known:
		w.memory.saw(w.dir.key(t.real), t.data)
	}
	w.memory.keep(w.dir.key(t.real))
	return c, true
}

// intend announces a change that follows at once; made must be called with its
// end.
func (w *Workspace) intend(ctx context.Context, t *target, data []byte, c *Change, known bool) (made func(error), err error) {
	c.Path, c.Tool = t.real, w.tool
	r, ok := w.journal.(Recaller)
	if !ok {
		w.memory.keep(w.dir.key(t.real))
		return func(error) {}, nil
	}
	after := ""
	if data != nil {
		after = digestOf(data)
	}
	if err := r.Intend(ctx, *c, after, known); err != nil {
		return nil, err
	}
	w.memory.keep(w.dir.key(t.real))
	return func(err error) {
		if err != nil {
			r.Abandon(context.WithoutCancel(ctx), *c)
		}
	}, nil
}

// The names of files in which new content is made ready.
const (
	tempPrefix = ".io-harness-"
	tempSuffix = ".tmp"
)

// Discard removes what a change of path that a crash cut short may have left
// beside it: the file temp, as the change was announced with it. Nothing there is
// no error, and neither is a directory that is gone.
func (w *Workspace) Discard(path, temp string) error {
	if !strings.HasPrefix(temp, tempPrefix) || !strings.HasSuffix(temp, tempSuffix) || strings.ContainsAny(temp, `/\`) {
		return fmt.Errorf("discard %q: that is not the name of a file of a change", temp)
	}
	real, err := w.enterWrite(path)
	if err != nil {
		return err
	}
	dir, _ := split(real)
	parent, err := w.dir.openDir(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := parent.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failure("discard", temp, err)
	}
	return nil
}

// Knows tells a workspace what its run knew of a file before a crash: the bytes
// that digest names. Without it a resumed run would take every file for unread.
func (w *Workspace) Knows(path, digest string) {
	var sum [sha256.Size]byte
	if n, err := hex.Decode(sum[:], []byte(digest)); err != nil || n != len(sum) {
		return
	}
	w.memory.set(w.dir.key(path), knowledge{sum: sum})
}
