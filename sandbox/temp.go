package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// tempPrefix begins the name of every temporary directory made here; the owner
// follows, so that those of a host that was killed can be told.
const tempPrefix = "harness-"

// NewTemp makes a temporary directory for the commands of one run, mode 0700,
// to be named in Profile.Temp, and a function that removes it with everything
// in it. The path has no links in it. Removing twice is harmless.
func NewTemp() (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp("", tempPrefix+tempOwner()+"-")
	if err != nil {
		return "", nil, &Error{Kind: ErrApparatus, Op: "make temporary directory", Err: err}
	}
	// /tmp is a link on macOS, and a boundary is about real paths.
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return dir, func() error { return removeTree(dir) }, nil
}

// removeTree removes dir although a command may have left directories in it
// that do not allow writing, as the module cache of Go does.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	// Through a root, so that a link planted in the tree cannot lead the change of
	// mode to a file outside of it.
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = root.Chmod(path, 0o700)
		}
		return nil
	})
	_ = root.Close()
	return os.RemoveAll(dir)
}
