package builtin

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/sandbox"
)

// tape keeps the beginning and the end of what commands print, in bounded
// memory. It is safe for concurrent use.
type tape struct {
	headMax, tailMax int

	mu      sync.Mutex
	head    []byte
	tail    []byte // up to twice tailMax; the last tailMax bytes count
	total   int64
	lost    bool  // something is missing between head and tail
	dropped int64 // characters that began there
}

// newTape keeps head bytes of the beginning and tail bytes of the end.
func newTape(head, tail int) *tape { return &tape{headMax: head, tailMax: tail} }

func (t *tape) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	t.total += int64(n)
	if room := t.headMax - len(t.head); room > 0 {
		k := min(room, len(p))
		t.head, p = append(t.head, p[:k]...), p[k:]
	}
	t.tail = append(t.tail, p...)
	if len(t.tail) > 2*t.tailMax {
		t.trim()
	}
	return n, nil
}

// trim drops what is before the last tailMax bytes.
func (t *tape) trim() {
	cut := len(t.tail) - t.tailMax
	if cut <= 0 {
		return
	}
	t.lost = true
	t.dropped += starts(t.tail[:cut])
	t.tail = append(t.tail[:0], t.tail[cut:]...)
}

// starts is how many characters begin in b.
func starts(b []byte) int64 {
	var n int64
	for _, c := range b {
		if utf8.RuneStart(c) {
			n++
		}
	}
	return n
}

// String is all of it, with the number of characters that were left out where
// they were.
func (t *tape) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trim()
	if !t.lost {
		return string(t.head) + string(t.tail)
	}
	head, tail, dropped := t.head, t.tail, t.dropped
	if k := unfinished(head); k > 0 {
		head, dropped = head[:len(head)-k], dropped+1
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return string(head) + fmt.Sprintf("\n[… %d characters left out …]\n", dropped) + string(tail)
}

// since is what was printed after the first from bytes: the newest most bytes of
// it, how many bytes before those are passed over, and where the next call goes
// on. whole says that no more is coming; otherwise a character that is not
// complete is left for the next call. The tape must have no head.
func (t *tape) since(from int64, most int, whole bool) (chunk []byte, skipped, next int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(t.total-from, int64(most), int64(len(t.tail)))
	b := t.tail[int64(len(t.tail))-n:]
	skipped = t.total - from - n
	if skipped > 0 {
		for len(b) > 0 && !utf8.RuneStart(b[0]) {
			b, skipped = b[1:], skipped+1
		}
	}
	next = t.total
	if k := unfinished(b); k > 0 && !whole {
		b, next = b[:len(b)-k], next-int64(k)
	}
	return append([]byte(nil), b...), skipped, next
}

// unfinished is how many bytes at the end of b begin a character that goes on
// after it.
func unfinished(b []byte) int {
	for k := 1; k <= min(utf8.UTFMax-1, len(b)); k++ {
		if c := b[len(b)-k]; utf8.RuneStart(c) {
			if utf8.FullRune(b[len(b)-k:]) {
				return 0
			}
			return k
		}
	}
	return 0
}

// outputDelay is how long the end of the output is waited for once everything
// that could print is gone. Only a process that got away from the kill makes it
// pass.
const outputDelay = 2 * time.Second

// recording is a pipe whose reading end is copied to a tape until closed.
type recording struct {
	w    *os.File // for the commands; more than one may have it
	r    *os.File
	tape *tape
	done chan struct{}
}

// newRecording begins one, in which hide is blotted out: the sandbox does not see
// what goes to a file of ours.
func newRecording(t *tape, hide sandbox.ProxyToken) (*recording, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	rec := &recording{w: w, r: r, tape: t, done: make(chan struct{})}
	go rec.copy(hide.Blot(t))
	return rec, nil
}

func (r *recording) copy(to io.WriteCloser) {
	defer close(r.done)
	buf := make([]byte, 32<<10)
	for {
		n, err := r.r.Read(buf)
		_, _ = to.Write(buf[:n])
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// close ends the recording when everything is on the tape.
func (r *recording) close() {
	_ = r.w.Close()
	t := time.NewTimer(outputDelay)
	defer t.Stop()
	select {
	case <-r.done:
	case <-t.C:
	}
	_ = r.r.Close()
	<-r.done
}
