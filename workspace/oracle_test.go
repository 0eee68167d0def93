package workspace

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
)

// A patch that another library has written, of several hunks and with file headers,
// must give the text that it was made for. Only the old side says where a hunk goes,
// as it must: the library miscounts the new side where a hunk before has several parts.
func TestPatchesOfAnotherLibraryApply(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4)) // the same texts every time
	several, tried := 0, 0
	for range 1000 {
		ls := make([]string, 10+r.IntN(40))
		for i := range ls {
			ls[i] = []string{"a", "b", "c", "a\r", "", "  a", "-x", "+y", "@@ -1 +1 @@"}[r.IntN(9)]
		}
		now := append([]string(nil), ls...)
		for range 1 + r.IntN(4) {
			i := r.IntN(len(now))
			switch r.IntN(3) {
			case 0:
				now[i] = "changed"
			case 1:
				now = append(now[:i], now[i+1:]...)
			default:
				now = append(now[:i], append([]string{"new"}, now[i:]...)...)
			}
		}
		end := []string{"", "\n"}
		before, after := strings.Join(ls, "\n")+end[r.IntN(2)], strings.Join(now, "\n")+end[r.IntN(2)]
		if before == after {
			continue
		}
		tried++
		patch := udiff.Unified("a/f", "b/f", before, after)
		hunks, err := parsePatch(patch)
		if err != nil {
			t.Fatalf("%q does not parse: %v", patch, err)
		}
		if len(hunks) > 1 {
			several++
		}
		if got, err := applyHunks(before, hunks); err != nil || got != after {
			t.Fatalf("%q on %q gives %q, %v, want %q", patch, before, got, err, after)
		}
	}
	if tried < 900 || several < 300 {
		t.Errorf("%d patches were tried, %d of them with several hunks, which are too few to say anything", tried, several)
	}
}
