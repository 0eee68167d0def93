package memory

import (
	"slices"

	"github.com/initorigin/io-harness-go/internal/textwords"
)

// Words is a set of words in lower case.
type Words map[string]struct{}

// WordsOf is the set of words of a text: runs of letters and digits of at least
// three characters. src/state.rs has src and state.
func WordsOf(text string) Words {
	w := Words{}
	w.Add(text)
	return w
}

// Add puts the words of a text into w.
func (w Words) Add(text string) {
	textwords.Each(text, func(word string) { w[word] = struct{}{} })
}

// Shared counts the words that both sets have.
func (w Words) Shared(other Words) int {
	if len(other) < len(w) {
		w, other = other, w
	}
	n := 0
	for word := range w {
		if _, ok := other[word]; ok {
			n++
		}
	}
	return n
}

// Cache keeps the words of notes, so that a note is cut into words once for as
// long as it stands. It holds the notes of the last ranking of each scope and no
// others. The zero value is ready. It is not safe for concurrent use.
type Cache struct {
	scopes map[string][]cut
}

// cut is a note with the words of its key and value, each once.
type cut struct {
	key, value string
	words      []string
}

// cuts are the words of notes, one for one. Most rankings meet the notes of the
// last one, each in its place.
func (c *Cache) cuts(scope string, notes []Note) []cut {
	known := c.scopes[scope]
	same := len(known) == len(notes)
	for i := 0; same && i < len(notes); i++ {
		same = known[i].key == notes[i].Key && known[i].value == notes[i].Value
	}
	if same {
		return known
	}
	byKey := make(map[string]cut, len(known))
	for _, k := range known {
		byKey[k.key] = k
	}
	fresh := make([]cut, len(notes))
	var cutter textwords.Cutter
	for i, n := range notes {
		k, ok := byKey[n.Key]
		if !ok || k.value != n.Value {
			k = cut{n.Key, n.Value, slices.Clone(cutter.Words(n.Key, n.Value))}
		}
		fresh[i] = k
	}
	if c.scopes == nil {
		c.scopes = map[string][]cut{}
	}
	c.scopes[scope] = fresh
	return fresh
}
