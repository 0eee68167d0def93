package verify

import (
	"context"
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
	"strings"

	"github.com/initorigin/io-harness-go/policy"
)

const (
	// MaxProtected is how many files one Protect may cover, and MaxProtectedBytes
	// how much they may hold: they are read before and after every evaluation.
	MaxProtected      = 10_000
	MaxProtectedBytes = 256 << 20
	// shownTampered is how many files a verdict names.
	shownTampered = 20
)

// ProtectedCriterion guards the files that judge. [Protect] makes one.
type ProtectedCriterion struct {
	inner Criterion
	globs []string
	files map[string]string // storable path -> state; nil before Prepare
}

// Protect wraps c so that a run cannot pass by changing what judges it: the tests,
// the build file, the runner's configuration. [Prepare] takes a fingerprint of
// every file that the globs match; when one was changed, removed, replaced by a
// link, added, made executable or no longer so, or cannot be read any more, the
// gate fails and names it, without asking c. A file that the
// globs match and that is new counts as tampering too, since a new test file can
// decide for all others.
//
// The globs mean what they mean in policy.DenyWrite: "*" also matches "/", a
// pattern without "/" holds at any depth, and a directory stands for all below it.
// See [ProtectedGlobs] for making them denials. Files that are reached through a
// linked directory are not covered, only the link is.
func Protect(c Criterion, globs ...string) ProtectedCriterion {
	return ProtectedCriterion{inner: c, globs: slices.Clone(globs)}
}

// ProtectedGlobs lists every glob of every Protect in c. A caller that adds them to
// a run's policy with DenyWrite makes the model hear at once what the gate would
// only find at the end.
func ProtectedGlobs(c Criterion) []string {
	var globs []string
	_ = walk(c, func(c Criterion) error { // fn never fails
		if p, ok := c.(ProtectedCriterion); ok {
			for _, g := range p.globs {
				if !slices.Contains(globs, g) {
					globs = append(globs, g)
				}
			}
		}
		return nil
	})
	return globs
}

// Describe is that of the inner criterion and what must stay as it is.
func (c ProtectedCriterion) Describe() string {
	return c.inner.Describe() + "\nFiles that match any of these must stay exactly as they were, and none may be added: " + strings.Join(c.globs, ", ")
}

// Phase is that of the inner criterion.
func (c ProtectedCriterion) Phase() Phase {
	if c.inner == nil {
		return PhaseNone
	}
	return c.inner.Phase()
}

// Validate demands an inner criterion and globs that are not empty.
func (c ProtectedCriterion) Validate() error {
	if c.inner == nil {
		return &InvalidError{"protect", "has no criterion to protect"}
	}
	if len(c.globs) == 0 {
		return &InvalidError{"protect", "names no files: give globs such as \"*_test.go\""}
	}
	for _, g := range c.globs {
		if strings.TrimSpace(g) == "" {
			return &InvalidError{"protect", "has an empty glob, which matches no file"}
		}
	}
	if err := c.guard().Validate(); err != nil {
		return &InvalidError{"protect", err.Error()}
	}
	return c.inner.Validate()
}

// guard is the policy that says what the globs match, so that they mean here what
// they mean where they are enforced.
func (c ProtectedCriterion) guard() policy.Policy {
	return policy.Permissive().DenyWrite(c.globs...)
}

func (c ProtectedCriterion) parts() []Criterion {
	if c.inner == nil {
		return nil
	}
	return []Criterion{c.inner}
}

func (c ProtectedCriterion) prepare(ctx context.Context, env Env) (Criterion, error) {
	inner, err := c.inner.prepare(ctx, env)
	if err != nil {
		return nil, err
	}
	c.inner = inner
	if c.files != nil {
		return c, nil
	}
	files, err := c.scan(ctx, env.Root)
	if err != nil {
		return nil, fail(c.Phase(), "look at the protected files", err)
	}
	c.files = files
	return c, nil
}

