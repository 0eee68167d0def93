package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// hardenedFixture is a program that was started with a secret and runs a command that
// wants it. It prints what the command gets.
func hardenedFixture(args []string) int {
	if args[0] == "yes" {
		if err := HardenHostProcess(); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	ask := fmt.Sprintf("cat /proc/%d/environ; head -c 1 /proc/%[1]d/mem; ls -l /proc/%[1]d/fd/0; true", os.Getpid())
	p := Profile{Workspace: args[2]}
	if args[1] == string(RungNone) {
		p.Mode = FullAccess
	} else {
		p = forced(p, Rung(args[1]))
	}
	r, err := Run(ctxOfFixture(), Cmd{Argv: []string{"sh", "-c", ask}}, p)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("%s\nreadable: %v, success %v", r.Text(0), r.Applied.Environ, r.Success())
	return 0
}

func TestAHardenedProgramCannotBeReadByItsCommands(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads every process; the run of the tests as an ordinary user has this one")
	}
	get := func(harden string, rung Rung) string {
		cmd := exec.Command(self(t), "hardened", harden, string(rung), realTempDir(t))
		cmd.Env = append(os.Environ(), "HOST_SECRET=canary-of-the-host")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s, %s: %v: %s", rung, harden, err, out)
		}
		return string(out)
	}
	const canary = "canary-of-the-host"
	for _, rung := range []Rung{RungFloor, RungNone} {
		if out := get("no", rung); !strings.Contains(out, canary) || !strings.Contains(out, "readable: true") {
			t.Errorf("%s: %q, so that the test shows nothing", rung, out)
		}
		if out := get("yes", rung); strings.Contains(out, "0 ->") || strings.Contains(out, canary) || !strings.Contains(out, "readable: false") {
			t.Errorf("%s, hardened: %q", rung, out)
		}
	}
	for _, rung := range rungs(t, Profile{}) {
		if rung == RungNamespaces {
			continue // an ordinary user has it no more, which Probe says
		}
		if out := get("yes", rung); strings.Contains(out, canary) || !strings.Contains(out, "readable: false, success true") {
			t.Errorf("%s, hardened: %q", rung, out)
		}
	}
}
