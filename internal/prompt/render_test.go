package prompt

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

func render(t tester, in Input) Rendered {
	t.Helper()
	a := Assemble(in)
	checkAssembled(t, a)
	r := Render(Task{Goal: "goal"}.Frame(), a)
	checkRendered(t, r)
	return r
}

func TestWholePrompts(t *testing.T) {
	frame := Task{Goal: "Make the parser report the column.", Criterion: "The command `go test ./...` exits with status 0."}.Frame()
	one := turn(1, "I look first.", "c1", "c2")
	one.Carry = json.RawMessage(`{"blocks":["signed"]}`)
	ledger := []trace.Observation{
		answering("c1", read(1, "parse.go", "package parse")), answering("c2", grepped(1, "column", "parse.go:3: column")),
		Steered(2, "Count columns from 1.", 1000),
		answering("c1", wrote(2, "parse.go")),
		{Step: 2, Kind: trace.ObsMessage, Text: GateFailed("The success criterion was checked and is not met (command: exit status 1).\nThe end of its output:\nFAIL")},
		answering("c9", obs(3, trace.ObsTool, "exec", "", "[exec] exit status 0")),
		{Step: 3, Kind: trace.ObsError, CallID: "c10", Text: Refused("exec", "rm -rf /", "rm*", "team")},
		{Step: 4, Kind: trace.ObsMessage, Text: NoToolCall(4, "Done, I think.", provider.FinishLength)},
	}
	in := Input{
		Tokens: 24_000, Notes: someNotes(), Ledger: ledger, Fresh: map[int]Fresh{0: {Text: "package parse // now"}},
		Turns: turnsOf(one, turn(2, "", "c1"), turn(3, "", "c9", "c10", "c11"), turn(4, "Done, I think.")),
	}
	golden(t, "prompt_work", conversation(Render(frame, assemble(t, in))))

	log := NewLog(ledger, nil)
	cut, ok := log.Due(Compaction{KeepRecent: 3}, 2000, true)
	if !ok {
		t.Fatal("nothing to fold")
	}
	golden(t, "summary_request", SummaryRequest("Make the parser report the column.", cut).SystemText()+"\n=====\n"+SummaryRequest("Make the parser report the column.", cut).User)
	log.Apply(cut, 5, "Read parse.go; changed it to report the column; the test still fails.", 4000)
	in.Ledger, in.Folded, in.Fresh, in.Notes = log.Live(), log.FoldedStep(), nil, Notes{}
	golden(t, "prompt_folded", conversation(Render(frame, assemble(t, in))))

	talk := Input{Tokens: 24_000, Ledger: []trace.Observation{
		Prompt("What is this?", 1000), Reply("A parser.", 1000), Prompt("Is it tested?", 1000), Reply("Yes.", 1000),
	}}
	golden(t, "prompt_opening", conversation(Render(Task{Goal: "Then add a test.", Opening: true}.Frame(), assemble(t, talk))))
	talk.Ledger = append(talk.Ledger, answering("x", read(1, "a_test.go", "package a")))
	talk.Turns = turnsOf(turn(1, "", "x"))
	golden(t, "prompt_conversation_work", conversation(Render(Task{Goal: "Then add a test."}.Frame(), assemble(t, talk))))
}

func TestAFirstStepIsFlat(t *testing.T) {
	for _, in := range []Input{
		{Tokens: 24_000}, {Tokens: 24_000, Notes: someNotes()},
		{Tokens: 24_000, Ledger: []trace.Observation{Steered(1, "x", 10)}},
		{Tokens: 24_000, Ledger: []trace.Observation{answering("c", read(1, "a", "x"))}}, // no stored turn
	} {
		if r := render(t, in); r.Messages != nil {
			t.Errorf("messages for one user text: %+v", r.Messages)
		}
	}
	if r := render(t, Input{Tokens: 24_000}); !strings.Contains(r.User, "Nothing has been observed yet") {
		t.Errorf("an empty section must say so:\n%s", r.User)
	}
}

// results lists what each call of each turn was answered with.
func results(r Rendered) (out []string) {
	for i, m := range r.Messages {
		for _, c := range m.Calls {
			for _, res := range r.Messages[i+1].Results {
				if res.CallID == c.ID {
					out = append(out, strings.TrimSpace(res.Content))
				}
			}
		}
	}
	return out
}

