package loop

import (
	"context"
	"database/sql"
	"slices"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// attempts counts the rows of the journal of calls, open and closed.
func (f *fixture) attempts() (n int) {
	f.t.Helper()
	db, err := sql.Open("sqlite", testkit.DSN(f.store.Path()))
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT count(*) FROM tool_attempts").Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

func TestOnlyCallsOfMutatingToolsOfTheProgramAreJournaled(t *testing.T) {
	p := new(probe)
	for _, tc := range []struct {
		name  string
		turn  scripted.Turn
		tools tool.Toolbox
		rows  int
	}{
		{"built-in ones", scripted.Calls(
			scripted.Tool("write_file", map[string]string{"path": "a", "content": "x"}), scripted.Tool("exec", map[string]any{"argv": []string{"true"}}),
			scripted.Tool("read_file", map[string]string{"path": "a"}), scripted.Tool("todo_write", map[string]any{"items": []any{}}),
			scripted.Tool("remember", map[string]string{"key": "k", "value": "v"})), nil, 0},
		{"one that reads", scripted.Call("probe", nil), tool.Toolbox{p.tool(tool.ReadOnly)}, 0},
		{"one that may be repeated", scripted.Call("probe", nil), tool.Toolbox{p.tool(tool.Replayable)}, 0},
		{"one that changes something", scripted.Call("probe", nil), tool.Toolbox{p.tool()}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.turn, scripted.Say("done"))
			f.must(trace.Finished, withTools(tc.tools...))
			if n := f.attempts(); n != tc.rows {
				t.Errorf("%d rows, want %d", n, tc.rows)
			}
		})
	}
}

func TestWhatAPersonSaysOfACallInDoubtIsFollowedAndTold(t *testing.T) {
	f, o := newFixture(t), &once{}
	id := f.interrupted(o)
	tools := Resumption{Defaults: task.Contract{Tools: tool.Toolbox{o.tool()}}}
	waiting, err := f.resume(id, tools)
	if err != nil || waiting.Outcome.Kind != trace.AwaitingRecovery {
		t.Fatalf("%s, %v", waiting.Outcome, err)
	}
	if got := facts[trace.RecoveryPaused](f.seen); len(got) != 1 || got[0].Tool != "note" || got[0].AttemptID != waiting.Outcome.AttemptID {
		t.Errorf("recovery_paused: %+v", got)
	}
	f.seen.all = nil
	tools.Recovery = &store.RecoveryDecision{ID: waiting.Outcome.AttemptID, Verdict: store.RecoveredAbort}
	end, err := f.resume(id, tools)
	if err != nil || end.Outcome.Kind != trace.Denied {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	if got := facts[trace.Ended](f.seen); len(got) != 1 || got[0].Outcome != trace.Denied {
		t.Errorf("finished: %+v of %v", got, f.seen.kinds())
	}
	if sum, err := f.store.RunSummary(context.Background(), id); err != nil || sum == nil || sum.Outcome != trace.Denied {
		t.Errorf("summary %+v, %v", sum, err)
	}
	again, err := f.resume(id, tools)
	if err != nil || again.Outcome != end.Outcome || len(o.keys) != 1 || slices.Contains(f.seen.kinds(), "tool_call") {
		t.Errorf("once more: %s, %v, %d calls", again.Outcome, err, len(o.keys))
	}
}
