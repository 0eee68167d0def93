package workspace

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/initorigin/io-harness-go/policy"
)

// EntryKind is what a name in a directory stands for.
type EntryKind string

// The kinds of entry. A link is a link, whatever it points to.
const (
	EntryFile  EntryKind = "file"
	EntryDir   EntryKind = "dir"
	EntryLink  EntryKind = "link"
	EntryOther EntryKind = "special" // a named pipe, socket or device
)

// Entry is one name in a directory.
type Entry struct {
	Path string // relative to the root
	Kind EntryKind
	Size int64 // of a file; -1 when unknown
}

// Listing is the content of one directory.
type Listing struct {
	Entries []Entry // sorted bytewise by path
	Total   int
}

// ListDir lists one level of the directory rel, hidden names included. Names
// that the policy denies reading are left out and not counted, and so are links
// that lead to such a name or out of the root. At most limit are returned.
func (w *Workspace) ListDir(ctx context.Context, rel string, limit int) (Listing, error) {
	real, err := w.enter(policy.Read, rel)
	if err != nil {
		return Listing{}, err
	}
	dir, err := w.dir.openDir(real, false)
	if err != nil {
		return Listing{}, err
	}
	defer dir.Close()
	f, err := dir.Open(".")
	if err != nil {
		return Listing{}, openFailure(real, err)
	}
	names, err := f.Readdirnames(-1)
	f.Close()
	if err != nil && len(names) == 0 {
		return Listing{}, failure("list", rel, err)
	}
	slices.Sort(names)
	clean, _ := w.Resolve(rel)
	var l Listing
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return Listing{}, context.Cause(ctx)
		}
		shown := join(clean, name)
		if v := w.CheckPath(policy.Read, shown); v.Effect == policy.Deny {
			continue
		}
		info, err := dir.Lstat(filepath.FromSlash(name))
		if err != nil {
			continue
		}
		l.Total++
		if len(l.Entries) < limit {
			l.Entries = append(l.Entries, entryOf(shown, info))
		}
	}
	return l, nil
}

// Stat says what the path rel is, its last part not followed if it is a link. A
// missing path matches fs.ErrNotExist.
func (w *Workspace) Stat(rel string) (Entry, error) {
	if _, err := w.enter(policy.Read, rel); err != nil {
		return Entry{}, err
	}
	clean, err := w.Resolve(rel)
	if err != nil {
		return Entry{}, err
	}
	parent, name := split(clean)
	if name == "" {
		return Entry{Kind: EntryDir, Size: -1}, nil
	}
	real, _, err := w.dir.follow(parent)
	if err != nil {
		return Entry{}, err
	}
	info, err := w.dir.root.Lstat(filepath.FromSlash(join(real, name)))
	if err != nil {
		return Entry{}, openFailure(rel, err)
	}
	return entryOf(clean, info), nil
}

func entryOf(p string, info fs.FileInfo) Entry {
	switch m := info.Mode(); {
	case m.IsRegular():
		return Entry{Path: p, Kind: EntryFile, Size: info.Size()}
	case m.IsDir():
		return Entry{Path: p, Kind: EntryDir, Size: -1}
	case m&fs.ModeSymlink != 0:
		return Entry{Path: p, Kind: EntryLink, Size: -1}
	}
	return Entry{Path: p, Kind: EntryOther, Size: -1}
}
