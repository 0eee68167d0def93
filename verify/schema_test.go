package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func mustSchema(t testing.TB, doc string) *Schema {
	t.Helper()
	s, err := ParseSchema([]byte(doc))
	if err != nil {
		t.Fatalf("ParseSchema(%s): %v", doc, err)
	}
	return s
}

func TestAKeywordOutsideTheSubsetRefusesTheSchema(t *testing.T) {
	outside := []string{
		"oneOf", "anyOf", "allOf", "not", "$ref", "$defs", "definitions", "patternProperties", "if", "then", "else",
		"format", "pattern", "const", "uniqueItems", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "prefixItems",
		"contains", "default", "examples", "nullable", "$id", "$anchor", "$comment", "dependentRequired", "Type", "", "a/b~c",
	}
	for _, word := range outside {
		for _, tc := range []struct{ doc, at string }{
			{`{%s: true}`, ""},
			{`{"type":"object","properties":{"p":{%s: true}}}`, "/properties/p"},
			{`{"type":"array","items":{"items":{%s: true}}}`, "/items/items"},
		} {
			name, _ := json.Marshal(word)
			doc := fmt.Sprintf(tc.doc, name)
			_, err := ParseSchema([]byte(doc))
			var e *InvalidSchemaError
			if !errors.As(err, &e) {
				t.Errorf("ParseSchema(%s) = %v, want an *InvalidSchemaError", doc, err)
				continue
			}
			if want := tc.at + pointer([]string{word}); e.Keyword != word || e.Pointer != want {
				t.Errorf("ParseSchema(%s) blames %q at %q, want %q at %q", doc, e.Keyword, e.Pointer, word, want)
			}
			if !strings.Contains(e.Reason, "additionalProperties") {
				t.Errorf("the refusal of %q does not list what is supported: %v", word, err)
			}
		}
	}
}

func TestAMalformedSchemaIsRefusedWhereItIsWrong(t *testing.T) {
	deep := strings.Repeat(`{"items":`, MaxSchemaDepth+1) + `{}` + strings.Repeat(`}`, MaxSchemaDepth+1)
	for _, tc := range []struct{ name, doc, pointer, says string }{
		{"nothing", ``, "", "complete JSON document"},
		{"cut", `{"type":`, "", "complete JSON document"},
		{"no JSON", `{type: "object"}`, "", "not JSON"},
		{"no text", "{\"title\":\"\xff\"}", "", "not UTF-8"},
		{"two documents", `{} {}`, "", "not JSON"},
		{"true", `true`, "", "must be an object"},
		{"false in properties", `{"properties":{"a":false}}`, "/properties/a", "must be an object"},
		{"an unknown type", `{"type":"text"}`, "/type", "must be one of"},
		{"a list of types", `{"type":["string","integer"]}`, "/type", "pair"},
		{"a list of three types", `{"type":["string","integer","null"]}`, "/type", "pair"},
		{"a list of one type", `{"type":["string"]}`, "/type", "pair"},
		{"null twice", `{"type":["null","null"]}`, "/type", "pair"},
		{"properties as an array", `{"properties":["a"]}`, "/properties", "object of subschemas"},
		{"required as a string", `{"required":"a"}`, "/required", "array of the names"},
		{"required of a number", `{"required":[1]}`, "/required", "array of the names"},
		{"required twice", `{"required":["a","a"]}`, "/required", "each once"},
		{"additionalProperties as a schema", `{"additionalProperties":{}}`, "/additionalProperties", "true or false"},
		{"items as a tuple", `{"items":[{}]}`, "/items", "one subschema"},
		{"an empty enum", `{"enum":[]}`, "/enum", "at least one"},
		{"an enum that is no array", `{"enum":"a"}`, "/enum", "at least one"},
		{"minimum as a string", `{"minimum":"1"}`, "/minimum", "must be a number"},
		{"a negative count", `{"minItems":-1}`, "/minItems", "whole number"},
		{"half a count", `{"maxLength":1.5}`, "/maxLength", "whole number"},
		{"a count beyond any length", `{"maxItems":1e30}`, "/maxItems", "whole number"},
		{"a title that is no string", `{"title":1}`, "/title", "must be a string"},
		{"a number beyond comparing", `{"minimum":1e401}`, "/minimum", "too large"},
		{"a member twice", `{"type":"object","type":"object"}`, "/type", "twice"},
		{"a property twice", `{"properties":{"a":{},"a":{}}}`, "/properties/a", "twice"},
		{"too deep", deep, strings.Repeat("/items", MaxSchemaDepth+1), "nested deeper"},
		{"too large", `{"title":"` + strings.Repeat("x", MaxSchema) + `"}`, "", "bytes"},
		{"more items at least than at most", `{"minItems":3,"maxItems":2}`, "/minItems", "greater than maxItems"},
		{"longer at least than at most", `{"properties":{"a":{"maxLength":1,"minLength":2}}}`, "/properties/a/minLength", "greater than maxLength"},
		{"a minimum over the maximum", `{"minimum":9007199254740993,"maximum":9007199254740992}`, "/minimum", "greater than maximum"},
		{"required and not allowed", `{"properties":{"a":{}},"required":["a","b"],"additionalProperties":false}`, "/required", `"b"`},
		{"required and nothing allowed", `{"required":["b"],"additionalProperties":false}`, "/required", `"b"`},
		{"an enum of other types", `{"type":"integer","enum":["1",1.5,null]}`, "/enum", "no value of the type integer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseSchema([]byte(tc.doc))
			var e *InvalidSchemaError
			if !errors.As(err, &e) || e.Pointer != tc.pointer || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error = %v, want one at %q with %q", err, tc.pointer, tc.says)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("error has more than one line: %q", err)
			}
		})
	}
}

