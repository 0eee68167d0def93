package harness_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/fallback"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// searched is an answer of the Messages API in which the vendor searched, and
// then called a tool. result is the content of the search's result.
func searched(result string) testkit.Reply {
	return testkit.AnthropicEvents(slices.Concat([]string{
		testkit.AnthropicStart(wireModel),
		`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":` + result + `}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"list_dir","input":{}}}`,
		`{"type":"content_block_stop","index":2}`,
	}, testkit.AnthropicEnd("tool_use"))...)
}

func TestASearchOfTheVendorIsOnRecordAndAFailedOneIsTold(t *testing.T) {
	w := wires()[2]
	f := wireTo(t, w,
		searched(`[{"type":"web_search_result","url":"https://go.dev/doc","title":"Documentation","encrypted_content":"x"}]`),
		searched(`[]`), // found nothing, which is no failure
		searched(`{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}`),
		w.say("done"))
	allowed, blocked, err := policy.Default().Layer("web").AllowNet("go.dev:443", "pkg.go.dev").DomainFilter()
	if err != nil {
		t.Fatal(err)
	}
	res, err := f.run(func(c *task.Contract) {
		c.Web = provider.WebAccess{Search: true, MaxUses: 2, AllowedDomains: allowed, BlockedDomains: blocked}
		c.Stall.Window = -1
	})
	f.expect(res, err, trace.Finished, 4)
	asked := f.vendor.Asked()
	for i, a := range asked {
		tool := gjson.Get(a.Body, `tools.#(name=="web_search")`)
		if tool.Get("max_uses").Int() != 2 || tool.Get("allowed_domains").Raw != `["go.dev","pkg.go.dev"]` || tool.Get("blocked_domains").Exists() {
			t.Errorf("request %d declares %s", i+1, tool.Raw)
		}
		if told := strings.Contains(a.Body, "web_search failed"); told != (i == 3) {
			t.Errorf("request %d tells of a failed search: %v", i+1, told)
		}
	}
	if !strings.Contains(asked[3].Body, "max_uses_exceeded") {
		t.Error("the model is not told why")
	}
	var ok []bool
	for _, u := range facts[trace.ServerToolUsed](f) {
		ok = append(ok, u.OK)
	}
	if !slices.Equal(ok, []bool{true, true, false}) {
		t.Errorf("events: %v", ok)
	}
	calls, err := store.Collect(f.store.ServerToolCalls(t.Context(), res.RunID))
	if err != nil || len(calls) != 3 || calls[2].Error != "max_uses_exceeded" || calls[0].Tool != "web_search" {
		t.Errorf("%+v, %v", calls, err)
	}
	cites, err := store.Collect(f.store.Citations(t.Context(), res.RunID))
	if err != nil || len(cites) != 1 || cites[0].URL != "https://go.dev/doc" || cites[0].Title != "Documentation" {
		t.Errorf("%+v, %v", cites, err)
	}
}

// pausing is an answer in which the vendor searched, said something and paused.
// half leaves its second search without a result.
func pausing(text, id string, half bool) testkit.Reply {
	events := []string{
		testkit.AnthropicStart(wireModel),
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + text + `"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"` + id + `","name":"web_search","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"` + id + `\"}"}}`,
	}
	if !half {
		events = append(events, `{"type":"content_block_start","index":2,"content_block":{"type":"web_search_tool_result","tool_use_id":"`+id+`","content":[{"type":"web_search_result","url":"https://go.dev/`+id+`","encrypted_content":"E`+id+`"}]}}`)
	}
	return testkit.AnthropicEvents(append(events, testkit.AnthropicEnd("pause_turn")...)...)
}

