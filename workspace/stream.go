package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/initorigin/io-harness-go/policy"
)

// Relative gives an absolute path inside the root its relative spelling, whether
// it begins with the root as Open was given it or as Root tells it. It looks at
// no file; false means that the path is not absolute or lies elsewhere.
func (w *Workspace) Relative(abs string) (string, bool) {
	return w.dir.relative(filepath.FromSlash(abs))
}

// OpenInput opens a regular file to be the input of a command. The policy is
// asked as for every read, and no part of the path is a link at the moment of
// opening. The caller closes the file.
func (w *Workspace) OpenInput(ctx context.Context, rel string) (*os.File, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	real, err := w.enter(policy.Read, rel)
	if err != nil {
		return nil, err
	}
	f, _, err := w.dir.openFile(real)
	return f, err
}

// OpenOutput opens a regular file to take the output of a command: emptied, or
// with appending at its end. What is not there is made, its directory is not.
//
// The file is opened for a program that then writes it by itself, so no journal
// hears of it and nothing of it can be undone. What holds is the rest: the
// policy, the root, and that a file with other names (hard links) is first
// replaced by one of its own, so that nothing is written under the other names.
// The caller closes the file.
func (w *Workspace) OpenOutput(ctx context.Context, rel string, appending bool) (*os.File, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	real, err := w.enterWrite(rel)
	if err != nil {
		return nil, err
	}
	defer w.dir.lock(real)()
	dir, name := split(real)
	parent, err := w.dir.openDir(dir, false)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	flag := os.O_WRONLY
	if appending {
		flag |= os.O_APPEND
	}
	seen, err := parent.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f, err := parent.OpenFile(name, flag|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			return nil, &movedError{path: real}
		}
		if err != nil {
			return nil, openFailure(real, err)
		}
		return f, nil
	case err != nil:
		return nil, openFailure(real, err)
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, &movedError{path: real} // it was resolved a moment ago
	}
	if err := regular(real, seen); err != nil {
		return nil, err
	}
	f, err := openIn(parent, name, real, flag, seen)
	if err != nil {
		return nil, openFailure(real, err)
	}
	if names(f, seen) > 1 {
		f.Close()
		return detach(ctx, parent, name, real, flag, seen)
	}
	if appending {
		return f, nil
	}
	if err := f.Truncate(0); err != nil {
		f.Close()
		return nil, openFailure(real, err)
	}
	return f, nil
}

// detach puts a file of its own in the place of one that has other names, with
// the same content when flag appends, and opens it.
func detach(ctx context.Context, parent *os.Root, name, real string, flag int, seen fs.FileInfo) (_ *os.File, err error) {
	if seen.Size() > MaxRange && flag&os.O_APPEND != 0 {
		return nil, &TooLargeError{Path: real, Size: seen.Size(), Limit: MaxRange, Which: CeilingFile}
	}
	temp := tempPrefix + rand.Text()[:16] + tempSuffix
	f, err := parent.OpenFile(temp, flag|os.O_CREATE|os.O_EXCL, seen.Mode().Perm())
	if err != nil {
		return nil, fmt.Errorf("open %s: it has other names, and its directory takes no new file that could replace it: %w", real, causeOf(err))
	}
	defer func() {
		if err != nil {
			f.Close()
			_ = parent.Remove(temp)
		}
	}()
	keepOwner(f, seen)
	if err := f.Chmod(seen.Mode().Perm()); err != nil {
		return nil, openFailure(real, err)
	}
	if flag&os.O_APPEND != 0 {
		old, err := openIn(parent, name, real, os.O_RDONLY, seen)
		if err != nil {
			return nil, openFailure(real, err)
		}
		_, err = io.Copy(f, io.LimitReader(old, MaxRange))
		old.Close()
		if err != nil {
			return nil, openFailure(real, err)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	now, err := parent.Lstat(name)
	if err != nil || !os.SameFile(now, seen) {
		return nil, &movedError{path: real}
	}
	if err := parent.Rename(temp, name); err != nil {
		return nil, openFailure(real, err)
	}
	return f, nil
}
