package sandbox

import (
	"encoding/binary"
	"fmt"
	"math/bits"
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

	mu     sync.Mutex
	head   []byte
	tail   []byte // ring of at most half bytes once full
	next   int    // where the ring is written next, once full
	total  int64
	starts int64 // rune starts in all that was written
}

func newCapture(limit int) *capture { return &capture{half: max(limit/2, utf8.UTFMax)} }

func (c *capture) Write(p []byte) (int, error) {
	c.add(p, runeStarts(p))
	return len(p), nil
}

// add takes in p, in which starts runes begin. Who counts them once may hand them
// to several captures: the count is most of the work.
func (c *capture) add(p []byte, starts int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total += int64(len(p))
	c.starts += starts
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
	if len(p) > c.half { // the ring turns over completely
		p = p[len(p)-c.half:]
		c.next = 0
	}
	for len(p) > 0 {
		k := copy(c.tail[c.next:], p)
		c.next = (c.next + k) % c.half
		p = p[k:]
	}
}

// runeStarts counts the bytes of b that do not continue a rune. Most text is ASCII,
// in which every byte is one; the rest is counted eight bytes at a time.
func runeStarts(b []byte) int64 {
	const high, low = 0x8080808080808080, 0x0101010101010101
	n := int64(len(b))
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	for len(b) >= 32 {
		w, x, y, z := word(0), word(8), word(16), word(24)
		if (w|x|y|z)&high != 0 {
			for _, v := range [...]uint64{w, x, y, z} {
				n -= int64(bits.OnesCount64(v >> 7 &^ (v >> 6) & low)) // of the form 10xxxxxx
			}
		}
		b = b[32:]
	}
	for _, x := range b {
		if !utf8.RuneStart(x) {
			n--
		}
	}
	return n
}

func (c *capture) output() Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail := append(append(make([]byte, 0, len(c.tail)), c.tail[c.next:]...), c.tail[:c.next]...)
	if int64(len(c.head)+len(tail)) == c.total {
		all := strings.ToValidUTF8(string(append(append([]byte{}, c.head...), tail...)), "\uFFFD")
		return Output{Head: all, Bytes: c.total}
	}
	elided := c.starts - runeStarts(c.head) - runeStarts(tail)
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