func TestEachCallIsAnsweredOnce(t *testing.T) {
	plain := func(step int, id, text string) trace.Observation {
		return trace.Observation{Step: step, Kind: trace.ObsTool, CallID: id, Text: text}
	}
	for _, tc := range []struct {
		name   string
		turns  []trace.AssistantTurn
		ledger []trace.Observation
		want   []string
	}{
		{"results out of call order", []trace.AssistantTurn{turn(1, "", "a", "b")}, []trace.Observation{plain(1, "b", "B"), plain(1, "a", "A")}, []string{"A", "B"}},
		{"a call that never ran", []trace.AssistantTurn{turn(1, "", "a", "b", "c")}, []trace.Observation{plain(1, "a", "A")}, []string{"A", strings.TrimSpace(notExecuted), strings.TrimSpace(notExecuted)}},
		{"the same ids on every step", []trace.AssistantTurn{turn(1, "", "c1"), turn(2, "", "c1")}, []trace.Observation{plain(1, "c1", "1"), plain(2, "c1", "2")}, []string{"1", "2"}},
		{"the same id twice in a step", []trace.AssistantTurn{turn(1, "", "c1", "c1")}, []trace.Observation{plain(1, "c1", "1"), plain(1, "c1", "2")}, []string{"1", "2"}},
		{"two results of one call are one", []trace.AssistantTurn{turn(1, "", "a")}, []trace.Observation{plain(1, "a", "1"), plain(1, "a", "2")}, []string{"1\n2"}},
		{"a result of no call is prose", []trace.AssistantTurn{turn(1, "", "a")}, []trace.Observation{plain(1, "a", "A"), plain(1, "z", "Z")}, []string{"A"}},
		{"ids that are missing", []trace.AssistantTurn{turn(1, "", "", "b")}, []trace.Observation{plain(1, "b", "B"), plain(1, "", "?")}, []string{strings.TrimSpace(notExecuted), "B"}},
		{"a message between results", []trace.AssistantTurn{turn(1, "", "a", "b")}, []trace.Observation{plain(1, "a", "A"), {Step: 1, Kind: trace.ObsMessage, Text: "M"}, plain(1, "b", "B")}, []string{"A", "B"}},
		{"an answer of a person answers its call", []trace.AssistantTurn{turn(1, "", "q")}, []trace.Observation{Answered(1, "q", "", "7171", 100)}, []string{strings.TrimSpace(Answered(1, "q", "", "7171", 100).Text)}},
		{"no result, no turn", []trace.AssistantTurn{turn(1, "", "a")}, []trace.Observation{{Step: 1, Kind: trace.ObsMessage, Text: "M"}}, nil},
		{"a turn without calls is prose", []trace.AssistantTurn{turn(1, "said")}, []trace.Observation{{Step: 1, Kind: trace.ObsMessage, Text: "said"}}, nil},
		{"a late result of a step that is over is prose", []trace.AssistantTurn{turn(1, "", "a", "b"), turn(2, "", "c")}, []trace.Observation{plain(1, "a", "A"), plain(2, "c", "C"), plain(1, "b", "B")}, []string{"C", strings.TrimSpace(notExecuted), "B"}},
	} {
		r := render(t, Input{Tokens: 24_000, Ledger: tc.ledger, Turns: turnsOf(tc.turns...)})
		got := results(r)
		slices.Sort(got)
		want := slices.Sorted(slices.Values(tc.want))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s\n%s", tc.name, diff, conversation(r))
		}
		for _, o := range tc.ledger {
			if !strings.Contains(r.User, strings.TrimSpace(o.Text)) {
				t.Errorf("%s: %q is lost", tc.name, o.Text)
			}
		}
	}
}

func TestAStubStillAnswersItsCall(t *testing.T) {
	r := render(t, Input{
		Tokens: 24_000, Turns: turnsOf(turn(1, "", "a", "b"), turn(2, "", "c")),
		Ledger: []trace.Observation{answering("a", read(1, "f", "old")), answering("b", grepped(1, "x", "hit")), answering("c", read(2, "f", "new"))},
	})
	got := results(r)
	if len(got) != 3 || !strings.HasPrefix(got[0], "[read f] (elided: superseded") || !strings.Contains(got[1], "hit") || !strings.Contains(got[2], "new") {
		t.Errorf("%q", got)
	}
}

func TestACollapsedResultIsSaidToBeElided(t *testing.T) {
	in := Input{Tokens: 2000, Turns: map[int]trace.AssistantTurn{}}
	for i := 1; i <= 60; i++ {
		in.Turns[i] = turn(i, "", "a", "b")
		in.Ledger = append(in.Ledger, answering("a", read(i, fmt.Sprintf("dir/file%d.go", i), words(60))), answering("b", grepped(i, "same", words(20))))
	}
	a := assemble(t, in)
	if !a.Collapsed {
		t.Fatalf("%s", a.Detail())
	}
	r := Render(Frame{Head: "h\n"}, a)
	got := results(r)
	if !slices.Contains(got, strings.TrimSpace(resultsElided)) {
		t.Errorf("a turn with one result left must answer the other:\n%s", conversation(r))
	}
	if n := strings.Count(r.User, "[elided]"); n > a.Carried {
		t.Errorf("%d placeholders: a step that is gone must take its turn along", n)
	}
}

