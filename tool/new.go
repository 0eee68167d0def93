package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/initorigin/io-harness-go/trace"
)

// Option states one fact about a tool made by New: an Effect, a Recovery, a
// Timeout or where its results come From.
type Option interface{ apply(*Spec) }

func (e Effect) apply(s *Spec)   { s.Effect = e }
func (r Recovery) apply(s *Spec) { s.Recovery = r }
func (d Timeout) apply(s *Spec)  { s.Timeout = time.Duration(d) }
func (o From) apply(s *Spec)     { s.Origin = trace.Origin(o) }

// Timeout bounds one call of a tool made by New.
type Timeout time.Duration

// From states the origin of what a tool made by New brings, as in
// tool.From(trace.OriginWeb).
type From trace.Origin

// New makes a tool of a function. The schema that the model sees is generated
// from In, a struct: json tags name the members, a member without omitempty is
// required, and a jsonschema tag describes it.
//
//	type LookupArgs struct {
//		ID string `json:"id" jsonschema:"the order's number"`
//	}
//
// The options are ReadOnly, Replayable, Indeterminate, a Timeout and From.
//
// What fn returns is told to the model, and so is its error. A call of a
// mutating tool that succeeds counts as progress of the run.
//
// New panics when In is not a struct that JSON can describe: such a program
// can never be right.
func New[In any](name, description string, fn func(context.Context, In) (string, error), opts ...Option) Tool {
	return NewCall(name, description, func(ctx context.Context, _ Call, in In) (string, error) { return fn(ctx, in) }, opts...)
}

// NewCall is New for a function that also wants the call: its workspace, its
// run and its key.
func NewCall[In any](name, description string, fn func(context.Context, Call, In) (string, error), opts ...Option) Tool {
	t := reflect.TypeFor[In]()
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("tool %q: arguments are a %s: they must be a struct", name, t))
	}
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{})
	if err != nil {
		panic(fmt.Sprintf("tool %q: no schema can be made of %s: %v", name, t, err))
	}
	text, err := json.Marshal(schema)
	if err != nil {
		panic(fmt.Sprintf("tool %q: schema of %s: %v", name, t, err))
	}
	spec := Spec{Name: name, Description: description, Schema: text}
	for _, opt := range opts {
		opt.apply(&spec)
	}
	return &typed[In]{spec: spec, fn: fn}
}

type typed[In any] struct {
	spec Spec
	fn   func(context.Context, Call, In) (string, error)
}

func (t *typed[In]) Spec() Spec { return t.spec }

func (t *typed[In]) Call(ctx context.Context, c Call) (Result, error) {
	var in In
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return Result{}, fmt.Errorf("arguments do not fit: %w", err)
	}
	text, err := t.fn(ctx, c, in)
	if err != nil {
		return Result{}, err
	}
	return Result{Text: text, Changed: !t.spec.IsReadOnly()}, nil
}
