package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/loop"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// ErrOtherRun says that what was to be answered belongs to a run that the
// attachment does not look at.
var ErrOtherRun = errors.New("session: it belongs to another run than the one attached to")

// attached is who decided, as the rows say it.
const attached = "attached"

// Attachment watches a run that another process drives, or that nobody drives
// just now, and answers what it waits for. It needs nothing but the store's file:
// no lease, no lock, no connection. It can neither start, resume, steer nor
// cancel a run, and when it goes away the run does not notice.
//
// It is safe for concurrent use.
type Attachment struct {
	store *store.Store
	run   trace.RunID
	tree  bool

	mu     sync.Mutex
	cursor store.EventCursor
	root   trace.RunID // of the tree; zero until it is known
}

// AttachOption says how to attach.
type AttachOption func(*Attachment)

// Tree attaches to every run of the tree that the run belongs to.
func Tree() AttachOption { return func(a *Attachment) { a.tree = true } }

// FromCursor continues behind an event that was handled before, in this process
// or another. Without it an attachment begins with the run's first event.
func FromCursor(c store.EventCursor) AttachOption { return func(a *Attachment) { a.cursor = c } }

// Attach looks at a run through its store. Nothing is read yet.
//
// There are events to read only when the run's observer is a
// [trace.Broadcaster]. Waiting and the answers need none.
func Attach(st *store.Store, run trace.RunID, opts ...AttachOption) *Attachment {
	a := &Attachment{store: st, run: run}
	for _, opt := range opts {
		if opt != nil {
			opt(a)
		}
	}
	return a
}

