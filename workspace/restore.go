package workspace

import (
	"context"
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
func (w *Workspace) RevertAll(ctx context.Context, rel string, recorded ...string) (Change, error) {
	parsed := make([][]hunk, len(recorded))
	for i, r := range recorded {
		hunks, err := parsePatch(r)
		if err != nil {
			return Change{}, fmt.Errorf("hunk %d of %s: %w", i+1, rel, err)
		}
		parsed[i] = reverseHunks(hunks)
	}
	return w.rewrite(ctx, rel, Change{}, func(old Content) (string, error) {
		text := old.Text
		for _, hunks := range parsed {
			var err error
			if text, err = applied(rel, text, hunks); err != nil {
				return "", err
			}
		}
		return text, nil
	})
}
