package verify

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/initorigin/io-harness-go/sandbox"
)

// CommandCriterion runs the project's own command. [Command] makes one.
type CommandCriterion struct {
	argv     []string
	exit     int
	unpinned bool
	prepared bool
	pin      *pin // nil: the program was not there when the run began, or may change
}

// Command passes when the command exits by itself with status 0. argv is the
// program and its arguments; no shell sees them, so a ";" or a "*" is a character
// of an argument. It runs in the workspace root, in the gate's sandbox, and only
// if the policy allows argv outright.
//
// A command that is killed, by a signal, a ceiling of the sandbox or the clock,
// has no exit status and never passes. A program that cannot be found or started
// is an error, not a failure.
//
// [Prepare] pins the program: the file that the name meant when the run began is
// the one that judges, and it fails the gate when that file changed meanwhile. See
// [CommandCriterion.Unpinned] for what is left out.
func Command(argv ...string) CommandCriterion {
	return CommandCriterion{argv: slices.Clone(argv)}
}

// ExpectExit returns a copy of c that passes on another exit status than 0: a
// build that must fail, for instance.
func (c CommandCriterion) ExpectExit(status int) CommandCriterion {
	c.exit = status
	return c
}

// Unpinned returns a copy of c whose program the run may change, because making
// or mending it is the task. Without it a script inside the workspace is pinned
// as any program is; a compiled program inside the workspace never is, since the
// run may have to build it.
func (c CommandCriterion) Unpinned() CommandCriterion {
	c.unpinned, c.pin = true, nil
	return c
}

// Describe gives the command line and the wanted exit status.
func (c CommandCriterion) Describe() string {
	return fmt.Sprintf("This command, run in the workspace root without a shell, must exit with status %d: %s", c.exit, shown(c.argv))
}

// shown joins an argv so that a reader can tell the arguments apart.
func shown(argv []string) string {
	out := make([]string, len(argv))
	for i, a := range argv {
		out[i] = a
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return r <= ' ' || r == '"' || r == '\'' || r == 0x7f }) {
			out[i] = strconv.Quote(a)
		}
	}
	return strings.Join(out, " ")
}

// Phase is PhaseCommand.
func (c CommandCriterion) Phase() Phase { return PhaseCommand }

// Validate demands a program, and arguments that a system can carry.
func (c CommandCriterion) Validate() error {
	if len(c.argv) == 0 || strings.TrimSpace(c.argv[0]) == "" {
		return &InvalidError{"argv", "is empty: name the program and its arguments, each as its own string"}
	}
	for i, a := range c.argv {
		if strings.ContainsRune(a, 0) {
			return &InvalidError{"argv", fmt.Sprintf("element %d holds a NUL byte, which no command line can carry", i)}
		}
	}
	return nil
}

func (c CommandCriterion) parts() []Criterion { return nil }

func (c CommandCriterion) prepare(_ context.Context, env Env) (Criterion, error) {
	if c.prepared {
		return c, nil
	}
	if env.Resolve == nil {
		return nil, missing(PhaseCommand, "Resolve")
	}
	c.prepared = true
	program, err := env.Resolve(c.argv[0])
	if err != nil {
		// It may be the run's task to build or install it.
		return c, nil
	}
	p, err := pinProgram(program, env.Root)
	if err != nil {
		return nil, fail(PhaseCommand, "pin "+program, err)
	}
	if p != nil && c.unpinned {
		p.forget()
	}
	c.pin = p
	return c, nil
}

// program is the file that judges, and why it must not be trusted if it changed.
func (c CommandCriterion) program(env Env) (path, tampered string, err error) {
	if c.pin != nil {
		tampered, err = c.pin.changed(env.Root)
		return c.pin.Path, tampered, err
	}
	if env.Resolve == nil {
		return "", "", missing(PhaseCommand, "Resolve")
	}
	path, err = env.Resolve(c.argv[0])
	if err != nil {
		return "", "", fail(PhaseCommand, "find "+c.argv[0], err)
	}
	bare := !strings.ContainsAny(c.argv[0], `/\`)
	if c.prepared && bare && within(env.Root, path) {
		err = fmt.Errorf("it was not there when the run began and now means %s inside the workspace: give its path if the run is to build it", path)
		return "", "", fail(PhaseCommand, "find "+c.argv[0], err)
	}
	return path, "", nil
}

func (c CommandCriterion) evaluate(ctx context.Context, env Env) (Verdict, error) {
	if env.Run == nil {
		return Verdict{}, missing(PhaseCommand, "Run")
	}
	program, tampered, err := c.program(env)
	if err != nil {
		return Verdict{}, err
	}
	if tampered != "" {
		return Verdict{Detail: tampered, Reasons: []string{tampered}, TellModel: true}, nil
	}
	res, err := start(ctx, env, PhaseCommand, c.argv, program, "")
	if err != nil {
		return Verdict{}, err
	}
	return c.judge(res), nil
}

// start admits argv and runs it in dir, empty for the workspace, with the program's
// resolved path in its place.
func start(ctx context.Context, env Env, p Phase, argv []string, program, dir string) (*sandbox.Result, error) {
	if env.Admit == nil {
		return nil, missing(p, "Admit")
	}
	if err := env.Admit(ctx, slices.Clone(argv), program); err != nil {
		return nil, fail(p, "start "+argv[0], err)
	}
	run := append([]string{program}, argv[1:]...)
	res, err := env.Run(ctx, sandbox.Cmd{Argv: run, Dir: dir})
	switch {
	case ctx.Err() != nil:
		// Whatever the command did last, it was not left to finish.
		return nil, fail(p, "wait for "+argv[0], ended(ctx))
	case err != nil:
		return nil, fail(p, "start "+argv[0], err)
	case res == nil:
		return nil, fail(p, "start "+argv[0], errors.New("the sandbox gave neither a result nor an error"))
	}
	return res, nil
}

func (c CommandCriterion) judge(res *sandbox.Result) Verdict {
	v := Verdict{
		Passed: exited(res) && res.Exit == c.exit,
		Output: printed(res),
		Signal: res.Signal,
		Cap:    string(res.Cap),
	}
	if exited(res) {
		v.Exit = new(res.Exit)
	}
	v.Detail = fmt.Sprintf("%s, expected exit status %d", ending(res), c.exit)
	if v.Passed {
		v.Detail = ending(res)
	}
	v.TellModel = !v.Passed
	return v
}

// exited reports whether the command ended by itself, so that its status means
// something.
func exited(res *sandbox.Result) bool {
	return res.Exit != -1 && res.Exited(res.Exit)
}

func ending(res *sandbox.Result) string {
	switch {
	case res.Cap != "":
		return fmt.Sprintf("stopped by the %s limit", res.Cap)
	case res.Signal != "":
		return "ended by signal " + res.Signal
	case exited(res):
		return fmt.Sprintf("exit status %d", res.Exit)
	}
	return "killed before it ended"
}

// printed is what the command printed, within MaxOutput characters. Res.Text
// bounds its text without the mark of the cut, which bound allows for.
func printed(res *sandbox.Result) string { return bound(res.Text(2*MaxOutput), MaxOutput) }

// within reports whether path lies below root, by its text and by what links make
// of it.
func within(root, path string) bool {
	below := func(root, path string) bool {
		rel, err := filepath.Rel(root, path)
		return err == nil && rel != "." && filepath.IsLocal(rel)
	}
	if below(root, path) {
		return true
	}
	realRoot, err := filepath.EvalSymlinks(root)
	if err != nil {
		return false
	}
	realPath, err := filepath.EvalSymlinks(path)
	return err == nil && below(realRoot, realPath)
}
