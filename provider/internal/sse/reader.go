package sse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/provider"
)

// Done is the payload that ends a Chat Completions stream.
const Done = "[DONE]"

// Limits of one stream.
type Limits = provider.StreamLimits

// Defaults of Limits: well above the largest answer of any vendor, well below
// what would hurt a process.
const (
	DefaultLine   = 8 << 20
	DefaultEvent  = 16 << 20
	DefaultStream = 64 << 20
)

func withDefaults(l Limits) Limits {
	if l.Line <= 0 {
		l.Line = DefaultLine
	}
	if l.Event <= 0 {
		l.Event = DefaultEvent
	}
	if l.Stream <= 0 {
		l.Stream = DefaultStream
	}
	return l
}

// LimitError says that a stream went over one of the Limits.
type LimitError struct {
	What  string // "line", "event" or "stream"
	Limit int64  // bytes
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the %s is longer than %d bytes", e.What, e.Limit)
}

// An Event is one payload: valid JSON, or Done.
type Event struct {
	Name string // of the event field, "" when there was none
	Data []byte // valid until the next call of Next
}

// IsDone reports whether the payload is the end word.
func (e Event) IsDone() bool { return string(e.Data) == Done }

// A Reader turns bytes into events. It is for one goroutine.
type Reader struct {
	src io.Reader
	lim Limits

	buf     []byte // bytes read and not yet consumed
	scanned int    // how many of them are known to hold no line end
	chunk   []byte
	total   int64
	srcErr  error
	started bool // the byte-order mark has been dealt with
	skipLF  bool // the last line ended in a CR, whose LF may still come

	name  string // event field of the event in the making
	data  []byte // its data lines so far, joined with LF
	lines int    // how many they are

	queue   []Event // found and not returned yet, from head on
	head    int
	spare   []byte // the data of the event that was returned last
	lastly  string // the name of the event before, since a stream has few
	skipped int
}

// NewReader reads events from r.
func NewReader(r io.Reader, lim Limits) *Reader {
	return &Reader{src: r, lim: withDefaults(lim), chunk: make([]byte, 16<<10)}
}

// Skipped is how many payloads were neither JSON nor the end word and were
// passed over.
func (r *Reader) Skipped() int { return r.skipped }

// Next returns the next payload. At the end of the stream it returns io.EOF,
// which says nothing about whether the stream was complete; over a limit it
// returns a *LimitError; other errors are the source's own.
func (r *Reader) Next() (Event, error) {
	for {
		if r.head < len(r.queue) {
			e := r.queue[r.head]
			r.head++
			return e, nil
		}
		r.queue, r.head = r.queue[:0], 0
		line, ok, err := r.line()
		if err != nil {
			if err == io.EOF && r.flush() || r.closed() {
				continue
			}
			return Event{}, err
		}
		if !ok {
			continue
		}
		if err := r.take(line); err != nil {
			return Event{}, err
		}
	}
}

// line returns the next complete line without its end. ok is false when more
// bytes were needed and read; the caller asks again.
func (r *Reader) line() (line []byte, ok bool, err error) {
	if r.skipLF && len(r.buf) > 0 {
		if r.buf[0] == '\n' {
			r.buf = r.buf[1:]
		}
		r.skipLF = false
	}
	if r.started || r.mark() {
		if end := lineEnd(r.buf[r.scanned:]); end >= 0 {
			end += r.scanned
			r.scanned = 0
			line = r.buf[:end]
			r.skipLF = r.buf[end] == '\r'
			r.buf = r.buf[end+1:]
			if int64(len(line)) > r.lim.Line {
				return nil, false, &LimitError{"line", r.lim.Line}
			}
			return line, true, nil
		}
		r.scanned = len(r.buf)
		if int64(len(r.buf)) > r.lim.Line {
			return nil, false, &LimitError{"line", r.lim.Line}
		}
	}
	if r.srcErr != nil {
		return nil, false, r.srcErr
	}
	n, err := r.src.Read(r.chunk)
	r.srcErr = err
	r.total += int64(n)
	if r.total > r.lim.Stream {
		return nil, false, &LimitError{"stream", r.lim.Stream}
	}
	r.buf = append(r.buf, r.chunk[:n]...)
	return nil, false, nil
}

