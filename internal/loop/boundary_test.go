//go:build unix

package loop

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/trace"
)

// git runs git in a directory of the workspace, apart from the harness.
func (f *fixture) git(dir string, args ...string) string {
	f.t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		f.t.Skip("git is not installed")
	}
	args = append([]string{"-C", filepath.Join(f.dir, dir), "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)
	out, err := exec.Command("git", args...).CombinedOutput()
	if err != nil {
		f.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func yes(res *trace.Result) Resumption {
	return Resumption{Decision: &Decision{ID: res.Outcome.RequestID, Decision: approve.Approve()}}
}

func TestOneYesCarriesOutACallOfSeveralActs(t *testing.T) {
	f := newFixture(t, scripted.Call("git_add", map[string]any{"paths": []string{"a.txt"}}))
	f.host.Policy, f.host.Approver = policy.Default(), deferring
	f.write("a.txt", "x")
	f.git(".", "init", "-q")
	res := f.must(trace.AwaitingApproval)
	f.script(scripted.Say("done"))
	end, err := f.resume(res.RunID, yes(res))
	if err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	if got := f.git(".", "ls-files"); got != "a.txt\n" {
		t.Errorf("staged %q", got)
	}
}

func TestAnApprovedCallWaitsAgainForWhatIsAskedSince(t *testing.T) {
	f := newFixture(t, scripted.Call("git_add", map[string]any{"paths": []string{"a.txt"}}))
	f.host.Policy, f.host.Approver = policy.Default().Layer("t").AllowExec("git", "git *"), deferring
	f.write("a.txt", "x")
	f.git(".", "init", "-q")
	res := f.must(trace.AwaitingApproval)
	f.script(scripted.Say("done"))
	stricter := policy.Default()
	r := yes(res)
	r.Policy = &stricter
	again, err := f.resume(res.RunID, r)
	if err != nil || again.Outcome.Kind != trace.AwaitingApproval || again.Outcome.RequestID == res.Outcome.RequestID {
		t.Fatalf("%s, %v", again.Outcome, err)
	}
	if got := f.git(".", "ls-files"); got != "" {
		t.Fatalf("staged before the second yes: %q", got)
	}
	if plain, err := f.resume(res.RunID, Resumption{}); err != nil || plain.Outcome != again.Outcome {
		t.Fatalf("a resume without a word: %s, %v", plain.Outcome, err)
	}
	end, err := f.resume(res.RunID, yes(again))
	if err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	if got := f.git(".", "ls-files"); got != "a.txt\n" {
		t.Errorf("staged %q", got)
	}
}

func TestAnApprovalOfACommandIsBoundToTheScriptItRuns(t *testing.T) {
	for name, turn := range map[string]func(f *fixture) scripted.Turn{
		"by a path":           func(*fixture) scripted.Turn { return command("sh", "sub/run.sh") },
		"by its whole path":   func(f *fixture) scripted.Turn { return command("sh", filepath.Join(f.dir, "sub/run.sh")) },
		"behind a cd":         func(*fixture) scripted.Turn { return shellCall("cd sub && sh run.sh") },
		"as a command's food": func(*fixture) scripted.Turn { return shellCall("sh < sub/run.sh") },
	} {
		t.Run(name, func(t *testing.T) {
			for _, swapped := range []bool{false, true} {
				f := newFixture(t)
				f.script(turn(f))
				f.host.Policy, f.host.Approver = policy.Default(), deferring
				f.write("sub/run.sh", "echo fine > \"$PWD/log\"")
				res := f.must(trace.AwaitingApproval)
				if swapped {
					f.write("sub/run.sh", "echo evil > \"$PWD/log\"")
				}
				f.script(scripted.Say("done"))
				if _, err := f.resume(res.RunID, yes(res)); err != nil {
					t.Fatal(err)
				}
				var got string
				for _, at := range []string{"log", "sub/log"} {
					b, err := os.ReadFile(filepath.Join(f.dir, at))
					if err != nil && !errors.Is(err, os.ErrNotExist) {
						t.Fatal(err)
					}
					got += string(b)
				}
				if want := map[bool]string{false: "fine\n", true: ""}[swapped]; got != want {
					t.Errorf("swapped %t: what ran wrote %q, want %q", swapped, got, want)
				}
			}
		})
	}
}

func TestALineHidesNoDeniedProgramBehindALink(t *testing.T) {
	for name, turn := range map[string]scripted.Turn{
		"exec": command("./x", "hi"), "shell": shellCall("./x hi"), "shell behind a cd": shellCall("cd sub && ../x hi"),
		"left running": scripted.Call("shell_start", map[string]string{"line": "./x hi"}),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, turn, scripted.Say("done"))
			f.host.Policy = policy.Permissive().Layer("o").DenyExec("echo")
			f.write("sub/keep", "")
			program, err := exec.LookPath("echo")
			if err != nil {
				t.Skip("there is no echo program here")
			}
			if err := os.Symlink(program, filepath.Join(f.dir, "x")); err != nil {
				t.Fatal(err)
			}
			if res := f.must(trace.Finished); len(f.refusals(res.RunID)) != 1 {
				t.Error("the denied program ran")
			}
		})
	}
}

