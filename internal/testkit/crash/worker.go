package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/failpoint"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// A worker is a program with an agent inside: it starts the one run of its
// directory or takes it up again, and drives it to its end.
type worker struct {
	dir     string
	profile profile
	steps   int
	contend bool // others drive the same run: a conflict is waited out

	points *points
	store  *store.Store
	h      *harness.Harness
}

// dawdle is how long the worker looks at some verdicts of the gate: longer than
// evidence waits to be written, so that a kill falls between a verdict that is
// recorded and what follows from it.
const dawdle = 40 * time.Millisecond

// workerMain is the program of a worker process.
func workerMain(args []string) error {
	fl := flag.NewFlagSet("worker", flag.ContinueOnError)
	dir := fl.String("dir", "", "the trial's directory")
	prof := fl.String("profile", string(oneShot), "the shape of the run")
	steps := fl.Int("steps", 30, "steps of the script")
	die := fl.String("die", "", "POINT:N: kill this process when it meets POINT, or any point when it is *, for the N-th time")
	contend := fl.Bool("contend", false, "wait out other drivers")
	log := fl.Bool("log", false, "write every point that is met to the file points")
	if err := fl.Parse(args); err != nil {
		return err
	}
	p, err := openPoints(*dir, *die, *log)
	if err != nil {
		return err
	}
	w := &worker{dir: *dir, profile: profile(*prof), steps: *steps, contend: *contend, points: p}
	ctx := failpoint.With(context.Background(), func(name string) error { p.hit(name); return nil })
	if w.store, err = store.Open(ctx, filepath.Join(*dir, "runs.db")); err != nil {
		return err
	}
	return errors.Join(w.work(ctx), w.store.Close(), p.close())
}

func (w *worker) work(ctx context.Context) error {
	box := tools(w.dir, w.points.hit, func() { time.Sleep(breath) })
	defaults := contract(w.profile, w.dir, w.steps)
	defaults.Tools = box
	var err error
	w.h, err = harness.New(harness.Config{
		Provider: model(w.profile, w.steps, func() { w.points.hit("model asked") }), Store: w.store, Policy: rules(w.profile), Defaults: defaults,
		Approver: approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Defer(), nil }),
		Observer: trace.ObserverFunc(func(e trace.Event) trace.Flow {
			if f, ok := e.Fact.(trace.Gated); ok && (f.Outcome == string(store.GatePassed) || e.Step == 1) {
				time.Sleep(dawdle)
			}
			if e.Kind() != (trace.Token{}).Kind() {
				w.points.hit("event " + e.Kind())
			}
			return trace.Continue
		}),
	})
	if err != nil {
		return err
	}
	if w.profile.conversation() {
		return w.converse(ctx)
	}
	last, err := w.store.LastRun(ctx)
	if err != nil {
		return err
	}
	if last != nil {
		return w.resume(ctx, last.ID)
	}
	res, err := w.h.Run(ctx, defaults)
	if err == nil && res.Outcome.Kind == trace.AwaitingApproval {
		return w.resume(ctx, res.RunID)
	}
	return ended(res, err)
}

// converse takes the two turns of the session, or what is left of them.
func (w *worker) converse(ctx context.Context) error {
	last, err := w.store.LastRun(ctx)
	if err != nil {
		return err
	}
	var s *harness.Session
	prompt := greeting
	if last == nil {
		s, err = w.h.Open(ctx, filepath.Join(w.dir, "work"))
	} else {
		row, rerr := w.store.TurnForRun(ctx, last.ID)
		if rerr != nil {
			return rerr
		}
		prompt = row.Prompt
		s, err = w.h.Reopen(ctx, row.SessionID)
	}
	if err != nil {
		return err
	}
	if last != nil && w.store.CheckResumable(ctx, last.ID) == nil {
		if err := w.resume(ctx, last.ID); err != nil || prompt == goal {
			return err
		}
		prompt = goal
	}
	// A process that died while a turn was answered left nothing to resume: its
	// prompt is said again.
	for {
		turn, err := s.Turn(ctx, prompt)
		if err != nil {
			return err
		}
		if turn.Outcome.Kind == trace.AwaitingApproval {
			return w.resume(ctx, turn.RunID)
		}
		if turn.Outcome.Kind != trace.Finished {
			return fmt.Errorf("turn %d ended as %s", turn.ID, turn.Outcome)
		}
		if prompt == goal {
			return nil
		}
		prompt = goal
	}
}

