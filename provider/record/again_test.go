package record_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/record"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

var atOnce = provider.RetryPolicy{Base: time.Nanosecond, Max: time.Nanosecond}

func TestARecordingIsMadeAgain(t *testing.T) {
	old := replay(t, scripted.New(scripted.Say("a1"), scripted.Call("t", `{"n":1}`), scripted.Say("a2")), ask("a"), ask("b"), ask("a"))
	live := scripted.New(scripted.Say("a1"), scripted.FailKind(provider.Server, "busy"), scripted.Call("t", `{"n":2}`), scripted.Say("a3"))
	rec, changes, err := old.Again(context.Background(), live, atOnce)
	if err != nil || rec.Len() != 3 {
		t.Fatalf("%d exchanges, %v", rec.Len(), err)
	}
	var asked []string
	for _, r := range live.Requests() {
		asked = append(asked, r.User)
	}
	if d := cmp.Diff([]string{"a", "b", "b", "a"}, asked); d != "" {
		t.Errorf("asked (-want +got):\n%s", d)
	}
	if len(changes) != 2 || changes[0].Question != 1 || string(changes[0].After.Calls[0].Arguments) != `{"n":2}` || changes[1].Before.Text != "a2" || changes[1].After.Text != "a3" {
		t.Errorf("changes: %+v", changes)
	}
	path := filepath.Join(t.TempDir(), "new.json")
	if err := rec.Save(path); err != nil {
		t.Fatal(err)
	}
	now, err := record.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if got := []string{text(t, now, ctx, ask("a")), text(t, now, ctx, ask("b")), text(t, now, ctx, ask("a"))}; cmp.Diff([]string{"a1", "", "a3"}, got) != "" {
		t.Errorf("the new recording answers %q", got)
	}
	if got := text(t, old, ctx, ask("a")); got != "a1" {
		t.Errorf("the old recording answers %q", got)
	}
}

func TestARecordingThatCannotBeMadeAgainKeepsWhatWasAnswered(t *testing.T) {
	old := replay(t, scripted.New(scripted.Say("1"), scripted.Say("2")), ask("a"), ask("b"))
	t.Run("a failure that stays", func(t *testing.T) {
		live := scripted.New(scripted.Say("1"), scripted.FailKind(provider.Auth, "no"))
		rec, _, err := old.Again(context.Background(), live, atOnce)
		if !errors.Is(err, provider.Auth) || !strings.Contains(err.Error(), "question 2 of 2") || rec.Len() != 1 || len(live.Requests()) != 2 {
			t.Errorf("%d exchanges of %d requests, %v", rec.Len(), len(live.Requests()), err)
		}
	})
	t.Run("a failure that does not heal", func(t *testing.T) {
		live := scripted.Func(scripted.FailKind(provider.Server, "down"))
		if _, _, err := old.Again(context.Background(), live, atOnce); !errors.Is(err, provider.Server) || len(live.Requests()) != 3 {
			t.Errorf("%d requests, %v", len(live.Requests()), err)
		}
	})
	t.Run("the end of the context", func(t *testing.T) {
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(context.Background())
		live := scripted.Func(func(context.Context, *provider.Request) (*provider.Response, error) {
			cancel(why)
			return nil, &provider.Error{Kind: provider.Server}
		})
		if _, _, err := old.Again(ctx, live, provider.RetryPolicy{Base: time.Hour, Max: time.Hour}); !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			t.Errorf("error %v", err)
		}
	})
}

// A recording of a run holds what a tool brought; asked again it still does.
func TestQuestionsStayAsRecorded(t *testing.T) {
	q := &provider.Request{Messages: []provider.Message{
		provider.User("look"), {Role: provider.RoleAssistant, Calls: []provider.ToolCall{{ID: "x", Name: "t", Arguments: []byte(`{}`)}}, Carry: []byte(`{"wire":"w"}`)},
		provider.Results(provider.ToolResult{CallID: "x", Content: "old"}),
	}}
	old := replay(t, scripted.New(scripted.Say("1")), q)
	live := scripted.New(scripted.Say("1"))
	if _, changes, err := old.Again(context.Background(), live, atOnce); err != nil || changes != nil {
		t.Fatalf("%+v, %v", changes, err)
	}
	if got := live.Requests()[0]; got.Messages[2].Results[0].Content != "old" || got.Messages[1].Calls[0].Name != "t" {
		t.Errorf("asked %+v", got.Messages)
	}
}
