package harness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/anthropic"
	"github.com/initorigin/io-harness-go/provider/compatible"
	"github.com/initorigin/io-harness-go/provider/openai"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// wireKey is the credential of every client of these tests.
const wireKey = "sk-canary-wire-7f3a9c"

// A wire is one vendor's protocol: how to ask it, what it streams, and what it
// demands of a body.
type wire struct {
	name   string
	client func(t testing.TB, v *testkit.Vendor) provider.Provider
	say    func(text string) testkit.Reply
	call   func(calls ...testkit.VendorCall) testkit.Reply
	check  func(body string) error
	inside testkit.Reply // an error inside a success
	end    int           // the events at the end without which an answer is not whole
}

const wireModel = "claude-sonnet-4" // any name; one that the Messages client knows

func wires() []wire {
	key := provider.NewSecret(wireKey)
	chatSay := func(text string) testkit.Reply { return testkit.ChatText(wireModel, text) }
	chatCall := func(calls ...testkit.VendorCall) testkit.Reply { return testkit.ChatCalls(wireModel, calls...) }
	chatInside := testkit.Stream(`{"error":{"code":502,"message":"worker gone"},"choices":[]}`)
	return []wire{
		{"compatible", func(t testing.TB, v *testkit.Vendor) provider.Provider {
			return clientOf(t)(compatible.New(compatible.Config{BaseURL: v.URL, Key: key, Model: wireModel, Transport: v.Transport()}))
		}, chatSay, chatCall, testkit.CheckChat, chatInside, 3},
		{"openai", func(t testing.TB, v *testkit.Vendor) provider.Provider {
			return clientOf(t)(openai.New(openai.Config{BaseURL: v.URL, Key: key, Model: wireModel, Transport: v.Transport()}))
		}, chatSay, chatCall, testkit.CheckChat, chatInside, 3},
		{"anthropic", func(t testing.TB, v *testkit.Vendor) provider.Provider {
			return clientOf(t)(anthropic.New(anthropic.Config{BaseURL: v.URL, Key: key, Model: wireModel, Transport: v.Transport()}))
		},
			func(text string) testkit.Reply { return testkit.AnthropicText(wireModel, text) },
			func(calls ...testkit.VendorCall) testkit.Reply { return testkit.AnthropicCalls(wireModel, calls...) },
			func(body string) error { return testkit.CheckAnthropic(body, nil) },
			testkit.AnthropicEvents(testkit.AnthropicStart(wireModel), `{"type":"error","error":{"type":"overloaded_error","message":"worker gone"}}`), 2,
		},
		{"responses", func(t testing.TB, v *testkit.Vendor) provider.Provider {
			return clientOf(t)(openai.NewResponses(openai.Config{BaseURL: v.URL, Key: key, Name: "responses", Model: wireModel, Transport: v.Transport()}))
		},
			func(text string) testkit.Reply { return testkit.ResponsesText(wireModel, text) },
			func(calls ...testkit.VendorCall) testkit.Reply {
				return testkit.ResponsesCalls(wireModel, "", calls...)
			},
			func(body string) error { return testkit.CheckResponses(body, nil) },
			testkit.ResponsesEvents(testkit.ResponsesStart(wireModel), `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"worker gone"}}}`), 1,
		},
	}
}

// clientOf fails the test when a client cannot be made.
func clientOf(t testing.TB) func(p provider.Provider, err error) provider.Provider {
	return func(p provider.Provider, err error) provider.Provider {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

// wired is a harness that asks a fake vendor over a real connection.
type wired struct {
	t      *testing.T
	wire   wire
	vendor *testkit.Vendor
	dir    string
	db     string
	store  *store.Store
	h      *harness.Harness
	log    bytes.Buffer // the program's log; read only when nothing runs
	shown  bytes.Buffer // what the printer wrote

	mu     sync.Mutex
	script []testkit.Reply
	onAsk  func(n int) // called when a request has arrived
	events []trace.Event
}

func wireTo(t *testing.T, w wire, script ...testkit.Reply) *wired {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	f := &wired{t: t, wire: w, dir: t.TempDir(), script: script}
	f.db = filepath.Join(t.TempDir(), "runs.db")
	f.vendor = testkit.NewVendorFunc(t, f.answer)
	var err error
	if f.store, err = store.Open(t.Context(), f.db); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.store.Close() })
	f.h = newHarness(t, f.config())
	return f
}

