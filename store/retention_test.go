package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/trace"
)

// everything makes a session whose rows are in every table that belongs to runs,
// and leaves its tree crashed.
func everything(t testing.TB, s *Store) (trace.SessionID, *Drive) {
	t.Helper()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sess, err := s.CreateSession(ctx, "/repo")
	must(err)
	d := start(t, s, RunStart{Mode: ModeTree, Policy: []byte(`{"p":1}`), Contract: []byte(`{"c":1}`), Turn: &TurnStart{Session: sess, Prompt: "prompt"},
		Seed: []trace.Observation{{Kind: trace.ObsMessage, Text: "seed"}}})
	d.Record(ProviderCall{Step: 1, Provider: "p", Model: "m"}, Citation{Step: 1, URL: "https://x", Title: "t", Text: "c"},
		ServerToolCall{Step: 1, Provider: "p", Tool: "search", Error: "e"}, PolicyEvent{Step: 1, Kind: PolicyRefusal, Act: "read", Target: "a", Performed: "b"},
		StepAttempt{Step: 1, Kind: AttemptRetry, Decision: "d", Result: "r"}, SandboxEvent{Step: 1, Kind: "exec", Backend: "landlock", Phase: "command", Detail: "d"},
		MCPEvent{Step: 1, Kind: "called", Server: "s", Tool: "t", Detail: "d"}, ContextEvent{Step: 1, Kind: "assembled", Detail: "d"},
		GateAttempt{Step: 1, Phase: "command", Outcome: GateFailed, Detail: "d"}, Edit{Step: 1, Tool: "write_file", Path: "a", Hunk: "@@"},
		AgentEvent{Step: 1, Kind: "said", Detail: "d"}, AgentEvent{Step: 1, Kind: "spawn_refused", Detail: "max_agents"},
		MemoryRecall{Step: 1, Workspace: ws, Key: "k"})
	must(d.Flush(ctx))
	must(s.PutRestorePoint(ctx, d, RestorePoint{Step: 1, Path: "a", State: KeptText, Before: []byte("before"), Mode: 0o600}))
	must(s.PutRestorePoint(ctx, d, RestorePoint{Step: 1, Path: "b", State: KeptAbsent}))
	must(s.PutWriteIntent(ctx, d, nil, WriteIntent{Step: 1, Tool: "t", Path: "a", Hunk: "@@", After: "digest", Facts: []byte(`{"f":1}`)}))
	_, err = s.PutPending(ctx, d, PendingApproval{Step: 1, Tool: "t", Arguments: []byte(`{"a":1}`), Act: "exec", Target: "x", Content: "c", Bound: []byte(`{}`)})
	must(err)
	q, err := s.PutQuestion(ctx, d, PendingQuestion{Step: 1, Question: "q", Context: "c", Choices: []byte(`["x"]`), Batch: []byte(`[]`)})
	must(err)
	_, err = s.AnswerQuestion(ctx, Answer{ID: q, Text: "a", Answers: []byte(`["a"]`), By: "human"})
	must(err)
	p, err := s.PutPlan(ctx, d, PendingPlan{Step: 1, Steps: []byte(`[{"intent":"i"}]`)})
	must(err)
	_, err = s.DecidePlan(ctx, PlanDecision{ID: p, Verdict: PlanRevise, Correction: "c"})
	must(err)
	id, _, err := s.OpenAttempt(ctx, d, Attempt{Step: 1, Tool: "t", Arguments: []byte(`{}`), Turn: &trace.AssistantTurn{Text: "turn"}})
	must(err)
	must(s.CloseAttempt(ctx, d, id, Returned, "account"))
	_, err = s.WriteTodos(ctx, d, []TodoItem{{"todo", TodoActive}})
	must(err)
	remembers(t, s, d, "k", "old", MemoryLimits{})
	h, err := s.StartHandle(ctx, d, 1, "sleep 9")
	must(err)
	d.Record(HandleOutput{Handle: h, Step: 1, Chunk: "out"})
	_, err = s.EnqueueAgent(ctx, d, QueuedAgent{Step: 1, CallIndex: 9, Goal: "g"})
	must(err)
	kid := child(t, s, d, 1, 0, "kid")
	remembers(t, s, kid, "k", "new", MemoryLimits{})
	_, err = s.SendMessage(ctx, kid, AgentMessage{To: d.RunID, FromName: "kid", Step: 1, Body: "body"})
	must(err)
	commit(t, s, kid, fullStep(1))
	finish(t, s, kid, trace.Finished, 1)
	c := fullStep(1)
	c.Result, c.Finish = "result", &Finish{Outcome: trace.Outcome{Kind: trace.StepCapReached, Steps: 1}, Reply: "reply",
		Output: &Output{Schema: []byte(`{"s":1}`), Value: []byte(`{"v":1}`), Valid: true}}
	commit(t, s, d, c)
	must(s.PutEvents(ctx, trace.Event{RunID: d.RunID, Step: 1, Fact: trace.Token{Text: "tok"}}))
	rw, err := s.BeginRewind(ctx, d.RunID, 0)
	must(err)
	must(rw.Add(ctx, RewindItem{Kind: RewindFile, Name: "a", Verdict: "failed", Detail: "d"}))
	must(rw.Done(ctx, true))
	d2, _, err := s.EnterDrive(ctx, d.RunID, EnterOptions{})
	must(err)
	_, err = s.PutSummary(ctx, d2, HistorySummary{ThroughStep: 1, Folded: 1, Text: "fold"})
	must(err)
	abandon(d2) // the lease stays behind
	raw(t, s.Path(), `UPDATE run_leases SET pid = ?, pid_started = '1' WHERE run_id = ?`, deadPID(t), int64(d.RunID))
	return sess, d2
}

