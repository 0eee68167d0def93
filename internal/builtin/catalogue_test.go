package builtin

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// origin is where what a tool of this package brings comes from.
func origin(name string) trace.Origin {
	switch name {
	case "grep", "find", "list_dir", "read_file", "write_file", "edit_file", "patch_file":
		return trace.OriginFile
	}
	return trace.OriginShell
}

func TestCatalogue(t *testing.T) {
	want := []string{
		"grep", "find", "list_dir", "read_file",
		"git_status", "git_diff", "git_log", "git_add", "git_commit", "git_branch", "git_worktree",
		"write_file", "edit_file", "patch_file", "check", "exec",
	}
	tools := Tools(Env{})
	if got := tool.Toolbox(tools).Names(); !slices.Equal(got, want) {
		t.Errorf("tools are %q, want %q", got, want)
	}
	reads := []string{"grep", "find", "read_file", "list_dir", "git_log", "git_status", "git_diff"}
	for _, tl := range tools {
		s := tl.Spec()
		if !tool.IsReserved(s.Name) {
			t.Errorf("%s is not reserved", s.Name)
		}
		if want := origin(s.Name); s.Origin != want {
			t.Errorf("what %s brings comes from %q, want %q", s.Name, s.Origin, want)
		}
		if s.IsReadOnly() != slices.Contains(reads, s.Name) {
			t.Errorf("%s has effect %q", s.Name, s.Effect)
		}
		var schema struct {
			Type       string
			Properties map[string]struct{ Type, Description string }
			Required   []string
		}
		if err := json.Unmarshal(s.Schema, &schema); err != nil || schema.Type != "object" || schema.Properties == nil {
			t.Errorf("%s has the schema %s: %v", s.Name, s.Schema, err)
		}
		for _, r := range schema.Required {
			if _, ok := schema.Properties[r]; !ok {
				t.Errorf("%s requires %q, which it does not describe", s.Name, r)
			}
		}
		for name, p := range schema.Properties {
			if p.Type == "" || p.Description == "" {
				t.Errorf("%s.%s has no type or no description", s.Name, name)
			}
		}
		if s.Description == "" || strings.Contains(s.Description, "\n") {
			t.Errorf("%s has the description %q", s.Name, s.Description)
		}
		if _, ok := tl.(tool.Needer); !ok {
			t.Errorf("%s does not say what it needs", s.Name)
		}
	}
	for _, name := range order {
		if !tool.IsReserved(name) {
			t.Errorf("the catalogue has %q, which is not reserved", name)
		}
	}
}

func TestSpecsAreTheSameBytesEveryTime(t *testing.T) {
	a, b := Tools(Env{}), Tools(Env{MaxReadChars: 5, Writable: []string{"/x"}})
	for i := range a {
		if x, y := a[i].Spec(), b[i].Spec(); x.Description != y.Description || string(x.Schema) != string(y.Schema) {
			t.Errorf("%s reads differently in another run", x.Name)
		}
	}
}

func TestArrangePutsToolsInTheOrderOfTheCatalogue(t *testing.T) {
	named := func(n string) tool.Tool {
		return tool.New(n, "", func(context.Context, struct{}) (string, error) { return "", nil })
	}
	in := []tool.Tool{named("mine"), named("shell"), named("exec"), named("remember"), named("other"), named("grep")}
	if got := tool.Toolbox(Arrange(in)).Names(); strings.Join(got, " ") != "grep remember exec shell mine other" {
		t.Errorf("Arrange = %q", got)
	}
	if in[0].Spec().Name != "mine" {
		t.Error("Arrange changed its argument")
	}
}

func TestOptionalArgumentsOfTheWrongTypeCountAsLeftOut(t *testing.T) {
	r := newRepo(t, policy.Permissive())
	r.write("README.md", "changed\n")
	for _, tc := range []struct{ name, args, says string }{
		{"git_diff", `{"staged":"true"}`, "+changed"},
		{"git_diff", `{"staged":1,"paths":"src"}`, "+changed"},
		{"git_status", `{"paths":"src"}`, " M README.md"},
		{"git_log", `{"max_count":"many"}`, "first"},
		{"list_dir", `{"path":5}`, "README.md"},
		{"grep", `{"pattern":"changed","path_glob":[]}`, "README.md:1: changed"},
		{"read_file", `{"path":"README.md","limit":"some"}`, `"limit" must be a whole number`},
		{"read_file", `{"path":"README.md","offset":-1}`, `"offset" must be 1 or more`},
		{"git_status", `{"paths":["a",5]}`, `"paths[1]" must be a string`},
	} {
		if got, _ := r.call(tc.name, tc.args); !strings.Contains(got, tc.says) {
			t.Errorf("%s %s = %q, want %q in it", tc.name, tc.args, got, tc.says)
		}
	}
}

