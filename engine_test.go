package harness_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// callers maps each function of the package in dir to the calls in it, written
// receiver.name.
func callers(t *testing.T, dir string) map[string][]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
					on := ""
					if id, ok := sel.X.(*ast.Ident); ok {
						on = id.Name
					}
					out[fn.Name.Name] = append(out[fn.Name.Name], on+"."+sel.Sel.Name)
				}
				return true
			})
		}
	}
	if len(out) == 0 {
		t.Fatalf("no function in %s: the test looks at the wrong place", dir)
	}
	return out
}

// who are the functions that make a call, sorted.
func who(calls map[string][]string, is func(call string) bool) (names []string) {
	for name, made := range calls {
		if slices.ContainsFunc(made, is) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// There is one loop, and every way to drive a run leads into it.
func TestEveryWayToDriveARunLeadsIntoOneLoop(t *testing.T) {
	engine := callers(t, "internal/loop")
	named := func(name string) func(string) bool { return func(call string) bool { return call == name } }
	for _, tc := range []struct {
		what string
		is   func(string) bool
		want []string
	}{
		{"makes a step", named("d.step"), []string{"drive"}},
		{"drives", named("d.drive"), []string{"Resume", "Run"}},
		{"asks for a completion", func(c string) bool { return strings.HasSuffix(c, ".Complete") }, []string{"ask1"}},
		{"carries out the calls of a step", named("d.act"), []string{"step"}},
		{"commits a step", func(c string) bool { return strings.HasSuffix(c, ".CommitStep") }, []string{"commit"}},
	} {
		if diff := cmp.Diff(tc.want, who(engine, tc.is)); diff != "" {
			t.Errorf("who %s (-want +got):\n%s", tc.what, diff)
		}
	}
	into := func(dir string) map[string]string {
		out := map[string]string{}
		for name, made := range callers(t, dir) {
			for _, c := range made {
				if strings.HasSuffix(c, ".Complete") || strings.HasSuffix(c, ".CommitStep") || strings.HasSuffix(c, ".EnterDrive") || strings.HasSuffix(c, ".StartRun") {
					t.Errorf("%s in %s calls %s: that is the loop's", name, dir, c)
				}
				switch c {
				case "loop.Run", "loop.Resume", "loop.RetryGate", "loop.Rewind":
					out[name] = c
				}
			}
		}
		return out
	}
	door := map[string]string{"Run": "loop.Run", "Resume": "loop.Resume", "RetryGate": "loop.RetryGate", "Rewind": "loop.Rewind"}
	if diff := cmp.Diff(door, into(".")); diff != "" {
		t.Errorf("the door (-want +got):\n%s", diff)
	}
	var ways []string
	for _, c := range into("session") {
		ways = append(ways, c)
	}
	slices.Sort(ways)
	if diff := cmp.Diff([]string{"loop.Resume", "loop.Run"}, ways); diff != "" {
		t.Errorf("a conversation (-want +got):\n%s", diff)
	}
}
