package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// PendingQuestion is what the model asked a person. An answer is text for the
// model and permits nothing.
type PendingQuestion struct {
	ID       trace.QuestionID // set by the store
	RunID    trace.RunID      // set by the store
	Step     int
	CallID   string
	Question string
	Context  string
	Choices  json.RawMessage // a JSON array, each a string or an object with a label; empty when there are none
	// Batch holds several questions asked at once, as a JSON array; empty for one.
	Batch json.RawMessage

	Answer     string
	Answers    json.RawMessage // one for each question of a batch, null for one that is open
	AnsweredBy string          // responder, human or attached; empty while open
	AskedAt    time.Time
	AnsweredAt time.Time // zero while open
	// Delivered tells whether the answer has reached the ledger.
	Delivered bool
}

// Withdrawn in place of who answered a question says that nobody did. See StepCommit.Withdraw.
const Withdrawn = "withdrawn"

// Answered reports whether somebody answered.
func (q PendingQuestion) Answered() bool { return !q.AnsweredAt.IsZero() && q.AnsweredBy != Withdrawn }

// Open reports whether an answer is still waited for.
func (q PendingQuestion) Open() bool { return q.AnsweredAt.IsZero() }

// Answer answers one question.
type Answer struct {
	ID      trace.QuestionID
	Text    string
	Answers json.RawMessage // for a batch
	By      string
}

// PlanVerdict is a person's verdict on a plan. The value is the stored text; a
// text that this version does not know reads as undecided.
type PlanVerdict string

// The verdicts; the zero value is undecided.
const (
	PlanUndecided PlanVerdict = ""
	PlanApprove   PlanVerdict = "approve"
	PlanRevise    PlanVerdict = "revise"
	PlanCancel    PlanVerdict = "cancel"
	PlanWithdrawn PlanVerdict = "withdrawn" // nobody's word: see StepCommit.Withdraw
)

// PendingPlan is what the model proposed to do.
type PendingPlan struct {
	ID     trace.PlanID // set by the store
	RunID  trace.RunID  // set by the store
	Step   int
	CallID string
	Steps  json.RawMessage // a JSON array of objects with an intent and perhaps an agent

	Verdict    PlanVerdict
	Correction string
	DecidedBy  string // gate, human or attached
	ProposedAt time.Time
	DecidedAt  time.Time // zero while open
	// Delivered tells whether the verdict has reached the ledger.
	Delivered bool
}

// PlanDecision decides one plan.
type PlanDecision struct {
	ID         trace.PlanID
	Verdict    PlanVerdict
	Correction string
	By         string
}

const (
	questionColumns = `id, run_id, step, coalesce(call_id, ''), coalesce(question, ''), coalesce(context, ''), choices, questions,
		coalesce(answer, ''), answers, coalesce(answered_by, ''), asked_at, answered_at, delivered_seq`
	planColumns = `id, run_id, step, coalesce(call_id, ''), steps, coalesce(verdict, ''), coalesce(correction, ''),
		coalesce(decided_by, ''), proposed_at, decided_at, delivered_seq`
)