func TestWhatOnlyLooksLikeAKeywordIsFine(t *testing.T) {
	for _, doc := range []string{
		`{}`,
		`{"properties":{"$ref":{},"oneOf":{"type":"string"},"":{},"a/b":{}},"required":["$ref"]}`,
		`{"enum":[{"$ref":"x","oneOf":[]},{"type":"bogus"}]}`,
		`{"type":["null","array"],"items":{"type":["string","null"]}}`,
		`{"$schema":"https://example.invalid/no-such-draft","title":"","description":"d"}`,
		`{"minItems":2.0,"maxItems":2e0}`,
		`{"type":"integer","enum":[1.0,"x"]}`,
		`{"required":["not-in-properties"]}`,
		"\n{ \"type\" :\t\"string\" }\n",
		strings.Repeat(`{"items":`, MaxSchemaDepth) + `{}` + strings.Repeat(`}`, MaxSchemaDepth),
	} {
		mustSchema(t, doc)
	}
}

func TestTheDocumentIsKeptAsItWasWritten(t *testing.T) {
	doc := "{ \"title\": \"My Report!\",\n \"required\": [\"b\"], \"properties\": {\"b\": {}, \"a\": {}} }"
	s := mustSchema(t, doc)
	if got := string(s.JSON()); got != doc || s.String() != doc {
		t.Errorf("JSON = %q, want %q", got, doc)
	}
	type holder struct{ Output *Schema }
	b, err := json.Marshal(holder{s})
	if err != nil {
		t.Fatal(err)
	}
	var back holder
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if got := back.Output.String(); got != string(compact(doc)) {
		t.Errorf("after a round trip %q, want the members in their order", got)
	}
	if err := json.Unmarshal([]byte(`{"Output":{"oneOf":[]}}`), &back); err == nil {
		t.Error("a schema outside the subset was read back")
	}
	if _, err := json.Marshal(holder{&Schema{}}); err == nil {
		t.Error("a schema that nobody made was written")
	}
	for title, want := range map[string]string{"": "output", "My Report!": "My_Report_", strings.Repeat("é", 99): strings.Repeat("_", 64)} {
		if got := wireName(title); got != want {
			t.Errorf("wire name of %q = %q, want %q", title, got, want)
		}
	}
	if got := s.Request().Name; got != "My_Report_" {
		t.Errorf("name in a request = %q", got)
	}
}

