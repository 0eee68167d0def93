package store

import (
	"bytes"
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestAnAnnouncedWriteIsThereForTheReplayOfItsStep(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	point := &RestorePoint{Step: 1, Path: "a.go", State: KeptText, Before: []byte("old"), Mode: 0o644}
	first := WriteIntent{Step: 1, Tool: "write_file", Path: "a.go", Added: 1, Hunk: "@@ -1 +1 @@\n-old\n+new\n", After: "d1", Known: true, Facts: []byte(`{"lines":1}`)}
	if err := s.PutWriteIntent(ctx, d, point, first); err != nil {
		t.Fatal(err)
	}
	commit(t, s, d, aStep(1))
	second := WriteIntent{Step: 2, CallIndex: 1, Tool: "patch_file", Path: "b.go", Removed: 2}
	third := WriteIntent{Step: 2, CallIndex: 1, Ordinal: 1, Tool: "patch_file", Path: "c.go"}
	for _, w := range []WriteIntent{second, third, second, third} { // a replay announces the same again
		if err := s.PutWriteIntent(ctx, d, &RestorePoint{Step: 2, Path: w.Path, State: KeptAbsent}, w); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DropWriteIntent(ctx, d, 2, 1, 1); err != nil {
		t.Fatal(err)
	}
	release(t, d)
	_, res := enter(t, s, d.RunID, EnterOptions{})
	if diff := cmp.Diff([]WriteIntent{second}, res.Writes, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the writes of the dead step (-want +got):\n%s", diff)
	}
	all, err := s.WriteIntents(ctx, d.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]WriteIntent{first, second}, all, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("all writes (-want +got):\n%s", diff)
	}
	if edits, err := Collect(s.Edits(ctx, d.RunID)); err != nil || len(edits) != 2 || edits[0].Hunk != first.Hunk {
		t.Errorf("the record of edits is %+v, %v", edits, err)
	}
}

func TestAWriteThatCannotBeAnnouncedLeavesNoRestorePoint(t *testing.T) {
	ctx := context.Background()
	f := &failing{}
	s := newFile(t, f.option())
	d := start(t, s, RunStart{})
	f.set("put write intent")
	if err := s.PutWriteIntent(ctx, d, &RestorePoint{Step: 1, Path: "a", State: KeptAbsent}, WriteIntent{Step: 1, Tool: "t", Path: "a"}); err == nil {
		t.Fatal("the write may happen")
	}
	f.set("")
	if ps, err := s.RestorePoints(ctx, d.RunID); err != nil || len(ps) != 0 {
		t.Errorf("restore points: %+v, %v", ps, err)
	}
	wantKind(t, func() error { return s.PutWriteIntent(ctx, d, nil, WriteIntent{Step: 1, Tool: "t", Path: "\xff"}) }, KindInvalid)
}

func TestContextOfAStepThatDiedIsMarked(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	d.Record(ContextEvent{Step: 1, Kind: "assembled"})
	commit(t, s, d, aStep(1))
	d.Record(ContextEvent{Step: 2, Kind: "assembled", Detail: "the first try"})
	// What was said between two steps is not said again by a replay.
	d.Record(ContextEvent{Step: 2, Kind: "gate_feedback"})
	d.Record(ContextEvent{Step: 2, Kind: "steered"})
	release(t, d)
	d, _ = enter(t, s, d.RunID, EnterOptions{})
	d.Record(ContextEvent{Step: 2, Kind: "assembled", Detail: "the second try"})
	commit(t, s, d, aStep(2))
	evs, err := Collect(s.ContextEvents(ctx, d.RunID))
	if err != nil {
		t.Fatal(err)
	}
	var got []bool
	for _, e := range evs {
		got = append(got, e.Superseded)
	}
	if diff := cmp.Diff([]bool{false, true, false, false, false}, got); diff != "" {
		t.Errorf("superseded (-want +got):\n%s", diff)
	}
}

func TestARestorePointIsTheStateBeforeTheFirstWrite(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	big := bytes.Repeat([]byte("x"), MaxKept+1)
	for _, p := range []RestorePoint{
		{Step: 1, Path: "text", State: KeptText, Before: []byte("one\r\n\x00two"), Mode: 0o755},
		{Step: 1, Path: "empty", State: KeptText},
		{Step: 1, Path: "new", State: KeptAbsent},
		{Step: 1, Path: "binary", State: KeptText, Before: []byte{0xff, 0xfe}},
		{Step: 1, Path: "exact", State: KeptText, Before: big[:MaxKept]},
		{Step: 1, Path: "large", State: KeptText, Before: big},
		{Step: 1, Path: "unreadable", State: NotKept, Reason: "permission denied"},
		{Step: 2, Path: "text", State: KeptText, Before: []byte("the run's own words")},
		{Step: 2, Path: "new", State: KeptText, Before: []byte("the run's own words")},
	} {
		if err := s.PutRestorePoint(ctx, d, p); err != nil {
			t.Fatalf("%s: %v", p.Path, err)
		}
	}
	got, err := s.RestorePoints(ctx, d.RunID)
	if err != nil {
		t.Fatal(err)
	}
	want := []RestorePoint{
		{Ordinal: 0, Step: 1, Path: "text", State: KeptText, Before: []byte("one\r\n\x00two"), Mode: 0o755},
		{Ordinal: 1, Step: 1, Path: "empty", State: KeptText, Before: []byte{}},
		{Ordinal: 2, Step: 1, Path: "new", State: KeptAbsent},
		{Ordinal: 3, Step: 1, Path: "binary", State: NotKept, Reason: "the file was not UTF-8 text"},
		{Ordinal: 4, Step: 1, Path: "exact", State: KeptText, Before: big[:MaxKept]},
		{Ordinal: 5, Step: 1, Path: "large", State: NotKept, Reason: "the file was larger than 1 MiB"},
		{Ordinal: 6, Step: 1, Path: "unreadable", State: NotKept, Reason: "permission denied"},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(bytes.Equal)); diff != "" {
		t.Errorf("restore points (-want +got):\n%s", diff)
	}
	wantKind(t, func() error { return s.PutRestorePoint(ctx, d, RestorePoint{Step: 1, Path: "x", State: "vaulted"}) }, KindInvalid)
	if _, err := s.RestorePointOf(ctx, d.RunID, "never"); !isNotFound(err) {
		t.Errorf("a path never written: %v", err)
	}
}
