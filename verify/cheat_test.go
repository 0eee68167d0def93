package verify

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
)

// The ways in which a run may try to pass without doing the work. In each the
// project is one script that runs every t_*.sh and fails with the first.

const runner = `#!/bin/sh
for t in tests/t_*.sh; do
	. "./$t" || { echo "$t failed"; exit 1; }
done
echo PASS
`

func project(t *testing.T) (*bench, Criterion) {
	b := newBench(t)
	b.write("run.sh", runner)
	b.write("tests/t_one.sh", `test "$(cat answer)" = 42`+"\n")
	b.write("answer", "41")
	return b, b.prepare(Protect(Command("./run.sh"), "tests/*", "run.sh"))
}

func TestHonestWorkPasses(t *testing.T) {
	b, c := project(t)
	if v := b.fails(c, "exit status 1"); !strings.Contains(v.Output, "t_one.sh failed") {
		t.Errorf("output = %q, want the failing test", v.Output)
	}
	b.write("answer", "42")
	b.passes(c)
}

func TestChangingWhatJudgesFails(t *testing.T) {
	for _, tc := range []struct {
		name   string
		cheat  func(b *bench)
		reason string
	}{
		{"the test is edited", func(b *bench) { b.write("tests/t_one.sh", "true\n") }, "tests/t_one.sh was changed"},
		{"the test is deleted", func(b *bench) { b.remove("tests/t_one.sh"); b.write("answer", "42") }, "tests/t_one.sh was removed"},
		{"a test that exits 0 early is added", func(b *bench) { b.write("tests/t_a.sh", "exit 0\n") }, "tests/t_a.sh was added"},
		{"the test becomes a link to the same text", func(b *bench) {
			b.write("copy", `test "$(cat answer)" = 42`+"\n")
			b.remove("tests/t_one.sh")
			b.link("../copy", "tests/t_one.sh")
			b.write("answer", "42")
		}, "tests/t_one.sh was changed"},
		{"the whole directory becomes a link", func(b *bench) {
			b.write("mine/t_one.sh", "true\n")
			b.remove("tests/t_one.sh")
			b.remove("tests")
			b.link("mine", "tests")
		}, "tests/t_one.sh was removed"},
		{"the runner is replaced", func(b *bench) { b.write("run.sh", "#!/bin/sh\necho PASS\n") }, "run.sh was changed"},
		{"the runner is deleted", func(b *bench) { b.remove("run.sh") }, "run.sh was removed"},
		{"the runner's directory becomes a file", func(b *bench) {
			b.remove("tests/t_one.sh")
			b.remove("tests")
			b.write("tests", "")
			b.write("answer", "42")
		}, "tests/t_one.sh was removed"},
		{"a test is no longer executable", func(b *bench) { b.mode("tests/t_one.sh", 0o644) }, "tests/t_one.sh was changed"},
		{"a test in a new directory is added", func(b *bench) { b.write("tests/more/t_x.sh", "") }, "tests/more/t_x.sh was added"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, c := project(t)
			tc.cheat(b)
			v := b.fails(c, tc.reason)
			if len(v.Reasons) == 0 || !strings.Contains(v.Feedback(), tc.reason) {
				t.Errorf("reasons %q, feedback %q: want the file named to the model", v.Reasons, v.Feedback())
			}
			if len(b.spawned) != 0 {
				t.Errorf("started %q, want nothing: the judge cannot be trusted any more", b.spawned)
			}
		})
	}
}

func TestPuttingItBackMakesTheGateJudgeAgain(t *testing.T) {
	b, c := project(t)
	b.write("run.sh", "#!/bin/sh\n")
	b.fails(c, "run.sh was changed")
	b.write("run.sh", runner)
	b.write("answer", "42")
	b.passes(c)
}

func TestAFileSwappedWhileTheGateRunsFails(t *testing.T) {
	// The code under test rewrites the test that judges it, as something left
	// running by the run could.
	b := newBench(t)
	b.write("tests/t_one.sh", "true\n")
	b.write("go.sh", "#!/bin/sh\necho 'exit 0' >tests/t_one.sh\nexit 0\n")
	b.fails(b.prepare(Protect(Command("./go.sh"), "tests/*")), "tests/t_one.sh was changed")
}

