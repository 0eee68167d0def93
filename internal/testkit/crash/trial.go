package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/initorigin/io-harness-go/store"
)

// workerTime bounds one worker process: a run takes well under a second, so that
// one which takes this long hangs.
const workerTime = 2 * time.Minute

// campaign is what all trials of one invocation share.
type campaign struct {
	profiles []profile
	steps    int
	seed     uint64
	keep     bool // leave the directories of failed trials
	jobs     int  // trials at a time
	base     string

	undisturbed map[profile]*outcome
	took        map[profile]time.Duration // of the undisturbed process
	points      map[profile][]string      // that the undisturbed process met, in order

	report *report
}

func newCampaign(ctx context.Context, shapes []profile, steps int, seed uint64, keep bool) (*campaign, error) {
	base, err := os.MkdirTemp("", "crash-*")
	if err != nil {
		return nil, err
	}
	c := &campaign{
		profiles: shapes, steps: steps, seed: seed, keep: keep, jobs: 1, base: base, report: newReport(),
		undisturbed: map[profile]*outcome{}, took: map[profile]time.Duration{}, points: map[profile][]string{},
	}
	for _, p := range shapes {
		if err := c.reference(ctx, p); err != nil {
			return nil, errors.Join(fmt.Errorf("the undisturbed %s run: %w", p, err), c.close())
		}
	}
	return c, nil
}

func (c *campaign) close() error {
	if c.keep && len(c.report.failures) > 0 {
		fmt.Println("the directories of the failed trials are in", c.base)
		return nil
	}
	return os.RemoveAll(c.base)
}

// reference makes the undisturbed run of a profile.
func (c *campaign) reference(ctx context.Context, p profile) error {
	dir := filepath.Join(c.base, "undisturbed-"+string(p))
	if err := prepare(dir); err != nil {
		return err
	}
	began := time.Now()
	if _, err := c.finish(ctx, dir, p, "-log"); err != nil {
		return err
	}
	c.took[p] = time.Since(began)
	o, err := read(ctx, dir)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(pointsPath(dir))
	if err != nil {
		return err
	}
	c.points[p] = strings.Split(strings.TrimSpace(string(raw)), "\n")
	if want := c.steps; len(o.steps) < want || len(c.points[p]) < want {
		return fmt.Errorf("it has %d steps and met %d points: want %d at least", len(o.steps), len(c.points[p]), want)
	}
	if diff := o.part("check"); diff != "" {
		return errors.New(diff)
	}
	c.undisturbed[p] = o
	return nil
}

