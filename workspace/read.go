package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/policy"
)

// ReadTyped reads a whole file and says what it is. Only a text has its content
// in the answer. A path where nothing is, is an empty text with Missing set,
// whatever its name: looking at a file that is not there yet is how one is
// begun. More than MaxFile bytes is a *TooLargeError.
func (w *Workspace) ReadTyped(ctx context.Context, rel string) (Content, error) {
	real, err := w.enter(policy.Read, rel)
	if err != nil {
		return Content{}, err
	}
	data, c, err := w.load(ctx, real)
	if err != nil {
		return Content{}, err
	}
	w.remember(real, data, c)
	return c, nil
}

// ReadFile is ReadTyped for a caller that can only use text: anything else is a
// *NotTextError. A missing file is the empty text.
func (w *Workspace) ReadFile(ctx context.Context, rel string) (string, error) {
	c, err := w.ReadTyped(ctx, rel)
	if err != nil {
		return "", err
	}
	if c.Kind != KindText {
		return "", &NotTextError{Path: rel, Content: c}
	}
	return c.Text, nil
}

// ReadBytes reads a whole file as it is, of any kind. A missing file is an error
// that matches fs.ErrNotExist; more than MaxFile bytes is a *TooLargeError.
func (w *Workspace) ReadBytes(ctx context.Context, rel string) ([]byte, error) {
	real, err := w.enter(policy.Read, rel)
	if err != nil {
		return nil, err
	}
	data, err := w.slurp(ctx, real)
	if err != nil {
		return nil, err
	}
	w.memory.saw(w.dir.key(real), data)
	return data, nil
}

// Slice is part of a text, in whole lines. Lines end at "\n" and nowhere else.
type Slice struct {
	Content
	Path     string // canonical: links resolved, relative to the root
	Digest   string // SHA-256 of the whole file in hex, as [Workspace.Digest] gives it; empty if it was not read whole
	From, To int    // the lines in Text, 1-based; 0, 0 when there are none
	Total    int    // lines in the file
	// AtLeast says that counting stopped early, for a large file of which a range
	// is read: Total is a lower bound.
	AtLeast bool
}

// ReadLines reads limit lines from the line offset on, 1-based, or all of them
// when limit is 0. A text with more than maxChars characters is a
// *TooLargeError, never shortened; maxChars 0 is no bound. An offset past the
// end is a *RangeError, anything but text a *NotTextError.
//
// With an offset above 1 or a limit, a file of up to MaxRange bytes is read
// without being held in memory.
func (w *Workspace) ReadLines(ctx context.Context, rel string, offset, limit, maxChars int) (Slice, error) {
	offset = max(offset, 1)
	real, err := w.enter(policy.Read, rel)
	if err != nil {
		return Slice{}, err
	}
	data, c, err := w.load(ctx, real)
	var big *TooLargeError
	if errors.As(err, &big) && (offset > 1 || limit > 0) {
		if big.Size <= MaxRange {
			return w.stream(ctx, real, offset, limit, maxChars)
		}
		big.Limit = MaxRange
	}
	if err != nil {
		return Slice{}, err
	}
	if c.Kind != KindText {
		return Slice{}, &NotTextError{Path: rel, Content: c}
	}
	s, err := sliceOf(real, c, offset, limit)
	if !c.Missing {
		s.Digest = digestOf(data)
	}
	if err != nil {
		return Slice{}, err
	}
	if err := fits(real, s, len(data), maxChars); err != nil {
		return Slice{}, err
	}
	w.remember(real, data, c)
	return s, nil
}

// remember notes what the run now knows of a path.
func (w *Workspace) remember(real string, data []byte, c Content) {
	switch {
	case c.Missing:
		w.memory.sawAbsent(w.dir.key(real))
	case c.Kind == KindText:
		w.memory.saw(w.dir.key(real), data)
	}
}

