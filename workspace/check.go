package workspace

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/initorigin/io-harness-go/policy"
)

// GitFile is the rule that refuses to write a file called .git: it would turn a
// directory into a repository of somebody's choosing. No policy can lift it. To
// CheckPath the path .git itself stands for the repository of the root, which
// git's tools change, and only the policy decides about it.
const GitFile = "<.git is not a file to write>"

// CheckPath says what the policy says of act on the path rel: the strictest
// verdict over its spelling, over what it resolves to, and over every link on
// the way there. A path that leaves the root is denied as policy.OutsideRoot,
// and so is one that [Workspace.Resolve] does not take.
//
// The spelling is decided before anything is looked at on disk, so the verdict
// on a denied path never tells whether it exists.
func (w *Workspace) CheckPath(act policy.Act, rel string) policy.Verdict {
	_, v, _ := w.check(act, rel)
	return v
}

// Canonical returns what rel resolves to inside the root, links followed, also
// when nothing is there yet: the name under which writes are recorded.
func (w *Workspace) Canonical(rel string) (string, error) {
	clean, err := w.Resolve(rel)
	if err != nil {
		return "", err
	}
	real, _, err := w.dir.follow(clean)
	return real, err
}

// check is CheckPath, and gives the canonical path beside the verdict. The
// error says why there is none; it is nil if the verdict is not deny.
func (w *Workspace) check(act policy.Act, rel string) (real string, v policy.Verdict, err error) {
	outside := policy.Verdict{Effect: policy.Deny, Rule: policy.OutsideRoot, Matched: true}
	clean, err := w.Resolve(rel)
	if err != nil {
		return "", outside, err
	}
	v = w.decide(act, clean)
	if v.Effect != policy.Deny && act == policy.Write && clean != ".git" && w.isGit(clean) {
		v = policy.Verdict{Effect: policy.Deny, Rule: GitFile, Matched: true}
	}
	if v.Effect == policy.Deny {
		return "", v, nil
	}
	real, via, err := w.dir.follow(clean)
	if errors.Is(err, ErrEscape) {
		return "", outside, err
	}
	for _, p := range via {
		v = stricter(v, w.decide(act, p))
	}
	if err != nil {
		return "", v, err
	}
	if real != clean {
		v = stricter(v, w.decide(act, real))
		if act == policy.Write && w.isGit(real) {
			v = stricter(v, policy.Verdict{Effect: policy.Deny, Rule: GitFile, Matched: true})
		}
	}
	return real, v, nil
}

// isGit reports whether the last part of a path is git's own name.
func (w *Workspace) isGit(p string) bool {
	_, name := split(p)
	return name == ".git" || w.dir.folds && strings.EqualFold(name, ".git")
}

// decide asks the policy about one spelling.
func (w *Workspace) decide(act policy.Act, clean string) policy.Verdict {
	return w.policy.Check(policy.Need{
		Act:      act,
		Target:   clean,
		Resolved: filepath.Join(w.dir.path, filepath.FromSlash(clean)),
		FoldCase: w.dir.folds,
	})
}

func stricter(a, b policy.Verdict) policy.Verdict {
	if rank(b.Effect) > rank(a.Effect) {
		return b
	}
	return a
}

func rank(e policy.Effect) int {
	switch e {
	case policy.Allow:
		return 0
	case policy.Ask:
		return 1
	}
	return 2
}

// enter is how every method that acts on a named path begins: it returns the
// canonical path, or the refusal.
func (w *Workspace) enter(act policy.Act, rel string) (string, error) {
	if w.dir.isClosed() {
		return "", ErrClosed
	}
	real, v, err := w.check(act, rel)
	switch {
	case errors.Is(err, ErrEscape):
		return "", refused(act, rel, v)
	case v.Effect == policy.Deny && err == nil:
		return "", refused(act, rel, v)
	case err != nil:
		return "", err
	}
	return real, nil
}

// enterWrite is enter for the methods that replace or remove a file.
func (w *Workspace) enterWrite(rel string) (string, error) {
	real, err := w.enter(policy.Write, rel)
	if err != nil {
		return "", err
	}
	if real == "" {
		return "", &PathError{Path: rel, Reason: "it is the workspace root, not a file"}
	}
	if w.isGit(real) || w.isGit(strings.TrimRight(filepath.ToSlash(rel), "/")) {
		return "", refused(policy.Write, rel, policy.Verdict{Effect: policy.Deny, Rule: GitFile, Matched: true})
	}
	return real, nil
}

// follow resolves the links of a clean path, component by component and without
// leaving the root, and returns where it ends. A part that does not exist ends
// the walk: what comes after it is taken as it is spelt. via holds the path as
// it stood after each link was replaced by its target.
//
// It decides nothing about opening: the answer may be out of date at once, and
// files are opened by it without following links.
func (d *directory) follow(clean string) (real string, via []string, err error) {
	const maxLinks = 40 // as on Linux
	links := 0
	done := "" // resolved, without links
	rest := splitAll(clean)
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == ".." {
			if done == "" {
				// A link that climbs above the root may come back into it by the
				// root's own name, which is free of links above.
				back, ok := d.relative(filepath.Join(d.path, "..", filepath.FromSlash(strings.Join(rest, "/"))))
				if !ok {
					return "", via, &PathError{Path: clean, Reason: "a link on it leads out of the workspace root", Escapes: true}
				}
				rest = splitAll(back)
				continue
			}
			done, _ = split(done)
			continue
		}
		next := join(done, part)
		info, err := d.root.Lstat(filepath.FromSlash(next))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
				return tail(next, rest), via, nil
			}
			return "", via, failure("resolve", clean, err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", via, &PathError{Path: clean, Reason: "it goes through more than 40 links, or through a loop of them"}
		}
		target, err := d.root.Readlink(filepath.FromSlash(next))
		if err != nil {
			return "", via, &movedError{path: clean}
		}
		if filepath.IsAbs(target) || strings.HasPrefix(target, "/") {
			inside, ok := d.relative(target)
			if !ok {
				return "", via, &PathError{Path: clean, Reason: "a link on it leads out of the workspace root", Escapes: true}
			}
			done, rest = "", append(splitAll(inside), rest...)
		} else {
			rest = append(splitAll(filepath.ToSlash(target)), rest...)
		}
		if mid, bad := cleanPath(strings.Join(append(splitAll(done), rest...), "/"), false); bad == nil {
			via = append(via, mid)
		}
	}
	real, err = d.longNames(done)
	return real, via, err
}

// tail appends to a path that does not exist what is left to resolve. A ".."
// after a missing part is popped as it is spelt.
func tail(next string, rest []string) string {
	parts := splitAll(next)
	for _, p := range rest {
		if p == ".." {
			if len(parts) > 0 {
				parts = parts[:len(parts)-1]
			}
			continue
		}
		parts = append(parts, p)
	}
	return strings.Join(parts, "/")
}

func splitAll(p string) []string {
	var parts []string
	for part := range strings.SplitSeq(p, "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	return parts
}