func (f *wired) config() harness.Config {
	printer := trace.Printer(&f.shown)
	return harness.Config{
		Provider: f.wire.client(f.t, f.vendor), Store: f.store, Approver: approve.All,
		Policy: policy.Default().Layer("app").AllowRead("*").AllowWrite("*"),
		Logger: slog.New(slog.NewJSONHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Observer: trace.ObserverFunc(func(ev trace.Event) trace.Flow {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.events = append(f.events, ev)
			return printer.Observe(ev)
		}),
	}
}

// answer holds every request to what a strict vendor demands.
func (f *wired) answer(n int, a testkit.Asked) testkit.Reply {
	if err := f.wire.check(a.Body); err != nil {
		f.t.Errorf("request %d would be refused: %v\n%s", n, err, a.Body)
	}
	if key := a.Header.Get("Authorization") + a.Header.Get("X-Api-Key"); !strings.Contains(key, wireKey) {
		f.t.Errorf("request %d carries the credential %q", n, key)
	}
	if strings.Contains(a.Body, wireKey) {
		f.t.Errorf("request %d has the key in its body", n)
	}
	f.mu.Lock()
	script, onAsk := f.script, f.onAsk
	f.mu.Unlock()
	if onAsk != nil {
		onAsk(n)
	}
	if n >= len(script) {
		f.t.Errorf("the vendor was asked %d times and has %d replies", n+1, len(script))
		return testkit.Status(400, "no reply left")
	}
	return script[n]
}

// more adds replies for a drive to come.
func (f *wired) more(replies ...testkit.Reply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = append(f.script, replies...)
}

func (f *wired) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// contract retries twice and at once.
func (f *wired) contract() task.Contract {
	c := task.New("do what is asked", f.dir)
	c.Budget.Retries = 2
	c.Retry = provider.RetryPolicy{Base: time.Nanosecond, Max: time.Nanosecond}
	return c
}

func (f *wired) run(change ...func(*task.Contract)) (*harness.Result, error) {
	f.t.Helper()
	c := f.contract()
	for _, ch := range change {
		ch(&c)
	}
	return f.h.Run(f.t.Context(), c)
}

// facts are the facts of one kind that were told.
func facts[F trace.Fact](f *wired) []F {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []F
	for _, ev := range f.events {
		if fact, ok := ev.Fact.(F); ok {
			out = append(out, fact)
		}
	}
	return out
}

func (f *wired) calls(id trace.RunID) []store.ProviderCall {
	f.t.Helper()
	rows, err := store.Collect(f.store.ProviderCalls(f.t.Context(), id))
	if err != nil {
		f.t.Fatal(err)
	}
	return rows
}

// failures are the stored words for what became of each attempt, "" for an answer.
func (f *wired) failures(id trace.RunID) []string {
	var out []string
	for _, c := range f.calls(id) {
		out = append(out, c.Failure)
	}
	return out
}

func (f *wired) expect(res *harness.Result, err error, kind trace.OutcomeKind, steps int) {
	f.t.Helper()
	if err != nil || res.Outcome.Kind != kind || res.Outcome.Steps != steps {
		f.t.Fatalf("%s, %v; want %s after %d steps", res.Outcome, err, kind, steps)
	}
}

func vcall(id, name string, args any) testkit.VendorCall {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err) // maps of strings always marshal
	}
	return testkit.VendorCall{ID: id, Name: name, Args: string(b)}
}

func vread(id, path string) testkit.VendorCall {
	return vcall(id, "read_file", map[string]string{"path": path})
}

func vwrite(id, path, text string) testkit.VendorCall {
	return vcall(id, "write_file", map[string]string{"path": path, "content": text})
}

func eachWire(t *testing.T, test func(t *testing.T, w wire)) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) { test(t, w) })
	}
}

