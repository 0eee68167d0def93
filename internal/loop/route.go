package loop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// route is where the contract's routing has moved a run. Nothing of it is
// stored: a resume finds it again in the verdicts of the gate and in the edits.
type route struct {
	model     string // to ask instead of the contract's; "" is no rule in force
	failures  int    // evaluations of the gate in a row that did not pass
	escalated bool   // for the rest of the run
	reached   bool   // the provider has said that it would answer
}

// model is the one that a completion is asked of; "" is the provider's own.
func (d *drive) model() string {
	if d.route.model != "" {
		return d.route.model
	}
	return d.contract.Model
}

// routed decides before a step which model it is asked of, and tells of a change.
func (d *drive) routed(ctx context.Context, n int) error {
	r := d.contract.Routing
	var written int64
	if r.DownshiftUnder.Model != "" && !d.route.escalated {
		var err error
		if written, err = d.written(ctx); err != nil {
			return err
		}
	}
	failures := d.route.failures
	if d.route.escalated {
		failures = max(failures, r.EscalateAfter.Failures)
	}
	to, _ := r.ModelFor(failures, written)
	if to == d.route.model {
		return nil
	}
	var why string
	switch {
	case d.route.escalated:
		why = fmt.Sprintf("the gate did not pass %d times in a row", failures)
	case to != "":
		why = fmt.Sprintf("%d bytes written, under %d", written, r.DownshiftUnder.Bytes)
	default:
		why = fmt.Sprintf("%d bytes written, no longer under %d", written, r.DownshiftUnder.Bytes)
	}
	from := d.model()
	d.route.model = to
	d.emit(n, trace.Routed{From: from, To: d.model(), Why: why})
	return nil
}

// judgedBy counts one evaluation of the gate for the routing. A check of the
// answer's shape is none, and neither is a gate that demands nothing.
func (r *route) judgedBy(g store.GateAttempt, rule task.EscalateAfter) {
	switch {
	case g.Phase == string(verify.PhaseOutput) || g.Phase == string(verify.PhaseNone):
		return
	case g.Outcome == store.GatePassed:
		r.failures = 0
		return
	}
	r.failures++
	if rule.Model != "" && r.failures >= rule.Failures {
		r.escalated = true
	}
}

// restoreRoute counts what the gate said to earlier drives.
func (d *drive) restoreRoute(ctx context.Context) error {
	rule := d.contract.Routing.EscalateAfter
	if rule.Model == "" {
		return nil
	}
	for g, err := range d.store.GateAttempts(ctx, d.runID()) {
		if err != nil {
			return err
		}
		d.route.judgedBy(g, rule)
	}
	return nil
}

// written is how many bytes the files have now that the run's committed steps
// wrote, each file once. It is measured, not remembered: commands change files too.
func (d *drive) written(ctx context.Context) (int64, error) {
	paths, err := d.store.EditedPaths(ctx, d.runID(), d.last)
	if err != nil {
		return 0, err
	}
	// A size is no content: what the agent may read does not matter.
	all := d.workspace.WithPolicy(policy.Permissive())
	var sum int64
	for _, path := range paths {
		switch entry, err := all.Stat(path); {
		case err == nil:
			sum += max(entry.Size, 0)
		case !errors.Is(err, fs.ErrNotExist):
			d.log.Warn("a file that the run wrote cannot be measured and counts as gone", "run", d.runID(), "path", path, "error", err)
		}
	}
	return sum, nil
}

// dialsFreely reports whether the policy lets the provider dial all its hosts
// without asking anybody.
func (d *drive) dialsFreely() bool {
	for _, endpoint := range d.host.Provider.Endpoints() {
		target, ok := policy.NetTarget(endpoint)
		need := policy.Need{Act: policy.Net, Target: target}
		if !ok || d.policy.ForProvider(target).Check(need).Effect != policy.Allow {
			return false
		}
	}
	return true
}

// requirePrimary asks the provider once whether it would answer, where the
// contract demands that. It must not be called before its hosts are allowed.
func (d *drive) requirePrimary(ctx context.Context) error {
	if !d.contract.Routing.RequirePrimary || d.route.reached {
		return nil
	}
	up, err := provider.Reachable(d.pinned(ctx), d.host.Provider)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if up {
		d.route.reached = true
		return nil
	}
	d.tellRefusedDial(0, err)
	reason := fmt.Sprintf("the provider %s is not reachable: try again when it is, or do not require it", d.host.Provider.Name())
	if err != nil {
		reason = fmt.Sprintf("the provider %s is not reachable (%v): try again when it is, or do not require it", d.host.Provider.Name(), err)
	}
	return &task.InvalidError{Field: "Routing.RequirePrimary", Reason: reason, Err: err}
}
