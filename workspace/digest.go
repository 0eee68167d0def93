package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/policy"
)

// Digest is the SHA-256 of a file's bytes in hex, and "" when nothing is there:
// what a decision about the file was taken on. Asking for it is not reading the
// file, as far as whole-file writes are concerned, and while the system says that
// the file is as it was, its bytes are not read again.
func (w *Workspace) Digest(ctx context.Context, rel string) (string, error) {
	real, err := w.enter(policy.Read, rel)
	if err != nil {
		return "", err
	}
	f, info, err := w.dir.openFile(real)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	key := w.dir.key(real)
	if sum, ok := w.dir.digests.of(key, info); ok {
		return sum, nil
	}
	at := time.Now()
	data, err := readAll(ctx, real, f, info.Size())
	if err != nil {
		return "", err
	}
	sum := digestOf(data)
	w.dir.digests.keep(key, hashed{info, at, sum})
	return sum, nil
}

// digests are what files were when they were last hashed, by directory.key. A
// request of a long run asks for every file that it shows, on every step, and
// nearly all of them are as they were.
type digests struct {
	mu    sync.Mutex
	known map[string]hashed
	reads int // how often a file had to be read
}

// hashed is one file as it was. The facts are those of before the bytes were
// read: of a change while they were read, the next look finds other facts.
type hashed struct {
	info fs.FileInfo
	at   time.Time
	sum  string
}

func (d *digests) of(key string, now fs.FileInfo) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, ok := d.known[key]
	if !ok || !was.holds(now) {
		return "", false
	}
	return was.sum, true
}

func (d *digests) keep(key string, h hashed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[string]hashed{}
	}
	d.known[key] = h
	d.reads++
}

// holds reports whether the file is certainly the one that was hashed. Two
// changes within one tick of the file system's clock leave the same time, so a
// file that was changed just before it was hashed may since have become another
// of the same size, and is not trusted.
func (h hashed) holds(now fs.FileInfo) bool {
	if !os.SameFile(h.info, now) || h.info.Size() != now.Size() || !h.info.ModTime().Equal(now.ModTime()) {
		return false
	}
	changed := changeTime(now)
	return changed.Equal(changeTime(h.info)) && settled(now.ModTime(), h.at) && settled(changed, h.at)
}

// The widest ticks of file systems: of those that keep parts of a second, and of
// the others, such as FAT.
const (
	fineTick   = 50 * time.Millisecond
	coarseTick = 2 * time.Second
)

// settled reports whether a change at t lies more than a tick before at.
func settled(t, at time.Time) bool {
	tick := fineTick
	if t.Nanosecond() == 0 {
		tick = coarseTick
	}
	return t.Add(tick).Before(at)
}