func TestNeedsOfEachTool(t *testing.T) {
	b := newBench(t, policy.Permissive())
	b.env.Toolchain.Check = []string{"go", "vet"}
	for _, tc := range []struct{ name, args, want string }{
		{"grep", `{"pattern":"x"}`, ""},
		{"find", `{"name_glob":"x"}`, ""},
		{"list_dir", `{}`, "read "},
		{"list_dir", `{"path":"a/b"}`, "read a/b"},
		{"read_file", `{"path":"a"}`, "read a"},
		{"read_file", `{"path":"../x"}`, "read ../x"},
		{"write_file", `{"path":"a","content":""}`, "write a"},
		{"edit_file", `{"path":"a","search":"x","replace":""}`, "read a; write a"},
		{"patch_file", `{"path":"a","patch":"x"}`, "read a; write a"},
		{"exec", `{"argv":["go","test"]}`, "exec go"},
		{"check", `{}`, "exec go"},
		{"git_status", `{"paths":["a","b"]}`, "exec git; read .git; read a; read b"},
		{"git_diff", `{}`, "exec git; read .git"},
		{"git_log", `{"paths":["a"]}`, "exec git; read .git; read a"},
		{"git_add", `{"paths":["a"]}`, "exec git; write .git; read a"},
		{"git_commit", `{"message":"m"}`, "exec git; write .git"},
		{"git_branch", `{"name":"m"}`, "exec git; write .git"},
		{"git_worktree", `{"name":"m","path":"w"}`, "exec git; write .git; write w"},
	} {
		for _, tl := range Tools(b.env) {
			if tl.Spec().Name != tc.name {
				continue
			}
			needs, err := tl.(tool.Needer).Needs(tool.Call{Args: json.RawMessage(tc.args), Workspace: b.ws})
			var got []string
			for _, n := range needs {
				got = append(got, string(n.Act)+" "+n.Target)
			}
			if err != nil || strings.Join(got, "; ") != tc.want {
				t.Errorf("%s %s needs %q, %v, want %q", tc.name, tc.args, got, err, tc.want)
			}
		}
	}
	if len(b.ran) > 0 {
		t.Errorf("stating needs started %q", b.ran)
	}
}

func TestFaultsOfArgumentsComeBeforeTheGate(t *testing.T) {
	b := newBench(t, policy.Policy{}) // denies everything
	for _, tc := range []struct{ name, args, says string }{
		{"read_file", `{}`, `"path" is missing`},
		{"read_file", `{"path":""}`, `"path" is missing`},
		{"read_file", `{"path":"a\u0000b"}`, "NUL"},
		{"read_file", args("path", strings.Repeat("x", 5000)), "at most"},
		{"read_file", `{"path":"a","limit":1.5}`, "whole number"},
		{"write_file", `{"path":"a"}`, `"content" is missing`},
		{"write_file", args("path", "a", "content", strings.Repeat("x", 16<<20+1)), "at most"},
		{"edit_file", `{"path":"a","search":"","replace":"x"}`, `"search" is empty`},
		{"patch_file", `{"path":"a","patch":""}`, `"patch" is empty`},
		{"exec", `{"argv":[]}`, "is empty"},
		{"exec", `{"argv":["  "]}`, "blank"},
		{"exec", `{"argv":["a","b\u0000"]}`, `"argv[1]"`},
		{"exec", `{"argv":["git",5,"push"]}`, `"argv[1]" must be a string`},
		{"exec", `{"argv":"ls"}`, "must be an array"},
		{"exec", args("argv", []string{"x", strings.Repeat("y", 1<<20)}), "at most"},
		{"git_add", `{"paths":[]}`, `"paths" is missing`},
		{"git_add", `{"paths":[""]}`, "path is empty"},
		{"git_add", `{"paths":["-A"]}`, "begin with -"},
		{"git_log", `{"paths":["--output=x"]}`, "begin with -"},
		{"git_commit", `{"message":" \n"}`, `"message" is missing`},
		{"git_branch", `{"name":"a..b"}`, ".."},
		{"git_branch", `{"name":""}`, `"name" is missing`},
		{"git_worktree", `{"name":"x","path":""}`, `"path" is missing`},
		{"git_worktree", `{"name":"x","path":"a/.git"}`, ".git"},
	} {
		if got, _ := b.call(tc.name, tc.args); !strings.Contains(got, tc.says) || strings.HasPrefix(got, "gate:") {
			t.Errorf("%s %.60s = %.200q, want an error with %q before the gate", tc.name, tc.args, got, tc.says)
		}
	}
	for _, tc := range []struct{ name, args string }{
		{"read_file", `{"path":"a"}`}, {"write_file", `{"path":"a","content":""}`}, {"exec", `{"argv":["true"]}`},
		{"git_status", `{}`}, {"list_dir", `{}`},
	} {
		if got, _ := b.call(tc.name, tc.args); !strings.HasPrefix(got, "gate:") {
			t.Errorf("%s %s = %q, want it stopped at the gate", tc.name, tc.args, got)
		}
	}
	if len(b.ran) > 0 {
		t.Errorf("something was started: %q", b.ran)
	}
}
