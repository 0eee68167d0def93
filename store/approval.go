package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// ApprovalVerdict is a person's decision on an approval. The value is the
// stored text; a text that this version does not know reads as a denial.
type ApprovalVerdict string

// The verdicts; the zero value is undecided.
const (
	Undecided ApprovalVerdict = ""
	Approve   ApprovalVerdict = "approve"
	Deny      ApprovalVerdict = "deny"
)

// PendingApproval is an act that waits for a decision, with the whole call, so
// that approving it later performs exactly what was asked.
type PendingApproval struct {
	ID        trace.RequestID // set by the store
	RunID     trace.RunID     // set by the store
	Step      int
	CallIndex int             // of the call within its completion, from 0
	CallID    string          // the call's id, which the result must carry
	Tool      string          // empty for an act that is no call, such as dialling the provider
	Arguments json.RawMessage // of the call, unchanged
	Act       string
	Target    string
	Content   string // what an approver sees of a write
	Rule      string // that asked; empty for a default
	Layer     string
	Bound     json.RawMessage // what the approval is about: the contents of files, by digest

	// The decision.
	Verdict     ApprovalVerdict
	DecidedBy   string // approver, attached, resumed, or the approver's own name; who overruled it; Withdrawn
	Reason      string
	Modified    json.RawMessage // the act as the approver changed it
	Remember    json.RawMessage // rules that the approver asked to keep
	AskedAt     time.Time
	DecidedAt   time.Time // zero while undecided
	PerformedAt time.Time // zero until the approved act was carried out
}

// ApprovalDecision decides one approval.
type ApprovalDecision struct {
	ID       trace.RequestID
	Verdict  ApprovalVerdict
	By       string
	Reason   string
	Modified json.RawMessage
	Remember json.RawMessage
}

const approvalColumns = `id, run_id, step, call_index, coalesce(call_id, ''), tool, arguments, act, target, coalesce(content, ''),
	coalesce(rule, ''), coalesce(layer, ''), coalesce(resolved, ''), coalesce(resolved_by, ''), coalesce(reason, ''),
	modified, remember, bound, asked_at, resolved_at, performed_at`

var (
	insertApproval = statement{"insert approval", `INSERT INTO pending_approvals
		(run_id, step, call_index, call_id, tool, arguments, act, target, content, rule, layer, bound, asked_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`}
	// decideApproval changes nothing when somebody was first.
	decideApproval = statement{"decide approval", `UPDATE pending_approvals
		SET resolved = ?, resolved_by = ?, reason = ?, modified = ?, remember = ?, resolved_at = ? WHERE id = ? AND resolved IS NULL`}
	// overruleApproval takes back a yes that was not carried out.
	overruleApproval = statement{"overrule approval", `UPDATE pending_approvals
		SET resolved = 'deny', resolved_by = ?, reason = ? WHERE id = ? AND run_id = ? AND resolved = 'approve' AND performed_at IS NULL`}
	withdrawApprovals = statement{"withdraw approvals", `UPDATE pending_approvals
		SET resolved = 'deny', resolved_by = ?, reason = 'the run has ended', resolved_at = ? WHERE run_id = ? AND resolved IS NULL`}
	readApproval  = statement{"read approval", `SELECT ` + approvalColumns + ` FROM pending_approvals WHERE id = ?`}
	openApprovals = statement{"open approvals", `SELECT ` + approvalColumns + ` FROM pending_approvals WHERE run_id = ? AND resolved IS NULL ORDER BY id`}
	allApprovals  = statement{"all approvals", `SELECT ` + approvalColumns + ` FROM pending_approvals WHERE run_id = ? ORDER BY id`}
	// dueApprovals are approved, belong to a step that committed, and are not yet
	// carried out.
	dueApprovals = statement{"due approvals", `SELECT ` + approvalColumns + ` FROM pending_approvals
		WHERE run_id = ? AND step <= ? AND resolved = 'approve' AND performed_at IS NULL ORDER BY id`}
	// decidedAfter were decided for a step that never committed.
	decidedAfter = statement{"decided after", `SELECT ` + approvalColumns + ` FROM pending_approvals
		WHERE run_id = ? AND step > ? AND resolved IS NOT NULL AND performed_at IS NULL ORDER BY id`}
)

// PutPending makes an approval durable before anybody is asked, so that another
// process can decide it while this one waits.
func (s *Store) PutPending(ctx context.Context, d *Drive, p PendingApproval) (trace.RequestID, error) {
	var id int64
	err := d.writeAhead(ctx, "put approval", func(t *txn) (err error) {
		id, err = t.insert(insertApproval, d.RunID, p.Step, p.CallIndex, null(p.CallID), cleanText(p.Tool), rawJSON(p.Arguments),
			cleanText(p.Act), cleanText(p.Target), null(p.Content), null(p.Rule), null(p.Layer), rawJSON(p.Bound), t.now)
		return err
	})
	return trace.RequestID(id), err
}

