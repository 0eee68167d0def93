package session_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/budget"
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

func TestAConversationIsRemembered(t *testing.T) {
	f := newFixture(t, scripted.Say("it is blue"), scripted.Say("as I said"), scripted.Say("still"))
	s := f.open()
	f.turn(s, "what colour is it?")
	f.turn(s, "are you sure?")
	again := f.reopen(s.ID())
	third := f.turn(again, "really?")
	got := said(f.last())
	for _, w := range []string{"what colour is it?", "it is blue", "are you sure?", "as I said", "really?"} {
		if !strings.Contains(got, w) {
			t.Errorf("the third request does not say %q", w)
		}
	}
	var roles []string
	for _, m := range f.last().Messages {
		if strings.Contains(m.Text, "it is blue") {
			roles = append(roles, string(m.Role))
		}
	}
	if !slices.Equal(roles, []string{string(provider.RoleAssistant)}) {
		t.Errorf("the agent's own words come as %v", roles)
	}
	history, err := again.History(ctx)
	if err != nil || len(history) != 3 || history[2].ID != third.ID || history[2].Reply != "still" || history[0].Kind != session.Reply {
		t.Errorf("history %+v, %v", history, err)
	}
	f.model.Push(scripted.Say("nothing"))
	f.turn(f.open(), "what did I say?")
	if strings.Contains(said(f.last()), "blue") {
		t.Error("another conversation about the same directory was told of it")
	}
}

// What was said before is whole where it is kept, and bounded where it is told again.
func TestALongExchangeIsToldLaterInPart(t *testing.T) {
	long := func(word string) string { return word + "-HEAD " + strings.Repeat("x", 40_000) + " " + word + "-END" }
	f := newFixture(t, scripted.Say(long("REPLY")), scripted.Say("hi"))
	s := f.open()
	first := f.turn(s, long("PROMPT"))
	if first.Reply != long("REPLY") || first.Prompt != long("PROMPT") {
		t.Errorf("the turn has a prompt of %d characters and a reply of %d", len(first.Prompt), len(first.Reply))
	}
	f.turn(s, "and now?")
	told := said(f.last())
	for _, word := range []string{"PROMPT", "REPLY"} {
		if !strings.Contains(told, word+"-HEAD") || strings.Contains(told, word+"-END") {
			t.Errorf("the next turn is told the whole %s, or nothing of it", word)
		}
	}
	row, err := f.store.SessionTurn(ctx, first.ID)
	if err != nil || row.Prompt != long("PROMPT") || row.Reply != long("REPLY") {
		t.Errorf("kept are a prompt of %d characters and a reply of %d, %v", len(row.Prompt), len(row.Reply), err)
	}
}

func TestATurnIsARunWithATrace(t *testing.T) {
	f := newFixture(t, read("secrets/key"), write("a.txt", "a"), scripted.Say("written"))
	f.write("secrets/key", "hunter2")
	f.cfg.Policy = rules().DenyRead("secrets/*")
	turn := f.turn(f.open(), "write a.txt")
	if turn.Kind != session.Run || turn.Reply != "written" || turn.Outcome.Steps != 3 {
		t.Errorf("%+v", turn)
	}
	row, err := f.store.TurnForRun(ctx, turn.RunID)
	if err != nil || row.ID != turn.ID || row.Prompt != "write a.txt" || row.Reply != "written" || row.Outcome != trace.Finished {
		t.Errorf("row %+v, %v", row, err)
	}
	refusals, err := store.Collect(f.store.Refusals(ctx, turn.RunID))
	if err != nil || len(refusals) != 1 || refusals[0].Rule != "secrets/*" || refusals[0].Layer != "test" {
		t.Errorf("refusals %+v, %v", refusals, err)
	}
	for _, r := range f.model.Requests() {
		if strings.Contains(said(r), "hunter2") {
			t.Error("the secret was sent")
		}
	}
}

