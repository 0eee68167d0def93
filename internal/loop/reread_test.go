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
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// What was read and has become something that may not be read is not shown
// again, whatever was put in its place and by whom.
func TestAReadThatMayNotBeMadeAgainIsNotShown(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside.txt")
	if err := os.WriteFile(outside, []byte("SECRET-WORDS\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		path string
		turn scripted.Turn // makes the read untrue
		why  string
	}{
		{"a read that asks", "asked/a", write("asked/a", "NEW-WORDS\n"), "the policy does not allow it outright"},
		{"a read that asks, of what a command changed", "asked/a", command("sh", "-c", "echo NEW-WORDS > asked/a"), "the policy does not allow it outright"},
		{"a link out of the workspace", "a", command("sh", "-c", "rm a && ln -s "+outside+" a"), "the policy does not allow it any more"},
		{"a link to what may not be read", "a", command("sh", "-c", "rm a && ln -s hidden/key a"), "the policy does not allow it any more"},
		{"a link in the middle", "d/key", command("sh", "-c", "rm -r d && ln -s hidden d"), "the policy does not allow it any more"},
		{"nothing", "a", command("sh", "-c", "rm a"), ""},
		{"a directory", "a", command("sh", "-c", "rm a && mkdir a"), ""},
		{"a pipe that nobody writes to", "a", command("sh", "-c", "rm a && mkfifo a"), ""},
		{"more than a read may show", "a", command("sh", "-c", "i=0; while [ $i -lt 700 ]; do echo NEW-WORDS; i=$((i+1)); done > a"), "characters by now"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.host.Policy = policy.Default().Layer("test").AllowRead("*").AllowWrite("*").AskRead("asked/*").DenyRead("hidden/*").AllowExec("sh *")
			asked := 0
			f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
				asked++
				return approve.Approve(), nil
			})
			f.write(tc.path, "OLD-WORDS\n")
			f.write("hidden/key", "SECRET-WORDS\n")
			m := f.script(readCall(tc.path), tc.turn, scripted.Say("done"))
			res := f.must(trace.Finished, func(c *task.Contract) { c.Context.MaxTokens = 2000; c.MaxReadChars = 5000 })
			reqs := m.Requests()
			contains(t, "the request after the read", reqs[1].User, "OLD-WORDS")
			last := lastUser(m)
			contains(t, "the last request", last, "[read "+tc.path+"] (elided: ", "read it yourself", tc.why)
			for _, w := range []string{"OLD-WORDS", "SECRET-WORDS", "NEW-WORDS\nNEW-WORDS"} {
				if strings.Contains(last, w) {
					t.Errorf("%s is shown:\n%s", w, last)
				}
			}
			if rows := f.contextKinds(res.RunID, "reread", "reread_refused"); !slices.Equal(rows, []string{"3 reread_refused " + tc.path}) {
				t.Errorf("rows %v", rows)
			}
			want := 0
			if tc.path == "asked/a" {
				want = 1 // for the call, and not for a look
			}
			if asked != want {
				t.Errorf("a person was asked %d times, want %d", asked, want)
			}
		})
	}
}

// What a request leaves out stays in the trace, and the words that stand for it
// do not come there.
func TestTheTraceHoldsWholeWhatRequestsLeaveOut(t *testing.T) {
	f := newFixture(t)
	m := f.script(append(f.pages(5), scripted.Say("done"))...)
	res := f.must(trace.Finished, func(c *task.Contract) {
		c.Context.MaxTokens = 1000
		c.Compaction.Share = task.NoCompaction
	})
	last := lastUser(m)
	contains(t, "the last request", last, "MARK-5-", "[read page1.txt] (elided: ")
	if strings.Contains(last, "MARK-1-") {
		t.Error("the first page still has room")
	}
	steps := f.steps(res.RunID)
	for i := 1; i <= 5; i++ {
		whole := strings.TrimSuffix(f.read(fmt.Sprintf("page%d.txt", i)), "\n")
		if got := steps[i-1].Result; !strings.Contains(got, whole) || strings.Contains(got, "elided") {
			t.Errorf("step %d holds %.200q", i, got)
		}
	}
	if rows := f.contextKinds(res.RunID, "assembled"); len(rows) != 6 {
		t.Errorf("one row for each request, and none for what was left out: %v", rows)
	}
}
