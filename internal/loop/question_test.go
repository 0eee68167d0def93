package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

func ask(question string) scripted.Turn {
	return scripted.Call("ask_question", map[string]any{"question": question})
}

func askSeveral(questions ...string) scripted.Turn {
	list := make([]map[string]any, len(questions))
	for i, q := range questions {
		list[i] = map[string]any{"question": q}
	}
	return scripted.Call("ask_questions", map[string]any{"questions": list})
}

func (f *fixture) questions(id trace.RunID) []store.PendingQuestion {
	f.t.Helper()
	rows, err := f.store.Questions(context.Background(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return rows
}

// facts are the events of one type that were seen.
func facts[T trace.Fact](e *events) (out []T) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.all {
		if f, ok := ev.Fact.(T); ok {
			out = append(out, f)
		}
	}
	return out
}

func TestAnAnswerIsTheResultOfTheCallThatAsked(t *testing.T) {
	f := newFixture(t)
	m := f.script(scripted.Calls(
		scripted.Tool("ask_question", map[string]any{"question": " which port? ", "context": "two are free", "choices": []any{"80", map[string]any{"label": "7171"}}}),
		scripted.Tool("write_file", map[string]string{"path": "after.txt", "content": "x"}),
	), scripted.Say("done"))
	var got approve.Question
	f.host.Responder = approve.ResponderFunc(func(_ context.Context, q approve.Question) (approve.Reply, error) {
		got = q
		return approve.Say("use 7171"), nil
	})
	res := f.must(trace.Finished)
	if diff := cmp.Diff(approve.Question{Text: "which port?", Context: "two are free", Choices: []approve.Choice{{Label: "80"}, {Label: "7171"}}}, got); diff != "" {
		t.Errorf("the responder was asked (-want +got):\n%s", diff)
	}
	told, _ := scripted.LastResult(m.Requests()[1], "ask_question")
	contains(t, "what the model is told", told, "which port?", "use 7171", "no permission")
	row := f.questions(res.RunID)[0]
	if row.Answer != "use 7171" || row.AnsweredBy != "responder" || !row.Delivered || row.Step != 1 {
		t.Errorf("row: %+v", row)
	}
	if f.read("after.txt") != "x" {
		t.Error("the call behind an answered question did not run")
	}
	if diff := cmp.Diff([]trace.QuestionAsked{{QuestionID: row.ID, Question: "which port?", Choices: []string{"80", "7171"}}}, facts[trace.QuestionAsked](f.seen)); diff != "" {
		t.Errorf("question_asked (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]trace.QuestionAnswered{{QuestionID: row.ID, Answer: "use 7171", By: "responder"}}, facts[trace.QuestionAnswered](f.seen)); diff != "" {
		t.Errorf("question_answered (-want +got):\n%s", diff)
	}
	contains(t, "the trace", f.canonical(res.RunID), "question_asked", "question_answered")
}

func TestAnEmptyAnswerIsAnAnswer(t *testing.T) {
	f := newFixture(t, ask("anything else?"), scripted.Say("done"))
	f.host.Responder = approve.Always("")
	res := f.must(trace.Finished)
	if !f.questions(res.RunID)[0].Answered() {
		t.Error("the question is still open")
	}
}

func TestAQuestionWithoutAnAnswerPausesTheRun(t *testing.T) {
	panics := approve.ResponderFunc(func(context.Context, approve.Question) (approve.Reply, error) { panic("boom") })
	fails := approve.ResponderFunc(func(context.Context, approve.Question) (approve.Reply, error) {
		return approve.Say("never used"), errors.New("no line")
	})
	declines := approve.ResponderFunc(func(context.Context, approve.Question) (approve.Reply, error) { return approve.Reply{}, nil })
	for name, r := range map[string]approve.Responder{"nobody": nil, "a responder that declines": declines, "one that fails": fails, "one that panics": panics} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(scripted.Calls(
				scripted.Tool("read_file", map[string]string{"path": "a.txt"}),
				scripted.Tool("ask_question", map[string]string{"question": "which port?"}),
				scripted.Tool("write_file", map[string]string{"path": "after.txt", "content": "x"}),
			), scripted.Say("never asked"))
			f.write("a.txt", "content")
			f.host.Responder = r
			res := f.must(trace.AwaitingAnswer)
			row := f.questions(res.RunID)[0]
			if res.Outcome.QuestionID != row.ID || res.Outcome.Steps != 1 || row.Answered() {
				t.Errorf("%s, row %+v", res.Outcome, row)
			}
			if info := f.info(res.RunID); info.Status != trace.StatusPaused || info.LastStep != 1 {
				t.Errorf("run row %+v", info)
			}
			if len(m.Requests()) != 1 || f.read("after.txt") != "" {
				t.Error("something happened behind the question")
			}
			if s, err := f.store.RunSummary(context.Background(), res.RunID); err != nil || s != nil {
				t.Errorf("a waiting run has the summary %+v, %v", s, err)
			}
			failed := name == "one that fails" || name == "one that panics"
			if got := strings.Contains(f.canonical(res.RunID), "responder_failed"); got != failed {
				t.Errorf("a failure of the responder is in the trace: %t, want %t", got, failed)
			}
			// Asked again without an answer, the run still waits, and nobody is billed.
			again, err := f.resume(res.RunID, Resumption{})
			if err != nil || again.Outcome != res.Outcome || len(m.Requests()) != 1 {
				t.Errorf("resume without an answer: %s, %v after %d requests", again.Outcome, err, len(m.Requests()))
			}
		})
	}
}

