package loop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// recalledBy records that n runs carried a note.
func (f *fixture) recalledBy(key string, n int) {
	f.t.Helper()
	for range n {
		d, err := f.store.StartRun(context.Background(), store.RunStart{Goal: "g", Root: f.dir, Provider: "p"})
		if err != nil {
			f.t.Fatal(err)
		}
		d.Record(store.MemoryRecall{Step: 1, Workspace: f.dir, Key: key})
		if err := f.store.FinishRun(context.Background(), d, store.Finish{Outcome: trace.Outcome{Kind: trace.Finished}}); err != nil {
			f.t.Fatal(err)
		}
	}
}

func TestOfThreeNotesTheOneOnTheSubjectWithEvidenceHasTheRoom(t *testing.T) {
	f := newFixture(t)
	f.note(f.dir, "a", "parser column ALPHA")
	f.note(f.dir, "b", "parser BRAVO")
	f.note(f.dir, "c", "column parser CHARLIE")
	f.recalledBy("b", 9)
	f.recalledBy("c", 1)
	m := f.script(scripted.Say("done"))
	res := f.must(trace.Finished, func(c *task.Contract) { c.Goal = "fix the parser column"; c.Context.MaxTokens = 100 })
	got := m.Requests()[0].User
	contains(t, "the request", got, "- c: column parser CHARLIE  (step 0)", "(2 notes are elided here")
	if strings.Contains(got, "ALPHA") || strings.Contains(got, "BRAVO") {
		t.Errorf("more than the best note is told:\n%s", got)
	}
	if rows := f.recalls(res.RunID); !slices.Equal(rows, []string{"1 workspace c"}) {
		t.Errorf("recalls %v", rows)
	}
	if rows := f.contextKinds(res.RunID, "memory_recall"); !slices.Equal(rows, []string{"1 memory_recall 1 of 3 carried"}) {
		t.Errorf("rows %v", rows)
	}
}

func TestWhatARunKeepsIsAFactWhateverItReplaces(t *testing.T) {
	f := newFixture(t, remember("k", "mine"), scripted.Say("done"))
	if err := f.store.MemoryPut(context.Background(), store.MemoryEntry{Workspace: f.dir, Key: "k", Value: "v", Kind: store.MemoryDecision}); err != nil {
		t.Fatal(err)
	}
	res := f.must(trace.Finished)
	e, err := f.store.MemoryGet(context.Background(), f.dir, "k")
	if err != nil || e.Value != "mine" || e.Kind != store.MemoryFact || e.RunID != res.RunID || e.Step != 1 {
		t.Errorf("%+v, %v", e, err)
	}
}

// The paragraph is stored before the step that bought it is committed. A handle
// that knows nothing but the file finds it, and goes on as a run that was never
// stopped.
func TestAFoldIsFoundByAHandleThatIsOpenedBeforeItsStepIsCommitted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f := newFixture(t)
	m := f.folds(f.pages(4)...)
	m.Push(func(context.Context, *provider.Request) (*provider.Response, error) {
		cancel()
		return nil, context.Canceled
	})
	res, err := Run(ctx, f.host, f.contract(small), nil)
	if !errors.Is(err, context.Canceled) || f.info(res.RunID).LastStep != 4 || len(f.foldRows(res.RunID)) != 1 {
		t.Fatalf("%v, %+v", err, f.info(res.RunID))
	}
	other, err := store.Open(context.Background(), f.store.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	f.host.Store = other
	m.Push(scripted.Say("done"))
	back, err := f.resume(res.RunID, Resumption{})
	if err != nil || back.Outcome.Kind != trace.Finished || m.summaries() != 1 {
		t.Fatalf("%v, %v after %d summaries", back.Outcome, err, m.summaries())
	}
	contains(t, "the resumed request", lastUser(m.Model), "SUMMARY-1", "MARK-3-", "MARK-4-")
	if strings.Contains(lastUser(m.Model), "MARK-2-") {
		t.Error("what was folded is told again")
	}
	var spent int64
	for _, c := range f.providerCalls(res.RunID) {
		if c.Usage != nil { // the one that was cut off
			spent += c.Usage.TotalTokens
		}
	}
	if got := f.info(res.RunID).Tokens; got != spent {
		t.Errorf("the run draws %d tokens of %d that were used", got, spent)
	}
}

func TestNotesBelongToTheDirectoryWhicheverLinkLedToIt(t *testing.T) {
	f := newFixture(t, remember("build", "run make all"), scripted.Say("kept"))
	f.must(trace.Finished)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(f.dir, link); err != nil {
		t.Skipf("no links here: %v", err)
	}
	m := f.script(scripted.Say("done"))
	f.must(trace.Finished, func(c *task.Contract) { c.Root = link })
	contains(t, "the request of a run over the link", m.Requests()[0].User, "- build: run make all")
}
