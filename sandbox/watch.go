package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// What a command leaves in some places of a workspace is run or obeyed later,
// outside of any boundary: the hooks and the settings of git, and the
// configuration of the harness. A rung that works with mounts can keep those
// that exist as they are ([Profile.Protect]); that something was made or
// changed is found by looking before and after.

const (
	// watchDirs bounds how many directories are looked through for repositories.
	watchDirs = 20_000
	// watchWhole is the largest file that is compared by its content; a larger one
	// is compared by size and time. Hooks and settings are far below it.
	watchWhole = 1 << 20
)

// controlFiles are the watched files at the top of a workspace.
var controlFiles = []string{"io.toml", "io.local.toml"}

// inGit are the watched places of a git directory. Git itself replaces the
// settings by renaming, so only the hooks can be kept by a mount. commonDir names
// another directory to take the settings and the hooks from.
var inGit = []string{"hooks", "config", "config.worktree", "info/attributes", commonDir}

const commonDir = "commondir"

// ProtectedPaths returns the existing places in a workspace that commands have
// no business to change and that a mount can keep: the harness's configuration
// and the hooks of the repository and of its submodules. It is what
// Profile.Protect is made for.
func ProtectedPaths(workspace string) []string {
	var out []string
	add := func(path string) {
		if _, err := os.Lstat(path); err == nil {
			out = append(out, path)
		}
	}
	for _, f := range controlFiles {
		add(filepath.Join(workspace, f))
	}
	add(filepath.Join(workspace, ".git", "hooks"))
	modules := filepath.Join(workspace, ".git", "modules")
	_ = filepath.WalkDir(modules, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "hooks" {
			out = append(out, path)
			return fs.SkipDir
		}
		return nil
	})
	return out
}

// Watch compares the protected places of a workspace at two times: the
// harness's configuration, and in the repository and every one nested in it the
// hooks and the settings. A directory that git would take for a repository by what
// is in it counts as one, whatever its name is. It is not for use by several
// goroutines at once.
type Watch struct {
	root string
	seen map[string]string // path relative to root: what is there
	// Partial says that the workspace has more directories than are looked
	// through, so that a nested repository may have been missed.
	Partial bool
}

// NewWatch looks at the workspace as it is now.
func NewWatch(workspace string) *Watch {
	w := &Watch{root: workspace}
	w.seen = w.look()
	return w
}

// stateHeader begins the text of a state. It changes with the way of comparing.
const stateHeader = "harness watch 1\n"

// State is what is known, as text for [WatchSince]. It holds names and digests and
// nothing of the content.
func (w *Watch) State() string {
	var b strings.Builder
	b.WriteString(stateHeader)
	for _, path := range slices.Sorted(maps.Keys(w.seen)) {
		b.WriteString(strconv.Quote(path) + " " + strconv.Quote(w.seen[path]) + "\n")
	}
	return b.String()
}

