package verify

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// OutputSchemaProvider is implemented by a type that states its own part of a
// schema: one with its own JSON form, for instance. What it states is checked as
// any schema is.
type OutputSchemaProvider interface{ OutputSchema() json.RawMessage }

// SchemaOf is the schema of T as encoding/json writes it, a struct as a rule. The
// same T always gives the same bytes.
//
//   - A struct is an object that admits no other member. Names come from the json
//     tag, "-" leaves a field out, an embedded struct is flattened. A member is
//     required unless its field is a pointer or has omitempty or omitzero; a
//     pointer's member may also be null.
//   - Slices and arrays are arrays, an array with its length as both bounds; []byte
//     is a string. Integers are integers, unsigned ones from 0. Floats are numbers.
//     time.Time and what has MarshalText are strings. json.RawMessage and any are
//     any value.
//   - A tag such as `schema:"description=Where it fails,enum=low|high"` adds to a
//     member. Its keys are description, enum (values parted by |), minimum, maximum,
//     minLength, maxLength, minItems and maxItems; in a value, \\, is a comma.
//
// What has no shape in the subset is an *InvalidSchemaError that names the field:
// maps, other interfaces, channels, functions, complex numbers, types that contain
// themselves, structs without an exported field, an unknown key in a tag, a bound
// that means nothing for the field's type, and a type with its own MarshalJSON that
// is no OutputSchemaProvider.
func SchemaOf[T any]() (*Schema, error) {
	t := reflect.TypeFor[T]()
	g := &generator{}
	doc, err := g.of(t, t.String())
	if err != nil {
		return nil, err
	}
	s, err := ParseSchema([]byte(doc))
	if e, ok := err.(*InvalidSchemaError); ok && e.Field == "" {
		e.Field = t.String()
	}
	return s, err
}

// generator writes schema documents of types.
type generator struct{ open []reflect.Type }

// doc is an object being written, its members in order.
type doc struct{ b strings.Builder }

func (d *doc) put(name, value string) {
	if d.b.Len() > 0 {
		d.b.WriteByte(',')
	}
	d.b.WriteString(quoteJSON(name) + ":" + value)
}

func (d *doc) String() string { return "{" + d.b.String() + "}" }

func quoteJSON(s string) string {
	b, _ := json.Marshal(s) // a string always marshals
	return string(b)
}

var (
	typeTime     = reflect.TypeFor[time.Time]()
	typeRaw      = reflect.TypeFor[json.RawMessage]()
	typeNumber   = reflect.TypeFor[json.Number]()
	typeJSON     = reflect.TypeFor[json.Marshaler]()
	typeText     = reflect.TypeFor[encoding.TextMarshaler]()
	typeProvider = reflect.TypeFor[OutputSchemaProvider]()
)

// has reports whether t, or a pointer to it, has the methods of iface.
func has(t, iface reflect.Type) bool {
	return t.Implements(iface) || reflect.PointerTo(t).Implements(iface)
}

func refuse(field, reason string) error { return &InvalidSchemaError{Field: field, Reason: reason} }

// of is the document of t; field is where it stands, for errors.
func (g *generator) of(t reflect.Type, field string) (string, error) {
	switch {
	case t.Kind() == reflect.Pointer:
		return g.of(t.Elem(), field)
	case t.Kind() == reflect.Interface && t.NumMethod() == 0, t == typeRaw:
		return "{}", nil
	case t == typeTime:
		return `{"type":"string"}`, nil
	case t == typeNumber:
		return `{"type":"number"}`, nil
	case has(t, typeProvider):
		return provided(t, field)
	case has(t, typeJSON):
		return "", refuse(field, "has its own MarshalJSON: let "+t.String()+" state its schema with a method OutputSchema() json.RawMessage")
	case has(t, typeText):
		return `{"type":"string"}`, nil
	}
	switch t.Kind() {
	case reflect.String:
		return `{"type":"string"}`, nil
	case reflect.Bool:
		return `{"type":"boolean"}`, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return `{"type":"integer"}`, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return `{"type":"integer","minimum":0}`, nil
	case reflect.Float32, reflect.Float64:
		return `{"type":"number"}`, nil
	case reflect.Slice, reflect.Array:
		return g.list(t, field)
	case reflect.Struct:
		return g.structure(t, field)
	}
	return "", refuse(field, "is "+article(t.Kind().String())+", which the subset of JSON Schema cannot describe")
}

