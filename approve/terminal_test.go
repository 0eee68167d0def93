package approve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/policy"
)

func TestATerminalApproves(t *testing.T) {
	for _, tc := range []struct {
		name, typed string
		want        DecisionKind
		says        string
	}{
		{"y", "y\n", DecisionApprove, ""},
		{"Y", "Y\n", DecisionApprove, ""},
		{"y with blanks around it", "  y \r\n", DecisionApprove, ""},
		{"y without the end of the line", "y", DecisionApprove, ""},
		{"n", "n\n", DecisionDeny, "person at the terminal"},
		{"yes is more than y", "yes\n", DecisionDeny, "who wrote: yes"},
		{"a sentence is the reason", "use make instead\n", DecisionDeny, "use make instead"},
		{"an empty line", "\n", DecisionDeny, "person at the terminal"},
		{"the end of the input", "", DecisionDeny, "terminal (end of input)"},
		{"a line that is too long", strings.Repeat("y", terminalLine+1) + "\ny\n", DecisionDeny, "too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			got, err := Stdin(strings.NewReader(tc.typed), &out).Decide(t.Context(), Request{Act: policy.Exec, Target: "rm -rf build"})
			if err != nil || got.Kind != tc.want || !strings.Contains(got.Reason, tc.says) {
				t.Errorf("%q = %+v, %v, want %s with a reason that says %q", tc.typed, got, err, tc.want, tc.says)
			}
			if !strings.Contains(out.String(), "rm -rf build") {
				t.Errorf("the target was not shown: %q", out.String())
			}
		})
	}
}

