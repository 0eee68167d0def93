package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// folding is a model that works by a script and summarises by another.
type folding struct {
	*scripted.Model
	summary func(n int) scripted.Turn // the n-th summary, from 1

	mu   sync.Mutex
	asks []*provider.Request // for summaries
}

func isSummary(req *provider.Request) bool {
	return len(req.Tools) == 0 && len(req.System) == 1 && strings.Contains(req.System[0], "You compact an agent's own notes")
}

func (m *folding) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	if !isSummary(req) {
		return m.Model.Complete(ctx, req, on)
	}
	m.mu.Lock()
	m.asks = append(m.asks, req.Clone())
	n := len(m.asks)
	m.mu.Unlock()
	if on.Token != nil || on.Call != nil {
		return nil, errors.New("a summary must not stream")
	}
	resp, err := m.summary(n)(ctx, req)
	if err == nil && resp.Usage == nil {
		resp.Usage = &provider.Usage{TotalTokens: 50}
	}
	return resp, err
}

func (m *folding) summaries() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.asks)
}

func paragraph(n int) scripted.Turn {
	return scripted.Say(fmt.Sprintf("SUMMARY-%d: files were read.", n))
}

// folds scripts f with m's turns and paragraphs.
func (f *fixture) folds(turns ...scripted.Turn) *folding {
	m := &folding{Model: scripted.New(turns...), summary: paragraph}
	f.model(m)
	return m
}

// small is a section of 2,000 tokens that is folded at 1,600.
func small(c *task.Contract) {
	c.Context.MaxTokens = 2000
	c.Compaction.Keep = 2
	c.Stall = task.Stall{Window: -1}
	c.Budget.Steps = 60
}

// page is a file of about 450 tokens, told from others by its first word.
func (f *fixture) page(n int) string {
	name := fmt.Sprintf("page%d.txt", n)
	f.write(name, fmt.Sprintf("MARK-%d-", n)+strings.Repeat("x", 1790)+"\n")
	return name
}

func (f *fixture) pages(n int) []scripted.Turn {
	var turns []scripted.Turn
	for i := 1; i <= n; i++ {
		turns = append(turns, readCall(f.page(i)))
	}
	return turns
}

