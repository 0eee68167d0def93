package loop

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

func TestWhatTheProviderLooksUpIsStatedRecordedAndTold(t *testing.T) {
	web := provider.WebAccess{Search: true, MaxUses: 2, AllowedDomains: []string{"go.dev"}}
	f := newFixture(t)
	m := f.script(
		readCall("a").With(func(r *provider.Response) {
			r.Citations = []provider.Citation{{URL: "https://go.dev/x", Title: "X", Text: "the words"}, {URL: "https://go.dev/x"}, {URL: "https://go.dev/y"}}
			r.ServerTools = []provider.ServerToolCall{{Provider: "vendor", Tool: "web_search"}}
			r.Usage = &provider.Usage{PromptTokens: 10, TotalTokens: 10, ServerToolRequests: 2}
		}),
		readCall("b").With(func(r *provider.Response) {
			r.Citations = []provider.Citation{{URL: "https://go.dev/x"}}
			r.ServerTools = []provider.ServerToolCall{
				{Provider: "vendor", Tool: "web_search", Error: "max_uses_exceeded"}, {Provider: "vendor", Tool: "web_fetch", Error: "unavailable"},
			}
		}),
		scripted.Say("done"))
	res := f.must(trace.Finished, func(c *task.Contract) { c.Web = web })

	reqs := m.Requests()
	for i, r := range reqs {
		if diff := cmp.Diff(web, r.Web); diff != "" {
			t.Errorf("request %d:\n%s", i, diff)
		}
	}
	if strings.Contains(reqs[1].User, "failed]") {
		t.Errorf("a search that ran says nothing to the model:\n%s", reqs[1].User)
	}
	contains(t, "the request after two failures", reqs[2].User, "[web_search failed]", "max_uses_exceeded", "[web_fetch failed]", "unavailable")
	if obs, err := store.Collect(f.store.Observations(context.Background(), res.RunID)); err != nil {
		t.Fatal(err)
	} else {
		told := 0
		for _, o := range obs {
			if strings.Contains(o.Text, "failed]") {
				told++
				if o.Kind != trace.ObsMessage || o.CallID != "" {
					t.Errorf("told as %+v", o)
				}
			}
		}
		if told != 1 {
			t.Errorf("the two failures of one step are %d observations, want 1", told)
		}
	}
	var used []trace.Fact
	for _, ev := range f.seen.all {
		if u, ok := ev.Fact.(trace.ServerToolUsed); ok {
			used = append(used, u)
		}
	}
	if diff := cmp.Diff([]trace.Fact{
		trace.ServerToolUsed{Provider: "vendor", Tool: "web_search", OK: true},
		trace.ServerToolUsed{Provider: "vendor", Tool: "web_search"}, trace.ServerToolUsed{Provider: "vendor", Tool: "web_fetch"},
	}, used); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	f.citedAfterReopening(res.RunID)
}

// citedAfterReopening reads the rows back through a second handle of the file.
func (f *fixture) citedAfterReopening(id trace.RunID) {
	f.t.Helper()
	ctx := context.Background()
	copied := filepath.Join(f.t.TempDir(), "copy.db")
	if err := f.store.Backup(ctx, copied); err != nil {
		f.t.Fatal(err)
	}
	st, err := store.Open(ctx, copied)
	if err != nil {
		f.t.Fatal(err)
	}
	defer st.Close()
	cites, err := store.Collect(st.Citations(ctx, id))
	if err != nil {
		f.t.Fatal(err)
	}
	want := []store.Citation{
		{Step: 1, URL: "https://go.dev/x", Title: "X", Text: "the words"}, {Ordinal: 1, Step: 1, URL: "https://go.dev/y"},
		{Ordinal: 2, Step: 2, URL: "https://go.dev/x"},
	}
	if diff := cmp.Diff(want, cites, cmpopts.IgnoreFields(store.Citation{}, "At")); diff != "" {
		f.t.Errorf("citations (-want +got):\n%s", diff)
	}
	calls, err := store.Collect(st.ServerToolCalls(ctx, id))
	if err != nil {
		f.t.Fatal(err)
	}
	wantCalls := []store.ServerToolCall{
		{Step: 1, Provider: "vendor", Tool: "web_search"}, {Step: 2, Provider: "vendor", Tool: "web_search", Error: "max_uses_exceeded"},
		{Step: 2, Provider: "vendor", Tool: "web_fetch", Error: "unavailable"},
	}
	if diff := cmp.Diff(wantCalls, calls, cmpopts.IgnoreFields(store.ServerToolCall{}, "At", "ID")); diff != "" {
		f.t.Errorf("calls (-want +got):\n%s", diff)
	}
	prices := provider.PriceTable{}.With("", provider.Price{PerServerToolRequest: 7})
	calls2, err := store.Collect(st.ProviderCalls(ctx, id))
	if err != nil {
		f.t.Fatal(err)
	}
	for i, want := range []int64{14, 0} {
		if cost, ok := prices.CostMicros("", *calls2[i].Usage); !ok || cost != want {
			f.t.Errorf("completion %d costs %d, want %d: each request of the provider's own tools is billed", i, cost, want)
		}
	}
}

func TestARunWithoutWebStatesNone(t *testing.T) {
	f := newFixture(t)
	m := f.script(scripted.Say("done"))
	f.must(trace.Finished)
	if w := m.Requests()[0].Web; w.Enabled() || w.MaxUses != 0 {
		t.Errorf("%+v", w)
	}
}

func TestAPausedTurnOfTheProviderIsGoneOnWith(t *testing.T) {
	f := newFixture(t)
	m := f.script(scripted.Say("looking").Finishing("pause_turn"), scripted.Say("found"))
	res := f.must(trace.Finished, func(c *task.Contract) { c.Web.Search = true })
	if res.Reply != "found" || res.Outcome.Steps != 2 || len(m.Requests()) != 2 {
		t.Errorf("%s %q after %d completions", res.Outcome, res.Reply, len(m.Requests()))
	}
	calls, err := store.Collect(f.store.ProviderCalls(context.Background(), res.RunID))
	if err != nil || len(calls) != 2 || f.info(res.RunID).Tokens != 240 {
		t.Errorf("both completions are billed: %+v, %v", calls, err)
	}
}