var (
	insertQuestion = statement{"insert question", `INSERT INTO pending_questions
		(run_id, step, call_id, question, context, choices, questions, asked_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`}
	answerQuestion = statement{"answer question", `UPDATE pending_questions
		SET answer = ?, answers = coalesce(?, answers), answered_by = ?, answered_at = ? WHERE id = ? AND answered_at IS NULL`}
	// keepAnswers changes nothing once the whole ask was answered.
	keepAnswers  = statement{"keep answers", `UPDATE pending_questions SET answers = ? WHERE id = ? AND run_id = ? AND answered_at IS NULL`}
	readQuestion = statement{"read question", `SELECT ` + questionColumns + ` FROM pending_questions WHERE id = ?`}
	allQuestions = statement{"all questions", `SELECT ` + questionColumns + ` FROM pending_questions WHERE run_id = ? ORDER BY id`}
	// dueAnswers have been given and never reached the model.
	dueAnswers = statement{"due answers", `SELECT ` + questionColumns + ` FROM pending_questions
		WHERE run_id = ? AND answered_at IS NOT NULL AND delivered_seq IS NULL ORDER BY id`}
	deliverAnswer = statement{"deliver answer", `UPDATE pending_questions SET delivered_seq = ? WHERE id = ? AND run_id = ? AND delivered_seq IS NULL`}

	// What is withdrawn has nothing to deliver.
	withdrawQuestions = statement{"withdraw questions", `UPDATE pending_questions SET answered_by = '` + Withdrawn + `', answered_at = ?, delivered_seq = -1
		WHERE run_id = ? AND step <= ? AND id <> ? AND answered_at IS NULL`}
	withdrawPlans = statement{"withdraw plans", `UPDATE plans SET verdict = 'withdrawn', decided_at = ?, delivered_seq = -1
		WHERE run_id = ? AND step <= ? AND id <> ? AND decided_at IS NULL`}

	insertPlan = statement{"insert plan", `INSERT INTO plans (run_id, step, call_id, steps, proposed_at) VALUES (?, ?, ?, ?, ?) RETURNING id`}
	decidePlan = statement{"decide plan", `UPDATE plans SET verdict = ?, correction = ?, decided_by = ?, decided_at = ? WHERE id = ? AND decided_at IS NULL`}
	readPlan   = statement{"read plan", `SELECT ` + planColumns + ` FROM plans WHERE id = ?`}
	allPlans   = statement{"all plans", `SELECT ` + planColumns + ` FROM plans WHERE run_id = ? ORDER BY id`}
	// approvedPlan is the newest one with the verdict approve.
	approvedPlan = statement{"approved plan", `SELECT ` + planColumns + ` FROM plans WHERE run_id = ? AND verdict = 'approve' ORDER BY id DESC LIMIT 1`}
	duePlans     = statement{"due plans", `SELECT ` + planColumns + ` FROM plans
		WHERE run_id = ? AND decided_at IS NOT NULL AND delivered_seq IS NULL ORDER BY id`}
	deliverPlan = statement{"deliver plan", `UPDATE plans SET delivered_seq = ? WHERE id = ? AND run_id = ? AND delivered_seq IS NULL`}
)

// PutQuestion makes a question durable before anybody is asked.
func (s *Store) PutQuestion(ctx context.Context, d *Drive, p PendingQuestion) (trace.QuestionID, error) {
	var id int64
	err := d.writeAhead(ctx, "put question", func(t *txn) (err error) {
		id, err = t.insert(insertQuestion, d.RunID, p.Step, null(p.CallID), cleanText(p.Question), null(p.Context),
			rawJSON(p.Choices), rawJSON(p.Batch), t.now)
		return err
	})
	return trace.QuestionID(id), err
}

// AnswerQuestion answers a question and reports whether this call was the one
// that did: the first wins. It takes no lease. An answer to a run that nobody
// drives is delivered when the run is entered next.
func (s *Store) AnswerQuestion(ctx context.Context, a Answer) (bool, error) {
	var won bool
	err := s.write(ctx, "answer question", func(t *txn) error {
		if _, err := questionByID(&t.query, a.ID); err != nil {
			return err
		}
		n, err := t.exec(answerQuestion, cleanText(a.Text), rawJSON(a.Answers), null(a.By), t.now, a.ID)
		won = n == 1
		return err
	})
	return won, err
}

// KeepAnswers keeps what was answered of a batch that as a whole still waits, as
// a JSON array with null for each open question. A later answer to the whole
// replaces it only where it brings answers of its own.
func (s *Store) KeepAnswers(ctx context.Context, d *Drive, id trace.QuestionID, answers json.RawMessage) error {
	return d.writeAhead(ctx, "keep answers", func(t *txn) error {
		_, err := t.exec(keepAnswers, rawJSON(answers), id, d.RunID)
		return err
	})
}

