package memory

import (
	"cmp"
	"slices"
)

// Note is what ranking looks at.
type Note struct {
	Key, Value string
	Draws      int // distinct runs whose requests carried it
}

// Rank orders the notes of one scope by what a run is about: it returns their
// indices, the least fitting first and the best last. What counts is, in this
// order: how many words of signals the note has, how many runs drew on it, and
// how late it stands in notes, which come in the order of the store. There are
// no ties, so the same notes rank the same. scope tells one scope of the cache
// from another.
func (c *Cache) Rank(scope string, signals Words, notes []Note) []int {
	known, fresh := c.scopes[scope], make(map[string]cut, len(notes))
	shared := make([]int, len(notes))
	order := make([]int, len(notes))
	for i, n := range notes {
		w, ok := known[n.Key]
		if !ok || w.value != n.Value {
			w = cut{n.Value, WordsOf(n.Key)}
			w.words.Add(n.Value)
		}
		fresh[n.Key] = w
		shared[i], order[i] = w.words.Shared(signals), i
	}
	if c.scopes == nil {
		c.scopes = map[string]map[string]cut{}
	}
	c.scopes[scope] = fresh
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(shared[a], shared[b]), cmp.Compare(notes[a].Draws, notes[b].Draws), cmp.Compare(a, b))
	})
	return order
}
