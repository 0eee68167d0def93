package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"strings"

	"github.com/initorigin/io-harness-go/trace"
)

var readEdits = statement{"read edits", `SELECT id, step, tool, path, lines_added, lines_removed, coalesce(hunk, ''), coalesce(digest, ''), facts, coalesce(reverted_by, 0), at
	FROM edits WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?`}

// Edits yields every write of a file by a run's tools, in the order made.
func (s *Store) Edits(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[Edit, error] {
	return evidenceOf(ctx, s, readEdits, run, opts, scanEdit, func(e Edit) int64 { return e.ID })
}

func scanEdit(r scanner) (e Edit, err error) {
	var at int64
	var facts []byte
	err = r.Scan(&e.ID, &e.Step, &e.Tool, &e.Path, &e.Added, &e.Removed, &e.Hunk, &e.After, &facts, &e.Reverted, &at)
	e.Facts, e.At = facts, timeOf(at)
	return e, err
}

var readEditedPaths = statement{"read edited paths", `SELECT DISTINCT path FROM edits
	WHERE run_id = ? AND step <= ? AND reverted_by IS NULL ORDER BY path`}

// EditedPaths are the files that a run wrote up to and with a step, each once, in
// the order of their names. What was taken back again is left out.
func (s *Store) EditedPaths(ctx context.Context, run trace.RunID, through int) (paths []string, err error) {
	err = s.read(ctx, "edited paths", func(q *query) (err error) {
		paths, err = list(q, readEditedPaths, []any{run, through}, func(r scanner) (p string, err error) { return p, r.Scan(&p) })
		return err
	})
	return paths, err
}

// emptyDigest is what Edit.After says of a file that was left empty.
var emptyDigest = fmt.Sprintf("%x", sha256.Sum256(nil))

// Patch renders a run's edits as a series for patch or git apply, in the order
// made and never merged. An edit of which no text was kept is a comment line. The
// first text of a file that the run made is a patch that makes it, and an empty
// file that it made is one in git's own form, which has no hunk.
func (s *Store) Patch(ctx context.Context, run trace.RunID) (string, error) {
	points, err := s.RestorePoints(ctx, run)
	if err != nil {
		return "", err
	}
	absent := map[string]bool{} // at this place of the series
	for _, p := range points {
		absent[p.Path] = p.State == KeptAbsent
	}
	var b strings.Builder
	header := false // git's header came before, and would go on into the next patch without one
	for e, err := range s.Edits(ctx, run) {
		if err != nil {
			return "", err
		}
		if absent[e.Path] && e.Hunk == "" && e.After == emptyDigest {
			absent[e.Path] = false
			fmt.Fprintf(&b, "diff --git %s %s\nnew file mode 100644\nindex 0000000..e69de29\n", patchPath("a/"+e.Path), patchPath("b/"+e.Path))
			header = true
			continue
		}
		if e.Hunk == "" {
			fmt.Fprintf(&b, "# step %d: %s %s: +%d -%d, text not kept\n", e.Step, e.Tool, patchPath(e.Path), e.Added, e.Removed)
			continue
		}
		before := patchPath("a/" + e.Path)
		if absent[e.Path] && strings.HasPrefix(e.Hunk, "@@ -0,0 ") {
			before = "/dev/null"
		}
		absent[e.Path] = false
		if header {
			fmt.Fprintf(&b, "diff --git %s %s\n", patchPath("a/"+e.Path), patchPath("b/"+e.Path))
			if before == "/dev/null" {
				b.WriteString("new file mode 100644\n")
			}
			header = false
		}
		fmt.Fprintf(&b, "--- %s\n+++ %s\n%s", before, patchPath("b/"+e.Path), e.Hunk)
		if !strings.HasSuffix(e.Hunk, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String(), nil
}

// patchPath quotes a path as git does, so that a name cannot forge a line.
func patchPath(p string) string {
	if !strings.ContainsFunc(p, func(r rune) bool { return r < 0x20 || r == '"' || r == '\\' || r == 0x7f }) {
		return p
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c == 0x7f:
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
