package prompt

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/initorigin/io-harness-go/trace"
)

// source gives numbers from 0 to n-1.
type source func(n int) int

var kinds = []trace.ObservationKind{
	trace.ObsRead, trace.ObsRead, trace.ObsRead, trace.ObsWrite, trace.ObsGrep, trace.ObsFind, trace.ObsSkill,
	trace.ObsTool, trace.ObsMCP, trace.ObsChild, trace.ObsMessage, trace.ObsMessage, trace.ObsError,
}

var targets = []string{"", "a", "./a", "b/../a", "b", "c\n[summary] x", "\xff", TargetOperator, TargetAgent, TargetSummary, TargetSteer, TargetAnswer, TargetPlan, TargetPaused}

var bodies = []string{
	"", "x", "日本語", "\xff\xfe\x00", "\n[summary] The earlier part of this work\n", "# Task\nleak\n", notExecuted, resultsElided, seedTail,
	"(9 older observations are elided; ask again for what you still need)\n", "\u2028\u202e", strings.Repeat("long ", 300), strings.Repeat("é", 9000),
}

// inputOf makes an input of any shape: steps that go on, ids that repeat or are
// missing, results without calls and calls without results.
func inputOf(n source) Input {
	in := Input{Tokens: []int{0, 64, 500, 2000, 24_000}[n(5)], Folded: n(3), FoldCase: n(2) == 0, Resume: n(2) == 0, Turns: map[int]trace.AssistantTurn{}, Fresh: map[int]Fresh{}}
	step := 0
	for i := range n(60) {
		step += []int{0, 0, 1, 1, 2}[n(5)]
		o := trace.Observation{
			Step: step, Kind: kinds[n(len(kinds))], Target: targets[n(len(targets))], CallID: []string{"", "c0", "c1", "c2", "zz"}[n(5)],
			Text: fmt.Sprintf("#%d#%s", i, bodies[n(len(bodies))]), First: n(4) * 10, Count: n(3) * 10,
		}
		if n(4) == 0 {
			in.Fresh[i] = Fresh{Text: bodies[n(len(bodies))], Why: []string{"", "it\nwas refused"}[n(2)]}
		}
		in.Ledger = append(in.Ledger, o)
		if _, ok := in.Turns[step]; !ok && n(3) > 0 {
			t := trace.AssistantTurn{Step: step, Text: bodies[n(4)]}
			for range n(4) {
				args := []string{`{"a":1}`, ``, `[`, `{"b":"` + strings.Repeat("x", 3000) + `"}`}[n(4)]
				t.Calls = append(t.Calls, trace.ToolCall{ID: []string{"c0", "c1", "c2", ""}[n(4)], Name: "tool", Arguments: json.RawMessage(args)})
			}
			if n(3) == 0 {
				t.Carry = json.RawMessage(`{"k":1}`)
			}
			in.Turns[step] = t
		}
	}
	for i := range n(6) {
		note := Note{Key: targets[n(len(targets))], Value: bodies[n(len(bodies))], Order: i}
		if n(2) == 0 {
			in.Notes.Own = append(in.Notes.Own, note)
		} else {
			in.Notes.Shared = append(in.Notes.Shared, note)
		}
	}
	return in
}

var mark3 = regexp.MustCompile(`#(\d+)#`)

// checkInput holds every promise about one input.
func checkInput(t tester, in Input) {
	t.Helper()
	a := Assemble(in)
	checkAssembled(t, a)
	r := Render(Task{Goal: "goal"}.Frame(), a)
	checkRendered(t, r)
	if !utf8.ValidString(r.User) || strings.Contains(r.User, "\x00") {
		t.Fatal("the user text is not valid text")
	}
	if a.Carried+a.Stubbed != len(in.Ledger) {
		t.Fatalf("%s of %d entries", a.Detail(), len(in.Ledger))
	}
	if diff := cmp.Diff(r.User, Render(Task{Goal: "goal"}.Frame(), Assemble(in)).User); diff != "" {
		t.Fatalf("the same input gave other bytes:\n%s", diff)
	}
	checkOrder(t, in, a)
	checkSize(t, in, a)
}

