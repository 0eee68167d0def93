package loop

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

func TestNoReadCrossesAWrite(t *testing.T) {
	for _, most := range []int{1, 10} {
		f := newFixture(t)
		f.write("a.txt", "before")
		look := tool.New("probe", "Looks.", func(ctx context.Context, in struct {
			N int `json:"n"`
		}) (string, error) {
			select { // long enough for a write that did not wait
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			return fmt.Sprintf("look %d: %s.", in.N, f.read("a.txt")), nil
		}, tool.ReadOnly)
		at := func(n int) any { return map[string]int{"n": n} }
		f.script(scripted.Calls(
			scripted.Tool("probe", at(1)), scripted.Tool("probe", at(2)),
			scripted.Tool("write_file", map[string]string{"path": "a.txt", "content": "after"}),
			scripted.Tool("probe", at(3)), scripted.Tool("probe", at(4)),
		), scripted.Say("done"))
		res := f.must(trace.Finished, withTools(look), func(c *task.Contract) { c.MaxParallelReads = most })
		result := f.steps(res.RunID)[0].Result
		last := -1
		for _, want := range []string{"look 1: before.", "look 2: before.", "[wrote a.txt]", "look 3: after.", "look 4: after."} {
			i := strings.Index(result, want)
			if i <= last {
				t.Errorf("%d at once: %q is not in its place in:\n%s", most, want, result)
			}
			last = i
		}
	}
}

func TestWritesOfOneCompletionAreMadeAndRecordedInTheirOrder(t *testing.T) {
	f := newFixture(t, scripted.Calls(
		scripted.Tool("write_file", map[string]string{"path": "b.txt", "content": "1\n"}),
		scripted.Tool("write_file", map[string]string{"path": "a.txt", "content": "2\n"}),
		scripted.Tool("edit_file", map[string]string{"path": "b.txt", "search": "1", "replace": "3"}),
	), scripted.Say("done"))
	res := f.must(trace.Finished)
	var got []string
	for _, e := range f.edits(res.RunID) {
		got = append(got, fmt.Sprintf("%d %s %s", e.Step, e.Tool, e.Path))
	}
	if diff := cmp.Diff([]string{"1 write_file b.txt", "1 write_file a.txt", "1 edit_file b.txt"}, got); diff != "" || f.read("b.txt") != "3\n" || f.read("a.txt") != "2\n" {
		t.Errorf("edits (-want +got):\n%s\nb.txt %q, a.txt %q", diff, f.read("b.txt"), f.read("a.txt"))
	}
}

// What a run sends is the same for every kind of project, but for the one line that
// says which it is.
func TestTheProjectLineAloneNamesALanguage(t *testing.T) {
	language := regexp.MustCompile(`(?i)\b(rust|cargo|python|pip|pytest|node|npm|javascript|typescript|tsc|golang|go\.mod|gradle|maven)\b`)
	for marker, line := range map[string]string{"go.mod": "This is a go project", "package.json": "This is a node project", "pyproject.toml": "This is a python project", "notes.txt": ""} {
		f := newFixture(t)
		f.write(marker, "{}\n")
		m := f.script(write("a.txt", "x"), scripted.Say("done"))
		f.must(trace.Finished)
		for i, r := range m.Requests() {
			var rest []string
			for _, l := range strings.Split(r.SystemText()+"\n"+r.User, "\n") {
				switch {
				case line != "" && strings.Contains(l, line):
				case strings.HasPrefix(l, "- exec:"), strings.HasPrefix(l, "- commands:"): // patterns of the policy, and the caches of the project's own programs
				default:
					rest = append(rest, l)
				}
			}
			for _, s := range r.Tools {
				rest = append(rest, s.Description+" "+string(s.Schema))
			}
			if line != "" && !strings.Contains(r.User, line) {
				t.Errorf("%s: request %d does not say what project it is", marker, i+1)
			}
			if found := language.FindAllString(strings.Join(rest, "\n"), -1); len(found) > 0 {
				t.Errorf("%s: request %d names %q", marker, i+1, found)
			}
		}
	}
}

func TestAPlanThatWasApprovedIsNotAskedForAgainByAnotherProcess(t *testing.T) {
	f := newFixture(t, plan("do it"))
	f.host.PlanGate = approve.AcceptPlans
	id := f.must(trace.StepCapReached, withSteps(1)).RunID
	f.host.PlanGate = approve.PlanGateFunc(func(context.Context, approve.Plan) (approve.PlanVerdict, error) {
		t.Error("somebody is asked about a second plan")
		return approve.Cancel(), nil
	})
	m := f.script(write("b.txt", "x"), scripted.Say("done"))
	c := f.contract(withSteps(9))
	end, err := f.resume(id, Resumption{Contract: &c})
	if err != nil || end.Outcome.Kind != trace.Finished || f.read("b.txt") != "x" {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	if offers(m.Requests()[0], "propose_plan") || strings.Contains(m.Requests()[0].SystemText(), "propose_plan") {
		t.Error("a plan is asked for")
	}
	contains(t, "the prompt", m.Requests()[0].User, "plan approved", "1. do it")
}

func TestAToolWithoutANameIsRefused(t *testing.T) {
	f := newFixture(t)
	_, err := f.run(withTools(tool.New("", "Nameless.", func(context.Context, struct{}) (string, error) { return "", nil })))
	if err == nil || !strings.Contains(err.Error(), "Tools") || f.runs() != 0 {
		t.Errorf("%v, %d rows", err, f.runs())
	}
}

func TestARestorePointThatIsTooLargeIsNotKeptAndTheFileStays(t *testing.T) {
	f := newFixture(t, write("big.txt", "small\n"), write("a.txt", "new\n"), scripted.Say("done"))
	f.write("big.txt", strings.Repeat("0123456789abcde\n", 1<<16+1))
	f.write("a.txt", "old\n")
	res := f.must(trace.Finished)
	r := f.rewind(res.RunID, Undo{All: true})
	if diff := cmp.Diff(map[string]trace.Undone{"big.txt": trace.NotKept, "a.txt": trace.Restored}, verdicts(r)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if f.read("big.txt") != "small\n" || f.read("a.txt") != "old\n" {
		t.Errorf("big.txt %.20q, a.txt %q", f.read("big.txt"), f.read("a.txt"))
	}
}
