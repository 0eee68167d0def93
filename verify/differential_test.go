package verify

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// library is a general validator's own verdict on the document as it was written:
// not on the copy that a Schema makes of it.
func library(t interface{ Fatalf(string, ...any) }, doc string) func(value string) bool {
	raw, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
	if err != nil {
		t.Fatalf("%s is no JSON: %v", doc, err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("mem:///schema", raw); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	s, err := c.Compile("mem:///schema")
	if err != nil {
		t.Fatalf("%s is no schema: %v", doc, err)
	}
	return func(value string) bool {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
		if err != nil {
			t.Fatalf("%s is no JSON: %v", value, err)
		}
		return s.Validate(v) == nil
	}
}

// For any schema of the subset and any value the verdict is that of a general
// validator.
func TestTheVerdictIsThatOfAGeneralValidator(t *testing.T) {
	compared, conforming := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		doc := drawSchema(t, 2)
		s, err := ParseSchema([]byte(doc))
		if err != nil {
			return // it contradicts itself
		}
		says := library(t, doc)
		for range 5 {
			value := drawValue(t, 2)
			_, fail := s.Check(value)
			if want := says(value); (fail == nil) != want {
				t.Fatalf("schema %s, value %s: %v, and the library says conforming %v", doc, value, fail, want)
			}
			compared++
			if fail == nil {
				conforming++
			}
		}
	})
	if conforming == 0 || conforming == compared {
		t.Errorf("%d of %d values conformed: the comparison says nothing", conforming, compared)
	}
}

func TestEveryKeywordAgreesWithAGeneralValidator(t *testing.T) {
	for name, sample := range keywordSamples {
		says := library(t, sample.schema)
		if !says(sample.good) || says(sample.bad) {
			t.Errorf("%s: the library says %v of %s and %v of %s", name, says(sample.good), sample.good, says(sample.bad), sample.bad)
		}
	}
}

func FuzzVerdictAgainstAGeneralValidator(f *testing.F) {
	for _, k := range keywordSamples {
		f.Add(k.schema, k.good)
		f.Add(k.schema, k.bad)
	}
	f.Add(`{"type":["integer","null"]}`, `3.0`)
	f.Add(`{"maxLength":1}`, `"👨‍👩‍👧"`)
	f.Fuzz(func(t *testing.T, doc, value string) {
		s, err := ParseSchema([]byte(doc))
		if err != nil || strings.Contains(doc, "$schema") { // the library would look for that one
			return
		}
		got, fail := s.Check(value)
		if fail == nil && !library(t, doc)(string(got)) {
			t.Fatalf("%s conforms to %s, and the library says no", got, doc)
		}
	})
}
