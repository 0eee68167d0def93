package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func typeString(v any) string { return fmt.Sprintf("%T", v) }

func TestOutcomesHaveAStatusAndAFinality(t *testing.T) {
	drivenAgain := map[OutcomeKind]bool{
		StepCapReached: true, TimeBudgetExceeded: true, CostBudgetExceeded: true, VerificationFailed: true, SchemaUnsatisfied: true, Failed: true, ConfigError: true,
		AwaitingApproval: true, AwaitingAnswer: true, AwaitingPlan: true, AwaitingRecovery: true,
	}
	paused := map[OutcomeKind]bool{AwaitingApproval: true, AwaitingAnswer: true, AwaitingPlan: true, AwaitingRecovery: true}
	for _, k := range OutcomeKinds() {
		if k.Final() == drivenAgain[k] {
			t.Errorf("%s: final = %v", k, k.Final())
		}
		if got := k.Status() == StatusPaused; got != paused[k] {
			t.Errorf("%s: status %s", k, k.Status())
		}
		if (Outcome{Kind: k}).Succeeded() != (k == Success) {
			t.Errorf("%s: only success counts as success", k)
		}
	}
	if got := OutcomeKind("from_the_future").Status(); got != StatusPaused {
		t.Errorf("an unknown outcome reads as %s: it must never look finished", got)
	}
	if OutcomeKind("from_the_future").Final() {
		t.Error("an unknown outcome must not be final")
	}
}

func TestOutcomeJSON(t *testing.T) {
	for _, tc := range []struct {
		o    Outcome
		want string
	}{
		{Outcome{Kind: AwaitingApproval, Steps: 3, RequestID: 12}, `{"outcome":"awaiting_approval","steps":3,"request_id":12}`},
		{Outcome{Kind: Success, Steps: 1}, `{"outcome":"success","steps":1}`},
		{Outcome{Kind: EscalatedTerminal}, `{"outcome":"escalated_terminal","steps":0,"retryable":false}`},
		{Outcome{Kind: EscalatedRetryable}, `{"outcome":"escalated_retryable","steps":0,"retryable":true}`},
	} {
		b, err := json.Marshal(tc.o)
		if err != nil || string(b) != tc.want {
			t.Errorf("Marshal(%v) = %s, %v; want %s", tc.o, b, err, tc.want)
		}
		var back Outcome
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.o, back); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAPanickingObserverIsNotCalledAgainAndFailsNothing(t *testing.T) {
	var log bytes.Buffer
	calls := 0
	w := NewWatch(ObserverFunc(func(Event) Flow { calls++; panic("boom") }), slog.New(slog.NewTextHandler(&log, nil)))
	w.Emit(Event{RunID: 1, Fact: StalledOut{}})
	w.Emit(Event{RunID: 1, Fact: StalledOut{}})
	if calls != 1 {
		t.Errorf("observer called %d times, want once", calls)
	}
	if w.Cancelled() {
		t.Error("a panic is not a cancel")
	}
	if got := strings.Count(log.String(), "boom"); got != 1 {
		t.Errorf("panic logged %d times, want once: %s", got, &log)
	}
}

func TestACancelIsRememberedAndCallsNeverOverlap(t *testing.T) {
	inside, overlap := 0, false
	w := NewWatch(ObserverFunc(func(ev Event) Flow {
		inside++
		overlap = overlap || inside > 1
		inside--
		if ev.Step == 50 {
			return Cancel
		}
		return Continue
	}), nil)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() { w.Emit(Event{Step: i, Fact: StalledOut{}}) })
	}
	wg.Wait()
	if overlap {
		t.Error("the observer was entered twice at once")
	}
	if !w.Cancelled() {
		t.Error("a cancel was forgotten")
	}
}

func TestAWatchWithoutAnObserverIsSilent(t *testing.T) {
	var none *Watch
	none.Emit(Event{Fact: StalledOut{}})
	if none.Watched() || none.Cancelled() || NewWatch(nil, nil).Watched() {
		t.Error("nobody watches")
	}
}

