//go:build unix

package loop

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

func TestAChangeOfAPlaceThatIsRunLaterIsPreventedOrNoticed(t *testing.T) {
	for _, tc := range []struct{ name, line, path string }{
		{"a hook that does not exist yet", "mkdir -p .git/hooks && printf 'echo owned' > .git/hooks/pre-commit", ".git/hooks/pre-commit"},
		{"the settings of a nested repository", "mkdir -p vendor/lib/.git && printf '[core]' >> vendor/lib/.git/config", "vendor/lib/.git/config"},
		{"the library's own configuration", "printf 'x' > io.toml", "io.toml"},
	} {
		for how, turns := range map[string][]scripted.Turn{
			"exec":              {command("sh", "-c", tc.line)},
			"shell":             {shellCall("sh -c \"" + tc.line + "\"")},
			"shell, two stages": {shellCall("echo x | sh -c \"" + tc.line + "\"; true")},
			"left running":      {startCall("sh -c \"" + tc.line + "; printf x > over; sleep 60\""), until("over")},
			"ended by itself":   {startCall("sh -c \"" + tc.line + "\""), pollCall(1), command("sleep", "0.3")},
		} {
			t.Run(tc.name+"/"+how, func(t *testing.T) {
				f := newFixture(t)
				f.write(".git/HEAD", "ref: refs/heads/main\n")
				m := f.script(append(turns, scripted.Say("done"))...)
				res := f.must(trace.Finished)
				if f.read(tc.path) == "" {
					return // this host prevents it
				}
				events, err := store.Collect(f.store.SandboxEvents(context.Background(), res.RunID))
				if err != nil {
					t.Fatal(err)
				}
				found := false
				for _, e := range events {
					found = found || e.Kind == "protected" && e.Detail == tc.path
				}
				if !found {
					t.Errorf("the change of %s is not on record: %+v", tc.path, events)
				}
				var told string
				for _, req := range m.Requests() {
					told += req.User
				}
				contains(t, "what the model is told", told, "[protected places]", tc.path)
			})
		}
	}
}

// What is left running when the run ends is looked after as well.
func TestAChangeByACommandThatTheEndOfTheRunKillsIsNoticed(t *testing.T) {
	f := newFixture(t)
	f.script(startCall("sh -c \"while [ ! -e go ]; do sleep 0.01; done; printf x > io.toml; printf x > over; sleep 60\""),
		func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
			f.write("go", "")
			for f.read("over") == "" && ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			return scripted.Say("done")(ctx, req)
		})
	res := f.must(trace.Finished)
	if f.read("io.toml") == "" {
		return // this host prevents it
	}
	events, err := store.Collect(f.store.SandboxEvents(context.Background(), res.RunID))
	if err != nil || !slices.ContainsFunc(events, func(e store.SandboxEvent) bool { return e.Kind == "protected" && e.Detail == "io.toml" }) {
		t.Errorf("the change is not on record: %+v, %v", events, err)
	}
}

// protectedRows are the changes of guarded places that are on record for a run.
func (f *fixture) protectedRows(id trace.RunID) (paths []string) {
	f.t.Helper()
	events, err := store.Collect(f.store.SandboxEvents(context.Background(), id))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == "protected" {
			paths = append(paths, e.Detail)
		}
	}
	return paths
}

func TestAChangeBetweenTwoDrivesOfARunIsNoticed(t *testing.T) {
	f := newFixture(t)
	f.write(".git/HEAD", "ref: refs/heads/main\n")
	f.write(".git/config", "[core]\n")
	f.script(command("true"))
	res := f.must(trace.StepCapReached, withSteps(1))
	f.write(".git/config", "[core]\n\tfsmonitor = ./evil\n")
	f.write("io.toml", "x")

	m := f.script(command("true"), scripted.Say("done"))
	more := f.contract(withSteps(5))
	end, err := f.resume(res.RunID, Resumption{Contract: &more})
	if err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("outcome %+v, %v", end, err)
	}
	if diff := cmp.Diff([]string{".git/config", "io.toml"}, f.protectedRows(res.RunID)); diff != "" {
		t.Errorf("on record (-want +got):\n%s", diff)
	}
	told := m.Requests()[1].User
	contains(t, "what the model is told", told, "Since this run was interrupted", ".git/config", "io.toml")
	if n := strings.Count(told, "[protected places]"); n != 1 {
		t.Errorf("it is told %d times", n)
	}

	t.Run("once", func(t *testing.T) {
		m := f.script(scripted.Say("done again"))
		if _, err := f.resume(res.RunID, Resumption{Contract: &more}); err == nil && len(m.Requests()) != 0 {
			t.Error("a finished run went on")
		}
		if got := f.protectedRows(res.RunID); len(got) != 2 {
			t.Errorf("on record: %q", got)
		}
	})
}

const guardedHostEnv = "GUARDED_TEST_HOST"

// TestHostOfACommandThatKillsIt is not a test: it is the harness of
// TestAChangeByACommandThatTakesTheHarnessWithItIsNoticed.
func TestHostOfACommandThatKillsIt(t *testing.T) {
	dir := os.Getenv(guardedHostEnv)
	if dir == "" {
		t.Skip("only as the child of another test")
	}
	st, err := store.Open(context.Background(), filepath.Join(dir, "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	h := Host{Provider: scripted.New(command("sh", "-c", "printf x > io.toml; kill -9 $PPID; sleep 5")), Store: st, Policy: open, Approver: approve.None}
	c := task.New("be killed", filepath.Join(dir, "work"))
	c.Sandbox.Mode = sandbox.FullAccess // a boundary would not let it
	_, err = Run(context.Background(), h, c, nil)
	t.Fatalf("the run ended: %v", err)
}

func TestAChangeByACommandThatTakesTheHarnessWithItIsNoticed(t *testing.T) {
	dir := t.TempDir()
	f := newFixture(t)
	f.dir = filepath.Join(dir, "work")
	f.write("a", "")
	cmd := exec.Command(os.Args[0], "-test.run=^TestHostOfACommandThatKillsIt$")
	cmd.Env = append(os.Environ(), guardedHostEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the harness was not killed: %v; it said: %s", err, out)
	}
	if f.read("io.toml") == "" {
		t.Fatal("the command did not get so far")
	}
	st, err := store.Open(context.Background(), filepath.Join(dir, "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	f.store, f.host.Store = st, st
	f.script(scripted.Say("done"))
	for range 100 { // until the lease of the dead process is found to be nobody's
		if _, err = f.resume(1, Resumption{}); !errors.Is(err, store.ErrConflict) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"io.toml"}, f.protectedRows(1)); diff != "" {
		t.Errorf("on record (-want +got):\n%s", diff)
	}
}

func TestAWorkspaceThatIsTooLargeToBeLookedThroughIsSaidOnce(t *testing.T) {
	f := newFixture(t)
	log := f.logged()
	d := f.started()
	d.guarded.look = func() ([]string, bool) { return nil, true }
	for range 2 {
		d.watchGuarded()
		d.noticeGuarded(1)
	}
	if err := d.lease.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	events, err := store.Collect(f.store.SandboxEvents(t.Context(), d.runID()))
	if err != nil || len(events) != 1 || events[0].Kind != "watch_partial" || strings.Count(log.String(), "more directories than are looked through") != 1 {
		t.Errorf("rows %+v, %v; log %s", events, err, log)
	}
	if err := d.lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}
