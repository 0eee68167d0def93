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
)

// contenders is how many processes want one run at the same time.
const contenders = 3

// race kills a worker and lets several processes take up its run at once, n
// times. One of them drives and the others meet a conflict and wait; what the
// run leaves behind is compared as after a kill.
func (c *campaign) race(ctx context.Context, n int) error {
	rnd := rand.New(rand.NewPCG(c.seed, 2))
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(c.report.failures) > 10 {
			return nil
		}
		if err := c.raceOnce(ctx, fmt.Sprintf("race-%d", i), rnd); err != nil {
			return err
		}
	}
	return nil
}

func (c *campaign) raceOnce(ctx context.Context, name string, rnd *rand.Rand) error {
	p := c.profiles[0]
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
	if got.drives > 2 {
		diffs = append(diffs, fmt.Sprintf("the run was driven %d times: want twice, by the killed process and by one other", got.drives))
	}
	c.report.trial(d, len(got.settled))
	c.report.races++
	c.report.kills++
	c.report.waited += strings.Count(strings.Join(out, ""), "conflict")
	if len(diffs) > 0 {
		return c.fail(name, p, []kill{k}, strings.Join(diffs, "\n"))
	}
	return os.RemoveAll(dir)
}
