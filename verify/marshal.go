package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// recordKind tags a stored criterion.
type recordKind string

const (
	kindNone     recordKind = "none"
	kindCommand  recordKind = "command"
	kindContains recordKind = "contains"
	kindEquals   recordKind = "equals"
	kindCompiles recordKind = "each_compiles"
	kindReview   recordKind = "review"
	kindFunc     recordKind = "func"
	kindProtect  recordKind = "protect"
	kindAll      recordKind = "all"
)

// record is what is stored of a criterion: one flat object with its kind.
type record struct {
	Kind recordKind `json:"kind"`

	Argv     []exact `json:"argv,omitempty"`
	Exit     int     `json:"expect_exit,omitempty"`
	Unpinned bool    `json:"unpinned,omitempty"`
	Prepared bool    `json:"prepared,omitempty"`
	Pin      *pin    `json:"pin,omitempty"`

	File exact `json:"file,omitempty"`
	Text exact `json:"text,omitempty"`

	Lang     Lang    `json:"lang,omitempty"`
	Files    []exact `json:"files,omitempty"`
	Compiler *record `json:"compiler,omitempty"`

	Rubric    string `json:"rubric,omitempty"`
	SelfOK    bool   `json:"allow_self_review,omitempty"`
	TellModel bool   `json:"tell_model,omitempty"`
	EveryStep bool   `json:"every_step,omitempty"`

	Name string `json:"name,omitempty"`

	Globs     []string          `json:"globs,omitempty"`
	Protected map[string]string `json:"protected,omitempty"` // storable path -> state
	Criteria  []record          `json:"criteria,omitempty"`
}

// exact is text as it is stored: what is compared byte for byte must come back as
// it was, and a string of JSON can hold only UTF-8.
type exact string

// base64Text is exact text that is not UTF-8.
type base64Text struct {
	Bytes []byte `json:"base64"`
}

func (e exact) MarshalJSON() ([]byte, error) {
	if !utf8.ValidString(string(e)) {
		return json.Marshal(base64Text{[]byte(e)})
	}
	return json.Marshal(string(e))
}

func (e *exact) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var b base64Text
		err := decodeStrictly(data, &b)
		*e = exact(b.Bytes)
		return err
	}
	return json.Unmarshal(data, (*string)(e))
}

func exactly(texts []string) []exact {
	if texts == nil {
		return nil
	}
	out := make([]exact, len(texts))
	for i, t := range texts {
		out[i] = exact(t)
	}
	return out
}

func textsOf(stored []exact) []string {
	if stored == nil {
		return nil
	}
	out := make([]string, len(stored))
	for i, e := range stored {
		out[i] = string(e)
	}
	return out
}

// storable is a name of the file system as it can be stored as the name of a
// member: what is not UTF-8 is quoted, and so is what looks quoted.
func storable(name string) string {
	if utf8.ValidString(name) && !strings.HasPrefix(name, `"`) {
		return name
	}
	return strconv.Quote(name)
}

func (c CommandCriterion) record() record {
	return record{Kind: kindCommand, Argv: exactly(c.argv), Exit: c.exit, Unpinned: c.unpinned, Prepared: c.prepared, Pin: c.pin}
}

func (c ContentCriterion) record() record {
	k := kindContains
	if c.whole {
		k = kindEquals
	}
	return record{Kind: k, File: exact(c.file), Text: exact(c.text)}
}

func (c CompileCriterion) record() record {
	compiler := c.compiler.record()
	return record{Kind: kindCompiles, Lang: c.lang, Files: exactly(c.files), Compiler: &compiler}
}

func (c ReviewCriterion) record() record {
	return record{Kind: kindReview, Rubric: c.rubric, SelfOK: c.self, TellModel: c.tell, EveryStep: c.every}
}

func (c FuncCriterion) record() record { return record{Kind: kindFunc, Name: c.name} }

func (c ProtectedCriterion) record() record {
	return record{Kind: kindProtect, Globs: c.globs, Prepared: c.files != nil, Protected: c.files, Criteria: records(c.inner)}
}

func (c AllCriterion) record() record { return record{Kind: kindAll, Criteria: records(c.each...)} }

func records(each ...Criterion) []record {
	out := make([]record, len(each))
	for i, c := range each {
		out[i] = record{Kind: kindNone}
		if c != nil {
			out[i] = c.record()
		}
	}
	return out
}

// Marshal writes c as one JSON object tagged by its kind, with what Prepare
// pinned. A nil criterion has the kind "none". A reviewer and a function are left
// out: whoever reads it back has to state them again.
func Marshal(c Criterion) ([]byte, error) {
	return json.Marshal(records(c)[0])
}

// Unmarshal reads what Marshal wrote. Kind "none" gives nil. A kind or a member
// that this version does not know is an error, never "none".
func Unmarshal(data []byte) (Criterion, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var r record
	if err := dec.Decode(&r); err != nil {
		return nil, fmt.Errorf("verify: stored criterion: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("verify: stored criterion: something follows it")
	}
	c, err := r.criterion()
	if err != nil || c == nil {
		return nil, err
	}
	var lost *InvalidError
	if err := c.Validate(); errors.As(err, &lost) && lost.Field == "func" {
		return c, nil // the caller has to state the function again
	} else if err != nil {
		return nil, err
	}
	return c, nil
}

func (r record) criterion() (Criterion, error) {
	switch r.Kind {
	case kindNone:
		return nil, nil
	case kindCommand:
		return r.command(), nil
	case kindContains, kindEquals:
		return ContentCriterion{file: string(r.File), text: string(r.Text), whole: r.Kind == kindEquals}, nil
	case kindCompiles:
		c := EachCompiles(r.Lang, textsOf(r.Files)...)
		if r.Compiler != nil {
			c.compiler = r.Compiler.command()
		}
		return c, nil
	case kindReview:
		return ReviewCriterion{rubric: r.Rubric, self: r.SelfOK, tell: r.TellModel, every: r.EveryStep}, nil
	case kindFunc:
		return FuncCriterion{name: r.Name}, nil
	case kindProtect:
		c := ProtectedCriterion{globs: r.Globs}
		if r.Prepared {
			c.files = r.Protected
			if c.files == nil {
				c.files = map[string]string{}
			}
		}
		each, err := criteria(r.Criteria)
		if err == nil && len(each) == 1 {
			c.inner = each[0]
		}
		return c, err
	case kindAll:
		each, err := criteria(r.Criteria)
		return AllCriterion{each}, err
	}
	return nil, &InvalidError{"kind", fmt.Sprintf("%q is not a kind of criterion that this version knows", r.Kind)}
}

func (r record) command() CommandCriterion {
	return CommandCriterion{argv: textsOf(r.Argv), exit: r.Exit, unpinned: r.Unpinned, prepared: r.Prepared, pin: r.Pin}
}

func criteria(each []record) ([]Criterion, error) {
	out := make([]Criterion, len(each))
	for i, r := range each {
		c, err := r.criterion()
		if err != nil {
			return nil, err
		}
		out[i] = c
	}
	return out, nil
}