// keywordSamples has, for each keyword that says something, a schema and an
// answer that misses only that keyword, with the place to be blamed.
var keywordSamples = map[string]struct{ schema, good, bad, pointer, message string }{
	"type":                 {`{"properties":{"a":{"type":"integer"}}}`, `{"a":3}`, `{"a":"3"}`, "/a", `found the string "3", want an integer`},
	"properties":           {`{"properties":{"a":{"properties":{"b":{"type":"null"}}}}}`, `{"a":{"b":null}}`, `{"a":{"b":0}}`, "/a/b", "found the number 0, want null"},
	"required":             {`{"properties":{"a":{"required":["b~/c"]}}}`, `{"a":{"b~/c":null}}`, `{"a":{}}`, "/a", `the member "b~/c" is missing`},
	"additionalProperties": {`{"properties":{"a":{}},"additionalProperties":false}`, `{"a":1}`, `{"x~/":1}`, "/x~0~1", `the member is not allowed, only "a"`},
	"items":                {`{"items":{"type":"boolean"}}`, `[true]`, `[true,[]]`, "/1", "found an array, want a boolean"},
	"minItems":             {`{"minItems":2}`, `[1,2]`, `[1]`, "", "found 1 item, want at least 2"},
	"maxItems":             {`{"maxItems":2}`, `[1,2]`, `[1,2,3]`, "", "found 3 items, want at most 2"},
	"enum":                 {`{"properties":{"a":{"enum":["x",2,null]}}}`, `{"a":2.0}`, `{"a":"y"}`, "/a", `found the string "y", want one of "x", 2, null`},
	"minimum":              {`{"properties":{"a":{"minimum":0.5}}}`, `{"a":0.5}`, `{"a":0.49}`, "/a", "found 0.49, want at least 0.5"},
	"maximum":              {`{"items":{"maximum":9007199254740992}}`, `[9007199254740992]`, `[9007199254740993]`, "/0", "found 9007199254740993, want at most 9007199254740992"},
	"minLength":            {`{"items":{"minLength":2}}`, `["éé"]`, `["é"]`, "/0", "found 1 character, want at least 2"},
	"maxLength":            {`{"items":{"maxLength":2}}`, `["😀é"]`, `["abc"]`, "/0", "found 3 characters, want at most 2"},
}

func TestEveryKeywordIsJudgedAndBlamesItsPlace(t *testing.T) {
	for _, k := range keywordTable() {
		sample, ok := keywordSamples[k.name]
		if k.note {
			if ok {
				t.Errorf("annotation %s is judged", k.name)
			}
			continue
		}
		if !ok {
			t.Errorf("keyword %s has no sample: nothing shows that it is judged", k.name)
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			s := mustSchema(t, sample.schema)
			got, fail := s.Check(sample.good)
			if fail != nil || string(got) != sample.good {
				t.Errorf("Check(%s) = %s, %v, want it as it is", sample.good, got, fail)
			}
			_, fail = s.Check(sample.bad)
			if fail == nil {
				t.Fatalf("Check(%s) conforms to %s", sample.bad, sample.schema)
			}
			blamed := k.name
			switch k.name {
			case "properties", "items": // they only lead to where it is wrong
				blamed = "type"
			}
			want := []Violation{{sample.pointer, blamed, sample.message}}
			if d := cmp.Diff(want, fail.Violations); d != "" {
				t.Errorf("violations of %s (-want +got):\n%s", sample.bad, d)
			}
		})
	}
}

