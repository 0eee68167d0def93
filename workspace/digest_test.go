package workspace

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/policy"
)

func (tr *tree) digest(rel string) string {
	tr.t.Helper()
	sum, err := tr.Digest(tr.t.Context(), rel)
	if err != nil {
		tr.t.Fatal(err)
	}
	return sum
}

func TestAFileThatIsAsItWasIsNotReadAgain(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("a.txt", "one")
	time.Sleep(2 * fineTick)
	first := tr.digest("a.txt")
	for range 5 {
		if tr.digest("a.txt") != first || tr.digest("./a.txt") != first {
			t.Fatal("the digest moved, and the file did not")
		}
	}
	if n := tr.dir.digests.reads; n != 1 {
		t.Errorf("it was read %d times", n)
	}
	for name, change := range map[string]func() error{
		"longer":       func() error { return os.WriteFile(tr.path("a.txt"), []byte("longer"), 0o644) },
		"as long":      func() error { return os.WriteFile(tr.path("a.txt"), []byte("other!"), 0o644) },
		"another file": func() error { return os.Rename(tr.path("b.txt"), tr.path("a.txt")) },
	} {
		tr.put("b.txt", strings.Repeat("b", 6))
		was := tr.digest("a.txt")
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if tr.digest("a.txt") == was {
			t.Errorf("%s: not noticed", name)
		}
	}
	if err := os.Remove(tr.path("a.txt")); err != nil {
		t.Fatal(err)
	}
	if sum := tr.digest("a.txt"); sum != "" {
		t.Errorf("a file that is gone has the digest %s", sum)
	}
}

func TestAChangeWithinOneTickOfTheClockIsSeen(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	for i := range 200 {
		text := strings.Repeat(string(rune('a'+i%26)), 8)
		tr.put("a.txt", text)
		if got := tr.digest("a.txt"); got != digestOf([]byte(text)) {
			t.Fatalf("change %d was not seen", i)
		}
	}
}

func TestTheTimeOfAFileThatWasSetBackHidesNoChange(t *testing.T) {
	if changeTime(stat(t, t.TempDir())).IsZero() {
		t.Skip("this system does not tell when a file was last changed")
	}
	tr := newTree(t, policy.Permissive())
	long := time.Now().Add(-time.Hour)
	set := func(text string) {
		tr.put("a.txt", text)
		if err := os.Chtimes(tr.path("a.txt"), long, long); err != nil {
			t.Fatal(err)
		}
	}
	set("one")
	time.Sleep(2 * fineTick)
	was := tr.digest("a.txt")
	set("two")
	if tr.digest("a.txt") == was {
		t.Error("a change of the same size and time was not seen")
	}
}

func TestWhetherADigestMayBeTrusted(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 1, 500, time.UTC)
	for _, tc := range []struct {
		name string
		t    time.Time
		want bool
	}{
		{"long before", at.Add(-time.Hour), true},
		{"within a fine tick", at.Add(-fineTick / 2), false},
		{"behind a fine tick", at.Add(-2 * fineTick), true},
		{"whole seconds, within a coarse tick", time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), false},
		{"whole seconds, behind a coarse tick", time.Date(2026, 5, 1, 11, 59, 58, 0, time.UTC), true},
		{"in the future", at.Add(time.Hour), false},
		{"unknown", time.Time{}, true},
	} {
		if got := settled(tc.t, at); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}

func stat(t *testing.T, name string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// Two changes within one tick of a clock leave the same time: a file that was changed just
// before it was looked at is read again, however alike it seems.
func TestAFileThatWasJustChangedIsNotTakenForKnown(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "x\n")
	info, err := os.Stat(tr.path("f"))
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]bool{0: false, fineTick / 2: false, time.Minute: true} {
		if got := (hashed{info: info, at: info.ModTime().Add(after)}).holds(info); got != want {
			t.Errorf("looked at %s after the change: known is %v", after, got)
		}
	}
}
