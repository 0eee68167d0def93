package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// The series of a run's edits, applied by git to the files as they were, gives the
// files as the run left them, to the byte.
func TestTheSeriesOfEditsAppliesToTheOriginal(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not on this machine")
	}
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			end := []string{"\n", "\r\n"}[seed%2]
			lines := func(n int) string {
				var b strings.Builder
				for i := range n {
					fmt.Fprintf(&b, "line %d of %d é%s", i, rnd.IntN(1000), end)
				}
				text := b.String()
				if rnd.IntN(2) == 0 {
					text = strings.TrimSuffix(text, end)
				}
				return text
			}
			names := []string{"a.txt", "dir/b c.txt", "dir/new.txt"}
			original := map[string]string{names[0]: lines(8), names[1]: lines(3)}
			now := map[string]string{names[0]: original[names[0]], names[1]: original[names[1]]}
			var turns []scripted.Turn
			for range 8 {
				name := names[rnd.IntN(len(names))]
				text, there := now[name]
				whole := strings.Split(text, end)
				if i := rnd.IntN(len(whole)); there && whole[i] != "" && strings.Count(text, whole[i]) == 1 && rnd.IntN(3) > 0 {
					with := strings.TrimSuffix(lines(rnd.IntN(3)), end)
					turns = append(turns, edit(name, whole[i], with))
					now[name] = strings.Replace(text, whole[i], with, 1)
					continue
				}
				now[name] = lines(1 + rnd.IntN(6))
				if there {
					turns = append(turns, readCall(name))
				}
				turns = append(turns, write(name, now[name]))
			}
			f := newFixture(t, append(turns, scripted.Say("done"))...)
			tree := t.TempDir()
			for name, text := range original {
				f.write(name, text)
				path := filepath.Join(tree, filepath.FromSlash(name))
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			res := f.must(trace.Finished, func(c *task.Contract) { c.Budget.Steps, c.Stall.Window = 40, -1 })
			series, err := f.store.Patch(context.Background(), res.RunID)
			if err != nil {
				t.Fatal(err)
			}
			if series == "" {
				t.Fatal("the run has no series")
			}
			cmd := exec.Command(git, "apply", "--whitespace=nowarn", "-")
			cmd.Dir, cmd.Stdin = tree, strings.NewReader(series)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s\n%s", err, out, series)
			}
			for name, want := range now {
				got, err := os.ReadFile(filepath.Join(tree, filepath.FromSlash(name)))
				if err != nil || !bytes.Equal(got, []byte(want)) || f.read(name) != want {
					t.Errorf("%s, %v:\n patched %q\n the run left %q\n the script says %q", name, err, got, f.read(name), want)
				}
			}
		})
	}
}

func TestTheSeriesMakesEmptyFiles(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not on this machine")
	}
	f := newFixture(t,
		write("empty.txt", ""), write("new.txt", "new\n"), write("dir/an empty one.txt", ""), write("later.txt", ""), readCall("later.txt"), write("later.txt", "text\n"),
		write("was.txt", ""), edit("a.txt", "old", "new"), write("blob.bin", "\x00\x01"), scripted.Say("done"))
	f.write("a.txt", "old\n")
	f.write("was.txt", "")
	res := f.must(trace.Finished)
	series, err := f.store.Patch(context.Background(), res.RunID)
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	for name, text := range map[string]string{"a.txt": "old\n", "was.txt": ""} {
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(git, "apply", "-")
	cmd.Dir, cmd.Stdin = tree, strings.NewReader(series)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, series)
	}
	for name, want := range map[string]string{"empty.txt": "", "dir/an empty one.txt": "", "later.txt": "text\n", "new.txt": "new\n", "was.txt": "", "a.txt": "new\n"} {
		got, err := os.ReadFile(filepath.Join(tree, filepath.FromSlash(name)))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q\n%s", name, got, err, want, series)
		}
	}
	if _, err := os.Stat(filepath.Join(tree, "blob.bin")); err == nil || !strings.Contains(series, "blob.bin: +0 -0, text not kept") {
		t.Errorf("a binary file is taken for an empty one:\n%s", series)
	}
}

