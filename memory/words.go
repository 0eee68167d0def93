package memory

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// minWord is the length under which a word tells nothing about a subject.
const minWord = 3

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
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		if utf8.RuneCountInString(f) >= minWord {
			w[strings.ToLower(f)] = struct{}{}
		}
	}
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
	scopes map[string]map[string]cut
}

// cut is a note's value with the words of key and value.
type cut struct {
	value string
	words Words
}