// WatchSince goes on from what an earlier watch of the same workspace knew, in another
// process for instance: the next Changes names what has changed since then. It fails on
// a text that is no state, or that of a version that compares otherwise.
func WatchSince(workspace, state string) (*Watch, error) {
	body, ok := strings.CutPrefix(state, stateHeader)
	if !ok {
		return nil, errors.New("not the state of a watch that this version can go on from")
	}
	w := &Watch{root: workspace, seen: map[string]string{}}
	for line := range strings.Lines(body) {
		path, rest, err := unquoted(line)
		if err != nil {
			return nil, err
		}
		if w.seen[path], _, err = unquoted(strings.TrimPrefix(rest, " ")); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// unquoted takes the quoted text at the beginning of a line of a state.
func unquoted(line string) (text, rest string, err error) {
	quoted, err := strconv.QuotedPrefix(line)
	if err == nil {
		text, err = strconv.Unquote(quoted)
	}
	if err != nil {
		return "", "", fmt.Errorf("the state of a watch has the line %q: %w", line, err)
	}
	return text, line[len(quoted):], nil
}

// Refresh takes what is there now as known, after a change that was meant.
func (w *Watch) Refresh() { w.seen = w.look() }

// Changes returns, sorted, the paths relative to the workspace that were made,
// changed or removed since the last look, with "/" between their parts. What it
// returned once is known from then on.
func (w *Watch) Changes() []string {
	now := w.look()
	var out []string
	for path, state := range now {
		if w.seen[path] != state {
			out = append(out, path)
		}
	}
	for path := range w.seen {
		if _, ok := now[path]; !ok {
			out = append(out, path)
		}
	}
	w.seen = now
	slices.Sort(out)
	return out
}

func (w *Watch) look() map[string]string {
	found := map[string]string{}
	for _, f := range controlFiles {
		w.note(found, filepath.Join(w.root, f))
	}
	dirs := 0
	w.Partial = false
	_ = filepath.WalkDir(w.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		switch d.Name() {
		case ".gitmodules":
			w.note(found, path)
		case "HEAD":
			if dir := filepath.Dir(path); looksLikeGit(dir) {
				w.notePlaces(found, dir)
			}
		case ".git":
			w.noteGit(found, path, d)
			if d.IsDir() {
				return fs.SkipDir
			}
		}
		if d.IsDir() {
			if dirs++; dirs > watchDirs {
				w.Partial = true
				return fs.SkipAll
			}
		}
		return nil
	})
	return found
}

// noteGit notes a git directory, with those of its submodules. A .git that is a
// file leads to a directory elsewhere, and is itself what must not change.
func (w *Watch) noteGit(found map[string]string, git string, d fs.DirEntry) {
	if !d.IsDir() {
		w.note(found, git)
		return
	}
	w.notePlaces(found, git)
	// The repositories of submodules, and what is a linked worktree's own.
	for _, nested := range []string{"modules", "worktrees"} {
		_ = filepath.WalkDir(filepath.Join(git, nested), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == "HEAD" {
				w.notePlaces(found, filepath.Dir(path))
			}
			if err == nil && d.Name() == "hooks" && d.IsDir() {
				w.note(found, path)
			}
			return nil
		})
	}
}

// looksLikeGit reports whether git would take dir, which has a HEAD, for a
// repository without a .git.
func looksLikeGit(dir string) bool {
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	return exists(commonDir) || exists("objects") && exists("refs")
}

func (w *Watch) notePlaces(found map[string]string, git string) {
	for _, place := range inGit {
		path := filepath.Join(git, filepath.FromSlash(place))
		if place == commonDir && leadsUp(path) {
			continue
		}
		w.note(found, path)
	}
}

// leadsUp reports whether the file at path says what git itself writes for a linked
// worktree: that the repository is the one that it lies in.
func leadsUp(path string) bool {
	if filepath.Base(filepath.Dir(filepath.Dir(path))) != "worktrees" {
		return false
	}
	fi, err := os.Lstat(path)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > 16 {
		return false
	}
	text, err := os.ReadFile(path)
	return err == nil && strings.TrimSpace(string(text)) == "../.."
}

// note records what is at path; of a directory, what is in it.
func (w *Watch) note(found map[string]string, path string) {
	fi, err := os.Lstat(path)
	if err != nil {
		return
	}
	if fi.IsDir() {
		des, err := os.ReadDir(path)
		if err != nil {
			return
		}
		for _, d := range des {
			w.note(found, filepath.Join(path, d.Name()))
		}
		return
	}
	rel, err := filepath.Rel(w.root, path)
	if err != nil {
		return
	}
	found[filepath.ToSlash(rel)] = fingerprint(path, fi)
}

// fingerprint changes whenever what would be run or obeyed does.
func fingerprint(path string, fi fs.FileInfo) string {
	mode := fi.Mode().String()
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		to, _ := os.Readlink(path)
		return mode + " " + to
	case !fi.Mode().IsRegular():
		return mode
	case fi.Size() > watchWhole:
		return mode + " " + fi.ModTime().UTC().String()
	}
	sum, err := digest(path)
	if err != nil {
		return mode + " unreadable"
	}
	return mode + " " + sum
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if n, err := io.Copy(h, io.LimitReader(f, watchWhole+1)); err != nil || n > watchWhole {
		return "", errors.Join(err, errors.New("the file grows"))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
