package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/initorigin/io-harness-go/provider"
)

const (
	// MaxSchema is the size of a schema's document in bytes; it stands in the
	// prompt of every step.
	MaxSchema = 64 << 10
	// MaxSchemaDepth is how deep its subschemas may nest.
	MaxSchemaDepth = 64
)

// Schema is the demanded shape of a final answer: a JSON Schema in a small closed
// subset in which every word is checked, none is ignored, and nothing refers to
// anything else:
//
//	type  properties  required  additionalProperties  items  minItems  maxItems
//	enum  minimum  maximum  minLength  maxLength
//
// and, kept but saying nothing about a value, $schema, title and description. A
// keyword outside the subset is refused when the schema is made, never skipped when
// an answer is judged. A type is one word, or a pair of one word and "null";
// additionalProperties is true or false; items is one schema for all.
//
// [ParseSchema] and [SchemaOf] are the only ways to one. A Schema is immutable and
// safe for concurrent use.
type Schema struct {
	doc      string
	root     *shape
	compiled *jsonschema.Schema
}

// ParseSchema reads a schema document of at most MaxSchema bytes. The error is an
// *InvalidSchemaError, which names the keyword and where it stands.
func ParseSchema(doc []byte) (*Schema, error) {
	if len(doc) > MaxSchema {
		return nil, &InvalidSchemaError{Reason: fmt.Sprintf("it has %d bytes, at most %d are allowed", len(doc), MaxSchema)}
	}
	v, r, err := readJSON(string(doc))
	switch {
	case !utf8.Valid(doc):
		return nil, &InvalidSchemaError{Reason: "it is not JSON: it is not UTF-8"}
	case errors.Is(err, errCut):
		return nil, &InvalidSchemaError{Reason: "it is not one complete JSON document"}
	case err != nil:
		return nil, &InvalidSchemaError{Reason: "it is not JSON: " + err.Error()}
	case len(r.twice) > 0:
		return nil, &InvalidSchemaError{Pointer: r.twice[0], Reason: "the member is stated twice"}
	case len(r.huge) > 0:
		return nil, &InvalidSchemaError{Pointer: r.huge[0], Reason: "the number is too large to compare exactly"}
	}
	w := &schemaWalk{}
	root := w.shape(v)
	if w.err != nil {
		return nil, w.err
	}
	compiled, err := compile(root)
	if err != nil {
		return nil, &InvalidSchemaError{Reason: strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	return &Schema{doc: string(doc), root: root, compiled: compiled}, nil
}

// Validate reports, as an *InvalidSchemaError, that s is a zero Schema, which says
// nothing and judges nothing.
func (s *Schema) Validate() error {
	if s == nil || s.root == nil {
		return &InvalidSchemaError{Reason: "it was made by neither ParseSchema nor SchemaOf"}
	}
	return nil
}

// JSON is the document as it was written.
func (s *Schema) JSON() json.RawMessage { return json.RawMessage(s.doc) }

// MarshalJSON writes the document; encoding/json takes out its white space.
func (s *Schema) MarshalJSON() ([]byte, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return []byte(s.doc), nil
}

// UnmarshalJSON is ParseSchema.
func (s *Schema) UnmarshalJSON(b []byte) error {
	p, err := ParseSchema(b)
	if err != nil {
		return err
	}
	*s = *p
	return nil
}

// String is the document.
func (s *Schema) String() string { return s.doc }

// title is the title of the document, "" when it has none.
func (s *Schema) title() string {
	if t := s.root.source.member("title"); t != nil {
		return t.text
	}
	return ""
}

// Request is the schema for a provider that can promise a shape: its strict form
// where there is one, else the document.
func (s *Schema) Request() *provider.OutputSchema {
	doc, ok := s.Strict()
	if !ok {
		doc = s.JSON()
	}
	return &provider.OutputSchema{Name: wireName(s.title()), Schema: doc}
}

// wireName makes a title into what vendors take as a name: 1 to 64 of
// A-Z a-z 0-9 _ -.
func wireName(title string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, title)
	if name == "" {
		return "output"
	}
	return name[:min(len(name), 64)]
}

// InvalidSchemaError says why a document is no Schema.
type InvalidSchemaError struct {
	Pointer string // RFC 6901, of the keyword or value to blame; "" is the root
	Keyword string // the keyword to blame; "" when it is none
	Field   string // the Go field to blame, when the schema came from a type
	Reason  string
}

func (e *InvalidSchemaError) Error() string {
	var b strings.Builder
	b.WriteString("output schema")
	if e.Field != "" {
		b.WriteString(" of " + e.Field)
	}
	if e.Pointer != "" {
		b.WriteString(" at " + e.Pointer)
	}
	b.WriteString(": ")
	if e.Keyword != "" {
		b.WriteString(strconv.Quote(e.Keyword) + " ")
	}
	b.WriteString(e.Reason)
	return b.String()
}

// schemaWalk reads a document into shapes and stops at the first thing that is
// wrong.
type schemaWalk struct {
	path  []string
	depth int
	err   error
}

func (w *schemaWalk) refuse(keyword, reason string, below ...string) {
	if w.err == nil {
		w.err = &InvalidSchemaError{Pointer: pointer(slices.Concat(w.path, below)), Keyword: keyword, Reason: reason}
	}
}

// into reads a subschema that lies below the current keyword.
func (w *schemaWalk) into(v *jsonValue, steps ...string) *shape {
	mark := len(w.path)
	w.path = append(w.path, steps...)
	w.depth++
	n := w.shape(v)
	w.depth--
	w.path = w.path[:mark]
	return n
}

func (w *schemaWalk) shape(v *jsonValue) *shape {
	n := &shape{source: v}
	if w.err != nil {
		return n
	}
	if v.kind != jsonObject {
		w.refuse("", "a schema must be an object, this is "+article(string(v.kind)))
		return n
	}
	if w.depth > MaxSchemaDepth {
		w.refuse("", fmt.Sprintf("it is nested deeper than %d", MaxSchemaDepth))
		return n
	}
	for _, m := range v.members {
		k, ok := lookup(m.name)
		if !ok {
			w.refuse(m.name, "is not supported; the keywords are "+strings.Join(keywordNames(), ", "), m.name)
			return n
		}
		n.order = append(n.order, m.name)
		w.path = append(w.path, m.name)
		why := k.read(w, n, m.value)
		w.path = w.path[:len(w.path)-1]
		if why != "" {
			w.refuse(m.name, why, m.name)
		}
		if w.err != nil {
			return n
		}
	}
	if word, why := n.contradiction(); why != "" {
		w.refuse(word, why, word)
	}
	return n
}

// compile makes the validator. It is given only the keywords that say something
// about a value, so that no annotation can lead it anywhere else.
func compile(root *shape) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{}) // loads nothing
	if err := c.AddResource("answer:", root.assertions()); err != nil {
		return nil, err
	}
	return c.Compile("answer:")
}

// assertions is n without its annotations.
func (n *shape) assertions() map[string]any {
	out := map[string]any{}
	for _, m := range n.source.members {
		if k, _ := lookup(m.name); k.note {
			continue
		}
		switch m.name {
		case "properties":
			props := map[string]any{}
			for name, sub := range n.properties {
				props[name] = sub.assertions()
			}
			out[m.name] = props
		case "items":
			out[m.name] = n.items.assertions()
		default:
			out[m.name] = m.value.plain()
		}
	}
	return out
}
