package sandbox

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/internal/testkit"
)

// Whoever reads from the terminal of the user takes what is typed there. A command has
// no terminal of its own, and reaches no other by its name where files are confined.
func TestTheTerminalOfTheUserIsOutOfReach(t *testing.T) {
	ours, terminal := testkit.Terminal(t)
	name := terminal.Name()
	defer ours.Close()
	defer terminal.Close()
	if _, err := ours.WriteString("typed\n"); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`for d in %s /dev/tty /dev/console /proc/%d/fd/%d; do
		[ -c $d ] && for how in '<' '>' '<>'; do (eval "exec 3$how$d") 2>/dev/null && echo "opened $how $d"; done; done
		exit 0`, name, os.Getpid(), terminal.Fd())
	c := Cmd{Argv: []string{"sh", "-c", script}}
	for _, rung := range rungs(t, Profile{}) {
		for _, mode := range []Mode{WorkspaceWrite, ReadOnly} {
			t.Run(string(rung)+" "+string(mode), func(t *testing.T) {
				r, err := Run(t.Context(), c, forced(Profile{Workspace: realTempDir(t), Mode: mode}, rung))
				if err != nil || !r.Success() {
					t.Fatalf("%+v, %v", r, err)
				}
				if got := r.Stdout.String(); got != "" {
					t.Errorf("a terminal can be used:\n%s", got)
				}
			})
		}
	}
	r, err := Run(t.Context(), c, Profile{Workspace: realTempDir(t), ForceFloor: true})
	if err != nil || !strings.Contains(r.Stdout.String(), "opened < "+name) {
		t.Errorf("the control, without a boundary, opened none: %v, %s", err, r.Text(0))
	}
}
