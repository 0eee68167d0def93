package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/workspace"
)

// Identity is who the commits of a run are by. It is handed to git with each
// commit; the repository's own configuration is not changed.
type Identity struct {
	Name  string `json:"name,omitempty"`
	Email string `json:"email,omitempty"`
}

// DefaultIdentity is used where an Identity says nothing. The domain is one that
// can never exist.
func DefaultIdentity() Identity {
	return Identity{Name: "io-harness agent", Email: "agent@io-harness.invalid"}
}

// Validate reports a name or an address that git could not take.
func (i Identity) Validate() error {
	for _, f := range []struct{ what, value string }{{"name", i.Name}, {"email", i.Email}} {
		if strings.ContainsFunc(f.value, unicode.IsControl) || strings.ContainsAny(f.value, "<>") {
			return fmt.Errorf("commit identity: the %s %q holds a control character or an angle bracket", f.what, f.value)
		}
		if f.value != "" && strings.TrimSpace(f.value) == "" {
			return fmt.Errorf("commit identity: the %s is blank", f.what)
		}
	}
	return nil
}

func (i Identity) orDefault() Identity {
	d := DefaultIdentity()
	if i.Name == "" {
		i.Name = d.Name
	}
	if i.Email == "" {
		i.Email = d.Email
	}
	return i
}

// maxMessage bounds a commit message in bytes. It is one element of a command line,
// which Linux bounds at twice this.
const maxMessage = 64 << 10

// gitArgs are the arguments of all git tools.
type gitArgs struct {
	Paths    []string `json:"paths"`
	Staged   bool     `json:"staged"`
	MaxCount *int64   `json:"max_count"`
	Message  string   `json:"message"`
	Name     string   `json:"name"`
	Path     string   `json:"path"`
}

// gitTool is one of the seven. Everything that reaches git's command line beside
// the paths is written in command; no text of a model is ever an option.
type gitTool struct {
	name        string
	description string
	schema      []byte
	writes      bool
	branch      bool // it makes one, by the name that is given

	// fault says what is missing or wrong in the arguments.
	fault func(in gitArgs) error
	// paths are the acts that the call does on paths, besides the repository.
	paths func(in gitArgs) (policy.Act, []string)
	// run does the work once the repository is known to be harmless.
	run func(g *gitCall, in gitArgs) (gitResult, error)
}

func gitTools(e *Env) []tool.Tool {
	paths := property("strings", "only these files or directories, relative to the workspace root")
	var out []tool.Tool
	for _, t := range []gitTool{
		{
			name:        "git_status",
			description: "Show which files are changed, staged or untracked, one per line with git's two-letter state.",
			schema:      schema(nil, "paths", paths),
			paths:       readPaths,
			run:         gitStatus,
		},
		{
			name:        "git_diff",
			description: "Show the changes of the working tree against the index as a diff, or with staged what is staged against the last commit.",
			schema:      schema(nil, "staged", property("boolean", "what is staged, in place of what is not"), "paths", paths),
			paths:       readPaths,
			run:         gitDiff,
		},
		{
			name:        "git_log",
			description: "List the last commits, newest first, one line each.",
			schema:      schema(nil, "max_count", property("integer", "how many, 1 to 200; 20 if left out"), "paths", paths),
			paths:       readPaths,
			run:         gitLog,
		},
		{
			name:        "git_add",
			description: "Stage files for the next commit. Directories stage what is in them. Ignored files are not staged, and git says so.",
			schema:      schema([]string{"paths"}, "paths", paths),
			writes:      true,
			fault: func(in gitArgs) error {
				if len(in.Paths) == 0 {
					return missing("paths", "a list with at least one path")
				}
				return nil
			},
			paths: readPaths,
			run:   gitAdd,
		},
		{
			name:        "git_commit",
			description: "Commit what is staged, locally. It never pushes and never rewrites a commit. For work of its own make a branch first with git_branch.",
			schema:      schema([]string{"message"}, "message", property("string", "the commit message")),
			writes:      true,
			fault: func(in gitArgs) error {
				switch {
				case strings.TrimSpace(in.Message) == "":
					return missing("message", "the commit message")
				case strings.IndexByte(in.Message, 0) >= 0:
					return &tool.ArgsError{Field: "message", Reason: "holds a NUL byte, which no commit message can"}
				case len(in.Message) > maxMessage:
					return &tool.ArgsError{Field: "message", Reason: fmt.Sprintf("has %s bytes and at most %s are possible", commas(len(in.Message)), commas(maxMessage))}
				}
				return nil
			},
			run: gitCommit,
		},
		{
			name:        "git_branch",
			description: "Create a branch at the present commit and move to it; work that is not committed comes along. An existing name is refused, and no tool goes back to another branch.",
			schema:      schema([]string{"name"}, "name", property("string", "letters, digits, . _ / -, at most 100 characters")),
			writes:      true,
			branch:      true,
			fault:       nameFault,
			run:         gitBranch,
		},
		{
			name:        "git_worktree",
			description: "Make a second checkout of the repository on a new branch, in a directory below the workspace root. No tool removes it.",
			schema: schema([]string{"name", "path"},
				"name", property("string", "the new branch: letters, digits, . _ / -, at most 100 characters"),
				"path", property("string", "the new directory, relative to the workspace root")),
			writes: true,
			fault: func(in gitArgs) error {
				if in.Path == "" {
					return missing("path", "a directory relative to the workspace root")
				}
				return nameFault(in)
			},
			branch: true,
			paths:  func(in gitArgs) (policy.Act, []string) { return policy.Write, []string{in.Path} },
			run:    gitWorktree,
		},
	} {
		out = append(out, t.tool(e))
	}
	return out
}

