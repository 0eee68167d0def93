package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
)

func TestACommandPassesOnItsExitStatusAlone(t *testing.T) {
	b := newBench(t)
	for _, tc := range []struct {
		name   string
		script string
		want   int
		passed bool
		detail string
	}{
		{"zero where zero is wanted", "exit 0", 0, true, "exit status 0"},
		{"one where zero is wanted", "exit 1", 0, false, "exit status 1, expected exit status 0"},
		{"three where three is wanted", "exit 3", 3, true, "exit status 3"},
		{"zero where three is wanted", "exit 0", 3, false, "exit status 0, expected exit status 3"},
		{"a printed pass is not a pass", "echo PASS; echo ok; exit 1", 0, false, "exit status 1"},
		{"a printed failure is not a failure", "echo FAIL >&2", 0, true, "exit status 0"},
		{"killed by SIGKILL where 137 is wanted", "kill -9 $$", 137, false, "signal SIGKILL"},
		{"killed by SIGTERM where 143 is wanted", "kill -15 $$", 143, false, "signal SIGTERM"},
		{"killed where -1 is wanted", "kill -9 $$", -1, false, "signal SIGKILL"},
		{"an exit status 137 of its own", "exit 137", 137, true, "exit status 137"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := b.judge(Command("sh", "-c", tc.script).ExpectExit(tc.want))
			if v.Passed != tc.passed || !strings.Contains(v.Detail, tc.detail) {
				t.Errorf("verdict = %+v, want passed %v with %q", v, tc.passed, tc.detail)
			}
			if v.Phase != PhaseCommand || v.TellModel == tc.passed {
				t.Errorf("phase %q, told %v, want command, told only of a failure", v.Phase, v.TellModel)
			}
			if (v.Exit == nil) != (v.Signal != "") {
				t.Errorf("exit %v and signal %q, want exactly one of them", v.Exit, v.Signal)
			}
		})
	}
}

func TestACommandRunsInTheRoot(t *testing.T) {
	b := newBench(t)
	b.write("marker", "")
	b.passes(Command("test", "-f", "marker"))
}

func TestNoShellReadsTheArguments(t *testing.T) {
	b := newBench(t)
	b.write("x", "still here")
	b.write("show.sh", "#!/bin/sh\nprintf '%s\\n' \"$@\" >seen\n")
	args := []string{"; rm -rf x", "$(rm x)", "`rm x`", "*", "a && rm x", "", "two words"}
	b.passes(Command(append([]string{"./show.sh"}, args...)...))
	got, err := os.ReadFile(filepath.Join(b.root, "seen"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Join(args, "\n")+"\n", string(got)); d != "" {
		t.Errorf("arguments (-want +got):\n%s", d)
	}
	if _, err := os.Stat(filepath.Join(b.root, "x")); err != nil {
		t.Error(err)
	}
}

func TestWhatThePolicyDoesNotAllowOutrightIsNotStarted(t *testing.T) {
	allow := policy.Default().Layer("app").AllowExec("true*")
	for _, tc := range []struct {
		name        string
		pol         policy.Policy
		rule, layer string
		asks        bool
	}{
		{"no rule, and the default asks", policy.Default(), "", "", true},
		{"no rule, and the default denies", policy.Policy{}, "", "", false},
		{"an ask rule over an allow", allow.Layer("team").AskExec("true"), "true", "team", true},
		{"a deny rule of the whole line over an allow", allow.Layer("team").DenyExec("true --all*"), "true --all*", "team", false},
		{"an allow of another command", policy.Default().Layer("app").AllowExec("false*"), "", "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			b.pol = tc.pol
			err := b.errs(Command("true", "--all", "x"))
			var refused *policy.RefusedError
			if !errors.As(err, &refused) || !errors.Is(err, policy.ErrRefused) {
				t.Fatalf("error = %v, want a refusal", err)
			}
			if refused.Rule != tc.rule || refused.Layer != tc.layer || refused.Asks != tc.asks {
				t.Errorf("refused by %+v, want rule %q of layer %q, asks %v", refused, tc.rule, tc.layer, tc.asks)
			}
			if len(b.spawned) != 0 {
				t.Errorf("started %q, want nothing", b.spawned)
			}
			if d := cmp.Diff([]string{"true --all x"}, b.asked); d != "" {
				t.Errorf("asked about (-want +got):\n%s", d)
			}
		})
	}
	t.Run("an allow of the line admits it", func(t *testing.T) {
		b := newBench(t)
		b.pol = allow
		b.passes(Command("true", "--all", "x"))
		if len(b.spawned) != 1 || !filepath.IsAbs(b.spawned[0][0]) {
			t.Errorf("started %q, want one command by the path that was resolved", b.spawned)
		}
	})
}

