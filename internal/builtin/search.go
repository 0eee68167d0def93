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

func searchTools(e *Env) []tool.Tool {
	return []tool.Tool{grepTool(e), findTool(e), listTool(e)}
}

// underLines is the room kept for what stands under a list that is cut.
const underLines = 250

// list is an observation of whole lines and what under says below them, of which
// it is told how many lines are shown. Lines that would not leave room for that in
// one observation are not shown: a list that is cut elsewhere would not say so.
func (e *Env) list(head string, lines []string, under func(shown int) string) string {
	head = within(head, e.entryCap()/2)
	whole := observation(head, strings.Join(lines, "")+under(len(lines)))
	if runes(whole) <= e.entryCap() {
		return whole
	}
	room := e.entryCap() - runes(head) - underLines
	shown := 0
	for ; shown < len(lines); shown++ {
		if room -= runes(lines[shown]); room < 0 {
			break
		}
	}
	return observation(head, strings.Join(lines[:shown], "")+under(shown))
}

func grepTool(e *Env) tool.Tool {
	type args struct {
		Pattern string `json:"pattern"`
		Glob    string `json:"path_glob"`
	}
	return &act{
		spec: tool.Spec{
			Name:   "grep",
			Origin: trace.OriginFile,
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
				Text:     e.grepText(in.Pattern, m),
				Decision: fmt.Sprintf("grep %q (%s)", in.Pattern, plural(m.Total, "hit", "hits")),
				Kind:     trace.ObsGrep, Target: target,
			}, nil
		},
	}
}

func (e *Env) grepText(pattern string, m workspace.Matches) string {
	hits := make([]string, len(m.Hits))
	for i, h := range m.Hits {
		hits[i] = fmt.Sprintf("%s:%d: %s\n", printable(h.Path), h.Line, h.Text)
	}
	return e.list(fmt.Sprintf("grep %q", pattern), hits, func(shown int) string {
		var b strings.Builder
		switch total := commas(m.Total); {
		case m.Total == 0:
			b.WriteString("no matches\n")
		case m.Stopped:
			fmt.Fprintf(&b, "showing %d of at least %s hits: searching stopped there; narrow the pattern or add path_glob\n", shown, total)
		case m.Total > shown:
			fmt.Fprintf(&b, "showing %d of %s hits: narrow the pattern or add path_glob\n", shown, total)
		}
		if m.TooLarge > 0 {
			fmt.Fprintf(&b, "%s over %d MiB not searched\n", plural(m.TooLarge, "file", "files"), workspace.MaxGrepFile>>20)
		}
		return b.String()
	})
}

func findTool(e *Env) tool.Tool {
	type args struct {
		Glob  string `json:"name_glob"`
		Alias string `json:"glob"`
	}
	return &act{
		spec: tool.Spec{
			Name:   "find",
			Origin: trace.OriginFile,
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
			paths := make([]string, len(f.Paths))
			for i, p := range f.Paths {
				paths[i] = printable(p) + "\n"
			}
			return tool.Result{
				Text: e.list(fmt.Sprintf("find %q", glob), paths, func(shown int) string {
					switch {
					case f.Total == 0:
						return "no matches\n"
					case f.Total > shown:
						return fmt.Sprintf("showing %d of %s paths: narrow the glob\n", shown, commas(f.Total))
					}
					return ""
				}),
				Decision: fmt.Sprintf("find %q (%s)", glob, plural(f.Total, "path", "paths")),
				Kind:     trace.ObsFind, Target: glob,
			}, nil
		},
	}
}

func listTool(e *Env) tool.Tool {
	type args struct {
		Path string `json:"path"`
	}
	return &act{
		spec: tool.Spec{
			Name:   "list_dir",
			Origin: trace.OriginFile,
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
				Text:     e.listText(path, l),
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

func (e *Env) listText(path string, l workspace.Listing) string {
	entries := make([]string, len(l.Entries))
	for i, entry := range l.Entries {
		name := printable(entry.Path)
		switch {
		case entry.Kind == workspace.EntryDir:
			entries[i] = fmt.Sprintf("dir  %s/\n", name)
		case entry.Kind == workspace.EntryLink:
			entries[i] = fmt.Sprintf("link %s\n", name)
		case entry.Kind == workspace.EntryFile && entry.Size >= 0:
			entries[i] = fmt.Sprintf("file %s (%s)\n", name, plural(int(entry.Size), "byte", "bytes"))
		default:
			entries[i] = fmt.Sprintf("%s %s\n", entry.Kind, name)
		}
	}
	return e.list("list_dir "+printable(path), entries, func(shown int) string {
		switch left := l.Total - shown; {
		case l.Total == 0:
			return "empty\n"
		case left > 0:
			return fmt.Sprintf("showing %d of %s entries, %s left out: list a directory below it, or use find\n", shown, commas(l.Total), commas(left))
		}
		return ""
	})
}
