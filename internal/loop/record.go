package loop

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// recorder turns what happens in a drive into evidence of its trace. Nothing it
// is given is written at once: the rows join the next commit, or the flush that
// comes before every effect and every wait.
type recorder struct {
	lease    *store.Drive
	provider string
	// unmetered counts the answered completions of the run without a usage.
	unmetered atomic.Int64
}

// refusal records that the policy forbade an act.
func (r *recorder) refusal(step int, j judged, performed string) {
	r.lease.Record(store.PolicyEvent{
		Step: step, Kind: store.PolicyRefusal, Act: string(j.need.Act), Target: needTarget(j.need),
		Rule: j.verdict.Rule, Layer: j.verdict.Layer, Decision: "deny", Source: "policy", Performed: performed,
	})
}

// decision records what was decided about an act that the policy asks about, or
// that is recorded also when it is allowed.
func (r *recorder) decision(step int, j judged, decision, source, performed string, id trace.RequestID) {
	r.lease.Record(store.PolicyEvent{
		Step: step, Kind: store.PolicyDecision, Act: string(j.need.Act), Target: needTarget(j.need),
		Rule: j.verdict.Rule, Layer: j.verdict.Layer, Decision: decision, Source: source, Performed: performed, RequestID: id,
	})
}

// providerCall records one attempt at a completion, with everything that the
// provider itself did for it.
func (r *recorder) providerCall(step, attempt int, purpose store.Purpose, resp *provider.Response, err error, took time.Duration) {
	row := store.ProviderCall{Step: step, Attempt: attempt, Purpose: purpose, Provider: r.provider, Latency: took}
	if err != nil {
		row.Failure, row.Usage = failureWord(err), provider.UsageOf(err)
		r.lease.Record(row)
		return
	}
	for _, f := range resp.Failed {
		if f.Usage != nil { // it is on the bill, so it is in the accounts
			r.lease.Record(store.ProviderCall{Step: step, Attempt: attempt, Purpose: purpose, Provider: f.Provider, Usage: f.Usage, Latency: f.Took, Failure: f.Failure})
		}
	}
	if resp.Usage == nil {
		r.unmetered.Add(1)
	}
	row.Model, row.Usage, row.FirstToken, row.FinishReason = resp.Model, resp.Usage, resp.TTFT, resp.FinishReason
	r.lease.Record(row)
	r.looked(step, resp)
}

// approverCall records a completion that an approver paid for.
func (r *recorder) approverCall(step int, s approve.Spend) {
	if s.Usage == nil && s.Failure == "" {
		r.unmetered.Add(1)
	}
	r.lease.Record(store.ProviderCall{
		Step: step, Purpose: store.ForApproval, Provider: s.Provider, Model: s.Model, Usage: s.Usage, Latency: s.Took, Failure: s.Failure,
	})
}

// attempt records a completion that did not become the result of its step.
func (r *recorder) attempt(step int, kind store.StepAttemptKind, decision string, delay time.Duration) {
	r.lease.Record(store.StepAttempt{Step: step, Kind: kind, Decision: decision, Delay: delay})
}

// context records something about what the model is shown.
func (r *recorder) context(step int, kind, detail string) {
	r.lease.Record(store.ContextEvent{Step: step, Kind: kind, Detail: detail})
}

// assembled records what one request carried of the ledger.
func (r *recorder) assembled(step int, a prompt.Assembled) {
	for _, again := range a.Rereads {
		kind := "reread"
		if again.Why != "" {
			kind = "reread_refused"
		}
		r.context(step, kind, again.Read.Target)
	}
	tokens := int64(a.Tokens)
	r.lease.Record(store.ContextEvent{Step: step, Kind: "assembled", Detail: a.Detail(), Est: &tokens})
}

// phaseFailed reports whether an evaluation failed at something that ran.
func phaseFailed(g store.GateAttempt) bool {
	phase := verify.Phase(g.Phase)
	return g.Outcome == store.GateFailed && (phase == verify.PhaseCommand || phase == verify.PhaseCompiles)
}

// bounded is a text as it stands in a row about a gate: with its head and its
// tail, and the words about what is missing, in verify.MaxOutput characters.
func bounded(s string) string { return sandbox.Bound(clean(s), verify.MaxOutput-100) }

// gate records one evaluation of the criterion.
func (r *recorder) gate(step int, v verify.Verdict, err error) store.GateAttempt {
	row := store.GateAttempt{Step: step, Phase: string(v.Phase), Outcome: store.GateFailed, Detail: v.Detail}
	switch {
	case err != nil:
		row.Outcome, row.Detail = store.GateErrored, bounded(err.Error())
	case v.Passed:
		row.Outcome = store.GatePassed
	}
	r.lease.Record(row)
	if phase := v.Step; phaseFailed(row) {
		if phase == "" {
			phase = string(v.Phase)
		}
		r.lease.Record(store.SandboxEvent{Step: step, Kind: "gate_phase_failed", Phase: phase, Detail: v.Detail})
		if v.Output != "" {
			r.lease.Record(store.SandboxEvent{Step: step, Kind: "gate_output", Phase: phase, Detail: v.Output})
		}
	}
	return row
}

// output records one check of an answer's shape; no failures is a pass.
func (r *recorder) output(step int, failures []string) {
	row := store.GateAttempt{Step: step, Phase: string(verify.PhaseOutput), Outcome: store.GatePassed}
	if len(failures) > 0 {
		row.Outcome, row.Detail = store.GateFailed, bounded(strings.Join(failures, "; "))
	}
	r.lease.Record(row)
}

// reviewCall records a completion that a reviewer paid for.
func (r *recorder) reviewCall(step int, c verify.ReviewCall) {
	if c.Usage == nil && c.Failure == "" {
		r.unmetered.Add(1)
	}
	r.lease.Record(store.ProviderCall{
		Step: step, Purpose: store.ForReview, Provider: c.Provider, Model: c.Model, Usage: c.Usage, Latency: c.Took, Failure: c.Failure,
	})
}