func TestWhereASessionStands(t *testing.T) {
	f := newFixture(t, scripted.Say("hi"))
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(wd, f.dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.harness().Open(ctx, rel)
	if err != nil || s.Root() != f.dir || !filepath.IsAbs(s.Root()) {
		t.Errorf("root %q, %v; want %q", s.Root(), err, f.dir)
	}
	if _, err := f.harness().Open(ctx, ""); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("no root: %v", err)
	}
	for _, id := range []trace.SessionID{0, -1, 999, 1 << 62} {
		if _, err := f.harness().Reopen(ctx, id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("session %d: %v", id, err)
		}
	}
	f.write("file", "x")
	for _, root := range []string{"nothing", "file"} {
		if _, err := f.harness().Open(ctx, filepath.Join(f.dir, root)); !errors.Is(err, task.ErrInvalid) {
			t.Errorf("the root %q: %v", root, err)
		}
	}
	if n := len(f.model.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestBranchingForgetsAndDeletesNothing(t *testing.T) {
	f := newFixture(t)
	f.model.Push(scripted.Say("R1"), scripted.Say("R2"), scripted.Say("R3"), scripted.Say("R4"), scripted.Say("R5"))
	s := f.open()
	one, two := f.turn(s, "P1"), f.turn(s, "P2")
	three := f.turn(s, "P3")
	if err := s.Branch(ctx, one.ID); err != nil {
		t.Fatal(err)
	}
	four := f.turn(s, "P4")
	if got := said(f.last()); !strings.Contains(got, "P1") || strings.Contains(got, "P2") || strings.Contains(got, "R3") {
		t.Errorf("the branch was told %q", got)
	}
	ids := func() (out []trace.TurnID) {
		h, err := s.History(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, turn := range h {
			out = append(out, turn.ID)
		}
		return out
	}
	if got := ids(); !slices.Equal(got, []trace.TurnID{one.ID, four.ID}) {
		t.Errorf("path %v", got)
	}
	if err := s.Branch(ctx, three.ID); err != nil {
		t.Fatal(err)
	}
	if got := ids(); !slices.Equal(got, []trace.TurnID{one.ID, two.ID, three.ID}) {
		t.Errorf("path %v", got)
	}
	other := f.open()
	if err := other.Branch(ctx, one.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a turn of another session: %v", err)
	}
	if err := s.Branch(ctx, 4711); !errors.Is(err, store.ErrNotFound) || s.Head() != three.ID {
		t.Errorf("an unknown turn: %v with head %d", err, s.Head())
	}
}

func TestTwoHandlesOnOneConversation(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	b := f.reopen(a.ID())
	var first *session.Turn
	f.model.Push(during(func() {
		f.model.Push(scripted.Say("A"))
		first = f.turn(a, "from a")
	}, scripted.Say("B")))
	lost, err := b.Turn(ctx, "from b")
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || !errors.Is(err, store.ErrConflict) || conflict.SessionID != a.ID() || conflict.Head != first.ID {
		t.Fatalf("the loser got %v", err)
	}
	if lost == nil || lost.Reply == "" || lost.Outcome.Kind != trace.Finished {
		t.Errorf("the paid answer is lost: %+v", lost)
	}
	asked := len(f.model.Requests())
	if _, err := b.Turn(ctx, "from b again"); !errors.Is(err, store.ErrConflict) || len(f.model.Requests()) != asked {
		t.Errorf("a stale handle: %v after %d more requests", err, len(f.model.Requests())-asked)
	}
	if err := b.Branch(ctx, first.ID); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a branch of a stale handle: %v", err)
	}
	if err := b.Refresh(ctx); err != nil || b.Head() != first.ID {
		t.Fatalf("head %d, %v", b.Head(), err)
	}
	f.model.Push(scripted.Say("C"))
	if next := f.turn(b, "now"); next.Parent != first.ID {
		t.Errorf("%+v", next)
	}
	if err := b.Branch(ctx, lost.ID); err != nil {
		t.Errorf("the turn that lost is no branch point: %v", err)
	}
}

func TestOneTurnAtATimeOnAHandle(t *testing.T) {
	f := newFixture(t)
	s := f.open()
	f.model.Push(during(func() {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := s.Turn(ctx, "me too"); !errors.Is(err, session.ErrTurnInProgress) {
					t.Errorf("a second turn: %v", err)
				}
				if err := s.Branch(ctx, 1); !errors.Is(err, session.ErrTurnInProgress) {
					t.Errorf("a branch: %v", err)
				}
				if _, err := s.ResumeTurn(ctx, 1); !errors.Is(err, session.ErrTurnInProgress) {
					t.Errorf("a resume: %v", err)
				}
			})
		}
		wg.Wait()
	}, scripted.Say("done")))
	f.turn(s, "hi")
}

