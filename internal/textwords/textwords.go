// Package textwords cuts texts into the words by which notes are compared: with a
// subject, and with each other.
package textwords

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Min is the length in characters under which a word tells nothing about a subject.
const Min = 3

// Each hands over the words of a text in lower case, as often as they occur.
func Each(text string, fn func(word string)) {
	for word, rest := next(text); word != ""; word, rest = next(rest) {
		fn(word)
	}
}

// next is the first word of a text, empty when it has none, and what follows it.
func next(text string) (word, rest string) {
	for text != "" {
		size, chars, lower := leading(text)
		if chars < Min {
			text = text[max(size, 1):] // no byte within a character starts a letter
			continue
		}
		word, rest = text[:size], text[size:]
		if !lower {
			word = strings.ToLower(word)
		}
		return word, rest
	}
	return "", ""
}

// leading is the word that a text starts with: its size in bytes and in
// characters, and whether it is known to be in lower case. Nearly all of most
// notes is ASCII, which needs no tables.
func leading(text string) (size, chars int, lower bool) {
	lower = true
	for size < len(text) {
		c := text[size]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			size++
		case 'A' <= c && c <= 'Z':
			size++
			lower = false
		case c < utf8.RuneSelf:
			return size, chars, lower
		default:
			r, n := utf8.DecodeRuneInString(text[size:])
			if !unicode.IsLetter(r) && !unicode.IsNumber(r) {
				return size, chars, lower
			}
			size += n
			lower = false
		}
		chars++
	}
	return size, chars, lower
}

// few is up to how many words a look at each of them is quicker than a map.
const few = 32

// A Cutter takes one text after the other apart into its words, each once. The zero
// value is ready. It is not safe for concurrent use.
type Cutter struct {
	found []string
	seen  map[string]struct{} // those of found, once there are many
}

// Words are the words of texts, each once. They stand until the next call.
func (c *Cutter) Words(texts ...string) []string {
	c.found = c.found[:0]
	clear(c.seen)
	for _, text := range texts {
		for word, rest := next(text); word != ""; word, rest = next(rest) {
			c.add(word)
		}
	}
	return c.found
}

func (c *Cutter) add(word string) {
	if len(c.found) < few {
		if !slices.Contains(c.found, word) {
			c.found = append(c.found, word)
		}
		return
	}
	if c.seen == nil {
		c.seen = map[string]struct{}{}
	}
	if len(c.seen) == 0 {
		for _, w := range c.found {
			c.seen[w] = struct{}{}
		}
	}
	if _, ok := c.seen[word]; !ok {
		c.seen[word] = struct{}{}
		c.found = append(c.found, word)
	}
}
