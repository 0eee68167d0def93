package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// openFile opens the regular file at a canonical path for reading. No part of
// the path may be a link at the moment of opening, and anything but a regular
// file is refused without being opened: opening a named pipe waits for its
// other end, and opening a device may act on it.
func (d *directory) openFile(real string) (*os.File, fs.FileInfo, error) {
	dir, name := split(real)
	if name == "" {
		return nil, nil, &NotRegularError{Path: ".", Kind: "directory"}
	}
	info, err := d.root.Lstat(filepath.FromSlash(real))
	if err != nil {
		return nil, nil, openFailure(real, err)
	}
	if err := regular(real, info); err != nil {
		return nil, nil, err
	}
	f, err := d.openBeneath(real, false)
	if errors.Is(err, errors.ErrUnsupported) {
		f, err = d.openThrough(dir, name, info)
	}
	if err != nil {
		return nil, nil, openFailure(real, err)
	}
	opened, err := f.Stat()
	if err == nil {
		err = regular(real, opened)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, opened, nil
}

// openThrough opens name in dir with the portable calls: a handle on the
// directory first, then the file, which must be the one that was seen there.
func (d *directory) openThrough(dir, name string, seen fs.FileInfo) (*os.File, error) {
	parent, err := d.openDir(dir, false)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	return openIn(parent, name, join(dir, name), os.O_RDONLY, seen)
}

// openIn opens one name in an opened directory and makes sure that it is the
// file that was seen under that name. The kind is compared as well: the number by
// which the system knows a file goes to the next one once it is removed, which may be
// a pipe.
func openIn(parent *os.Root, name, real string, flag int, seen fs.FileInfo) (*os.File, error) {
	f, err := parent.OpenFile(name, flag|openNonblock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil || !os.SameFile(info, seen) || info.Mode().Type() != seen.Mode().Type() {
		f.Close()
		return nil, &movedError{path: real}
	}
	return f, nil
}

// openDir gives a handle on the directory at a canonical path, reached one part
// at a time, each of which must be a directory and no link. With create, parts
// that are missing are made. Operations on single names in the handle then
// cannot be led astray, wherever the directory is moved.
func (d *directory) openDir(real string, create bool) (*os.Root, error) {
	cur, err := d.root.OpenRoot(".")
	if err != nil {
		return nil, openFailure(real, err)
	}
	walked := ""
	for _, part := range splitAll(real) {
		walked = join(walked, part)
		next, err := stepInto(cur, part, walked, create)
		cur.Close()
		if err != nil {
			return nil, err
		}
		cur = next
	}
	return cur, nil
}

func stepInto(cur *os.Root, part, walked string, create bool) (*os.Root, error) {
	seen, err := cur.Lstat(part)
	if create && errors.Is(err, fs.ErrNotExist) {
		if err := cur.Mkdir(part, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, openFailure(walked, err)
		}
		if err := flushDir(cur); err != nil {
			return nil, openFailure(walked, err)
		}
		seen, err = cur.Lstat(part)
	}
	if err != nil {
		return nil, openFailure(walked, err)
	}
	if seen.Mode()&fs.ModeSymlink != 0 {
		return nil, &movedError{path: walked}
	}
	if !seen.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: walked, Err: errors.New("it is a " + kindOf(seen.Mode()) + ", not a directory")}
	}
	next, err := cur.OpenRoot(part)
	if err != nil {
		return nil, openFailure(walked, err)
	}
	now, err := next.Stat(".")
	if err != nil || !os.SameFile(seen, now) {
		next.Close()
		return nil, &movedError{path: walked}
	}
	return next, nil
}

// openList opens the directory at a canonical path for reading its names.
func (d *directory) openList(real string) (*os.File, error) {
	f, err := d.openBeneath(real, true)
	if !errors.Is(err, errors.ErrUnsupported) {
		return f, err
	}
	dir, err := d.openDir(real, false)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Open(".")
}

func regular(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return &NotRegularError{Path: path, Kind: kindOf(info.Mode())}
}

// openFailure words a failure with the path that the caller used, and leaves
// errors.Is with fs.ErrNotExist and fs.ErrPermission working.
func openFailure(real string, err error) error {
	switch {
	case errors.Is(err, ErrMoved), errors.Is(err, ErrNotRegular):
		return err
	case isLink(err):
		return &movedError{path: real}
	case errors.Is(err, fs.ErrNotExist):
		return missing(real)
	case errors.Is(err, os.ErrClosed):
		return ErrClosed
	}
	return failure("open", real, err)
}
