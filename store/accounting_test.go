package store

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

func usage(in, out, read, write, requests int64) *provider.Usage {
	return &provider.Usage{PromptTokens: in, CompletionTokens: out, TotalTokens: in + out, CacheReadTokens: read, CacheWriteTokens: write, ServerToolRequests: requests}
}

func TestSpendIsPricedWhenItIsRead(t *testing.T) {
	ctx := context.Background()
	clock := newClock()
	s := newFile(t, WithClock(clock.Now))
	sess := newSession(t, s)
	d := start(t, s, RunStart{Turn: &TurnStart{Session: sess, Prompt: "p"}, Mode: ModeTree})
	kid := child(t, s, d, 1, 0, "")
	lone := start(t, s, RunStart{})
	d.Record(ProviderCall{Step: 1, Provider: "p", Model: "m", Usage: usage(1_000_000, 1_000_000, 500_000, 100_000, 3)},
		ProviderCall{Step: 1, Provider: "p", Failure: "rate_limited (HTTP 429)"})
	kid.Record(ProviderCall{Step: 1, Provider: "p", Model: "m", Purpose: ForFold, Usage: usage(10, 5, 20, 0, 0)})
	for _, x := range []*Drive{d, kid} {
		if err := x.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(24 * time.Hour)
	lone.Record(ProviderCall{Step: 1, Provider: "p", Model: "free", Usage: usage(7, 7, 0, 0, 0)}, ProviderCall{Step: 1, Provider: "p", Usage: usage(1, 1, 0, 0, 0)})
	if err := lone.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	prices := provider.PriceTable{AsOf: "2026-03-01"}.With("m", provider.Price{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite: 3_750_000, PerServerToolRequest: 10_000})
	// 0.4M fresh at 3, 1M out at 15, 0.5M read at 0.3, 0.1M written at 3.75, 3 requests at 0.01.
	const big = 1_200_000 + 15_000_000 + 150_000 + 375_000 + 30_000
	small, _ := prices.CostMicros("m", *usage(10, 5, 20, 0, 0))
	type row struct {
		Key                   string
		Calls, Cost, Unpriced int64
	}
	id := func(r trace.RunID) string { return r.String() }
	for by, want := range map[SpendKey][]row{
		ByModel:   {{UnknownModel, 2, 0, 2}, {"free", 1, 0, 1}, {"m", 2, big + small, 0}},
		ByDay:     {{"2026-03-01", 3, big + small, 1}, {"2026-03-02", 2, 0, 2}},
		ByRun:     {{id(d.RunID), 2, big, 1}, {id(kid.RunID), 1, small, 0}, {id(lone.RunID), 2, 0, 2}},
		ByTree:    {{id(d.RunID), 3, big + small, 1}, {id(lone.RunID), 2, 0, 2}},
		BySession: {{NoKey, 2, 0, 2}, {sess.String(), 3, big + small, 1}},
		ByPurpose: {{"fold", 1, small, 0}, {"step", 4, big, 3}},
	} {
		got, err := s.Spend(ctx, by, SpendFilter{}, prices)
		if err != nil {
			t.Fatal(err)
		}
		var rows []row
		var tokens int64
		for _, g := range got {
			rows = append(rows, row{g.Key, g.Calls, g.CostMicros, g.Unpriced})
			tokens += g.Usage.TotalTokens
		}
		if diff := cmp.Diff(want, rows); diff != "" || tokens != 2_000_000+15+14+2 {
			t.Errorf("by %s, %d tokens (-want +got):\n%s", by, tokens, diff)
		}
	}
	day2 := SpendFilter{Since: clock.Now()}
	if got, err := s.Spend(ctx, ByModel, day2, prices); err != nil || len(got) != 2 {
		t.Errorf("of the second day: %+v, %v", got, err)
	}
	if got, err := s.Spend(ctx, ByModel, SpendFilter{Until: clock.Now(), Tree: d.RunID}, prices); err != nil || len(got) != 2 {
		t.Errorf("of the tree: %+v, %v", got, err)
	}
	wantKind(t, func() error { _, err := s.Spend(ctx, "vendor", SpendFilter{}, prices); return err }, KindInvalid)
}

func TestAggregatesOfAnEmptyStoreAreEmpty(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	for name, fn := range map[string]func() (int, error){
		"spend": func() (int, error) {
			v, err := s.Spend(ctx, ByModel, SpendFilter{}, provider.PriceTable{})
			return len(v), err
		},
		"outcomes": func() (int, error) { v, err := s.RunsByOutcome(ctx); return len(v), err },
		"days":     func() (int, error) { v, err := s.RunsByDay(ctx); return len(v), err },
		"gates":    func() (int, error) { v, err := s.GateFailuresByPhase(ctx); return len(v), err },
		"runs":     func() (int, error) { v, err := Collect(s.Runs(ctx, RunFilter{})); return len(v), err },
	} {
		if n, err := fn(); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if f, err := s.FirstTry(ctx); err != nil || f != (FirstTry{}) {
		t.Errorf("first try: %+v, %v", f, err)
	}
	if r, err := s.Recovery(ctx); err != nil || r != (Recovery{}) {
		t.Errorf("recovery: %+v, %v", r, err)
	}
	if r, err := s.LastRun(ctx); err != nil || r != nil {
		t.Errorf("last run: %+v, %v", r, err)
	}
}

func TestHowRunsEndedAndRecovered(t *testing.T) {
	ctx := context.Background()
	clock := newClock()
	s := newFile(t, WithClock(clock.Now))
	clean := start(t, s, RunStart{})
	finish(t, s, clean, trace.Success, 0)
	clock.Advance(24 * time.Hour)
	second := start(t, s, RunStart{})
	second.Record(SandboxEvent{Step: 1, Kind: "gate_phase_failed", Phase: "command"}, SandboxEvent{Step: 2, Kind: "gate_phase_failed", Phase: "command"},
		SandboxEvent{Step: 2, Kind: "gate_phase_failed"}, SandboxEvent{Step: 2, Kind: "exec", Phase: "command"})
	finish(t, s, second, trace.Success, 0)
	judged := start(t, s, RunStart{})
	judged.Record(GateAttempt{Step: 1, Phase: "review", Outcome: GateFailed}, GateAttempt{Step: 1, Phase: "review", Outcome: GatePassed})
	finish(t, s, judged, trace.Success, 0)
	lost := start(t, s, RunStart{})
	lost.Record(ContextEvent{Step: 1, Kind: "served"}, ContextEvent{Step: 1, Kind: "replan"}, ContextEvent{Step: 1, Kind: "stalled"})
	release(t, lost)
	lost, _ = enter(t, s, lost.RunID, EnterOptions{})
	finish(t, s, lost, trace.Stalled, 0)
	check := func(name string, got []Tally, err error, want ...Tally) {
		t.Helper()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	got, err := s.RunsByOutcome(ctx)
	check("outcomes", got, err, Tally{"stalled", 1}, Tally{"success", 3})
	got, err = s.RunsByDay(ctx)
	check("days", got, err, Tally{"2026-03-01", 1}, Tally{"2026-03-02", 3})
	got, err = s.GateFailuresByPhase(ctx)
	check("phases", got, err, Tally{NoKey, 1}, Tally{"command", 2})
	if f, err := s.FirstTry(ctx); err != nil || f != (FirstTry{Runs: 4, Succeeded: 3, FirstTry: 1}) {
		t.Errorf("first try: %+v, %v", f, err)
	}
	if r, err := s.Recovery(ctx); err != nil || r != (Recovery{Fallbacks: 1, Replans: 1, Resumes: 1}) {
		t.Errorf("recovery: %+v, %v", r, err)
	}
}

func TestTheHitRateIsAShareOfThePromptsOfTheGroup(t *testing.T) {
	for _, tc := range []struct {
		read, prompt int64
		want         float64
		ok           bool
	}{{0, 0, 0, false}, {0, 10, 0, true}, {5_430, 7_240, 0.75, true}, {9, 9, 1, true}} {
		got, ok := Spend{Usage: provider.Usage{CacheReadTokens: tc.read, PromptTokens: tc.prompt}}.CacheHitRate()
		if got != tc.want || ok != tc.ok {
			t.Errorf("%d of %d: %v, %v; want %v, %v", tc.read, tc.prompt, got, ok, tc.want, tc.ok)
		}
	}
}

func TestAReviewIsDrawnByTheStepThatItJudges(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	c := aStep(1)
	c.Tokens = 100
	commit(t, s, d, c)
	review := func(step int, u *provider.Usage) {
		d.Record(ProviderCall{Step: step, Provider: "reviewer", Purpose: ForReview, Usage: u})
		if err := d.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	drawn := func(want int64) {
		t.Helper()
		info, err := s.Run(ctx, d.RunID)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := Collect(s.Steps(ctx, d.RunID))
		if err != nil || len(steps) != 1 || info.Tokens != want || steps[0].Tokens != want {
			t.Errorf("the run drew %d and its steps %+v, want %d; %v", info.Tokens, steps, want, err)
		}
		sound(t, s)
	}
	review(1, usage(30, 7, 0, 0, 0))
	drawn(137)
	review(1, nil) // nobody said what it used
	review(2, usage(1000, 0, 0, 0, 0))
	drawn(137) // there is no such step
	review(1, &provider.Usage{TotalTokens: -5})
	drawn(137)
	review(1, usage(3, 0, 0, 0, 0))
	finish(t, s, d, trace.Success, 1)
	drawn(140)
	if sum, err := s.RunSummary(ctx, d.RunID); err != nil || sum.Tokens != 140 {
		t.Errorf("the summary: %+v, %v", sum, err)
	}
}
