package session_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
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

func TestFromItsSecondStepATurnIsDescribedAsWorkAndAlwaysAlike(t *testing.T) {
	f := newFixture(t, read("a"), write("b", "b"), read("c"), scripted.Say("done"))
	f.turn(f.open(), "look around")
	reqs := f.model.Requests()
	if len(reqs) != 4 {
		t.Fatalf("%d requests", len(reqs))
	}
	opening, work := reqs[0].SystemText(), reqs[1].SystemText()
	for _, word := range []string{"specification", "criterion"} {
		if strings.Contains(strings.ToLower(opening), word) {
			t.Errorf("the opening speaks of a %s", word)
		}
	}
	if opening == work {
		t.Error("the opening and the work are described alike")
	}
	for i, r := range reqs[2:] {
		if r.SystemText() != work {
			t.Errorf("request %d describes the work otherwise", i+3)
		}
	}
}
