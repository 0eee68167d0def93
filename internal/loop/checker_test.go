//go:build unix

package loop

import (
	"os"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/toolchain"
	"github.com/initorigin/io-harness-go/trace"
)

// A model that writes what the project's checker runs must not get more by it than
// by a command of its own: the check that follows a write is behind the same
// boundary, and under the same policy.
func TestTheCheckAfterAWriteIsContainedAsAnyCommandIs(t *testing.T) {
	for _, denied := range []bool{false, true} {
		outside := t.TempDir()
		f := newFixture(t)
		f.write("Makefile", "")
		f.host.Policy = open
		if denied {
			f.host.Policy = open.Layer("later").DenyExec("sh")
		}
		m := f.script(write("check.sh", "echo ran > ran.txt\necho x > "+outside+"/escaped; echo judged >&2; exit 1\n"), write("a.c", "int main;\n"), scripted.Say("done"))
		res := f.must(trace.Finished, func(c *task.Contract) {
			c.Toolchain = toolchain.Overrides{"make": {Check: []string{"sh", "check.sh"}}}
		})
		if ran := f.read("ran.txt") != ""; ran == denied {
			t.Errorf("denied %t: the checker ran: %t", denied, ran)
		}
		told, _ := scripted.LastResult(m.Requests()[2], "write_file")
		if strings.Contains(told, "judged") == denied || f.read("a.c") == "" {
			t.Errorf("denied %t: the model is told %q", denied, told)
		}
		if denied {
			continue
		}
		if a := f.applied(res.RunID); a == "" || strings.Contains(a, "floor") {
			t.Skipf("no rung of this host confines files: %s", a)
		}
		if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
			t.Errorf("the checker wrote outside: %v, %v", entries, err)
		}
	}
}
