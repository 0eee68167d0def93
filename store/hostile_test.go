package store

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/trace"
)

// What models, tools and people write comes back as it was handed in, wherever it
// is kept; what is no text is made text.
func TestHostileWordsComeBackFromEveryTable(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	for i, text := range []string{
		"a\x00b", `'"; DROP TABLE runs; --`, "100% of %s and ? and :name", "line\r\nline\n", "\xff\xfe half \xc3", "\u202e\x1b[31m\u2028", strings.Repeat("é", 1<<19),
	} {
		want := strings.ToValidUTF8(text, "\uFFFD")
		sess := newSession(t, s)
		d := start(t, s, RunStart{Mode: ModeTree, Turn: &TurnStart{Session: sess, Prompt: text}})
		args, err := json.Marshal(map[string]string{"a": want})
		if err != nil {
			t.Fatal(err)
		}
		check := func(what, got string, err error) {
			t.Helper()
			if err != nil || got != want {
				t.Errorf("text %d as %s came back as %.40q, %v", i, what, got, err)
			}
		}
		ask, err := s.PutPending(ctx, d, PendingApproval{Step: 1, CallID: text, Tool: text, Arguments: args, Act: "exec", Target: text, Content: text, Rule: text, Layer: text})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.ResolvePending(ctx, ApprovalDecision{ID: ask, Verdict: Deny, By: text, Reason: text}); err != nil {
			t.Fatal(err)
		}
		p, err := s.Pending(ctx, ask)
		for what, got := range map[string]string{"a tool's name": p.Tool, "a target": p.Target, "a content": p.Content, "a rule": p.Rule, "a layer": p.Layer, "who decided": p.DecidedBy, "a reason": p.Reason, "the id of a call": p.CallID} {
			check(what, got, err)
		}
		var back map[string]string
		if err := json.Unmarshal(p.Arguments, &back); err != nil || back["a"] != want {
			t.Errorf("text %d as an argument: %.40q, %v", i, back["a"], err)
		}
		quest, err := s.PutQuestion(ctx, d, PendingQuestion{Step: 1, Question: text, Context: text})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.AnswerQuestion(ctx, Answer{ID: quest, Text: text, By: "human"}); err != nil {
			t.Fatal(err)
		}
		q, err := s.Question(ctx, quest)
		check("a question", q.Question, err)
		check("the context of one", q.Context, err)
		check("an answer", q.Answer, err)
		plan, err := s.PutPlan(ctx, d, PendingPlan{Step: 1, Steps: []byte(`[]`)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.DecidePlan(ctx, PlanDecision{ID: plan, Verdict: PlanRevise, Correction: text}); err != nil {
			t.Fatal(err)
		}
		pl, err := s.Plan(ctx, plan)
		check("a correction", pl.Correction, err)
		id, _, err := s.OpenAttempt(ctx, d, Attempt{Step: 1, Tool: text, Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		open, err := s.OpenAttempts(ctx, d.RunID)
		if err != nil || len(open) != 1 {
			t.Fatal(open, err)
		}
		check("the tool of an attempt", open[0].Tool, err)
		if err := s.CloseAttempt(ctx, d, id, Returned, text); err != nil {
			t.Fatal(err)
		}
		kid := child(t, s, d, 1, 0, "kid")
		if len(text) < MaxMessage {
			if _, err := s.SendMessage(ctx, kid, AgentMessage{To: d.RunID, Step: 1, FromName: "kid", Body: text}); err != nil {
				t.Fatal(err)
			}
			ms, err := s.MessagesFor(ctx, d.RunID)
			if err != nil || len(ms) != 1 {
				t.Fatal(ms, err)
			}
			check("a message", ms[0].Body, err)
		}
		d.Record(GateAttempt{Step: 1, Phase: "command", Outcome: GateFailed, Detail: text}, PolicyEvent{Step: 1, Kind: PolicyRefusal, Act: "read", Target: text, Rule: text},
			ServerToolCall{Step: 1, Provider: "p", Tool: text, Error: text}, StepAttempt{Step: 1, Kind: AttemptRetry, Decision: text, Result: text})
		if err := d.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		gates, err := Collect(s.GateAttempts(ctx, d.RunID))
		check("the words of a gate", gates[0].Detail, err)
		refusals, err := Collect(s.Refusals(ctx, d.RunID))
		check("a refused target", refusals[0].Target, err)
		tries, err := Collect(s.StepAttempts(ctx, d.RunID))
		check("a try", tries[0].Decision, err)
		finish(t, s, kid, trace.Finished, 0)
		if err := s.FinishRun(ctx, d, Finish{Outcome: trace.Outcome{Kind: trace.Finished}, Reply: text}); err != nil {
			t.Fatal(err)
		}
		turn, err := s.TurnForRun(ctx, d.RunID)
		if err != nil {
			t.Fatal(err)
		}
		check("a prompt", turn.Prompt, err)
		check("a reply", turn.Reply, err)
		if got, err := s.DeleteSession(ctx, sess); err != nil || got.Runs != 2 {
			t.Errorf("text %d: removed %+v, %v", i, got, err)
		}
	}
	sound(t, s)
}
