package sandbox

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// Output is a stream of which the middle may have been left out. Head and Tail
// are valid UTF-8, cut on rune borders; bytes that were not are replaced.
type Output struct {
	Head, Tail string
	// Elided is how many runes are missing between Head and Tail.
	Elided int64
	// Bytes is how many bytes the command wrote.
	Bytes int64
}

// String is Head and Tail, with the number of missing runes between them.
func (o Output) String() string {
	if o.Elided == 0 {
		return o.Head + o.Tail
	}
	return o.Head + elision(o.Elided) + o.Tail
}

func elision(n int64) string { return fmt.Sprintf("\n[… %d characters left out …]\n", n) }

// Bound returns s in at most limit runes, the elision mark not counted: the
// first half and the last half, with the number of runes left out between them.
// Zero or less means no bound.
func Bound(s string, limit int) string {
	if limit <= 0 || len(s) <= limit {
		return s
	}
	n := utf8.RuneCountInString(s)
	if n <= limit {
		return s
	}
	head, tail := limit-limit/2, limit/2
	i := 0
	for range head {
		_, w := utf8.DecodeRuneInString(s[i:])
		i += w
	}
	j := len(s)
	for range tail {
		_, w := utf8.DecodeLastRuneInString(s[:j])
		j -= w
	}
	return s[:i] + elision(int64(n-limit)) + s[j:]
}

// capture keeps the head and the tail of a stream in bounded memory.
type capture struct {
	half int

	mu      sync.Mutex
	head    []byte
	tail    []byte // ring of at most half bytes once full
	next    int    // where the ring is written next, once full
	dropped int64  // rune starts that fell out of the ring
	lost    bool
	total   int64
}

func newCapture(limit int) *capture { return &capture{half: max(limit/2, utf8.UTFMax)} }

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	c.total += int64(n)
	if room := c.half - len(c.head); room > 0 {
		k := min(room, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	if room := c.half - len(c.tail); room > 0 && len(p) > 0 {
		k := min(room, len(p))
		c.tail = append(c.tail, p[:k]...)
		p = p[k:]
	}
	if len(p) > c.half {
		// The ring would turn over completely: what is in it and what would pass
		// through it is dropped at once.
		skip := len(p) - c.half
		c.drop(c.tail)
		c.drop(p[:skip])
		copy(c.tail, p[skip:])
		c.next = 0
		return n, nil
	}
	for len(p) > 0 {
		k := min(c.half-c.next, len(p))
		c.drop(c.tail[c.next : c.next+k])
		copy(c.tail[c.next:], p[:k])
		c.next = (c.next + k) % c.half
		p = p[k:]
	}
	return n, nil
}

func (c *capture) drop(b []byte) {
	c.lost = c.lost || len(b) > 0
	for _, x := range b {
		if utf8.RuneStart(x) {
			c.dropped++
		}
	}
}

func (c *capture) output() Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail := append(append(make([]byte, 0, len(c.tail)), c.tail[c.next:]...), c.tail[:c.next]...)
	if !c.lost {
		all := strings.ToValidUTF8(string(append(append([]byte{}, c.head...), tail...)), "\uFFFD")
		return Output{Head: all, Bytes: c.total}
	}
	elided := c.dropped
	head := c.head
	if k := incompleteEnd(head); k > 0 { // its first byte was counted as kept
		head = head[:len(head)-k]
		elided++
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return Output{
		Head:   strings.ToValidUTF8(string(head), "\uFFFD"),
		Tail:   strings.ToValidUTF8(string(tail), "\uFFFD"),
		Elided: elided,
		Bytes:  c.total,
	}
}

// incompleteEnd is how many bytes at the end of b begin a rune that goes on
// after b.
func incompleteEnd(b []byte) int {
	for k := 1; k <= min(utf8.UTFMax-1, len(b)); k++ {
		if tail := b[len(b)-k:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return k
			}
			return 0
		}
	}
	return 0
}
