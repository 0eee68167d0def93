//go:build unix

package loop

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/workspace"
)

// A line can change, once it was judged, what a name in it leads to. What the policy
// then refuses leaves what the gate leaves: one row, one event, and nothing done.
func TestWhatALineIsRefusedWhenItsTurnComesIsInTheTrace(t *testing.T) {
	outside := t.TempDir()
	for _, tc := range []struct {
		name, line string
		act        policy.Act
		target     string
		rule       string
		ran        bool // what stands before it in the line
	}{
		{"a redirect into a denied directory", "ln -s hidden late && echo x > late/new", policy.Write, "late/new", "hidden/*", true},
		{"a redirect that appends to a denied file", "ln -s hidden/k late; echo x >> late", policy.Write, "late", "hidden/*", true},
		{"errors of a command into a denied file", "ln -s hidden/k late; echo x 2> late", policy.Write, "late", "hidden/*", true},
		{"an input from a denied file", "ln -s hidden/k late; cat < late", policy.Read, "late", "hidden", true},
		{"a redirect out of the workspace", "ln -s " + outside + " late && echo x > late/new", policy.Write, "late/new", policy.OutsideRoot, true},
		{"a redirect to git's own name", "ln -s .git late && echo x > late", policy.Write, "late", workspace.GitFile, true},
		{"a directory that has become a denied one", "ln -s hidden late && cd late && cat k", policy.Read, "late", "hidden", true},
		{"a directory that has come to lie outside", "ln -s " + outside + " late && cd late && touch new", policy.Read, "late", policy.OutsideRoot, true},
		// What is known of the name beforehand refuses the whole line.
		{"git's own name, beforehand", "ln -s a late && echo x > .git", policy.Write, ".git", workspace.GitFile, false},
		{"a denied file, beforehand", "ln -s a late && echo x > hidden/new", policy.Write, "hidden/new", "hidden/*", false},
	} {
		for _, tool := range []string{"shell", "shell_start"} {
			t.Run(tc.name+", "+tool, func(t *testing.T) {
				f := newFixture(t)
				// A line that is left running is over before its run is, which would end it.
				over := func(ctx context.Context, r *provider.Request) (*provider.Response, error) {
					for i := 0; i < 1000 && f.seen.count("refused") == 0; i++ {
						time.Sleep(10 * time.Millisecond)
					}
					return scripted.Say("done")(ctx, r)
				}
				m := f.script(scripted.Call(tool, map[string]string{"line": tc.line}), over)
				f.host.Policy = policy.Permissive().Layer("test").DenyRead("hidden", "hidden/*").DenyWrite("hidden/*")
				f.host.Approver = approve.ApproverFunc(func(_ context.Context, r approve.Request) (approve.Decision, error) {
					t.Errorf("somebody was asked about %+v", r)
					return approve.Approve(), nil
				})
				f.write("hidden/k", "the secret\n")
				res := f.must(trace.Finished)
				rows := f.refusals(res.RunID)
				if len(rows) != 1 || rows[0].Act != string(tc.act) || rows[0].Target != tc.target || rows[0].Rule != tc.rule || rows[0].Step != 1 || rows[0].Decision != "deny" {
					t.Errorf("refusals %+v, want one %s of %s by %s", rows, tc.act, tc.target, tc.rule)
				}
				var told []trace.RefusedAct
				for _, ev := range f.seen.all {
					if r, ok := ev.Fact.(trace.RefusedAct); ok {
						told = append(told, r)
					}
				}
				if len(told) != 1 || len(rows) == 1 && told[0] != (trace.RefusedAct{Act: rows[0].Act, Target: rows[0].Target, Rule: rows[0].Rule, Layer: rows[0].Layer}) {
					t.Errorf("events %+v for the row %+v", told, rows)
				}
				if got := f.read("hidden/k"); got != "the secret\n" || strings.Contains(lastUser(m), "the secret") {
					t.Errorf("hidden/k is %q, or it was read", got)
				}
				if _, err := os.Lstat(filepath.Join(f.dir, "late")); (err == nil) != tc.ran {
					t.Errorf("what stands before it ran: %t, want %t", err == nil, tc.ran)
				}
				for dir, want := range map[string]int{outside: 0, filepath.Join(f.dir, "hidden"): 1} {
					if left, err := os.ReadDir(dir); err != nil || len(left) != want {
						t.Errorf("%s holds %v, %v", dir, left, err)
					}
				}
			})
		}
	}
}