func sliceOf(real string, c Content, offset, limit int) (Slice, error) {
	s := Slice{Content: c, Path: real, Total: countLines(c.Text)}
	if c.Missing {
		return s, nil
	}
	if offset > 1 && offset > s.Total {
		return Slice{}, &RangeError{Path: real, Offset: offset, Total: s.Total}
	}
	if s.Total == 0 {
		return s, nil
	}
	text := c.Text
	for range offset - 1 {
		text = text[strings.IndexByte(text, '\n')+1:]
	}
	s.From, s.To = offset, s.Total
	if limit > 0 && limit < s.Total-offset+1 {
		s.To = offset + limit - 1
		end := 0
		for range limit {
			end += strings.IndexByte(text[end:], '\n') + 1
		}
		text = text[:end]
	}
	s.Text = text
	return s, nil
}

// fits holds a text against the room for it.
func fits(real string, s Slice, size, maxChars int) error {
	text := s.Text
	if maxChars <= 0 || len(text) <= maxChars {
		return nil
	}
	n := utf8.RuneCountInString(text)
	if n <= maxChars {
		return nil
	}
	e := &TooLargeError{Path: real, Size: int64(n), Limit: int64(maxChars), Which: CeilingChars, Lines: s.Total, FileSize: int64(size)}
	line := s.From
	for l := range strings.Lines(text) {
		if len(l) > maxChars && utf8.RuneCountInString(l) > maxChars {
			e.LongLine = line
			break
		}
		line++
	}
	return e
}

// countLines counts as every other part of the harness does: a final newline
// ends the last line rather than beginning another.
func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// load reads and classifies a canonical path. The bytes of an image or document
// are not read.
func (w *Workspace) load(ctx context.Context, real string) ([]byte, Content, error) {
	if c, ok := byName(real); ok {
		f, info, err := w.dir.openFile(real)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, absent, nil
		}
		if err != nil {
			return nil, Content{}, err
		}
		f.Close()
		c.Size = info.Size()
		return nil, c, nil
	}
	data, err := w.slurp(ctx, real)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, absent, nil
	}
	if err != nil {
		return nil, Content{}, err
	}
	return data, classify(real, data), nil
}

var absent = Content{Kind: KindText, Encoding: UTF8, Missing: true}

// slurp reads a canonical path whole. The size is looked at before reading and
// again while reading, because the file may be growing.
func (w *Workspace) slurp(ctx context.Context, real string) ([]byte, error) {
	f, info, err := w.dir.openFile(real)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(ctx, real, f, info.Size())
}

func readAll(ctx context.Context, real string, f io.Reader, size int64) ([]byte, error) {
	if size > MaxFile {
		return nil, &TooLargeError{Path: real, Size: size, Limit: MaxFile, Which: CeilingFile, FileSize: size}
	}
	var b bytes.Buffer
	b.Grow(int(size) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(&interruptible{ctx, f}, MaxFile+1)); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, failure("read", real, err)
	}
	if b.Len() > MaxFile {
		return nil, &TooLargeError{Path: real, Size: int64(b.Len()), Limit: MaxFile, Which: CeilingFile, FileSize: int64(b.Len())}
	}
	return b.Bytes(), nil
}

// interruptible is a reader that stops between reads when its context ends.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i *interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.r.Read(p)
}