func TestAnnotationsSayNothingAboutAValue(t *testing.T) {
	s := mustSchema(t, `{"$schema":"file:///etc/passwd","title":"t","description":"d"}`)
	for _, answer := range []string{`1`, `null`, `{}`, `"x"`} {
		if _, fail := s.Check(answer); fail != nil {
			t.Errorf("Check(%s) = %v, want anything to conform", answer, fail)
		}
	}
}

func TestJudgementOfValues(t *testing.T) {
	for _, tc := range []struct {
		name, schema, answer string
		ok                   bool
	}{
		{"3.0 is an integer", `{"type":"integer"}`, `3.0`, true},
		{"3e0 is an integer", `{"type":"integer"}`, `3e0`, true},
		{"30e-1 is an integer", `{"type":"integer"}`, `30e-1`, true},
		{"3.5 is none", `{"type":"integer"}`, `3.5`, false},
		{"an integer is a number", `{"type":"number"}`, `3`, true},
		{"minus zero is zero", `{"minimum":0}`, `-0`, true},
		{"a great integer is itself", `{"enum":[9007199254740993]}`, `9007199254740993`, true},
		{"and not its neighbour", `{"enum":[9007199254740993]}`, `9007199254740992`, false},
		{"a tenth is a tenth", `{"minimum":0.1,"maximum":0.1}`, `0.1`, true},
		{"1e400 can be compared", `{"minimum":1e399}`, `1e400`, true},
		{"true is no number", `{"type":"number"}`, `true`, false},
		{"null in a pair", `{"type":["string","null"]}`, `null`, true},
		{"null alone", `{"type":"string"}`, `null`, false},
		{"null counts as present", `{"required":["a"]}`, `{"a":null}`, true},
		{"an absent property is not judged", `{"properties":{"a":{"type":"string"}}}`, `{}`, true},
		{"no properties and none allowed", `{"additionalProperties":false}`, `{"a":1}`, false},
		{"not allowed is per object", `{"properties":{"a":{}},"additionalProperties":false}`, `{"a":{"b":1}}`, true},
		{"a bound on another type says nothing", `{"minimum":5,"minLength":5,"minItems":5}`, `{"a":1}`, true},
		{"enum objects regardless of order", `{"enum":[{"a":1,"b":[2]}]}`, `{"b":[2.0],"a":1}`, true},
		{"enum arrays in order", `{"enum":[[1,2]]}`, `[2,1]`, false},
		{"enum true is not 1", `{"enum":[1]}`, `true`, false},
		{"an escape is its character", `{"enum":["é"]}`, `"\u00e9"`, true},
		{"an escaped name is that name", `{"required":["a"]}`, `{"\u0061":1}`, true},
		{"a surrogate pair is one character", `{"maxLength":1}`, `"\ud83d\ude00"`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, fail := mustSchema(t, tc.schema).Check(tc.answer); (fail == nil) != tc.ok {
				t.Errorf("Check(%s) against %s = %v, want conforming %v", tc.answer, tc.schema, fail, tc.ok)
			}
		})
	}
}

func TestAllFailuresAreListedInTheOrderOfTheSchema(t *testing.T) {
	s := mustSchema(t, `{"required":["name","id","z"],"type":"object","properties":{"z":{},"id":{},
		"rows":{"maxItems":1,"items":{"properties":{"b":{"type":"string"},"a":{"minimum":1,"enum":[1,2]}},"required":["c"]}},
		"name":{"minLength":3}},"additionalProperties":false}`)
	_, fail := s.Check(`{"y":1,"name":"x","rows":[{"a":0,"b":1},{"b":"ok","a":0,"c":1}],"x":1}`)
	if fail == nil {
		t.Fatal("it conforms")
	}
	var got []string
	for _, v := range fail.Violations {
		got = append(got, v.Pointer+" "+v.Keyword)
	}
	want := []string{
		" required", " required",
		"/rows maxItems", "/rows/0/b type", "/rows/0/a enum", "/rows/0 required", "/rows/1/a enum",
		"/name minLength",
		"/y additionalProperties", "/x additionalProperties",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("violations (-want +got):\n%s", d)
	}
	for range 20 {
		if _, again := s.Check(`{"y":1,"name":"x","rows":[{"a":0,"b":1},{"b":"ok","a":0,"c":1}],"x":1}`); again.Error() != fail.Error() {
			t.Fatal("the same answer gives another text")
		}
	}
}

