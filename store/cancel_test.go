package store

import (
	"context"
	"errors"
	"testing"

	"github.com/initorigin/io-harness-go/trace"
)

// cancelAt ends a context when a store passes a point.
type cancelAt struct {
	point  string
	cancel context.CancelFunc
}

func (c *cancelAt) option() Option {
	return func(o *options) {
		o.fail = func(point string) error {
			if c.cancel != nil && point == c.point {
				c.cancel()
			}
			return nil
		}
	}
}

func TestACancellationNeverLeavesALeaseThatNobodyHolds(t *testing.T) {
	for _, point := range []string{"insert run", "insert lease", "bind lease", "commit", "committed", "read observations"} {
		for _, what := range []string{"start", "enter"} {
			t.Run(what+" at "+point, func(t *testing.T) {
				c := &cancelAt{}
				s := newFile(t, c.option())
				known := start(t, s, RunStart{})
				release(t, known)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				c.point, c.cancel = point, cancel
				var d *Drive
				var err error
				if what == "start" {
					d, err = s.StartRun(ctx, RunStart{Goal: "g", Root: "/r"})
				} else {
					d, _, err = s.EnterDrive(ctx, known.RunID, EnterOptions{})
				}
				c.cancel = nil
				if (d == nil) != (err != nil) {
					t.Fatalf("got the drive %+v and %v", d, err)
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("the error is %v", err)
				}
				if d != nil {
					release(t, d)
				}
				for r, err := range s.Runs(context.Background(), RunFilter{}) {
					if err != nil {
						t.Fatal(err)
					}
					if l, err := s.LeaseOf(context.Background(), r.ID); err != nil || l != nil {
						t.Errorf("run %d is held by %+v, %v", r.ID, l, err)
					}
				}
				sound(t, s)
			})
		}
	}
}

func TestADeadContextStopsEverythingButTheCommitOfWork(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d.Record(SandboxEvent{Step: 1, Kind: "exec"})
	for name, fn := range map[string]func() error{
		"read":     func() error { _, err := s.Run(ctx, d.RunID); return err },
		"snapshot": func() error { _, err := s.LeaseOf(ctx, d.RunID); return err },
		"write":    func() error { _, err := s.CreateSession(ctx, "/r"); return err },
		"ahead":    func() error { _, err := s.PutPending(ctx, d, PendingApproval{}); return err },
		"flush":    func() error { return d.Flush(ctx) },
		"check":    func() error { _, err := s.Check(ctx); return err },
	} {
		if err := fn(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.CommitStep(ctx, d, aStep(1)); err != nil {
		t.Errorf("the commit: %v", err)
	}
	if evs, err := Collect(s.SandboxEvents(context.Background(), d.RunID)); err != nil || len(evs) != 1 {
		t.Errorf("the evidence: %+v, %v", evs, err)
	}
	if err := s.FinishRun(ctx, d, Finish{Outcome: trace.Outcome{Kind: trace.Cancelled, Steps: 1}}); err != nil {
		t.Errorf("the finish: %v", err)
	}
	if err := d.Release(ctx); err != nil {
		t.Errorf("the release: %v", err)
	}
}
