package record_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/fallback"
	"github.com/initorigin/io-harness-go/provider/record"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

func ask(user string) *provider.Request {
	return &provider.Request{System: []string{"sys"}, User: user, Tools: []provider.ToolSpec{{Name: "t", Description: "d", Schema: []byte(`{"type":"object"}`)}}}
}

// replay records the answers of m to reqs and opens the recording.
func replay(t *testing.T, m provider.Provider, reqs ...*provider.Request) *record.Replayer {
	t.Helper()
	rec := record.New(m)
	for _, r := range reqs {
		_, _ = rec.Complete(context.Background(), r, provider.Sink{})
	}
	path := filepath.Join(t.TempDir(), "r.json")
	if err := rec.Save(path); err != nil {
		t.Fatal(err)
	}
	rep, err := record.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func text(t *testing.T, p provider.Provider, ctx context.Context, r *provider.Request) string {
	t.Helper()
	resp, err := p.Complete(ctx, r, provider.Sink{})
	if err != nil {
		t.Fatal(err)
	}
	return resp.Text
}

func TestRoundTripKeepsEveryValue(t *testing.T) {
	full := &provider.Response{
		Text: "a <b> & \"c\" \u2028 é 🙂", Reasoning: "hm",
		Calls: []provider.ToolCall{{ID: "call_0", Name: "grep", Arguments: []byte(`{"pattern":"a | b","n":9007199254740993}`)},
			{ID: "call_1", Name: "bad", Arguments: []byte(`{}`), ArgumentsError: "was cut"}},
		Usage: &provider.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 4, CacheReadTokens: 5, CacheWriteTokens: 6, ReasoningTokens: 7, ServerToolRequests: 8},
		Model: "m", FinishReason: "tool_calls", Finish: provider.FinishToolCalls, TTFT: 7 * time.Millisecond, ServedBy: "leaf",
		Citations:   []provider.Citation{{URL: "https://a/", Title: "A", Text: "q"}},
		ServerTools: []provider.ServerToolCall{{Provider: "v", Tool: "web_search", Error: "x"}},
		Carry:       []byte(`{"wire":"chat","x":["<a>  b"]}`),
	}
	m := scripted.New(scripted.Respond(full))
	rep := replay(t, m, ask("q"))
	got, err := rep.Complete(context.Background(), ask("q"), provider.Sink{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(full, got); d != "" {
		t.Errorf("replayed (-recorded +replayed):\n%s", d)
	}
}

func TestArgumentsComeBackCompact(t *testing.T) {
	rep := replay(t, scripted.New(scripted.Call("t", `{"a":{"b":[1,2]},"s":"x  y"}`)), ask("q"))
	got, err := rep.Complete(context.Background(), ask("q"), provider.Sink{})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"a":{"b":[1,2]},"s":"x  y"}`; string(got.Calls[0].Arguments) != want {
		t.Errorf("arguments = %s, want %s", got.Calls[0].Arguments, want)
	}
}

func TestAnswersFollowTheQuestionNotACounter(t *testing.T) {
	m := scripted.New(scripted.Say("a1"), scripted.Say("b1"), scripted.Say("a2"), scripted.Say("c1"))
	rep := replay(t, m, ask("a"), ask("b"), ask("a"), ask("c"))
	ctx := context.Background()
	var got []string
	for _, q := range []string{"c", "a", "a", "b", "a", "a", "b", "a"} {
		got = append(got, text(t, rep, ctx, ask(q)))
	}
	want := []string{"c1", "a1", "a1", "b1", "a2", "a2", "b1", "a2"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("answers (-want +got):\n%s", d)
	}
	if rep.Unserved() != 0 {
		t.Errorf("%d unserved, want 0", rep.Unserved())
	}
}

func TestScopesKeepTheirOwnPlace(t *testing.T) {
	m := scripted.New(scripted.Say("a1"), scripted.Say("b1"), scripted.Say("a2"))
	rep := replay(t, m, ask("a"), ask("b"), ask("a"))
	one, two := provider.WithScope(context.Background(), "1"), provider.WithScope(context.Background(), "2")
	var got []string
	got = append(got, text(t, rep, one, ask("a")), text(t, rep, two, ask("b")), text(t, rep, one, ask("a")), text(t, rep, two, ask("a")))
	want := []string{"a1", "b1", "a1", "a1"} // the first scope repeats a step, whatever the second does
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("answers (-want +got):\n%s", d)
	}
}

func TestWhatBelongsToTheQuestion(t *testing.T) {
	base := ask("q")
	rep := replay(t, scripted.New(scripted.Say("x")), base)
	img, _ := provider.Image("image/png", []byte("x"))
	for _, tc := range []struct {
		name   string
		change func(*provider.Request)
		same   bool
	}{
		{"nothing", func(*provider.Request) {}, true},
		{"a transcript beside the user text", func(r *provider.Request) { r.Messages = []provider.Message{provider.User("whatever")} }, true},
		{"cache marks", func(r *provider.Request) { r.CacheBoundary, r.CacheThrough = 3, 1 }, true},
		{"order of members in a schema", func(r *provider.Request) { r.Tools[0].Schema = []byte(` { "type" : "object" } `) }, true},
		{"system", func(r *provider.Request) { r.System = []string{"other"} }, false},
		{"user", func(r *provider.Request) { r.User = "other" }, false},
		{"model", func(r *provider.Request) { r.Model = "m" }, false},
		{"effort", func(r *provider.Request) { r.Effort = provider.EffortLow }, false},
		{"tools", func(r *provider.Request) { r.Tools[0].Description = "other" }, false},
		{"web", func(r *provider.Request) { r.Web.Search = true }, false},
		{"media", func(r *provider.Request) { r.Media = []provider.Media{img} }, false},
		{"schema of the answer", func(r *provider.Request) { r.Output = &provider.OutputSchema{Schema: []byte(`{}`)} }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := base.Clone()
			tc.change(r)
			_, err := rep.Complete(context.Background(), r, provider.Sink{})
			if tc.same != (err == nil) {
				t.Errorf("error %v, want a match: %v", err, tc.same)
			}
		})
	}
}

func TestConversationsWithoutAUserTextAreKeyedByTheirMessages(t *testing.T) {
	conversation := func(id, carry, result string) *provider.Request {
		return &provider.Request{Messages: []provider.Message{
			provider.User("do"),
			{Role: provider.RoleAssistant, Calls: []provider.ToolCall{{ID: id, Name: "t", Arguments: []byte(`{}`)}}, Carry: []byte(carry)},
			provider.Results(provider.ToolResult{CallID: id, Content: result}),
		}}
	}
	rep := replay(t, scripted.New(scripted.Say("x")), conversation("c1", `{"a":1}`, "r"))
	if _, err := rep.Complete(context.Background(), conversation("other", `{"b":2}`, "r"), provider.Sink{}); err != nil {
		t.Errorf("other ids and carry: %v, want a match", err)
	}
	if _, err := rep.Complete(context.Background(), conversation("c1", `{"a":1}`, "different"), provider.Sink{}); err == nil {
		t.Error("another result matched")
	}
}

func TestNoToolsAndAnEmptyListOfToolsAreOneQuestion(t *testing.T) {
	rep := replay(t, scripted.New(scripted.Say("x")), &provider.Request{User: "q"})
	if _, err := rep.Complete(context.Background(), &provider.Request{System: []string{}, User: "q", Tools: []provider.ToolSpec{}}, provider.Sink{}); err != nil {
		t.Error(err)
	}
}

func TestUnknownQuestionIsTerminalAndSaysWhat(t *testing.T) {
	rep := replay(t, scripted.New(scripted.Say("x")), ask("q"))
	r := ask(strings.Repeat("é", 200))
	_, err := rep.Complete(context.Background(), r, provider.Sink{})
	e, ok := provider.AsError(err)
	if !ok || e.Kind != provider.InvalidRequest || e.Retryable() || !errors.Is(err, record.ErrNotRecorded) {
		t.Fatalf("error = %v, want a terminal one that wraps ErrNotRecorded", err)
	}
	for _, want := range []string{"3 bytes", "1 tools", "0 messages", strings.Repeat("é", 120) + "..."} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
}

func TestFailuresAreNotRecorded(t *testing.T) {
	rec := record.New(scripted.New(scripted.FailKind(provider.Server, "x"), scripted.Say("ok")))
	if _, err := rec.Complete(context.Background(), ask("q"), provider.Sink{}); !errors.Is(err, provider.Server) {
		t.Fatalf("error = %v, want the inner one", err)
	}
	if rec.Len() != 0 {
		t.Error("a failure was recorded")
	}
}

func TestFilesThatAreNoRecording(t *testing.T) {
	dir := t.TempDir()
	if _, err := record.Open(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v, want os.ErrNotExist", err)
	}
	for _, tc := range []struct{ name, in, say string }{
		{"empty object", `{}`, "not a recording"},
		{"no JSON", `hello`, "not a recording"},
		{"other format", `{"format":7,"exchanges":[]}`, "format 7"},
		{"half an exchange", `{"format":1,"exchanges":[{"request":{}}]}`, "exchange 0"},
		{"null arguments", `{"format":1,"exchanges":[{"request":{},"response":{"tool_calls":[{"name":"a","arguments":null}]}}]}`, "exchange 0"},
		{"wrong type", `{"format":1,"exchanges":3}`, "damaged"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(tc.name, " ", "-"))
			if err := os.WriteFile(path, []byte(tc.in), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := record.Open(path)
			var ce *provider.ConfigError
			if !errors.As(err, &ce) || !strings.Contains(err.Error(), tc.say) {
				t.Errorf("error = %v, want a ConfigError with %q", err, tc.say)
			}
		})
	}
}

func TestSaveIsASnapshotAndPrivate(t *testing.T) {
	rec := record.New(scripted.New(scripted.Say("1"), scripted.Say("2")))
	path := filepath.Join(t.TempDir(), "r.json")
	for n := 1; n <= 2; n++ {
		if _, err := rec.Complete(context.Background(), ask(fmt.Sprint(n)), provider.Sink{}); err != nil {
			t.Fatal(err)
		}
		if err := rec.Save(path); err != nil {
			t.Fatal(err)
		}
		rep, err := record.Open(path)
		if err != nil || rep.Unserved() != n {
			t.Fatalf("after %d: %v, %v", n, rep, err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("directory holds %v, %v; want only the recording", entries, err)
	}
	if runtime.GOOS != "windows" {
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("mode = %v, %v; want 0600", st.Mode(), err)
		}
	}
	if err := rec.Save(filepath.Join(t.TempDir(), "no", "such", "dir", "r.json")); err == nil {
		t.Error("saving into a missing directory succeeded")
	}
}

func TestWrappingChangesNothingThatARunSees(t *testing.T) {
	m := scripted.New(scripted.Call("t", nil).Saying("two words"))
	m.Label, m.Hint, m.Blind = "vendor", "claude-x", true
	rec := record.New(m)
	if rec.Name() != "vendor" || provider.ModelHint(rec) != "claude-x" || provider.AcceptsImages(rec) || provider.PromptFamily(rec) != provider.FamilyAnthropic {
		t.Errorf("recorder = %s, %s, %v, %s", rec.Name(), provider.ModelHint(rec), provider.AcceptsImages(rec), provider.PromptFamily(rec))
	}
	deltas := 0
	if _, err := rec.Complete(context.Background(), ask("q"), provider.Sink{
		Token: func(string) { deltas++ },
		Call:  func(int, provider.ToolCall) { t.Error("a call was reported early") },
	}); err != nil {
		t.Fatal(err)
	}
	if deltas < 2 {
		t.Errorf("%d deltas, want the inner stream", deltas)
	}
	path := filepath.Join(t.TempDir(), "r")
	if err := rec.Save(path); err != nil {
		t.Fatal(err)
	}
	rep, err := record.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Name() != "replay" || rep.Endpoints() != nil || provider.ModelHint(rep) != "claude-x" || provider.PromptFamily(rep) != provider.FamilyAnthropic || !provider.AcceptsImages(rep) {
		t.Errorf("replayer = %s, %v, %s, %s", rep.Name(), rep.Endpoints(), provider.ModelHint(rep), provider.PromptFamily(rep))
	}
	var streamed string
	if _, err := rep.Complete(context.Background(), ask("q"), provider.Sink{Token: func(s string) { streamed += s }}); err != nil || streamed != "two words" {
		t.Errorf("replayed stream %q, %v", streamed, err)
	}
}

func TestRecordingFromManyAgents(t *testing.T) {
	rec := record.New(scripted.Func(func(_ context.Context, r *provider.Request) (*provider.Response, error) {
		return &provider.Response{Text: "re " + r.User}, nil
	}))
	path := filepath.Join(t.TempDir(), "r")
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if _, err := rec.Complete(context.Background(), ask(fmt.Sprint(i)), provider.Sink{}); err != nil {
				t.Error(err)
			}
			if err := rec.Save(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := rec.Save(path); err != nil {
		t.Fatal(err)
	}
	rep, err := record.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		wg.Go(func() {
			resp, err := rep.Complete(context.Background(), ask(fmt.Sprint(i)), provider.Sink{})
			if err != nil || resp.Text != fmt.Sprintf("re %d", i) {
				t.Errorf("question %d: %v, %v", i, resp, err)
			}
		})
	}
	wg.Wait()
}

func TestEndedContext(t *testing.T) {
	rep := replay(t, scripted.New(scripted.Say("x")), ask("q"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := rep.Complete(ctx, ask("q"), provider.Sink{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"format":1,"provider":{},"exchanges":[{"request":{"system":["a"],"user":"q","tools":[]},"response":{"text":"x","tool_calls":[{"name":"a","arguments":{}}],"usage":null}}]}`))
	f.Add([]byte(`{"format":1,"exchanges":[{"request":{"messages":[{"role":"tool","results":[{"call_id":"x"}]}],"tools":[{"parameters":1}]},"response":{}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		rep, err := record.Parse(b)
		if err != nil {
			return
		}
		_, _ = rep.Complete(context.Background(), ask("q"), provider.Sink{})
	})
}

func TestAReplayerNamesTheModelsThatTheChainCouldEndAt(t *testing.T) {
	a, b := scripted.New(scripted.Say("1"), scripted.Say("2")), scripted.New()
	a.Label, a.Hint, b.Label, b.Hint = "a", "a-model", "b", "b-model"
	chain, err := fallback.Of(fallback.Link{Provider: a}, fallback.Link{Provider: b, Models: map[string]string{"large": "b-large"}})
	if err != nil {
		t.Fatal(err)
	}
	large := ask("q2")
	large.Model = "large"
	rep := replay(t, chain, ask("q"), large)
	for asked, want := range map[string][]string{"": {"a-model", "b-model"}, "large": {"large", "b-large"}, "never asked": {"never asked"}} {
		if d := cmp.Diff(want, provider.ModelNames(rep, asked)); d != "" {
			t.Errorf("%q (-want +got):\n%s", asked, d)
		}
	}
}

// mute breaks the contract of a provider: it returns nothing at all.
type mute struct{ provider.Provider }

func (mute) Complete(context.Context, *provider.Request, provider.Sink) (*provider.Response, error) {
	return nil, nil
}

func TestAnAnswerThatIsNoneIsNotRecorded(t *testing.T) {
	rec := record.New(mute{scripted.New()})
	if resp, err := rec.Complete(context.Background(), ask("a"), provider.Sink{}); resp != nil || err != nil || rec.Len() != 0 {
		t.Errorf("got %v, %v, and %d exchanges; want nothing", resp, err, rec.Len())
	}
}
