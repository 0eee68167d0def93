//go:build unix

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The go tool works inside the boundary with its caches granted and without a
// home that can be written, and fails without the grant.
func TestTheGoToolWorksWithItsCachesGranted(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go tool is not on this machine")
	}
	ws := realTempDir(t)
	for name, text := range map[string]string{
		"go.mod":        "module example.test/m\n\ngo 1.24\n",
		"m.go":          "package m\n\nfunc Two() int { return 2 }\n",
		"sub/s.go":      "package sub\n\nfunc Three() int { return 3 }\n",
		"m_test.go":     "package m\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {\n\tif Two() != 2 {\n\t\tt.Fatal()\n\t}\n}\n",
		"cmd/c/main.go": "package main\n\nfunc main() {}\n",
	} {
		path := filepath.Join(ws, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
	}
	cache := filepath.Join(realTempDir(t), "gocache")
	vars := []string{"HOME=/nonexistent", "GOCACHE=" + cache, "GOMODCACHE=" + filepath.Join(cache, "mod"), "GOFLAGS=-count=1", "GOTOOLCHAIN=local", "GOPROXY=off"}
	p, missing := Profile{Workspace: ws}.Grant([]string{cache, filepath.Join(cache, "mod")}, vars)
	if len(missing) > 0 {
		t.Fatalf("could not make %v", missing)
	}
	argv := []string{"go", "build", ".", "./sub"}
	if out, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil && !testing.Short() && os.Getuid() == 0 {
		// With the filled cache of this machine a whole test run is quick.
		shared := strings.TrimSpace(string(out))
		p.Vars = append(p.Vars, "GOCACHE="+shared)
		p.Writable = append(p.Writable, shared)
		argv = []string{"go", "test", "./..."}
	}
	r := run(t, p, argv...)
	if !r.Success() {
		t.Fatalf("%v under %s: exit %d\n%s", argv, r.Applied, r.Exit, r.Text(0))
	}
	if !r.Applied.Confined() {
		t.Skipf("%s: the rest of this test needs a confining rung", r.Applied)
	}
	p.Writable = nil
	p.Vars = append(p.Vars, "GOCACHE="+cache)
	if err := os.RemoveAll(cache); err != nil {
		t.Fatal(err)
	}
	if r = run(t, p, "go", "build", "."); r.Success() {
		t.Errorf("without the grant the cache was made all the same: %s", r.Text(0))
	}
	if _, err := os.Stat(cache); err == nil {
		t.Error("the cache was made without a grant")
	}
}