func TestATurnWorksOverEveryWire(t *testing.T) {
	eachWire(t, func(t *testing.T, w wire) {
		f := wireTo(t, w,
			w.call(vread("call00001", "a.txt")),
			w.call(vread("call00001", "a.txt"), vread("call00002", "b.txt"), vcall("call00003", "grep", map[string]string{"pattern": "beta"})), // ids come again
			w.call(vwrite("call00001", "c.txt", "gämma 界\n")),
			w.say("c.txt is written — done ✓"),
			w.say("you asked for c.txt"))
		f.write("a.txt", "alpha\n")
		f.write("b.txt", "beta\n")
		s, err := f.h.Open(t.Context(), f.dir)
		if err != nil {
			t.Fatal(err)
		}
		turn, err := s.Turn(t.Context(), "write c.txt")
		if err != nil || turn.Outcome.Kind != trace.Finished || turn.Reply != "c.txt is written — done ✓" {
			t.Fatalf("%+v, %v", turn, err)
		}
		if got, err := os.ReadFile(filepath.Join(f.dir, "c.txt")); err != nil || string(got) != "gämma 界\n" {
			t.Errorf("c.txt is %q, %v", got, err)
		}
		var streamed strings.Builder
		for _, tok := range facts[trace.Token](f) {
			streamed.WriteString(tok.Text)
		}
		if streamed.String() != turn.Reply || len(facts[trace.Token](f)) < 3 {
			t.Errorf("streamed %q in %d pieces", streamed.String(), len(facts[trace.Token](f)))
		}
		asked := f.vendor.Asked()
		for i, a := range asked {
			if !strings.Contains(a.Body, `"stream":true`) {
				t.Errorf("request %d does not stream", i)
			}
		}
		for _, want := range []string{"alpha", "beta", "c.txt"} {
			if !strings.Contains(asked[3].Body, want) {
				t.Errorf("the last request does not show %q", want)
			}
		}
		for i, c := range f.calls(turn.RunID) {
			if c.Model != wireModel || c.Usage == nil || c.Usage.TotalTokens != 18 || c.Failure != "" {
				t.Errorf("row %d: %+v", i, c)
			}
		}
		// The next turn of the conversation, over the same strict vendor.
		if turn, err = s.Turn(t.Context(), "what did I ask for?"); err != nil || turn.Kind != session.Reply || turn.Reply != "you asked for c.txt" {
			t.Fatalf("%+v, %v", turn, err)
		}
	})
}

func TestAVendorThatHangsIsEndedByTheTimeOfTheRun(t *testing.T) {
	eachWire(t, func(t *testing.T, w wire) {
		for name, dead := range map[string]testkit.Reply{
			"before its head":         {Deaf: true},
			"in the middle of a call": {Chunks: w.call(vwrite("call00001", "a.txt", "x")).Chunks[:2], Hang: true},
		} {
			t.Run(name, func(t *testing.T) {
				f := wireTo(t, w, dead)
				res, err := f.run(func(c *task.Contract) { c.Budget.Duration = 300 * time.Millisecond })
				f.expect(res, err, trace.TimeBudgetExceeded, 0)
				if _, err := os.Stat(filepath.Join(f.dir, "a.txt")); err == nil {
					t.Error("half a call was dispatched")
				}
				f.more(w.call(vwrite("call00001", "a.txt", "x")), w.say("done"))
				res, err = f.h.Resume(t.Context(), res.RunID, harness.WithContract(f.contract()))
				f.expect(res, err, trace.Finished, 2)
			})
		}
	})
}

func TestACancelledCompletionLeavesTheRunToBeResumed(t *testing.T) {
	eachWire(t, func(t *testing.T, w wire) {
		f := wireTo(t, w, w.call(vread("call00001", "a.txt")), testkit.Reply{Chunks: w.say("half an answer").Chunks[:3], Hang: true})
		f.write("a.txt", "alpha\n")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f.onAsk = func(n int) {
			if n == 1 {
				cancel()
			}
		}
		res, err := f.h.Run(ctx, f.contract())
		if !errors.Is(err, context.Canceled) || res.Outcome.Kind != "" || res.Outcome.Steps != 1 {
			t.Fatalf("%s, %v", res.Outcome, err)
		}
		if info, err := f.store.Run(t.Context(), res.RunID); err != nil || info.Status != trace.StatusRunning {
			t.Errorf("%+v, %v", info, err)
		}
		rows := f.calls(res.RunID)
		if len(rows) != 2 || rows[1].Failure != "Cancelled" {
			t.Errorf("rows: %+v", rows)
		}
		f.more(w.say("done"))
		res, err = f.h.Resume(t.Context(), res.RunID)
		f.expect(res, err, trace.Finished, 2)
		if n := len(f.vendor.Asked()); n != 3 {
			t.Errorf("the vendor was asked %d times", n)
		}
	})
}

