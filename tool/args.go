package tool

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// ArgsError says what is wrong with the arguments of a call. It is told to the
// model, which can then call again.
type ArgsError struct {
	Field  string // such as argv[1]; empty when the whole is at fault
	Reason string
}

func (e *ArgsError) Error() string {
	if e.Field == "" {
		return "arguments: " + e.Reason
	}
	return fmt.Sprintf("argument %q %s", e.Field, e.Reason)
}

// DecodeArgs reads the arguments of a call as one JSON object and returns it in
// compact form. Nothing at all, or null, is the empty object. What two readers
// could take for different things is an *ArgsError: a key that is there twice,
// at any depth, text that is not valid Unicode, nesting over 100 levels, and
// anything behind the object.
func DecodeArgs(raw json.RawMessage) (json.RawMessage, error) {
	v, err := parseArgs(raw)
	if err != nil {
		return nil, err
	}
	return v.append(nil), nil
}

// CheckArgs is DecodeArgs, and then holds the object against the schema: a
// required member that is missing or of the wrong type is an *ArgsError naming
// it, and so is a member whose name differs from a known one only by case, an
// element of the wrong type in an array, and a value that is not one of an enum.
//
// Models vary, so some values are brought into shape: a whole number may come as
// a decimal fraction of zero or as a string of digits; an optional member that
// is null or of the wrong type is left out. The exceptions are whole numbers
// called offset or limit: without one of them a whole text would be taken for a
// part of it. Members that the schema does not know are kept and mean nothing.
//
// Of the schema, type, properties, required, items and enum are read; a part
// that says anything by other means is not checked.
func CheckArgs(schema, raw json.RawMessage) (json.RawMessage, error) {
	return checkArgs(schema, raw, false)
}

// CheckArgs is the function CheckArgs by the schema of s. If s is Strict, an
// optional member of the wrong type is an *ArgsError too.
func (s Spec) CheckArgs(raw json.RawMessage) (json.RawMessage, error) {
	return checkArgs(s.Schema, raw, s.Strict)
}

func checkArgs(schema, raw json.RawMessage, strict bool) (json.RawMessage, error) {
	v, err := parseArgs(raw)
	if err != nil {
		return nil, err
	}
	if err := checkValue(shapeOf(schema), v, "", strict); err != nil {
		return nil, err
	}
	return v.append(nil), nil
}

// shape is the part of a JSON schema that is checked.
type shape struct {
	types      []string
	properties map[string]json.RawMessage
	required   []string
	items      json.RawMessage
	enum       []any
}

func shapeOf(schema json.RawMessage) shape {
	var s struct {
		Type       any                        `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
		Items      json.RawMessage            `json:"items"`
		Enum       []any                      `json:"enum"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return shape{}
	}
	sh := shape{properties: s.Properties, required: s.Required, items: s.Items, enum: s.Enum}
	switch t := s.Type.(type) {
	case string:
		sh.types = []string{t}
	case []any:
		for _, e := range t {
			if name, ok := e.(string); ok {
				sh.types = append(sh.types, name)
			}
		}
	}
	return sh
}

func (s shape) takes(t string) bool {
	return len(s.types) == 0 || slices.Contains(s.types, t)
}

