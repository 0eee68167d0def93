package loop

import "github.com/initorigin/io-harness-go/trace"

// stop is one reason to end a run after a step, or to let it wait.
type stop struct {
	name string
	when func(*drive, *step) *trace.Outcome
}

// stops are the reasons that are known before the step commits, in the order in
// which they are looked at: the first that holds decides. The outcome then
// commits with the step. What only the gate can tell comes after it.
var stops = []stop{
	{"waiting for a person", func(_ *drive, st *step) *trace.Outcome { return st.pause }},
	{"stopped by the operator", func(_ *drive, st *step) *trace.Outcome {
		if !st.stopped {
			return nil
		}
		return &trace.Outcome{Kind: trace.Cancelled, Steps: st.n}
	}},
	{"stalled", func(_ *drive, st *step) *trace.Outcome {
		if st.progress != stalled {
			return nil
		}
		return &trace.Outcome{Kind: trace.Stalled, Steps: st.n}
	}},
	{"token budget", func(d *drive, st *step) *trace.Outcome {
		if !d.contract.Budget.TokensExceeded(d.spent + d.lost + st.tokens) {
			return nil
		}
		return &trace.Outcome{Kind: trace.CostBudgetExceeded, Steps: st.n}
	}},
	{"answered out of shape too often", func(d *drive, st *step) *trace.Outcome {
		if !st.misshapen || d.answersLeft() > 0 {
			return nil
		}
		return &trace.Outcome{Kind: trace.SchemaUnsatisfied, Steps: st.n}
	}},
	{"answered, and nothing checks", func(d *drive, st *step) *trace.Outcome {
		if d.criterion != nil || !d.lastWord(st) {
			return nil
		}
		return &trace.Outcome{Kind: trace.Finished, Steps: st.n}
	}},
}

// lastWord reports whether the step is all that the run still owed: an answer in
// the demanded shape, when nothing checks the work or the work has passed.
func (d *drive) lastWord(st *step) bool {
	return st.answered && !st.misshapen && (d.criterion == nil || d.shape.closing)
}

// overBudget reports whether what the run has been billed for, with what belongs to
// no step, is over its bound, so that it must not pay for anything more.
func (d *drive) overBudget() bool {
	return d.contract.Budget.TokensExceeded(d.spent + d.lost + d.owed)
}

// outcome is what the step leads to, or nil to go on.
func (d *drive) outcome(st *step) *trace.Outcome {
	for _, s := range stops {
		if o := s.when(d, st); o != nil {
			return o
		}
	}
	return nil
}
