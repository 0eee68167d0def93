package store

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/initorigin/io-harness-go/trace"
)

// aRun is what the test believes about one run.
type aRun struct {
	id           trace.RunID
	d            *Drive // nil while nobody drives it
	steps        int
	obs, effects int
	final        bool
}

func TestNoOrderOfThingsBreaksTheInvariants(t *testing.T) {
	longest := 25
	if raceDetector {
		longest = 4
	}
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		f := &failing{}
		s, err := Memory(ctx, f.option())
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		var runs []*aRun
		points := []string{"", "", "", "renew lease", "insert step", "insert step turn", "insert observation", "advance run",
			"insert agent event", "insert provider call", "report tokens", "commit", "set outcome", "put summary", "end drive", "drop lease", "bind lease", "insert drive", "reopen run"}
		for range rapid.IntRange(1, longest).Draw(rt, "length") {
			point := rapid.SampledFrom(points).Draw(rt, "failure")
			f.set(point)
			act(rt, ctx, s, f, &runs)
			f.set("")
			rep, err := s.Check(ctx)
			if err != nil || !rep.Sound() {
				rt.Fatalf("with a failure at %q: %v, %v", point, rep.Problems, err)
			}
			for _, r := range runs {
				r.compare(rt, ctx, s)
			}
		}
	})
}

// act does one thing to a store that may fail in the middle of it.
func act(rt *rapid.T, ctx context.Context, s *Store, f *failing, runs *[]*aRun) {
	what := rapid.SampledFrom([]string{"start", "step", "step", "step", "last step", "finish", "release", "enter", "retry", "say", "wrong step", "effect"}).Draw(rt, "act")
	if what == "start" || len(*runs) == 0 {
		if d, err := s.StartRun(ctx, RunStart{Goal: "g", Root: "/r"}); err == nil {
			*runs = append(*runs, &aRun{id: d.RunID, d: d})
		}
		return
	}
	r := rapid.SampledFrom(*runs).Draw(rt, "run")
	if r.d == nil {
		if what != "enter" {
			return
		}
		d, res, err := s.EnterDrive(ctx, r.id, EnterOptions{})
		switch {
		case err != nil:
		case r.final != (d == nil):
			rt.Fatalf("final is %v and entering gave %+v", r.final, res)
		default:
			r.d = d
		}
		return
	}
	switch what {
	case "enter":
		if _, _, err := s.EnterDrive(ctx, r.id, EnterOptions{}); err == nil {
			rt.Fatal("a held run was entered")
		}
	case "step", "last step":
		r.d.Record(call(r.steps+1, 10), ContextEvent{Step: r.steps + 1, Kind: "assembled"})
		c := fullStep(r.steps + 1)
		if what == "last step" {
			c.Finish = &Finish{Outcome: trace.Outcome{Kind: trace.Success, Steps: r.steps + 1}}
		}
		if err := s.CommitStep(ctx, r.d, c); err == nil {
			r.steps++
			r.obs++
			if what == "last step" {
				r.d, r.final = nil, true
			}
		}
	case "wrong step":
		n := rapid.SampledFrom([]int{r.steps - 1, r.steps, r.steps + 2}).Draw(rt, "number")
		if err := s.CommitStep(ctx, r.d, fullStep(n)); err == nil {
			rt.Fatalf("step %d was committed after step %d", n, r.steps)
		}
	case "finish":
		kind := rapid.SampledFrom([]trace.OutcomeKind{trace.StepCapReached, trace.Finished, trace.Failed}).Draw(rt, "kind")
		if err := s.FinishRun(ctx, r.d, Finish{Outcome: trace.Outcome{Kind: kind, Steps: r.steps}}); err == nil {
			r.d, r.final = nil, kind == trace.Finished
		}
	case "release":
		if err := r.d.Release(ctx); err != nil {
			f.set("")
			if err := r.d.Release(ctx); err != nil {
				rt.Fatalf("a second try: %v", err)
			}
		}
		r.d = nil
	case "retry":
		r.d.Record(StepAttempt{Step: r.steps + 1, Kind: AttemptRetry, Decision: "again"})
	case "say":
		if err := s.AppendObservations(ctx, r.d, trace.Observation{Step: r.steps, Kind: trace.ObsMessage, Text: "more"}); err == nil {
			r.obs++
		}
	case "effect":
		id, _, err := s.OpenAttempt(ctx, r.d, Attempt{Step: r.steps + 1, CallIndex: r.effects, Tool: "t"})
		r.effects++
		for err == nil {
			if s.CloseAttempt(ctx, r.d, id, Returned, "") == nil {
				break
			}
			f.set("") // a close that failed is tried again until it is down
		}
	}
}

// compare holds what the store says against what the test did.
func (r *aRun) compare(rt *rapid.T, ctx context.Context, s *Store) {
	info, err := s.Run(ctx, r.id)
	if err != nil {
		rt.Fatal(err)
	}
	if info.LastStep != r.steps || info.Tokens != int64(10*r.steps) {
		rt.Fatalf("run %d stands at step %d with %d tokens, want %d steps", r.id, info.LastStep, info.Tokens, r.steps)
	}
	obs, err := Collect(s.Observations(ctx, r.id))
	if err != nil || len(obs) != r.obs {
		rt.Fatalf("run %d has %d observations, %v, want %d", r.id, len(obs), err, r.obs)
	}
	steps, err := Collect(s.Steps(ctx, r.id))
	if err != nil || !slices.IsSortedFunc(steps, func(a, b StepRow) int { return a.Step - b.Step }) {
		rt.Fatalf("steps %+v, %v", steps, err)
	}
	l, err := s.LeaseOf(ctx, r.id)
	if err != nil || (l != nil) != (r.d != nil) {
		rt.Fatalf("run %d: the lease is %+v, %v, and driven is %v", r.id, l, err, r.d != nil)
	}
}