func TestAnAnswerOnResumeIsTheFirstThingTheModelReads(t *testing.T) {
	f := newFixture(t)
	m := f.script(scripted.Calls(
		scripted.Tool("ask_question", map[string]string{"question": "which port?"}),
		scripted.Tool("write_file", map[string]string{"path": "after.txt", "content": "x"}),
	), write("port.txt", "7171"), scripted.Say("done"))
	id := f.must(trace.AwaitingAnswer).Outcome.QuestionID
	run := f.questions(1)[0].RunID
	res, err := f.resume(run, Resumption{Answer: &Answer{ID: id, Texts: []string{"use 7171"}}})
	if err != nil || res.Outcome.Kind != trace.Finished || res.Outcome.Steps != 3 {
		t.Fatalf("%s, %v", res.Outcome, err)
	}
	req := m.Requests()[1]
	told, _ := scripted.LastResult(req, "ask_question")
	contains(t, "what the model is told", told, "which port?", "use 7171", "no permission")
	if n := strings.Count(req.User, "use 7171"); n != 1 {
		t.Errorf("the answer is told %d times:\n%s", n, req.User)
	}
	behind, _ := scripted.LastResult(req, "write_file")
	contains(t, "the call behind the question", behind, "not executed")
	obs, err := store.Collect(f.store.Observations(context.Background(), run))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, o := range obs {
		if o.Kind == trace.ObsMessage && strings.Contains(o.Text, "use 7171") {
			found = true
			if o.Step != 1 {
				t.Errorf("the answer stands at step %d, want the asking one", o.Step)
			}
		}
	}
	row := f.questions(run)[0]
	if !found || row.AnsweredBy != "human" || !row.Delivered {
		t.Errorf("in the ledger: %t; row %+v", found, row)
	}
	if f.read("after.txt") != "" {
		t.Error("the call behind the pause was carried over")
	}
	if got := facts[trace.QuestionAnswered](f.seen); len(got) != 1 || got[0].By != "human" {
		t.Errorf("question_answered: %+v", got)
	}
}

