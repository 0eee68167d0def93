package loop

import (
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// What a person says of a call is told as of that call, also when the step, made
// again, asks for something else in its place.
func TestAnAccountOfACallIsNotTheResultOfAnother(t *testing.T) {
	f, o := newFixture(t), &once{}
	f.write("a.txt", "text of a")
	id := f.interrupted(o)
	r := Resumption{Defaults: task.Contract{Tools: tool.Toolbox{o.tool()}}}
	waiting, err := f.resume(id, r)
	if err != nil || waiting.Outcome.Kind != trace.AwaitingRecovery {
		t.Fatal(waiting, err)
	}
	m := f.script(readCall("a.txt"), scripted.Say("done"))
	r.Recovery = &store.RecoveryDecision{ID: waiting.Outcome.AttemptID, Verdict: store.RecoveredCompleted, Account: "it was noted by hand"}
	if end, err := f.resume(id, r); err != nil || end.Outcome.Kind != trace.Finished || len(o.keys) != 1 {
		t.Fatalf("%+v, %v", end, err)
	}
	reqs := m.Requests()
	contains(t, "the first request", reqs[0].User, "[note]", "it was noted by hand")
	got, _ := scripted.LastResult(reqs[1], "read_file")
	if !strings.Contains(got, "text of a") || strings.Contains(got, "noted by hand") {
		t.Errorf("the result of the read is %q", got)
	}
	if n := strings.Count(reqs[1].User, "it was noted by hand"); n != 1 {
		t.Errorf("the account is told %d times:\n%s", n, reqs[1].User)
	}
}
