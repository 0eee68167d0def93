package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// Transcript is a whole conversation read back, branches that were left behind
// included. Its JSON form has null where something is absent.
type Transcript struct {
	SessionID trace.SessionID  `json:"session_id"`
	Root      string           `json:"root"`
	Turns     []TranscriptTurn `json:"turns"` // in the order in which they began
}

// TranscriptTurn is one exchange, whole: nothing in it is shortened.
type TranscriptTurn struct {
	TurnID       trace.TurnID       `json:"turn_id"`
	ParentTurnID *trace.TurnID      `json:"parent_turn_id"` // nil for a first turn
	RunID        trace.RunID        `json:"run_id"`
	OnPath       bool               `json:"on_path"` // on the way to where the handle stands
	Prompt       string             `json:"prompt"`
	Reply        *string            `json:"reply"`   // nil while it runs, and without a last word
	Outcome      *trace.OutcomeKind `json:"outcome"` // nil while it runs, and when its process died
	CreatedAt    time.Time          `json:"created_at"`
	Summaries    []Summary          `json:"summaries"` // the oldest first
}

// Summary is a paragraph that took the place of observations in what the model
// of a turn was shown.
type Summary struct {
	ThroughStep int    `json:"through_step"`
	Folded      int    `json:"folded"` // observations that it stands for, an earlier summary's among them
	Text        string `json:"text"`
}

// Transcript reads the conversation. It writes nothing and asks nobody.
func (s *Session) Transcript(ctx context.Context) (*Transcript, error) {
	turns, err := s.host.Store.SessionTurns(ctx, s.id)
	if err != nil {
		return nil, err
	}
	path, err := s.host.Store.History(ctx, s.id, s.Head())
	if err != nil {
		return nil, err
	}
	folds, err := s.host.Store.SessionSummaries(ctx, s.id)
	if err != nil {
		return nil, err
	}
	onPath := make(map[trace.TurnID]bool, len(path))
	for _, t := range path {
		onPath[t.ID] = true
	}
	tr := &Transcript{SessionID: s.id, Root: s.root, Turns: make([]TranscriptTurn, len(turns))}
	for i, r := range turns {
		t := TranscriptTurn{
			TurnID: r.ID, ParentTurnID: some(r.ParentID), RunID: r.RunID, OnPath: onPath[r.ID], Prompt: r.Prompt,
			Reply: some(r.Reply), Outcome: some(r.Outcome), CreatedAt: r.CreatedAt, Summaries: []Summary{},
		}
		for _, f := range folds[r.RunID] {
			t.Summaries = append(t.Summaries, Summary{ThroughStep: f.ThroughStep, Folded: f.Folded, Text: f.Text})
		}
		tr.Turns[i] = t
	}
	return tr, nil
}

// some is v, or nil when it is the zero value.
func some[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Markdown writes the transcript for people: one section for each turn. What was
// said is quoted or fenced, so that no word of it can pass for a heading, the end
// of a section or a command to a terminal.
func (t *Transcript) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Session %d\n\n%s\n", t.SessionID, code(t.Root))
	if len(t.Turns) == 0 {
		b.WriteString("\nNo turn has been taken.\n")
	}
	for _, turn := range t.Turns {
		fmt.Fprintf(&b, "\n## Turn %d", turn.TurnID)
		if !turn.OnPath {
			b.WriteString(" (branched away from)")
		}
		b.WriteString("\n\n" + quoted(turn.Prompt) + "\n")
		if turn.Reply == nil {
			b.WriteString("There was no reply.\n")
		} else {
			b.WriteString(fenced(*turn.Reply))
		}
		for _, s := range turn.Summaries {
			fmt.Fprintf(&b, "\nFolded through step %d (%d observations):\n\n%s", s.ThroughStep, s.Folded, quoted(s.Text))
		}
		outcome := "no outcome"
		if turn.Outcome != nil {
			outcome = code(string(*turn.Outcome))
		}
		fmt.Fprintf(&b, "\n%s, run %d\n", outcome, turn.RunID)
	}
	return b.String()
}

// plain is text without what steers a terminal or turns the direction of
// reading, with one kind of line end.
func plain(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n").Replace(strings.ToValidUTF8(text, "\uFFFD"))
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x061c || r >= 0x200e && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			return '\uFFFD'
		}
		return r
	}, text)
}

// quoted is text as a block quote.
func quoted(text string) string {
	return "> " + strings.ReplaceAll(strings.TrimSuffix(plain(text), "\n"), "\n", "\n> ") + "\n"
}

// fenced is text between fences that are longer than any run of backquotes in it.
func fenced(text string) string {
	text = strings.TrimSuffix(plain(text), "\n")
	fence := strings.Repeat("`", max(3, backquotes(text)+1))
	return fence + "text\n" + text + "\n" + fence + "\n"
}

// code is text as code within a line.
func code(text string) string {
	text = strings.ReplaceAll(plain(text), "\n", "\uFFFD")
	ticks := strings.Repeat("`", backquotes(text)+1)
	if len(ticks) > 1 || text == "" {
		text = " " + text + " "
	}
	return ticks + text + ticks
}

// backquotes is the length of the longest run of backquotes in text.
func backquotes(text string) int {
	longest, run := 0, 0
	for _, r := range text {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