func TestAnAnswerIsToldOnceOverManyResumes(t *testing.T) {
	f := newFixture(t)
	m := f.script(ask("which port?"), readCall("a"), readCall("b"), readCall("c"), scripted.Say("done"))
	first := f.must(trace.AwaitingAnswer, withSteps(1))
	// Each resume gets one more step, so that the run is entered again and again.
	r := Resumption{Answer: &Answer{ID: first.Outcome.QuestionID, Texts: []string{"use 7171"}}}
	for steps := 2; steps <= 5; steps++ {
		c := f.contract(withSteps(steps))
		r.Contract = &c
		res, err := f.resume(first.RunID, r)
		want := trace.StepCapReached
		if steps == 5 {
			want = trace.Finished
		}
		if err != nil || res.Outcome.Kind != want {
			t.Fatalf("with %d steps: %s, %v", steps, res.Outcome, err)
		}
		if n := strings.Count(lastUser(m), "use 7171"); n != 1 {
			t.Errorf("with %d steps: the answer is told %d times", steps, n)
		}
		r = Resumption{}
	}
	if got := facts[trace.QuestionAnswered](f.seen); len(got) != 1 {
		t.Errorf("question_answered %d times", len(got))
	}
}

func TestAnAnswerGivenInProcessIsNotToldAgainAfterAResume(t *testing.T) {
	f := newFixture(t)
	m := f.script(ask("which port?"), readCall("a"), scripted.Say("done"))
	f.host.Responder = approve.Always("use 7171")
	first := f.must(trace.StepCapReached, withSteps(1))
	c := f.contract(withSteps(9))
	if _, err := f.resume(first.RunID, Resumption{Contract: &c}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(lastUser(m), "use 7171"); n != 1 {
		t.Errorf("the answer is told %d times:\n%s", n, lastUser(m))
	}
}

func TestAnAnswerAuthorisesNothing(t *testing.T) {
	for _, tc := range []struct {
		name string
		path string
		want bool
	}{
		{"a denied write stays denied", "locked/a.txt", false},
		{"control: an allowed one happens", "a.txt", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, ask("may I write it?"), write(tc.path, "x"), write(tc.path, "x"), scripted.Say("done"))
			f.host.Responder = approve.Always("yes, write it, I authorise it: allow_write *")
			res := f.must(trace.Finished)
			if got := f.read(tc.path) != ""; got != tc.want {
				t.Errorf("written: %t", got)
			}
			if refused := len(f.refusals(res.RunID)); (refused == 2) == tc.want {
				t.Errorf("%d refusals", refused)
			}
		})
	}
}

func TestWhatIsNotAQuestionIsToldSoAndNotStored(t *testing.T) {
	choice := func(c any) any { return map[string]any{"question": "which?", "choices": []any{c}} }
	eleven := make([]any, 11)
	for i := range eleven {
		eleven[i] = map[string]any{"question": fmt.Sprintf("q%d", i)}
	}
	for _, tc := range []struct {
		name, tool string
		args       any
		want       string
	}{
		{"no question", "ask_question", map[string]any{}, "question"},
		{"only spaces", "ask_question", map[string]any{"question": "  \n "}, "blank"},
		{"choices that are no list", "ask_question", map[string]any{"question": "q", "choices": "a"}, "choices"},
		{"a number as a choice", "ask_question", choice(3), "choices[0]"},
		{"an empty object as a choice", "ask_question", choice(map[string]any{}), "choices[0]"},
		{"an empty label", "ask_question", choice(""), "choices[0]"},
		{"several of nothing", "ask_question", map[string]any{"question": "q", "multiple": true}, "multiple"},
		{"an empty batch", "ask_questions", map[string]any{"questions": []any{}}, "1 to 10"},
		{"eleven at once", "ask_questions", map[string]any{"questions": eleven}, "1 to 10"},
		{"a bad one in a batch", "ask_questions", map[string]any{"questions": []any{map[string]any{"question": "q"}, choice("")}}, "questions[1].choices[0]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(scripted.Call(tc.tool, tc.args), scripted.Say("done"))
			f.host.Responder = approve.ResponderFunc(func(context.Context, approve.Question) (approve.Reply, error) {
				t.Error("somebody was asked")
				return approve.Say("x"), nil
			})
			res := f.must(trace.Finished)
			told, _ := scripted.LastResult(m.Requests()[1], tc.tool)
			contains(t, "what the model is told", told, tc.want)
			if n := len(f.questions(res.RunID)); n != 0 {
				t.Errorf("%d questions are stored", n)
			}
		})
	}
}

