package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/trace"
)

// writerProcess makes a test binary the second writer of a file: its path and how
// many steps it writes, as JSON.
const writerProcess = "STORE_TEST_WRITER"

type writing struct {
	Path  string
	Steps int
}

// TestWriterOfAnotherProcess is the body of that process, and nothing by itself.
func TestWriterOfAnotherProcess(t *testing.T) {
	in := os.Getenv(writerProcess)
	if in == "" {
		t.Skip("it is started by TestTwoProcessesWriteBesideAReaderAndCheckpoints")
	}
	var w writing
	if err := json.Unmarshal([]byte(in), &w); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	s, err := Open(ctx, w.Path, WithBusyTimeout(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.StartRun(ctx, RunStart{Goal: "g", Root: "/r"})
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= w.Steps; n++ {
		// Read first and write later: what loses at once where the writer is taken late.
		info, err := s.Run(ctx, d.RunID)
		if err != nil || info.LastStep != n-1 {
			t.Fatalf("before step %d the run stands at %d, %v", n, info.LastStep, err)
		}
		record(d, n)
		if _, err := s.PutPending(ctx, d, PendingApproval{Step: n, Act: "exec", Target: "x"}); err != nil {
			t.Fatal(err)
		}
		if err := s.CommitStep(ctx, d, aStep(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.FinishRun(ctx, d, Finish{Outcome: trace.Outcome{Kind: trace.Finished, Steps: w.Steps}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Two processes that write, a reader that keeps an old state, checkpoints between
// them and an attempt to compact: nobody is told that the file is busy, and every
// write is there.
func TestTwoProcessesWriteBesideAReaderAndCheckpoints(t *testing.T) {
	ctx := context.Background()
	steps := 60
	if raceDetector {
		steps = 30
	}
	s := newFile(t, WithBusyTimeout(2*time.Second))
	held := start(t, s, RunStart{}) // its driver lives: nobody compacts the file under it
	in, err := json.Marshal(writing{filepath.Clean(s.Path()), steps})
	if err != nil {
		t.Fatal(err)
	}
	type end struct {
		out []byte
		err error
	}
	ends := make(chan end, 2)
	for range 2 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWriterOfAnotherProcess$", "-test.v")
		cmd.Env = append(os.Environ(), writerProcess+"="+string(in))
		go func() {
			out, err := cmd.CombinedOutput()
			ends <- end{out, err}
		}()
	}
	reader := another(t, s)
	left := 2
	err = reader.snapshot(ctx, "pin", func(q *query) error {
		before, err := runInfo(q, held.RunID)
		if err != nil {
			return err
		}
		for n := 1; left > 0; n++ {
			commit(t, s, held, aStep(n))
			switch n % 10 {
			case 3:
				if err := checkpoint(s.Path()); err != nil {
					return err
				}
			case 7:
				var ce *ConflictError
				if _, err := reader.Compact(ctx); !errors.As(err, &ce) {
					return fmt.Errorf("a driven file was compacted: %w", err)
				}
			}
			select {
			case e := <-ends:
				if left--; e.err != nil {
					return fmt.Errorf("%w\n%s", e.err, e.out)
				}
			case <-time.After(5 * time.Millisecond):
			}
		}
		now, err := runInfo(q, held.RunID)
		if err == nil && now.LastStep != before.LastStep {
			err = fmt.Errorf("the snapshot moved from step %d to %d", before.LastStep, now.LastStep)
		}
		return err
	})
	for ; left > 0; left-- {
		<-ends
	}
	if err != nil {
		t.Fatal(err)
	}
	sound(t, s)
	var runs, written, calls, asks int
	queryRaw(t, s.Path(), fmt.Sprintf(`SELECT count(*) FROM runs WHERE last_step = %d AND status = 'completed'`, steps), &runs)
	queryRaw(t, s.Path(), fmt.Sprintf(`SELECT (SELECT count(*) FROM steps WHERE run_id <> %[1]d), (SELECT count(*) FROM provider_calls), (SELECT count(*) FROM pending_approvals)`, held.RunID),
		&written, &calls, &asks)
	if runs != 2 || written != 2*steps || calls != 2*steps || asks != 2*steps {
		t.Errorf("%d runs with %d steps, %d calls and %d requests, want 2 with %d of each", runs, written, calls, asks, 2*steps)
	}
}

// checkpoint folds the log into the file as another program would.
func checkpoint(path string) error {
	db, err := sql.Open("sqlite", testkit.DSN(path))
	if err != nil {
		return err
	}
	_, err = db.Exec(`PRAGMA wal_checkpoint(PASSIVE)`)
	return errors.Join(err, db.Close())
}

// What cuts the log waits for readers, and writers do not wait for it.
func TestCuttingTheLogBesideAReaderHoldsUpNoWriter(t *testing.T) {
	ctx := context.Background()
	for name, cut := range map[string]func(s *Store, sess trace.SessionID) error{
		"a removal": func(s *Store, sess trace.SessionID) error {
			_, err := s.DeleteSession(ctx, sess)
			var se *Error
			if !errors.As(err, &se) || se.Kind != KindWALNotTruncated {
				return fmt.Errorf("a removal under a reader: %w", err)
			}
			return nil
		},
		"a close": func(s *Store, _ trace.SessionID) error { return s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFile(t, WithBusyTimeout(400*time.Millisecond))
			sess := newSession(t, s)
			aTurn(t, s, sess, 0, "p", trace.Finished)
			d := start(t, s, RunStart{})
			reader := another(t, s)
			cutter := another(t, s, WithBusyTimeout(time.Second))
			err := reader.snapshot(ctx, "pin", func(q *query) error {
				if _, err := runInfo(q, d.RunID); err != nil {
					return err
				}
				done := make(chan error, 1)
				commit(t, s, d, aStep(1)) // so that there is something to cut
				go func() { done <- cut(cutter, sess) }()
				for n := 2; ; n++ {
					if _, err := s.PutPending(ctx, d, PendingApproval{Step: n, Act: "exec", Target: "x"}); err != nil {
						return errors.Join(err, <-done)
					}
					commit(t, s, d, aStep(n))
					select {
					case err := <-done:
						return err
					case <-time.After(10 * time.Millisecond): // nobody writes without a break
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			sound(t, s)
		})
	}
}
