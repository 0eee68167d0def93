//go:build unix

package loop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

func shellCall(line string) scripted.Turn {
	return scripted.Call("shell", map[string]string{"line": line})
}

// rowText is a decision or a refusal on one line.
func rowText(rows []store.PolicyEvent) []string {
	var out []string
	for _, r := range rows {
		out = append(out, fmt.Sprintf("%s %s by %q in %q: %s/%s", r.Act, r.Target, r.Rule, r.Layer, r.Decision, r.Source))
	}
	return out
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEachPartOfALineIsRecorded(t *testing.T) {
	f := newFixture(t, shellCall("echo one | cat - > out.txt 2>/dev/null && cd sub; cat - < ../out.txt"), scripted.Say("done"))
	f.write("sub/x", "")
	res := f.must(trace.Finished)
	if got := f.read("out.txt"); got != "one\n" {
		t.Errorf("out.txt holds %q", got)
	}
	same(t, "decisions", rowText(f.decisions(res.RunID)), []string{
		`exec echo one by "echo *" in "test": allow/policy`,
		`exec cat - by "cat *" in "test": allow/policy`,
		`write out.txt by "*" in "test": allow/policy`,
		`read sub by "*" in "test": allow/policy`,
		`exec cat - by "cat *" in "test": allow/policy`,
		`read out.txt by "*" in "test": allow/policy`,
	})
	if steps := f.steps(res.RunID); steps[0].Decision != "shell exit 0" {
		t.Errorf("decision %q", steps[0].Decision)
	}
	if n := f.seen.count("sandbox"); n != 3 {
		t.Errorf("%d events of one contained line, want its beginning, its line and its end", n)
	}
}

func TestADeniedPartRefusesTheLineAndNobodyIsAsked(t *testing.T) {
	f := newFixture(t, shellCall("echo x > made; make all; cat hidden/k > locked/f"), scripted.Say("done"))
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		t.Error("somebody was asked about a line that is denied")
		return approve.Approve(), nil
	})
	res := f.must(trace.Finished)
	if f.read("made") != "" {
		t.Error("a part of the line ran")
	}
	if rows := f.refusals(res.RunID); len(rows) != 1 || rows[0].Target != "locked/f" || rows[0].Rule != "locked/*" {
		t.Errorf("refusals %+v", rows)
	}
	if rows := f.decisions(res.RunID); len(rows) != 0 {
		t.Errorf("decisions of a line that was refused: %v", rowText(rows))
	}
	if f.seen.count("sandbox") != 0 {
		t.Error("something was started")
	}
}

func TestALineThatLeavesTheRootIsRefusedInTheTrace(t *testing.T) {
	f := newFixture(t, shellCall("cd .. && touch x"), shellCall("echo x > ../x"), scripted.Say("done"))
	res := f.must(trace.Finished)
	rows := f.refusals(res.RunID)
	if len(rows) != 2 || rows[0].Rule != policy.OutsideRoot || rows[1].Rule != policy.OutsideRoot || rows[0].Act != "read" || rows[1].Act != "write" {
		t.Errorf("refusals %v", rowText(rows))
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(f.dir), "x")); err == nil {
		t.Error("a file was made outside")
	}
}

func TestOneQuestionStandsForAWholeLine(t *testing.T) {
	const line = "printf a > out; echo ok; printf b >> out; env true"
	f := newFixture(t, shellCall(line), scripted.Say("done"))
	var asked []approve.Request
	f.host.Approver = approve.ApproverFunc(func(_ context.Context, r approve.Request) (approve.Decision, error) {
		asked = append(asked, r)
		return approve.Approve(), nil
	})
	res := f.must(trace.Finished)
	if len(asked) != 1 || asked[0].Target != line || asked[0].Act != policy.Exec {
		t.Fatalf("asked %+v, want one question about the line", asked)
	}
	if got := f.read("out"); got != "ab" {
		t.Errorf("out holds %q", got)
	}
	same(t, "decisions", rowText(f.decisions(res.RunID)), []string{
		`exec printf a by "" in "": approve/approver`,
		`exec printf b by "" in "": approve/approver`,
		`exec env true by "" in "": approve/approver`,
		`write out by "*" in "test": allow/policy`,
		`exec echo ok by "echo *" in "test": allow/policy`,
		`write out by "*" in "test": allow/policy`,
	})
}

