package workspace

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
)

func TestWhatIsSeenAsideCountsOnceItIsKept(t *testing.T) {
	for _, kept := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.txt")
		if err := os.WriteFile(path, []byte("one\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		w, err := Open(dir, policy.Permissive())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		view, keep := w.Aside()
		if s, err := view.ReadFile(context.Background(), "a.txt"); err != nil || s != "one\n" {
			t.Fatalf("%q, %v", s, err)
		}
		if kept {
			keep()
		}
		if _, known := w.memory.of(w.dir.key("a.txt")); known != kept {
			t.Errorf("kept %t: the run knows the file: %t", kept, known)
		}
	}
}
