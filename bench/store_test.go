package bench

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// clock is the store's, and moves by hand, so that a sweep finds what is old.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func openAt(b *testing.B, path string, opts ...store.Option) *store.Store {
	b.Helper()
	st, err := store.Open(context.Background(), path, opts...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	return st
}

// aSession makes a session of one finished run whose steps are as large as
// ordinary ones: a prompt of 4 KB and three observations of 1 KB.
func aSession(b *testing.B, st *store.Store, steps int) (trace.SessionID, trace.RunID) {
	b.Helper()
	ctx := context.Background()
	sess, err := st.CreateSession(ctx, "/repo")
	if err != nil {
		b.Fatal(err)
	}
	return sess, aRun(b, st, steps, &store.TurnStart{Session: sess, Prompt: "look everything up"})
}

// aPrompt is a prompt of 4 KiB, of which the next step's repeats most.
func aPrompt(n int) string {
	return strings.Repeat("a line of the task, or of what the run has seen of it\n", 75) + "step " + strconv.Itoa(n) + "\n"
}

func aRun(b *testing.B, st *store.Store, steps int, turn *store.TurnStart) trace.RunID {
	b.Helper()
	ctx := context.Background()
	d, err := st.StartRun(ctx, store.RunStart{Goal: "look everything up", Root: "/repo", Provider: "scripted", Turn: turn})
	if err != nil {
		b.Fatal(err)
	}
	for n := 1; n <= steps; n++ {
		c := store.StepCommit{
			Step: n, Decision: "called lookup", Prompt: aPrompt(n), ToolCall: `lookup:{"n":1}`, Tokens: 100,
			Turn: &trace.AssistantTurn{Calls: []trace.ToolCall{{ID: "c", Name: "lookup", Arguments: []byte(`{"n":1}`)}}},
		}
		for range 3 {
			c.Observations = append(c.Observations, trace.Observation{Step: n, Kind: trace.ObsTool, CallID: "c", Text: strings.Repeat("o", 1024)})
		}
		d.Record(store.ProviderCall{Step: n, Provider: "scripted", Model: "m"}, store.ContextEvent{Step: n, Kind: "assembled"})
		if err := st.CommitStep(ctx, d, c); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.FinishRun(ctx, d, store.Finish{Outcome: trace.Outcome{Kind: trace.Finished, Steps: steps}}); err != nil {
		b.Fatal(err)
	}
	return d.RunID
}

// BenchmarkRemoveSession removes sessions of ten, a hundred and a thousand steps
// that lie beside each other. x-rows is the cost of a step in the largest over the
// cost of a step in the middle one: it should not grow with the session.
func BenchmarkRemoveSession(b *testing.B) {
	st := openAt(b, filepath.Join(b.TempDir(), "runs.db"))
	sizes := []int{10, 100, 1000}
	took := make([]time.Duration, len(sizes))
	rounds := 0
	for b.Loop() {
		rounds++
		for i, steps := range sizes {
			sess, _ := aSession(b, st, steps)
			began := time.Now()
			if got, err := st.DeleteSession(context.Background(), sess); err != nil || got.Sessions != 1 {
				b.Fatal(got, err)
			}
			took[i] += time.Since(began)
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, steps := range sizes {
		b.ReportMetric(float64(took[i].Microseconds())/1000/float64(rounds), fmt.Sprintf("ms/%d", steps))
	}
	b.ReportMetric(float64(took[2])/float64(took[1])*100/1000, "x-rows")
}

// BenchmarkSweep removes ten sessions in one sweep and ten more one by one.
// x-sweep is how many times cheaper the sweep is: it commits, and cuts the log, once
// for all. Taking the rows out costs both the same, and is most of it once the sessions
// are long. The rows that are not erased leave the words in free pages.
func BenchmarkSweep(b *testing.B) {
	for _, steps := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("%d-steps/erased", steps), func(b *testing.B) { sweep(b, steps, true) })
		b.Run(fmt.Sprintf("%d-steps/not-erased", steps), func(b *testing.B) { sweep(b, steps, false) })
	}
}

// cutLog empties the log of what was written before: to copy that into the file is no
// part of what the removal behind it costs.
func cutLog(b *testing.B, st *store.Store) {
	b.Helper()
	if got, err := st.DeleteSession(context.Background(), 1<<40); err != nil || got.Sessions != 0 {
		b.Fatal(got, err)
	}
}

func sweep(b *testing.B, steps int, erase bool) {
	ctx := context.Background()
	now := newClock()
	st := openAt(b, filepath.Join(b.TempDir(), "runs.db"), store.WithClock(now.Now), store.WithSecureDelete(erase))
	now.advance(time.Hour)
	var swept, single time.Duration
	for b.Loop() {
		ids := make([]trace.SessionID, 10)
		for i := range ids {
			ids[i], _ = aSession(b, st, steps)
		}
		cutLog(b, st)
		began := time.Now()
		for _, id := range ids {
			if _, err := st.DeleteSession(ctx, id); err != nil {
				b.Fatal(err)
			}
		}
		single += time.Since(began)
		for range ids {
			aSession(b, st, steps)
		}
		now.advance(time.Hour)
		cutLog(b, st)
		began = time.Now()
		got, err := st.SweepSessions(ctx, now.Now())
		swept += time.Since(began)
		if err != nil || got.Sessions < 10 {
			b.Fatal(got, err)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(single)/float64(swept), "x-sweep")
}

// BenchmarkCompact gives the free half of a file back. x-vacuum is its cost over
// that of a bare VACUUM of a copy of the same file.
func BenchmarkCompact(b *testing.B) {
	ctx := context.Background()
	var ours, bare time.Duration
	for b.Loop() {
		dir := b.TempDir()
		path := filepath.Join(dir, "runs.db")
		st, err := store.Open(ctx, path)
		if err != nil {
			b.Fatal(err)
		}
		aSession(b, st, 200)
		sess, _ := aSession(b, st, 200)
		if _, err := st.DeleteSession(ctx, sess); err != nil {
			b.Fatal(err)
		}
		if err := st.Close(); err != nil {
			b.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		other := filepath.Join(dir, "bare.db")
		if err := os.WriteFile(other, content, 0o600); err != nil {
			b.Fatal(err)
		}
		if st, err = store.Open(ctx, path); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if n, err := st.Compact(ctx); err != nil || n == 0 {
			b.Fatal(n, err)
		}
		ours += time.Since(began)
		if err := st.Close(); err != nil {
			b.Fatal(err)
		}
		db, err := sql.Open("sqlite", "file:"+other+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=secure_delete(1)")
		if err != nil {
			b.Fatal(err)
		}
		if err := db.Ping(); err != nil {
			b.Fatal(err)
		}
		began = time.Now()
		for _, q := range []string{`VACUUM`, `PRAGMA wal_checkpoint(TRUNCATE)`} {
			if _, err := db.Exec(q); err != nil {
				b.Fatal(err)
			}
		}
		bare += time.Since(began)
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(ours)/float64(bare), "x-vacuum")
}

// BenchmarkOpen opens a store of ten thousand runs and a store of one. x-runs is
// the first over the second: what was kept should not count. x-unclean is a store
// that was left without a clean end over one that was closed.
func BenchmarkOpen(b *testing.B) {
	ctx := context.Background()
	dir := b.TempDir()
	paths := []string{filepath.Join(dir, "one.db"), filepath.Join(dir, "many.db")}
	for i, runs := range []int{1, 10_000} {
		st, err := store.Open(ctx, paths[i], store.WithSynchronous(store.SyncNormal))
		if err != nil {
			b.Fatal(err)
		}
		for range runs {
			aRun(b, st, 1, nil)
		}
		if err := st.Close(); err != nil {
			b.Fatal(err)
		}
	}
	took := make([]time.Duration, len(paths))
	rounds := 0
	for b.Loop() {
		rounds++
		for i, path := range paths {
			began := time.Now()
			st, err := store.Open(ctx, path)
			if err != nil {
				b.Fatal(err)
			}
			if last, err := st.LastRun(ctx); err != nil || last == nil {
				b.Fatal(last, err)
			}
			took[i] += time.Since(began)
			if err := st.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(took[1].Microseconds())/1000/float64(rounds), "ms/open")
	b.ReportMetric(float64(took[1])/float64(took[0]), "x-runs")
}

// BenchmarkReadTrace reads a run of a thousand steps, its steps with their texts,
// its turns, its ledger and its calls. x-bare is its cost over that of bare
// statements that read the same rows.
func BenchmarkReadTrace(b *testing.B) {
	ctx := context.Background()
	path := filepath.Join(b.TempDir(), "runs.db")
	st := openAt(b, path, store.WithSynchronous(store.SyncNormal))
	for range 3 {
		aSession(b, st, 10)
	}
	_, run := aSession(b, st, 1000)
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	var ours, bare, list time.Duration
	for b.Loop() {
		began := time.Now()
		runs := 0
		for _, err := range st.Runs(ctx, store.RunFilter{}) {
			if err != nil {
				b.Fatal(err)
			}
			runs++
		}
		list += time.Since(began)
		began = time.Now()
		n := 0
		for _, err := range st.Steps(ctx, run) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		for _, err := range st.StepTurns(ctx, run) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		for _, err := range st.Observations(ctx, run) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		for _, err := range st.ProviderCalls(ctx, run) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		ours += time.Since(began)
		if n != 6000 || runs != 4 {
			b.Fatal(n, runs)
		}
		began = time.Now()
		n = 0
		for _, q := range []string{
			`SELECT step, decision, prompt, tool_call, tokens FROM steps WHERE run_id = ? ORDER BY step`,
			`SELECT step, text, calls FROM step_turns WHERE run_id = ? ORDER BY step`,
			`SELECT seq, step, text FROM ledger_observations WHERE run_id = ? ORDER BY seq`, // the results of the steps
			`SELECT seq, step, kind, target, text FROM ledger_observations WHERE run_id = ? ORDER BY seq`,
			`SELECT step, provider, model, total_tokens FROM provider_calls WHERE run_id = ? ORDER BY id`,
		} {
			n += scanAll(b, db, q, int64(run))
		}
		bare += time.Since(began)
		if n != 9000 {
			b.Fatal(n)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(ours)/float64(bare), "x-bare")
	b.ReportMetric(float64(ours.Microseconds())/1000/float64(b.N), "ms/trace")
	b.ReportMetric(float64(list.Microseconds())/float64(b.N), "µs/list")
}

func scanAll(b *testing.B, db *sql.DB, q string, run int64) (n int) {
	b.Helper()
	rows, err := db.Query(q, run)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		b.Fatal(err)
	}
	dest := make([]any, len(cols))
	for i := range dest {
		dest[i] = new(sql.NullString)
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			b.Fatal(err)
		}
		n++
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	return n
}
