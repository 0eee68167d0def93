package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/initorigin/io-harness-go/policy"
)

func TestMain(m *testing.M) {
	if runHelper() {
		return
	}
	goleak.VerifyTestMain(m)
}

// tree is a workspace in a directory that has a sibling outside of it.
type tree struct {
	*Workspace
	t       *testing.T
	outside string
}

func newTree(t *testing.T, p policy.Policy) *tree {
	t.Helper()
	base := t.TempDir()
	root, outside := filepath.Join(base, "root"), filepath.Join(base, "outside")
	for _, d := range []string{root, outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w, err := Open(root, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return &tree{Workspace: w, t: t, outside: outside}
}

func (tr *tree) path(rel string) string { return filepath.Join(tr.Root(), rel) }

func (tr *tree) put(rel, content string) {
	tr.t.Helper()
	putFile(tr.t, tr.path(rel), content)
}

func putFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (tr *tree) link(target, rel string) {
	tr.t.Helper()
	if err := os.MkdirAll(filepath.Dir(tr.path(rel)), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.Symlink(target, tr.path(rel)); err != nil {
		tr.t.Skipf("no symbolic links here: %v", err)
	}
}

func (tr *tree) get(rel string) string {
	tr.t.Helper()
	return getFile(tr.t, tr.path(rel))
}

func getFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (tr *tree) absent(rel string) {
	tr.t.Helper()
	if _, err := os.Lstat(tr.path(rel)); !errors.Is(err, fs.ErrNotExist) {
		tr.t.Errorf("%s exists (%v), want nothing there", rel, err)
	}
}

// wantRefused checks that err is a refusal of the policy and names its rule.
func wantRefused(t *testing.T, err error, rule string) {
	t.Helper()
	var re *policy.RefusedError
	if !errors.As(err, &re) {
		t.Fatalf("error is %v (%T), want a refusal", err, err)
	}
	if rule != "" && re.Rule != rule {
		t.Errorf("refused by rule %q, want %q", re.Rule, rule)
	}
}

// recorder is a journal that keeps what it is told.
type recorder struct {
	mu     sync.Mutex
	points []RestorePoint
	edits  []Edit
	fail   error // of Before
	lost   error // of Wrote
}

func (r *recorder) Before(_ context.Context, p RestorePoint) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	p.Before = append([]byte(nil), p.Before...)
	r.points = append(r.points, p)
	return nil
}

func (r *recorder) Wrote(_ context.Context, e Edit) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.edits = append(r.edits, e)
	return r.lost
}

// noTemporary checks that no temporary file was left anywhere in the tree.
func (tr *tree) noTemporary() {
	tr.t.Helper()
	_ = filepath.WalkDir(tr.Root(), func(p string, _ fs.DirEntry, _ error) error {
		if strings.Contains(filepath.Base(p), ".io-harness-") {
			tr.t.Errorf("temporary file left: %s", p)
		}
		return nil
	})
}

// second drops what a call returns beside its error.
func second[T any](_ T, err error) error { return err }
