package store

import (
	"context"
	"iter"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

var (
	readProviderCalls = statement{"read provider calls", `SELECT id, step, attempt, purpose, provider, coalesce(model, ''), prompt_tokens,
		completion_tokens, total_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, server_tool_requests,
		latency_ms, coalesce(ttft_ms, 0), coalesce(finish_reason, ''), coalesce(failure, ''), at
		FROM provider_calls WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?`}
	readCitations = statement{"read citations", `SELECT ordinal, step, url, coalesce(title, ''), coalesce(cited_text, ''), cited_at
		FROM citations WHERE run_id = ? AND ordinal > ? ORDER BY ordinal LIMIT ?`}
	readServerToolCalls = statement{"read server tool calls", `SELECT id, step, provider, tool, coalesce(error, ''), ran_at
		FROM server_tool_calls WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?`}
	readPolicyEvents = statement{"read policy events", `SELECT id, step, kind, act, target, coalesce(rule, ''), coalesce(layer, ''),
		coalesce(decision, ''), coalesce(source, ''), coalesce(performed, ''), coalesce(request_id, 0), at
		FROM policy_events WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?`}
	readSandboxEvents = statement{"read sandbox events", `SELECT id, step, kind, coalesce(backend, ''), coalesce(phase, ''), coalesce(detail, ''), at
		FROM sandbox_events WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?`}
	lastSandboxEvent = statement{"last sandbox event", `SELECT id, step, kind, coalesce(backend, ''), coalesce(phase, ''), coalesce(detail, ''), at
		FROM sandbox_events WHERE run_id = ? AND kind = ? ORDER BY id DESC LIMIT 1`}
	readMCPEvents = statement{"read mcp events", `SELECT id, step, kind, server, coalesce(tool, ''), ok, coalesce(millis, 0), coalesce(detail, ''), at
		FROM mcp_events WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?`}
	readContextEvents = statement{"read context events", `SELECT id, step, kind, coalesce(detail, ''), est_tokens, reported_tokens, superseded, at
		FROM context_events WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?`}
	readGateAttempts = statement{"read gate attempts", `SELECT id, coalesce(drive_id, 0), step, phase, outcome, coalesce(detail, ''), at
		FROM gate_attempts WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?`}
	// lastGate leaves out the checks of an output's shape: those are not retried.
	lastGate = statement{"last gate attempt", `SELECT id, coalesce(drive_id, 0), step, phase, outcome, coalesce(detail, ''), at
		FROM gate_attempts WHERE run_id = ? AND phase <> 'output' ORDER BY id DESC LIMIT 1`}
	readAgentEvents = statement{"read agent events", `SELECT id, step, kind, coalesce(child_run_id, 0), coalesce(detail, ''), tokens, remaining, at
		FROM agent_events WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?`}
	readMemoryRecalls = statement{"read memory recalls", `SELECT step, workspace, key, ordinal, at
		FROM memory_recalls WHERE run_id = ? ORDER BY step, ordinal`}
)

// ProviderCalls yields every attempt at a completion of a run, failed ones included.
func (s *Store) ProviderCalls(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[ProviderCall, error] {
	return evidenceOf(ctx, s, readProviderCalls, run, opts, scanProviderCall, func(c ProviderCall) int64 { return c.ID })
}

func scanProviderCall(r scanner) (c ProviderCall, err error) {
	var u [7]*int64
	var latency, first, at int64
	err = r.Scan(&c.ID, &c.Step, &c.Attempt, &c.Purpose, &c.Provider, &c.Model, &u[0], &u[1], &u[2], &u[3], &u[4], &u[5], &u[6],
		&latency, &first, &c.FinishReason, &c.Failure, &at)
	c.Usage = usageOf(u)
	c.Latency, c.FirstToken, c.At = time.Duration(latency)*time.Millisecond, time.Duration(first)*time.Millisecond, timeOf(at)
	return c, err
}

// usageOf is nil when the total is absent: the provider said nothing.
func usageOf(u [7]*int64) *provider.Usage {
	if u[2] == nil {
		return nil
	}
	v := make([]int64, len(u))
	for i, p := range u {
		if p != nil {
			v[i] = *p
		}
	}
	return &provider.Usage{PromptTokens: v[0], CompletionTokens: v[1], TotalTokens: v[2], CacheReadTokens: v[3],
		CacheWriteTokens: v[4], ReasoningTokens: v[5], ServerToolRequests: v[6]}
}

// Citations yields the sources that a run's answers named.
func (s *Store) Citations(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[Citation, error] {
	return paged(ctx, s, readCitations, -1, opts, []any{run}, func(r scanner) (c Citation, err error) {
		var at int64
		err = r.Scan(&c.Ordinal, &c.Step, &c.URL, &c.Title, &c.Text, &at)
		c.At = timeOf(at)
		return c, err
	}, func(c Citation) int64 { return int64(c.Ordinal) }, nil)
}

// ServerToolCalls yields the tools that the provider ran itself, failures included.
func (s *Store) ServerToolCalls(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[ServerToolCall, error] {
	return evidenceOf(ctx, s, readServerToolCalls, run, opts, func(r scanner) (c ServerToolCall, err error) {
		var at int64
		err = r.Scan(&c.ID, &c.Step, &c.Provider, &c.Tool, &c.Error, &at)
		c.At = timeOf(at)
		return c, err
	}, func(c ServerToolCall) int64 { return c.ID })
}

// PolicyEvents yields every refusal and decision of a run.
func (s *Store) PolicyEvents(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[PolicyEvent, error] {
	return evidenceOf(ctx, s, readPolicyEvents, run, opts, func(r scanner) (e PolicyEvent, err error) {
		var at int64
		err = r.Scan(&e.ID, &e.Step, &e.Kind, &e.Act, &e.Target, &e.Rule, &e.Layer, &e.Decision, &e.Source, &e.Performed, &e.RequestID, &at)
		e.At = timeOf(at)
		return e, err
	}, func(e PolicyEvent) int64 { return e.ID })
}

// Refusals yields what the boundary refused, with rule and layer.
func (s *Store) Refusals(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[PolicyEvent, error] {
	return func(yield func(PolicyEvent, error) bool) {
		for e, err := range s.PolicyEvents(ctx, run, opts...) {
			if (err != nil || e.Kind == PolicyRefusal) && !yield(e, err) {
				return
			}
		}
	}
}

// SandboxEvents yields what the containment of a run's commands did.
func (s *Store) SandboxEvents(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[SandboxEvent, error] {
	return evidenceOf(ctx, s, readSandboxEvents, run, opts, scanSandbox, func(e SandboxEvent) int64 { return e.ID })
}

// LastSandboxEvent returns the newest event of that kind, nil when there is none.
func (s *Store) LastSandboxEvent(ctx context.Context, run trace.RunID, kind string) (e *SandboxEvent, err error) {
	err = s.read(ctx, "last sandbox event", func(q *query) error {
		return q.each(lastSandboxEvent, []any{run, kind}, func(r scanner) error {
			v, err := scanSandbox(r)
			e = &v
			return err
		})
	})
	return e, err
}

func scanSandbox(r scanner) (e SandboxEvent, err error) {
	var at int64
	err = r.Scan(&e.ID, &e.Step, &e.Kind, &e.Backend, &e.Phase, &e.Detail, &at)
	e.At = timeOf(at)
	return e, err
}

// MCPEvents yields a run's exchanges with tool servers.
func (s *Store) MCPEvents(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[MCPEvent, error] {
	return evidenceOf(ctx, s, readMCPEvents, run, opts, func(r scanner) (e MCPEvent, err error) {
		var took, at int64
		err = r.Scan(&e.ID, &e.Step, &e.Kind, &e.Server, &e.Tool, &e.OK, &took, &e.Detail, &at)
		e.Took, e.At = time.Duration(took)*time.Millisecond, timeOf(at)
		return e, err
	}, func(e MCPEvent) int64 { return e.ID })
}

// ContextEvents yields what happened to what the model was shown.
func (s *Store) ContextEvents(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[ContextEvent, error] {
	return evidenceOf(ctx, s, readContextEvents, run, opts, func(r scanner) (e ContextEvent, err error) {
		var at int64
		err = r.Scan(&e.ID, &e.Step, &e.Kind, &e.Detail, &e.Est, &e.Reported, &e.Superseded, &at)
		e.At = timeOf(at)
		return e, err
	}, func(e ContextEvent) int64 { return e.ID })
}

// GateAttempts yields every evaluation of a run's gate.
func (s *Store) GateAttempts(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[GateAttempt, error] {
	return evidenceOf(ctx, s, readGateAttempts, run, opts, scanGate, func(g GateAttempt) int64 { return g.ID })
}

// LastGateAttempt is the newest evaluation of a run's gate, or nil. Checks of
// an output's shape do not count.
func (s *Store) LastGateAttempt(ctx context.Context, run trace.RunID) (g *GateAttempt, err error) {
	err = s.read(ctx, "last gate attempt", func(q *query) error {
		return q.each(lastGate, []any{run}, func(r scanner) error {
			v, err := scanGate(r)
			g = &v
			return err
		})
	})
	return g, err
}

func scanGate(r scanner) (g GateAttempt, err error) {
	var at int64
	err = r.Scan(&g.ID, &g.Drive, &g.Step, &g.Phase, &g.Outcome, &g.Detail, &at)
	switch g.Outcome {
	case GatePassed, GateFailed, GateErrored:
	default:
		g.Outcome = GateErrored
	}
	g.At = timeOf(at)
	return g, err
}

// AgentEvents yields what happened between a run and the other agents of its tree.
func (s *Store) AgentEvents(ctx context.Context, run trace.RunID, opts ...ReadOption) iter.Seq2[AgentEvent, error] {
	return evidenceOf(ctx, s, readAgentEvents, run, opts, func(r scanner) (e AgentEvent, err error) {
		var at int64
		err = r.Scan(&e.ID, &e.Step, &e.Kind, &e.Other, &e.Detail, &e.Tokens, &e.Remaining, &at)
		e.At = timeOf(at)
		return e, err
	}, func(e AgentEvent) int64 { return e.ID })
}

// MemoryRecalls lists which notes a run's prompts carried.
func (s *Store) MemoryRecalls(ctx context.Context, run trace.RunID) (rs []MemoryRecall, err error) {
	err = s.read(ctx, "read memory recalls", func(q *query) (err error) {
		rs, err = list(q, readMemoryRecalls, []any{run}, func(r scanner) (m MemoryRecall, err error) {
			var at int64
			err = r.Scan(&m.Step, &m.Workspace, &m.Key, &m.Ordinal, &at)
			m.At = timeOf(at)
			return m, err
		})
		return err
	})
	return rs, err
}
