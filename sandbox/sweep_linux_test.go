package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestOnlyWhatADeadHostLeftIsSwept(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	_, space, _ := strings.Cut(tempOwner(), ".")
	dead := strconv.Itoa(gone.Process.Pid)
	dir := realTempDir(t)
	t.Setenv("TMPDIR", dir)
	mine, remove, err := NewTemp()
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{
		"harness-" + dead + "." + space + "-1":       0o700,
		"harness-" + dead + "." + space + "-open":    0o755,
		"harness-" + dead + ".other-2":               0o700,
		"harness-" + dead + "-old":                   0o700,
		"harness-x." + space + "-3":                  0o700,
		"harness-99999999999." + space + "-4":        0o700,
		"other-" + dead + "." + space + "-5":         0o700,
		"harness-" + dead + "." + space + "-1/inner": 0o500,
	} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "harness-"+dead+"."+space+"-link")
	if err := os.Symlink(filepath.Join(dir, "other-"+dead+"."+space+"-5"), link); err != nil {
		t.Fatal(err)
	}
	sweepTemp(dir)
	des, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, d := range des {
		left = append(left, d.Name())
	}
	if slices.Contains(left, "harness-"+dead+"."+space+"-1") {
		t.Error("what a dead host left is still there")
	}
	if len(left) != 8 || !slices.Contains(left, filepath.Base(mine)) {
		t.Errorf("left %v, want everything else", left)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
}
