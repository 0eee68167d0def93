package store

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

// UnknownModel is the key of completions whose provider named no model.
const UnknownModel = "(unknown model)"

// NoKey is the key of rows without one, such as runs without an outcome.
const NoKey = "(none)"

// SpendKey says by what spend is grouped.
type SpendKey string

// The keys.
const (
	ByModel   SpendKey = "model"
	ByDay     SpendKey = "day"     // YYYY-MM-DD, UTC
	ByRun     SpendKey = "run"     // the run's id
	ByTree    SpendKey = "tree"    // the id of the tree's root
	BySession SpendKey = "session" // the session's id; NoKey for runs of none
	ByPurpose SpendKey = "purpose"
)

// SpendFilter narrows what is counted. The zero value counts everything.
type SpendFilter struct {
	Since time.Time   // completions at or after; zero for any
	Until time.Time   // completions before; zero for any
	Tree  trace.RunID // only the tree under this root; zero for any
}

// Spend is what one group of completions used and cost.
type Spend struct {
	Key   string
	Calls int64 // attempts, failed ones included
	Usage provider.Usage
	// CostMicros is the cost of the priced ones, in micro-units of the table's
	// currency. It is computed now and stored nowhere.
	CostMicros int64
	// Unpriced counts attempts without usage, without a model or without a
	// price: they add nothing to the cost.
	Unpriced int64
}

var (
	// spendCalls reads completions in the order of provider_calls_at.
	spendCalls = statement{"spend calls", `SELECT c.run_id, r.root_run_id, coalesce(st.session_id, 0), c.purpose, coalesce(c.model, ''), c.at,
		c.prompt_tokens, c.completion_tokens, c.total_tokens, c.cache_read_tokens, c.cache_write_tokens, c.reasoning_tokens, c.server_tool_requests
		FROM provider_calls c JOIN runs r ON r.id = c.run_id LEFT JOIN session_turns st ON st.run_id = r.root_run_id
		WHERE c.at >= ? AND c.at < ?`}
	spendTree = statement{"spend of tree", `SELECT c.run_id, r.root_run_id, coalesce(st.session_id, 0), c.purpose, coalesce(c.model, ''), c.at,
		c.prompt_tokens, c.completion_tokens, c.total_tokens, c.cache_read_tokens, c.cache_write_tokens, c.reasoning_tokens, c.server_tool_requests
		FROM runs r JOIN provider_calls c ON c.run_id = r.id LEFT JOIN session_turns st ON st.run_id = r.root_run_id
		WHERE r.root_run_id = ? AND c.at >= ? AND c.at < ?`}
)

// spendRow is one completion on its way into a group.
type spendRow struct {
	run, root trace.RunID
	session   trace.SessionID
	purpose   Purpose
	model     string
	at        int64
	usage     *provider.Usage
}

func (r spendRow) key(by SpendKey) string {
	switch by {
	case ByModel:
		if r.model == "" {
			return UnknownModel
		}
		return r.model
	case ByDay:
		return timeOf(r.at).Format(time.DateOnly)
	case ByRun:
		return r.run.String()
	case ByTree:
		return r.root.String()
	case BySession:
		if r.session == 0 {
			return NoKey
		}
		return r.session.String()
	}
	return string(r.purpose)
}

