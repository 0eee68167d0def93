package builtin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
)

// The exit codes that shells give to what could not be run.
const (
	statusFailed   = 1
	statusNotStart = 126
)

// stageEnd is how one stage ended.
type stageEnd struct {
	stage  *shellStage
	status int             // the exit code; 1 and more when something else ended it
	result *sandbox.Result // nil when nothing was started
}

// ran reports whether the stage was carried out. A cd is, without a process.
func (e stageEnd) ran() bool { return e.result != nil || e.stage.isCd() }

// how says it in words.
func (e stageEnd) how() string {
	if e.result == nil {
		return fmt.Sprintf("exit %d", e.status)
	}
	how, _ := outcome(e.stage.argv[0], e.result, false, 0)
	return how
}

// shellRun runs a line that was planned, and that nothing forbids. It belongs to
// one goroutine.
type shellRun struct {
	env      *Env
	call     tool.Call
	line     *shellLine
	start    Line
	out, err *os.File               // where goes what no redirect takes
	started  func(*sandbox.Process) // told of each process; may be nil

	ends []stageEnd // of every stage whose turn came
	last stageEnd   // of the last pipeline whose turn came
	cut  bool       // ctx, or a kill, ended a part of the line that had not ended by itself
	// stop is why the rest of the line was not run; missing says that the reason is
	// a program that is not there.
	stop    error
	missing bool
}

// run goes through the line. It returns when nothing of the line runs any more:
// at its end, when it cannot go on, or when ctx ended.
func (r *shellRun) run(ctx context.Context) {
	for _, list := range r.line.lists {
		for i, p := range list.pipelines {
			ok := r.last.status == 0
			if i > 0 && (p.after == onSuccess && !ok || p.after == onFailure && ok) {
				continue
			}
			if ctx.Err() != nil {
				r.cut = true
				return
			}
			r.pipeline(ctx, p)
			if r.stop != nil {
				return
			}
		}
	}
}

// say prints what the harness has to say about a stage, where a shell would.
func say(to *os.File, format string, args ...any) {
	_, _ = fmt.Fprintf(to, "shell: "+format+"\n", args...) // whoever reads may have gone
}

// pipeline runs the stages of one pipeline at the same time.
func (r *shellRun) pipeline(ctx context.Context, p shellPipeline) {
	if len(p.stages) == 1 && p.stages[0].isCd() {
		r.changeDirectory(p.stages[0])
		return
	}
	if r.unavailable(p) {
		return
	}
	var ends []stageEnd
	procs := make([]*sandbox.Process, len(p.stages))
	var in *os.File // what the stage before it prints
	for i, s := range p.stages {
		out, next := r.out, (*os.File)(nil)
		var between *os.File
		if i < len(p.stages)-1 && r.stop == nil {
			var err error
			if next, between, err = os.Pipe(); err != nil {
				r.stop = err
			}
			out = between
		}
		if r.stop == nil {
			end := stageEnd{stage: s}
			procs[i], end.status, r.stop = r.stage(ctx, s, in, out)
			ends = append(ends, end)
		}
		// Ours must be closed at once, or a stage would wait for an end of its input
		// that we keep from coming.
		closeAll(in, between)
		in = next
	}
	closeAll(in)
	if r.stop != nil {
		for _, proc := range procs {
			if proc != nil {
				proc.Kill()
			}
		}
	}
	for i, proc := range procs {
		if proc == nil {
			continue
		}
		res, err := proc.Wait() // the error is the cause of ctx, which the caller has
		r.cut = r.cut || err != nil || res.Killed && res.Cap == "" && r.stop == nil
		ends[i].result, ends[i].status = res, statusOf(res)
		r.start.Ended(res)
	}
	r.ends = append(r.ends, ends...)
	if len(ends) > 0 {
		r.last = ends[len(ends)-1]
	}
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// statusOf is an exit code that is 0 only for a command that ended well.
func statusOf(res *sandbox.Result) int {
	if res.Success() {
		return 0
	}
	return max(res.Exit, 1)
}

// unavailable looks for the programs of a pipeline before any of it is started.
func (r *shellRun) unavailable(p shellPipeline) bool {
	for _, s := range p.stages {
		if s.isCd() {
			continue
		}
		if _, err := r.directory(s); err != nil {
			continue // said when its turn comes
		}
		if _, err := r.env.resolveIn(r.call.Workspace, s); errors.Is(err, sandbox.ErrMissing) {
			r.stop, r.missing = fmt.Errorf("%q is not on this machine: %s", within(s.argv[0], 200), reason(err)+unescaped(runtime.GOOS, s.argv[0])), true
			return true
		}
	}
	return false
}

// unescaped is a hint at a program of Windows whose path lost its separators: a
// backslash outside of quotes escapes what follows, on every system.
func unescaped(goos, program string) string {
	drive := len(program) > 2 && program[1] == ':' && program[0]|0x20 >= 'a' && program[0]|0x20 <= 'z'
	if goos != "windows" || !drive || program[2] == '/' || program[2] == '\\' {
		return ""
	}
	return `. If its path was written with \: outside of quotes that is an escape, so put the path in quotes`
}

var errNoDirectory = errors.New("no such directory")

// directory is where a stage runs, links followed at this moment: a stage before
// it may have changed what the name leads to. The error is errNoDirectory, or the
// refusal of what the name leads to now.
func (r *shellRun) directory(s *shellStage) (string, error) {
	ws := r.call.Workspace
	if s.dir == "" {
		return ws.Root(), nil
	}
	need := policy.Need{Act: policy.Read, Target: s.dir}
	if v := ws.CheckPath(need.Act, need.Target); v.Effect == policy.Deny {
		return "", v.Refusal(need)
	}
	real, err := ws.Canonical(s.dir)
	if err != nil {
		return "", errNoDirectory
	}
	dir := filepath.Join(ws.Root(), filepath.FromSlash(real))
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", errNoDirectory
	}
	return dir, nil
}

