package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/workspace"
)

// How much of a search or a listing is shown; the rest is counted.
const (
	grepShown = 50
	findShown = 500
	listShown = 200
)

func searchTools(_ *Env) []tool.Tool {
	return []tool.Tool{grepTool(), findTool(), listTool()}
}

func grepTool() tool.Tool {
	type args struct {
		Pattern string `json:"pattern"`
		Glob    string `json:"path_glob"`
	}
	return &act{
		spec: tool.Spec{
			Name: "grep",
			Description: "Search the text files of the workspace line by line and list hits as path:line: text, at most 50. " +
				"The pattern is a regular expression in RE2 syntax (no look-around; \\w, \\d and \\b are ASCII; (?i) ignores case); a plain word is one too. " +
				"path_glob limits the files: * is any run of characters, / included, and ? is one. " +
				"Directories .git, target and node_modules, links and files that are not UTF-8 text are not searched.",
			Schema: schema([]string{"pattern"},
				"pattern", property("string", "regular expression or plain text; escape characters such as ( [ . * to mean them literally"),
				"path_glob", property("string", "only files whose whole relative path fits, for example *.go or src/*")),
			Effect: tool.ReadOnly,
		},
		needs: noNeeds,
		call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
			in, err := decode[args](c)
			if err != nil {
				return tool.Result{}, err
			}
			m, err := c.Workspace.Grep(ctx, in.Pattern, in.Glob, grepShown)
			if err := ended(ctx); err != nil {
				return tool.Result{}, err
			}
			if err != nil {
				return failed("grep error", "grep error", err.Error()), nil
			}
			// The same pattern elsewhere is another search: neither takes the other's place.
			target := in.Pattern
			if in.Glob != "" {
				target += " in " + in.Glob
			}
			return tool.Result{
				Text:     observation(fmt.Sprintf("grep %q", in.Pattern), grepBody(m)),
				Decision: fmt.Sprintf("grep %q (%s)", in.Pattern, plural(m.Total, "hit", "hits")),
				Kind:     trace.ObsGrep, Target: target,
			}, nil
		},
	}
}

func grepBody(m workspace.Matches) string {
	var b strings.Builder
	for _, h := range m.Hits {
		fmt.Fprintf(&b, "%s:%d: %s\n", printable(h.Path), h.Line, h.Text)
	}
	switch total := commas(m.Total); {
	case m.Total == 0:
		b.WriteString("no matches\n")
	case m.Stopped:
		fmt.Fprintf(&b, "showing %d of at least %s hits: searching stopped there; narrow the pattern or add path_glob\n", len(m.Hits), total)
	case m.Total > len(m.Hits):
		fmt.Fprintf(&b, "showing %d of %s hits: narrow the pattern or add path_glob\n", len(m.Hits), total)
	}
	if m.TooLarge > 0 {
		fmt.Fprintf(&b, "%s over %d MiB not searched\n", plural(m.TooLarge, "file", "files"), workspace.MaxGrepFile>>20)
	}
	return b.String()
}