func TestAPausedBatchIsBounded(t *testing.T) {
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprintf("c%d", i)
	}
	in := Input{Tokens: 2000, Turns: turnsOf(turn(1, "", ids...)), Ledger: []trace.Observation{answering("c0", read(1, "f", "x"))}}
	if a := assemble(t, in); a.Tokens > 2000 {
		t.Errorf("the calls that never ran took %d tokens", a.Tokens)
	}
	for _, id := range ids[1:] {
		in.Ledger = append(in.Ledger, answering(id, grepped(1, id, "y")))
	}
	in.Tokens = 100_000
	if r := render(t, in); len(results(r)) != 1000 {
		t.Errorf("%d of 1000 calls are answered", len(results(r)))
	}
}

func TestReplayedTurnsHaveABudgetOfTheirOwn(t *testing.T) {
	in := Input{Tokens: 2000, Turns: map[int]trace.AssistantTurn{}}
	for i := 1; i <= 6; i++ {
		w := turn(i, "", "a")
		w.Calls[0].Arguments = json.RawMessage(`{"path":"f","content":"` + strings.Repeat("x", 5000) + `"}`)
		in.Turns[i] = w
		in.Ledger = append(in.Ledger, answering("a", wrote(i, fmt.Sprintf("f%d", i))))
	}
	r := render(t, in)
	sent := 0
	for _, m := range r.Messages {
		for _, c := range m.Calls {
			sent += len(c.Arguments)
		}
	}
	if sent == 0 || sent > 8000 {
		t.Errorf("%d bytes of old arguments are sent again under 2,000 tokens", sent)
	}
	if !strings.Contains(r.User, "[wrote f1]") {
		t.Error("the results of the turns that stay out must be told as prose")
	}
	last := in.Turns[6]
	last.Calls[0].Arguments = json.RawMessage(`{"content":"` + strings.Repeat("y", 50_000) + `"}`)
	in.Turns[6] = last
	if r := render(t, in); len(results(r)) != 1 {
		t.Error("the newest turn always stands")
	}
}

func TestWhatTheVendorWantsBackIsHandedBack(t *testing.T) {
	one, two := turn(1, "t1", "a"), turn(2, "", "b")
	one.Carry, two.Carry = json.RawMessage(`{"k": 1 }`), json.RawMessage(`{"k": 2 }`)
	rows := []trace.Observation{answering("a", read(1, "f", "x")), answering("b", read(2, "g", "y")), answering("c", read(3, "h", "z"))}
	in := Input{Tokens: 24_000, Ledger: rows, Turns: turnsOf(one, two, turn(3, "", "c"))}
	carried := func(r Rendered) (out []string) {
		for _, m := range r.Messages {
			if m.Carry != nil {
				out = append(out, string(m.Carry))
			}
		}
		return out
	}
	if diff := cmp.Diff([]string{`{"k": 1 }`, `{"k": 2 }`}, carried(render(t, in))); diff != "" {
		t.Error("byte for byte: " + diff)
	}
	log := NewLog(rows, nil)
	cut, _ := log.Due(Compaction{KeepRecent: 2}, 24_000, true)
	log.Apply(cut, 4, "read f", 100)
	in.Ledger, in.Folded = log.Live(), log.FoldedStep()
	if diff := cmp.Diff([]string{`{"k": 2 }`}, carried(render(t, in))); diff != "" {
		t.Error("nothing of a folded step goes back: " + diff)
	}
	if strings.Contains(render(t, in).User, "signed") || len(SummaryRequest("g", cut).Messages) != 0 {
		t.Error("the summariser's request carries nothing")
	}
}

