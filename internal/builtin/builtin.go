package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/toolchain"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/workspace"
)

// Env is what the tools use of the run that they belong to. The functions may be
// called from several goroutines.
type Env struct {
	// Run runs one command of a call, contained as the run is, and records it.
	// Required.
	Run func(ctx context.Context, c tool.Call, cmd sandbox.Cmd) (*sandbox.Result, error)

	// RunNarrowed is Run after narrow has changed the run's profile: git reads under
	// a read-only one. Nil means that Run serves these commands too.
	RunNarrowed func(ctx context.Context, c tool.Call, cmd sandbox.Cmd, narrow func(*sandbox.Profile)) (*sandbox.Result, error)

	// Begin announces a command line and returns what starts its commands. One that
	// is detached outlives the call and has no wall clock. Nil means that no command
	// lines are offered.
	Begin func(c tool.Call, line string, detached bool) Line

	// LineWall is the wall clock that the caller's ceilings give a command, which a
	// line has as a whole. Zero means none but ExecTimeout.
	LineWall time.Duration

	// ProxyToken is what must not be shown of what a line prints: the login of the
	// run's proxy, which stands in the environment of its commands.
	ProxyToken sandbox.ProxyToken

	// Mode is where commands may write: under read-only a redirect may not either.
	Mode sandbox.Mode

	// Handles are the commands that the run leaves running. Nil means that no
	// command can be left running. It needs Begin.
	Handles *Handles

	// Resolve finds the file that a program's name means to Run. Required.
	Resolve func(program string) (string, error)

	// EntryCap is how many characters one observation may have at this moment.
	// Nil means DefaultEntryCap.
	EntryCap func() int

	// MaxReadChars is the operator's own bound on one read, in characters. Zero
	// means none but EntryCap.
	MaxReadChars int

	// ExecTimeout bounds one command. Zero means DefaultExecTimeout.
	ExecTimeout time.Duration

	// Toolchain is what was detected in the workspace; the zero value is nothing.
	Toolchain toolchain.Toolchain

	// Identity is who commits. Zero fields have the values of DefaultIdentity.
	Identity Identity

	// Writable are directories beside the workspace that commands of the run may
	// write. No program of the harness itself is taken from there.
	Writable []string

	// ParentRepository lets the git tools that change something work in a
	// repository whose top is above the workspace root.
	ParentRepository bool

	// Has reports whether a tool is offered to the model, so that advice does not
	// name one that is not there. Nil means that none beside this package's is.
	Has func(name string) bool

	git *gitProgram
}

// Line is one command line while it runs. It is used by one goroutine.
type Line interface {
	// Start starts one command of the line without waiting for it, contained as the
	// run is.
	Start(ctx context.Context, cmd sandbox.Cmd) (*sandbox.Process, error)
	// Ended is told how each command ended that Start started.
	Ended(res *sandbox.Result)
	// Refused is told of a redirect or a directory that the policy refuses when its
	// turn comes: the line itself may have changed what the name leads to.
	Refused(re *policy.RefusedError)
	// Over says that nothing of the line runs any more, and which ceiling of the
	// line as a whole ended it, "" for none. It is called once.
	Over(hit sandbox.Cap)
}

// Defaults of an Env.
const (
	DefaultEntryCap    = 12_000 // characters: half of the default context budget, at 4 a token
	DefaultExecTimeout = 900 * time.Second
)

// Tools returns the tools in the order in which a model is offered them.
func Tools(env Env) []tool.Tool {
	e := &env
	e.git = &gitProgram{}
	return slices.Concat(
		searchTools(e),
		[]tool.Tool{readFile(e)},
		gitTools(e),
		[]tool.Tool{writeFile(e), editFile(e), patchFile(e), check(e), execTool(e)},
		lineTools(e),
	)
}

// lineTools are the tools of command lines, as far as the run has what they need.
func lineTools(e *Env) []tool.Tool {
	switch {
	case e.Begin == nil:
		return nil
	case e.Handles == nil:
		return []tool.Tool{shellTool(e)}
	}
	return []tool.Tool{shellTool(e), shellStart(e), shellPoll(e), shellKill(e)}
}

// order is the catalogue: a model sees the tools of the library in this order,
// whatever a run leaves out, so that a vendor's cache of a prompt holds.
var order = [...]string{
	"grep", "find", "list_dir", "read_file",
	"git_status", "git_diff", "git_log", "git_add", "git_commit", "git_branch", "git_worktree",
	"view_image", "remember", "forget", "todo_write", "ask_question", "ask_questions",
	"write_file", "edit_file", "patch_file", "check",
	"exec", "shell", "shell_start", "shell_poll", "shell_kill",
	"xlsx_sheets", "xlsx_read", "xlsx_write", "xlsx_set_cell",
	"docx_read", "docx_write", "pptx_read",
	"pdf_read", "pdf_write", "pdf_watermark", "pdf_fill_form", "barcode_decode",
}

