package loop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

func TestATextThatWasNoAnswerIsNoneBehindARetryEither(t *testing.T) {
	f := newFixture(t, scripted.Turn(func(context.Context, *provider.Request) (*provider.Response, error) {
		return &provider.Response{Text: good, FinishReason: "length"}, nil
	}))
	f.host.Policy = open.Layer("more").AllowExec("./judge")
	res, err := f.run(shaped(t), gate(verify.Command("./judge")))
	if err == nil {
		t.Fatal(res.Outcome)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "judge"), []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	end, err := RetryGate(context.Background(), f.host, res.RunID, Resumption{})
	if err != nil || end.Outcome.Kind != "" || end.Output != nil {
		t.Fatalf("%s with output %s, %v: what was cut off is no answer", end.Outcome, end.Output, err)
	}
	m := f.script(scripted.Say(good))
	if end, err = f.resume(res.RunID, Resumption{}); err != nil || end.Outcome.Kind != trace.Success || end.Output == nil || len(m.Requests()) != 1 {
		t.Errorf("%s with output %s, %v, %d requests", end.Outcome, end.Output, err, len(m.Requests()))
	}
}

func TestAnAcceptedAnswerStandsBehindARetry(t *testing.T) {
	f := newFixture(t, scripted.Say(good))
	f.host.Policy = open.Layer("more").AllowExec("./judge")
	res, err := f.run(shaped(t), gate(verify.Command("./judge")))
	if err == nil {
		t.Fatal(res.Outcome)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "judge"), []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	end, err := RetryGate(context.Background(), f.host, res.RunID, Resumption{})
	if err != nil || end.Outcome.Kind != trace.Success || string(end.Output) != `{"fixed":true,"files":["a.go"]}` {
		t.Errorf("%s with output %s, %v", end.Outcome, end.Output, err)
	}
}

// nameAsked is a provider that does something when a resume asks it for its name.
type nameAsked struct {
	provider.Provider
	asked func()
}

func (n nameAsked) Name() string {
	n.asked()
	return n.Provider.Name()
}

// Of two who retry a gate the second finds the verdict of the first, also when it
// had looked before there was one.
func TestAGateThatSomebodyElseJudgedMeanwhileIsNotRetried(t *testing.T) {
	f := newFixture(t)
	id := f.stopped()
	by := &judge{says: []string{"no"}}
	c := f.contract(gate(verify.Review("r", by)))
	first := true
	other := f.host
	f.host.Provider = nameAsked{f.host.Provider, func() {
		if !first {
			return
		}
		first = false
		if _, err := RetryGate(context.Background(), other, id, Resumption{Contract: &c}); err != nil {
			t.Error(err)
		}
	}}
	res, err := RetryGate(context.Background(), f.host, id, Resumption{Contract: &c})
	var refused *store.ResumeError
	if !errors.As(err, &refused) || refused.Reason != store.GateNotRetryable {
		t.Errorf("%s, %v; want a refusal", res.Outcome, err)
	}
	if by.asked != 1 {
		t.Errorf("the reviewer was paid %d times", by.asked)
	}
	if lease, err := f.store.LeaseOf(context.Background(), id); err != nil || lease != nil {
		t.Errorf("the run is kept: %+v, %v", lease, err)
	}
}
