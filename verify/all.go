package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// AllCriterion is several criteria at once. [All] makes one.
type AllCriterion struct{ each []Criterion }

// All passes when every criterion does. They are evaluated in the order given, and
// the first that fails or errs ends the evaluation, so put the cheap ones first: a
// review is then not bought while the tests fail. The verdict and its phase are
// those of the criterion that decided.
func All(criteria ...Criterion) AllCriterion { return AllCriterion{slices.Clone(criteria)} }

// Describe numbers the criteria.
func (c AllCriterion) Describe() string {
	var b strings.Builder
	b.WriteString("All of these must hold:")
	for i, p := range c.each {
		fmt.Fprintf(&b, "\n%d. %s", i+1, p.Describe())
	}
	return b.String()
}

// Phase is that of the last criterion, which decides a pass.
func (c AllCriterion) Phase() Phase {
	if n := len(c.each); n > 0 && c.each[n-1] != nil {
		return c.each[n-1].Phase()
	}
	return PhaseNone
}

// Validate demands at least one criterion and none that is nil.
func (c AllCriterion) Validate() error {
	if len(c.each) == 0 {
		return &InvalidError{"all", "has no criterion"}
	}
	for i, p := range c.each {
		if p == nil {
			return &InvalidError{"all", fmt.Sprintf("criterion %d is nil", i+1)}
		}
		if err := p.Validate(); err != nil {
			return err
		}
	}
	return nil
}

func (c AllCriterion) parts() []Criterion { return c.each }

func (c AllCriterion) prepare(ctx context.Context, env Env) (Criterion, error) {
	each := make([]Criterion, len(c.each))
	for i, p := range c.each {
		ready, err := p.prepare(ctx, env)
		if err != nil {
			return nil, err
		}
		each[i] = ready
	}
	return AllCriterion{each}, nil
}

func (c AllCriterion) evaluate(ctx context.Context, env Env) (Verdict, error) {
	var v Verdict
	var tokens int64
	for _, p := range c.each {
		var err error
		v, err = p.evaluate(ctx, env)
		if v.Phase == "" {
			v.Phase = p.Phase()
		}
		tokens += v.Tokens
		v.Tokens = tokens
		if err != nil || !v.Passed {
			return v, err
		}
	}
	return v, nil
}
