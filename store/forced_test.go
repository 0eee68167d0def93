package store

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// wordsOf is evidence of which every row has words.
func wordsOf(step int, text string) []Row {
	return []Row{
		PolicyEvent{Step: step, Kind: PolicyDecision, Act: "exec", Target: "go test", Decision: "approve", Performed: text},
		StepAttempt{Step: step, Kind: AttemptRetry, Decision: text, Result: text},
		SandboxEvent{Step: step, Kind: "exec", Detail: text},
		MCPEvent{Step: step, Kind: "called", Server: "s", Detail: text},
		GateAttempt{Step: step, Phase: "command", Outcome: GateFailed, Detail: text},
		ContextEvent{Step: step, Kind: "assembled", Detail: text},
		Edit{Step: step, Tool: "write_file", Path: "a.go", Hunk: text},
		Citation{Step: step, URL: text, Title: text, Text: text},
		ServerToolCall{Step: step, Provider: "p", Tool: "web_search", Error: text},
		AgentEvent{Step: step, Kind: "said", Detail: text},
	}
}

// What a driver has in its hands when its session is archived or deleted by force
// must not land behind that: not with a flush, not with the end of a call, not as an
// event, and not with its release.
func TestNoWordOfADriverLandsBehindAForcedRemoval(t *testing.T) {
	ctx := context.Background()
	for name, remove := range map[string]func(*Store, trace.SessionID) error{
		"delete":  func(s *Store, id trace.SessionID) error { _, err := s.DeleteSession(ctx, id, Force()); return err },
		"archive": func(s *Store, id trace.SessionID) error { _, err := s.ArchiveSession(ctx, id, Force()); return err },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFile(t)
			sess := newSession(t, s)
			d := start(t, s, RunStart{Mode: ModeTree, Turn: &TurnStart{Session: sess, Prompt: "p"}})
			kid := child(t, s, d, 1, 0, "")
			commit(t, s, d, aStep(1))
			attempt, _, err := s.OpenAttempt(ctx, d, Attempt{Step: 2, Tool: "deploy"})
			if err != nil {
				t.Fatal(err)
			}
			if err := remove(another(t, s), sess); err != nil {
				t.Fatal(err)
			}
			before := rowsPerTable(t, s)

			d.Record(wordsOf(2, needle)...)
			d.Record(call(2, 7))
			if _, err := d.buf.flush(ctx); err != nil { // as the timer does
				t.Errorf("the flush of the timer: %v", err)
			}
			select {
			case <-d.Lost():
			default:
				t.Error("the flush did not tell that the run is lost")
			}
			kid.Record(wordsOf(1, needle)...)
			if err := s.CloseAttempt(ctx, d, attempt, Returned, needle); err != nil {
				t.Errorf("the end of a call: %v", err)
			}
			if err := s.PutEvents(ctx, trace.Event{RunID: d.RunID, Step: 2, Fact: trace.Token{Text: needle}},
				trace.Event{RunID: kid.RunID, Step: 1, Depth: 1, Fact: trace.Token{Text: needle}}); err != nil {
				t.Errorf("events: %v", err)
			}
			d.Record(wordsOf(2, needle)...)
			if err := d.Release(ctx); err != nil && !errors.Is(err, ErrConflict) {
				t.Errorf("the release: %v", err)
			}

			if after := dump(t, s.Path()); strings.Contains(after, needle) {
				t.Errorf("words landed:\n%s", grep(after, needle))
			}
			after := rowsPerTable(t, s)
			if name == "archive" {
				before["provider_calls"]++ // what it cost is no word
				if open, err := s.OpenAttempts(ctx, d.RunID); err != nil || len(open) != 0 {
					t.Errorf("a call that returned is open: %+v, %v", open, err)
				}
			}
			for table := range after {
				if after[table] != before[table] {
					t.Errorf("%s has %d rows, and had %d", table, after[table], before[table])
				}
			}
			for _, r := range wordsOf(2, "") {
				if n := d.Dropped()[r.table()]; n != 2 {
					t.Errorf("%d rows of %s are counted as dropped", n, r.table())
				}
				if n := kid.Dropped()[r.table()]; n != 1 {
					t.Errorf("%d rows of %s of the child are counted as dropped", n, r.table())
				}
			}
			sound(t, s)
		})
	}
}

