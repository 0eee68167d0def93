package verify

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/fallback"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

// housed is a reviewer that names its model and says no more than what it used.
type housed struct {
	ReviewerFunc
	model string
}

func (h housed) Model() string { return h.model }

func TestEachCompletionOfAReviewIsToldWithWhoAnswered(t *testing.T) {
	used, lost := provider.Usage{PromptTokens: 3, TotalTokens: 3}, provider.Usage{PromptTokens: 7, TotalTokens: 7}
	down := &provider.Error{Kind: provider.Server, Status: 529, Message: "overloaded", Usage: &lost}
	from := func(name string, turn scripted.Turn) provider.Provider {
		m := scripted.New(turn)
		m.Label = name
		return m
	}
	pass := func(u *provider.Usage, model string) scripted.Turn {
		return func(context.Context, *provider.Request) (*provider.Response, error) {
			return &provider.Response{Text: `{"passed":true}`, FinishReason: "stop", Usage: u, Model: model}, nil
		}
	}
	chain, err := fallback.New(from("first", scripted.Fail(down)), from("second", pass(&used, "served-2")))
	if err != nil {
		t.Fatal(err)
	}
	own := func(res ReviewResult, err error) Reviewer {
		return housed{func(context.Context, ReviewRequest) (ReviewResult, error) { return res, err }, "house"}
	}
	for _, tc := range []struct {
		name string
		by   Reviewer
		want []ReviewCall
	}{
		{"the model as it was reported", Model(from("p", pass(&used, "judge-2026")), "judge"), []ReviewCall{{Provider: "p", Model: "judge-2026", Usage: &used}}},
		{"or as it was asked", Model(from("p", pass(&used, "")), "judge"), []ReviewCall{{Provider: "p", Model: "judge", Usage: &used}}},
		{"no usage", Model(from("p", pass(nil, "")), "judge"), []ReviewCall{{Provider: "p", Model: "judge"}}},
		{"a failure", Model(from("p", scripted.Fail(down)), "judge"), []ReviewCall{{Provider: "p", Model: "judge", Usage: &lost, Failure: "Server (HTTP 529)"}}},
		{"a verdict that cannot be read", Model(from("p", scripted.Say("well").Using(used)), "judge"), []ReviewCall{{Provider: "p", Model: "judge", Usage: &used}}},
		{"a chain", Model(chain, "judge"), []ReviewCall{
			{Provider: "first", Usage: &lost, Failure: "Server (HTTP 529)"}, {Provider: "second", Model: "served-2", Usage: &used}}},
		{"a reviewer of one's own", own(ReviewResult{Passed: true, Usage: used}, nil), []ReviewCall{{Provider: "reviewer", Model: "house", Usage: &used}}},
		{"that failed", own(ReviewResult{}, down), []ReviewCall{{Provider: "reviewer", Model: "house", Usage: &lost, Failure: "Server (HTTP 529)"}}},
		{"that was stopped", own(ReviewResult{Usage: used}, context.Canceled), []ReviewCall{{Provider: "reviewer", Model: "house", Usage: &used, Failure: "Cancelled"}}},
		{"that failed otherwise", own(ReviewResult{Usage: used}, errors.New("a secret")), []ReviewCall{{Provider: "reviewer", Model: "house", Usage: &used, Failure: "Error"}}},
		{"that costs nothing", own(ReviewResult{Passed: true}, nil), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var told []ReviewCall
			env := Env{Changes: changesOf(), ReportCall: func(c ReviewCall) { told = append(told, c) }}
			v, _ := Evaluate(context.Background(), Review("r", tc.by), env)
			if diff := cmp.Diff(tc.want, told, cmpopts.IgnoreFields(ReviewCall{}, "Took")); diff != "" {
				t.Error(diff)
			}
			var sum int64
			for _, c := range tc.want {
				if c.Usage != nil {
					sum += c.Usage.TotalTokens
				}
			}
			if v.Tokens != sum {
				t.Errorf("the verdict has %d tokens, want %d", v.Tokens, sum)
			}
		})
	}
}
