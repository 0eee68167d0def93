package sandbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tally counts what was tried against each rung, by name.
var tally struct {
	sync.Mutex
	tried, skipped, broken map[Rung]map[string]bool
}

// attempt tries one thing that a boundary must not let happen. It counts as held
// when it was tried and the test did not fail.
func attempt(t *testing.T, rung Rung, name string, try func(t *testing.T)) {
	t.Helper()
	t.Run(string(rung)+"/"+name, func(t *testing.T) {
		t.Cleanup(func() {
			tally.Lock()
			defer tally.Unlock()
			note := func(m *map[Rung]map[string]bool) {
				if *m == nil {
					*m = map[Rung]map[string]bool{}
				}
				if (*m)[rung] == nil {
					(*m)[rung] = map[string]bool{}
				}
				(*m)[rung][name] = true
			}
			note(&tally.tried)
			if t.Skipped() {
				note(&tally.skipped)
			}
			if t.Failed() {
				note(&tally.broken)
			}
		})
		try(t)
	})
}

// untried skips an attempt whose program is not on this machine: nothing was held
// against it.
func untried(t *testing.T, output string) {
	t.Helper()
	if strings.Contains(output, ": not found") {
		t.Skipf("cannot be tried here: %s", strings.TrimSpace(output))
	}
}

// report is the tally in words, one line for each rung.
func report() string {
	tally.Lock()
	defer tally.Unlock()
	var b strings.Builder
	for _, rung := range slices.Sorted(maps.Keys(tally.tried)) {
		tried, skipped, broken := len(tally.tried[rung]), len(tally.skipped[rung]), len(tally.broken[rung])
		fmt.Fprintf(&b, "escapes from %s: %d attempts, %d held, %d skipped", rung, tried, tried-skipped-broken, skipped)
		if broken > 0 {
			fmt.Fprintf(&b, ", %d SUCCEEDED", broken)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
