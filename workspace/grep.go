package workspace

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"regexp/syntax"
	"runtime"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
)

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

// maxPattern bounds a pattern, since a compiled one takes some hundred bytes of
// memory for each of its own.
const maxPattern = 10_000

var errPatternTooLong = errors.New("it has more than 10,000 bytes")

// Grep searches the text files of the workspace, line by line, for a regular
// expression in the syntax of package regexp. glob, unless empty, limits the
// files: it is matched against the whole relative path, "*" also matching "/".
// At most limit matches are returned and all are counted. A pattern of more than
// 10,000 bytes is a *PatternError.
//
// Links, the directories .git, target and node_modules, files that are not
// UTF-8, and files that the policy denies reading contribute nothing.
func (w *Workspace) Grep(ctx context.Context, pattern, glob string, limit int) (Matches, error) {
	if len(pattern) > maxPattern {
		return Matches{}, &PatternError{Pattern: pattern, Err: errPatternTooLong}
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return Matches{}, &PatternError{Pattern: pattern, Err: errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: "))}
	}
	paths, err := w.files(ctx, func(p string) bool { return glob == "" || matchGlob(glob, p) })
	if err != nil {
		return Matches{}, err
	}
	needle := []byte(mandatory(pattern))
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
				found[i] = w.grepFile(gctx, re, needle, p, limit)
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

// grepFile searches one file. Every line that matches has needle in it, so that
// lines without it need not be given to the expression.
func (w *Workspace) grepFile(ctx context.Context, re *regexp.Regexp, needle []byte, p string, limit int) (m fileMatches) {
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
	if len(needle) > 0 && !bytes.Contains(data, needle) {
		return m // the usual case, before anything that looks at every byte
	}
	data = bytes.TrimPrefix(data, markUTF8)
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return m
	}
	line := 1
	for len(data) > 0 && m.total < MaxGrepHits && ctx.Err() == nil {
		if len(needle) > 0 {
			i := bytes.Index(data, needle)
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

// mandatory is the longest text that stands in every match of the pattern, as far
// as that can be told by looking at its outermost concatenation; it may be empty.
func mandatory(pattern string) string {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	return mandatoryIn(parsed)
}

func mandatoryIn(re *syntax.Regexp) string {
	switch {
	case re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase == 0:
		return string(re.Rune)
	case re.Op == syntax.OpCapture, re.Op == syntax.OpPlus, re.Op == syntax.OpRepeat && re.Min > 0:
		return mandatoryIn(re.Sub[0])
	case re.Op == syntax.OpConcat:
		longest := ""
		for _, sub := range re.Sub {
			if s := mandatoryIn(sub); len(s) > len(longest) {
				longest = s
			}
		}
		return longest
	}
	return ""
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
