package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// Who answered, as the row of a question says.
const (
	byResponder = "responder" // in this process
	byGate      = "gate"
)

// questionProperties are the members of one question.
const questionProperties = `"question":{"type":"string","description":"what you need to know"},` +
	`"context":{"type":"string","description":"why you ask, and what you found so far"},` +
	`"choices":{"type":"array","description":"offers; the answer need not be one of them","items":{"anyOf":[{"type":"string"},` +
	`{"type":"object","properties":{"label":{"type":"string"},"description":{"type":"string","description":"what taking it means"},` +
	`"preview":{"type":"string","description":"a short block that shows what it would do"}},"required":["label"]}]}},` +
	`"multiple":{"type":"boolean","description":"more than one offer may be taken"}`

func (d *drive) askQuestionTool() tool.Tool {
	return &runTool{
		spec: tool.Spec{
			Name: "ask_question",
			Description: "Ask the operator what is wanted, where the task can be read in more than one way and the difference matters. " +
				"It is not for permission, which is decided elsewhere and which an answer cannot give, and not for what looking would tell you. " +
				"Offer choices when there are some.",
			Schema: json.RawMessage(`{"type":"object","properties":{` + questionProperties + `},"required":["question"]}`),
			Strict: true, // a person sees what the model meant to ask
		},
		perform: func(ctx context.Context, st *step, c *call) error {
			q, err := approve.ParseQuestion(c.args)
			if err != nil {
				d.failArguments(st, c, err.Error())
				return nil
			}
			return d.question(ctx, st, c, []approve.Question{q}, false)
		},
	}
}