func TestPrinterShowsARunAndTakesControlCharactersOut(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := newPrinter(&out, false, func() time.Time { now = now.Add(250 * time.Millisecond); return now })
	for _, f := range []Fact{
		Started{Goal: "mend\x1b[2Jit\nnow"},
		Contained{Mode: "workspace-write", Backend: "landlock"},
		Token{Text: "let me \x1b]0;owned\x07lo\u202eo\u061ck"},
		ToolCalled{Name: "read_file", Target: "secrets/key"},
		RefusedAct{Act: "read", Target: "secrets/key", Rule: "secrets/*", Layer: "app"},
		StepCommitted{Decision: "read refused", Tokens: 12},
		Gated{Phase: "command", Outcome: "passed"},
		Ended{Outcome: Success, Steps: 1, Tokens: 12},
	} {
		if p.Observe(Event{RunID: 4, Step: 1, Fact: f}) != Continue {
			t.Fatal("a printer never cancels")
		}
	}
	got := out.String()
	if strings.ContainsAny(got, "\x1b\x07\u202e\u061c") {
		t.Errorf("control characters reached the terminal: %q", got)
	}
	for _, want := range []string{"run 4", "→ read_file secrets/key", `refused read secrets/key: rule "secrets/*" of layer "app"`, "step 1 read refused", "gate command passed", "success (1 steps, 12 tokens, 250ms)"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not shown in:\n%s", want, got)
		}
	}
}

func TestPrinterColoursOnlyWhenTold(t *testing.T) {
	for _, colour := range []bool{true, false} {
		var out bytes.Buffer
		newPrinter(&out, colour, time.Now).Observe(Event{Fact: Started{Goal: "x"}})
		if got := strings.Contains(out.String(), "\x1b["); got != colour {
			t.Errorf("colour %v: escape codes present = %v", colour, got)
		}
	}
	if isTerminal(&bytes.Buffer{}) {
		t.Error("a buffer is no terminal")
	}
}

func TestPrinterShowsRoutingAndTheProvidersOwnTools(t *testing.T) {
	var out bytes.Buffer
	p := newPrinter(&out, false, time.Now)
	for _, f := range []Fact{
		Routed{To: "big", Why: "the gate did not pass 2 times in a row"}, Routed{From: "small", Why: "9 bytes\nwritten"},
		ServerToolUsed{Provider: "vendor", Tool: "web_search", OK: true}, ServerToolUsed{Provider: "vendor", Tool: "web_fetch"},
	} {
		p.Observe(Event{RunID: 1, Step: 1, Fact: f})
	}
	want := "  asks big from here on: the gate did not pass 2 times in a row\n  asks its own model from here on: 9 bytes written\n" +
		"  web_search of vendor used\n  web_fetch of vendor failed\n"
	if got := out.String(); got != want {
		t.Errorf("printed:\n%s\nwant:\n%s", got, want)
	}
}

func TestNobodyIsToldOfTwoEventsAtOnce(t *testing.T) {
	var w *Watch
	again, done := make(chan struct{}), make(chan struct{})
	w = NewWatch(ObserverFunc(func(ev Event) Flow {
		if ev.Step == 2 {
			close(again)
			return Continue
		}
		go func() {
			defer close(done)
			w.Emit(Event{Step: 2, Fact: StalledOut{}})
		}()
		select {
		case <-again:
			t.Error("the observer was entered twice at once")
		case <-time.After(30 * time.Millisecond): // whoever does not wait is there sooner
		}
		return Continue
	}), nil)
	w.Emit(Event{Step: 1, Fact: StalledOut{}})
	<-done
	<-again
}

// What comes from where anybody may have written it is shown in a frame.
func TestWhichOriginsAreOutside(t *testing.T) {
	for o, want := range map[Origin]bool{
		OriginWeb: true, OriginMCP: true, OriginLSP: true,
		OriginFile: false, OriginShell: false, OriginTool: false, OriginAgent: false, OriginOperator: false, OriginProse: false, "": false,
	} {
		if o.External() != want || o.Known() != (o != "") {
			t.Errorf("%q: outside %v, known %v", o, o.External(), o.Known())
		}
	}
}

func TestWhatCountsAsTakenBackWhole(t *testing.T) {
	for verdict, want := range map[Undone]bool{
		Restored: true, Removed: true, Applied: true,
		Stale: false, NotKept: false, NoHunk: false, NotRecorded: false, UndoRefused: false, UndoFailed: false, "later": false,
	} {
		for where, r := range map[string]Rewound{
			"a file": {Files: []RewoundItem{{Verdict: Restored}, {Verdict: verdict}}},
			"a note": {Files: []RewoundItem{{Verdict: Restored}}, Memory: []RewoundItem{{Verdict: verdict}}},
		} {
			if r.Clean() != want {
				t.Errorf("with %s %q the whole is clean: %v", where, verdict, r.Clean())
			}
		}
	}
}