func TestAHandEditedTreeDoesNotHang(t *testing.T) {
	f := newFixture(t, scripted.Say("R1"), scripted.Say("R2"), scripted.Say("R3"), scripted.Say("R4"))
	s := f.open()
	one := f.turn(s, "P1")
	two := f.turn(s, "P2")
	three := f.turn(s, "P3")
	db, err := sql.Open("sqlite", testkit.DSN(f.path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`PRAGMA foreign_keys = OFF; UPDATE session_turns SET parent_turn_id = ? WHERE id = ?`, three.ID, one.ID); err != nil {
		t.Fatal(err)
	}
	if h, err := s.History(ctx); err != nil || len(h) > 3 {
		t.Errorf("a cycle: %d turns, %v", len(h), err)
	}
	if _, err := s.Transcript(ctx); err != nil {
		t.Error(err)
	}
	f.turn(s, "P4")
	if _, err := db.Exec(`UPDATE session_turns SET parent_turn_id = 4711 WHERE id = ?`, two.ID); err != nil {
		t.Fatal(err)
	}
	if h, err := s.History(ctx); err != nil || len(h) != 3 || h[0].ID != two.ID {
		t.Errorf("a parent that is missing ends the walk: %+v, %v", h, err)
	}
}

func TestWhatMakesATurnAReply(t *testing.T) {
	gate := verify.Contains("a.txt", "a")
	for _, tc := range []struct {
		name   string
		mode   task.Conversational
		verify verify.Criterion
		kind   session.Kind
		steps  int
	}{
		{"unset and nothing checks", task.Infer, nil, session.Reply, 0},
		{"unset and something checks", task.Infer, gate, session.Run, 1},
		{"allowed and something checks", task.Allow, gate, session.Reply, 0},
		{"forbidden and nothing checks", task.Forbid, nil, session.Run, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, scripted.Say("hello"))
			f.write("a.txt", "a")
			turn := f.turn(f.open(), "hi", session.WithContract(task.Contract{Verify: tc.verify, Conversational: tc.mode}))
			steps, err := store.Collect(f.store.Steps(ctx, turn.RunID))
			if err != nil || turn.Kind != tc.kind || len(steps) != tc.steps {
				t.Errorf("kind %s with %d steps, %v; want %s with %d", turn.Kind, len(steps), err, tc.kind, tc.steps)
			}
			if n := len(f.model.Requests()); n != 1 {
				t.Errorf("%d completions", n)
			}
		})
	}
}

func TestTheModeOfATurnHoldsWhereverItStandsAmongTheOptions(t *testing.T) {
	contract := session.WithContract(task.Contract{Constraints: []string{"be brief"}})
	forbid := session.WithConversational(task.Forbid)
	for name, opts := range map[string][]session.Option{
		"before the contract": {forbid, contract},
		"behind the contract": {contract, forbid},
		"alone":               {forbid},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, scripted.Say("hello"))
			if turn := f.turn(f.open(), "hi", opts...); turn.Kind != session.Run {
				t.Errorf("the turn is a %s", turn.Kind)
			}
			if said := strings.Contains(f.last().User, "be brief"); said != (len(opts) == 2) {
				t.Errorf("the contract is told: %t", said)
			}
		})
	}
}