func provided(t reflect.Type, field string) (out string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = refuse(field, fmt.Sprintf("OutputSchema of %s panicked on a zero value: %v", t, p))
		}
	}()
	p := reflect.New(t).Interface()
	if v, ok := p.(OutputSchemaProvider); ok {
		out = string(v.OutputSchema())
	}
	if _, err := ParseSchema([]byte(out)); err != nil {
		return "", refuse(field, "OutputSchema of "+t.String()+": "+err.Error())
	}
	return string(compact(out)), nil
}

func (g *generator) list(t reflect.Type, field string) (string, error) {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		return `{"type":"string"}`, nil
	}
	if slices.Contains(g.open, t) {
		return "", refuse(field, t.String()+" contains itself, and a schema here cannot refer to itself")
	}
	g.open = append(g.open, t)
	item, err := g.of(t.Elem(), field+"[]")
	g.open = g.open[:len(g.open)-1]
	if err != nil {
		return "", err
	}
	if t.Elem().Kind() == reflect.Pointer {
		item = orNull(item)
	}
	d := &doc{}
	d.put("type", `"array"`)
	d.put("items", item)
	if t.Kind() == reflect.Array {
		n := strconv.Itoa(t.Len())
		d.put("minItems", n)
		d.put("maxItems", n)
	}
	return d.String(), nil
}

// orNull lets a value also be null, whatever its type and its enum said.
func orNull(schema string) string {
	v, _, err := readJSON(schema)
	if err != nil {
		return schema // ParseSchema will say what is wrong
	}
	d := &doc{}
	for _, m := range v.members {
		value := schema[m.value.start:m.value.end]
		switch {
		case m.name == "type" && m.value.kind == jsonString && m.value.text != "null":
			value = "[" + quoteJSON(m.value.text) + `,"null"]`
		case m.name == "enum" && !slices.ContainsFunc(m.value.items, func(v *jsonValue) bool { return v.kind == jsonNull }):
			value = strings.TrimSuffix(value, "]") + ",null]"
		}
		d.put(m.name, value)
	}
	return d.String()
}

// member is one member of a struct's object.
type member struct {
	name     string
	schema   string
	required bool
	depth    int
	tagged   bool
}

func (g *generator) structure(t reflect.Type, field string) (string, error) {
	if slices.Contains(g.open, t) {
		return "", refuse(field, t.String()+" contains itself, and a schema here cannot refer to itself")
	}
	g.open = append(g.open, t)
	defer func() { g.open = g.open[:len(g.open)-1] }()
	all, err := g.members(t, field, 0)
	if err != nil {
		return "", err
	}
	all = dominant(all)
	if len(all) == 0 {
		return "", refuse(field, t.String()+" has no exported field that JSON would show")
	}
	props, req := &doc{}, []string{}
	for _, m := range all {
		props.put(m.name, m.schema)
		if m.required {
			req = append(req, m.name)
		}
	}
	required, _ := json.Marshal(req) // strings always marshal
	d := &doc{}
	d.put("type", `"object"`)
	d.put("properties", props.String())
	d.put("required", string(required))
	d.put("additionalProperties", "false")
	return d.String(), nil
}

// members are the members of t and of the structs embedded in it.
func (g *generator) members(t reflect.Type, field string, depth int) ([]member, error) {
	var out []member
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, opts, _ := strings.Cut(tag, ",")
		if tag == "-" {
			continue
		}
		ft := f.Type
		if f.Anonymous && name == "" {
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct && !has(ft, typeProvider) && !has(ft, typeJSON) && !has(ft, typeText) {
				if slices.Contains(g.open, ft) {
					return nil, refuse(field+"."+f.Name, ft.String()+" contains itself, and a schema here cannot refer to itself")
				}
				g.open = append(g.open, ft)
				inner, err := g.members(ft, field+"."+f.Name, depth+1)
				g.open = g.open[:len(g.open)-1]
				if err != nil {
					return nil, err
				}
				if f.Type.Kind() == reflect.Pointer {
					if !f.IsExported() && len(inner) > 0 {
						return nil, refuse(field+"."+f.Name, "is an embedded pointer to an unexported struct, which encoding/json cannot make")
					}
					for i := range inner {
						inner[i].required = false
					}
				}
				out = append(out, inner...)
				continue
			}
		}
		if !f.IsExported() {
			continue
		}
		m, err := g.member(f, name, opts, field+"."+f.Name)
		if err != nil {
			return nil, err
		}
		m.depth = depth
		out = append(out, m)
	}
	return out, nil
}

