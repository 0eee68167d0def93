package workspace

import (
	"context"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/initorigin/io-harness-go/policy"
)

// Limits of a search.
const (
	MaxGrepHits  = 10_000  // scanning stops there
	MaxGrepFile  = 8 << 20 // bytes; larger files are skipped and counted
	MaxMatchText = 500     // characters that are shown of one line
)

// skipped are the directories that a search does not enter, at any depth: what
// is in them is made, not written. A listing names them.
var skipped = []string{".git", "target", "node_modules"}

// Found is the answer of a search for files.
type Found struct {
	Paths []string // sorted bytewise
	Total int
}

// Find lists the files whose base name or whole relative path fits glob, as the
// globs of [Workspace.Grep] do, over the same files. At most limit are returned
// and all are counted.
func (w *Workspace) Find(ctx context.Context, glob string, limit int) (Found, error) {
	paths, err := w.files(ctx, func(p string) bool {
		return matchGlob(glob, p) || matchGlob(glob, path.Base(p))
	})
	if err != nil {
		return Found{}, err
	}
	return Found{Paths: paths[:min(limit, len(paths))], Total: len(paths)}, nil
}

// files are the regular files below the root that may be read and that want
// takes, sorted. No directory is held open while another is read, so depth costs
// no descriptors.
func (w *Workspace) files(ctx context.Context, want func(string) bool) ([]string, error) {
	if w.dir.isClosed() {
		return nil, ErrClosed
	}
	var out []string
	todo := []string{""}
	for len(todo) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		entries, err := w.entries(dir)
		if err != nil {
			continue // gone, or not ours to read
		}
		for _, e := range entries {
			p := join(dir, e.Name())
			switch {
			case e.IsDir():
				if !slices.Contains(skipped, e.Name()) {
					todo = append(todo, p)
				}
			case e.Type().IsRegular() && want(p):
				if w.decide(policy.Read, p).Effect != policy.Deny {
					out = append(out, p)
				}
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// Denied lists what exists below the root and is denied act, as absolute paths:
// files, and directories that a rule denies with everything in them, which then
// stand for it. It is what must be hidden from a command as well.
func (w *Workspace) Denied(ctx context.Context, act policy.Act) ([]string, error) {
	if w.dir.isClosed() {
		return nil, ErrClosed
	}
	var out []string
	todo := []string{""}
	for len(todo) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		entries, err := w.entries(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			p := join(dir, e.Name())
			switch v := w.decide(act, p); {
			case e.Type()&fs.ModeSymlink != 0: // what it leads to is judged by its own name
			case v.Effect == policy.Deny && (v.Matched || !e.IsDir()):
				out = append(out, filepath.Join(w.dir.path, filepath.FromSlash(p)))
			case e.IsDir():
				todo = append(todo, p)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

func (w *Workspace) entries(dir string) ([]fs.DirEntry, error) {
	f, err := w.dir.openList(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if len(entries) > 0 {
		err = nil // what could be read counts
	}
	return entries, err
}
