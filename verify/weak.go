package verify

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Weak lists the files of the workspace that c's commands name and that nothing
// holds as they were: an argument that is an existing file below root, relative to
// it and with "/", is neither the pinned program nor matched by a [Protect] around
// the command. A run that may write one of them can decide its own verdict. c must
// have been prepared.
func Weak(c Criterion, root string) []string {
	var weak []string
	for _, path := range named(c, root) {
		if !slices.Contains(weak, path) {
			weak = append(weak, path)
		}
	}
	return weak
}

func named(c Criterion, root string) (paths []string) {
	switch c := c.(type) {
	case CommandCriterion:
		for i, arg := range c.argv {
			pinned := i == 0 && c.pin != nil && !c.pin.Loose
			if path, ok := fileBelow(root, arg, i == 0); ok && !pinned {
				paths = append(paths, path)
			}
		}
	case ProtectedCriterion:
		for _, path := range named(c.inner, root) {
			if _, ok := c.files[storable(path)]; !ok {
				paths = append(paths, path)
			}
		}
	case AllCriterion:
		for _, part := range c.each {
			paths = append(paths, named(part, root)...)
		}
	}
	return paths
}

// fileBelow is the path of the regular file that arg names below root. A program
// without a separator is looked up elsewhere.
func fileBelow(root, arg string, program bool) (string, bool) {
	if arg == "" || program && !strings.ContainsAny(arg, `/\`) {
		return "", false
	}
	path := filepath.FromSlash(arg)
	if !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	rel, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	info, err := os.Stat(path)
	return filepath.ToSlash(rel), err == nil && info.Mode().IsRegular()
}
