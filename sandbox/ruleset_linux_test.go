package sandbox

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A plan is made without a look at each path of it.
func TestARulesetLeavesOutWhatIsNotThere(t *testing.T) {
	h := probed()
	if !h.Landlock.Works {
		t.Skip(h.Landlock.Why)
	}
	p := planLandlock(&spec{rung: RungLandlock, roots: []string{t.TempDir()}}, h.LandlockABI, h.LandlockErrata, listHost)
	p.add(filepath.Join(t.TempDir(), "gone"), p.writeRights())
	fd, _, err := newRuleset(p)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
}
