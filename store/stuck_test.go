package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever ends a transaction, and whenever its caller gives up, the next one finds a
// connection that is in none.
func TestAWriteThatIsGivenUpLeavesTheNextOneFree(t *testing.T) {
	free := func(t *testing.T, s *Store) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := s.CreateSession(ctx, ws); err != nil {
			t.Fatalf("the next write: %v", err)
		}
	}
	refused := errors.New("no")
	t.Run("in the middle of the first transaction that fails", func(t *testing.T) {
		s := newFile(t)
		ctx, cancel := context.WithCancel(context.Background())
		err := s.write(ctx, "test", func(*txn) error { cancel(); return refused })
		if !errors.Is(err, refused) && !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		free(t, s)
	})
	t.Run("in memory, where the connection holds everything", func(t *testing.T) {
		s, err := Memory(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		free(t, s)
		for range 300 {
			ctx, cancel := context.WithCancel(context.Background())
			timer := time.AfterFunc(time.Duration(rand.IntN(60))*time.Microsecond, cancel)
			_ = s.write(ctx, "test", func(*txn) error { return refused })
			timer.Stop()
			cancel()
		}
		all, err := Collect(s.Sessions(context.Background()))
		if err != nil || len(all) != 1 {
			t.Errorf("%d sessions are left, %v", len(all), err)
		}
		free(t, s)
	})
	t.Run("by a panic", func(t *testing.T) {
		s := newFile(t)
		ctx, cancel := context.WithCancel(context.Background())
		func() {
			defer func() { _ = recover() }()
			_ = s.write(ctx, "test", func(*txn) error { cancel(); panic("crash") })
		}()
		free(t, s)
	})
	t.Run("at any moment", func(t *testing.T) {
		s := newFile(t, WithSynchronous(SyncNormal))
		for range 300 {
			ctx, cancel := context.WithCancel(context.Background())
			timer := time.AfterFunc(time.Duration(rand.IntN(150))*time.Microsecond, cancel)
			_ = s.write(ctx, "test", func(tx *txn) error {
				_, err := tx.exec(putMeta, "k", "v")
				return err
			})
			timer.Stop()
			cancel()
			free(t, s)
		}
	})
}

// A connection that is given up is closed, and not handed out again as it is.
func TestADroppedConnectionDoesNotComeBack(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	if err := s.w.take(ctx); err != nil {
		t.Fatal(err)
	}
	conn, err := s.w.connect(ctx)
	if err == nil {
		_, err = conn.ExecContext(ctx, `BEGIN IMMEDIATE`)
	}
	s.w.drop()
	s.w.give()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateSession(ctx, ws); err != nil {
		t.Errorf("the write behind it: %v", err)
	}
}

// The same of the connections that only read: one that stayed in a transaction would
// show an old state for ever, or nothing.
func TestAReadThatIsGivenUpLeavesTheNextOneFree(t *testing.T) {
	s := newFile(t, WithSynchronous(SyncNormal))
	d := start(t, s, RunStart{})
	for n := 1; n <= 600; n++ {
		commit(t, s, d, aStep(n))
	}
	for i := range 600 {
		ctx, cancel := context.WithCancel(context.Background())
		timer := time.AfterFunc(time.Duration(rand.IntN(400))*time.Microsecond, cancel)
		_, _ = Collect(s.Steps(ctx, d.RunID))
		timer.Stop()
		cancel()
		if i%20 != 0 {
			continue
		}
		commit(t, s, d, aStep(601+i/20))
		for range 2 * s.opt.readers {
			info, err := s.Run(context.Background(), d.RunID)
			if err != nil || info.LastStep != 601+i/20 {
				t.Fatalf("after %d reads that were given up: step %d, %v", i, info.LastStep, err)
			}
		}
	}
}
