package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"syscall"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
	"github.com/initorigin/io-harness-go/workspace"
)

// check evaluates the gate on the workspace as the step left it. A verdict that
// is not passed is told to the model on the next step, once for each distinct
// text. An error means that the gate did not get to judge: the run stays as it
// is, and the same evaluation can be made again.
func (d *drive) check(ctx context.Context, n int, answered bool) (passed bool, err error) {
	if d.criterion == nil {
		return false, nil
	}
	if err := d.lease.Flush(ctx); err != nil {
		return false, err
	}
	// An answer says that the work is done, and is worth another look; one that was
	// asked for by itself says nothing new.
	env := d.gateEnv(n)
	verdicts := d.keepReviews(n, &env, !answered || d.shape.closing)
	v, err := verify.Evaluate(ctx, d.criterion, env)
	maps.Copy(d.reviewed, verdicts)
	if err == nil && v.Reused && context.Cause(ctx) == nil {
		return v.Passed, d.lease.Flush(ctx) // nothing was judged that had not been
	}
	row := d.rec.gate(n, v, err)
	if cause := context.Cause(ctx); cause != nil {
		// What was cut off is on record as an evaluation that can be repeated; a
		// verdict that was reached is used by the resume.
		return false, errors.Join(cause, d.lease.Flush(context.WithoutCancel(ctx)))
	}
	d.route.judgedBy(row, d.contract.Routing.EscalateAfter)
	d.tellGate(n, row, v)
	if err != nil {
		return false, errors.Join(err, d.lease.Flush(context.WithoutCancel(ctx)))
	}
	if v.Passed {
		return true, nil
	}
	d.gateFailed, d.shape.closing = true, false
	if n >= d.contract.Budget.StepCap() {
		return false, d.lease.Flush(ctx) // a resume with more steps tells it
	}
	return false, d.tellVerdict(ctx, n, v.Feedback())
}

// tellVerdict tells the model of a gate that step n failed. The verdict and what
// is told of it become durable together where they can, and the same verdict is
// told once.
func (d *drive) tellVerdict(ctx context.Context, n int, feedback string) error {
	d.untold = ""
	if feedback == "" || feedback == d.told {
		return d.lease.Flush(ctx)
	}
	d.told = feedback
	d.rec.context(n+1, "gate_feedback", fmt.Sprintf("%d characters", prompt.Characters(feedback)))
	return d.tell(ctx, note(n, prompt.GateFailed(feedback)))
}

// tellGate tells the watcher of one evaluation.
func (d *drive) tellGate(n int, row store.GateAttempt, v verify.Verdict) {
	d.emit(n, trace.Gated{Phase: row.Phase, Outcome: string(row.Outcome)})
	if !phaseFailed(row) {
		return
	}
	d.emit(n, trace.Sandboxed{Action: "gate_phase_failed"})
	if v.Phase == verify.PhaseCommand {
		d.emit(n, trace.GateOutput{Output: v.Output, ExitCode: v.Exit})
	}
}

// keepReviews lets an evaluation use the verdicts of reviewers that still hold,
// where a reviewer would be paid to see what it has seen, and returns those that
// it makes. Before the evaluation is over none of its own holds: two reviews may
// have one rubric.
func (d *drive) keepReviews(n int, env *verify.Env, reuse bool) map[string]bool {
	made := map[string]bool{}
	env.ReportReview = func(rubric string, r verify.ReviewResult) {
		made[rubric] = r.Passed
		d.emit(n, trace.Reviewed{Passed: r.Passed, Reasons: r.Reasons})
	}
	if reuse {
		env.Reviewed = func(rubric string) (passed, holds bool) {
			passed, holds = d.reviewed[rubric]
			return passed, holds
		}
	}
	return made
}

// warnOfGate tells the watcher what makes the gate of this drive worth less than
// it looks.
func (d *drive) warnOfGate() {
	if why := verify.Unverifiable(d.criterion, d.gateEnv(0), d.models()); why != "" {
		d.emit(d.last, trace.ReviewUnverifiable{Why: why})
	}
	for _, path := range verify.Weak(d.criterion, d.workspace.Root()) {
		if d.base.Check(policy.Need{Act: policy.Write, Target: path}).Effect == policy.Allow {
			d.emit(d.last, trace.GateWeak{Path: path})
		}
	}
}

// changes are the files that the run wrote, in the order of their first write,
// as a reviewer is shown them.
func (d *drive) changes(ctx context.Context) ([]verify.FileChange, error) {
	points, err := d.store.RestorePoints(ctx, d.runID())
	if err != nil {
		return nil, err
	}
	// What is judged is what is there, whatever the agent may read of it; and what a
	// reviewer reads the agent has not seen.
	there, _ := d.workspace.WithPolicy(policy.Permissive()).Aside()
	var out []verify.FileChange
	for _, p := range points {
		c := verify.FileChange{Path: p.Path, Before: string(p.Before)}
		switch p.State {
		case store.KeptText:
		case store.KeptAbsent:
			c.Created = true
		default:
			c.Unkept = p.Reason
			if c.Unkept == "" {
				c.Unkept = "it was not kept"
			}
		}
		after, err := there.ReadBytes(ctx, p.Path)
		switch {
		case noFile(err):
			c.Deleted = true
		case cannotBeRead(err):
			c.Unread = err.Error()
		case err != nil:
			return nil, err
		}
		c.After = string(after)
		out = append(out, c)
	}
	return out, nil
}

// noFile reports whether err says that no file is there: nothing is, or a directory,
// or a file in the place of a directory on the way.
func noFile(err error) bool {
	var other *workspace.NotRegularError
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.As(err, &other) && other.Kind == "directory"
}