func TestTheRestOfATooLongLineIsNotTheNextAnswer(t *testing.T) {
	term := Stdin(strings.NewReader(strings.Repeat("x", terminalLine*2)+"\ny\nn\n"), io.Discard)
	for i, want := range []DecisionKind{DecisionDeny, DecisionApprove, DecisionDeny} {
		if got, _ := term.Decide(t.Context(), Request{}); got.Kind != want {
			t.Errorf("answer %d = %s, want %s", i, got.Kind, want)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// unflushed takes what is written and shows it to nobody.
type unflushed struct{ io.Writer }

func (unflushed) Flush() error { return errors.New("the terminal is gone") }

func TestWhatNobodySawIsNotApproved(t *testing.T) {
	if got, err := Stdin(strings.NewReader("y\n"), unflushed{io.Discard}).Decide(t.Context(), Request{Act: policy.Write, Target: "a"}); err != nil || got.Kind != DecisionDeny {
		t.Errorf("a question that stayed in a buffer = %+v, %v, want a denial", got, err)
	}
	term := Stdin(strings.NewReader("y\n"), brokenWriter{})
	got, err := term.Decide(t.Context(), Request{Act: policy.Write, Target: "a"})
	if err != nil || got.Kind != DecisionDeny {
		t.Errorf("a question that could not be printed = %+v, %v, want a denial", got, err)
	}
	if v, err := term.Review(t.Context(), Plan{}); err != nil || v.Decided() {
		t.Errorf("a plan that could not be printed = %+v, %v, want undecided", v, err)
	}
	if r, err := term.AnswerAll(t.Context(), []Question{{Text: "a"}}); err != nil || r[0].Answered {
		t.Errorf("a batch that could not be printed = %+v, %v, want no answer", r, err)
	}
}

func TestATerminalShowsEverythingAndDrawsNothing(t *testing.T) {
	var out bytes.Buffer
	_, err := Stdin(strings.NewReader("n\n"), &out).Decide(t.Context(), Request{
		Act: policy.Exec, Target: "sh -c \x1b[2Jls", Argv: []string{"sh", "-c", "\x1b[2Jls \u202e"}, Tool: "exec",
		Goal: "build it", Content: "line one\nline\rtwo", Rule: "sh*", Layer: "ops", Matched: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "\nThe agent wants to exec: sh -c \\x1b[2Jls\n" +
		"  arguments: \"sh\" \"-c\" \"\\x1b[2Jls \\u202e\"\n" +
		"  tool: exec\n  goal: build it\n  asked by: rule \"sh*\" of layer \"ops\"\n" +
		"  | line one\n  | line\\rtwo\n\nApprove? [y/N] "
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("the question differs (-want +got):\n%s", diff)
	}
}

func TestALongContentIsCutInTheMiddle(t *testing.T) {
	var out bytes.Buffer
	body := "HEAD" + strings.Repeat("é", terminalContent) + "TAIL"
	_, _ = Stdin(strings.NewReader("n\n"), &out).Decide(t.Context(), Request{Act: policy.Write, Target: "a", Content: body})
	got := out.String()
	if !strings.Contains(got, "HEAD") || !strings.Contains(got, "TAIL") || !strings.Contains(got, "bytes are not shown") || len(got) > terminalContent+500 {
		t.Errorf("%d bytes shown of %d: %.80q", len(got), len(body), got)
	}
	if strings.Contains(got, `\x`) {
		t.Error("a character was cut in two")
	}
}

func TestATerminalReviewsPlans(t *testing.T) {
	for _, tc := range []struct {
		name, typed string
		want        PlanVerdict
	}{
		{"y", "y\n", Accept()},
		{"N", "N\n", Cancel()},
		{"anything else is a correction", "tests first\n", Revise("tests first")},
		{"an empty line leaves it undecided", "\n", PlanVerdict{}},
		{"the end of the input leaves it undecided", "", PlanVerdict{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			got, err := Stdin(strings.NewReader(tc.typed), &out).Review(t.Context(), Plan{Steps: []PlanStep{{Intent: "look"}, {Intent: "write", Agent: "w"}}})
			if err != nil || got != tc.want {
				t.Errorf("%q = %+v, %v, want %+v", tc.typed, got, err, tc.want)
			}
			if !strings.Contains(out.String(), "1. look\n2. [w] write\n") {
				t.Errorf("the plan was not shown: %q", out.String())
			}
		})
	}
}

func TestATerminalAnswersQuestions(t *testing.T) {
	one := Question{Text: "colour?", Choices: []Choice{{Label: "red"}, {Label: "green"}, {Label: "blue"}}}
	several := one
	several.Multiple = true
	for _, tc := range []struct {
		name, typed string
		q           Question
		want        Reply
	}{
		{"text is the answer", "mauve\n", one, Say("mauve")},
		{"a number takes an offer", "2\n", one, Say("green")},
		{"the last offer", "3\n", one, Say("blue")},
		{"a number out of range is text", "4\n", one, Say("4")},
		{"nought is text", "0\n", one, Say("0")},
		{"several numbers where one is wanted are text", "1, 3\n", one, Say("1, 3")},
		{"several numbers take several offers", "3, 1\n", several, Say("red; blue")},
		{"several numbers with one out of range are text", "1 9\n", several, Say("1 9")},
		{"one number of several", "3\n", several, Say("blue")},
		{"text where several may be taken", "red and gold\n", several, Say("red and gold")},
		{"a number without offers is text", "2\n", Question{Text: "how many?"}, Say("2")},
		{"an empty line is no answer", "\n", one, Reply{}},
		{"the end of the input is no answer", "", one, Reply{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Stdin(strings.NewReader(tc.typed), io.Discard).Answer(t.Context(), tc.q)
			if err != nil || got != tc.want {
				t.Errorf("%q = %+v, %v, want %+v", tc.typed, got, err, tc.want)
			}
		})
	}
}

func TestATerminalShowsABatchBeforeItsFirstAnswer(t *testing.T) {
	in, typing := io.Pipe()
	var out syncBuffer
	done := make(chan []Reply)
	go func() {
		got, err := Stdin(in, &out).AnswerAll(t.Context(), []Question{{Text: "first?"}, {Text: "second?"}, {Text: "third?"}})
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	out.waitFor(t, "Answer 1 of 3: ")
	if s := out.String(); !strings.Contains(s, "first?") || !strings.Contains(s, "third?") {
		t.Errorf("before the first answer only this is shown: %q", s)
	}
	fmt.Fprint(typing, "a\n\nc\n")
	if diff := cmp.Diff([]Reply{Say("a"), {}, Say("c")}, <-done); diff != "" {
		t.Errorf("the replies differ (-want +got):\n%s", diff)
	}
}

// syncBuffer is a buffer that one goroutine writes and another waits on.
type syncBuffer struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	news chan struct{}
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Write(p)
	if b.news != nil {
		close(b.news)
		b.news = nil
	}
	return len(p), nil
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *syncBuffer) waitFor(t *testing.T, text string) {
	t.Helper()
	for {
		b.mu.Lock()
		if strings.Contains(b.buf.String(), text) {
			b.mu.Unlock()
			return
		}
		if b.news == nil {
			b.news = make(chan struct{})
		}
		news := b.news
		b.mu.Unlock()
		<-news
	}
}

// A person who says yes to one question must not thereby have said yes to the next
// one, which appeared while the key went down; and what was pasted into a question
// that is gone must not deny the next.
func TestALineTypedForAQuestionThatIsGoneAnswersNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		stale, typed string
		want         DecisionKind
	}{
		"a yes":                  {"y", "n", DecisionDeny},
		"a line that is no line": {strings.Repeat("pasted ", terminalLine/4), "y", DecisionApprove},
	} {
		t.Run(name, func(t *testing.T) {
			in, typing := io.Pipe()
			defer typing.Close()
			var out syncBuffer
			term := Stdin(in, &out)

			ctx, cancel := context.WithCancel(t.Context())
			first := make(chan error)
			go func() {
				d, err := term.Decide(ctx, Request{Act: policy.Exec, Target: "harmless"})
				if d.Kind != DecisionDefer {
					t.Errorf("a question that was withdrawn = %+v, want a deferral", d)
				}
				first <- err
			}()
			out.waitFor(t, "harmless")
			cancel()
			if err := <-first; !errors.Is(err, context.Canceled) {
				t.Errorf("error = %v, want that of the context", err)
			}

			second := make(chan Decision, 1)
			go func() {
				d, err := term.Decide(t.Context(), Request{Act: policy.Exec, Target: "dangerous"})
				if err != nil {
					t.Error(err)
				}
				second <- d
				in.Close() // when it was decided too early, nobody reads on
			}()
			out.waitFor(t, "dangerous")
			fmt.Fprintln(typing, tc.stale)
			fmt.Fprintln(typing, tc.typed)
			if d := <-second; d.Kind != tc.want {
				t.Errorf("the stale line decided the next question: %+v", d)
			}
			if !strings.Contains(out.String(), "earlier question") {
				t.Error("nothing says that the line was not taken")
			}
		})
	}
}

func TestAWaitForTheTerminalEndsWithItsContext(t *testing.T) {
	in, typing := io.Pipe()
	var out syncBuffer
	term := Stdin(in, &out)
	busy := make(chan struct{})
	go func() {
		defer close(busy)
		_, _ = term.Decide(t.Context(), Request{Target: "slow"})
	}()
	out.waitFor(t, "slow")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := term.Decide(ctx, Request{Target: "never shown"}); !errors.Is(err, context.Canceled) || d.Kind != DecisionDefer {
		t.Errorf("behind another question = %+v, %v", d, err)
	}
	if v, err := term.Review(ctx, Plan{}); !errors.Is(err, context.Canceled) || v.Decided() {
		t.Errorf("a plan behind another question = %+v, %v", v, err)
	}
	if r, err := term.AnswerAll(ctx, []Question{{Text: "never shown"}}); !errors.Is(err, context.Canceled) || r[0].Answered {
		t.Errorf("a batch behind another question = %+v, %v", r, err)
	}
	typing.Close()
	<-busy
	if strings.Contains(out.String(), "never shown") {
		t.Error("a question was shown although its context had ended")
	}
}

func TestQuestionsToATerminalDoNotMix(t *testing.T) {
	const n = 20
	var out syncBuffer
	term := Stdin(strings.NewReader(strings.Repeat("y\n", 2*n)), &out)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if d, err := term.Decide(t.Context(), Request{Act: policy.Write, Target: fmt.Sprintf("file-%d", i)}); err != nil || d.Kind != DecisionApprove {
				t.Errorf("file-%d = %+v, %v", i, d, err)
			}
		})
		wg.Go(func() {
			if v, err := term.Review(t.Context(), Plan{Steps: []PlanStep{{Intent: "x"}}}); err != nil || v != Accept() {
				t.Errorf("plan = %+v, %v", v, err)
			}
		})
	}
	wg.Wait()
	asked := strings.Split(out.String(), "Approve? [y/N] ")
	for _, part := range asked {
		if strings.Count(part, "The agent wants") > 1 {
			t.Errorf("two questions before one answer: %q", part)
		}
	}
}
