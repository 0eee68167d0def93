package verify

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// keyword is one word of the subset of JSON Schema that a Schema may use.
type keyword struct {
	name string
	// strict says that vendors' strict modes take it as it is.
	strict bool
	// note marks an annotation: it says nothing about a value, and neither the
	// validator nor a strict mode is given it, except the description.
	note bool
	// read checks the keyword's value and keeps what it means.
	read func(w *schemaWalk, n *shape, v *jsonValue) string
}

// keywordTable is the closed subset. The constructor, the refusal, the validator's
// copy and the strict projection all read it; a test holds that the validator
// has an arm for each.
func keywordTable() []keyword {
	return []keyword{
		{name: "type", strict: true, read: readType},
		{name: "properties", strict: true, read: readProperties},
		{name: "required", strict: true, read: readRequired},
		{name: "additionalProperties", strict: true, read: readClosed},
		{name: "items", strict: true, read: readItems},
		{name: "minItems", strict: true, read: countInto(func(n *shape) **int { return &n.minItems })},
		{name: "maxItems", strict: true, read: countInto(func(n *shape) **int { return &n.maxItems })},
		{name: "enum", strict: true, read: readEnum},
		{name: "minimum", strict: true, read: boundInto(func(n *shape) **big.Rat { return &n.minimum })},
		{name: "maximum", strict: true, read: boundInto(func(n *shape) **big.Rat { return &n.maximum })},
		{name: "minLength", read: countInto(func(n *shape) **int { return &n.minLength })},
		{name: "maxLength", read: countInto(func(n *shape) **int { return &n.maxLength })},
		{name: "$schema", note: true, read: readNote},
		{name: "title", note: true, read: readNote},
		{name: "description", strict: true, note: true, read: readNote},
	}
}

func lookup(name string) (keyword, bool) {
	for _, k := range keywordTable() {
		if k.name == name {
			return k, true
		}
	}
	return keyword{}, false
}

// keywordNames lists the table, for a refusal.
func keywordNames() []string {
	var names []string
	for _, k := range keywordTable() {
		names = append(names, k.name)
	}
	return names
}

// shape is what one subschema says.
type shape struct {
	types      []string // empty: any
	order      []string // keywords in the order of the document
	names      []string // of the properties, in order
	properties map[string]*shape
	required   []string
	closed     bool // additionalProperties is false
	items      *shape
	enum       []*jsonValue
	source     *jsonValue

	minItems, maxItems, minLength, maxLength *int
	minimum, maximum                         *big.Rat
}

func (n *shape) nullable() bool { return slices.Contains(n.types, "null") }

// typeNames are the types, with the article that a sentence needs.
var typeNames = [...]string{"object", "array", "string", "number", "integer", "boolean", "null"}

func readType(_ *schemaWalk, n *shape, v *jsonValue) string {
	known := func(v *jsonValue) bool { return v.kind == jsonString && slices.Contains(typeNames[:], v.text) }
	switch {
	case known(v):
		n.types = []string{v.text}
		return ""
	case v.kind == jsonArray && len(v.items) == 2 && known(v.items[0]) && known(v.items[1]) &&
		(v.items[0].text == "null") != (v.items[1].text == "null"):
		n.types = []string{v.items[0].text, v.items[1].text}
		return ""
	}
	return `must be one of ` + strings.Join(typeNames[:], ", ") + `, or a pair of one of them and "null"`
}

func readProperties(w *schemaWalk, n *shape, v *jsonValue) string {
	if v.kind != jsonObject {
		return "must be an object of subschemas"
	}
	n.properties = map[string]*shape{}
	for _, m := range v.members {
		sub := w.into(m.value, m.name)
		n.names = append(n.names, m.name)
		n.properties[m.name] = sub
	}
	return ""
}

func readRequired(_ *schemaWalk, n *shape, v *jsonValue) string {
	const want = "must be an array of the names of members, each once"
	if v.kind != jsonArray {
		return want
	}
	for _, it := range v.items {
		if it.kind != jsonString || slices.Contains(n.required, it.text) {
			return want
		}
		n.required = append(n.required, it.text)
	}
	return ""
}

func readClosed(_ *schemaWalk, n *shape, v *jsonValue) string {
	if v.kind != jsonBool {
		return "must be true or false; a subschema is not supported here"
	}
	n.closed = !v.truth
	return ""
}

func readItems(w *schemaWalk, n *shape, v *jsonValue) string {
	if v.kind != jsonObject {
		return "must be one subschema for all items"
	}
	n.items = w.into(v)
	return ""
}

func readEnum(_ *schemaWalk, n *shape, v *jsonValue) string {
	if v.kind != jsonArray || len(v.items) == 0 {
		return "must be an array of at least one value"
	}
	n.enum = v.items
	return ""
}

func readNote(_ *schemaWalk, _ *shape, v *jsonValue) string {
	if v.kind != jsonString {
		return "must be a string"
	}
	return ""
}

func countInto(field func(*shape) **int) func(*schemaWalk, *shape, *jsonValue) string {
	return func(_ *schemaWalk, n *shape, v *jsonValue) string {
		const most = 1<<31 - 1
		r, ok := rational(v)
		if !ok || !r.IsInt() || r.Sign() < 0 || !r.Num().IsInt64() || r.Num().Int64() > most {
			return fmt.Sprintf("must be a whole number from 0 to %d", most)
		}
		*field(n) = new(int(r.Num().Int64()))
		return ""
	}
}

func boundInto(field func(*shape) **big.Rat) func(*schemaWalk, *shape, *jsonValue) string {
	return func(_ *schemaWalk, n *shape, v *jsonValue) string {
		r, ok := rational(v)
		if !ok {
			return "must be a number"
		}
		*field(n) = r
		return ""
	}
}

// rational is a number exactly. The reader has refused what would be too large.
func rational(v *jsonValue) (*big.Rat, bool) {
	if v.kind != jsonNumber {
		return nil, false
	}
	return new(big.Rat).SetString(v.text)
}

// contradiction says why no value can ever meet n, or "". The keyword that is to
// blame comes first.
func (n *shape) contradiction() (word, why string) {
	over := func(a, b *int) bool { return a != nil && b != nil && *a > *b }
	switch {
	case over(n.minItems, n.maxItems):
		return "minItems", "is greater than maxItems, so no array can have that many items"
	case over(n.minLength, n.maxLength):
		return "minLength", "is greater than maxLength, so no string can be that long"
	case n.minimum != nil && n.maximum != nil && n.minimum.Cmp(n.maximum) > 0:
		return "minimum", "is greater than maximum, so no number lies between"
	}
	if n.closed {
		for _, r := range n.required {
			if n.properties[r] == nil {
				return "required", "demands " + strconv.Quote(r) + ", which is not in properties while additionalProperties is false"
			}
		}
	}
	if n.enum != nil && len(n.types) > 0 && !slices.ContainsFunc(n.enum, n.hasType) {
		return "enum", "has no value of the type " + strings.Join(n.types, " or ")
	}
	return "", ""
}

func (n *shape) hasType(v *jsonValue) bool {
	for _, t := range n.types {
		switch {
		case string(v.kind) == t:
			return true
		case t == "integer" && v.kind == jsonNumber:
			if r, ok := rational(v); ok && r.IsInt() {
				return true
			}
		}
	}
	return false
}
