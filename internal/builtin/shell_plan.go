package builtin

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/workspace"
)

// planShell reads a line and settles where each of its stages runs and which
// files it names. Nothing is looked at on disk: a cd counts from where it stands,
// whether or not it will come to run, so that what is judged does not depend on
// how the line goes.
func (e *Env) planShell(ws *workspace.Workspace, text string) (*shellLine, *shellRefusal) {
	line, refused := parseShell(text)
	if refused != nil {
		return nil, refused
	}
	dir := ""
	for _, s := range line.all() {
		s.dir = dir
		for i := range s.redirects {
			if refused := e.planRedirect(ws, s, &s.redirects[i]); refused != nil {
				return nil, refused
			}
		}
		if !s.isCd() {
			continue
		}
		to, refused := s.destination(ws)
		if refused != nil {
			return nil, refused
		}
		dir = to
	}
	return line, nil
}

// all are the stages of the line in its order.
func (l *shellLine) all() []*shellStage {
	var out []*shellStage
	for _, list := range l.lists {
		for _, p := range list.pipelines {
			out = append(out, p.stages...)
		}
	}
	return out
}

// destination is where a cd leads, relative to the root. One that leads out of it
// is given as it is spelt, for the policy to deny.
func (s *shellStage) destination(ws *workspace.Workspace) (string, *shellRefusal) {
	switch args := s.argv[1:]; {
	case len(args) == 0:
		return "", nil
	case len(args) > 1 || strings.HasPrefix(args[0], "-"):
		return "", refuseShell("cd-arguments", s.at)
	default:
		return s.locate(ws, args[0])
	}
}

// locate gives a path that a stage names its spelling from the root.
func (s *shellStage) locate(ws *workspace.Workspace, p string) (string, *shellRefusal) {
	p = filepath.ToSlash(p)
	if filepath.IsAbs(filepath.FromSlash(p)) || path.IsAbs(p) {
		if rel, ok := ws.Relative(p); ok {
			return rel, nil
		}
		return p, nil
	}
	p = path.Join(s.dir, p)
	if p == "." {
		p = ""
	}
	if _, err := pathNeed(ws, policy.Read, p); err != nil {
		r := refuseShell("path", s.at)
		r.reason = err.Error()
		return "", r
	}
	return p, nil
}

func (e *Env) planRedirect(ws *workspace.Workspace, s *shellStage, r *redirect) *shellRefusal {
	if r.op == joinErrors {
		return nil
	}
	if r.target == "/dev/null" || runtime.GOOS == "windows" && strings.EqualFold(r.target, os.DevNull) {
		r.null = true
		return nil
	}
	if strings.HasSuffix(r.target, "/") {
		return refuseShell("redirect-to-directory", r.at)
	}
	if r.op != readFrom && e.Mode == sandbox.ReadOnly {
		return refuseShell("read-only", r.at)
	}
	target, refused := s.locate(ws, r.target)
	if refused == nil && target == "" {
		refused = refuseShell("redirect-to-directory", r.at)
	}
	r.target = target
	return refused
}

// shellNeeds is everything that the line wants to do, in its order. One denied part
// refuses the whole, and so does the error.
func (e *Env) shellNeeds(ws *workspace.Workspace, line *shellLine) ([]policy.Need, error) {
	var needs []policy.Need
	for _, s := range line.all() {
		if s.isCd() {
			to, _ := s.destination(ws) // it was planned without a refusal
			if to == "" {
				to = "."
			}
			needs = append(needs, policy.Need{Act: policy.Read, Target: to})
		} else {
			needs = append(needs, e.stageNeed(ws, s))
		}
		for _, r := range s.redirects {
			switch {
			case r.op == joinErrors || r.null:
			case r.op == readFrom:
				needs = append(needs, policy.Need{Act: policy.Read, Target: r.target})
			default:
				n := policy.Need{Act: policy.Write, Target: r.target}
				if err := gitFile(ws, n); err != nil {
					return nil, err
				}
				needs = append(needs, n)
			}
		}
	}
	return needs, nil
}

// stageNeed is the permission to start a stage. A program that is given by a path
// from another directory than the root is judged by its path from the root, as it
// would be without the cd, or without the "./" where a rule is stricter on that.
func (e *Env) stageNeed(ws *workspace.Workspace, s *shellStage) policy.Need {
	file, err := e.resolveIn(ws, s)
	if err != nil {
		file = ""
	}
	p := ws.Policy()
	n := startNeed(p, s.argv, file)
	if program := s.argv[0]; s.dir != "" && givenByPath(program) {
		bare := path.Join(s.dir, filepath.ToSlash(program))
		for i, spelling := range []string{"./" + bare, bare} {
			argv := append([]string{spelling}, s.argv[1:]...)
			from := startNeed(p, argv, file)
			v := p.Check(from)
			if i == 0 || v.Matched && strictness(v.Effect) > strictness(p.Check(n).Effect) {
				n = from
			}
		}
	}
	n.Dir = s.dir
	return n
}

// givenByPath reports whether a program is named by a relative path and not looked
// for by its name.
func givenByPath(program string) bool {
	return strings.ContainsAny(program, "/"+string(filepath.Separator)) && !filepath.IsAbs(program)
}

// resolveIn finds the program of a stage from the directory that the stage runs in.
func (e *Env) resolveIn(ws *workspace.Workspace, s *shellStage) (string, error) {
	program := s.argv[0]
	if givenByPath(program) {
		program = filepath.Join(ws.Root(), filepath.FromSlash(s.dir), program)
	}
	return e.Resolve(program)
}

// lineTool is a tool whose call is a command line: made of several acts that the
// policy judges one by one, and one thing to whoever is asked.
type lineTool struct{ act }

// Whole is the line, as an approver is asked about it.
func (*lineTool) Whole(c tool.Call) string {
	line, err := lineOf(c)
	if err != nil {
		return c.Name
	}
	return line
}

func lineOf(c tool.Call) (string, error) {
	in, err := decode[struct {
		Line string `json:"line"`
	}](c)
	if err == nil && strings.TrimSpace(in.Line) == "" {
		err = missing("line", "a command line")
	}
	return in.Line, err
}

// newLineTool makes a tool of a command line. A line that is refused by its
// grammar needs nothing, since nothing of it will happen.
func newLineTool(e *Env, name, description string, run func(context.Context, tool.Call, *shellLine) (tool.Result, error)) tool.Tool {
	return &lineTool{act{
		spec: tool.Spec{
			Name: name, Description: description, Origin: trace.OriginShell,
			Schema: schema([]string{"line"}, "line", property("string", `the command line, for example "go vet ./... && go test ./... 2>&1 | tail -n 40"`)),
		},
		needs: func(c tool.Call) ([]policy.Need, error) {
			text, err := lineOf(c)
			if err != nil {
				return nil, err
			}
			line, refused := e.planShell(c.Workspace, text)
			if refused != nil {
				return nil, nil
			}
			return e.shellNeeds(c.Workspace, line)
		},
		call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
			text, err := lineOf(c)
			if err != nil {
				return failed(name+" missing line", name+" error", err.Error()), nil
			}
			line, refused := e.planShell(c.Workspace, text)
			if refused != nil {
				return refusedLine(name, refused), nil
			}
			return run(ctx, c, line)
		},
	}}
}