func checkValue(s shape, v *argValue, field string, strict bool) error {
	if s.takes("integer") && !s.takes("number") && len(s.types) > 0 {
		if err := v.toInteger(s, field); err != nil {
			return err
		}
	}
	if !s.accepts(v) {
		return &ArgsError{Field: field, Reason: fmt.Sprintf("must be %s, and is %s", s.words(), v.show())}
	}
	if len(s.enum) > 0 && !s.allows(v) {
		return &ArgsError{Field: field, Reason: fmt.Sprintf("must be one of %s, and is %s", enumWords(s.enum), v.show())}
	}
	switch v.kind {
	case '{':
		return checkMembers(s, v, field, strict)
	case '[':
		if len(s.items) == 0 {
			return nil
		}
		item := shapeOf(s.items)
		for i, e := range v.elems {
			if err := checkValue(item, e, fmt.Sprintf("%s[%d]", field, i), strict); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkMembers(s shape, v *argValue, field string, strict bool) error {
	name := func(key string) string {
		if field == "" {
			return key
		}
		return field + "." + key
	}
	for _, key := range v.keys {
		if _, known := s.properties[key]; known {
			continue
		}
		for declared := range s.properties {
			if strings.EqualFold(key, declared) {
				return &ArgsError{Field: name(key), Reason: fmt.Sprintf("differs from %q only by case: write it as in the schema", declared)}
			}
		}
	}
	for i := 0; i < len(v.keys); {
		key, e := v.keys[i], v.elems[i]
		schema, known := s.properties[key]
		if !known {
			i++
			continue
		}
		sh := shapeOf(schema)
		optional := !slices.Contains(s.required, key)
		null := e.kind == 'n' && !sh.takes("null")
		if optional && (null || !strict && sh.mistaken(e, key)) {
			v.keys, v.elems = slices.Delete(v.keys, i, i+1), slices.Delete(v.elems, i, i+1)
			continue
		}
		if err := checkValue(sh, e, name(key), strict); err != nil {
			return err
		}
		i++
	}
	for _, key := range s.required {
		if !slices.Contains(v.keys, key) {
			sh := shapeOf(s.properties[key])
			return &ArgsError{Field: name(key), Reason: "is missing: it must be " + sh.words()}
		}
	}
	return nil
}

// mistaken reports whether the member key is of a type that s does not take, and
// is better left out than objected to.
func (s shape) mistaken(v *argValue, key string) bool {
	if slices.Contains(s.types, "integer") {
		if key == "offset" || key == "limit" {
			return false
		}
		v = &argValue{kind: v.kind, raw: v.raw} // a try
		if v.toInteger(s, key) != nil {
			return true
		}
	}
	return !s.accepts(v)
}

func (s shape) accepts(v *argValue) bool {
	if len(s.types) == 0 {
		return true
	}
	for _, t := range s.types {
		switch t {
		case "object", "array", "string", "boolean", "null":
			if kindNames[v.kind] == t {
				return true
			}
		case "number":
			if v.kind == '0' {
				return true
			}
		case "integer":
			if _, err := strconv.ParseInt(v.raw, 10, 64); v.kind == '0' && err == nil {
				return true
			}
		default:
			return true // a type of some later schema
		}
	}
	return false
}

func (s shape) allows(v *argValue) bool {
	var got any
	if json.Unmarshal(v.append(nil), &got) != nil {
		return false
	}
	return slices.ContainsFunc(s.enum, func(e any) bool { return reflect.DeepEqual(e, got) })
}

var kindNames = map[byte]string{'{': "object", '[': "array", '"': "string", '0': "number", 't': "boolean", 'n': "null"}

func (s shape) words() string {
	names := map[string]string{
		"object": "an object", "array": "an array", "string": "a string",
		"boolean": "true or false", "number": "a number", "integer": "a whole number", "null": "null",
	}
	var words []string
	for _, t := range s.types {
		if w := names[t]; w != "" {
			words = append(words, w)
		}
	}
	if len(words) == 0 {
		return "given"
	}
	return strings.Join(words, " or ")
}

func enumWords(enum []any) string {
	words := make([]string, 0, len(enum))
	for _, e := range enum {
		b, _ := json.Marshal(e)
		words = append(words, string(b))
	}
	return strings.Join(words, ", ")
}

// toInteger brings 10.0, 1e1 and "10" into the form 10.
func (v *argValue) toInteger(s shape, field string) error {
	text := v.raw
	switch v.kind {
	case '"':
		if s.takes("string") {
			return nil
		}
		text = v.text()
	case '0':
	default:
		return nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		v.kind, v.raw = '0', strconv.FormatInt(n, 10)
		return nil
	}
	// Beyond 2^53 a fraction may have been lost on the way, and nobody means it.
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 || !json.Valid([]byte(text)) {
		return &ArgsError{Field: field, Reason: "must be a whole number, and is " + v.show()}
	}
	v.kind, v.raw = '0', strconv.FormatInt(int64(f), 10)
	return nil
}
