//go:build unix

package builtin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
)

// shellBench is a bench whose tools may run command lines.
type shellBench struct {
	*bench
	mu      sync.Mutex
	started [][]string // argv of every stage
	outside string     // a directory beside the workspace
}

// startedBy is a line whose commands are started by a function.
type startedBy func(ctx context.Context, cmd sandbox.Cmd) (*sandbox.Process, error)

func (l startedBy) begin(tool.Call, string, bool) Line { return l }

func (l startedBy) Start(ctx context.Context, cmd sandbox.Cmd) (*sandbox.Process, error) {
	return l(ctx, cmd)
}

func (startedBy) Ended(*sandbox.Result) {}

func (startedBy) Refused(*policy.RefusedError) {}

func (startedBy) Over(sandbox.Cap) {}

func newShellBench(t *testing.T, p policy.Policy, change ...func(*Env)) *shellBench {
	t.Helper()
	b := &shellBench{bench: newBench(t, p), outside: t.TempDir()}
	b.env.Begin = startedBy(func(ctx context.Context, cmd sandbox.Cmd) (*sandbox.Process, error) {
		b.mu.Lock()
		b.started = append(b.started, cmd.Argv)
		b.mu.Unlock()
		return sandbox.Start(ctx, cmd, sandbox.Profile{Workspace: b.root, Mode: b.env.Mode})
	}).begin
	for _, c := range change {
		c(&b.env)
	}
	return b
}

func (b *shellBench) shell(line string) (string, tool.Result) {
	b.t.Helper()
	return b.call("shell", args("line", line))
}