func (r *shellRun) changeDirectory(s *shellStage) {
	end := stageEnd{stage: s}
	to, _ := s.destination(r.call.Workspace) // it was planned without a refusal
	if _, err := r.directory(&shellStage{dir: to}); err != nil {
		r.refusal(err)
		say(r.err, "cd: %s: %s", to, openReason(err))
		end.status = statusFailed
	}
	r.ends = append(r.ends, end)
	r.last = end
}

// stage starts one stage. Without a process the status says why: 1 for a redirect
// that cannot be opened or a directory that is not there, 126 for a program that
// the system does not start. An error stops the line.
func (r *shellRun) stage(ctx context.Context, s *shellStage, in, out *os.File) (*sandbox.Process, int, error) {
	if s.isCd() {
		say(r.err, "cd does nothing in a pipeline")
		return nil, 0, nil
	}
	t := streams{in: in, out: out, err: r.err}
	defer t.close()
	dir, err := r.directory(s)
	if err != nil {
		r.refusal(err)
		say(r.err, "%s: %s", s.dir, openReason(err))
		return nil, statusFailed, nil
	}
	for _, red := range s.redirects {
		if err := t.apply(ctx, r.call, red); err != nil {
			r.refusal(err)
			say(t.err, "%s: %s", red.target, openReason(err))
			return nil, statusFailed, nil
		}
	}
	cmd := sandbox.Cmd{Argv: s.argv, Dir: dir, Stdout: t.out, Stderr: t.err}
	if t.in != nil {
		cmd.Stdin = t.in
	}
	proc, err := r.start.Start(ctx, cmd)
	switch {
	case err == nil:
		if r.started != nil {
			r.started(proc)
		}
		return proc, 0, nil
	case ctx.Err() != nil:
		r.cut = true
		return nil, statusNotStart, nil
	case errors.Is(err, sandbox.ErrStart), errors.Is(err, sandbox.ErrMissing):
		say(t.err, "%s: %s", s.argv[0], reason(err))
		return nil, statusNotStart, nil
	}
	return nil, statusNotStart, fmt.Errorf("%q could not be started: %s", within(s.argv[0], 200), reason(err))
}

// refusal tells of an error that is one of the policy. The gate judged the line as
// it was then, so this is the only record of it.
func (r *shellRun) refusal(err error) {
	if re := (*policy.RefusedError)(nil); errors.As(err, &re) {
		r.start.Refused(re)
	}
}

// openReason is why a redirect cannot be opened, in the words of the system.
func openReason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// streams are the three streams of a stage while its redirects are applied, from
// left to right.
type streams struct {
	in, out, err *os.File
	opened       []*os.File
}

func (t *streams) close() { closeAll(t.opened...) }

func (t *streams) apply(ctx context.Context, c tool.Call, red redirect) error {
	if red.op == joinErrors {
		t.err = t.out
		return nil
	}
	f, err := openRedirect(ctx, c, red)
	if err != nil {
		return err
	}
	t.opened = append(t.opened, f)
	switch red.fd {
	case 0:
		t.in = f
	case 1:
		t.out = f
	default:
		t.err = f
	}
	return nil
}

// openRedirect opens the file of a redirect: through the workspace, so that no
// link leads out of it and the policy is asked about what the path is now.
func openRedirect(ctx context.Context, c tool.Call, red redirect) (*os.File, error) {
	switch {
	case red.null && red.op == readFrom:
		return os.Open(os.DevNull)
	case red.null:
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	case red.op == readFrom:
		return c.Workspace.OpenInput(ctx, red.target)
	}
	return c.Workspace.OpenOutput(ctx, red.target, red.op == appendTo)
}
