package provider_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/anthropic"
	"github.com/initorigin/io-harness-go/provider/compatible"
	"github.com/initorigin/io-harness-go/provider/openai"
	"github.com/initorigin/io-harness-go/provider/openrouter"
)

// The variables of the live tests. They spend money, so a key in the environment
// alone does not start them.
const (
	liveSwitch = "IO_HARNESS_LIVE"          // 1 runs them
	liveBase   = "IO_HARNESS_LIVE_BASE_URL" // a server without a key, such as http://localhost:11434/v1
	liveModel  = "IO_HARNESS_LIVE_MODEL"    // its model
)

// TestLive asks real vendors, each that has a key in the environment: that they
// still speak what the fakes of the other tests speak.
func TestLive(t *testing.T) {
	if os.Getenv(liveSwitch) != "1" {
		t.Skip("it asks live vendors and costs money: set " + liveSwitch + "=1 and the key of a vendor to run it")
	}
	live := func(name string, from func() (provider.Provider, error)) {
		t.Run(name, func(t *testing.T) {
			p, err := from()
			if err != nil {
				t.Skip(err)
			}
			asksLive(t, p)
		})
	}
	live("anthropic", func() (provider.Provider, error) { return anthropic.FromEnv() })
	live("openai", func() (provider.Provider, error) { return openai.FromEnv() })
	live("openai responses", func() (provider.Provider, error) { return openai.ResponsesFromEnv() })
	live("openrouter", func() (provider.Provider, error) { return openrouter.FromEnv() })
	for _, p := range compatible.Presets() {
		if p.KeyName != "" {
			live(p.Name, func() (provider.Provider, error) { return compatible.FromEnv(p.Name, "") })
		}
	}
	t.Run("a server of your own", func(t *testing.T) {
		if os.Getenv(liveBase) == "" {
			t.Skip("set " + liveBase + " and " + liveModel)
		}
		p, err := compatible.New(compatible.Config{BaseURL: os.Getenv(liveBase), Auth: compatible.AuthNone, Model: os.Getenv(liveModel)})
		if err != nil {
			t.Fatal(err)
		}
		asksLive(t, p)
	})
}

// asksLive has a text streamed, a tool called, and its result taken back.
func asksLive(t *testing.T, p provider.Provider) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if ok, err := provider.Reachable(ctx, p); !ok {
		t.Errorf("reachable: %v", err)
	}
	var streamed strings.Builder
	resp, err := p.Complete(ctx, &provider.Request{System: []string{"Answer briefly."}, User: "Say the word ready."},
		provider.Sink{Token: func(s string) { streamed.WriteString(s) }})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Text == "" || streamed.String() != resp.Text || resp.Ending() != provider.FinishStop {
		t.Errorf("streamed %q, settled %+v", streamed.String(), resp)
	}
	if resp.Usage == nil || resp.Usage.TotalTokens == 0 || resp.TTFT <= 0 {
		t.Errorf("usage %+v, first token after %s", resp.Usage, resp.TTFT)
	}

	req := &provider.Request{
		System: []string{"Use the tools."}, Messages: []provider.Message{provider.User("What is the weather in Oslo? Look it up with the tool.")},
		Tools: []provider.ToolSpec{{Name: "weather", Description: "Tells the weather of a city.", Schema: []byte(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}},
	}
	if resp, err = p.Complete(ctx, req, provider.Sink{}); err != nil {
		t.Fatal(err)
	}
	if len(resp.Calls) == 0 || resp.Calls[0].Name != "weather" || resp.Calls[0].ArgumentsError != "" {
		t.Fatalf("it called nothing: %+v", resp)
	}
	var results []provider.ToolResult
	for _, c := range resp.Calls {
		results = append(results, provider.ToolResult{CallID: c.ID, Content: "snow, minus 7 degrees"})
	}
	req.Messages = append(req.Messages, resp.Message(), provider.Results(results...))
	if resp, err = p.Complete(ctx, req, provider.Sink{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(resp.Text, "7") {
		t.Errorf("it answers %q", resp.Text)
	}
}