func TestAnErrorNamesTwentyFailuresAndCountsTheRest(t *testing.T) {
	s := mustSchema(t, `{"items":{"type":"string"}}`)
	_, fail := s.Check("[" + strings.TrimSuffix(strings.Repeat("1,", 500), ",") + "]")
	if fail == nil || len(fail.Violations) != 500 {
		t.Fatalf("failures = %v, want all 500 kept", fail)
	}
	if told := fail.Error(); strings.Count(told, "; ") != maxShownViolations || !strings.HasSuffix(told, "and 480 more") {
		t.Errorf("error = %s", told)
	}
	if strings.Contains(fail.Error(), "\n") {
		t.Error("the error has more than one line")
	}
	huge := strings.Repeat("x", 1<<20)
	_, fail = mustSchema(t, `{"type":"integer"}`).Check(`"` + huge + `"`)
	if n := utf8.RuneCountInString(fail.Error()); n > 300 {
		t.Errorf("a long value makes a failure of %d characters", n)
	}
}

func TestStrictFormsAreGivenOnlyWhereStrictModesTakeThem(t *testing.T) {
	for _, tc := range []struct{ name, doc, want string }{
		{"all required", `{"title":"t","type":"object","properties":{"a":{"type":"string","description":"d"}},"required":["a"],"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"d"}},"additionalProperties":false,"required":["a"]}`},
		{"what may be null becomes required", `{"type":"object","properties":{"b":{"type":["integer","null"]},"a":{"type":"array","items":{"type":"number","minimum":0}}},"required":["a"],"additionalProperties":false}`,
			`{"type":"object","properties":{"b":{"type":["integer","null"]},"a":{"type":"array","items":{"type":"number","minimum":0}}},"additionalProperties":false,"required":["b","a"]}`},
		{"an object without members", `{"type":"object","properties":{},"additionalProperties":false}`,
			`{"type":"object","properties":{},"additionalProperties":false,"required":[]}`},
		{"a member that may be missing", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, ""},
		{"other members allowed", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, ""},
		{"a nested object is open", `{"type":"object","properties":{"a":{"type":"object","properties":{}}},"required":["a"],"additionalProperties":false}`, ""},
		{"a bound that strict modes lack", `{"type":"object","properties":{"a":{"type":"string","maxLength":3}},"required":["a"],"additionalProperties":false}`, ""},
		{"a value of any type", `{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}`, ""},
		{"an array of anything", `{"type":"object","properties":{"a":{"type":"array"}},"required":["a"],"additionalProperties":false}`, ""},
		{"a root that is no object", `{"type":"array","items":{"type":"string"}}`, ""},
		{"a root that may be null", `{"type":["object","null"],"properties":{},"additionalProperties":false}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := mustSchema(t, tc.doc)
			got, ok := s.Strict()
			if ok != (tc.want != "") || string(got) != tc.want {
				t.Errorf("Strict = %s, %v, want %s", got, ok, tc.want)
			}
			sent := s.Request()
			if ok && string(sent.Schema) != string(got) {
				t.Errorf("request has %s, want the strict form", sent.Schema)
			}
			if !ok && string(sent.Schema) != tc.doc {
				t.Errorf("request has %s, want the document", sent.Schema)
			}
			if ok {
				again := mustSchema(t, string(got))
				if _, twice := again.Strict(); !twice {
					t.Errorf("the strict form %s is not strict", got)
				}
			}
		})
	}
}
