package verify

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type severity string

type place struct {
	File string `json:"file" schema:"description=Path\\, from the root,minLength=1"`
	Line uint   `json:"line"`
}

type meta struct {
	Tool string `json:"tool"`
	Note string `json:"note"`
}

type ownShape struct{ v any }

func (ownShape) OutputSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","maxLength":5}`)
}
func (o *ownShape) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &o.v)
}
func (o ownShape) MarshalJSON() ([]byte, error) { return json.Marshal(o.v) }

type temperature float64

func (t temperature) MarshalText() ([]byte, error) { return []byte("warm"), nil }

type report struct {
	meta                        // embedded: flattened, promoted fields are shown
	Title    string             `json:"title"`
	Severity severity           `json:"severity" schema:"enum=low|high"`
	Score    int8               `json:"score" schema:"minimum=0,maximum=10"`
	Ratio    float32            `json:"ratio,omitempty"`
	Done     bool               `json:"done"`
	Places   []place            `json:"places" schema:"minItems=1,maxItems=9"`
	Pair     [2]int             `json:"pair"`
	Raw      []byte             `json:"raw"`
	When     time.Time          `json:"when,omitzero"`
	Best     *place             `json:"best"`
	Level    *int               `json:"level,omitempty" schema:"enum=1|2"`
	Any      any                `json:"any"`
	Verbatim json.RawMessage    `json:"verbatim"`
	Number   json.Number        `json:"number"`
	Own      ownShape           `json:"own"`
	Text     temperature        `json:"text"`
	Quoted   int                `json:"quoted,string"`
	Count    uint16             `schema:"minimum=3"`
	Links    []*string          `json:"links"`
	Inner    struct{ A []map1 } `json:"-"`
	//lint:ignore SA5008 the odd spelling for a member named "-" is the subject
	Dash string `json:"-,"`
	//lint:ignore U1000 unexported fields are left out
	hidden string
	Note   string                   `json:"note"` // wins over the embedded one
	Func   func()                   `json:"-"`
	Map    map[string]chan struct{} `json:"-"`
}

type embedsUnmakable struct{ *meta }

type map1 map[string]int

func TestTheSchemaOfATypeIsThis(t *testing.T) {
	s, err := SchemaOf[report]()
	if err != nil {
		t.Fatal(err)
	}
	const placeShape = `"properties":{"file":{"type":"string","description":"Path, from the root","minLength":1},"line":{"type":"integer","minimum":0}},"required":["file","line"],"additionalProperties":false}`
	want := `{"type":"object","properties":{` + strings.Join([]string{
		`"tool":{"type":"string"}`,
		`"title":{"type":"string"}`,
		`"severity":{"type":"string","enum":["low","high"]}`,
		`"score":{"type":"integer","minimum":0,"maximum":10}`,
		`"ratio":{"type":"number"}`,
		`"done":{"type":"boolean"}`,
		`"places":{"type":"array","items":{"type":"object",` + placeShape + `,"minItems":1,"maxItems":9}`,
		`"pair":{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2}`,
		`"raw":{"type":"string"}`,
		`"when":{"type":"string"}`,
		`"best":{"type":["object","null"],` + placeShape,
		`"level":{"type":["integer","null"],"enum":[1,2,null]}`,
		`"any":{}`,
		`"verbatim":{}`,
		`"number":{"type":"number"}`,
		`"own":{"type":"string","maxLength":5}`,
		`"text":{"type":"string"}`,
		`"quoted":{"type":"string"}`,
		`"Count":{"type":"integer","minimum":3}`,
		`"links":{"type":"array","items":{"type":["string","null"]}}`,
		`"-":{"type":"string"}`,
		`"note":{"type":"string"}`,
	}, ",") + `},"required":["tool","title","severity","score","done","places","pair","raw","any","verbatim","number","own","text","quoted","Count","links","-","note"],"additionalProperties":false}`
	if d := cmp.Diff(want, s.String()); d != "" {
		t.Errorf("schema (-want +got):\n%s", d)
	}
	again, err := SchemaOf[report]()
	if err != nil || again.String() != s.String() {
		t.Errorf("the second time it is another: %v", err)
	}
	if _, err := SchemaOf[*report](); err != nil {
		t.Errorf("of a pointer: %v", err)
	}
}

func TestAnAnswerOfATypeDecodesIntoIt(t *testing.T) {
	type answer struct {
		Name  string   `json:"name"`
		Level *int     `json:"level"`
		Tags  []string `json:"tags,omitempty"`
		At    place    `json:"at"`
	}
	s, err := SchemaOf[answer]()
	if err != nil {
		t.Fatal(err)
	}
	level := 3
	for _, tc := range []struct {
		text string
		want answer
	}{
		{`{"name":"a","level":3,"tags":["x"],"at":{"file":"f","line":7}}`, answer{"a", &level, []string{"x"}, place{"f", 7}}},
		{`{"at":{"line":7.0,"file":"f"},"name":"","level":null}`, answer{"", nil, nil, place{"f", 7}}},
		{`{"at":{"line":70e-1,"file":"1.0"},"name":"1e0"}`, answer{"1e0", nil, nil, place{"1.0", 7}}},
		{`{"at":{"line":0,"file":"f"},"name":"b"}`, answer{"b", nil, nil, place{"f", 0}}},
	} {
		raw, fail := s.Check("It is:\n```json\n" + tc.text + "\n```")
		if fail != nil {
			t.Errorf("Check(%s): %v", tc.text, fail)
			continue
		}
		got, err := Decode[answer](raw)
		if err != nil {
			t.Errorf("Decode(%s): %v", raw, err)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("decoded (-want +got):\n%s", d)
		}
	}
}

