package verify

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// FuncCriterion is a check of the host program. [Func] makes one.
type FuncCriterion struct {
	name  string
	judge func(ctx context.Context, files fs.FS) (bool, string, error)
}

// Func passes when judge says so. It is for a check that the program can do
// itself, without a process. files is the workspace: reading only, and no link
// leads out of it. judge returns whether the work is done, on one line why not,
// which the model is told, and an error when it could not judge. A panic is such
// an error. name tells the model what is checked.
//
// A function cannot be stored: Marshal keeps the name, and Unmarshal gives a
// criterion that is invalid until the caller states it again.
func Func(name string, judge func(ctx context.Context, files fs.FS) (passed bool, why string, err error)) FuncCriterion {
	return FuncCriterion{name, judge}
}

// Describe names the check.
func (c FuncCriterion) Describe() string { return "This check must pass: " + c.name }

// Phase is PhaseFunc.
func (c FuncCriterion) Phase() Phase { return PhaseFunc }

// Validate demands a name and a function.
func (c FuncCriterion) Validate() error {
	if strings.TrimSpace(c.name) == "" {
		return &InvalidError{"name", "is empty: the model must be told what is checked"}
	}
	if c.judge == nil {
		return &InvalidError{"func", fmt.Sprintf("%q has no function; one that was read back from a store must be stated again", c.name)}
	}
	return nil
}

func (c FuncCriterion) parts() []Criterion                              { return nil }
func (c FuncCriterion) prepare(context.Context, Env) (Criterion, error) { return c, nil }

func (c FuncCriterion) evaluate(ctx context.Context, env Env) (v Verdict, err error) {
	root, err := os.OpenRoot(env.Root)
	if err != nil {
		return Verdict{}, fail(PhaseFunc, "open the workspace", err)
	}
	defer root.Close()
	defer func() {
		if p := recover(); p != nil {
			v, err = Verdict{}, fail(PhaseFunc, c.name, fmt.Errorf("it panicked: %v", p))
		}
	}()
	passed, why, err := c.judge(ctx, root.FS())
	if err == nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	if err != nil {
		return Verdict{}, fail(PhaseFunc, c.name, err)
	}
	if passed {
		return Verdict{Passed: true}, nil
	}
	return Verdict{Detail: why, Reasons: []string{why}, TellModel: why != ""}, nil
}
