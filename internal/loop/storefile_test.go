//go:build unix

package loop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// storeIn puts the record of the fixture's runs at a path.
func (f *fixture) storeIn(path string) {
	f.t.Helper()
	st, err := store.Open(context.Background(), path)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := st.Close(); err != nil {
			f.t.Error(err)
		}
	})
	f.store, f.host.Store = st, st
}

// logged is what the drive says to its operator.
func (f *fixture) logged() *bytes.Buffer {
	var b bytes.Buffer
	f.host.Log = slog.New(slog.NewTextHandler(&b, nil))
	return &b
}

func TestToolsAreRefusedTheRunsOwnRecord(t *testing.T) {
	f := newFixture(t,
		scripted.Call("write_file", map[string]any{"path": "sub/runs.db", "content": "x"}),
		scripted.Call("write_file", map[string]any{"path": "sub/runs.db-wal", "content": "x"}),
		shellCall("echo x >> sub/runs.db"),
		scripted.Call("write_file", map[string]any{"path": "sub/mine.db", "content": "x"}),
		scripted.Say("done"))
	f.write("sub/keep", "")
	f.storeIn(filepath.Join(f.dir, "sub", "runs.db"))
	res := f.must(trace.Finished)
	rows := f.refusals(res.RunID)
	if len(rows) != 3 {
		t.Fatalf("refusals %v, want three", rowText(rows))
	}
	for _, r := range rows {
		if r.Layer != layerStore {
			t.Errorf("refused by %q in %q", r.Rule, r.Layer)
		}
	}
	if f.read("sub/mine.db") != "x" {
		t.Error("a file beside the record could not be written")
	}
}

func TestAStoreThatCommandsCanWriteIsWarnedOfOrRefused(t *testing.T) {
	confining, err := sandbox.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		at      func(f *fixture) string
		change  func(p *sandbox.Profile)
		exposed bool
	}{
		"in the workspace":           {func(f *fixture) string { return filepath.Join(f.dir, "runs.db") }, nil, true},
		"in a granted directory":     {func(f *fixture) string { return filepath.Join(t.TempDir(), "g", "runs.db") }, nil, true},
		"elsewhere":                  {func(*fixture) string { return filepath.Join(scratch(t), "runs.db") }, nil, false},
		"in memory":                  {func(*fixture) string { return "" }, nil, false},
		"nothing writes there":       {func(f *fixture) string { return filepath.Join(f.dir, "runs.db") }, func(p *sandbox.Profile) { p.Mode = sandbox.ReadOnly }, false},
		"in the shared temporary":    {func(*fixture) string { return filepath.Join(t.TempDir(), "runs.db") }, func(p *sandbox.Profile) { p.SharedTemp = true }, true},
		"commands are not contained": {func(f *fixture) string { return filepath.Join(f.dir, "runs.db") }, func(p *sandbox.Profile) { p.Mode = sandbox.FullAccess }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, scripted.Say("done"))
			log := f.logged()
			change := func(c *task.Contract) {
				if tc.change != nil {
					tc.change(&c.Sandbox)
				}
			}
			switch path := tc.at(f); {
			case path == "":
				st, err := store.Memory(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer st.Close()
				f.store, f.host.Store = st, st
			case strings.Contains(path, "/g/"):
				f.write("../g/keep", "")
				dir := filepath.Join(filepath.Dir(f.dir), "g")
				f.storeIn(filepath.Join(dir, "runs.db"))
				change = func(c *task.Contract) { c.Sandbox.Writable = []string{dir} }
			default:
				f.storeIn(path)
			}
			f.must(trace.Finished, change)
			if warned := strings.Contains(log.String(), "store lies in"); warned != tc.exposed {
				t.Errorf("warned: %v, want %v\n%s", warned, tc.exposed, log)
			}
			runs := f.runs()
			f.script(scripted.Say("done"))
			_, err := f.run(change, func(c *task.Contract) { c.Sandbox.Require.Writes = true })
			switch {
			case tc.exposed:
				if !errors.Is(err, sandbox.ErrRequired) || !strings.Contains(err.Error(), "runs.db") || f.runs() != runs {
					t.Errorf("demanding that writes are confined: %v, %d new runs", err, f.runs()-runs)
				}
			case name != "commands are not contained" && confining.Rung().ConfinesWrites() && err != nil:
				t.Errorf("demanding that writes are confined: %v", err)
			}
		})
	}
}

// A rung that works with mounts keeps the record even in the workspace.
func TestAMountKeepsTheRecordFromCommands(t *testing.T) {
	f := newFixture(t, command("sh", "-c", "rm -f runs.db runs.db-wal; echo x >> runs.db; mv runs.db taken; echo tried > tried"), scripted.Say("done"))
	f.storeIn(filepath.Join(f.dir, "runs.db"))
	shim := func(c *task.Contract) { c.Sandbox.Shim = sandbox.ShimRequired }
	if _, err := sandbox.Plan(t.Context(), sandbox.Profile{Workspace: f.dir, Shim: sandbox.ShimRequired}); err != nil {
		t.Skipf("no rung with mounts: %v", err)
	}
	before := f.read("runs.db")
	res := f.must(trace.Finished, shim)
	if f.read("tried") == "" {
		t.Fatal("the command did not run")
	}
	if f.read("taken") != "" || !strings.HasPrefix(f.read("runs.db"), before[:16]) || len(f.steps(res.RunID)) != 2 {
		t.Error("the command changed the record of its run")
	}
}

func TestAWorkspaceInTheSharedTemporaryDirectoryIsWarnedOf(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*sandbox.Profile)
		warns  bool
	}{
		"shared":              {func(p *sandbox.Profile) { p.SharedTemp = true }, true},
		"private":             {func(*sandbox.Profile) {}, false},
		"nothing is confined": {func(p *sandbox.Profile) { p.SharedTemp, p.Mode = true, sandbox.FullAccess }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, command("true"), scripted.Say("done"))
			log := f.logged()
			f.must(trace.Finished, func(c *task.Contract) { tc.change(&c.Sandbox) })
			if got := strings.Count(log.String(), "share with other programs"); (got == 1) != tc.warns || got > 1 {
				t.Errorf("warned %d times: %s", got, log)
			}
		})
	}
}
