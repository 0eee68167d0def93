package prompt

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

// Short constructors for ledgers.

func obs(step int, kind trace.ObservationKind, target, callID, text string) trace.Observation {
	return trace.Observation{Step: step, Kind: kind, Target: target, CallID: callID, Text: "\n" + text + "\n"}
}

func read(step int, path, text string) trace.Observation {
	return obs(step, trace.ObsRead, path, "", "[read "+path+"]\n"+text)
}

func ranged(step, first, count int, path, text string) trace.Observation {
	o := read(step, path, text)
	o.First, o.Count = first, count
	return o
}

func wrote(step int, path string) trace.Observation {
	return obs(step, trace.ObsWrite, path, "", "[wrote "+path+"] (10 characters)")
}

func grepped(step int, pattern, text string) trace.Observation {
	return obs(step, trace.ObsGrep, pattern, "", "[grep "+pattern+"]\n"+text)
}

func answering(callID string, o trace.Observation) trace.Observation {
	o.CallID = callID
	return o
}

func turn(step int, text string, ids ...string) trace.AssistantTurn {
	t := trace.AssistantTurn{Step: step, Text: text}
	for i, id := range ids {
		t.Calls = append(t.Calls, trace.ToolCall{ID: id, Name: "read_file", Arguments: json.RawMessage(fmt.Sprintf(`{"path":"f%d"}`, i))})
	}
	return t
}

func turnsOf(turns ...trace.AssistantTurn) map[int]trace.AssistantTurn {
	m := map[int]trace.AssistantTurn{}
	for _, t := range turns {
		m[t.Step] = t
	}
	return m
}

func words(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }

// checkAssembled holds what is true of every section.
func checkAssembled(t tester, a Assembled) {
	t.Helper()
	var b strings.Builder
	for _, p := range a.Pieces {
		b.WriteString(p.Text)
	}
	if b.String() != a.Text {
		t.Fatalf("the pieces do not add up to the text:\n%q\n%q", b.String(), a.Text)
	}
	if a.Tokens != EstimateTokens(a.Text) {
		t.Fatalf("Tokens = %d, want %d", a.Tokens, EstimateTokens(a.Text))
	}
	if a.Frozen < 0 || a.Frozen > len(a.Text) {
		t.Fatalf("Frozen = %d of %d", a.Frozen, len(a.Text))
	}
}

// checkRendered is a vendor that refuses every history that is not in order, and
// the promise that the messages are the user text.
func checkRendered(t tester, r Rendered) {
	t.Helper()
	if r.Messages == nil {
		return
	}
	if len(r.Messages) < 2 {
		t.Fatalf("%d message is no transcript", len(r.Messages))
	}
	var text strings.Builder
	ids := map[string]bool{}
	paused := false
	for i, m := range r.Messages {
		switch m.Role {
		case provider.RoleUser:
			if paused {
				t.Fatalf("message %d stands behind a paused turn", i)
			}
			if m.Text == "" {
				t.Fatalf("message %d has no text", i)
			}
			text.WriteString(m.Text)
		case provider.RoleAssistant:
			if len(m.Calls) == 0 && len(m.Carry) > 0 {
				paused = true // to be gone on with: what tells of it is in no message
				continue
			}
			if paused {
				t.Fatalf("message %d stands behind a paused turn", i)
			}
			if len(m.Calls) == 0 {
				text.WriteString(m.Text) // an earlier reply of the conversation
				continue
			}
			if i+1 == len(r.Messages) || r.Messages[i+1].Role != provider.RoleTool {
				t.Fatalf("message %d has calls and no results after it", i)
			}
			want := map[string]bool{}
			for _, c := range m.Calls {
				if c.ID == "" || ids[c.ID] {
					t.Fatalf("message %d: call id %q is empty or used before", i, c.ID)
				}
				ids[c.ID], want[c.ID] = true, true
				var object map[string]any
				if err := json.Unmarshal(c.Arguments, &object); err != nil || object == nil {
					t.Fatalf("message %d: arguments %.60q are no object", i, c.Arguments)
				}
			}
			for _, res := range r.Messages[i+1].Results {
				if !want[res.CallID] {
					t.Fatalf("message %d: result for %q, which is no open call", i+1, res.CallID)
				}
				delete(want, res.CallID)
			}
			if len(want) > 0 {
				t.Fatalf("message %d: calls without a result: %v", i, want)
			}
		case provider.RoleTool:
			if i == 0 || len(r.Messages[i-1].Calls) == 0 {
				t.Fatalf("message %d: results after no calls", i)
			}
			for _, res := range m.Results {
				if res.Content == "" {
					t.Fatalf("message %d: an empty result", i)
				}
				text.WriteString(res.Content)
			}
		}
	}
	if paused && strings.HasPrefix(r.User, text.String()) && len(r.User) > text.Len() {
		return
	}
	if text.String() != r.User {
		t.Fatalf("the messages do not add up to the user text:\n%q\n%q", text.String(), r.User)
	}
	if r.Frozen > len(r.User) {
		t.Fatalf("Frozen = %d of %d", r.Frozen, len(r.User))
	}
}

func assemble(t tester, in Input) Assembled {
	t.Helper()
	a := Assemble(in)
	checkAssembled(t, a)
	checkRendered(t, Render(Task{Goal: "goal"}.Frame(), a))
	return a
}

// tester is what a test, a fuzz target and a property have in common.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}