func TestADeferredLineRunsOnceAsAWhole(t *testing.T) {
	const line = "printf a >> out; printf b >> out; echo c >> out"
	f := newFixture(t, shellCall(line))
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		return approve.Decision{}, nil
	})
	res := f.must(trace.AwaitingApproval)
	if f.read("out") != "" {
		t.Fatal("the line ran before it was approved")
	}
	m := f.script(scripted.Say("done"))
	res, err := f.resume(res.RunID, Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()}})
	if err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("outcome %s, %v", res.Outcome, err)
	}
	if got := f.read("out"); got != "abc\n" {
		t.Errorf("out holds %q", got)
	}
	contains(t, "the request", resultsOf(m), "exit 0")
}

// resultsOf is what the newest request to m tells of earlier calls.
func resultsOf(m *scripted.Model) string {
	var b strings.Builder
	reqs := m.Requests()
	for _, msg := range reqs[len(reqs)-1].Messages {
		for _, r := range msg.Results {
			fmt.Fprintln(&b, r.Content)
		}
	}
	return b.String()
}

func TestAnApproverCannotRewriteALine(t *testing.T) {
	f := newFixture(t, shellCall("printf a > out"), scripted.Say("done"))
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		return approve.Decision{Kind: approve.DecisionApprove, Modified: &approve.Modified{Target: "printf b > out"}}, nil
	})
	f.must(trace.Finished)
	if got := f.read("out"); got != "" {
		t.Errorf("out holds %q", got)
	}
}

func TestARefusedConstructIsToldByName(t *testing.T) {
	f := newFixture(t)
	m := f.script(shellCall("echo $(id) > out"), scripted.Say("done"))
	res := f.must(trace.Finished)
	if steps := f.steps(res.RunID); steps[0].Decision != "shell refused: command-substitution" {
		t.Errorf("decision %q", steps[0].Decision)
	}
	contains(t, "the request", resultsOf(m), "command-substitution", "at character 6", "Nothing was run")
	if len(f.refusals(res.RunID))+len(f.decisions(res.RunID)) != 0 {
		t.Error("a line that is not read left rows of the policy")
	}
}

func TestEveryStageIsContainedAndScrubbed(t *testing.T) {
	host, err := sandbox.Probe(t.Context())
	if err != nil || !host.Rung().ConfinesWrites() {
		t.Skipf("this host confines no writes: %v", err)
	}
	outside := scratch(t)
	t.Setenv("OPENAI_API_KEY", "canary-of-the-test")
	f := newFixture(t)
	m := f.script(shellCall("echo in > in.txt | sh -c 'echo out > "+outside+"/a' | sh -c 'echo out > "+outside+"/b; env'"), scripted.Say("done"))
	f.must(trace.Finished)
	if got := f.read("in.txt"); got != "in\n" {
		t.Errorf("in.txt holds %q", got)
	}
	if names, _ := os.ReadDir(outside); len(names) != 0 {
		t.Errorf("a stage wrote outside: %v", names)
	}
	if strings.Contains(resultsOf(m), "canary-of-the-test") {
		t.Error("a stage sees a credential")
	}
}

// scratch is a directory outside of the system's temporary directory, which
// commands may be granted.
func scratch(t *testing.T) string {
	t.Helper()
	base, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(base, ".scratch-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestUnderReadOnlyNoRedirectWrites(t *testing.T) {
	f := newFixture(t, shellCall("echo x > out"), scripted.Say("done"))
	res := f.must(trace.Finished, func(c *task.Contract) { c.Sandbox.Mode = sandbox.ReadOnly })
	if f.read("out") != "" {
		t.Error("a redirect wrote under read-only")
	}
	if steps := f.steps(res.RunID); steps[0].Decision != "shell refused: read-only" {
		t.Errorf("decision %q", steps[0].Decision)
	}
}
