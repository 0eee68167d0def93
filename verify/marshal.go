package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// recordKind tags a stored criterion.
type recordKind string

const (
	kindNone     recordKind = "none"
	kindCommand  recordKind = "command"
	kindContains recordKind = "contains"
	kindEquals   recordKind = "equals"
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

// Marshal writes c as one JSON object tagged by its kind, with what Prepare
// pinned. A nil criterion has the kind "none".
func Marshal(c Criterion) ([]byte, error) {
	if c == nil {
		return json.Marshal(record{Kind: kindNone})
	}
	return json.Marshal(c.record())
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
	return r.criterion()
}

func (r record) criterion() (Criterion, error) {
	var c Criterion
	switch r.Kind {
	case kindNone:
		return nil, nil
	case kindCommand:
		c = CommandCriterion{argv: r.Argv, exit: r.Exit, unpinned: r.Unpinned, prepared: r.Prepared, pin: r.Pin}
	case kindContains, kindEquals:
		c = ContentCriterion{file: r.File, text: r.Text, whole: r.Kind == kindEquals}
	default:
		return nil, &InvalidError{"kind", fmt.Sprintf("%q is not a kind of criterion that this version knows", r.Kind)}
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}
