package workspace

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/policy"
)

// EditFile replaces search, which must occur exactly once, by replace. Both are
// plain text: nothing in them has a meaning. Every other byte of the file stays
// as it is, its encoding, byte-order mark, line endings and final newline too.
//
// No occurrence, or several, is an *EditError, a file that is not text a
// *NotTextError; nothing is written then. A file that may not be read may not be
// edited either, since the answer tells what is in it.
func (w *Workspace) EditFile(ctx context.Context, rel, search, replace string) (Change, error) {
	var c Change
	c.LinesAdded, c.LinesRemoved = countChange(search, replace)
	return w.rewrite(ctx, rel, c, func(old Content) (string, error) {
		return edited(rel, old, search, replace)
	})
}

// PreviewEdit is the change that EditFile would make, as [Diff] gives it.
func (w *Workspace) PreviewEdit(ctx context.Context, rel, search, replace string) (string, error) {
	real, err := w.enter(policy.Read, rel)
	if err != nil {
		return "", err
	}
	_, c, err := w.load(ctx, real)
	if err != nil {
		return "", err
	}
	if c.Kind != KindText {
		return "", &NotTextError{Path: rel, Content: c}
	}
	now, err := edited(rel, c, search, replace)
	if err != nil {
		return "", err
	}
	return Diff(c.Text, now), nil
}

// PatchFile applies a unified diff to one existing file, all hunks or nothing,
// and returns how many hunks there were. Each must match exactly at the line
// that it names. File headers in the patch are not looked at. The error is a
// *PatchError, or one that EditFile has too.
func (w *Workspace) PatchFile(ctx context.Context, rel, patch string) (Change, int, error) {
	hunks, err := parsePatch(patch)
	if err != nil {
		return Change{}, 0, err
	}
	c, err := w.rewrite(ctx, rel, Change{}, func(old Content) (string, error) {
		if old.Missing {
			return "", fmt.Errorf("%w: a patch changes an existing file, write_file makes a new one", missing(rel))
		}
		return applied(rel, old.Text, hunks)
	})
	return c, len(hunks), err
}

// Revert takes a recorded hunk back: it must match the file exactly as it stands
// now. The error is a *PatchError when later changes are in the way.
func (w *Workspace) Revert(ctx context.Context, rel, recorded string) (Change, error) {
	hunks, err := parsePatch(recorded)
	if err != nil {
		return Change{}, err
	}
	return w.rewrite(ctx, rel, Change{}, func(old Content) (string, error) {
		return applied(rel, old.Text, reverseHunks(hunks))
	})
}

func applied(rel, old string, hunks []hunk) (string, error) {
	now, err := applyHunks(old, hunks)
	if pe, ok := err.(*PatchError); ok {
		pe.Path = rel
	}
	return now, err
}

// rewrite is a change that is computed from the present text of a file.
func (w *Workspace) rewrite(ctx context.Context, rel string, c Change, change func(old Content) (string, error)) (Change, error) {
	c.Unread = -1
	real, err := w.enterWrite(rel)
	if err != nil {
		return Change{}, err
	}
	if _, err := w.enter(policy.Read, rel); err != nil {
		return Change{}, err
	}
	defer w.dir.lock(real)()
	t, err := w.target(ctx, real)
	if err != nil {
		return Change{}, err
	}
	defer t.close()
	if c, ok := w.recall(t); ok {
		return c, nil
	}
	old := absent
	if t.exists {
		if t.data == nil {
			return Change{}, fmt.Errorf("%s cannot be changed: %s", show(rel), t.unreadable)
		}
		if old = classify(real, t.data); old.Kind != KindText {
			return Change{}, &NotTextError{Path: rel, Content: old}
		}
	}
	now, err := change(old)
	if err != nil {
		return Change{}, err
	}
	data := encode(now, old.Encoding)
	if len(data) > MaxFile {
		return Change{}, &TooLargeError{Path: rel, Size: int64(len(data)), Limit: MaxFile, Which: CeilingContent}
	}
	// The run knows the new text only if it knew the old one: an edit that went
	// well says nothing about the rest of a file that somebody else changed.
	key := w.dir.key(real)
	was, seen := w.memory.of(key)
	known := !t.exists || seen && !was.absent && was.sum == sha256.Sum256(t.data)
	if err := w.commit(ctx, t, data, &c, known); err != nil {
		return Change{}, err
	}
	if known {
		w.memory.saw(key, data)
	}
	return c, nil
}

func edited(rel string, old Content, search, replace string) (string, error) {
	if search == "" {
		return "", &PathError{Path: rel, Reason: "the search text is empty: say what to replace"}
	}
	n := strings.Count(old.Text, search)
	if n != 1 {
		e := &EditError{Path: rel, Count: n}
		switch {
		case old.Missing:
			e.Hint = "the file does not exist, and an edit cannot create it"
		case n == 0:
			e.Hint = nearMiss(old.Text, search)
		}
		return "", e
	}
	i := strings.Index(old.Text, search)
	return old.Text[:i] + replace + old.Text[i+len(search):], nil
}

// nearMiss says why a text that is not in the file looks as if it were. It is a
// hint and is never acted upon.
func nearMiss(text, search string) string {
	if crlf := strings.ReplaceAll(strings.ReplaceAll(search, "\r\n", "\n"), "\n", "\r\n"); crlf != search && strings.Count(text, crlf) == 1 {
		return "it matches once with CRLF line endings"
	}
	if lf := strings.ReplaceAll(search, "\r\n", "\n"); lf != search && strings.Count(text, lf) == 1 {
		return "it matches once with LF line endings"
	}
	want := trimmedLines(search)
	have := trimmedLines(text)
	for len(want) > 0 && want[0] == "" {
		want = want[1:]
	}
	for len(want) > 0 && want[len(want)-1] == "" {
		want = want[:len(want)-1]
	}
	if len(want) == 0 {
		return ""
	}
	var at []int
	for i := 0; i+len(want) <= len(have) && len(at) < 2; i++ {
		if equalLines(have[i:i+len(want)], want) {
			at = append(at, i+1)
		}
	}
	if len(at) == 1 {
		return fmt.Sprintf("it matches once, at line %d, if white space at the beginning and end of each line is ignored", at[0])
	}
	best, score := 0, 0
	for i := range have {
		if have[i] != want[0] {
			continue
		}
		n := 1
		for n < len(want) && i+n < len(have) && have[i+n] == want[n] {
			n++
		}
		if n > score {
			best, score = i+1, n
		}
	}
	switch {
	case score == 0:
		return ""
	case score < len(want):
		return fmt.Sprintf("the closest place is line %d, where %d of its %d lines match and line %d does not", best, score, len(want), best+score)
	}
	return fmt.Sprintf("the closest place is line %d", best)
}

func trimmedLines(s string) []string {
	ls := lines(s)
	for i, l := range ls {
		ls[i] = strings.TrimSpace(l)
	}
	return ls
}

func equalLines(a, b []string) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