func (c ProtectedCriterion) evaluate(ctx context.Context, env Env) (Verdict, error) {
	if c.files == nil {
		return Verdict{}, fail(c.Phase(), "look at the protected files", errors.New("the criterion was not prepared when the run began, so what they were is not known"))
	}
	v, bad, err := c.tampered(ctx, env.Root)
	if bad || err != nil {
		return v, err
	}
	judged, err := c.inner.evaluate(ctx, env)
	if err != nil || !judged.Passed {
		return judged, err
	}
	// Something that the run left running may have put its own files in place
	// between the look and the judgement.
	if v, bad, err = c.tampered(ctx, env.Root); bad || err != nil {
		return v, err
	}
	return judged, nil
}

// tampered compares the protected files with what they were.
func (c ProtectedCriterion) tampered(ctx context.Context, root string) (Verdict, bool, error) {
	now, err := c.scan(ctx, root)
	var limit *limitError
	switch {
	case errors.As(err, &limit): // it was not when the run began
		v := tamperedWith("files under protection were added during the run: " + limit.Error())
		return v, true, nil
	case errors.Is(err, fs.ErrPermission): // likewise
		v := tamperedWith("files under protection can no longer be read, as they could when the run began: " + err.Error())
		return v, true, nil
	case err != nil:
		return Verdict{}, false, fail(c.Phase(), "look at the protected files", err)
	}
	var reasons []string
	for _, path := range slices.Sorted(maps.Keys(c.files)) {
		state, ok := now[path]
		switch {
		case !ok:
			reasons = append(reasons, path+" was removed")
		case !sameState(c.files[path], state):
			reasons = append(reasons, path+" was changed")
		}
	}
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if _, ok := c.files[path]; !ok {
			reasons = append(reasons, path+" was added")
		}
	}
	if len(reasons) == 0 {
		return Verdict{}, false, nil
	}
	if n := len(reasons) - shownTampered; n > 0 {
		reasons = append(reasons[:shownTampered], fmt.Sprintf("and %d more", n))
	}
	return Verdict{
		Detail:    "protected files are not as they were when the run began: " + strings.Join(reasons, "; "),
		Reasons:   reasons,
		TellModel: true,
	}, true, nil
}

func tamperedWith(why string) Verdict {
	return Verdict{Detail: why, Reasons: []string{why}, TellModel: true}
}

// sameState reports whether a file is as it was. Older stores kept of a regular
// file the digest alone.
func sameState(was, now string) bool {
	return was == now || len(was) == hex.EncodedLen(sha256.Size) && strings.HasPrefix(now, was+" ")
}

// limitError says that the globs match more than can be looked at every time.
type limitError struct{ what string }

func (e *limitError) Error() string {
	return fmt.Sprintf("the globs match %s: name fewer files", e.what)
}

// scan is the state of every file that the globs match, by its path.
func (c ProtectedCriterion) scan(ctx context.Context, dir string) (map[string]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	guard := c.guard()
	files := map[string]string{}
	var total int64
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ended(ctx)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went while it was walked
		}
		if err != nil {
			return err
		}
		if d.IsDir() || guard.Check(policy.Need{Act: policy.Write, Target: path}).Effect != policy.Deny {
			return nil
		}
		if len(files) == MaxProtected {
			return &limitError{fmt.Sprintf("more than %d files", MaxProtected)}
		}
		state, size, err := stateOf(root, path, d, MaxProtectedBytes-total)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		total += size
		files[storable(path)] = state
		return nil
	})
	if err != nil {
		return nil, err
	}
	return files, nil
}

// stateOf names what is at path: the digest of a file of at most limit bytes and
// whether it can be executed, the target of a link, or the kind of anything else.
func stateOf(root *os.Root, path string, d fs.DirEntry, limit int64) (string, int64, error) {
	name := filepath.FromSlash(path)
	switch {
	case d.Type()&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		return "link " + storable(target), 0, err
	case !d.Type().IsRegular():
		return kindOf(d.Type()), 0, nil
	}
	f, info, err := openRegular(root, name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	size, mode := info.Size(), info.Mode()
	if size <= limit {
		size, err = io.Copy(h, io.LimitReader(f, limit+1)) // it may have grown
	}
	if size > limit {
		return "", 0, &limitError{fmt.Sprintf("more than %d bytes", int64(MaxProtectedBytes))}
	}
	state := hex.EncodeToString(h.Sum(nil)) + " data"
	if mode.Perm()&0o111 != 0 { // a runner may leave out what it cannot execute
		state = hex.EncodeToString(h.Sum(nil)) + " program"
	}
	return state, size, err
}
