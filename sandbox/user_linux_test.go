package sandbox

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// nobody is the account that the tests are run again as.
const nobody = "65534"

// TestEverythingAgainAsAnOrdinaryUser runs the hostile tests without root's
// rights: a boundary that holds only because of, or only in spite of, a
// privilege is none.
func TestEverythingAgainAsAnOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this is an ordinary user already")
	}
	if testing.Short() {
		t.Skip("a second run of every test is left out of a short one")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("setpriv is not on this machine")
	}
	base, err := os.MkdirTemp("", "hu-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	tmp := filepath.Join(base, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(base, "sandbox.test")
	copyFile(t, "/proc/self/exe", bin)
	for path, mode := range map[string]os.FileMode{base: 0o755, bin: 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(tmp, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(setpriv, "--reuid="+nobody, "--regid="+nobody, "--clear-groups", bin, "-test.v", "-test.timeout=300s",
		// What does not depend on who runs it is not run twice.
		"-test.skip=^(TestAFlood|TestLinuxLadder|TestCapture|TestWatch|TestFilter|TestLandlock|TestBound|TestOnlyThis|TestJob|TestBatch|TestSeatbelt|TestResolve)")
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME=/nonexistent")
	out, err := cmd.CombinedOutput()
	var short []string
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "=== ") && !strings.Contains(line, "--- PASS") {
			short = append(short, line)
		}
	}
	if err != nil {
		t.Errorf("as uid %s: %v\n%s", nobody, err, strings.Join(short, ""))
	}
	t.Logf("as uid %s:\n%s", nobody, strings.Join(short, ""))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(dst, src); err != nil {
		t.Fatal(err)
	}
	if err := dst.Close(); err != nil {
		t.Fatal(err)
	}
}
