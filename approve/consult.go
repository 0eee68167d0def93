package approve

import (
	"context"
	"fmt"
)

// PanicError says that an approver, a gate or a responder panicked. The run treats
// that as no answer.
type PanicError struct {
	What  string // "approver", "plan gate" or "responder"
	Value any    // what it panicked with
}

func (e *PanicError) Error() string { return fmt.Sprintf("the %s panicked: %v", e.What, e.Value) }

// Ask puts req to a and never turns a failure into permission: with a nil approver it
// is [None] that decides; a panic or an error gives a deferral and that error, and so
// does an approval with a rule to remember that can never hold, as a
// *policy.InvalidError; what does not go with the kind of the decision is dropped.
func Ask(ctx context.Context, a Approver, req Request) (d Decision, err error) {
	if a == nil {
		a = None
	}
	defer func() {
		if v := recover(); v != nil {
			d, err = Defer(), &PanicError{What: "approver", Value: v}
		}
	}()
	if d, err = a.Decide(ctx, req); err != nil {
		return Decision{Kind: DecisionDefer, Reason: d.Reason, Spent: d.Spent}, err
	}
	d = d.normal()
	if err := d.CheckRemember(); err != nil {
		return Decision{Kind: DecisionDefer, Spent: d.Spent}, err
	}
	return d, nil
}

// AskPlan puts p to g. A nil gate, a panic and an error leave it undecided.
func AskPlan(ctx context.Context, g PlanGate, p Plan) (v PlanVerdict, err error) {
	if g == nil {
		return PlanVerdict{}, nil
	}
	defer func() {
		if r := recover(); r != nil {
			v, err = PlanVerdict{}, &PanicError{What: "plan gate", Value: r}
		}
	}()
	if v, err = g.Review(ctx, p); err != nil || !v.Decided() {
		return PlanVerdict{}, err
	}
	if v.Kind != VerdictRevise {
		v.Correction = ""
	}
	return v, nil
}

// AskQuestions puts qs to r, at once if r is a [BatchResponder], else one after
// another up to the first that is not answered. It returns one reply per question; a
// nil responder, a panic and an error leave what is not answered yet unanswered.
func AskQuestions(ctx context.Context, r Responder, qs []Question) (replies []Reply, err error) {
	replies = make([]Reply, len(qs))
	if r == nil {
		return replies, nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{What: "responder", Value: v}
		}
	}()
	if b, ok := r.(BatchResponder); ok && len(qs) > 1 {
		got, err := b.AnswerAll(ctx, qs)
		if err != nil {
			return replies, err
		}
		if len(got) != len(qs) {
			return replies, fmt.Errorf("the responder gave %d replies to %d questions", len(got), len(qs))
		}
		copy(replies, got)
		return replies, nil
	}
	for i, q := range qs {
		reply, err := r.Answer(ctx, q)
		if err != nil {
			return replies, err
		}
		replies[i] = reply
		if !reply.Answered {
			break
		}
	}
	return replies, nil
}