// ResolvePending decides an approval and reports whether this call was the one
// that did: the first wins. Act on what Pending reads back, not on the decision
// handed in. It takes no lease, so that an attached process can decide; for the
// same reason it cannot defer.
func (s *Store) ResolvePending(ctx context.Context, dec ApprovalDecision) (bool, error) {
	var won bool
	err := s.write(ctx, "decide approval", func(t *txn) (err error) {
		won, err = resolveApproval(t, dec)
		return err
	})
	return won, err
}

func resolveApproval(t *txn, dec ApprovalDecision) (bool, error) {
	if dec.Verdict != Approve && dec.Verdict != Deny {
		return false, invalid("decide approval", "the verdict %q is neither approve nor deny", dec.Verdict)
	}
	n, err := t.exec(decideApproval, string(dec.Verdict), null(dec.By), null(dec.Reason), rawJSON(dec.Modified), rawJSON(dec.Remember), t.now, dec.ID)
	return n == 1, err
}

// Pending reads an approval; ErrNotFound when there is none with that id.
func (s *Store) Pending(ctx context.Context, id trace.RequestID) (PendingApproval, error) {
	var p PendingApproval
	err := s.read(ctx, "read approval", func(q *query) (err error) {
		p, err = approvalByID(q, id)
		return err
	})
	return p, err
}

func approvalByID(q *query, id trace.RequestID) (PendingApproval, error) {
	ps, err := list(q, readApproval, []any{id}, scanApproval)
	if err != nil {
		return PendingApproval{}, err
	}
	if len(ps) == 0 {
		return PendingApproval{}, notFound("approval", int64(id))
	}
	return ps[0], nil
}

// UnresolvedApprovals lists what still waits for a decision in one run, oldest first.
func (s *Store) UnresolvedApprovals(ctx context.Context, run trace.RunID) ([]PendingApproval, error) {
	return s.approvals(ctx, openApprovals, run)
}

// Approvals lists every approval of one run, oldest first.
func (s *Store) Approvals(ctx context.Context, run trace.RunID) ([]PendingApproval, error) {
	return s.approvals(ctx, allApprovals, run)
}

func (s *Store) approvals(ctx context.Context, st statement, run trace.RunID) (ps []PendingApproval, err error) {
	err = s.read(ctx, st.name, func(q *query) (err error) {
		ps, err = list(q, st, []any{run}, scanApproval)
		return err
	})
	return ps, err
}

// MarkPerformed records that an approved act was carried out outside of a step:
// together with the observations that tell the model, in one transaction. It
// reports false when it was recorded before; then nothing is added.
func (s *Store) MarkPerformed(ctx context.Context, d *Drive, id trace.RequestID, obs ...trace.Observation) (bool, error) {
	var first bool
	err := d.writeAhead(ctx, "mark performed", func(t *txn) error {
		n, err := t.exec(markPerformed, t.now, id, d.RunID)
		if err != nil {
			return err
		}
		if first = n == 1; !first {
			return nil
		}
		_, err = appendObservations(t, d.RunID, obs)
		return err
	})
	return first, err
}

// Overruled is an approval that was not used: what it was for has changed, or the
// policy forbids it now. The row says deny then, by whom and why.
type Overruled struct {
	ID     trace.RequestID
	By     string
	Reason string
}

// Overrule takes back an approval that was not carried out, together with the
// observations that tell the model. One that was carried out stays as it is, and
// nothing is added.
func (s *Store) Overrule(ctx context.Context, d *Drive, o Overruled, obs ...trace.Observation) error {
	return d.writeAhead(ctx, "overrule approval", func(t *txn) error {
		done, err := o.apply(t, d.RunID)
		if err != nil || !done {
			return err
		}
		_, err = appendObservations(t, d.RunID, obs)
		return err
	})
}

func (o Overruled) apply(t *txn, run trace.RunID) (bool, error) {
	n, err := t.exec(overruleApproval, o.By, null(o.Reason), o.ID, run)
	return n == 1, err
}

func scanApproval(r scanner) (p PendingApproval, err error) {
	var args, modified, remember, bound []byte
	var asked int64
	var decided, performed *int64
	err = r.Scan(&p.ID, &p.RunID, &p.Step, &p.CallIndex, &p.CallID, &p.Tool, &args, &p.Act, &p.Target, &p.Content,
		&p.Rule, &p.Layer, &p.Verdict, &p.DecidedBy, &p.Reason, &modified, &remember, &bound, &asked, &decided, &performed)
	if err != nil {
		return p, err
	}
	if p.Verdict != Undecided && p.Verdict != Approve {
		p.Verdict = Deny
	}
	p.Arguments, p.Modified, p.Remember, p.Bound = args, modified, remember, bound
	p.AskedAt, p.DecidedAt, p.PerformedAt = timeOf(asked), timeOrZero(decided), timeOrZero(performed)
	return p, legible("pending_approvals", int64(p.ID), p.RunID, p.Step, jsonColumn{"arguments", args}, jsonColumn{"modified", modified},
		jsonColumn{"remember", remember}, jsonColumn{"bound", bound})
}

func timeOrZero(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return timeOf(*ms)
}
