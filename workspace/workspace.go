package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/initorigin/io-harness-go/policy"
)

// Limits on files. A file over one of them is refused, never shortened.
const (
	MaxFile  = 64 << 20 // bytes that one read takes into memory
	MaxRange = 1 << 30  // bytes of a file of which a range may be read
	MaxWrite = 16 << 20 // bytes of one write
	MaxKept  = 1 << 20  // bytes of a restore point and of a recorded hunk
)

// Workspace is a directory and the policy that every path in it is checked
// against. Paths are relative to the root with "/" between their parts, in
// arguments and in results; "" is the root.
//
// A Workspace is safe for concurrent use. Values made of it by the With methods
// share its directory handle and its locks; closing one closes them all.
type Workspace struct {
	dir    *directory
	policy policy.Policy

	journal Journal // nil: nothing is recorded
	tool    string
	memory  *memory
}

// Open makes the directory root a workspace under p. A root that is a link is
// resolved once, here. The error is an *OpenError: the root does not exist, is
// no directory, or cannot be opened. The caller must Close the workspace.
func Open(root string, p policy.Policy) (*Workspace, error) {
	fail := func(reason string, err error) (*Workspace, error) {
		return nil, &OpenError{Root: root, Reason: reason, Err: err}
	}
	if strings.TrimSpace(root) == "" {
		return fail("the root is empty: name a directory", fs.ErrInvalid)
	}
	if err := p.Validate(); err != nil {
		return fail(err.Error(), err)
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return fail(reasonOf(err), err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return fail("it does not exist: create it, or name a directory that does", err)
	}
	if err != nil {
		return fail(reasonOf(err), err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return fail(reasonOf(err), err)
	}
	if !info.IsDir() {
		return fail("it is a "+kindOf(info.Mode())+", not a directory", fs.ErrInvalid)
	}
	d, err := openDirectory(abs, real)
	if err != nil {
		return fail(reasonOf(err), err)
	}
	return &Workspace{dir: d, policy: p, memory: newMemory()}, nil
}

// Close gives back the directory handle. Every later use fails. It may be
// called more than once.
func (w *Workspace) Close() error { return w.dir.close() }

// Present reports, as an *OpenError, that the root is no longer at its path: it was
// removed, moved or replaced. Searches of a removed directory find nothing and do not
// fail, so whoever draws conclusions from that asks here first.
func (w *Workspace) Present() error {
	fail := func(reason string, err error) error {
		return &OpenError{Root: w.dir.path, Reason: reason, Err: err}
	}
	now, err := os.Stat(w.dir.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail("it is gone: put it back, and resume", err)
	case err != nil:
		return fail(reasonOf(err), err)
	}
	opened, err := w.dir.root.Stat(".")
	if err != nil {
		return fail(reasonOf(err), err)
	}
	if !os.SameFile(now, opened) {
		return fail("another directory stands in its place", fs.ErrInvalid)
	}
	return nil
}

// Root is the absolute path of the root, free of links.
func (w *Workspace) Root() string { return w.dir.path }

// Policy is what paths are checked against.
func (w *Workspace) Policy() policy.Policy { return w.policy }

// FoldsCase reports whether names in the workspace differ by more than case, as
// was found when it was opened.
func (w *Workspace) FoldsCase() bool { return w.dir.folds }

// WithPolicy returns the same run's workspace under another policy.
func (w *Workspace) WithPolicy(p policy.Policy) *Workspace {
	c := *w
	c.policy = p
	return &c
}

// WithJournal returns a workspace for one run: writes are reported to j, and
// nothing has been read yet. A nil journal records nothing.
func (w *Workspace) WithJournal(j Journal) *Workspace {
	c := *w
	c.journal = j
	c.memory = newMemory()
	return &c
}

// WithTool returns the same run's workspace, whose writes are recorded as made
// by the tool of that name.
func (w *Workspace) WithTool(name string) *Workspace {
	c := *w
	c.tool = name
	return &c
}

// directory is the opened root. It is shared by every Workspace made of one Open.
type directory struct {
	path  string // absolute, without links
	given string // absolute, as the caller named it
	root  *os.Root
	base  *os.File // the root again, for system calls relative to it
	folds bool
	// portable does without the system call that opens a whole path at once, as
	// on systems that do not have it.
	portable bool
	counting time.Duration // countTime, unless a test is in more of a hurry

	whole chan struct{} // holds one token: see Exclusive

	digests digests

	mu     sync.Mutex
	closed bool
	locks  map[string]*pathLock
}

type pathLock struct {
	mu    sync.Mutex
	users int
}

func openDirectory(given, real string) (*directory, error) {
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, err
	}
	base, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	d := &directory{path: real, given: given, root: root, base: base, locks: map[string]*pathLock{}, whole: make(chan struct{}, 1), counting: countTime}
	d.folds = d.probeFold()
	return d, nil
}

func (d *directory) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	return errors.Join(d.base.Close(), d.root.Close())
}

func (d *directory) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// Exclusive waits until nobody else who shares this root holds it, for work on
// the tree as a whole, such as a check of the project, of which one at a time is
// enough. It does not keep anybody from reading or writing. The caller must call
// release; the error is the cause of ctx, when that ended first.
func (w *Workspace) Exclusive(ctx context.Context) (release func(), err error) {
	select {
	case w.dir.whole <- struct{}{}:
		return sync.OnceFunc(func() { <-w.dir.whole }), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// lock serialises writes to one file among all runs that share the directory,
// so that two agents of a tree cannot interleave a read and its replacement.
func (d *directory) lock(real string) (unlock func()) {
	key := d.key(real)
	d.mu.Lock()
	l := d.locks[key]
	if l == nil {
		l = &pathLock{}
		d.locks[key] = l
	}
	l.users++
	d.mu.Unlock()
	l.mu.Lock()
	return func() {
		l.mu.Unlock()
		d.mu.Lock()
		defer d.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(d.locks, key)
		}
	}
}

// key is one spelling per file, also where names differ by more than case.
func (d *directory) key(real string) string {
	if d.folds {
		return strings.ToLower(real)
	}
	return real
}

// probeFold finds out whether a name means the same file in another case. It
// only looks: the first name with a letter in the root decides, and a root
// without one is judged by the operating system's habit.
func (d *directory) probeFold() bool {
	habit := runtime.GOOS == "windows" || runtime.GOOS == "darwin" || runtime.GOOS == "ios"
	dir, err := d.root.Open(".")
	if err != nil {
		return habit
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(64)
	for _, name := range names {
		other := swapCase(name)
		if other == name {
			continue
		}
		a, err := d.root.Lstat(name)
		if err != nil {
			continue
		}
		b, err := d.root.Lstat(other)
		if err != nil {
			return false
		}
		if os.SameFile(a, b) {
			return true
		}
		return false
	}
	return habit
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r > unicode.MaxASCII:
			return r
		case unicode.IsUpper(r):
			return unicode.ToLower(r)
		case unicode.IsLower(r):
			return unicode.ToUpper(r)
		}
		return r
	}, s)
}

// reasonOf is the system's own word for a failure, without the path, which is
// the one of the system call and not the one that the caller used.
func reasonOf(err error) string { return causeOf(err).Error() }

func causeOf(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		return le.Err
	}
	return err
}

// failure is a failed system call, told with the caller's path.
func failure(op, path string, err error) error {
	return &fs.PathError{Op: op, Path: show(path), Err: causeOf(err)}
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	case m.IsRegular():
		return "file"
	}
	return "special file"
}