func TestAMaskIsOfItsTurnAndInPlaceOfTheContracts(t *testing.T) {
	contract := task.Contract{ToolMask: []string{"write_file"}}
	for name, tc := range map[string]struct {
		opts    []session.Option
		written bool
	}{
		"the contract's":               {[]session.Option{session.WithContract(contract)}, false},
		"the turn's":                   {[]session.Option{session.WithToolMask("write_file", "exec")}, false},
		"the turn's, and the contract": {[]session.Option{session.WithToolMask("exec"), session.WithContract(contract)}, true},
		"none, and the contract":       {[]session.Option{session.WithToolMask(), session.WithContract(contract)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, write("a", "a"), scripted.Say("done"), write("b", "b"), scripted.Say("done"))
			s := f.open()
			f.turn(s, "write a", tc.opts...)
			f.turn(s, "write b")
			if f.exists("a") != tc.written || !f.exists("b") {
				t.Errorf("a is there: %t; b, of the next turn: %t", f.exists("a"), f.exists("b"))
			}
		})
	}
	f := newFixture(t)
	if _, err := f.open().Turn(ctx, "go", session.WithToolMask("nothing")); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestAResumeRefusesWhatOnlyANewTurnCanBeGiven(t *testing.T) {
	f := newFixture(t, write("ask/a", "a"))
	f.cfg.Policy = rules().AskWrite("ask/*")
	f.cfg.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Defer(), nil })
	s := f.open()
	paused := f.turn(s, "write it")
	for field, opt := range map[string]session.Option{
		"WithConversational": session.WithConversational(task.Allow),
		"WithImages":         session.WithImages(image(t, "one")),
	} {
		var bad *task.InvalidError
		_, err := s.ResumeTurn(ctx, paused.ID, opt, session.Decide(paused.Outcome.RequestID, approve.Approve()))
		if !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if f.exists("ask/a") || len(f.model.Requests()) != 1 {
		t.Error("a refused resume did something")
	}
	f.model.Push(scripted.Say("done"))
	if back, err := s.ResumeTurn(ctx, paused.ID, session.Decide(paused.Outcome.RequestID, approve.Approve())); err != nil || back.Reply != "done" {
		t.Errorf("the decision is still to be taken: %+v, %v", back, err)
	}
}

func TestAReportOfAReplyIsNoSecondAnswer(t *testing.T) {
	f := newFixture(t, scripted.Say("hello"))
	s := f.open()
	turn := f.turn(s, "hi", session.WithObserver(f.seen))
	again, err := s.ResumeTurn(ctx, turn.ID, session.WithObserver(f.seen))
	if err != nil || again.Reply != "hello" || again.Kind != session.Reply {
		t.Fatalf("%+v, %v", again, err)
	}
	if n := f.seen.count("answered"); n != 1 {
		t.Errorf("answered %d times: %v", n, f.seen.kinds())
	}
}

func TestAReplyStagesNothing(t *testing.T) {
	tables := []string{"steps", "step_turns", "gate_attempts", "snapshots", "edits", "plans", "spawns", "pending_approvals", "pending_questions", "tool_attempts", "sandbox_events"}
	counts := func(f *fixture) map[string]int {
		db, err := sql.Open("sqlite", testkit.DSN(f.path))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		out := map[string]int{}
		for _, table := range append(tables, "runs", "session_turns", "provider_calls", "run_outcomes", "ledger_observations") {
			var n int
			if err := db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
				t.Fatal(err)
			}
			out[table] = n
		}
		return out
	}
	f := newFixture(t, scripted.Say("hello"))
	f.cfg.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { panic("nobody may be asked") })
	turn := f.turn(f.open(), "hi", session.WithObserver(f.seen))
	got := counts(f)
	for _, table := range tables {
		if got[table] != 0 {
			t.Errorf("%s has %d rows", table, got[table])
		}
	}
	for _, table := range []string{"runs", "session_turns", "provider_calls", "run_outcomes", "ledger_observations"} {
		if got[table] != 1 {
			t.Errorf("%s has %d rows, want 1", table, got[table])
		}
	}
	if f.seen.count("answered") != 1 || f.seen.count("step") != 0 || f.seen.kinds()[len(f.seen.kinds())-1] != "answered" {
		t.Errorf("events %v", f.seen.kinds())
	}
	if info, err := f.store.Run(ctx, turn.RunID); err != nil || info.Tokens != 120 {
		t.Errorf("billed %d, %v", info.Tokens, err)
	}

	g := newFixture(t, write("a.txt", "a"), scripted.Call("probe", nil), scripted.Say("done"))
	g.turn(g.open(), "work", session.WithContract(task.Contract{Verify: verify.Contains("a.txt", "a")}))
	worked := counts(g)
	for _, table := range []string{"steps", "step_turns", "gate_attempts", "snapshots", "edits", "sandbox_events"} {
		if worked[table] == 0 {
			t.Errorf("the control leaves nothing in %s", table)
		}
	}
}

