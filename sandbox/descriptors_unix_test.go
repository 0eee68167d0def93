//go:build unix

package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A system without the directories that list descriptors hands none on either.
func TestDescriptorsAreFoundWithoutAListOfThem(t *testing.T) {
	stray, err := unix.Dup(0) // which a child would inherit
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(stray)
	gone := filepath.Join(t.TempDir(), "gone")
	for name, dirs := range map[string][]string{"listed": descriptorDirs, "the second": {gone, "/dev/fd"}, "none": {gone}} {
		if name == "the second" {
			if _, err := os.Stat("/dev/fd"); err != nil {
				continue
			}
		}
		if got := openDescriptors(dirs); !slices.Contains(got, stray) {
			t.Errorf("%s: %d is not among %d descriptors", name, stray, len(got))
		}
	}
	kept := descriptorDirs
	defer func() { descriptorDirs = kept }()
	descriptorDirs = []string{gone}
	if got := onlyThese(make([]*os.File, 3)); len(got) <= stray {
		t.Errorf("the child is told to close up to %d and not %d", len(got)-1, stray)
	}
}