// schemaTables lists the tables of a file with their columns.
func schemaTables(t testing.TB, path string) map[string][]struct {
	name, typ string
	must      bool
} {
	t.Helper()
	db, err := sql.Open("sqlite", testkit.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.Query(`SELECT m.name, i.name, i.type, i."notnull" OR i.pk > 0 FROM sqlite_schema m, pragma_table_info(m.name) i
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.name, i.cid`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	out := map[string][]struct {
		name, typ string
		must      bool
	}{}
	for rows.Next() {
		var table string
		var col struct {
			name, typ string
			must      bool
		}
		if err := rows.Scan(&table, &col.name, &col.typ, &col.must); err != nil {
			t.Fatal(err)
		}
		out[table] = append(out[table], col)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEveryColumnIsClassified(t *testing.T) {
	s := newFile(t)
	declared := map[string]map[string]column{}
	for _, tb := range append(runTables(), otherTables()...) {
		declared[tb.name] = map[string]column{}
		for _, col := range tb.columns {
			declared[tb.name][col.name] = col
		}
	}
	found := schemaTables(t, s.Path())
	for name, columns := range found {
		if declared[name] == nil {
			t.Errorf("table %s is not classified", name)
			continue
		}
		for _, col := range columns {
			d, ok := declared[name][col.name]
			if !ok {
				t.Errorf("column %s.%s is not classified", name, col.name)
				continue
			}
			delete(declared[name], col.name)
			if bytes := col.typ != "INTEGER"; d.bytes != bytes {
				t.Errorf("column %s.%s of type %s: bytes is %v", name, col.name, col.typ, d.bytes)
			}
			if d.class == word && d.must != col.must {
				t.Errorf("word %s.%s: must is %v and the schema says %v", name, col.name, d.must, col.must)
			}
			if d.class != word && d.class != fact && d.class != control {
				t.Errorf("column %s.%s has the class %q", name, col.name, d.class)
			}
		}
		for left := range declared[name] {
			t.Errorf("column %s.%s is classified and not in the schema", name, left)
		}
	}
	if len(found) != len(declared) {
		t.Errorf("%d tables in the schema, %d classified", len(found), len(declared))
	}
}

// dump renders every row of every table but the counters of ids.
func dump(t testing.TB, path string) string {
	t.Helper()
	db, err := sql.Open("sqlite", testkit.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var b strings.Builder
	tables := schemaTables(t, path)
	names := make([]string, 0, len(tables))
	for n := range tables {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		var cols []string
		for _, c := range tables[n] {
			cols = append(cols, "quote("+c.name+")")
		}
		rows, err := db.Query(`SELECT ` + strings.Join(cols, " || ',' || ") + ` FROM ` + n + ` ORDER BY 1`)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&b, n, line)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestADeletedSessionLeavesNothingAndTouchesNothingElse(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sibling, _ := everything(t, s)
	lone := start(t, s, RunStart{})
	release(t, lone)
	before := without(dump(t, s.Path()), "memory ")
	sess, d := everything(t, s)
	for _, tb := range runTables() {
		var rows int
		queryRaw(t, s.Path(), `SELECT count(*) FROM `+tb.name+` WHERE `+fmt.Sprintf(tb.of, `SELECT id FROM runs WHERE root_run_id = `+d.RunID.String()), &rows)
		if rows == 0 {
			t.Errorf("the test has no row in %s", tb.name)
		}
	}
	wantRows, wantBytes := independentSize(t, s.Path(), sess)
	size, err := s.SessionSize(ctx, sess)
	if err != nil || size.Rows != wantRows || size.Bytes != wantBytes || size.Turns != 1 || size.Runs != 2 {
		t.Errorf("the size is %+v, %v, want %d rows and %d bytes", size, err, wantRows, wantBytes)
	}
	got, err := s.DeleteSession(ctx, sess)
	if err != nil {
		t.Fatal(err)
	}
	want := Removed{Sessions: 1, Turns: 1, Runs: 2, Rows: size.Rows, Bytes: size.Bytes, RestorePoints: 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	// Notes stay, and the deleted session wrote one.
	if diff := cmp.Diff(before, without(dump(t, s.Path()), "memory ")); diff != "" {
		t.Errorf("something else changed (-before +after):\n%s", diff)
	}
	sound(t, s)
	if size, err := s.SessionSize(ctx, sess); err != nil || size != nil {
		t.Errorf("the size of no session is %+v, %v", size, err)
	}
	if got, err := s.DeleteSession(ctx, sess); err != nil || !cmp.Equal(got, Removed{}) {
		t.Errorf("a second deletion: %+v, %v", got, err)
	}
	if size, err := s.SessionSize(ctx, sibling); err != nil || size == nil {
		t.Errorf("the sibling is %+v, %v", size, err)
	}
}

// without leaves out the lines with a prefix.
func without(text, prefix string) string {
	var out []string
	for _, l := range strings.Split(text, "\n") {
		if !strings.HasPrefix(l, prefix) {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

// independentSize sums what a session takes without the tables of retention.
func independentSize(t testing.TB, path string, sess trace.SessionID) (rows, size int64) {
	t.Helper()
	runs := fmt.Sprintf(`(SELECT r.id FROM runs r JOIN session_turns t ON t.run_id = r.root_run_id WHERE t.session_id = %d)`, sess)
	special := map[string]string{
		"sessions": fmt.Sprintf("id = %d", sess), "runs": "id IN " + runs, "spawns": "child_run_id IN " + runs, "agent_queue": "parent_run_id IN " + runs,
		"agent_messages": "to_run_id IN " + runs, "rewind_items": "rewind_id IN (SELECT id FROM rewinds WHERE run_id IN " + runs + ")",
	}
	for name, cols := range schemaTables(t, path) {
		where, sum, has := special[name], "0", special[name] != ""
		for _, c := range cols {
			if c.name == "run_id" && !has && name != "memory" {
				where, has = "run_id IN "+runs, true
			}
			if c.typ != "INTEGER" {
				sum += " + coalesce(length(CAST(" + c.name + " AS BLOB)), 0)"
			}
		}
		if !has {
			continue
		}
		var n, b int64
		queryRaw(t, path, `SELECT count(*), coalesce(sum(`+sum+`), 0) FROM `+name+` WHERE `+where, &n, &b)
		rows += n
		size += b
	}
	return rows, size
}

func TestADeletionThatFailsTakesNothing(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess, _ := everything(t, s)
	for _, table := range []string{"todos", "run_events", "sessions"} {
		raw(t, s.Path(), `CREATE TRIGGER stop BEFORE DELETE ON `+table+` BEGIN SELECT RAISE(ABORT, 'stopped'); END`)
		before := dump(t, s.Path())
		if _, err := s.DeleteSession(ctx, sess); err == nil {
			t.Errorf("with a failure in %s the deletion went through", table)
		}
		if after := dump(t, s.Path()); after != before {
			t.Errorf("with a failure in %s rows changed", table)
		}
		raw(t, s.Path(), `DROP TRIGGER stop`)
	}
}

func TestADrivenSessionIsNeitherDeletedNorArchived(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess := newSession(t, s)
	d := start(t, s, RunStart{Mode: ModeTree, Turn: &TurnStart{Session: sess, Prompt: "p"}})
	other := another(t, s)
	for name, fn := range map[string]func() error{
		"DeleteSession":  func() error { _, err := other.DeleteSession(ctx, sess); return err },
		"ArchiveSession": func() error { _, err := other.ArchiveSession(ctx, sess); return err },
		"BeginRewind":    func() error { _, err := other.BeginRewind(ctx, d.RunID, 0); return err },
		"EnterDrive":     func() error { _, _, err := other.EnterDrive(ctx, d.RunID, EnterOptions{}); return err },
		"Compact":        func() error { _, err := other.Compact(ctx); return err },
	} {
		var ce *ConflictError
		if err := fn(); !errors.As(err, &ce) || ce.RunID != d.RunID || ce.Owner != d.Owner {
			t.Errorf("%s of a driven run: %v", name, err)
		}
	}
	lone := start(t, s, RunStart{})
	if _, err := other.DeleteRun(ctx, lone.RunID); !errors.Is(err, ErrConflict) {
		t.Errorf("DeleteRun of a driven run: %v", err)
	}
	release(t, d)
	if got, err := other.DeleteSession(ctx, sess); err != nil || got.Sessions != 1 {
		t.Errorf("a resumable session is not deleted: %+v, %v", got, err)
	}
}

func TestAForcedRemovalTakesTheRunFromItsDriver(t *testing.T) {
	ctx := context.Background()
	for name, remove := range map[string]func(*Store, trace.SessionID, ...RemoveOption) error{
		"delete": func(s *Store, id trace.SessionID, o ...RemoveOption) error {
			_, err := s.DeleteSession(ctx, id, o...)
			return err
		},
		"archive": func(s *Store, id trace.SessionID, o ...RemoveOption) error {
			_, err := s.ArchiveSession(ctx, id, o...)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFile(t)
			sess := newSession(t, s)
			d := start(t, s, RunStart{Mode: ModeTree, Turn: &TurnStart{Session: sess, Prompt: "p"}})
			kid := child(t, s, d, 1, 0, "")
			bystander := start(t, s, RunStart{Turn: &TurnStart{Session: newSession(t, s), Prompt: "p"}})
			commit(t, s, d, aStep(1))
			other := another(t, s)
			if err := remove(other, sess); !errors.Is(err, ErrConflict) {
				t.Fatalf("without force: %v", err)
			}
			if err := remove(other, sess, Force()); err != nil {
				t.Fatal(err)
			}
			before := dump(t, s.Path())
			var ce *ConflictError
			if err := s.CommitStep(ctx, d, aStep(2)); !errors.As(err, &ce) || ce.RunID != d.RunID {
				t.Errorf("the next commit: %v", err)
			}
			if err := s.CommitStep(ctx, kid, aStep(1)); !errors.As(err, &ce) {
				t.Errorf("the next commit of a child: %v", err)
			}
			if err := s.FinishRun(ctx, d, Finish{Outcome: trace.Outcome{Kind: trace.Finished}, Reply: "secret"}); !errors.As(err, &ce) {
				t.Errorf("the end of the run: %v", err)
			}
			if err := d.Release(ctx); err != nil && !errors.Is(err, ErrConflict) {
				t.Errorf("the release: %v", err)
			}
			if after := dump(t, s.Path()); name == "delete" && after != before || strings.Contains(after, "secret") {
				t.Errorf("the driver wrote\n%s", cmp.Diff(before, after))
			}
			commit(t, s, bystander, aStep(1))
			sound(t, s)
			_, _, err := other.EnterDrive(ctx, d.RunID, EnterOptions{})
			if gone := errors.Is(err, ErrResume); gone != (name == "delete") || !gone && err != nil {
				t.Errorf("a resume afterwards: %v", err)
			}
		})
	}
}

func TestASweepLeavesWhatMayGoOn(t *testing.T) {
	ctx := context.Background()
	clock := newClock()
	s := newFile(t, WithClock(clock.Now))
	cut := clock.Now().Add(time.Hour)
	sessionWith := func(kind trace.OutcomeKind) trace.SessionID {
		sess := newSession(t, s)
		d := start(t, s, RunStart{Turn: &TurnStart{Session: sess, Prompt: "p"}})
		switch kind {
		case "":
			release(t, d)
		case trace.AwaitingApproval, trace.AwaitingAnswer, trace.AwaitingPlan, trace.AwaitingRecovery:
			waitFor(t, s, d, kind)
		default:
			finish(t, s, d, kind, 0)
		}
		return sess
	}
	var refused []trace.SessionID
	gone := 0
	empty := newSession(t, s)
	gone++
	for _, kind := range append(trace.OutcomeKinds(), "") {
		sess := sessionWith(kind)
		if kind == "" || kind.Status() == trace.StatusPaused {
			refused = append(refused, sess)
		} else {
			gone++
		}
	}
	sort.Slice(refused, func(i, j int) bool { return refused[i] < refused[j] })
	clock.Advance(time.Hour - time.Millisecond)
	early := sessionWith(trace.Finished)
	gone++
	clock.Advance(time.Millisecond)
	exact := sessionWith(trace.Finished)

	before := dump(t, s.Path())
	preview, err := s.SweepSessions(ctx, cut, DryRun())
	if err != nil || dump(t, s.Path()) != before {
		t.Fatalf("a dry run changed something, or failed: %v", err)
	}
	got, err := s.SweepSessions(ctx, cut)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(preview, got); diff != "" {
		t.Errorf("the sweep differs from its preview (-preview +sweep):\n%s", diff)
	}
	if diff := cmp.Diff(refused, got.Refused); diff != "" || got.Sessions != int64(gone) {
		t.Errorf("%d swept, want %d; refused (-want +got):\n%s", got.Sessions, gone, diff)
	}
	for _, id := range []trace.SessionID{early, empty} {
		if _, err := s.SessionRoot(ctx, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("session %d stays: %v", id, err)
		}
	}
	if _, err := s.SessionRoot(ctx, exact); err != nil {
		t.Errorf("the session of the very moment went: %v", err)
	}
	sound(t, s)
}

func TestASweepIssuesAsManyStatementsForTenSessionsAsForOne(t *testing.T) {
	ctx := context.Background()
	counts := map[int]int{}
	for _, sessions := range []int{1, 10} {
		f := &failing{}
		clock := newClock()
		s := newFile(t, WithClock(clock.Now), f.option())
		for range sessions {
			aTurn(t, s, newSession(t, s), 0, "p", trace.Finished)
		}
		f.set("*")
		if got, err := s.SweepSessions(ctx, clock.Now().Add(time.Second)); err != nil || got.Sessions != int64(sessions) {
			t.Fatalf("%+v, %v", got, err)
		}
		counts[sessions] = len(f.seen)
	}
	if counts[1] != counts[10] {
		t.Errorf("%d statements for one session, %d for ten", counts[1], counts[10])
	}
}

func TestRunsWithoutASessionCanBeRemoved(t *testing.T) {
	ctx := context.Background()
	clock := newClock()
	s := newFile(t, WithClock(clock.Now))
	root := start(t, s, RunStart{Mode: ModeTree})
	kid := child(t, s, root, 1, 0, "")
	finish(t, s, kid, trace.Finished, 0)
	finish(t, s, root, trace.Finished, 0)
	fork, err := s.ForkRun(ctx, root.RunID, 0)
	if err != nil {
		t.Fatal(err)
	}
	turn := aTurn(t, s, newSession(t, s), 0, "p", trace.Finished)
	of, err := s.SessionTurn(ctx, turn)
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]trace.RunID{"a child": kid.RunID, "a turn": of.RunID} {
		wantKind(t, func() error { _, err := s.DeleteRun(ctx, run); return err }, KindInvalid)
		_ = name
	}
	if got, err := s.DeleteRun(ctx, 4711); err != nil || !cmp.Equal(got, Removed{}) {
		t.Errorf("the deletion of nothing: %+v, %v", got, err)
	}
	got, err := s.DeleteRun(ctx, root.RunID)
	if err != nil || got.Runs != 2 || got.Sessions != 0 {
		t.Errorf("deleted %+v, %v", got, err)
	}
	if info, err := s.Run(ctx, fork); err != nil || info.ForkedFrom != 0 {
		t.Errorf("the fork of a deleted run is %+v, %v", info, err)
	}
	old := start(t, s, RunStart{})
	finish(t, s, old, trace.Finished, 0)
	clock.Advance(time.Hour)
	young := start(t, s, RunStart{})
	finish(t, s, young, trace.Finished, 0)
	swept, err := s.SweepRuns(ctx, clock.Now())
	if err != nil || swept.Runs != 1 || !cmp.Equal(swept.RefusedRuns, []trace.RunID{fork}) {
		t.Errorf("swept %+v, %v", swept, err)
	}
	for _, run := range []trace.RunID{young.RunID, of.RunID, fork} {
		if _, err := s.Run(ctx, run); err != nil {
			t.Errorf("run %d went: %v", run, err)
		}
	}
	sound(t, s)
}

func TestCompactGivesBackWhatWasDeleted(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess := newSession(t, s)
	d := start(t, s, RunStart{Turn: &TurnStart{Session: sess, Prompt: "p"}})
	for n := 1; n <= 20; n++ {
		c := aStep(n)
		c.Prompt = strings.Repeat(itoa(n%10), 20_000) // unlike that of the step before
		commit(t, s, d, c)
	}
	finish(t, s, d, trace.Finished, 20)
	size, err := s.StoreSize(ctx)
	if err != nil || size.Runs != 1 || size.Sessions != 1 || len(size.Tables) < 30 || size.Tables[0].Name != "steps" {
		t.Errorf("the size is %+v, %v", size, err)
	}
	if _, err := s.DeleteSession(ctx, sess); err != nil {
		t.Fatal(err)
	}
	size, err = s.StoreSize(ctx)
	if err != nil || size.FreeBytes < 300_000 || size.WALBytes != 0 {
		t.Errorf("after the deletion: %+v, %v", size, err)
	}
	before, _ := fileSize(s.Path())
	freed, err := s.Compact(ctx)
	after, _ := fileSize(s.Path())
	if err != nil || freed != before-after || freed < 300_000 {
		t.Errorf("compact freed %d of %d to %d, %v", freed, before, after, err)
	}
	if size, err := s.StoreSize(ctx); err != nil || size.FreeBytes != 0 {
		t.Errorf("after compacting: %+v, %v", size, err)
	}
	sound(t, s)
}

func TestAReaderThatPinsTheLogKeepsTheWordsAndTheCallSaysSo(t *testing.T) {
	ctx := context.Background()
	s := newFile(t, WithBusyTimeout(50*time.Millisecond))
	sess := newSession(t, s)
	aTurn(t, s, sess, 0, needle, trace.Finished)
	other := another(t, s)
	err := other.snapshot(ctx, "pin", func(q *query) error {
		if _, err := meta(q, "min_reader"); err != nil {
			return err
		}
		got, err := s.DeleteSession(ctx, sess)
		var se *Error
		if !errors.As(err, &se) || se.Kind != KindWALNotTruncated || got.Sessions != 1 {
			t.Errorf("deleted %+v, %v", got, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		content, _ := os.ReadFile(s.Path() + suffix)
		if bytes.Contains(content, []byte(needle)) {
			t.Errorf("the file%s still holds the words", suffix)
		}
	}
}