func TestACdTurnsNoRuleToAnotherProgram(t *testing.T) {
	for _, tc := range []struct {
		name string
		pol  policy.Policy
		line string
		runs bool
	}{
		{"an allowed one elsewhere", policy.Default().Layer("o").AllowExec("./build.sh"), "cd evil && ./build.sh", false},
		{"an allowed one by its path", policy.Default().Layer("o").AllowExec("./evil/build.sh"), "cd evil && ./build.sh", true},
		{"a denied one", policy.Permissive().Layer("o").DenyExec("evil/build.sh"), "cd evil && ./build.sh", false},
		{"a denied one with a dot", policy.Permissive().Layer("o").DenyExec("./evil/build.sh"), "cd evil && ./build.sh", false},
		{"a denied one from below", policy.Permissive().Layer("o").DenyExec("evil/build.sh"), "cd evil/deep && ../build.sh", false},
		{"nothing denied", policy.Permissive(), "cd evil && ./build.sh", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, shellCall(tc.line), scripted.Say("done"))
			f.host.Policy, f.host.Approver = tc.pol, approve.None
			f.write("evil/build.sh", "#!/bin/sh\necho 1 > \"${0%build.sh}ran\"\n")
			f.write("evil/deep/keep", "")
			if err := os.Chmod(filepath.Join(f.dir, "evil/build.sh"), 0o755); err != nil {
				t.Fatal(err)
			}
			f.must(trace.Finished)
			if _, err := os.Stat(filepath.Join(f.dir, "evil/ran")); (err == nil) != tc.runs {
				t.Errorf("it ran: %t", err == nil)
			}
		})
	}
}

func TestAddStartsNothingOfANestedRepository(t *testing.T) {
	f := newFixture(t, scripted.Call("git_add", map[string]any{"paths": []string{"."}}), scripted.Call("git_add", map[string]any{"paths": []string{"own"}}), scripted.Say("done"))
	f.host.Policy = policy.Permissive()
	f.write("sub/f", "one")
	f.write("sub/.gitattributes", "f filter=evil")
	f.write("own", "1")
	f.git("sub", "init", "-q")
	f.git(".", "init", "-q")
	f.git("sub", "add", ".")
	f.git("sub", "commit", "-qm", "x")
	f.git(".", "add", "sub")
	f.git(".", "commit", "-qm", "x")
	f.git("sub", "config", "filter.evil.clean", "touch ../ran; cat")
	f.write("sub/f", "two, and longer")
	f.must(trace.Finished)
	if _, err := os.Stat(filepath.Join(f.dir, "ran")); err == nil {
		t.Error("the nested repository's program ran")
	}
	if got := f.git(".", "diff", "--cached", "--name-only", "--ignore-submodules=all"); got != "own\n" {
		t.Errorf("staged %q: what is named by itself is staged", got)
	}
}
