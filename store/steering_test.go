package store

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/trace"
)

func heard(n int, text string) Heard {
	return Heard{Said: Said{n, text}, Observation: trace.Observation{Step: 1, Kind: trace.ObsMessage, Text: text}}
}

func TestAWordIsEitherHeardOnceOrHandedBackOnce(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	d.Record(Said{0, "a"}, Said{1, "b"}, Said{2, "a"})
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	said, next, err := s.Unheard(t.Context(), d.RunID)
	if diff := cmp.Diff([]Said{{0, "a"}, {1, "b"}, {2, "a"}}, said); err != nil || diff != "" || next != 3 {
		t.Fatalf("%v, next %d %s", err, next, diff)
	}
	// Heard before it was recorded, too, and the row of the record is the same.
	got, err := s.Hear(t.Context(), d, heard(1, "b"), heard(3, "c"))
	d.Record(Said{3, "c"})
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err = s.Hear(t.Context(), d, heard(1, "b"), heard(3, "c")); err != nil || len(got) != 0 {
		t.Errorf("heard twice: %+v, %v", got, err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	count := 0
	for range 4 {
		wg.Go(func() {
			back, err := s.HandBack(t.Context(), d.RunID, Said{0, "a"}, Said{1, "b"}, Said{2, "a"})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			count += len(back)
		})
		wg.Go(func() {
			got, err := s.Hear(t.Context(), d, heard(0, "a"), heard(2, "a"))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			count += len(got)
		})
	}
	wg.Wait()
	if count != 2 {
		t.Errorf("two words were settled %d times", count)
	}
	if mail, left, err := s.ReadMessages(t.Context(), d, 0, 1, 0); err != nil || len(mail) != 0 || left != 0 {
		t.Errorf("an operator's word came as mail: %+v, %v", mail, err)
	}
}

func TestAWordThatWasHeardStaysHeardWhenItsStepDies(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	if _, err := s.Hear(t.Context(), d, heard(0, "a")); err != nil {
		t.Fatal(err)
	}
	d.Record(Said{1, "b"})
	if err := d.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, left, err := s.EnterDrive(t.Context(), d.RunID, EnterOptions{Provider: "scripted"})
	if err != nil || len(left.Observations) != 1 {
		t.Fatalf("%+v, %v", left, err)
	}
	said, next, err := s.Unheard(t.Context(), d.RunID)
	if diff := cmp.Diff([]Said{{1, "b"}}, said); err != nil || diff != "" || next != 2 {
		t.Errorf("%v, next %d %s", err, next, diff)
	}
	if report, err := s.Check(t.Context()); err != nil || !report.Sound() {
		t.Errorf("%+v, %v", report, err)
	}
	if err := again.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Hear(t.Context(), again, heard(1, "b")); !errors.Is(err, ErrConflict) {
		t.Errorf("heard without the run: %v", err)
	}
}

// A process that lost its run without knowing it may count on from the number that
// its successor counts on from.
func TestTwoWordsOfOneNumberAreTwoWords(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	d.Record(Said{0, "of the first"}, Said{0, "of the second"})
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Hear(t.Context(), d, heard(0, "of the second")); err != nil || len(got) != 1 {
		t.Errorf("heard %+v, %v", got, err)
	}
	back, err := s.HandBack(t.Context(), d.RunID, Said{0, "of the first"}, Said{0, "of the second"}, Said{1, "never recorded"})
	if diff := cmp.Diff([]Said{{0, "of the first"}, {1, "never recorded"}}, back); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if said, _, err := s.Unheard(t.Context(), d.RunID); err != nil || len(said) != 0 {
		t.Errorf("%+v, %v", said, err)
	}
}
