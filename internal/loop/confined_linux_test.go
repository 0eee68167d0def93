package loop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/toolchain"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// confines skips a test where commands cannot be confined.
func confines(t *testing.T) {
	t.Helper()
	if h, err := sandbox.Probe(t.Context()); err != nil || !h.Rung().ConfinesWrites() {
		t.Skipf("this host confines no writes: %v", err)
	}
}

// told are the facts of the boundary that a watcher was told of.
func (f *fixture) told() []trace.Contained {
	var out []trace.Contained
	for _, ev := range f.seen.all {
		if c, ok := ev.Fact.(trace.Contained); ok {
			out = append(out, c)
		}
	}
	return out
}

func TestACommandIsConfinedWithoutAWordOfTheCaller(t *testing.T) {
	confines(t)
	outside := scratch(t)
	script := "echo x > in; echo x > " + outside + "/out; true"
	f := newFixture(t, command("sh", "-c", script), scripted.Say("done"))
	res := f.must(trace.Finished)
	if names, _ := os.ReadDir(outside); len(names) != 0 || f.read("in") == "" {
		t.Errorf("outside there is %v, inside %q", names, f.read("in"))
	}
	if told := f.told(); len(told) != 1 || told[0].Mode != "workspace-write" || told[0].Roots != 1 || told[0].Egress != "none" || !sandbox.Rung(told[0].Backend).ConfinesWrites() {
		t.Errorf("told of %+v", told)
	}
	if rows := f.contained(res.RunID); len(rows) != 3 {
		t.Errorf("rows %v", rows)
	}

	// The same under full access: it lands, and nothing is said to be contained or
	// narrowed.
	f = newFixture(t, command("sh", "-c", script), scripted.Call("git_status", nil), scripted.Say("done"))
	f.git(".", "init", "-q")
	f.host.Policy = open.Layer("git").AllowExec("git")
	res = f.must(trace.Finished, func(c *task.Contract) { c.Sandbox.Mode = sandbox.FullAccess })
	if names, _ := os.ReadDir(outside); len(names) != 1 {
		t.Errorf("outside there is %v", names)
	}
	if told := f.told(); len(told) != 1 || told[0] != (trace.Contained{Mode: "full-access", Backend: "none", Egress: "open"}) {
		t.Errorf("told of %+v", told)
	}
	if rows := f.contained(res.RunID); len(rows) != 0 {
		t.Errorf("rows %v", rows)
	}
}