func (g *generator) member(f reflect.StructField, name, opts, field string) (member, error) {
	m := member{name: f.Name, required: true, tagged: name != ""}
	if name != "" {
		m.name = name
	}
	quoted := false
	for o := range strings.SplitSeq(opts, ",") {
		switch o {
		case "omitempty", "omitzero":
			m.required = false
		case "string":
			quoted = true
		}
	}
	schema, err := g.of(f.Type, field)
	if err != nil {
		return m, err
	}
	if quoted && scalar(f.Type) {
		// encoding/json then writes the value inside a string.
		schema = `{"type":"string"}`
	}
	pointer := f.Type.Kind() == reflect.Pointer
	if pointer {
		m.required = false
	}
	if schema, err = tagged(schema, f.Tag.Get("schema"), field, pointer); err != nil {
		return m, err
	}
	if pointer {
		schema = orNull(schema)
	}
	m.schema = schema
	return m, nil
}

// scalar reports whether the string option of a json tag means something for t.
func scalar(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer && t.Name() == "" {
		t = t.Elem()
	}
	k := t.Kind()
	return k == reflect.Bool || k == reflect.String || k >= reflect.Int && k <= reflect.Float64
}

// dominant resolves names that several fields have as encoding/json does: the
// least deep wins, then the one with a tag, and else none of them.
func dominant(all []member) []member {
	var out []member
	for i, m := range all {
		wins := true
		for j, o := range all {
			if i == j || o.name != m.name {
				continue
			}
			better := m.depth < o.depth || m.depth == o.depth && m.tagged && !o.tagged
			wins = wins && better
		}
		if wins {
			out = append(out, m)
		}
	}
	return out
}

// tagged adds what a schema tag says to a member's schema. The values of a
// nullable member include null.
func tagged(schema, tag, field string, nullable bool) (string, error) {
	if tag == "" {
		return schema, nil
	}
	body := strings.TrimSuffix(strings.TrimPrefix(schema, "{"), "}")
	seen := map[string]bool{}
	for part := range splitTag(tag) {
		key, value, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		if !ok || seen[key] {
			return "", refuse(field, fmt.Sprintf("schema tag: %q must be written once, as key=value", part))
		}
		seen[key] = true
		var text string
		switch key {
		case "description":
			text = quoteJSON(value)
		case "enum":
			text = enumOf(schema, value, nullable)
		case "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems":
			if v, _, err := readJSON(value); err != nil || v.kind != jsonNumber {
				return "", refuse(field, fmt.Sprintf("schema tag: %s=%q is not a number", key, value))
			}
			if kind, ok := boundless(schema, key); ok {
				return "", refuse(field, fmt.Sprintf("schema tag: %s bounds nothing of %s", key, article(kind)))
			}
			text = strings.TrimSpace(value)
		default:
			return "", refuse(field, fmt.Sprintf("schema tag: %q is none of description, enum, minimum, maximum, minLength, maxLength, minItems, maxItems", key))
		}
		if key == "minimum" {
			body = strings.Replace(body, `,"minimum":0`, "", 1) // an unsigned type's own, which the tag narrows
		}
		if body != "" {
			body += ","
		}
		body += quoteJSON(key) + ":" + text
	}
	return "{" + body + "}", nil
}

// boundless says that a bound has no effect on the one type of a member, and which
// type that is: a bound that is ignored is a demand that is silently dropped.
func boundless(schema, bound string) (kind string, yes bool) {
	rest, ok := strings.CutPrefix(schema, `{"type":"`)
	if !ok {
		return "", false // any value, or what a type states by itself
	}
	kind, _, _ = strings.Cut(rest, `"`)
	switch bound {
	case "minLength", "maxLength":
		return kind, kind != "string"
	case "minItems", "maxItems":
		return kind, kind != "array"
	}
	return kind, kind != "integer" && kind != "number"
}

// enumOf writes the values of an enum tag in the type of the member.
func enumOf(schema, value string, nullable bool) string {
	var out []string
	for v := range strings.SplitSeq(value, "|") {
		if strings.HasPrefix(schema, `{"type":"string"`) {
			v = quoteJSON(v)
		} else if _, _, err := readJSON(v); err != nil {
			v = quoteJSON(v)
		}
		out = append(out, v)
	}
	if nullable {
		out = append(out, "null")
	}
	return "[" + strings.Join(out, ",") + "]"
}

// splitTag parts a tag at its commas; "\," is a comma of a value.
func splitTag(tag string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var part strings.Builder
		for i := 0; i < len(tag); i++ {
			switch {
			case tag[i] == '\\' && i+1 < len(tag) && tag[i+1] == ',':
				part.WriteByte(',')
				i++
			case tag[i] == ',':
				if !yield(part.String()) {
					return
				}
				part.Reset()
			default:
				part.WriteByte(tag[i])
			}
		}
		yield(part.String())
	}
}