func (f *fixture) foldRows(id trace.RunID) []store.HistorySummary {
	f.t.Helper()
	rows, err := f.store.HistorySummaries(context.Background(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return rows
}

func (f *fixture) providerCalls(id trace.RunID) []store.ProviderCall {
	f.t.Helper()
	rows, err := store.Collect(f.store.ProviderCalls(context.Background(), id))
	if err != nil {
		f.t.Fatal(err)
	}
	return rows
}

func TestTheOlderPartBecomesAParagraphOnceTheSectionFills(t *testing.T) {
	f := newFixture(t)
	m := f.folds(append(f.pages(4), scripted.Say("done"))...)
	res := f.must(trace.Finished, small)
	if m.summaries() != 1 {
		t.Fatalf("%d summaries were bought, want 1", m.summaries())
	}
	ask := m.asks[0]
	contains(t, "the summary's request", ask.User, "do what is asked", "MARK-1-", "MARK-2-")
	if strings.Contains(ask.User, "MARK-3-") {
		t.Error("the summary covers what stays whole")
	}
	last := lastUser(m.Model)
	contains(t, "the request after the fold", last, "SUMMARY-1", "MARK-3-", "MARK-4-")
	if strings.Contains(last, "MARK-1-") || strings.Contains(last, "MARK-2-") {
		t.Error("what was folded is still shown")
	}
	rows := f.foldRows(res.RunID)
	if len(rows) != 1 || rows[0].Folded != 2 || rows[0].ThroughStep != 2 || rows[0].Step != 5 || rows[0].Before < 1600 || rows[0].After >= rows[0].Before || rows[0].Tokens != 120 {
		t.Errorf("stored folds: %+v", rows)
	}
	steps := f.steps(res.RunID)
	if got := steps[4].Tokens; got != 240 {
		t.Errorf("the step that folded draws %d tokens, want its completion and its fold: 240", got)
	}
	var purposes []store.Purpose
	for _, c := range f.providerCalls(res.RunID) {
		purposes = append(purposes, c.Purpose)
	}
	want := []store.Purpose{store.ForStep, store.ForStep, store.ForStep, store.ForStep, store.ForFold, store.ForStep}
	if !slices.Equal(purposes, want) {
		t.Errorf("completions were bought for %v, want %v", purposes, want)
	}
	if f.seen.count("compacted") != 1 {
		t.Errorf("events: %v", f.seen.kinds())
	}
	obs, err := store.Collect(f.store.Observations(context.Background(), res.RunID))
	if err != nil || !strings.Contains(obs[0].Text, "MARK-1-") {
		t.Errorf("what was folded left the store: %v", err)
	}
}

func TestNothingIsFoldedWhenItIsOffOrShort(t *testing.T) {
	for _, tc := range []struct {
		name   string
		pages  int
		change func(*task.Contract)
	}{
		{"off", 8, func(c *task.Contract) { small(c); c.Compaction.Share = task.NoCompaction }},
		{"short", 2, small},
		{"by default a short run never", 4, func(*task.Contract) {}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.folds(append(f.pages(tc.pages), scripted.Say("done"))...)
			res := f.must(trace.Finished, tc.change)
			if m.summaries() != 0 || len(f.foldRows(res.RunID)) != 0 || f.seen.count("compacted") != 0 {
				t.Errorf("%d summaries, rows %v", m.summaries(), f.foldRows(res.RunID))
			}
		})
	}
}

func TestTwoFoldsUseTwoParagraphs(t *testing.T) {
	f := newFixture(t)
	m := f.folds(append(f.pages(9), scripted.Say("done"))...)
	res := f.must(trace.Finished, small)
	rows := f.foldRows(res.RunID)
	if len(rows) < 2 || len(rows) != m.summaries() {
		t.Fatalf("%d folds of %d summaries, want at least two", len(rows), m.summaries())
	}
	contains(t, "the second summary's request", m.asks[1].User, "SUMMARY-1")
	last := lastUser(m.Model)
	contains(t, "the last request", last, fmt.Sprintf("SUMMARY-%d", len(rows)))
	if strings.Contains(last, "SUMMARY-1:") {
		t.Error("the first paragraph is still shown")
	}
	for i := 1; i < len(rows); i++ {
		if rows[i].Folded <= rows[i-1].Folded {
			t.Errorf("fold %d reaches to entry %d, the one before to %d", i, rows[i].Folded, rows[i-1].Folded)
		}
	}
}

func TestAFoldIsNeverBoughtTwice(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f := newFixture(t)
	m := f.folds(f.pages(4)...)
	m.Push(func(context.Context, *provider.Request) (*provider.Response, error) {
		cancel() // dies between the fold and the commit of its step
		return nil, context.Canceled
	})
	res, err := Run(ctx, f.host, f.contract(small), nil)
	if !errors.Is(err, context.Canceled) || m.summaries() != 1 || len(f.foldRows(res.RunID)) != 1 {
		t.Fatalf("%v with %d summaries and folds %+v", err, m.summaries(), f.foldRows(res.RunID))
	}
	m.Push(readCall("a"), scripted.Say("done"))
	back, err := f.resume(res.RunID, Resumption{})
	if err != nil || back.Outcome.Kind != trace.Finished {
		t.Fatalf("%v, %v", back.Outcome, err)
	}
	if m.summaries() != 1 {
		t.Errorf("%d summaries: the fold was bought again", m.summaries())
	}

	g := newFixture(t)
	mg := g.folds(append(g.pages(4), readCall("a"), scripted.Say("done"))...)
	whole := g.must(trace.Finished, small)
	if diff := cmp.Diff(g.canonical(whole.RunID), f.canonical(res.RunID)); diff != "" {
		t.Errorf("an interrupted run differs from a whole one (-whole +interrupted):\n%s", diff)
	}
	if a, b := g.info(whole.RunID).Tokens, f.info(res.RunID).Tokens; a != b {
		t.Errorf("the interrupted run draws %d tokens, the whole one %d", b, a)
	}
	if a, b := lastUser(mg.Model), lastUser(m.Model); a != b {
		t.Errorf("the last request differs:\n%s", cmp.Diff(a, b))
	}
}

func TestWhatAPersonSaidSurvivesTwoFolds(t *testing.T) {
	f := newFixture(t)
	m := f.folds(append(f.pages(9), scripted.Say("done"))...)
	const said = "never touch the folder billing"
	inbox := &said1{at: 2, text: said}
	f.host.Inbox = inbox
	res := f.must(trace.Finished, small)
	if len(f.foldRows(res.RunID)) < 2 {
		t.Fatalf("folds: %+v", f.foldRows(res.RunID))
	}
	for i, r := range m.Requests()[1:] {
		if n := strings.Count(r.User, said); n != 1 {
			t.Errorf("the request of step %d has the words %d times", i+2, n)
		}
	}
	for _, a := range m.asks {
		if strings.Contains(a.User, said) {
			t.Error("the summariser was given the operator's words to rewrite")
		}
	}
}

func TestAnEmptySummaryFoldsNothingAndIsNotAskedForAgainAtOnce(t *testing.T) {
	f := newFixture(t)
	m := f.folds(append(f.pages(6), scripted.Say("done"))...)
	m.summary = func(int) scripted.Turn { return scripted.Say("  ") }
	res := f.must(trace.Finished, small)
	if len(f.foldRows(res.RunID)) != 0 || f.seen.count("compacted") != 0 {
		t.Error("nothing came of the summary, and something was folded")
	}
	if n := m.summaries(); n != 2 {
		t.Errorf("%d summaries: want one at the threshold, and one when the ledger had grown by half", n)
	}
	var spent int64
	for _, c := range f.providerCalls(res.RunID) {
		spent += c.Usage.TotalTokens
	}
	if got := f.info(res.RunID).Tokens; got != spent {
		t.Errorf("the run draws %d tokens of %d that were used", got, spent)
	}
}

func TestFoldsThatGainNothingAreBounded(t *testing.T) {
	f := newFixture(t)
	var turns []scripted.Turn
	for i := 0; i < 8; i++ {
		turns = append(turns, readCall(f.page(i)))
	}
	for i := 0; i < 30; i++ {
		name := fmt.Sprintf("note%d.txt", i)
		f.write(name, strings.Repeat("y", 150)+"\n")
		turns = append(turns, readCall(name))
	}
	m := f.folds(append(turns, scripted.Say("done"))...)
	// What must stay is larger than the threshold by itself.
	f.must(trace.Finished, small, func(c *task.Contract) { c.Compaction.Keep = 8 })
	if n := m.summaries(); n > 3 {
		t.Errorf("%d summaries were bought in 38 steps, want at most 3", n)
	}
	var paid int64
	for _, c := range f.providerCalls(1) {
		if c.Purpose == store.ForFold {
			paid += c.Usage.TotalTokens
		}
	}
	if want := int64(m.summaries()) * 120; paid != want || paid > 360 {
		t.Errorf("the folds of 38 steps cost %d tokens, want %d and at most 360", paid, want)
	}
	for _, s := range f.foldRows(1) {
		t.Logf("step %d: %d tokens became %d", s.Step, s.Before, s.After)
	}
}

// A paragraph that is longer than what it stands for makes nothing smaller, and is
// not asked for again at every step.
func TestASummaryLongerThanWhatItReplacesIsBoughtOnce(t *testing.T) {
	f := newFixture(t)
	turns := f.pages(6)
	for i := range 20 {
		name := fmt.Sprintf("note%d.txt", i)
		f.write(name, "short\n")
		turns = append(turns, readCall(name))
	}
	m := f.folds(append(turns, scripted.Say("done"))...)
	m.summary = func(int) scripted.Turn { return scripted.Say(strings.Repeat("a long story. ", 900)) }
	f.must(trace.Finished, small)
	if n := m.summaries(); n == 0 || n > 4 {
		t.Errorf("%d summaries were bought in 26 steps, want at most 4", n)
	}
	for i, r := range m.Requests() {
		if len(r.User) > 30_000 {
			t.Errorf("request %d has %d bytes in a section of 2,000 tokens", i+1, len(r.User))
		}
	}
	for _, e := range facts[trace.Compacted](f.seen) {
		if e.BeforeTokens == 0 || e.AfterTokens == 0 {
			t.Errorf("the event says %+v", e)
		}
	}
}

var tooLong = scripted.FailKind(provider.ContextOverflow, "the prompt is too long")

func TestARequestThatOutgrewTheWindowIsMadeSmallerOnce(t *testing.T) {
	for _, tc := range []struct {
		name      string
		pages     int
		again     []scripted.Turn
		change    func(*task.Contract)
		outcome   trace.OutcomeKind
		summaries int
		asks      int // completions of the step that overflowed
	}{
		{"by a fold", 3, []scripted.Turn{scripted.Say("done")}, small, trace.Finished, 1, 2},
		{"by half the room, when there is nothing to fold", 1, []scripted.Turn{scripted.Say("done")}, small, trace.Finished, 0, 2},
		{"and a second time it is given up", 3, []scripted.Turn{tooLong, scripted.Say("never asked")}, small, trace.EscalatedTerminal, 1, 2},
		{"and never when folding is off", 3, []scripted.Turn{scripted.Say("never asked")},
			func(c *task.Contract) { small(c); c.Compaction.Share = task.NoCompaction }, trace.EscalatedTerminal, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.note(f.dir, "k", "v")
			m := f.folds(append(append(f.pages(tc.pages), tooLong), tc.again...)...)
			res, err := f.run(tc.change)
			if res.Outcome.Kind != tc.outcome || (err != nil) != (tc.outcome != trace.Finished) {
				t.Fatalf("%s, %v; want %s", res.Outcome, err, tc.outcome)
			}
			if m.summaries() != tc.summaries {
				t.Errorf("%d summaries, want %d", m.summaries(), tc.summaries)
			}
			reqs := m.Requests()[tc.pages:]
			if len(reqs) != tc.asks {
				t.Fatalf("%d completions of the step, want %d", len(reqs), tc.asks)
			}
			if len(reqs) == 2 && len(reqs[1].User) >= len(reqs[0].User) && tc.pages > 1 {
				t.Errorf("asked again with %d bytes after %d", len(reqs[1].User), len(reqs[0].User))
			}
			attempts, err := store.Collect(f.store.StepAttempts(context.Background(), res.RunID))
			if err != nil {
				t.Fatal(err)
			}
			compacting := 0
			for _, a := range attempts {
				if a.Kind == store.AttemptCompacting {
					compacting++
				}
			}
			if compacting != tc.asks-1 {
				t.Errorf("attempts: %+v", attempts)
			}
			for _, kind := range []string{"assembled", "memory_recall"} {
				for i, row := range f.contextKinds(res.RunID, kind) {
					if !strings.HasPrefix(row, fmt.Sprintf("%d ", i+1)) {
						t.Errorf("row %d of kind %s is %q: want one for each step", i, kind, row)
					}
				}
				if n := len(f.contextKinds(res.RunID, kind)); n != tc.pages+1 {
					t.Errorf("%d rows %s for %d steps", n, kind, tc.pages+1)
				}
			}
		})
	}
}

