package loop

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// deliver tells the model what people said while nobody drove the run, or what
// they said to a step that never committed: each once. An outcome means that a
// plan was cancelled.
func (d *drive) deliver(ctx context.Context) (*trace.Outcome, error) {
	if len(d.answers)+len(d.verdicts) == 0 {
		return nil, nil
	}
	d.entryCap = prompt.EntryCap(d.room())
	var due []store.Delivery
	for _, q := range d.answers {
		step, callID := d.askedBy(q.Step, q.CallID)
		question, answer := told(q)
		due = append(due, store.Delivery{Question: q.ID, Observation: prompt.Answered(step, callID, question, answer, d.entryCap)})
	}
	for _, v := range d.verdicts {
		if v.Verdict == store.PlanCancel {
			d.tellDecided(d.last, v)
			return d.finish(ctx, trace.Outcome{Kind: trace.PlanRejected, Steps: d.last})
		}
		o, err := d.verdictTold(v)
		if err != nil {
			return nil, err
		}
		due = append(due, store.Delivery{Plan: v.ID, Observation: o})
	}
	if err := d.store.Deliver(ctx, d.lease, due...); err != nil {
		return nil, err
	}
	for _, one := range due {
		d.ledger.Add(one.Observation)
	}
	d.ledger.Committed()
	for _, q := range d.answers {
		d.tellAnswered(min(q.Step, d.last), q)
	}
	for _, v := range d.verdicts {
		d.tellDecided(min(v.Step, d.last), v)
	}
	d.answers, d.verdicts = nil, nil
	return nil, nil
}

// verdictTold is what the model is told of a verdict.
func (d *drive) verdictTold(v store.PendingPlan) (trace.Observation, error) {
	step, callID := d.askedBy(v.Step, v.CallID)
	if v.Verdict == store.PlanRevise {
		return prompt.PlanRevised(step, callID, v.Correction, d.entryCap), nil
	}
	var steps []approve.PlanStep // none of a plan that was archived meanwhile
	if err := json.Unmarshal(v.Steps, &steps); err != nil && len(v.Steps) > 0 {
		return trace.Observation{}, d.damaged("plan %d cannot be read: %w", v.ID, err)
	}
	o := prompt.PlanApproved(step, steps, d.entryCap)
	o.CallID = callID
	return o, nil
}

// damaged is the error for a stored value that is not what it was written as.
func (d *drive) damaged(format string, args ...any) error {
	return &store.Error{Kind: store.KindCorrupt, Op: "resume", Path: d.store.Path(),
		Err: fmt.Errorf("run %d: %w", d.runID(), fmt.Errorf(format, args...))}
}

// askedBy places what was said: as the result of the call that asked, when its
// step has committed; else behind the last step that has, since the call will be
// made again and may be another one then.
func (d *drive) askedBy(step int, callID string) (int, string) {
	if step > d.last {
		return d.last, ""
	}
	return step, callID
}
