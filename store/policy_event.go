package store

import (
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

const policyTable = "policy_events"

// PolicyEventKind tells a refusal from a decision. The value is the stored text.
type PolicyEventKind string

// The kinds of policy event.
const (
	PolicyRefusal  PolicyEventKind = "refusal"
	PolicyDecision PolicyEventKind = "decision"
)

// PolicyEvent is what the permission boundary said about one act. A run whose
// policy events cannot be written does not act.
type PolicyEvent struct {
	ID        int64 // set by the store
	Step      int
	Kind      PolicyEventKind
	Act       string // read, write, exec, net or tool
	Target    string
	Rule      string // empty when a default decided
	Layer     string // empty when a default decided
	Decision  string // allow, approve, deny, defer or ask
	Source    string // policy, approver, attached, remembered, resumed:<request>, or the approver's own name
	Performed string // the act that was done, when an approval changed it
	RequestID trace.RequestID
	At        time.Time // set by the store
}

var insertPolicyEvent = statement{"insert policy event", `INSERT INTO policy_events
	(run_id, step, kind, act, target, rule, layer, decision, source, performed, request_id, at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}

func (PolicyEvent) table() string { return policyTable }

func (e PolicyEvent) insert(t *txn, run trace.RunID) error {
	_, err := t.exec(insertPolicyEvent, run, e.Step, string(e.Kind), cleanText(e.Act), cleanText(e.Target), null(e.Rule),
		null(e.Layer), null(e.Decision), null(e.Source), null(e.Performed), nullID(e.RequestID), t.now)
	return err
}