func TestSeveralQuestionsAreOneAsk(t *testing.T) {
	f := newFixture(t)
	m := f.script(askSeveral("which port?", "which host?", "which colour?"), scripted.Say("done"))
	var order []string
	f.host.Responder = approve.ResponderFunc(func(_ context.Context, q approve.Question) (approve.Reply, error) {
		order = append(order, q.Text)
		return approve.Say("answer to " + q.Text), nil
	})
	res := f.must(trace.Finished)
	if diff := cmp.Diff([]string{"which port?", "which host?", "which colour?"}, order); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	rows := f.questions(res.RunID)
	if len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	contains(t, "the stored text of the whole ask", rows[0].Question, "which port?", "which host?", "which colour?")
	told, _ := scripted.LastResult(m.Requests()[1], "ask_questions")
	at := -1
	for _, want := range []string{"1. which port?", "answer to which port?", "2. which host?", "answer to which host?", "3. which colour?", "answer to which colour?"} {
		i := strings.Index(told, want)
		if i <= at {
			t.Errorf("%q is not in its place in:\n%s", want, told)
		}
		at = i
	}
	if len(facts[trace.QuestionsAsked](f.seen)) != 1 || len(facts[trace.QuestionAsked](f.seen)) != 0 {
		t.Errorf("events: %v", f.seen.kinds())
	}
	var answers []string
	for _, a := range facts[trace.QuestionAnswered](f.seen) {
		answers = append(answers, a.Answer)
	}
	if diff := cmp.Diff([]string{"answer to which port?", "answer to which host?", "answer to which colour?"}, answers); diff != "" {
		t.Errorf("question_answered (-want +got):\n%s", diff)
	}
}

// batch is a responder that is shown a whole ask at once.
type batch struct{ replies []approve.Reply }

func (batch) Answer(context.Context, approve.Question) (approve.Reply, error) {
	return approve.Reply{}, errors.New("asked one by one")
}
func (b batch) AnswerAll(context.Context, []approve.Question) ([]approve.Reply, error) {
	return b.replies, nil
}

func TestOneOpenQuestionOfABatchPausesItAndTheOthersAreKept(t *testing.T) {
	for _, tc := range []struct {
		name  string
		texts []string
		want  []string // in the next prompt
		not   []string
	}{
		{"one text for the whole", []string{"as you like"}, []string{"1. which port?\n   7171", "2. which host?\n   (not answered)", "To all of them: as you like"}, nil},
		{"one text for each", []string{"80", "alpha"}, []string{"1. which port?\n   80", "2. which host?\n   alpha"}, []string{"7171", "not answered"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(askSeveral("which port?", "which host?"), scripted.Say("done"))
			f.host.Responder = batch{[]approve.Reply{approve.Say("7171"), {}}}
			res := f.must(trace.AwaitingAnswer)
			row := f.questions(res.RunID)[0]
			if row.Answered() || string(row.Answers) != `["7171",null]` {
				t.Errorf("row: %+v", row)
			}
			again, err := f.resume(res.RunID, Resumption{Answer: &Answer{ID: row.ID, Texts: tc.texts}})
			if err != nil || again.Outcome.Kind != trace.Finished {
				t.Fatalf("%s, %v", again.Outcome, err)
			}
			contains(t, "the next prompt", lastUser(m), tc.want...)
			for _, n := range tc.not {
				if strings.Contains(lastUser(m), n) {
					t.Errorf("%q is told:\n%s", n, lastUser(m))
				}
			}
		})
	}
}

