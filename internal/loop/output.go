package loop

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// answerShape is what has come of a demanded shape so far.
type answerShape struct {
	value    json.RawMessage // the last conforming answer that still stands
	rejected int             // answers that did not conform, over all drives
	closing  bool            // the work passed, and only the answer is missing
	dropped  bool            // the vendor refused the schema, and is asked without it
}

// judgeAnswer checks an answer against the shape that the contract demands. One
// that conforms stands until the workspace changes; one that does not is told
// why, while there are tries left.
func (d *drive) judgeAnswer(st *step) {
	if d.contract.Output == nil {
		return
	}
	if !st.answered {
		if st.moved {
			d.shape.value = nil
		}
		return
	}
	value, bad := d.contract.Output.Check(st.said())
	if bad == nil {
		d.shape.value = value
		d.acceptAnswer(st.n)
		return
	}
	d.shape.value = nil
	d.shape.rejected++
	failures := make([]string, len(bad.Violations))
	for i, v := range bad.Violations {
		failures[i] = v.String()
	}
	d.rec.output(st.n, failures)
	st.misshapen = true
	d.rec.context(st.n, "replan", bounded(strings.Join(failures, "; ")))
	left := max(d.answersLeft(), 0)
	d.durable = append(d.durable, trace.OutputRejected{Violations: failures, Left: left})
	if left > 0 {
		st.notes = append(st.notes, note(st.n, prompt.OutputRejected(failures, left)))
	}
}

// acceptAnswer records that the answer of step n has the demanded shape.
func (d *drive) acceptAnswer(n int) {
	d.rec.output(n, nil)
	d.durable = append(d.durable, trace.OutputAccepted{})
}

// tellDurable tells the watcher what a transaction has made true.
func (d *drive) tellDurable(n int) {
	for _, f := range d.durable {
		d.emit(n, f)
	}
	d.durable = nil
}

// answersLeft is how many answers may still be given.
func (d *drive) answersLeft() int { return d.contract.OutputCap() - d.shape.rejected }

// output is what is stored of the demanded shape with an ending.
func (d *drive) output(out trace.OutcomeKind) *store.Output {
	if d.contract.Output == nil {
		return nil
	}
	o := &store.Output{Schema: d.contract.Output.JSON(), Attempts: d.shape.rejected}
	if (out == trace.Success || out == trace.Finished) && d.shape.value != nil {
		o.Value, o.Valid, o.Attempts = d.shape.value, true, d.shape.rejected+1
	}
	return o
}

// restoreOutput counts the answers that earlier drives rejected, and finds the one
// that still stands.
func (d *drive) restoreOutput(ctx context.Context) error {
	if d.contract.Output == nil {
		return nil
	}
	accepted := 0 // the step of the last answer, where it was accepted
	for g, err := range d.store.GateAttempts(ctx, d.runID()) {
		switch {
		case err != nil:
			return err
		case g.Phase != string(verify.PhaseOutput):
		case g.Outcome == store.GateFailed:
			d.shape.rejected++
			accepted = 0
		default:
			accepted = g.Step
		}
	}
	// It is read again: it is in the ledger, and its value is not. A text that was
	// cut off was judged by nobody, whatever it looks like.
	if accepted > 0 && accepted == d.last {
		if value, bad := d.contract.Output.Check(d.reply); bad == nil {
			d.shape.value = value
		}
	}
	return nil
}
