package builtin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// maxArgv bounds a command line in bytes, its elements together. Systems differ
// in what they take; this is refused everywhere, and before anybody is asked.
const maxArgv = 1 << 20

// errExecTimeout is the cause of a command's context when its own bound ends it.
var errExecTimeout = errors.New("the time for one command is over")

func execTool(e *Env) tool.Tool {
	type args struct {
		Argv []string `json:"argv"`
	}
	argv := func(c tool.Call) ([]string, error) {
		in, err := decode[args](c)
		if err != nil {
			return nil, err
		}
		return in.Argv, checkArgv(in.Argv)
	}
	return &act{
		spec: tool.Spec{
			Name:   "exec",
			Origin: trace.OriginShell,
			Description: "Run one program in the workspace root and return its exit code and output (stdout, then stderr; the middle is left out when it is long). " +
				"argv is the program and its arguments, one element each: no shell reads it, so there are no pipes, globs, variables, && or quoting. " +
				"One command per call; it has no terminal and no input, and is killed with everything that it started when its time is over.",
			Schema: schema([]string{"argv"}, "argv", property("strings", `the program and its arguments, for example ["go", "test", "./..."]`)),
		},
		needs: func(c tool.Call) ([]policy.Need, error) {
			argv, err := argv(c)
			if err != nil {
				return nil, err
			}
			return []policy.Need{e.execNeed(c.Workspace.Policy(), argv)}, nil
		},
		call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
			argv, err := argv(c)
			if err != nil {
				return failed("exec missing argv", "exec error", err.Error()), nil
			}
			return e.runExec(ctx, c, argv)
		},
	}
}

// execNeed is the permission to start argv. The policy sees the line as it was
// asked for and the file that the program turned out to be, behind a link too
// where that makes the verdict stricter; where there is no file the name alone
// decides, and the call then says that it is missing.
func (e *Env) execNeed(p policy.Policy, argv []string) policy.Need {
	file, err := e.Resolve(argv[0])
	if err != nil {
		file = ""
	}
	return startNeed(p, argv, file)
}

// startNeed is the permission to start argv with the program found at file.
func startNeed(p policy.Policy, argv []string, file string) policy.Need {
	n := policy.Need{Act: policy.Exec, Target: argv[0], Argv: argv, Resolved: file}
	if file == "" {
		return n
	}
	if real, err := filepath.EvalSymlinks(file); err == nil && real != file {
		behind := n
		behind.Resolved = real
		if strictness(p.Check(behind).Effect) > strictness(p.Check(n).Effect) {
			return behind
		}
	}
	return n
}

// strictness orders effects; one that is not known counts as deny.
func strictness(e policy.Effect) int {
	if i := slices.Index(policy.Effects(), e); i >= 0 {
		return i
	}
	return len(policy.Effects())
}

func checkArgv(argv []string) error {
	if len(argv) == 0 {
		return &tool.ArgsError{Field: "argv", Reason: "is empty: it must be the program and then its arguments"}
	}
	if strings.TrimSpace(argv[0]) == "" {
		return &tool.ArgsError{Field: "argv[0]", Reason: "is blank: it must be the program"}
	}
	total := 0
	for i, a := range argv {
		if strings.IndexByte(a, 0) >= 0 {
			return &tool.ArgsError{Field: fmt.Sprintf("argv[%d]", i), Reason: "holds a NUL byte, which no argument can"}
		}
		total += len(a) + 1
	}
	if total > maxArgv {
		return &tool.ArgsError{Field: "argv", Reason: fmt.Sprintf("has %s bytes and at most %s are possible: put the data into a file", commas(total), commas(maxArgv))}
	}
	return nil
}

func (e *Env) runExec(ctx context.Context, c tool.Call, argv []string) (tool.Result, error) {
	res, timedOut, err := e.bounded(ctx, e.timeout(), func(ctx context.Context) (*sandbox.Result, error) {
		return e.Run(ctx, c, sandbox.Cmd{Argv: argv})
	})
	if err := ended(ctx); err != nil {
		return tool.Result{}, err
	}
	if res == nil {
		return notStarted(argv[0], err), nil
	}
	how, decision := outcome(argv[0], res, timedOut, e.timeout())
	head := "exec " + within(commandLine(argv), 300) + ": " + how
	notes := resultNotes(res)
	room := e.entryCap() - runes(head) - runes(notes) - elisionRoom
	body := res.Text(max(room, 1))
	if body == "" {
		body = "(no output)"
	}
	return tool.Result{Text: observation(head, body+notes), Decision: decision, Kind: trace.ObsTool}, nil
}