// cannotBeRead reports whether err says that what is there cannot be read as a file,
// which the agent may have brought about and which a reviewer judges.
func cannotBeRead(err error) bool {
	var other *workspace.NotRegularError
	return errors.Is(err, workspace.ErrTooLarge) || errors.Is(err, fs.ErrPermission) || errors.As(err, &other)
}

// note is a message of the loop: it answers no call and supersedes nothing.
func note(step int, text string) trace.Observation {
	return trace.Observation{Step: step, Kind: trace.ObsMessage, Origin: trace.OriginProse, Text: text}
}

// tell adds observations to the ledger that belong to no step's commit, durably.
func (d *drive) tell(ctx context.Context, obs ...trace.Observation) error {
	if err := d.store.AppendObservations(ctx, d.lease, obs...); err != nil {
		return err
	}
	d.ledger.Add(obs...)
	d.ledger.Committed()
	return nil
}

// admitGate judges a gate's command. Its line is the operator's own and not a
// model's, so a rule that allows the bare program is enough, where no rule speaks
// of the line.
func admitGate(p policy.Policy, argv []string, program string) judged {
	j := judged{need: policy.Need{Act: policy.Exec, Target: argv[0], Argv: argv, Resolved: program}}
	j.verdict = p.Check(j.need)
	if j.verdict.Matched || j.verdict.Effect == policy.Allow {
		return j
	}
	bare := j.need
	bare.Argv = argv[:1]
	if b := p.Check(bare); b.Matched && b.Effect == policy.Allow {
		j.verdict = b
	}
	return j
}

// refuseGate records that the policy keeps a command of the gate from being started,
// and returns the refusal.
func (d *drive) refuseGate(ctx context.Context, n int, j judged) error {
	d.rec.refusal(n, j, "")
	d.emit(n, trace.RefusedAct{Act: string(policy.Exec), Target: needTarget(j.need), Rule: j.verdict.Rule, Layer: j.verdict.Layer})
	return errors.Join(j.verdict.Refusal(j.need), d.lease.Flush(ctx))
}

// gateAdmissible finds out before a completion is paid for whether the policy denies
// what the gate starts. What would be asked about is left to the gate, since a person
// may say meanwhile that it is allowed from now on. The lock of a plan is not asked: it
// is gone by then.
func (d *drive) gateAdmissible(ctx context.Context) error {
	env, p := d.gateEnv(d.last), d.withoutStore(d.base.Remember(d.remembered...))
	env.Admit = func(ctx context.Context, argv []string, program string) error {
		if j := admitGate(p, argv, program); j.verdict.Effect == policy.Deny {
			return d.refuseGate(ctx, d.last, j)
		}
		return nil // what is allowed is on record when it is started
	}
	return verify.Admissible(ctx, d.criterion, env)
}

// gateEnv is what an evaluation may use: the run's boundary, without anybody
// who could be asked.
func (d *drive) gateEnv(n int) verify.Env {
	return verify.Env{
		Root: d.workspace.Root(),
		Temp: d.gateTemp(),
		Goal: d.contract.Goal,
		Resolve: func(program string) (string, error) {
			return d.resolve(program)
		},
		Admit: func(ctx context.Context, argv []string, program string) error {
			j := admitGate(d.policy, argv, program)
			if j.verdict.Effect != policy.Allow {
				return d.refuseGate(ctx, n, j)
			}
			d.rec.decision(n, j, "allow", "policy", "", 0)
			return d.lease.Flush(ctx)
		},
		Run: func(ctx context.Context, cmd sandbox.Cmd) (*sandbox.Result, error) {
			return d.runGate(ctx, n, cmd)
		},
		Changes: d.changes,
		ReportCall: func(c verify.ReviewCall) {
			d.spent += total(c.Usage)
			d.rec.reviewCall(n, c)
		},
	}
}

// gateTemp is the temporary directory of the gate's commands: that of the run, or the
// system's where they are granted it.
func (d *drive) gateTemp() string {
	p := d.gateProfile()
	if p.Temp != "" || !p.SharedTemp {
		return p.Temp
	}
	if real, err := filepath.EvalSymlinks(os.TempDir()); err == nil {
		return real
	}
	return os.TempDir()
}

// judgements are the evaluations of the run's gate so far. other tells those of
// another criterion than the one that judges now: a resume may have stated this one,
// and died before it came to judge.
func (d *drive) judgements(ctx context.Context) (all []store.GateAttempt, other func(store.GateAttempt) bool, err error) {
	all, err = store.Collect(d.store.GateAttempts(ctx, d.runID()))
	if err != nil || len(all) == 0 {
		return nil, nil, err
	}
	drives, err := d.store.Drives(ctx, d.runID())
	if err != nil {
		return nil, nil, err
	}
	var since store.DriveRow // the first drive under the present criterion
	for i := len(drives) - 1; i > 0 && since.ID == 0; i-- {
		if !bytes.Equal(criterionIn(drives[i].Contract), criterionIn(drives[i-1].Contract)) {
			since = drives[i]
		}
	}
	return all, func(a store.GateAttempt) bool {
		if a.Drive == 0 { // older software left only the clock to go by
			return d.otherGate || a.At.Before(since.StartedAt)
		}
		return d.otherGate || a.Drive < since.ID
	}, nil
}

// criterionIn is the criterion of a stored contract, as it is stored.
func criterionIn(contract json.RawMessage) []byte {
	var c struct {
		Verify json.RawMessage `json:"verify"`
	}
	if json.Unmarshal(contract, &c) != nil {
		return nil
	}
	return c.Verify
}
