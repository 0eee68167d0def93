package loop

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// proposePlan is the tool that ends the planning. It is offered for as long as
// the planning lasts.
const proposePlan = "propose_plan"

func (d *drive) planTool() tool.Tool {
	return &runTool{
		spec: tool.Spec{
			Name: proposePlan,
			Description: "Propose how you will do the task, in ordered steps, and wait for the operator's verdict. Proposing does nothing by itself, and until a plan is approved " +
				"nothing that writes or runs works, so read enough first.",
			Schema: json.RawMessage(`{"type":"object","properties":{"steps":{"type":"array","items":{"type":"object","properties":{` +
				`"intent":{"type":"string","description":"what the step does"},"agent":{"type":"string","description":"the named agent that does it; leave it out for yourself"}},` +
				`"required":["intent"]}}},"required":["steps"]}`),
			Strict: true, // a person sees what the model meant to do
		},
		perform: d.propose,
	}
}

// beginPlanning holds everything back that writes or runs until a plan is
// approved. Whether to is asked of the store at every entry of a drive, never
// remembered: an approval outlives a crash, and so does its absence. A run that
// has proposed a plan waits for its approval also in a process that demands none.
func (d *drive) beginPlanning(approved *store.PendingPlan, proposed bool) {
	if approved != nil || d.lease.Depth > 0 || d.host.PlanGate == nil && !proposed {
		return
	}
	d.planning = true
	d.catalogue = d.catalogue.with(d.planTool())
	d.setPolicy()
}

// endPlanning goes back to the policy without the lock. It never edits one.
func (d *drive) endPlanning() {
	d.planning = false
	d.catalogue = d.catalogue.without(proposePlan)
	d.system = d.workSystem
	d.setPolicy()
}

// planHolds reports whether a call has to wait for a plan although it asks for
// nothing that the lock denies: it writes the library's own store, or has
// somebody else act.
func (d *drive) planHolds(c *call) bool {
	if !d.planning {
		return false
	}
	switch c.name {
	case "remember", "forget", "spawn_agent", "browser_click", "browser_type", "run_program":
		return true
	}
	return false
}

// propose puts a plan to the gate, or to whoever decides from another process.
func (d *drive) propose(ctx context.Context, st *step, c *call) error {
	if st.plan != nil {
		c.refuse(st.n, proposePlan+" refused", prompt.UnknownTool(proposePlan, d.catalogue.without(proposePlan).names))
		return nil
	}
	// No agent has a name that a step could be handed to: a contract names none.
	p, err := approve.ParsePlan(c.args, nil)
	if err != nil {
		d.failArguments(st, c, err.Error())
		return nil
	}
	row, err := d.putPlan(ctx, st, c, p)
	if err != nil {
		return err
	}
	if row, err = d.awaitVerdict(ctx, st, row, p); err != nil {
		return err
	}
	return d.applyVerdict(st, c, p, row)
}

// putPlan writes the row that somebody else may decide. A call that is replayed
// after a crash takes up the open row that it wrote before.
func (d *drive) putPlan(ctx context.Context, st *step, c *call, p approve.Plan) (store.PendingPlan, error) {
	steps, err := json.Marshal(p.Steps)
	if err != nil {
		return store.PendingPlan{}, err
	}
	before, err := d.store.Plans(ctx, d.runID())
	if err != nil {
		return store.PendingPlan{}, err
	}
	row := store.PendingPlan{Step: st.n, CallID: c.id, Steps: steps}
	for _, b := range before {
		if b.Step == st.n && b.CallID == c.id && b.DecidedAt.IsZero() && string(b.Steps) == string(steps) {
			row.ID = b.ID
		}
	}
	if row.ID == 0 {
		d.rec.context(st.n, "plan_proposed", fmt.Sprintf("%d steps", len(p.Steps)))
		if row.ID, err = d.store.PutPlan(ctx, d.lease, row); err != nil {
			return row, err
		}
	}
	f := trace.PlanProposed{PlanID: row.ID}
	for _, s := range p.Steps {
		f.Steps = append(f.Steps, trace.ProposedStep{Intent: s.Intent, Agent: s.Agent})
	}
	d.emit(st.n, f)
	return row, nil
}