func TestALongRunThatDiedThreeTimesEndsAsOne(t *testing.T) {
	const steps, each = 250, 70
	f := newFixture(t)
	f.write("a.txt", "the text\n")
	asked := 0
	model := func(limit int) provider.Provider {
		return scripted.Func(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
			if limit == 0 {
				return nil, context.Canceled
			}
			limit--
			if asked++; asked > steps {
				return scripted.Say("done")(ctx, req)
			}
			return readCall("a.txt")(ctx, req)
		})
	}
	long := func(c *task.Contract) { c.Budget.Steps, c.Stall.Window = steps+10, -1 }
	var id trace.RunID
	for drive := range 4 {
		limit := each
		if drive == 3 {
			limit = -1
		}
		ctx, cancel := context.WithCancel(context.Background())
		inner := model(limit)
		f.model(scripted.Func(func(c context.Context, req *provider.Request) (*provider.Response, error) {
			resp, err := inner.Complete(c, req, provider.Sink{})
			if errors.Is(err, context.Canceled) {
				cancel()
			}
			return resp, err
		}))
		var res *trace.Result
		var err error
		if drive == 0 {
			res, err = Run(ctx, f.host, f.contract(long), nil)
			id = res.RunID
		} else {
			c := f.contract(long)
			res, err = Resume(ctx, f.host, id, Resumption{Contract: &c})
		}
		cancel()
		switch {
		case drive < 3 && !errors.Is(err, context.Canceled):
			t.Fatalf("drive %d: %+v, %v", drive, res, err)
		case drive == 3 && (err != nil || res.Outcome.Kind != trace.Finished):
			t.Fatalf("the last drive: %s, %v", res.Outcome, err)
		}
	}
	rows := f.steps(id)
	if len(rows) != steps+1 {
		t.Errorf("%d steps", len(rows))
	}
	for i, r := range rows {
		if r.Step != i+1 {
			t.Fatalf("step %d stands at place %d", r.Step, i+1)
		}
	}
	events, err := f.store.CheckpointEvents(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range events {
		count[e.Kind]++
	}
	if count["checkpoint"] != len(rows) || count["resume"] != 3 {
		t.Errorf("events: %v", count)
	}
	if info := f.info(id); info.Tokens != int64(len(rows))*120 {
		t.Errorf("%d tokens for %d steps", info.Tokens, len(rows))
	}
	if rep, err := f.store.Check(context.Background()); err != nil || !rep.Sound() {
		t.Errorf("check: %+v, %v", rep, err)
	}
}

func TestTheUndoOfAnArchivedRunIsRefusedWhole(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, edit("a.txt", "old", "new"), write("made.txt", "made\n"), scripted.Say("done"))
	f.write("a.txt", "old\n")
	sess, err := f.store.CreateSession(ctx, f.dir)
	if err != nil {
		t.Fatal(err)
	}
	res, err := Run(ctx, f.host, f.contract(), &Turn{Session: sess})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.ArchiveSession(ctx, sess); err != nil {
		t.Fatal(err)
	}
	for _, what := range []Undo{{All: true}, {Step: 1}, {From: 1}, {Path: "a.txt"}, {Path: "made.txt"}, {Step: 2}} {
		if r, err := Rewind(ctx, f.host, res.RunID, what); !errors.Is(err, store.ErrArchived) || r != nil {
			t.Errorf("%+v: %+v, %v", what, r, err)
		}
	}
	if l, err := f.store.LeaseOf(ctx, res.RunID); err != nil || l != nil {
		t.Errorf("the refused undo holds the run: %+v, %v", l, err)
	}
	if rows, err := f.store.Rewinds(ctx, res.RunID); err != nil || len(rows) != 0 {
		t.Errorf("the refused undo is recorded: %+v, %v", rows, err)
	}
	if f.read("a.txt") != "new\n" || f.read("made.txt") != "made\n" {
		t.Errorf("a.txt %q, made.txt %q", f.read("a.txt"), f.read("made.txt"))
	}
}

func TestTwoRunsOfOneScriptLeaveOneTrace(t *testing.T) {
	run := func(goal string) string {
		f := newFixture(t, readCall("a.txt"), write("b.txt", "one\n"), edit("b.txt", "one", "1"), command("cat", "b.txt"), scripted.Say("done"))
		f.write("a.txt", "first\n")
		return f.canonical(f.must(trace.Finished, func(c *task.Contract) { c.Goal = goal }).RunID)
	}
	first := run("do what is asked")
	if again := run("do what is asked"); again != first {
		t.Errorf("the same script left\n%s\nand\n%s", first, again)
	}
	if other := run("do something else"); other == first {
		t.Error("another prompt leaves the same trace")
	}
}