// stream is ReadLines for a file that is too large to hold. Only plain UTF-8 is
// served: the lines that are returned, and the beginning of the file, decide.
func (w *Workspace) stream(ctx context.Context, real string, offset, limit, maxChars int) (Slice, error) {
	f, info, err := w.dir.openFile(real)
	if err != nil {
		return Slice{}, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(io.LimitReader(&interruptible{ctx, f}, MaxRange), 256<<10)
	head, _ := r.Peek(4096)
	wide := bytes.HasPrefix(head, markUTF16LE) || bytes.HasPrefix(head, markUTF16BE)
	for range utf8.UTFMax - 1 { // the peek may end within a character
		if len(head) > 0 && !wide && !utf8.Valid(head) {
			head = head[:len(head)-1]
		}
	}
	c := classify(real, head)
	c.Size = info.Size()
	if c.Kind != KindText {
		return Slice{}, &NotTextError{Path: real, Content: c}
	}
	if c.Encoding == UTF16LE || c.Encoding == UTF16BE {
		return Slice{}, &TooLargeError{Path: real, Size: c.Size, Limit: MaxFile, Which: CeilingFile, FileSize: c.Size}
	}
	if c.Encoding == UTF8BOM {
		_, _ = r.Discard(len(markUTF8))
	}
	last := math.MaxInt
	if limit > 0 && limit < math.MaxInt-offset {
		last = offset + limit - 1
	}
	s := Slice{Content: c, Path: real}
	room := MaxFile
	if maxChars > 0 {
		room = min(room, maxChars*utf8.UTFMax)
	}
	got, long, err := collect(r, offset, last, room, maxChars, &s, w.dir.counting)
	if errors.Is(err, errCounted) {
		s.AtLeast, err = true, nil
	}
	if err != nil && (ctx.Err() == nil || s.Total < last) {
		if ctx.Err() != nil {
			return Slice{}, context.Cause(ctx)
		}
		return Slice{}, failure("read", real, err)
	}
	s.AtLeast = s.AtLeast || err != nil
	if offset > s.Total {
		return Slice{}, &RangeError{Path: real, Offset: offset, Total: s.Total}
	}
	s.From, s.To = offset, min(last, s.Total)
	limitChars := int64(MaxFile)
	if maxChars > 0 {
		limitChars = int64(maxChars)
	}
	if got.chars > limitChars {
		return Slice{}, &TooLargeError{Path: real, Size: got.chars, Limit: limitChars, Which: CeilingChars, Lines: s.Total, LongLine: long, FileSize: c.Size}
	}
	s.Text = got.text.String()
	if !utf8.ValidString(s.Text) || strings.IndexByte(s.Text, 0) >= 0 {
		return Slice{}, &NotTextError{Path: real, Content: Content{Kind: KindBinary, Format: "binary data", Size: c.Size}}
	}
	return s, nil
}

// countTime is for how long the lines behind a range are counted: a read must not
// wait for the end of a file that it does not return.
const countTime = 2 * time.Second

var errCounted = errors.New("counting stopped")

// collected is what was taken of the lines in the range: the text as far as
// there is room, and the number of characters in all of it.
type collected struct {
	text  strings.Builder
	chars int64
}

// collect takes the lines first to last and counts all of them, in bounded
// memory however long a line is. long is the first line of the range with more
// than maxChars characters. Behind the last line counting goes on for the time
// counting, and ends with errCounted.
func collect(r *bufio.Reader, first, last, room, maxChars int, s *Slice, counting time.Duration) (got collected, long int, err error) {
	line, begun := 1, false
	var inLine int64
	var stop time.Time
	for n := 0; ; n++ {
		if line > last {
			if stop.IsZero() {
				stop = time.Now().Add(counting)
			}
			if n%1024 == 0 && time.Now().After(stop) {
				return got, long, errCounted
			}
		}
		part, err := r.ReadSlice('\n')
		if len(part) > 0 {
			begun = true
			s.Total = line
			if line >= first && line <= last {
				n := int64(runeStarts(part))
				got.chars += n
				inLine += n
				if got.text.Len()+len(part) <= room {
					got.text.Write(part)
				}
				if long == 0 && maxChars > 0 && inLine > int64(maxChars) {
					long = line
				}
			}
		}
		switch {
		case err == nil:
			line, begun, inLine = line+1, false, 0
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return got, long, nil
		default:
			if begun {
				s.Total = line
			}
			return got, long, err
		}
	}
}

func runeStarts(p []byte) int {
	n := 0
	for _, b := range p {
		if utf8.RuneStart(b) {
			n++
		}
	}
	return n
}
