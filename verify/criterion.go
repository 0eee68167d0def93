package verify

import (
	"context"
	"fmt"

	"github.com/initorigin/io-harness-go/provider"
)

// Phase says what a gate evaluated. Its value is the stored text.
type Phase string

// The phases.
const (
	PhaseCommand  Phase = "command"
	PhaseContains Phase = "contains" // the text of a file, contained or equal
	PhaseCompiles Phase = "compiles"
	PhaseReview   Phase = "review"
	PhaseFunc     Phase = "func"
	PhaseOutput   Phase = "output" // the shape of the final answer; no criterion has it
	PhaseNone     Phase = "none"   // nothing is evaluated; no attempt has it
)

// Criterion decides when a run is done. The constructors of this package make
// all there are; a nil Criterion means that nothing checks the work, and the run
// is done when the model answers without calling a tool. A Criterion is immutable
// and safe for concurrent use.
type Criterion interface {
	// Describe says in prose, for the model, what is checked. It names exactly
	// what the gate checks.
	Describe() string
	// Phase is what a verdict of this criterion is stored under.
	Phase() Phase
	// Validate reports what can never work, as an *InvalidError. It touches no
	// file.
	Validate() error

	prepare(ctx context.Context, env Env) (Criterion, error)
	evaluate(ctx context.Context, env Env) (Verdict, error)
	parts() []Criterion // what it is made of, in order; nil for a simple one
	record() record     // what is stored of it
}

// Credentials are those of every reviewer that c carries; none for a nil c.
func Credentials(c Criterion) (all provider.Credentials) {
	_ = walk(c, func(c Criterion) error { // nothing errs
		own := provider.CredentialsOf(c)
		all.Values, all.Names = append(all.Values, own.Values...), append(all.Names, own.Names...)
		return nil
	})
	return all
}

// walk calls fn for c and everything it is made of, outermost first.
func walk(c Criterion, fn func(Criterion) error) error {
	if c == nil {
		return nil
	}
	if err := fn(c); err != nil {
		return err
	}
	for _, p := range c.parts() {
		if err := walk(p, fn); err != nil {
			return err
		}
	}
	return nil
}

// InvalidError says what is wrong with a criterion or a schema that can never
// work.
type InvalidError struct {
	Field  string // the field or keyword: "argv", "file", "oneOf"
	Reason string // what was found and what to write instead
}

func (e *InvalidError) Error() string { return fmt.Sprintf("verify: %s: %s", e.Field, e.Reason) }

// GateError says that a criterion did not get to judge: the evaluation errored,
// which is neither a pass nor a failure and may be repeated alone. It unwraps to
// the cause: a *policy.RefusedError, a *sandbox.Error, a *provider.Error, an error
// of the file system or of the context.
type GateError struct {
	Phase Phase
	Doing string // what was being done: "start the command", "read a.txt"
	Err   error
}

func (e *GateError) Error() string {
	return fmt.Sprintf("gate %s could not judge: %s: %v", e.Phase, e.Doing, e.Err)
}

// Unwrap returns the cause.
func (e *GateError) Unwrap() error { return e.Err }