func TestAReplyOverItsBudgetIsBilledAndIsNone(t *testing.T) {
	f := newFixture(t, scripted.Say("hello"))
	turn := f.turn(f.open(), "hi", session.WithObserver(f.seen), session.WithContract(task.Contract{Budget: budget.Limits{Tokens: 100}}))
	if turn.Outcome.Kind != trace.CostBudgetExceeded || turn.Outcome.Steps != 0 || turn.Kind != session.Reply || turn.Reply != "" || f.seen.count("answered") != 0 {
		t.Errorf("%+v, events %v", turn, f.seen.kinds())
	}
	if info, err := f.store.Run(ctx, turn.RunID); err != nil || info.Tokens != 120 {
		t.Errorf("billed %d, %v", info.Tokens, err)
	}
}

func TestWorkGoesOnFromTheFirstCompletion(t *testing.T) {
	f := newFixture(t, scripted.Call("write_file", map[string]string{"path": "a", "content": "a"}).Saying("I will."), scripted.Say("done"))
	turn := f.turn(f.open(), "write a")
	if turn.Kind != session.Run || turn.Outcome.Steps != 2 || len(f.model.Requests()) != 2 || !f.exists("a") {
		t.Errorf("%+v after %d completions", turn, len(f.model.Requests()))
	}
	reqs := f.model.Requests()
	if reqs[0].SystemText() == reqs[1].SystemText() {
		t.Error("the opening and the work are described alike")
	}
	if strings.Contains(reqs[0].SystemText()+reqs[0].User, "Success criterion") {
		t.Error("an opening speaks of a success criterion")
	}

	g := newFixture(t, scripted.Say("searching").Finishing("pause_turn"), scripted.Say("found"))
	if turn := g.turn(g.open(), "search"); turn.Kind != session.Run || turn.Reply != "found" {
		t.Errorf("a pause of the vendor: %+v", turn)
	}
}

func TestABoundIsOfItsTurn(t *testing.T) {
	f := newFixture(t, read("a"), read("b"), read("c"), read("d"), scripted.Say("done"))
	s := f.open()
	c := task.New("", "/nowhere/at/all")
	c.Budget = budget.Limits{Steps: 1}
	before := toJSON(t, c)
	one := f.turn(s, "look", session.WithContract(c))
	if one.Outcome.Kind != trace.StepCapReached || one.Reply != "" {
		t.Errorf("%s", one.Outcome)
	}
	if after := toJSON(t, c); after != before {
		t.Errorf("the caller's contract changed: %s", cmp.Diff(before, after))
	}
	if two := f.turn(s, "look"); two.Outcome.Kind != trace.Finished || two.Parent != one.ID {
		t.Errorf("the next turn: %+v", two)
	}
	c.Goal = "what the contract says"
	f.model.Push(scripted.Say("ok"))
	if turn := f.turn(s, "", session.WithContract(c)); turn.Prompt != "what the contract says" {
		t.Errorf("an empty prompt: %q", turn.Prompt)
	}
}

func TestAFailedTurnLeavesTheHeadAndIsVisible(t *testing.T) {
	f := newFixture(t, scripted.Say("hi"), scripted.FailKind(provider.Auth, "bad key"), scripted.Say("better"))
	s := f.open()
	one := f.turn(s, "P1")
	_, err := s.Turn(ctx, "P2")
	te := turnError(t, err)
	if te.Outcome != trace.EscalatedTerminal || s.Head() != one.ID {
		t.Fatalf("%+v with head %d", te, s.Head())
	}
	if three := f.turn(s, "P3"); three.Parent != one.ID {
		t.Errorf("the next turn follows %d", three.Parent)
	}
	tr, err := s.Transcript(ctx)
	if err != nil || len(tr.Turns) != 3 || tr.Turns[1].OnPath || tr.Turns[1].Outcome == nil || *tr.Turns[1].Outcome != trace.EscalatedTerminal {
		t.Errorf("transcript %+v, %v", tr, err)
	}
}

