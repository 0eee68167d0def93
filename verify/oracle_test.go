package verify

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// conforms is the subset read straight from its definition, over what
// encoding/json makes of schema and value.
func conforms(schema map[string]any, v any) bool {
	rat := func(v any) *big.Rat {
		r, _ := new(big.Rat).SetString(string(v.(json.Number)))
		return r
	}
	isType := func(name string) bool {
		switch x := v.(type) {
		case nil:
			return name == "null"
		case bool:
			return name == "boolean"
		case string:
			return name == "string"
		case []any:
			return name == "array"
		case map[string]any:
			return name == "object"
		case json.Number:
			return name == "number" || name == "integer" && rat(x).IsInt()
		}
		return false
	}
	switch t := schema["type"].(type) {
	case string:
		if !isType(t) {
			return false
		}
	case []any:
		if !slices.ContainsFunc(t, func(n any) bool { return isType(n.(string)) }) {
			return false
		}
	}
	if e, ok := schema["enum"].([]any); ok && !slices.ContainsFunc(e, func(x any) bool { return same(x, v) }) {
		return false
	}
	within := func(n int, low, high string) bool {
		if l, ok := schema[low]; ok && big.NewRat(int64(n), 1).Cmp(rat(l)) < 0 {
			return false
		}
		h, ok := schema[high]
		return !ok || big.NewRat(int64(n), 1).Cmp(rat(h)) <= 0
	}
	switch x := v.(type) {
	case json.Number:
		if l, ok := schema["minimum"]; ok && rat(x).Cmp(rat(l)) < 0 {
			return false
		}
		if h, ok := schema["maximum"]; ok && rat(x).Cmp(rat(h)) > 0 {
			return false
		}
	case string:
		return within(utf8.RuneCountInString(x), "minLength", "maxLength")
	case []any:
		items, _ := schema["items"].(map[string]any)
		for _, it := range x {
			if items != nil && !conforms(items, it) {
				return false
			}
		}
		return within(len(x), "minItems", "maxItems")
	case map[string]any:
		props, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for _, r := range required {
			if _, ok := x[r.(string)]; !ok {
				return false
			}
		}
		for name, m := range x {
			sub, ok := props[name].(map[string]any)
			if !ok && schema["additionalProperties"] == false {
				return false
			}
			if ok && !conforms(sub, m) {
				return false
			}
		}
	}
	return true
}

func same(a, b any) bool {
	switch x := a.(type) {
	case json.Number:
		y, ok := b.(json.Number)
		if !ok {
			return false
		}
		p, _ := new(big.Rat).SetString(string(x))
		q, _ := new(big.Rat).SetString(string(y))
		return p.Cmp(q) == 0
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, same)
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			w, ok := y[k]
			if !ok || !same(v, w) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

var (
	someName   = rapid.SampledFrom([]string{"a", "b", "a/b", "~", "é", ""})
	someNumber = rapid.SampledFrom([]string{"0", "1", "-1", "1.0", "2", "0.5", "5e-1", "9007199254740992", "9007199254740993", "1e3", "1000"})
	someString = rapid.SampledFrom([]string{"", "a", "é", "ab", "😀", "abc"})
)

// drawValue is some JSON text.
func drawValue(t *rapid.T, depth int) string {
	kinds := 5
	if depth > 0 {
		kinds = 7
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return "null"
	case 1:
		return "true"
	case 2, 3:
		return someNumber.Draw(t, "number")
	case 4:
		b, _ := json.Marshal(someString.Draw(t, "string"))
		return string(b)
	case 5:
		var items []string
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			items = append(items, drawValue(t, depth-1))
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	var members []string
	for _, name := range rapid.SliceOfNDistinct(someName, 0, 3, rapid.ID).Draw(t, "names") {
		n, _ := json.Marshal(name)
		members = append(members, string(n)+":"+drawValue(t, depth-1))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// drawSchema is the text of a schema, which may contradict itself.
func drawSchema(t *rapid.T, depth int) string {
	var parts []string
	put := func(word string, value func() string) {
		if rapid.IntRange(0, 2).Draw(t, word) == 0 {
			parts = append(parts, fmt.Sprintf("%q:%s", word, value()))
		}
	}
	list := func(each func() string) string {
		var out []string
		for range rapid.IntRange(1, 3).Draw(t, "list") {
			out = append(out, each())
		}
		return "[" + strings.Join(out, ",") + "]"
	}
	put("type", func() string {
		name := rapid.SampledFrom(typeNames[:]).Draw(t, "name")
		if name != "null" && rapid.Bool().Draw(t, "nullable") {
			return fmt.Sprintf(`[%q,"null"]`, name)
		}
		return fmt.Sprintf("%q", name)
	})
	put("enum", func() string { return list(func() string { return drawValue(t, 1) }) })
	put("minimum", func() string { return someNumber.Draw(t, "low") })
	put("maximum", func() string { return someNumber.Draw(t, "high") })
	for _, word := range []string{"minLength", "maxLength", "minItems", "maxItems"} {
		put(word, func() string { return fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "count")) })
	}
	put("required", func() string {
		b, _ := json.Marshal(rapid.SliceOfNDistinct(someName, 0, 2, rapid.ID).Draw(t, "required"))
		return string(b)
	})
	put("additionalProperties", func() string { return fmt.Sprint(rapid.Bool().Draw(t, "open")) })
	if depth > 0 {
		put("items", func() string { return drawSchema(t, depth-1) })
		put("properties", func() string {
			var out []string
			for _, name := range rapid.SliceOfNDistinct(someName, 0, 3, rapid.ID).Draw(t, "properties") {
				n, _ := json.Marshal(name)
				out = append(out, string(n)+":"+drawSchema(t, depth-1))
			}
			return "{" + strings.Join(out, ",") + "}"
		})
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func decoded(src string) any {
	dec := json.NewDecoder(strings.NewReader(src))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		panic(err)
	}
	return v
}

// For any schema and any value the verdict is that of the definition, and a
// failure points at something that is there.
func TestTheVerdictIsThatOfTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := drawSchema(t, 2)
		s, err := ParseSchema([]byte(doc))
		if err != nil {
			return // it contradicts itself
		}
		for range 5 {
			value := drawValue(t, 2)
			_, fail := s.Check(value)
			if want := conforms(decoded(doc).(map[string]any), decoded(value)); (fail == nil) != want {
				t.Fatalf("schema %s, value %s: %v, want conforming %v", doc, value, fail, want)
			}
			if fail == nil {
				continue
			}
			seen := map[string]bool{}
			for _, v := range fail.Violations {
				at, ok := follow(decoded(value), v.Pointer)
				if !ok {
					t.Fatalf("schema %s, value %s: %q points at nothing", doc, value, v.Pointer)
				}
				if _, known := lookup(v.Keyword); !known || strings.Contains(v.Message, "what the schema demands") {
					t.Fatalf("schema %s, value %s: %+v has no words of its own", doc, value, v)
				}
				if seen[v.Pointer+v.Keyword+v.Message] {
					t.Fatalf("schema %s, value %s: %+v is listed twice", doc, value, v)
				}
				seen[v.Pointer+v.Keyword+v.Message] = true
				_ = at
			}
		}
	})
}