func TestWhatCannotBeStartedIsAnErrorAndNotAFailure(t *testing.T) {
	b := newBench(t)
	b.write("not-executable", "text")
	if err := os.Chmod(filepath.Join(b.root, "not-executable"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		argv string
		is   error
		says string
	}{
		{"a program that is nowhere", "no-such-program-here", sandbox.ErrMissing, "no-such-program-here"},
		{"a path that does not exist", "./build/app", sandbox.ErrMissing, "./build/app"},
		{"a file that is not executable", "./not-executable", fs.ErrPermission, "not-executable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := b.errs(Command(tc.argv))
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error = %v, want %v naming %q", err, tc.is, tc.says)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error has more than one line: %q", err)
			}
		})
	}
	t.Run("the sandbox cannot be made", func(t *testing.T) {
		env := b.env()
		broken := &sandbox.Error{Kind: sandbox.ErrApparatus, Op: "start", Rung: sandbox.RungBubblewrap}
		env.Run = func(context.Context, sandbox.Cmd) (*sandbox.Result, error) { return nil, broken }
		_, err := Evaluate(context.Background(), Command("true"), env)
		if !errors.Is(err, sandbox.ErrApparatus) {
			t.Errorf("error = %v, want that of the sandbox", err)
		}
	})
	t.Run("an environment without its parts", func(t *testing.T) {
		full := b.env()
		for name, env := range map[string]Env{
			"Resolve": {Root: b.root, Admit: full.Admit, Run: full.Run},
			"Admit":   {Root: b.root, Resolve: full.Resolve, Run: full.Run},
			"Run":     {Root: b.root, Resolve: full.Resolve, Admit: full.Admit},
		} {
			_, err := Evaluate(context.Background(), Command("true"), env)
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("without %s: error = %v, want one that names it", name, err)
			}
		}
	})
}

func TestACeilingNeverPasses(t *testing.T) {
	b := newBench(t)
	b.profile.Limits.Wall = 300 * time.Millisecond
	for _, want := range []int{0, 137, -1} {
		v := b.fails(Command("sh", "-c", "echo begun; sleep 60").ExpectExit(want), "stopped by the wall limit")
		if v.Cap != "wall" || v.Exit != nil {
			t.Errorf("verdict = %+v, want the cap wall and no exit status", v)
		}
		if !strings.Contains(v.Output, "begun") {
			t.Errorf("output = %q, want what was printed before the end", v.Output)
		}
	}
}

func TestAProcessLeftBehindDoesNotHoldTheGate(t *testing.T) {
	// A child that holds the output open outlives its parent's exit.
	b := newBench(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	v, err := Evaluate(ctx, Command("sh", "-c", "sleep 300 & exit 0"), b.env())
	if err != nil {
		t.Fatalf("Evaluate: %v: the gate waited for a process that the command left", err)
	}
	if !v.Passed {
		t.Errorf("verdict = %+v, want a pass: the command itself exited with 0", v)
	}
}

func TestAnEndedContextIsAnError(t *testing.T) {
	b := newBench(t)
	why := errors.New("the operator said stop")
	for _, tc := range []struct {
		name  string
		begin func(context.Context) (context.Context, func())
		is    error
	}{
		{"cancelled before it begins", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(why)
			return ctx, func() {}
		}, why},
		{"a deadline in the middle", func(ctx context.Context) (context.Context, func()) {
			return context.WithTimeout(ctx, 200*time.Millisecond)
		}, context.DeadlineExceeded},
		{"cancelled in the middle", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			timer := time.AfterFunc(200*time.Millisecond, func() { cancel(why) })
			return ctx, func() { timer.Stop(); cancel(nil) }
		}, why},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, stop := tc.begin(context.Background())
			defer stop()
			v, err := Evaluate(ctx, Command("sleep", "60"), b.env())
			if !errors.Is(err, tc.is) || !errors.Is(err, ctx.Err()) {
				t.Errorf("error = %v, want %v and the error of the context", err, tc.is)
			}
			if v.Passed || v.Phase != PhaseCommand {
				t.Errorf("verdict = %+v, want none, of the phase command", v)
			}
		})
	}
}

func TestOutputIsBoundedWithHeadAndTail(t *testing.T) {
	b := newBench(t)
	v := b.judge(Command("sh", "-c", `echo first line; yes "filler é" | head -c 3000000; echo; echo last line; echo on stderr >&2; exit 1`))
	if n := utf8.RuneCountInString(v.Output); n > MaxOutput || n < MaxOutput/2 {
		t.Errorf("output has %d characters, want at most %d and most of that", n, MaxOutput)
	}
	if !strings.HasPrefix(v.Output, "first line") || !strings.HasSuffix(v.Output, "last line\non stderr") {
		t.Errorf("output does not keep its head and tail: %q … %q", v.Output[:40], v.Output[len(v.Output)-40:])
	}
	if !strings.Contains(v.Output, "left out") {
		t.Error("output does not say that something is missing")
	}
	fb := v.Feedback()
	if n := utf8.RuneCountInString(fb); n > MaxOutput {
		t.Errorf("feedback has %d characters, want at most %d", n, MaxOutput)
	}
	if n := strings.Count(fb, "\n") + 1; n > MaxFeedbackLines {
		t.Errorf("feedback has %d lines, want at most %d", n, MaxFeedbackLines)
	}
	if !strings.HasSuffix(fb, "on stderr") || !strings.Contains(fb, "exit status 1") {
		t.Errorf("feedback does not hold the status and the tail: %q", fb)
	}
}

