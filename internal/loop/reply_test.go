package loop

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// pausing says its words one after the other, in turns that all but the last pause.
func pausing(words ...string) rawProvider {
	n := 0
	return func(context.Context, *provider.Request) (*provider.Response, error) {
		r := &provider.Response{Text: words[n], FinishReason: "pause_turn", Carry: json.RawMessage(`[{"type":"text"}]`)}
		if n++; n == len(words) {
			r.FinishReason = "end_turn"
		}
		return r, nil
	}
}

// An answer that the vendor paused in is one answer, whoever reads it.
func TestAnAnswerThatWasPausedInIsReportedWhole(t *testing.T) {
	f := newFixture(t)
	f.model(pausing("one ", "two ", "three"))
	res := f.must(trace.Finished)
	if res.Reply != "one two three" {
		t.Fatalf("the run replied %q", res.Reply)
	}
	again, err := f.resume(res.RunID, Resumption{})
	if err != nil || again.Reply != res.Reply {
		t.Errorf("its report says %q, %v", again.Reply, err)
	}
}

func TestAnAnswerThatWasPausedInSurvivesTheDeathBehindIt(t *testing.T) {
	for _, tc := range []struct {
		name           string
		words          [2]string
		shape          func(*task.Contract)
		answer, output string
	}{
		{"in prose", [2]string{"one ", "two"}, func(*task.Contract) {}, "one two", ""},
		{"in the demanded shape", [2]string{good[:14], good[14:]}, shaped(t), good, `{"fixed":true,"files":["a.go"]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, m := newMortal(t)
			words := pausing(tc.words[:]...)
			f.model(rawProvider(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
				r, err := words(ctx, req)
				if r.FinishReason == "end_turn" {
					f.write("ok.txt", "ok") // so that the gate passes behind the last turn
				}
				return r, err
			}))
			m.dieAt("set outcome", 0)
			gated := func(c *task.Contract) { c.Verify = verify.Contains("ok.txt", "ok") }
			f.write("ok.txt", "not yet")
			res, err := f.run(gated, tc.shape)
			if !errors.Is(err, errDied) {
				t.Fatalf("%+v, %v", res, err)
			}
			f.script(scripted.Say("never asked"))
			end, err := f.resume(res.RunID, Resumption{})
			if err != nil || end.Outcome.Kind != trace.Success || end.Reply != tc.answer || string(end.Output) != tc.output {
				t.Errorf("%s with %q and %s, %v", end.Outcome, end.Reply, end.Output, err)
			}
		})
	}
}

func TestWhatIsSaidBetweenTwoTurnsBeginsAnAnswerAnew(t *testing.T) {
	carry := json.RawMessage(`[]`)
	turns := map[int]trace.AssistantTurn{1: {Step: 1, Text: "one ", Carry: carry}, 2: {Step: 2, Text: "two", Carry: carry}}
	paused := trace.Observation{Step: 1, Kind: trace.ObsMessage, Target: "paused", Origin: trace.OriginAgent}
	said := trace.Observation{Step: 2, Kind: trace.ObsMessage, Origin: trace.OriginAgent}
	steered := trace.Observation{Step: 2, Kind: trace.ObsMessage, Origin: trace.OriginOperator}
	for _, tc := range []struct {
		name   string
		ledger []trace.Observation
		want   string
	}{
		{"nothing", []trace.Observation{paused, said}, "one two"},
		{"an operator", []trace.Observation{paused, steered, said}, "two"},
		{"a note beside the pause", []trace.Observation{paused, {Step: 1, Kind: trace.ObsMessage}, said}, "two"},
		{"no pause", []trace.Observation{{Step: 1, Kind: trace.ObsMessage, Origin: trace.OriginAgent}, said}, "two"},
	} {
		if got := replyOf(turns, 2, tc.ledger); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	turns[2] = trace.AssistantTurn{Step: 2, Text: "two", Calls: []trace.ToolCall{{ID: "2-0", Name: "grep"}}}
	if got := replyOf(turns, 2, nil); got != "" {
		t.Errorf("a step that asks for something replies %q", got)
	}
}
