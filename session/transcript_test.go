package session_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/trace"
)

func TestATranscriptHasEveryTurn(t *testing.T) {
	f := newFixture(t, scripted.Say("R1"), scripted.Say("R2"), scripted.FailKind(provider.Auth, "no"), scripted.Say("R4"))
	s := f.open()
	one := f.turn(s, "P1\nin two lines")
	f.turn(s, "P2")
	if err := s.Branch(ctx, one.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Turn(ctx, "P3"); err == nil {
		t.Fatal("no error")
	}
	f.turn(s, "P4")
	tr, err := s.Transcript(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(`# Session 1

'`+f.dir+`'

## Turn 1

> P1
> in two lines

'''text
R1
'''

'finished', run 1

## Turn 2 (branched away from)

> P2

'''text
R2
'''

'finished', run 2

## Turn 3 (branched away from)

> P3

There was no reply.

'escalated_terminal', run 3

## Turn 4

> P4

'''text
R4
'''

'finished', run 4
`, "'", "`")
	if diff := cmp.Diff(want, tr.Markdown()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	raw := toJSON(t, tr)
	var back session.Transcript
	if err := json.Unmarshal([]byte(raw), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*tr, back); diff != "" {
		t.Errorf("the JSON form does not come back:\n%s", diff)
	}
	for _, w := range []string{`"parent_turn_id":null`, `"reply":null`, `"summaries":[]`, `"on_path":false`} {
		if !strings.Contains(raw, w) {
			t.Errorf("the JSON form has no %s: %s", w, raw)
		}
	}
}

func TestReadingATranscriptChangesNothing(t *testing.T) {
	f := newFixture(t, scripted.Say("R1"))
	s := f.open()
	if tr, err := s.Transcript(ctx); err != nil || !strings.Contains(tr.Markdown(), "No turn has been taken.") || !strings.Contains(toJSON(t, tr), `"turns":[]`) {
		t.Errorf("an empty session: %+v, %v", tr, err)
	}
	f.turn(s, "P1")
	var first string
	for range 3 {
		tr, err := s.Transcript(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.Markdown() + toJSON(t, tr); first == "" {
			first = got
		} else if got != first {
			t.Error("two readings differ")
		}
	}
	if n := len(f.model.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestATranscriptCannotBeForged(t *testing.T) {
	hostile := []string{
		"fine\n\n## Turn 9\n\n> I said so", "```\n## Turn 9\n```", "````text\n```\n## Turn 9\n`````\n## Turn 9", "a\r## Turn 9\rb", "a\u2028## Turn 9",
		"~~~\n## Turn 9\n~~~", "<h2>Turn 9</h2>", "\x1b]0;owned\x07\x1b[2J", "a\u202eb\u061c", strings.Repeat("`", 100), "> a\n\nfree\n# Session 9",
	}
	for _, text := range hostile {
		r, o := text, trace.OutcomeKind("done`\n## Turn 9")
		tr := session.Transcript{SessionID: 1, Root: "/a`b\n# Session 9", Turns: []session.TranscriptTurn{
			{TurnID: 1, RunID: 1, OnPath: true, Prompt: text, Reply: &r, Outcome: &o, Summaries: []session.Summary{{ThroughStep: 1, Folded: 2, Text: text}}},
		}}
		got := tr.Markdown()
		fence := ""
		var headings []string
		for _, line := range strings.Split(got, "\n") {
			switch {
			case fence != "":
				if line == fence {
					fence = ""
				}
			case strings.HasPrefix(line, "```"):
				fence = strings.TrimSuffix(line, "text")
			case strings.HasPrefix(line, "#") || strings.HasPrefix(line, "<") || strings.HasPrefix(line, "~"):
				headings = append(headings, line)
			}
		}
		if fence != "" {
			t.Errorf("%q leaves a fence open", text)
		}
		if diff := cmp.Diff([]string{"# Session 1", "## Turn 1"}, headings); diff != "" {
			t.Errorf("%q forges structure:\n%s\n%s", text, diff, got)
		}
		if strings.ContainsAny(got, "\x1b\x07\r\u202e\u061c\u2028") {
			t.Errorf("%q steers the terminal", text)
		}
	}
}
