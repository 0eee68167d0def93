// Package textwords cuts texts into the words by which notes are compared: with a
// subject, and with each other.
package textwords

import (
	"strings"
	"unicode"
)

// Min is the length in characters under which a word tells nothing about a subject.
const Min = 3

// Each hands over the words of a text in lower case, as often as they occur.
func Each(text string, fn func(word string)) {
	start, chars := -1, 0
	end := func(at int) {
		if start >= 0 && chars >= Min {
			fn(strings.ToLower(text[start:at]))
		}
		start, chars = -1, 0
	}
	for i, r := range text {
		if !unicode.IsLetter(r) && !unicode.IsNumber(r) {
			end(i)
			continue
		}
		if start < 0 {
			start = i
		}
		chars++
	}
	end(len(text))
}
