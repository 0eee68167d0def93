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
	cuts := c.cuts(scope, notes)
	type place struct{ shared, draws, at int }
	places := make([]place, len(notes))
	for i, n := range notes {
		shared := 0
		for _, w := range cuts[i].words {
			if _, ok := signals[w]; ok {
				shared++
			}
		}
		places[i] = place{shared, n.Draws, i}
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.shared != b.shared {
			return a.shared - b.shared
		}
		if a.draws != b.draws {
			return cmp.Compare(a.draws, b.draws)
		}
		return a.at - b.at
	})
	order := make([]int, len(places))
	for i, p := range places {
		order[i] = p.at
	}
	return order
}