func TestAPausedTurnEndsTheRequestOrIsTold(t *testing.T) {
	told := func(step int) trace.Observation {
		return trace.Observation{Step: step, Kind: trace.ObsMessage, Target: TargetPaused, Text: NoToolCall(step, "so far", provider.FinishPaused)}
	}
	paused := func(step int) trace.AssistantTurn {
		return trace.AssistantTurn{Step: step, Text: "so far", Carry: json.RawMessage(`{"k":1}`)}
	}
	bare := paused(2)
	bare.Carry = nil
	large := paused(2)
	large.Carry = json.RawMessage(`"` + strings.Repeat("x", 200_000) + `"`)
	looked := answering("a", read(1, "f", "x"))
	for _, tc := range []struct {
		name string
		in   Input
		ends int // paused turns that end the request
	}{
		{"alone", Input{Ledger: []trace.Observation{told(1)}, Turns: turnsOf(paused(1)), Resume: true}, 1},
		{"behind work", Input{Ledger: []trace.Observation{looked, told(2)}, Turns: turnsOf(turn(1, "", "a"), paused(2)), Resume: true}, 1},
		{"twice", Input{Ledger: []trace.Observation{looked, told(2), told(3)}, Turns: turnsOf(turn(1, "", "a"), paused(2), paused(3)), Resume: true}, 2},
		{"with a word behind it", Input{Ledger: []trace.Observation{told(2), Steered(3, "stop that", 100)}, Turns: turnsOf(paused(2)), Resume: true}, 0},
		{"with a note of its own step", Input{Ledger: []trace.Observation{told(2), {Step: 2, Kind: trace.ObsMessage, Text: "[note] x"}}, Turns: turnsOf(paused(2)), Resume: true}, 0},
		{"with nothing to hand back", Input{Ledger: []trace.Observation{told(2)}, Turns: turnsOf(bare), Resume: true}, 0},
		{"larger than the section", Input{Ledger: []trace.Observation{told(2)}, Turns: turnsOf(large), Resume: true}, 0},
		{"folded", Input{Ledger: []trace.Observation{told(2)}, Turns: turnsOf(paused(2)), Folded: 2, Resume: true}, 0},
		{"where the last word is wanted", Input{Ledger: []trace.Observation{told(2)}, Turns: turnsOf(paused(2))}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.in.Tokens = 24_000
			r := render(t, tc.in)
			n := 0
			for i := len(r.Messages) - 1; i >= 0 && r.Messages[i].Carry != nil && len(r.Messages[i].Calls) == 0; i-- {
				n++
			}
			if n != tc.ends {
				t.Errorf("%d paused turns end the request, want %d", n, tc.ends)
			}
			if !strings.Contains(r.User, "so far") || !strings.HasSuffix(r.User, Task{Goal: "goal"}.Frame().Tail) {
				t.Errorf("what is asked is not told apart from the step before:\n%s", r.User)
			}
		})
	}
}

func TestBrokenArgumentsDoNotSpoilLaterRequests(t *testing.T) {
	for _, args := range []string{"", " ", `{"a":1`, "[1]", "null", `"x"`, "{}{}", strings.Repeat("[", 1<<20)} {
		b := turn(1, "", "a")
		b.Calls[0].Arguments = json.RawMessage(args)
		r := render(t, Input{Tokens: 24_000_000, Turns: turnsOf(b), Ledger: []trace.Observation{answering("a", obs(1, trace.ObsError, "", "", "bad"))}})
		if got := string(r.Messages[1].Calls[0].Arguments); got != "{}" {
			t.Errorf("arguments %.20q went out as %.20q, want {}", args, got)
		}
	}
}

func TestOneStepLaterThePrefixIsTheSame(t *testing.T) {
	in := Input{Tokens: 24_000, Notes: someNotes(), Turns: map[int]trace.AssistantTurn{}}
	frame := Task{Goal: "goal", Criterion: "c"}.Frame()
	var before Rendered
	for step := 1; step <= 30; step++ {
		in.Turns[step] = turn(step, "", "a", "b")
		in.Ledger = append(in.Ledger, answering("a", read(step, fmt.Sprintf("f%d", step), words(20))), answering("b", grepped(step, fmt.Sprint(step), "hit")))
		a := assemble(t, in)
		r := Render(frame, a)
		if step > 1 && a.Stubbed == 0 {
			n := len(before.Messages) - 1 // all but the closing instruction
			if diff := cmp.Diff(before.Messages[:n], r.Messages[:n]); diff != "" {
				t.Fatalf("step %d moved what was sent before:\n%s", step, diff)
			}
		}
		before = r
	}
}

func TestAReplyAndAReplayedTurnAreApart(t *testing.T) {
	r := render(t, Input{Tokens: 24_000, Turns: turnsOf(turn(1, "", "a")), Ledger: []trace.Observation{
		Prompt("hello", 100), Reply("hi", 100), answering("a", read(1, "f", "x")),
	}})
	for i := 1; i < len(r.Messages); i++ {
		if r.Messages[i].Role == provider.RoleAssistant && r.Messages[i-1].Role == provider.RoleAssistant {
			t.Errorf("two assistant messages in a row:\n%s", conversation(r))
		}
	}
	if r.Messages[1].Text != "hello\n" || r.Messages[2].Text != "hi\n" || r.Messages[2].Role != provider.RoleAssistant {
		t.Errorf("the seed must be the speakers' own messages:\n%s", conversation(r))
	}
}

func TestASummaryMadeAtTheStepThatFollowsItKeepsThatStepsTurn(t *testing.T) {
	r := render(t, Input{Tokens: 24_000, Folded: 4, Turns: turnsOf(turn(5, "", "a")), Ledger: []trace.Observation{
		SummaryObservation(5, "So far."), answering("a", read(5, "f", "x")),
	}})
	if len(results(r)) != 1 {
		t.Errorf("%s", conversation(r))
	}
}
