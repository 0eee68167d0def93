package verify

import (
	"context"
	"io/fs"
	"testing"
)

func TestPinsAreCarriedIntoTheSameCriterionOnly(t *testing.T) {
	judge := ReviewerFunc(func(context.Context, ReviewRequest) (ReviewResult, error) { return ReviewResult{Passed: true}, nil })
	holds := func(context.Context, fs.FS) (bool, string, error) { return true, "", nil }
	state := func(argv string) Criterion {
		return Protect(All(Command("sh", argv), Func("holds", holds), Review("r", judge)), "tests/*")
	}
	b := newBench(t)
	b.write("tests/a", "1")
	prepared, err := Prepare(context.Background(), state("-e"), b.env())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := Marshal(prepared)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := Unmarshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	carried, same := WithPins(state("-e"), stored)
	if !same {
		t.Fatal("the criterion was not recognised")
	}
	if got, err := Marshal(carried); err != nil || string(got) != string(raw) {
		t.Errorf("the pins were lost:\n got %s\nwant %s, %v", got, raw, err)
	}
	if err := carried.Validate(); err != nil {
		t.Errorf("the functions were lost: %v", err)
	}
	for name, other := range map[string]Criterion{
		"another command": state("-x"), "another kind": Contains("a", "b"), "none": nil,
		"less": Protect(Command("sh", "-e"), "tests/*"),
	} {
		if got, same := WithPins(other, stored); same {
			t.Errorf("%s passed for the stored one: %+v", name, got)
		}
	}
	if _, same := WithPins(state("-e"), nil); same {
		t.Error("nothing is stored, and it was recognised")
	}
}

func TestWhatAVerdictTellsOfEachPhase(t *testing.T) {
	silent, open := Review("r", nil), Review("r", nil).TellModel()
	for _, tc := range []struct {
		c     Criterion
		phase Phase
		want  bool
	}{
		{Command("ls"), PhaseCommand, true},
		{Contains("a", "b"), PhaseContains, false},
		{silent, PhaseReview, false},
		{open, PhaseReview, true},
		{All(Command("ls"), silent), PhaseCommand, true},
		{All(Command("ls"), silent), PhaseReview, false},
		{All(open, silent), PhaseReview, false},
		{Protect(open, "*"), PhaseReview, true},
		{nil, PhaseReview, false},
	} {
		if got := TellsModel(tc.c, tc.phase); got != tc.want {
			t.Errorf("%T in phase %s: %t", tc.c, tc.phase, got)
		}
	}
}