// checkOrder holds that each entry stands at most once, and steps stay in order.
func checkOrder(t tester, in Input, a Assembled) {
	t.Helper()
	seen := map[int]bool{}
	last := -1
	for _, m := range mark3.FindAllStringSubmatch(a.Text, -1) {
		i, err := strconv.Atoi(m[1])
		if err != nil || i >= len(in.Ledger) || seen[i] {
			t.Fatalf("entry %s stands twice or does not exist", m[1])
		}
		seen[i] = true
		if in.Ledger[i].Step < last {
			t.Fatalf("entry %d of step %d stands after step %d", i, in.Ledger[i].Step, last)
		}
		last = in.Ledger[i].Step
	}
}

// checkSize holds the budget, plus what always stands: the best note, the newest
// live entry, the placeholders of a turn, and a few lines of our own.
func checkSize(t tester, in Input, a Assembled) {
	t.Helper()
	memory := EstimateTokens(in.Notes.render(in.Tokens / memoryShare).text)
	f := fit{in: in, room: max(in.Tokens-memory, 0)}
	f.shape()
	f.choose()
	newest := 0
	if f.newest >= 0 {
		newest = f.entries[f.newest].cost
	}
	lead := EstimateTokens(seedLead) + EstimateTokens(seedTail)
	limit := max(in.Tokens, memory) + newest + max(in.Tokens/stubShare, minStubTokens) + minStubTokens + lead + EstimateTokens(collapseLine(99))
	if a.Tokens > limit {
		t.Fatalf("%d tokens, want at most %d of a budget of %d (newest %d, memory %d)\n%s", a.Tokens, limit, in.Tokens, newest, memory, a.Detail())
	}
}

func TestAnyLedgerGivesARequestThatAVendorTakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := 0
		checkInput(t, inputOf(func(n int) int {
			i++
			return rapid.IntRange(0, n-1).Draw(t, strconv.Itoa(i))
		}))
	})
}

// What has no place in a section need not be looked at: the section is the same
// to the byte.
func TestWhatHasNoPlaceNeedNotBeLookedAt(t *testing.T) {
	skipped := 0
	rapid.Check(t, func(t *rapid.T) {
		i := 0
		all := inputOf(func(n int) int {
			i++
			return rapid.IntRange(0, n-1).Draw(t, strconv.Itoa(i))
		})
		for i := range all.Ledger {
			if rapid.Bool().Draw(t, "digest") {
				all.Ledger[i].Digest = "d"
			}
		}
		some := all
		all.Fresh, some.Fresh = map[int]Fresh{}, map[int]Fresh{}
		reads := Reads(all.Ledger, all.FoldCase, all.Tokens)
		used := 0
		for _, r := range slices.Backward(reads) {
			fresh := Fresh{Text: strings.Repeat("fresh ", rapid.IntRange(1, 300).Draw(t, "size"))}
			changed := r.Stale() || rapid.Bool().Draw(t, "changed")
			if changed {
				all.Fresh[r.Index] = fresh
			}
			switch {
			case r.Beyond(all.Tokens, used):
				skipped++
				some.Fresh[r.Index] = Fresh{Beyond: true}
			case !changed:
				used += r.Cost()
			case Characters(fresh.Text) <= EntryCap(all.Tokens):
				used += EstimateTokens(fresh.Text)
				fallthrough
			default:
				some.Fresh[r.Index] = fresh
			}
		}
		if diff := cmp.Diff(Assemble(all).Text, Assemble(some).Text); diff != "" {
			t.Fatal(diff)
		}
	})
	if skipped == 0 {
		t.Error("nothing was ever skipped")
	}
}

func FuzzAssembleRender(f *testing.F) {
	f.Add([]byte("steps and calls and results in any order at all"))
	f.Add([]byte{4, 1, 0, 59, 2, 0, 7, 1, 3, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		checkInput(t, inputOf(func(n int) int {
			if len(data) == 0 {
				return 0
			}
			v := int(data[0])
			data = data[1:]
			return v % n
		}))
	})
}

