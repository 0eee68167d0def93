package harness_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/initorigin/io-harness-go"

// layers is the drawing of CONTRIBUTING.md: imports point down this list and
// never up. A package belongs to the entry that is its path or a parent of it,
// and packages of one entry may import each other.
var layers = []string{
	"", // the door: the root package
	"session",
	"internal/loop", "internal/prompt", "internal/builtin",
	"task", "agent", "verify", "approve", "tool", "mcp", "config",
	"store", "trace", "budget", "provider", "sandbox", "toolchain", "workspace", "memory", "policy",
	"internal/failpoint", "internal/buildinfo", "internal/textwords",
}

// outside may import anything of the module and must not be imported by it.
var outside = []string{"examples", "bench", "eval", "feature", "internal/testkit"}

// modulesInCore is how many modules a program links that imports the root
// package, this one included. Raise it knowingly: every module is somebody
// else's code inside an agent's boundary.
const modulesInCore = 17

// testOnly are libraries that must not reach a user's binary.
var testOnly = []string{"github.com/google/go-cmp", "go.uber.org/goleak", "pgregory.net/rapid", "github.com/rogpeppe/go-internal", "github.com/aymanbagabas/go-udiff"}

type listed struct {
	ImportPath string
	Imports    []string
	Standard   bool
	Module     *struct{ Path string }
}

func goList(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Standard,Module"}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v: %s", args, err, stderrOf(err))
	}
	var pkgs []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	return pkgs
}

func stderrOf(err error) string {
	if e, ok := err.(*exec.ExitError); ok {
		return string(e.Stderr)
	}
	return ""
}

// relative is a package's path inside the module; ok is false for others.
func relative(path string) (rel string, ok bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

// place is the entry of list that a package belongs to, by the longest match.
func place(list []string, rel string) int {
	best := -1
	for i, l := range list {
		if rel == l || l != "" && strings.HasPrefix(rel, l+"/") {
			if best < 0 || len(l) > len(list[best]) {
				best = i
			}
		}
	}
	return best
}

func TestImportsPointDownTheLayers(t *testing.T) {
	pkgs := goList(t, "./...")
	if len(pkgs) < 15 {
		t.Fatalf("only %d packages found: the test looks at the wrong place", len(pkgs))
	}
	for _, p := range pkgs {
		rel, ok := relative(p.ImportPath)
		if !ok || place(outside, rel) >= 0 {
			continue
		}
		from := place(layers, rel)
		if from < 0 {
			t.Errorf("package %s has no layer: place it in this test and in CONTRIBUTING.md", rel)
			continue
		}
		for _, i := range p.Imports {
			q, ok := relative(i)
			if !ok {
				continue
			}
			if place(outside, q) >= 0 {
				t.Errorf("%s imports %s, which the core must not know", name(rel), q)
				continue
			}
			if to := place(layers, q); to >= 0 && to < from {
				t.Errorf("%s imports %s, which lies above it", name(rel), name(q))
			}
		}
	}
}

func name(rel string) string {
	if rel == "" {
		return "the root package"
	}
	return rel
}

func TestTheCoreBuildIsSmallAndHasNothingOptional(t *testing.T) {
	var modules []string
	for _, p := range goList(t, "-deps", ".") {
		if rel, ok := relative(p.ImportPath); ok && place(outside, rel) >= 0 {
			t.Errorf("the core links %s", rel)
		}
		if p.Module == nil || p.Standard {
			continue
		}
		if !slices.Contains(modules, p.Module.Path) {
			modules = append(modules, p.Module.Path)
		}
	}
	slices.Sort(modules)
	for _, m := range testOnly {
		if slices.Contains(modules, m) {
			t.Errorf("the core links the test library %s", m)
		}
	}
	if len(modules) != modulesInCore {
		t.Errorf("the core links %d modules, want %d:\n%s", len(modules), modulesInCore, strings.Join(modules, "\n"))
	}
}

func TestEveryLayerThatExistsIsNamedOnce(t *testing.T) {
	for i, l := range layers {
		if slices.Contains(layers[i+1:], l) || slices.Contains(outside, l) {
			t.Errorf("layer %q stands twice", l)
		}
	}
}
