package tool

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxArgsDepth bounds nesting: no tool needs more, and the walk is recursive.
const maxArgsDepth = 100

// argValue is a JSON value as it was written. encoding/json would let the last
// of two equal keys win, match keys without regard to case and replace a lone
// surrogate, and what was checked would then not be what is used.
type argValue struct {
	kind  byte   // '{' '[' '"' '0' (number) 't' (boolean) 'n' (null)
	raw   string // of anything but objects and arrays
	keys  []string
	elems []*argValue
}

func parseArgs(raw json.RawMessage) (*argValue, error) {
	if !utf8.Valid(raw) {
		return nil, &ArgsError{Reason: "they are not valid UTF-8"}
	}
	text := strings.TrimSpace(string(raw))
	if text == "" || text == "null" {
		return &argValue{kind: '{'}, nil
	}
	if text[0] != '{' {
		return nil, &ArgsError{Reason: "they must be one JSON object"}
	}
	if err := json.Unmarshal([]byte(text), new(json.RawMessage)); err != nil {
		return nil, &ArgsError{Reason: fmt.Sprintf("they are not valid JSON: %v", err)}
	}
	p := argParser{s: text}
	v, err := p.value("", 0)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// argParser walks over text that is known to be valid JSON.
type argParser struct {
	s string
	i int
}

func (p *argParser) space() {
	for p.i < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.i]) >= 0 {
		p.i++
	}
}

func (p *argParser) value(field string, depth int) (*argValue, error) {
	if depth > maxArgsDepth {
		return nil, &ArgsError{Field: field, Reason: fmt.Sprintf("is nested more than %d levels deep", maxArgsDepth)}
	}
	p.space()
	switch c := p.s[p.i]; c {
	case '{':
		return p.object(field, depth)
	case '[':
		return p.array(field, depth)
	case '"':
		raw, err := p.str(field)
		return &argValue{kind: '"', raw: raw}, err
	case 't', 'f', 'n':
		start := p.i
		for p.i < len(p.s) && p.s[p.i] >= 'a' && p.s[p.i] <= 'z' {
			p.i++
		}
		kind := byte('t')
		if c == 'n' {
			kind = 'n'
		}
		return &argValue{kind: kind, raw: p.s[start:p.i]}, nil
	}
	start := p.i
	for p.i < len(p.s) && strings.IndexByte("+-.0123456789eE", p.s[p.i]) >= 0 {
		p.i++
	}
	return &argValue{kind: '0', raw: p.s[start:p.i]}, nil
}

func (p *argParser) object(field string, depth int) (*argValue, error) {
	v := &argValue{kind: '{'}
	seen := map[string]bool{}
	p.i++
	for {
		p.space()
		switch p.s[p.i] {
		case '}':
			p.i++
			return v, nil
		case ',':
			p.i++
			continue
		}
		raw, err := p.str(field)
		if err != nil {
			return nil, err
		}
		key := (&argValue{kind: '"', raw: raw}).text()
		name := key
		if field != "" {
			name = field + "." + key
		}
		if seen[key] {
			return nil, &ArgsError{Field: name, Reason: "is there twice: give it once"}
		}
		seen[key] = true
		p.space()
		p.i++ // the colon
		e, err := p.value(name, depth+1)
		if err != nil {
			return nil, err
		}
		v.keys, v.elems = append(v.keys, key), append(v.elems, e)
	}
}

func (p *argParser) array(field string, depth int) (*argValue, error) {
	v := &argValue{kind: '['}
	p.i++
	for {
		p.space()
		switch p.s[p.i] {
		case ']':
			p.i++
			return v, nil
		case ',':
			p.i++
			continue
		}
		e, err := p.value(fmt.Sprintf("%s[%d]", field, len(v.elems)), depth+1)
		if err != nil {
			return nil, err
		}
		v.elems = append(v.elems, e)
	}
}

// str takes a string with its quotes, and refuses half of a surrogate pair,
// which is no character and which every decoder replaces in its own way.
func (p *argParser) str(field string) (string, error) {
	start := p.i
	p.i++
	var high rune // a surrogate that waits for its other half
	lone := func() (string, error) {
		return "", &ArgsError{Field: field, Reason: "holds half of a surrogate pair, which is not a character"}
	}
	for {
		c := p.s[p.i]
		if c == '\\' && p.s[p.i+1] == 'u' {
			n, _ := strconv.ParseUint(p.s[p.i+2:p.i+6], 16, 32)
			r := rune(n)
			p.i += 6
			switch {
			case high != 0 && utf16.DecodeRune(high, r) == utf8.RuneError:
				return lone()
			case high != 0:
				high = 0
			case utf16.IsSurrogate(r):
				high = r
			}
			continue
		}
		if high != 0 {
			return lone()
		}
		switch c {
		case '"':
			p.i++
			return p.s[start:p.i], nil
		case '\\':
			p.i += 2
		default:
			p.i++
		}
	}
}

// text is what a string says.
func (v *argValue) text() string {
	var s string
	_ = json.Unmarshal([]byte(v.raw), &s) // it is a valid string
	return s
}

// append writes the value in compact form.
func (v *argValue) append(b []byte) []byte {
	switch v.kind {
	case '{':
		b = append(b, '{')
		for i, e := range v.elems {
			if i > 0 {
				b = append(b, ',')
			}
			key, _ := json.Marshal(v.keys[i]) // a string always has a JSON form
			b = append(append(b, key...), ':')
			b = e.append(b)
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		for i, e := range v.elems {
			if i > 0 {
				b = append(b, ',')
			}
			b = e.append(b)
		}
		return append(b, ']')
	}
	return append(b, v.raw...)
}

// show is the value as an error message quotes it: shortened, so that a message
// about a whole file's content stays a line.
func (v *argValue) show() string {
	s := string(v.append(nil))
	const most = 60
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