func (d *drive) askQuestionsTool() tool.Tool {
	return &runTool{
		spec: tool.Spec{
			Name: "ask_questions",
			Description: fmt.Sprintf("Ask the operator 1 to %d questions that do not depend on each other, all at once. "+
				"Where an answer changes what you ask next, use separate calls of ask_question. The same holds as there.", approve.BatchQuestions),
			Schema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"questions":{"type":"array","minItems":1,"maxItems":%d,`+
				`"items":{"type":"object","properties":{%s},"required":["question"]}}},"required":["questions"]}`, approve.BatchQuestions, questionProperties)),
			Strict: true,
		},
		perform: func(ctx context.Context, st *step, c *call) error {
			qs, err := approve.ParseQuestions(c.args)
			if err != nil {
				d.failArguments(st, c, err.Error())
				return nil
			}
			return d.question(ctx, st, c, qs, true)
		},
	}
}

// question puts what the model wants to know to the responder, or to whoever
// answers from another process, and tells the model the answer that the row
// holds. Without an answer the step pauses.
func (d *drive) question(ctx context.Context, st *step, c *call, qs []approve.Question, batch bool) error {
	row, err := d.putQuestion(ctx, st, c, qs, batch)
	if err != nil {
		return err
	}
	if !row.Answered() {
		d.emit(st.n, asked(row.ID, qs, batch))
		if row, err = d.awaitAnswer(ctx, st, row, qs); err != nil {
			return err
		}
	}
	if !row.Answered() {
		c.decision = "asked the operator"
		st.pause, st.pausedBy = &trace.Outcome{Kind: trace.AwaitingAnswer, Steps: st.n, QuestionID: row.ID}, c
		return nil
	}
	d.tellAnswered(st.n, row)
	question, answer := told(row)
	c.end("answered by "+row.AnsweredBy, prompt.Answered(st.n, c.id, question, answer, d.entryCap))
	st.toldAnswers = append(st.toldAnswers, row.ID)
	return nil
}

// putQuestion writes the row that somebody else may answer. A call that is
// replayed after a crash takes up the row that it wrote before, with the answer
// if there is one by now: nobody is asked the same thing twice.
func (d *drive) putQuestion(ctx context.Context, st *step, c *call, qs []approve.Question, batch bool) (store.PendingQuestion, error) {
	row := store.PendingQuestion{Step: st.n, CallID: c.id, Question: approve.RenderQuestions(qs)}
	var err error
	if !batch {
		row.Question, row.Context = qs[0].Text, qs[0].Context
		if len(qs[0].Choices) > 0 {
			if row.Choices, err = json.Marshal(qs[0].Choices); err != nil {
				return row, err
			}
		}
	}
	if batch || qs[0].Multiple { // that several may be taken has no column of its own
		if row.Batch, err = json.Marshal(qs); err != nil {
			return row, err
		}
	}
	before, err := d.store.Questions(ctx, d.runID())
	if err != nil {
		return row, err
	}
	for _, b := range before {
		if b.Step == st.n && b.CallID == c.id && b.Question == row.Question && b.Context == row.Context &&
			string(b.Choices) == string(row.Choices) && string(b.Batch) == string(row.Batch) {
			return b, nil
		}
	}
	d.rec.context(st.n, "question_asked", row.Question)
	if row.ID, err = d.store.PutQuestion(ctx, d.lease, row); err != nil {
		return row, err
	}
	return d.store.Question(ctx, row.ID)
}

// asked is the event of an ask.
func asked(id trace.QuestionID, qs []approve.Question, batch bool) trace.Fact {
	if !batch {
		return trace.QuestionAsked{QuestionID: id, Question: qs[0].Text, Choices: labels(qs[0])}
	}
	f := trace.QuestionsAsked{QuestionID: id}
	for _, q := range qs {
		f.Questions = append(f.Questions, trace.AskedQuestion{Question: q.Text, Choices: labels(q), Multiple: q.Multiple})
	}
	return f
}

func labels(q approve.Question) []string {
	out := make([]string, len(q.Choices))
	for i, c := range q.Choices {
		out[i] = c.Label
	}
	return out
}

// awaitAnswer waits for an answer and returns the row as it is then.
func (d *drive) awaitAnswer(ctx context.Context, st *step, row store.PendingQuestion, qs []approve.Question) (store.PendingQuestion, error) {
	replies, own, err := await(ctx, d,
		func(ctx context.Context) []approve.Reply {
			replies, err := approve.AskQuestions(ctx, d.host.Responder, qs)
			if err != nil && ctx.Err() == nil {
				d.log.Warn("the responder failed, and the question stays open", "run", d.runID(), "question", row.ID, "error", err)
				d.rec.context(st.n, "responder_failed", err.Error())
			}
			return replies
		},
		func(ctx context.Context) (bool, error) {
			now, err := d.store.Question(ctx, row.ID)
			return !now.Open(), err
		})
	if err != nil {
		return row, err
	}
	if own {
		if err := d.settleReplies(ctx, row, replies); err != nil {
			return row, err
		}
	}
	return d.store.Question(ctx, row.ID)
}

// settleReplies writes what the responder said into the row, unless somebody
// else's answer is there already. What is only a part of an answer is kept, and
// answers nothing yet.
func (d *drive) settleReplies(ctx context.Context, row store.PendingQuestion, replies []approve.Reply) error {
	texts := make([]*string, len(replies))
	open := 0
	for i, r := range replies {
		if r.Answered {
			text := clean(r.Text)
			texts[i] = &text
		} else {
			open++
		}
	}
	answers, err := json.Marshal(texts)
	if err != nil {
		return err
	}
	batch := len(row.Batch) > 0
	switch {
	case open == len(replies):
		return nil
	case open > 0:
		return d.store.KeepAnswers(ctx, d.lease, row.ID, answers)
	}
	a := store.Answer{ID: row.ID, Text: joined(texts), By: byResponder}
	if batch {
		a.Answers = answers
	}
	_, err = d.store.AnswerQuestion(ctx, a)
	return err
}

// joined is a whole ask's answer as one text.
func joined(texts []*string) string {
	var b strings.Builder
	for i, t := range texts {
		if i > 0 {
			b.WriteByte('\n')
		}
		if len(texts) > 1 {
			fmt.Fprintf(&b, "%d. ", i+1)
		}
		if t != nil {
			b.WriteString(*t)
		}
	}
	return b.String()
}

// answersOf reads one answer for each question of a batch; nil is an open one. It
// is empty for a single question, and for an ask that was answered as a whole.
func answersOf(row store.PendingQuestion) (qs []approve.Question, answers []*string) {
	if len(row.Batch) == 0 || json.Unmarshal(row.Batch, &qs) != nil || json.Unmarshal(row.Answers, &answers) != nil || len(answers) != len(qs) {
		return nil, nil
	}
	return qs, answers
}

// told is what the model is told of an answer: what it asked, and what was said.
// The answers of a batch stand beside their questions.
func told(row store.PendingQuestion) (question, answer string) {
	qs, answers := answersOf(row)
	if len(qs) < 2 {
		return row.Question, row.Answer
	}
	var b strings.Builder
	open := false
	for i, q := range qs {
		said := "(not answered)"
		if answers[i] != nil {
			said = *answers[i]
		} else {
			open = true
		}
		fmt.Fprintf(&b, "%d. %s\n   %s\n", i+1, q.Text, strings.ReplaceAll(said, "\n", "\n   "))
	}
	if open && row.Answer != "" {
		b.WriteString("To all of them: " + row.Answer + "\n")
	}
	return "", b.String()
}

// tellAnswered tells the watcher and the trace of an answer.
func (d *drive) tellAnswered(n int, row store.PendingQuestion) {
	d.rec.context(n, "question_answered", row.AnsweredBy+": "+row.Answer)
	_, answers := answersOf(row)
	open := len(answers) == 0
	for _, a := range answers {
		if a == nil {
			open = true
			continue
		}
		d.emit(n, trace.QuestionAnswered{QuestionID: row.ID, Answer: *a, By: row.AnsweredBy})
	}
	if open {
		d.emit(n, trace.QuestionAnswered{QuestionID: row.ID, Answer: row.Answer, By: row.AnsweredBy})
	}
}

// Answer answers a question that a run waits for: with one text for the whole
// ask, or with one for each of its questions.
type Answer struct {
	ID    trace.QuestionID
	Texts []string
}

// forStore is the answer as the store takes it. It fails with a
// *store.ResumeError when the texts do not fit the ask.
func (a Answer) forStore(ctx context.Context, st *store.Store, run trace.RunID) (*store.Answer, error) {
	misfit := func(detail string, args ...any) error {
		return &store.ResumeError{RunID: run, Reason: store.AnswersDoNotFit, Detail: fmt.Sprintf(detail, args...)}
	}
	switch len(a.Texts) {
	case 0:
		return nil, misfit("question %d: no answer is given; an empty text would be one", a.ID)
	case 1:
		return &store.Answer{ID: a.ID, Text: clean(a.Texts[0])}, nil
	}
	row, err := st.Question(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	var qs []approve.Question
	if len(row.Batch) > 0 {
		if err := json.Unmarshal(row.Batch, &qs); err != nil {
			return nil, misfit("question %d cannot be read: %v", a.ID, err)
		}
	}
	if n := max(len(qs), 1); n != len(a.Texts) {
		return nil, misfit("question %d asks %d, and %d answers are given: give one for each, or one text for all", a.ID, n, len(a.Texts))
	}
	texts := make([]*string, len(a.Texts))
	for i := range a.Texts {
		text := clean(a.Texts[i])
		texts[i] = &text
	}
	raw, err := json.Marshal(texts)
	return &store.Answer{ID: a.ID, Text: joined(texts), Answers: raw}, err
}

// AnswerFrom answers a question of a run that another process drives, and reports
// whether this is the answer that counts. The caller has made sure that the
// question is one of the run's.
func AnswerFrom(ctx context.Context, st *store.Store, run trace.RunID, a Answer, by string) (bool, error) {
	out, err := a.forStore(ctx, st, run)
	if err != nil {
		return false, err
	}
	out.By = by
	return st.AnswerQuestion(ctx, *out)
}
