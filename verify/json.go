package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The reader of JSON that came from a model. Unlike encoding/json it keeps the
// order of members, sees a member that is stated twice, keeps numbers as they are
// written, and can tell a document that is cut off from one that is wrong. It
// repairs nothing.

const (
	// maxDepth bounds nesting, so that reading cannot exhaust the stack. A schema
	// of the allowed depth describes far less.
	maxDepth = 1000
	// maxExponent and maxDigits bound a number: comparing exactly costs time and
	// memory that grow with both. 400 is past the range of float64.
	maxExponent = 400
	maxDigits   = 800
)

var (
	errCut    = errors.New("the document ends before it is complete")
	errCostly = errors.New("the text is too costly to search for a document")
)

type jsonKind string

const (
	jsonObject jsonKind = "object"
	jsonArray  jsonKind = "array"
	jsonString jsonKind = "string"
	jsonNumber jsonKind = "number"
	jsonBool   jsonKind = "boolean"
	jsonNull   jsonKind = "null"
)

// jsonValue is one value and where it stands in the text that was read.
type jsonValue struct {
	kind       jsonKind
	start, end int
	text       string // of a string: its contents; of a number: as written
	truth      bool
	members    []jsonMember
	items      []*jsonValue
}

type jsonMember struct {
	name  string
	value *jsonValue
}

