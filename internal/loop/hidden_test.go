//go:build unix

package loop

import (
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/trace"
)

// A directory can be renamed with what is hidden in it. The rule is about the file's
// name wherever it lies, and so is what commands cannot read.
func TestWhatIsHiddenStaysSoWhenItsDirectoryIsRenamed(t *testing.T) {
	host, err := sandbox.Probe(t.Context())
	if err != nil || !host.Rung().ConfinesWrites() {
		t.Skipf("this host hides nothing: %v", err)
	}
	for name, turns := range map[string][]scripted.Turn{
		"exec":         {command("mv", "app", "moved"), command("sh", "-c", "cat moved/.env moved/plain")},
		"shell":        {shellCall("mv app moved"), shellCall("cat moved/.env moved/plain")},
		"one line":     {shellCall("mv app moved ; cat moved/.env moved/plain")},
		"twice":        {command("mv", "app", "away"), command("mv", "away", "moved"), command("sh", "-c", "cat moved/.env moved/plain")},
		"left running": {command("mv", "app", "moved"), startCall("sh -c 'cat moved/.env moved/plain; printf x > over'"), until("over"), pollCall(1)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.host.Policy = open.Layer("secrets").DenyRead(".env").AllowExec("mv *", "cat *")
			f.write("app/.env", "canary")
			f.write("app/plain", "ordinary text")
			m := f.script(append(turns, scripted.Say("done"))...)
			f.must(trace.Finished)
			results := resultsOf(m)
			contains(t, "the results", results, "ordinary text")
			if strings.Contains(results, "canary") {
				t.Errorf("a command read what the policy denies: %s", results)
			}
			if f.read("moved/.env") != "canary" {
				t.Error("nothing was moved, so nothing was tried")
			}
		})
	}
}