func TestARunGoesOnWithATurnThatTheVendorPaused(t *testing.T) {
	web := func(c *task.Contract) { c.Web = provider.WebAccess{Search: true} }
	w := wires()[2]
	last := func(a testkit.Asked) gjson.Result {
		messages := gjson.Get(a.Body, "messages").Array()
		return messages[len(messages)-1]
	}
	t.Run("twice in a row", func(t *testing.T) {
		f := wireTo(t, w, pausing("one ", "s1", false), pausing("two ", "s2", true), w.say("three"))
		res, err := f.run(web)
		f.expect(res, err, trace.Finished, 3)
		asked := f.vendor.Asked()
		first := `{"type":"text","text":"one "},{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"s1"}},{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","url":"https://go.dev/s1","encrypted_content":"Es1"}]}`
		if m := last(asked[1]); m.Get("role").Str != "assistant" || m.Get("content").Raw != "["+first+"]" {
			t.Errorf("the second request ends with %s", m.Raw)
		}
		second := first + `,{"type":"text","text":"two "},{"type":"server_tool_use","id":"s2","name":"web_search","input":{"query":"s2"}}`
		if m := last(asked[2]); m.Get("role").Str != "assistant" || m.Get("content").Raw != "["+second+"]" {
			t.Errorf("the third request ends with %s", m.Raw)
		}
		if res.Reply != "one two three" {
			t.Errorf("reply %q, want the whole turn", res.Reply)
		}
		if rows := f.calls(res.RunID); len(rows) != 3 {
			t.Errorf("%d rows of calls, want one for each completion", len(rows))
		}
	})
	t.Run("with pictures of the contract", func(t *testing.T) {
		f := wireTo(t, w, pausing("one ", "s1", true), w.say("two"))
		picture, err := provider.Image("image/png", []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := f.run(web, func(c *task.Contract) { c.Images = []provider.Media{picture} })
		f.expect(res, err, trace.Finished, 2)
		if m := last(f.vendor.Asked()[1]); m.Get("role").Str != "assistant" || !strings.Contains(f.vendor.Asked()[1].Body, `"type":"image"`) {
			t.Errorf("the second request ends with %s", m.Raw)
		}
	})
	t.Run("and a call behind it", func(t *testing.T) {
		f := wireTo(t, w, pausing("one ", "s1", true), w.call(vread("toolu_1", "a.txt")), w.say("done"))
		res, err := f.run(web)
		f.expect(res, err, trace.Finished, 3)
		if res.Reply != "done" {
			t.Errorf("reply %q", res.Reply)
		}
	})
	t.Run("in another process", func(t *testing.T) {
		f := wireTo(t, w, pausing("one ", "s1", true))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f.onAsk = func(n int) {
			if n == 1 {
				cancel()
			}
		}
		f.more(testkit.Reply{Hang: true})
		res, err := f.h.Run(ctx, func() task.Contract { c := f.contract(); web(&c); return c }())
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		f.more(w.say("two"))
		res, err = f.h.Resume(t.Context(), res.RunID)
		f.expect(res, err, trace.Finished, 2)
		if m := last(f.vendor.Asked()[2]); m.Get("role").Str != "assistant" || res.Reply != "one two" {
			t.Errorf("reply %q; the request ends with %s", res.Reply, m.Raw)
		}
	})
}

func TestWebAccessThatAWireCannotStateIsRefusedUnsent(t *testing.T) {
	for _, w := range wires()[:2] {
		for what, web := range map[string]provider.WebAccess{
			"a fetch":      {Fetch: true},
			"a block list": {Search: true, BlockedDomains: []string{"a.com"}},
		} {
			f := wireTo(t, w)
			res, err := f.run(func(c *task.Contract) { c.Web = web })
			var config *provider.ConfigError
			if !errors.As(err, &config) || !strings.Contains(err.Error(), w.name) || res.Outcome.Kind != trace.EscalatedTerminal {
				t.Errorf("%s: %s: %s, %v", w.name, what, res.Outcome, err)
			}
			if n := len(f.vendor.Asked()); n != 0 {
				t.Errorf("%s: %s: %d requests were sent", w.name, what, n)
			}
		}
	}
}

func TestAWaitThatTheVendorAsksForIsKeptAndCanBeCancelled(t *testing.T) {
	w := wires()[0]
	slow := testkit.Status(429, "slow down", "Retry-After", "1")
	t.Run("kept", func(t *testing.T) {
		f := wireTo(t, w, slow, w.say("done"))
		res, err := f.run()
		f.expect(res, err, trace.Finished, 1)
		if r := facts[trace.Retry](f); len(r) != 1 || r[0].DelayMS != 1000 {
			t.Errorf("retries: %+v", r)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		f := wireTo(t, w, testkit.Status(429, "slow down", "Retry-After", "120"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cfg := f.config()
		cfg.Observer = trace.ObserverFunc(func(ev trace.Event) trace.Flow {
			if ev.Kind() == "retry" {
				cancel()
			}
			return trace.Continue
		})
		res, err := newHarness(t, cfg).Run(ctx, f.contract())
		if !errors.Is(err, context.Canceled) || res.Outcome.Kind != "" {
			t.Fatalf("%s, %v", res.Outcome, err)
		}
		f.more(w.say("done"))
		res, err = f.h.Resume(t.Context(), res.RunID)
		f.expect(res, err, trace.Finished, 1)
	})
	t.Run("never past the time of the run", func(t *testing.T) {
		f := wireTo(t, w, testkit.Status(429, "slow down", "Retry-After", "60"))
		res, err := f.run(func(c *task.Contract) { c.Budget.Duration = 10 * time.Second })
		if !errors.Is(err, provider.RateLimited) || res.Outcome.Kind != trace.EscalatedRetryable || len(facts[trace.Retry](f)) != 0 {
			t.Errorf("%s, %v", res.Outcome, err)
		}
	})
}

func TestAChainServesTheStepsThatItsFirstCannot(t *testing.T) {
	w := wires()[0]
	f := wireTo(t, w, w.call(vread("call00001", "a.txt")), w.say("done"))
	f.write("a.txt", "alpha\n")
	down := testkit.NewVendorFunc(t, func(int, testkit.Asked) testkit.Reply { return testkit.Status(503, "down") })
	cfg := f.config()
	chain := clientOf(t)(fallback.New(wires()[2].client(t, down), cfg.Provider))
	cfg.Provider = chain
	res, err := newHarness(t, cfg).Run(t.Context(), f.contract())
	f.expect(res, err, trace.Finished, 2)
	if n := len(down.Asked()); n != 2 {
		t.Errorf("the first was asked %d times, want once for each attempt", n)
	}
	served := facts[trace.FellBackTo](f)
	if len(served) != 2 || served[0].Provider != "compatible" || len(facts[trace.Retry](f)) != 0 {
		t.Errorf("served by %+v after %d retries", served, len(facts[trace.Retry](f)))
	}

	must := f.contract()
	must.Routing.RequirePrimary = true
	_, err = newHarness(t, harness.Config{Provider: chain, Store: f.store}).Run(t.Context(), must)
	var invalid *task.InvalidError
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), chain.Name()) {
		t.Errorf("a chain whose first is down: %v", err)
	}
}
