package loop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/trace"
)

// A program that is allowed because it reads can be told to write, or to start
// another one. The policy allows the line, so that the boundary has to hold it.
func TestAReadingProgramThatIsToldToWriteLeavesNothingOutside(t *testing.T) {
	confines(t)
	for _, tc := range []struct {
		allow string
		argv  []string // OUT stands for a file outside
	}{
		{"git log*", []string{"git", "log", "--output=OUT"}},
		{"find *", []string{"find", ".", "-fprintf", "OUT", "x"}},
		{"find *", []string{"find", ".", "-maxdepth", "0", "-execdir", "touch", "OUT", ";"}},
		{"sed *", []string{"sed", "-n", "1w OUT", "a.txt"}},
		{"sed *", []string{"sed", "1e touch OUT", "a.txt"}},
		{"tar *", []string{"tar", "-cf", "x.tar", "--checkpoint=1", "--checkpoint-action=exec=touch OUT", "a.txt"}},
		{"awk *", []string{"awk", `BEGIN{system("touch OUT")}`}},
		{"xargs *", []string{"xargs", "-a", "a.txt", "touch", "OUT"}},
		{"git -c *", []string{"git", "-c", "alias.x=!touch OUT", "x"}},
	} {
		t.Run(strings.Join(tc.argv, " "), func(t *testing.T) {
			program, err := exec.LookPath(tc.argv[0])
			if err != nil {
				t.Skipf("%s is not on this machine", tc.argv[0])
			}
			outside := filepath.Join(scratch(t), "o")
			f := newFixture(t)
			f.write("a.txt", "first\n")
			f.git(".", "init", "-q")
			f.git(".", "commit", "-q", "--allow-empty", "-m", "x")
			argv := make([]string, len(tc.argv))
			for i, a := range tc.argv {
				argv[i] = strings.ReplaceAll(a, "OUT", outside)
			}
			f.script(command(argv...), scripted.Say("done"))
			f.host.Policy = open.Layer("readers").AllowExec("git", tc.allow)
			res := f.must(trace.Finished)
			if n := len(f.refusals(res.RunID)); n != 0 {
				t.Fatalf("the policy refused it: %+v", f.refusals(res.RunID))
			}
			if _, err := os.Lstat(outside); err == nil {
				t.Error("a file was made outside of the workspace")
			}
			// The control: without a boundary the same line makes it.
			cmd := exec.Command(program, argv[1:]...)
			cmd.Dir = f.dir
			out, err := cmd.CombinedOutput()
			if _, there := os.Lstat(outside); there != nil {
				t.Errorf("the line makes no file without a boundary either: %v\n%s", err, out)
			}
		})
	}
}
