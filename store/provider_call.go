package store

import (
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

// Purpose says what a completion was bought for. The value is the stored text.
type Purpose string

// The purposes.
const (
	ForStep     Purpose = "step"
	ForFold     Purpose = "fold"
	ForReview   Purpose = "review"
	ForClassify Purpose = "classify"
	ForApproval Purpose = "approve"
)

// ProviderCall is one attempt at a completion, answered or failed. It names no
// cost: a price is applied when the trace is read. One that was bought for a
// review adds its tokens to those of its step and of its run, since it is made
// behind the commit of the step that it judges.
type ProviderCall struct {
	ID       int64 // set by the store
	Step     int
	Attempt  int     // from 0
	Purpose  Purpose // empty means ForStep
	Provider string
	Model    string          // as the provider named it; empty when it did not
	Usage    *provider.Usage // nil when the provider said nothing, which is not zero
	Latency  time.Duration
	// FirstToken is the time to the first token; zero when it was not measured.
	FirstToken   time.Duration
	FinishReason string // the vendor's word
	Failure      string // kind and status of the failure, never a message; empty when it answered
	At           time.Time
}

var insertProviderCall = statement{"insert provider call", `INSERT INTO provider_calls
	(run_id, step, attempt, purpose, provider, model, prompt_tokens, completion_tokens, total_tokens, cache_read_tokens,
	 cache_write_tokens, reasoning_tokens, server_tool_requests, latency_ms, ttft_ms, finish_reason, failure, at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}

// What a gate's reviewer used is drawn by the step that was judged, which has
// committed by then: with the row of the completion, and never without it.
var (
	chargeStep = statement{"charge step", `UPDATE steps SET tokens = tokens + ?1 WHERE run_id = ?2 AND step = ?3`}
	chargeRun  = statement{"charge run", `UPDATE runs SET spent_tokens = spent_tokens + ?1 WHERE id = ?2`}
)

func (ProviderCall) table() string { return "provider_calls" }

func (c ProviderCall) insert(t *txn, run trace.RunID) error {
	usage := make([]any, 7)
	if u := c.Usage; u != nil {
		usage = []any{counter(u.PromptTokens), counter(u.CompletionTokens), counter(u.TotalTokens), counter(u.CacheReadTokens),
			counter(u.CacheWriteTokens), counter(u.ReasoningTokens), counter(u.ServerToolRequests)}
	}
	if c.Purpose == "" {
		c.Purpose = ForStep
	}
	var first any
	if c.FirstToken > 0 {
		first = c.FirstToken.Milliseconds()
	}
	args := []any{run, c.Step, c.Attempt, string(c.Purpose), cleanText(c.Provider), null(c.Model)}
	args = append(args, usage...)
	args = append(args, max(0, c.Latency.Milliseconds()), first, null(c.FinishReason), null(c.Failure), t.now)
	if _, err := t.exec(insertProviderCall, args...); err != nil || c.Purpose != ForReview || c.Usage == nil {
		return err
	}
	return charge(t, run, c.Step, counter(c.Usage.TotalTokens))
}

// charge adds to what a committed step drew on the budget. A step that is not
// there draws nothing, and neither does its run.
func charge(t *txn, run trace.RunID, step int, tokens int64) error {
	n, err := t.exec(chargeStep, tokens, run, step)
	if err != nil || n == 0 {
		return err
	}
	_, err = t.exec(chargeRun, tokens, run)
	return err
}

// Citation is one source that an answer named. A second one with the same
// address in the same step is not stored.
type Citation struct {
	Ordinal int // set by the store, from 0 in each run
	Step    int
	URL     string
	Title   string
	Text    string // the words cited
	At      time.Time
}

var insertCitation = statement{"insert citation", `INSERT INTO citations (run_id, ordinal, step, url, title, cited_text, cited_at)
	SELECT ?1, (SELECT coalesce(max(ordinal) + 1, 0) FROM citations WHERE run_id = ?1), ?2, ?3, ?4, ?5, ?6
	WHERE NOT EXISTS (SELECT 1 FROM citations WHERE run_id = ?1 AND step = ?2 AND url = ?3)`}

func (Citation) table() string { return "citations" }

func (c Citation) insert(t *txn, run trace.RunID) error {
	_, err := t.exec(insertCitation, run, c.Step, cleanText(c.URL), null(c.Title), null(c.Text), t.now)
	return err
}

// ServerToolCall is one use of a tool that the provider ran itself.
type ServerToolCall struct {
	ID       int64 // set by the store
	Step     int
	Provider string
	Tool     string
	Error    string // empty when it worked
	At       time.Time
}

var insertServerToolCall = statement{"insert server tool call", `INSERT INTO server_tool_calls
	(run_id, step, provider, tool, error, ran_at) VALUES (?, ?, ?, ?, ?, ?)`}

func (ServerToolCall) table() string { return "server_tool_calls" }

func (c ServerToolCall) insert(t *txn, run trace.RunID) error {
	_, err := t.exec(insertServerToolCall, run, c.Step, cleanText(c.Provider), cleanText(c.Tool), null(c.Error), t.now)
	return err
}
