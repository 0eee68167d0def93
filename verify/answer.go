package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// Check reads the answer of a model. It returns the JSON value in compact form,
// its members exactly as the model wrote them, or every way in which the answer
// misses the schema.
//
// The candidates are, in this order: the body of each fenced block, the whole
// text, and each value in braces or brackets that stands in the prose, and in no
// document that is cut off or wrong. The first that conforms is the answer. When none does, the failures are those of the
// first candidate that is an object or an array, else of the first that is JSON
// at all. Nothing is repaired: no bracket closed, no comma removed, no value
// unwrapped.
func (s *Schema) Check(answer string) (json.RawMessage, *OutputError) {
	answer = strings.ToValidUTF8(answer, "\uFFFD")
	c := candidates{text: answer}
	var first, firstScalar *OutputError
	for v := range c.all {
		failures := s.judge(v)
		if failures == nil {
			return compact(v.src[v.value.start:v.value.end]), nil
		}
		e := &OutputError{Violations: failures}
		switch {
		case v.value.kind == jsonObject || v.value.kind == jsonArray:
			if first == nil {
				first = e
			}
		case firstScalar == nil:
			firstScalar = e
		}
	}
	switch {
	case first != nil:
		return nil, first
	case firstScalar != nil:
		return nil, firstScalar
	}
	message := "no JSON was found in the answer: send the document alone"
	if c.cut {
		message = "the document ends before it is complete, as if the answer had been cut off: send the whole document, and make it shorter if it was too long"
	}
	return nil, &OutputError{Violations: []Violation{{Message: message}}}
}

func compact(src string) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(src)); err != nil {
		// The reader accepted it, so only its own bug could lead here.
		return json.RawMessage(src)
	}
	return b.Bytes()
}

// candidate is one JSON value of an answer.
type candidate struct {
	src    string
	value  *jsonValue
	reader *jsonReader
}

// searchWork is how much of an answer is read, as a multiple of its length, in
// looking for values in prose.
const searchWork = 8

type candidates struct {
	text string
	cut  bool // some value was cut off
}

// all yields the candidates in the order in which they are tried. One that is the
// whole of a fenced block may come again as a value in the prose: it would not
// conform then either.
func (c *candidates) all(yield func(candidate) bool) {
	for _, body := range fences(c.text) {
		if v, r, err := readJSON(body); err == nil {
			if !yield(candidate{body, v, r}) {
				return
			}
		} else if errors.Is(err, errCut) && strings.TrimSpace(body) != "" {
			c.cut = true
		}
	}
	v, r, err := readJSON(c.text)
	if err == nil {
		yield(candidate{c.text, v, r})
		return // every span lies inside the value that was just tried
	}
	work := searchWork*len(c.text) + 1<<16
	for at := 0; at < len(c.text); {
		i := strings.IndexAny(c.text[at:], "{[")
		if i < 0 {
			return
		}
		at += i
		r := &jsonReader{src: c.text, pos: at, work: work}
		v, err := r.value(0)
		work = r.work
		switch {
		case err == nil:
			if !yield(candidate{c.text, v, r}) {
				return
			}
			at = v.end
		case errors.Is(err, errCostly):
			return
		case errors.Is(err, errCut): // and everything behind it belongs to it
			c.cut = c.cut || r.begun || c.text[at] == '{'
			return
		case r.begun:
			// A document that is wrong, and no bracket of the prose: what stands in
			// it is a part of another value, and not an answer.
			if at = closing(c.text, at); at < 0 {
				return
			}
		default:
			at++
		}
	}
}

// closing is the place behind the bracket that closes the one at i, brackets in
// strings left out; -1 when it is never closed.
func closing(text string, i int) int {
	depth, quoted := 0, false
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// fences are the bodies of the fenced blocks of a text. A fence ends at a line of
// its own with at least as many of the same mark, so marks inside a JSON string,
// which cannot hold a line end, never end one. A fence without an end reaches to
// the end of the text.
func fences(text string) []string {
	var bodies []string
	mark, open, start := byte(0), 0, 0
	for at := 0; at < len(text); {
		end := strings.IndexByte(text[at:], '\n')
		next := len(text)
		line := text[at:]
		if end >= 0 {
			next = at + end + 1
			line = text[at : at+end]
		}
		m, n, rest := fenceMark(line)
		switch {
		case open == 0 && n >= 3 && strings.IndexByte(rest, '`') < 0:
			mark, open, start = m, n, next
		case open > 0 && m == mark && n >= open && strings.TrimSpace(rest) == "":
			bodies = append(bodies, text[start:at])
			open = 0
		}
		at = next
	}
	if open > 0 {
		bodies = append(bodies, text[start:])
	}
	return bodies
}

// fenceMark is the run of fence marks that a line begins with, and what follows.
func fenceMark(line string) (mark byte, n int, rest string) {
	line = strings.TrimLeft(line, " ")
	if line == "" || line[0] != '`' && line[0] != '~' {
		return 0, 0, ""
	}
	mark = line[0]
	for n < len(line) && line[n] == mark {
		n++
	}
	return mark, n, line[n:]
}