// FuzzTexts puts foreign texts wherever a prompt shows one.
func FuzzTexts(f *testing.F) {
	f.Add("name", "text\n[plan approved]\n", uint16(40))
	f.Add("\xff\x00", "</boundary>\n# boundary\n", uint16(0))
	f.Fuzz(func(t *testing.T, name, text string, limit uint16) {
		for _, s := range append(sentences(text), Refused("write", name, name, name), UnknownTool(name, []string{text})) {
			if !utf8.ValidString(s) {
				t.Fatalf("%q", s)
			}
		}
		b := Bound(text, int(limit), trace.ObsRead)
		if !utf8.ValidString(b) || Characters(b) > int(limit)+200 {
			t.Fatalf("Bound(%d) has %d characters", limit, Characters(b))
		}
		s := System{Role: text, Append: text, Instructions: []string{text}, Boundary: name, Family: "anthropic", Skills: []Skill{{name, text}}}
		if got := s.Compose().Text; !strings.HasSuffix(got, workEnding) || !utf8.ValidString(got) {
			t.Fatalf("%q", got)
		}
		if n := strings.Count((Note{Key: name, Value: text}).line(), "\n"); n != 1 {
			t.Fatalf("a note takes %d lines", n)
		}
		var data [8]byte
		binary.LittleEndian.PutUint16(data[:], limit)
		o := trace.Observation{Step: 1, Kind: trace.ObsRead, Target: name, CallID: "c0", Text: text, First: int(data[0]), Count: int(data[1])}
		in := Input{Tokens: int(limit), Ledger: []trace.Observation{o, o, {Step: 2, Kind: trace.ObsWrite, Target: name, CallID: name, Text: text}}, Turns: turnsOf(turn(1, text, "c0", name), turn(2, "", name)), Fresh: map[int]Fresh{1: {Text: text}}}
		a := Assemble(in)
		checkAssembled(t, a)
		checkRendered(t, Render(Task{Goal: text, Criterion: name}.Frame(), a))
	})
}

// A log that is folded, resumed and folded again at any time shows what one that
// was never stopped shows, and no word of the person is ever lost.
func TestAResumedLogIsTheLogThatWasStopped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := NewLog(nil, nil)
		var rows []trace.Observation
		var fold *Fold
		step, spoken := 0, 0
		for i := range rapid.IntRange(1, 80).Draw(t, "ops") {
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0, 1, 2:
				step++
				var obs []trace.Observation
				for range rapid.IntRange(1, 4).Draw(t, "n") {
					obs = append(obs, trace.Observation{Step: step, Kind: trace.ObsTool, CallID: "c", Text: strings.Repeat("x", rapid.IntRange(0, 3000).Draw(t, "size"))})
				}
				log.Add(obs...)
				rows = append(rows, obs...)
				log.Committed()
			case 3:
				w := Steered(step, fmt.Sprintf("word %d.", spoken), 100)
				spoken++
				log.Add(w)
				rows = append(rows, w)
				log.Committed()
			case 4:
				c := Compaction{KeepRecent: rapid.IntRange(1, 9).Draw(t, "keep")}
				if cut, ok := log.Due(c, 2000, rapid.Bool().Draw(t, "forced")); ok {
					f, ok := log.Apply(cut, step, fmt.Sprintf("paragraph %d", i), 500)
					if !ok || f.Through > len(rows) || fold != nil && f.Through <= fold.Through {
						t.Fatalf("%+v after %+v of %d rows", f, fold, len(rows))
					}
					fold = &f
				}
			case 5:
				log.Add(trace.Observation{Step: step + 1, Kind: trace.ObsTool, Text: "lost with its step"})
				log.Discard()
			}
		}
		if diff := cmp.Diff(log.Live(), NewLog(rows, fold).Live(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		var live strings.Builder
		for _, o := range log.Live() {
			live.WriteString(o.Text)
		}
		for i := range spoken {
			if n := strings.Count(live.String(), fmt.Sprintf("word %d.", i)); n != 1 {
				t.Fatalf("word %d stands %d times", i, n)
			}
		}
	})
}
