package approve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/policy"
)

// A Responder answers what a model asks about its task.
//
// Answer may be called from several goroutines at once, since a tree shares one
// responder. Nothing times it out, it should return soon when ctx ends, and an error
// or a panic leaves the question open. An answer is text for the model: it authorises
// nothing.
type Responder interface {
	Answer(ctx context.Context, q Question) (Reply, error)
}

// BatchResponder is implemented by a responder that can show several questions at
// once. It returns one reply per question, in order. Other responders are asked one
// question after another.
type BatchResponder interface {
	Responder
	AnswerAll(ctx context.Context, qs []Question) ([]Reply, error)
}

// ResponderFunc is a function as a [Responder].
type ResponderFunc func(ctx context.Context, q Question) (Reply, error)

// Answer calls f.
func (f ResponderFunc) Answer(ctx context.Context, q Question) (Reply, error) { return f(ctx, q) }

// Reply is a responder's word. The zero Reply means that nobody here can answer, and
// the run pauses; an answer may be empty.
type Reply struct {
	Text     string
	Answered bool
}

// Say is the reply with this text, which may be empty.
func Say(text string) Reply { return Reply{Text: text, Answered: true} }

// Always is a responder that gives every question the same answer, as tests want it.
func Always(text string) Responder {
	return ResponderFunc(func(context.Context, Question) (Reply, error) { return Say(text), nil })
}

// Bounds of questions.
const (
	BatchQuestions = 10  // questions in one ask
	PreviewLines   = 12  // lines of a preview that are shown
	PreviewBytes   = 800 // bytes of a preview that are shown, cut at a line
)

// Question is what a model wants to know. All texts are the model's own and are
// stored raw; Shown makes them safe to print.
type Question struct {
	Text     string   `json:"question"`
	Context  string   `json:"context,omitempty"`
	Choices  []Choice `json:"choices,omitempty"`  // offers; the answer need not be one of them
	Multiple bool     `json:"multiple,omitempty"` // more than one offer may be taken
}

// Choice is one offer.
type Choice struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"` // what taking it means
	Preview     string `json:"preview,omitempty"`     // what it would do, concretely
}

// MarshalJSON writes a choice that is only a label as a string, as older readers
// expect it.
func (c Choice) MarshalJSON() ([]byte, error) {
	if c.Description == "" && c.Preview == "" {
		return json.Marshal(c.Label)
	}
	type plain Choice
	return json.Marshal(plain(c))
}

// UnmarshalJSON reads a string, or an object with a label. It is strict, as
// [ParseQuestion] is.
func (c *Choice) UnmarshalJSON(data []byte) error {
	got, err := parseChoice(data, "choice")
	if err != nil {
		return err
	}
	*c = got
	return nil
}

// AnswerOf is the answer that takes these labels, spelled the same from every
// interface: in the order of the offers, each once, joined by "; ". Labels that are no
// offer come last, as given.
func (q Question) AnswerOf(labels ...string) string {
	var out []string
	take := func(label string) {
		if !slices.Contains(out, label) {
			out = append(out, label)
		}
	}
	for _, c := range q.Choices {
		if slices.Contains(labels, c.Label) {
			take(c.Label)
		}
	}
	for _, l := range labels {
		take(l)
	}
	return strings.Join(out, "; ")
}

// Shown returns q as it may be printed: control characters and escape sequences are
// written out, and previews are cut to [PreviewLines] and [PreviewBytes] at a line,
// and say so.
func (q Question) Shown() Question {
	out := Question{Text: shownLines(q.Text), Context: shownLines(q.Context), Multiple: q.Multiple}
	for _, c := range q.Choices {
		out.Choices = append(out.Choices, Choice{
			Label:       policy.Escape(c.Label),
			Description: policy.Escape(c.Description),
			Preview:     shownPreview(c.Preview),
		})
	}
	return out
}

// Render is the question as text: the question, its context, and the numbered offers.
func (q Question) Render() string {
	s := q.Shown()
	var b strings.Builder
	b.WriteString(s.Text)
	if s.Context != "" {
		b.WriteString("\n" + s.Context)
	}
	for i, c := range s.Choices {
		fmt.Fprintf(&b, "\n  %d) %s", i+1, c.Label)
		if c.Description != "" {
			b.WriteString(" - " + c.Description)
		}
		if c.Preview != "" {
			b.WriteString("\n     " + strings.ReplaceAll(c.Preview, "\n", "\n     "))
		}
	}
	if s.Multiple {
		b.WriteString("\n  (more than one may be taken)")
	}
	return b.String()
}

// RenderQuestions is a whole ask as one text, which a reader that knows only single
// questions can show and have answered.
func RenderQuestions(qs []Question) string {
	if len(qs) == 1 {
		return qs[0].Render()
	}
	parts := make([]string, len(qs))
	for i, q := range qs {
		parts[i] = fmt.Sprintf("Question %d of %d: %s", i+1, len(qs), q.Render())
	}
	return strings.Join(parts, "\n\n")
}

func shownLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = policy.Escape(lines[i])
	}
	return strings.Join(lines, "\n")
}

