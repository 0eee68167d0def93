package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/sandbox"
)

// Bounds on what a verdict carries, in characters and lines.
const (
	// MaxOutput bounds Verdict.Output and Verdict.Detail: enough for the failing
	// assertions of a test run, little enough to stand in every trace.
	MaxOutput = 4000
	// MaxFeedbackLines bounds Verdict.Feedback in lines; MaxOutput does in
	// characters.
	MaxFeedbackLines = 60
)

// Env is what an evaluation may use. The functions are called from the goroutine
// that evaluates. Only a criterion that needs a function fails for want of it.
type Env struct {
	// Root is the absolute path of the run's workspace.
	Root string
	// Temp is an existing directory outside the workspace that the commands of
	// Run may write; the temporary directory of the sandbox profile. Only
	// EachCompiles needs it.
	Temp string
	// Goal is what the run was asked for; a reviewer is told.
	Goal string

	// Resolve finds the file that a program's name means, as an absolute path,
	// in the environment and from the working directory that Run will use.
	Resolve func(program string) (string, error)
	// Admit asks the policy whether argv may be started, and records the answer.
	// program is what Resolve made of argv[0]. A gate cannot prompt: whatever is
	// not allowed outright must come back as a *policy.RefusedError.
	Admit func(ctx context.Context, argv []string, program string) error
	// Run starts one command in the gate's sandbox and waits for it. An error
	// means that it was not started.
	Run func(ctx context.Context, cmd sandbox.Cmd) (*sandbox.Result, error)
	// Changes lists the files that the run wrote, in the order of their first
	// write.
	Changes func(ctx context.Context) ([]FileChange, error)
	// Reviewer judges where a Review criterion carries no reviewer of its own,
	// as one does that was read back from a store.
	Reviewer Reviewer
	// Reviewed knows the verdict of an earlier review with the same rubric that
	// still holds, because nothing has changed since: it is used again, and the
	// reviewer is not asked. Nil, or false: the reviewer is asked.
	Reviewed func(rubric string) (passed, holds bool)
	// ReportReview is told each verdict that a reviewer reached.
	ReportReview func(rubric string, r ReviewResult)
	// ReportCall is told each completion of a reviewer, also one that failed and
	// one whose verdict could not be read. Nil: nobody wants to know.
	ReportCall func(ReviewCall)
}

// Verdict is what a criterion decided.
type Verdict struct {
	Passed bool
	Phase  Phase
	// Detail says on one line why: the exit status and the wanted one, the
	// missing text, the reasons of a reviewer joined by "; ". It is empty for a
	// pass that needs no word. At most MaxOutput characters.
	Detail string
	// Output is what the command printed, stdout and then stderr, with the
	// middle left out. At most MaxOutput characters.
	Output string
	// Exit is the exit status; nil when no command ended by itself.
	Exit   *int
	Signal string // the signal that ended the command
	Cap    string // the ceiling of the sandbox that ended the command
	// Reasons are the single points of a failed review or a tampered gate.
	Reasons []string
	// TellModel says that Feedback belongs in the next request. Content criteria
	// say nothing that the criterion itself does not say, and a reviewer that is
	// answered back to gets optimised against.
	TellModel bool
	// Reused says that the verdict is an earlier one of a reviewer who was not
	// asked again; see Env.Reviewed. It has no reasons.
	Reused bool
	// Tokens is what a reviewer used, zero for other criteria.
	Tokens int64
	// Step names the part of a compile probe that failed: "subject-compile" or
	// "subject-emptied". Empty elsewhere.
	Step string
}

// Feedback is what the model should be told of a failed verdict: the reason and
// the tail of the output, in at most MaxFeedbackLines lines and MaxOutput
// characters. It is empty for a pass and where TellModel is false, and the same
// for the same verdict, so that a caller can leave out what was told already.
func (v Verdict) Feedback() string {
	if v.Passed || !v.TellModel {
		return ""
	}
	head := fmt.Sprintf("The success criterion was checked and is not met (%s: %s).", v.Phase, v.Detail)
	out := tail(v.Output, MaxFeedbackLines-2, MaxOutput-len([]rune(head))-40)
	if out == "" {
		return bound(head, MaxOutput)
	}
	return head + "\nThe end of its output:\n" + out
}

// Evaluate judges c once, against the workspace as it is now. The error is a
// *GateError, or an *InvalidError for a criterion that can never work, and always
// means that c did not get to judge; a verdict that is not passed means that it
// did, and said no. The returned verdict has its Phase even beside an error.
func Evaluate(ctx context.Context, c Criterion, env Env) (Verdict, error) {
	if c == nil {
		return Verdict{Phase: PhaseNone}, &InvalidError{"criterion", "there is none, and nothing cannot be evaluated"}
	}
	if err := c.Validate(); err != nil {
		return Verdict{Phase: c.Phase()}, err
	}
	if err := ctx.Err(); err != nil {
		return Verdict{Phase: c.Phase()}, &GateError{c.Phase(), "begin", ended(ctx)}
	}
	v, err := c.evaluate(ctx, env)
	if v.Phase == "" {
		v.Phase = c.Phase()
	}
	v.Detail = bound(oneLine(v.Detail), MaxOutput)
	if err == nil {
		return v, nil
	}
	v.Passed, v.TellModel = false, false
	var gate *GateError
	if !errors.As(err, &gate) {
		err = &GateError{v.Phase, "evaluate", err}
	}
	return v, err
}

// ended is why ctx ended: its own error, and the cause where there is another.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// fail is an error of phase p, in which doing was being done.
func fail(p Phase, doing string, err error) error { return &GateError{p, doing, err} }

// missing is the error for a part of Env that a criterion needs.
func missing(p Phase, field string) error {
	return &GateError{p, "evaluate", errors.New("the environment has no " + field)}
}

// bound cuts s to limit characters, the mark of the cut included.
func bound(s string, limit int) string {
	const mark = 60 // longest elision mark of sandbox.Bound, with a 19-digit count
	if len(s) <= limit {
		return s
	}
	if n := len([]rune(s)); n <= limit {
		return s
	}
	return sandbox.Bound(s, limit-mark)
}

// tail is the last lines of s, within both bounds, cut at a line where it can be.
func tail(s string, lines, chars int) string {
	s = strings.TrimSpace(s)
	if chars <= 0 || lines <= 0 {
		return ""
	}
	if r := []rune(s); len(r) > chars {
		s = string(r[len(r)-chars:])
		if _, rest, ok := strings.Cut(s, "\n"); ok {
			s = rest
		}
	}
	all := strings.Split(s, "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.TrimSpace(strings.Join(all, "\n"))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