// resume drives the run to its end. What it waits for is approved, and a call
// whose end is not recorded is settled by what a person would look at: the ledger
// outside.
func (w *worker) resume(ctx context.Context, id trace.RunID) error {
	var opts []harness.ResumeOption
	for {
		res, err := w.h.Resume(ctx, id, opts...)
		var conflict *store.ConflictError
		var refused *store.ResumeError
		switch {
		case w.contend && errors.As(err, &conflict):
			fmt.Println(refusal + conflict.Owner)
			time.Sleep(5 * time.Millisecond)
			opts = nil
			continue
		case w.contend && len(opts) > 0 && errors.As(err, &refused):
			opts = nil // somebody else has decided meanwhile
			continue
		case err == nil && res.Outcome.Kind == trace.AwaitingApproval:
			w.points.hit("approval given")
			opts = []harness.ResumeOption{harness.Decide(res.Outcome.RequestID, approve.Approve())}
			continue
		case err != nil || res.Outcome.Kind != trace.AwaitingRecovery:
			return ended(res, err)
		}
		if opts, err = w.recover(ctx, id); err != nil {
			return err
		}
	}
}

func (w *worker) recover(ctx context.Context, id trace.RunID) ([]harness.ResumeOption, error) {
	open, err := w.store.OpenAttempts(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(open) == 0 {
		if w.contend {
			return nil, nil
		}
		return nil, fmt.Errorf("run %d waits for a recovery and has no open attempt", id)
	}
	ledger, err := readLedger(w.dir)
	if err != nil {
		return nil, err
	}
	what := harness.Retry()
	if done := ledger[open[0].Key]; len(done) > 0 {
		n, err := strconv.Atoi(done[0])
		if err != nil {
			return nil, err
		}
		what = harness.Completed(noted(n))
	}
	return []harness.ResumeOption{harness.Recover(open[0].ID, what)}, nil
}

// ended turns anything but a good end into an error.
func ended(res *trace.Result, err error) error {
	if err != nil {
		return err
	}
	if k := res.Outcome.Kind; k != trace.Success && k != trace.Finished {
		return fmt.Errorf("run %d ended as %s", res.RunID, res.Outcome)
	}
	return nil
}

// points is where the worker stands. The parent reads it after a kill.
type points struct {
	now *os.File // one line, overwritten
	log *os.File // every line, for a worker that is not killed

	mu     sync.Mutex
	target string
	left   int
}

func nowPath(dir string) string    { return filepath.Join(dir, "now") }
func pointsPath(dir string) string { return filepath.Join(dir, "points") }

func openPoints(dir, die string, log bool) (*points, error) {
	p := &points{}
	if die != "" {
		i := strings.LastIndexByte(die, ':')
		n, err := strconv.Atoi(die[i+1:])
		if i < 0 || err != nil {
			return nil, fmt.Errorf("die %q: write POINT:N", die)
		}
		p.target, p.left = die[:i], n
	}
	var err error
	if p.now, err = os.Create(nowPath(dir)); err != nil {
		return nil, err
	}
	if log {
		p.log, err = os.Create(pointsPath(dir))
	}
	return p, err
}

// hit notes that the worker has come to a point, and kills it there when it is
// the one asked for.
func (p *points) hit(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.now.WriteAt(fmt.Appendf(nil, "%-60s\n", name), 0)
	if p.log != nil {
		_, _ = fmt.Fprintln(p.log, name)
	}
	if p.left == 0 || p.target != "*" && p.target != name {
		return
	}
	if p.left--; p.left > 0 {
		return
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // the kill is on its way, and nothing more may happen
}

func (p *points) close() error {
	if p.log != nil {
		return errors.Join(p.now.Close(), p.log.Close())
	}
	return p.now.Close()
}
