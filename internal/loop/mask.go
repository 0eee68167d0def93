package loop

import (
	"slices"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// A refusal by the mask is no word of the policy. Its act and its layer say so in
// the trace.
const (
	actTool   policy.Act = "tool"
	layerMask string     = "turn tool mask"
)

// masked reports whether the operator withholds a tool. It is still offered: the
// bytes that describe the tools are those of every other turn.
func (d *drive) masked(name string) bool { return slices.Contains(d.contract.ToolMask, name) }

// refuseMasked settles a call of a tool that is withheld, before anything else is
// looked at.
func (d *drive) refuseMasked(st *step, c *call) {
	j := judged{need: policy.Need{Act: actTool, Target: c.name}, verdict: policy.Verdict{Effect: policy.Deny, Rule: c.name, Layer: layerMask, Matched: true}}
	d.rec.refusal(st.n, j, "")
	d.emit(st.n, trace.RefusedAct{Act: string(actTool), Target: c.name, Rule: c.name, Layer: layerMask})
	c.refuse(st.n, c.name+" refused: withheld", prompt.Withheld(c.name))
}

// checkMask refuses a mask under which the run could only go in circles.
func (h Host) checkMask(c task.Contract) error {
	if h.PlanGate != nil && slices.Contains(c.ToolMask, proposePlan) {
		return &task.InvalidError{Field: "ToolMask", Reason: "withholds " + proposePlan + ", which the plan gate demands"}
	}
	return nil
}
