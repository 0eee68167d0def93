package tool

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

const argsSchema = `{"type":"object","properties":{
	"path":{"type":"string"},
	"glob":{"type":"string"},
	"limit":{"type":"integer"},
	"offset":{"type":"integer"},
	"count":{"type":"integer"},
	"ratio":{"type":"number"},
	"staged":{"type":"boolean"},
	"argv":{"type":"array","items":{"type":"string"}},
	"scope":{"type":"string","enum":["workspace","global"]},
	"maybe":{"type":["string","null"]},
	"either":{"type":["integer","string"]},
	"items":{"type":"array","items":{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer"}},"required":["text"]}},
	"free":{}
},"required":["path"]}`

func TestCheckArgs(t *testing.T) {
	for _, tc := range []struct {
		name, in, want string
		bad            string // part of the error; empty: it is taken
	}{
		{"as it is", `{"path":"a","limit":3}`, `{"path":"a","limit":3}`, ""},
		{"white space goes", " {\n \"path\" : \"a b\" }\n", `{"path":"a b"}`, ""},
		{"unknown members stay", `{"path":"a","x":{"y":[1,null]}}`, `{"path":"a","x":{"y":[1,null]}}`, ""},
		{"integral float", `{"path":"a","limit":10.0}`, `{"path":"a","limit":10}`, ""},
		{"the largest that is exact", `{"path":"a","limit":9007199254740992.0}`, `{"path":"a","limit":9007199254740992}`, ""},
		{"exponent", `{"path":"a","limit":1e2}`, `{"path":"a","limit":100}`, ""},
		{"digits in a string", `{"path":"a","limit":"10"}`, `{"path":"a","limit":10}`, ""},
		{"float in a string", `{"path":"a","limit":"10.0"}`, `{"path":"a","limit":10}`, ""},
		{"negative is whole", `{"path":"a","limit":-1}`, `{"path":"a","limit":-1}`, ""},
		{"null for an optional member", `{"path":"a","limit":null,"argv":null}`, `{"path":"a"}`, ""},
		{"null where the schema has it", `{"path":"a","maybe":null}`, `{"path":"a","maybe":null}`, ""},
		{"optional string of another type", `{"path":"a","glob":5}`, `{"path":"a"}`, ""},
		{"optional boolean of another type", `{"path":"a","staged":"true"}`, `{"path":"a"}`, ""},
		{"number for a boolean", `{"path":"a","staged":1}`, `{"path":"a"}`, ""},
		{"optional list of another type", `{"path":"a","argv":"ls"}`, `{"path":"a"}`, ""},
		{"optional whole number of another type", `{"path":"a","count":"ten"}`, `{"path":"a"}`, ""},
		{"optional fraction for a whole number", `{"path":"a","count":1.5}`, `{"path":"a"}`, ""},
		{"optional number of another type", `{"path":"a","ratio":"much"}`, `{"path":"a"}`, ""},
		{"optional member of another type in an element", `{"path":"a","items":[{"text":"x","n":[]}]}`, `{"path":"a","items":[{"text":"x"}]}`, ""},
		{"a whole number in a string is none of another type", `{"path":"a","count":"7"}`, `{"path":"a","count":7}`, ""},
		{"either of two types", `{"path":"a","either":"7"}`, `{"path":"a","either":"7"}`, ""},
		{"nested coercion", `{"path":"a","items":[{"text":"x","n":"2"}]}`, `{"path":"a","items":[{"text":"x","n":2}]}`, ""},
		{"enum", `{"path":"a","scope":"global"}`, `{"path":"a","scope":"global"}`, ""},
		{"escapes stay", `{"path":"\u0061\n\ud834\udd1e"}`, `{"path":"\u0061\n\ud834\udd1e"}`, ""},
		{"key written with escapes", `{"\u0070ath":"a"}`, `{"path":"a"}`, ""},
		{"key with NUL is another key", `{"path\u0000":"secrets/k","path":"a"}`, `{"path\u0000":"secrets/k","path":"a"}`, ""},

		{"missing", `{"limit":3}`, "", `"path" is missing: it must be a string`},
		{"nothing at all", ``, "", `"path" is missing`},
		{"null", `null`, "", `"path" is missing`},
		{"required null", `{"path":null}`, "", `"path" must be a string, and is null`},
		{"required of another type", `{"path":5}`, "", `"path" must be a string, and is 5`},
		{"list for an offset", `{"path":"a","offset":[]}`, "", `"offset" must be a whole number, and is []`},
		{"fraction", `{"path":"a","limit":1.5}`, "", `"limit" must be a whole number, and is 1.5`},
		{"words for a number", `{"path":"a","limit":"ten"}`, "", `"limit" must be a whole number, and is "ten"`},
		{"hexadecimal", `{"path":"a","limit":"0x10"}`, "", `"limit" must be a whole number`},
		{"infinite", `{"path":"a","limit":"Inf"}`, "", `"limit" must be a whole number`},
		{"a fraction that may have been lost", `{"path":"a","limit":9007199254740994.0}`, "", `"limit" must be a whole number`},
		{"beyond what is exact", `{"path":"a","limit":1e300}`, "", `"limit" must be a whole number`},
		{"true for a number", `{"path":"a","limit":true}`, "", `"limit" must be a whole number, and is true`},
		{"element of another type", `{"path":"a","argv":["git",5,"push"]}`, "", `"argv[1]" must be a string, and is 5`},
		{"null element", `{"path":"a","argv":["a",null]}`, "", `"argv[1]" must be a string, and is null`},
		{"missing in an element", `{"path":"a","items":[{"text":"x"},{}]}`, "", `"items[1].text" is missing`},
		{"not in the enum", `{"path":"a","scope":"all"}`, "", `"scope" must be one of "workspace", "global", and is "all"`},

		{"twice", `{"path":"a","path":"secrets/k"}`, "", `"path" is there twice`},
		{"twice, once escaped", `{"path":"a","\u0070ath":"secrets/k"}`, "", `"path" is there twice`},
		{"twice inside an unknown member", `{"path":"a","x":{"y":1,"y":2}}`, "", `"x.y" is there twice`},
		{"other case", `{"path":"notes/a.txt","Path":"secrets/k"}`, "", `"Path" differs from "path" only by case`},
		{"other case alone", `{"PATH":"a"}`, "", `"PATH" differs from "path"`},
		{"other case of an array", `{"path":"a","argv":["true"],"ARGV":["rm"]}`, "", `"ARGV" differs`},
		{"long s", `{"path":"a","ſcope":"global"}`, "", `"ſcope" differs from "scope"`},
		{"other case in an element", `{"path":"a","items":[{"text":"x","Text":"y"}]}`, "", `"items[0].Text" differs`},

		{"array", `["a"]`, "", "one JSON object"},
		{"string", `"{}"`, "", "one JSON object"},
		{"number", `5`, "", "one JSON object"},
		{"cut off", `{"path":"a`, "", "not valid JSON"},
		{"something behind", `{"path":"a"} {"path":"b"}`, "", "not valid JSON"},
		{"trailing comma", `{"path":"a",}`, "", "not valid JSON"},
		{"bad UTF-8", "{\"path\":\"a\xff\"}", "", "UTF-8"},
		{"high surrogate alone", `{"path":"a\ud800"}`, "", "surrogate"},
		{"low surrogate alone", `{"path":"\udc00a"}`, "", "surrogate"},
		{"two high surrogates", `{"path":"\ud834\ud834"}`, "", "surrogate"},
		{"surrogate before another escape", `{"path":"\ud834\n"}`, "", "surrogate"},
		{"surrogate in a key", `{"\ud800":1,"path":"a"}`, "", "surrogate"},
		{"too deep", `{"path":"a","x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "", "levels deep"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := CheckArgs(json.RawMessage(argsSchema), json.RawMessage(tc.in))
			if tc.bad == "" {
				if err != nil || string(got) != tc.want {
					t.Errorf("CheckArgs = %s, %v, want %s", got, err, tc.want)
				}
				return
			}
			var ae *ArgsError
			if !errors.As(err, &ae) || !strings.Contains(err.Error(), tc.bad) || got != nil {
				t.Errorf("CheckArgs = %s, %v, want an error with %q", got, err, tc.bad)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error has several lines: %v", err)
			}
		})
	}
}

func TestStrictSpecObjectsToWhatIsOptionalAsWell(t *testing.T) {
	s := Spec{Schema: json.RawMessage(argsSchema), Strict: true}
	for in, bad := range map[string]string{
		`{"path":"a","glob":5}`: `"glob" must be a string`, `{"path":"a","staged":"true"}`: `"staged" must be true or false`,
		`{"path":"a","argv":"ls"}`: `"argv" must be an array`, `{"path":"a","count":"ten"}`: `"count" must be a whole number`,
		`{"path":"a","items":[{"text":"x","n":[]}]}`: `"items[0].n" must be a whole number`,
	} {
		if got, err := s.CheckArgs(json.RawMessage(in)); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s = %s, %v, want an error with %q", in, got, err, bad)
		}
	}
	if got, err := s.CheckArgs(json.RawMessage(`{"path":"a","count":"7","glob":null}`)); err != nil || string(got) != `{"path":"a","count":7}` {
		t.Errorf("what is well formed = %s, %v", got, err)
	}
}

func TestCheckArgsNeedsNoSchema(t *testing.T) {
	for _, schema := range []string{``, `{}`, `true`, `{"type":"object"}`, `{"$ref":"#/x"}`} {
		got, err := CheckArgs(json.RawMessage(schema), json.RawMessage(`{"a":[1,"x"]}`))
		if err != nil || string(got) != `{"a":[1,"x"]}` {
			t.Errorf("with schema %q: %s, %v", schema, got, err)
		}
	}
	if got, err := CheckArgs(nil, nil); err != nil || string(got) != `{}` {
		t.Errorf("no arguments = %s, %v, want {}", got, err)
	}
}

func TestDecodeArgsKeepsTheValue(t *testing.T) {
	in := `{ "b" : [ 1 , -2.5e3 , true , false , null , "é<&>" , { "c" : {} } , [] ] }`
	got, err := DecodeArgs(json.RawMessage(in))
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if json.Unmarshal([]byte(in), &a) != nil || json.Unmarshal(got, &b) != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("DecodeArgs = %s, which says something else than %s", got, in)
	}
}

func TestLongValuesAreCutInErrors(t *testing.T) {
	_, err := CheckArgs(json.RawMessage(argsSchema), json.RawMessage(`{"path":["`+strings.Repeat("é", 5000)+`"]}`))
	if err == nil || len(err.Error()) > 300 || !strings.Contains(err.Error(), "…") {
		t.Errorf("error of %d bytes: %.80v", len(err.Error()), err)
	}
}

func FuzzCheckArgs(f *testing.F) {
	for _, s := range []string{`{"path":"a"}`, `{"path":"\ud834\udd1e","limit":"1e1"}`, `{"a":{"b":[{}]}}`, ` null `, `{"path":1,"path":2}`, `{"PATH":""}`, "{\"\\u0000\":0}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := DecodeArgs(json.RawMessage(in))
		if err == nil {
			var a, b any
			if text := strings.TrimSpace(in); text != "" && text != "null" {
				if json.Unmarshal([]byte(in), &a) != nil || json.Unmarshal(got, &b) != nil || !reflect.DeepEqual(a, b) {
					t.Errorf("DecodeArgs(%q) = %s says something else", in, got)
				}
			}
			again, err := DecodeArgs(got)
			if err != nil || string(again) != string(got) {
				t.Errorf("not stable: %q -> %s -> %s, %v", in, got, again, err)
			}
		}
		checked, err := CheckArgs(json.RawMessage(argsSchema), json.RawMessage(in))
		if err != nil {
			return
		}
		// What passed can be decoded, and means one thing to every reader: also to
		// one that matches keys without regard to case.
		var m map[string]json.RawMessage
		if err := json.Unmarshal(checked, &m); err != nil {
			t.Fatalf("CheckArgs(%q) = %s, which does not decode: %v", in, checked, err)
		}
		var s struct{ Path string }
		if err := json.Unmarshal(checked, &s); err != nil {
			t.Fatalf("CheckArgs(%q) = %s: %v", in, checked, err)
		}
		var exact string
		if err := json.Unmarshal(m["path"], &exact); err != nil || exact != s.Path {
			t.Errorf("path is %q by its exact key and %q by a case-blind decoder", exact, s.Path)
		}
		twice, err := CheckArgs(json.RawMessage(argsSchema), checked)
		if err != nil || string(twice) != string(checked) {
			t.Errorf("not stable: %s -> %s, %v", checked, twice, err)
		}
	})
}
