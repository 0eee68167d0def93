package store

import (
	"cmp"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/internal/textwords"
)

// A memoryText is what similarity looks at of one entry.
type memoryText struct {
	key, value string
	createdAt  int64
}

// A similarity looks among the entries of a workspace, shown to it one by one,
// for the one that shares most words with a value; of two that share as many it
// takes the earlier, and of two of one millisecond the first by its key.
type similarity struct {
	key    string
	words  map[string]bool
	best   memoryText
	shared int // words shared with best; zero while there is none
	cutter textwords.Cutter
}

func newSimilarity(e MemoryEntry) *similarity {
	s := &similarity{key: e.Key, words: map[string]bool{}}
	textwords.Each(e.Value, func(w string) { s.words[w] = true })
	return s
}

func (s *similarity) look(o memoryText) {
	words, shared := s.cutter.Words(o.value), 0
	for _, w := range words {
		if s.words[w] {
			shared++
		}
	}
	union := len(s.words) + len(words) - shared
	if shared == 0 || shared*similarShared < union*similarOf || shared < s.shared {
		return
	}
	if shared > s.shared || cmp.Or(cmp.Compare(o.createdAt, s.best.createdAt), strings.Compare(o.key, s.best.key)) < 0 {
		s.best, s.shared = o, shared
	}
}

// among looks among the entries of a workspace, and tells how many there are beside
// the one of the key that is sought for, and of how many characters. A value without
// a word restates none of them, and none of them is read for it.
func (s *similarity) among(q *query, workspace string) (entries, chars int64, err error) {
	if len(s.words) == 0 {
		err = q.row(sizeMemory, []any{workspace, s.key}, &entries, &chars)
		return entries, chars, err
	}
	err = q.each(memoryTexts, []any{workspace, s.key}, func(r scanner) error {
		var o memoryText
		if err := r.Scan(&o.key, &o.value, &o.createdAt); err != nil {
			return err
		}
		s.look(o)
		entries++
		chars += int64(utf8.RuneCountInString(o.value))
		return nil
	})
	return entries, chars, err
}

// entry reads the one that was found, or nil.
func (s *similarity) entry(q *query, workspace string) (*MemoryEntry, error) {
	if s.shared == 0 {
		return nil, nil
	}
	return memoryEntry(q, workspace, s.best.key)
}

// MemorySimilar finds an entry of the workspace under another key that says
// nearly the same as value, or nil.
func (s *Store) MemorySimilar(ctx context.Context, workspace, key, value string) (*MemoryEntry, error) {
	var e *MemoryEntry
	sought := newSimilarity(MemoryEntry{Key: key, Value: value})
	err := s.snapshot(ctx, "similar memory", func(q *query) (err error) {
		if _, _, err = sought.among(q, workspace); err == nil {
			e, err = sought.entry(q, workspace)
		}
		return err
	})
	return e, err
}
