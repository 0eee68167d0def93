package loop

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/trace"
)

// A yes about a name that was a link is for what the link led to.
func TestAnApprovalOfALinkIsForWhatItLedTo(t *testing.T) {
	for name, tc := range map[string]struct {
		turn scripted.Turn
		link string
	}{
		"a program":                {command("./build"), "build"},
		"an argument":              {command("sh", "build"), "build"},
		"an argument under a link": {command("sh", "sub/run"), "sub"},
		"a file to write":          {write("build", "new"), "build"},
		"a file to make":           {write("sub/new.txt", "new"), "sub"},
	} {
		for _, moved := range []bool{false, true} {
			f := newFixture(t, tc.turn)
			f.host.Policy, f.host.Approver = asking, deferring
			for _, who := range []string{"asked", "other"} {
				f.write(who+"/run", "#!/bin/sh\necho "+who+" > log\n")
				if err := os.Chmod(filepath.Join(f.dir, who, "run"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			leads := func(who string) {
				at, to := filepath.Join(f.dir, tc.link), who
				if tc.link == "build" {
					to += "/run"
				}
				_ = os.Remove(at)
				if err := os.Symlink(to, at); err != nil {
					t.Skipf("no symbolic links here: %v", err)
				}
			}
			leads("asked")
			before := f.read("other/run")
			res := f.must(trace.AwaitingApproval)
			if moved {
				leads("other")
			}
			m := f.script(scripted.Say("I see"))
			end, err := f.resume(res.RunID, approving(res, approve.Approve()))
			if err != nil || end.Outcome.Kind != trace.Finished {
				t.Fatalf("%s: %s, %v", name, end.Outcome, err)
			}
			if f.read("log") == "other\n" || f.read("other/run") != before || f.read("other/new.txt") != "" {
				t.Errorf("%s: it was done to what the link leads to by now", name)
			}
			done := f.read("log") == "asked\n" || f.read("asked/run") == "new" || f.read("asked/new.txt") == "new"
			if done == moved {
				t.Errorf("%s: moved %t, done %t", name, moved, done)
			}
			if moved {
				contains(t, "what the model is told", lastUser(m), "has changed since")
			}
			f.checkRequest(res.Outcome.RequestID, moved)
		}
	}
}
