package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// MaxContentFile is how many bytes of a file Contains searches: what a gate can
// afford after every step. A larger file is an error, not a failure.
const MaxContentFile = 256 << 20

// ContentCriterion compares the bytes of one file of the workspace. [Contains]
// and [Equals] make one.
type ContentCriterion struct {
	file, text string
	whole      bool
}

// Contains passes when the file contains text. Bytes are compared as they are:
// case counts, line endings count, text is no pattern; the empty text is in every
// file. file is relative to the workspace root, with "/" between its parts. A
// file that is missing fails; one that is there and cannot be read, or that lies
// outside the workspace behind a link, is an error. The policy's read rules do
// not apply: the operator chose the file.
func Contains(file, text string) ContentCriterion { return ContentCriterion{file, text, false} }

// Equals passes when the file is text and nothing else, a final line end
// included. Otherwise it is as Contains.
func Equals(file, text string) ContentCriterion { return ContentCriterion{file, text, true} }

// Describe names the file and the text.
func (c ContentCriterion) Describe() string {
	if c.whole {
		return fmt.Sprintf("The file %s must hold exactly this text, byte for byte, and nothing else: %q", c.file, c.text)
	}
	return fmt.Sprintf("The file %s must contain this text, byte for byte: %q", c.file, c.text)
}

// Phase is PhaseContains.
func (c ContentCriterion) Phase() Phase { return PhaseContains }

// Validate demands a path below the root.
func (c ContentCriterion) Validate() error { return validFile("file", c.file) }

func validFile(field, file string) error {
	if file == "" {
		return &InvalidError{field, "is empty: name a file of the workspace, relative to its root"}
	}
	if strings.ContainsRune(file, 0) || !filepath.IsLocal(filepath.FromSlash(file)) {
		return &InvalidError{field, fmt.Sprintf("%q is not below the workspace root: write a relative path that does not climb out", file)}
	}
	return nil
}

func (c ContentCriterion) parts() []Criterion                              { return nil }
func (c ContentCriterion) prepare(context.Context, Env) (Criterion, error) { return c, nil }

func (c ContentCriterion) evaluate(ctx context.Context, env Env) (Verdict, error) {
	doing := "read " + c.file
	root, err := os.OpenRoot(env.Root)
	if err != nil {
		return Verdict{}, fail(PhaseContains, "open the workspace", err)
	}
	defer root.Close()
	f, info, err := openRegular(root, filepath.FromSlash(c.file))
	if absent(err) {
		return Verdict{Detail: c.file + " does not exist"}, nil
	}
	if err != nil {
		return Verdict{}, fail(PhaseContains, doing, err)
	}
	defer f.Close()
	size := info.Size()
	if size > MaxContentFile {
		return Verdict{}, fail(PhaseContains, doing, fmt.Errorf("it has %d bytes, and at most %d are searched", size, int64(MaxContentFile)))
	}
	match := streamContains
	if c.whole {
		match = streamEquals
	}
	ok, err := match(ctx, f, []byte(c.text))
	switch {
	case err != nil:
		return Verdict{}, fail(PhaseContains, doing, err)
	case ok:
		return Verdict{Passed: true}, nil
	case c.whole:
		return Verdict{Detail: fmt.Sprintf("%s is not the wanted text: it has %d bytes, wanted are %d", c.file, size, len(c.text))}, nil
	}
	return Verdict{Detail: c.file + " does not contain the text"}, nil
}

// openRegular opens a regular file below root. A link that leaves the root does
// not open. What is not a regular file is refused before it is opened, and opened
// without blocking, so that a pipe in the file's place cannot hold up a gate.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	fi, err := root.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("it is not a regular file but a %s", kindOf(fi.Mode()))
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	if fi, err = f.Stat(); err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("it is not a regular file but a %s", kindOf(fi.Mode()))
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

// absent reports whether err says that there is no such file, also where a file
// stands in the place of a directory on its path.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "link"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

const chunk = 64 << 10

// streamContains searches r in memory bounded by chunk and the needle.
func streamContains(ctx context.Context, r io.Reader, needle []byte) (bool, error) {
	if len(needle) == 0 {
		return true, nil
	}
	buf := make([]byte, 0, chunk+len(needle))
	for read := 0; read <= MaxContentFile; {
		if err := ctx.Err(); err != nil {
			return false, ended(ctx)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf, read = buf[:len(buf)+n], read+n
		if bytes.Contains(buf, needle) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if keep := len(needle) - 1; len(buf) > keep {
			buf = buf[:copy(buf, buf[len(buf)-keep:])]
		}
	}
	return false, fmt.Errorf("it grew past %d bytes while it was read", int64(MaxContentFile))
}

// streamEquals reads at most one byte more than want has.
func streamEquals(ctx context.Context, r io.Reader, want []byte) (bool, error) {
	buf := make([]byte, chunk)
	for {
		if err := ctx.Err(); err != nil {
			return false, ended(ctx)
		}
		n, err := r.Read(buf)
		if n > len(want) || !bytes.Equal(buf[:n], want[:n]) {
			return false, nil
		}
		want = want[n:]
		if err == io.EOF {
			return len(want) == 0, nil
		}
		if err != nil {
			return false, err
		}
	}
}
