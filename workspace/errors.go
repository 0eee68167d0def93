package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/policy"
)

// Conditions that a caller may test for with errors.Is.
var (
	ErrEscape     = errors.New("path leaves the workspace root")
	ErrNotText    = errors.New("not a text file")
	ErrTooLarge   = errors.New("file too large")
	ErrNotRegular = errors.New("not a regular file")
	ErrStale      = errors.New("file changed since it was last read")
	ErrMoved      = errors.New("path changed while it was being used")
	ErrNoMatch    = errors.New("text to replace not found")
	ErrAmbiguous  = errors.New("text to replace found more than once")
	ErrPatchParse = errors.New("patch cannot be parsed")
	ErrPatchApply = errors.New("patch does not apply")
	ErrClosed     = errors.New("workspace is closed")
)

// OpenError says why a directory cannot be a workspace. It unwraps to
// fs.ErrNotExist when there is nothing at that path.
type OpenError struct {
	Root   string
	Reason string
	Err    error
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("open workspace %q: %s", e.Root, e.Reason)
}

func (e *OpenError) Unwrap() error { return e.Err }

// PathError says that a path is not one that a workspace can name. It matches
// ErrEscape when the path is absolute or climbs above the root.
type PathError struct {
	Path    string
	Reason  string
	Escapes bool
}

func (e *PathError) Error() string { return fmt.Sprintf("path %s: %s", quote(e.Path), e.Reason) }

// Is makes errors.Is(err, ErrEscape) true for a path that leaves the root.
func (e *PathError) Is(target error) bool { return target == ErrEscape && e.Escapes }

// NotTextError says that text was asked of a file that is something else. It
// carries no byte of the file.
type NotTextError struct {
	Path    string
	Content Content // Kind, Format and Size are set
}

func (e *NotTextError) Error() string {
	return fmt.Sprintf("%s is not text: it is %s", show(e.Path), e.Content.Describe())
}

// Is makes errors.Is(err, ErrNotText) true.
func (e *NotTextError) Is(target error) bool { return target == ErrNotText }

// Ceiling names the limit that a file or an answer was over.
type Ceiling string

// The ceilings.
const (
	CeilingFile    Ceiling = "file size"        // MaxFile or MaxRange, in bytes
	CeilingContent Ceiling = "content size"     // MaxWrite, in bytes
	CeilingChars   Ceiling = "observation size" // the characters that the caller has room for
)

// TooLargeError says that something is over a ceiling. Nothing of it was
// returned or written. Size and Limit are bytes, or characters for CeilingChars.
type TooLargeError struct {
	Path        string
	Size, Limit int64
	Which       Ceiling
	Lines       int   // of the whole file, where they were counted
	LongLine    int   // the first line that alone is over CeilingChars, so that no range helps; 0 if none
	FileSize    int64 // bytes of the file that was read; 0 for what was to be written
}

func (e *TooLargeError) Error() string {
	unit := "bytes"
	if e.Which == CeilingChars {
		unit = "characters"
	}
	return fmt.Sprintf("%s has %d %s and the %s ceiling is %d", show(e.Path), e.Size, unit, e.Which, e.Limit)
}

// Is makes errors.Is(err, ErrTooLarge) true.
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }

// NotRegularError says that a path is no file to read or write.
type NotRegularError struct {
	Path string
	Kind string // "directory", "named pipe", "socket", "device", "symbolic link"
}

func (e *NotRegularError) Error() string {
	return fmt.Sprintf("%s is a %s, not a regular file", show(e.Path), e.Kind)
}

// Is makes errors.Is(err, ErrNotRegular) true.
func (e *NotRegularError) Is(target error) bool { return target == ErrNotRegular }

// StaleError says that a whole file was to be written over content that changed
// since this run last read it. Nothing was written.
type StaleError struct{ Path string }

func (e *StaleError) Error() string {
	return show(e.Path) + " changed since it was last read, and writing the whole file would bury that change: read it again, then write"
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// RangeError says that a range begins after the end of a file.
type RangeError struct {
	Path   string
	Offset int
	Total  int // lines in the file
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("offset %d is past the end of %s, which has %d %s", e.Offset, show(e.Path), e.Total, plural(e.Total, "line", "lines"))
}

// EditError says why a search text was not replaced. It matches ErrNoMatch or
// ErrAmbiguous. Nothing was written.
type EditError struct {
	Path  string
	Count int    // occurrences found
	Hint  string // why a zero may be a near miss; may be empty
}

func (e *EditError) Error() string {
	if e.Count > 0 {
		return fmt.Sprintf("the search text occurs %d times in %s and must occur exactly once: add the lines around the place you mean", e.Count, show(e.Path))
	}
	s := fmt.Sprintf("the search text occurs 0 times in %s and must occur exactly once: copy it from the file, character for character", show(e.Path))
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Is makes errors.Is work with ErrNoMatch and ErrAmbiguous.
func (e *EditError) Is(target error) bool {
	return target == ErrNoMatch && e.Count == 0 || target == ErrAmbiguous && e.Count > 0
}

// PatchError says why a patch was not applied. It matches ErrPatchParse or
// ErrPatchApply. Nothing was written.
type PatchError struct {
	Path   string // empty when the patch itself is at fault
	Line   int    // 1-based line of the patch, for a patch that cannot be parsed
	Hunk   int    // 1-based hunk, 0 when no hunk is at fault
	Reason string

	apply bool
}

func (e *PatchError) Error() string {
	where := "patch"
	switch {
	case e.Line > 0:
		where = "patch line " + strconv.Itoa(e.Line)
	case e.Hunk > 0:
		where = "hunk " + strconv.Itoa(e.Hunk)
	}
	return where + ": " + e.Reason
}

// Is makes errors.Is work with ErrPatchParse and ErrPatchApply.
func (e *PatchError) Is(target error) bool {
	return target == ErrPatchApply && e.apply || target == ErrPatchParse && !e.apply
}

// PatternError says that a search pattern is not a regular expression.
type PatternError struct {
	Pattern string
	Err     error
}

func (e *PatternError) Error() string {
	if errors.Is(e.Err, errPatternTooLong) {
		return fmt.Sprintf("the pattern has %d bytes and at most %d are searched for: search for a part of it", len(e.Pattern), maxPattern)
	}
	return fmt.Sprintf("pattern %s is not a regular expression (%v): put a backslash before characters that are meant literally", quote(e.Pattern), e.Err)
}

func (e *PatternError) Unwrap() error { return e.Err }

// movedError says that what lies at a path is not what was checked: another
// process exchanged a directory or a file for a link at that moment.
type movedError struct{ path string }

func (e *movedError) Error() string {
	return show(e.path) + " changed while it was being opened, so it was not touched: try again"
}

func (e *movedError) Is(target error) bool { return target == ErrMoved }

// missingError says that nothing is at a path. It matches fs.ErrNotExist.
type missingError struct{ path string }

func (e *missingError) Error() string { return show(e.path) + " does not exist" }

func (e *missingError) Unwrap() error { return fs.ErrNotExist }

func missing(path string) error { return &missingError{path} }

func refused(act policy.Act, target string, v policy.Verdict) error {
	return v.Refusal(policy.Need{Act: act, Target: target})
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// show is a path as an error names it: as it is, or quoted when it would break
// the line or hold something that is not seen.
func show(path string) string {
	if utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return path
	}
	return quote(path)
}

func quote(s string) string { return strconv.Quote(s) }
