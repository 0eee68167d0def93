package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// keptOutput is kept of each stream of a line, half of it from the beginning and
// half from the end, as the sandbox does for a single command.
const keptOutput = sandbox.DefaultOutput

const shellGrammar = "No shell reads it. Admitted: programs and arguments, quotes, pipes |, && || ; and newlines, redirects > >> < 2> 2>> 2>&1, and cd. " +
	"Refused by name: $( ), variables, globs, &, ( ), { }, here-documents, comments, if and loops; use find or list_dir in place of globs, and quote a character to pass it literally. " +
	"The whole line is checked before anything of it runs: one part that is not permitted refuses all."

func shellTool(e *Env) tool.Tool {
	return newLineTool(e, "shell",
		"Run a command line in the workspace root and return its exit code and output (stdout, then stderr; the middle is left out when it is long). "+shellGrammar,
		func(ctx context.Context, c tool.Call, line *shellLine) (tool.Result, error) {
			return e.runShell(ctx, c, line)
		})
}

// errLineWall is the cause of a line's context when the caller's wall clock ends it.
var errLineWall = errors.New("the wall clock of the line is over")

// lineBound is how long a line may take as a whole, and the cause that ends it.
func (e *Env) lineBound() (time.Duration, error) {
	if e.LineWall > 0 && e.LineWall < e.timeout() {
		return e.LineWall, errLineWall
	}
	return e.timeout(), errExecTimeout
}

// refusedLine is the result of a line that is not run.
func refusedLine(name string, r *shellRefusal) tool.Result {
	return failed(name+" refused: "+r.construct, name+" refused", r.Error()+". Nothing was run.")
}

func (e *Env) runShell(ctx context.Context, c tool.Call, line *shellLine) (tool.Result, error) {
	out, err := newRecording(newTape(keptOutput/2, keptOutput/2), e.ProxyToken)
	if err != nil {
		return failed("shell failed to start", "shell error", "no pipe for its output: "+err.Error()), nil
	}
	errs, err := newRecording(newTape(keptOutput/2, keptOutput/2), e.ProxyToken)
	if err != nil {
		out.close()
		return failed("shell failed to start", "shell error", "no pipe for its output: "+err.Error()), nil
	}
	within, why := e.lineBound()
	bound, cancel := context.WithTimeoutCause(ctx, within, why)
	defer cancel()
	r := &shellRun{env: e, call: c, line: line, start: e.Begin(c, line.text, false), out: out.w, err: errs.w}
	r.run(bound)
	out.close()
	errs.close()
	var cut error
	if r.cut { // else the line ended by itself, be it in the same moment
		cut = context.Cause(bound)
	}
	if errors.Is(cut, errLineWall) {
		r.start.Over(sandbox.CapWall)
	} else {
		r.start.Over("")
	}
	if err := ended(ctx); err != nil {
		return tool.Result{}, err
	}
	return e.shellResult(r, out.tape.String(), errs.tape.String(), cut), nil
}

// shellResult tells how a line went. cut is what ended it before its time, nil for
// nothing.
func (e *Env) shellResult(r *shellRun, stdout, stderr string, cut error) tool.Result {
	how, decision := r.outcome(cut, seconds(e.timeout()))
	head := "shell " + within(oneLine(r.line.text), 300) + ": " + how
	ran := r.ran()
	if ran < r.line.stages {
		head += fmt.Sprintf("; %d of %d commands ran, %s", ran, r.line.stages, r.whyNotAll(ran, cut))
	}
	notes := r.notes(stdout, stderr, cut != nil)
	room := e.entryCap() - runes(head) - runes(notes) - elisionRoom
	body := strings.TrimSpace(stdout)
	if s := strings.TrimSpace(stderr); body == "" {
		body = s
	} else if s != "" {
		body += "\n" + s
	}
	if body = sandbox.Bound(body, max(room, 1)); body == "" {
		body = "(no output)"
	}
	return tool.Result{
		Text: observation(head, body+notes), Decision: decision, Kind: trace.ObsTool, Target: r.line.text,
		Failed: r.stop != nil && ran == 0,
	}
}

// ran is how many commands of the line were carried out.
func (r *shellRun) ran() (n int) {
	for _, end := range r.ends {
		if end.ran() {
			n++
		}
	}
	return n
}

// whyNotAll says what became of the commands of a line that were not carried out,
// of which only so many were.
func (r *shellRun) whyNotAll(ran int, cut error) string {
	if r.stop != nil || cut != nil {
		return "the rest was not run"
	}
	var why []string
	if n := len(r.ends) - ran; n > 0 {
		why = append(why, fmt.Sprintf("%d could not be started", n))
	}
	if len(r.ends) < r.line.stages {
		why = append(why, "the operators skipped the rest")
	}
	return strings.Join(why, ", ")
}

// outcome is how the line ended, for the head and for the trace.
func (r *shellRun) outcome(cut error, bound string) (how, decision string) {
	switch {
	case r.missing:
		return "unavailable: " + r.stop.Error() + ". No shell runs the line, so export, source and the like do not exist. Use another program or go on without it", "shell command unavailable"
	case errors.Is(cut, errLineWall):
		return "killed: it hit the sandbox's wall ceiling, which is no failure of its own", "shell hit the wall cap"
	case cut != nil:
		return "timed out: killed after " + bound + " s; this is what it had printed, run something narrower", "shell timed out"
	case r.stop != nil:
		return r.stop.Error(), "shell failed to start"
	}
	how = r.last.how()
	switch res := r.last.result; {
	case res == nil:
	case res.Cap != "":
		return how, fmt.Sprintf("shell hit the %s cap", res.Cap)
	case res.Signal != "" || res.Killed:
		return how, "shell (signal)"
	}
	return how, fmt.Sprintf("shell exit %d", r.last.status)
}

// notes are the lines below the output: how the stages ended that did not end
// well, unless the head says it, and what the sandbox may have had to do with it.
func (r *shellRun) notes(stdout, stderr string, cut bool) string {
	var b strings.Builder
	var worst *sandbox.Result
	for i, end := range r.ends {
		if end.status == 0 {
			continue
		}
		if end.result != nil {
			worst = end.result
		}
		if cut || i == len(r.ends)-1 && r.stop == nil {
			continue
		}
		fmt.Fprintf(&b, "\n[%s: %s]", within(oneLine(commandLine(end.stage.argv)), 80), end.how())
	}
	if worst != nil {
		seen := *worst
		seen.Stdout, seen.Stderr = sandbox.Output{Head: stdout}, sandbox.Output{Head: stderr}
		b.WriteString(resultNotes(&seen))
	}
	return b.String()
}

// oneLine keeps a command line on one line where it is named.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
