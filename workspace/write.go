package workspace

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/initorigin/io-harness-go/policy"
)

// Change is what a write did.
type Change struct {
	Edit

	Old, New Endings // line endings before and after, of text
	// OldEncoding is empty when the file was not there, was empty or was not text,
	// NewEncoding when what was written is not text.
	OldEncoding, NewEncoding Encoding
	// Unread is how many bytes were replaced that this run had not read; -1 when
	// there were none or it had.
	Unread int64
	// WasBinary says that what was replaced was not text.
	WasBinary bool
	// Unlinked says that the old file had other names: they keep the old content.
	Unlinked bool
	// Unrecorded is why the journal did not take the change, which was made.
	Unrecorded error `json:"-"`
	// Unflushed is why nobody knows whether the change, which was made, survives the
	// loss of power: the directory was not written out.
	Unflushed error `json:"-"`
	// Temp is the name of the file, beside the one that is changed, in which the
	// new content is made ready. It is set while a change is announced to a
	// Recaller and empty afterwards; see Discard.
	Temp string `json:",omitempty"`
}

// EndingsChanged reports whether the lines of the file end differently now.
func (c Change) EndingsChanged() bool { return !c.Old.sameKind(c.New) }

// WriteFile makes content the whole of a file, in one step: whoever looks sees
// the old or the new bytes, also after a crash. Missing directories are made.
// The mode of an existing file is kept. A file with other names (hard links)
// leaves them behind with the old content, so that a write never reaches outside.
//
// Content over MaxWrite is a *TooLargeError. A file that changed since this run
// last read or wrote it is a *StaleError: by its bytes, not by its time.
func (w *Workspace) WriteFile(ctx context.Context, rel, content string) (Change, error) {
	return w.WriteBytes(ctx, rel, []byte(content))
}

// WriteBytes is WriteFile for content of any kind.
func (w *Workspace) WriteBytes(ctx context.Context, rel string, data []byte) (Change, error) {
	if len(data) > MaxWrite {
		return Change{}, &TooLargeError{Path: rel, Size: int64(len(data)), Limit: MaxWrite, Which: CeilingContent}
	}
	real, err := w.enterWrite(rel)
	if err != nil {
		return Change{}, err
	}
	defer w.dir.lock(real)()
	t, err := w.target(ctx, real)
	if err != nil {
		return Change{}, err
	}
	defer t.close()
	if c, ok := w.recall(t); ok {
		return c, nil
	}
	known, seen := w.memory.of(w.dir.key(real))
	if seen && t.exists && (known.absent || t.data == nil && t.unreadable != "" || known.sum != sha256.Sum256(t.data)) {
		return Change{}, &StaleError{Path: rel}
	}
	c := Change{Unread: -1}
	if t.exists && !seen {
		c.Unread = t.info.Size()
	}
	err = w.commit(ctx, t, data, &c, true)
	if err == nil {
		w.memory.saw(w.dir.key(real), data)
	}
	return c, err
}

// Remove deletes a regular file. Unlike every other method it needs an outright
// allow for writing, because it is how an undo takes back what a run created
// and nobody is asked then. A missing file matches fs.ErrNotExist.
func (w *Workspace) Remove(ctx context.Context, rel string) error {
	return w.remove(ctx, rel, func(*target) error { return nil })
}

// RemoveIf is Remove for a file that still is what digest names (see Digest); one
// that is not is left as it is and a *StaleError.
func (w *Workspace) RemoveIf(ctx context.Context, rel, digest string) error {
	return w.remove(ctx, rel, func(t *target) error {
		if t.data == nil || digestOf(t.data) != digest {
			return &StaleError{Path: rel}
		}
		return nil
	})
}