// programs makes small programs in the workspace, of text that sh reads.
func (b *shellBench) program(name, script string) {
	b.t.Helper()
	b.write(name, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(filepath.Join(b.root, name), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

func TestALineIsRun(t *testing.T) {
	b := newShellBench(t, policy.Permissive())
	b.write("in.txt", "b\na\n")
	b.write("sub/there.txt", "there\n")
	b.program("both", "echo out; echo err >&2")
	b.program("sub/here", "pwd -P")
	for _, tc := range []struct {
		line     string
		decision string
		wants    []string
	}{
		{"echo hello", "shell exit 0", []string{"hello", "exit 0"}},
		{"echo a; echo b", "shell exit 0", []string{"a\nb"}},
		{"sort in.txt | head -n 1", "shell exit 0", []string{"\na\n"}},
		{"sort < in.txt", "shell exit 0", []string{"a\nb"}},
		{"false && echo never; false || echo yes", "shell exit 0", []string{"yes", "3 of 4 commands ran, the operators skipped the rest", "[false: exit 1]"}},
		{"true || echo never", "shell exit 0", []string{"1 of 2 commands ran"}},
		{"true && false", "shell exit 1", []string{"exit 1"}},
		{"false; true", "shell exit 0", []string{"[false: exit 1]"}},
		{"false | true", "shell exit 0", []string{"[false: exit 1]"}},
		{"true | false", "shell exit 1", []string{"exit 1"}},
		{"sh -c 'exit 7'", "shell exit 7", []string{"exit 7"}},
		{"sh -c 'kill -9 $$'", "shell (signal)", []string{"SIGKILL"}},
		{"./both", "shell exit 0", []string{"out\nerr"}},
		{"./both 2>&1 | cat", "shell exit 0", []string{"out\nerr"}},
		{"./both 2>/dev/null", "shell exit 0", []string{"\nout\n"}},
		{"./both | cat > /dev/null", "shell exit 0", []string{"err"}},
		{"cd sub && ./here", "shell exit 0", []string{"/sub"}},
		{"cd sub; cat there.txt; cd; cat in.txt", "shell exit 0", []string{"there\nb\na"}},
		{"cd sub/.. && cat in.txt", "shell exit 0", []string{"b\na"}},
		{"cd nope", "shell exit 1", []string{"cd: nope: no such directory"}},
		{"cd nope; cat x", "shell exit 1", []string{"nope: no such directory"}},
		{"cd sub | cat there.txt", "shell exit 0", []string{"cd does nothing in a pipeline", "there"}},
		{"cat missing.txt > /dev/null 2>&1 || echo gone", "shell exit 0", []string{"gone"}},
		{"cat < missing.txt", "shell exit 1", []string{"shell: missing.txt:"}},
		{"echo x > nodir/f", "shell exit 1", []string{"shell: nodir/f:"}},
		{"echo early; no-such-program-here; echo late", "shell command unavailable", []string{"early", `"no-such-program-here" is not on this machine`, "1 of 3 commands ran, the rest was not run"}},
		{"./in.txt", "shell exit 126", []string{"shell: ./in.txt:", "0 of 1 commands ran, 1 could not be started"}},
		{"cat < missing.txt | cat", "shell exit 0", []string{"1 of 2 commands ran, 1 could not be started", "[cat: exit 1]"}},
		{"cat < missing.txt && echo never", "shell exit 1", []string{"0 of 2 commands ran, 1 could not be started, the operators skipped the rest"}},
		{"cat in.txt | no-such-program-here", "shell command unavailable", []string{"0 of 2 commands ran, the rest was not run"}},
		{"printf '%s|' 'a  b' '$x' '*' \"c\\\"d\"", "shell exit 0", []string{`a  b|$x|*|c"d|`}},
		{"cat < /dev/null", "shell exit 0", []string{"(no output)"}},
		{"echo '" + strings.Repeat("x", 400) + "' > /dev/null", "shell exit 0", []string{"xxx…"}},
	} {
		text, res := b.shell(tc.line)
		if res.Decision != tc.decision {
			t.Errorf("%q: decision %q, want %q: %s", within(tc.line, 60), res.Decision, tc.decision, text)
		}
		wantHas(t, text, tc.wants...)
		wantLacks(t, text, "\nnever", "\nlate")
	}
}

func TestRedirectsWriteWhereTheyStand(t *testing.T) {
	b := newShellBench(t, policy.Permissive())
	b.program("both", "echo out; echo err >&2")
	for _, tc := range []struct {
		line string
		want map[string]string
	}{
		{"./both > f 2>&1", map[string]string{"f": "out\nerr\n"}},
		{"./both 2>&1 > g", map[string]string{"g": "out\n"}},
		{"./both 2> e > o", map[string]string{"e": "err\n", "o": "out\n"}},
		{"echo 1 > a; echo 2 >> a; echo 3 >> a", map[string]string{"a": "1\n2\n3\n"}},
		{"echo lost > x > y", map[string]string{"x": "", "y": "lost\n"}},
		{"echo keep > p | cat > q", map[string]string{"p": "keep\n", "q": ""}},
		{"> r echo front", map[string]string{"r": "front\n"}},
		{"cd nope; echo 1 > s", map[string]string{}},
		{"echo A > " + filepath.Join(b.root, "abs"), map[string]string{"abs": "A\n"}},
		{"mkdir -p d/e && cd d && echo 1 > e/f && cd .. && echo 2 > h", map[string]string{"d/e/f": "1\n", "h": "2\n"}},
		{"./both 2> v | cat > w", map[string]string{"v": "err\n", "w": "out\n"}},
	} {
		text, _ := b.shell(tc.line)
		for rel, want := range tc.want {
			if got := b.read(rel); got != want {
				t.Errorf("%q: %s holds %q, want %q: %s", tc.line, rel, got, want, text)
			}
		}
	}
	if b.exists("s") || b.exists("nope") {
		t.Error("a redirect in a directory that is not there made a file")
	}
}

func TestOneRefusedPartKeepsTheWholeLineFromRunning(t *testing.T) {
	p := policy.Default().Layer("test").AllowRead("*").AllowWrite("*").DenyWrite("locked/*").DenyRead("hidden").AllowExec("echo *", "cat *", "git", "git log*", "mkdir*", "true").DenyExec("curl*", "rm").AskExec("make*")
	b := newShellBench(t, p)
	b.write("hidden/k", "secret")
	b.write("locked/f", "kept")
	for _, tc := range []struct{ line, want string }{
		{"echo x > made; rm -r build", "gate: exec rm"},
		{"echo x > made | curl x", "gate: exec curl"},
		{"echo x > made && cat < hidden/k", "gate: read hidden/k"},
		{"cd hidden", "gate: read hidden"},
		{"cd hidden && cat k > made", "gate: read hidden"},
		{"echo x > made; echo y > locked/f", "gate: write locked/f"},
		{"echo x > made; echo y >> locked/../locked/f", "gate: write locked/f"},
		{"echo x > made; cd locked && echo y > f", "gate: write locked/f"},
		{"echo x > made; echo y > ../out", "gate: write ../out"},
		{"echo x > made; cd .. && echo y > out", "gate: read .."},
		{"echo x > made; cd a/../..", "gate: read .."},
		{"echo x > made; echo y > " + filepath.Join(b.outside, "out"), "gate: write " + b.outside},
		{"echo x > made; cat < /etc/passwd", "gate: read /etc/passwd"},
		{"git log > made\nrm -r build", "gate: exec rm"},
		{"git log & rm -r build", "background"},
		{"git log > ../x", "gate: write ../x"},
		{"mkdir a && rm -r b", "gate: exec rm"},
		{"mkdir a; rm -r b", "gate: exec rm"},
		{"/bin/rm x", "gate: exec /bin/rm"},
		{"echo x > made; RM x", "gate: exec RM"},
		{"echo x > made; echo $(id)", "command-substitution"},
		{"echo x > made; echo y > .git", `write of ".git" refused`},
		{"echo x > made; cd a; echo y > ../.git", `write of ".git" refused`},
		{"cd a b", "cd-arguments"},
		{"cd -P a", "cd-arguments"},
		{"echo x > made/", "redirect-to-directory"},
		{"echo x > .", "redirect-to-directory"},
	} {
		b.asked = nil
		text, _ := b.shell(tc.line)
		if !strings.Contains(text, tc.want) {
			t.Errorf("%q: %q, want %q", tc.line, text, tc.want)
		}
		if b.exists("made") || b.exists("a") {
			t.Errorf("%q: something happened before it was refused", tc.line)
			_ = os.Remove(filepath.Join(b.root, "made"))
		}
	}
	if len(b.started) > 0 {
		t.Errorf("%v was started", b.started)
	}
	b.shell("echo a; make x | make y")
	if len(b.asked) != 2 {
		t.Errorf("asked about %v, want both makes", b.asked)
	}
	if got := b.read("locked/f"); got != "kept" {
		t.Errorf("locked/f holds %q", got)
	}
}

func TestALineThatIsTooLongIsRefusedBeforeAnybodyIsAsked(t *testing.T) {
	p := policy.Default().Layer("test").DenyExec("curl*")
	b := newShellBench(t, p)
	for _, tc := range []struct{ name, line, want string }{
		{"31 commands", strings.Repeat("true;", 30) + "curl x", "over-long-line"},
		{"30 commands, the last denied", strings.Repeat("true;", 29) + "curl x", "gate: exec curl"},
		{"9,000 characters", strings.Repeat("x", 9000), "over-long-line"},
	} {
		b.asked = nil
		text, _ := b.shell(tc.line)
		wantHas(t, text, tc.want)
		if len(b.started) > 0 {
			t.Errorf("%s: something was started", tc.name)
		}
		if tc.want == "over-long-line" && len(b.asked) > 0 {
			t.Errorf("%s: somebody was asked", tc.name)
		}
	}
}

func TestRedirectsNeverLeaveTheWorkspace(t *testing.T) {
	b := newShellBench(t, policy.Permissive())
	rc := filepath.Join(b.outside, "rc")
	reset := func() {
		if err := os.WriteFile(rc, []byte("kept"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	reset()
	for name, target := range map[string]string{"leaf": rc, "dir": b.outside, "dangling": filepath.Join(b.outside, "new"), "up": ".."} {
		if err := os.Symlink(target, filepath.Join(b.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(rc, filepath.Join(b.root, "hard")); err != nil {
		t.Skipf("no hard links here: %v", err)
	}
	lines := []string{
		"echo x > leaf", "echo x >> leaf", "echo x > dir/rc", "echo x > dir/new", "echo x > dangling", "echo x > up/x",
		"echo x > hard", "echo x >> hard", "echo x 2> leaf", "cat < leaf", "cat < dir/rc", "cd dir && echo x > new",
		"cd dir && touch new", "cd up && touch new", "cd .. && touch x",
		// The link is made by the line itself, after the line was judged.
		"ln -s " + b.outside + " late && echo x > late/new", "ln -s " + rc + " late2; echo x > late2", "ln -s " + rc + " late3; cat < late3",
		"mkdir d && rmdir d && ln -s " + b.outside + " d && cd d && touch new",
	}
	if host, err := sandbox.Probe(t.Context()); err == nil && host.Rung().ConfinesWrites() {
		// Here the program itself tries, from a directory that it was given.
		lines = append(lines, "sh -c 'echo x > "+rc+"'", "mkdir -p sub && cd sub && sh -c 'touch "+b.outside+"/new'", "ln -s "+b.outside+" e; sh -c 'cd e && touch new'")
	}
	for _, line := range lines {
		text, _ := b.shell(line)
		if strings.Contains(text, "kept") {
			t.Errorf("%q read the file outside: %s", line, text)
		}
		if got, err := os.ReadFile(rc); string(got) != "kept" {
			t.Errorf("%q changed the file outside: %q, %v", line, got, err)
			reset()
		}
		if names, _ := os.ReadDir(b.outside); len(names) != 1 {
			t.Errorf("%q made something outside: %v", line, names)
		}
	}
	if got := b.read("hard"); got != "x\nx\n" {
		t.Errorf("the file with another name holds %q", got)
	}
}

func TestUnderReadOnlyARedirectMayNotWriteEither(t *testing.T) {
	b := newShellBench(t, policy.Permissive(), func(e *Env) { e.Mode = sandbox.ReadOnly })
	b.write("in", "text")
	for _, line := range []string{"echo x > f", "echo x >> in", "cat in 2> f", "cat in | cat > f"} {
		text, res := b.shell(line)
		wantHas(t, text, "read-only")
		if res.Decision != "shell refused: read-only" || len(b.started) > 0 {
			t.Errorf("%q: decision %q, started %v", line, res.Decision, b.started)
		}
	}
	text, _ := b.shell("cat < in > /dev/null 2>&1; cat in")
	wantHas(t, text, "text", "exit 0")
	if b.read("in") != "text" || b.exists("f") {
		t.Error("something was written")
	}
}

func TestPipelinesOfAnySizeEnd(t *testing.T) {
	b := newShellBench(t, policy.Permissive())
	const size = 10 << 20
	b.write("big", strings.Repeat("0123456789abcde\n", size/16))
	for _, tc := range []struct{ line, want string }{
		{"cat big | cat | cat | cat | wc -c", strconv.Itoa(size)},
		{"cat big | tee copy | cat 2>&1 | cat | cmp - big", "exit 0"},
		{"yes | head -n 1", "\ny\n"},
		{"cat big | head -c 3 | cat | cat | cat", "012"},
		{"cat big | true", "exit 0"},
		{"cat big | sh -c 'exec <&-; exit 3'", "exit 3"},
		{"cat big | cat < /dev/null", "(no output)"},
		{"cat big", "characters left out"},
		{"sh -c 'cat big >&2'", "characters left out"},
		{"cat big > /dev/null | wc -c", "\n0\n"},
		{"sh -c 'sleep 300 & echo up'", "up"},
		{"sh -c 'sleep 300 & echo up' | cat", "up"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		text, _ := b.callCtx(ctx, "shell", args("line", tc.line))
		cancel()
		if !strings.Contains(strings.ReplaceAll(text, "       ", ""), tc.want) {
			t.Errorf("%q: %s", tc.line, within(text, 400))
		}
		if n := runes(text); n > DefaultEntryCap+100 {
			t.Errorf("%q: the answer has %d characters", tc.line, n)
		}
	}
}

func TestALineHasOneClockAndKeepsWhatItPrinted(t *testing.T) {
	b := newShellBench(t, policy.Permissive(), func(e *Env) { e.ExecTimeout = 300 * time.Millisecond })
	text, res := b.shell("echo early; sleep 300 | cat; echo late")
	wantHas(t, text, "early", "timed out")
	wantLacks(t, text, "\nlate")
	if res.Decision != "shell timed out" {
		t.Errorf("decision %q", res.Decision)
	}
}

func TestACancelledLineLeavesNothing(t *testing.T) {
	b := newShellBench(t, policy.Permissive())
	ctx, cancel := context.WithCancel(t.Context())
	b.program("mark", "touch started; sleep 300")
	done := make(chan string)
	go func() {
		text, _ := b.callCtx(ctx, "shell", args("line", "./mark | cat | cat"))
		done <- text
	}()
	waitFor(t, func() bool { return b.exists("started") })
	cancel()
	select {
	case text := <-done:
		wantHas(t, text, "error: context canceled")
	case <-time.After(10 * time.Second):
		t.Fatal("the line goes on after its context ended")
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("waited in vain")
}

func TestALineWithoutItsArgumentIsNoRefusal(t *testing.T) {
	b := newShellBench(t, policy.Permissive())
	for _, a := range []string{`{}`, `{"line":""}`, `{"line":" "}`, `{"line":7}`, `{"line":["a"]}`} {
		text, _ := b.call("shell", a)
		if !strings.HasPrefix(text, "arguments:") && !strings.HasPrefix(text, "needs:") {
			t.Errorf("%s: %s", a, text)
		}
	}
}

func TestARequiredBoundaryThatCannotBeHadStopsTheLine(t *testing.T) {
	b := newShellBench(t, policy.Permissive())
	n := 0
	b.env.Begin = startedBy(func(ctx context.Context, cmd sandbox.Cmd) (*sandbox.Process, error) {
		if n++; n == 2 {
			return nil, &sandbox.Error{Kind: sandbox.ErrRequired, Op: "choose rung", Program: cmd.Argv[0], Err: errors.New("writes cannot be confined")}
		}
		return sandbox.Start(ctx, cmd, sandbox.Profile{Workspace: b.root})
	}).begin
	text, res := b.shell("sleep 300 | cat | cat; echo late > f")
	wantHas(t, text, "writes cannot be confined", "1 of 4 commands ran, the rest was not run")
	if n != 2 || b.exists("f") || res.Decision != "shell failed to start" {
		t.Errorf("decision %q: %s", res.Decision, text)
	}
}

func TestNoDescriptorOfTheHarnessReachesAStage(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("no /proc here")
	}
	b := newShellBench(t, policy.Permissive())
	text, _ := b.shell("cat < /dev/null | sh -c 'ls /proc/$$/fd' | cat")
	for _, fd := range strings.Fields(text) {
		if n, err := strconv.Atoi(fd); err == nil && n > 2 && n < 200 && !strings.Contains(text, fmt.Sprintf("characters %d", n)) {
			t.Errorf("descriptor %d is open in a stage: %s", n, text)
		}
	}
}
