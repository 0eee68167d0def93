//go:build unix

package builtin

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/toolchain"
)

// A line is read in one way, whether it is waited for or left running: what the one
// tool refuses the other does, in its own name.
func TestBothToolsOfLinesRefuseTheSame(t *testing.T) {
	b, d := handleBench(t)
	for _, tc := range refusedLines {
		if tc.construct == "empty-line" || !utf8.ValidString(tc.line) {
			continue // no call carries it
		}
		waited, res := b.shell(tc.line)
		left, resLeft := b.call("shell_start", args("line", tc.line))
		short := within(tc.line, 40)
		if want := "shell refused: " + tc.construct; res.Decision != want {
			t.Errorf("%q: decision %q, want %q", short, res.Decision, want)
		}
		if resLeft.Decision != strings.Replace(res.Decision, "shell", "shell_start", 1) {
			t.Errorf("%q: decisions %q and %q", short, res.Decision, resLeft.Decision)
		}
		if diff := cmp.Diff(strings.Replace(waited, "[shell ", "[shell_start ", 1), left); diff != "" {
			t.Errorf("%q is refused in two ways (-shell +shell_start):\n%s", short, diff)
		}
	}
	if len(b.started)+len(d.lines) > 0 {
		t.Errorf("started %v, recorded %v", b.started, d.lines)
	}
}

func TestTheSchemaOfExecIsOneListOfStrings(t *testing.T) {
	for _, tl := range Tools(Env{}) {
		if tl.Spec().Name != "exec" {
			continue
		}
		var s struct {
			Properties map[string]struct {
				Type  string
				Items struct{ Type string }
			}
			Required []string
		}
		if err := json.Unmarshal(tl.Spec().Schema, &s); err != nil {
			t.Fatal(err)
		}
		argv, ok := s.Properties["argv"]
		if !ok || len(s.Properties) != 1 || argv.Type != "array" || argv.Items.Type != "string" || len(s.Required) != 1 || s.Required[0] != "argv" {
			t.Errorf("the schema is %s", tl.Spec().Schema)
		}
		return
	}
	t.Error("there is no exec")
}

// A rule for a whole command line admits that line and no other that holds it.
func TestARuleForALineAdmitsThatLineOnly(t *testing.T) {
	p := policy.Default().Layer("app").AllowExec("npm test", "sh --version*", "sh -c true").DenyExec("sh --print*")
	for _, tc := range []struct {
		argv []string
		want string // allow, ask, or the rule that denies
	}{
		{[]string{"sh", "-c", "x/npm test"}, "ask"},
		{[]string{"sh", "-c", "npm test"}, "ask"},
		{[]string{"npm", "test", "--", "x"}, "ask"},
		{[]string{"env", "npm", "test"}, "ask"},
		{[]string{"sh", "-c", "true"}, "allow"},
		{[]string{"sh", "--version"}, "allow"},
		{[]string{"sh", "--print-all"}, "sh --print*"},
		{[]string{"/bin/sh", "--print-all"}, "sh --print*"},
		{[]string{"sh"}, "ask"},
	} {
		b := newBench(t, p)
		got, _ := b.call("exec", args("argv", tc.argv))
		verdict := "allow"
		switch {
		case strings.HasPrefix(got, "gate:"):
			_, verdict, _ = strings.Cut(got, " by ")
		case len(b.asked) > 0:
			verdict = "ask"
		}
		if verdict != tc.want {
			t.Errorf("%q: %s, want %s", tc.argv, verdict, tc.want)
		}
	}
}

func TestACheckIsHeldToItsWholeLine(t *testing.T) {
	goBuild := func(e *Env) {
		e.Toolchain = toolchain.Toolchain{Ecosystem: "go", Check: []string{"go", "build", "-o", "/dev/null", "./..."}}
	}
	b := newBench(t, policy.Permissive().Layer("ops").DenyExec("go build*"), goBuild)
	got, _ := b.call("check", `{}`)
	wantHas(t, got, "gate: exec go", "go build*")
	b.call("write_file", args("path", "f.go", "content", "package f\n"))
	if len(b.ran) > 0 {
		t.Errorf("started %q", b.ran)
	}
}

// Where there is nothing to check with, a write says nothing of it.
func TestAWriteWithoutACheckerIsSilentAboutIt(t *testing.T) {
	for name, chain := range map[string]toolchain.Toolchain{"no project": {}, "no checker": {Ecosystem: "make"}} {
		b := newBench(t, policy.Permissive(), func(e *Env) { e.Toolchain = chain })
		got, r := b.call("write_file", args("path", "f", "content", "x"))
		if strings.Contains(got, "check") || r.Failed || !r.Changed || len(b.ran) > 0 {
			t.Errorf("%s: %q, %+v, started %q", name, got, r, b.ran)
		}
	}
}