// remove removes what check has no objection to.
func (w *Workspace) remove(ctx context.Context, rel string, check func(*target) error) error {
	real, err := w.enterWrite(rel)
	if err != nil {
		return err
	}
	if v := w.CheckPath(policy.Write, rel); v.Effect != policy.Allow {
		e := v.Refusal(policy.Need{Act: policy.Write, Target: rel})
		e.Asks = v.Effect == policy.Ask
		return e
	}
	defer w.dir.lock(real)()
	t, err := w.target(ctx, real)
	if err != nil {
		return err
	}
	defer t.close()
	if _, ok := w.recall(t); ok {
		return nil
	}
	if !t.exists {
		return missing(rel)
	}
	if err := check(t); err != nil {
		return err
	}
	if err := w.before(ctx, t); err != nil {
		return err
	}
	c := Change{}
	measure(t, nil, &c)
	c.Wrote = Removed
	made, err := w.intend(ctx, t, nil, &c, true)
	if err != nil {
		return err
	}
	if err = t.unchanged(); err == nil {
		if err = t.parent.Remove(t.name); err != nil {
			err = failure("remove", rel, err)
		}
	}
	if made(err); err != nil {
		return err
	}
	unflushed := flushDir(t.parent)
	w.memory.sawAbsent(w.dir.key(real))
	if err := w.report(ctx, t, &c); err != nil {
		return err
	}
	if unflushed != nil {
		return failure("remove", rel, fmt.Errorf("it is gone, and may come back when the power is lost: %w", unflushed))
	}
	return nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// target is the place of a write: the directory, opened, and what lies there.
type target struct {
	real, dir, name string
	parent          *os.Root // nil while the directory does not exist

	exists     bool
	info       fs.FileInfo
	data       []byte // nil when unreadable
	unreadable string // why
	links      int
}

func (t *target) close() {
	if t.parent != nil {
		t.parent.Close()
	}
}

// target opens the directory of a canonical path and reads what is there. A file
// that cannot be read can still be replaced; anything that is no regular file
// cannot.
func (w *Workspace) target(ctx context.Context, real string) (*target, error) {
	t := &target{real: real, links: 1}
	t.dir, t.name = split(real)
	parent, err := w.dir.openDir(t.dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	t.parent = parent
	if err := t.look(ctx); err != nil {
		parent.Close()
		return nil, err
	}
	return t, nil
}

func (t *target) look(ctx context.Context) error {
	info, err := t.parent.Lstat(t.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return openFailure(t.real, err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return &movedError{path: t.real} // it was resolved a moment ago
	}
	if err := regular(t.real, info); err != nil {
		return err
	}
	t.exists, t.info = true, info
	t.links = names(nil, info)
	f, err := openIn(t.parent, t.name, t.real, os.O_RDONLY, info)
	if errors.Is(err, ErrMoved) {
		return err
	}
	if err != nil {
		t.unreadable = "it could not be read: " + reasonOf(err)
		return nil
	}
	defer f.Close()
	t.links = names(f, info)
	data, err := readAll(ctx, t.real, f, info.Size())
	var big *TooLargeError
	switch {
	case errors.As(err, &big):
		t.unreadable = fmt.Sprintf("it has %d bytes, over %d", big.Size, big.Limit)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		t.unreadable = "it could not be read: " + reasonOf(err)
	default:
		t.data = data
		if t.data == nil {
			t.data = []byte{}
		}
	}
	return nil
}

// unchanged makes sure, as late as possible, that what is about to be replaced
// is what was looked at.
func (t *target) unchanged() error {
	info, err := t.parent.Lstat(t.name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !t.exists:
		return nil
	case err != nil || !t.exists, !os.SameFile(info, t.info),
		info.Size() != t.info.Size(), !info.ModTime().Equal(t.info.ModTime()):
		return &StaleError{Path: t.real}
	}
	return nil
}

// commit records the restore point, announces the change, replaces the file and
// reports the change. known says whether the run knows every byte of data.
// Fields of c that measure the change are set unless the caller did.
func (w *Workspace) commit(ctx context.Context, t *target, data []byte, c *Change, known bool) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := w.before(ctx, t); err != nil {
		return err
	}
	if t.parent == nil {
		parent, err := w.dir.openDir(t.dir, true)
		if err != nil {
			return err
		}
		t.parent = parent
	}
	measure(t, data, c)
	temp := tempPrefix + rand.Text()[:16] + tempSuffix
	c.Temp = temp
	made, err := w.intend(ctx, t, data, c, known)
	c.Temp = ""
	if err != nil {
		return err
	}
	err = t.replace(data, temp)
	var partly *PartlyWrittenError
	if errors.As(err, &partly) {
		made(nil) // the announcement stays: it is all that says what happened
		return err
	}
	if made(err); err != nil {
		return err
	}
	c.Unflushed = flushDir(t.parent)
	if err := w.report(ctx, t, c); err != nil {
		c.Unrecorded = err
	}
	return nil
}

// before hands the restore point to the journal, once per run and path. It counts
// as kept when the change is announced: a journal may store both together.
func (w *Workspace) before(ctx context.Context, t *target) error {
	key := w.dir.key(t.real)
	if w.journal == nil || w.memory.hasRestorePoint(key) {
		return nil
	}
	p := RestorePoint{Path: t.real, State: StateAbsent}
	if t.exists {
		p.Mode = t.info.Mode().Perm()
	}
	switch {
	case t.exists && t.data == nil:
		p.State, p.Reason = StateUnkept, t.unreadable
	case t.exists && len(t.data) > MaxKept:
		p.State, p.Reason = StateUnkept, fmt.Sprintf("it has %d bytes, over %d", len(t.data), MaxKept)
	case t.exists:
		p.State, p.Before = StateText, t.data
	}
	if err := w.journal.Before(ctx, p); err != nil {
		return fmt.Errorf("%s was not written, because what it held could not be recorded first: %w", show(t.real), err)
	}
	return nil
}

func (w *Workspace) report(ctx context.Context, t *target, c *Change) error {
	c.Path, c.Tool = t.real, w.tool
	if w.journal == nil {
		return nil
	}
	return w.journal.Wrote(ctx, c.Edit)
}

// measure fills in what the change was.
func measure(t *target, data []byte, c *Change) {
	switch {
	case !t.exists:
		c.Wrote = Created
	case t.data != nil && bytes.Equal(t.data, data):
		c.Wrote = Unchanged
	default:
		c.Wrote = Changed
	}
	c.Unlinked = t.exists && t.links > 1
	old, oldEnc, oldText := decode(t.data)
	now, nowEnc, nowText := decode(data)
	if t.exists {
		c.WasBinary = !oldText && t.data != nil
		if oldText && len(t.data) > 0 {
			c.OldEncoding = oldEnc
		}
	}
	c.NewEncoding = nowEnc
	c.Old, c.New = endingsOf(old), endingsOf(now)
	if c.LinesAdded == 0 && c.LinesRemoved == 0 {
		c.LinesAdded, c.LinesRemoved = countChange(old, now)
	}
	sameEncoding := !t.exists || oldEnc == nowEnc || len(t.data) == 0 || len(data) == 0
	if (t.exists && t.data == nil) || !oldText || !nowText || !sameEncoding {
		return
	}
	if hunk := Diff(old, now); hunk != "" && len(hunk) <= MaxKept {
		c.Hunk = &hunk
	}
}

// replace puts data in the place of the file: the new file temp beside it with
// the same mode, flushed, then renamed over it, then the directory flushed.
func (t *target) replace(data []byte, temp string) error {
	fail := func(err error) error { return failure("write", t.real, err) }
	mode := fs.FileMode(0o666)
	if t.exists {
		mode = t.info.Mode().Perm()
	}
	f, err := t.parent.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrPermission) && t.exists && t.links == 1 {
		return t.overwrite(data)
	}
	if err != nil {
		return fail(err)
	}
	done := false
	defer func() {
		f.Close()
		if !done {
			_ = t.parent.Remove(temp)
		}
	}()
	if _, err := f.Write(data); err != nil {
		return fail(err)
	}
	if t.exists {
		keepOwner(f, t.info)
		if err := f.Chmod(mode); err != nil { // the umask had its say at creation
			return fail(err)
		}
	}
	if err := flushFile(f); err != nil {
		return fail(err)
	}
	if err := f.Close(); err != nil {
		return fail(err)
	}
	if err := t.unchanged(); err != nil {
		return err
	}
	if err := t.parent.Rename(temp, t.name); err != nil {
		return fail(err)
	}
	done = true
	return nil
}

// overwrite is for a writable file in a directory that takes no new names: the
// one case in which a crash can leave half of a file. A file with other names
// never comes here.
func (t *target) overwrite(data []byte) error {
	fail := func(err error) error { return failure("write", t.real, err) }
	f, err := openIn(t.parent, t.name, t.real, os.O_WRONLY, t.info)
	if errors.Is(err, ErrMoved) {
		return err
	}
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fail(err)
	}
	if names(f, info) > 1 {
		return fmt.Errorf("write %s: it has other names, and its directory takes no new file that could replace it", show(t.real))
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil {
		err = flushFile(f)
	}
	if err != nil {
		return &PartlyWrittenError{Path: t.real, Err: causeOf(err)}
	}
	return nil
}

// PartlyWrittenError says that a file that had to be overwritten in place, because its
// directory takes no new file, may hold a part of the new content and a part of the
// old. Its restore point has what it was.
type PartlyWrittenError struct {
	Path string
	Err  error
}

func (e *PartlyWrittenError) Error() string {
	return fmt.Sprintf("write %s: it was overwritten in part: %v", show(e.Path), e.Err)
}

func (e *PartlyWrittenError) Unwrap() error { return e.Err }

// flushFile and flushDir put what was written on the disk. They are variables for tests,
// because nothing but the loss of power tells whether it was done.
var (
	flushFile = (*os.File).Sync
	flushDir  = syncDir
)
