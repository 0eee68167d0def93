package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		if err := workerMain(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		stop()
		os.Exit(1)
	}
}

var errDiffers = errors.New("a killed run differs from the undisturbed one")

func run(ctx context.Context) error {
	kills := flag.Int("kills", 0, "kill workers at `N` random moments")
	points := flag.Bool("points", false, "kill a worker at every labelled point")
	point := flag.String("point", "", "kill a worker each time the point `NAME` is met")
	effects := flag.Bool("effects", false, "kill a worker before and behind each effect, every time")
	races := flag.Int("races", 0, "let several processes race for `N` runs")
	steps := flag.Int("steps", 30, "steps of the script, 11 at least")
	only := flag.String("profile", "", "only runs of this shape: one-shot, session, approval, pausing or handles")
	seed := flag.Uint64("seed", 0, "of the random choices; 0 takes one from the clock")
	keep := flag.Bool("keep", false, "keep the directories of failed trials")
	jobs := flag.Int("jobs", runtime.NumCPU(), "how many runs are made and killed at a time")
	limit := flag.Duration("limit", 0, "give up after this time; 0 means 20 minutes, or 3 seconds for each kill when that is longer")
	flag.Parse()
	if *steps < 11 {
		return errors.New("-steps is less than 11: the script needs that many to do everything once")
	}
	shapes := profiles
	if *only != "" {
		shapes = []profile{profile(*only)}
		if !slices.Contains(profiles, shapes[0]) {
			return fmt.Errorf("-profile %s is none of %v", *only, profiles)
		}
	}
	if *kills == 0 && *races == 0 && !*points && *point == "" && !*effects {
		*kills = 200
	}
	if *limit == 0 {
		*limit = max(20*time.Minute, time.Duration(*kills)*3*time.Second)
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	c, err := newCampaign(ctx, shapes, *steps, *seed, *keep)
	if err != nil {
		return err
	}
	var every []string
	if *point != "" {
		every = append(every, *point)
	}
	if *effects {
		every = append(every, "note begins", "note is done")
	}
	c.jobs, c.report.progress = max(1, *jobs), os.Stderr
	err = c.all(ctx, *kills, *points, every, *races)
	err = errors.Join(err, c.report.write(os.Stdout, *seed), c.close())
	if err == nil && len(c.report.failures) > 0 {
		err = errDiffers
	}
	return err
}

func (c *campaign) all(ctx context.Context, kills int, points bool, every []string, races int) error {
	if err := c.random(ctx, kills); err != nil {
		return err
	}
	if points {
		if err := c.everyPoint(ctx); err != nil {
			return err
		}
	}
	for _, point := range every {
		if err := c.eachTime(ctx, point); err != nil {
			return err
		}
	}
	return c.race(ctx, races)
}
