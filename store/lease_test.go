package store

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// another makes a second handle whose process looks alive and is another one.
func another(t testing.TB, s *Store, opts ...Option) *Store {
	t.Helper()
	return openAt(t, s.Path(), opts...)
}

// abandon leaves a run as a process that stopped working would: the lease stays
// and nobody renews it.
func abandon(d *Drive) {
	d.buf.halt()
	d.lease.halt()
}

func TestWhoMayTakeARun(t *testing.T) {
	ctx := context.Background()
	const ttl = time.Minute
	for _, tc := range []struct {
		name     string
		wait     time.Duration
		released bool
		conflict bool
		gen      int64
		takeover Takeover
	}{
		{"a live lease is refused", ttl - time.Millisecond, false, true, 0, ""},
		{"a lease whose term has just passed is taken", ttl, false, false, 2, TookLapsed},
		{"a released run starts again at generation one", 0, true, false, 1, TookNothing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			clock := newClock()
			s := newFile(t, WithClock(clock.Now))
			d := start(t, s, RunStart{LeaseTTL: ttl})
			abandon(d)
			if tc.released {
				release(t, d)
			}
			clock.Advance(tc.wait)
			other := another(t, s, WithClock(clock.Now))
			d2, _, err := other.EnterDrive(ctx, d.RunID, EnterOptions{LeaseTTL: ttl})
			if tc.conflict {
				var ce *ConflictError
				if !errors.As(err, &ce) || ce.RunID != d.RunID || ce.Owner != d.Owner {
					t.Fatalf("EnterDrive: %v, want a conflict that names %s", err, d.Owner)
				}
				if want := d.StartedAt.Add(ttl); !ce.ExpiresAt.Equal(want) {
					t.Errorf("the conflict says %s, want %s", ce.ExpiresAt, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer release(t, d2)
			if d2.Generation != tc.gen || d2.Takeover != tc.takeover {
				t.Errorf("taken as generation %d by %q, want %d by %q", d2.Generation, d2.Takeover, tc.gen, tc.takeover)
			}
			info, err := s.LeaseOf(ctx, d.RunID)
			if err != nil || info == nil || info.Owner != d2.Owner || info.DriveID != d2.ID || info.Expired {
				t.Errorf("LeaseOf: %+v, %v", info, err)
			}
		})
	}
}

func TestASecondDriveOfOneHandleIsRefusedToo(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	if _, _, err := s.EnterDrive(context.Background(), d.RunID, EnterOptions{}); !errors.Is(err, ErrConflict) {
		t.Errorf("EnterDrive: %v, want a conflict", err)
	}
}

func TestADriverThatWasSupersededWritesNothing(t *testing.T) {
	ctx := context.Background()
	clock := newClock()
	s := newFile(t, WithClock(clock.Now))
	d := start(t, s, RunStart{LeaseTTL: time.Minute})
	commit(t, s, d, aStep(1))
	abandon(d)
	clock.Advance(time.Hour)
	other := another(t, s, WithClock(clock.Now))
	d2, _ := enter(t, other, d.RunID, EnterOptions{})
	before := counts(t, s)
	for name, fn := range map[string]func() error{
		"commit":   func() error { return s.CommitStep(ctx, d, aStep(2)) },
		"finish":   func() error { return s.FinishRun(ctx, d, Finish{Outcome: trace.Outcome{Kind: trace.Finished}}) },
		"restore":  func() error { return s.PutRestorePoint(ctx, d, RestorePoint{Step: 2, Path: "a", State: KeptAbsent}) },
		"attempt":  func() error { _, _, err := s.OpenAttempt(ctx, d, Attempt{Step: 2, Tool: "t"}); return err },
		"approval": func() error { _, err := s.PutPending(ctx, d, PendingApproval{Step: 2, Act: "exec"}); return err },
		"renewal":  func() error { return s.write(ctx, "renew", d.lease.renew) },
	} {
		err := fn()
		var ce *ConflictError
		if !errors.As(err, &ce) || ce.Owner != d2.Owner {
			t.Errorf("%s: %v, want a conflict that names %s", name, err, d2.Owner)
		}
	}
	if after := counts(t, s); after != before {
		t.Errorf("rows before %s\nand after %s", before, after)
	}
	commit(t, other, d2, aStep(2))
	sound(t, other)
	if err := d.Release(ctx); err != nil {
		t.Errorf("releasing what one no longer holds: %v", err)
	}
	if info, err := other.LeaseOf(ctx, d.RunID); err != nil || info == nil || info.Owner != d2.Owner {
		t.Errorf("the release of the old driver took the new one's lease: %+v, %v", info, err)
	}
}

// counts renders how many rows each table has.
func counts(t testing.TB, s *Store) string {
	t.Helper()
	rows := rowsPerTable(t, s)
	var b strings.Builder
	for _, table := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(table + "=" + itoa(rows[table]) + " ")
	}
	return b.String()
}

// rowsPerTable is how many rows each table has that is not empty.
func rowsPerTable(t testing.TB, s *Store) map[string]int {
	t.Helper()
	out := map[string]int{}
	err := s.snapshot(context.Background(), "count", func(q *query) error {
		names, err := list(q, statement{"tables", `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`}, nil,
			func(r scanner) (n string, err error) { return n, r.Scan(&n) })
		if err != nil {
			return err
		}
		for _, n := range names {
			var c int
			if err := q.row(statement{"count " + n, `SELECT count(*) FROM ` + n}, nil, &c); err != nil {
				return err
			}
			if c > 0 {
				out[n] = c
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheHeartbeatKeepsAShortLease(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{LeaseTTL: 600 * time.Millisecond})
	other := another(t, s)
	first, err := s.LeaseOf(context.Background(), d.RunID)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		info, err := other.LeaseOf(context.Background(), d.RunID)
		if err != nil {
			t.Fatal(err)
		}
		if info.RenewedAt.Sub(first.RenewedAt) > 2*info.TTL {
			break // it has lived for longer than its term, without a commit
		}
		if time.Now().After(deadline) {
			t.Fatalf("the lease was renewed last at %s", info.RenewedAt)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if _, _, err := other.EnterDrive(context.Background(), d.RunID, EnterOptions{}); !errors.Is(err, ErrConflict) {
		t.Errorf("a run with a heartbeat was taken: %v", err)
	}
}

func TestALostLeaseCancelsTheDrive(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{LeaseTTL: 150 * time.Millisecond})
	ctx, cancel := d.Context(context.Background())
	defer cancel()
	d.Record(PolicyEvent{Step: 1, Kind: PolicyDecision, Act: "exec", Target: "go test"})
	raw(t, s.Path(), `UPDATE run_leases SET owner = 'somebody else', generation = generation + 1`)
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the drive's context still runs")
	}
	var ce *ConflictError
	if !errors.As(context.Cause(ctx), &ce) || ce.Owner != "somebody else" {
		t.Errorf("the cause is %v", context.Cause(ctx))
	}
	if err := d.Flush(context.Background()); !errors.Is(err, ErrConflict) {
		t.Errorf("Flush lets an effect start: %v", err)
	}
	if err := s.CommitStep(context.Background(), d, aStep(1)); !errors.Is(err, ErrConflict) {
		t.Errorf("CommitStep: %v", err)
	}
}

// deadPID is the id of a process that has ended and was waited for.
func deadPID(t testing.TB) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func TestTheHolderIsJudgedOnlyWhereItCanBe(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" && runtime.GOOS != "windows" {
		t.Skip("processes cannot be asked for on this system")
	}
	me := thisHost()
	for _, tc := range []struct {
		name    string
		host    string
		pid     int
		started string
		taken   bool
	}{
		{"a process that ended is gone", me.host, deadPID(t), "1", true},
		{"a process that runs is alive", me.host, me.pid, me.started, false},
		{"a process id used again is gone", me.host, me.pid, me.started + "9", true},
		{"an unknown start stamp counts as alive", me.host, me.pid, "", false},
		{"another host's process is never judged", "elsewhere/boot/ns", deadPID(t), "1", false},
		{"a process id of nonsense counts as alive", me.host, -1, "1", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFile(t)
			d := start(t, s, RunStart{LeaseTTL: time.Hour})
			abandon(d)
			raw(t, s.Path(), `UPDATE run_leases SET host = ?, pid = ?, pid_started = ?`, tc.host, tc.pid, tc.started)
			d2, _, err := s.EnterDrive(context.Background(), d.RunID, EnterOptions{})
			if !tc.taken {
				if !errors.Is(err, ErrConflict) {
					t.Errorf("EnterDrive: %v, want a conflict", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d2.Takeover != TookOwnerGone || d2.Generation != 2 {
				t.Errorf("taken by %q as generation %d", d2.Takeover, d2.Generation)
			}
			release(t, d2)
		})
	}
}

func TestAShortTermIsKeptToTheMillisecond(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{LeaseTTL: 500 * time.Millisecond})
	info, err := s.LeaseOf(context.Background(), d.RunID)
	if err != nil || info.TTL != 500*time.Millisecond {
		t.Errorf("the lease is %+v, %v", info, err)
	}
}

func TestTwoHandlesRaceForOneLapsedRun(t *testing.T) {
	clock := newClock()
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openAt(t, path, WithClock(clock.Now))
	d := start(t, s, RunStart{LeaseTTL: time.Minute})
	abandon(d)
	clock.Advance(time.Hour)
	handles := []*Store{s, another(t, s, WithClock(clock.Now)), another(t, s, WithClock(clock.Now))}
	type result struct {
		d   *Drive
		err error
	}
	results := make(chan result, len(handles))
	for _, h := range handles {
		go func() {
			d, _, err := h.EnterDrive(context.Background(), d.RunID, EnterOptions{})
			results <- result{d, err}
		}()
	}
	won := 0
	for range handles {
		r := <-results
		switch {
		case r.err == nil:
			won++
			defer release(t, r.d)
		case !errors.Is(r.err, ErrConflict):
			t.Errorf("the loser got %v, want a conflict", r.err)
		}
	}
	if won != 1 {
		t.Errorf("%d drivers got the run", won)
	}
}