func TestAPausedTurnIsGoneOnWithByItsResume(t *testing.T) {
	for _, tc := range []struct {
		decision approve.Decision
		outcome  trace.OutcomeKind
		reply    string
	}{
		{approve.Approve(), trace.Finished, "done"},
		{approve.Deny("not that file"), trace.Denied, ""},
	} {
		f := newFixture(t, write("ask/a", "a"))
		f.cfg.Policy = rules().AskWrite("ask/*")
		f.cfg.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Defer(), nil })
		s := f.open()
		paused := f.turn(s, "write it")
		if paused.Outcome.Kind != trace.AwaitingApproval || paused.Reply != "" || s.Head() != paused.ID {
			t.Fatalf("%+v", paused)
		}
		f.model.Push(scripted.Say("done"))
		back, err := s.ResumeTurn(ctx, paused.ID, session.Decide(paused.Outcome.RequestID, tc.decision))
		if err != nil || back.Reply != tc.reply || back.ID != paused.ID || back.Outcome.Kind != tc.outcome {
			t.Fatalf("%+v, %v", back, err)
		}
		if f.exists("ask/a") != (tc.outcome == trace.Finished) {
			t.Errorf("%s: the file is there: %t", tc.decision.Kind, f.exists("ask/a"))
		}
		row, err := f.store.SessionTurn(ctx, paused.ID)
		if err != nil || row.Outcome != tc.outcome || row.Reply != tc.reply {
			t.Errorf("row %+v, %v", row, err)
		}
		f.model.Push(scripted.Say("next"))
		if next := f.turn(s, "and?"); next.Parent != paused.ID || !strings.Contains(said(f.last()), "write it") {
			t.Errorf("%+v", next)
		}
	}
}

func TestATurnWhoseCallWasCutOffIsGoneOnWithByAPersonsWord(t *testing.T) {
	f := newFixture(t, scripted.Call("probe", nil))
	calls := 0
	probing, cut := context.WithCancel(ctx)
	f.cfg.Defaults.Tools = tool.Toolbox{tool.New("probe", "Probes.", func(c context.Context, _ struct{}) (string, error) {
		calls++
		cut()
		<-c.Done()
		return "", c.Err()
	})}
	s := f.open()
	_, err := s.Turn(probing, "probe it")
	var te *session.TurnError
	if !errors.As(err, &te) || calls != 1 {
		t.Fatalf("%v after %d calls", err, calls)
	}
	waiting, err := s.ResumeTurn(ctx, te.Turn)
	if err != nil || waiting.Outcome.Kind != trace.AwaitingRecovery {
		t.Fatalf("%+v, %v", waiting, err)
	}
	f.model.Push(scripted.Call("probe", nil), scripted.Say("done"))
	back, err := s.ResumeTurn(ctx, te.Turn, session.Recover(store.RecoveryDecision{
		ID: waiting.Outcome.AttemptID, Verdict: store.RecoveredCompleted, Account: "it was probed",
	}))
	if err != nil || back.Outcome.Kind != trace.Finished || back.Reply != "done" || calls != 1 {
		t.Fatalf("%+v, %v after %d calls", back, err, calls)
	}
	if got := f.last().User; !strings.Contains(got, "it was probed") {
		t.Errorf("the account was not told:\n%s", got)
	}
}

func TestAReplyThatIsGoneOnWithIsWork(t *testing.T) {
	block := func(c context.Context, _ *provider.Request) (*provider.Response, error) {
		<-c.Done()
		return nil, c.Err()
	}
	stopped, stop := context.WithCancel(ctx)
	f := newFixture(t, block, write("a.txt", "x"), func(c context.Context, r *provider.Request) (*provider.Response, error) {
		stop()
		return block(c, r)
	}, scripted.Say("done"))
	s, c := f.open(), task.New("x", f.dir)
	c.Budget.Duration = 300 * time.Millisecond
	turn := f.turn(s, "do it", session.WithContract(c))
	if turn.Outcome.Kind != trace.TimeBudgetExceeded {
		t.Fatalf("%+v", turn)
	}
	longer := session.WithContract(task.New("x", f.dir))
	if _, err := s.ResumeTurn(stopped, turn.ID, longer); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	if runs, err := f.store.Resumable(ctx); err != nil || len(runs) != 1 {
		t.Errorf("to be resumed: %+v, %v", runs, err)
	}
	end, err := s.ResumeTurn(ctx, turn.ID, longer)
	if err != nil || end.Kind != session.Run || end.Reply != "done" {
		t.Fatalf("%+v, %v", end, err)
	}
}

