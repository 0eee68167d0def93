package store

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// within fails the test when what it runs does not come back. The time is an
// hour on any machine on which the call does not wait for itself.
func within(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s waits for itself", what)
	}
}

func TestOneReaderIsEnoughForEveryRead(t *testing.T) {
	ctx := context.Background()
	s, err := Open(ctx, filepath.Join(t.TempDir(), "runs.db"), WithReaders(1))
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	within(t, "a read with one reader", func() {
		if _, err := s.StoreSize(ctx); err != nil {
			t.Errorf("StoreSize: %v", err)
		}
		if _, err := s.LeaseOf(ctx, d.RunID); err != nil {
			t.Errorf("LeaseOf: %v", err)
		}
		if _, err := s.Check(ctx); err != nil {
			t.Errorf("Check: %v", err)
		}
		for step, err := range s.Steps(ctx, d.RunID) {
			if err != nil {
				t.Errorf("Steps: %v", err)
			}
			// Nothing is held between pages: a reader may ask for more as it goes.
			if _, err := Collect(s.Observations(ctx, d.RunID, After(int64(step.Step)))); err != nil {
				t.Errorf("Observations: %v", err)
			}
		}
	})
	within(t, "Close", func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func TestManyFirstReadsDoNotWaitForEachOther(t *testing.T) {
	ctx := context.Background()
	for range 20 {
		s := newFile(t)
		d := start(t, s, RunStart{})
		within(t, "LeaseOf beside fifteen others", func() {
			var group sync.WaitGroup
			for range 16 {
				group.Go(func() {
					if l, err := s.LeaseOf(ctx, d.RunID); err != nil || l == nil {
						t.Errorf("LeaseOf: %v, %v", l, err)
					}
				})
			}
			group.Wait()
		})
	}
}

func TestASnapshotLeavesItsStatementsToTheNext(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	if _, err := s.LeaseOf(ctx, d.RunID); err != nil {
		t.Fatal(err)
	}
	s.r.mu.Lock()
	before := len(s.r.stmts)
	s.r.mu.Unlock()
	if before == 0 {
		t.Fatal("nothing was kept prepared")
	}
	if _, err := s.LeaseOf(ctx, d.RunID); err != nil {
		t.Fatal(err)
	}
	if s.r.mu.Lock(); len(s.r.stmts) != before {
		t.Errorf("%d statements are prepared, %d were: the second read prepared anew", len(s.r.stmts), before)
	}
	s.r.mu.Unlock()
}