func TestFailuresThatMayHealAreTriedAgain(t *testing.T) {
	eachWire(t, func(t *testing.T, w wire) {
		call := w.call(vwrite("call00001", "a.txt", "once\n"))
		for _, tc := range []struct {
			name string
			bad  testkit.Reply
			word string // of the stored row
		}{
			{"a server error", testkit.Status(500, `{"error":{"message":"oops"}}`), "Server (HTTP 500)"},
			{"overloaded", testkit.Status(529, "busy"), "Server (HTTP 529)"},
			{"a rate limit that says when", testkit.Status(429, "slow down", "Retry-After", "0"), "RateLimited (HTTP 429)"},
			{"a page of HTML with status 200", testkit.Reply{Header: map[string][]string{"Content-Type": {"text/html"}}, Chunks: []testkit.Chunk{{Data: "<!doctype html><p>Sign in"}}}, "Malformed"},
			{"a body of garbage", testkit.Reply{Chunks: []testkit.Chunk{{Data: "data: {\"choi\n\ndata: \x00\xff\xfe]]\n\n"}}}, "Malformed"},
			{"an empty body", testkit.Reply{}, "Malformed"},
			{"a body that is no HTTP", testkit.Reply{Raw: "SSH-2.0-nothing\r\n"}, "Transport"},
			{"an error inside a success", w.inside, "Server"},
			{"a stream cut in the middle of a call", testkit.CutAfter(call, len(call.Chunks)-3), ""},
			{"a stream cut before its end", testkit.CutAfter(call, len(call.Chunks)-w.end), ""},
		} {
			t.Run(tc.name, func(t *testing.T) {
				f := wireTo(t, w, tc.bad, tc.bad, call, w.say("done"))
				res, err := f.run()
				f.expect(res, err, trace.Finished, 2)
				failed := f.failures(res.RunID)
				if len(failed) != 4 || failed[0] == "" || failed[1] != failed[0] || failed[2] != "" || !strings.HasPrefix(failed[0], tc.word) {
					t.Errorf("rows: %q; want two of %q and two answers", failed, tc.word)
				}
				retries := facts[trace.Retry](f)
				if len(retries) != 2 || retries[0].Failure != failed[0] || retries[1].Attempt != 2 {
					t.Errorf("retries: %+v", retries)
				}
				if n := len(facts[trace.ToolCalled](f)); n != 1 {
					t.Errorf("%d calls were dispatched, want the one that came whole", n)
				}
				if edits, err := store.Collect(f.store.Edits(t.Context(), res.RunID)); err != nil || len(edits) != 1 {
					t.Errorf("edits: %+v, %v", edits, err)
				}
			})
			t.Run(tc.name+", for ever", func(t *testing.T) {
				f := wireTo(t, w, tc.bad, tc.bad, tc.bad)
				res, err := f.run()
				pe, ok := provider.AsError(err)
				if !ok || !pe.Retryable() || res.Outcome.Kind != trace.EscalatedRetryable {
					t.Fatalf("%s, %v; want a retryable *provider.Error", res.Outcome, err)
				}
				if len(facts[trace.ToolCalled](f)) != 0 {
					t.Error("something was dispatched")
				}
				again, err := f.h.Resume(t.Context(), res.RunID)
				if err != nil || again.Outcome != res.Outcome || len(f.vendor.Asked()) != 3 {
					t.Errorf("a resume: %s, %v, after %d requests; want the same outcome and no request", again.Outcome, err, len(f.vendor.Asked()))
				}
			})
		}
	})
}

func TestAWaitThatIsTooLongEndsTheAttemptsAtOnce(t *testing.T) {
	eachWire(t, func(t *testing.T, w wire) {
		f := wireTo(t, w, testkit.Status(429, "slow down", "Retry-After", "999999"))
		res, err := f.run()
		if !errors.Is(err, provider.RateLimited) || res.Outcome.Kind != trace.EscalatedRetryable {
			t.Fatalf("%s, %v", res.Outcome, err)
		}
		if len(facts[trace.Retry](f)) != 0 {
			t.Error("a retry was announced")
		}
	})
}

func TestFailuresThatCannotHealAreTriedOnce(t *testing.T) {
	eachWire(t, func(t *testing.T, w wire) {
		for _, tc := range []struct {
			status int
			body   string
			kind   provider.Kind
		}{
			{401, `{"error":{"message":"Incorrect API key provided: ` + wireKey + `"}}`, provider.Auth},
			{403, `{"error":{"message":"not yours"}}`, provider.Auth},
			{402, `{"error":{"message":"no credit"}}`, provider.Quota},
			{400, `{"error":{"message":"unknown parameter"}}`, provider.InvalidRequest},
			{404, "<html>nothing here</html>", provider.InvalidRequest},
		} {
			f := wireTo(t, w, testkit.Status(tc.status, tc.body))
			res, err := f.run()
			if !errors.Is(err, tc.kind) || res.Outcome.Kind != trace.EscalatedTerminal || len(f.vendor.Asked()) != 1 {
				t.Errorf("%d: %s, %v after %d requests; want %s after one", tc.status, res.Outcome, err, len(f.vendor.Asked()), tc.kind)
			}
		}
	})
}

