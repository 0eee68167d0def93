package store

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// benchStep is a step as large as an ordinary one: a prompt of 4 KB and three
// observations of 1 KB.
func benchStep(n int) StepCommit {
	c := fullStep(n)
	c.Prompt = strings.Repeat(itoa(n%10), 4096)
	for i := range 3 {
		c.Observations = append(c.Observations, trace.Observation{Step: n, Kind: trace.ObsTool, CallID: "c" + itoa(i), Text: strings.Repeat("o", 1024)})
	}
	return c
}

func benchEvidence(d *Drive, n int) {
	d.Record(call(n, 100), ContextEvent{Step: n, Kind: "assembled"}, PolicyEvent{Step: n, Kind: PolicyDecision, Act: "read", Target: "a.go"})
}

// BenchmarkCommitStep commits one step with its evidence, and beside it the bare
// transaction of one row that any durable step must pay for.
func BenchmarkCommitStep(b *testing.B) {
	for _, sync := range []Synchronous{SyncFull, SyncNormal} {
		b.Run(string(sync), func(b *testing.B) {
			s := newFile(b, WithSynchronous(sync))
			d := start(b, s, RunStart{})
			n := 0
			for b.Loop() {
				n++
				benchEvidence(d, n)
				commit(b, s, d, benchStep(n))
			}
		})
		b.Run("bare-"+string(sync), func(b *testing.B) {
			s := newFile(b, WithSynchronous(sync))
			put := statement{"bench", `INSERT INTO store_meta (key, value) VALUES (?, ?)`}
			n := 0
			for b.Loop() {
				n++
				if err := s.write(context.Background(), "bench", func(t *txn) error {
					_, err := t.exec(put, itoa(n), strings.Repeat("v", 7168))
					return err
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// longRun makes a released run of that many steps.
func longRun(b testing.TB, s *Store, steps int, turn *TurnStart) *Drive {
	b.Helper()
	d := start(b, s, RunStart{Turn: turn})
	for n := 1; n <= steps; n++ {
		benchEvidence(d, n)
		commit(b, s, d, benchStep(n))
	}
	return d
}

// BenchmarkResumeLoad enters a run and lets it go again.
func BenchmarkResumeLoad(b *testing.B) {
	for _, steps := range []int{250, 5000} {
		b.Run(fmt.Sprintf("%d-steps", steps), func(b *testing.B) {
			s := newFile(b, WithSynchronous(SyncNormal))
			d := longRun(b, s, steps, nil)
			if err := d.Release(context.Background()); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				d, res, err := s.EnterDrive(context.Background(), d.RunID, EnterOptions{})
				if err != nil || len(res.Turns) != steps {
					b.Fatal(err)
				}
				if err := d.Release(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDeleteSession deletes a session of one run with that many steps.
func BenchmarkDeleteSession(b *testing.B) {
	for _, steps := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("%d-steps", steps), func(b *testing.B) {
			s := newFile(b, WithSynchronous(SyncNormal))
			for b.Loop() {
				b.StopTimer()
				sess := benchSession(b, s, steps)
				b.StartTimer()
				if got, err := s.DeleteSession(context.Background(), sess); err != nil || got.Sessions != 1 {
					b.Fatal(got, err)
				}
			}
		})
	}
}

func benchSession(b testing.TB, s *Store, steps int) trace.SessionID {
	b.Helper()
	sess, err := s.CreateSession(context.Background(), "/repo")
	if err != nil {
		b.Fatal(err)
	}
	d := longRun(b, s, steps, &TurnStart{Session: sess, Prompt: "p"})
	finish(b, s, d, trace.Finished, steps)
	return sess
}

// BenchmarkSweepTen removes ten sessions of fifty steps in one sweep.
func BenchmarkSweepTen(b *testing.B) {
	clock := newClock()
	s := newFile(b, WithSynchronous(SyncNormal), WithClock(clock.Now))
	for b.Loop() {
		b.StopTimer()
		for range 10 {
			benchSession(b, s, 50)
		}
		clock.Advance(time.Hour)
		b.StartTimer()
		if got, err := s.SweepSessions(context.Background(), clock.Now()); err != nil || got.Sessions != 10 {
			b.Fatal(got, err)
		}
	}
}

// BenchmarkCompact rewrites a file of which half is free.
func BenchmarkCompact(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s := newFile(b, WithSynchronous(SyncNormal))
		benchSession(b, s, 100)
		sess := benchSession(b, s, 100)
		if _, err := s.DeleteSession(context.Background(), sess); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, err := s.Compact(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRemember writes a note into a workspace that is full, so that each
// write evicts one.
func BenchmarkRemember(b *testing.B) {
	for _, entries := range []int{64, 512, 4096} {
		b.Run(fmt.Sprintf("%d-entries", entries), func(b *testing.B) {
			s := newFile(b, WithSynchronous(SyncNormal))
			d := start(b, s, RunStart{})
			lim := MemoryLimits{Entries: int64(entries), Chars: math.MaxInt64}
			if err := s.write(context.Background(), "fill", func(t *txn) error {
				for i := range entries {
					if _, err := t.exec(upsertMemory, ws, "k"+itoa(i), fmt.Sprintf("note %d about the parser and the column it stopped at, %s", i, strings.Repeat("detail ", 10)),
						"fact", d.RunID, 1, t.now); err != nil {
						return err
					}
					for run := range 3 {
						d.Record(MemoryRecall{Step: run, Workspace: ws, Key: "k" + itoa(i)})
					}
				}
				return nil
			}); err != nil {
				b.Fatal(err)
			}
			if err := d.Flush(context.Background()); err != nil {
				b.Fatal(err)
			}
			n := 0
			for b.Loop() {
				n++
				if r := remembers(b, s, d, "fresh"+itoa(n), "another note about the parser", lim); len(r.Evicted) != 1 {
					b.Fatal(r)
				}
			}
		})
	}
}

// BenchmarkTreeTail reads the newest events of a tree in a stream of 50,000.
func BenchmarkTreeTail(b *testing.B) {
	s := openAt(b, filepath.Join(b.TempDir(), "runs.db"), WithSynchronous(SyncNormal))
	d, other := start(b, s, RunStart{}), start(b, s, RunStart{})
	batch := make([]trace.Event, 1000)
	for i := range batch {
		run := d.RunID
		if i%10 != 0 {
			run = other.RunID
		}
		batch[i] = trace.Event{RunID: run, Step: i, Fact: trace.Token{Text: "token"}}
	}
	for range 50 {
		if err := s.PutEvents(context.Background(), batch...); err != nil {
			b.Fatal(err)
		}
	}
	end, err := s.EventCursor(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if rows, err := s.TreeEventsSince(context.Background(), d.RunID, end-1000, 0); err != nil || len(rows) != 100 {
			b.Fatal(len(rows), err)
		}
	}
}

// BenchmarkLongPrompts commits two hundred steps whose prompts grow to some 100 KiB,
// by what changes and whole. x-time and x-bytes are what the whole ones cost over it.
func BenchmarkLongPrompts(b *testing.B) {
	const steps = 200
	var took [2]time.Duration
	var size [2]int64
	for b.Loop() {
		for i := range took {
			s := newFile(b, WithSynchronous(SyncNormal))
			d := start(b, s, RunStart{Goal: "g"})
			for n := 1; n <= steps; n++ {
				c := aStep(n)
				c.Prompt = growing(n)
				if i == 1 {
					d.prompt.step = 0 // nothing to compare with
				}
				began := time.Now()
				commit(b, s, d, c)
				took[i] += time.Since(began)
			}
			finish(b, s, d, trace.Finished, steps)
			queryRaw(b, s.Path(), `SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`, &size[i])
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(took[0].Microseconds())/float64(steps*b.N), "µs/step")
	b.ReportMetric(float64(took[1])/float64(took[0]), "x-time")
	b.ReportMetric(float64(size[1])/float64(size[0]), "x-bytes")
}