func TestAProgramEarlierOnThePathDoesNotJudge(t *testing.T) {
	b := newBench(t)
	honest, evil := t.TempDir(), filepath.Join(b.root, "bin")
	put := func(dir, name, text string) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(honest, "judge", "#!/bin/sh\nexit 1\n")
	b.path = evil + ":" + honest + ":" + os.Getenv("PATH")
	c := b.prepare(Command("judge"))
	put(evil, "judge", "#!/bin/sh\nexit 0\n")
	b.fails(c, "exit status 1")
	if got := b.spawned[0][0]; got != filepath.Join(honest, "judge") {
		t.Errorf("started %s, want the program of the beginning", got)
	}
	t.Run("a program changed in place fails by name", func(t *testing.T) {
		put(honest, "judge", "#!/bin/sh\nexit 0\n")
		b.fails(c, "judge was changed during the run")
	})
	t.Run("a link that is turned elsewhere fails by name", func(t *testing.T) {
		if err := os.Symlink(filepath.Join(honest, "judge"), filepath.Join(honest, "linked")); err != nil {
			t.Fatal(err)
		}
		c := b.prepare(Command("linked"))
		if err := os.Remove(filepath.Join(honest, "linked")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/bin/true", filepath.Join(honest, "linked")); err != nil {
			t.Fatal(err)
		}
		b.fails(c, "linked was changed during the run")
	})
}

func TestABareNameThatAppearsInTheWorkspaceDoesNotJudge(t *testing.T) {
	b := newBench(t)
	b.path = filepath.Join(b.root, "bin")
	c := b.prepare(Command("judge"))
	b.write("bin/judge", "#!/bin/sh\nexit 0\n")
	err := b.errs(c)
	if !strings.Contains(err.Error(), "inside the workspace") || len(b.spawned) != 0 {
		t.Errorf("error = %v, started %q: want a refusal to run what the run made", err, b.spawned)
	}
	t.Run("a path may be built by the run", func(t *testing.T) {
		c := b.prepare(Command("./build/app"))
		b.write("build/app", "#!/bin/sh\nexit 0\n")
		b.passes(c)
	})
}

func TestTheGatesOwnScriptIsPinnedUnlessItIsTheTask(t *testing.T) {
	b := newBench(t)
	b.write("check.sh", "#!/bin/sh\nexit 1\n")
	pinned := b.prepare(Command("./check.sh"))
	free := b.prepare(Command("./check.sh").Unpinned())
	b.fails(pinned, "exit status 1")
	b.write("check.sh", "#!/bin/sh\nexit 0\n")
	b.fails(pinned, "check.sh was changed during the run")
	b.passes(free)
	b.remove("check.sh")
	b.fails(pinned, "check.sh was removed during the run")
	b.errs(free)
}

