package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// pinLimit is the largest program that is hashed, about 0.1 s of work for each
// evaluation. A larger one is known by its size and the time of its last change.
const pinLimit = 64 << 20

// pin is a program as it was when the run began.
type pin struct {
	Path     string    `json:"path"`
	Size     int64     `json:"size,omitempty"`
	Digest   string    `json:"sha256,omitempty"`
	Modified time.Time `json:"modified,omitzero"` // in place of a digest
	Loose    bool      `json:"loose,omitempty"`   // only the path is pinned
}

// forget keeps the path alone.
func (p *pin) forget() { *p = pin{Path: p.Path, Loose: true} }

// pinProgram pins the file at path. A compiled program inside the workspace is
// pinned by its path only: the run may have to build it again.
func pinProgram(path, root string) (*pin, error) {
	p, text, err := fingerprint(path)
	if err != nil {
		return nil, err
	}
	if !text && within(root, path) {
		p.forget()
	}
	return p, nil
}

// changed says what happened to the program since it was pinned, or "". A pinned
// script that is gone from the workspace counts as changed; that a program
// outside is gone is found by starting it.
func (p *pin) changed(root string) (string, error) {
	if p.Loose {
		return "", nil
	}
	now, _, err := fingerprint(p.Path)
	switch {
	case absent(err) && within(root, p.Path):
		return fmt.Sprintf("the gate's program %s was removed during the run: put it back as it was", p.Path), nil
	case absent(err):
		return "", nil
	case err != nil:
		return "", fail(PhaseCommand, "look at "+p.Path, err)
	}
	if now.Size != p.Size || now.Digest != p.Digest || !now.Modified.Equal(p.Modified) {
		return fmt.Sprintf("the gate's program %s was changed during the run: put it back as it was", p.Path), nil
	}
	return "", nil
}

// fingerprint reads the file at path, through links, and reports whether it is
// text, as a script is.
func fingerprint(path string) (*pin, bool, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, false, err
	}
	p := &pin{Path: path, Size: fi.Size()}
	if !fi.Mode().IsRegular() {
		return nil, false, fmt.Errorf("it is not a regular file but a %s", kindOf(fi.Mode()))
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) || err == nil && p.Size > pinLimit {
		// A program may be executable and not readable.
		if f != nil {
			f.Close()
		}
		p.Modified = fi.ModTime().UTC()
		return p, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, false, err
	}
	h := sha256.New()
	h.Write(head[:n])
	if _, err := io.Copy(h, io.LimitReader(f, pinLimit)); err != nil {
		return nil, false, err
	}
	p.Digest = hex.EncodeToString(h.Sum(nil))
	return p, !bytes.ContainsRune(head[:n], 0), nil
}

// Prepare pins what will do the judging, before the run can change it: the file
// that a command's program means, and the state of every protected file. Call it
// once when a run begins, keep what it returns for the whole run, store that with
// [Marshal], and give the stored one to a resumed run: preparing it again keeps
// the first pins, so that a crash is no way to get new ones. Nil stays nil.
func Prepare(ctx context.Context, c Criterion, env Env) (Criterion, error) {
	if c == nil {
		return nil, nil
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c.prepare(ctx, env)
}
