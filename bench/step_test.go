package bench

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/budget"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// lookup answers at once, so that only the library's own work is measured.
var lookup = tool.New("lookup", "Looks something up.", func(_ context.Context, in struct {
	N int `json:"n"`
}) (string, error) {
	return fmt.Sprintf("entry %d: nothing of note", in.N), nil
}, tool.ReadOnly)

// instant calls lookup in every step and answers after steps of them.
func instant(steps int) provider.Provider {
	n := 0
	m := scripted.Func(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		if n++; n > steps {
			return scripted.Say("done")(ctx, req)
		}
		return scripted.Call("lookup", map[string]any{"n": n})(ctx, req)
	})
	m.Quiet = true
	return m
}

func newHarness(b *testing.B, st *store.Store, p provider.Provider) *harness.Harness {
	b.Helper()
	return watched(b, st, p, nil)
}

func watched(b *testing.B, st *store.Store, p provider.Provider, w trace.Observer) *harness.Harness {
	b.Helper()
	h, err := harness.New(harness.Config{
		Provider: p, Store: st, Observer: w, Policy: policy.Default().Layer("bench").AllowExec("lookup"),
		Defaults: task.Contract{Tools: tool.Toolbox{lookup}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return h
}

func openStore(b *testing.B) *store.Store {
	b.Helper()
	st, err := store.Open(context.Background(), filepath.Join(b.TempDir(), "runs.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	return st
}

// stepsPerRun is how many steps one measured run takes: enough that its start
// and end hardly count, and few enough that the context stays small.
const stepsPerRun = 20

// BenchmarkStep is the cost of one committed step of the real loop, with a model
// and a tool that answer at once, on a file at synchronous=FULL. The metric
// x-bare is that cost over the cost of a bare SQLite transaction that writes the
// same rows into the same schema, measured in turn with it.
func BenchmarkStep(b *testing.B) {
	ctx := context.Background()
	st := openStore(b)
	bare := newBareWriter(b)
	dir := b.TempDir()
	var loop, raw time.Duration
	var allocs uint64
	steps := 0
	for b.Loop() {
		c := task.New("look everything up", dir)
		c.Tools = tool.Toolbox{lookup}
		c.Budget = budget.Limits{Steps: stepsPerRun + 1}
		c.Stall = task.Stall{Window: -1}
		h := newHarness(b, st, instant(stepsPerRun))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		res, err := h.Run(ctx, c)
		loop += time.Since(began)
		runtime.ReadMemStats(&after)
		if err != nil || res.Outcome.Steps != stepsPerRun+1 {
			b.Fatalf("%v: %v", res.Outcome, err)
		}
		allocs += after.Mallocs - before.Mallocs
		steps += res.Outcome.Steps
		rows, err := store.Collect(st.Steps(ctx, res.RunID))
		if err != nil {
			b.Fatal(err)
		}
		began = time.Now()
		bare.write(b, rows)
		raw += time.Since(began)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(loop.Microseconds())/float64(steps), "µs/step")
	b.ReportMetric(float64(raw.Microseconds())/float64(steps), "µs/bare")
	b.ReportMetric(float64(loop)/float64(raw), "x-bare")
	b.ReportMetric(float64(allocs)/float64(steps), "allocs/step")
}

// BenchmarkTurn is a whole turn of a session with one tool call: the call, the
// answer, and everything durable around them.
func BenchmarkTurn(b *testing.B) {
	ctx := context.Background()
	st := openStore(b)
	dir := b.TempDir()
	b.ReportAllocs()
	for b.Loop() {
		s, err := newHarness(b, st, instant(1)).Open(ctx, dir)
		if err != nil {
			b.Fatal(err)
		}
		if turn, err := s.Turn(ctx, "look it up"); err != nil || turn.Reply != "done" {
			b.Fatalf("%+v: %v", turn, err)
		}
	}
}

// bareWriter writes the rows of a step in one transaction, with prepared
// statements and nothing else: the least that durability costs.
type bareWriter struct {
	db    *sql.DB
	stmts []*sql.Stmt
	run   int
}

func newBareWriter(b *testing.B) *bareWriter {
	b.Helper()
	path := filepath.Join(b.TempDir(), "bare.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { db.Close() })
	for _, q := range []string{
		`CREATE TABLE runs(id INTEGER PRIMARY KEY, last_step INTEGER, spent INTEGER)`,
		`CREATE TABLE leases(run_id INTEGER PRIMARY KEY, renewed INTEGER)`,
		`CREATE TABLE steps(run_id INTEGER, step INTEGER, decision TEXT, prompt TEXT, tool_call TEXT, tokens INTEGER, at INTEGER, PRIMARY KEY(run_id, step)) WITHOUT ROWID`,
		`CREATE TABLE turns(run_id INTEGER, step INTEGER, text TEXT, calls TEXT, PRIMARY KEY(run_id, step)) WITHOUT ROWID`,
		`CREATE TABLE observations(run_id INTEGER, seq INTEGER, step INTEGER, kind TEXT, target TEXT, text TEXT, PRIMARY KEY(run_id, seq)) WITHOUT ROWID`,
		`CREATE TABLE calls(id INTEGER PRIMARY KEY, run_id INTEGER, step INTEGER, provider TEXT, tokens INTEGER, at INTEGER)`,
		`CREATE TABLE events(id INTEGER PRIMARY KEY, run_id INTEGER, step INTEGER, kind TEXT, detail TEXT, tokens INTEGER, at INTEGER)`,
	} {
		if _, err := db.Exec(q); err != nil {
			b.Fatal(err)
		}
	}
	w := &bareWriter{db: db}
	for _, q := range []string{
		`SELECT renewed FROM leases WHERE run_id = ?`,
		`INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?)`,
		`INSERT INTO turns VALUES (?, ?, ?, ?)`,
		`INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?)`,
		`INSERT INTO calls(run_id, step, provider, tokens, at) VALUES (?, ?, ?, ?, ?)`,
		`INSERT INTO events(run_id, step, kind, detail, tokens, at) VALUES (?, ?, ?, ?, ?, ?)`,
		`UPDATE runs SET last_step = ?, spent = spent + ? WHERE id = ? AND last_step = ?`,
		`UPDATE leases SET renewed = ? WHERE run_id = ?`,
	} {
		st, err := db.Prepare(q)
		if err != nil {
			b.Fatal(err)
		}
		w.stmts = append(w.stmts, st)
	}
	return w
}

func (w *bareWriter) write(b *testing.B, rows []store.StepRow) {
	b.Helper()
	w.run++
	for _, q := range []string{`INSERT INTO runs VALUES (?, 0, 0)`, `INSERT INTO leases VALUES (?, 0)`} {
		if _, err := w.db.Exec(q, w.run); err != nil {
			b.Fatal(err)
		}
	}
	for _, r := range rows {
		tx, err := w.db.Begin()
		if err != nil {
			b.Fatal(err)
		}
		exec := func(i int, args ...any) {
			if _, err := tx.Stmt(w.stmts[i]).Exec(args...); err != nil {
				b.Fatal(err)
			}
		}
		var renewed int64
		if err := tx.Stmt(w.stmts[0]).QueryRow(w.run).Scan(&renewed); err != nil {
			b.Fatal(err)
		}
		now := time.Now().UnixMilli()
		calls, _ := json.Marshal([]map[string]any{{"name": r.ToolCall}})
		exec(1, w.run, r.Step, r.Decision, r.Prompt, r.ToolCall, r.Tokens, now)
		exec(2, w.run, r.Step, "", string(calls))
		exec(3, w.run, r.Step, r.Step, "tool", "lookup", r.Result)
		exec(4, w.run, r.Step, "scripted", r.Tokens, now)
		exec(5, w.run, r.Step, "assembled", "carried", r.Tokens, now)
		exec(6, r.Step, r.Tokens, w.run, r.Step-1)
		exec(7, now, w.run)
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	}
}