func TestAnswersThatDoNotFitChangeNothing(t *testing.T) {
	f := newFixture(t)
	m := f.script(askSeveral("which port?", "which host?"), scripted.Say("done"))
	first := f.must(trace.AwaitingAnswer)
	q := first.Outcome.QuestionID
	other := newFixture(t, ask("another run's"))
	other.store, other.host.Store = f.store, f.store
	foreign := other.must(trace.AwaitingAnswer).Outcome.QuestionID
	for _, tc := range []struct {
		name   string
		answer Answer
		want   store.ResumeReason
	}{
		{"too many", Answer{q, []string{"a", "b", "c"}}, store.AnswersDoNotFit},
		{"none", Answer{q, nil}, store.AnswersDoNotFit},
		{"an unknown question", Answer{9999, []string{"a"}}, store.NoSuchQuestion},
		{"an unknown question with several texts", Answer{9999, []string{"a", "b"}}, store.NoSuchQuestion},
		{"another run's question", Answer{foreign, []string{"a"}}, store.QuestionOfOtherRun},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := f.resume(first.RunID, Resumption{Answer: &tc.answer})
			var re *store.ResumeError
			if !errors.As(err, &re) || re.Reason != tc.want {
				t.Errorf("error %v, want %s", err, tc.want)
			}
			if row := f.questions(first.RunID)[0]; row.Answered() || len(m.Requests()) != 1 {
				t.Errorf("row %+v after %d requests", row, len(m.Requests()))
			}
		})
	}
	if _, err := f.resume(first.RunID, Resumption{Answer: &Answer{q, []string{"80", "alpha"}}}); err != nil {
		t.Fatal(err)
	}
	_, err := f.resume(first.RunID, Resumption{Answer: &Answer{q, []string{"again"}}})
	if err != nil {
		t.Errorf("a run that ended is reported, whatever is said to it: %v", err)
	}
	if row := f.questions(first.RunID)[0]; row.Answer == "again" {
		t.Error("a second answer replaced the first")
	}
}

func TestASecondAnswerIsRefused(t *testing.T) {
	f := newFixture(t, ask("which port?"), scripted.Say("done"))
	first := f.must(trace.AwaitingAnswer)
	q := first.Outcome.QuestionID
	if won, err := AnswerFrom(context.Background(), f.store, first.RunID, Answer{q, []string{"80"}}, "attached"); err != nil || !won {
		t.Fatalf("attached answer: %t, %v", won, err)
	}
	_, err := f.resume(first.RunID, Resumption{Answer: &Answer{q, []string{"81"}}})
	var re *store.ResumeError
	if !errors.As(err, &re) || re.Reason != store.AlreadyAnswered {
		t.Errorf("second answer: %v", err)
	}
	if won, err := AnswerFrom(context.Background(), f.store, first.RunID, Answer{q, []string{"82"}}, "attached"); err != nil || won {
		t.Errorf("a late attached answer: %t, %v", won, err)
	}
	if row := f.questions(first.RunID)[0]; row.Answer != "80" {
		t.Errorf("row: %+v", row)
	}
}

func TestTwoDecisionsAtOnceAreRefused(t *testing.T) {
	f := newFixture(t, ask("which port?"), scripted.Say("done"))
	first := f.must(trace.AwaitingAnswer)
	_, err := f.resume(first.RunID, Resumption{Answer: &Answer{first.Outcome.QuestionID, []string{"80"}}, Verdict: &Verdict{ID: 1, Verdict: approve.Accept()}})
	if !errors.Is(err, task.ErrInvalid) {
		t.Errorf("error %v", err)
	}
	if f.questions(first.RunID)[0].Answered() {
		t.Error("the answer was consumed")
	}
}