func TestAWrongKeyShowsNowhere(t *testing.T) {
	eachWire(t, func(t *testing.T, w wire) {
		f := wireTo(t, w, testkit.Status(401, `{"error":{"message":"Incorrect API key provided: `+wireKey+`","type":"authentication_error"}}`, "X-Echo", wireKey))
		res, err := f.run()
		if !errors.Is(err, provider.Auth) {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for e := err; e != nil; e = errors.Unwrap(e) {
			fmt.Fprintf(&out, "%v\n%+v\n%#v\n%q\n", e, e, e, e)
		}
		fmt.Fprintf(&out, "%+v %#v\n", res, f.config())
		for _, x := range []any{err, res, f.events} {
			b, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(b)
		}
		canonical, err := f.store.CanonicalTrace(t.Context(), res.RunID)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString(canonical)
		out.Write(f.log.Bytes())
		out.Write(f.shown.Bytes())
		files, err := filepath.Glob(f.db + "*")
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(b)
		}
		if i := bytes.Index(out.Bytes(), []byte(wireKey[3:])); i >= 0 {
			t.Errorf("the key shows: %s", out.Bytes()[max(0, i-200):i+20])
		}
		if f.shown.Len() == 0 || len(f.events) == 0 || canonical == "" || len(files) < 2 {
			t.Error("there was nothing to look at")
		}
	})
}

func TestARequestThatOutgrowsTheVendorsWindowIsFoldedOnce(t *testing.T) {
	eachWire(t, func(t *testing.T, w wire) {
		tooLong := testkit.Status(400, `{"error":{"message":"prompt is too long: 250000 tokens > 200000 maximum"}}`)
		page := strings.Repeat("word ", 400)
		look := func(f *wired) []testkit.Reply {
			var replies []testkit.Reply
			for i := range 4 {
				name := fmt.Sprintf("%d.txt", i)
				f.write(name, page)
				replies = append(replies, w.call(vread("call00001", name)))
			}
			return replies
		}
		keepOne := func(c *task.Contract) { c.Compaction.Keep = 1 }
		t.Run("and then it fits", func(t *testing.T) {
			f := wireTo(t, w)
			f.more(append(look(f), tooLong, w.say("four pages of words were read"), w.say("done"))...)
			res, err := f.run(keepOne)
			f.expect(res, err, trace.Finished, 5)
			asked := f.vendor.Asked()
			if len(facts[trace.Compacted](f)) != 1 || len(asked[6].Body) >= len(asked[4].Body) {
				t.Errorf("%d folds; %d bytes became %d", len(facts[trace.Compacted](f)), len(asked[4].Body), len(asked[6].Body))
			}
		})
		t.Run("and still does not fit", func(t *testing.T) {
			f := wireTo(t, w)
			f.more(append(look(f), tooLong, w.say("four pages of words were read"), tooLong)...)
			res, err := f.run(keepOne)
			if !errors.Is(err, provider.ContextOverflow) || res.Outcome.Kind != trace.EscalatedTerminal || res.Outcome.Steps != 4 {
				t.Errorf("%s, %v", res.Outcome, err)
			}
		})
	})
}

func TestEndingsThatAreNoneAreGoneOnWithOverTheWire(t *testing.T) {
	cut := func(w wire) testkit.Reply {
		if w.name == "anthropic" {
			return testkit.AnthropicEvents(slices.Concat([]string{testkit.AnthropicStart(wireModel),
				`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"half a sen"}}`, `{"type":"content_block_stop","index":0}`},
				testkit.AnthropicEnd("max_tokens"))...)
		}
		if w.name == "responses" {
			return testkit.ResponsesEvents(`{"type":"response.output_text.delta","output_index":0,"delta":"half a sen"}`, testkit.ResponsesEnd(wireModel, "max_output_tokens"))
		}
		return testkit.Stream(`{"model":"m","choices":[{"index":0,"delta":{"content":"half a sen"},"finish_reason":"length"}]}`, "[DONE]")
	}
	eachWire(t, func(t *testing.T, w wire) {
		f := wireTo(t, w, cut(w), w.say("a whole sentence"))
		res, err := f.run()
		f.expect(res, err, trace.Finished, 2)
		if res.Reply != "a whole sentence" {
			t.Errorf("reply %q", res.Reply)
		}
	})
}

func TestArgumentsThatAreNoneDoNotSpoilLaterRequests(t *testing.T) {
	eachWire(t, func(t *testing.T, w wire) {
		f := wireTo(t, w,
			w.call(testkit.VendorCall{ID: "call00001", Name: "read_file", Args: `{"path":"a`}, testkit.VendorCall{ID: "call00002", Name: "no such tool!", Args: "[1]"}),
			w.call(vread("call00001", "a.txt")), w.say("done"))
		f.write("a.txt", "alpha\n")
		res, err := f.run()
		f.expect(res, err, trace.Finished, 3)
	})
}