// Spend groups completions, prices each with the table, and returns the groups
// in the order of their keys; those by run, tree and session are ordered as
// numbers. Every attempt is counted once, failed ones with the usage that they
// reported.
func (s *Store) Spend(ctx context.Context, by SpendKey, f SpendFilter, prices provider.PriceTable) ([]Spend, error) {
	switch by {
	case ByModel, ByDay, ByRun, ByTree, BySession, ByPurpose:
	default:
		return nil, invalid("spend", "the key %q is none of model, day, run, tree, session and purpose", by)
	}
	since, until := rangeOf(f.Since, f.Until)
	st, args := spendCalls, []any{since, until}
	if f.Tree != 0 {
		st, args = spendTree, []any{f.Tree, since, until}
	}
	groups := map[string]*Spend{}
	err := s.read(ctx, "spend", func(q *query) error {
		return q.each(st, args, func(r scanner) error {
			row, err := scanSpend(r)
			if err != nil {
				return err
			}
			k := row.key(by)
			g := groups[k]
			if g == nil {
				g = &Spend{Key: k}
				groups[k] = g
			}
			g.add(row, prices)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	out := make([]Spend, 0, len(groups))
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Spend) int { return compareKeys(a.Key, b.Key) })
	return out, nil
}

// CacheHitRate is the share of the prompts that came from a vendor's cache, from 0
// to 1. It is false for a group without a prompt.
func (g Spend) CacheHitRate() (float64, bool) {
	if g.Usage.PromptTokens <= 0 {
		return 0, false
	}
	return float64(g.Usage.CacheReadTokens) / float64(g.Usage.PromptTokens), true
}

func (g *Spend) add(r spendRow, prices provider.PriceTable) {
	g.Calls++
	if r.usage == nil {
		g.Unpriced++
		return
	}
	g.Usage = g.Usage.Add(*r.usage)
	cost, ok := int64(0), false
	if r.model != "" {
		cost, ok = prices.CostMicros(r.model, *r.usage)
	}
	if !ok {
		g.Unpriced++
		return
	}
	g.CostMicros = satAdd(g.CostMicros, cost)
}

func scanSpend(r scanner) (row spendRow, err error) {
	var u [7]*int64
	err = r.Scan(&row.run, &row.root, &row.session, &row.purpose, &row.model, &row.at, &u[0], &u[1], &u[2], &u[3], &u[4], &u[5], &u[6])
	row.usage = usageOf(u)
	return row, err
}

// compareKeys orders numbers as numbers and everything else as text.
func compareKeys(a, b string) int {
	x, xerr := strconv.ParseInt(a, 10, 64)
	y, yerr := strconv.ParseInt(b, 10, 64)
	if xerr == nil && yerr == nil {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(a, b)
}

func rangeOf(since, until time.Time) (int64, int64) {
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !since.IsZero() {
		from = since.UnixMilli()
	}
	if !until.IsZero() {
		to = until.UnixMilli()
	}
	return from, to
}

// Tally counts one group.
type Tally struct {
	Key   string
	Count int64
}

// FirstTry says how many ended runs succeeded, and how many of those without a
// failed gate on the way.
type FirstTry struct {
	Runs      int64 // ended
	Succeeded int64
	FirstTry  int64 // succeeded, and no gate of theirs ever failed; runs without a gate count
}

// Recovery counts how often runs went on after something went wrong.
type Recovery struct {
	Fallbacks int64 // another provider of a chain served
	Replans   int64 // a model was told to change its approach
	Resumes   int64 // a run was entered again
}

var (
	// Each of these reads one index and no table as a whole.
	runsByOutcome = statement{"runs by outcome", `SELECT outcome, count(*) FROM run_outcomes GROUP BY outcome ORDER BY outcome`}
	runsByDay     = statement{"runs by day", `SELECT (finished_at - CASE WHEN finished_at < 0 THEN 86399999 ELSE 0 END) / 86400000, count(*)
		FROM run_outcomes GROUP BY 1 ORDER BY 1`}
	gateFailures = statement{"gate failures by phase", `SELECT coalesce(phase, '(none)'), count(*) FROM sandbox_events
		WHERE kind = 'gate_phase_failed' GROUP BY phase ORDER BY phase`}
	firstTry = statement{"first try", `SELECT count(*), coalesce(sum(success), 0),
		coalesce(sum(CASE WHEN success = 1 AND NOT EXISTS (SELECT 1 FROM gate_attempts g WHERE g.run_id = o.run_id AND g.outcome = 'failed')
			AND NOT EXISTS (SELECT 1 FROM sandbox_events e WHERE e.run_id = o.run_id AND e.kind = 'gate_phase_failed') THEN 1 ELSE 0 END), 0)
		FROM run_outcomes o`}
	contextCount = statement{"context events of kind", `SELECT coalesce(sum(CASE WHEN kind = 'served' THEN 1 ELSE 0 END), 0),
		coalesce(sum(CASE WHEN kind = 'replan' THEN 1 ELSE 0 END), 0) FROM context_events WHERE kind IN ('served', 'replan')`}
	resumeCount = statement{"resumes", `SELECT coalesce(sum(n - 1), 0) FROM (SELECT count(*) AS n FROM drives WHERE generation > 0 GROUP BY run_id)`}
)

// RunsByOutcome counts the ended runs by how they ended.
func (s *Store) RunsByOutcome(ctx context.Context) ([]Tally, error) {
	return s.tallies(ctx, runsByOutcome)
}

// RunsByDay counts the ended runs by the day of their end: YYYY-MM-DD, UTC.
func (s *Store) RunsByDay(ctx context.Context) ([]Tally, error) {
	ts, err := s.tallies(ctx, runsByDay)
	for i, t := range ts {
		day, perr := strconv.ParseInt(t.Key, 10, 64)
		if perr != nil {
			return nil, &Error{Kind: KindCorrupt, Op: "runs by day", Err: perr}
		}
		ts[i].Key = timeOf(day * 86_400_000).Format(time.DateOnly)
	}
	return ts, err
}

// GateFailuresByPhase counts every failed phase of a gate, not every run that
// had one.
func (s *Store) GateFailuresByPhase(ctx context.Context) ([]Tally, error) {
	return s.tallies(ctx, gateFailures)
}

func (s *Store) tallies(ctx context.Context, st statement) (ts []Tally, err error) {
	err = s.read(ctx, st.name, func(q *query) (err error) {
		ts, err = list(q, st, nil, func(r scanner) (t Tally, err error) { return t, r.Scan(&t.Key, &t.Count) })
		return err
	})
	return ts, err
}

// FirstTry says how many of the ended runs succeeded at the first try.
func (s *Store) FirstTry(ctx context.Context) (f FirstTry, err error) {
	err = s.read(ctx, "first try", func(q *query) error { return q.row(firstTry, nil, &f.Runs, &f.Succeeded, &f.FirstTry) })
	return f, err
}

// Recovery says how often runs went on after something went wrong.
func (s *Store) Recovery(ctx context.Context) (r Recovery, err error) {
	err = s.snapshot(ctx, "recovery", func(q *query) error {
		if err := q.row(contextCount, nil, &r.Fallbacks, &r.Replans); err != nil {
			return err
		}
		return q.row(resumeCount, nil, &r.Resumes)
	})
	return r, err
}
