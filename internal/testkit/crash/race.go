package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/store"
)

// contenders is how many processes want one run at the same time.
const contenders = 3

// race kills a worker and lets several processes take up its run at once, n
// times. One of them drives, and the others are refused by its name and wait. Its
// steps lie behind those of the dead process, with none of another between, and
// what the run leaves behind is compared as after a kill.
func (c *campaign) race(ctx context.Context, n int) error {
	rnd := rand.New(rand.NewPCG(c.seed, 2))
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.report.hopeless() {
			return nil
		}
		if err := c.raceOnce(ctx, fmt.Sprintf("race-%d", i), c.profiles[i%len(c.profiles)], rnd); err != nil {
			return err
		}
	}
	return nil
}

func (c *campaign) raceOnce(ctx context.Context, name string, p profile, rnd *rand.Rand) error {
	dir := filepath.Join(c.base, name)
	if err := prepare(dir); err != nil {
		return err
	}
	points := c.points[p]
	k := kill{point: fmt.Sprintf("*:%d", len(points)/4+rnd.IntN(len(points)/2))}
	if killed, err := c.die(ctx, dir, p, k); err != nil || !killed {
		return c.fail(name, p, []kill{k}, fmt.Sprintf("the first driver was not killed: %v", err))
	}
	out := make([]string, contenders)
	errs := make([]error, contenders)
	var all sync.WaitGroup
	for i := range contenders {
		all.Go(func() {
			time.Sleep(time.Duration(i) * breath) // so that not always the same one wins
			out[i], errs[i] = c.finish(ctx, dir, p, "-contend")
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return c.fail(name, p, []kill{k}, err.Error())
	}
	got, err := read(ctx, dir)
	if err != nil {
		return c.fail(name, p, []kill{k}, err.Error())
	}
	d, diffs := c.undisturbed[p].compare(got)
	named, more, err := interleaved(ctx, dir, strings.Join(out, ""))
	if err != nil {
		return c.fail(name, p, []kill{k}, err.Error())
	}
	diffs = append(diffs, more...)
	c.report.trial(d, len(got.settled))
	c.report.races++
	c.report.kills++
	c.report.waited += named
	if named > 0 {
		c.report.refused++
	}
	if len(diffs) > 0 {
		return c.fail(name, p, []kill{k}, strings.Join(diffs, "\n"))
	}
	return os.RemoveAll(dir)
}

// refusal is what a worker prints when it was refused, with the name of the driver.
const refusal = "refused: "

// interleaved looks whether the drives of a run overlapped, and whether each
// refusal in what the workers printed names a process that drove the run. It
// returns how many refusals there were.
func interleaved(ctx context.Context, dir, out string) (named int, diffs []string, err error) {
	st, err := store.Open(ctx, filepath.Join(dir, "runs.db"), store.WithReadOnly())
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	run, err := st.LastRun(ctx)
	if err != nil || run == nil {
		return 0, nil, errors.Join(err, errors.New("there is no run"))
	}
	drives, err := st.Drives(ctx, run.ID)
	if err != nil {
		return 0, nil, err
	}
	owners := map[string]bool{}
	for i, d := range drives {
		owners[d.Owner] = true
		if i > 0 && d.StartedAt.Before(drives[i-1].EndedAt) {
			diffs = append(diffs, fmt.Sprintf("drive %d began before drive %d had ended", d.ID, drives[i-1].ID))
		}
	}
	last := store.StepRow{}
	for s, err := range st.Steps(ctx, run.ID) {
		if err != nil {
			return 0, nil, err
		}
		if s.DriveID < last.DriveID {
			diffs = append(diffs, fmt.Sprintf("step %d is of drive %d and lies behind one of drive %d", s.Step, s.DriveID, last.DriveID))
		}
		last = s
	}
	for line := range strings.Lines(out) {
		owner, ok := strings.CutPrefix(strings.TrimSpace(line), refusal)
		if !ok {
			continue
		}
		named++
		if !owners[owner] {
			diffs = append(diffs, fmt.Sprintf("a second driver was refused by the name %q, which drove nothing", owner))
		}
	}
	return named, diffs, nil
}
