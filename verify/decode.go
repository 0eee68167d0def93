package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
)

// Decode reads a validated answer into the type that its schema came from. It is
// strict: a member that T does not have, two members that T would read into one
// field, or an answer that is missing, is an *OutputError, and so is a value that
// does not fit its field.
func Decode[T any](output json.RawMessage) (T, error) {
	var out T
	wrong := func(pointer, message string) (T, error) {
		var zero T
		return zero, &OutputError{Violations: []Violation{{Pointer: pointer, Message: message}}}
	}
	if len(bytes.TrimSpace(output)) == 0 {
		return wrong("", "there is none: the run did not give an answer of the demanded shape")
	}
	v, r, err := readJSON(string(output))
	if err != nil {
		return wrong("", "it is not one JSON value: "+err.Error())
	}
	if len(r.twice) > 0 {
		return wrong(r.twice[0], "the member is stated twice")
	}
	if len(r.huge) > 0 {
		return wrong(r.huge[0], "the number is too large")
	}
	if at := sameFolded(v, reflect.TypeFor[T](), nil); at != "" {
		return wrong(at, "another member differs from it only by case, and both would be read into one field")
	}
	err = decodeStrictly(output, &out)
	var misfit *json.UnmarshalTypeError
	if errors.As(err, &misfit) && strings.HasPrefix(misfit.Value, "number") {
		// 7.0 and 7e0 are integers to a schema, and none to encoding/json.
		var again T
		if decodeStrictly([]byte(plainIntegers(string(output), v)), &again) == nil {
			return again, nil
		}
	}
	if err != nil {
		return wrong("", "it does not fit the type: "+oneLine(err.Error()))
	}
	return out, nil
}

func decodeStrictly(src []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// plainIntegers is src, of which v is the value, with every whole number written
// by its digits alone.
func plainIntegers(src string, v *jsonValue) string {
	var b strings.Builder
	at := 0
	var visit func(*jsonValue)
	visit = func(v *jsonValue) {
		if r, ok := rational(v); ok && r.IsInt() {
			b.WriteString(src[at:v.start])
			b.WriteString(r.Num().String())
			at = v.end
		}
		for _, m := range v.members {
			visit(m.value)
		}
		for _, it := range v.items {
			visit(it)
		}
	}
	visit(v)
	b.WriteString(src[at:])
	return b.String()
}

// sameFolded points at a member whose name differs from another's only by case,
// where t has a struct: encoding/json would read both into one field. A map and a
// value of any type keep them apart.
func sameFolded(v *jsonValue, t reflect.Type, path []string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Interface || t == typeRaw:
		return ""
	case v.kind == jsonArray && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		for i, it := range v.items {
			if at := sameFolded(it, t.Elem(), append(path, strconv.Itoa(i))); at != "" {
				return at
			}
		}
		return ""
	case v.kind == jsonObject && t.Kind() == reflect.Map:
		for _, m := range v.members {
			if at := sameFolded(m.value, t.Elem(), append(path, m.name)); at != "" {
				return at
			}
		}
		return ""
	case t.Kind() != reflect.Struct:
		return ""
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		if _, ok := fields[fold(name)]; !ok || len(f.Index) == 1 {
			fields[fold(name)] = f.Type
		}
	}
	seen := map[string]bool{}
	for _, m := range v.members {
		at, name := append(path, m.name), fold(m.name)
		if seen[name] {
			return pointer(at)
		}
		seen[name] = true
		if ft, ok := fields[name]; ok {
			if found := sameFolded(m.value, ft, at); found != "" {
				return found
			}
		}
	}
	return ""
}

// fold takes the case off a name, both ways, as for K and the Kelvin sign.
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }
