package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	Argv     []string `json:"argv,omitempty"`
	Exit     int      `json:"expect_exit,omitempty"`
	Unpinned bool     `json:"unpinned,omitempty"`
	Prepared bool     `json:"prepared,omitempty"`
	Pin      *pin     `json:"pin,omitempty"`

	File string `json:"file,omitempty"`
	Text string `json:"text,omitempty"`

	Lang     Lang     `json:"lang,omitempty"`
	Files    []string `json:"files,omitempty"`
	Compiler *record  `json:"compiler,omitempty"`

	Rubric    string `json:"rubric,omitempty"`
	SelfOK    bool   `json:"allow_self_review,omitempty"`
	TellModel bool   `json:"tell_model,omitempty"`
	EveryStep bool   `json:"every_step,omitempty"`

	Name string `json:"name,omitempty"`

	Globs     []string          `json:"globs,omitempty"`
	Protected map[string]string `json:"protected,omitempty"` // path -> state
	Criteria  []record          `json:"criteria,omitempty"`
}

func (c CommandCriterion) record() record {
	return record{Kind: kindCommand, Argv: c.argv, Exit: c.exit, Unpinned: c.unpinned, Prepared: c.prepared, Pin: c.pin}
}

func (c ContentCriterion) record() record {
	k := kindContains
	if c.whole {
		k = kindEquals
	}
	return record{Kind: k, File: c.file, Text: c.text}
}

func (c CompileCriterion) record() record {
	compiler := c.compiler.record()
	return record{Kind: kindCompiles, Lang: c.lang, Files: c.files, Compiler: &compiler}
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
		return ContentCriterion{file: r.File, text: r.Text, whole: r.Kind == kindEquals}, nil
	case kindCompiles:
		c := EachCompiles(r.Lang, r.Files...)
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
	return CommandCriterion{argv: r.Argv, exit: r.Exit, unpinned: r.Unpinned, prepared: r.Prepared, pin: r.Pin}
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