func TestDecodingIsStrict(t *testing.T) {
	type answer struct {
		Name string `json:"name"`
	}
	for _, raw := range []string{``, ` `, `{`, `{"name":"a","other":1}`, `{"name":1}`, `{"name":1.0}`, `{"name":1e999999999}`, `{"name":"a","name":"b"}`, `{"name":"a","NAME":"b"}`, `[]`, `{"name":"a"} {}`} {
		got, err := Decode[answer](json.RawMessage(raw))
		var e *OutputError
		if !errors.As(err, &e) || got != (answer{}) {
			t.Errorf("Decode(%q) = %+v, %v, want nothing and an *OutputError", raw, got, err)
		}
	}
	type item struct {
		K int `json:"k"`
	}
	type lists struct {
		item
		List []*item           `json:"list"`
		Free any               `json:"free"`
		Raw  json.RawMessage   `json:"raw"`
		Map  map[string][]item `json:"map"`
	}
	for raw, at := range map[string]string{
		`[{"list":[{"k":1},{"k":1,"K":2}]}]`: "/0/list/1/K",
		`[{"map":{"a":[{"k":1,"K":2}]}}]`:    "/0/map/a/0/K",
		`[{"k":1,"K":2}]`:                    "/0/K",
		`[{"list":[],"LIST":[]}]`:            "/0/LIST",
		// What has no fields keeps its members apart.
		`[{"free":{"k":1,"K":2},"raw":[{"k":1,"K":2}],"map":{"k":[],"K":[]}}]`: "",
	} {
		_, err := Decode[[]lists](json.RawMessage(raw))
		var e *OutputError
		switch {
		case at == "" && err != nil:
			t.Errorf("Decode(%s): %v", raw, err)
		case at != "" && (!errors.As(err, &e) || e.Violations[0].Pointer != at):
			t.Errorf("Decode(%s): %v, want a failure at %s", raw, err, at)
		}
	}
}

type (
	withMap       struct{ M map[string]int }
	withInterface struct{ I interface{ Foo() } }
	withChan      struct{ C chan int }
	withComplex   struct{ Z []complex128 }
	withFunc      struct{ F func() }
	node          struct{ Next *node }
	listOfItself  []listOfItself
	mutualA       struct{ B []mutualB }
	mutualB       struct{ A *mutualA }
	embedsItself  struct {
		//lint:ignore U1000 the subject of the test
		*embedsItself
		X int
	}
	onlyHidden struct {
		//lint:ignore U1000 the subject of the test
		x int
	}
	nothing     struct{}
	customJSON  struct{ X int }
	badProvider struct{ X int }
	nilProvider struct{ p *int }
	badTagKey   struct {
		A int `schema:"minimun=1"`
	}
	badTagForm struct {
		A int `schema:"required"`
	}
	badTagTwice struct {
		A int `schema:"minimum=1,minimum=2"`
	}
	badTagNumber struct {
		A int `schema:"minimum=one"`
	}
	badTagSense struct {
		A int `schema:"minimum=3,maximum=2"`
	}
	badTagEnum struct {
		A int `schema:"enum=x|y"`
	}
	badTagCount struct {
		A string `schema:"minLength=-1"`
	}
	badTagLength struct {
		A *int `schema:"maxLength=3"`
	}
	badTagItems struct {
		A string `schema:"maxItems=3"`
	}
	badTagMinimum struct {
		A []int `schema:"minimum=1"`
	}
	badTagQuoted struct {
		A int `json:",string" schema:"maximum=3"`
	}
)

func (customJSON) MarshalJSON() ([]byte, error)     { return []byte(`1`), nil }
func (badProvider) OutputSchema() json.RawMessage   { return json.RawMessage(`{"oneOf":[]}`) }
func (p nilProvider) OutputSchema() json.RawMessage { return json.RawMessage([]byte{byte(*p.p)}) }