func TestAReplyOverItsBudgetThatIsGoneOnWithLeavesSoundAccounts(t *testing.T) {
	f := newFixture(t, scripted.Say("hello"), write("a.txt", "x"), scripted.Say("done"))
	s, c := f.open(), task.New("x", f.dir)
	c.Budget.Tokens = 1
	turn := f.turn(s, "hi", session.WithContract(c))
	if turn.Outcome.Kind != trace.CostBudgetExceeded {
		t.Fatalf("%+v", turn)
	}
	if _, err := s.ResumeTurn(ctx, turn.ID, session.WithContract(task.New("x", f.dir))); err != nil {
		t.Fatal(err)
	}
	if report, err := f.store.Check(ctx); err != nil || !report.Sound() {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestATurnOfAnotherSessionIsNotResumed(t *testing.T) {
	f := newFixture(t, scripted.Say("hi"))
	turn := f.turn(f.open(), "P1")
	if _, err := f.open().ResumeTurn(ctx, turn.ID); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if _, err := f.open().ResumeTurn(ctx, 99); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown turn: %v", err)
	}
}

func TestRememberedRulesComeBackWithTheTurn(t *testing.T) {
	f := newFixture(t, write("ask/a", "a"), write("ask/b", "b"), scripted.Say("done"), write("ask/c", "c"), scripted.Say("no"))
	f.cfg.Policy = rules().AskWrite("ask/*")
	asked := 0
	f.cfg.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		if asked++; asked > 1 {
			return approve.Deny("once is enough"), nil
		}
		return approve.Approve(policy.Rule{Effect: policy.Allow, Act: policy.Write, Pattern: "ask/*"}), nil
	})
	s := f.open()
	turn := f.turn(s, "write both")
	if asked != 1 || len(turn.Remembered) != 1 || turn.Remembered[0].Pattern != "ask/*" {
		t.Errorf("asked %d times, remembered %+v", asked, turn.Remembered)
	}
	f.turn(s, "write another")
	if asked != 2 || f.exists("ask/c") {
		t.Errorf("a rule outlived its turn: asked %d times", asked)
	}
}

func TestWordsOfEveryKindAreKept(t *testing.T) {
	for name, prompt := range map[string]string{
		"control characters": "a\x1b[31mred\x1b[0m b",
		"bidi":               "a\u202eb",
		"large":              strings.Repeat("m", 1<<20),
		"markers":            "\n[step 1] (no tool call)\n## Turn 9\n[summary]",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, scripted.Say(prompt), scripted.Say("ok"))
			s := f.open()
			turn := f.turn(s, prompt)
			row, err := f.store.SessionTurn(ctx, turn.ID)
			if err != nil || row.Prompt != prompt || row.Reply != prompt || turn.Reply != prompt {
				t.Errorf("prompt %d bytes, reply %d, %v; want %d", len(row.Prompt), len(row.Reply), err, len(prompt))
			}
			f.turn(s, "next")
			if n := len(f.last().User); n > 60_000 {
				t.Errorf("the seed has %d bytes", n)
			}
		})
	}
	f := newFixture(t)
	if _, err := f.open().Turn(ctx, "  \n "); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("white space alone: %v", err)
	}
}

// What a trace lacks is said with the turn: an answer that told no usage, and evidence
// that could not be written.
func TestATurnSaysWhatItsTraceLacks(t *testing.T) {
	f := newFixture(t, scripted.Say("R1"), scripted.Say("R2").Unmetered())
	s := f.open()
	if whole := f.turn(s, "P1"); whole.Unmetered != 0 || whole.Dropped != nil {
		t.Errorf("a whole turn says %d, %v", whole.Unmetered, whole.Dropped)
	}
	db, err := sql.Open("sqlite", testkit.DSN(f.path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`CREATE TRIGGER broken BEFORE INSERT ON provider_calls BEGIN SELECT raise(ABORT, 'broken'); END`); err != nil {
		t.Fatal(err)
	}
	holed := f.turn(s, "P2")
	if holed.Unmetered != 1 || holed.Dropped["provider_calls"] != 1 || len(holed.Dropped) != 1 {
		t.Errorf("it says %d, %v", holed.Unmetered, holed.Dropped)
	}
}
