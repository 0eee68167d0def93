package session_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// rowsOf renders every row of every table of a store, by table.
func rowsOf(t *testing.T, path string) map[string][]string {
	t.Helper()
	db, err := sql.Open("sqlite", testkit.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	texts := func(query string) (out []string) {
		rows, err := db.Query(query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				t.Fatal(err)
			}
			out = append(out, s)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := map[string][]string{}
	for _, table := range texts(`SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`) {
		columns := texts(`SELECT 'quote("' || name || '")' FROM pragma_table_info('` + table + `')`)
		if rows := texts(`SELECT ` + strings.Join(columns, " || ',' || ") + ` FROM ` + table); len(rows) > 0 {
			out[table] = rows
		}
	}
	return out
}

// filled names the tables that have rows and belong to runs.
func (f *fixture) filled() (out []string) {
	for table := range rowsOf(f.t, f.path) {
		if table != "store_meta" {
			out = append(out, table)
		}
	}
	slices.Sort(out)
	return out
}

// The tables come from the store's own schema, so that one that is new must say
// whether an answer may write to it.
func TestAnAnswerWritesToTheTablesOfAnAnswerOnly(t *testing.T) {
	f := newFixture(t, scripted.Say("hello"))
	f.cfg.Policy = policy.Policy{}.Layer("asks").AskRead("*").AskWrite("*").AskExec("*")
	f.cfg.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { panic("nobody may be asked") })
	f.cfg.Responder = parks{}
	f.turn(f.open(), "hi")
	want := []string{"context_events", "drives", "ledger_observations", "provider_calls", "run_outcomes", "runs", "session_turns", "sessions"}
	if diff := cmp.Diff(want, f.filled()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// The same look at turns that work finds what an answer leaves out.
	g := newFixture(t,
		scripted.Call("propose_plan", map[string]any{"steps": []map[string]string{{"intent": "write"}}}),
		scripted.Call("probe", nil), scripted.Call("exec", map[string]any{"argv": []string{"sleep", "0"}}), write("a.txt", "a"),
		scripted.Call("ask_question", map[string]string{"question": "which?"}), write("ask/a", "a"))
	g.cfg.Policy = rules().AskWrite("ask/*")
	g.cfg.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Defer(), nil })
	g.cfg.Defaults.Tools = tool.Toolbox{tool.New("probe", "Probes.", func(context.Context, struct{}) (string, error) { return "probed", nil })}
	s := g.open()
	judged := g.cfg.Defaults.Clone()
	judged.Verify = verify.Contains("a.txt", "a")
	g.turn(s, "work", session.WithPlanGate(approve.AcceptPlans), session.WithContract(judged))
	if asks := g.turn(s, "ask"); asks.Outcome.Kind != trace.AwaitingAnswer {
		t.Fatalf("%+v", asks)
	}
	if asks := g.turn(s, "ask again"); asks.Outcome.Kind != trace.AwaitingApproval {
		t.Fatalf("%+v", asks)
	}
	worked := g.filled()
	for _, table := range []string{"steps", "step_turns", "gate_attempts", "snapshots", "edits", "plans", "pending_approvals", "pending_questions", "tool_attempts", "sandbox_events"} {
		if !slices.Contains(worked, table) {
			t.Errorf("work leaves nothing in %s", table)
		}
	}
}

func TestAnAnswerIsBilledToWhoGaveIt(t *testing.T) {
	f := newFixture(t, scripted.Say("hello"))
	f.model.Hint = "small-1"
	turn := f.turn(f.open(), "hi")
	calls, err := store.Collect(f.store.ProviderCalls(ctx, turn.RunID))
	if err != nil || len(calls) != 1 {
		t.Fatalf("%d calls on record, %v", len(calls), err)
	}
	if c := calls[0]; c.Provider != f.model.Name() || c.Model != "small-1" || c.Usage.TotalTokens != 120 {
		t.Errorf("billed to %+v", c)
	}
}

func TestTheGateOfATurnIsAskedWhereTheTurnIsWork(t *testing.T) {
	for _, tc := range []struct {
		mode    task.Conversational
		verdict int
		outcome trace.OutcomeKind
	}{
		{task.Infer, 1, trace.Success},
		{task.Allow, 0, trace.Finished},
	} {
		f := newFixture(t, scripted.Say("hello"))
		f.write("a.txt", "a")
		turn := f.turn(f.open(), "hi", session.WithContract(task.Contract{Verify: verify.Contains("a.txt", "a"), Conversational: tc.mode}))
		verdicts, err := store.Collect(f.store.GateAttempts(ctx, turn.RunID))
		if err != nil || len(verdicts) != tc.verdict || turn.Outcome.Kind != tc.outcome {
			t.Errorf("%v: %d verdicts and %s, %v; want %d and %s", tc.mode, len(verdicts), turn.Outcome, err, tc.verdict, tc.outcome)
		}
	}
}

// A turn that was stopped while it might still have become an answer did nothing
// and is asked again. One that could only be work is gone on with.
func TestOnlyWorkIsGoneOnWithAfterAnEndBeforeItsFirstStep(t *testing.T) {
	for mode, resumable := range map[task.Conversational]bool{task.Infer: false, task.Forbid: true} {
		f := newFixture(t)
		s := f.open()
		c, cancel := context.WithCancel(ctx)
		f.model.Push(func(ctx context.Context, _ *provider.Request) (*provider.Response, error) {
			cancel()
			return nil, ctx.Err()
		})
		_, err := s.Turn(c, "go", session.WithConversational(mode))
		te := turnError(t, err)
		f.model.Push(scripted.Say("done"))
		back, err := s.ResumeTurn(ctx, te.Turn)
		switch {
		case resumable && (err != nil || back.Reply != "done"):
			t.Errorf("%v: %+v, %v", mode, back, err)
		case !resumable && !errors.Is(err, store.ErrResume):
			t.Errorf("%v: resumed with %+v, %v", mode, back, err)
		}
	}
}

func TestAnExportWritesNothingAndShowsAFold(t *testing.T) {
	f := newFixture(t)
	s, _, _ := f.long(3)
	f.model.Push(scripted.Say("ANSWER-4"))
	f.turn(s, "PROMPT-4", session.WithFoldNow())
	before, asked := rowsOf(t, f.path), len(f.model.Requests())
	for range 3 {
		tr, err := s.Transcript(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("\nFolded through step 0 (%d observations):\n\n> PARAGRAPH-1 about it.\n", tr.Turns[3].Summaries[0].Folded)
		if text := tr.Markdown(); strings.Count(text, want) != 1 {
			t.Errorf("%q is not told once in\n%s", want, text)
		}
		toJSON(t, tr)
	}
	if diff := cmp.Diff(before, rowsOf(t, f.path)); diff != "" || len(f.model.Requests()) != asked {
		t.Errorf("an export asked the model or changed the store (-before +after):\n%s", diff)
	}
}

// One that broke is left alone, also behind the end of the run.
func TestAnObserverThatPanickedIsNotToldThatTheTurnIsAnswered(t *testing.T) {
	f := newFixture(t, scripted.Say("hello"))
	told := 0
	f.cfg.Observer = trace.ObserverFunc(func(trace.Event) trace.Flow {
		told++
		panic("at the disco")
	})
	if turn := f.turn(f.open(), "hi"); turn.Kind != session.Reply || told != 1 {
		t.Errorf("a %s, and the observer was called %d times", turn.Kind, told)
	}
}
