package store

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/trace"
)

func TestEditedPathsAreTheFilesOfARunThatStillStand(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d, other := start(t, s, RunStart{}), start(t, s, RunStart{})
	for i, e := range []Edit{
		{Step: 1, Tool: "write_file", Path: "b"}, {Step: 1, Tool: "write_file", Path: "a"}, {Step: 2, Tool: "edit_file", Path: "a"}, {Step: 3, Tool: "write_file", Path: "c"},
	} {
		d.Record(e)
		if i == 0 {
			other.Record(Edit{Step: 1, Tool: "write_file", Path: "theirs"})
		}
	}
	for _, x := range []*Drive{d, other} {
		if err := x.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	check := func(through int, want ...string) {
		t.Helper()
		got, err := s.EditedPaths(ctx, d.RunID, through)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("through step %d: %v (-want +got):\n%s", through, err, diff)
		}
	}
	check(0)
	check(1, "a", "b")
	check(3, "a", "b", "c")

	finish(t, s, d, trace.Finished, 3)
	rw, err := s.BeginRewind(ctx, d.RunID, 0)
	if err != nil {
		t.Fatal(err)
	}
	edits, err := Collect(s.Edits(ctx, d.RunID))
	if err != nil {
		t.Fatal(err)
	}
	if err := rw.Add(ctx, RewindItem{Kind: RewindFile, Name: "b", Verdict: "restored"}, edits[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := rw.Add(ctx, RewindItem{Kind: RewindFile, Name: "a", Verdict: "restored"}, edits[2].ID); err != nil {
		t.Fatal(err)
	}
	if err := rw.Done(ctx, true); err != nil {
		t.Fatal(err)
	}
	check(3, "a", "c") // one of the two changes of a stands
}