// shownPreview strips what could act on a terminal before it cuts, so that the bounds
// hold for what is shown.
func shownPreview(s string) string {
	if s == "" {
		return ""
	}
	lines := strings.Split(strings.TrimRight(stripControls(s), "\n"), "\n")
	kept, size := 0, 0
	for ; kept < len(lines) && kept < PreviewLines; kept++ {
		if size += len(lines[kept]) + 1; size > PreviewBytes+1 {
			break
		}
	}
	if kept == len(lines) {
		return strings.Join(lines, "\n")
	}
	shown := lines[:kept:kept]
	if kept == 0 { // one line is too long by itself
		cut := PreviewBytes
		for cut > 0 && !utf8.RuneStart(lines[0][cut]) {
			cut--
		}
		shown = []string{lines[0][:cut]}
		kept = 1
	}
	return strings.Join(append(shown, fmt.Sprintf("[cut: %d of %d lines shown]", kept, len(lines))), "\n")
}

// stripControls removes escape sequences and every character that cannot be seen,
// except line breaks; tabs become spaces.
func stripControls(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if n := escapeSequence(s[i:]); n > 0 {
			i += n
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\n':
			b.WriteByte('\n')
		case r == '\t':
			b.WriteString("    ")
		case policy.Escape(s[i:i+n]) == s[i:i+n]:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// escapeSequence returns the length of the terminal escape sequence that s begins
// with, 0 if there is none: CSI up to its final byte, string sequences up to their
// terminator, anything else two bytes.
func escapeSequence(s string) int {
	if len(s) < 2 || s[0] != 0x1b {
		return 0
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
			if s[i] < 0x20 || s[i] > 0x7e {
				return i
			}
		}
		return len(s)
	case ']', 'P', 'X', '^', '_':
		for i := 2; i < len(s); i++ {
			switch {
			case s[i] == 0x07:
				return i + 1
			case s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\':
				return i + 2
			case s[i] == '\n':
				return i
			}
		}
		return len(s)
	}
	if s[1] < 0x20 || s[1] > 0x7e {
		return 1
	}
	return 2
}

// ParseQuestion reads the arguments of a single question: question, context, choices
// and multiple. It is strict, so that a person sees what the model meant to ask: a
// blank question, choices that are no list, an offer that is neither text nor an
// object with a label, a blank label, and multiple without choices are errors that
// name the place. Labels are stored as they are.
func ParseQuestion(args json.RawMessage) (Question, error) { return parseQuestion(args, "") }

// ParseQuestions reads the arguments of a batch, {"questions":[…]}, of 1 to
// [BatchQuestions] questions, each as strictly as [ParseQuestion] does.
func ParseQuestions(args json.RawMessage) ([]Question, error) {
	top, err := members(args, "arguments")
	if err != nil {
		return nil, err
	}
	list, err := items(top["questions"], "questions")
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || len(list) > BatchQuestions {
		return nil, fmt.Errorf("questions has %d entries: ask 1 to %d at once", len(list), BatchQuestions)
	}
	out := make([]Question, len(list))
	for i, raw := range list {
		if out[i], err = parseQuestion(raw, fmt.Sprintf("questions[%d].", i)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func parseQuestion(raw json.RawMessage, where string) (Question, error) {
	place := strings.TrimSuffix(where, ".")
	if place == "" {
		place = "arguments"
	}
	m, err := members(raw, place)
	if err != nil {
		return Question{}, err
	}
	var q Question
	if q.Text, err = trimmed(m["question"], where+"question"); err != nil {
		return Question{}, err
	}
	if q.Text == "" {
		return Question{}, fmt.Errorf("%squestion is blank: say what you need to know", where)
	}
	if q.Context, err = trimmed(m["context"], where+"context"); err != nil {
		return Question{}, err
	}
	if raw := m["choices"]; !absent(raw) {
		list, err := items(raw, where+"choices")
		if err != nil {
			return Question{}, err
		}
		for i, raw := range list {
			c, err := parseChoice(raw, fmt.Sprintf("%schoices[%d]", where, i))
			if err != nil {
				return Question{}, err
			}
			q.Choices = append(q.Choices, c)
		}
	}
	if raw := m["multiple"]; !absent(raw) {
		if err := json.Unmarshal(raw, &q.Multiple); err != nil {
			return Question{}, fmt.Errorf("%smultiple must be true or false", where)
		}
	}
	if q.Multiple && len(q.Choices) == 0 {
		return Question{}, fmt.Errorf("%smultiple is set without choices: offer some, or leave it out", where)
	}
	return q, nil
}

func parseChoice(raw json.RawMessage, where string) (Choice, error) {
	var c Choice
	switch b := bytes.TrimSpace(raw); {
	case len(b) > 0 && b[0] == '"':
		if err := json.Unmarshal(b, &c.Label); err != nil {
			return Choice{}, fmt.Errorf("%s: %w", where, err)
		}
	case len(b) > 0 && b[0] == '{':
		m, err := members(b, where)
		if err != nil {
			return Choice{}, err
		}
		if !absent(m["label"]) {
			if err := json.Unmarshal(m["label"], &c.Label); err != nil {
				return Choice{}, fmt.Errorf("%s.label must be text", where)
			}
		}
		if c.Description, err = trimmed(m["description"], where+".description"); err != nil {
			return Choice{}, err
		}
		if !absent(m["preview"]) {
			if err := json.Unmarshal(m["preview"], &c.Preview); err != nil {
				return Choice{}, fmt.Errorf("%s.preview must be text", where)
			}
		}
	default:
		return Choice{}, fmt.Errorf("%s must be text, or an object with a label", where)
	}
	if strings.TrimSpace(c.Label) == "" {
		return Choice{}, fmt.Errorf("%s has a blank label", where)
	}
	return c, nil
}
