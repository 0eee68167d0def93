package session_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

func TestTwoMessagesWithAnInterruptAreBothKept(t *testing.T) {
	f := newFixture(t)
	steer, in := session.NewSteer()
	f.model.Push(func(c context.Context, req *provider.Request) (*provider.Response, error) {
		for _, text := range []string{"the first word", "the second word"} {
			if err := steer.Say(text); err != nil {
				t.Error(err)
			}
		}
		if err := steer.Interrupt(session.AfterTools); err != nil {
			t.Error(err)
		}
		return read("a")(c, req)
	})
	turn := f.turn(f.open(), "look", session.WithSteer(in))
	if turn.Outcome.Kind != trace.Cancelled || len(turn.Undelivered.Messages) != 0 {
		t.Fatalf("%s, undelivered %+v", turn.Outcome, turn.Undelivered)
	}
	obs, err := store.Collect(f.store.Observations(ctx, turn.RunID))
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, o := range obs {
		for _, text := range []string{"the first word", "the second word"} {
			if strings.Contains(o.Text, text) {
				kept = append(kept, text)
			}
		}
	}
	if !slices.Equal(kept, []string{"the first word", "the second word"}) {
		t.Errorf("kept %q", kept)
	}
}
