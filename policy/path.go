package policy

import (
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func (p Policy) checkPath(n Need, on platform) Verdict {
	target := cleanPath(n.Target, on.windows)
	if target == ".." || strings.HasPrefix(target, "../") {
		return Verdict{Effect: Deny, Rule: OutsideRoot, Matched: true}
	}
	f := pathForms{target: target}
	if n.Resolved != "" {
		f.resolved = cleanPath(n.Resolved, on.windows)
	}
	if on.windows {
		f.bare = windowsNames(target)
	}
	if on.folds || n.FoldCase {
		f.folded, f.foldedResolved = foldPath(target), foldPath(f.resolved)
		f.foldedBare = foldPath(f.bare)
		f.fold = true
	}
	return p.decide(n.Act, func(r *rule, known bool) bool {
		if r.Effect == Allow {
			return match(r.toks, f.target, false)
		}
		return coversPath(r.toks, f.target, false, true) || known && f.knownTo(r)
	})
}

// pathForms are the spellings under which a deny or ask rule can meet a path.
type pathForms struct {
	target   string // relative, cleaned
	resolved string // canonical and absolute; empty if unknown
	bare     string // windows: names as the system strips them; empty if the same

	fold                               bool
	folded, foldedResolved, foldedBare string
}

// knownTo tests a deny or ask rule on all but the target itself.
func (f *pathForms) knownTo(r *rule) bool {
	if f.bare != "" && coversPath(r.toks, f.bare, false, true) ||
		f.resolved != "" && coversPath(r.toks, f.resolved, false, false) {
		return true
	}
	return f.fold && (coversPath(r.folded, f.folded, true, true) ||
		f.foldedBare != "" && coversPath(r.folded, f.foldedBare, true, true) ||
		f.foldedResolved != "" && coversPath(r.folded, f.foldedResolved, true, false))
}

// coversPath tests a path and every directory above it, each in full and, with
// bases, by its last part: who denies secrets, or .env that happens to be a
// directory, means what is in it. The base names of an absolute path are left out,
// because a directory above the workspace is nothing that a rule named.
func coversPath(toks []rune, s string, fold, bases bool) bool {
	if s == "" {
		return match(toks, s, fold)
	}
	part := 0 // where the last part of s[:i] begins
	for i := 1; i <= len(s); i++ {
		if i < len(s) && s[i] != '/' {
			continue
		}
		if match(toks, s[:i], fold) {
			return true
		}
		if bases {
			if s[part] == '/' {
				part++
			}
			if part > 0 && part < i && match(toks, s[part:i], fold) {
				return true
			}
		}
		part = i
	}
	return false
}

// cleanPath gives the one spelling of a path: no empty or "." part, ".." popped
// where it can be, "" for the root. It does not allocate if s has that form.
func cleanPath(s string, windows bool) string {
	if windows {
		s = windowsSlashes(s)
	}
	if s == "" {
		return ""
	}
	if s = path.Clean(s); s == "." {
		return ""
	}
	return s
}

// cleanPattern is cleanPath for the pattern of a deny or ask rule, which would
// otherwise silently match nothing: ./secrets/*, a//b, build/. The closing slash is
// dropped because such a rule covers what is below anyway. A pattern that comes to
// nothing (./ or /) means the whole tree.
func cleanPattern(s string, windows bool) string {
	if windows {
		s = windowsSlashes(s)
	}
	if s == "" {
		return ""
	}
	var parts []string
	for part := range strings.SplitSeq(s, "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "*"
	}
	out := strings.Join(parts, "/")
	if s[0] == '/' {
		out = "/" + out
	}
	return out
}

// windowsSlashes drops the long-path prefix and makes every separator "/".
func windowsSlashes(s string) string {
	if rest, ok := strings.CutPrefix(s, `\\?\UNC\`); ok {
		s = `\\` + rest
	} else {
		s = strings.TrimPrefix(s, `\\?\`)
	}
	return strings.ReplaceAll(s, `\`, "/")
}

// windowsNames spells each part of a path as Windows opens it: trailing dots and
// spaces gone, a stream suffix gone, the short name of .git written out. It returns
// "" if that changes nothing.
func windowsNames(s string) string {
	if !strings.ContainsAny(s, ". :~") {
		return ""
	}
	var out []byte
	changed := false
	for rest, first := s, true; ; first = false {
		part, after, more := strings.Cut(rest, "/")
		name := windowsName(part, first)
		changed = changed || name != part
		out = append(out, name...)
		if !more {
			break
		}
		out, rest = append(out, '/'), after
	}
	if !changed {
		return ""
	}
	return string(out)
}

func windowsName(part string, first bool) string {
	if drive := first && len(part) == 2 && part[1] == ':'; drive || part == "." || part == ".." {
		return part
	}
	name, _, _ := strings.Cut(part, ":")
	name = strings.TrimRight(name, ". ")
	if strings.EqualFold(name, "git~1") {
		return ".git"
	}
	return name
}

// foldPath prepares a path for comparison on a file system that folds names: it is
// composed, and the characters that such systems skip are removed. Case is folded
// while matching. Plain ASCII is returned as it is.
func foldPath(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] < utf8.RuneSelf {
			continue
		}
		if strings.IndexFunc(s, ignoredInNames) >= 0 {
			s = strings.Map(func(r rune) rune {
				if ignoredInNames(r) {
					return -1
				}
				return r
			}, s)
		}
		return norm.NFC.String(s)
	}
	return s
}

// ignoredInNames reports the characters that HFS+ skips when it compares names,
// the way to a .git that does not look like one.
func ignoredInNames(r rune) bool {
	switch {
	case r >= 0x200C && r <= 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x206A && r <= 0x206F, r == 0xFEFF:
		return true
	}
	return false
}
