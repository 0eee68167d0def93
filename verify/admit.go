package verify

import (
	"context"
	"path/filepath"
	"slices"
)

// Admissible asks env.Admit about every command that c is known to start, and
// returns the first refusal as a *GateError: a policy that keeps a gate from
// judging is worth knowing before the work that it is to judge. c must have been
// prepared. A program that is not there yet is left out, since the run may have to
// make it. Nothing is started.
func Admissible(ctx context.Context, c Criterion, env Env) error {
	return walk(c, func(c Criterion) error {
		switch c := c.(type) {
		case CommandCriterion:
			return c.admissible(ctx, env, PhaseCommand, c.argv)
		case CompileCriterion:
			for _, s := range probeSteps(filepath.Join(env.Temp, "compile")) {
				if err := c.compiler.admissible(ctx, env, PhaseCompiles, s.argv); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (c CommandCriterion) admissible(ctx context.Context, env Env, p Phase, argv []string) error {
	if c.pin == nil {
		return nil
	}
	if env.Admit == nil {
		return missing(p, "Admit")
	}
	if err := env.Admit(ctx, slices.Clone(argv), c.pin.Path); err != nil {
		return fail(p, "start "+argv[0], err)
	}
	return nil
}
