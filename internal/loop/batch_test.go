package loop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// rows is every row of every table of the store, one a line, without the columns
// that tell when something was, how long it took, or which process did it.
func (f *fixture) rows() string {
	f.t.Helper()
	db, err := sql.Open("sqlite", "file:"+f.store.Path()+"?mode=ro")
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close()
	var tables []string
	names, err := db.Query("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
	if err != nil {
		f.t.Fatal(err)
	}
	for names.Next() {
		var name string
		if err := names.Scan(&name); err != nil {
			f.t.Fatal(err)
		}
		if name != "run_leases" && name != "store_meta" {
			tables = append(tables, name)
		}
	}
	if err := errors.Join(names.Err(), names.Close()); err != nil {
		f.t.Fatal(err)
	}
	var b strings.Builder
	for _, table := range tables {
		if err := dump(&b, db, table); err != nil {
			f.t.Fatalf("%s: %v", table, err)
		}
	}
	var id string // of the store, with which the keys of calls begin
	if err := db.QueryRow("SELECT value FROM store_meta WHERE key = 'store_id'").Scan(&id); err != nil {
		f.t.Fatal(err)
	}
	return strings.NewReplacer(f.dir, "DIR", id, "STORE").Replace(b.String())
}

func dump(b *strings.Builder, db *sql.DB, table string) error {
	rows, err := db.Query("SELECT * FROM " + table + " ORDER BY 1, 2")
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	for rows.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		b.WriteString(table)
		for i, c := range columns {
			if c == "at" || c == "owner" || c == "contract" || strings.HasSuffix(c, "_at") || strings.HasSuffix(c, "_ms") {
				continue
			}
			if text, ok := values[i].([]byte); ok {
				values[i] = string(text)
			}
			fmt.Fprintf(b, " %s=%#v", c, values[i])
		}
		b.WriteByte('\n')
	}
	return rows.Err()
}

// Twenty reads of one completion, of every kind of ending, leave row for row and
// event for event what they leave one by one.
func TestTwentyReadsLeaveTheRowsOfTwentyReadsOneByOne(t *testing.T) {
	type args = map[string]any
	at := func(n int) provider.ToolCall { return scripted.Tool("peek", args{"n": n}) }
	calls := []provider.ToolCall{
		at(1), file("a.txt"), at(2), scripted.Tool("journaled", nil), file("missing"), file("hidden/x"), at(3),
		scripted.Tool("grep", args{"pattern": "alpha"}), scripted.Tool("list_dir", nil), scripted.Tool("boom", nil), at(4), file("ask/yes"), file("ask/no"),
		scripted.Tool("peek", args{"n": "many"}), scripted.Tool("journaled", nil), scripted.Tool("fails", nil), scripted.Tool("find", args{"name_glob": "*.txt"}),
		scripted.Tool("grep", args{"pattern": "("}), file("../x"), at(5),
	}
	if len(calls) != 20 {
		t.Fatalf("%d calls", len(calls))
	}
	run := func(most int) (rows string, events []trace.Event, together int32) {
		f := newFixture(t, scripted.Calls(calls...), scripted.Calls(at(6), file("a.txt"), at(7)), scripted.Say("done"))
		f.write("a.txt", "alpha\n")
		f.write("ask/yes", "yes\n")
		f.write("ask/no", "no\n")
		f.write("hidden/x", "secret\n")
		f.host.Policy = open.Layer("asking").AskRead("ask/*").AllowExec("peek", "journaled", "fails")
		f.host.Approver = approve.ApproverFunc(func(_ context.Context, r approve.Request) (approve.Decision, error) {
			if r.Target == "ask/yes" {
				return approve.Approve(), nil
			}
			return approve.Deny("not this one"), nil
		})
		var running, seen atomic.Int32
		enter := func() func() {
			n := running.Add(1)
			for old := seen.Load(); n > old && !seen.CompareAndSwap(old, n); old = seen.Load() {
			}
			return func() { running.Add(-1) }
		}
		peek := tool.New("peek", "Peeks; the later ones are done sooner.", func(ctx context.Context, in struct {
			N int `json:"n"`
		}) (string, error) {
			defer enter()()
			select {
			case <-time.After(time.Duration(8-in.N) * time.Millisecond / 2):
			case <-ctx.Done():
			}
			return fmt.Sprint("peeked ", in.N), ctx.Err()
		}, tool.ReadOnly)
		journaled := tool.New("journaled", "Reads, and a person must say whether it did.", func(context.Context, struct{}) (string, error) {
			defer enter()()
			return "read", nil
		}, tool.ReadOnly, tool.Indeterminate)
		boom := tool.New("boom", "Panics.", func(context.Context, struct{}) (string, error) { panic("boom") }, tool.ReadOnly)
		fails := tool.New("fails", "Fails.", func(context.Context, struct{}) (string, error) { return "", errors.New("no such order") }, tool.ReadOnly)
		f.must(trace.Finished, withTools(peek, journaled, boom, fails), withMask("list_dir"), func(c *task.Contract) { c.MaxParallelReads = most })
		for i := range f.seen.all {
			if e, ok := f.seen.all[i].Fact.(trace.PromptComposed); ok {
				e.Bytes = 0
				f.seen.all[i].Fact = e
			}
		}
		return f.rows(), f.seen.all, seen.Load()
	}
	rows, events, alone := run(1)
	if alone != 1 {
		t.Errorf("%d ran at once under a bound of 1", alone)
	}
	for _, mark := range []string{"policy_events", "tool_attempts", "pending_approvals", "ledger_observations", "peeked 5", "turn tool mask", "hidden/*", "not this one", "crashed with", "no such order"} {
		if !strings.Contains(rows, mark) {
			t.Errorf("the work leaves no %q:\n%s", mark, rows)
		}
	}
	overlapped := false
	for i := range 20 {
		got, seen, together := run(3)
		if diff := cmp.Diff(strings.Split(rows, "\n"), strings.Split(got, "\n")); diff != "" {
			t.Fatalf("run %d: rows (-one by one +three at a time):\n%s", i, diff)
		}
		if diff := cmp.Diff(events, seen); diff != "" {
			t.Fatalf("run %d: events (-one by one +three at a time):\n%s", i, diff)
		}
		if together > 3 {
			t.Fatalf("run %d: %d ran at once under a bound of 3", i, together)
		}
		overlapped = overlapped || together > 1
	}
	if !overlapped {
		t.Error("no two reads ever ran at once, so nothing was compared")
	}
}

