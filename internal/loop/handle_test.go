//go:build unix

package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

func startCall(line string) scripted.Turn {
	return scripted.Call("shell_start", map[string]string{"line": line})
}

func pollCall(n int) scripted.Turn { return scripted.Call("shell_poll", map[string]int{"handle": n}) }

func killCall(n int) scripted.Turn { return scripted.Call("shell_kill", map[string]int{"handle": n}) }

// until waits inside the run for a file that a handle makes.
func until(file string) scripted.Turn {
	return command("sh", "-c", "i=0; while [ ! -e "+file+" ] && [ $i -lt 500 ]; do i=$((i+1)); sleep 0.01; done")
}

// patient lets a run poll as often as it wants, and use programs that are not in
// every test's policy.
func (f *fixture) patient() {
	f.host.Policy = open.Layer("handles").AllowExec("touch *", "cat")
}

func noStall(c *task.Contract) { c.Stall.Window = -1 }

func (f *fixture) handles(id trace.RunID) []store.ProcessHandle {
	f.t.Helper()
	rows, err := f.store.ProcessHandles(context.Background(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return rows
}

// dead demands that nothing of the recorded processes lives.
func dead(t *testing.T, pids ...int) {
	t.Helper()
	if len(pids) == 0 {
		t.Error("no process was recorded")
	}
	for _, pid := range pids {
		for range 500 {
			if !lives(pid) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if lives(pid) {
			t.Errorf("process %d lives", pid)
			testkit.EndIn(pid, filepath.Dir(t.TempDir())) // that of all directories of this test
		}
	}
}

func lives(pid int) bool {
	if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		// Whoever waits for the dead of a killed harness may be late.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || !bytes.Contains(stat, []byte(") Z "))
	}
	return false
}

// numbers are the process ids that a line wrote into a file, one a line.
func (f *fixture) numbers(name string) []int {
	f.t.Helper()
	var out []int
	for _, w := range strings.Fields(f.read(name)) {
		n, err := strconv.Atoi(w)
		if err != nil {
			f.t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// treeLine is two stages with a grandchild; all of them write their process
// ids into the file pids.
const treeLine = `sh -c 'sleep 300 & echo $! >> pids; echo $! > first; echo $$ >> pids; echo up; touch up; wait' | sh -c 'echo $$ >> pids; cat'`

func TestALineIsLeftRunningPolledAndKilled(t *testing.T) {
	f := newFixture(t)
	f.patient()
	m := f.script(
		startCall(treeLine), until("up"), scripted.Call("exec", map[string]any{"argv": []string{"sh", "-c", "sleep 0.3"}}),
		pollCall(1), pollCall(1), killCall(1), pollCall(1), killCall(1), scripted.Say("done"))
	res := f.must(trace.Finished, noStall, withSteps(30))
	results := resultsOf(m)
	contains(t, "the results", results, "shell_start handle 1: running", "shell_poll handle 1: running]\nup\n", "shell_poll handle 1: running]\n(no new output)",
		"shell_kill handle 1: killed", "shell_poll handle 1: killed", "it had ended already: killed")
	if n := strings.Count(results, "]\nup\n"); n != 1 {
		t.Errorf("the output is told %d times, want once", n)
	}
	dead(t, f.numbers("pids")...)
	rows := f.handles(res.RunID)
	if len(rows) != 1 || rows[0].State != store.HandleKilled || rows[0].Line != treeLine || len(rows[0].PIDs) == 0 || rows[0].Reason != "shell_kill" {
		t.Errorf("rows %+v", rows)
	}
	if out, err := f.store.OutputOf(context.Background(), res.RunID, 1); out != "up\n" || err != nil {
		t.Errorf("stored output %q, %v", out, err)
	}
	var kinds []string
	for _, k := range f.seen.kinds() {
		if strings.HasPrefix(k, "handle_") {
			kinds = append(kinds, k)
		}
	}
	want := []string{"handle_started", "handle_polled", "handle_polled", "handle_killed", "handle_polled"}
	if !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
	destroyed := 0
	for e, err := range f.store.SandboxEvents(context.Background(), res.RunID) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == "destroy" && e.Detail == "shell_start handle 1" {
			destroyed++
		}
	}
	if destroyed != 1 {
		t.Errorf("%d destroy rows, want one", destroyed)
	}
}

func TestWhatIsLeftRunningEndsWithTheRunHoweverItEnds(t *testing.T) {
	started := []scripted.Turn{startCall(treeLine), until("up")}
	crash := errors.New("the disk is gone")
	for _, tc := range []struct {
		name   string
		turns  []scripted.Turn
		change func(*fixture)
		steps  int
		want   trace.OutcomeKind
	}{
		{"an answer", []scripted.Turn{scripted.Say("done")}, nil, 10, trace.Finished},
		{"the step cap", nil, nil, 2, trace.StepCapReached},
		{"a pause for a person", []scripted.Turn{command("make", "all")}, func(f *fixture) {
			f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Decision{}, nil })
		}, 10, trace.AwaitingApproval},
		{"a watcher that cancels", []scripted.Turn{scripted.Say("done")}, func(f *fixture) { f.seen.stop = "handle_started" }, 10, trace.Cancelled},
		{"a provider that fails", []scripted.Turn{scripted.Fail(crash)}, nil, 10, trace.EscalatedTerminal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			turns := slices.Concat(started, tc.turns)
			f.script(turns...)
			if tc.change != nil {
				tc.change(f)
			}
			res, err := f.run(withSteps(tc.steps), quick)
			if res.Outcome.Kind != tc.want {
				t.Fatalf("outcome %s, %v, want %s", res.Outcome, err, tc.want)
			}
			rows := f.handles(res.RunID)
			if len(rows) != 1 || rows[0].State != store.HandleKilled || rows[0].Reason != "run ended" || rows[0].EndedAt.IsZero() {
				t.Errorf("rows %+v", rows)
			}
			dead(t, rows[0].PIDs...)
			if f.seen.count("handle_killed") != 1 {
				t.Errorf("events %v", f.seen.kinds())
			}
			if kinds := f.seen.kinds(); kinds[len(kinds)-1] != "finished" {
				t.Errorf("the last event is %s", kinds[len(kinds)-1])
			}
		})
	}
}

func TestWhatIsLeftRunningEndsWithACancelledContext(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(context.Background())
	f.model(&stopper{Provider: scripted.New(startCall(treeLine), until("up")), after: 2, stop: cancel})
	res, err := Run(ctx, f.host, f.contract(), nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("outcome %s, %v", res.Outcome, err)
	}
	rows := f.handles(res.RunID)
	if len(rows) != 1 || rows[0].State != store.HandleKilled {
		t.Fatalf("rows %+v", rows)
	}
	dead(t, rows[0].PIDs...)
	dead(t, f.numbers("pids")...)
}

// stopper does something in place of the answer that comes after some others.
type stopper struct {
	provider.Provider
	after int
	stop  func()
}

func (s *stopper) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	if s.after == 0 {
		s.stop()
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	s.after--
	return s.Provider.Complete(ctx, req, on)
}

func (s *stopper) ModelHint() string { return provider.ModelHint(s.Provider) }

func TestWhatIsLeftRunningEndsWithAPanic(t *testing.T) {
	f := newFixture(t)
	f.script(startCall(treeLine), until("up"), command("echo", "last"), scripted.Say("done"))
	f.host.Clock = func() time.Time {
		if f.seen.count("step") == 3 {
			panic("in the loop")
		}
		return time.Now()
	}
	if _, err := f.run(); err == nil || !strings.Contains(err.Error(), "in the loop") {
		t.Errorf("the loop did not panic: %v", err)
	}
	rows := f.handles(1)
	if len(rows) != 1 || rows[0].State != store.HandleKilled {
		t.Errorf("rows %+v", rows)
	}
	dead(t, f.numbers("pids")...)
}

func TestWhatEndsByItselfIsRecordedAtTheNextStep(t *testing.T) {
	f := newFixture(t)
	f.patient()
	m := f.script(
		startCall("sh -c 'while [ ! -e go ]; do sleep 0.01; done; echo bye; touch gone; exit 3'"), command("sh", "-c", "touch go"), until("gone"), command("sleep", "0.3"), pollCall(1),
		startCall("sh -c 'touch last; kill -9 $$'"), until("last"), command("sleep", "0.3"), killCall(2), scripted.Say("done"))
	res := f.must(trace.Finished, noStall, withSteps(30))
	rows := f.handles(res.RunID)
	if len(rows) != 2 || rows[0].State != store.HandleExited || rows[0].Code == nil || *rows[0].Code != 3 {
		t.Errorf("rows %+v", rows)
	}
	if len(rows) == 2 && (rows[1].State != store.HandleExited || rows[1].Code != nil || !strings.Contains(rows[1].Reason, "SIGKILL")) {
		t.Errorf("row %+v", rows[1])
	}
	contains(t, "the results", resultsOf(m), "shell_poll handle 1: exited 3]\nbye", "shell_kill handle 2: it had ended already: ended without an exit code (killed by signal SIGKILL)")
	if f.seen.count("handle_exited") != 2 || f.seen.count("handle_killed") != 0 {
		t.Errorf("events %v", f.seen.kinds())
	}
}

func TestThereAreAtMostEightAtOneTime(t *testing.T) {
	f := newFixture(t)
	f.patient()
	var turns []scripted.Turn
	for range 9 {
		turns = append(turns, startCall("sleep 300"))
	}
	turns = append(turns, startCall("sleep 300 $x"), killCall(3), startCall("sleep 300"), scripted.Say("done"))
	m := f.script(turns...)
	res := f.must(trace.Finished, noStall, withSteps(30))
	contains(t, "the results", resultsOf(m), "8 commands are running already", "shell_start refused", "parameter-expansion", "shell_start handle 9: running")
	rows := f.handles(res.RunID)
	if len(rows) != 9 {
		t.Errorf("%d handles, want the 8 and the one in the place of the third", len(rows))
	}
	for _, r := range rows {
		if r.State != store.HandleKilled {
			t.Errorf("handle %d is %s", r.Handle, r.State)
		}
		dead(t, r.PIDs...)
	}
}

func TestARefusedLineIsNotLeftRunning(t *testing.T) {
	f := newFixture(t)
	m := f.script(
		startCall("echo x > made; cat < hidden/k"), startCall("sleep 300 &"), startCall("echo x > made; cd .."), startCall("no-such-program-here"),
		startCall("cat < missing"), pollCall(7), killCall(0), scripted.Call("shell_poll", map[string]string{"handle": "x"}), scripted.Call("shell_kill", map[string]any{}), scripted.Say("done"))
	f.host.Policy = open.Layer("more").AllowExec("no-such-program-here", "cat")
	res := f.must(trace.Finished, noStall, withSteps(30))
	if f.read("made") != "" {
		t.Error("a part of a refused line ran")
	}
	steps := f.steps(res.RunID)
	for i, want := range []string{
		"read refused", "shell_start refused: background", "read refused", "shell_start handle 1", "shell_start handle 2",
		"shell_poll unknown handle 7", "shell_kill missing handle", "shell_poll refused: bad arguments", "shell_kill refused: bad arguments",
	} {
		if steps[i].Decision != want {
			t.Errorf("step %d: decision %q, want %q", i+1, steps[i].Decision, want)
		}
	}
	contains(t, "the results", resultsOf(m), `"no-such-program-here" is not on this machine`, "missing", "there is no handle 7")
	if rows := f.handles(res.RunID); len(rows) != 2 || rows[0].State != store.HandleExited || rows[1].Code == nil || *rows[1].Code != 1 {
		t.Errorf("rows %+v", rows)
	}
}

func TestAllOutputIsStoredInOrder(t *testing.T) {
	f := newFixture(t)
	f.patient()
	var turns []scripted.Turn
	turns = append(turns, startCall(`sh -c 'i=0; while [ $i -lt 500 ]; do i=$((i+1)); echo "line $i — é"; done; touch all'`))
	turns = append(turns, pollCall(1), pollCall(1), until("all"), command("sleep", "0.2"), pollCall(1), pollCall(1), scripted.Say("done"))
	f.script(turns...)
	res := f.must(trace.Finished, noStall, withSteps(30))
	out, err := f.store.OutputOf(context.Background(), res.RunID, 1)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range 500 {
		fmt.Fprintf(&want, "line %d — é\n", i+1)
	}
	if out != want.String() {
		t.Errorf("%d bytes stored, want %d", len(out), want.Len())
	}
}

func TestWhatIsLeftRunningHasNoClock(t *testing.T) {
	f := newFixture(t)
	f.patient()
	f.script(startCall("sleep 0.4; touch over"), scripted.Say("done").After(900*time.Millisecond))
	res := f.must(trace.Finished, func(c *task.Contract) {
		c.Sandbox.Limits.Wall = 100 * time.Millisecond
		c.ExecTimeout = 100 * time.Millisecond
	})
	if rows := f.handles(res.RunID); len(rows) != 1 || rows[0].Code == nil || *rows[0].Code != 0 {
		t.Errorf("rows %+v", rows)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "over")); err != nil {
		t.Error("it was ended before it was done")
	}
}