func TestACompiledProgramInTheWorkspaceMayBeBuiltAgain(t *testing.T) {
	b := newBench(t)
	binary, err := os.ReadFile("/bin/false")
	if err != nil {
		t.Skip("no /bin/false to stand for a compiled program: ", err)
	}
	b.write("app", "#!")
	put := func(data []byte) {
		b.remove("app")
		if err := os.WriteFile(filepath.Join(b.root, "app"), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(binary)
	c := b.prepare(Command("./app"))
	b.fails(c, "exit status 1")
	if binary, err = os.ReadFile("/bin/true"); err != nil {
		t.Skip("no /bin/true: ", err)
	}
	put(binary)
	b.passes(c)
}

func TestKillingTheCheckerIsNoPass(t *testing.T) {
	b := newBench(t)
	b.write("check.sh", "#!/bin/sh\n. ./subject\nexit 1\n")
	c := b.prepare(Command("./check.sh"))
	b.write("subject", "kill -9 $$\n")
	b.fails(c, "signal SIGKILL")
	b.write("subject", "echo 'exit status 0'; echo PASS; kill -TERM $PPID; kill -9 $$\n")
	if v := b.judge(c); v.Passed {
		t.Errorf("verdict = %+v, want no pass", v)
	}
}

func TestACrashIsNoWayToNewPins(t *testing.T) {
	b, c := project(t)
	stored, err := Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	b.write("tests/t_one.sh", "true\n")
	b.write("run.sh", "#!/bin/sh\n")
	back, err := Unmarshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	b.fails(b.prepare(back), "run.sh was changed; tests/t_one.sh was changed")
}

// Older software stored of a file its digest alone.
func TestFingerprintsOfOlderStoresHoldOn(t *testing.T) {
	b, c := project(t)
	stored, err := Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.NewReplacer(" program\"", "\"", " data\"", "\"").Replace(string(stored))
	if old == string(stored) {
		t.Fatalf("nothing is left out of %s", stored)
	}
	back, err := Unmarshal([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	b.write("answer", "42")
	b.passes(back)
	b.write("tests/t_one.sh", "true\n")
	b.fails(back, "tests/t_one.sh was changed")
}

func TestAPinnedScriptWhoseDirectoryIsGoneHasChanged(t *testing.T) {
	b := newBench(t)
	b.write("ci/judge.sh", "#!/bin/sh\nexit 1\n")
	c := b.prepare(Command("./ci/judge.sh"))
	b.remove("ci/judge.sh")
	b.remove("ci")
	b.write("ci", "a file")
	b.fails(c, "ci/judge.sh was removed during the run")
}

func TestProtectionNeedsThePreparationOfItsRun(t *testing.T) {
	b := newBench(t)
	err := b.errs(Protect(Command("true"), "*_test.go"))
	if !strings.Contains(err.Error(), "not prepared") {
		t.Errorf("error = %v, want one about the missing preparation", err)
	}
}

func TestProtectedGlobsMeanWhatThePolicyMakesOfThem(t *testing.T) {
	b := newBench(t)
	for _, f := range []string{"a_test.go", "deep/er/b_test.go", "go.mod", "sub/go.mod", "tests/x/y", "free.go"} {
		b.write(f, "1")
	}
	globs := []string{"*_test.go", "go.mod", "tests"}
	c := b.prepare(Protect(Command("true"), globs...))
	denied := policy.Permissive().DenyWrite(ProtectedGlobs(c)...)
	for _, f := range []string{"a_test.go", "deep/er/b_test.go", "go.mod", "sub/go.mod", "tests/x/y", "free.go"} {
		b.write(f, "2")
		v := b.judge(c)
		if want := denied.Check(policy.Need{Act: policy.Write, Target: f}).Effect == policy.Deny; v.Passed == want {
			t.Errorf("%s: gate passed %v, policy denies %v: they must agree", f, v.Passed, want)
		}
		b.write(f, "1")
	}
	b.passes(c)
	nested := All(Contains("a", "b"), Protect(Protect(Command("true"), "x", "y"), "y", "z"))
	if got := ProtectedGlobs(nested); !slices.Equal(got, []string{"y", "z", "x"}) {
		t.Errorf("ProtectedGlobs = %q, want each once", got)
	}
}

func TestTooManyProtectedFilesAreRefusedAtTheStartAndTamperingLater(t *testing.T) {
	b := newBench(t)
	b.write("big/a", strings.Repeat("x", 1000))
	c := b.prepare(Protect(Command("true"), "big/*"))
	if err := os.Truncate(filepath.Join(b.root, "big", "a"), MaxProtectedBytes+1); err != nil {
		t.Fatal(err)
	}
	_, err := Prepare(context.Background(), Protect(Command("true"), "big/*"), b.env())
	if err == nil || !strings.Contains(err.Error(), "name fewer files") {
		t.Errorf("Prepare = %v, want a refusal that says what to do", err)
	}
	b.fails(c, "added during the run")
}

func TestOnlyTheFirstTamperedFilesAreNamed(t *testing.T) {
	b := newBench(t)
	b.write("tests/a", "")
	c := b.prepare(Protect(Command("true"), "tests/*"))
	for _, r := range "abcdefghijklmnopqrstuvwxyz" {
		b.write("tests/new_"+string(r), "")
	}
	if v := b.fails(c, "and 6 more"); len(v.Reasons) != shownTampered+1 {
		t.Errorf("%d reasons, want %d and a count", len(v.Reasons), shownTampered)
	}
}