// Whatever conforms to the strict form conforms to the schema.
func TestTheStrictFormIsNarrower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := fmt.Sprintf(`{"type":"object","additionalProperties":false,"properties":{"a":%s,"b":{"type":["integer","null"]}},"required":["a"]}`, drawSchema(t, 1))
		s, err := ParseSchema([]byte(doc))
		if err != nil {
			return
		}
		strict, ok := s.Strict()
		if !ok {
			return
		}
		n, err := ParseSchema(strict)
		if err != nil {
			t.Fatalf("the strict form %s of %s: %v", strict, doc, err)
		}
		value := fmt.Sprintf(`{"a":%s,"b":%s}`, drawValue(t, 1), drawValue(t, 0))
		_, narrow := n.Check(value)
		_, wide := s.Check(value)
		if narrow == nil && wide != nil {
			t.Fatalf("%s conforms to %s and not to %s: %v", value, strict, doc, wide)
		}
	})
}

func follow(v any, ptr string) (any, bool) {
	if ptr == "" {
		return v, true
	}
	for step := range strings.SplitSeq(ptr[1:], "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch x := v.(type) {
		case map[string]any:
			m, ok := x[step]
			if !ok {
				return nil, false
			}
			v = m
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(x) {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

func FuzzParseSchema(f *testing.F) {
	for _, k := range keywordSamples {
		f.Add(k.schema, k.bad)
	}
	f.Add(`{"items":{"items":{"enum":[1e400]}}}`, `[[1]]`)
	f.Fuzz(func(t *testing.T, doc, answer string) {
		s, err := ParseSchema([]byte(doc))
		if err != nil {
			return
		}
		if !json.Valid([]byte(doc)) {
			t.Fatalf("ParseSchema accepted %q, which is no JSON", doc)
		}
		if strict, ok := s.Strict(); ok {
			if _, err := ParseSchema(strict); err != nil {
				t.Fatalf("the strict form %s of %s: %v", strict, doc, err)
			}
		}
		got, fail := s.Check(answer)
		if fail == nil && !conforms(decoded(doc).(map[string]any), decoded(string(got))) {
			t.Fatalf("%s conforms to %s by Check, and not by the definition", got, doc)
		}
	})
}

func FuzzVerdict(f *testing.F) {
	for _, seed := range []string{`{"passed":true}`, `{"passed":false,"reasons":["a"]} {"passed":true}`, "```\n{\"passed\":true}", `{"passed":true,"passed":false}`} {
		f.Add(seed)
	}
	shape := mustSchema(f, verdictShape)
	f.Fuzz(func(t *testing.T, reply string) {
		passed, reasons, why := readVerdict(shape, reply)
		if why != "" {
			if passed || reasons != nil {
				t.Fatalf("%q: unreadable, and yet %v %q", reply, passed, reasons)
			}
			return
		}
		if passed && !strings.Contains(reply, "true") {
			t.Fatalf("%q passes, and nowhere says true", reply)
		}
		if again, _, why := readVerdict(shape, reply+"\n"+fmt.Sprintf(`{"passed":%v}`, !passed)); why == "" && again {
			t.Fatalf("%q with the opposite verdict behind it still passes", reply)
		}
	})
}