// waiting is a read that waits until its context ends, and tells when it is inside.
func waiting(inside chan<- int) tool.Tool {
	return tool.New("slow", "Waits.", func(ctx context.Context, in struct {
		N int `json:"n"`
	}) (string, error) {
		inside <- in.N
		<-ctx.Done()
		return "", ctx.Err()
	}, tool.ReadOnly)
}

// A run that ends in the middle of a batch leaves no read of it running, starts none
// of the others, and commits nothing of the step.
func TestARunThatEndsLeavesNoReadOfItsBatchRunning(t *testing.T) {
	inside := make(chan int, 20)
	calls := make([]provider.ToolCall, 20)
	for i := range calls {
		calls[i] = scripted.Tool("slow", map[string]int{"n": i})
	}
	f := newFixture(t, scripted.Calls(calls...))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for range 3 {
			<-inside
		}
		cancel()
	}()
	res, err := Run(ctx, f.host, f.contract(withTools(waiting(inside)), func(c *task.Contract) { c.MaxParallelReads = 3 }), nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	// That the three are over is seen by the leak detector of the package.
	if n := len(inside); n > 0 {
		t.Errorf("%d more reads began", n)
	}
	if n := len(f.steps(res.RunID)); n != 0 {
		t.Errorf("%d steps are committed", n)
	}
}

// A question in the middle of a batch lets stand what came before it and starts
// nothing behind it, as it does for reads that run one by one.
func TestAPauseInABatchLetsStandWhatCameBefore(t *testing.T) {
	for _, most := range []int{1, 10} {
		p := new(probe)
		entered := 0
		late := tool.New("note", "Comes later.", func(context.Context, struct{}) (string, error) { entered++; return "late", nil }, tool.ReadOnly)
		f := newFixture(t, scripted.Calls(file("a.txt"), scripted.Tool("probe", nil), file("ask/x"), scripted.Tool("note", nil), file("a.txt")))
		f.write("a.txt", "alpha\n")
		f.write("ask/x", "asked\n")
		f.host.Policy, f.host.Approver = open.Layer("asking").AskRead("ask/*"), deferring
		res := f.must(trace.AwaitingApproval, withTools(p.tool(tool.ReadOnly), late), func(c *task.Contract) { c.MaxParallelReads = most })
		row := f.steps(res.RunID)[0]
		if p.count() != 1 || entered != 0 || row.Decision != "read a.txt; called probe" {
			t.Errorf("%d at once: the call before ran %d times, the one behind %d times: %q", most, p.count(), entered, row.Decision)
		}
		obs, err := store.Collect(f.store.Observations(context.Background(), res.RunID))
		if err != nil || len(obs) != 4 {
			t.Fatalf("%d at once: %d observations, %v", most, len(obs), err)
		}
		for i, want := range []string{"alpha", "probed", "not executed", "not executed"} {
			contains(t, "an observation", obs[i].Text, want)
		}
		if n := f.seen.count("tool_call"); n != 3 {
			t.Errorf("%d at once: %d calls were announced, want those up to the one that waits", most, n)
		}
	}
}

func TestAToolThatIsDeniedIsOfferedAndNeverEntered(t *testing.T) {
	for _, option := range []tool.Option{tool.ReadOnly, tool.Replayable} {
		p := new(probe)
		f := newFixture(t)
		m := f.script(scripted.Calls(scripted.Tool("probe", nil), scripted.Tool("probe", nil)), scripted.Say("done"))
		f.host.Policy = policy.Permissive().Layer("ops").DenyExec("probe")
		res := f.must(trace.Finished, withTools(p.tool(option)))
		if p.count() != 0 || !slices.ContainsFunc(m.Requests()[0].Tools, func(s provider.ToolSpec) bool { return s.Name == "probe" }) {
			t.Errorf("it was called %d times, or not offered", p.count())
		}
		if rows := f.refusals(res.RunID); len(rows) != 2 || rows[0].Act != "exec" || rows[0].Target != "probe" || f.seen.count("refused") != 2 {
			t.Errorf("refusals %+v", rows)
		}
		if open, err := f.store.OpenAttempts(context.Background(), res.RunID); err != nil || len(open) != 0 {
			t.Errorf("open attempts %+v, %v", open, err)
		}
	}
}