// Arrange sorts tools of the library into the order of the catalogue. Others
// keep their order and come after them.
func Arrange(tools []tool.Tool) []tool.Tool {
	place := func(t tool.Tool) int {
		if i := slices.Index(order[:], t.Spec().Name); i >= 0 {
			return i
		}
		return len(order)
	}
	out := slices.Clone(tools)
	slices.SortStableFunc(out, func(a, b tool.Tool) int { return place(a) - place(b) })
	return out
}

func (e *Env) entryCap() int {
	if e.EntryCap == nil {
		return DefaultEntryCap
	}
	return max(e.EntryCap(), 1)
}

func (e *Env) timeout() time.Duration {
	if e.ExecTimeout <= 0 {
		return DefaultExecTimeout
	}
	return e.ExecTimeout
}

// act is a built-in tool.
type act struct {
	spec  tool.Spec
	mode  sandbox.Mode // that it needs; empty: whatever the run has
	needs func(c tool.Call) ([]policy.Need, error)
	call  func(ctx context.Context, c tool.Call) (tool.Result, error)
}

func (a *act) Spec() tool.Spec { return a.spec }

func (a *act) NeedsMode() sandbox.Mode { return a.mode }

func (a *act) Needs(c tool.Call) ([]policy.Need, error) { return a.needs(c) }

func (a *act) Call(ctx context.Context, c tool.Call) (tool.Result, error) { return a.call(ctx, c) }

// shown is an act that an approver is shown better than by its arguments.
type shown struct {
	act
	preview func(c tool.Call) string
}

func (s *shown) Preview(c tool.Call) string { return s.preview(c) }

var (
	_ tool.Tool       = (*act)(nil)
	_ tool.Needer     = (*act)(nil)
	_ tool.ModeNeeder = (*act)(nil)
	_ tool.Previewer  = (*shown)(nil)
)

func noNeeds(tool.Call) ([]policy.Need, error) { return nil, nil }

// pathNeed is the need for one path that a model named. What is wrong with the
// path itself is an error of the arguments and comes before any question; a path
// that leaves the root goes to the gate, which denies it and records that.
func pathNeed(w *workspace.Workspace, what policy.Act, path string) (policy.Need, error) {
	if _, err := w.Resolve(path); err != nil && !errors.Is(err, workspace.ErrEscape) {
		return policy.Need{}, err
	}
	return policy.Need{Act: what, Target: path}, nil
}

// schema builds the JSON schema of a tool's arguments.
func schema(required []string, props ...string) json.RawMessage {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{`)
	for i := 0; i < len(props); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", props[i], props[i+1])
	}
	b.WriteByte('}')
	if len(required) > 0 {
		list, _ := json.Marshal(required) // strings always marshal
		fmt.Fprintf(&b, `,"required":%s`, list)
	}
	b.WriteByte('}')
	return json.RawMessage(b.String())
}

func property(kind, description string) string {
	d, _ := json.Marshal(description)
	if kind == "strings" {
		return fmt.Sprintf(`{"type":"array","items":{"type":"string"},"description":%s}`, d)
	}
	return fmt.Sprintf(`{"type":%q,"description":%s}`, kind, d)
}

// decode reads arguments that the pipeline has checked against the schema.
func decode[T any](c tool.Call) (T, error) {
	var in T
	if len(c.Args) == 0 {
		return in, nil
	}
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return in, &tool.ArgsError{Reason: fmt.Sprintf("they do not fit: %v", err)}
	}
	return in, nil
}

func missing(field, must string) error {
	return &tool.ArgsError{Field: field, Reason: "is missing: it must be " + must}
}

// observation frames what a model is told: a head in brackets, then the body.
func observation(head, body string) string {
	var b strings.Builder
	b.WriteString("\n[" + head + "]")
	if body != "" {
		b.WriteString("\n" + body)
	}
	if !strings.HasSuffix(b.String(), "\n") {
		b.WriteByte('\n')
	}
	return b.String()
}

// failed is the result of a call that did not do what was asked: what says it in
// the head ("grep error"), decision is the line of the trace.
func failed(decision, head, reason string) tool.Result {
	return tool.Result{Text: "\n[" + head + "] " + strings.TrimSpace(reason) + "\n", Failed: true, Decision: decision, Kind: trace.ObsError}
}

// ended reports whether the call must stop without an answer.
func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// printable is a name as it is, or quoted when it holds something that is not
// seen or that would look like more than a name: a line break, a control, a
// zero-width or a text-direction character.
func printable(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return name
	}
	return strconv.Quote(name)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return commas(n) + " " + many
}

// commas writes a number with its thousands set apart.
func commas[T int | int64](n T) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func runes(s string) int { return utf8.RuneCountInString(s) }

// within cuts s to n characters, the end marked.
func within(s string, n int) string {
	if len(s) <= n || runes(s) <= n {
		return s
	}
	i := 0
	for j := range s {
		if i == n {
			return s[:j] + "…"
		}
		i++
	}
	return s
}

// count reads an optional whole number that must be at least 1. Absent is 0.
func count(field string, n *int64) (int, error) {
	switch {
	case n == nil:
		return 0, nil
	case *n < 1 || *n > math.MaxInt32:
		return 0, &tool.ArgsError{Field: field, Reason: fmt.Sprintf("must be 1 or more, and is %d", *n)}
	}
	return int(*n), nil
}
