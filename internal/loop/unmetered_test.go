package loop

import (
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/trace"
)

// A provider that says nothing of what it used escapes the token budget, and the run
// says so.
func TestAnswersWithoutAUsageAreCounted(t *testing.T) {
	f := newFixture(t)
	f.write("a", "x")
	f.script(
		readCall("a").Unmetered(),
		readCall("a"),
		scripted.FailKind(provider.Server, "busy"), // no answer, so nothing to count
		readCall("a").Unmetered())
	res := f.must(trace.StepCapReached, withSteps(3))
	if res.Unmetered != 2 {
		t.Errorf("the run says %d, want 2", res.Unmetered)
	}

	f.script(scripted.Say("done").Unmetered())
	more := f.contract(withSteps(9))
	end, err := f.resume(res.RunID, Resumption{Contract: &more})
	if err != nil || end.Outcome.Kind != trace.Finished || end.Unmetered != 3 {
		t.Fatalf("the resumed run says %d, want 3: %+v, %v", end.Unmetered, end.Outcome, err)
	}
	if again, err := f.resume(res.RunID, Resumption{}); err != nil || again.Unmetered != 3 {
		t.Errorf("the ended run says %d, want 3: %v", again.Unmetered, err)
	}

	f = newFixture(t, scripted.Say("done"))
	if res := f.must(trace.Finished); res.Unmetered != 0 {
		t.Errorf("a metered run says %d", res.Unmetered)
	}
}