// lineEnd is the index of the first CR or LF, -1 when there is none. Two searches
// for one byte are several times as fast as one for either.
func lineEnd(b []byte) int {
	end := bytes.IndexByte(b, '\n')
	if end >= 0 {
		b = b[:end]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return end
}

// mark drops a byte-order mark at the very start. It reports false while too
// few bytes are there to tell.
func (r *Reader) mark() bool {
	const bom = "\xef\xbb\xbf"
	if len(r.buf) < len(bom) && r.srcErr == nil && bytes.HasPrefix([]byte(bom), r.buf) {
		return false
	}
	r.buf = bytes.TrimPrefix(r.buf, []byte(bom))
	r.started = true
	return true
}

// take reads one line.
func (r *Reader) take(line []byte) error {
	switch {
	case len(line) == 0:
		r.dispatch()
		return nil
	case line[0] == ':':
		return nil
	case line[0] == '{' || line[0] == '[':
		// Some proxies append an error document to a stream without a field
		// name. No field name starts so.
		if json.Valid(line) {
			r.dispatch()
			r.emit(line)
		}
		return nil
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		return r.addData(value)
	case "event":
		if string(value) != r.lastly {
			r.lastly = string(value)
		}
		r.name = r.lastly
	}
	return nil
}

func (r *Reader) addData(value []byte) error {
	// A server that forgets the blank line between two events: what is
	// complete by itself never continues on another line, because two JSON
	// documents in a row are not one.
	if r.lines == 1 && usable(r.data) {
		r.dispatch()
	}
	if r.lines > 0 {
		r.data = append(r.data, '\n')
	}
	r.data = append(r.data, value...)
	r.lines++
	if int64(len(r.data)) > r.lim.Event {
		return &LimitError{"event", r.lim.Event}
	}
	if r.lines == 1 && string(bytes.TrimSpace(r.data)) == Done {
		r.dispatch() // nothing may follow it, not even the blank line
	}
	return nil
}

// dispatch ends the event in the making. What it queues keeps the memory that the
// event was collected in; the next one is collected in that of the event before
// it, which the caller has done with by then.
func (r *Reader) dispatch() {
	data, lines := r.data, r.lines
	r.data, r.spare, r.lines = r.spare[:0], r.data, 0
	if lines == 0 || len(bytes.TrimSpace(data)) == 0 {
		r.name = ""
		return
	}
	switch {
	case usable(data):
		r.emit(data)
	case lines > 1 && allUsable(data):
		name := r.name
		for part := range bytes.SplitSeq(data, []byte("\n")) {
			if r.name = name; len(bytes.TrimSpace(part)) > 0 {
				r.emit(part)
			}
		}
	default:
		r.skipped++
	}
	r.name = ""
}

// flush deals with what is left at the end of the source and reports whether
// that gave an event. An unfinished last line counts only if it is whole in
// itself, so that half an argument can never pass for one.
func (r *Reader) flush() bool {
	rest := r.buf
	r.buf, r.scanned = nil, 0
	if len(rest) > 0 {
		value, isData := bytes.CutPrefix(rest, []byte("data:"))
		if payload := bytes.TrimSpace(value); (isData || rest[0] == '{' || rest[0] == '[') && usable(payload) {
			r.dispatch()
			r.emit(payload)
		} else if isData {
			// The line belongs to the event before it, which is therefore
			// incomplete unless it is whole without it.
			r.skipped++
		}
	}
	r.dispatch()
	return r.head < len(r.queue)
}

// closed takes an end word without a line end behind it from a source that broke
// instead of ending, and reports whether there was one: nothing was to follow.
func (r *Reader) closed() bool {
	value, isData := bytes.CutPrefix(r.buf, []byte("data:"))
	if !isData || string(bytes.TrimSpace(value)) != Done {
		return false
	}
	r.buf, r.scanned = nil, 0
	r.dispatch()
	r.emit(value)
	return true
}

// emit queues a payload, which stays as it is until the queue is empty.
func (r *Reader) emit(data []byte) {
	data = bytes.TrimSpace(data)
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	r.queue = append(r.queue, Event{Name: r.name, Data: data})
	r.name = ""
}

// usable reports whether a payload is the end word or a JSON document. The
// standard library's check is used because it bounds nesting: a deep document
// must not be able to exhaust the stack of the parser behind us.
func usable(p []byte) bool {
	p = bytes.TrimSpace(p)
	return string(p) == Done || json.Valid(p)
}

func allUsable(data []byte) bool {
	for part := range bytes.SplitSeq(data, []byte("\n")) {
		if len(bytes.TrimSpace(part)) > 0 && !usable(part) {
			return false
		}
	}
	return true
}
