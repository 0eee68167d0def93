package loop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
)

// layerStore answers for the rules that keep a run's tools off its own record.
const layerStore = "run store"

// storeFiles are the file of the run's record and what SQLite keeps beside it,
// links followed. None for a store in memory.
func (d *drive) storeFiles() []string {
	path := d.store.Path()
	if path == "" {
		return nil
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return []string{path, path + "-wal", path + "-shm", path + "-journal"}
}

// guardStore keeps the record of the run from those whom it is about, where it
// lies in a place that they may write: tools are refused it, a mount keeps it from
// commands, and where there is none the caller is warned. A caller who demands
// that writes are confined is refused such a run: a rung without mounts would let
// a command rewrite what is said of it.
func (d *drive) guardStore() error {
	files := d.storeFiles()
	if len(files) == 0 {
		return nil
	}
	for _, f := range files {
		if rel, ok := d.workspace.Relative(f); ok {
			d.offLimits = append(d.offLimits, filepath.ToSlash(rel))
		}
	}
	if !d.profile.Mode.Contained() || !d.commandsWrite(files[0]) {
		return nil
	}
	d.profile.Protect = append(slices.Clip(d.profile.Protect), files...)
	if d.profile.Require.Writes {
		return &sandbox.Error{Kind: sandbox.ErrRequired, Op: "keep the run's record from its commands",
			Err: fmt.Errorf("the store %s lies in a directory that commands may write: open it elsewhere", files[0])}
	}
	d.log.Warn("the store lies in a directory that commands of the run may write, and only a sandbox with mounts keeps it from them: open it elsewhere",
		"store", files[0])
	return nil
}

// commandsWrite reports whether path lies in a directory that the profile grants.
func (d *drive) commandsWrite(path string) bool {
	dirs := []string{d.profile.Temp}
	if d.profile.SharedTemp {
		dirs = append(dirs, os.TempDir())
	}
	if d.profile.Mode != sandbox.ReadOnly {
		dirs = append(append(dirs, d.profile.Workspace), d.profile.Writable...)
	}
	return slices.ContainsFunc(dirs, func(dir string) bool { return dir != "" && liesIn(path, dir) })
}

// liesIn reports whether path, which has no link in it, is dir or in it.
func liesIn(path, dir string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// withoutStore adds to a policy that no tool writes the run's own record.
func (d *drive) withoutStore(p policy.Policy) policy.Policy {
	if len(d.offLimits) == 0 {
		return p
	}
	return p.Layer(layerStore).DenyWrite(d.offLimits...)
}
