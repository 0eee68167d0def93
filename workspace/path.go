package workspace

import (
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// Lengths that every supported system takes: PATH_MAX on Linux, and the name
// length of ext4, APFS and NTFS. Beyond them the refusal is ours, so that it
// reads the same everywhere and comes before anybody is asked.
const (
	maxPath = 4095
	maxName = 255
)

// Resolve returns the one spelling of rel: relative, "/"-separated, without
// empty parts, "." and "..", and "" for the root. It does not look at the disk.
// The error is a *PathError: it matches ErrEscape for an absolute path and for
// one that climbs above the root at any point.
func (w *Workspace) Resolve(rel string) (string, error) {
	clean, err := cleanPath(rel, runtime.GOOS == "windows")
	if err != nil && err.Escapes {
		if inside, ok := w.dir.relative(rel); ok {
			if inside == "" {
				inside = "."
			}
			return "", &PathError{Path: rel, Reason: fmt.Sprintf("paths are relative to the workspace root: write %s", quote(inside))}
		}
	}
	if err != nil {
		return "", err
	}
	return clean, nil
}

// relative gives an absolute path inside the root its relative spelling.
func (d *directory) relative(abs string) (string, bool) {
	if strings.IndexByte(abs, 0) >= 0 || !filepath.IsAbs(abs) {
		return "", false
	}
	for _, root := range []string{d.path, d.given} {
		if rel, err := filepath.Rel(root, abs); err == nil && filepath.IsLocal(rel) {
			if rel = filepath.ToSlash(rel); rel == "." {
				rel = ""
			}
			return rel, true
		}
	}
	return "", false
}

// cleanPath is the lexical rule for paths. It takes the platform as an argument
// so that each platform's rule is tested on all of them.
func cleanPath(p string, windows bool) (string, *PathError) {
	bad := func(reason string) (string, *PathError) { return "", &PathError{Path: p, Reason: reason} }
	escape := func(reason string) (string, *PathError) {
		return "", &PathError{Path: p, Reason: reason, Escapes: true}
	}
	if strings.IndexByte(p, 0) >= 0 {
		return bad("it holds a NUL byte")
	}
	if len(p) > maxPath {
		return bad(fmt.Sprintf("it has %d bytes and at most %d are possible", len(p), maxPath))
	}
	s := p
	if windows {
		s = strings.ReplaceAll(s, `\`, "/")
		if len(s) >= 2 && s[1] == ':' && isLetter(s[0]) {
			return escape("it begins with a drive: paths are relative to the workspace root")
		}
	}
	if strings.HasPrefix(s, "/") {
		return escape("it is absolute: paths are relative to the workspace root")
	}
	depth := 0
	for part := range strings.SplitSeq(s, "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			if depth--; depth < 0 {
				return escape("it climbs above the workspace root")
			}
			continue
		}
		depth++
		if len(part) > maxName {
			return bad(fmt.Sprintf("a part of it has %d bytes and at most %d are possible", len(part), maxName))
		}
		if windows {
			if reason := windowsPart(part); reason != "" {
				return bad(reason)
			}
		}
	}
	if s = path.Clean(s); s == "." {
		s = ""
	}
	return s, nil
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

// windowsPart says what is wrong with one part of a path on Windows: names that
// open something else than they spell.
func windowsPart(part string) string {
	if strings.Contains(part, ":") {
		return "it names an alternate data stream"
	}
	if last := part[len(part)-1]; last == '.' || last == ' ' {
		return "a part of it ends in a dot or a space, which Windows drops"
	}
	if i := strings.IndexAny(part, "<>\"|?*"); i >= 0 {
		return fmt.Sprintf("it holds %q, which Windows names cannot", part[i])
	}
	stem, _, _ := strings.Cut(part, ".")
	stem = strings.ToUpper(strings.TrimRight(stem, " "))
	switch stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return "it names a device"
	}
	if n := strings.TrimPrefix(strings.TrimPrefix(stem, "COM"), "LPT"); len(stem) > 3 && n != stem {
		switch n {
		case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
			return "it names a device"
		}
	}
	return ""
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

func split(p string) (dir, name string) {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i], p[i+1:]
	}
	return "", p
}