func TestThePrefixIsMarkedOnceItHasBeenSentBefore(t *testing.T) {
	f := newFixture(t)
	m := f.folds(append(f.pages(4), readCall("a"), readCall("b"), scripted.Say("done"))...)
	f.must(trace.Finished, small)
	var marked []int
	for i, r := range m.Requests() {
		if r.CacheBoundary > 0 {
			marked = append(marked, i+1)
			if strings.Contains(r.User[:r.CacheBoundary], "SUMMARY-1") != (i > 4) || r.CacheThrough != len(r.Messages)-1 {
				t.Errorf("step %d: boundary %d, through %d of %d messages", i+1, r.CacheBoundary, r.CacheThrough, len(r.Messages))
			}
		}
	}
	if !slices.Equal(marked, []int{3, 4, 6, 7}) {
		t.Errorf("steps %v are marked; 3 and 4 repeat the request before them, the fold is at 5, and 6 and 7 repeat what it left", marked)
	}
	if f.seen.count("cache_marked") != 2 {
		t.Errorf("events: %v", f.seen.kinds())
	}
}

func TestAFailingSummariserEndsTheRunAsAnyFailureDoes(t *testing.T) {
	f := newFixture(t)
	m := f.folds(append(f.pages(4), scripted.Say("never asked"))...)
	m.summary = func(int) scripted.Turn { return scripted.FailKind(provider.Server, "down") }
	res, err := f.run(small, quick)
	if err == nil || res.Outcome.Kind != trace.EscalatedRetryable || res.Outcome.Steps != 4 {
		t.Fatalf("%s, %v", res.Outcome, err)
	}
	if m.summaries() != 3 {
		t.Errorf("%d attempts, want the first and two retries", m.summaries())
	}
}

func TestASummaryThatDoesNotFitLeavesTheStepAsItIs(t *testing.T) {
	f := newFixture(t)
	m := f.folds(append(f.pages(4), scripted.Say("done"))...)
	m.summary = func(int) scripted.Turn { return tooLong }
	f.must(trace.Finished, small)
	if m.summaries() != 1 {
		t.Errorf("%d attempts", m.summaries())
	}
}

// said1 is an operator who says one thing at one boundary.
type said1 struct {
	at   int // the boundary, from 1
	text string
	n    int
}

func (s *said1) Pending() Steering {
	if s.n++; s.n == s.at {
		return Steering{Messages: []store.Said{{Text: s.text}}}
	}
	return Steering{}
}

func (s *said1) Attach(int, func(store.Said)) {}

func (s *said1) Unread() []store.Said { return nil }

func (s *said1) Interrupted(When) bool   { return false }
func (s *said1) AtOnce() <-chan struct{} { return nil }
