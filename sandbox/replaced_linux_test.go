package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// While a process replaces its program its environment cannot be read for a
// moment. One that does so all the time is still found, at every try.
func TestAProcessThatReplacesItsProgramIsFound(t *testing.T) {
	script := filepath.Join(t.TempDir(), "again")
	if err := os.WriteFile(script, []byte("exec sh \"$0\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tr := &tree{pid: os.Getpid(), marker: "IO_HARNESS_TEST_TREE=" + t.Name(), born: time.Now()}
	for i := range 150 {
		c := exec.Command("sh", script)
		c.Env = append(os.Environ(), tr.marker)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i%10) * 300 * time.Microsecond)
		found := tr.killMarked()
		if !found {
			_ = c.Process.Kill()
		}
		_ = c.Wait()
		if !found {
			t.Fatalf("try %d: the process was not found", i)
		}
	}
}
