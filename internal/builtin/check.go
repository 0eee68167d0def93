package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// afterWriteBound is how long the check after a write may take. It runs after
// every write, so it must not take the time that a command may.
const afterWriteBound = 60 * time.Second

// checked is what a project's checker said.
type checked struct {
	state string // found, clean, skipped, failed
	text  string // the findings, or the reason
	argv  []string
}

const (
	checkFound   = "found"
	checkClean   = "clean"
	checkSkipped = "skipped"
	checkFailed  = "failed"
)

func check(e *Env) tool.Tool {
	return &act{
		spec: tool.Spec{
			Name:   "check",
			Origin: trace.OriginShell,
			Description: "Run the project's own quick check (type checker or compiler) over the whole workspace and return what it finds; it takes no arguments. " +
				"It also runs by itself after a write where the policy allows it outright. It says so when the project has no such check. Findings never undo anything.",
			Schema: schema(nil),
		},
		needs: func(c tool.Call) ([]policy.Need, error) {
			if len(e.Toolchain.Check) == 0 {
				return nil, nil
			}
			return []policy.Need{e.execNeed(c.Workspace.Policy(), e.Toolchain.Check)}, nil
		},
		call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
			r, err := e.runCheck(ctx, c, e.timeout())
			if err != nil {
				return tool.Result{}, err
			}
			switch r.state {
			case checkSkipped:
				return tool.Result{Text: "\n[check skipped] " + r.text + "\n", Decision: "check skipped", Kind: trace.ObsTool}, nil
			case checkFailed:
				return failed("checked the project", "check did not run", r.text), nil
			case checkClean:
				return tool.Result{Text: "\n[check] " + commandLine(r.argv) + " found nothing\n", Decision: "checked the project", Kind: trace.ObsTool}, nil
			}
			return tool.Result{Text: "\n" + r.findings("check", e.entryCap()-2), Decision: "checked the project", Kind: trace.ObsTool}, nil
		},
	}
}

// findings are the checker's words below a line that says what they cover.
func (r checked) findings(head string, room int) string {
	lead := fmt.Sprintf("[%s] %s looked at the whole workspace, so this may be about files that you did not touch:\n", head, commandLine(r.argv))
	return lead + sandbox.Bound(r.text, max(room-runes(lead)-elisionRoom, 1)) + "\n"
}

// afterWrite is what is appended to a successful write. It is silent when the
// policy does not allow the checker outright, when there is none, and when it
// finds nothing; it can never fail the write.
func (e *Env) afterWrite(ctx context.Context, c tool.Call, room int) string {
	if len(e.Toolchain.Check) == 0 || ctx.Err() != nil {
		return ""
	}
	p := c.Workspace.Policy()
	if p.Check(e.execNeed(p, e.Toolchain.Check)).Effect != policy.Allow {
		return ""
	}
	r, err := e.runCheck(ctx, c, min(afterWriteBound, e.timeout()))
	switch {
	case err != nil:
		return ""
	case r.state == checkFailed:
		return within("[check did not run] "+r.text+"; the change is unchecked", max(room, 1)) + "\n"
	case r.state == checkFound:
		return r.findings("check", room)
	}
	return ""
}

// runCheck runs the checker, one at a time in a tree of agents: two at once
// would only fight over the same build directory. The error is the cause of ctx.
func (e *Env) runCheck(ctx context.Context, c tool.Call, bound time.Duration) (checked, error) {
	argv := e.Toolchain.Check
	r := checked{argv: argv}
	if len(argv) == 0 {
		r.state, r.text = checkSkipped, "no kind of project was recognised here, so there is nothing to check with"
		if !e.Toolchain.IsZero() {
			r.text = fmt.Sprintf("a %s project has no check that is not its build", e.Toolchain.Ecosystem)
		}
		return r, nil
	}
	began := time.Now()
	turn, stop := context.WithTimeout(ctx, bound)
	release, err := c.Workspace.Exclusive(turn)
	stop()
	if err == nil {
		defer release()
	}
	if err := ended(ctx); err != nil {
		return r, err
	}
	if err != nil {
		r.state, r.text = checkFailed, fmt.Sprintf("another check of this workspace was still running after %s s", seconds(bound))
		return r, nil
	}
	var out, errOut checkOutput
	res, timedOut, err := e.bounded(ctx, bound-time.Since(began), func(ctx context.Context) (*sandbox.Result, error) {
		return e.Run(ctx, c, sandbox.Cmd{Argv: argv, Stdout: &out, Stderr: &errOut})
	})
	if err := ended(ctx); err != nil {
		return r, err
	}
	name := commandLine(argv)
	r.state = checkFailed
	switch {
	case res == nil && errors.Is(err, sandbox.ErrMissing):
		r.text = argv[0] + " is not on this machine"
	case res == nil:
		r.text = argv[0] + " could not be started: " + reason(err)
	case timedOut:
		r.text = fmt.Sprintf("%s was killed after %s s", name, seconds(bound))
	case res.Cap != "":
		r.text = fmt.Sprintf("%s hit the sandbox's %s ceiling", name, res.Cap)
	case res.Signal != "":
		r.text = name + " was killed by signal " + res.Signal
	case res.Killed:
		r.text = name + " was killed before it ended"
	default:
		r.judge(res.Exit, e.Toolchain.Ecosystem, &out, &errOut)
	}
	return r, nil
}

func (r *checked) judge(exit int, ecosystem string, out, errOut *checkOutput) {
	switch {
	case ecosystem == "cargo" && strings.Contains(strings.Join(r.argv, " "), "message-format=json"):
		r.text = cargoMessages(out.Bytes())
	case exit == 0:
		// These checkers say by their exit code that all is well; what they print
		// then is progress ("0 errors", "downloading").
	default:
		if r.text = strings.TrimSpace(errOut.String()); r.text == "" {
			r.text = strings.TrimSpace(out.String())
		}
	}
	r.text = strings.ToValidUTF8(r.text, "\uFFFD")
	switch {
	case r.text != "":
		r.state = checkFound
	case exit == 0:
		r.state = checkClean
	default:
		r.state, r.text = checkFailed, fmt.Sprintf("%s ended with exit code %d and said nothing", commandLine(r.argv), exit)
		if words := strings.TrimSpace(strings.ToValidUTF8(errOut.String(), "\uFFFD")); words != "" {
			r.text = fmt.Sprintf("%s ended with exit code %d: %s", commandLine(r.argv), exit, within(words, 500))
		}
	}
}

// maxCheckOutput bounds what is kept of a checker's stream: its messages are
// looked for in the whole of it, and what is shown is cut after that.
const maxCheckOutput = 16 << 20

// checkOutput takes a stream as it comes, however long its lines are, and drops
// what is over maxCheckOutput. It never holds the program up.
type checkOutput struct{ bytes.Buffer }

func (o *checkOutput) Write(p []byte) (int, error) {
	if room := maxCheckOutput - o.Len(); room > 0 {
		o.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// cargoMessages are the rendered diagnostics in the stream of JSON records that
// cargo prints. Everything that is no record of a diagnostic is left out.
func cargoMessages(stream []byte) string {
	var out []string
	for line := range bytes.Lines(stream) {
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] != '{' {
			continue
		}
		var rec struct {
			Reason  string `json:"reason"`
			Message struct {
				Rendered string `json:"rendered"`
			} `json:"message"`
		}
		if json.Unmarshal(line, &rec) != nil || rec.Reason != "compiler-message" {
			continue
		}
		if text := strings.TrimRight(rec.Message.Rendered, " \t\r\n"); text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, "\n")
}