func findTool() tool.Tool {
	type args struct {
		Glob  string `json:"name_glob"`
		Alias string `json:"glob"`
	}
	return &act{
		spec: tool.Spec{
			Name: "find",
			Description: "List files whose base name or whole relative path fits a glob, one path per line, at most 500. " +
				"* is any run of characters, / included, ? is one, and nothing else is special: *_test.go, src/*.rs, Makefile. " +
				"Directories .git, target and node_modules and links are not entered. To search inside files use grep.",
			// name_glob is required, but its other name must get through to be taken.
			Schema: schema(nil,
				"name_glob", property("string", "required: the glob, for example *.go"),
				"glob", property("string", "another name for name_glob")),
			Effect: tool.ReadOnly,
		},
		needs: noNeeds,
		call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
			in, err := decode[args](c)
			if err != nil {
				return tool.Result{}, err
			}
			glob := in.Glob
			if glob == "" {
				glob = in.Alias
			}
			if glob == "" {
				return failed("find error", "find error", missing("name_glob", "a glob such as *.go").Error()), nil
			}
			f, err := c.Workspace.Find(ctx, glob, findShown)
			if err := ended(ctx); err != nil {
				return tool.Result{}, err
			}
			if err != nil {
				return failed("find error", "find error", err.Error()), nil
			}
			body := "no matches"
			if f.Total > 0 {
				shown := make([]string, len(f.Paths))
				for i, p := range f.Paths {
					shown[i] = printable(p)
				}
				body = strings.Join(shown, "\n")
			}
			if f.Total > len(f.Paths) {
				body += fmt.Sprintf("\nshowing %d of %s paths: narrow the glob", len(f.Paths), commas(f.Total))
			}
			return tool.Result{
				Text:     observation(fmt.Sprintf("find %q", glob), body),
				Decision: fmt.Sprintf("find %q (%s)", glob, plural(f.Total, "path", "paths")),
				Kind:     trace.ObsFind, Target: glob,
			}, nil
		},
	}
}

func listTool() tool.Tool {
	type args struct {
		Path string `json:"path"`
	}
	return &act{
		spec: tool.Spec{
			Name: "list_dir",
			Description: "List one level of a directory: dir, file (with its size in bytes) or link, hidden names included, at most 200. " +
				"To look for files by name through the whole tree use find, to look into them use grep.",
			Schema: schema(nil, "path", property("string", "directory relative to the workspace root; leave it out for the root")),
			Effect: tool.ReadOnly,
		},
		needs: func(c tool.Call) ([]policy.Need, error) {
			in, err := decode[args](c)
			if err != nil {
				return nil, err
			}
			n, err := pathNeed(c.Workspace, policy.Read, in.Path)
			return []policy.Need{n}, err
		},
		call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
			in, err := decode[args](c)
			if err != nil {
				return tool.Result{}, err
			}
			l, err := c.Workspace.ListDir(ctx, in.Path, listShown)
			if err := ended(ctx); err != nil {
				return tool.Result{}, err
			}
			switch {
			case isRefusal(err):
				return tool.Result{}, err
			case err != nil:
				return listFailed(in.Path, err), nil
			}
			path := in.Path
			if path == "" {
				path = "."
			}
			return tool.Result{
				Text:     observation("list_dir "+printable(path), listBody(l)),
				Decision: fmt.Sprintf("list_dir %s (%s)", printable(path), plural(l.Total, "entry", "entries")),
				Kind:     trace.ObsFind, Target: path,
			}, nil
		},
	}
}

func listFailed(path string, err error) tool.Result {
	reason := err.Error()
	if errors.Is(err, workspace.ErrNotRegular) {
		reason = printable(path) + " is not a directory"
	}
	return failed("list_dir error", "list_dir error", reason)
}

func listBody(l workspace.Listing) string {
	var b strings.Builder
	for _, e := range l.Entries {
		name := printable(e.Path)
		switch {
		case e.Kind == workspace.EntryDir:
			fmt.Fprintf(&b, "dir  %s/\n", name)
		case e.Kind == workspace.EntryLink:
			fmt.Fprintf(&b, "link %s\n", name)
		case e.Kind == workspace.EntryFile && e.Size >= 0:
			fmt.Fprintf(&b, "file %s (%s)\n", name, plural(int(e.Size), "byte", "bytes"))
		default:
			fmt.Fprintf(&b, "%s %s\n", e.Kind, name)
		}
	}
	if l.Total == 0 {
		b.WriteString("empty\n")
	}
	if left := l.Total - len(l.Entries); left > 0 {
		fmt.Fprintf(&b, "showing %d of %s entries, %s left out: list a directory below it, or use find\n", len(l.Entries), commas(l.Total), commas(left))
	}
	return b.String()
}