func (v *jsonValue) member(name string) *jsonValue {
	for _, m := range v.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// plain is v as encoding/json with UseNumber would give it.
func (v *jsonValue) plain() any {
	switch v.kind {
	case jsonObject:
		out := make(map[string]any, len(v.members))
		for _, m := range v.members {
			out[m.name] = m.value.plain()
		}
		return out
	case jsonArray:
		out := make([]any, len(v.items))
		for i, it := range v.items {
			out[i] = it.plain()
		}
		return out
	case jsonString:
		return v.text
	case jsonNumber:
		return json.Number(v.text)
	case jsonBool:
		return v.truth
	}
	return nil
}

// jsonReader reads values out of src.
type jsonReader struct {
	src string
	pos int
	// work is how many bytes may still be read. A search over a text starts at
	// many places, and a hostile text makes each of them long.
	work int
	// begun says that a member or an item has been read: that a bracket opens a
	// document, right or wrong, and does not stand in prose.
	begun bool
	// twice are the pointers of members that were stated more than once, huge
	// those of numbers that are too large to compare.
	twice, huge []string
	path        []string
}

// readJSON reads src as one value with nothing but white space around it.
func readJSON(src string) (*jsonValue, *jsonReader, error) {
	r := &jsonReader{src: src, work: 2*len(src) + 2}
	v, err := r.value(0)
	if err != nil {
		return nil, r, err
	}
	r.space()
	if r.pos < len(src) {
		return nil, r, r.wrong("something follows the document")
	}
	return v, r, nil
}

func (r *jsonReader) wrong(what string) error {
	return fmt.Errorf("byte %d: %s", r.pos, what)
}

func (r *jsonReader) space() {
	for r.pos < len(r.src) {
		switch r.src[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

func (r *jsonReader) value(depth int) (*jsonValue, error) {
	r.space()
	if r.pos >= len(r.src) {
		return nil, errCut
	}
	if depth > maxDepth {
		return nil, r.wrong("it is nested too deep")
	}
	if r.spend(1) {
		return nil, errCostly
	}
	start := r.pos
	v := &jsonValue{start: start}
	var err error
	switch c := r.src[r.pos]; {
	case c == '{':
		v.kind = jsonObject
		err = r.object(v, depth)
	case c == '[':
		v.kind = jsonArray
		err = r.array(v, depth)
	case c == '"':
		v.kind = jsonString
		v.text, err = r.str()
	case c == '-' || c >= '0' && c <= '9':
		v.kind = jsonNumber
		v.text, err = r.number()
	case c == 't':
		v.kind, v.truth = jsonBool, true
		err = r.word("true")
	case c == 'f':
		v.kind = jsonBool
		err = r.word("false")
	case c == 'n':
		v.kind = jsonNull
		err = r.word("null")
	default:
		err = r.wrong("no value begins here")
	}
	if err != nil {
		return nil, err
	}
	v.end = r.pos
	return v, nil
}

// spend takes n bytes off the work, and reports whether none is left.
func (r *jsonReader) spend(n int) bool {
	r.work -= n
	return r.work < 0
}

func (r *jsonReader) word(w string) error {
	rest := r.src[r.pos:]
	if strings.HasPrefix(rest, w) {
		r.pos += len(w)
		return nil
	}
	if strings.HasPrefix(w, rest) {
		return errCut
	}
	return r.wrong("no value begins here")
}

func (r *jsonReader) object(v *jsonValue, depth int) error {
	r.pos++
	seen := map[string]bool{}
	for {
		r.space()
		switch {
		case r.pos >= len(r.src):
			return errCut
		case r.src[r.pos] == '}' && len(v.members) == 0:
			r.pos++
			return nil
		case r.src[r.pos] != '"':
			return r.wrong("want the name of a member")
		}
		name, err := r.str()
		if err != nil {
			return err
		}
		r.path = append(r.path, name)
		if seen[name] {
			r.twice = append(r.twice, pointer(r.path))
		}
		seen[name] = true
		if err := r.sign(':', "want a colon"); err != nil {
			return err
		}
		r.begun = true
		m, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		r.path = r.path[:len(r.path)-1]
		v.members = append(v.members, jsonMember{name, m})
		done, err := r.next('}', "want a comma or a closing brace")
		if done || err != nil {
			return err
		}
	}
}

func (r *jsonReader) array(v *jsonValue, depth int) error {
	r.pos++
	r.space()
	if r.pos < len(r.src) && r.src[r.pos] == ']' {
		r.pos++
		return nil
	}
	for {
		r.path = append(r.path, strconv.Itoa(len(v.items)))
		it, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		r.path = r.path[:len(r.path)-1]
		v.items = append(v.items, it)
		r.begun = true
		done, err := r.next(']', "want a comma or a closing bracket")
		if done || err != nil {
			return err
		}
	}
}

func (r *jsonReader) sign(c byte, want string) error {
	r.space()
	if r.pos >= len(r.src) {
		return errCut
	}
	if r.src[r.pos] != c {
		return r.wrong(want)
	}
	r.pos++
	return nil
}

// next reads the comma before another element, or the end of the container.
func (r *jsonReader) next(end byte, want string) (bool, error) {
	r.space()
	if r.pos >= len(r.src) {
		return false, errCut
	}
	switch r.src[r.pos] {
	case end:
		r.pos++
		return true, nil
	case ',':
		r.pos++
		return false, nil
	}
	return false, r.wrong(want)
}

func (r *jsonReader) str() (string, error) {
	start := r.pos
	plain := true
	for i := r.pos + 1; i < len(r.src); i++ {
		switch c := r.src[i]; {
		case c == '"':
			r.pos = i + 1
			if r.spend(i - start) {
				return "", errCostly
			}
			if plain {
				return r.src[start+1 : i], nil
			}
			var s string
			if err := json.Unmarshal([]byte(r.src[start:i+1]), &s); err != nil {
				r.pos = start
				return "", r.wrong("a string holds an escape that is none")
			}
			return s, nil
		case c == '\\':
			plain = false
			i++
		case c < 0x20:
			r.pos = i
			return "", r.wrong("a string holds a raw control character")
		case c >= 0x80:
			plain = false // let encoding/json replace what is not UTF-8
		}
	}
	if r.spend(len(r.src) - start) {
		return "", errCostly
	}
	return "", errCut
}

func (r *jsonReader) number() (string, error) {
	start := r.pos
	digits := func() bool {
		from := r.pos
		for r.pos < len(r.src) && r.src[r.pos] >= '0' && r.src[r.pos] <= '9' {
			r.pos++
		}
		return r.pos > from
	}
	at := func(set string) bool {
		return r.pos < len(r.src) && strings.IndexByte(set, r.src[r.pos]) >= 0
	}
	bad := func() (string, error) {
		if r.pos >= len(r.src) {
			return "", errCut
		}
		return "", r.wrong("a number is not written as JSON writes numbers")
	}
	if at("-") {
		r.pos++
	}
	switch {
	case at("0"):
		r.pos++
	case !digits():
		return bad()
	}
	if at(".") {
		r.pos++
		if !digits() {
			return bad()
		}
	}
	mantissa := r.pos - start
	exponent := 0
	if at("eE") {
		r.pos++
		if at("+-") {
			r.pos++
		}
		from := r.pos
		if !digits() {
			return bad()
		}
		n, err := strconv.Atoi(r.src[from:r.pos])
		if err != nil {
			n = maxExponent + 1
		}
		exponent = n
	}
	if r.spend(r.pos - start) {
		return "", errCostly
	}
	if exponent > maxExponent || mantissa > maxDigits {
		r.huge = append(r.huge, pointer(r.path))
	}
	return r.src[start:r.pos], nil
}

// pointer is path as RFC 6901 writes it.
func pointer(path []string) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteByte('/')
		b.WriteString(pointerEscape.Replace(p))
	}
	return b.String()
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")
