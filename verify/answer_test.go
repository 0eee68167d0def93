package verify

import (
	"encoding/json"
	"strings"
	"testing"
)

const pairShape = `{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}},"required":["n"],"additionalProperties":false}`

func TestTheAnswerIsFoundAsModelsWriteIt(t *testing.T) {
	s := mustSchema(t, pairShape)
	for _, tc := range []struct{ name, answer, want string }{
		{"alone", `{"n":1}`, `{"n":1}`},
		{"with space around and inside", "\n { \"n\" : 1 ,\n\"s\": \"a b\" } \n", `{"n":1,"s":"a b"}`},
		{"in the order and spelling of the model", `{"s":"\u00e9","n":1.0e0}`, `{"s":"\u00e9","n":1.0e0}`},
		{"in a fence", "```json\n{\"n\":1}\n```", `{"n":1}`},
		{"in a fence without a tag", "Here:\n```\n{\"n\":1}\n```\nDone.", `{"n":1}`},
		{"in a fence of waves", "~~~\n{\"n\":1}\n~~~", `{"n":1}`},
		{"in an indented fence", "- it\n  ```json\n  {\"n\":1}\n  ```\n", `{"n":1}`},
		{"in a fence with Windows line ends", "```json\r\n{\"n\":1}\r\n```\r\n", `{"n":1}`},
		{"in a fence that is never closed", "```json\n{\"n\":1}\n", `{"n":1}`},
		{"with fence marks inside a string", "```json\n{\"n\":1,\"s\":\"```\"}\n```", "{\"n\":1,\"s\":\"```\"}"},
		{"in a longer fence with a fence in a string", "````\n{\"n\":1,\"s\":\"```json\"}\n````", "{\"n\":1,\"s\":\"```json\"}"},
		{"in the second fence", "```sh\ngo test\n```\nthen\n```json\n{\"n\":2}\n```", `{"n":2}`},
		{"in prose", `The answer is {"n":1}, as asked.`, `{"n":1}`},
		{"behind a citation", `As [1] says: {"n":1}`, `{"n":1}`},
		{"behind an object of another shape", `Not {"x":1} but {"n":1}`, `{"n":1}`},
		{"behind braces that are no JSON", `func f() { return } {"n":1}`, `{"n":1}`},
		{"behind a document that is wrong", `{"x":1,} {"n":1}`, `{"n":1}`},
		{"in brackets of the prose", `(see [the answer {"n":1}])`, `{"n":1}`},
		{"behind brackets of the prose", `as in [1, p. 5]: {"n":1}`, `{"n":1}`},
		{"behind an open brace", `{ and then {"n":1}`, `{"n":1}`},
		{"with brackets in its strings", `x {"n":1,"s":"}]\"{"} y`, `{"n":1,"s":"}]\"{"}`},
		{"the first of two that conform", `{"n":1} {"n":2}`, `{"n":1}`},
		{"a fence before the prose", "{\"n\":1}\n```\n{\"n\":2}\n```", `{"n":2}`},
		{"marks on one line", "``` {\"n\":1} ```", `{"n":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, fail := s.Check(tc.answer)
			if fail != nil || string(got) != tc.want {
				t.Errorf("Check(%q) = %s, %v, want %s", tc.answer, got, fail, tc.want)
			}
		})
	}
}

func TestAnAnswerIsNotRepairedNorUnwrapped(t *testing.T) {
	s := mustSchema(t, pairShape)
	for _, tc := range []struct{ name, answer, says string }{
		{"prose", "I could not find it.", "no JSON was found"},
		{"nothing", "", "no JSON was found"},
		{"white space", " \n", "no JSON was found"},
		{"cut off", `{"n":1,"s":"abc`, "cut off"},
		{"cut off in a fence", "```json\n{\"n\":1,\n", "cut off"},
		{"cut off behind a whole one of another shape", `{"x":1} {"n":1`, `/x: the member is not allowed`},
		{"a trailing comma", `{"n":1,}`, "no JSON was found"},
		{"single quotes", `{'n':1}`, "no JSON was found"},
		{"a comment", "{\"n\":1 // one\n}", "no JSON was found"},
		{"the right value inside another", `{"answer":{"n":1}}`, "/answer: the member is not allowed"},
		{"the right value in an array", `[{"n":1}]`, "the document: found an array, want an object"},
		{"the right value inside another, in prose", `It is {"answer":{"n":1}}.`, "/answer: the member is not allowed"},
		{"the right value in an array, in prose", `It is [{"n":1}].`, "the document: found an array, want an object"},
		{"the right value inside a document that is wrong", `{"answer": {"n":1}, oops}`, "no JSON was found"},
		{"the right value in an array that is wrong", `[{"n":1} {"n":2}]`, "no JSON was found"},
		{"the right value inside a document with a raw line end", "{\"s\":\"a\nb\",\"answer\":{\"n\":1}}", "no JSON was found"},
		{"the right value inside a document that is cut off", `{"answer": {"n":1}, "more": "`, "cut off"},
		{"the right value in an array that is cut off", `[{"n":1}, {"n":2`, "cut off"},
		{"the right value in a string", `"{\"n\":1}"`, "the document: found the string"},
		{"a member twice", `{"n":1,"n":1}`, "/n: the member is stated twice"},
		{"a member twice by an escape", `{"n":1,"\u006e":2}`, "/n: the member is stated twice"},
		{"a member of another case", `{"N":1,"n":2}`, "/N: the member is not allowed"},
		{"a number beyond comparing", `{"n":1e999999999}`, "/n: the number is too large"},
		{"a number of endless digits", `{"n":` + strings.Repeat("9", 10_000) + `}`, "/n: the number is too large"},
		{"NaN", `{"n":NaN}`, "no JSON was found"},
		{"a leading zero", `{"n":01}`, "no JSON was found"},
		{"an object before a scalar", `7 then {"x":1}`, "/x"},
		{"only a scalar", `7`, "found the number 7, want an object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, fail := s.Check(tc.answer)
			if fail == nil || !strings.Contains(fail.Error(), tc.says) {
				t.Errorf("Check(%q) = %s, %v, want a failure with %q", tc.answer, got, fail, tc.says)
			}
			if got != nil {
				t.Errorf("a failed answer gives the value %s", got)
			}
		})
	}
}

func TestTheFailuresAreThoseOfTheFirstObject(t *testing.T) {
	s := mustSchema(t, pairShape)
	_, fail := s.Check(`{"n":"x"} {"s":1}`)
	if fail == nil || len(fail.Violations) != 1 || fail.Violations[0].Pointer != "/n" {
		t.Errorf("failures = %v, want those of the first object", fail)
	}
}

func TestAScalarShapeTakesAScalarAnswer(t *testing.T) {
	if got, fail := mustSchema(t, `{"type":"string"}`).Check(" \"yes\"\n"); fail != nil || string(got) != `"yes"` {
		t.Errorf("Check = %s, %v, want the string", got, fail)
	}
	if _, fail := mustSchema(t, `{"type":"boolean"}`).Check("the answer is true"); fail == nil {
		t.Error("a word in prose was taken for a value")
	}
}

// A text that begins many values and ends none must not take more than a few
// readings of itself, nor a deep one the stack.
func TestHostileAnswersEndSoon(t *testing.T) {
	s := mustSchema(t, pairShape)
	n := 50_000
	for name, answer := range map[string]string{
		"open braces":             strings.Repeat("{", n),
		"open brackets":           strings.Repeat("[", n),
		"nested members":          strings.Repeat(`{"a":`, n),
		"nested and long":         strings.Repeat(`{"a":[`+strings.Repeat("1,", 50), n/100),
		"open strings":            strings.Repeat(`{"`, n),
		"fences":                  strings.Repeat("```\n", n),
		"fences with open braces": strings.Repeat("```\n{\"a\":\n", n/4),
		"quotes":                  strings.Repeat(`"`, n),
		"deep and closed":         strings.Repeat("[", n) + strings.Repeat("]", n),
		"many small objects":      strings.Repeat(`{"x":1}`, n/8),
		"escapes":                 `{"` + strings.Repeat(`\"`, n),
		"no UTF-8":                strings.Repeat("{\"\xff", n),
	} {
		if got, fail := s.Check(answer); fail == nil {
			t.Errorf("%s: Check = %s, want a failure", name, got)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		`{"n":1}`, "```json\n{\"n\":1}\n```", `[1] {"n":1}`, `{"n":1,"n":2}`, `{"n":1e400}`, `{"a":"\ud800"}`, "{\"n\":\xff}", `{"n":-0.0e-0}`, "~~~\n[",
	} {
		f.Add(seed)
	}
	s := mustSchema(f, pairShape)
	f.Fuzz(func(t *testing.T, answer string) {
		got, fail := s.Check(answer)
		if fail != nil {
			if got != nil || len(fail.Violations) == 0 {
				t.Fatalf("Check(%q) = %s, %v: want either a value or a failure", answer, got, fail)
			}
			return
		}
		var v struct {
			N *json.Number
			S *string
		}
		if err := json.Unmarshal(got, &v); err != nil || v.N == nil {
			t.Fatalf("Check(%q) = %s, which encoding/json reads as %+v, %v", answer, got, v, err)
		}
		if again, fail := s.Check(string(got)); fail != nil || string(again) != string(got) {
			t.Fatalf("the answer %s itself gives %s, %v", got, again, fail)
		}
	})
}
