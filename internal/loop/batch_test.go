package loop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/sandbox"
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
	return strings.ReplaceAll(b.String(), f.dir, "DIR")
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

// Reads that need more than the run grants are refused beside others as they are
// alone.
func TestReadsThatNeedMoreThanTheRunHasAreRefusedBesideOthers(t *testing.T) {
	for _, most := range []int{1, 10} {
		p, q := new(probe), 0
		count := func(name string) tool.Tool {
			return needing{tool.New(name, "Needs everything.", func(context.Context, struct{}) (string, error) { q++; return "", nil }, tool.ReadOnly), sandbox.FullAccess}
		}
		f := newFixture(t, scripted.Calls(file("a"), scripted.Tool("note", nil), scripted.Tool("slow", nil), scripted.Tool("probe", nil)), scripted.Say("done"))
		res := f.must(trace.Finished, withTools(count("note"), count("slow"), p.tool(tool.ReadOnly)), func(c *task.Contract) { c.MaxParallelReads = most })
		if q != 0 || p.count() != 1 {
			t.Errorf("%d at once: %d calls that need more ran, and %d of the other", most, q, p.count())
		}
		want := "read a; note refused: needs full-access; slow refused: needs full-access; called probe"
		if got := f.steps(res.RunID)[0].Decision; got != want {
			t.Errorf("%d at once: %q, want %q", most, got, want)
		}
	}
}
