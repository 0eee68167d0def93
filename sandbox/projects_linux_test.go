package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// project is a small one of some language, with the line that builds it and runs
// its tests.
type project struct {
	name  string
	needs []string // programs
	files map[string]string
	line  string
	says  string
}

var projects = []project{
	{
		name: "Go", needs: []string{"go"},
		files: map[string]string{
			"go.mod":      "module example.test/m\n\ngo 1.24\n",
			"m.go":        "package m\n\nfunc Two() int { return 2 }\n",
			"m_test.go":   "package m\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {\n\tif Two() != 2 {\n\t\tt.Fatal()\n\t}\n}\n",
			"cmd/main.go": "package main\n\nimport \"example.test/m\"\n\nfunc main() { println(m.Two()) }\n",
		},
		line: `go build -o bin/two ./cmd && ./bin/two 2>&1 && go test -count=1 ./...`,
		says: "ok  \texample.test/m",
	},
	{
		name: "Node", needs: []string{"node"},
		files: map[string]string{
			"package.json": `{"name":"m","version":"1.0.0","type":"module"}`,
			"m.js":         "export const two = () => 2;\n",
			"m.test.js": "import test from 'node:test';\nimport assert from 'node:assert';\nimport { writeFileSync } from 'node:fs';\n" +
				"import { two } from './m.js';\ntest('two', () => { writeFileSync('out', 'x'); assert.equal(two(), 2); });\n",
		},
		line: `node --check m.js && node --test`,
		says: "# pass 1",
	},
	{
		name: "Python", needs: []string{"python3"},
		files: map[string]string{
			"m/__init__.py": "def two():\n    return 2\n",
			"test_m.py": "import os, tempfile, unittest\nimport m\n\nclass Two(unittest.TestCase):\n    def test_two(self):\n" +
				"        with tempfile.NamedTemporaryFile() as f:\n            f.write(b'x')\n        self.assertEqual(m.two(), 2)\n",
		},
		line: `python3 -m compileall -q m && python3 -m unittest 2>&1`,
		says: "Ran 1 test",
	},
	{
		name: "C", needs: []string{"gcc", "make"},
		files: map[string]string{
			"two.c":  "int two(void) { return 2; }\n",
			"test.c": "#include <stdio.h>\nint two(void);\nint main(void) { if (two() != 2) return 1; puts(\"passed\"); return 0; }\n",
			"Makefile": "test: check\n\t./check\n\ncheck: two.o test.o\n\tgcc -o $@ $^\n\n%.o: %.c\n\tgcc -c -o $@ $<\n\n" +
				".PHONY: test\n",
		},
		line: `make -j2 test`,
		says: "passed",
	},
}

// linuxRungs are the confining rungs of Linux, whether or not this host has them.
var linuxRungs = []Rung{RungLandlock, RungBubblewrap, RungNamespaces}

// offered skips by name a rung that this host has not for a command with p.
func offered(t *testing.T, rung Rung, p Profile) {
	t.Helper()
	h, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(candidates(h, forced(p, rung))) == 0 {
		t.Skipf("%s cannot be had on this host:\n%s", rung, h)
	}
}

func TestSmallProjectsBuildAndPassTheirTests(t *testing.T) {
	for _, pj := range projects {
		t.Run(pj.name, func(t *testing.T) {
			for _, program := range pj.needs {
				if _, err := exec.LookPath(program); err != nil {
					t.Skipf("%s is not on this machine", program)
				}
			}
			if r := pj.build(t, Profile{Mode: FullAccess}); !r.Success() || !strings.Contains(r.Text(0), pj.says) {
				t.Skipf("does not work here without a boundary either: %s", r.Text(400))
			}
			for _, rung := range linuxRungs {
				t.Run(string(rung), func(t *testing.T) {
					offered(t, rung, Profile{})
					if r := pj.build(t, forced(Profile{}, rung)); r.Applied.Rung != rung || !r.Success() || !strings.Contains(r.Text(0), pj.says) {
						t.Errorf("under %s: exit %d\n%s", r.Applied.Rung, r.Exit, r.Text(0))
					}
				})
			}
		})
	}
}

// build builds the project in a directory of its own and runs its tests.
func (pj project) build(t *testing.T, p Profile) *Result {
	t.Helper()
	ws := realTempDir(t)
	for name, text := range pj.files {
		put(t, ws, name, text)
	}
	p.Workspace, p.Vars = ws, []string{"HOME=" + ws}
	if pj.name == "Go" {
		cache := filledGoCache(t)
		p, _ = p.Grant([]string{cache}, []string{"GOCACHE=" + cache, "GOPROXY=off", "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod"})
	}
	r, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", pj.line}}, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// filledGoCache is this user's own build cache: with an empty one every test would
// compile the standard library first.
func filledGoCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	cache := strings.TrimSpace(string(out))
	if err != nil || cache == "" || cache == "off" {
		t.Skipf("this user has no build cache: %v", err)
	}
	if des, err := os.ReadDir(cache); err != nil || len(des) < 10 {
		t.Skipf("the build cache of this user, %s, is not filled", cache)
	}
	probe := filepath.Join(cache, "probe-of-a-test")
	if err := os.WriteFile(probe, nil, 0o600); err != nil {
		t.Skipf("the build cache cannot be written: %v", err)
	}
	_ = os.Remove(probe)
	return cache
}
