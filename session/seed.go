package session

import (
	"context"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// seed is the conversation so far, as the model is told it: what was said and
// what was answered, each bounded, and nothing of the work between.
//
// What the newest turn on the path that folded has folded away stays folded: its
// paragraph stands in the place of exactly the entries that it consumed.
func (s *Session) seed(ctx context.Context, head trace.TurnID, c task.Contract) ([]trace.Observation, error) {
	if head == 0 {
		return nil, nil
	}
	path, err := s.host.Store.History(ctx, s.id, head)
	if err != nil {
		return nil, err
	}
	folds, err := s.host.Store.SessionSummaries(ctx, s.id)
	if err != nil {
		return nil, err
	}
	var seed []trace.Observation
	from := 0
	for i := len(path) - 1; i >= 0; i-- {
		if f := folds[path[i].RunID]; len(f) > 0 {
			if seed, err = s.folded(ctx, path[i], f[len(f)-1]); err != nil {
				return nil, err
			}
			from = i
			break
		}
	}
	budget := prompt.Budget{MaxTokens: c.Context.MaxTokens, Share: c.Context.Share}
	limit := prompt.EntryCap(budget.Effective(c.Budget.Tokens, c.Budget.Tokens > 0))
	for _, r := range path[from:] {
		seed = append(seed, prompt.Prompt(r.Prompt, limit))
		if r.Reply != "" {
			seed = append(seed, prompt.Reply(r.Reply, limit))
		}
	}
	return seed, nil
}

// folded is the conversation before a turn as the turn's own fold left it: the
// paragraph, and those entries of its seed that the fold kept whole. They are read
// from where the turn's run stored its seed, so that nothing has to be counted.
func (s *Session) folded(ctx context.Context, t store.SessionTurn, f store.HistorySummary) ([]trace.Observation, error) {
	info, err := s.host.Store.Run(ctx, t.RunID)
	if err != nil {
		return nil, err
	}
	seed := []trace.Observation{prompt.SummaryObservation(0, f.Text)}
	for o, err := range s.host.Store.Observations(ctx, t.RunID) {
		if err != nil {
			return nil, err
		}
		if o.Step == 0 && o.Seq >= f.Folded && conversation(o.Observation) {
			seed = append(seed, o.Observation)
		}
	}
	// A turn that was answered closes its ledger with the answer, at step 0 too.
	if last := len(seed) - 1; info.LastStep == 0 && t.Reply != "" && seed[last].Target == prompt.TargetAgent {
		seed = seed[:last]
	}
	return seed, nil
}

// conversation reports whether an entry of step 0 is one of a seed. What a person
// said to a first step that never committed stands there too, and is of its turn.
func conversation(o trace.Observation) bool {
	return o.Target == prompt.TargetOperator || o.Target == prompt.TargetAgent || prompt.IsSummary(o)
}