// The caches of the project's toolchain can be written by its commands and by its
// gate, and those of another cannot.
func TestTheCachesOfTheToolchainAreGranted(t *testing.T) {
	confines(t)
	for _, marker := range []string{"go.mod", "Makefile", ""} {
		t.Run("marked by "+marker, func(t *testing.T) {
			cache := scratch(t)
			t.Setenv("GOCACHE", filepath.Join(cache, "build"))
			t.Setenv("GOMODCACHE", filepath.Join(cache, "mod"))
			for _, d := range []string{"build", "mod"} {
				if err := os.Mkdir(filepath.Join(cache, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			f := newFixture(t, command("sh", "-c", `echo x > "$GOCACHE/exec"; echo x > "$GOMODCACHE/exec"; true`))
			if marker != "" {
				f.write(marker, "module m\n")
			}
			if _, err := f.run(withSteps(1), gate(verify.Command("sh", "-c", `echo x > "$GOCACHE/gate"`))); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"build/exec", "mod/exec", "build/gate"} {
				_, err := os.Stat(filepath.Join(cache, name))
				if made := err == nil; made != (marker == "go.mod") {
					t.Errorf("%s was made: %v", name, made)
				}
			}
		})
	}
}

func TestEveryStageOfWhatIsLeftRunningIsConfined(t *testing.T) {
	confines(t)
	outside := scratch(t)
	stage := func(n string) string {
		return "sh -c 'echo x > in" + n + "; echo x > " + outside + "/out" + n + "; cat'"
	}
	f := newFixture(t, startCall("echo x | "+stage("1")+" | "+stage("2")+"; sh -c 'touch over'"), until("over"), scripted.Say("done"))
	f.must(trace.Finished)
	if names, _ := os.ReadDir(outside); len(names) != 0 {
		t.Errorf("written outside: %v", names)
	}
	if f.read("in1") == "" || f.read("in2") == "" {
		t.Error("a stage could not write in the workspace")
	}
}

// A ceiling on processor time ends a handle, and one on the wall clock ends the
// command beside it and leaves the handle alone.
func TestTheCeilingsOfWhatIsLeftRunning(t *testing.T) {
	f := newFixture(t)
	f.script(startCall("sh -c 'while :; do :; done'"),
		func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
			dead(t, f.handles(1)[0].PIDs...) // it ends by itself
			return command("true")(ctx, req)
		},
		command("sleep", "0.2"), pollCall(1), scripted.Say("done"))
	res := f.must(trace.Finished, noStall, func(c *task.Contract) { c.Sandbox.Limits.CPU = 200 * time.Millisecond })
	if rows := f.handles(res.RunID); len(rows) != 1 || rows[0].State != store.HandleExited || rows[0].Code != nil {
		t.Errorf("rows %+v", rows)
	}
	if rows := strings.Join(f.contained(res.RunID), "\n"); !strings.Contains(rows, "cap_hit cpu") {
		t.Errorf("rows %s", rows)
	}

	f = newFixture(t)
	m := f.script(startCall("sh -c 'echo up; touch up; sleep 300'"), until("up"), command("sleep", "300"), pollCall(1), killCall(1), scripted.Say("done"))
	res = f.must(trace.Finished, noStall, func(c *task.Contract) { c.Sandbox.Limits.Wall = 900 * time.Millisecond })
	contains(t, "the results", resultsOf(m), "wall ceiling", "shell_poll handle 1: running", "shell_kill handle 1: killed")
	if rows := f.handles(res.RunID); len(rows) != 1 || rows[0].State != store.HandleKilled || rows[0].Reason != "shell_kill" {
		t.Errorf("rows %+v", rows)
	}
}

// A process that has lost its parent, its group and its session dies with the rest.
func TestAKillReachesAProcessThatWasLeftByItsParents(t *testing.T) {
	f := newFixture(t)
	f.write("tree.sh", "setsid sh -c 'sh leaf.sh & exit 0' &\nwhile [ ! -s leaf ]; do sleep 0.01; done\ntouch up\nsleep 300\n")
	f.write("leaf.sh", "echo $$ > leaf\nsleep 300\necho late > late\n")
	f.script(startCall("sh tree.sh"), until("up"), killCall(1), scripted.Say("done"))
	f.must(trace.Finished)
	dead(t, f.numbers("leaf")...)
}

// A recorded process may have ended long ago, and its number may be a stranger's.
func TestAResumeLeavesTheRecordedProcessesAlone(t *testing.T) {
	decoy := exec.Command("sleep", "300")
	if err := decoy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = decoy.Process.Kill(); _ = decoy.Wait() }()
	f := newFixture(t)
	d := f.started()
	ctx := context.Background()
	for range 3 {
		n, err := f.store.StartHandle(ctx, d.lease, 1, "sleep 300")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.store.SetHandlePIDs(ctx, d.lease, n, []int{decoy.Process.Pid}); err != nil {
			t.Fatal(err)
		}
	}
	code := 0
	if _, err := f.store.EndHandle(ctx, d.lease, 3, store.HandleExited, &code, ""); err != nil {
		t.Fatal(err)
	}
	id := d.runID()
	if err := d.lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	m := f.script(pollCall(1), killCall(1), killCall(2), killCall(3), startCall("sleep 300"), scripted.Say("done"))
	if res, err := f.resume(id, Resumption{}); err != nil || res.Outcome.Kind != trace.Finished {
		t.Fatalf("%v, %v", res, err)
	}
	contains(t, "the results", resultsOf(m), "shell_poll handle 1: orphaned", "handle 1 is orphaned", "handle 2 is orphaned", "shell_kill handle 3: it had ended already: exited 0", "shell_start handle 4: running")
	var states []string
	for _, r := range f.handles(id) {
		states = append(states, fmt.Sprint(r.Handle, " ", r.State))
	}
	same(t, "handles", states, []string{"1 orphaned", "2 orphaned", "3 exited", "4 killed"})
	if f.seen.count("handle_orphaned") != 2 {
		t.Errorf("events %v", f.seen.kinds())
	}
	if !lives(decoy.Process.Pid) {
		t.Error("the stranger was signalled")
	}
}

// What the caller states for the toolchain is what the model is told of it.
func TestAnOverrideOfTheToolchainIsToldToTheModel(t *testing.T) {
	f := newFixture(t)
	f.write("go.mod", "module m\n")
	m := f.script(scripted.Say("done"))
	f.must(trace.Finished, func(c *task.Contract) {
		c.Toolchain = toolchain.Overrides{"go": {Test: []string{"task", "unit"}, Lint: []string{}}, "make": {Test: []string{"never"}}}
	})
	req := m.Requests()[0]
	said := strings.Join(req.System, "\n") + req.User
	contains(t, "the request", said, "test: task unit", "build: go build ./...")
	if strings.Contains(said, "lint:") || strings.Contains(said, "never") {
		t.Errorf("the request tells of a command that there is not:\n%s", said)
	}
}