func readPaths(in gitArgs) (policy.Act, []string) { return policy.Read, in.Paths }

func (t gitTool) tool(e *Env) tool.Tool {
	effect, mode := tool.ReadOnly, sandbox.ReadOnly
	if t.writes {
		effect, mode = tool.Mutating, sandbox.WorkspaceWrite
	}
	a := act{
		mode: mode,
		spec: tool.Spec{Name: t.name, Description: t.description, Schema: t.schema, Effect: effect, Origin: trace.OriginShell},
		needs: func(c tool.Call) ([]policy.Need, error) {
			in, err := decode[gitArgs](c)
			if err != nil {
				return nil, err
			}
			return t.needs(e, c.Workspace, in)
		},
		call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
			in, err := decode[gitArgs](c)
			if err != nil {
				return tool.Result{}, err
			}
			return t.call(ctx, e, c, in)
		},
	}
	if t.name == "git_commit" {
		return &shown{act: a, preview: func(c tool.Call) string {
			in, _ := decode[gitArgs](c)
			return in.Message
		}}
	}
	return &a
}

// needs are the permission to run git, the act on the repository, and the act on
// each path, in this order: the last is the most specific.
func (t gitTool) needs(e *Env, w *workspace.Workspace, in gitArgs) ([]policy.Need, error) {
	if t.fault != nil {
		if err := t.fault(in); err != nil {
			return nil, err
		}
	}
	if t.branch {
		if err := branchFault(in.Name); err != nil {
			return nil, refuse(t.name, policy.Need{Act: policy.Write, Target: in.Name}, byRule("<branch name "+err.Error()+">"),
				fmt.Sprintf("The branch name %q %v. Nothing was done.", in.Name, err))
		}
	}
	git := policy.Need{Act: policy.Exec, Target: "git"}
	if file, err := e.git.find(w.Root(), e.Writable); err == nil {
		git.Resolved = file
	}
	repository := policy.Need{Act: policy.Read, Target: ".git"}
	if t.writes {
		repository.Act = policy.Write
	}
	needs := []policy.Need{git, repository}
	if t.paths == nil {
		return needs, nil
	}
	what, paths := t.paths(in)
	for _, p := range paths {
		need := policy.Need{Act: what, Target: p}
		switch {
		case p == "":
			return nil, refuse(t.name, need, byRule("<empty path>"), "A path is empty: name a file or a directory, . for everything. Nothing was done.")
		case p[0] == '-':
			return nil, refuse(t.name, need, byRule("<path may not begin with ->"), fmt.Sprintf("%q could be read as an option: a path may not begin with -, write ./%s. Nothing was done.", p, p))
		case what == policy.Write && isGitName(p):
			return nil, refuse(t.name, need, byRule(workspace.GitFile), "The path ends in .git, which is git's own name. Nothing was done.")
		}
		n, err := pathNeed(w, what, p)
		if err != nil {
			return nil, err
		}
		needs = append(needs, n)
	}
	return needs, nil
}

func isGitName(p string) bool {
	p = strings.TrimRight(p, "/")
	return strings.EqualFold(p[strings.LastIndexByte(p, '/')+1:], ".git")
}

func nameFault(in gitArgs) error {
	if in.Name == "" {
		return missing("name", "the name of the new branch")
	}
	return nil
}

// branchFault says why a name cannot be a branch's. The rule is narrower than
// git's, so that no name can be read as an option, a revision or a path.
func branchFault(name string) error {
	bad := func(reason string) error { return errors.New(reason) }
	switch {
	case name == "":
		return bad("is empty")
	case len(name) > 100:
		return bad(fmt.Sprintf("has %d characters and at most 100 are possible", len(name)))
	case name[0] == '-':
		return bad("begins with -")
	case strings.Contains(name, ".."):
		return bad("holds .., which git reads as a range")
	}
	for _, r := range name {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._/-", r) {
			return bad(fmt.Sprintf("holds %q: only letters, digits, . _ / and - are possible", r))
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return bad("has an empty part between its slashes")
		case part == "." || part[0] == '.':
			return bad("has a part that begins with a dot")
		case strings.HasSuffix(part, ".lock"):
			return bad("has a part that ends in .lock")
		case strings.HasSuffix(part, "."):
			return bad("has a part that ends in a dot")
		}
	}
	return nil
}

func (t gitTool) call(ctx context.Context, e *Env, c tool.Call, in gitArgs) (tool.Result, error) {
	g := &gitCall{ctx: ctx, env: e, call: c, tool: t}
	res, err := g.prepare()
	if err == nil && res == nil {
		var r gitResult
		r, err = t.run(g, in)
		res = &r
	}
	if stop := ended(ctx); stop != nil {
		return tool.Result{}, stop
	}
	switch {
	case isRefusal(err):
		return tool.Result{}, err
	case err != nil:
		return t.failure(err), nil
	}
	return t.result(e, *res), nil
}