// command is a worker that has not been started.
func (c *campaign) command(ctx context.Context, dir string, p profile, args ...string) (*exec.Cmd, *bytes.Buffer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	all := append([]string{"worker", "-dir", dir, "-profile", string(p), "-steps", fmt.Sprint(c.steps)}, args...)
	cmd := exec.CommandContext(ctx, self, all...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out, nil
}

// finish runs a worker that nobody kills, and returns what it printed.
func (c *campaign) finish(ctx context.Context, dir string, p profile, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, workerTime)
	defer cancel()
	cmd, out, err := c.command(ctx, dir, p, args...)
	if err != nil {
		return "", err
	}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("the worker failed: %w: %s", err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

// kill is how one worker is to die: at a point, or after a time.
type kill struct {
	point string // POINT:N
	after time.Duration
}

// die starts a worker and kills it. It reports false when the worker had ended
// before.
func (c *campaign) die(ctx context.Context, dir string, p profile, k kill) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, workerTime)
	defer cancel()
	var args []string
	if k.point != "" {
		args = []string{"-die", k.point}
	}
	cmd, out, err := c.command(ctx, dir, p, args...)
	if err != nil {
		return false, err
	}
	if err := os.WriteFile(nowPath(dir), []byte("start of the process\n"), 0o600); err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	if k.point == "" {
		timer := time.AfterFunc(k.after, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false, nil
	case ctx.Err() != nil:
		return false, fmt.Errorf("a worker hangs at %q: %s", where(dir), out.String())
	case errors.As(err, &exit) && out.Len() == 0:
		return true, nil
	}
	return false, fmt.Errorf("a worker failed: %w: %s", err, strings.TrimSpace(out.String()))
}

// where is the point that a worker met last.
func where(dir string) string {
	raw, err := os.ReadFile(nowPath(dir))
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	return strings.TrimSpace(line)
}

// lastStep is the last step that is committed in dir, after a look whether the
// file is sound: a kill must not leave a damaged one even for a moment.
func lastStep(ctx context.Context, dir string) (int, error) {
	path := filepath.Join(dir, "runs.db")
	if _, err := os.Stat(path); err != nil {
		return 0, nil // it died before there was a store
	}
	st, err := store.Open(ctx, path)
	if err != nil {
		return 0, err
	}
	rep, err := st.Check(ctx)
	if err == nil && !rep.Sound() {
		err = fmt.Errorf("the store is damaged: %s", strings.Join(rep.Problems, "; "))
	}
	run, rerr := st.LastRun(ctx)
	if err = errors.Join(err, rerr, st.Close()); err != nil || run == nil {
		return 0, err
	}
	return run.LastStep, nil
}

// trial kills the workers of one run as kills say, lets the next one finish, and
// compares. It returns how many of the kills met a live worker.
func (c *campaign) trial(ctx context.Context, name string, p profile, kills []kill) (int, error) {
	dir := filepath.Join(c.base, name)
	if err := prepare(dir); err != nil {
		return 0, err
	}
	done := 0
	for _, k := range kills {
		killed, err := c.die(ctx, dir, p, k)
		if err != nil {
			return done, c.fail(name, p, kills, err.Error())
		}
		if !killed {
			break
		}
		done++
		point := where(dir)
		step, err := lastStep(ctx, dir)
		if err != nil {
			return done, c.fail(name, p, kills, err.Error())
		}
		c.report.kill(p, step, point)
	}
	if _, err := c.finish(ctx, dir, p); err != nil {
		return done, c.fail(name, p, kills, err.Error())
	}
	got, err := read(ctx, dir)
	if err != nil {
		return done, c.fail(name, p, kills, err.Error())
	}
	d, diffs := c.undisturbed[p].compare(got)
	c.report.trial(d, len(got.settled))
	if len(diffs) > 0 {
		return done, c.fail(name, p, kills, strings.Join(diffs, "\n"))
	}
	return done, os.RemoveAll(dir)
}

// fail keeps a failure for the report; only the end of ctx stops the campaign.
func (c *campaign) fail(name string, p profile, kills []kill, what string) error {
	var how []string
	for _, k := range kills {
		if k.point != "" {
			how = append(how, "at "+k.point)
		} else {
			how = append(how, "after "+k.after.String())
		}
	}
	c.report.fail(fmt.Sprintf("trial %s, %s, seed %d, killed %s:\n%s", name, p, c.seed, strings.Join(how, ", then "), what))
	return nil
}

// planned is a trial that is to be made.
type planned struct {
	name  string
	p     profile
	kills []kill
}

// several makes the trials that next returns, some at a time, until it returns none.
// Next may be called at the same time.
func (c *campaign) several(ctx context.Context, next func() (planned, bool)) error {
	errs := make([]error, c.jobs)
	var all sync.WaitGroup
	for j := range errs {
		all.Go(func() {
			for errs[j] == nil && !c.report.hopeless() {
				t, ok := next()
				if !ok {
					return
				}
				if errs[j] = ctx.Err(); errs[j] == nil {
					_, errs[j] = c.trial(ctx, t.name, t.p, t.kills)
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// list makes the trials of a list.
func (c *campaign) list(ctx context.Context, trials []planned) error {
	var next atomic.Int64
	return c.several(ctx, func() (t planned, ok bool) {
		if i := int(next.Add(1)) - 1; i < len(trials) {
			return trials[i], true
		}
		return t, false
	})
}

// random makes trials until total workers have been killed. Half of the kills
// come from outside at a random time, half from within at a random point; up to
// three meet one run.
func (c *campaign) random(ctx context.Context, total int) error {
	var next atomic.Int64
	return c.several(ctx, func() (t planned, ok bool) {
		i := int(next.Add(1)) - 1
		if i > 4*total || c.report.killed() >= total {
			return t, false
		}
		p, kills := c.choose(i, total)
		return planned{fmt.Sprintf("random-%d", i), p, kills}, true
	})
}

// choose is the shape of the trial number i and how its workers are to die. It
// depends on nothing but the seed.
func (c *campaign) choose(i, total int) (profile, []kill) {
	rnd := rand.New(rand.NewPCG(c.seed, uint64(i)))
	p := c.profiles[i%len(c.profiles)]
	kills := make([]kill, min(1+rnd.IntN(3), total))
	for j := range kills {
		if rnd.IntN(2) == 0 {
			kills[j].after = time.Duration(rnd.Int64N(int64(c.took[p])))
		} else {
			kills[j].point = fmt.Sprintf("*:%d", 1+rnd.IntN(len(c.points[p])))
		}
	}
	return p, kills
}

// everyPoint kills a worker at every labelled point: when it is met first, last,
// and once between.
func (c *campaign) everyPoint(ctx context.Context) error {
	rnd := rand.New(rand.NewPCG(c.seed, 1))
	var trials []planned
	for _, p := range c.profiles {
		met := map[string]int{}
		var names []string
		for _, name := range c.points[p] {
			if met[name]++; met[name] == 1 {
				names = append(names, name)
			}
		}
		for _, name := range names {
			n := met[name]
			trials = append(trials, at(p, name, 1))
			if n > 2 {
				trials = append(trials, at(p, name, 2+rnd.IntN(n-2)))
			}
			if n > 1 {
				trials = append(trials, at(p, name, n))
			}
		}
	}
	return c.list(ctx, trials)
}

// eachTime kills a worker every time that it meets one point.
func (c *campaign) eachTime(ctx context.Context, name string) error {
	var trials []planned
	for _, p := range c.profiles {
		n := 0
		for _, met := range c.points[p] {
			if met == name {
				n++
				trials = append(trials, at(p, name, n))
			}
		}
	}
	return c.list(ctx, trials)
}

// at is a trial that kills a worker when it meets a point for the n-th time.
func at(p profile, name string, n int) planned {
	return planned{fmt.Sprintf("%s-%s-%d", p, strings.ReplaceAll(name, " ", "_"), n), p, []kill{{point: fmt.Sprintf("%s:%d", name, n)}}}
}