func TestATypeWithoutAShapeIsRefusedByField(t *testing.T) {
	of := func(s *Schema, err error) error { return err }
	for name, tc := range map[string]struct {
		err  error
		says []string
	}{
		"a map":               {of(SchemaOf[withMap]()), []string{"withMap.M", "map"}},
		"an interface":        {of(SchemaOf[withInterface]()), []string{"withInterface.I", "interface"}},
		"a channel":           {of(SchemaOf[withChan]()), []string{"withChan.C", "chan"}},
		"complex numbers":     {of(SchemaOf[withComplex]()), []string{"withComplex.Z[]", "complex"}},
		"a function":          {of(SchemaOf[withFunc]()), []string{"withFunc.F", "func"}},
		"itself":              {of(SchemaOf[node]()), []string{"node.Next", "contains itself"}},
		"a list of itself":    {of(SchemaOf[listOfItself]()), []string{"contains itself"}},
		"itself by another":   {of(SchemaOf[mutualA]()), []string{"mutualA.B[].A", "contains itself"}},
		"itself embedded":     {of(SchemaOf[embedsItself]()), []string{"contains itself"}},
		"nobody can make it":  {of(SchemaOf[embedsUnmakable]()), []string{"embedsUnmakable.meta", "embedded pointer to an unexported struct"}},
		"only hidden fields":  {of(SchemaOf[onlyHidden]()), []string{"onlyHidden", "no exported field"}},
		"no fields":           {of(SchemaOf[nothing]()), []string{"no exported field"}},
		"its own JSON":        {of(SchemaOf[struct{ C customJSON }]()), []string{".C", "OutputSchema"}},
		"a schema outside":    {of(SchemaOf[struct{ C badProvider }]()), []string{".C", "oneOf"}},
		"a schema that fails": {of(SchemaOf[struct{ C nilProvider }]()), []string{".C", "panicked"}},
		"length of a number":  {of(SchemaOf[badTagLength]()), []string{"badTagLength.A", "maxLength", "an integer"}},
		"items of a string":   {of(SchemaOf[badTagItems]()), []string{"badTagItems.A", "maxItems", "a string"}},
		"a minimal list":      {of(SchemaOf[badTagMinimum]()), []string{"badTagMinimum.A", "minimum", "an array"}},
		"a number in quotes":  {of(SchemaOf[badTagQuoted]()), []string{"badTagQuoted.A", "maximum", "a string"}},
		"an unknown tag key":  {of(SchemaOf[badTagKey]()), []string{"badTagKey.A", "minimun"}},
		"a tag key alone":     {of(SchemaOf[badTagForm]()), []string{"badTagForm.A", "key=value"}},
		"a tag key twice":     {of(SchemaOf[badTagTwice]()), []string{"badTagTwice.A", "once"}},
		"a tag without sense": {of(SchemaOf[badTagNumber]()), []string{"badTagNumber.A", "not a number"}},
		"a contradiction":     {of(SchemaOf[badTagSense]()), []string{"badTagSense", "/properties/A/minimum"}},
		"an enum of strings":  {of(SchemaOf[badTagEnum]()), []string{"badTagEnum", "enum"}},
		"a negative length":   {of(SchemaOf[badTagCount]()), []string{"badTagCount", "minLength"}},
	} {
		var e *InvalidSchemaError
		if !errors.As(tc.err, &e) || e.Field == "" {
			t.Errorf("%s: error = %v, want an *InvalidSchemaError that names the field", name, tc.err)
			continue
		}
		for _, want := range tc.says {
			if !strings.Contains(tc.err.Error(), want) {
				t.Errorf("%s: error %q does not have %q", name, tc.err, want)
			}
		}
	}
}

type (
	level    string
	spacious string
)

func (level) OutputSchema() json.RawMessage {
	return json.RawMessage(`{"description":"How bad", "enum": [ "low", "high" ], "type": "string"}`)
}

func (spacious) OutputSchema() json.RawMessage {
	return json.RawMessage(" {\n  \"type\": \"string\"\n}\n")
}

// What a type states of itself may be written in any order and with any space.
func TestAStatedSchemaMayBeNullBehindAPointer(t *testing.T) {
	type answer struct {
		Level *level    `json:"level"`
		List  []*level  `json:"list"`
		Note  *spacious `json:"note" schema:"description=In words"`
		Plain spacious  `json:"plain" schema:"description=In words"`
	}
	s, err := SchemaOf[answer]()
	if err != nil {
		t.Fatal(err)
	}
	if _, fail := s.Check(`{"level":null,"list":[null,"low"],"note":null,"plain":"x"}`); fail != nil {
		t.Errorf("null was refused by %s: %v", s, fail)
	}
	if _, fail := s.Check(`{"level":"none","list":[],"note":"","plain":"x"}`); fail == nil {
		t.Error("a value that the type does not state was taken")
	}
}

// encoding/json follows the string option for scalars alone.
func TestTheStringOptionIsForScalars(t *testing.T) {
	type answer struct {
		//lint:ignore SA5008 the option where it says nothing is the subject
		List []int `json:"list,string"`
		//lint:ignore SA5008 likewise
		In place `json:"in,string"`
		N  *int  `json:"n,string"`
		//lint:ignore SA5008 likewise
		Any  any    `json:"any,string"`
		Text string `json:"text,string"`
	}
	s, err := SchemaOf[answer]()
	if err != nil {
		t.Fatal(err)
	}
	n := 7
	want := answer{[]int{1}, place{"f", 2}, &n, true, "x"}
	doc, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	raw, fail := s.Check(string(doc))
	if fail != nil {
		t.Fatalf("%s misses %s: %v", doc, s, fail)
	}
	got, err := Decode[answer](raw)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("decoded (-want +got):\n%s", d)
	}
}