// awaitVerdict waits for a verdict and returns the row as it is then.
func (d *drive) awaitVerdict(ctx context.Context, st *step, row store.PendingPlan, p approve.Plan) (store.PendingPlan, error) {
	v, own, err := await(ctx, d,
		func(ctx context.Context) approve.PlanVerdict {
			v, err := approve.AskPlan(ctx, d.host.PlanGate, p)
			if err != nil && ctx.Err() == nil {
				d.log.Warn("the plan gate failed, and the plan stays undecided", "run", d.runID(), "plan", row.ID, "error", err)
				d.rec.context(st.n, "plan_gate_failed", err.Error())
			}
			return v
		},
		func(ctx context.Context) (bool, error) {
			now, err := d.store.Plan(ctx, row.ID)
			return !now.DecidedAt.IsZero(), err
		})
	if err != nil {
		return row, err
	}
	if own && v.Decided() {
		if _, err := d.store.DecidePlan(ctx, planDecision(row.ID, v, byGate)); err != nil {
			return row, err
		}
	}
	return d.store.Plan(ctx, row.ID)
}

func planDecision(id trace.PlanID, v approve.PlanVerdict, by string) store.PlanDecision {
	return store.PlanDecision{ID: id, Verdict: store.PlanVerdict(v.Kind), Correction: clean(v.Correction), By: by}
}

// applyVerdict carries out what the row says of the plan. An approval takes
// effect behind the last call of the step: what was asked for together with the
// plan was asked for without one.
func (d *drive) applyVerdict(st *step, c *call, p approve.Plan, row store.PendingPlan) error {
	if row.Verdict != store.PlanUndecided {
		d.tellDecided(st.n, row)
	}
	switch row.Verdict {
	case store.PlanApprove:
		st.plan = &p
		st.toldPlans = append(st.toldPlans, row.ID)
		c.end("plan approved", trace.Observation{Step: st.n, Kind: trace.ObsTool, Target: proposePlan, Origin: trace.OriginProse, Text: prompt.PlanAccepted()})
	case store.PlanRevise:
		st.toldPlans = append(st.toldPlans, row.ID)
		c.end("plan sent back", prompt.PlanRevised(st.n, c.id, row.Correction, d.entryCap))
	case store.PlanCancel:
		c.decision = "plan cancelled"
		st.pause, st.pausedBy = &trace.Outcome{Kind: trace.PlanRejected, Steps: st.n}, c
	default:
		c.decision = "plan proposed"
		st.pause, st.pausedBy = &trace.Outcome{Kind: trace.AwaitingPlan, Steps: st.n, PlanID: row.ID}, c
	}
	return nil
}

// tellDecided tells the watcher and the trace of a verdict.
func (d *drive) tellDecided(n int, row store.PendingPlan) {
	d.rec.context(n, "plan_decided", row.DecidedBy+": "+string(row.Verdict))
	d.emit(n, trace.PlanDecided{PlanID: row.ID, Verdict: string(row.Verdict), By: row.DecidedBy})
}

// Verdict decides a plan that a run waits for. An undecided verdict decides
// nothing: the run still waits.
type Verdict struct {
	ID      trace.PlanID
	Verdict approve.PlanVerdict
}

// DecidePlanFrom decides a plan of a run that another process drives, and reports
// whether this is the verdict that counts. The caller has made sure that the plan
// is one of the run's.
func DecidePlanFrom(ctx context.Context, st *store.Store, v Verdict, by string) (bool, error) {
	if !v.Verdict.Decided() {
		return false, &task.InvalidError{Field: "verdict", Reason: "decides nothing: say approve, revise or cancel, and until then the plan waits"}
	}
	return st.DecidePlan(ctx, planDecision(v.ID, v.Verdict, by))
}