func TestALeaseThatIsHeldLeavesTheQuestionOpen(t *testing.T) {
	f := newFixture(t, ask("which port?"), scripted.Say("done"))
	first := f.must(trace.AwaitingAnswer)
	// Somebody took the run up again and drives it.
	answer := store.Answer{ID: first.Outcome.QuestionID, Text: "80"}
	held, _, err := f.store.EnterDrive(context.Background(), first.RunID, store.EnterOptions{Answer: &answer})
	if err != nil || held == nil {
		t.Fatalf("enter: %v", err)
	}
	second := store.PendingQuestion{Step: 2, Question: "which host?"}
	id, err := f.store.PutQuestion(context.Background(), held, second)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.resume(first.RunID, Resumption{Answer: &Answer{id, []string{"alpha"}}})
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || conflict.Owner == "" {
		t.Errorf("error %v", err)
	}
	if q, err := f.store.Question(context.Background(), id); err != nil || q.Answered() {
		t.Errorf("the answer was consumed: %+v, %v", q, err)
	}
	if err := held.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// waitsForever is a responder that says nothing until it is told to stop.
func waitsForever(entered chan<- struct{}) approve.Responder {
	return approve.ResponderFunc(func(ctx context.Context, _ approve.Question) (approve.Reply, error) {
		close(entered)
		<-ctx.Done()
		return approve.Reply{}, ctx.Err()
	})
}

func TestAnotherProcessAnswersWhileTheResponderThinks(t *testing.T) {
	f := newFixture(t)
	m := f.script(ask("which port?"), scripted.Say("done"))
	entered := make(chan struct{})
	f.host.Responder = waitsForever(entered)
	answered := make(chan error, 1)
	go func() {
		<-entered
		won, err := AnswerFrom(context.Background(), f.store, 1, Answer{1, []string{"use 7171"}}, "attached")
		if err == nil && !won {
			err = errors.New("the answer lost")
		}
		answered <- err
	}()
	res := f.must(trace.Finished)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	row := f.questions(res.RunID)[0]
	if row.AnsweredBy != "attached" || !row.Delivered {
		t.Errorf("row: %+v", row)
	}
	told, _ := scripted.LastResult(m.Requests()[1], "ask_question")
	contains(t, "what the model is told", told, "use 7171")
}

func TestOfTwoAnswersTheFirstCounts(t *testing.T) {
	// The responder answers at the same moment as another process: whoever was
	// first, the model reads the row.
	f := newFixture(t)
	m := f.script(ask("which port?"), scripted.Say("done"))
	f.host.Responder = approve.ResponderFunc(func(context.Context, approve.Question) (approve.Reply, error) {
		if won, err := AnswerFrom(context.Background(), f.store, 1, Answer{1, []string{"from elsewhere"}}, "attached"); err != nil || !won {
			t.Errorf("attached: %t, %v", won, err)
		}
		return approve.Say("from here"), nil
	})
	res := f.must(trace.Finished)
	if row := f.questions(res.RunID)[0]; row.Answer != "from elsewhere" || row.AnsweredBy != "attached" {
		t.Errorf("row: %+v", row)
	}
	told, _ := scripted.LastResult(m.Requests()[1], "ask_question")
	contains(t, "what the model is told", told, "from elsewhere")
	if strings.Contains(told, "from here") {
		t.Errorf("the answer that lost is told:\n%s", told)
	}
}

func TestTheEndOfTheContextLeavesTheQuestionOpenAndTheRunResumable(t *testing.T) {
	f := newFixture(t)
	f.script(ask("which port?"))
	entered := make(chan struct{})
	f.host.Responder = waitsForever(entered)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-entered; cancel() }()
	res, err := Run(ctx, f.host, f.contract(), nil)
	if !errors.Is(err, context.Canceled) || res.Outcome.Kind != "" {
		t.Fatalf("%s, %v", res.Outcome, err)
	}
	if rows := f.questions(res.RunID); len(rows) != 1 || rows[0].Answered() {
		t.Errorf("rows: %+v", rows)
	}
	if info := f.info(res.RunID); info.Status != trace.StatusRunning || info.LastStep != 0 {
		t.Errorf("run row: %+v", info)
	}
	// The replayed call takes up its row, and nobody is asked through a second one.
	f.script(ask("which port?"), scripted.Say("done"))
	f.host.Responder = approve.Always("use 7171")
	again, err := f.resume(res.RunID, Resumption{})
	if err != nil || again.Outcome.Kind != trace.Finished {
		t.Fatalf("resume: %s, %v", again.Outcome, err)
	}
	if rows := f.questions(res.RunID); len(rows) != 1 || rows[0].Answer != "use 7171" {
		t.Errorf("rows: %+v", rows)
	}
}