func TestOutputThatIsNotTextIsReplaced(t *testing.T) {
	b := newBench(t)
	v := b.judge(Command("sh", "-c", `printf 'a\377b \033[31mred'; exit 1`))
	if !utf8.ValidString(v.Output) || !strings.HasPrefix(v.Output, "a\uFFFDb") {
		t.Errorf("output = %q, want valid text with the bad byte replaced", v.Output)
	}
}

func TestFeedbackSaysOnlyWhatIsToBeTold(t *testing.T) {
	b := newBench(t)
	quiet := b.judge(Command("sh", "-c", "exit 4"))
	if got := quiet.Feedback(); !strings.Contains(got, "exit status 4") || strings.Contains(got, "output:") {
		t.Errorf("feedback of a silent failure = %q, want the status and no output", got)
	}
	if got := b.judge(Command("echo", "fine")).Feedback(); got != "" {
		t.Errorf("feedback of a pass = %q, want nothing", got)
	}
	b.write("a.txt", "no")
	if got := b.judge(Contains("a.txt", "yes")).Feedback(); got != "" {
		t.Errorf("feedback of a content check = %q, want nothing beyond the criterion", got)
	}
	again := b.judge(Command("sh", "-c", "exit 4"))
	if quiet.Feedback() != again.Feedback() {
		t.Error("the same failure is told in two ways, so that it cannot be left out the second time")
	}
	long := Verdict{Phase: PhaseCommand, TellModel: true, Detail: strings.Repeat("d ", 9000)}
	if n := utf8.RuneCountInString(long.Feedback()); n > MaxOutput {
		t.Errorf("feedback of a long detail has %d characters", n)
	}
}

func TestCredentialsDoNotReachTheCommand(t *testing.T) {
	t.Setenv("OPENROUTER_API_KEY", "sk-very-secret")
	b := newBench(t)
	b.passes(Command("sh", "-c", `test -z "$OPENROUTER_API_KEY"`))
}

func TestTheDescriptionNamesWhatIsChecked(t *testing.T) {
	got := Command("go", "test", "-run", "a b", "./...").ExpectExit(2).Describe()
	for _, want := range []string{`go test -run "a b" ./...`, "status 2"} {
		if !strings.Contains(got, want) {
			t.Errorf("description %q does not have %q", got, want)
		}
	}
}

func TestAFloodOfOutputTakesLittleMemory(t *testing.T) {
	const flood = 200 << 20
	b := newBench(t)
	b.profile.Limits.Wall = time.Minute
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := b.fails(Command("sh", "-c", fmt.Sprintf("echo first line; head -c %d /dev/zero | tr '\\0' x; echo; echo last line; exit 1", flood)), "exit status 1")
	runtime.ReadMemStats(&after)
	// All that was ever allocated counts, whether it was freed or not.
	if n := after.TotalAlloc - before.TotalAlloc; n > flood/10 {
		t.Errorf("%d MiB were allocated for %d MiB of output", n>>20, flood>>20)
	}
	if n := utf8.RuneCountInString(v.Output); n > MaxOutput || !strings.HasPrefix(v.Output, "first line") || !strings.HasSuffix(v.Output, "last line") {
		t.Errorf("%d characters of output: %.40q … want at most %d with head and tail", n, v.Output, MaxOutput)
	}
}

func TestWhatThePolicyWillNotAllowIsKnownBeforeTheWork(t *testing.T) {
	b := newBench(t)
	b.pol = policy.Default().Layer("app").AllowExec("true*")
	b.write("a.sh", "#!/bin/sh\n")
	for name, tc := range map[string]struct {
		c       Criterion
		refused string
	}{
		"no criterion":             {nil, ""},
		"no command":               {Contains("a", "b"), ""},
		"an allowed command":       {Command("true", "x"), ""},
		"one that would be asked":  {Command("./a.sh", "x"), "./a.sh x"},
		"one behind others":        {All(Contains("a", "b"), Protect(Command("./a.sh"), "x")), "./a.sh"},
		"a program that is to be":  {Command("./to-be"), ""},
		"one that may be replaced": {Command("./a.sh").Unpinned(), "./a.sh"},
	} {
		err := Admissible(t.Context(), b.prepare(tc.c), b.env())
		var refused *policy.RefusedError
		var erred *GateError
		switch {
		case tc.refused == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.refused != "" && (!errors.As(err, &refused) || !errors.As(err, &erred) || refused.Target != tc.refused):
			t.Errorf("%s: %v, want a refusal of %q", name, err, tc.refused)
		}
	}
	if len(b.spawned) != 0 {
		t.Errorf("started %q", b.spawned)
	}
	if err := Admissible(t.Context(), b.prepare(Command("true")), Env{}); err == nil {
		t.Error("nobody could be asked, and that was no error")
	}
}
