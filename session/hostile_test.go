package session_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
)

// Bytes that are no text are replaced where they enter, and nothing else of the
// words changes. No vendor is sent a zero, which not all of them take.
func TestWordsThatAreNoTextAreMadeText(t *testing.T) {
	for name, tc := range map[string]struct{ said, prompt, reply string }{
		"invalid bytes": {"a\xff\xfeb", "a\uFFFDb", "a\uFFFDb"},
		"half a rune":   {"Stra\xc3", "Stra\uFFFD", "Stra\uFFFD"},
		"surrogates":    {"a\xed\xa0\x80b", "a\uFFFDb", "a\uFFFDb"},
		"a zero":        {"a\x00b", "a\x00b", "a\uFFFDb"},
		"terminal":      {"\x1b[2J\u202ea", "\x1b[2J\u202ea", "\x1b[2J\u202ea"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, scripted.Say(tc.said), write("a.txt", tc.said), scripted.Say(tc.said), scripted.Say("ok"))
			s := f.open()
			answered := f.turn(s, tc.said, session.WithObserver(f.seen))
			worked := f.turn(s, tc.said+"!", session.WithObserver(f.seen))
			f.turn(f.reopen(s.ID()), "next")
			for _, turn := range []*session.Turn{answered, worked} {
				row, err := f.store.SessionTurn(ctx, turn.ID)
				if err != nil || strings.TrimSuffix(row.Prompt, "!") != tc.prompt || row.Reply != tc.reply {
					t.Errorf("kept %q and %q, %v, want %q and %q", row.Prompt, row.Reply, err, tc.prompt, tc.reply)
				}
				if turn.Reply != row.Reply || turn.Prompt != row.Prompt {
					t.Errorf("handed back %q to %q, stored %q to %q", turn.Reply, turn.Prompt, row.Reply, row.Prompt)
				}
			}
			for i, req := range f.model.Requests() {
				if text := said(req); !utf8.ValidString(text) || strings.Contains(text, "\x00") {
					t.Errorf("request %d is no text: %q", i, text)
				}
			}
			tr, err := s.Transcript(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid([]byte(toJSON(t, tr))) || !utf8.ValidString(tr.Markdown()) {
				t.Errorf("the transcript is no text: %q", tr.Markdown())
			}
			if rep, err := f.store.Check(ctx); err != nil || !rep.Sound() {
				t.Errorf("%+v, %v", rep, err)
			}
		})
	}
}