// Nobody waits for the heartbeat, which comes once in a minute.
func TestWhoeverFlushesLearnsAtOnceThatTheRunIsLost(t *testing.T) {
	ctx := context.Background()
	for name, rows := range map[string][]Row{"with evidence": wordsOf(1, "x"), "without": nil} {
		t.Run(name, func(t *testing.T) {
			s := newFile(t)
			d := start(t, s, RunStart{})
			work, cancel := d.Context(ctx)
			defer cancel()
			if err := d.Flush(ctx); err != nil || d.Err() != nil {
				t.Fatalf("while it is held: %v, %v", err, d.Err())
			}
			raw(t, s.Path(), `UPDATE run_leases SET owner = 'somebody else', generation = generation + 1`)
			d.Record(rows...)
			var ce *ConflictError
			if err := d.Flush(ctx); !errors.As(err, &ce) || ce.Owner != "somebody else" {
				t.Errorf("Flush: %v", err)
			}
			<-work.Done()
			if !errors.As(context.Cause(work), &ce) {
				t.Errorf("the cause is %v", context.Cause(work))
			}
			// It is a driver like another who has the run, and what happened has happened.
			evs, err := Collect(s.SandboxEvents(ctx, d.RunID))
			if err != nil || len(evs) != min(1, len(rows)) {
				t.Errorf("%d of the events are there, %v", len(evs), err)
			}
		})
	}
}

// A driver that gave no sign of life for its whole term, as a computer that sleeps, is
// no hindrance to an archive, and must not go on behind it when it wakes up.
func TestADriverThatWakesUpBehindAnArchiveHasLostItsRun(t *testing.T) {
	ctx := context.Background()
	clock := newClock()
	s := newFile(t, WithClock(clock.Now))
	sess := newSession(t, s)
	d := start(t, s, RunStart{LeaseTTL: time.Minute, Turn: &TurnStart{Session: sess, Prompt: "p"}})
	commit(t, s, d, aStep(1))
	abandon(d)
	clock.Advance(time.Hour)
	if _, err := another(t, s, WithClock(clock.Now)).ArchiveSession(ctx, sess); err != nil {
		t.Fatal(err)
	}
	if err := s.CommitStep(ctx, d, aStep(2)); !errors.Is(err, ErrConflict) {
		t.Errorf("the sleeper commits: %v", err)
	}
	if err := d.Flush(ctx); !errors.Is(err, ErrConflict) {
		t.Errorf("the sleeper flushes: %v", err)
	}
	sound(t, s)
}

// An archived run that is driven on tells everything, also after its end.
func TestAnArchivedRunThatIsDrivenOnIsTold(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess := newSession(t, s)
	d := start(t, s, RunStart{Turn: &TurnStart{Session: sess, Prompt: "p"}})
	commit(t, s, d, aStep(1))
	if _, err := another(t, s).ArchiveSession(ctx, sess, Force()); err != nil {
		t.Fatal(err)
	}
	tell := func(step int) {
		t.Helper()
		if err := s.PutEvents(ctx, trace.Event{RunID: d.RunID, Step: step, Fact: trace.StalledOut{}}); err != nil {
			t.Fatal(err)
		}
	}
	tell(1) // for nobody
	d2, _ := enter(t, s, d.RunID, EnterOptions{})
	d2.Record(wordsOf(2, "new")...)
	if err := d2.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	tell(2)
	finish(t, s, d2, trace.Finished, 1)
	tell(3)
	evs, err := s.EventsSince(ctx, d.RunID, 0, 0)
	if err != nil || len(evs) != 2 || evs[0].Event.Step != 2 || evs[1].Event.Step != 3 {
		t.Errorf("events %+v, %v", evs, err)
	}
	if sand, err := Collect(s.SandboxEvents(ctx, d.RunID)); err != nil || len(sand) != 1 || sand[0].Detail != "new" {
		t.Errorf("evidence %+v, %v", sand, err)
	}
}

// Between the commit that gives a lease back and the moment at which its driver knows,
// neither the heartbeat nor a flush may take it for lost.
func TestTheEndOfADriveIsNoLoss(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	for range 20 {
		d := start(t, s, RunStart{Mode: ModeTree, LeaseTTL: time.Millisecond})
		kid := child(t, s, d, 1, 0, "")
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for _, one := range []*Drive{d, kid} {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					one.Record(SandboxEvent{Step: 1, Kind: "exec"})
					if err := one.Flush(ctx); err != nil {
						t.Errorf("a flush: %v", err)
						return
					}
				}
			})
		}
		finish(t, s, kid, trace.Finished, 0)
		finish(t, s, d, trace.Finished, 0)
		close(stop)
		wg.Wait()
		if d.Err() != nil {
			t.Fatalf("a run that ended is told to be lost: %v", d.Err())
		}
		release(t, kid)
		release(t, d)
	}
}
