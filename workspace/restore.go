package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Restore makes a file what a restore point kept of it: its bytes and its mode.
// It needs what a write needs.
func (w *Workspace) Restore(ctx context.Context, rel string, data []byte, mode fs.FileMode) (Change, error) {
	c, err := w.WriteBytes(ctx, rel, data)
	if err != nil || mode == 0 {
		return c, err
	}
	real, err := w.enterWrite(rel)
	if err != nil {
		return c, err
	}
	dir, name := split(real)
	parent, err := w.dir.openDir(dir, false)
	if err != nil {
		return c, err
	}
	defer parent.Close()
	if err := parent.Chmod(name, mode.Perm()); err != nil {
		return c, failure("set the mode of", rel, err)
	}
	return c, nil
}

// RevertAll takes recorded hunks of one file back, the first of the list first,
// all of them or none. Each must match the file exactly as it stands then. The
// error is a *PatchError when later changes are in the way.
//
// after is the digest of the file before anything was taken back, or empty. A file
// that would have it again with the hunks, the last of the list first, is one of
// which they were taken back already: it stays as it is.
func (w *Workspace) RevertAll(ctx context.Context, rel, after string, recorded ...string) (Change, error) {
	made := make([][]hunk, len(recorded))
	back := make([][]hunk, len(recorded))
	for i, r := range recorded {
		hunks, err := parsePatch(r)
		if err != nil {
			return Change{}, fmt.Errorf("hunk %d of %s: %w", i+1, rel, err)
		}
		made[len(made)-1-i], back[i] = hunks, reverseHunks(hunks)
	}
	c, err := w.rewrite(ctx, rel, Change{}, func(old Content) (string, error) {
		// Lines that repeat fit in more than one place, so this is looked at first.
		if after != "" && !old.Missing && digestOf(encode(old.Text, old.Encoding)) != after {
			text, err := inTurn(rel, old.Text, made)
			if err == nil && digestOf(encode(text, old.Encoding)) == after {
				return "", errTakenBack
			}
		}
		return inTurn(rel, old.Text, back)
	})
	if err == errTakenBack {
		return Change{Edit: Edit{Path: rel, Wrote: Unchanged}, Unread: -1}, nil
	}
	return c, err
}

// errTakenBack ends a rewrite that has nothing to do.
var errTakenBack = errors.New("it was taken back before")

// inTurn applies patches one after the other.
func inTurn(rel, text string, patches [][]hunk) (string, error) {
	for _, hunks := range patches {
		var err error
		if text, err = applied(rel, text, hunks); err != nil {
			return "", err
		}
	}
	return text, nil
}
