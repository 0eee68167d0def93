package approve

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseQuestion(t *testing.T) {
	for _, tc := range []struct {
		name string
		args string
		want Question
		says string
	}{
		{"a plain question", `{"question":" which port? "}`, Question{Text: "which port?"}, ""},
		{"an empty context is none", `{"question":"a","context":" "}`, Question{Text: "a"}, ""},
		{"labels as text", `{"question":"a","choices":["x","y"]}`, Question{Text: "a", Choices: []Choice{{Label: "x"}, {Label: "y"}}}, ""},
		{"described offers", `{"question":"a","context":"c","choices":[{"label":" x ","description":" d ","preview":" p\n"},"y"],"multiple":true}`,
			Question{Text: "a", Context: "c", Choices: []Choice{{Label: " x ", Description: "d", Preview: " p\n"}, {Label: "y"}}, Multiple: true}, ""},
		{"an empty list of offers is none", `{"question":"a","choices":[]}`, Question{Text: "a"}, ""},
		{"nulls are absent", `{"question":"a","context":null,"choices":null,"multiple":null}`, Question{Text: "a"}, ""},
		{"a blank question", `{"question":"  "}`, Question{}, "question is blank"},
		{"no question", `{}`, Question{}, "question is blank"},
		{"a question that is no text", `{"question":1}`, Question{}, "question must be text"},
		{"offers that are no list", `{"question":"a","choices":"x"}`, Question{}, "choices must be a list"},
		{"an offer that is a number", `{"question":"a","choices":["x",1]}`, Question{}, "choices[1] must be text"},
		{"an offer without a label", `{"question":"a","choices":[{}]}`, Question{}, "choices[0] has a blank label"},
		{"an offer with an empty label", `{"question":"a","choices":["x",""]}`, Question{}, "choices[1] has a blank label"},
		{"a label that is no text", `{"question":"a","choices":[{"label":[]}]}`, Question{}, "choices[0].label"},
		{"a preview that is no text", `{"question":"a","choices":[{"label":"x","preview":{}}]}`, Question{}, "choices[0].preview"},
		{"several without offers", `{"question":"a","multiple":true}`, Question{}, "multiple is set without choices"},
		{"several that is no boolean", `{"question":"a","choices":["x"],"multiple":"yes"}`, Question{}, "multiple must be true or false"},
		{"a question twice", `{"question":"a","question":"b"}`, Question{}, "twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseQuestion(json.RawMessage(tc.args))
			checkParse(t, tc.says, err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the question differs (-want +got):\n%s", diff)
			}
		})
	}
}

func checkParse(t *testing.T, says string, err error) {
	t.Helper()
	switch {
	case says == "" && err != nil:
		t.Fatal(err)
	case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
		t.Fatalf("error = %v, want one that says %q", err, says)
	}
}

func TestParseQuestions(t *testing.T) {
	list := func(n int) string {
		return `{"questions":[` + strings.TrimSuffix(strings.Repeat(`{"question":"a"},`, n), ",") + `]}`
	}
	for _, tc := range []struct {
		name, args string
		want       int
		says       string
	}{
		{"one", list(1), 1, ""},
		{"as many as there may be", list(BatchQuestions), BatchQuestions, ""},
		{"none", list(0), 0, "0 entries"},
		{"one too many", list(BatchQuestions + 1), 0, "11 entries"},
		{"missing", `{}`, 0, "questions is missing"},
		{"a blank one is named by its place", `{"questions":[{"question":"a"},{"question":" "}]}`, 0, "questions[1].question is blank"},
		{"an offer is named by its place", `{"questions":[{"question":"a","choices":["x",3]}]}`, 0, "questions[0].choices[1]"},
		{"several without offers is named by its place", `{"questions":[{"question":"a","multiple":true}]}`, 0, "questions[0].multiple"},
		{"a text for a question", `{"questions":["a"]}`, 0, "questions[0] must be an object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseQuestions(json.RawMessage(tc.args))
			checkParse(t, tc.says, err)
			if len(got) != tc.want {
				t.Errorf("%d questions, want %d", len(got), tc.want)
			}
		})
	}
}

func TestChoicesAsStored(t *testing.T) {
	in := []Choice{{Label: "a"}, {Label: "b", Description: "d", Preview: "p"}}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := `["a",{"label":"b","description":"d","preview":"p"}]`; string(data) != want {
		t.Errorf("stored as %s, want %s", data, want)
	}
	var out []Choice
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Errorf("read back differently (-want +got):\n%s", diff)
	}
	if err := json.Unmarshal([]byte(`[{}]`), &out); err == nil {
		t.Error("a choice without a label was read")
	}
}

func TestOneSpellingOfAnAnswer(t *testing.T) {
	q := Question{Choices: []Choice{{Label: "red"}, {Label: "green"}, {Label: "blue"}}, Multiple: true}
	for _, tc := range []struct {
		labels []string
		want   string
	}{
		{[]string{"red"}, "red"},
		{[]string{"blue", "red"}, "red; blue"},
		{[]string{"blue", "red", "blue"}, "red; blue"},
		{[]string{"pink", "red"}, "red; pink"},
		{nil, ""},
	} {
		if got := q.AnswerOf(tc.labels...); got != tc.want {
			t.Errorf("AnswerOf(%q) = %q, want %q", tc.labels, got, tc.want)
		}
	}
}

