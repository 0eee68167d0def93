package prompt

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/initorigin/io-harness-go/trace"
)

func TestSupersession(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ledger []trace.Observation
		fold   bool
		want   map[int]int // index: step that supersedes it
	}{
		{"a later read of the file", []trace.Observation{read(1, "a", ""), grepped(1, "x", ""), read(2, "a", "")}, false, map[int]int{0: 2}},
		{"the nearest later one is named", []trace.Observation{read(1, "a", ""), read(2, "a", ""), read(3, "a", "")}, false, map[int]int{0: 2, 1: 3}},
		{"another kind with the same target does not", []trace.Observation{grepped(1, "a", ""), read(2, "a", ""), obs(3, trace.ObsFind, "a", "", "")}, false, map[int]int{}},
		{"the conversation's step 0 counts", []trace.Observation{obs(0, trace.ObsSkill, "s", "", ""), obs(0, trace.ObsSkill, "s", "", "")}, false, map[int]int{0: 0}},
		{"kinds without a subject stand", []trace.Observation{obs(1, trace.ObsTool, "t", "", ""), obs(2, trace.ObsTool, "t", "", ""), obs(3, trace.ObsMCP, "m", "", ""), obs(4, trace.ObsMCP, "m", "", "")}, false, map[int]int{}},
		{"no target never", []trace.Observation{obs(1, trace.ObsRead, "", "", ""), obs(2, trace.ObsRead, "", "", "")}, false, map[int]int{}},
		{"an error never takes the place of a success", []trace.Observation{read(1, "a", ""), obs(2, trace.ObsError, "", "", "")}, false, map[int]int{}},
		{"ranges beside each other stand", []trace.Observation{ranged(1, 1, 200, "a", ""), ranged(2, 201, 200, "a", "")}, false, map[int]int{}},
		{"a range that overlaps stands", []trace.Observation{ranged(1, 1, 200, "a", ""), ranged(2, 100, 200, "a", "")}, false, map[int]int{}},
		{"a range inside a later one goes", []trace.Observation{ranged(1, 50, 10, "a", ""), ranged(2, 1, 100, "a", "")}, false, map[int]int{0: 2}},
		{"a whole read covers any range", []trace.Observation{ranged(1, 50, 10, "a", ""), read(2, "a", "")}, false, map[int]int{0: 2}},
		{"a range covers no whole read", []trace.Observation{read(1, "a", ""), ranged(2, 1, 9999, "a", "")}, false, map[int]int{}},
		{"to the end covers a range behind it", []trace.Observation{ranged(1, 50, 10, "a", ""), ranged(2, 40, 0, "a", "")}, false, map[int]int{0: 2}},
		{"from the first line to the end is the whole", []trace.Observation{read(1, "a", ""), ranged(2, 1, 0, "a", "")}, false, map[int]int{0: 2}},
		{"the nearest covering one, not the widest", []trace.Observation{ranged(1, 5, 1, "a", ""), ranged(2, 4, 4, "a", ""), read(3, "a", "")}, false, map[int]int{0: 2, 1: 3}},
		{"paths are cleaned", []trace.Observation{read(1, "./a", ""), wrote(1, "d/../w"), read(2, "b/../a", ""), wrote(2, "w")}, false, map[int]int{0: 2, 1: 2}},
		{"case is kept", []trace.Observation{read(1, "A", ""), read(2, "a", "")}, false, map[int]int{}},
		{"or folded where the host does", []trace.Observation{read(1, "A", ""), read(2, "a", "")}, true, map[int]int{0: 2}},
		{"a pattern is no path", []trace.Observation{grepped(1, "./a", ""), grepped(2, "a", "")}, true, map[int]int{}},
		{"a range at the end of the numbers", []trace.Observation{ranged(1, maxLine, maxLine, "a", ""), ranged(2, maxLine-1, 0, "a", "")}, false, map[int]int{0: 2}},
	} {
		got := map[int]int{}
		for i, m := range supersession(tc.ledger, tc.fold) {
			if m.superseded > 0 {
				got[i] = m.superseded - 1
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s:\n%s", tc.name, diff)
		}
	}
}

func TestReadsNamesWhatMustBeLookedAt(t *testing.T) {
	known := read(4, "d", "")
	known.Digest = "d1"
	ledger := []trace.Observation{
		read(1, "a", ""), ranged(1, 3, 4, "./b", ""), read(1, "c", ""), wrote(2, "a"), wrote(3, "b"), wrote(5, "a"), read(6, "c", ""), known,
	}
	want := []Read{
		{Index: 0, Target: "a", Step: 1, WrittenAt: 2},
		{Index: 1, Target: "./b", First: 3, Count: 4, Step: 1, WrittenAt: 3},
		{Index: 7, Target: "d", Digest: "d1", Step: 4},
	}
	got := Reads(ledger, false, 1000)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Read{}, "Newer"), cmpopts.IgnoreUnexported(Read{})); diff != "" {
		t.Error(diff)
	}
	if got[2].Stale() || !got[0].Stale() {
		t.Error("only what the run itself wrote is stale for sure")
	}
}

// A quadratic walk over this ledger would take minutes, not milliseconds.
func TestSupersessionIsLinear(t *testing.T) {
	var ledger []trace.Observation
	for i := range 200_000 {
		ledger = append(ledger, read(i, fmt.Sprintf("f%d", i%100), ""), wrote(i, fmt.Sprintf("f%d", i%100)))
	}
	if n := len(Reads(ledger, false, 1000)); n != 100 {
		t.Errorf("%d reads, want the last one of each of 100 files", n)
	}
}
