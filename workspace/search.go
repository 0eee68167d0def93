package workspace

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

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

// Match is one line that a search found.
type Match struct {
	Path string
	Line int // 1-based
	// Text is the line without its ending, at most MaxMatchText characters of it:
	// those around the match, with "…" where something is left out.
	Text string
}

// Matches is the answer of a search for text.
type Matches struct {
	Hits     []Match // by path, then by line
	Total    int     // lines that match; at most MaxGrepHits
	Stopped  bool    // MaxGrepHits was reached, so there may be more
	TooLarge int     // files over MaxGrepFile, which were not searched
}

// Grep searches the text files of the workspace, line by line, for a regular
// expression in the syntax of package regexp. glob, unless empty, limits the
// files: it is matched against the whole relative path, "*" also matching "/".
// At most limit matches are returned and all are counted.
//
// Links, the directories .git, target and node_modules, files that are not
// UTF-8, and files that the policy denies reading contribute nothing.
func (w *Workspace) Grep(ctx context.Context, pattern, glob string, limit int) (Matches, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return Matches{}, &PatternError{Pattern: pattern, Err: errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: "))}
	}
	paths, err := w.files(ctx, func(p string) bool { return glob == "" || matchGlob(glob, p) })
	if err != nil {
		return Matches{}, err
	}
	var all Matches
	// Files are searched a window at a time, so that the answer is the same as
	// one after the other would give, including where it stops.
	workers := min(runtime.GOMAXPROCS(0), 8)
	window := workers * 16
	for len(paths) > 0 && !all.Stopped {
		batch := paths[:min(window, len(paths))]
		paths = paths[len(batch):]
		found := make([]fileMatches, len(batch))
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(workers)
		for i, p := range batch {
			g.Go(func() error {
				if err := gctx.Err(); err != nil {
					return err
				}
				found[i] = w.grepFile(gctx, re, p, limit)
				return nil
			})
		}
		if err := g.Wait(); err != nil || ctx.Err() != nil {
			return Matches{}, context.Cause(ctx)
		}
		for _, f := range found {
			all.add(f, limit)
		}
	}
	return all, nil
}

func (m *Matches) add(f fileMatches, limit int) {
	if f.tooLarge {
		m.TooLarge++
	}
	n := min(f.total, MaxGrepHits-m.Total)
	m.Stopped = m.Stopped || m.Total+f.total >= MaxGrepHits
	m.Total += n
	m.Hits = append(m.Hits, f.hits[:min(len(f.hits), max(limit-len(m.Hits), 0), n)]...)
}

type fileMatches struct {
	hits     []Match
	total    int
	tooLarge bool
}

func (w *Workspace) grepFile(ctx context.Context, re *regexp.Regexp, p string, limit int) (m fileMatches) {
	f, info, err := w.dir.openFile(p)
	if err != nil {
		return m
	}
	defer f.Close()
	if info.Size() > MaxGrepFile {
		m.tooLarge = true
		return m
	}
	data, err := readAll(ctx, p, f, info.Size())
	if err != nil {
		return m
	}
	data = bytes.TrimPrefix(data, markUTF8)
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return m
	}
	// Every match of the expression begins with this text, if it has one, so lines
	// without it need not be looked at.
	prefix, _ := re.LiteralPrefix()
	line := 1
	for len(data) > 0 && m.total < MaxGrepHits && ctx.Err() == nil {
		if prefix != "" {
			i := bytes.Index(data, []byte(prefix))
			if i < 0 {
				break
			}
			start := bytes.LastIndexByte(data[:i], '\n') + 1
			line += bytes.Count(data[:start], []byte{'\n'})
			data = data[start:]
		}
		this := data
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			this, data = data[:i], data[i+1:]
		} else {
			data = nil
		}
		if at := re.FindIndex(this); at != nil {
			m.total++
			if len(m.hits) < limit {
				m.hits = append(m.hits, Match{Path: p, Line: line, Text: around(this, at[0])})
			}
		}
		line++
	}
	return m
}

// around is a line cut to MaxMatchText characters, such that the byte at is in.
func around(line []byte, at int) string {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	if len(line) <= MaxMatchText || utf8.RuneCount(line) <= MaxMatchText {
		return string(line)
	}
	from := 0
	if utf8.RuneCount(line[:min(at, len(line))]) > MaxMatchText/2 {
		from = min(at, len(line))
		for range MaxMatchText / 4 {
			_, n := utf8.DecodeLastRune(line[:from])
			from -= n
		}
	}
	to := from
	for range MaxMatchText {
		_, n := utf8.DecodeRune(line[to:])
		to += n
	}
	s := string(line[from:to])
	if from > 0 {
		s = "…" + s
	}
	if to < len(line) {
		s += "…"
	}
	return s
}

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