// FromNow leaves out what happened so far.
func (a *Attachment) FromNow(ctx context.Context) error {
	now, err := a.store.EventCursor(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cursor = now
	return nil
}

// Cursor is the place behind the last event that Poll returned. It is one number
// for the whole store, so it can be kept, and handed to FromCursor later.
func (a *Attachment) Cursor() store.EventCursor {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cursor
}

// Poll returns the events behind the cursor in the order in which they happened,
// at most store.PollLimit, and moves the cursor behind them. As many as that mean
// that there may be more; none mean that nothing happened since, not that the
// run's process is alive. A run that the store does not have, or has no longer,
// matches store.ErrNotFound. An event of a kind that this version does not know is a
// trace.UnknownFact.
func (a *Attachment) Poll(ctx context.Context) ([]trace.Event, error) {
	read, run := a.store.EventsSince, a.run
	if a.tree {
		root, err := a.rootRun(ctx)
		if err != nil {
			return nil, err
		}
		read, run = a.store.TreeEventsSince, root
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	rows, err := read(ctx, run, a.cursor, store.PollLimit)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		_, err := a.store.Status(ctx, a.run) // silence is not what a run says that is not there
		return nil, err
	}
	events := make([]trace.Event, len(rows))
	for i, r := range rows {
		events[i] = r.Event
	}
	a.cursor = rows[len(rows)-1].ID
	return events, nil
}

// rootRun is the root of the tree that the run belongs to.
func (a *Attachment) rootRun(ctx context.Context) (trace.RunID, error) {
	a.mu.Lock()
	root := a.root
	a.mu.Unlock()
	if root != 0 {
		return root, nil
	}
	info, err := a.store.Run(ctx, a.run)
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.root = info.RootID
	return a.root, nil
}

// Waiting is something that a run waits for: a WaitingApproval, a WaitingQuestion
// or a WaitingPlan. More kinds may come.
type Waiting interface{ waiting() }

// WaitingApproval is an act that waits to be approved or denied. Target and
// Content come from a model: show them through policy.Escape.
type WaitingApproval struct {
	RequestID trace.RequestID
	RunID     trace.RunID
	Step      int
	Act       policy.Act
	Target    string
	Content   string // what a write would put there; empty for most acts
	Tool      string // empty when it is no call, such as dialling the provider
	Rule      string // that asks, with its layer; empty when a default does
	Layer     string
}

// WaitingQuestion is something that the model wants to know. Its texts are the
// model's own: show them through [approve.Question.Shown].
type WaitingQuestion struct {
	QuestionID trace.QuestionID
	RunID      trace.RunID
	Step       int
	Question   string // the whole ask as one text, if it has several questions
	Context    string
	Choices    []approve.Choice
	Multiple   bool // more than one choice may be taken

	// Batch has the questions of an ask that has several; Answers what was said to
	// each of them so far, nil for an open one, and is empty when nothing was.
	Batch   []approve.Question
	Answers []*string
}

// WaitingPlan is a plan that waits for a verdict.
type WaitingPlan struct {
	PlanID trace.PlanID
	RunID  trace.RunID
	Step   int
	Plan   approve.Plan // Render makes it one line for each step
}

func (WaitingApproval) waiting() {}
func (WaitingQuestion) waiting() {}
func (WaitingPlan) waiting()     {}

// Waiting lists what the run waits for: approvals, then questions, then plans,
// each the oldest first; for a tree, run by run. What was answered is not in it,
// and neither is anything of a run that ended for good. An empty list means that
// nothing is held up, not that the run's process is alive:
// [store.Store.LeaseOf] tells that.
func (a *Attachment) Waiting(ctx context.Context) ([]Waiting, error) {
	info, err := a.store.Run(ctx, a.run)
	if err != nil {
		return nil, err
	}
	runs := []store.RunInfo{info}
	if a.tree {
		if runs, err = a.store.Tree(ctx, info.RootID); err != nil {
			return nil, err
		}
	}
	var out []Waiting
	for _, r := range runs {
		if r.Status == trace.StatusCompleted && r.Outcome.Kind.Final() {
			continue
		}
		for _, list := range []func(context.Context, trace.RunID) ([]Waiting, error){a.approvals, a.questions, a.plans} {
			ws, err := list(ctx, r.ID)
			if err != nil {
				return nil, err
			}
			out = append(out, ws...)
		}
	}
	return out, nil
}

func (a *Attachment) approvals(ctx context.Context, run trace.RunID) (out []Waiting, err error) {
	rows, err := a.store.UnresolvedApprovals(ctx, run)
	for _, p := range rows {
		out = append(out, WaitingApproval{
			RequestID: p.ID, RunID: p.RunID, Step: p.Step, Act: policy.Act(p.Act), Target: p.Target,
			Content: p.Content, Tool: p.Tool, Rule: p.Rule, Layer: p.Layer,
		})
	}
	return out, err
}

func (a *Attachment) questions(ctx context.Context, run trace.RunID) (out []Waiting, err error) {
	rows, err := a.store.Questions(ctx, run)
	if err != nil {
		return nil, err
	}
	for _, q := range rows {
		if !q.Open() {
			continue
		}
		w, err := waitingQuestion(q)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

func waitingQuestion(q store.PendingQuestion) (WaitingQuestion, error) {
	w := WaitingQuestion{QuestionID: q.ID, RunID: q.RunID, Step: q.Step, Question: q.Question, Context: q.Context}
	for _, part := range []struct {
		raw  json.RawMessage
		into any
	}{{q.Choices, &w.Choices}, {q.Batch, &w.Batch}, {q.Answers, &w.Answers}} {
		if len(part.raw) == 0 {
			continue
		}
		if err := json.Unmarshal(part.raw, part.into); err != nil {
			return w, fmt.Errorf("session: question %d cannot be read: %w", q.ID, err)
		}
	}
	if len(w.Batch) == 1 && len(w.Choices) > 0 {
		w.Multiple, w.Batch = w.Batch[0].Multiple, nil
	}
	return w, nil
}

func (a *Attachment) plans(ctx context.Context, run trace.RunID) (out []Waiting, err error) {
	rows, err := a.store.Plans(ctx, run)
	if err != nil {
		return nil, err
	}
	for _, p := range rows {
		if !p.DecidedAt.IsZero() {
			continue
		}
		w := WaitingPlan{PlanID: p.ID, RunID: p.RunID, Step: p.Step}
		if err := json.Unmarshal(p.Steps, &w.Plan.Steps); err != nil && len(p.Steps) > 0 { // an archive leaves none
			return nil, fmt.Errorf("session: plan %d cannot be read: %w", p.ID, err)
		}
		out = append(out, w)
	}
	return out, nil
}

// AnswerApproval approves or denies an act, and reports whether this decision is
// the one that counts: the first does. A run that is being driven notices within
// 200 ms, any other with its next resume. An approval may bring rules to remember
// and a change of a read or a write, which the policy judges again.
//
// It fails with a *task.InvalidError when the decision defers or has a rule to
// remember that can never hold, with an *approve.RewriteError when the act cannot be changed like that, and with
// ErrOtherRun; nothing is written then.
func (a *Attachment) AnswerApproval(ctx context.Context, id trace.RequestID, d approve.Decision) (bool, error) {
	row, err := a.store.Pending(ctx, id)
	if err != nil {
		return false, err
	}
	if err := a.belongs(ctx, row.RunID); err != nil {
		return false, err
	}
	return loop.DecideFrom(ctx, a.store, loop.Decision{ID: id, Decision: d}, attached)
}

// AnswerQuestion answers a question, with one text for the whole ask or one for
// each of its questions, and reports whether this answer is the one that counts:
// the first is. The model reads it; it permits nothing.
//
// It fails with a *store.ResumeError when the texts do not fit the ask, and with
// ErrOtherRun; nothing is written then.
func (a *Attachment) AnswerQuestion(ctx context.Context, id trace.QuestionID, texts ...string) (bool, error) {
	row, err := a.store.Question(ctx, id)
	if err != nil {
		return false, err
	}
	if err := a.belongs(ctx, row.RunID); err != nil {
		return false, err
	}
	return loop.AnswerFrom(ctx, a.store, row.RunID, loop.Answer{ID: id, Texts: texts}, attached)
}

// AnswerPlan decides a plan, and reports whether this verdict is the one that
// counts: the first is. It fails with a *task.InvalidError when the verdict
// decides nothing, and with ErrOtherRun; nothing is written then.
func (a *Attachment) AnswerPlan(ctx context.Context, id trace.PlanID, v approve.PlanVerdict) (bool, error) {
	row, err := a.store.Plan(ctx, id)
	if err != nil {
		return false, err
	}
	if err := a.belongs(ctx, row.RunID); err != nil {
		return false, err
	}
	return loop.DecidePlanFrom(ctx, a.store, loop.Verdict{ID: id, Verdict: v}, attached)
}

// belongs reports whether a row of the run owner may be answered here.
func (a *Attachment) belongs(ctx context.Context, owner trace.RunID) error {
	if owner == a.run {
		return nil
	}
	if a.tree {
		root, err := a.rootRun(ctx)
		if err != nil {
			return err
		}
		info, err := a.store.Run(ctx, owner)
		if err != nil {
			return err
		}
		if info.RootID == root {
			return nil
		}
	}
	return fmt.Errorf("%w: run %d, not %d", ErrOtherRun, owner, a.run)
}