// withdrawAsked closes the questions and plans of the steps up to step that still
// wait, other than what the run itself waits for.
func withdrawAsked(t *txn, run trace.RunID, step int, waits trace.Outcome) error {
	if _, err := t.exec(withdrawQuestions, t.now, run, step, waits.QuestionID); err != nil {
		return err
	}
	_, err := t.exec(withdrawPlans, t.now, run, step, waits.PlanID)
	return err
}

// withdrawAll closes everything that a run which has ended for good still waited
// for: an answer that comes later is refused as one that was not the first.
func withdrawAll(t *txn, run trace.RunID) error {
	if err := withdrawAsked(t, run, math.MaxInt, trace.Outcome{}); err != nil {
		return err
	}
	_, err := t.exec(withdrawApprovals, Withdrawn, t.now, run)
	return err
}

// Question reads a question; a ResumeError says that there is none with that id.
func (s *Store) Question(ctx context.Context, id trace.QuestionID) (PendingQuestion, error) {
	var p PendingQuestion
	err := s.read(ctx, "read question", func(q *query) (err error) {
		p, err = questionByID(q, id)
		return err
	})
	return p, err
}

func questionByID(q *query, id trace.QuestionID) (PendingQuestion, error) {
	ps, err := list(q, readQuestion, []any{id}, scanQuestion)
	if err != nil {
		return PendingQuestion{}, err
	}
	if len(ps) == 0 {
		return PendingQuestion{}, &ResumeError{Reason: NoSuchQuestion, Detail: fmt.Sprintf("there is no question %d", id)}
	}
	return ps[0], nil
}

// Questions lists every question of one run, oldest first.
func (s *Store) Questions(ctx context.Context, run trace.RunID) (ps []PendingQuestion, err error) {
	err = s.read(ctx, "read questions", func(q *query) (err error) {
		ps, err = list(q, allQuestions, []any{run}, scanQuestion)
		return err
	})
	return ps, err
}

// PutPlan makes a plan durable before anybody is asked.
func (s *Store) PutPlan(ctx context.Context, d *Drive, p PendingPlan) (trace.PlanID, error) {
	var id int64
	err := d.writeAhead(ctx, "put plan", func(t *txn) (err error) {
		id, err = t.insert(insertPlan, d.RunID, p.Step, null(p.CallID), rawJSON(p.Steps), t.now)
		return err
	})
	return trace.PlanID(id), err
}

// DecidePlan decides a plan and reports whether this call was the one that did:
// the first wins. It takes no lease.
func (s *Store) DecidePlan(ctx context.Context, dec PlanDecision) (bool, error) {
	var won bool
	err := s.write(ctx, "decide plan", func(t *txn) error {
		if _, err := planByID(&t.query, dec.ID); err != nil {
			return err
		}
		var err error
		won, err = resolvePlan(t, dec)
		return err
	})
	return won, err
}

func resolvePlan(t *txn, dec PlanDecision) (bool, error) {
	switch dec.Verdict {
	case PlanApprove, PlanRevise, PlanCancel:
	default:
		return false, invalid("decide plan", "the verdict %q is none of approve, revise and cancel", dec.Verdict)
	}
	n, err := t.exec(decidePlan, string(dec.Verdict), null(dec.Correction), null(dec.By), t.now, dec.ID)
	return n == 1, err
}

// Plan reads a plan; a ResumeError says that there is none with that id.
func (s *Store) Plan(ctx context.Context, id trace.PlanID) (PendingPlan, error) {
	var p PendingPlan
	err := s.read(ctx, "read plan", func(q *query) (err error) {
		p, err = planByID(q, id)
		return err
	})
	return p, err
}

func planByID(q *query, id trace.PlanID) (PendingPlan, error) {
	ps, err := list(q, readPlan, []any{id}, scanPlan)
	if err != nil {
		return PendingPlan{}, err
	}
	if len(ps) == 0 {
		return PendingPlan{}, &ResumeError{Reason: NoSuchPlan, Detail: fmt.Sprintf("there is no plan %d", id)}
	}
	return ps[0], nil
}