func TestWhatIsShownOfAPreview(t *testing.T) {
	lines := func(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+"\n", n), "\n") }
	for _, tc := range []struct{ name, in, want string }{
		{"a short one", "a\nb\n", "a\nb"},
		{"as many lines as fit", lines(PreviewLines, "x"), lines(PreviewLines, "x")},
		{"one line too many", lines(PreviewLines+1, "x"), lines(PreviewLines, "x") + "\n[cut: 12 of 13 lines shown]"},
		{"as many bytes as fit", strings.Repeat("x", PreviewBytes), strings.Repeat("x", PreviewBytes)},
		{"as many bytes as fit in two lines", strings.Repeat("x", 400) + "\n" + strings.Repeat("y", PreviewBytes-401), strings.Repeat("x", 400) + "\n" + strings.Repeat("y", PreviewBytes-401)},
		{"one byte too many in two lines", strings.Repeat("x", 400) + "\n" + strings.Repeat("y", PreviewBytes-400), strings.Repeat("x", 400) + "\n[cut: 1 of 2 lines shown]"},
		{"lines are kept whole", lines(3, strings.Repeat("x", 300)), lines(2, strings.Repeat("x", 300)) + "\n[cut: 2 of 3 lines shown]"},
		{"one endless line is cut between characters", strings.Repeat("é", 500), strings.Repeat("é", PreviewBytes/2) + "\n[cut: 1 of 1 lines shown]"},
		{"colours", "\x1b[31mred\x1b[0m", "red"},
		{"a title", "\x1b]0;owned\x07text", "text"},
		{"a title with the long end", "\x1b]0;owned\x1b\\text", "text"},
		{"a clear screen in the middle", "a\x1b[2Jb", "ab"},
		{"an unfinished sequence", "a\x1b[31", "a"},
		{"a lone escape at the end", "a\x1b", "a"},
		{"a two-byte sequence", "a\x1bcb", "ab"},
		{"an eight-bit sequence", "a\u009b31mb", "a31mb"},
		{"carriage returns and bells", "a\r\a\bb", "ab"},
		{"bidirectional overrides", "a\u202eb", "ab"},
		{"tabs", "a\tb", "a    b"},
		{"invalid bytes", "a\xffb", "ab"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Question{Choices: []Choice{{Label: "l", Preview: tc.in}}}.Shown().Choices[0].Preview
			if got != tc.want {
				t.Errorf("shown as %q, want %q", got, tc.want)
			}
		})
	}
}

func TestQuestionsAsText(t *testing.T) {
	q := Question{
		Text: "which\x1b[2J one?", Context: "line one\nline two",
		Choices:  []Choice{{Label: "a\nb", Description: "first", Preview: "x\ny"}, {Label: "c"}},
		Multiple: true,
	}
	want := "which\\x1b[2J one?\nline one\nline two\n  1) a\\nb - first\n     x\n     y\n  2) c\n  (more than one may be taken)"
	if got := q.Render(); got != want {
		t.Errorf("rendered as\n%s\nwant\n%s", got, want)
	}
	if got := RenderQuestions([]Question{{Text: "a"}}); got != "a" {
		t.Errorf("a batch of one reads %q", got)
	}
	if got, want := RenderQuestions([]Question{{Text: "a"}, {Text: "b"}}), "Question 1 of 2: a\n\nQuestion 2 of 2: b"; got != want {
		t.Errorf("a batch of two reads %q, want %q", got, want)
	}
}

type batch struct {
	replies []Reply
	err     error
}

func (b batch) Answer(context.Context, Question) (Reply, error) { panic("asked one by one") }
func (b batch) AnswerAll(context.Context, []Question) ([]Reply, error) {
	return b.replies, b.err
}

func TestAskQuestions(t *testing.T) {
	boom := errors.New("boom")
	two := []Question{{Text: "a"}, {Text: "b"}}
	only := func(text string) Responder {
		return ResponderFunc(func(_ context.Context, q Question) (Reply, error) {
			if q.Text == text {
				return Say("to " + text), nil
			}
			return Reply{}, nil
		})
	}
	for _, tc := range []struct {
		name string
		r    Responder
		want []Reply
		err  error
	}{
		{"no responder answers nothing", nil, []Reply{{}, {}}, nil},
		{"one after another", Always("yes"), []Reply{Say("yes"), Say("yes")}, nil},
		{"an empty answer is an answer", Always(""), []Reply{{"", true}, {"", true}}, nil},
		{"the first that is declined ends it", only("b"), []Reply{{}, {}}, nil},
		{"answers before it are kept", only("a"), []Reply{Say("to a"), {}}, nil},
		{"a batch at once", batch{replies: []Reply{Say("1"), {}}}, []Reply{Say("1"), {}}, nil},
		{"a batch that fails", batch{replies: []Reply{Say("1"), Say("2")}, err: boom}, []Reply{{}, {}}, boom},
		{"an error", ResponderFunc(func(context.Context, Question) (Reply, error) { return Say("x"), boom }), []Reply{{}, {}}, boom},
		{"a panic", ResponderFunc(func(context.Context, Question) (Reply, error) { panic("x") }), []Reply{{}, {}}, errPanic},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := AskQuestions(t.Context(), tc.r, two)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the replies differ (-want +got):\n%s", diff)
			}
			checkErr(t, err, tc.err)
		})
	}
	got, err := AskQuestions(t.Context(), batch{replies: []Reply{Say("1")}}, two)
	if err == nil || got[0].Answered || got[1].Answered {
		t.Errorf("a batch with one reply to two questions = %v, %v", got, err)
	}
}