// elisionRoom is kept free for brackets, newlines and the mark that stands where
// output was left out, so that an observation is never cut a second time.
const elisionRoom = 80

// bounded runs a command under its own time bound and tells whether that is what
// ended it. The bound kills the command with all that it started; what it had
// printed is in the result.
func (e *Env) bounded(ctx context.Context, bound time.Duration, run func(context.Context) (*sandbox.Result, error)) (res *sandbox.Result, timedOut bool, err error) {
	runCtx, cancel := context.WithTimeoutCause(ctx, bound, errExecTimeout)
	defer cancel()
	res, err = run(runCtx)
	timedOut = ctx.Err() == nil && err != nil && errors.Is(context.Cause(runCtx), errExecTimeout)
	return res, timedOut, err
}

// notStarted says why nothing ran.
func notStarted(program string, err error) tool.Result {
	name := within(strconv.Quote(program), 200)
	if errors.Is(err, sandbox.ErrMissing) {
		return failed(within(program, 200)+" unavailable", "exec unavailable",
			name+" is not on this machine: "+reason(err)+". Use another program or go on without it.")
	}
	if errors.Is(err, errExecTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return failed(within(program, 200)+" timed out", "exec timed out", name+" was not started before its time was over")
	}
	return failed("exec "+within(program, 200)+" failed to start", "exec error", name+" could not be started: "+reason(err))
}

// reason is the cause of a sandbox error without the part that repeats the
// program.
func reason(err error) string {
	if err == nil {
		return "no reason was given"
	}
	var se *sandbox.Error
	if errors.As(err, &se) && se.Err != nil {
		return strings.ReplaceAll(se.Err.Error(), "\n", "; ")
	}
	return err.Error()
}

// outcome says how a command ended, for the head and for the trace.
func outcome(program string, res *sandbox.Result, timedOut bool, bound time.Duration) (how, decision string) {
	program = within(program, 200)
	switch {
	case timedOut:
		return fmt.Sprintf("timed out: killed after %s s; this is what it had printed, run something narrower", seconds(bound)), program + " timed out"
	case res.Cap != "":
		return fmt.Sprintf("killed: it hit the sandbox's %s ceiling, which is no failure of its own", res.Cap),
			fmt.Sprintf("exec %s hit the %s cap", program, res.Cap)
	case res.Signal != "":
		return "killed by signal " + res.Signal, "exec " + program + " (signal)"
	case res.Killed:
		return "killed", "exec " + program + " (signal)"
	}
	return fmt.Sprintf("exit %d", res.Exit), fmt.Sprintf("exec %s exit %d", program, res.Exit)
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// denials are what programs print when a boundary stops them.
var denials = regexp.MustCompile(`(?i)permission denied|operation not permitted|read-only file system|network is unreachable|connection refused|could not resolve|temporary failure in name resolution|no such host|EACCES|EPERM|EROFS|ENETUNREACH|ECONNREFUSED|EAI_AGAIN`)

// resultNotes are lines below the output: what a model would otherwise take for
// a fault of the project.
func resultNotes(res *sandbox.Result) string {
	var s string
	if res.Survived {
		s += "\n[it could not be killed, as it runs as another user, and still runs]"
	}
	if res.Leftover {
		s += "\n[something that it had started was still running and was killed]"
	}
	bounded := res.Applied.Confined() || res.Applied.Egress == sandbox.EgressNone || res.Applied.Egress == sandbox.EgressExact || res.Applied.Egress == sandbox.EgressPort
	if bounded && !res.Success() && (denials.MatchString(res.Stderr.String()) || denials.MatchString(res.Stdout.String())) {
		s += "\n[the sandbox may be why it failed: " + res.Applied.String() + "]"
	}
	return s
}

// commandLine is an argv as people read it: joined by spaces, and an element that
// would not read as one is quoted.
func commandLine(argv []string) string {
	parts := make([]string, len(argv))
	for i, a := range argv {
		parts[i] = a
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return unicode.IsControl(r) || !unicode.IsPrint(r) && r != ' ' }) {
			parts[i] = strconv.Quote(a)
		}
	}
	return strings.Join(parts, " ")
}