// Plans lists every plan of one run, oldest first.
func (s *Store) Plans(ctx context.Context, run trace.RunID) ([]PendingPlan, error) {
	return s.plans(ctx, allPlans, run)
}

// ApprovedPlan is the newest approved plan of one run, or nil.
func (s *Store) ApprovedPlan(ctx context.Context, run trace.RunID) (*PendingPlan, error) {
	ps, err := s.plans(ctx, approvedPlan, run)
	if err != nil || len(ps) == 0 {
		return nil, err
	}
	return &ps[0], nil
}

func (s *Store) plans(ctx context.Context, st statement, run trace.RunID) (ps []PendingPlan, err error) {
	err = s.read(ctx, st.name, func(q *query) (err error) {
		ps, err = list(q, st, []any{run}, scanPlan)
		return err
	})
	return ps, err
}

// Delivery brings one answer or verdict to the model: exactly one id is set.
type Delivery struct {
	Question    trace.QuestionID
	Plan        trace.PlanID
	Observation trace.Observation
}

// Deliver adds the observations of answers and verdicts to the ledger and marks
// them delivered, in one transaction. What was delivered before is left out, so
// that a repeated call tells the model nothing twice.
func (s *Store) Deliver(ctx context.Context, d *Drive, ds ...Delivery) error {
	for i, one := range ds {
		if (one.Question == 0) == (one.Plan == 0) {
			return invalid("deliver", "delivery %d names question %d and plan %d, and must name one of them", i, one.Question, one.Plan)
		}
	}
	return d.writeAhead(ctx, "deliver", func(t *txn) error {
		for _, one := range ds {
			var seq int64
			if err := t.row(nextSeq, []any{d.RunID}, &seq); err != nil {
				return err
			}
			var n int64
			var err error
			if one.Question != 0 {
				n, err = t.exec(deliverAnswer, seq, one.Question, d.RunID)
			} else {
				n, err = t.exec(deliverPlan, seq, one.Plan, d.RunID)
			}
			if err != nil {
				return err
			}
			if n != 1 {
				continue
			}
			if _, err := appendObservations(t, d.RunID, []trace.Observation{one.Observation}); err != nil {
				return err
			}
		}
		return nil
	})
}

func scanQuestion(r scanner) (p PendingQuestion, err error) {
	var choices, batch, answers []byte
	var asked int64
	var answered, delivered *int64
	err = r.Scan(&p.ID, &p.RunID, &p.Step, &p.CallID, &p.Question, &p.Context, &choices, &batch,
		&p.Answer, &answers, &p.AnsweredBy, &asked, &answered, &delivered)
	if err != nil {
		return p, err
	}
	p.Choices, p.Batch, p.Answers = choices, batch, answers
	p.AskedAt, p.AnsweredAt, p.Delivered = timeOf(asked), timeOrZero(answered), delivered != nil
	return p, legible("pending_questions", int64(p.ID), p.RunID, p.Step, jsonColumn{"choices", choices}, jsonColumn{"questions", batch},
		jsonColumn{"answers", answers})
}

func scanPlan(r scanner) (p PendingPlan, err error) {
	var steps []byte
	var proposed int64
	var decided, delivered *int64
	err = r.Scan(&p.ID, &p.RunID, &p.Step, &p.CallID, &steps, &p.Verdict, &p.Correction, &p.DecidedBy, &proposed, &decided, &delivered)
	if err != nil {
		return p, err
	}
	switch p.Verdict {
	case PlanApprove, PlanRevise, PlanCancel, PlanWithdrawn:
	default:
		p.Verdict = PlanUndecided
	}
	p.Steps = steps
	p.ProposedAt, p.DecidedAt, p.Delivered = timeOf(proposed), timeOrZero(decided), delivered != nil
	return p, legible("plans", int64(p.ID), p.RunID, p.Step, jsonColumn{"steps", steps})
}