func TestAnAnswerToADeadRunIsTakenUpWithoutAskingAgain(t *testing.T) {
	f := newFixture(t)
	f.script(ask("which port?"))
	entered := make(chan struct{})
	f.host.Responder = waitsForever(entered)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-entered; cancel() }()
	res, _ := Run(ctx, f.host, f.contract(), nil)
	if won, err := AnswerFrom(context.Background(), f.store, res.RunID, Answer{1, []string{"use 7171"}}, "attached"); err != nil || !won {
		t.Fatalf("attached: %t, %v", won, err)
	}
	m := f.script(ask("which port?"), scripted.Say("done"))
	f.host.Responder = approve.ResponderFunc(func(context.Context, approve.Question) (approve.Reply, error) {
		t.Error("the operator is asked what was answered already")
		return approve.Reply{}, nil
	})
	again, err := f.resume(res.RunID, Resumption{})
	if err != nil || again.Outcome.Kind != trace.Finished {
		t.Fatalf("resume: %s, %v", again.Outcome, err)
	}
	contains(t, "the first prompt of the resume", m.Requests()[0].User, "use 7171")
	told, _ := scripted.LastResult(m.Requests()[1], "ask_question")
	contains(t, "the result of the replayed call", told, "use 7171")
}

func TestADeadlineEndsTheWaitAndLeavesTheQuestionOpen(t *testing.T) {
	f := newFixture(t, ask("which port?"))
	entered := make(chan struct{})
	f.host.Responder = waitsForever(entered)
	res := f.must(trace.TimeBudgetExceeded, func(c *task.Contract) { c.Budget.Duration = 300 * time.Millisecond })
	if rows := f.questions(res.RunID); len(rows) != 1 || rows[0].Answered() || res.Outcome.Steps != 0 {
		t.Errorf("%s, rows %+v", res.Outcome, rows)
	}
}

func TestAStallNeverHidesAPause(t *testing.T) {
	f := newFixture(t, ask("a?"), ask("a?"), ask("a?"))
	n := 0
	f.host.Responder = approve.ResponderFunc(func(context.Context, approve.Question) (approve.Reply, error) {
		n++
		if n == 3 {
			return approve.Reply{}, nil
		}
		return approve.Say("b"), nil
	})
	f.must(trace.AwaitingAnswer, func(c *task.Contract) { c.Stall = task.Stall{Window: 3, Replans: -1} })
}

func TestAQuestionOfATurnIsWork(t *testing.T) {
	f := newFixture(t)
	f.script(ask("which port?"), scripted.Say("done"))
	id, err := f.store.CreateSession(context.Background(), f.dir)
	if err != nil {
		t.Fatal(err)
	}
	res, err := Run(context.Background(), f.host, f.contract(), &Turn{Session: id})
	if err != nil || res.Outcome.Kind != trace.AwaitingAnswer {
		t.Fatalf("%s, %v", res.Outcome, err)
	}
	if info := f.info(res.RunID); info.Kind != store.KindRun {
		t.Errorf("kind %s", info.Kind)
	}
}

func TestOldRowsOfPlainLabelsAreRead(t *testing.T) {
	var choices []approve.Choice
	if err := json.Unmarshal([]byte(`["80","7171"]`), &choices); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]approve.Choice{{Label: "80"}, {Label: "7171"}}, choices); diff != "" {
		t.Error(diff)
	}
}