const hostEnv = "HANDLE_TEST_HOST"

// TestHostOfHandles is not a test: it is the harness that
// TestWhatIsLeftRunningDiesWithAKilledHarness kills.
func TestHostOfHandles(t *testing.T) {
	dir := os.Getenv(hostEnv)
	if dir == "" {
		t.Skip("only as the child of another test")
	}
	st, err := store.Open(context.Background(), filepath.Join(dir, "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work")
	h := Host{Provider: scripted.New(startCall(treeLine), until("up"), command("sh", "-c", "touch ready; sleep 300")), Store: st, Policy: open, Approver: approve.None}
	_, err = Run(context.Background(), h, task.New("be killed", work), nil)
	t.Fatalf("the run ended: %v", err)
}

// TestNextHost is not a test: it is a harness that starts after another was
// killed.
func TestNextHost(t *testing.T) {
	if os.Getenv(hostEnv) == "" {
		t.Skip("only as the child of another test")
	}
	if _, err := sandbox.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// handlesIn are the handles of the first run in a store that nobody holds.
func (f *fixture) handlesIn(file string) []store.ProcessHandle {
	f.t.Helper()
	st, err := store.Open(context.Background(), file)
	if err != nil {
		f.t.Fatal(err)
	}
	defer st.Close()
	rows, err := st.ProcessHandles(context.Background(), 1)
	if err != nil {
		f.t.Fatal(err)
	}
	return rows
}

func TestWhatIsLeftRunningDiesWithAKilledHarness(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this system does not end a command with the process that started it")
	}
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestHostOfHandles$")
	cmd.Env = append(os.Environ(), hostEnv+"="+dir)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if _, err := os.Stat(filepath.Join(work, "ready")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	f := newFixture(t)
	f.dir = work
	pids := f.numbers("pids")
	if len(pids) != 3 {
		t.Fatalf("processes %v; the harness said: %s", pids, said.String())
	}
	rows := f.handlesIn(filepath.Join(dir, "runs.db"))
	if len(rows) != 1 || rows[0].State != store.HandleRunning || len(rows[0].PIDs) == 0 {
		t.Fatalf("the killed harness left %+v", rows)
	}
	grandchild := f.numbers("first")[0]
	dead(t, slices.DeleteFunc(slices.Clone(pids), func(p int) bool { return p == grandchild })...)
	if host, err := sandbox.Probe(t.Context()); err == nil && host.Cgroup.Works {
		// What the programs had started dies when a harness starts again.
		next := exec.Command(os.Args[0], "-test.run=^TestNextHost$")
		next.Env = append(os.Environ(), hostEnv+"="+dir)
		if out, err := next.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		dead(t, pids...)
	} else {
		testkit.EndIn(grandchild, dir)
	}

	// The run is taken up again: the handle is lost, and told so; its number is not
	// used again.
	st, err := store.Open(context.Background(), filepath.Join(dir, "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	f.store, f.host.Store = st, st
	m := f.script(pollCall(1), killCall(1), startCall("sleep 300"), killCall(2), scripted.Say("done"))
	var res *trace.Result
	for range 100 { // until the lease of the dead process is found to be nobody's
		if res, err = f.resume(1, Resumption{}); !errors.Is(err, store.ErrConflict) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("outcome %v, %v", res, err)
	}
	contains(t, "the results", resultsOf(m), "shell_poll handle 1: orphaned", "shell_kill refused", "handle 1 is orphaned", "shell_start handle 2: running", "shell_kill handle 2: killed")
	rows = f.handles(1)
	if len(rows) != 2 || rows[0].State != store.HandleOrphaned || !strings.Contains(rows[0].Reason, "earlier process") || rows[1].State != store.HandleKilled {
		t.Errorf("rows %+v", rows)
	}
	if f.seen.count("handle_orphaned") != 1 {
		t.Errorf("events %v", f.seen.kinds())
	}
}

func TestTheEndOfARunLetsALineEndByItself(t *testing.T) {
	f := newFixture(t)
	f.patient()
	f.script(startCall(`sh -c 'trap "echo tidied > tidy; exit 0" TERM; touch up; while :; do sleep 0.02; done'`), until("up"), scripted.Say("done"))
	res := f.must(trace.Finished, func(c *task.Contract) { c.KillGrace = time.Minute })
	rows := f.handles(res.RunID)
	if len(rows) != 1 || rows[0].State != store.HandleExited || rows[0].Code == nil || *rows[0].Code != 0 || f.read("tidy") != "tidied\n" {
		t.Errorf("rows %+v, tidy %q", rows, f.read("tidy"))
	}
	for _, bad := range []time.Duration{-1, task.MaxKillGrace + 1} {
		if _, err := f.run(func(c *task.Contract) { c.KillGrace = bad }); !errors.Is(err, task.ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
